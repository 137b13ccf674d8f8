//! Actions that only broad pipelines have.
//!
//! A switch accepts each at its place in the list. [`Shape`] tracks the effect of earlier
//! actions on the packet, and [`Shape::writable`] says which fields exist.

use rand::Rng;

use super::RandomConfig;
use super::groups::GROUPS;
use super::pool::draw_value;
use super::shape::Shape;
use super::tracking;
use crate::action::{Action, FieldSlice, ReservedPort};
use crate::field::{Field, prefix_mask};
use crate::seed::{Random, pick};

use Field::{
    ArpOp, ArpSha, ArpSpa, ArpTha, ArpTpa, EthSrc, IcmpCode, IcmpType, Icmpv6Code, Icmpv6Type,
    IpDscp, IpEcn, IpTtl, Ipv6Dst, Ipv6Label, Ipv6Src, Metadata, MplsLabel, MplsTc, MplsTtl, NdSll,
    NdTarget, NdTll, Register, VlanTci,
};

/// Draws one more action for a list of `table`; `None` if the draw does not fit.
pub(super) fn draw_action(
    random: &mut Random,
    config: &RandomConfig,
    table: u8,
    shape: &mut Shape,
    depth: u8,
) -> Option<Action> {
    let is_last = table + 1 == config.tables;
    Some(match random.random_range(0..20_u8) {
        0 => Action::OutputReserved(*pick(
            random,
            &[
                ReservedPort::InPort,
                ReservedPort::All,
                ReservedPort::Flood,
                ReservedPort::Normal,
            ],
        )),
        1 => Action::Controller(*pick(random, &[20, 128, u16::MAX])),
        2 | 3 if !is_last => Action::Group(random.random_range(1..=GROUPS)),
        4 | 5 if depth < 2 => {
            let mut inner = shape.clone();
            let list = (0..random.random_range(1..4))
                .filter_map(|_| draw_action(random, config, table, &mut inner, depth + 1));
            let mut list: Vec<Action> = list.collect();
            list.push(Action::Output(random.random_range(1..=config.ports)));
            Action::Clone(list)
        }
        6 if !is_last => Action::ResubmitFrom(
            random.random_range(1..=config.ports),
            random.random_range(table + 1..config.tables),
        ),
        7 => Action::Push(*pick(random, &slices(shape))),
        8 => Action::Pop(*pick(random, &slices(shape))),
        9 if random.random_ratio(1, 4) => Action::Exit,
        10..13 => draw_write(random, config, shape),
        13 => draw_send(random, config),
        14 => draw_tag_write(random, shape),
        _ => return draw_header_change(random, shape),
    })
}

/// Draws an action that sends, or that says how later ones do.
fn draw_send(random: &mut Random, config: &RandomConfig) -> Action {
    let port = random.random_range(1..=config.ports);
    match random.random_range(0..12_u8) {
        0 => Action::Enqueue(port, random.random_range(0..3)),
        1 => Action::SetQueue(random.random_range(0..3)),
        2 => Action::PopQueue,
        4 => Action::DebugSlow,
        6 | 7 => draw_choice(random, config),
        5 if random.random_ratio(1, 2) => Action::DebugRecirculation,
        3 => Action::OutputCut(port, *pick(random, &[14, 20, 42, 64, 1_000_000])),
        _ => Action::Output(port),
    }
}

/// Draws a choice among links. The switches that are compared hash in ways of their own: there
/// nothing is left to choose, unless groups may choose, too.
fn draw_choice(random: &mut Random, config: &RandomConfig) -> Action {
    const HASHES: [&str; 7] = [
        "eth_src",
        "nw_src",
        "nw_dst",
        "symmetric_l3",
        "symmetric_l4",
        "symmetric_l3l4",
        "symmetric_l3l4+udp",
    ];
    let hash = *pick(random, &HASHES);
    // One port may not exist.
    let count = random.random_range(0..4);
    let ports = (0..count).map(|_| random.random_range(1..=config.ports + 1));
    let mut ports: Vec<u32> = ports.collect();
    let register = Field::Register(random.random_range(0..4));
    let bits = FieldSlice {
        field: register,
        start: 0,
        count: 16,
    };
    match random.random_range(0..3_u8) {
        0 => Action::ActiveBackup(ports),
        1 => {
            if !config.selects {
                ports.truncate(1);
            }
            Action::HashedPort(hash, ports)
        }
        _ if config.selects => Action::Multipath(hash, random.random_range(1..5), bits),
        _ => Action::Multipath(hash, 1, bits),
    }
}

/// Slices of 16 bits to read or write.
fn slices(shape: &Shape) -> Vec<FieldSlice> {
    let low = |field| FieldSlice {
        field,
        start: 0,
        count: 16,
    };
    let fields = shape.writable().into_iter();
    let wide = fields.filter(|field| field.width_bits() >= 16 && *field != ArpOp);
    wide.map(low).collect()
}

/// A write of a constant, in one of the four notations.
fn draw_write(random: &mut Random, config: &RandomConfig, shape: &Shape) -> Action {
    let field = *pick(random, &shape.writable());
    let value = draw_value(random, field, config.ports);
    let has_old_name = !matches!(
        field,
        Register(_) | Metadata | Ipv6Src | Ipv6Dst | Ipv6Label | ArpOp | ArpSpa | ArpTpa
    ) && !matches!(
        field,
        ArpSha | ArpTha | IcmpType | IcmpCode | Icmpv6Type | Icmpv6Code
    ) && !matches!(field, NdTarget | NdSll | NdTll);
    let is_maskable = !matches!(field, IpDscp | IpEcn | IpTtl | MplsLabel | MplsTc | MplsTtl)
        && !matches!(field, ArpOp | IcmpType | IcmpCode | Icmpv6Type | Icmpv6Code);
    match random.random_range(0..4_u8) {
        _ if field == MplsTtl => Action::Modify(field, value),
        // Values above 255 are refused, as are writes of single bits.
        _ if field == ArpOp => Action::SetField(field, value),
        0 if has_old_name => Action::Modify(field, value),
        1 if is_maskable => {
            let length = random.random_range(4..=field.width_bits());
            Action::SetMasked(field, value, prefix_mask(length, field.width_bits()))
        }
        2 if field.width_bits() > 8 => {
            let slice = FieldSlice {
                field,
                start: random.random_range(0..=field.width_bits() - 8),
                count: 8,
            };
            Action::Load(random.random::<u8>().into(), slice)
        }
        _ => Action::SetField(field, value),
    }
}

/// A write to the outer tag, which may add or remove it.
fn draw_tag_write(random: &mut Random, shape: &mut Shape) -> Action {
    let value = match random.random_range(0..3_u8) {
        0 => 0,
        1 => draw_value(random, VlanTci, 1) & !0x1000,
        _ => draw_value(random, VlanTci, 1),
    };
    let slice = |field, start, count| FieldSlice {
        field,
        start,
        count,
    };
    let (start, count) = *pick(random, &[(0, 16), (0, 12), (12, 1), (13, 3), (4, 10)]);
    let mask = ((1 << count) - 1) << start;
    let bits = slice(VlanTci, start, count);
    let (action, mask) = match random.random_range(0..6_u8) {
        0 | 1 => (Action::SetField(VlanTci, value), 0xffff),
        2 => (Action::SetMasked(VlanTci, value, mask), mask),
        3 | 4 => {
            let number = (value & mask) >> start;
            (Action::Load(number as u64, bits), mask)
        }
        _ => {
            let source = *pick(random, &[Register(0), Register(1), EthSrc]);
            shape.write_tag(1, 0);
            return Action::Move(slice(source, 0, count), bits);
        }
    };
    shape.write_tag(value & mask, mask);
    action
}

/// Adds or removes a tag or label, or changes a TTL.
fn draw_header_change(random: &mut Random, shape: &mut Shape) -> Option<Action> {
    Some(match random.random_range(0..10_u8) {
        // If nothing is known about the packet, a newer OpenFlow always pushes a tag for
        // these.
        0 if shape.tags > 0 || shape.is_untagged => {
            (shape.tags, shape.is_untagged) = (shape.tags.max(1), false);
            Action::SetVlanId(*pick(random, &super::pool::VLANS))
        }
        1 if shape.tags > 0 || shape.is_untagged => {
            (shape.tags, shape.is_untagged) = (shape.tags.max(1), false);
            Action::SetVlanPriority(random.random_range(0..8))
        }
        2 if shape.tags < 2 => {
            (shape.tags, shape.is_untagged) = (shape.tags + 1, false);
            Action::PushVlan(*pick(random, &[0x8100, 0x88a8]))
        }
        3 if shape.tags > 0 => {
            shape.tags -= 1;
            Action::PopVlan
        }
        4 | 5 if shape.labels < 2 => {
            shape.labels += 1;
            shape.is_bottom = shape.eth_type.map(|_| !shape.is_mpls());
            (shape.eth_type, shape.protocol) = (Some(0x8847), None);
            Action::PushMpls(0x8847)
        }
        6 | 7 if shape.is_mpls() => {
            let eth_types: &[u16] = match shape.is_bottom {
                Some(true) => &[0x0800, 0x86dd],
                Some(false) => &[0x8847],
                None => &[0x0800, 0x8847],
            };
            let eth_type = *pick(random, eth_types);
            shape.is_bottom = None;
            shape.labels = shape.labels.saturating_sub(1);
            (shape.eth_type, shape.protocol) = (Some(eth_type.into()), None);
            Action::PopMpls(eth_type)
        }
        8 if shape.is_mpls() => Action::DecMplsTtl,
        _ if shape.is_ip() => Action::DecTtl,
        _ => return None,
    })
}

/// Instructions on the action set, which follow all other actions except the goto.
pub(super) fn draw_action_set(
    random: &mut Random,
    config: &RandomConfig,
    table: u8,
    shape: &Shape,
) -> Vec<Action> {
    let mut instructions = Vec::new();
    if random.random_ratio(1, 20) {
        instructions.push(Action::ClearActions);
    }
    if !random.random_ratio(1, 5) {
        return instructions;
    }
    let mut set = Vec::new();
    let mut inner = shape.clone();
    while random.random_ratio(1, 2) {
        let action = match random.random_range(0..4_u8) {
            0 | 1 => Some(draw_write(random, config, &inner)),
            2 => {
                let slices = slices(&inner);
                Some(Action::Move(*pick(random, &slices), *pick(random, &slices)))
            }
            _ if random.random_ratio(1, 4) => Some(Action::SetQueue(random.random_range(0..3))),
            _ => draw_header_change(random, &mut inner),
        };
        set.extend(action);
    }
    let is_last = table + 1 == config.tables;
    set.push(match random.random_range(0..6_u8) {
        _ if config.tracks && inner.is_ip() && random.random_ratio(1, 3) => {
            tracking::draw_end(random, config, &inner)
        }
        0 if !is_last => Action::Group(random.random_range(1..=GROUPS)),
        1 => Action::Controller(u16::MAX),
        2 => Action::OutputReserved(ReservedPort::All),
        3 if !is_last => Action::Resubmit(config.tables - 1),
        _ => Action::Output(random.random_range(1..=config.ports)),
    });
    instructions.push(Action::WriteActions(set));
    instructions
}
