//! Builds an answer from the steps of a walk: the rules met, and a list of effects.
//!
//! The circuit knows the steps: the walk at each lookup, and the rule that won. The answer is
//! built on demand, and can be compared with the interpreter's.
//!
//! 1. Reasons for drops come first, each once with its count, the latest last; rewrites with
//!    no later output are left out. So two equal answers are equal values.

use thalweg_packet::PortId;
use thalweg_pipeline::{DropReason, Effect, RuleId, TableId};

use crate::perform::{Shape, perform};
use crate::rows::NO_RULE;
use crate::view::StepRows;

/// The query's answer for a recorded packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// The lookups in order, and the winning rule of each.
    pub lookups: Vec<(TableId, Option<RuleId>)>,
    /// The outcome for the packet, or why the query does not know it.
    pub end: End,
}

/// The end of a walk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum End {
    /// The walk ends with these effects.
    Effects(Vec<Effect>),
    /// The packet must be parsed again, which no query over its recorded words can do.
    Recirculates,
    /// The walk has more lookups than the circuit has steps.
    TooDeep,
    /// A field holds the number of `all`, `flood` or `normal`, which are not modelled.
    Floods,
}

/// Builds an answer.
pub(crate) fn assemble(
    shape: &Shape,
    steps: &[StepRows],
    has_port: &dyn Fn(PortId) -> bool,
) -> Answer {
    let mut lookups = Vec::with_capacity(steps.len());
    let mut effects = Vec::new();
    let mut drops: Vec<(DropReason, u32)> = Vec::new();
    let mut missed = None;
    let mut is_frozen = false;
    let mut is_over = false;
    let mut floods = false;
    for (walk, rule) in steps {
        let table = TableId(walk.table.into());
        let winner = (rule.rule != NO_RULE).then_some(RuleId(rule.rule));
        lookups.push((table, winner));
        if winner.is_none() {
            missed = Some(table);
        }
        let mut deed = perform(shape, walk, rule, has_port);
        effects.append(&mut deed.effects);
        deed.drops
            .iter()
            .for_each(|reason| count(&mut drops, *reason));
        is_frozen = deed.is_frozen;
        is_over = deed.next.is_none();
        floods |= deed.floods;
    }
    let end = if is_frozen {
        End::Recirculates
    } else if is_over && floods {
        End::Floods
    } else if is_over {
        End::Effects(finish(effects, drops, missed))
    } else {
        End::TooDeep
    };
    Answer { lookups, end }
}

fn count(drops: &mut Vec<(DropReason, u32)>, reason: DropReason) {
    let known = drops.iter().position(|(known, _)| *known == reason);
    let before = known.map_or(0, |place| drops.remove(place).1);
    drops.push((reason, before + 1));
}

/// Finishes the list of effects (invariant 1).
fn finish(
    mut effects: Vec<Effect>,
    mut drops: Vec<(DropReason, u32)>,
    missed: Option<TableId>,
) -> Vec<Effect> {
    let last_send = effects.iter().rposition(is_send);
    effects.truncate(last_send.map_or(0, |last| last + 1));
    if last_send.is_none() && drops.is_empty() {
        drops.push((missed.map_or(DropReason::Action, DropReason::TableMiss), 1));
    }
    let drops = drops
        .into_iter()
        .map(|(reason, copies)| Effect::Drop { reason, copies });
    drops.chain(effects).collect()
}

fn is_send(effect: &Effect) -> bool {
    matches!(effect, Effect::Output(_) | Effect::Controller { .. })
}
