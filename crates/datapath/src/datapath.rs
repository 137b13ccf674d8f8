//! The datapath: caches whose key width is chosen when the layout is known.

use std::sync::Arc;

use thalweg_classifier::Version;
use thalweg_packet::{Instant, MAX_WORDS, Packet};
use thalweg_pipeline::{Counters, Delta, Outbox, Pipeline, RuleId};

use crate::config::{Config, ConfigError, MEGAFLOWS_MAX, Mode};
use crate::core::Core;
use crate::dependency::{Findings, Index, TraversalView};
use crate::entry::{Credit, EntryId};
use crate::gate::Gate;
use crate::hand_flow::HandFlows;
use crate::history::LastRepair;
use crate::ledger::Ledger;
use crate::maintain::{Following, Maintainer, Published, Requests, Slice, Walks};
use crate::maintainer_kind::MaintainerKind;
use crate::outcome::{Outcome, Work};
use crate::statistics::{EvictReason, Statistics};
use crate::watch::{UpcallReport, WatchedUpcalls};

/// The caches of one worker, at one version of the pipeline.
///
/// ```
/// use thalweg_datapath::{Config, Datapath, Gate};
/// use thalweg_packet::{Instant, Packet, PacketPool, PortId};
/// use thalweg_pipeline::{Outbox, Pipeline};
///
/// let pipeline = Gate::new(Pipeline::new(thalweg_pipeline::Config::default()));
/// let mut datapath = Datapath::new(Config::default(), &pipeline.read())?;
/// let mut outbox = Outbox::new(PacketPool::with_capacity(8, 2048));
/// let mut packets = vec![Packet::from_bytes(&[0; 60]), Packet::from_bytes(&[0; 60])];
/// datapath.process(&mut packets, Instant::ZERO, &pipeline, &mut outbox);
/// // There are no rules: one upcall, which the second packet shares, and two drops.
/// assert_eq!(datapath.statistics().upcalls, 1);
/// assert_eq!(datapath.statistics().drops().collect::<Vec<_>>(), [("table_miss", 2)]);
/// # Ok::<(), thalweg_datapath::ConfigError>(())
/// ```
pub struct Datapath {
    pub(crate) core: Width,
    maintainer: Box<dyn Maintainer + Send>,
    /// The change being followed.
    following: Option<Following>,
    /// The change to follow once that one is settled.
    next: Option<Following>,
    config: Config,
}

/// How far the caches have followed a change.
#[derive(Debug)]
pub enum Progress {
    /// Packets are answered at the previous version.
    Preparing,
    /// Packets are answered at the new version; entries that are not repaired yet cause upcalls.
    Repairing,
    /// All entries are right with respect to the change.
    Settled {
        /// The version that the change made.
        version: Version,
        /// The work done.
        work: Work,
        /// What changed or evicted entries had counted at the previous version.
        ledger: Ledger,
    },
}

/// Caches by key width, in words.
pub(crate) enum Width {
    W8(Box<Core<8>>),
    W16(Box<Core<16>>),
    W32(Box<Core<32>>),
    W64(Box<Core<MAX_WORDS>>),
}

/// Runs the same expression for caches of any width.
macro_rules! with_core {
    ($width:expr, $core:ident => $body:expr) => {
        match $width {
            $crate::datapath::Width::W8($core) => $body,
            $crate::datapath::Width::W16($core) => $body,
            $crate::datapath::Width::W32($core) => $body,
            $crate::datapath::Width::W64($core) => $body,
        }
    };
}
pub(crate) use with_core;

/// An entry, as shown in reports.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EntryView {
    /// Its number.
    pub id: EntryId,
    /// The key it was made with.
    pub key: Vec<u64>,
    /// The bits on which its packets agree.
    pub mask: Vec<u64>,
    /// The effects on its packets; empty for none.
    pub effects: Vec<thalweg_pipeline::Effect>,
    /// The rules that its walk met, in order.
    pub rules: Vec<RuleId>,
    /// Counts not yet gathered.
    pub counters: Counters,
    /// All that its packets have counted since it was made, the first among them.
    pub lifetime: Counters,
    /// What the packet for which it was made counted: one frame, or its segments.
    pub first: Counters,
    /// When it was last used.
    pub used_at: Instant,
    /// The beginning of the packet for which it was made; empty if none is kept.
    pub sample: Vec<u8>,
    /// Whether packets of some port are searched under its mask; otherwise only a walk finds
    /// it.
    pub is_searched: bool,
    /// Its last repair, and the work it took.
    pub last_repair: Option<LastRepair>,
}

impl Datapath {
    /// Creates empty caches at the pipeline's newest version.
    ///
    /// # Errors
    /// If a limit makes no sense.
    pub fn new(config: Config, pipeline: &Pipeline) -> Result<Datapath, ConfigError> {
        config.check()?;
        let maintainer = config.maintainer.build();
        Ok(Datapath {
            core: Width::new(&config, pipeline, None),
            maintainer,
            following: None,
            next: None,
            config,
        })
    }

    /// The limits of the caches.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The version whose answers the caches hold.
    pub fn version(&self) -> Version {
        with_core!(&self.core, core => core.version)
    }

    /// Forwards packets into `outbox`, all at the version of the caches.
    ///
    /// Leaves `packets` empty. Reads the pipeline, under its read lock, only for packets that
    /// no cache can answer.
    ///
    /// # Panics
    /// If it reads the pipeline and that has another layout than the caches.
    pub fn process(
        &mut self,
        packets: &mut Vec<Packet>,
        now: Instant,
        pipeline: &Gate<Pipeline>,
        outbox: &mut Outbox,
    ) {
        with_core!(&mut self.core, core => core.process(packets, now, pipeline, outbox));
    }

    /// Puts flows in front of the caches, in place of those that were put there before; see
    /// [`HandFlows`]. They end with the next change, and when the caches are emptied.
    pub fn put_by_hand(&mut self, flows: Option<Arc<HandFlows>>) {
        with_core!(&mut self.core, core => core.by_hand = flows);
    }

    /// The record in which to search for a change before [`Datapath::begin`], on any thread;
    /// `None` if the maintainer does not use it.
    pub fn index(&self) -> Option<Index> {
        with_core!(&self.core, core => core.record.index().cloned())
    }

    /// Begins to follow a change that the pipeline has published. `findings` come from
    /// [`Index::search`]; `None` if there is no index.
    ///
    /// The caches may still be repairing after the previous change, if both changes are only
    /// of rules and all requested walks are made. This change is then followed once the
    /// previous one is settled.
    ///
    /// # Panics
    /// If two changes are not settled.
    pub fn begin(&mut self, delta: Arc<Delta>, findings: Option<Arc<Findings>>) {
        self.put_by_hand(None);
        assert!(self.next.is_none(), "two changes at a time");
        let findings = findings.unwrap_or_default();
        self.next = Some(Following::new(delta, findings));
        if self.following.is_none() {
            self.following = self.next.take();
        }
    }

    /// Does one slice of the work of following a change.
    ///
    /// Reads the pipeline, under its read lock, only if this slice walks an entry or compares
    /// it with new rules.
    ///
    /// # Panics
    /// If it reads the pipeline and that has not published the change.
    pub fn step(&mut self, pipeline: &Gate<Pipeline>) -> Progress {
        let Some(mut following) = self.following.take() else {
            return Progress::Settled {
                version: self.version(),
                work: Work::default(),
                ledger: self.take_ledger_before(),
            };
        };
        let version = following.delta.version;
        let mut pipeline = Published::new(pipeline, version);
        let slice = if following.delta.has_new_layout {
            Slice::Settled(self.start_over(pipeline.get()))
        } else if self.config.mode == Mode::ComputationalFlows {
            with_core!(&mut self.core, core => core.begin_epoch(&following.delta));
            Slice::Settled(Work::default())
        } else {
            let (maintainer, size) = (&*self.maintainer, self.config.slice);
            with_core!(&mut self.core, core => {
                following.step(maintainer, &mut **core, &mut pipeline, size)
            })
        };
        match slice {
            Slice::Settled(work) => {
                self.following = self.next.take();
                Progress::Settled {
                    version,
                    work,
                    ledger: self.take_ledger_before(),
                }
            }
            Slice::Repairing => {
                self.following = Some(following);
                Progress::Repairing
            }
            Slice::Preparing => {
                self.following = Some(following);
                Progress::Preparing
            }
        }
    }

    /// Requests walks of entries that wait for repair, if there are many. A caller that has
    /// [`Index::walk`] run elsewhere calls this once the caches have moved.
    ///
    /// These entries then wait until [`Datapath::accept`] brings the walks; packets that meet
    /// one are upcalls as before.
    pub fn request_walks(&mut self) -> Option<Requests> {
        if self.config.maintainer != MaintainerKind::Incremental {
            return None;
        }
        let following = self.following.as_mut()?;
        let at_least = self.config.requests_from;
        with_core!(&self.core, core => following.request(&**core, at_least))
    }

    /// Accepts the requested walks.
    ///
    /// # Panics
    /// If they are not of the change being followed.
    pub fn accept(&mut self, walks: Walks) {
        let following = self.following.as_mut();
        following
            .expect("a change waits for its walks")
            .accept(walks);
    }

    /// Whether a change is being followed.
    pub fn is_following(&self) -> bool {
        self.following.is_some()
    }

    /// Whether [`Datapath::step`] can do nothing before [`Datapath::accept`].
    pub fn is_waiting(&self) -> bool {
        self.following.as_ref().is_some_and(Following::is_waiting)
    }

    fn take_ledger_before(&mut self) -> Ledger {
        with_core!(&mut self.core, core => std::mem::take(&mut core.ledger_before))
    }

    /// Empties the caches and takes the pipeline's version and layout.
    pub fn start_over(&mut self, pipeline: &Pipeline) -> Work {
        let mut evicted = 0;
        let (ledger, statistics, watch) = with_core!(&mut self.core, core => {
            let ids: Vec<EntryId> = core.entries.ids().collect();
            for id in ids {
                core.evict(id, EvictReason::Flushed);
                core.statistics.count_outcome(Outcome::Evicted);
                evicted += 1;
            }
            core.tally.settle(&mut core.ledger);
            let ledger = std::mem::take(&mut core.ledger);
            (
                ledger,
                std::mem::take(&mut core.statistics),
                std::mem::take(&mut core.watch),
            )
        });
        self.core = Width::new(&self.config, pipeline, self.index());
        with_core!(&mut self.core, core => {
            core.ledger_before = ledger;
            core.statistics = statistics;
            core.watch = watch;
        });
        Work {
            examined: evicted,
            evicted,
            ..Work::default()
        }
    }

    /// Empties the caches; returns what their entries had counted, to be settled with the
    /// pipeline. No change may be under way.
    pub fn flush(&mut self, pipeline: &Pipeline) -> Ledger {
        debug_assert!(
            !self.is_following(),
            "a change would have counts of its own"
        );
        self.start_over(pipeline);
        self.take_ledger_before()
    }

    /// Sets whether entries compare whole keys instead of what their walks examined, and
    /// empties the caches; returns what their entries had counted, to be settled with the
    /// pipeline. No change may be under way.
    pub fn set_exact(&mut self, is_exact: bool, pipeline: &Pipeline) -> Ledger {
        self.config.megaflow.is_exact = is_exact;
        self.flush(pipeline)
    }

    /// Sets the most entries of the wildcard cache, at most [`MEGAFLOWS_MAX`]. Those beyond it
    /// are evicted after the next burst.
    pub fn limit_megaflows(&mut self, entries: usize) {
        let entries = entries.min(MEGAFLOWS_MAX);
        self.config.megaflow.entries = entries;
        with_core!(&mut self.core, core => core.config.megaflow.entries = entries);
    }

    /// Evicts those of `count` entries, starting at number `from`, that no packet has used since
    /// `since`; returns where to continue. What they counted is in the next gathered counts.
    pub fn evict_idle(&mut self, from: u32, count: u32, since: Instant) -> Option<u32> {
        with_core!(&mut self.core, core => core.evict_idle(from, count, since))
    }

    /// Takes all that entries have counted since the last call, to be settled with the
    /// pipeline.
    pub fn gather(&mut self) -> Ledger {
        self.gather_slice(0, u32::MAX);
        self.take_ledger()
    }

    /// Gathers from `count` entries, starting at number `from`; returns where to continue.
    pub fn gather_slice(&mut self, from: u32, count: u32) -> Option<u32> {
        with_core!(&mut self.core, core => core.gather_slice(from, count))
    }

    /// Takes the counts of entries that met one of these rules, since the last call. Includes
    /// the counts of evicted entries.
    pub fn gather_rules(&mut self, rules: &[RuleId]) -> Ledger {
        with_core!(&mut self.core, core => {
            core.gather_rules(rules);
            core.take_ledger()
        })
    }

    /// For each rule, a time of use after the given time, if there was one; not always the
    /// last use.
    pub fn uses_since(&mut self, rules: &[(RuleId, Instant)]) -> Vec<Option<Instant>> {
        with_core!(&mut self.core, core => core.uses_since(rules))
    }

    /// Takes the gathered counts, including those of evicted entries.
    pub fn take_ledger(&mut self) -> Ledger {
        with_core!(&mut self.core, core => {
            core.tally.settle(&mut core.ledger);
            core.take_ledger()
        })
    }

    /// Sets which upcalls are reported.
    pub fn watch_upcalls(&mut self, watched: WatchedUpcalls) {
        with_core!(&mut self.core, core => core.watch.set(watched));
    }

    /// Takes the reports since the last call, and the number of those that had no room.
    pub fn take_upcalls(&mut self) -> (Vec<UpcallReport>, u64) {
        with_core!(&mut self.core, core => core.watch.take())
    }

    /// The datapath's counters.
    pub fn statistics(&self) -> &Statistics {
        with_core!(&self.core, core => &core.statistics)
    }

    /// Number of entries in the wildcard cache.
    pub fn megaflow_count(&self) -> usize {
        with_core!(&self.core, core => core.entries.len())
    }

    /// Number of masks in the wildcard cache.
    pub fn mask_count(&self) -> usize {
        with_core!(&self.core, core => core.megaflow.mask_count())
    }

    /// Number of flows in the exact-match cache; includes flows of evicted entries until
    /// replaced.
    pub fn microflow_count(&self) -> usize {
        with_core!(&self.core, core => core.microflow.len())
    }

    /// Capacity of the exact-match cache, in flows.
    pub fn microflow_capacity(&self) -> usize {
        with_core!(&self.core, core => core.microflow.capacity())
    }

    /// Bytes of the wildcard cache: entries, shared lists, and lookup index.
    pub fn megaflow_bytes(&self) -> usize {
        with_core!(&self.core, core => core.memory_bytes())
    }

    /// Bytes of the record of what entries depend on; 0 without one.
    pub fn dependency_bytes(&self) -> usize {
        with_core!(&self.core, core => {
            core.record.look().map_or(0, |known| known.memory_bytes())
        })
    }

    /// Number of reads that entries depend on; a read shared by many entries counts once.
    pub fn dependency_count(&self) -> usize {
        with_core!(&self.core, core => {
            core.record.look().map_or(0, |known| known.node_count())
        })
    }

    /// Compares the lookup index and the dependency record with the entries, node by node; for
    /// tests and self-checks.
    ///
    /// # Errors
    /// The first disagreement.
    pub fn verify(&self) -> Result<(), String> {
        with_core!(&self.core, core => {
            let ids: Vec<EntryId> = core.entries.ids().collect();
            core.verify_lists()?;
            core.megaflow.verify(&core.entries)?;
            core.record.look().map_or(Ok(()), |known| known.verify(&ids))
        })
    }

    /// The traversals of entries' walks, the most used first; empty if the maintainer does not
    /// record what entries depend on.
    pub fn traversals(&self) -> Vec<TraversalView> {
        with_core!(&self.core, core => core.traversals())
    }

    /// The entries of the wildcard cache.
    pub fn entries(&self) -> Vec<EntryView> {
        self.some_entries(usize::MAX)
    }

    /// Entries of the wildcard cache, by their numbers, at most `limit` of them.
    pub fn some_entries(&self, limit: usize) -> Vec<EntryView> {
        with_core!(&self.core, core => {
            core.entries.ids().take(limit).map(|id| core.view(id)).collect()
        })
    }
}

impl Width {
    fn new(config: &Config, pipeline: &Pipeline, former: Option<Index>) -> Width {
        match pipeline.layout().ingress_words() {
            0..=8 => Width::W8(Box::new(Core::new(config, pipeline, former))),
            9..=16 => Width::W16(Box::new(Core::new(config, pipeline, former))),
            17..=32 => Width::W32(Box::new(Core::new(config, pipeline, former))),
            _ => Width::W64(Box::new(Core::new(config, pipeline, former))),
        }
    }
}

impl<const W: usize> Core<W> {
    fn traversals(&self) -> Vec<TraversalView> {
        let Some(dependencies) = self.record.look() else {
            return Vec::new();
        };
        let mut views = dependencies.traversals().views();
        for id in self.entries.ids() {
            let number = dependencies.traversal_of(id).expect("every entry has one");
            views[number as usize].packets += self.entries.get(id).counters.packets;
        }
        views.retain(|view| view.entries > 0);
        views.sort_by_key(|view| std::cmp::Reverse((view.entries, view.packets)));
        views
    }

    /// An entry, as reports have it.
    pub(crate) fn view(&self, id: EntryId) -> EntryView {
        let entry = self.entries.get(id);
        let ingress = self.layout.ingress_words();
        let effects = entry.program.effects();
        let lifetime = self.entries.lifetime(id);
        let mut counted = lifetime.taken;
        counted.add(entry.counters);
        EntryView {
            id,
            lifetime: counted,
            first: Counters {
                packets: lifetime.first.0.into(),
                bytes: lifetime.first.1.into(),
            },
            key: self.entries.key(id)[..ingress].to_vec(),
            mask: self.megaflow.mask(entry.subtable)[..ingress].to_vec(),
            effects,
            rules: Credit::rules(&entry.credits).collect(),
            counters: entry.counters,
            used_at: entry.used_at,
            sample: self.entries.sample(id).to_vec(),
            is_searched: self.megaflow.is_searched(entry.subtable),
            last_repair: self.histories.get(id),
        }
    }

    fn memory_bytes(&self) -> usize {
        self.entries.memory_bytes()
            + self.megaflow.memory_bytes()
            + self.effects.memory_bytes()
            + self.credits.memory_bytes()
            + self.histories.memory_bytes()
    }
}

impl std::fmt::Debug for Datapath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Datapath({}, {} megaflows)",
            self.version(),
            self.megaflow_count()
        )
    }
}
