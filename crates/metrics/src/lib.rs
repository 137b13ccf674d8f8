//! Prometheus metrics of a running switch.
//!
//! ```text
//!   Prometheus --HTTP--> MetricsServer, on its thread --asks--> MetricsDesk, at the switch's owner
//!                               |                 <--Snapshot--      |
//!                               +-- text of the snapshot             +-- Switch::totals
//! ```
//!
//! [`MetricsServer::start`] gives both ends. The owner calls [`MetricsDesk::serve`] in its loop;
//! the server wakes it.
//!
//! 1. Workers do nothing for metrics but report their counts, between two bursts. A reader that
//!    is slow or gone costs them nothing.
//! 2. The owner counts at most once per [`FRESH`], whatever readers ask for.
//! 3. Connections, their time and the bytes of a request are bounded.

mod collect;
mod desk;
mod server;
mod snapshot;

pub use collect::exposition;
pub use desk::{FRESH, MetricsDesk};
pub use server::MetricsServer;
pub use snapshot::{PortLabel, Snapshot};
