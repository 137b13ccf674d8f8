//! STF, the format of p4c's tests: entries and packets in, packets expected out.
//!
//! ```text
//!   add table [PRIORITY] key:value ... action(parameter:value, ...) [= LABEL]
//!   setdefault table action(parameter:value, ...)
//!   packet PORT HEX                 expect PORT [HEX[$]]      no_packet
//!   check_counter NAME(INDEX or $LABEL) [packets|bytes OP N]
//!   mirroring_add SESSION PORT      mirroring_add_mc SESSION GROUP
//!   mc_mgrp_create GROUP            mc_node_create RID PORT ...     mc_node_associate GROUP NODE
//!   counter_read, register_read, register_write, register_reset, meter_set_rates, remove all, wait
//! ```
//!
//! One statement a line; `#` begins a comment; keywords are read in any case. Names are resolved by
//! their last parts, as the tests write them. `*` in a value is a digit that does not matter (in a
//! key that is matched by prefix the last ones, so that `0xc0a8****` is a prefix of 16 bits), and in an
//! expected packet a nibble. A packet is compared from its beginning, and to its end only if a
//! `$` says so. Of entries that match, the one with the larger priority wins.
//!
//! A script is run in one process against a [`Target`](crate::run::Target), so nothing is waited for:
//! what a packet leads to has happened when the next line is read. Packets of a port are compared in
//! order; one that nobody expected is a failure, and so is one that did not come. There are the ports
//! that a script names: what leaves by another is seen by nobody, as when p4c's own driver runs the
//! script.

mod parse;
pub(crate) mod resolve;
mod run;

pub use parse::{Comparison, CounterCheck, Script, Statement, StfError};
pub use run::{Failure, run};
