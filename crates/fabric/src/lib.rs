//! Simulates a data-centre network, event by event, with the V2P caching protocol of
//! SwitchV2P.
//!
//! ```text
//!   Config, [TraceLine] ---> Simulation ---> Report
//!                              |  Topology    who is linked to whom, and the shortest ways
//!                              |  Port        bandwidth, delay, a queue of bytes
//!                              |  EventQueue  what happens next
//!                              '  agents of `thalweg-v2p` in switches, gateways and hosts
//! ```
//!
//! A run is a function: a configuration, the lines of a trace and a seed give a report. Time
//! is in picoseconds and jumps from event to event. Each hop is one event, because a port
//! computes a packet's arrival time when it accepts the packet. A hop allocates nothing.
//!
//! - It has no clock, socket, thread or global state. Runs are independent.
//! - The same arguments give the same report.
//! - Every packet created was delivered, consumed, dropped for a reason, or is under way.
//!
//! Hosts send UDP, where a trace line is a datagram, or TCP, where a line is a connection.
//!
//! Reference: Lior Zeno, Ang Chen, Mark Silberstein, *In-Network Address Caching for Virtual
//! Networks*, SIGCOMM 2024, section 5.

mod capture;
mod config;
mod ecmp;
mod failure;
mod flows;
mod gateways;
mod generate;
mod id;
mod memory;
mod name;
mod port;
mod queue;
mod report;
mod routes;
mod schemes;
mod shape;
mod simulation;
mod tcp;
mod tenants;
mod time;
mod topology;
mod trace;

pub use capture::{CaptureWriter, Captured, SNAP_BYTES};
pub use config::{
    Bluebird, Config, ConfigError, Controller, ControllerCost, GatewayMove, GatewayService,
    Migration, OnDemand, Payload, Scheme, SwitchV2p, Tenant, Transport,
};
pub use ecmp::Ecmp;
pub use failure::{Element, Failure};
pub use generate::{
    BurstWorkload, FlowWorkload, IncastWorkload, RpcWorkload, Sizes, VideoWorkload,
};
pub use id::{NodeId, PortId};
pub use memory::place_memory;
pub use name::{NodeClass, NodeName, NodeNameError};
pub use port::{Link, Port, PortCounters};
pub use queue::EventQueue;
pub use report::{Drop, Drops, Layers, Report, TenantReport};
pub use schemes::ControllerReport;
pub use shape::{FatTree, TopologyError};
pub use simulation::{Census, PacketStep, Simulation};
pub use tcp::{Algorithm, LossDetection, TcpConfig, TcpConfigError};
pub use time::Time;
pub use topology::{NodeKind, Topology};
pub use trace::{Placement, TraceError, TraceLine, read_trace};
