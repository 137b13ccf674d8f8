//! A private Open vSwitch and `thalweg-vswitchd` turn the same datapath flows into the same frames.
//! Needs Open vSwitch's programs, no privileges.

mod composing;
mod dumping;
