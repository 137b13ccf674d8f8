//! The client of one database: from a connection to a replica that follows, and transactions.
//!
//! ```text
//!   connect -> set_db_change_aware, get_schema -> monitor_cond_since -> following
//!                 ^      ^                         |  or monitor_cond, or monitor
//!                 |      +-- monitor_canceled -----+-- no such database: ask again later
//!                 +-- closed: back-off -------------
//! ```
//!
//! The owner has the socket and the clock:
//!
//! ```text
//!   poll_link(now):  connect or disconnect, then handle_connected(now) or handle_closed(now)
//!   receive(bytes, now), take_output()
//!   next(now):       what happened, until there is no more
//!   tick(now):       probes, attempts; returns when it must be called again at the latest;
//!                    call `next` and `poll_link` after it
//! ```
//!
//! 1. The replica outlives connections: after a new one only what differs is told.
//! 2. Every transaction that was accepted has one outcome.
//! 3. A message that cannot be read or does not fit the replica ends the connection, is told as
//!    a fault, and the next connection asks for all rows.
//! 4. What waits is bounded: transactions by number, input and output by the channel's limits,
//!    rows by the replica's.
//!
//! References: RFC 7047, section 4; ovsdb-server(7), section 4.1 (`monitor_cond`, `update2`,
//! `monitor_cond_since`, `update3`, `set_db_change_aware`, `monitor_canceled`).

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use serde_json::{Value, json};

use crate::column::TableSpec;
use crate::jsonrpc::{ChannelEnd, RpcChannel, RpcConfig, RpcMessage, excerpt};
use crate::reconnect::{Backoff, Reconnect};
use crate::replica::{
    DatabaseReplica, ReplicaError, ReplicaLimits, RowChange, SchemaReport, UpdateForm,
};
use crate::schema::{DatabaseSchema, SchemaError};
use crate::transaction::{Awaited, DatabaseTransaction, TransactionOutcome};

/// Before the first transaction.
const NO_TRANSACTION: &str = "00000000-0000-0000-0000-000000000000";

/// What a client follows, and what it is allowed.
#[derive(Clone, Debug)]
pub struct DatabaseConfig {
    /// The database's name.
    pub database: String,
    /// The tables and columns to follow.
    pub tables: &'static [TableSpec],
    /// Of the connection.
    pub channel: RpcConfig,
    /// Of the replica.
    pub replica: ReplicaLimits,
    /// Between connections.
    pub backoff: Backoff,
    /// Most transactions without an outcome.
    pub transactions_max: usize,
}

impl DatabaseConfig {
    /// A database and tables of it, and limits for a large switch.
    pub fn new(database: &str, tables: &'static [TableSpec]) -> DatabaseConfig {
        DatabaseConfig {
            database: database.to_owned(),
            tables,
            channel: RpcConfig::default(),
            replica: ReplicaLimits::default(),
            backoff: Backoff::default(),
            transactions_max: 64,
        }
    }
}

/// What the owner of the socket must do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkStep {
    /// Open a connection, then call `handle_connected` or `handle_closed`.
    Connect,
    /// Close the connection, or stop trying to open one. `handle_closed` need not be called.
    Disconnect,
}

/// Names a transaction that was submitted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TransactionId(u64);

/// What happened.
#[derive(Clone, PartialEq, Debug)]
pub enum DatabaseEvent {
    /// The server's schema is known; this is missing in it.
    Schema(SchemaReport),
    /// The replica is as the server's tables, with these differences to before.
    Synced(Vec<RowChange>),
    /// The server's tables changed, and the replica with them.
    Changed(Vec<RowChange>),
    /// The client holds the lock that it asked for; or it does not, or not any more, as another
    /// client has it or the connection has ended.
    Lock(bool),
    /// What became of a transaction.
    Finished(TransactionId, TransactionOutcome),
    /// What went wrong; unless it is of the server's choice, the connection ends.
    Fault(DatabaseFault),
    /// The connection has ended.
    Closed,
}

/// What can go wrong between a client and a server.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DatabaseFault {
    /// The connection ends because of its bytes or its silence.
    #[error(transparent)]
    Channel(#[from] ChannelEnd),
    /// The schema cannot be read.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// The schema or an update does not fit.
    #[error(transparent)]
    Replica(#[from] ReplicaError),
    /// The server has no such database, or not yet; it is asked again.
    #[error("the server cannot give the schema of {database}: {reason}")]
    NoDatabase {
        /// The database.
        database: String,
        /// What the server says.
        reason: String,
    },
    /// The server refuses a request that every server must know.
    #[error("the server refuses {method}: {reason}")]
    Refused {
        /// The request.
        method: &'static str,
        /// What the server says.
        reason: String,
    },
    /// A message that makes no sense.
    #[error("the server's {0} makes no sense")]
    Nonsense(&'static str),
}

/// Why a transaction is not accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// The replica does not follow the server now.
    #[error("the database is not connected; submit again after the next `Synced`")]
    NotConnected,
    /// Too many have no outcome yet.
    #[error("{0} transactions wait for their outcome; submit again when one has it")]
    TooMany(usize),
    /// The lock that was asked for is not held.
    #[error("the lock is not held; submit again when `Lock(true)` is told")]
    NotLocked,
}

/// The counters of a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DatabaseCounters {
    /// Connections that were made.
    pub connections: u64,
    /// Updates that were applied, those of all rows among them.
    pub updates: u64,
    /// Times that the server sent all rows.
    pub resyncs: u64,
    /// Transactions that were sent.
    pub transactions: u64,
    /// Messages that nothing waited for: of ended monitors, of unknown kind.
    pub ignored: u64,
    /// Faults.
    pub faults: u64,
}

/// A request that was sent.
#[derive(Clone, Debug)]
enum Pending {
    Aware,
    Schema,
    Monitor(Monitor),
    /// Of the lock of this name.
    Lock(String),
    Unlock,
    Transaction(TransactionId, Awaited),
}

/// Ways to ask for updates, the best first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Monitor {
    ConditionSince,
    Condition,
    Plain,
}

impl Monitor {
    fn method(self) -> &'static str {
        match self {
            Monitor::ConditionSince => "monitor_cond_since",
            Monitor::Condition => "monitor_cond",
            Monitor::Plain => "monitor",
        }
    }

    fn update(self) -> &'static str {
        match self {
            Monitor::ConditionSince => "update3",
            Monitor::Condition => "update2",
            Monitor::Plain => "update",
        }
    }

    fn next(self) -> Option<Monitor> {
        match self {
            Monitor::ConditionSince => Some(Monitor::Condition),
            Monitor::Condition => Some(Monitor::Plain),
            Monitor::Plain => None,
        }
    }

    fn form(self) -> UpdateForm {
        match self {
            Monitor::ConditionSince | Monitor::Condition => UpdateForm::Difference,
            Monitor::Plain => UpdateForm::Whole,
        }
    }
}

/// How far a connection has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// The client asks for the schema at this time.
    Pausing(Duration),
    /// A schema or the first rows are awaited.
    Asking,
    Following(Monitor),
}

/// A lock that the client wants.
#[derive(Clone, Debug)]
struct Lock {
    name: String,
    /// Whether it is held; `None` until the server has said so.
    is_held: Option<bool>,
}

#[derive(Debug)]
struct Connection {
    channel: RpcChannel,
    phase: Phase,
    pending: BTreeMap<u64, Pending>,
    /// The monitor's name; updates of others are of ended ones.
    monitor: String,
    /// How long to wait before the schema is asked for again.
    pause: Duration,
}

/// The client of one database, without its socket.
#[derive(Debug)]
pub struct DatabaseClient {
    config: DatabaseConfig,
    link: Reconnect,
    connection: Option<Connection>,
    replica: DatabaseReplica,
    schema: Option<DatabaseSchema>,
    /// The last transaction that the replica has, if the server names them.
    last: Option<String>,
    lock: Option<Lock>,
    events: VecDeque<DatabaseEvent>,
    must_close: bool,
    waiting: usize,
    sent: u64,
    counters: DatabaseCounters,
}

impl DatabaseClient {
    /// A client that wants to connect at once.
    pub fn new(config: DatabaseConfig, now: Duration) -> DatabaseClient {
        DatabaseClient {
            link: Reconnect::new(config.backoff, now),
            replica: DatabaseReplica::new(config.tables, config.replica),
            connection: None,
            schema: None,
            last: None,
            lock: None,
            events: VecDeque::new(),
            must_close: false,
            waiting: 0,
            sent: 0,
            counters: DatabaseCounters::default(),
            config,
        }
    }

    /// The rows, as of the last event that was returned.
    pub fn replica(&self) -> &DatabaseReplica {
        &self.replica
    }

    /// Its counters.
    pub fn counters(&self) -> DatabaseCounters {
        self.counters
    }

    /// Whether the replica follows the server.
    pub fn is_following(&self) -> bool {
        let connection = self.connection.as_ref();
        connection.is_some_and(|connection| matches!(connection.phase, Phase::Following(_)))
    }

    /// Whether the lock that was asked for is held.
    pub fn has_lock(&self) -> bool {
        self.lock
            .as_ref()
            .is_some_and(|lock| lock.is_held == Some(true))
    }

    /// Whether another client has the lock that was asked for, as the server said last.
    pub fn is_lock_contended(&self) -> bool {
        self.lock
            .as_ref()
            .is_some_and(|lock| lock.is_held == Some(false))
    }

    /// Bytes that wait to be sent; while they are many, the owner reads nothing more.
    pub fn output_bytes(&self) -> usize {
        let connection = self.connection.as_ref();
        connection.map_or(0, |connection| connection.channel.output_bytes())
    }

    /// What to do with the socket.
    pub fn poll_link(&mut self, now: Duration) -> Option<LinkStep> {
        if std::mem::take(&mut self.must_close) {
            return Some(LinkStep::Disconnect);
        }
        if self.link.is_late(now) {
            self.link.closed(now);
            return Some(LinkStep::Disconnect);
        }
        self.link.poll_connect(now).then_some(LinkStep::Connect)
    }

    /// The connection is open.
    pub fn handle_connected(&mut self, now: Duration) {
        self.link.connected(now);
        self.counters.connections += 1;
        self.connection = Some(Connection {
            channel: RpcChannel::new(self.config.channel, now),
            phase: Phase::Asking,
            pending: BTreeMap::new(),
            monitor: String::new(),
            pause: self.config.backoff.min,
        });
        self.request("set_db_change_aware", json!([true]), Pending::Aware);
        self.ask_schema();
        if let Some(lock) = &self.lock {
            let name = lock.name.clone();
            self.request("lock", json!([name]), Pending::Lock(name));
        }
    }

    /// The connection was closed, or could not be opened.
    pub fn handle_closed(&mut self, now: Duration) {
        self.link.closed(now);
        let Some(connection) = self.connection.take() else {
            return;
        };
        for pending in connection.pending.into_values() {
            if let Pending::Transaction(id, _) = pending {
                self.finish(id, TransactionOutcome::TryAgain);
            }
        }
        self.lose_lock();
        self.events.push_back(DatabaseEvent::Closed);
    }

    /// Takes bytes from the server.
    pub fn receive(&mut self, bytes: &[u8], now: Duration) {
        if let Some(connection) = &mut self.connection {
            connection.channel.receive(bytes, now);
        }
    }

    /// The next bytes for the server.
    pub fn take_output(&mut self) -> Option<Vec<u8>> {
        self.connection.as_mut()?.channel.take_output()
    }

    /// Follows the time; returns when it must be called again at the latest.
    pub fn tick(&mut self, now: Duration) -> Option<Duration> {
        let mut due = self.link.deadline();
        if let Some(connection) = &mut self.connection {
            due = due.into_iter().chain(connection.channel.tick(now)).min();
            match connection.phase {
                Phase::Pausing(until) if now >= until => self.ask_schema(),
                Phase::Pausing(until) => due = due.into_iter().chain([until]).min(),
                _ => {}
            }
        }
        due
    }

    /// What happened next.
    pub fn next(&mut self, now: Duration) -> Option<DatabaseEvent> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(event);
            }
            let channel = &mut self.connection.as_mut()?.channel;
            let handled = match channel.next() {
                Some(message) => self.handle(message, now),
                None => match channel.end_reason() {
                    Some(reason) => Err(reason.clone().into()),
                    None => return None,
                },
            };
            if let Err(fault) = handled {
                self.fail(fault, now);
            }
        }
    }

    /// Ends the connection for a fault; the next one asks for all rows.
    fn fail(&mut self, fault: DatabaseFault, now: Duration) {
        self.tell_fault(fault);
        self.last = None;
        self.must_close = true;
        self.handle_closed(now);
    }

    fn tell_fault(&mut self, fault: DatabaseFault) {
        self.counters.faults += 1;
        self.events.push_back(DatabaseEvent::Fault(fault));
    }

    fn finish(&mut self, id: TransactionId, outcome: TransactionOutcome) {
        self.waiting -= 1;
        self.events.push_back(DatabaseEvent::Finished(id, outcome));
    }

    fn request(&mut self, method: &str, params: Value, pending: Pending) {
        let Some(connection) = &mut self.connection else {
            return;
        };
        self.sent += 1;
        connection.pending.insert(self.sent, pending);
        let Value::Array(params) = params else {
            unreachable!("parameters are a list");
        };
        connection.channel.send(&RpcMessage::Request {
            id: self.sent.into(),
            method: method.to_owned(),
            params,
        });
    }

    fn ask_schema(&mut self) {
        if let Some(connection) = &mut self.connection {
            connection.phase = Phase::Asking;
            let params = json!([self.config.database]);
            self.request("get_schema", params, Pending::Schema);
        }
    }

    fn ask_rows(&mut self, monitor: Monitor) {
        let Some(connection) = &mut self.connection else {
            return;
        };
        connection.phase = Phase::Asking;
        connection.monitor = format!("{} {}", self.config.database, self.sent);
        let tables = self.replica.monitored();
        let mut params = json!([self.config.database, connection.monitor, tables]);
        if let (Monitor::ConditionSince, Value::Array(params)) = (monitor, &mut params) {
            params.push(self.last.as_deref().unwrap_or(NO_TRANSACTION).into());
        }
        self.request(monitor.method(), params, Pending::Monitor(monitor));
    }

    fn handle(&mut self, message: RpcMessage, now: Duration) -> Result<(), DatabaseFault> {
        match message {
            RpcMessage::Reply { id, result } => match self.take_pending(&id) {
                Some(pending) => self.handle_reply(pending, result),
                None => self.ignore(),
            },
            RpcMessage::Error { id, error } => match self.take_pending(&id) {
                Some(pending) => self.handle_error(pending, &error, now),
                None => self.ignore(),
            },
            RpcMessage::Notification { method, params } => self.handle_told(&method, &params),
            RpcMessage::Request { id, .. } => {
                self.counters.ignored += 1;
                if let Some(connection) = &mut self.connection {
                    let error = "unknown method".into();
                    connection.channel.send(&RpcMessage::Error { id, error });
                }
                Ok(())
            }
        }
    }

    fn ignore(&mut self) -> Result<(), DatabaseFault> {
        self.counters.ignored += 1;
        Ok(())
    }

    fn take_pending(&mut self, id: &Value) -> Option<Pending> {
        let pending = &mut self.connection.as_mut()?.pending;
        pending.remove(&id.as_u64()?)
    }

    fn handle_reply(&mut self, pending: Pending, result: Value) -> Result<(), DatabaseFault> {
        match pending {
            Pending::Aware | Pending::Unlock => Ok(()),
            Pending::Schema => self.take_schema(&result),
            Pending::Monitor(monitor) => self.take_rows(monitor, &result),
            Pending::Lock(name) => {
                let is_held = result["locked"].as_bool();
                let is_held = is_held.ok_or(DatabaseFault::Nonsense("reply to a lock"))?;
                // It may be wanted no more.
                if self.wants(&name) {
                    self.set_lock_held(is_held);
                }
                Ok(())
            }
            Pending::Transaction(id, awaited) => {
                self.finish(id, awaited.outcome(&result));
                Ok(())
            }
        }
    }

    fn handle_error(
        &mut self,
        pending: Pending,
        error: &Value,
        now: Duration,
    ) -> Result<(), DatabaseFault> {
        let reason = excerpt(error);
        match pending {
            // An old server, which closes the connection when its databases change.
            Pending::Aware => Ok(()),
            Pending::Unlock => Ok(()),
            Pending::Lock(_) => Err(DatabaseFault::Refused {
                method: "lock",
                reason,
            }),
            Pending::Schema => {
                let longest = self.config.backoff.max;
                if let Some(connection) = &mut self.connection {
                    connection.phase = Phase::Pausing(now + connection.pause);
                    connection.pause = (2 * connection.pause).min(longest);
                }
                let database = self.config.database.clone();
                self.tell_fault(DatabaseFault::NoDatabase { database, reason });
                Ok(())
            }
            Pending::Monitor(monitor) => match monitor.next() {
                Some(older) if reason == "unknown method" => {
                    self.ask_rows(older);
                    Ok(())
                }
                _ => Err(DatabaseFault::Refused {
                    method: monitor.method(),
                    reason,
                }),
            },
            Pending::Transaction(id, _) => {
                let outcome = match reason.as_str() {
                    "canceled" => TransactionOutcome::TryAgain,
                    _ => TransactionOutcome::Failed(reason),
                };
                self.finish(id, outcome);
                Ok(())
            }
        }
    }

    fn take_schema(&mut self, result: &Value) -> Result<(), DatabaseFault> {
        let schema = DatabaseSchema::parse(result)?;
        let report = self.replica.set_schema(&schema)?;
        if self.schema.as_ref() != Some(&schema) {
            // The rows may have other columns.
            self.last = None;
            self.schema = Some(schema);
        }
        self.events.push_back(DatabaseEvent::Schema(report));
        self.ask_rows(Monitor::ConditionSince);
        Ok(())
    }

    /// The reply to a monitor: all rows, or the changes since the last transaction.
    fn take_rows(&mut self, monitor: Monitor, result: &Value) -> Result<(), DatabaseFault> {
        const NONSENSE: DatabaseFault = DatabaseFault::Nonsense("reply to a monitor");
        let form = monitor.form();
        let changes = if monitor == Monitor::ConditionSince {
            let Some([found, last, updates]) = result.as_array().map(Vec::as_slice) else {
                return Err(NONSENSE);
            };
            let (found, last) = found.as_bool().zip(last.as_str()).ok_or(NONSENSE)?;
            let changes = match found {
                // Without a transaction there is nothing that it could have found.
                true if self.last.is_none() => return Err(NONSENSE),
                true => self.replica.apply(form, updates)?,
                false => self.resync(form, updates)?,
            };
            self.set_last(last);
            changes
        } else {
            self.last = None;
            self.resync(form, result)?
        };
        self.counters.updates += 1;
        if let Some(connection) = &mut self.connection {
            connection.phase = Phase::Following(monitor);
        }
        self.events.push_back(DatabaseEvent::Synced(changes));
        Ok(())
    }

    fn resync(&mut self, form: UpdateForm, rows: &Value) -> Result<Vec<RowChange>, ReplicaError> {
        self.counters.resyncs += 1;
        self.replica.resync(form, rows)
    }

    /// A server that keeps no history names every transaction zero.
    fn set_last(&mut self, last: &str) {
        self.last = (last != NO_TRANSACTION).then(|| last.to_owned());
    }

    fn handle_told(&mut self, method: &str, params: &[Value]) -> Result<(), DatabaseFault> {
        match (method, params) {
            ("locked" | "stolen", [name]) => {
                if name.as_str().is_some_and(|name| self.wants(name)) {
                    self.set_lock_held(method == "locked");
                }
                Ok(())
            }
            ("monitor_canceled", [name]) if self.is_monitor(name) => {
                // The database was converted or replaced.
                self.ask_schema();
                Ok(())
            }
            ("update", [name, updates]) => self.update(Monitor::Plain, name, updates, None),
            ("update2", [name, updates]) => self.update(Monitor::Condition, name, updates, None),
            ("update3", [name, last, updates]) => {
                self.update(Monitor::ConditionSince, name, updates, Some(last))
            }
            _ => self.ignore(),
        }
    }

    fn is_monitor(&self, name: &Value) -> bool {
        let connection = self.connection.as_ref();
        connection.is_some_and(|connection| *name == connection.monitor)
    }

    fn update(
        &mut self,
        monitor: Monitor,
        name: &Value,
        updates: &Value,
        last: Option<&Value>,
    ) -> Result<(), DatabaseFault> {
        let connection = self.connection.as_ref();
        let phase = connection.map(|connection| connection.phase);
        if phase != Some(Phase::Following(monitor)) || !self.is_monitor(name) {
            return self.ignore();
        }
        let changes = self.replica.apply(monitor.form(), updates)?;
        if let Some(last) = last {
            let last = last.as_str();
            self.set_last(last.ok_or(DatabaseFault::Nonsense(monitor.update()))?);
        }
        self.counters.updates += 1;
        if !changes.is_empty() {
            self.events.push_back(DatabaseEvent::Changed(changes));
        }
        Ok(())
    }

    /// Wants a lock from now on, on this and later connections; without it no transaction is
    /// made. `Lock(true)` tells when it is held.
    pub fn lock(&mut self, name: &str) {
        self.want_lock(name, "lock");
    }

    /// The same, taking the lock from the client that holds it.
    pub fn steal(&mut self, name: &str) {
        self.want_lock(name, "steal");
    }

    fn want_lock(&mut self, name: &str, method: &'static str) {
        if method == "lock" && self.wants(name) {
            return;
        }
        self.unlock();
        self.lock = Some(Lock {
            name: name.to_owned(),
            is_held: None,
        });
        self.request(method, json!([name]), Pending::Lock(name.to_owned()));
    }

    fn wants(&self, name: &str) -> bool {
        self.lock.as_ref().is_some_and(|lock| lock.name == name)
    }

    /// Wants no lock any more.
    pub fn unlock(&mut self) {
        self.lose_lock();
        if let Some(lock) = self.lock.take() {
            self.request("unlock", json!([lock.name]), Pending::Unlock);
        }
    }

    fn set_lock_held(&mut self, is_held: bool) {
        let differs = |lock: &&mut Lock| lock.is_held != Some(is_held);
        if let Some(lock) = self.lock.as_mut().filter(differs) {
            lock.is_held = Some(is_held);
            self.events.push_back(DatabaseEvent::Lock(is_held));
        }
    }

    /// Forgets what the server said of the lock.
    fn lose_lock(&mut self) {
        let said = self.lock.as_mut().and_then(|lock| lock.is_held.take());
        if said == Some(true) {
            self.events.push_back(DatabaseEvent::Lock(false));
        }
    }

    /// Sends a transaction; its outcome is told as `Finished`.
    ///
    /// # Errors
    ///
    /// It is not sent: there is no connection or no lock, or too many have no outcome.
    pub fn submit(&mut self, wanted: &DatabaseTransaction) -> Result<TransactionId, SubmitError> {
        if !self.is_following() {
            return Err(SubmitError::NotConnected);
        }
        if self.waiting >= self.config.transactions_max {
            return Err(SubmitError::TooMany(self.config.transactions_max));
        }
        if self.lock.is_some() && !self.has_lock() {
            return Err(SubmitError::NotLocked);
        }
        self.counters.transactions += 1;
        self.waiting += 1;
        let id = TransactionId(self.counters.transactions);
        let lock = self.lock.as_ref().map(|lock| lock.name.as_str());
        let (operations, awaited) = wanted.build(&self.replica, lock);
        if operations.is_empty() {
            self.finish(id, TransactionOutcome::Unchanged);
            return Ok(id);
        }
        let mut params = vec![self.config.database.clone().into()];
        params.extend(operations);
        self.request("transact", params.into(), Pending::Transaction(id, awaited));
        Ok(id)
    }
}

#[cfg(test)]
mod tests;
