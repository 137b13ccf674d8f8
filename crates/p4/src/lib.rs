//! Loads P4 programs in BMv2's JSON, fills them with entries, and runs them on packets.
//!
//! ```text
//!   JSON of p4c --Program--> headers, parser, tables, actions       once, at load
//!   controller --Update----> State: entries, members, groups, cells  whole or not at all
//!   packet -----Target-----> packets, digests, counts                nothing looked up by name
//! ```
//!
//! The programs are v1model programs compiled by p4c's back end for BMv2. Where the language
//! leaves room, they behave as on `simple_switch`. [`Program`] is a loaded program, [`State`]
//! what controllers write and packets change, and [`Target`] runs both. [`stf`] runs p4c's own
//! tests, and [`commands`] reads files of simple_switch_CLI.
//!
//! - It reads no clock, opens no socket, starts no thread, and has no randomness of its own:
//!   time is an argument and the seed is in [`Config`]. The same packets at the same times have
//!   the same outcome.
//! - A packet allocates nothing, except for numbers that exceed 128 bits and for buffers that
//!   are kept for later packets.
//! - Work per packet is bounded: states, steps, passes and copies have limits, and so has their
//!   total ([`run::WORK_MAX`]). A packet that meets a limit is dropped and counted
//!   ([`DropReason`]).
//! - A program that cannot run is refused at load, with the place in the JSON and in the P4
//!   program.
//!
//! It builds on `classifier`, whose classifiers hold the tables' entries in versions, and on
//! `packet`. It is separate from `pipeline`, since almost nothing of a walk is the same: a P4
//! program has its own parser, header instances, externs and control flow.
//!
//! # Words
//! - *Frame*: the words with headers and metadata of a packet under way.
//! - *Fault*: something without effect that a program did; it is counted.
//! - *Target*: a program at work, with its state.
//! - *Replica*: a copy of a packet in a multicast group.
//!
//! References: *P4_16 Language Specification*, version 1.2.4, The P4 Language Consortium, 2023;
//! the JSON format of BMv2, version 2.23 (`docs/JSON_format.md` of the behavioral model).

pub mod behavior;
pub mod cache;
pub mod commands;
mod counter;
pub mod error;
mod json;
mod meter;
mod packed;
pub mod program;
mod rest;
pub mod run;
pub mod state;
pub mod stf;
pub mod target;
mod training;

pub use cache::traversal::{CacheConfig, CacheStatistics, EvictReason};
pub use error::{LoadError, SourceLocation};
pub use program::Program;
pub use run::{Counts, Digest, DropReason, Fault, Outbox, Sent, TraceStep};
pub use state::State;
pub use target::{Config, Target};
pub use thalweg_classifier::{AutoStatistics, ClassifierKind, IndexKind};
pub use thalweg_classifier::{BuiltIndex, IndexJob};
pub use training::TargetOwner;
