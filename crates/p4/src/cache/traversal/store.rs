//! Stores the segments: finds, inserts and evicts them.

use thalweg_classifier::{LearnedConfig, Pattern, Precedence, RuleId, Version};
use thalweg_packet::{Instant, MAX_WORDS};

use crate::packed::KeyHash;
use crate::program::Program;
use crate::program::ids::NodeId;
use crate::rest::Rest;
use crate::state::{Cells, TableState};
use thalweg_classifier::{BuiltIndex, IndexJob};

use crate::training::{Any, TargetOwner, Trainer};

use super::admission::Admission;
use super::facts::Facts;
use super::layout::{Layout, Liveness, Shape};
use super::microflow::Microflow;
use super::origin::Origin;
use super::record::Recorder;
use super::rows::Rows;
use super::segment::{Consult, Credit, End, Operation, Operations, credit};
use super::statistics::{CacheConfig, CacheStatistics, EvictReason};
use super::trim::trim;
use super::words::WordSet;

/// Maximum starts of a program; at other nodes no segment begins.
const STARTS_MAX: usize = 64;

/// Up to this many masks of a start have their own tables; with more, masks are merged.
const OWN_MASKS_MAX: usize = 32;

/// Maximum evicted segments whose memory is kept.
const SPARE_MAX: usize = 64;

/// A node that is not a start yet; the next constant marks one that must not be.
const NEW: u32 = u32::MAX;
const REFUSED: u32 = u32::MAX - 1;

/// A node at which segments begin.
pub(crate) struct Start {
    pub(crate) node: NodeId,
    pub(crate) layout: Layout,
    /// The origin of each frame word at the start.
    pub(crate) origins: Box<[Origin]>,
    is_ingress: bool,
    hash: KeyHash,
    /// By the node that follows a segment: the words read after it.
    live: Vec<(Option<NodeId>, WordSet)>,
    rest: Rest,
    microflow: Microflow,
    masked: Box<Any>,
    /// The version of the masked level's rules.
    version: Version,
    age: u64,
}

impl Start {
    fn masked_mut(&mut self) -> &mut Any {
        &mut *self.masked
    }
}

impl std::fmt::Debug for Start {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Start")
            .field("node", &self.node)
            .finish_non_exhaustive()
    }
}

/// A remembered walk from a start to a stop point or the end.
#[derive(Debug, Default)]
pub(crate) struct Segment {
    pub(crate) operations: Operations,
    pub(crate) end: End,
    /// The work that a hit is charged, though it does not do it.
    pub(crate) work: u64,
    pub(crate) credits: Vec<Credit>,
    /// Packets not credited yet, their bytes, and when the last came.
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    pub(crate) last: Instant,
    is_recent: bool,
    pub(crate) start: u32,
    pub(crate) consults: Vec<Consult>,
    /// For each lookup, its row in the list of its table.
    pub(super) rows: Vec<u32>,
    pub(crate) keys: Vec<u64>,
    /// The key of the packet that was recorded.
    pub(crate) key: Vec<u64>,
}

impl Segment {
    /// Fills in a recording; the rows and the key follow later.
    fn fill(&mut self, recorder: &Recorder, start: u32, end: End) {
        self.operations.list.clone_from(&recorder.operations);
        self.operations.data.clone_from(&recorder.data);
        self.credits.clone_from(&recorder.credits);
        self.consults.clone_from(&recorder.consults);
        self.keys.clone_from(&recorder.keys);
        self.rows.clear();
        self.key.clear();
        (self.packets, self.bytes, self.last) = (0, 0, Instant::ZERO);
        self.is_recent = false;
        (self.start, self.end) = (start, end);
        self.work = recorder.work;
    }
}

/// The result of a lookup at a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Found {
    Segment(u32),
    /// Nothing yet: record from this start.
    Miss(u32),
    /// Nothing yet, and nothing to record: run the packet uncached.
    Pass,
    /// No segment may begin here.
    Refused,
}

/// A program's remembered traversals.
#[derive(Debug)]
pub(crate) struct Cache {
    config: CacheConfig,
    pub(crate) facts: Facts,
    shape: Shape,
    liveness: Liveness,
    by_node: Vec<u32>,
    pub(crate) starts: Vec<Start>,
    pub(super) segments: Vec<Option<Box<Segment>>>,
    /// By segment: changes when the segment is evicted.
    generations: Vec<u32>,
    free: Vec<u32>,
    /// Evicted segments whose memory is reused.
    #[expect(
        clippy::vec_box,
        reason = "a box moves from list to list; a segment would be copied"
    )]
    spare: Vec<Box<Segment>>,
    hand: usize,
    pub(super) rows: Vec<Rows>,
    /// Segments with packets not credited yet.
    owing: Vec<u32>,
    pub(crate) recorder: Recorder,
    key: [u64; MAX_WORDS],
    key_hash: u64,
    seed: u64,
    admission: Admission,
    pub(crate) statistics: CacheStatistics,
    trainer: Trainer,
}

impl Cache {
    /// Changes [`CacheConfig::record_one_in`].
    pub(crate) fn set_record_one_in(&mut self, one_in: u32) {
        self.admission.set(one_in);
    }

    /// Creates an empty cache for a program.
    pub(crate) fn new(program: &Program, config: CacheConfig, seed: u64) -> Cache {
        let facts = Facts::new(program);
        Cache {
            config,
            shape: Shape::new(program, &facts),
            liveness: Liveness::new(program, &facts),
            facts,
            by_node: vec![NEW; program.control.nodes.len()],
            starts: Vec::new(),
            segments: Vec::new(),
            generations: Vec::new(),
            free: Vec::new(),
            spare: Vec::new(),
            hand: 0,
            rows: program.tables.iter().map(Rows::new).collect(),
            owing: Vec::new(),
            recorder: Recorder::default(),
            key: [0; MAX_WORDS],
            key_hash: 0,
            seed,
            admission: Admission::new(config.record_one_in),
            statistics: CacheStatistics::default(),
            trainer: Trainer::default(),
        }
    }

    /// Does a slice of index maintenance, so that starts may find segments faster.
    pub(crate) fn tend(&mut self) {
        let classifiers = self.starts.iter_mut().map(Start::masked_mut);
        self.trainer.tend(classifiers);
    }

    pub(crate) fn take_training(&mut self) -> Option<IndexJob<TargetOwner>> {
        self.trainer.take()
    }

    pub(crate) fn install(
        &mut self,
        index: BuiltIndex<TargetOwner>,
    ) -> Option<BuiltIndex<TargetOwner>> {
        let classifiers = self.starts.iter_mut().map(Start::masked_mut);
        self.trainer.install(index, classifiers)
    }

    pub(crate) fn forget_training(&mut self) {
        self.trainer
            .forget(self.starts.iter_mut().map(Start::masked_mut));
    }

    /// Finds the segment for a frame at a node.
    #[inline]
    pub(crate) fn find(&mut self, program: &Program, node: NodeId, frame: &[u64]) -> Found {
        let mut index = self.by_node[node.index()];
        if index >= REFUSED {
            index = self.open(program, node);
            if index == REFUSED {
                self.statistics.refused += 1;
                return Found::Refused;
            }
        }
        let start = &mut self.starts[index as usize];
        if !start.rest.looks() {
            self.statistics.rested += 1;
            return Found::Pass;
        }
        let key = &mut self.key[..start.layout.words];
        let hash = start.layout.pack(&start.hash, frame, key);
        if let Some((segment, generation)) = start.microflow.find(hash, key)
            && self.generations[segment as usize] == generation
        {
            self.statistics.exact_hits += 1;
            start.rest.found();
            return Found::Segment(segment);
        }
        self.key_hash = hash;
        let Some(rule) = start.masked.lookup(key, start.version) else {
            self.statistics.misses += 1;
            return match self.admission.admits(hash) {
                true => Found::Miss(index),
                false => Found::Pass,
            };
        };
        self.statistics.masked_hits += 1;
        start.rest.found();
        let generation = self.generations[rule.0 as usize];
        start.microflow.put(hash, key, rule.0, generation);
        Found::Segment(rule.0)
    }

    /// Makes a node a start, if allowed.
    fn open(&mut self, program: &Program, node: NodeId) -> u32 {
        if self.by_node[node.index()] == REFUSED {
            return REFUSED;
        }
        let layout = self.shape.layout(program, &self.facts, node);
        let layout = layout.filter(|_| self.starts.len() < STARTS_MAX);
        let Some(layout) = layout else {
            self.by_node[node.index()] = REFUSED;
            return REFUSED;
        };
        let origins = (0..program.headers.initial.len() as u32).map(|word| {
            match (layout.part_of(word), self.shape.varies(program, node, word)) {
                (Some(part), _) => Origin::Copy(part, u64::MAX),
                (None, true) => Origin::Unknown,
                (None, false) => Origin::Constant,
            }
        });
        let seed = self.seed.wrapping_add(self.starts.len() as u64);
        let LearnedConfig { tuples, fields, .. } =
            LearnedConfig::flat(layout.words, self.starts.len() as u64);
        let kind = self.config.classifier;
        let index = self.starts.len() as u32;
        self.starts.push(Start {
            node,
            origins: origins.collect(),
            is_ingress: program.control.ingress.nodes.contains(&node.0),
            hash: KeyHash::new(layout.words, seed),
            live: Vec::new(),
            rest: Rest::new(self.config.rests),
            microflow: Microflow::new(layout.words, self.config.microflows),
            masked: kind.build(tuples, fields, OWN_MASKS_MAX),
            layout,
            version: Version::FIRST,
            age: 0,
        });
        self.by_node[node.index()] = index;
        self.statistics.starts += 1;
        index
    }

    /// The work that a segment stands for.
    #[inline]
    pub(crate) fn work_of(&self, id: u32) -> u64 {
        let segment = self.segments[id as usize].as_deref();
        segment.expect("what is found is there").work
    }

    /// Counts a packet of a segment, and returns the segment.
    #[inline]
    pub(crate) fn use_segment(&mut self, id: u32, bytes: u64, now: Instant) -> &Segment {
        let segment = self.segments[id as usize].as_deref_mut();
        let segment = segment.expect("what is found is there");
        segment.is_recent = true;
        if !segment.credits.is_empty() {
            if segment.packets == 0 {
                self.owing.push(id);
            }
            segment.packets += 1;
            segment.bytes += bytes;
            segment.last = now;
        }
        segment
    }

    /// Stores the recording under the key that was looked up last.
    pub(crate) fn insert(
        &mut self,
        program: &Program,
        start: u32,
        end: End,
        state: (&mut [TableState], &mut Cells),
    ) -> Option<u32> {
        if self.config.segments == 0 {
            return None;
        }
        if self.segments.len() - self.free.len() >= self.config.segments {
            let victim = self.oldest();
            self.evict(victim, EvictReason::Capacity, state);
        }
        let id = self.free.pop().unwrap_or_else(|| {
            self.segments.push(None);
            self.generations.push(0);
            self.segments.len() as u32 - 1
        });
        self.trim(program, start, end);
        let mut segment = self.spare.pop().unwrap_or_default();
        segment.fill(&self.recorder, start, end);
        for consult in &segment.consults {
            let rows = &mut self.rows[consult.table.index()];
            segment.rows.push(rows.push(id, consult, &segment.keys));
        }
        let mask = &self.recorder.origins.mask;
        let place = &mut self.starts[start as usize];
        let key = &self.key[..place.layout.words];
        segment.key.extend_from_slice(key);
        let mut value = [0; MAX_WORDS];
        let value = &mut value[..key.len()];
        for (value, (key, mask)) in value.iter_mut().zip(key.iter().zip(mask)) {
            *value = key & mask;
        }
        let pattern = Pattern { value, mask };
        let precedence = Precedence::new(0, place.age);
        place.age += 1;
        place
            .masked
            .insert(pattern, precedence, RuleId(id), place.version);
        place
            .microflow
            .put(self.key_hash, key, id, self.generations[id as usize]);
        self.segments[id as usize] = Some(segment);
        self.statistics.segments += 1;
        Some(id)
    }

    /// Removes needless operations from the recording.
    pub(super) fn trim(&mut self, program: &Program, start: u32, end: End) {
        let start = &mut self.starts[start as usize];
        let next = match end {
            End::Done => None,
            End::Before(next) | End::Visit(next) => Some(next),
        };
        let known = start.live.iter().position(|(node, _)| *node == next);
        let known = known.unwrap_or_else(|| {
            let live = self
                .liveness
                .at_end(program, &self.facts, start.is_ingress, next);
            start.live.push((next, live));
            start.live.len() - 1
        });
        let Recorder {
            operations,
            live,
            is_kept,
            ..
        } = &mut self.recorder;
        let live = live.get_or_insert_with(|| WordSet::new(0));
        live.clone_from(&start.live[known].1);
        trim(&self.facts, operations, live, is_kept);
        let needs_data = |operation: &Operation| {
            matches!(operation, Operation::Step(..) | Operation::Action(..))
        };
        if !self.recorder.operations.iter().any(needs_data) {
            self.recorder.data.clear();
        }
    }

    /// Corbató's second chance: the next segment not used since the hand last passed.
    fn oldest(&mut self) -> u32 {
        loop {
            self.hand = (self.hand + 1) % self.segments.len();
            if let Some(segment) = &mut self.segments[self.hand]
                && !std::mem::take(&mut segment.is_recent)
            {
                return self.hand as u32;
            }
        }
    }

    /// Evicts a segment if it is still stored; credits its packets.
    pub(super) fn evict(
        &mut self,
        id: u32,
        reason: EvictReason,
        (tables, cells): (&mut [TableState], &mut Cells),
    ) {
        let Some(segment) = self.segments[id as usize].take() else {
            return;
        };
        credit(
            tables,
            cells,
            &segment.credits,
            segment.packets,
            segment.bytes,
            segment.last,
        );
        self.generations[id as usize] = self.generations[id as usize].wrapping_add(1);
        self.free.push(id);
        let start = &mut self.starts[segment.start as usize];
        start.version = start.version.next();
        start.masked.remove(RuleId(id), start.version);
        start.masked.reclaim(start.version);
        for (consult, &row) in segment.consults.iter().zip(&segment.rows) {
            let table = consult.table;
            let Some(moved) = self.rows[table.index()].remove(row) else {
                continue;
            };
            let owner = self.segments[moved as usize].as_deref_mut();
            let owner = owner.expect("rows belong to segments that are there");
            let mut places = owner.consults.iter().zip(&mut owner.rows);
            let place = places.find(|(consult, _)| consult.table == table);
            *place.expect("it has the row").1 = row;
        }
        self.statistics.segments -= 1;
        self.statistics.evict(reason);
        if self.spare.len() < SPARE_MAX {
            self.spare.push(segment);
        }
    }

    /// Credits the packets of all segments.
    pub(crate) fn settle(&mut self, tables: &mut [TableState], cells: &mut Cells) {
        for id in std::mem::take(&mut self.owing) {
            let Some(segment) = &mut self.segments[id as usize] else {
                continue;
            };
            let (packets, bytes) = (segment.packets, segment.bytes);
            credit(
                tables,
                cells,
                &segment.credits,
                packets,
                bytes,
                segment.last,
            );
            (segment.packets, segment.bytes) = (0, 0);
        }
    }
}
