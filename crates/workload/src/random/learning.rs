//! Rules that random rules learn from packets.

use rand::Rng;

use super::RandomConfig;
use super::shape::Shape;
use crate::action::Action;
use crate::seed::{Random, pick};

/// Conditions on what every packet has.
const CONDITIONS: [&str; 9] = [
    "NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[]",
    "NXM_OF_ETH_SRC[]",
    "NXM_OF_VLAN_TCI[0..11]",
    "NXM_OF_IN_PORT[]",
    "in_port=2",
    "NXM_NX_REG0[]=NXM_NX_REG1[]",
    "NXM_NX_REG2[0..7]=NXM_NX_REG3[20..27]",
    "OXM_OF_METADATA[]",
    "NXM_NX_REG1[0..3]=0x5",
];

/// Conditions for packets of IPv4, and for those with TCP or UDP behind it.
const IPV4_CONDITIONS: [&str; 2] = [
    "eth_type=0x800,NXM_OF_IP_SRC[]=NXM_OF_IP_DST[]",
    "eth_type=0x800,NXM_OF_IP_DST[0..7]=NXM_OF_IP_SRC[8..15]",
];
const TCP_CONDITION: &str = "eth_type=0x800,nw_proto=6,NXM_OF_TCP_SRC[]=NXM_OF_TCP_DST[]";
const UDP_CONDITION: &str = "eth_type=0x800,nw_proto=17,NXM_OF_UDP_DST[]";

/// What a learned rule does.
const ACTIONS: [&str; 5] = [
    "output:NXM_OF_IN_PORT[]",
    "output:NXM_NX_REG0[0..15]",
    "load:0x9->NXM_NX_REG2[4..11]",
    "load:NXM_OF_IN_PORT[0..7]->NXM_NX_REG1[0..7]",
    "load:NXM_OF_ETH_SRC[]->NXM_OF_ETH_DST[]",
];

/// Draws a `learn` of a rule for packets of this shape.
pub(super) fn draw_learn(random: &mut Random, config: &RandomConfig, shape: &Shape) -> Action {
    let mut parts = vec![
        format!("table={}", random.random_range(0..config.tables)),
        format!("priority={}", random.random_range(0..6)),
    ];
    if random.random_ratio(1, 3) {
        let cookie = random.random_range(1..4);
        parts.push(format!("delete_learned,cookie={cookie:#x}"));
    }
    for _ in 0..random.random_range(0..3) {
        parts.push((*pick(random, &CONDITIONS)).to_owned());
    }
    if shape.eth_type == Some(0x0800) {
        let of_protocol = match shape.protocol {
            Some(6) => Some(TCP_CONDITION),
            Some(17) => Some(UDP_CONDITION),
            _ => None,
        };
        match of_protocol {
            Some(condition) if random.random() => parts.push(condition.to_owned()),
            _ => parts.push((*pick(random, &IPV4_CONDITIONS)).to_owned()),
        }
    }
    for _ in 0..random.random_range(0..3) {
        parts.push((*pick(random, &ACTIONS)).to_owned());
    }
    Action::Learn(parts.join(","))
}
