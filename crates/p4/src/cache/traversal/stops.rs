//! Reports where walks of a program may stop, before any packet arrives.
//!
//! ```text
//!   from a pipeline's start, each node after all that lead to it:
//!     a key, condition, selector or jump reads what is no function of the key   -> may stop here;
//!                                        a segment begins here, and has it in its own key
//!     a meter, a register, chance writes a word                  -> it is no function of the key
//!     a step reads such a word                                   -> nor is what it writes
//!     an assertion may end the packet                            -> another begins behind it
//! ```
//!
//! It may report too many stops, never too few: a packet that takes another path does not stop.

use std::collections::{BTreeMap, BTreeSet};

use crate::program::Program;
use crate::program::action::Step;
use crate::program::control::{NodeKind, Pipeline, in_order, successors};
use crate::program::exact;
use crate::program::ids::ActionId;

use super::facts::{Facts, deciding, steering};
use super::layout::Shape;

/// A node at which a remembered walk may stop.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CacheStop {
    /// The node of the control graph, by its name in the JSON.
    pub node: String,
    /// What it steers by.
    pub reason: &'static str,
}

const METER: &str = "steers by a meter's color";
const REGISTER: &str = "steers by a register";
const CHANCE: &str = "steers by chance, or by a hash of more than the headers";
const ENDS: &str = "may end the packet, so that another begins behind it";
const TOO_WIDE: &str = "no walk is remembered from here on: the key would be too wide";

/// Words that are no function of the key, with the reasons.
type Impure = BTreeMap<u32, BTreeSet<&'static str>>;

/// Where the walks of a program may stop, in the order of its graphs.
pub fn stop_points(program: &Program) -> Vec<CacheStop> {
    let facts = Facts::new(program);
    let shape = Shape::new(program, &facts);
    let mut stops = Vec::new();
    for pipeline in [&program.control.ingress, &program.control.egress] {
        let Some(start) = pipeline.start else {
            continue;
        };
        if shape.layout(program, &facts, start).is_none() {
            let node = program.control.nodes[start.index()].name.clone();
            stops.push(CacheStop {
                node,
                reason: TOO_WIDE,
            });
        }
        walk(program, &facts, pipeline, &mut stops);
    }
    stops
}

fn walk(program: &Program, facts: &Facts, pipeline: &Pipeline, stops: &mut Vec<CacheStop>) {
    let mut before: BTreeMap<u32, Impure> = BTreeMap::new();
    for id in in_order(program, pipeline) {
        let node = &program.control.nodes[id.index()];
        let mut impure = before.remove(&id.0).unwrap_or_default();
        let mut actions = Vec::new();
        steering(program, node, &mut actions);
        let (reads, is_pure) = deciding(program, node);
        let mut reasons: BTreeSet<&str> = reads
            .iter()
            .filter_map(|word| impure.get(word))
            .flatten()
            .copied()
            .collect();
        reasons.extend((!is_pure).then_some(CHANCE));
        if !reasons.is_empty() {
            // The key of the segment that begins here has all frame words to steer by.
            impure.clear();
        }
        let mut after = impure.clone();
        let meter = match node.kind {
            NodeKind::Table(table) => program.table(table).meter,
            _ => None,
        };
        if let Some(meter) = meter
            && let Some(result) = program.arrays.meters[meter.index()].result
        {
            for word in exact::range(program.headers.field(result)) {
                impure.entry(word as u32).or_default().insert(METER);
            }
        }
        for action in actions {
            let own = run(program, facts, action, impure.clone(), &mut reasons);
            for (word, why) in own {
                after.entry(word).or_default().extend(why);
            }
        }
        for (word, why) in impure {
            after.entry(word).or_default().extend(why);
        }
        stops.extend(reasons.into_iter().map(|reason| CacheStop {
            node: node.name.clone(),
            reason,
        }));
        for next in successors(node, &program.tables) {
            let known = before.entry(next.0).or_default();
            for (word, why) in &after {
                known.entry(*word).or_default().extend(why);
            }
        }
    }
}

/// Updates the impure words for an action, and adds what it steers by to `reasons`.
fn run(
    program: &Program,
    facts: &Facts,
    id: ActionId,
    mut impure: Impure,
    reasons: &mut BTreeSet<&'static str>,
) -> Impure {
    let known = facts.action(id);
    for (step, own) in program.action(id).steps.iter().zip(&known.steps) {
        let mut why: BTreeSet<&str> = own
            .reads
            .iter()
            .filter_map(|word| impure.get(word))
            .flatten()
            .copied()
            .collect();
        // An action that is whole is one operation, jumps included.
        if matches!(step, Step::JumpIfZero(..)) && !known.is_whole {
            reasons.extend(&why);
        }
        reasons.extend(own.may_end.then_some(ENDS));
        why.extend(own.is_impure.then_some(match step {
            Step::Meter(..) => METER,
            Step::ReadRegister(..) => REGISTER,
            _ => CHANCE,
        }));
        for &word in &own.writes {
            match why.is_empty() {
                true if own.writes_all => drop(impure.remove(&word)),
                true => {}
                false => impure.entry(word).or_default().extend(&why),
            }
        }
    }
    impure
}
