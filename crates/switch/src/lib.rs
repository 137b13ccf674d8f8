//! Ports, workers, control and datapath: a running switch.
//!
//! [`Engine`] is a whole switch on one thread and without a clock: a pipeline, one datapath, what
//! packets teach, and timeouts, driven by the time its caller hands in. Replays, demonstrations,
//! benchmarks and most tests use it as it is.

mod aging;
mod audit;
mod engine;
mod timeouts;
mod upkeep;

pub use audit::Audit;
pub use engine::{Config, Engine, EngineError, Removal, RemovalReason, Update};
