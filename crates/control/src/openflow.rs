//! OpenFlow's side of a switch: what connections do, and the server that holds them.
//!
//! ```text
//!   sockets --> server/ --> Agent: session, role, bundles, monitors --> Transaction --> Target
//!                 ^                                                                       |
//!                 +---- replies, packet-ins, flow-removed, port-status <------------------+
//! ```

mod agent;
pub mod target;

pub use agent::{
    Agent, AgentConfig, ConnectionConfig, ConnectionId, ConnectionKind, ConnectionStatus,
};
