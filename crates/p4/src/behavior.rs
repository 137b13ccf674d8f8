//! B-Cache's analysis of a program: what a packet's behaviour depends on, and what it produces.
//!
//! ```text
//!   S_pi    all valid inputs                                          (the pipeline a black box)
//!   S_pd    those of them that keys and conditions read                          (section III.A)
//!   S_s     less those that are always written before they are read
//!   sound   all that anything reads before it is written, parser and actions included
//! ```
//!
//! The paper's vector, S_s, leaves out fields that only actions read: a decremented TTL, the
//! inputs of a hash, the index of a register, a partly overwritten field. It also leaves out
//! the fields that decide how the packet is parsed. Two packets that agree in S_s may then
//! behave differently, so only the sound vector may be installed. The analysis reports both,
//! since the difference is the cost of soundness.
//!
//! Metadata that the parser fills counts as what it was copied from: a key of such metadata
//! reads the headers' fields.
//!
//! The compound actions of the cache table set each valid output that the pipeline writes. A
//! primitive that no assignment can express is odd, and each odd primitive doubles the actions.
//! With `n` outputs and `k` odd primitives there are `2^k` compound actions of `2^k n + k
//! 2^(k-1)` primitives in all. (The paper's figure 5 does not say so, but each of its columns
//! agrees.)
//!
//! 1. S_s is part of S_pd, S_pd of S_pi, and the sound vector of S_pi.
//!
//! Reference: Zhang et al., *B-Cache: A Behavior-Level Caching Framework for the Programmable
//! Data Plane*, sections II and III.

#[cfg(all(test, feature = "shared-data"))]
mod agreement;
mod dot;
mod graph;
mod objects;
mod reads;
mod statement;
#[cfg(test)]
mod tests;
pub mod transform;

use std::collections::BTreeSet;

pub use graph::{Edge, Graph, Vertex, VertexKind};
pub use objects::{Category, Object, ObjectId, Objects};
pub use statement::Effects;

use crate::error::LoadError;
use crate::program::Program;
use crate::program::action::Step;

use self::reads::Reader;

/// Maximum odd primitives for which copies are counted; more would give absurd numbers.
const MAX_ODD: u32 = 48;

/// A set of objects, with its size as a match vector.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Vector {
    /// The objects, by number.
    pub objects: BTreeSet<ObjectId>,
    /// Bits of all objects together.
    pub bits: u32,
}

/// A place where a remembered behaviour ends and the slow path continues.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StopPoint {
    /// The action, condition or table.
    pub node: String,
    /// Why it cannot be remembered.
    pub reason: &'static str,
}

/// B-Cache's view of a program.
#[derive(Clone, Debug)]
pub struct Analysis {
    /// All objects.
    pub objects: Objects,
    /// The statement control-flow graph.
    pub graph: Graph,
    /// All valid inputs: headers and intrinsic metadata.
    pub pi_vio: Vector,
    /// Those that keys and conditions read.
    pub pd_vio: Vector,
    /// Those that are not always written before: the paper's match vector.
    pub s_vio: Vector,
    /// The sound match vector.
    pub sound_vio: Vector,
    /// Valid outputs that the pipeline writes.
    pub valid_outputs: Vector,
    /// Primitives that no assignment can express, each with what it acts on.
    pub odd_primitives: Vec<String>,
    /// Where remembered behaviours end.
    pub stop_points: Vec<StopPoint>,
}

impl Analysis {
    /// Analyses a program in p4c's JSON for BMv2.
    ///
    /// # Errors
    /// As for [`Program::from_json`].
    pub fn of_json(text: &str) -> Result<Analysis, LoadError> {
        Program::from_json(text).map(|program| Analysis::of(&program))
    }

    /// Analyses a program.
    pub fn of(program: &Program) -> Analysis {
        let objects = Objects::of(program);
        let reader = Reader {
            program,
            objects: &objects,
        };
        let graph = graph::of(reader);
        let kept = kept_by_passes(reader);
        Analysis::new(objects, graph, &kept)
    }

    fn new(objects: Objects, graph: Graph, kept: &BTreeSet<ObjectId>) -> Analysis {
        let before = written_before(&graph);
        let is_input = |id: ObjectId| {
            let category = objects.get(id).category;
            category.is_valid() && category.is_stateless()
        };
        let is_sound_input = |id: ObjectId| is_input(id) || kept.contains(&id);
        let vector = |ids: BTreeSet<ObjectId>| Vector {
            bits: ids.iter().map(|id| objects.get(*id).bits).sum(),
            objects: ids,
        };
        let (mut matched, mut matched_early, mut read_early) =
            (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for (vertex, written) in graph.vertices.iter().zip(&before) {
            for id in &vertex.effects.matched {
                let is_early = !written.contains(id);
                for source in graph.sources(*id) {
                    matched.insert(source);
                    if is_early {
                        matched_early.insert(source);
                        read_early.insert(source);
                    }
                }
            }
            for id in vertex.effects.operands.difference(written) {
                read_early.extend(graph.sources(*id));
            }
        }
        let all: BTreeSet<ObjectId> = objects.iter().map(|(id, _)| id).collect();
        let inputs = |ids: BTreeSet<ObjectId>| ids.into_iter().filter(|id| is_input(*id)).collect();
        read_early.retain(|id| is_sound_input(*id));
        let actions = graph
            .vertices
            .iter()
            .filter(|one| one.kind == VertexKind::Action);
        let mut odd = BTreeSet::new();
        let mut outputs = BTreeSet::new();
        for action in actions {
            odd.extend(action.effects.odd.iter().cloned());
            let written = action.effects.may_write.iter().copied();
            outputs.extend(written.filter(|id| is_output(objects.get(*id))));
        }
        let mut stop_points: Vec<StopPoint> = Vec::new();
        for vertex in &graph.vertices {
            for reason in &vertex.effects.stops {
                let stop = StopPoint {
                    node: vertex.name.clone(),
                    reason,
                };
                if !stop_points.contains(&stop) {
                    stop_points.push(stop);
                }
            }
        }
        Analysis {
            pi_vio: vector(inputs(all)),
            pd_vio: vector(inputs(matched)),
            s_vio: vector(inputs(matched_early)),
            sound_vio: vector(read_early),
            valid_outputs: vector(outputs),
            odd_primitives: odd.into_iter().collect(),
            stop_points,
            objects,
            graph,
        }
    }

    /// Number of compound actions of the cache table; `None` with too many odd primitives.
    pub fn compound_actions(&self) -> Option<u64> {
        let odd = self.odd_primitives.len() as u32;
        (odd <= MAX_ODD).then(|| 1 << odd)
    }

    /// Primitives of all compound actions together; `None` as for
    /// [`Analysis::compound_actions`].
    pub fn total_primitives(&self) -> Option<u64> {
        let actions = self.compound_actions()?;
        let odd = self.odd_primitives.len() as u64;
        Some(actions * self.valid_outputs.objects.len() as u64 + odd * actions / 2)
    }

    /// Draws the graph in Graphviz's language.
    pub fn to_dot(&self) -> String {
        dot::draw(self)
    }
}

/// Whether assignments set it. Odd primitives set validity; nothing sets a meter's color.
fn is_output(object: &Object) -> bool {
    object.category.is_valid()
        && object.category != Category::Meter
        && !statement::is_validity(&object.name)
}

/// For each vertex, the objects written on every path to it.
fn written_before(graph: &Graph) -> Vec<BTreeSet<ObjectId>> {
    let mut before: Vec<Option<BTreeSet<ObjectId>>> = vec![None; graph.vertices.len()];
    before[0] = Some(BTreeSet::new());
    for (index, vertex) in graph.vertices.iter().enumerate() {
        let mut after = before[index].clone().unwrap_or_default();
        after.extend(&vertex.effects.written);
        for Edge { to, .. } in &vertex.next {
            let known = before[*to].take();
            before[*to] = Some(match known {
                Some(known) => known.intersection(&after).copied().collect(),
                None => after.clone(),
            });
        }
    }
    before.into_iter().map(Option::unwrap_or_default).collect()
}

/// Metadata that a resubmitted or recirculated packet may keep; a packet from a port has none.
fn kept_by_passes(reader: Reader<'_>) -> BTreeSet<ObjectId> {
    let mut kept = BTreeSet::new();
    let actions = reader.program.actions.iter();
    for step in actions.flat_map(|action| &action.steps) {
        if let Step::Resubmit(Some(list)) | Step::Recirculate(Some(list)) = step {
            let list = &reader.program.arrays.field_lists[list.index()];
            reader.fields(&list.fields, &mut kept);
        }
    }
    kept
}
