//! Random groups: what broad pipelines hand packets to.
//!
//! A bucket holds an action *set* (OpenFlow 1.5.1, section 5.6): at most one action of a kind.
//! Select groups are left out: which bucket they choose is each switch's own affair. A group may
//! lead to one of a higher number, and to the last table, whose rules use no groups; so every
//! walk ends.

use std::fmt;

use rand::Rng;

use super::RandomConfig;
use super::pool::draw_value;
use crate::action::{Action, ReservedPort, write_list};
use crate::field::Field;
use crate::seed::{Random, pick, stream};

/// Numbers of groups: 1 to this one.
pub(super) const GROUPS: u32 = 5;

/// A group, and what its buckets do.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct RandomGroup {
    /// Its number.
    pub id: u32,
    /// `all`, `indirect` or `ff`.
    pub kind: &'static str,
    /// The port that each bucket watches, if it watches one, and its actions.
    pub buckets: Vec<(Option<u32>, Vec<Action>)>,
}

impl fmt::Display for RandomGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "group_id={},type={}", self.id, self.kind)?;
        for (watched, actions) in &self.buckets {
            f.write_str(",bucket=")?;
            if let Some(port) = watched {
                write!(f, "watch_port:{port},")?;
            }
            f.write_str("actions=")?;
            if actions.is_empty() {
                f.write_str("drop")?;
            }
            write_list(f, actions)?;
        }
        Ok(())
    }
}

/// The groups of a pipeline, those of higher numbers first.
pub(super) fn draw_groups(config: &RandomConfig, seed: u64) -> Vec<RandomGroup> {
    let mut random = stream(seed, "random groups");
    if !config.is_broad {
        return Vec::new();
    }
    let groups = (1..=GROUPS).rev();
    groups
        .map(|id| draw_group(&mut random, config, id))
        .collect()
}

fn draw_group(random: &mut Random, config: &RandomConfig, id: u32) -> RandomGroup {
    let (kind, count) = match random.random_range(0..4_u8) {
        0 | 1 => ("all", random.random_range(0..4)),
        2 => ("indirect", 1),
        _ => ("ff", random.random_range(1..3)),
    };
    let buckets = (0..count).map(|_| {
        let watched = (kind == "ff").then(|| random.random_range(1..=config.ports));
        (watched, draw_bucket(random, config, id))
    });
    RandomGroup {
        id,
        kind,
        buckets: buckets.collect(),
    }
}

fn draw_bucket(random: &mut Random, config: &RandomConfig, id: u32) -> Vec<Action> {
    let mut actions = Vec::new();
    while random.random_ratio(1, 3) {
        let fields = [
            Field::EthSrc,
            Field::EthDst,
            Field::Register(1),
            Field::Metadata,
        ];
        let field = *pick(random, &fields);
        actions.push(Action::SetField(
            field,
            draw_value(random, field, config.ports),
        ));
    }
    match random.random_range(0..8_u8) {
        0 => actions.push(Action::PopVlan),
        1 => actions.push(Action::PushVlan(0x8100)),
        2 => actions.push(Action::SetField(Field::IpDst, 0x0a00_0001)),
        3 => actions.push(Action::DecTtl),
        _ => {}
    }
    let last_table = config.tables - 1;
    actions.push(match random.random_range(0..12_u8) {
        0 => Action::Controller(u16::MAX),
        1 => Action::OutputReserved(ReservedPort::InPort),
        2 if id < GROUPS => Action::Group(random.random_range(id + 1..=GROUPS)),
        3 => Action::Resubmit(last_table),
        _ => Action::Output(random.random_range(1..=config.ports)),
    });
    actions
}
