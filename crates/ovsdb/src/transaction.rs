//! Changes of the database that are made together or not at all.
//!
//! A transaction is built from rows of the replica and new ones, and becomes the operations of
//! RFC 7047, section 5.2, when it is submitted. The operations are, in order: `assert` of the
//! lock, `wait` for the values relied on, `delete`, `update`, `insert`, `mutate`, `comment`,
//! `abort`.
//!
//! 1. A value that the replica has already is not written.
//! 2. [`DatabaseTransaction::verify`] makes a `wait` of the value that was read: if it has
//!    changed by then, nothing is done and the outcome is [`TransactionOutcome::TryAgain`].
//! 3. A column that the server's schema lacks is not written; the [`SchemaReport`] of the
//!    connection has named it.
//!
//! [`SchemaReport`]: crate::SchemaReport

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::column::{AtomKind, Column, ColumnKind, Integer, Many, MapOf, TableIndex};
use crate::jsonrpc::excerpt;
use crate::number::integer;
use crate::replica::{DatabaseReplica, Row};
use crate::value::{Datum, NewRow, parse_uuid};

/// The operations on a row of the database.
#[derive(Clone, Debug)]
struct Edit {
    row: Arc<Row>,
    columns: BTreeMap<u16, Datum>,
    verified: BTreeSet<u16>,
    mutations: Vec<(u16, &'static str, Datum)>,
    is_deleted: bool,
}

/// Changes that are made together or not at all.
///
/// ```
/// use thalweg_ovsdb::DatabaseTransaction;
/// use thalweg_ovsdb::open_vswitch::{bridge, port};
///
/// let mut transaction = DatabaseTransaction::new();
/// let new = transaction.insert(port::TABLE);
/// transaction.set_new(new, port::NAME, "p1");
/// transaction.set_new(new, port::TAG, Some(5));
/// transaction.comment("a port for the tests");
/// assert!(!transaction.is_empty());
/// ```
#[derive(Clone, Debug, Default)]
pub struct DatabaseTransaction {
    edits: BTreeMap<(TableIndex, Uuid), Edit>,
    inserts: Vec<(TableIndex, BTreeMap<u16, Datum>)>,
    comment: String,
    is_aborted: bool,
}

impl DatabaseTransaction {
    /// One that does nothing.
    pub fn new() -> DatabaseTransaction {
        DatabaseTransaction::default()
    }

    /// Whether it does nothing; comments and verified columns alone do nothing.
    pub fn is_empty(&self) -> bool {
        let is_idle =
            |edit: &Edit| !edit.is_deleted && edit.columns.is_empty() && edit.mutations.is_empty();
        self.inserts.is_empty() && self.edits.values().all(is_idle) && !self.is_aborted
    }

    fn edit(&mut self, row: &Arc<Row>) -> &mut Edit {
        self.edits
            .entry((row.table, row.uuid))
            .or_insert_with(|| Edit {
                row: row.clone(),
                columns: BTreeMap::new(),
                verified: BTreeSet::new(),
                mutations: Vec::new(),
                is_deleted: false,
            })
    }

    /// Inserts a row, of which nothing is set yet.
    pub fn insert(&mut self, table: TableIndex) -> NewRow {
        self.inserts.push((table, BTreeMap::new()));
        NewRow(u32::try_from(self.inserts.len() - 1).expect("a transaction fits the memory"))
    }

    /// Sets a column of a row that this transaction inserts.
    ///
    /// # Panics
    ///
    /// The row is another transaction's or the column another table's.
    pub fn set_new<K: ColumnKind>(&mut self, row: NewRow, column: Column<K>, value: K::Given<'_>) {
        let (table, columns) = &mut self.inserts[row.0 as usize];
        assert_eq!(*table, column.table, "the column is of another table");
        columns.insert(column.index, K::datum(value));
    }

    /// Sets a column of a row.
    ///
    /// # Panics
    ///
    /// The column is another table's.
    pub fn set<K: ColumnKind>(&mut self, row: &Arc<Row>, column: Column<K>, value: K::Given<'_>) {
        let datum = K::datum(value);
        let is_there = *row.datum(column) == datum;
        let edit = self.edit(row);
        match is_there {
            true => edit.columns.remove(&column.index),
            false => edit.columns.insert(column.index, datum),
        };
    }

    /// Makes the transaction depend on the value of a column that was read.
    ///
    /// # Panics
    ///
    /// The column is another table's.
    pub fn verify<K>(&mut self, row: &Arc<Row>, column: Column<K>) {
        assert_eq!(row.table, column.table, "the column is of another table");
        self.edit(row).verified.insert(column.index);
    }

    /// Deletes a row.
    pub fn delete(&mut self, row: &Arc<Row>) {
        self.edit(row).is_deleted = true;
    }

    /// Adds elements to a set, whatever else is in it by then.
    pub fn add<K: AtomKind>(
        &mut self,
        row: &Arc<Row>,
        column: Column<Many<K>>,
        elements: &[K::Given<'_>],
    ) {
        self.mutate(row, column, "insert", elements);
    }

    /// Removes elements from a set, whatever else is in it by then.
    pub fn remove<K: AtomKind>(
        &mut self,
        row: &Arc<Row>,
        column: Column<Many<K>>,
        elements: &[K::Given<'_>],
    ) {
        self.mutate(row, column, "delete", elements);
    }

    fn mutate<K: AtomKind>(
        &mut self,
        row: &Arc<Row>,
        column: Column<Many<K>>,
        mutator: &'static str,
        elements: &[K::Given<'_>],
    ) {
        assert_eq!(row.table, column.table, "the column is of another table");
        let datum = Datum::set(elements.iter().map(|element| K::atom(*element)));
        self.edit(row)
            .mutations
            .push((column.index, mutator, datum));
    }

    /// Sets a key of a map, whatever else is in it by then.
    ///
    /// # Panics
    ///
    /// The column is another table's.
    pub fn put<K: AtomKind, V: AtomKind>(
        &mut self,
        row: &Arc<Row>,
        column: Column<MapOf<K, V>>,
        key: K::Given<'_>,
        value: V::Given<'_>,
    ) {
        assert_eq!(row.table, column.table, "the column is of another table");
        let pair = Datum::map([(K::atom(key), V::atom(value))]);
        let key = Datum::set([K::atom(key)]);
        let edit = self.edit(row);
        // "insert" leaves a key that is there as it is.
        edit.mutations.push((column.index, "delete", key));
        edit.mutations.push((column.index, "insert", pair));
    }

    /// Removes a key of a map, if it is there by then.
    ///
    /// # Panics
    ///
    /// The column is another table's.
    pub fn take<K: AtomKind, V: AtomKind>(
        &mut self,
        row: &Arc<Row>,
        column: Column<MapOf<K, V>>,
        key: K::Given<'_>,
    ) {
        assert_eq!(row.table, column.table, "the column is of another table");
        let key = Datum::set([K::atom(key)]);
        self.edit(row).mutations.push((column.index, "delete", key));
    }

    /// Adds to a number, whatever it is by then.
    ///
    /// # Panics
    ///
    /// The column is another table's.
    pub fn increment(&mut self, row: &Arc<Row>, column: Column<Integer>, by: i64) {
        assert_eq!(row.table, column.table, "the column is of another table");
        let datum = <Integer as ColumnKind>::datum(by);
        self.edit(row).mutations.push((column.index, "+=", datum));
    }

    /// Adds a line to what the database's journal says of this transaction.
    pub fn comment(&mut self, text: &str) {
        if !self.comment.is_empty() {
            self.comment.push('\n');
        }
        self.comment.push_str(text);
    }

    /// Lets the server check everything and then change nothing.
    pub fn abort(&mut self) {
        self.is_aborted = true;
    }

    /// The operations, or none if there is nothing to do, and what their answer must have.
    pub(crate) fn build(
        &self,
        replica: &DatabaseReplica,
        lock: Option<&str>,
    ) -> (Vec<Value>, Awaited) {
        let mut parts = Parts::default();
        for edit in self.edits.values() {
            edit.build(replica, &mut parts);
        }
        for (number, (table, columns)) in self.inserts.iter().enumerate() {
            let name = NewRow(u32::try_from(number).expect("it was one before")).name();
            parts.inserts.push(json!({
                "op": "insert",
                "table": replica.specs()[usize::from(table.0)].name,
                "row": values(replica, *table, columns),
                "uuid-name": name,
            }));
        }
        if parts.has_none() && !self.is_aborted {
            return (Vec::new(), Awaited::default());
        }
        let lock = lock.map(|name| json!({"op": "assert", "lock": name}));
        let before = lock.into_iter().chain(parts.waits).chain(parts.writes);
        let all = before.chain(parts.inserts).chain(parts.mutations);
        let mut operations: Vec<Value> = all.collect();
        if !self.comment.is_empty() {
            operations.push(json!({"op": "comment", "comment": self.comment}));
        }
        if self.is_aborted {
            operations.push(json!({"op": "abort"}));
        }
        let op = |operation: &Value| match operation["op"].as_str() {
            Some("insert") => Answer::Uuid,
            Some("update" | "delete" | "mutate") => Answer::Count,
            _ => Answer::Nothing,
        };
        let awaited = Awaited(operations.iter().map(op).collect());
        (operations, awaited)
    }
}

/// The operations of a transaction by kind.
#[derive(Default)]
struct Parts {
    waits: Vec<Value>,
    writes: Vec<Value>,
    inserts: Vec<Value>,
    mutations: Vec<Value>,
}

impl Parts {
    fn has_none(&self) -> bool {
        self.writes.is_empty() && self.inserts.is_empty() && self.mutations.is_empty()
    }
}

/// What the result of an operation must have (RFC 7047, section 5.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Answer {
    Nothing,
    /// Rows; at most one, as each operation is of one row, which may have gone.
    Count,
    /// The name of an inserted row.
    Uuid,
}

/// What the answer to a transaction must have, for each operation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Awaited(Vec<Answer>);

impl Edit {
    fn build(&self, replica: &DatabaseReplica, parts: &mut Parts) {
        let Edit { row, columns, .. } = self;
        let spec = &replica.specs()[usize::from(row.table.0)];
        let is_this = json!([["_uuid", "==", ["uuid", row.uuid.to_string()]]]);
        let name = |column: u16| spec.columns[usize::from(column)].name;
        let known = |column: &u16| replica.is_known(row.table, *column);
        let verified: Vec<u16> = self.verified.iter().copied().filter(known).collect();
        if !verified.is_empty() {
            let names: Vec<&str> = verified.iter().map(|column| name(*column)).collect();
            let value = |column: &u16| (*column, row.columns[usize::from(*column)].clone());
            let read: BTreeMap<u16, Datum> = verified.iter().map(value).collect();
            parts.waits.push(json!({
                "op": "wait",
                "timeout": 0,
                "table": spec.name,
                "where": is_this,
                "columns": names,
                "until": "==",
                "rows": [values(replica, row.table, &read)],
            }));
        }
        if self.is_deleted {
            parts
                .writes
                .push(json!({"op": "delete", "table": spec.name, "where": is_this}));
            return;
        }
        let written = values(replica, row.table, columns);
        if !written.is_empty() {
            parts.writes.push(json!({
                "op": "update",
                "table": spec.name,
                "where": is_this,
                "row": written,
            }));
        }
        let mutations = self.mutations.iter().filter(|(column, ..)| known(column));
        let mutation = |(column, mutator, datum): &(u16, &str, Datum)| {
            json!([name(*column), mutator, datum.to_json()])
        };
        let mutations: Vec<Value> = mutations.map(mutation).collect();
        if !mutations.is_empty() {
            parts.mutations.push(json!({
                "op": "mutate",
                "table": spec.name,
                "where": is_this,
                "mutations": mutations,
            }));
        }
    }
}

/// The values of columns that the server has, by name.
fn values(
    replica: &DatabaseReplica,
    table: TableIndex,
    columns: &BTreeMap<u16, Datum>,
) -> Map<String, Value> {
    let spec = &replica.specs()[usize::from(table.0)];
    let known = columns
        .iter()
        .filter(|(column, _)| replica.is_known(table, **column));
    known
        .map(|(column, datum)| {
            let name = spec.columns[usize::from(*column)].name;
            (name.to_owned(), datum.to_json())
        })
        .collect()
}

/// What became of a transaction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TransactionOutcome {
    /// It is done, and the replica has it.
    Committed(Committed),
    /// There was nothing to do.
    Unchanged,
    /// It asked for that: [`DatabaseTransaction::abort`].
    Aborted,
    /// What it relied on has changed, or the connection broke before the answer. In the latter
    /// case it may be done. Build it again from the replica, once that has changed.
    TryAgain,
    /// This client does not hold the lock.
    NotLocked,
    /// The server refuses it; the same would be refused again.
    Failed(String),
}

/// What a transaction did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Committed {
    inserted: Vec<Uuid>,
}

impl Committed {
    /// The UUID of a row that was inserted.
    ///
    /// # Panics
    ///
    /// The row is another transaction's.
    pub fn uuid_of(&self, row: NewRow) -> Uuid {
        self.inserted[row.0 as usize]
    }
}

impl Awaited {
    /// Reads the server's answer (RFC 7047, section 4.1.3).
    pub(crate) fn outcome(&self, result: &Value) -> TransactionOutcome {
        let failed = |text: &str| TransactionOutcome::Failed(text.to_owned());
        let Some(results) = result.as_array() else {
            return failed("the server's answer is no list of results");
        };
        // Operations after the one that failed are null; an error of the whole comes last.
        let wrong = results.iter().find(|result| result.get("error").is_some());
        if let Some(wrong) = wrong {
            return match wrong["error"].as_str() {
                Some("timed out") => TransactionOutcome::TryAgain,
                Some("aborted") => TransactionOutcome::Aborted,
                Some("not owner") => TransactionOutcome::NotLocked,
                _ => failed(&excerpt(wrong)),
            };
        }
        if results.len() != self.0.len() || results.iter().any(Value::is_null) {
            return failed("the server's answer has not one result for each operation");
        }
        let mut inserted = Vec::new();
        for (answer, result) in self.0.iter().zip(results) {
            match answer {
                Answer::Nothing => {}
                Answer::Count if integer(&result["count"]).is_some_and(|count| count <= 1) => {}
                Answer::Count => return failed("the server's answer does not count rows"),
                Answer::Uuid => match uuid_of(result) {
                    Some(uuid) => inserted.push(uuid),
                    None => return failed("the server's answer does not name an inserted row"),
                },
            }
        }
        TransactionOutcome::Committed(Committed { inserted })
    }
}

/// The row that an operation inserted.
fn uuid_of(result: &Value) -> Option<Uuid> {
    match result["uuid"].as_array()?.as_slice() {
        [tag, Value::String(text)] if tag == "uuid" => parse_uuid(text),
        _ => None,
    }
}

/// When to try a transaction again.
///
/// Call [`TransactionRetry::after`] with each outcome, and build the transaction again from the
/// replica when it says so.
#[derive(Clone, Debug)]
pub struct TransactionRetry {
    attempts_left: u32,
}

/// What to do after an outcome.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RetryStep {
    /// Nothing: it is done, or will never be.
    Done,
    /// Try again once the replica's sequence is not this one, at the latest after the time.
    WhenChanged {
        /// The replica's sequence now.
        sequence: u64,
        /// How long to wait for that.
        within: Duration,
    },
    /// Try again when the client holds the lock.
    WhenLocked,
    /// It has been tried often enough.
    GiveUp,
}

impl TransactionRetry {
    /// Tries at most `attempts` times.
    pub fn new(attempts: u32) -> TransactionRetry {
        TransactionRetry {
            attempts_left: attempts,
        }
    }

    /// What to do after an outcome.
    pub fn after(&mut self, outcome: &TransactionOutcome, replica: &DatabaseReplica) -> RetryStep {
        let step = match outcome {
            TransactionOutcome::TryAgain => RetryStep::WhenChanged {
                sequence: replica.sequence(),
                within: Duration::from_secs(1),
            },
            TransactionOutcome::NotLocked => RetryStep::WhenLocked,
            _ => return RetryStep::Done,
        };
        self.attempts_left = self.attempts_left.saturating_sub(1);
        match self.attempts_left {
            0 => RetryStep::GiveUp,
            _ => step,
        }
    }
}

#[cfg(test)]
mod tests;
