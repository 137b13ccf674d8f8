//! A small fabric for tests: two pods of two ToRs and two spines, two cores; the last ToR has the
//! two gateways. Switches are numbered ToRs first, then spines, then cores.
//!
//! ```text
//!                  core 8       core 9
//!            spine 4, 5             spine 6, 7 (gateway spines)
//!          ToR 0     ToR 1        ToR 2     ToR 3 (gateway ToR)
//!          hosts     hosts        hosts     hosts, gateways
//! ```
#![allow(dead_code, reason = "each test uses its own part")]

pub(crate) mod fabric;

use std::net::Ipv4Addr;
use std::sync::Arc;

use thalweg_packet::Instant;
use thalweg_v2p::*;

pub(crate) const TORS: u32 = 4;
pub(crate) const HOSTS_PER_TOR: u32 = 2;
pub(crate) const SWITCHES: u32 = 10;
pub(crate) const GATEWAY_TOR: u32 = 3;
pub(crate) const TOR: u32 = 0;
pub(crate) const OTHER_TOR: u32 = 1;
pub(crate) const SPINE: u32 = 4;
pub(crate) const GATEWAY_SPINE: u32 = 6;
pub(crate) const CORE: u32 = 8;

pub(crate) fn role_of(switch: u32) -> Role {
    match switch {
        GATEWAY_TOR => Role::GatewayTor,
        0..TORS => Role::Tor,
        4 | 5 => Role::Spine,
        6 | 7 => Role::GatewaySpine,
        _ => Role::Core,
    }
}

pub(crate) fn pod_of(switch: u32) -> u32 {
    match switch {
        0 | 1 | 4 | 5 => 0,
        _ => 1,
    }
}

pub(crate) fn address(a: u8, b: u8, c: u8, d: u8) -> Address {
    Ipv4Addr::new(a, b, c, d).into()
}

/// The physical address of host `index` of a ToR.
pub(crate) fn host(tor: u32, index: u32) -> Address {
    address(10, 1, tor as u8, index as u8 + 1)
}

pub(crate) fn gateway(index: u32) -> Address {
    address(10, 9, 9, index as u8 + 1)
}

pub(crate) fn switch_address(switch: u32) -> Address {
    address(10, 255, 0, switch as u8)
}

/// A virtual address of tenant 7.
pub(crate) fn key(number: u32) -> Key {
    tenant_key(7, number)
}

pub(crate) fn tenant_key(vni: u32, number: u32) -> Key {
    let vni = Vni::new(vni).unwrap();
    let address = Address::from_ipv4((0x0a80_0000 + number).into());
    Key { vni, address }
}

pub(crate) fn directory() -> Arc<Directory> {
    let attach = |tor: u32| Attachment {
        tor: SwitchId(tor),
        pod: pod_of(tor),
    };
    let host_of = |number: u32| (number / HOSTS_PER_TOR, number % HOSTS_PER_TOR);
    let hosts = (0..TORS * HOSTS_PER_TOR).map(host_of);
    let hosts = hosts.map(|(tor, index)| (host(tor, index), attach(tor)));
    let gateways = vec![gateway(0), gateway(1)];
    let switches = (0..SWITCHES).map(switch_address).collect();
    Arc::new(Directory::new(gateways, switches, hosts))
}

pub(crate) fn config(switch: u32, profile: Profile, entries: u32) -> AgentConfig {
    let (id, role) = (SwitchId(switch), role_of(switch));
    let config = AgentConfig::new(id, switch_address(switch), role, profile, entries);
    AgentConfig {
        pod: pod_of(switch),
        ..config
    }
}

/// A switch with one line, so that any two keys collide.
pub(crate) fn tiny(switch: u32, profile: Profile) -> SwitchAgent {
    let mut config = config(switch, profile, 1);
    config.cache.ways = 1;
    SwitchAgent::new(&config, directory())
}

/// A switch with enough lines that a few keys do not collide.
pub(crate) fn roomy(switch: u32, profile: Profile) -> SwitchAgent {
    SwitchAgent::new(&config(switch, profile, 1 << 12), directory())
}

/// A packet from a host to a destination, which may be a gateway.
pub(crate) fn packet(source: Key, from: Address, destination: Key, to: Address) -> Packet {
    let is_gateway = to == gateway(0) || to == gateway(1);
    let resolved_version = if is_gateway {
        MapVersion::NONE
    } else {
        MapVersion(1)
    };
    let tags = Tags {
        source_version: MapVersion(1),
        resolved_version,
        ..Tags::default()
    };
    let data = Data {
        vni: source.vni,
        inner_source: source.address,
        inner_destination: destination.address,
        tags,
    };
    Packet {
        outer_source: from,
        outer_destination: to,
        ttl: INITIAL_TTL,
        flow: 1,
        body: Body::Data(data),
    }
}

pub(crate) fn data(packet: &Packet) -> &Data {
    match &packet.body {
        Body::Data(data) => data,
        other => panic!("{other:?} is no tenant's packet"),
    }
}

pub(crate) fn data_mut(packet: &mut Packet) -> &mut Data {
    match &mut packet.body {
        Body::Data(data) => data,
        other => panic!("{other:?} is no tenant's packet"),
    }
}

pub(crate) fn mapping(key: Key, place: Address) -> Mapping {
    Mapping {
        key,
        place,
        version: MapVersion(1),
    }
}

pub(crate) fn spilled(mapping: Mapping) -> Option<Carried> {
    Some(Carried {
        mapping,
        reason: CarryReason::Spilled,
    })
}

pub(crate) fn promoted(mapping: Mapping) -> Option<Carried> {
    Some(Carried {
        mapping,
        reason: CarryReason::Promoted,
    })
}

/// Handles a packet from another switch at time 0; every draw succeeds.
pub(crate) fn pass(switch: &mut SwitchAgent, packet: &mut Packet) -> Verdict {
    switch.handle_packet(packet, Ingress::Fabric, Instant::ZERO, || 0)
}

/// Handles a packet from the port of the host that sends it.
pub(crate) fn enter(switch: &mut SwitchAgent, packet: &mut Packet, host: Address) -> Verdict {
    switch.handle_packet(packet, Ingress::Host(host), Instant::ZERO, || 0)
}

/// Inserts mappings into a switch by learning packets, whatever its role.
pub(crate) fn teach(switch: &mut SwitchAgent, number: u32, mappings: &[Mapping]) {
    for &mapping in mappings {
        let mut packet = Packet {
            outer_source: switch_address(GATEWAY_TOR),
            outer_destination: switch_address(number),
            ttl: INITIAL_TTL,
            flow: 0,
            body: Body::Learning(mapping),
        };
        assert_eq!(pass(switch, &mut packet), Verdict::Consumed);
    }
}

/// The cached place of a key.
pub(crate) fn cached(switch: &SwitchAgent, key: Key) -> Option<Address> {
    let mut entries = switch.cache().entries();
    entries
        .find(|(mapping, _)| mapping.key == key)
        .map(|(mapping, _)| mapping.place)
}

/// Whether the access bit of a key's line is set.
pub(crate) fn is_active(switch: &SwitchAgent, key: Key) -> bool {
    let mut entries = switch.cache().entries();
    entries.any(|(mapping, is_active)| mapping.key == key && is_active)
}
