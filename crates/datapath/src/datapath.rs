//! The datapath: caches of a key width that is chosen when the layout is known.

use std::sync::RwLock;

use thalweg_classifier::Version;
use thalweg_packet::{Instant, MAX_WORDS, Packet};
use thalweg_pipeline::{Counters, Delta, Outbox, Pipeline, RuleId};

use crate::config::{Config, ConfigError};
use crate::core::Core;
use crate::dependency::{Dependencies, TraversalView};
use crate::entry::{Credit, EntryId, Program};
use crate::ledger::Ledger;
use crate::maintain::{Caches, Maintainer, Repair, Work};
use crate::statistics::{EvictReason, Statistics};

/// Caches of one worker, at one version of the pipeline.
///
/// ```
/// use std::sync::RwLock;
/// use thalweg_datapath::{Config, Datapath};
/// use thalweg_packet::{Instant, Packet, PacketPool, PortId};
/// use thalweg_pipeline::{Outbox, Pipeline};
///
/// let pipeline = RwLock::new(Pipeline::new(thalweg_pipeline::Config::default()));
/// let mut datapath = Datapath::new(Config::default(), &pipeline.read().unwrap())?;
/// let mut outbox = Outbox::new(PacketPool::with_capacity(8, 2048));
/// let mut packets = vec![Packet::from_bytes(&[0; 60]), Packet::from_bytes(&[0; 60])];
/// datapath.process(&mut packets, Instant::ZERO, &pipeline, &mut outbox);
/// // There are no rules: one upcall, which the second packet shares, and two drops.
/// assert_eq!(datapath.statistics().upcalls, 1);
/// assert_eq!(datapath.statistics().drops().collect::<Vec<_>>(), [("table_miss", 2)]);
/// # Ok::<(), thalweg_datapath::ConfigError>(())
/// ```
pub struct Datapath {
    core: Width,
    maintainer: Box<dyn Maintainer + Send>,
    config: Config,
}

/// Caches by the width of their keys, in words.
enum Width {
    W8(Box<Core<8>>),
    W16(Box<Core<16>>),
    W32(Box<Core<32>>),
    W64(Box<Core<MAX_WORDS>>),
}

/// Does the same with caches of any width.
macro_rules! with_core {
    ($width:expr, $core:ident => $body:expr) => {
        match $width {
            Width::W8($core) => $body,
            Width::W16($core) => $body,
            Width::W32($core) => $body,
            Width::W64($core) => $body,
        }
    };
}

/// An entry as reports show it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EntryView {
    /// Its number.
    pub id: EntryId,
    /// The key it was made with.
    pub key: Vec<u64>,
    /// The bits that its packets agree on.
    pub mask: Vec<u64>,
    /// What is done with its packets; empty for nothing.
    pub effects: Vec<thalweg_pipeline::Effect>,
    /// The rules that its walk met, in order.
    pub rules: Vec<RuleId>,
    /// What it has counted and not yet passed on.
    pub counters: Counters,
    /// When it was last used.
    pub used_at: Instant,
}

impl Datapath {
    /// Empty caches at the pipeline's newest version.
    ///
    /// # Errors
    /// If a limit makes no sense.
    pub fn new(config: Config, pipeline: &Pipeline) -> Result<Datapath, ConfigError> {
        config.check()?;
        let maintainer = config.maintainer.build();
        Ok(Datapath {
            core: Width::new(&config, pipeline),
            maintainer,
            config,
        })
    }

    /// The version whose answers the caches hold.
    pub fn version(&self) -> Version {
        with_core!(&self.core, core => core.version)
    }

    /// Forwards packets, all at the version of the caches, into `outbox`.
    ///
    /// `packets` is left empty. The pipeline is asked, under its read lock, only for packets that
    /// no cache can answer.
    ///
    /// # Panics
    /// If the pipeline has another layout than the caches when it is asked.
    pub fn process(
        &mut self,
        packets: &mut Vec<Packet>,
        now: Instant,
        pipeline: &RwLock<Pipeline>,
        outbox: &mut Outbox,
    ) {
        with_core!(&mut self.core, core => core.process(packets, now, pipeline, outbox));
    }

    /// Moves the caches to the pipeline's version, which `delta` has made from theirs.
    pub fn advance(&mut self, pipeline: &Pipeline, delta: &Delta) -> Work {
        assert_eq!(
            delta.version,
            pipeline.version(),
            "a change is followed as soon as it is made"
        );
        if delta.has_new_layout {
            return self.start_over(pipeline);
        }
        with_core!(&mut self.core, core => {
            core.version = pipeline.version();
            let mut repair = Repair::new(&mut **core);
            let work = self.maintainer.maintain(&mut repair, pipeline, delta);
            if core.entries.len() == 0 {
                core.continuations.clear();
            }
            work
        })
    }

    /// Empties the caches and takes the pipeline's version and layout.
    pub fn start_over(&mut self, pipeline: &Pipeline) -> Work {
        let mut evicted = 0;
        let (ledger, statistics) = with_core!(&mut self.core, core => {
            for id in core.ids() {
                core.evict(id, EvictReason::Flushed);
                evicted += 1;
            }
            (std::mem::take(&mut core.ledger), std::mem::take(&mut core.statistics))
        });
        self.core = Width::new(&self.config, pipeline);
        with_core!(&mut self.core, core => {
            core.ledger = ledger;
            core.statistics = statistics;
        });
        Work {
            examined: evicted,
            evicted,
            ..Work::default()
        }
    }

    /// What entries have counted since the last call, to be settled with the pipeline.
    pub fn gather(&mut self) -> Ledger {
        with_core!(&mut self.core, core => {
            core.gather();
            std::mem::take(&mut core.ledger)
        })
    }

    /// What entries that changed or were evicted had counted, without asking those that remain.
    pub fn take_ledger(&mut self) -> Ledger {
        with_core!(&mut self.core, core => std::mem::take(&mut core.ledger))
    }

    /// What the datapath has seen.
    pub fn statistics(&self) -> &Statistics {
        with_core!(&self.core, core => &core.statistics)
    }

    /// Entries in the wildcard cache.
    pub fn megaflow_count(&self) -> usize {
        with_core!(&self.core, core => core.entries.len())
    }

    /// Masks in the wildcard cache.
    pub fn mask_count(&self) -> usize {
        with_core!(&self.core, core => core.megaflow.mask_count())
    }

    /// Flows in the exact-match cache; those whose entry is gone are counted until replaced.
    pub fn microflow_count(&self) -> usize {
        with_core!(&self.core, core => core.microflow.len())
    }

    /// Flows that the exact-match cache has room for.
    pub fn microflow_capacity(&self) -> usize {
        with_core!(&self.core, core => core.microflow.capacity())
    }

    /// Bytes that the wildcard cache takes: entries, shared lists, and lookup index.
    pub fn megaflow_bytes(&self) -> usize {
        with_core!(&self.core, core => core.memory_bytes())
    }

    /// Bytes that the record of what entries depend on takes; 0 without one.
    pub fn dependency_bytes(&self) -> usize {
        with_core!(&self.core, core => {
            core.dependencies.as_ref().map_or(0, Dependencies::memory_bytes)
        })
    }

    /// Reads that entries depend on, each counted once however many entries share it.
    pub fn dependency_count(&self) -> usize {
        with_core!(&self.core, core => {
            core.dependencies.as_ref().map_or(0, Dependencies::node_count)
        })
    }

    /// Compares the record of what entries depend on with the entries, node by node: for tests, and
    /// for whoever does not trust it.
    ///
    /// # Errors
    /// What does not agree.
    pub fn verify(&self) -> Result<(), String> {
        with_core!(&self.core, core => {
            let ids: Vec<EntryId> = core.entries.ids().collect();
            core.dependencies.as_ref().map_or(Ok(()), |known| known.verify(&ids))
        })
    }

    /// The ways that entries' walks took through the tables, the most used first; empty if the
    /// maintainer does not ask what entries depend on.
    pub fn traversals(&self) -> Vec<TraversalView> {
        with_core!(&self.core, core => core.traversals())
    }

    /// The entries of the wildcard cache.
    pub fn entries(&self) -> Vec<EntryView> {
        with_core!(&self.core, core => core.ids().into_iter().map(|id| core.view(id)).collect())
    }
}

impl Width {
    fn new(config: &Config, pipeline: &Pipeline) -> Width {
        match pipeline.layout().ingress_words() {
            0..=8 => Width::W8(Box::new(Core::new(config, pipeline))),
            9..=16 => Width::W16(Box::new(Core::new(config, pipeline))),
            17..=32 => Width::W32(Box::new(Core::new(config, pipeline))),
            _ => Width::W64(Box::new(Core::new(config, pipeline))),
        }
    }
}

impl<const W: usize> Core<W> {
    fn traversals(&self) -> Vec<TraversalView> {
        let Some(dependencies) = &self.dependencies else {
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

    fn view(&self, id: EntryId) -> EntryView {
        let entry = self.entries.get(id);
        let ingress = self.layout.ingress_words();
        let effects = match &entry.program {
            Program::Drop(reason) => vec![thalweg_pipeline::Effect::Drop {
                reason: *reason,
                copies: 1,
            }],
            Program::Send(port) => vec![thalweg_pipeline::Effect::Output(*port)],
            Program::Run(effects) => effects.to_vec(),
        };
        EntryView {
            id,
            key: self.entries.key(id)[..ingress].to_vec(),
            mask: self.megaflow.mask(entry.subtable)[..ingress].to_vec(),
            effects,
            rules: Credit::rules(&entry.credits).collect(),
            counters: entry.counters,
            used_at: entry.used_at,
        }
    }

    fn memory_bytes(&self) -> usize {
        self.entries.memory_bytes()
            + self.megaflow.memory_bytes()
            + self.effects.memory_bytes()
            + self.credits.memory_bytes()
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
