//! The view: recorded packets and their answers, kept correct by the circuit.
//!
//! A view is made from a pipeline's rules. Packets are recorded in it under numbers, and every
//! published change is passed to it as the pipeline's delta. After each transaction it has the
//! steps of every recorded packet at that version, and reports which packets changed.
//!
//! 1. A change is followed whole or not at all: unmodelled features are refused before any
//!    part of the change reaches the circuit.
//! 2. Between two calls, the steps are those of the rules and packets passed so far.
//! 3. The view keeps the row of each rule, so that it can be retracted after the pipeline has
//!    forgotten the rule.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use thalweg_packet::{PortId, standard as f};
use thalweg_pipeline::{BridgeId, Delta, FragmentMode, Pipeline, RuleId, TableId};

use crate::answer::{Answer, assemble};
use crate::circuit::{Circuit, StepChange};
use crate::perform::Shape;
use crate::programs::{Numbers, Programs, Unsupported};
use crate::rows::{RuleRow, WalkRow, rank};

/// The most steps of a circuit.
pub const MAX_STEPS: usize = 64;

/// A walk at a lookup, and the winning rule.
pub(crate) type StepRows = (Arc<WalkRow>, Arc<RuleRow>);

/// Why a view cannot be made or cannot follow a change.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ViewError {
    /// A feature is not modelled; the view is unchanged.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// The circuit failed; the view is unusable.
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
    /// Whether tables see the ports of fragments.
    sees_fragments: bool,
    rules: HashMap<RuleId, Arc<RuleRow>>,
    /// The masks in the circuit, by table.
    masks: HashSet<(u8, Vec<u64>)>,
    recorded: HashMap<u32, Arc<WalkRow>>,
    /// By entry, then by step: the integral of the circuit's output.
    steps: HashMap<u32, Vec<Option<StepRows>>>,
    ports: BTreeSet<PortId>,
}

impl View {
    /// Creates a view over the rules of a pipeline's newest version, for walks of at most
    /// `steps` lookups.
    ///
    /// # Errors
    /// If a rule uses an unmodelled feature, or the circuit cannot be made.
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
            sees_fragments: pipeline.fragment_mode(BridgeId::default(), version)
                == FragmentMode::NxMatch,
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

    /// Records packets by their keys, each under a number.
    ///
    /// A number in use is reassigned. Returns the packets whose steps changed.
    ///
    /// # Errors
    /// If one is a fragment whose ports tables do not see; then nothing happens. If the circuit
    /// fails.
    ///
    /// # Panics
    /// If a key is shorter than the layout's ingress words.
    pub fn record<'a>(
        &mut self,
        packets: impl IntoIterator<Item = (u32, &'a [u64])>,
    ) -> Result<Vec<u32>, ViewError> {
        let layout = self.shape.layout.clone();
        let packets: Vec<(u32, &[u64])> = packets.into_iter().collect();
        let is_fragment = |key: &[u64]| layout.get(key, f::IP_FRAG).is_some_and(|kind| kind != 0);
        if !self.sees_fragments && packets.iter().any(|(_, key)| is_fragment(key)) {
            return Err(Unsupported::Fragment.into());
        }
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

    /// Removes packets.
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

    /// Follows the change that `pipeline` published last; returns the changed packets, in
    /// order.
    ///
    /// # Errors
    /// If the change uses an unmodelled feature; then nothing happens (invariant 1).
    pub fn follow(&mut self, pipeline: &Pipeline, delta: &Delta) -> Result<Vec<u32>, ViewError> {
        if delta.has_new_layout {
            return Err(Unsupported::Layout.into());
        }
        if !delta.fragments.is_empty() {
            return Err(Unsupported::Input("the treatment of fragments").into());
        }
        // Only refused actions read groups and stations.
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

    /// Creates a new circuit of `steps` steps and loads everything into it.
    ///
    /// Masks without rules are left out.
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

    /// The answer for a recorded packet.
    pub fn answer(&self, entry: u32) -> Option<Answer> {
        let steps = self.steps.get(&entry)?;
        let steps: Vec<StepRows> = steps.iter().map_while(Clone::clone).collect();
        let has_port = |port| self.ports.contains(&port);
        Some(assemble(&self.shape, &steps, &has_port))
    }

    /// The number of recorded packets.
    pub fn len(&self) -> usize {
        self.recorded.len()
    }

    /// Whether no packet is recorded.
    pub fn is_empty(&self) -> bool {
        self.recorded.is_empty()
    }

    /// The number of steps of the circuit.
    pub fn step_count(&self) -> usize {
        self.step_count
    }

    /// The number of masks of a table in the circuit, including the miss's.
    pub fn mask_count(&self, table: TableId) -> usize {
        let masks = self.masks.iter();
        masks.filter(|(of, _)| *of == table.number()).count()
    }

    /// Loads all rules into an empty circuit, then all packets.
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

    /// Makes the rows of rules; refuses unmodelled features.
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
                table: rule.table.number(),
                rule: id.0,
                program: programs.number(&mut self.numbers, &rule.actions)?,
                mask,
                value,
            };
            rows.push((*id, Arc::new(row)));
        }
        Ok(rows)
    }

    /// Runs a transaction and integrates its output (invariant 2); returns the changed
    /// entries.
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
        // A removal may come after the addition that replaces it.
        of_entry[index] = None;
    }
}

impl std::fmt::Debug for View {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (packets, steps) = (self.len(), self.step_count);
        write!(f, "View({packets} packets, {steps} steps)")
    }
}
