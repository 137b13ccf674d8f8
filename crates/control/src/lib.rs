//! Controllers' protocols: turns P4Runtime calls into changes of a program's state.
//!
//! ```text
//!   gRPC --> server/ --> Device: who may do it, is it right --> Change --> Target
//!                          ^                                                  |
//!                          +---- digests, packets for the controller <--------+
//! ```
//!
//! [`Device`] is the session state machine of one switch. It has no socket and no clock: calls
//! and messages come in through `handle_*`, output is collected through `poll_*`, and time is
//! an argument. A write becomes a [`Change`] for a [`Target`], which is a data plane. The
//! server, which does have sockets, is in `server/`.
//!
//! 1. A write that is answered is done: from then on no packet sees the older state.
//! 2. A refused write changes nothing; in a batch, this holds for each refused update.
//! 3. Every answer has the standard's code, and a message that says what to do.

mod arbitration;
mod batch;
mod change;
mod client;
mod device;
mod digests;
mod idle;
pub mod model;
pub mod openflow;
mod p4info;
mod packet_io;
mod pipeline;
mod pipeline_config;
mod problem;
pub mod proto;
mod server;
mod store;
mod target;
mod value;

pub use arbitration::StreamId;
pub use change::{
    ActionCall, ActionRef, Change, CloneSession, Count, EntryKey, EntryRef, GroupMember, Match,
    Operation, Rates, Replica,
};
pub use client::{Client, ClientConfig, ClientError, ClientFiles};
pub use device::{API_VERSION, Device, DeviceConfig, DeviceCounters, ReadAnswer, StreamEvent};
pub use p4info::{
    Action, Catalog, Counter, Digest, Field, InfoError, MAX_WIDTH, Marker, MatchKind, Meter,
    PacketHeader, Parameter, Profile, ReadError, Register, Scope, Shape, Table, ValueSet, read,
    read_text, to_text,
};
pub use problem::{Code, Failure, Problem, Verdicts};
pub use server::{
    Listen, ListenError, Notices, Server, ServerConfig, ServerCounters, ServerError, ServerLimits,
    TlsError, TlsFiles, Wire,
};
pub use store::{Reading, messages_of};
pub use target::{EntryState, Initial, InitialEntry, Refusal, Side, Target};
pub use value::{BadValue, Value};
