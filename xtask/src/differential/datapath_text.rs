//! Parses Open vSwitch's datapath actions.
//!
//! ```text
//!   set(ipv4(src=1.2.3.4,ttl=63)),push_vlan(vid=7,pcp=0),2,clone(pop_vlan,3),recirc(0x5)
//! ```
//!
//! The text is that of `ofproto/trace` (`format_odp_action` in `lib/odp-util.c`). An unknown
//! word is an error and never skipped: a missing action would look like agreement.

use std::net::{Ipv4Addr, Ipv6Addr};

use anyhow::{Context, bail};
use thalweg_packet::{FieldId, standard as f};

/// One datapath action.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum DatapathAction {
    /// Sends a copy to a port.
    Output(u32),
    /// Writes bits of header fields.
    Set(Vec<FieldWrite>),
    /// Gives the packet a queue; 0 for none.
    Queue(u32),
    /// Cuts what the next action sends.
    Cut(u32),
    /// Adds an outer tag.
    PushVlan { tpid: u16, tci: u16 },
    /// Removes the outer tag.
    PopVlan,
    /// Adds a label.
    PushMpls { ether_type: u16, entry: u32 },
    /// Removes the top label.
    PopMpls { ether_type: u16 },
    /// Sends a copy to the controller.
    Controller { reason: u8, max_len_bytes: u16 },
    /// Acts on a copy.
    Clone(Vec<DatapathAction>),
    /// Acts on a copy, by its length.
    CheckLength {
        limit: usize,
        longer: Vec<DatapathAction>,
        others: Vec<DatapathAction>,
    },
    /// Looks the packet up again.
    Recirculate,
    /// Does nothing.
    Drop,
}

/// Bits written into a field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct FieldWrite {
    pub(super) field: FieldId,
    pub(super) value: u128,
    pub(super) mask: u128,
}

/// Parses a list of actions.
pub(super) fn parse_actions(text: &str) -> anyhow::Result<Vec<DatapathAction>> {
    let parts = split(text);
    let actions = parts
        .into_iter()
        .map(|part| parse_action(part).with_context(|| format!("in the datapath action `{part}`")));
    actions.collect()
}

/// Splits at commas outside of parentheses.
fn split(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0, 0);
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            b'(' => depth += 1,
            b')' => depth -= 1,
            b',' if depth == 0 => {
                parts.push(&text[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts.retain(|part| !part.is_empty());
    parts
}

/// Splits `name(inside)` into name and inside.
fn call(text: &str) -> Option<(&str, &str)> {
    let (name, rest) = text.split_once('(')?;
    Some((name, rest.strip_suffix(')')?))
}

fn parse_action(text: &str) -> anyhow::Result<DatapathAction> {
    if let Ok(port) = text.parse() {
        return Ok(DatapathAction::Output(port));
    }
    match text {
        "drop" => return Ok(DatapathAction::Drop),
        "pop_vlan" => return Ok(DatapathAction::PopVlan),
        _ => {}
    }
    let (name, inside) = call(text).context("it is not known")?;
    if let Some(("skb_priority", queue)) = call(inside).filter(|_| name == "set") {
        return Ok(DatapathAction::Queue(parse_number(queue)? as u32));
    }
    if let Some(("skb_mark", _)) = call(inside).filter(|_| name == "set") {
        // Nothing that leaves shows it.
        return Ok(DatapathAction::Set(Vec::new()));
    }
    Ok(match name {
        "set" => DatapathAction::Set(parse_set(inside)?),
        "trunc" => DatapathAction::Cut(parse_number(inside)? as u32),
        "push_vlan" => push_vlan(inside)?,
        "push_mpls" => {
            let entry = number_of(inside, "label")? << 12
                | number_of(inside, "tc")? << 9
                | number_of(inside, "bos")? << 8
                | number_of(inside, "ttl")?;
            DatapathAction::PushMpls {
                ether_type: number_of(inside, "eth_type")? as u16,
                entry: entry as u32,
            }
        }
        "pop_mpls" => DatapathAction::PopMpls {
            ether_type: number_of(inside, "eth_type")? as u16,
        },
        "userspace" => controller(inside)?,
        "clone" => DatapathAction::Clone(parse_actions(inside)?),
        "check_pkt_len" => {
            let list_of = |name| {
                let parts = split(inside).into_iter().filter_map(call);
                let found = parts.into_iter().find(|part| part.0 == name);
                parse_actions(found.context("a list is missing")?.1)
            };
            DatapathAction::CheckLength {
                limit: number_of(inside, "size")? as usize,
                longer: list_of("gt")?,
                others: list_of("le")?,
            }
        }
        "recirc" => DatapathAction::Recirculate,
        _ => bail!("it is not known"),
    })
}

fn push_vlan(inside: &str) -> anyhow::Result<DatapathAction> {
    let tpid = value_of(inside, "tpid").map_or(Ok(0x8100), parse_number)?;
    let tci = number_of(inside, "vid")? | number_of(inside, "pcp")? << 13;
    Ok(DatapathAction::PushVlan {
        tpid: tpid as u16,
        tci: tci as u16,
    })
}

fn controller(inside: &str) -> anyhow::Result<DatapathAction> {
    let parts = split(inside);
    let mut calls = parts.into_iter().filter_map(call);
    let (_, inside) = calls
        .find(|(name, _)| *name == "controller")
        .context("only packets for the controller go to user space here")?;
    Ok(DatapathAction::Controller {
        reason: number_of(inside, "reason")? as u8,
        max_len_bytes: number_of(inside, "max_len")? as u16,
    })
}

/// The value of `key=value` in a list.
fn value_of<'a>(inside: &'a str, key: &str) -> Option<&'a str> {
    let pairs = split(inside)
        .into_iter()
        .filter_map(|part| part.split_once('='));
    pairs
        .into_iter()
        .find(|(name, _)| *name == key)
        .map(|(_, value)| value)
}

fn number_of(inside: &str, key: &str) -> anyhow::Result<u128> {
    let value = value_of(inside, key).with_context(|| format!("it has no `{key}`"))?;
    parse_number(value)
}

fn parse_set(text: &str) -> anyhow::Result<Vec<FieldWrite>> {
    let (header, inside) = call(text).context("a header in parentheses is missing")?;
    let mut writes = Vec::new();
    for part in split(inside) {
        let (key, value) = part.split_once('=').context("a field without a value")?;
        let (value, mask) = match value.split_once('/') {
            Some((value, mask)) => (value, Some(parse_number(mask)?)),
            None => (value, None),
        };
        let places = places(header, key).with_context(|| format!("no field `{header}.{key}`"))?;
        for (field, width_bits, shift) in places {
            let ones = u128::MAX >> (128 - width_bits);
            writes.push(FieldWrite {
                field: *field,
                value: parse_number(value)? >> shift & ones,
                mask: mask.unwrap_or(u128::MAX) >> shift & ones,
            });
        }
    }
    Ok(writes)
}

/// A field, its width, and its bit offset in the datapath's value.
type Place = (FieldId, u32, u32);

/// The fields of a datapath key; empty for keys that a write never changes.
fn places(header: &str, key: &str) -> Option<&'static [Place]> {
    const TOS: &[Place] = &[(f::IP_DSCP, 6, 2), (f::IP_ECN, 2, 0)];
    const SOURCE: &[Place] = &[(f::TP_SRC, 16, 0)];
    const DESTINATION: &[Place] = &[(f::TP_DST, 16, 0)];
    Some(match (header, key) {
        ("eth", "src") => &[(f::ETH_SRC, 48, 0)],
        ("eth", "dst") => &[(f::ETH_DST, 48, 0)],
        ("ipv4", "src") => &[(f::IP_SRC, 32, 0)],
        ("ipv4", "dst") => &[(f::IP_DST, 32, 0)],
        ("ipv6", "src") => &[(f::IPV6_SRC, 128, 0)],
        ("ipv6", "dst") => &[(f::IPV6_DST, 128, 0)],
        ("ipv6", "label") => &[(f::IPV6_LABEL, 20, 0)],
        ("ipv4", "tos") | ("ipv6", "tclass") => TOS,
        ("ipv4", "ttl") | ("ipv6", "hlimit") => &[(f::IP_TTL, 8, 0)],
        ("ipv4" | "ipv6", "proto" | "frag") => &[],
        ("tcp" | "udp" | "sctp", "src") => SOURCE,
        ("tcp" | "udp" | "sctp", "dst") => DESTINATION,
        ("icmp" | "icmpv6", "type") => &[(f::ICMP_TYPE, 8, 0)],
        ("icmp" | "icmpv6", "code") => &[(f::ICMP_CODE, 8, 0)],
        ("nd", "target") => &[(f::ND_TARGET, 128, 0)],
        ("nd", "sll") => &[(f::ND_SLL, 48, 0)],
        ("nd", "tll") => &[(f::ND_TLL, 48, 0)],
        ("arp", "sip") => &[(f::ARP_SPA, 32, 0)],
        ("arp", "tip") => &[(f::ARP_TPA, 32, 0)],
        ("arp", "op") => &[(f::ARP_OP, 16, 0)],
        ("arp", "sha") => &[(f::ARP_SHA, 48, 0)],
        ("arp", "tha") => &[(f::ARP_THA, 48, 0)],
        ("mpls", "label") => &[(f::MPLS_LABEL, 20, 0)],
        ("mpls", "tc") => &[(f::MPLS_TC, 3, 0)],
        ("mpls", "ttl") => &[(f::MPLS_TTL, 8, 0)],
        ("mpls", "bos") => &[],
        _ => return None,
    })
}

/// Parses a number in any spelling: address, hexadecimal, decimal, kind of fragment.
pub(super) fn parse_number(text: &str) -> anyhow::Result<u128> {
    let groups: Vec<&str> = text.split(':').collect();
    if groups.len() == 6 && groups.iter().all(|group| group.len() == 2) {
        let digits = groups.concat();
        return Ok(u128::from_str_radix(&digits, 16)?);
    }
    if let Ok(address) = text.parse::<Ipv4Addr>() {
        return Ok(u32::from(address).into());
    }
    if let Ok(address) = text.parse::<Ipv6Addr>() {
        return Ok(address.into());
    }
    if let Some(digits) = text.strip_prefix("0x") {
        return Ok(u128::from_str_radix(digits, 16)?);
    }
    match text {
        "no" => Ok(0),
        "first" => Ok(1),
        "later" => Ok(3),
        _ => text
            .parse()
            .with_context(|| format!("`{text}` is no number")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_with_what_is_nested_in_it() {
        let text = "set(eth(src=02:00:00:00:00:01,dst=00:00:00:00:00:05/00:00:00:00:00:0f)),\
                    push_vlan(tpid=0x88a8,vid=7,pcp=1),clone(pop_vlan,3),\
                    userspace(pid=0,controller(reason=1,dont_send=0,max_len=64)),recirc(0x5)";
        let actions = parse_actions(text).unwrap();
        let DatapathAction::Set(writes) = &actions[0] else {
            panic!("{actions:?}");
        };
        assert_eq!(
            (writes[0].field, writes[0].value),
            (f::ETH_SRC, 0x0200_0000_0001)
        );
        assert_eq!((writes[1].value, writes[1].mask), (5, 15));
        let tag = DatapathAction::PushVlan {
            tpid: 0x88a8,
            tci: 0x2007,
        };
        assert_eq!(actions[1], tag);
        let nested = vec![DatapathAction::PopVlan, DatapathAction::Output(3)];
        assert_eq!(actions[2], DatapathAction::Clone(nested));
        let controller = DatapathAction::Controller {
            reason: 1,
            max_len_bytes: 64,
        };
        assert_eq!(actions[3], controller);
        assert_eq!(actions[4..], [DatapathAction::Recirculate]);
    }

    #[test]
    fn queues_and_cuts_are_read() {
        let actions = parse_actions("set(skb_priority(0x7)),2,trunc(64),3").unwrap();
        let queue = DatapathAction::Queue;
        let output = DatapathAction::Output;
        assert_eq!(
            actions,
            [queue(7), output(2), DatapathAction::Cut(64), output(3)]
        );
    }

    #[test]
    fn one_byte_can_be_two_fields() {
        let actions = parse_actions("set(ipv4(tos=0xb9/0xfc,ttl=63))").unwrap();
        let DatapathAction::Set(writes) = &actions[0] else {
            panic!("{actions:?}");
        };
        assert_eq!(
            (writes[0].field, writes[0].value, writes[0].mask),
            (f::IP_DSCP, 46, 63)
        );
        assert_eq!(
            (writes[1].field, writes[1].value, writes[1].mask),
            (f::IP_ECN, 1, 0)
        );
        assert_eq!(writes[2].value, 63);
    }

    #[test]
    fn what_is_not_known_is_an_error() {
        for text in [
            "ct(commit)",
            "set(tunnel(tun_id=1))",
            "hash(l4(0))",
            "set(ipv4(x=1))",
        ] {
            assert!(parse_actions(text).is_err(), "{text}");
        }
    }
}
