//! What the developer commands are made of; `main.rs` only reads the command line.
//!
//! `test` and `ci` are what the continuous build runs, in that order; the others are their parts,
//! to be run alone. Every command prints what it does, ends 0 only if all of it succeeded, and
//! never leaves out a check without saying so. [`ovs`] is for whoever compares with the real
//! Open vSwitch.

pub mod ci;
pub mod dbsp;
pub mod differential;
pub mod fuzz;
mod nightly;
pub mod ovs;
pub mod p4runtime;
mod packages;
mod phases;
pub mod test;
pub mod tidy;
pub mod workspace;
