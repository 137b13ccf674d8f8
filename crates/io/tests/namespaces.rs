//! Tests of ports on real interfaces, in network namespaces that each test creates.
//!
//! These tests need root and iproute2; without them they fail with a clear message. Traffic
//! stays inside the namespaces, which are removed at the end of a test, even if it panics.

mod exchange;
mod namespace;
mod ports;
