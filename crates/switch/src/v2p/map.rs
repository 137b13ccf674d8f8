//! The control plane's map of a fabric: gateways, switches, hosts, and the machines on them.
//!
//! 1. A map has a version, which counts its changes. A gateway answers at the version of its
//!    map, and a host reports the version since which a machine is there.

use std::net::IpAddr;

use thalweg_packet::PortId;
use thalweg_packet::wire::MacAddress;
use thalweg_v2p::{Address, Attachment, Database, Directory, Key, MapVersion, SwitchId};

use super::{V2pError, V2pRole};

/// A machine of a tenant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Machine {
    /// Its tenant and virtual address.
    pub key: Key,
    /// The physical address of its host.
    pub host: Address,
    /// Its Ethernet address.
    pub mac: MacAddress,
    /// Its port at the host's switch; `None` on other switches.
    pub port: Option<PortId>,
    /// The map version with which it was put there.
    pub since: MapVersion,
}

/// A fabric, at a version.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct V2pMap {
    /// Number of changes, from 1.
    pub version: MapVersion,
    /// Gateways, in the order in which flows choose among them, and their attachments.
    pub gateways: Vec<(Address, Attachment)>,
    /// Switches with caches, by identifier: address and pod.
    pub switches: Vec<(Address, u32)>,
    /// Hosts and their attachments.
    pub hosts: Vec<(Address, Attachment)>,
    /// Machines of all tenants.
    pub machines: Vec<Machine>,
}

impl V2pMap {
    pub(super) fn must_have(&self, role: V2pRole, address: Address) -> Result<(), V2pError> {
        let (kind, is_there) = match role {
            V2pRole::Switch(_) => ("switch", self.switch_id(address).is_some()),
            V2pRole::Gateway => ("gateway", self.is_gateway(address)),
            V2pRole::Host => {
                let mut hosts = self.hosts.iter();
                ("host", hosts.any(|(host, _)| *host == address))
            }
        };
        match is_there {
            true => Ok(()),
            false => Err(V2pError::NotInMap { kind, address }),
        }
    }

    pub(super) fn is_gateway(&self, address: Address) -> bool {
        self.gateways.iter().any(|(known, _)| *known == address)
    }

    pub(super) fn switch_id(&self, address: Address) -> Option<SwitchId> {
        let place = self
            .switches
            .iter()
            .position(|(known, _)| *known == address);
        place.map(|place| SwitchId(place as u32))
    }

    pub(super) fn pod_of(&self, switch: SwitchId) -> u32 {
        let switch = self.switches.get(switch.0 as usize);
        switch.map_or(0, |(_, pod)| *pod)
    }

    pub(super) fn directory(&self) -> Directory {
        Directory::new(
            self.gateways.iter().map(|(address, _)| *address).collect(),
            self.switches.iter().map(|(address, _)| *address).collect(),
            self.gateways.iter().chain(&self.hosts).copied(),
        )
    }

    pub(super) fn database(&self) -> Database {
        let places = self.machines.iter();
        Database::at(
            self.version,
            places.map(|machine| (machine.key, machine.host)),
        )
    }

    /// The machines of a host.
    pub(super) fn machines_of(&self, host: Address) -> impl Iterator<Item = &Machine> {
        self.machines
            .iter()
            .filter(move |machine| machine.host == host)
    }

    /// The host of a machine.
    pub(super) fn host_of(&self, key: Key) -> Option<Address> {
        let mut machines = self.machines.iter();
        let machine = machines.find(|machine| machine.key == key)?;
        Some(machine.host)
    }
}

/// The addresses of an IP packet, from its first bytes; `None` if one is `::` or the packet is
/// cut short.
pub(super) fn addresses_of(packet: &[u8]) -> Option<(Address, Address)> {
    let version = packet.first()? >> 4;
    let (source, destination): (IpAddr, IpAddr) = match version {
        4 => {
            let field = |range| -> Option<[u8; 4]> {
                packet.get::<std::ops::Range<usize>>(range)?.try_into().ok()
            };
            (field(12..16)?.into(), field(16..20)?.into())
        }
        6 => {
            let field = |range| -> Option<[u8; 16]> {
                packet.get::<std::ops::Range<usize>>(range)?.try_into().ok()
            };
            (field(8..24)?.into(), field(24..40)?.into())
        }
        _ => return None,
    };
    Some((Address::new(source)?, Address::new(destination)?))
}
