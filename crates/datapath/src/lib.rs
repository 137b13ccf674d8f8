//! The caches, their maintainers, and the loop that uses them.
//!
//! ```text
//!   packets -> parse, extract keys -> microflow --miss--> megaflow --miss--> upcall: interpreter
//!                                        |hit                |hit              |
//!                                        +------> entry <----+--- new entry ---+
//!                                                   |
//!                                        run its effects, count
//! ```
//!
//! In another [`Mode`], computational flows, there are no megaflows: the rules answer what
//! misses the exact-match cache, without an upcall.
//!
//! A [`Datapath`] belongs to one worker. It holds the interpreter's answers at *one* version,
//! and follows each change to the next in slices ([`Datapath::begin`], [`Datapath::step`]).
//! Entries that the change affects are marked, then the version moves. From then on a marked
//! answer is used only after the [`Maintainer`] has repaired it; others are evicted. This
//! crate starts no thread, reads no clock, and does no input or output.

mod by_hand;
mod computational;
mod config;
mod content;
mod continuation;
mod core;
mod datapath;
mod dependency;
mod entry;
mod gate;
mod gather;
mod hand_flow;
mod history;
mod intern;
mod ledger;
mod maintain;
mod maintainer_kind;
mod megaflow;
mod microflow;
mod outcome;
mod record;
mod scratch;
mod slice;
mod statistics;
mod sync;
mod thrift;
mod training;
mod upcall;
mod watch;

pub use config::{
    Config, ConfigError, MEGAFLOWS_MAX, MegaflowClassifier, MegaflowConfig, MicroflowConfig, Mode,
    UnknownMegaflowClassifier, UnknownMode,
};
pub use datapath::{Datapath, EntryView, Progress};
pub use dependency::{Findings, Index, TraversalView};
pub use entry::EntryId;
pub use gate::Gate;
pub use hand_flow::{HandFlow, HandFlows};
pub use history::LastRepair;
pub use ledger::{Counts, Ledger};
pub use maintain::{
    Barrier, Flush, Incremental, Lazy, Maintainer, Repair, Requests, Revalidate, Scope, Walks,
};
pub use maintainer_kind::{MaintainerKind, UnknownMaintainer};
pub use megaflow::{CacheChoice, CacheIndex};
pub use outcome::{Outcome, Work};
pub use slice::EntrySlice;
pub use statistics::{CacheCounters, EvictReason, LookupCounters, RefuseReason, Statistics};
pub use thalweg_classifier::LearnedStatistics;
pub use thalweg_classifier::{BuiltIndex, IndexJob, Tending};
pub use training::CacheOwner;
pub use watch::{UpcallEntry, UpcallReport, WatchedUpcalls};
