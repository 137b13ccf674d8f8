//! The action `learn(...)`: rules that packets make.
//!
//! A walk reads what the action names from the packet and makes the new rule of it, a constant
//! that its effects carry ([`crate::Effect::LearnRule`]). Each packet of a remembered answer brings
//! the same rule again, so that the owner of the pipeline can add it, or note that it was used. The
//! rule is a change like others: the packet that taught it does not see it.
//!
//! `limit=N` bounds the rules with one cookie in a table. Workers ask [`LearnedCounts`], which all
//! share, so that the bound is exact although rules are added later.
//!
//! Source: `ovs-actions(7)`, "The learn action"; `learn_execute` in Open vSwitch.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};
use std::sync::{Mutex, MutexGuard, PoisonError};

use thalweg_classifier::RuleId;
use thalweg_packet::{PortId, standard as f};

use crate::action::{Action, Output, Slice, Subfield, TableId, Write};
use crate::change::{Selector, Target};
use crate::flow::Flow;
use crate::matching::Match;
use crate::pipeline::Pipeline;
use crate::prepare::Delta;
use crate::state::PORT_BITS;

/// The most pairs of table and cookie whose rules are counted.
const MAX_COUNTED: usize = 65_536;

/// What `learn(...)` makes of a packet.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Learning {
    /// The new rule's table.
    pub table: TableId,
    /// Its priority.
    pub priority: u16,
    /// Its cookie.
    pub cookie: u64,
    /// Its idle timeout in seconds; 0 for none.
    pub idle_timeout_s: u16,
    /// Its hard timeout in seconds; 0 for none. Counts from the last packet that taught it.
    pub hard_timeout_s: u16,
    /// Its idle timeout after a FIN or RST of TCP; 0 to keep the other.
    pub fin_idle_timeout_s: u16,
    /// Its hard timeout after a FIN or RST of TCP; 0 to keep the other.
    pub fin_hard_timeout_s: u16,
    /// Whether the controller is told when it ends (`send_flow_rem`).
    pub reports_removal: bool,
    /// Whether the rules with this table and cookie go with the last rule that learns them
    /// (`delete_learned`).
    pub deletes_learned: bool,
    /// The most rules of the table with this cookie; 0 for no bound.
    pub limit: u32,
    /// The bit that tells whether the rule is there or was refused for the bound (`result_dst`).
    pub result: Option<Subfield>,
    /// What the rule matches and does.
    pub parts: Box<[LearnPart]>,
}

/// A condition or an action of a learned rule.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct LearnPart {
    /// Where its bits come from.
    pub source: LearnedBits,
    /// What the rule does with them.
    pub target: LearnTarget,
}

/// Where a learned rule has bits from.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum LearnedBits {
    /// The packet.
    Field(Subfield),
    /// The rule that learns.
    Constant {
        /// The bits.
        value: u128,
        /// How many there are.
        width_bits: u16,
    },
}

impl LearnedBits {
    /// How many bits there are.
    pub fn width_bits(&self) -> u16 {
        match self {
            LearnedBits::Field(bits) => bits.width_bits(),
            LearnedBits::Constant { width_bits, .. } => *width_bits,
        }
    }
}

/// What a learned rule does with bits.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum LearnTarget {
    /// It matches them.
    Match(Subfield),
    /// It writes them.
    Load(Subfield),
    /// It sends to the port that they name.
    Output,
}

impl Learning {
    /// The rule for a packet, of which `read` reads bits.
    pub(crate) fn flow(&self, has_bridges: bool, mut read: impl FnMut(&Subfield) -> u128) -> Flow {
        let mut matching = Match::default();
        let mut actions = Vec::new();
        if self.fin_idle_timeout_s != 0 || self.fin_hard_timeout_s != 0 {
            actions.push(Action::FinTimeout {
                idle_s: self.fin_idle_timeout_s,
                hard_s: self.fin_hard_timeout_s,
            });
        }
        for part in &self.parts {
            let value = match &part.source {
                LearnedBits::Field(bits) => read(bits),
                LearnedBits::Constant { value, .. } => *value,
            };
            match &part.target {
                LearnTarget::Match(bits) => self.add_conditions(&mut matching, bits, value),
                LearnTarget::Load(bits) => actions.push(Action::SetField(writes(bits, value))),
                LearnTarget::Output => actions.extend(self.output(has_bridges, value)),
            }
        }
        Flow {
            table: self.table,
            priority: self.priority,
            cookie: self.cookie,
            idle_timeout_s: self.idle_timeout_s,
            hard_timeout_s: self.hard_timeout_s,
            reports_removal: self.reports_removal,
            matching,
            actions: actions.into(),
            ..Flow::default()
        }
    }

    /// Adds conditions on bits. Bits named twice have the later value, as in Open vSwitch.
    fn add_conditions(&self, matching: &mut Match, bits: &Subfield, value: u128) {
        for (slice, value) in split(bits, value) {
            let ones = u128::MAX >> (128 - slice.width_bits);
            let (value, mask) = match slice.field {
                // A port is matched as a whole, in the bridge of the rule.
                f::IN_PORT => {
                    let port = self.table.bridge().port(value as u16);
                    (u128::from(port.0), u128::from(u32::MAX))
                }
                _ => (value << slice.offset, ones << slice.offset),
            };
            matching.replace(slice.field, value, mask);
        }
    }

    /// The output to the port with this number; none for a number that Open vSwitch ignores.
    fn output(&self, has_bridges: bool, number: u128) -> Option<Action> {
        let number = u16::try_from(number).ok()?;
        let port = match has_bridges {
            true => self.table.bridge().port(number),
            false => PortId(number.into()),
        };
        match Output::reserved(PortId(number.into())) {
            Some(output @ (Output::InPort | Output::Flood | Output::Local | Output::All)) => {
                Some(Action::Output(output))
            }
            None if number < 0xff00 => Some(Action::Output(Output::Port(port))),
            _ => None,
        }
    }
}

/// The writes of a number to bits; of the input port only the port's own bits.
fn writes(bits: &Subfield, value: u128) -> Box<[Write]> {
    let writes = split(bits, value).map(|(slice, value)| {
        let mask = (u128::MAX >> (128 - slice.width_bits)) << slice.offset;
        let value = value << slice.offset;
        match slice.field {
            f::IN_PORT => Write {
                field: f::IN_PORT,
                value: value & u128::from(PORT_BITS),
                mask: u128::from(u32::MAX),
            },
            field => Write { field, value, mask },
        }
    });
    writes.collect()
}

/// The slices of a subfield, each with its part of a number.
fn split(bits: &Subfield, value: u128) -> impl Iterator<Item = (Slice, u128)> {
    let mut rest = value;
    bits.slices.iter().map(move |slice| {
        let ones = u128::MAX >> (128 - slice.width_bits);
        let part = rest & ones;
        rest = rest.checked_shr(slice.width_bits.into()).unwrap_or(0);
        (*slice, part)
    })
}

/// A rule that a packet has taught.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct LearnedRule {
    /// The rule.
    pub flow: Flow,
    /// The most rules of its table with its cookie; 0 for no bound.
    pub limit: u32,
    /// A hash of the rule's place: its table, its conditions and its priority.
    pub place_hash: u64,
    /// A hash of all that is learned.
    pub whole_hash: u64,
}

impl LearnedRule {
    /// A rule; its hashes are salted by `seed`.
    pub fn new(flow: Flow, limit: u32, seed: u64) -> LearnedRule {
        LearnedRule {
            place_hash: place_hash(&flow, seed),
            whole_hash: hash((seed, &flow, limit)),
            flow,
            limit,
        }
    }

    /// The rule in its place, if there is one.
    pub fn selector(&self) -> Selector {
        Selector {
            table: Some(self.flow.table),
            matching: self.flow.matching.clone(),
            strict_priority: Some(self.flow.priority),
            ..Selector::default()
        }
    }
}

fn hash(what: impl Hash) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(what)
}

/// A table of a bridge, and a cookie.
pub type LearnedCookie = (TableId, u64);

/// The rules of each cookie that a bounded `learn` counts, those on their way included.
#[derive(Debug, Default)]
pub struct LearnedCounts {
    /// The places of the rules, as [`LearnedRule::place_hash`].
    counted: Mutex<HashMap<LearnedCookie, HashSet<u64>>>,
}

impl LearnedCounts {
    fn counted(&self) -> MutexGuard<'_, HashMap<LearnedCookie, HashSet<u64>>> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there is room for a rule, or the rule is there; it counts from now on.
    pub fn admit(&self, rule: &LearnedRule) -> bool {
        if rule.limit == 0 {
            return true;
        }
        let flow = &rule.flow;
        let mut counted = self.counted();
        let key = (flow.table, flow.cookie);
        if !counted.contains_key(&key) && counted.len() >= MAX_COUNTED {
            return false;
        }
        let places = counted.entry(key).or_default();
        if places.contains(&rule.place_hash) {
            return true;
        }
        let has_room = places.len() < rule.limit as usize;
        if has_room {
            places.insert(rule.place_hash);
        }
        has_room
    }

    /// Makes room again for a rule that was not told or not added, unless it is there: then another
    /// lesson about it was. No change can be published meanwhile.
    pub fn withdraw(&self, pipeline: &Pipeline, rule: &LearnedRule) {
        let flow = &rule.flow;
        if rule.limit == 0 {
            return;
        }
        let found = pipeline.rules_selected(&rule.selector(), &Target::default());
        let is_there = |id: &RuleId| {
            let rule = pipeline.rule(*id);
            rule.is_some_and(|rule| rule.cookie == flow.cookie)
        };
        if !found.iter().any(is_there)
            && let Some(places) = self.counted().get_mut(&(flow.table, flow.cookie))
        {
            places.remove(&rule.place_hash);
        }
    }

    /// Follows a change of the pipeline, which still knows the rules that it removed. Workers wait
    /// for what the change has removed and added, not for the look at all rules that new bounds
    /// take.
    pub fn follow(&self, pipeline: &Pipeline, delta: &Delta) {
        let mut new: HashMap<LearnedCookie, HashSet<u64>> = HashMap::new();
        let bounded = bounded(pipeline, &delta.inserted);
        if !bounded.is_empty() {
            let counted = self.counted();
            let cookies = bounded.iter().map(|of| (of.table, of.cookie));
            new.extend(
                cookies
                    .filter(|cookie| !counted.contains_key(cookie))
                    .map(|cookie| (cookie, HashSet::new())),
            );
        }
        if !new.is_empty() {
            for (id, rule) in pipeline.rules(delta.version) {
                if let Some(places) = new.get_mut(&(rule.table, rule.cookie)) {
                    places.extend(place_of(pipeline, id));
                }
            }
        }
        let mut counted = self.counted();
        for (cookie, places) in new {
            // A worker may have admitted one meanwhile.
            let is_known = counted.contains_key(&cookie);
            if is_known || counted.len() < MAX_COUNTED {
                counted.entry(cookie).or_default().extend(places);
            }
        }
        if counted.is_empty() {
            return;
        }
        let mut note = |id: RuleId, is_there: bool| {
            let rule = pipeline.rule(id);
            let places = rule.and_then(|rule| counted.get_mut(&(rule.table, rule.cookie)));
            if let (Some(places), Some(place)) = (places, place_of(pipeline, id)) {
                match is_there {
                    true => places.insert(place),
                    false => places.remove(&place),
                };
            }
        };
        // A rule that is replaced keeps its place.
        delta.removed.iter().for_each(|id| note(*id, false));
        delta.inserted.iter().for_each(|id| note(*id, true));
    }
}

/// The hash of a rule's place.
fn place_of(pipeline: &Pipeline, id: RuleId) -> Option<u64> {
    let flow = pipeline.flow_of(id)?;
    Some(place_hash(&flow, pipeline.seed()))
}

fn place_hash(flow: &Flow, seed: u64) -> u64 {
    hash((seed, flow.table, flow.priority, &flow.matching))
}

/// What rules learn within a bound.
fn bounded<'a>(pipeline: &'a Pipeline, rules: &'a [RuleId]) -> Vec<&'a Learning> {
    let rules = rules.iter().filter_map(|id| pipeline.rule(*id));
    let mut found = Vec::new();
    for rule in rules {
        each_learning(&rule.actions, &mut |learning| {
            if learning.limit != 0 {
                found.push(learning);
            }
        });
    }
    found
}

/// Calls `see` with each `learn` of a list and of those nested in it.
pub fn each_learning<'a>(list: &'a [Action], see: &mut impl FnMut(&'a Learning)) {
    for action in list {
        match action {
            Action::Learn(learning) => see(learning),
            Action::Clone(nested) | Action::WriteActions(nested) => each_learning(nested, see),
            _ => {}
        }
    }
}
