//! The client's side of OVSDB, the configuration database of Open vSwitch.
//!
//! A daemon in ovs-vswitchd's place reads its configuration from `ovsdb-server` and writes back
//! what became of it. This crate is all of that but the socket and the clock: bytes and times
//! go in, bytes and changes come out.
//!
//! - [`DatabaseClient`] is the client of one database: it connects again with back-off, follows
//!   the tables, holds the lock, and makes transactions.
//! - [`DatabaseReplica`] has the rows; [`open_vswitch`] lists the tables and columns that a
//!   switch uses, with types: `row.get(bridge::NAME)` is a text.
//! - [`DatabaseTransaction`] holds changes that are made together or not at all.
//! - [`jsonrpc`] is the protocol below, for clients and servers: the control socket of
//!   `ovs-appctl` speaks it too.
//!
//! 1. No bytes of a peer make it panic. Limits bound the memory that a peer can make it use
//!    ([`jsonrpc::RpcLimits`], [`ReplicaLimits`]).
//! 2. A batch of updates is told at once, with each row before and after. After a new
//!    connection only differences are told.
//! 3. A table or column that the server's schema lacks reads as unset and is reported; a column
//!    of another type is an error.
//!
//! A daemon's loop, here with a server that knows three requests:
//!
//! ```
//! use std::time::Duration;
//! use serde_json::{Value, json};
//! use thalweg_ovsdb::jsonrpc::{RpcChannel, RpcConfig, RpcMessage};
//! use thalweg_ovsdb::open_vswitch::{TABLES, bridge};
//! use thalweg_ovsdb::{DatabaseClient, DatabaseConfig, DatabaseEvent, LinkStep};
//!
//! fn answer(method: &str) -> Value {
//!     let name = json!({"type": "string"});
//!     match method {
//!         "get_schema" => json!({"name": "Open_vSwitch", "version": "8.3.1",
//!                                "tables": {"Bridge": {"columns": {"name": name}}}}),
//!         "monitor_cond_since" => json!([false, "00000000-0000-0000-0000-000000000000", {
//!             "Bridge": {"5f17ffe5-2ff6-45a6-b1a6-8b2e1f4d3a2c": {"initial": {"name": "br0"}}}
//!         }]),
//!         _ => json!({}),
//!     }
//! }
//!
//! let now = Duration::ZERO;
//! let config = DatabaseConfig::new("Open_vSwitch", TABLES);
//! let mut client = DatabaseClient::new(config, now);
//! let mut server = RpcChannel::new(RpcConfig::default(), now);
//!
//! assert_eq!(client.poll_link(now), Some(LinkStep::Connect));
//! client.handle_connected(now);
//! let changes = loop {
//!     while let Some(bytes) = client.take_output() {
//!         server.receive(&bytes, now);
//!     }
//!     while let Some(RpcMessage::Request { id, method, .. }) = server.next() {
//!         server.send(&RpcMessage::Reply { id, result: answer(&method) });
//!     }
//!     while let Some(bytes) = server.take_output() {
//!         client.receive(&bytes, now);
//!     }
//!     match client.next(now) {
//!         Some(DatabaseEvent::Schema(report)) => {
//!             assert!(report.missing_tables.contains(&"Port"));
//!         }
//!         Some(DatabaseEvent::Synced(changes)) => break changes,
//!         other => panic!("{other:?}"),
//!     }
//! };
//! assert_eq!(changes.len(), 1);
//! let br0 = client.replica().named(bridge::TABLE, "br0").unwrap();
//! assert_eq!(br0.get(bridge::FAIL_MODE), None);
//! ```

mod client;
mod column;
pub mod jsonrpc;
#[cfg(test)]
mod model;
mod number;
pub mod open_vswitch;
mod reconnect;
mod replica;
mod schema;
mod transaction;
mod value;

pub use client::{
    DatabaseClient, DatabaseConfig, DatabaseCounters, DatabaseEvent, DatabaseFault, LinkStep,
    SubmitError, TransactionId,
};
pub use column::{
    AtomKind, Boolean, Column, ColumnKind, ColumnSpec, Elements, Expected, Integer, Many, MapOf,
    Optional, Pairs, Ref, RowRef, RowsOf, TableIndex, TableSpec, Text,
};
pub use reconnect::Backoff;
pub use replica::{
    DatabaseReplica, Refers, ReplicaError, ReplicaLimits, Row, RowChange, SchemaReport, UpdateForm,
};
pub use schema::{AtomType, BaseType, ColumnType, DatabaseSchema, SchemaError, TableSchema};
pub use transaction::{
    Committed, DatabaseTransaction, RetryStep, TransactionOutcome, TransactionRetry,
};
pub use uuid::Uuid;
pub use value::{Atom, DataError, Datum, NewRow};
