//! OpenFlow's side of a switch: what connections do, and the server that holds them.
//!
//! ```text
//!   sockets --> server/ --> Agent: session, role, bundles, monitors --> Transaction --> Target
//!                 ^                                                                       |
//!                 +---- replies, packet-ins, flow-removed, port-status <------------------+
//! ```

mod agent;
mod server;
pub mod target;

pub use thalweg_openflow::{UnknownVersion, Version, Versions};

pub use agent::{
    Agent, AgentCounters, AgentLimits, ConnectionConfig, ConnectionId, ConnectionKind,
    ConnectionStatus, FlowModReport,
};
pub use server::{
    AddressError, ControllerPace, ControllerStatus, ControllerTarget, FailMode, ListenAddress,
    MessageEar, MessageSight, OpenFlowClock, OpenFlowConfig, OpenFlowServer,
    OpenFlowServerCounters, Remote, STANDALONE_COOKIE, SharedEar,
};
