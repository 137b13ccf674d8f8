//! The view: recorded packets with their answers, kept right by the circuit.
//!
//! A view is made of a pipeline's rules. Packets are recorded in it under a number, and every
//! published change is handed to it as the pipeline's delta; after each transaction it knows the
//! steps of every recorded packet at that version, and says which packets those are that changed.
//!
//! 1. A change is followed whole or not at all: what is not modelled is refused before anything of
//!    the change has gone into the circuit.
//! 2. Between two calls, the steps are those of the rules and packets that were handed in.
//! 3. The row of a rule is kept here, so that it can be taken back when the pipeline has long
//!    forgotten the rule.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use thalweg_packet::{PortId, standard as f};
use thalweg_pipeline::{Delta, Pipeline, RuleId, TableId};

use crate::answer::{Answer, assemble};
use crate::circuit::{Circuit, StepChange};
use crate::perform::Shape;
use crate::programs::{Numbers, Programs, Unsupported};
use crate::rows::{RuleRow, WalkRow, rank};

/// Steps that a circuit may have.
pub const MAX_STEPS: usize = 64;

/// A walk in front of a lookup, and the rule that won it.
pub(crate) type StepRows = (Arc<WalkRow>, Arc<RuleRow>);

/// Why a view cannot be made, or cannot follow.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ViewError {
    /// Something is not modelled; the view is as it was.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// The circuit failed; the view is of no use any more.
    #[error("the circuit failed, make a new view: {0}")]
    Circuit(String),
}

impl From<dbsp::Error> for ViewError {
    fn from(error: dbsp::Error) -> ViewError {
        ViewError::Circuit(error.to_string())
    }
}

/// Recorded packets and their answers.
///
/// ```
/// use thalweg_dbsp::View;
/// use thalweg_packet::Instant;
/// use thalweg_pipeline::{Config, Pipeline, text::parse_rules};
///
/// let mut pipeline = Pipeline::new(Config::default());
/// let add = |pipeline: &mut Pipeline, rules| {
///     let change = parse_rules("rules", rules).expect("rules").into_change();
///     pipeline.apply(&change, Instant::ZERO).expect("good rules")
/// };
/// add(&mut pipeline, "table=0,priority=1,in_port=1,actions=goto_table:1");
/// let mut view = View::new(&pipeline, 4)?;
/// let key = vec![0; pipeline.layout().ingress_words()];
/// view.record([(7, &key[..])])?;
/// let delta = add(&mut pipeline, "table=0,priority=2,in_port=0,actions=in_port");
/// assert_eq!(view.follow(&pipeline, &delta)?, [7]);
/// assert_eq!(view.answer(7).expect("recorded").lookups[0].1, Some(delta.inserted[0]));
/// # Ok::<(), thalweg_dbsp::ViewError>(())
/// ```
pub struct View {
    shape: Arc<Shape>,
    numbers: Numbers,
    circuit: Circuit,
    step_count: usize,
    rules: HashMap<RuleId, Arc<RuleRow>>,
    /// The masks that the circuit has, by table.
    masks: HashSet<(u8, Vec<u64>)>,
    recorded: HashMap<u32, Arc<WalkRow>>,
    /// By entry, and then by step: the integral of what the circuit put out.
    steps: HashMap<u32, Vec<Option<StepRows>>>,
    ports: BTreeSet<PortId>,
}

impl View {
    /// A view over the rules of a pipeline's newest version, for walks of at most `steps` lookups.
    ///
    /// # Errors
    /// If a rule does what is not modelled, or the circuit cannot be made.
    ///
    /// # Panics
    /// If `steps` is 0 or above [`MAX_STEPS`].
    pub fn new(pipeline: &Pipeline, steps: usize) -> Result<View, ViewError> {
        assert!((1..=MAX_STEPS).contains(&steps), "1 to {MAX_STEPS} steps");
        let shape = Arc::new(Shape {
            layout: pipeline.layout().clone(),
            fields: pipeline.fields().clone(),
            programs: Programs::new(),
        });
        let version = pipeline.version();
        let circuit = Circuit::new(&shape, steps)?;
        let mut view = View {
            shape,
            numbers: Numbers::default(),
            circuit,
            step_count: steps,
            rules: HashMap::new(),
            masks: HashSet::new(),
            recorded: HashMap::new(),
            steps: HashMap::new(),
            ports: pipeline.ports(version).map(|(port, _)| port).collect(),
        };
        let ids: Vec<RuleId> = pipeline.rules(version).map(|(id, _)| id).collect();
        let rows = view.rows(pipeline, &ids)?;
        view.rules.extend(rows);
        view.load()?;
        Ok(view)
    }

    /// Records packets, each under a number, by their keys.
    ///
    /// A number that is in use is taken over. Says which packets have other steps than before.
    ///
    /// # Errors
    /// If the circuit fails.
    ///
    /// # Panics
    /// If a key is shorter than the layout's ingress words.
    pub fn record<'a>(
        &mut self,
        packets: impl IntoIterator<Item = (u32, &'a [u64])>,
    ) -> Result<Vec<u32>, ViewError> {
        let layout = self.shape.layout.clone();
        for (entry, key) in packets {
            let mut words = key[..layout.ingress_words()].to_vec();
            words.resize(layout.words(), 0);
            layout.set(&mut words, f::RECIRC_ID, 0);
            let walk = Arc::new(WalkRow {
                entry,
                words,
                ..WalkRow::default()
            });
            if let Some(former) = self.recorded.insert(entry, Arc::clone(&walk)) {
                self.circuit.push_walk(former, -1);
            }
            self.circuit.push_walk(walk, 1);
        }
        self.transact()
    }

    /// Forgets packets.
    ///
    /// # Errors
    /// If the circuit fails.
    pub fn forget(&mut self, entries: impl IntoIterator<Item = u32>) -> Result<(), ViewError> {
        for entry in entries {
            if let Some(walk) = self.recorded.remove(&entry) {
                self.circuit.push_walk(walk, -1);
            }
        }
        self.transact().map(drop)
    }

    /// Follows a change that `pipeline` has published last; says which packets changed, in order.
    ///
    /// # Errors
    /// If the change does what is not modelled; then nothing happens (invariant 1).
    pub fn follow(&mut self, pipeline: &Pipeline, delta: &Delta) -> Result<Vec<u32>, ViewError> {
        if delta.has_new_layout {
            return Err(Unsupported::Layout.into());
        }
        // Groups and stations are read by actions only that are refused.
        if !delta.ports.is_empty() {
            return Err(Unsupported::Input("ports").into());
        }
        for (id, row) in self.rows(pipeline, &delta.inserted)? {
            self.insert(&row);
            self.rules.insert(id, row);
        }
        for id in &delta.removed {
            if let Some(row) = self.rules.remove(id) {
                self.circuit.push_rule(row, -1);
            }
        }
        self.transact()
    }

    /// Makes another circuit, of so many steps, and puts everything into it.
    ///
    /// Masks that no rule has any more are left out.
    ///
    /// # Errors
    /// If the circuit cannot be made, or fails.
    ///
    /// # Panics
    /// If `steps` is 0 or above [`MAX_STEPS`].
    pub fn rebuild(&mut self, steps: usize) -> Result<(), ViewError> {
        assert!((1..=MAX_STEPS).contains(&steps), "1 to {MAX_STEPS} steps");
        self.circuit = Circuit::new(&self.shape, steps)?;
        self.step_count = steps;
        self.masks.clear();
        self.steps.clear();
        self.load()
    }

    /// The answer to a recorded packet.
    pub fn answer(&self, entry: u32) -> Option<Answer> {
        let steps = self.steps.get(&entry)?;
        let steps: Vec<StepRows> = steps.iter().map_while(Clone::clone).collect();
        let has_port = |port| self.ports.contains(&port);
        Some(assemble(&self.shape, &steps, &has_port))
    }

    /// How many packets are recorded.
    pub fn len(&self) -> usize {
        self.recorded.len()
    }

    /// Whether no packet is recorded.
    pub fn is_empty(&self) -> bool {
        self.recorded.is_empty()
    }

    /// Of how many steps the circuit is.
    pub fn step_count(&self) -> usize {
        self.step_count
    }

    /// How many masks a table has in the circuit, that of its miss included.
    pub fn mask_count(&self, table: TableId) -> usize {
        let masks = self.masks.iter();
        masks.filter(|(of, _)| *of == table.0).count()
    }

    /// Puts all rules into an empty circuit, then all packets.
    fn load(&mut self) -> Result<(), ViewError> {
        let words = self.shape.layout.words();
        for table in 0..=u8::MAX {
            let miss = Arc::new(RuleRow::miss(table, words));
            self.insert(&miss);
        }
        let rules: Vec<Arc<RuleRow>> = self.rules.values().cloned().collect();
        rules.iter().for_each(|row| self.insert(row));
        self.transact()?;
        for walk in self.recorded.values() {
            self.circuit.push_walk(Arc::clone(walk), 1);
        }
        self.transact().map(drop)
    }

    fn insert(&mut self, row: &Arc<RuleRow>) {
        let mask = (row.table, row.mask.clone());
        if self.masks.insert(mask) {
            self.circuit.push_mask(row.table, row.mask.clone());
        }
        self.circuit.push_rule(Arc::clone(row), 1);
    }

    /// The rows of rules; refuses what is not modelled.
    fn rows(
        &mut self,
        pipeline: &Pipeline,
        ids: &[RuleId],
    ) -> Result<Vec<(RuleId, Arc<RuleRow>)>, ViewError> {
        let mut rows = Vec::with_capacity(ids.len());
        for id in ids {
            let rule = pipeline.rule(*id).expect("the change is the last one");
            let (value, mask) = pipeline.words_of(*id).expect("a living rule has a pattern");
            let programs = &self.shape.programs;
            let row = RuleRow {
                rank: Some(rank(rule.precedence)),
                table: rule.table.0,
                rule: id.0,
                program: programs.number(&mut self.numbers, &rule.actions)?,
                mask,
                value,
            };
            rows.push((*id, Arc::new(row)));
        }
        Ok(rows)
    }

    /// Invariant 2.
    fn transact(&mut self) -> Result<Vec<u32>, ViewError> {
        let mut changed = Vec::new();
        let steps = &mut self.steps;
        self.circuit.transact(|change| {
            changed.push(change.entry);
            integrate(steps, change);
        })?;
        // Changes come in the order of entries.
        changed.dedup();
        let recorded = &self.recorded;
        for entry in changed.iter().filter(|entry| !recorded.contains_key(entry)) {
            steps.remove(entry);
        }
        Ok(changed)
    }
}

fn integrate(steps: &mut HashMap<u32, Vec<Option<StepRows>>>, change: StepChange) {
    let of_entry = steps.entry(change.entry).or_default();
    let index = usize::from(change.step);
    if of_entry.len() <= index {
        of_entry.resize(index + 1, None);
    }
    let rows = (change.walk, change.rule);
    if change.is_new {
        of_entry[index] = Some(rows);
    } else if of_entry[index].as_ref() == Some(&rows) {
        // What goes may come behind what takes its place.
        of_entry[index] = None;
    }
}

impl std::fmt::Debug for View {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (packets, steps) = (self.len(), self.step_count);
        write!(f, "View({packets} packets, {steps} steps)")
    }
}
