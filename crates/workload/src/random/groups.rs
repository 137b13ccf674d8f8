//! Random groups for the rules of broad pipelines.
//!
//! A bucket holds an action *set* (OpenFlow 1.5.1, section 5.6). Here it is written as a list
//! in any order, with repeated actions and actions that no set can hold. A group may lead to
//! one with a higher number, and to the last table, whose rules use no groups; so every walk
//! ends. It may watch ports, of which one does not exist, and groups with higher numbers.

use std::fmt;

use rand::Rng;
use rand::seq::SliceRandom;

use super::RandomConfig;
use super::pool::draw_value;
use super::shape::Shape;
use super::tracking;
use crate::action::{Action, FieldSlice, ReservedPort, write_list};
use crate::field::{Field, prefix_mask};
use crate::rule::Match;
use crate::seed::{Random, index_below, pick, stream};

/// The last number of the groups used by rules, which start at 1.
pub(super) const GROUPS: u32 = 5;

/// The last number of all groups; only buckets name or watch those above [`GROUPS`].
const ALL_GROUPS: u32 = 8;

/// A group and its buckets.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct RandomGroup {
    /// Its number.
    pub id: u32,
    /// Whether only buckets name it, so that it can be removed while rules stay.
    pub is_inner: bool,
    /// `all`, `indirect`, `ff` or `select`, with the selection method.
    pub kind: &'static str,
    /// Its buckets.
    pub buckets: Vec<RandomBucket>,
}

/// One of a group's alternatives.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct RandomBucket {
    /// Its share of a select group's packets.
    pub weight: Option<u16>,
    /// The port that it watches, if any.
    pub watch_port: Option<u32>,
    /// The group that it watches, if any.
    pub watch_group: Option<u32>,
    /// Its actions.
    pub actions: Vec<Action>,
}

impl fmt::Display for RandomGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "group_id={},type={}", self.id, self.kind)?;
        for bucket in &self.buckets {
            f.write_str(",bucket=")?;
            if let Some(weight) = bucket.weight {
                write!(f, "weight:{weight},")?;
            }
            if let Some(port) = bucket.watch_port {
                write!(f, "watch_port:{port},")?;
            }
            if let Some(group) = bucket.watch_group {
                write!(f, "watch_group:{group},")?;
            }
            f.write_str("actions=")?;
            if bucket.actions.is_empty() {
                f.write_str("drop")?;
            }
            write_list(f, &bucket.actions)?;
        }
        Ok(())
    }
}

/// The groups of a pipeline, in any order.
pub(super) fn draw_groups(config: &RandomConfig, seed: u64) -> Vec<RandomGroup> {
    let mut random = stream(seed, "random groups");
    if !config.is_broad {
        return Vec::new();
    }
    let groups = 1..=ALL_GROUPS;
    let mut groups: Vec<RandomGroup> = groups
        .map(|id| draw_group(&mut random, config, id))
        .collect();
    groups.shuffle(&mut random);
    groups
}

fn draw_group(random: &mut Random, config: &RandomConfig, id: u32) -> RandomGroup {
    let (kind, count) = match random.random_range(0..7_u8) {
        0..2 => ("all", random.random_range(0..4)),
        2 => ("indirect", 1),
        3..5 => ("ff", random.random_range(1..4)),
        5 => (
            "select,selection_method=hash,fields(eth_dst,ip_src)",
            random.random_range(1..4),
        ),
        _ if config.selects => ("select", random.random_range(1..4)),
        _ => ("select,selection_method=hash,fields(eth_src)", 2),
    };
    let mut buckets: Vec<RandomBucket> = (0..count)
        .map(|_| RandomBucket {
            actions: draw_bucket(random, config, id),
            ..RandomBucket::default()
        })
        .collect();
    if kind == "ff" {
        for bucket in &mut buckets {
            draw_watched(random, config, id, bucket);
        }
    }
    if kind.starts_with("select") {
        draw_shares(random, config, id, &mut buckets);
    }
    RandomGroup {
        id,
        is_inner: id > GROUPS,
        kind,
        buckets,
    }
}

/// Gives a bucket a port, a group or both to watch.
fn draw_watched(random: &mut Random, config: &RandomConfig, id: u32, bucket: &mut RandomBucket) {
    if id < ALL_GROUPS && random.random_ratio(3, 5) {
        bucket.watch_group = Some(random.random_range(id + 1..=ALL_GROUPS));
    }
    if bucket.watch_group.is_none() || random.random_ratio(1, 4) {
        bucket.watch_port = Some(random.random_range(1..=config.ports + 1));
    }
}

/// Sets the weights of a select group's buckets; without [`RandomConfig::selects`] one has
/// all.
fn draw_shares(random: &mut Random, config: &RandomConfig, id: u32, buckets: &mut [RandomBucket]) {
    let favourite = index_below(random, buckets.len());
    for (index, bucket) in buckets.iter_mut().enumerate() {
        let weight = random.random_range(0..4);
        bucket.weight = Some(match index == favourite {
            true => weight + 1,
            false if config.selects => weight,
            false => 0,
        });
        if random.random_ratio(1, 3) {
            draw_watched(random, config, id, bucket);
        }
    }
}

fn draw_bucket(random: &mut Random, config: &RandomConfig, id: u32) -> Vec<Action> {
    let mut actions = Vec::new();
    while random.random_ratio(1, 2) {
        actions.push(draw_write(random, config));
    }
    match random.random_range(0..12_u8) {
        0 => actions.push(Action::PopVlan),
        1 => actions.push(Action::PushVlan(0x8100)),
        2 => actions.push(Action::SetField(Field::IpDst, 0x0a00_0001)),
        3 => actions.push(Action::DecTtl),
        4 => actions.extend([Action::PushVlan(0x8100), Action::PushVlan(0x88a8)]),
        5 => actions.push(draw_ignored(random, config)),
        _ => {}
    }
    if config.tracks && random.random_ratio(1, 2) {
        // In a set it is executed if nothing sends the packet.
        // Nothing is known of a group's packets, and a switch does not ask.
        let shape = Shape::of(&Match::ipv4(), None);
        actions.push(tracking::draw_end(random, config, &shape));
        return actions;
    }
    let ends = if random.random_ratio(1, 8) { 2 } else { 1 };
    for _ in 0..ends {
        actions.push(draw_end(random, config, id));
    }
    if random.random_ratio(1, 4) {
        actions.shuffle(random);
    }
    actions
}

/// A write to all or part of a field that every packet has.
fn draw_write(random: &mut Random, config: &RandomConfig) -> Action {
    let fields = [
        Field::EthSrc,
        Field::EthDst,
        Field::Register(0),
        Field::Register(1),
        Field::Metadata,
    ];
    let field = *pick(random, &fields);
    let value = draw_value(random, field, config.ports);
    let width = field.width_bits();
    match random.random_range(0..4_u8) {
        0 => {
            let length = random.random_range(4..=width);
            Action::SetMasked(field, value, prefix_mask(length, width))
        }
        1 => {
            let start = random.random_range(0..=width - 8);
            Action::Load(random.random::<u8>().into(), byte(field, start))
        }
        2 => {
            let source = *pick(random, &fields);
            let from = random.random_range(0..=source.width_bits() - 8);
            let start = random.random_range(0..=width - 8);
            Action::Move(byte(source, from), byte(field, start))
        }
        _ => Action::SetField(field, value),
    }
}

fn byte(field: Field, start: u32) -> FieldSlice {
    FieldSlice {
        field,
        start,
        count: 8,
    }
}

/// An action that no action set can hold.
fn draw_ignored(random: &mut Random, config: &RandomConfig) -> Action {
    let port = random.random_range(1..=config.ports);
    match random.random_range(0..5_u8) {
        0 => Action::Clone(vec![Action::Output(port)]),
        1 => Action::Exit,
        2 => Action::OutputRegister(random.random_range(0..2)),
        3 => Action::Push(byte(Field::Register(0), 0)),
        _ => Action::Pop(byte(Field::Register(1), 0)),
    }
}

fn draw_end(random: &mut Random, config: &RandomConfig, id: u32) -> Action {
    let last_table = config.tables - 1;
    match random.random_range(0..12_u8) {
        0 => Action::Controller(u16::MAX),
        1 => Action::OutputReserved(ReservedPort::InPort),
        2 | 3 if id < ALL_GROUPS => Action::Group(random.random_range(id + 1..=ALL_GROUPS)),
        4 => Action::Resubmit(last_table),
        _ => Action::Output(random.random_range(1..=config.ports)),
    }
}
