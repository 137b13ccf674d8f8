//! Remembers walks through a program's pipelines: traversals.
//!
//! ```text
//!   a pipeline:   start ----> ... ----> color? ----> ... ----> end
//!   segments:     [ key, mask | operations | stop ][ key, mask | operations | end ]
//! ```
//!
//! A *segment* is what happens to a packet from a node of a control graph to the end of the
//! pipeline or to a *stop point*. The parser, the steps after ingress (clones, digests, copies)
//! and the deparser run for each packet as always. Only the walk is remembered, for ingress and
//! egress separately, since they begin at different nodes. A segment is found by the frame
//! words by which the walk may steer: exactly ([`microflow`](self)), or under the mask of the
//! bits that decided the walk.
//!
//! The parts, from a miss on:
//!
//! - `admission` chooses which misses are recorded; the interpreter runs the others.
//! - `facts` has what each primitive may read and write; `layout` has the words of a start's
//!   key.
//! - `record` with `record_action` runs the packet as the interpreter does and writes down what
//!   happens; `origin` tracks where each frame word comes from, down to bits of the key.
//! - `trim` removes operations whose results are never read.
//! - `store` keeps segments and finds them, `segment` performs them.
//! - `rows` and `repair` remove what a write touches, before the write returns.
//! - `stops` reports where walks of a program may stop, and why.
//! - `check` records all segments again and compares: the slow twin of `repair`.
//!
//! **A segment holds operations, not results.** Each packet decrements its time to live, reads
//! and writes registers, runs meters and requests digests. A value that is the same for all
//! packets of the segment is a constant. So a segment is right for every packet with the same
//! examined bits.
//!
//! **It stops where the packet's key does not decide the next step**: at a condition on a
//! register, at a table matched by a color. If the value has few bits, it becomes part of the
//! key of a segment that begins there. Otherwise the node runs for each packet, and a segment
//! begins after it.
//!
//! **Nothing is counted twice.** Counters of entries, the time of their last hit, and counter
//! cells with a known index belong to the segment. They are credited when they are read or
//! changed, or when the segment is evicted.
//!
//! 1. Cache on equals cache off: the same packets, digests, counters, meters, registers,
//!    faults.
//! 2. When a write has returned, no segment is left that it made wrong.
//! 3. Segments, starts, operations and keys are bounded; the least recently used are evicted
//!    and counted.
//!
//! Costs: a hit packs and hashes a key and runs the remaining operations, whatever the number
//! of tables. A miss that is not recorded packs and hashes a key, looks it up once in the
//! microflows and once per mask, and runs the interpreter. A recording costs about as much
//! again.
//!
//! References: Pfaff et al., *The Design and Implementation of Open vSwitch*, NSDI 2015,
//! section 5 (un-wildcarding, microflows before megaflows). Zhang et al., *B-Cache: A
//! Behavior-Level Caching Framework for the Programmable Data Plane*: it leaves out operations
//! on variable values, and reads of state. Both are operations or stop points here.

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
