//! Draws actions of random rules on the tracker of connections.
//!
//! Translations lead to few addresses and ports, some of which hosts have too, so that they
//! collide and run out.

use rand::Rng;

use super::RandomConfig;
use super::pool::{ZONES, draw_value};
use super::shape::Shape;
use crate::action::{Action, FieldSlice, TrackAction, TrackZone};
use crate::field::Field;
use crate::seed::{Random, pick};

use Field::{CtLabel, CtMark, Register};

/// The protocols' EtherTypes.
pub(super) const IPV4: u128 = 0x0800;
pub(super) const IPV6: u128 = 0x86dd;

const fn bits(field: Field, start: u32, count: u32) -> FieldSlice {
    FieldSlice {
        field,
        start,
        count,
    }
}

/// Actions that concern connections; none if the packet can have none.
pub(super) fn draw_action(
    random: &mut Random,
    config: &RandomConfig,
    table: u8,
    shape: &Shape,
) -> Vec<Action> {
    if !shape.is_ip() {
        let untracks = random.random_ratio(1, 4).then_some(Action::Untrack);
        return untracks.into_iter().collect();
    }
    match random.random_range(0..8_u8) {
        0 => vec![Action::Untrack],
        1..3 if table + 1 < config.tables => {
            let table = random.random_range(table + 1..config.tables);
            vec![Action::ResubmitTuple(table)]
        }
        _ => {
            let asked = draw_track(random, config, table, shape);
            with_zone(random, shape, asked).collect()
        }
    }
}

/// The last action of an action set or of a bucket.
pub(super) fn draw_end(random: &mut Random, config: &RandomConfig, shape: &Shape) -> Action {
    // As in the table before the last, so that the walk ends.
    let table = config.tables.saturating_sub(2);
    match random.random_ratio(1, 8) {
        true => Action::Untrack,
        false => Action::Track(Box::new(draw_track(random, config, table, shape))),
    }
}

/// The action; before it, mostly, one that writes the register that holds its zone.
pub(super) fn with_zone(
    random: &mut Random,
    shape: &Shape,
    asked: TrackAction,
) -> impl Iterator<Item = Action> + use<> {
    let writes = match asked.zone {
        TrackZone::Register(number) => match random.random_range(0..4_u8) {
            0 => None,
            1 if shape.eth_type == Some(IPV4) => Some(Action::Move(
                bits(Field::IpDst, 0, 8),
                bits(Register(number), 0, 8),
            )),
            2 => Some(Action::Move(
                bits(Field::EthSrc, 0, 8),
                bits(Register(number), 0, 8),
            )),
            _ => {
                let value = draw_value(random, Register(number), 1);
                Some(Action::SetField(Register(number), value))
            }
        },
        TrackZone::Number(_) => None,
    };
    let track = Action::Track(Box::new(asked));
    writes.into_iter().chain([track])
}

pub(super) fn draw_track(
    random: &mut Random,
    config: &RandomConfig,
    table: u8,
    shape: &Shape,
) -> TrackAction {
    let is_commit = random.random_ratio(2, 3);
    let zone = match random.random_ratio(3, 4) {
        true => TrackZone::Number(*pick(random, &ZONES)),
        false => TrackZone::Register(random.random_range(0..2)),
    };
    let table = match table + 1 < config.tables {
        // Rarely back: the packet may then come here until it has had all its passes.
        _ if random.random_ratio(1, 20) => Some(random.random_range(0..config.tables)),
        true if random.random_ratio(5, 6) => Some(random.random_range(table + 1..config.tables)),
        _ => None,
    };
    let alg = match shape.protocol {
        Some(6) if random.random_ratio(1, 10) => Some("ftp"),
        Some(17) if random.random_ratio(1, 10) => Some("tftp"),
        _ => None,
    };
    let exec = match is_commit && random.random_ratio(1, 2) {
        true => (0..random.random_range(1..=3))
            .map(|_| draw_exec(random, shape))
            .collect(),
        false => Vec::new(),
    };
    TrackAction {
        zone,
        is_commit,
        is_forced: is_commit && random.random_ratio(1, 6),
        table,
        translation: draw_translation(random, is_commit, shape),
        alg,
        exec,
    }
}

fn draw_translation(random: &mut Random, is_commit: bool, shape: &Shape) -> Option<String> {
    match random.random_range(0..6_u8) {
        0..3 => return None,
        3 => return Some("nat".to_owned()),
        _ if !is_commit => return Some("nat".to_owned()),
        _ => {}
    }
    let kind = *pick(random, &["src", "dst"]);
    let is_ipv6 = shape.eth_type == Some(IPV6);
    let addresses: &[&str] = match is_ipv6 {
        true => &["2001:db8::9", "2001:db8::9-2001:db8::b", "2001:db8::1"],
        false => &[
            "10.0.0.9",
            "10.0.0.9-10.0.0.11",
            "10.0.0.1",
            "10.0.0.1-10.0.0.4",
        ],
    };
    let ports: &[&str] = &["", "", ":2000", ":2000-2003", ":80"];
    let (address, ports) = (*pick(random, addresses), *pick(random, ports));
    let has_ports = !ports.is_empty();
    let address = match address.split_once('-') {
        _ if !is_ipv6 || !has_ports => address.to_owned(),
        Some((first, last)) => format!("[{first}]-[{last}]"),
        None => format!("[{address}]"),
    };
    let flags = *pick(random, &["", "", ",hash", ",random", ",persistent"]);
    Some(match random.random_ratio(1, 8) {
        true => format!("nat({kind})"),
        false => format!("nat({kind}={address}{ports}{flags})"),
    })
}

/// What an `exec` may do: write the mark or the label.
fn draw_exec(random: &mut Random, shape: &Shape) -> Action {
    let field = *pick(random, &[CtMark, CtLabel]);
    let value = draw_value(random, field, 1);
    match random.random_range(0..6_u8) {
        0..2 => Action::SetField(field, value),
        2 => {
            let mask = *pick(random, &[1, 5, 0xff, 0x8000_0000]);
            Action::SetMasked(field, value & mask, mask)
        }
        3 => Action::Load((value & 0xff) as u64, bits(field, 4, 8)),
        4 if shape.eth_type == Some(IPV4) => {
            Action::Move(bits(Field::IpSrc, 0, 8), bits(field, 0, 8))
        }
        _ => {
            let register = Register(random.random_range(0..4));
            Action::Move(bits(register, 0, 8), bits(field, 8, 8))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::RandomPipeline;
    use super::*;

    #[test]
    fn every_form_of_ct_occurs() {
        let mut text = String::new();
        for seed in 0..40 {
            let pipeline = RandomPipeline::new(&RandomConfig::tracking(), seed);
            text += &pipeline.expect("a sound configuration").rules_text();
        }
        let forms = [
            "ct(zone=2,commit",
            "ct(zone=reg1[0..15]",
            ",force",
            ",nat,",
            ",nat)",
            "nat(src=10.0.0.9-10.0.0.11:2000-2003",
            "nat(dst=[2001:db8::9]-[2001:db8::b]:2000",
            ",random)",
            "nat(src)",
            "alg=ftp",
            "alg=tftp",
            "exec(set_field:0x",
            "->ct_label",
            "->ct_mark[8..15]",
            "ct_clear",
            ",ct)",
            "ct_state=+est+rpl+trk",
            "ct_state=+new+trk",
            "ct_zone=1",
            "ct_mark=0x",
            "ct_label=0x",
            "ct_nw_src=10.0.0",
            "ct_ipv6_dst=2001",
            "ct_nw_proto=6",
            "ct_tp_dst=80",
        ];
        for form in forms {
            assert!(text.contains(form), "no rule has {form}");
        }
    }
}
