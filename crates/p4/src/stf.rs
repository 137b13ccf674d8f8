//! Runs STF, the format of p4c's tests: entries and packets in, packets expected out.
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
//! Each line has one statement; `#` begins a comment; keywords ignore case. Names are resolved
//! by their last parts, as the tests write them. `*` in a value is a digit that does not
//! matter. In a key matched by prefix these are the last digits, so that `0xc0a8****` is a
//! prefix of 16 bits. In an expected packet `*` is a nibble. A packet is compared from its
//! beginning, and to its end only if a `$` says so. Of the entries that match, the one with the
//! larger priority wins.
//!
//! A script runs in one process against a [`Target`](crate::target::Target), so it never waits:
//! everything that a packet leads to has happened when the next line is read. The packets of a
//! port are compared in order. An unexpected packet is a failure, and so is a missing one. Only
//! the ports that a script names exist: packets that leave by others are ignored, as when p4c's
//! own driver runs the script.

mod parse;
pub(crate) mod resolve;
mod run;

pub use parse::{Comparison, CounterCheck, Script, Statement, StfError};
pub use run::{Failure, run};
