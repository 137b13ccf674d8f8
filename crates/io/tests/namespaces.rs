//! Ports on real interfaces, in network namespaces that each test makes for itself.
//!
//! These tests need root and iproute2; without them they fail and say so. Traffic stays inside
//! the namespaces, which are removed at the end of a test, also if it panics.

mod namespace;
mod ports;
