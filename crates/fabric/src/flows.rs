//! The packets to send, and the record of each flow.
//!
//! The lines of a trace are sorted by time; lines of equal time keep their order. Machines and
//! flows are numbered from 0 in order of appearance, so that a packet names them by index.
//! Each tenant has all machines of the placement; the first tenant's come first
//! ([`crate::Tenant`]).

use std::collections::HashMap;

use thalweg_v2p::{Address, Key, MapVersion, Vni};

use crate::config::{Config, ConfigError, Payload, Transport};
use crate::id::NodeId;
use crate::report::Report;
use crate::tenants::{TrafficShares, vni_of};
use crate::topology::{NodeKind, Topology};
use crate::{Time, TraceLine};

const MAX_DATAGRAM: u64 = 65_507;

/// A machine: its virtual address and its location.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Machine {
    pub(crate) address: Address,
    /// Its place according to the database, cached to avoid a lookup by address.
    pub(crate) place: Address,
    /// The version at which it arrived at its node.
    pub(crate) version: MapVersion,
    pub(crate) node: NodeId,
    /// Its tenant.
    pub(crate) vni: Vni,
}

impl Machine {
    #[inline]
    pub(crate) fn key(&self) -> Key {
        Key {
            vni: self.vni,
            address: self.address,
        }
    }
}

/// All machines by index, and their indices by number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Machines {
    pub(crate) all: Vec<Machine>,
    indices: HashMap<u32, u32>,
}

impl Machines {
    /// Gives machines their virtual addresses: machines and gateways are counted in the order
    /// of endpoints, and the count is the address (as in the published code).
    pub(crate) fn new(topology: &Topology, config: &Config) -> Machines {
        let mut machines = Machines::of_one_tenant(topology, config);
        let servers = &topology.servers()[..config.placement.servers().len()];
        let own = machines.all.len();
        for tenant in 1..config.tenants.len() {
            for index in 0..own {
                let first = machines.all[index];
                // Servers are in the order of nodes. The same machine of another tenant is on
                // another server.
                let server = servers.binary_search(&first.node).unwrap_or_default();
                let node = servers[(server + tenant) % servers.len()];
                machines.all.push(Machine {
                    place: topology.address(node),
                    node,
                    vni: vni_of(tenant),
                    ..first
                });
            }
        }
        machines
    }

    fn of_one_tenant(topology: &Topology, config: &Config) -> Machines {
        let mut servers = config.placement.servers().iter();
        let mut machines = Machines::default();
        let mut id = 0_u32;
        for node in topology.endpoints() {
            if topology.kind(node) == NodeKind::Gateway {
                id += 1;
                continue;
            }
            for &number in servers.next().into_iter().flatten() {
                let index = machines.all.len() as u32;
                machines.indices.insert(number, index);
                let address = Address::from_ipv4(id.into());
                machines.all.push(Machine {
                    address,
                    place: topology.address(node),
                    version: MapVersion::NONE,
                    node,
                    vni: Vni::default(),
                });
                id += 1;
            }
        }
        machines
    }

    /// The index of the first tenant's machine with this number.
    pub(crate) fn index_of(&self, number: u32) -> Option<u32> {
        self.indices.get(&number).copied()
    }

    /// The number of machines of one tenant.
    fn len_of_tenant(&self) -> u32 {
        self.indices.len() as u32
    }
}

/// A packet to send, or a connection to open.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Datagram {
    pub(crate) at: Time,
    pub(crate) source: u32,
    pub(crate) destination: u32,
    pub(crate) flow: u32,
    /// Bytes of the packet, or of the whole connection.
    pub(crate) payload: u64,
}

/// The record of a flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flow {
    /// Its number in the trace.
    pub(crate) number: u32,
    /// Its tenant's position.
    pub(crate) tenant: u32,
    pub(crate) sent: u32,
    /// The gateway's address for packets that the host does not resolve, for both ends.
    pub(crate) gateway: Option<Address>,
    first_sent: Time,
    first_delivered: Time,
    last_delivered: Time,
    delivered: u32,
    /// One more than the greatest sequence number delivered, for each direction.
    next_sequence: [u32; 2],
}

impl Flow {
    fn new(number: u32, tenant: u32) -> Flow {
        Flow {
            number,
            tenant,
            sent: 0,
            gateway: None,
            first_sent: Time::ZERO,
            first_delivered: Time::ZERO,
            last_delivered: Time::ZERO,
            delivered: 0,
            next_sequence: [0; 2],
        }
    }

    /// Counts a sent packet; returns its number in the flow.
    pub(crate) fn send(&mut self, now: Time) -> u32 {
        if self.sent == 0 {
            self.first_sent = now;
        }
        self.sent += 1;
        self.sent - 1
    }

    /// Counts a delivered packet; returns whether a later one was delivered before it.
    pub(crate) fn deliver(&mut self, now: Time, sequence: u32, direction: usize) -> bool {
        if self.delivered == 0 {
            self.first_delivered = now;
        }
        self.delivered += 1;
        self.last_delivered = now;
        let next = &mut self.next_sequence[direction];
        let is_reordered = sequence < *next;
        *next = (*next).max(sequence + 1);
        is_reordered
    }
}

/// The packets of a trace in the order of their times, and their flows.
pub(crate) fn datagrams_of(
    trace: &[TraceLine],
    machines: &Machines,
    config: &Config,
) -> Result<(Vec<Datagram>, Vec<Flow>), ConfigError> {
    let mut flows = Vec::new();
    let mut indices: HashMap<u32, u32> = HashMap::new();
    let mut datagrams = Vec::with_capacity(trace.len());
    let tenants = TrafficShares::new(&config.tenants);
    for (index, line) in trace.iter().enumerate() {
        let flow = *indices.entry(line.flow).or_insert_with(|| {
            flows.push(Flow::new(line.flow, tenants.of_flow(line.flow)));
            flows.len() as u32 - 1
        });
        let first = flows[flow as usize].tenant * machines.len_of_tenant();
        let find = |machine| -> Result<u32, ConfigError> {
            let position = index + 1;
            let error = ConfigError::TraceMachine { position, machine };
            Ok(first + machines.index_of(machine).ok_or(error)?)
        };
        datagrams.push(Datagram {
            at: line.start,
            source: find(line.source)?,
            destination: find(line.destination)?,
            flow,
            payload: match (config.transport, config.payload) {
                (Transport::Tcp(_), _) => line.bytes,
                (Transport::Udp, Payload::Fixed(bytes)) => bytes.into(),
                (Transport::Udp, Payload::Traced) => line.bytes.min(MAX_DATAGRAM),
            },
        });
    }
    datagrams.sort_by_key(|datagram| datagram.at);
    Ok((datagrams, flows))
}

/// Means over flows with a delivered packet; also per tenant if there are several.
pub(crate) fn summarize(flows: &[Flow], report: &mut Report) {
    let means = |tenant: Option<u32>| {
        let is_meant = move |flow: &&Flow| tenant.is_none_or(|tenant| tenant == flow.tenant);
        let done = || {
            flows
                .iter()
                .filter(is_meant)
                .filter(|flow| flow.delivered > 0)
        };
        let mean = |span: fn(&Flow) -> Time| {
            let total: f64 = done().map(|flow| span(flow).as_micros_f64()).sum();
            total / done().count().max(1) as f64
        };
        (
            mean(|flow| flow.last_delivered - flow.first_sent),
            mean(|flow| flow.first_delivered - flow.first_sent),
        )
    };
    (report.mean_fct_us, report.mean_first_packet_us) = means(None);
    for (tenant, row) in (0..).zip(&mut report.tenants) {
        (row.mean_fct_us, row.mean_first_packet_us) = means(Some(tenant));
        let own = flows.iter().filter(|flow| flow.tenant == tenant);
        row.packets_sent = own.map(|flow| u64::from(flow.sent)).sum();
        row.hit_rate = 1.0 - row.gateway_packets as f64 / row.packets_sent.max(1) as f64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FatTree, Placement, Scheme};

    /// With a gateway on each of ToRs 0 and 10, machine 5200 of ToR 16 is 5202.
    #[test]
    fn gateways_count_in_virtual_addresses() {
        let placement = Placement::even(10_240, 128);
        let config = Config::artifact(FatTree::ft8_10k(1), placement, Scheme::NoCache);
        let topology = Topology::new(&config.shape).unwrap();
        let machines = Machines::new(&topology, &config);
        for (machine, id) in [(0, 0), (319, 319), (320, 321), (5200, 5202_u32)] {
            let index = machines.index_of(machine).unwrap() as usize;
            assert_eq!(machines.all[index].address, Address::from_ipv4(id.into()));
        }
    }
}
