//! A copy of the monitored tables, kept equal to the server's by its updates.
//!
//! ```text
//!   apply(form, updates):  read all of it; if all is right, put it in place at once
//!   resync(form, rows):    the same with all rows of the server: others are deleted, and rows
//!                          that are as before do not count as changed
//! ```
//!
//! 1. An update takes effect whole or not at all.
//! 2. What a batch changed is told once, with the row before and after; rows and columns that
//!    are the same before and after are not told.
//! 3. Rows and bytes are bounded; an update beyond is an error.
//! 4. The three forms of updates lead to the same replica.
//!
//! A column that the server's schema lacks reads as if it was never set.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value};
use uuid::Uuid;

use crate::column::{
    AtomKind, Column, ColumnKind, Many, MapOf, Optional, Ref, RowsOf, TableIndex, TableSpec,
};
use crate::schema::{ColumnType, DatabaseSchema, TableSchema};
use crate::value::{Atom, DataError, Datum, parse_uuid};

/// A row of a table.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    /// Its name in the database.
    pub uuid: Uuid,
    /// Its table.
    pub table: TableIndex,
    pub(crate) columns: Box<[Datum]>,
}

impl Row {
    /// The value of a column of its table.
    ///
    /// # Panics
    ///
    /// The column is one of another table.
    pub fn get<K: ColumnKind>(&self, column: Column<K>) -> K::View<'_> {
        K::view(self.datum(column))
    }

    /// The same, as the database has it.
    ///
    /// # Panics
    ///
    /// The column is one of another table.
    pub fn datum<K>(&self, column: Column<K>) -> &Datum {
        assert_eq!(column.table, self.table, "the column is of another table");
        &self.columns[usize::from(column.index)]
    }

    /// The values of all columns, in the order of the table's specification.
    pub fn data(&self) -> &[Datum] {
        &self.columns
    }

    fn size_bytes(&self) -> usize {
        let columns = self.columns.iter().map(Datum::size_bytes);
        size_of::<Row>() + columns.sum::<usize>()
    }
}

/// What a batch of updates did to a row.
#[derive(Clone, PartialEq, Debug)]
pub struct RowChange {
    /// The row before, unless it is inserted.
    pub old: Option<Arc<Row>>,
    /// The row after, unless it is deleted.
    pub new: Option<Arc<Row>>,
}

impl RowChange {
    /// The row as it is, or was before it was deleted.
    pub fn row(&self) -> &Arc<Row> {
        let row = self.new.as_ref().or(self.old.as_ref());
        row.expect("a change has a row")
    }

    /// Whether the value of a column differs; inserted and deleted rows differ in all.
    pub fn has_changed<K>(&self, column: Column<K>) -> bool {
        match (&self.old, &self.new) {
            (Some(old), Some(new)) => old.datum(column) != new.datum(column),
            _ => true,
        }
    }
}

/// What a replica may hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReplicaLimits {
    /// Most rows of all tables.
    pub rows_max: usize,
    /// Most bytes of all rows, about.
    pub bytes_max: usize,
}

impl Default for ReplicaLimits {
    /// Room for some hundred thousand ports.
    fn default() -> ReplicaLimits {
        ReplicaLimits {
            rows_max: 1 << 20,
            bytes_max: 2 << 30,
        }
    }
}

/// The form of updates, by the request that asked for them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UpdateForm {
    /// `monitor`: old and new columns (RFC 7047, section 4.1.6).
    Whole,
    /// `monitor_cond` and `monitor_cond_since`: rows without unset columns, and differences
    /// (ovsdb-server(7), sections 4.1.12 to 4.1.15).
    Difference,
}

/// Wanted tables and columns that the server does not have.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SchemaReport {
    /// The version of the server's schema.
    pub version: String,
    /// Tables that are missing.
    pub missing_tables: Vec<&'static str>,
    /// Columns that are missing, as "table.column".
    pub missing_columns: Vec<String>,
}

/// Why a schema or an update does not fit a replica.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplicaError {
    /// A column has other values than this side can use.
    #[error("the server's column {column} is {found}, not {expected}; its schema is not usable")]
    SchemaMismatch {
        /// As "table.column".
        column: String,
        /// What the schema says.
        found: String,
        /// What this side needs.
        expected: String,
    },
    /// An update that cannot be read, or does not fit the rows that are there.
    #[error("an update of {place} {what}")]
    Update {
        /// The table, row and column.
        place: String,
        /// A description of the fault.
        what: String,
    },
    /// Too many rows.
    #[error("the database has more than {0} rows of interest; raise `rows_max` to follow it")]
    TooManyRows(usize),
    /// Too large.
    #[error("the database holds more than {0} bytes of interest; raise `bytes_max` to follow it")]
    TooLarge(usize),
}

/// A table that is followed.
#[derive(Clone, Debug)]
struct TableState {
    /// The types of the columns, and whether the server has them.
    columns: Vec<(ColumnType, bool)>,
    is_there: bool,
    rows: BTreeMap<Uuid, Arc<Row>>,
    /// Names and their rows; empty unless the table is named.
    names: BTreeSet<(Arc<str>, Uuid)>,
}

type Staged = BTreeMap<(TableIndex, Uuid), Option<Arc<Row>>>;

/// A copy of the monitored tables.
#[derive(Clone, Debug)]
pub struct DatabaseReplica {
    specs: &'static [TableSpec],
    limits: ReplicaLimits,
    tables: Vec<TableState>,
    row_count: usize,
    size_bytes: usize,
    sequence: u64,
}

impl DatabaseReplica {
    /// An empty replica of tables.
    pub fn new(specs: &'static [TableSpec], limits: ReplicaLimits) -> DatabaseReplica {
        let table = |spec: &TableSpec| TableState {
            columns: spec
                .columns
                .iter()
                .map(|c| (c.expected.to_type(), true))
                .collect(),
            is_there: true,
            rows: BTreeMap::new(),
            names: BTreeSet::new(),
        };
        DatabaseReplica {
            specs,
            limits,
            tables: specs.iter().map(table).collect(),
            row_count: 0,
            size_bytes: 0,
            sequence: 0,
        }
    }

    /// How many batches have changed it.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// How many rows it has.
    pub fn row_count(&self) -> usize {
        self.row_count
    }

    /// About how much memory the rows take.
    pub fn size_bytes(&self) -> usize {
        self.size_bytes
    }

    /// The rows of a table, in the order of their UUIDs.
    pub fn rows(&self, table: TableIndex) -> impl ExactSizeIterator<Item = &Arc<Row>> {
        self.table(table).rows.values()
    }

    /// A row of a table.
    pub fn row(&self, table: TableIndex, uuid: Uuid) -> Option<&Arc<Row>> {
        self.table(table).rows.get(&uuid)
    }

    /// The first row of a name, in a table whose rows have names.
    pub fn named(&self, table: TableIndex, name: &str) -> Option<&Arc<Row>> {
        let table = self.table(table);
        let from = (Arc::from(name), Uuid::nil());
        let (found, uuid) = table.names.range(from..).next()?;
        (**found == *name).then(|| &table.rows[uuid])
    }

    /// The rows that a column refers to, in the order of their UUIDs. A reference to a row that
    /// is not there gives none.
    pub fn follow<'a, K: Refers>(
        &'a self,
        row: &'a Row,
        column: Column<K>,
    ) -> impl Iterator<Item = &'a Arc<Row>> {
        let datum = row.datum(column);
        let table = &self.table(K::TABLE).rows;
        let values = datum.pairs().iter().map(|(_, value)| value);
        datum
            .atoms()
            .iter()
            .chain(values)
            .filter_map(|atom| match atom {
                Atom::Uuid(uuid) => table.get(uuid),
                _ => None,
            })
    }

    /// Whether the server has a column.
    pub fn has_column<K>(&self, column: Column<K>) -> bool {
        self.is_known(column.table, column.index)
    }

    pub(crate) fn is_known(&self, table: TableIndex, column: u16) -> bool {
        let table = self.table(table);
        table.is_there && table.columns[usize::from(column)].1
    }

    pub(crate) fn specs(&self) -> &'static [TableSpec] {
        self.specs
    }

    /// The tables and columns that the server has, as a request for a monitor names them.
    pub(crate) fn monitored(&self) -> Map<String, Value> {
        let tables = self.specs.iter().zip(&self.tables);
        let tables = tables.filter(|(_, table)| table.is_there);
        let request = |(spec, table): (&TableSpec, &TableState)| {
            let columns = spec.columns.iter().zip(&table.columns);
            let columns = columns.filter(|(_, (_, is_there))| *is_there);
            let columns: Vec<Value> = columns.map(|(column, _)| column.name.into()).collect();
            (
                spec.name.to_owned(),
                serde_json::json!([{ "columns": columns }]),
            )
        };
        tables.map(request).collect()
    }

    fn table(&self, table: TableIndex) -> &TableState {
        &self.tables[usize::from(table.0)]
    }

    /// Takes the schema of the server, and returns what of the wanted it lacks. Rows stay;
    /// the next updates must be all rows if the schema is another one.
    ///
    /// # Errors
    ///
    /// A column has values that this side cannot use; nothing has changed then.
    pub fn set_schema(&mut self, schema: &DatabaseSchema) -> Result<SchemaReport, ReplicaError> {
        let mut report = SchemaReport {
            version: schema.version.clone(),
            ..SchemaReport::default()
        };
        let mut found = Vec::new();
        for spec in self.specs {
            let table = schema.tables.get(spec.name);
            if table.is_none() {
                report.missing_tables.push(spec.name);
            }
            let columns = columns_of(spec, table, &mut report)?;
            found.push((columns, table.is_some()));
        }
        for (table, (columns, is_there)) in self.tables.iter_mut().zip(found) {
            table.columns = columns;
            table.is_there = is_there;
        }
        Ok(report)
    }

    /// Applies an update: some rows come, change or go.
    ///
    /// # Errors
    ///
    /// The update cannot be read, does not fit the rows, or is too large; nothing has changed.
    pub fn apply(
        &mut self,
        form: UpdateForm,
        updates: &Value,
    ) -> Result<Vec<RowChange>, ReplicaError> {
        let mut staged = Staged::new();
        self.stage(form, updates, false, &mut staged)?;
        self.put(staged)
    }

    /// Makes the replica equal to the rows of the server, all of which come.
    ///
    /// # Errors
    ///
    /// As [`DatabaseReplica::apply`].
    pub fn resync(
        &mut self,
        form: UpdateForm,
        updates: &Value,
    ) -> Result<Vec<RowChange>, ReplicaError> {
        let mut staged = Staged::new();
        self.stage(form, updates, true, &mut staged)?;
        for (index, table) in self.tables.iter().enumerate() {
            for uuid in table.rows.keys() {
                staged.entry((table_index(index), *uuid)).or_insert(None);
            }
        }
        self.put(staged)
    }

    /// Reads an update. The rows that are there are looked at only for changes of them.
    fn stage(
        &self,
        form: UpdateForm,
        updates: &Value,
        is_all: bool,
        staged: &mut Staged,
    ) -> Result<(), ReplicaError> {
        let tables = updates.as_object();
        let tables = tables.ok_or_else(|| wrong("the database", "is no object"))?;
        for (name, rows) in tables {
            let at = self.specs.iter().position(|spec| spec.name == name);
            let at = at.ok_or_else(|| wrong(name, "was not asked for"))?;
            let rows = rows
                .as_object()
                .ok_or_else(|| wrong(name, "is no object"))?;
            for (uuid, update) in rows {
                let place = || format!("{name} {}", uuid.chars().take(40).collect::<String>());
                let uuid = parse_uuid(uuid).ok_or_else(|| wrong(&place(), "names no UUID"))?;
                let old = self.tables[at].rows.get(&uuid).filter(|_| !is_all);
                let reading = Reading {
                    spec: &self.specs[at],
                    table: &self.tables[at],
                    index: table_index(at),
                    uuid,
                    old: old.map(|row| &**row),
                    place: &place,
                };
                let new = match form {
                    UpdateForm::Whole => reading.whole(update)?,
                    UpdateForm::Difference => reading.difference(update)?,
                };
                staged.insert((table_index(at), uuid), new.map(Arc::new));
            }
        }
        Ok(())
    }

    /// Puts rows in place, if they are not too many.
    fn put(&mut self, staged: Staged) -> Result<Vec<RowChange>, ReplicaError> {
        let (mut rows, mut bytes) = (self.row_count, self.size_bytes);
        for ((table, uuid), new) in &staged {
            if let Some(old) = self.row(*table, *uuid) {
                rows -= 1;
                bytes -= old.size_bytes();
            }
            if let Some(new) = new {
                rows += 1;
                bytes += new.size_bytes();
            }
        }
        let ReplicaLimits {
            rows_max,
            bytes_max,
        } = self.limits;
        if rows > rows_max {
            return Err(ReplicaError::TooManyRows(rows_max));
        }
        if bytes > bytes_max {
            return Err(ReplicaError::TooLarge(bytes_max));
        }
        (self.row_count, self.size_bytes) = (rows, bytes);
        let mut changes = Vec::new();
        for ((at, uuid), new) in staged {
            let spec = &self.specs[usize::from(at.0)];
            let table = &mut self.tables[usize::from(at.0)];
            let old = match &new {
                Some(new) => table.rows.insert(uuid, new.clone()),
                None => table.rows.remove(&uuid),
            };
            if spec.is_named {
                for name in old.iter().filter_map(|row| name_of(row)) {
                    table.names.remove(&(name, uuid));
                }
                for name in new.iter().filter_map(|row| name_of(row)) {
                    table.names.insert((name, uuid));
                }
            }
            if is_told(spec, old.as_deref(), new.as_deref()) {
                changes.push(RowChange { old, new });
            }
        }
        self.sequence += 1;
        Ok(changes)
    }
}

/// The types of the wanted columns of a table, and whether it has them.
fn columns_of(
    spec: &TableSpec,
    table: Option<&TableSchema>,
    report: &mut SchemaReport,
) -> Result<Vec<(ColumnType, bool)>, ReplicaError> {
    let mut columns = Vec::new();
    for column in spec.columns {
        let name = || format!("{}.{}", spec.name, column.name);
        match table.and_then(|table| table.get(column.name)) {
            Some(found) if column.expected.admits(found) => columns.push((found.clone(), true)),
            Some(found) => {
                return Err(ReplicaError::SchemaMismatch {
                    column: name(),
                    found: found.to_string(),
                    expected: column.expected.to_type().to_string(),
                });
            }
            None => {
                if table.is_some() {
                    report.missing_columns.push(name());
                }
                columns.push((column.expected.to_type(), false));
            }
        }
    }
    Ok(columns)
}

fn table_index(at: usize) -> TableIndex {
    TableIndex(u16::try_from(at).expect("a specification has few tables"))
}

fn wrong(place: &str, what: &str) -> ReplicaError {
    ReplicaError::Update {
        place: place.to_owned(),
        what: what.to_owned(),
    }
}

fn name_of(row: &Row) -> Option<Arc<str>> {
    match row.columns[0].atoms() {
        [Atom::Text(name)] => Some(name.clone()),
        _ => None,
    }
}

/// Whether a change is one that is told: something else than columns that this side writes.
fn is_told(spec: &TableSpec, old: Option<&Row>, new: Option<&Row>) -> bool {
    match (old, new) {
        (None, None) => false,
        (Some(old), Some(new)) => {
            let columns = old.columns.iter().zip(&new.columns).zip(spec.columns);
            columns
                .filter(|(_, column)| column.is_told)
                .any(|((old, new), _)| old != new)
        }
        _ => true,
    }
}

/// An update of one row.
struct Reading<'a> {
    spec: &'a TableSpec,
    table: &'a TableState,
    index: TableIndex,
    uuid: Uuid,
    old: Option<&'a Row>,
    place: &'a dyn Fn() -> String,
}

impl Reading<'_> {
    fn wrong(&self, what: &str) -> ReplicaError {
        wrong(&(self.place)(), what)
    }

    /// RFC 7047, section 4.1.6: columns before and after.
    fn whole(&self, update: &Value) -> Result<Option<Row>, ReplicaError> {
        let (old, new) = (update.get("old"), update.get("new"));
        match (old, new, self.old) {
            (None, None, _) => Err(self.wrong("has neither \"old\" nor \"new\"")),
            (Some(_), None, None) => Err(self.wrong("deletes a row that is not there")),
            (Some(_), None, Some(_)) => Ok(None),
            (None, Some(_), Some(_)) => Err(self.wrong("inserts a row that is there")),
            (Some(_), Some(_), None) => Err(self.wrong("changes a row that is not there")),
            (None, Some(new), None) => self.read(self.unset(), new, false).map(Some),
            (Some(_), Some(new), Some(row)) => self.read(row.clone(), new, false).map(Some),
        }
    }

    /// ovsdb-server(7), section 4.1.14: one of four members.
    fn difference(&self, update: &Value) -> Result<Option<Row>, ReplicaError> {
        let mut members = update.as_object().into_iter().flatten();
        let (Some((kind, columns)), None) = (members.next(), members.next()) else {
            return Err(self.wrong("is no object of one member"));
        };
        match (kind.as_str(), self.old) {
            ("initial" | "insert", None) => self.read(self.unset(), columns, false).map(Some),
            ("initial" | "insert", Some(_)) => Err(self.wrong("inserts a row that is there")),
            ("modify", Some(row)) => self.read(row.clone(), columns, true).map(Some),
            ("modify", None) => Err(self.wrong("changes a row that is not there")),
            ("delete", Some(_)) => Ok(None),
            ("delete", None) => Err(self.wrong("deletes a row that is not there")),
            _ => Err(self.wrong("is neither initial, insert, modify nor delete")),
        }
    }

    /// A row of which nothing is set.
    fn unset(&self) -> Row {
        let columns = self.table.columns.iter();
        Row {
            uuid: self.uuid,
            table: self.index,
            columns: columns
                .map(|(column, _)| Datum::default_of(column))
                .collect(),
        }
    }

    /// Reads columns into a row: values, or differences to those that it has.
    fn read(&self, mut row: Row, columns: &Value, is_change: bool) -> Result<Row, ReplicaError> {
        let columns = columns.as_object();
        let columns = columns.ok_or_else(|| self.wrong("has no columns"))?;
        for (name, value) in columns {
            let at = self.spec.columns.iter().position(|spec| spec.name == name);
            let known = at.filter(|at| self.table.columns[*at].1);
            let Some(at) = known else {
                return Err(self.wrong(&format!("has the column {name:.40}, not asked for")));
            };
            let wrong = |error: DataError| self.wrong(&format!("column {name}: {error}"));
            let of_type = &self.table.columns[at].0;
            let datum = match is_change {
                false => Datum::parse(value, of_type),
                true => Datum::parse_any_count(value, of_type).and_then(|difference| {
                    let datum = row.columns[at].apply(&difference, of_type);
                    datum.check_count(of_type).map(|()| datum)
                }),
            };
            row.columns[at] = datum.map_err(wrong)?;
        }
        Ok(row)
    }
}

/// Columns that refer to rows of one table.
pub trait Refers: ColumnKind {
    /// The table.
    const TABLE: TableIndex;
}

impl<T: RowsOf> Refers for Optional<Ref<T>> {
    const TABLE: TableIndex = T::TABLE;
}

impl<T: RowsOf> Refers for Many<Ref<T>> {
    const TABLE: TableIndex = T::TABLE;
}

impl<K: AtomKind, T: RowsOf> Refers for MapOf<K, Ref<T>> {
    const TABLE: TableIndex = T::TABLE;
}

#[cfg(test)]
mod tests;
