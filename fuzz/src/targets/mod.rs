//! The targets, a file each.

pub mod capture;
pub mod frame;
pub mod wire;
