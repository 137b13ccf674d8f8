//! A plain database for the tests: rows, random changes of them, and what a server tells of
//! them in each form. It is the slow twin of the replica.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::column::{Expected, TableIndex};
use crate::open_vswitch::TABLES;
use crate::replica::{DatabaseReplica, UpdateForm};
use crate::schema::AtomType;
use crate::value::{Atom, Datum};

/// Rows by table and UUID.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Model {
    pub(crate) rows: BTreeMap<(u16, Uuid), Vec<Datum>>,
}

/// Numbers from a seed.
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn below(&mut self, count: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % count
    }
}

fn default_datum(expected: Expected) -> Datum {
    Datum::default_of(&expected.to_type())
}

fn atom(kind: AtomType, numbers: &mut Numbers) -> Atom {
    let number = numbers.below(4);
    match kind {
        AtomType::Integer => Atom::Integer(number as i64 - 1),
        AtomType::Real => Atom::Real(number as f64 / 2.0),
        AtomType::Boolean => Atom::Boolean(number > 1),
        AtomType::Text => Atom::Text(["", "a", "b\"", "é"][number as usize].into()),
        AtomType::Uuid => Atom::Uuid(Uuid::from_u128(number.into())),
    }
}

fn datum(expected: Expected, numbers: &mut Numbers) -> Datum {
    let count = match expected {
        Expected { is_many: true, .. } => numbers.below(4),
        Expected {
            is_required: true, ..
        } => 1,
        _ => numbers.below(2),
    };
    match expected.value {
        None => Datum::set((0..count).map(|_| atom(expected.key, numbers))),
        Some(value) => {
            Datum::map((0..count).map(|_| (atom(expected.key, numbers), atom(value, numbers))))
        }
    }
}

impl Model {
    /// Deletes a row, or sets some columns of it, as the seed has it.
    pub(crate) fn change(&mut self, table: u16, row: u8, seed: u64) {
        let mut numbers = Numbers(seed);
        let spec = &TABLES[usize::from(table)];
        let key = (table, Uuid::from_u128(u128::from(row)));
        if numbers.below(4) == 0 {
            self.rows.remove(&key);
            return;
        }
        let unset = || {
            spec.columns
                .iter()
                .map(|column| default_datum(column.expected))
        };
        let columns = self.rows.entry(key).or_insert_with(|| unset().collect());
        for _ in 0..1 + numbers.below(4) {
            let at = numbers.below(columns.len() as u64) as usize;
            columns[at] = datum(spec.columns[at].expected, &mut numbers);
        }
    }

    /// All rows, as the reply to a monitor has them.
    pub(crate) fn all(&self, form: UpdateForm) -> Value {
        let nothing = Model::default();
        match form {
            UpdateForm::Whole => updates(&nothing, self, whole),
            UpdateForm::Difference => updates(&nothing, self, |table, old, new| {
                let mut update = difference(table, old, new);
                let row = update["insert"].take();
                update = json!({ "initial": row });
                update
            }),
        }
    }

    /// What a server tells of the change to another state.
    pub(crate) fn update_to(&self, after: &Model, form: UpdateForm) -> Value {
        match form {
            UpdateForm::Whole => updates(self, after, whole),
            UpdateForm::Difference => updates(self, after, difference),
        }
    }

    /// The rows of a replica.
    pub(crate) fn of(replica: &DatabaseReplica) -> Model {
        let mut rows = BTreeMap::new();
        for table in 0..TABLES.len() as u16 {
            for row in replica.rows(TableIndex(table)) {
                assert_eq!(row.table, TableIndex(table));
                rows.insert((table, row.uuid), row.columns.to_vec());
            }
        }
        Model { rows }
    }
}

type Columns<'a> = Option<&'a Vec<Datum>>;

fn updates(
    before: &Model,
    after: &Model,
    update: impl Fn(u16, Columns<'_>, Columns<'_>) -> Value,
) -> Value {
    let keys: BTreeSet<_> = before.rows.keys().chain(after.rows.keys()).collect();
    let mut tables = Map::new();
    for key in keys {
        let (old, new) = (before.rows.get(key), after.rows.get(key));
        if old != new {
            let name = TABLES[usize::from(key.0)].name;
            let rows = tables.entry(name).or_insert_with(|| json!({}));
            rows[key.1.to_string()] = update(key.0, old, new);
        }
    }
    tables.into()
}

/// RFC 7047, section 4.1.6.
fn whole(table: u16, old: Columns<'_>, new: Columns<'_>) -> Value {
    let columns = TABLES[usize::from(table)].columns;
    let row = |values: &[Datum], only: &dyn Fn(usize) -> bool| {
        let named = columns.iter().zip(values).enumerate();
        let named = named.filter(|(at, _)| only(*at));
        let named = named.map(|(_, (column, datum))| (column.name.to_owned(), datum.to_json()));
        Value::Object(named.collect())
    };
    match (old, new) {
        (Some(old), Some(new)) => {
            let differs = |at: usize| old[at] != new[at];
            json!({"old": row(old, &differs), "new": row(new, &|_| true)})
        }
        (Some(old), None) => json!({"old": row(old, &|_| true)}),
        (None, Some(new)) => json!({"new": row(new, &|_| true)}),
        (None, None) => unreachable!("only what differs is told"),
    }
}

/// ovsdb-server(7), section 4.1.14.
fn difference(table: u16, old: Columns<'_>, new: Columns<'_>) -> Value {
    let columns = TABLES[usize::from(table)].columns;
    let Some(new) = new else {
        return json!({"delete": null});
    };
    let mut row = Map::new();
    for (at, column) in columns.iter().enumerate() {
        let unset = default_datum(column.expected);
        let before = old.map_or(&unset, |old| &old[at]);
        if *before != new[at] {
            let told = match old {
                None => new[at].clone(),
                Some(_) => datum_difference(before, &new[at], column.expected),
            };
            row.insert(column.name.to_owned(), told.to_json());
        }
    }
    match old {
        None => json!({"insert": row}),
        Some(_) => json!({"modify": row}),
    }
}

fn datum_difference(old: &Datum, new: &Datum, expected: Expected) -> Datum {
    if !expected.is_many {
        return new.clone();
    }
    if expected.value.is_none() {
        let sets = [old, new].map(|datum| datum.atoms().iter().collect::<BTreeSet<_>>());
        return Datum::set(
            sets[0]
                .symmetric_difference(&sets[1])
                .map(|atom| (*atom).clone()),
        );
    }
    let maps = [old, new].map(|datum| datum.pairs().iter().cloned().collect::<BTreeMap<_, _>>());
    let keys: BTreeSet<&Atom> = maps.iter().flat_map(|map| map.keys()).collect();
    let changed = keys
        .into_iter()
        .filter(|key| maps[0].get(key) != maps[1].get(key));
    Datum::map(changed.map(|key| {
        // A pair that goes is told as it was.
        let value = maps[1].get(key).unwrap_or_else(|| &maps[0][key]);
        (key.clone(), value.clone())
    }))
}

/// A schema with all wanted tables and columns.
pub(crate) fn schema() -> Value {
    let mut tables = Map::new();
    for spec in TABLES {
        let mut columns = Map::new();
        for column in spec.columns {
            let expected = column.expected;
            let mut of_type = json!({
                "key": expected.key.name(),
                "min": u8::from(expected.is_required),
                "max": if expected.is_many { json!("unlimited") } else { json!(1) },
            });
            if let Some(value) = expected.value {
                of_type["value"] = value.name().into();
            }
            columns.insert(column.name.to_owned(), json!({ "type": of_type }));
        }
        tables.insert(spec.name.to_owned(), json!({ "columns": columns }));
    }
    json!({"name": "Open_vSwitch", "version": "8.3.1", "tables": tables})
}
