//! The circuit: takes relations of rules and packets, and yields the steps of walks.
//!
//! ```text
//!   masks, by table ──┬─ union ─────────┐
//!   rules, by join key│──────────┐      │          for each step:
//!                     │          │      │
//!   walks in front of step i ────│──────⋈──┐       the words that the table looks at: a header
//!                     │          │      │  │
//!                     │          │   distinct      each header once, however many walks have it
//!                     └──────────│──────⋈  │       one row for each mask of the table, by join key
//!                                └──────⋈  │       rules that match the header
//!                                       │  │
//!                                      max │       the rule that wins for the header
//!                                       └──⋈       ... and for the walks that have it
//!                                          ├─────> answers, by (entry, step)
//!                                          └ perform ─> walks in front of step i + 1
//! ```
//!
//! Every arrow is a stream of changes (Z-sets: rows with weights), and every join and `max` is
//! incremental. So a transaction costs in proportion to the changes, not to the stored rows.
//! This is tuple space search as a query: a rule is joined by equality with the headers that
//! agree with it on its mask. A join by table with the match as a filter would need no row per
//! mask, but every change of a rule would visit every walk in its table.
//!
//! A table sees only the bits in its masks, which keeps changes small. If a route gets another
//! next hop, all walks behind it change, but no header of the access list: it matches
//! addresses that the route did not touch.
//!
//! 1. All steps have the same form, and the table is data. So the same circuit answers every
//!    traversal of at most as many lookups as there are steps, including new ones.
//! 2. A walk has exactly one winner at each step: the row of a miss is below the rules of a
//!    table.
//! 3. Join keys may collide by chance; the join with the rules compares words.
//! 4. Every rule's mask is among the masks. The masks are a separate relation, not the
//!    distinct masks of the rules, so that a mask may stay when its last rule is removed.
//!    Removing it, and inserting it again when the rule returns, would each cost a row per
//!    header of the table.
//! 5. The mask of a rule lies within the union of its table's masks, so all walks with a
//!    header match the same rules as the header.
//!
//! Costs, for a table with `H` headers and `M` masks:
//! - `H * M` rows (a key, and a pointer to the header);
//! - for a rule with a known mask, the headers that agree with it on its mask, and the walks
//!   of those for which it wins or won;
//! - for a new mask, `H` rows; if it has bits that no other has, every header of the table
//!   again.
//!
//! References: Budiu et al., *DBSP: Automatic Incremental View Maintenance for Rich Query
//! Languages*, VLDB 2023; Srinivasan et al., *Packet Classification using Tuple Space Search*,
//! SIGCOMM 1999.

use std::sync::Arc;

use dbsp::algebra::Semigroup;
use dbsp::operator::{Fold, Max};
use dbsp::typed_batch::{IndexedZSetReader, SpineSnapshot};
use dbsp::utils::Tup2;
use dbsp::{
    DBSPHandle, OrdIndexedZSet, OutputHandle, RootCircuit, Runtime, Stream, ZSetHandle, ZWeight,
};

use crate::perform::{Shape, perform};
use crate::rows::{HeaderRow, RuleRow, WalkRow, join_key};

type Walk = Arc<WalkRow>;
type Header = Arc<HeaderRow>;
type Rule = Arc<RuleRow>;
/// A table, and a mask of one of its rules.
type Mask = Tup2<u8, Vec<u64>>;
type Winners = OrdIndexedZSet<Walk, Rule>;
/// By entry and step: the walk at the lookup, and the winning rule.
type Steps = OrdIndexedZSet<Tup2<u32, u8>, Tup2<Walk, Rule>>;

/// A circuit in its own thread, with its inputs and outputs.
pub(crate) struct Circuit {
    handle: DBSPHandle,
    masks: ZSetHandle<Mask>,
    rules: ZSetHandle<Rule>,
    walks: ZSetHandle<Walk>,
    steps: OutputHandle<SpineSnapshot<Steps>>,
}

/// A step of an entry that was added or removed.
pub(crate) struct StepChange {
    pub(crate) entry: u32,
    pub(crate) step: u8,
    pub(crate) walk: Walk,
    pub(crate) rule: Rule,
    pub(crate) is_new: bool,
}

impl Circuit {
    /// Creates a circuit of `steps` steps, without rules or walks.
    pub(crate) fn new(shape: &Arc<Shape>, steps: usize) -> Result<Circuit, dbsp::Error> {
        let shape = Arc::clone(shape);
        let build = move |circuit: &mut RootCircuit| Ok(build(circuit, &shape, steps));
        let (handle, (masks, rules, walks, steps)) = Runtime::init_circuit(1, build)?;
        Ok(Circuit {
            handle,
            masks,
            rules,
            walks,
            steps,
        })
    }

    /// Adds a mask with the next transaction (invariant 4).
    pub(crate) fn push_mask(&self, table: u8, mask: Vec<u64>) {
        self.masks.push(Tup2(table, mask), 1);
    }

    /// Adds (1) or removes (-1) a rule with the next transaction.
    pub(crate) fn push_rule(&self, rule: Rule, weight: ZWeight) {
        self.rules.push(rule, weight);
    }

    /// Adds (1) or removes (-1) a recorded packet with the next transaction.
    pub(crate) fn push_walk(&self, walk: Walk, weight: ZWeight) {
        self.walks.push(walk, weight);
    }

    /// Runs one transaction of all pushed rows; calls `each` for every changed step.
    pub(crate) fn transact(&mut self, mut each: impl FnMut(StepChange)) -> Result<(), dbsp::Error> {
        self.handle.transaction()?;
        let changes = self.steps.concat().consolidate();
        for (Tup2(entry, step), Tup2(walk, rule), weight) in changes.iter() {
            each(StepChange {
                entry,
                step,
                walk,
                rule,
                is_new: weight > 0,
            });
        }
        Ok(())
    }
}

type Handles = (
    ZSetHandle<Mask>,
    ZSetHandle<Rule>,
    ZSetHandle<Walk>,
    OutputHandle<SpineSnapshot<Steps>>,
);

fn build(circuit: &mut RootCircuit, shape: &Arc<Shape>, steps: usize) -> Handles {
    let (masks, mask_handle) = circuit.add_input_zset::<Mask>();
    let (rules, rule_handle) = circuit.add_input_zset::<Rule>();
    let (mut walks, walk_handle) = circuit.add_input_zset::<Walk>();
    let masks = masks.map_index(|Tup2(table, mask)| (*table, mask.clone()));
    let unions = masks.aggregate(Fold::<_, _, Union, _, _>::new(Vec::new(), add_mask));
    let rules = rules.map_index(|rule| {
        let key = join_key(rule.table, &rule.mask, &rule.value);
        (key, Arc::clone(rule))
    });
    let mut answers: Vec<Stream<RootCircuit, Steps>> = Vec::with_capacity(steps);
    for step in 0..steps {
        let headers = walks
            .map_index(|walk| (walk.table, Arc::clone(walk)))
            .join_index(&unions, |table, walk: &Walk, union: &Vec<u64>| {
                let header = HeaderRow::new(*table, &walk.words, union);
                Some((Arc::new(header), Arc::clone(walk)))
            });
        let best = headers
            .map_index(|(header, _)| (header.table, Arc::clone(header)))
            .distinct()
            .join_index(&masks, |table, header: &Header, mask: &Vec<u64>| {
                Some((join_key(*table, mask, &header.words), Arc::clone(header)))
            })
            .join_index(&rules, |_, header: &Header, rule: &Rule| {
                // Invariant 3.
                let is_match = header.table == rule.table && rule.matches(&header.words);
                is_match.then(|| (Arc::clone(header), Arc::clone(rule)))
            })
            .aggregate(Max);
        let winners: Stream<RootCircuit, Winners> = headers
            .join_index(&best, |_, walk: &Walk, rule: &Rule| {
                Some((Arc::clone(walk), Arc::clone(rule)))
            });
        answers.push(winners.map_index(move |(walk, rule)| {
            let key = Tup2(walk.entry, step as u8);
            (key, Tup2(Arc::clone(walk), Arc::clone(rule)))
        }));
        if step + 1 < steps {
            let shape = Arc::clone(shape);
            walks = winners.flat_map(move |(walk, rule)| {
                perform(&shape, walk, rule, &|_| true).next.map(Arc::new)
            });
        }
    }
    let (first, others) = answers.split_first().expect("a circuit has a step");
    let all = first.sum(others);
    (
        mask_handle,
        rule_handle,
        walk_handle,
        all.accumulate_output(),
    )
}

/// Adds a mask to a union.
fn add_mask(union: &mut Vec<u64>, mask: &Vec<u64>, _weight: ZWeight) {
    union.resize(mask.len().max(union.len()), 0);
    union
        .iter_mut()
        .zip(mask)
        .for_each(|(all, one)| *all |= one);
}

/// Combines unions of parts of a table's masks.
#[derive(Clone)]
struct Union;

impl Semigroup<Vec<u64>> for Union {
    fn combine(left: &Vec<u64>, right: &Vec<u64>) -> Vec<u64> {
        let mut union = left.clone();
        add_mask(&mut union, right, 1);
        union
    }
}
