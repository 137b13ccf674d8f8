//! The hosts' memory: OnDemand, and gateways that hand busy mappings to hosts.
//!
//! A host that knows a machine's place sends there; otherwise it sends by the gateway.
//!
//! | | a host knows | cost |
//! | --- | --- | --- |
//! | [`OnDemand::Artifact`] | every machine that sent it a packet, and the destinations of packets that reached it; machines that will move, from the start | 40 µs, once, for the first packet that it sends directly |
//! | [`OnDemand::Paper`] | a machine once a threshold of its packets went by a gateway | the gateway's 40 µs until then |
//!
//! The first is the published code's. It has one truth for all hosts and gateways, which
//! follows a move 1,000 µs later. The second is section 5's ("all the translations are cached
//! at the host after the first miss"). Its parameter is the threshold of section 1's Andromeda
//! and section 5's Zeta ("the threshold to offload the rule"). A host gets a mapping when the
//! gateway forwards the packet, keeps it unchanged, and learns of a move 1,000 µs later ("the
//! rule installment takes in the order of milliseconds").

use std::collections::HashMap;

use thalweg_v2p::{Address, Key};

use crate::Time;

/// The rule by which hosts learn mappings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnDemand {
    /// The published code's rule.
    Artifact,
    /// The text's rule.
    Paper {
        /// Packets of a host for a machine that go by a gateway before the host gets its
        /// mapping; 1 in section 5.
        threshold_packets: u32,
    },
}

/// The time until hosts learn of a move.
pub(crate) const HOST_UPDATE: Time = Time::from_micros(1_000);

/// The cost of a host's first packet in `artifact`.
const FIRST_PACKET: Time = Time::from_micros(40);

/// The mappings that hosts remember, and the gateways' counts for them.
#[derive(Clone, Debug, Default)]
pub(crate) struct HostMemory {
    threshold_packets: Option<u32>,
    /// By host and machine; the place is meaningful in `paper` only.
    known: HashMap<(u32, Key), Address>,
    counts: HashMap<(u32, Key), u32>,
    /// By host, whether it has paid for the first packet.
    has_paid: Vec<bool>,
    /// Machines that every host knows.
    everywhere: Vec<Key>,
}

/// A host's knowledge of a machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Known {
    /// Nothing: send to the gateway.
    Nothing,
    /// The place according to the shared truth, after a delay.
    Shared(Time),
    /// The remembered place.
    At(Address),
}

impl HostMemory {
    /// Creates hosts that know only the machines `movers`.
    pub(crate) fn new(kind: OnDemand, host_count: usize, movers: Vec<Key>) -> HostMemory {
        let threshold_packets = match kind {
            OnDemand::Artifact => None,
            OnDemand::Paper { threshold_packets } => Some(threshold_packets),
        };
        HostMemory {
            threshold_packets,
            has_paid: vec![false; host_count],
            everywhere: if threshold_packets.is_none() {
                movers
            } else {
                Vec::new()
            },
            ..HostMemory::default()
        }
    }

    /// The knowledge of a host that is about to send.
    pub(crate) fn ask(&mut self, host: u32, key: Key) -> Known {
        let known = self.known.get(&(host, key));
        if self.threshold_packets.is_some() {
            return known.map_or(Known::Nothing, |place| Known::At(*place));
        }
        if known.is_none() && !self.everywhere.contains(&key) {
            return Known::Nothing;
        }
        let has_paid = std::mem::replace(&mut self.has_paid[host as usize], true);
        Known::Shared(if has_paid { Time::ZERO } else { FIRST_PACKET })
    }

    /// Notes that a packet reached a host, whether or not it is the right one.
    pub(crate) fn receive(&mut self, host: u32, here: Address, source: Key, destination: Key) {
        if self.threshold_packets.is_none() {
            self.known.insert((host, source), here);
            self.known.insert((host, destination), here);
        }
    }

    /// Notes that a gateway forwards a host's packet to the machine's place.
    pub(crate) fn resolve(&mut self, host: u32, key: Key, place: Address) {
        let Some(threshold) = self.threshold_packets else {
            return;
        };
        let count = self.counts.entry((host, key)).or_default();
        *count += 1;
        if *count >= threshold {
            self.known.insert((host, key), place);
        }
    }

    /// Tells hosts that know a machine its new place.
    pub(crate) fn update(&mut self, key: Key, place: Address) {
        for ((_, known), at) in &mut self.known {
            if *known == key {
                *at = place;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use thalweg_v2p::Vni;

    use super::*;

    fn key(number: u32) -> Key {
        Key {
            vni: Vni::default(),
            address: address(number),
        }
    }

    fn address(number: u32) -> Address {
        Address::from_ipv4(number.into())
    }

    #[test]
    fn a_host_of_the_published_code_pays_once() {
        let mut memory = HostMemory::new(OnDemand::Artifact, 2, vec![key(9)]);
        assert_eq!(memory.ask(0, key(1)), Known::Nothing);
        memory.receive(0, address(70), key(1), key(2));
        let (first, then) = (Time::from_micros(40), Time::ZERO);
        assert_eq!(memory.ask(0, key(1)), Known::Shared(first));
        assert_eq!(memory.ask(0, key(1)), Known::Shared(then));
        assert_eq!(memory.ask(0, key(2)), Known::Shared(then));
        assert_eq!(memory.ask(1, key(1)), Known::Nothing);
        assert_eq!(memory.ask(1, key(9)), Known::Shared(first));
        // Gateways hand out no mappings.
        memory.resolve(1, key(4), address(71));
        assert_eq!(memory.ask(1, key(4)), Known::Nothing);
    }

    #[test]
    fn a_host_of_the_paper_learns_from_gateways_and_is_told_of_moves() {
        let kind = OnDemand::Paper {
            threshold_packets: 2,
        };
        let mut memory = HostMemory::new(kind, 2, vec![key(9)]);
        assert_eq!(memory.ask(0, key(9)), Known::Nothing);
        memory.receive(0, address(70), key(1), key(2));
        assert_eq!(memory.ask(0, key(1)), Known::Nothing);
        memory.resolve(0, key(3), address(71));
        assert_eq!(memory.ask(0, key(3)), Known::Nothing);
        memory.resolve(0, key(3), address(71));
        assert_eq!(memory.ask(0, key(3)), Known::At(address(71)));
        assert_eq!(memory.ask(1, key(3)), Known::Nothing);
        memory.update(key(3), address(72));
        assert_eq!(memory.ask(0, key(3)), Known::At(address(72)));
    }
}
