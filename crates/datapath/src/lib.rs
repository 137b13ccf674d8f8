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
//! A [`Datapath`] belongs to one worker. It holds the answers of the interpreter at *one* version,
//! and [`Datapath::advance`] takes it to the next: the [`Maintainer`] repairs or evicts what the
//! change affects before any packet is forwarded at the new version. This crate starts no thread,
//! reads no clock, and does no input or output.

mod config;
mod continuation;
mod core;
mod datapath;
mod dependency;
mod entry;
mod intern;
mod ledger;
mod maintain;
mod megaflow;
mod microflow;
mod statistics;
mod upcall;

pub use config::{Config, ConfigError, MegaflowConfig, MicroflowConfig};
pub use datapath::{Datapath, EntryView};
pub use dependency::TraversalView;
pub use entry::EntryId;
pub use ledger::Ledger;
pub use maintain::{
    Barrier, Flush, Incremental, Maintainer, MaintainerKind, Outcome, Repair, Revalidate,
    UnknownMaintainer, Work,
};
pub use statistics::{CacheCounters, EvictReason, RefuseReason, Statistics};
