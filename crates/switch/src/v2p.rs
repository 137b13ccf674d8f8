//! Runs the V2P protocol on real packets, before the rules see them.
//!
//! ```text
//!   port --burst--> Node --burst--> caches and rules --> ports
//!                    |   Geneve of ours: read, handled, written anew where it was changed
//!                    |   the rest: untouched
//!                    '-- packets of its own join the burst, as from the port LOCAL
//! ```
//!
//! A switch takes part in the fabric in one role ([`V2pRole`]): as a switch with a cache, as a
//! gateway, or as the virtual switch of a host. Rules still route: they match outer
//! destinations (`ip,nw_dst=10.1.0.0/16 actions=dec_ttl,output:3`), and so see where a hit has
//! sent a packet. The protocol itself is in `thalweg-v2p`; this module handles frames, ports
//! and the machines of a host.
//!
//! 1. A packet that is no whole Geneve packet with our addresses inside is not touched. One
//!    that pretends to be, with a malformed option or a wrong checksum, is dropped and
//!    counted.
//! 2. All workers share one node, under a lock that is taken once per burst: a switch has one
//!    cache.
//! 3. The node's own packets come from the port LOCAL. [`mac_of`] gives their Ethernet source
//!    and destination, which rules may rewrite where that matters.
//! 4. A new map replaces the old one as a whole, and only if its version is not lower.
//!
//! Reference: Zeno, Chen, Silberstein, *In-Network Address Caching for Virtual Networks*,
//! SIGCOMM 2024; `docs/v2p-wire-format.md`.

mod host;
mod map;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError};

use thalweg_packet::wire::{EtherType, EthernetRepr, EthernetView, MacAddress};
use thalweg_packet::{Instant, Packet, PacketPool, PortId};
use thalweg_pipeline::Outbox;
use thalweg_pipeline::text::LOCAL_PORT;
use thalweg_v2p::wire::{Datagram, DatagramError, EmitError};
use thalweg_v2p::{
    Address, AgentConfig, Database, GatewayAgent, GatewayVerdict, INITIAL_TTL, Ingress, Profile,
    Role, SwitchAgent, SwitchId, Verdict,
};

pub use self::map::{Machine, V2pMap};

use self::host::Host;
use crate::sync::{Mutex, MutexGuard};

/// Most bytes of any packet of ours: a frame with the longest IP packet.
const SCRATCH_BYTES: usize = EthernetView::HEADER_LEN + 65_535;

/// The role of a switch in its fabric.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum V2pRole {
    /// A switch with a cache.
    Switch(Role),
    /// A gateway, which knows all mappings.
    Gateway,
    /// The virtual switch of a host, with machines at its ports.
    Host,
}

/// How a switch takes part in the protocol.
#[derive(Clone, Debug)]
pub struct V2pConfig {
    /// Its role.
    pub role: V2pRole,
    /// Its own physical address; the map must contain it among those of its kind.
    pub address: Address,
    /// The version of the protocol that the fabric runs.
    pub profile: Profile,
    /// Mappings in the cache, for a switch.
    pub cache_entries: u32,
    /// Probability, 0 to 1, that a gateway ToR sends a learning packet.
    pub learning_probability: f64,
    /// Ports with a host or a gateway at the other end, and its physical address.
    pub attached: BTreeMap<PortId, Address>,
    /// The control plane's map of the fabric.
    pub map: Arc<V2pMap>,
    /// Seed of the random numbers.
    pub seed: u64,
}

/// Why the switch cannot take its configured part.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum V2pError {
    /// The map does not contain the switch.
    #[error("the map has no {kind} {address}; add it, or mend the address")]
    NotInMap {
        /// The role of the switch.
        kind: &'static str,
        /// Its address.
        address: Address,
    },
    /// A map that is older than the one in use.
    #[error("the map has version {found}, less than {known} in use; count up with each change")]
    OlderMap {
        /// The version in use.
        known: u64,
        /// The version of the map.
        found: u64,
    },
    /// Not a probability.
    #[error("a learning probability of {0} is not between 0 and 1")]
    BadProbability(String),
}

/// Counters of a node, by name; zeros are left out.
pub type V2pCounters = BTreeMap<&'static str, u64>;

/// The Ethernet address for a physical address in frames that nodes make: locally
/// administered, with the last four bytes of the address.
pub fn mac_of(address: Address) -> MacAddress {
    let [a, b, c, d] = (address.to_bits() as u32).to_be_bytes();
    MacAddress([0x02, 0x00, a, b, c, d])
}

/// The protocol's state in one switch.
pub(crate) struct Node {
    address: Address,
    agent: Agent,
    map: Arc<V2pMap>,
    random: Random,
    incoming: Vec<Packet>,
    writer: Writer,
}

enum Agent {
    Switch {
        agent: Box<SwitchAgent>,
        attached: HashMap<PortId, Ingress>,
        addresses: BTreeMap<PortId, Address>,
    },
    Gateway {
        agent: GatewayAgent,
        database: Database,
    },
    Host(Box<Host>),
}

/// What happens to a packet.
enum Fate {
    /// It goes on to the rules.
    Pass,
    /// The same, but rewritten: it comes from this switch.
    PassAsOurs,
    /// It goes to this port, without the rules.
    Deliver(PortId),
    /// It ends here, and is already counted.
    End,
}

/// Writes packets, and counts those it could not write.
pub(crate) struct Writer {
    scratch: Vec<u8>,
    counters: NodeCounters,
}

#[derive(Default)]
struct NodeCounters {
    malformed: u64,
    unwritable: u64,
    pool_empty: u64,
}

impl Node {
    pub(crate) fn new(config: &V2pConfig) -> Result<Node, V2pError> {
        if !(0.0..=1.0).contains(&config.learning_probability) {
            return Err(V2pError::BadProbability(
                config.learning_probability.to_string(),
            ));
        }
        let (address, map) = (config.address, &config.map);
        map.must_have(config.role, address)?;
        let agent = match config.role {
            V2pRole::Switch(role) => {
                let id = map.switch_id(address).unwrap_or(SwitchId(0));
                let settings = AgentConfig {
                    pod: map.pod_of(id),
                    learning_probability: config.learning_probability,
                    ..AgentConfig::new(id, address, role, config.profile, config.cache_entries)
                };
                Agent::Switch {
                    agent: Box::new(SwitchAgent::new(&settings, Arc::new(map.directory()))),
                    attached: ingresses(&config.attached, map),
                    addresses: config.attached.clone(),
                }
            }
            V2pRole::Gateway => Agent::Gateway {
                agent: GatewayAgent::new(config.profile),
                database: map.database(),
            },
            V2pRole::Host => Agent::Host(Box::new(Host::new(address, config.profile, map))),
        };
        Ok(Node {
            address,
            agent,
            map: map.clone(),
            random: Random(config.seed),
            incoming: Vec::new(),
            writer: Writer {
                scratch: vec![0; SCRATCH_BYTES],
                counters: NodeCounters::default(),
            },
        })
    }

    /// Handles a burst: the packets left in it, and those added to it, are for the rules.
    pub(crate) fn process(&mut self, burst: &mut Vec<Packet>, outbox: &mut Outbox, now: Instant) {
        std::mem::swap(burst, &mut self.incoming);
        let mut incoming = std::mem::take(&mut self.incoming);
        for mut packet in incoming.drain(..) {
            let fate = self.handle(&mut packet, now);
            // Invalidations go before the packet that was misdelivered, as in the simulator.
            if let Agent::Switch { agent, .. } = &mut self.agent {
                while let Some(control) = agent.poll_transmit() {
                    self.writer.send(control, &mut outbox.pool, burst, now);
                }
            }
            match fate {
                Fate::Pass => burst.push(packet),
                Fate::PassAsOurs => {
                    packet.set_received(LOCAL_PORT, now);
                    burst.push(packet);
                }
                Fate::Deliver(port) => outbox.sent.push((port, packet)),
                Fate::End => outbox.pool.put(packet),
            }
        }
        self.incoming = incoming;
    }

    fn handle(&mut self, packet: &mut Packet, now: Instant) -> Fate {
        let in_port = packet.in_port();
        if let Agent::Host(host) = &mut self.agent
            && host.has_machine_at(in_port)
        {
            return host.handle_from_machine(packet, &mut self.writer);
        }
        let bytes = packet.bytes();
        let Ok(frame) = EthernetView::new_checked(bytes) else {
            return Fate::Pass;
        };
        if !matches!(frame.ether_type(), EtherType::IPV4 | EtherType::IPV6) {
            return Fate::Pass;
        }
        let mut datagram = match Datagram::parse(frame.payload()) {
            Ok(datagram) => datagram,
            Err(error) if is_not_ours(error) => return Fate::Pass,
            Err(_) => {
                self.writer.counters.malformed += 1;
                return Fate::End;
            }
        };
        let before = datagram.packet;
        let is_for_us = before.outer_destination == self.address;
        match &mut self.agent {
            Agent::Switch {
                agent, attached, ..
            } => {
                let from = attached.get(&in_port).copied().unwrap_or(Ingress::Fabric);
                let random = || self.random.next();
                match agent.handle_packet(&mut datagram.packet, from, now, random) {
                    Verdict::Forward if datagram.packet == before => return Fate::Pass,
                    Verdict::Forward => {}
                    Verdict::Consumed | Verdict::Drop(_) => return Fate::End,
                }
                let ethernet = EthernetRepr {
                    destination: frame.destination(),
                    source: frame.source(),
                    ether_type: frame.ether_type(),
                };
                match self.writer.write(&datagram, ethernet) {
                    Some(len) => packet.fill(&self.writer.scratch[..len]),
                    None => return Fate::End,
                }
                Fate::Pass
            }
            Agent::Gateway { agent, database } if is_for_us => {
                let verdict = agent.handle_packet(database, &mut datagram.packet);
                if verdict != GatewayVerdict::Forward {
                    return Fate::End;
                }
                datagram.packet.ttl = INITIAL_TTL;
                self.writer.rewrite(&datagram, self.address).fill(packet)
            }
            Agent::Host(host) if is_for_us => {
                let written = host.handle_from_fabric(&mut datagram, &mut self.writer);
                written.fill(packet)
            }
            Agent::Gateway { .. } | Agent::Host(_) => Fate::Pass,
        }
    }

    /// Replaces the map.
    pub(crate) fn set_map(&mut self, map: Arc<V2pMap>) -> Result<(), V2pError> {
        if map.version < self.map.version {
            return Err(V2pError::OlderMap {
                known: self.map.version.0,
                found: map.version.0,
            });
        }
        map.must_have(self.role(), self.address)?;
        match &mut self.agent {
            Agent::Switch {
                agent,
                attached,
                addresses,
            } => {
                *attached = ingresses(addresses, &map);
                agent.set_directory(Arc::new(map.directory()));
            }
            Agent::Gateway { database, .. } => *database = map.database(),
            Agent::Host(host) => host.set_map(&map),
        }
        self.map = map;
        Ok(())
    }

    fn role(&self) -> V2pRole {
        match &self.agent {
            Agent::Switch { agent, .. } => V2pRole::Switch(agent.role()),
            Agent::Gateway { .. } => V2pRole::Gateway,
            Agent::Host(_) => V2pRole::Host,
        }
    }

    /// Counters since the start.
    pub(crate) fn counters(&self) -> V2pCounters {
        match &self.agent {
            Agent::Switch { agent, .. } => {
                let entries = agent.cache().entries().count() as u64;
                let counted = agent.counters().each().into_iter();
                nonzero(counted.chain([("entries", entries)]))
            }
            Agent::Gateway { agent, .. } => nonzero([("resolved", agent.counters().resolved)]),
            Agent::Host(host) => nonzero(host.counters()),
        }
    }

    /// Packets that ended here, by reason.
    pub(crate) fn drops(&self) -> V2pCounters {
        let own = &self.writer.counters;
        let mut drops = vec![
            ("v2p_malformed", own.malformed),
            ("v2p_unwritable", own.unwritable),
            ("v2p_pool_empty", own.pool_empty),
        ];
        match &self.agent {
            Agent::Switch { agent, .. } => {
                let counters = agent.counters();
                drops.push(("v2p_forged_control", counters.forged_control));
                drops.push(("v2p_spoofed_source", counters.spoofed_sources));
            }
            Agent::Gateway { agent, .. } => {
                let counters = agent.counters();
                let unknown = counters.unknown_destination;
                drops.push(("v2p_unknown_destination", unknown));
                drops.push(("v2p_unexpected_control", counters.unexpected_control));
            }
            Agent::Host(host) => drops.extend(host.drops()),
        }
        nonzero(drops)
    }
}

/// Locks the node for one burst, or for the control side.
pub(crate) fn lock(node: &Mutex<Node>) -> MutexGuard<'_, Node> {
    node.lock().unwrap_or_else(PoisonError::into_inner)
}

fn nonzero(counts: impl IntoIterator<Item = (&'static str, u64)>) -> V2pCounters {
    let counts = counts.into_iter();
    counts.filter(|(_, count)| *count > 0).collect()
}

/// Whether an unreadable packet does not belong to the protocol (invariant 1).
fn is_not_ours(error: DatagramError) -> bool {
    matches!(
        error,
        DatagramError::NotGeneve | DatagramError::NoInnerAddresses
    )
}

fn ingresses(attached: &BTreeMap<PortId, Address>, map: &V2pMap) -> HashMap<PortId, Ingress> {
    let of = |address: Address| match map.is_gateway(address) {
        true => Ingress::Gateway,
        false => Ingress::Host(address),
    };
    let ports = attached.iter();
    ports.map(|(port, address)| (*port, of(*address))).collect()
}

/// Bytes in the scratch buffer, to be copied into a packet.
struct Written<'a> {
    bytes: Option<&'a [u8]>,
    fate: Fate,
}

impl Written<'_> {
    /// Fills the packet; one that could not be written ends here, and the writer has counted
    /// it.
    fn fill(self, packet: &mut Packet) -> Fate {
        match self.bytes {
            Some(bytes) => {
                packet.fill(bytes);
                self.fate
            }
            None => Fate::End,
        }
    }
}

impl Writer {
    /// Writes a packet of this switch, to its outer destination.
    fn rewrite(&mut self, datagram: &Datagram<'_>, source: Address) -> Written<'_> {
        let destination = datagram.packet.outer_destination;
        let len = self.write(datagram, ethernet(source, destination));
        Written {
            bytes: len.map(|len| &self.scratch[..len]),
            fate: Fate::PassAsOurs,
        }
    }

    /// Writes a frame into the scratch buffer; returns its length, or counts the failure.
    fn write(&mut self, datagram: &Datagram<'_>, mut ethernet: EthernetRepr) -> Option<usize> {
        ethernet.ether_type = match datagram.packet.outer_source.is_ipv4() {
            true => EtherType::IPV4,
            false => EtherType::IPV6,
        };
        let (header, rest) = self.scratch.split_at_mut(EthernetView::HEADER_LEN);
        ethernet.emit(header);
        let written: Result<usize, EmitError> = datagram.emit(rest);
        match written {
            Ok(len) => Some(EthernetView::HEADER_LEN + len),
            Err(_) => {
                self.counters.unwritable += 1;
                None
            }
        }
    }

    /// Adds a control packet to a burst.
    fn send(
        &mut self,
        control: thalweg_v2p::Packet,
        pool: &mut PacketPool,
        burst: &mut Vec<Packet>,
        now: Instant,
    ) {
        let Some(mut packet) = pool.take() else {
            self.counters.pool_empty += 1;
            return;
        };
        let datagram = Datagram::control(control);
        match self
            .rewrite(&datagram, control.outer_source)
            .fill(&mut packet)
        {
            Fate::End => pool.put(packet),
            _ => {
                packet.set_received(LOCAL_PORT, now);
                burst.push(packet);
            }
        }
    }
}

fn ethernet(source: Address, destination: Address) -> EthernetRepr {
    EthernetRepr {
        destination: mac_of(destination),
        source: mac_of(source),
        ether_type: EtherType::IPV4,
    }
}

/// Random numbers by splitmix64 (Steele, Lea, Flood, *Fast splittable pseudorandom number
/// generators*, OOPSLA 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((word ^ (word >> 31)) >> 32) as u32
    }
}
