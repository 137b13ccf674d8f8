//! The developer commands; `main.rs` only parses the command line.
//!
//! The continuous build runs `test`, then `ci`; the other commands are their parts, to run
//! alone. Every command prints what it does, exits with 0 only if all of it succeeded, and
//! reports every check that it leaves out. [`ovs`] serves comparisons with the real Open
//! vSwitch.

pub mod autotest;
pub mod ci;
pub mod controllers;
pub mod dbsp;
pub mod differential;
pub mod fuzz;
mod nightly;
pub mod ovs;
mod packages;
mod phases;
pub mod results;
pub mod switch_tests;
pub mod test;
pub mod tidy;
pub mod workspace;
