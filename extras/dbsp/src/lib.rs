//! KAIRO as published: keeps the answers of recorded packets correct by an incremental DBSP
//! query.
//!
//! A native maintainer of the datapath keeps *regions* correct: every key that agrees with an
//! entry on its mask has the entry's answer. KAIRO, as its authors describe it, keeps the
//! answers of *recorded packets* correct by incremental view maintenance. Rules are base
//! relations, a traversal is a query over them and its recorded packets, and an engine turns a
//! change of rules into a change of answers. This crate implements that for comparison, in
//! speed and in what it can know.
//!
//! ```text
//!   rules, by delta ──> circuit (DBSP): for each step,       ──> per recorded packet:
//!   packets, by key ──>   match = join, priority = maximum,      rules met, effects,
//!                         rewrites = a function of both          and which packets changed
//! ```
//!
//! A [`View`] is made over a `thalweg_pipeline::Pipeline`. [`View::record`] adds packets,
//! [`View::follow`] brings it to the version of a delta, and [`View::answer`] returns the
//! query's answer. `rows` has the rows, `circuit` the circuit, `perform` the effects of
//! actions.
//!
//! 1. **The native answer.** For every recorded packet and every published version, the rules
//!    met and the effects are those of `thalweg_pipeline::translate`. Three ends are reported
//!    without an answer: a walk longer than the circuit ([`End::TooDeep`]), one that needs
//!    another parse ([`End::Recirculates`]), and one that a field sends to `flood` or similar
//!    ([`End::Floods`]).
//! 2. **All or nothing.** Everything not modelled is refused by name ([`Unsupported`]), and
//!    the view stays unchanged.
//! 3. **Reported.** [`View::follow`] names every packet whose answer changed.
//!
//! # How a traversal joins
//! A DBSP circuit is fixed once built. A query per traversal, as in the paper, would need a
//! new circuit at the first packet of every new sequence of tables, which is a cache miss. So
//! the traversal is data here: a walk carries its table, all steps have one form, and one
//! circuit answers every traversal with at most as many lookups as it has steps. A new packet
//! is one transaction, whether its traversal is known or not. Only a walk of more lookups
//! needs [`View::rebuild`]: a new circuit, loaded with everything again.
//!
//! Steps are unrolled; the query is not recursive. A recursive query would need no rebuilding.
//! But DBSP adds the iteration to every row of such a query, and stores and compares rows by
//! it, and rules that resubmit in a circle would still need a bound. That alternative was not
//! measured.
//!
//! # What it cannot see
//! An inserted rule that meets an entry's region but not its recorded packet changes no row.
//! The view then reports, correctly, that the recorded packet's answer is unchanged. A cache
//! that concluded "the entry is right" would go on to answer other packets of the region by
//! the old rules. This is no fault of the engine; regions are not in the relations.
//! `tests/unseen.rs` shows it with the interpreter. Nor can the view see that a mask grew or
//! shrank, since it has none: an entry needs the bits that the walk depended on, and the query
//! has the winner alone. The native maintainers keep the geometry for this
//! (`datapath::maintain`).
//!
//! # What differs from the paper
//! - One circuit serves all traversals (above); the paper has a query for each.
//! - The paper does not say how wildcards are joined. Here it is tuple space search: packets
//!   and rules meet by equality under each mask of the table.
//! - Rewrites, tags, TTL, resubmits and registers are modelled as far as `programs` says; the
//!   rest (groups, floods, `normal`, MPLS, action sets, copies, the stack) is refused.
//! - Only rules are inputs. A change of ports is refused, as is one that needs wider keys.
//! - There is no cache here: no lookups and no counters. Only the maintenance is measured.
//!
//! # Costs
//! `cargo run --release -- --entries 10000,100000,200000 --updates 400` measures them for OFD
//! with 12,000 rules; `docs/results/changes.md` has figures beside the native maintainers'.
//!
//! - An empty transaction takes most of the median time: the engine runs all operators of all
//!   steps.
//! - The rest is proportional to the packets affected, not to those recorded (except for a
//!   mask that is new in its table). In changes that affect many packets, each costs about ten
//!   times what the interpreter takes to answer it again: the access list has 623 masks, and a
//!   header that it gains or loses has a row for each. So the interpreter, asked about all
//!   packets, is faster once a change affects a tenth of them.
//! - One more packet costs little more than an empty transaction, whether its traversal is new
//!   or not. Rebuilding a circuit with all rules and packets takes far longer than any change.
//! - Memory: 19 to 31 kB a recorded packet, also because of the rows per mask.
//!
//! References: Zulfiqar, Pfaff, Antichi and Shahbaz, *KAIRO: Incremental View Maintenance for
//! Scalable Virtual Switch Caching*, poster, 2025; Budiu et al., *DBSP: Automatic Incremental View
//! Maintenance for Rich Query Languages*, VLDB 2023.

mod answer;
mod circuit;
mod perform;
mod programs;
mod rows;
mod view;

pub use answer::{Answer, End};
pub use programs::Unsupported;
pub use view::{MAX_STEPS, View, ViewError};
