//! The values of a column: atoms, sets of them, and maps (RFC 7047, section 5.1).
//!
//! A [`Datum`] is sorted and has no duplicates, so that equal values compare as equal. A
//! scalar is a set of one, an absent optional value an empty set.

use std::sync::Arc;

use serde_json::{Value, json};
use uuid::Uuid;

use crate::number::integer;
use crate::schema::{AtomType, ColumnType};

/// A row that a transaction inserts, until the database gives it its UUID.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NewRow(pub(crate) u32);

impl NewRow {
    /// Its name in the transaction.
    pub(crate) fn name(self) -> String {
        format!("row{}", self.0)
    }
}

/// An indivisible value.
#[derive(Clone, Debug)]
pub enum Atom {
    /// A number of 64 bits.
    Integer(i64),
    /// A number with a fraction.
    Real(f64),
    /// True or false.
    Boolean(bool),
    /// A text.
    Text(Arc<str>),
    /// The name of a row.
    Uuid(Uuid),
    /// A row of the same transaction; never in a replica.
    NewRow(NewRow),
}

impl Atom {
    /// Reads an atom of a type.
    ///
    /// # Errors
    ///
    /// The value is of another type or out of its range.
    pub fn parse(value: &Value, atom_type: AtomType) -> Result<Atom, DataError> {
        let parsed = match atom_type {
            AtomType::Integer => integer(value).map(Atom::Integer),
            // Minus zero is zero.
            AtomType::Real => value.as_f64().map(|real| Atom::Real(real + 0.0)),
            AtomType::Boolean => value.as_bool().map(Atom::Boolean),
            AtomType::Text => value.as_str().map(|text| Atom::Text(text.into())),
            AtomType::Uuid => match tagged(value, "uuid") {
                Some(Value::String(text)) => parse_uuid(text).map(Atom::Uuid),
                _ => None,
            },
        };
        parsed.ok_or_else(|| DataError::wrong(atom_type.name(), value))
    }

    /// The atom as JSON.
    pub fn to_json(&self) -> Value {
        match self {
            Atom::Integer(number) => json!(number),
            Atom::Real(number) => json!(number),
            Atom::Boolean(flag) => json!(flag),
            Atom::Text(text) => json!(**text),
            Atom::Uuid(uuid) => json!(["uuid", uuid.to_string()]),
            Atom::NewRow(row) => json!(["named-uuid", row.name()]),
        }
    }

    fn default_of(atom_type: AtomType) -> Atom {
        match atom_type {
            AtomType::Integer => Atom::Integer(0),
            AtomType::Real => Atom::Real(0.0),
            AtomType::Boolean => Atom::Boolean(false),
            AtomType::Text => Atom::Text("".into()),
            AtomType::Uuid => Atom::Uuid(Uuid::nil()),
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Atom::Integer(_) => 0,
            Atom::Real(_) => 1,
            Atom::Boolean(_) => 2,
            Atom::Text(_) => 3,
            Atom::Uuid(_) => 4,
            Atom::NewRow(_) => 5,
        }
    }

    fn size_bytes(&self) -> usize {
        let text = match self {
            Atom::Text(text) => text.len() + 16,
            _ => 0,
        };
        size_of::<Atom>() + text
    }
}

impl Ord for Atom {
    fn cmp(&self, other: &Atom) -> std::cmp::Ordering {
        match (self, other) {
            (Atom::Integer(a), Atom::Integer(b)) => a.cmp(b),
            (Atom::Real(a), Atom::Real(b)) => a.total_cmp(b),
            (Atom::Boolean(a), Atom::Boolean(b)) => a.cmp(b),
            (Atom::Text(a), Atom::Text(b)) => a.cmp(b),
            (Atom::Uuid(a), Atom::Uuid(b)) => a.cmp(b),
            (Atom::NewRow(a), Atom::NewRow(b)) => a.cmp(b),
            (a, b) => a.rank().cmp(&b.rank()),
        }
    }
}

impl PartialOrd for Atom {
    fn partial_cmp(&self, other: &Atom) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Atom {
    fn eq(&self, other: &Atom) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Atom {}

/// The value of a column: a set of atoms or a map between them.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Datum {
    /// In order, each once.
    Set(Arc<[Atom]>),
    /// In the order of the keys, each once.
    Map(Arc<[(Atom, Atom)]>),
}

/// Why a value is not of a column's type.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct DataError(String);

impl DataError {
    fn wrong(wanted: &str, value: &Value) -> DataError {
        let got = crate::jsonrpc::excerpt(value);
        DataError(format!("{got} is no {wanted}"))
    }
}

impl Datum {
    /// A set of atoms, in any order.
    pub fn set(atoms: impl IntoIterator<Item = Atom>) -> Datum {
        let mut atoms: Vec<Atom> = atoms.into_iter().collect();
        atoms.sort_unstable();
        atoms.dedup();
        Datum::Set(atoms.into())
    }

    /// A map, in any order; of equal keys the first counts.
    pub fn map(pairs: impl IntoIterator<Item = (Atom, Atom)>) -> Datum {
        let mut pairs: Vec<(Atom, Atom)> = pairs.into_iter().collect();
        pairs.sort_by(|a, b| a.0.cmp(&b.0));
        pairs.dedup_by(|a, b| a.0 == b.0);
        Datum::Map(pairs.into())
    }

    /// What a column of a type holds if it was never set.
    pub fn default_of(column: &ColumnType) -> Datum {
        let (key, value) = (&column.key, &column.value);
        match (column.min, value) {
            (0, None) => Datum::Set(Arc::default()),
            (0, Some(_)) => Datum::Map(Arc::default()),
            (_, None) => Datum::set([Atom::default_of(key.atom)]),
            (_, Some(value)) => {
                Datum::map([(Atom::default_of(key.atom), Atom::default_of(value.atom))])
            }
        }
    }

    /// Reads a value of a column.
    ///
    /// # Errors
    ///
    /// The value is of another type, has an element twice, or has too few or too many.
    pub fn parse(value: &Value, column: &ColumnType) -> Result<Datum, DataError> {
        let datum = Datum::parse_any_count(value, column)?;
        datum.check_count(column)?;
        Ok(datum)
    }

    /// Reads a value of a column, or the difference of two, which may have any count.
    pub(crate) fn parse_any_count(value: &Value, column: &ColumnType) -> Result<Datum, DataError> {
        let key = column.key.atom;
        let Some(of_value) = &column.value else {
            let atoms: Vec<Atom> = match tagged(value, "set") {
                Some(Value::Array(elements)) => elements
                    .iter()
                    .map(|element| Atom::parse(element, key))
                    .collect::<Result<_, _>>()?,
                Some(other) => return Err(DataError::wrong("list of elements", other)),
                None => vec![Atom::parse(value, key)?],
            };
            let count = atoms.len();
            return match Datum::set(atoms) {
                set if set.len() == count => Ok(set),
                _ => Err(DataError("a set has an element twice".to_owned())),
            };
        };
        let Some(Value::Array(elements)) = tagged(value, "map") else {
            return Err(DataError::wrong("map", value));
        };
        let pairs = elements.iter().map(|element| match element.as_array() {
            Some(pair) if pair.len() == 2 => Ok((
                Atom::parse(&pair[0], key)?,
                Atom::parse(&pair[1], of_value.atom)?,
            )),
            _ => Err(DataError::wrong("pair of a map", element)),
        });
        let map = Datum::map(pairs.collect::<Result<Vec<_>, _>>()?);
        match map.len() == elements.len() {
            true => Ok(map),
            false => Err(DataError("a map has a key twice".to_owned())),
        }
    }

    pub(crate) fn check_count(&self, column: &ColumnType) -> Result<(), DataError> {
        let count = self.len();
        if count < column.min || count > column.max {
            let most = match column.max {
                usize::MAX => "any number".to_owned(),
                max => max.to_string(),
            };
            let text = format!(
                "{count} elements where {} to {most} are allowed",
                column.min
            );
            return Err(DataError(text));
        }
        Ok(())
    }

    /// Applies a difference as `update2` has it: of a column with at most one element the new
    /// value, of sets the elements that come or go, of maps the pairs that come, change or go.
    pub(crate) fn apply(&self, difference: &Datum, column: &ColumnType) -> Datum {
        if column.max <= 1 {
            return difference.clone();
        }
        match (self, difference) {
            (Datum::Set(old), Datum::Set(change)) => {
                let comes = change
                    .iter()
                    .filter(|atom| old.binary_search(atom).is_err());
                let stays = old
                    .iter()
                    .filter(|atom| change.binary_search(atom).is_err());
                Datum::set(comes.chain(stays).cloned())
            }
            (Datum::Map(old), Datum::Map(change)) => {
                let comes = change
                    .iter()
                    .filter(|(key, value)| find(old, key).is_none_or(|at| old[at].1 != *value));
                let stays = old.iter().filter(|(key, _)| find(change, key).is_none());
                Datum::map(comes.chain(stays).cloned())
            }
            // Both were read by the same type.
            _ => unreachable!("a set and a map in one column"),
        }
    }

    /// The value as JSON.
    pub fn to_json(&self) -> Value {
        match self {
            Datum::Set(atoms) => match &atoms[..] {
                [atom] => atom.to_json(),
                atoms => {
                    let elements: Vec<Value> = atoms.iter().map(Atom::to_json).collect();
                    json!(["set", elements])
                }
            },
            Datum::Map(pairs) => {
                let pair = |(key, value): &(Atom, Atom)| json!([key.to_json(), value.to_json()]);
                let elements: Vec<Value> = pairs.iter().map(pair).collect();
                json!(["map", elements])
            }
        }
    }

    /// How many elements or pairs it has.
    pub fn len(&self) -> usize {
        match self {
            Datum::Set(atoms) => atoms.len(),
            Datum::Map(pairs) => pairs.len(),
        }
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The elements of a set; a map has none.
    pub fn atoms(&self) -> &[Atom] {
        match self {
            Datum::Set(atoms) => atoms,
            Datum::Map(_) => &[],
        }
    }

    /// The pairs of a map; a set has none.
    pub fn pairs(&self) -> &[(Atom, Atom)] {
        match self {
            Datum::Set(_) => &[],
            Datum::Map(pairs) => pairs,
        }
    }

    /// About how much memory it takes.
    pub(crate) fn size_bytes(&self) -> usize {
        let atoms = self.atoms().iter().map(Atom::size_bytes);
        let pairs = self.pairs().iter();
        let pairs = pairs.map(|(key, value)| key.size_bytes() + value.size_bytes());
        size_of::<Datum>() + 16 + atoms.sum::<usize>() + pairs.sum::<usize>()
    }
}

/// Where a key stands in a map.
pub(crate) fn find(pairs: &[(Atom, Atom)], key: &Atom) -> Option<usize> {
    pairs.binary_search_by(|(other, _)| other.cmp(key)).ok()
}

/// A UUID in the only form that the protocol has, with four hyphens.
pub(crate) fn parse_uuid(text: &str) -> Option<Uuid> {
    match text.len() {
        36 => Uuid::try_parse(text).ok(),
        _ => None,
    }
}

/// What follows a tag such as "set" in a list of two.
fn tagged<'a>(value: &'a Value, tag: &str) -> Option<&'a Value> {
    match value.as_array()?.as_slice() {
        [Value::String(name), rest] if name == tag => Some(rest),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
