//! Walks through a program's pipelines, remembered: traversals.
//!
//! ```text
//!   a pipeline:   start ----> ... ----> color? ----> ... ----> end
//!   segments:     [ key, mask | operations | stop ][ key, mask | operations | end ]
//! ```
//!
//! A *segment* is what happens to a packet from a node of a control graph to the end of the pipeline
//! or to a *stop point*. The parser, what follows ingress (clones, digests, copies), and the deparser
//! run for each packet as ever; only the walk is remembered, ingress and egress apart, since they
//! begin at different nodes. A segment is found by the words of the frame by which the walk may
//! steer, exactly ([`microflow`](self)) or under the mask of the bits by which it did.
//!
//! The parts, from a miss on:
//!
//! - `admission` chooses which misses are recorded; the others are the interpreter's.
//! - `facts` has what each primitive may read and write; `layout` which words a start's key has.
//! - `record` with `record_action` works on the packet as the interpreter does and writes down what
//!   happens; `origin` knows where each word of the frame comes from, down to bits of the key.
//! - `trim` takes out what nobody reads.
//! - `store` keeps segments and finds them, `segment` performs them.
//! - `rows` and `repair` take out what a write touches, before it returns.
//! - `stops` tells where walks of a program may stop, and why.
//! - `check` records all segments anew and compares: the slow twin of `repair`.
//!
//! **A segment holds operations, not results.** A time to live is counted down, a register read and
//! written, a meter run, a digest asked for, for each packet. What is the same for all packets of the
//! segment is a number. So a segment is right for every packet with the same examined bits.
//!
//! **It stops where the packet's key does not say how to go on**: at a condition on a register, at a
//! table matched by a color. What has few bits becomes part of the key of a segment that begins
//! there; else the node is run for each packet, and a segment begins behind it.
//!
//! **Nobody counts twice.** Counters of entries, the time of their last hit, and cells of counters
//! with a known index belong to the segment; they are credited when somebody reads or changes them,
//! or the segment goes.
//!
//! 1. Cache on equals cache off: the same packets, digests, counters, meters, registers, faults.
//! 2. When a write has returned, no segment is left that it made wrong.
//! 3. Segments, starts, operations and keys are bounded; the least recently used go, counted.
//!
//! Costs: a hit is a key packed and hashed and the operations that are left, whatever the number of
//! tables. A miss that is not recorded is a key packed and hashed, looked for once in the microflows
//! and once for each mask, and the interpreter's work; a recording about as much again.
//!
//! References: Pfaff et al., *The Design and Implementation of Open vSwitch*, NSDI 2015, section 5
//! (un-wildcarding, microflows before megaflows). Zhang et al., *B-Cache: A Behavior-Level Caching
//! Framework for the Programmable Data Plane*: what it leaves out, operations on what is not
//! constant and state that is read, is here an operation or a stop point.

mod admission;
mod check;
mod facts;
mod layout;
mod microflow;
mod origin;
mod record;
mod record_action;
mod repair;
mod rows;
mod segment;
mod statistics;
mod stops;
mod store;
mod trim;
mod walk;
pub(crate) mod words;

pub use statistics::{CacheConfig, CacheStatistics, EvictReason};
pub use stops::{CacheStop, stop_points};
pub(crate) use store::Cache;
