//! The control socket of a daemon: `ovs-appctl` and `thalweg ctl` send it commands.
//!
//! ```text
//!   client --JSON--> ControlSocket, on its thread --PendingCommand--> the owner's loop
//!          <-------- [ControlConnection]          <-------- reply ---
//! ```
//!
//! - [`ControlConnection`] is the server's side of a connection, without its socket.
//! - [`ControlSocket`] is the listening socket, with a thread of its own.
//! - [`ControlClient`] is the client's side, and [`target_path`] finds the socket of a
//!   switch that a person names.
//!
//! The protocol is that of Open vSwitch 3.1 (`lib/unixctl.c`): JSON-RPC 1.0 with texts as
//! parameters and as result.

mod address;
mod client;
mod config;
mod conversation;
mod find;
mod notes;
mod socket;
mod target;

pub use client::{ControlClient, ControlClientError};
pub use config::ControlConfig;
pub use conversation::{ControlCommand, ControlCommands, ControlConnection, ControlRequest};
pub use find::control_path;
pub use notes::{ControlNote, ControlNotes};
pub use socket::{ControlSocket, LAST_ANSWERS, LoopWaker, PendingCommand};
pub use target::target_path;
