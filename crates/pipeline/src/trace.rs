//! Traces: the record of a walk; the rest of a cache entry follows from it.
//!
//! A step is one read of one input: a lookup in a table, the choice of a bucket, a lookup in
//! the MAC table. Steps are recorded in the order of execution. What a rule's actions read
//! belongs to the step of the rule's lookup.
//!
//! Four sets of words belong to each step, and lie in one arena:
//!
//! - `key`: the state's value when the step began;
//! - `searched`: the bits of it that decided a lookup;
//! - `examined`: all bits of the state that the step read, including its actions, which may
//!   have written before they read;
//! - `added`: the ingress bits that it added to the mask.
//!
//! A walk reads groups and ports outside of lookups; each is an [`Input`].

use thalweg_classifier::RuleId;
use thalweg_packet::PortId;

use crate::action::{GroupId, TableId};
use crate::bridge::BridgeId;
use crate::mac::Station;
use crate::meters::MeterId;
use crate::mirror::MirrorId;

/// What a step read, and the result.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum StepKind {
    /// A lookup in a table; `None` if nothing matched.
    Lookup {
        /// The table.
        table: TableId,
        /// The rule that matched.
        rule: Option<RuleId>,
    },
    /// What the table of a lookup without a rule did with the packet.
    Unmatched {
        /// The bridge of the table.
        bridge: BridgeId,
        /// Whether it sent the packet to controllers; otherwise it dropped it.
        to_controller: bool,
    },
    /// No lookup, since the table's bridge drops fragments.
    Fragment {
        /// The table.
        table: TableId,
    },
    /// The choice of a group's bucket; `None` if no bucket is alive.
    Bucket {
        /// The group.
        group: GroupId,
        /// The bucket's position in the group.
        bucket: Option<u32>,
    },
    /// The way through a patch, into another bridge.
    Patch {
        /// The end that the packet was sent to.
        from: PortId,
        /// The end that it comes out of.
        to: PortId,
    },
    /// A copy for a mirror.
    Mirror(MirrorId),
    /// A lookup in the MAC table.
    Station {
        /// The station looked up.
        station: Station,
        /// Its port.
        port: Option<PortId>,
    },
    /// What the action set read when it was executed at the end.
    ActionSet,
    /// The resumption of a frozen walk.
    Resumption {
        /// The rule whose actions were interrupted, if any.
        rule: Option<RuleId>,
    },
}

/// An input of a walk other than a table or the MAC table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Input {
    /// A group: its buckets and what they watch.
    Group(GroupId),
    /// A port: whether it exists and is up, and its VLANs.
    Port(PortId),
    /// All ports: which exist, which of them flood, and their VLANs.
    AllPorts,
    /// What the tables of a bridge do with packets that no rule matches.
    Misses(BridgeId),
    /// Whether a bridge forwards packets to addresses reserved for the link.
    Bpdus(BridgeId),
    /// What a bridge does with fragments.
    Fragments(BridgeId),
    /// Whether a meter exists, and whether it remarks packets.
    Meter(MeterId),
}

/// Most walks have no more steps than this.
const STEPS: usize = 16;

/// The record of one walk.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Trace {
    words: usize,
    ingress_words: usize,
    steps: Vec<(StepKind, u32)>,
    /// For each step: key, searched, examined, added.
    arena: Vec<u64>,
    inputs: Vec<Input>,
    written_words: u64,
}

/// One step of a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step<'a> {
    /// The input that was read, and the result.
    pub kind: StepKind,
    /// How many resubmits deep the step is.
    pub depth: u32,
    /// The state when the step began.
    pub key: &'a [u64],
    /// The bits of it that decided a lookup: all keys that agree on them meet the same rule.
    pub searched: &'a [u64],
    /// The bits of the state that the step read, in the lookup and in the resulting actions.
    pub examined: &'a [u64],
    /// The ingress bits that it added to the mask.
    pub added: &'a [u64],
}

impl Trace {
    /// Clears the trace and begins the record of a walk.
    pub(crate) fn begin(&mut self, words: usize, ingress_words: usize) {
        (self.words, self.ingress_words, self.written_words) = (words, ingress_words, 0);
        self.steps.clear();
        self.arena.clear();
        self.inputs.clear();
        self.steps.reserve(STEPS);
    }

    /// Begins a step without reads.
    pub(crate) fn begin_step(&mut self, kind: StepKind, depth: u32, key: &[u64]) {
        if self.steps.is_empty() {
            self.arena.reserve(STEPS * self.stride());
        }
        self.steps.push((kind, depth));
        self.arena.extend_from_slice(key);
        self.arena
            .extend(std::iter::repeat_n(0, 2 * self.words + self.ingress_words));
    }

    /// Begins a step that records only its kind. Either all steps of a trace are such or none.
    pub(crate) fn begin_bare_step(&mut self, kind: StepKind, depth: u32) {
        self.steps.push((kind, depth));
    }

    /// Records which bits decided the lookup of the last step.
    pub(crate) fn set_searched(&mut self, searched: &[u64]) {
        let start = (self.len() - 1) * self.stride() + self.words;
        self.arena[start..start + self.words].copy_from_slice(searched);
    }

    /// Records that the walk read `input`.
    pub(crate) fn ask(&mut self, input: Input) {
        if let Err(place) = self.inputs.binary_search(&input) {
            self.inputs.insert(place, input);
        }
    }

    pub(crate) fn set_written_words(&mut self, words: u64) {
        self.written_words = words;
    }

    /// The words for a step's `examined` and `added`, one after the other.
    pub(crate) fn reads_mut(&mut self, step: usize) -> &mut [u64] {
        let start = step * self.stride() + 2 * self.words;
        &mut self.arena[start..start + self.words + self.ingress_words]
    }

    /// The number of steps.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether nothing was read.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// The steps, in the order of execution.
    pub fn steps(&self) -> impl Iterator<Item = Step<'_>> {
        self.steps
            .iter()
            .enumerate()
            .map(|(index, &(kind, depth))| {
                let words = &self.arena[index * self.stride()..(index + 1) * self.stride()];
                let (key, reads) = words.split_at(self.words);
                let (searched, reads) = reads.split_at(self.words);
                let (examined, added) = reads.split_at(self.words);
                Step {
                    kind,
                    depth,
                    key,
                    searched,
                    examined,
                    added,
                }
            })
    }

    /// The kinds of the steps, in order. Two walks with the same kinds met the same rules,
    /// buckets and stations.
    pub fn kinds(&self) -> impl Iterator<Item = StepKind> {
        self.steps.iter().map(|(kind, _)| *kind)
    }

    /// The other inputs read, sorted, each once.
    pub fn inputs(&self) -> &[Input] {
        &self.inputs
    }

    /// One bit for each word of the state, by its number: whether the walk wrote any bit of
    /// it, even temporarily.
    pub fn written_words(&self) -> u64 {
        self.written_words
    }

    fn stride(&self) -> usize {
        3 * self.words + self.ingress_words
    }
}
