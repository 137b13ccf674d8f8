//! Tables and columns that a client wants, as data, and their values as types of Rust.
//!
//! [`TableSpec`] lists wanted columns; the schema of a server may lack some or have more. A
//! [`Column`] is the place of a value in a [`Row`](crate::Row) together with its type:
//! `row.get(bridge::NAME)` is a text.

use std::marker::PhantomData;

use uuid::Uuid;

use crate::schema::{AtomType, ColumnType};
use crate::value::{Atom, Datum, NewRow, find};

/// The place of a table in the list of those wanted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TableIndex(pub u16);

/// What a column's values must be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Expected {
    /// The elements of a set, or the keys of a map.
    pub key: AtomType,
    /// The values of a map.
    pub value: Option<AtomType>,
    /// Whether there must be one.
    pub is_required: bool,
    /// Whether there may be several.
    pub is_many: bool,
}

impl Expected {
    /// Whether values of a schema's type can be read as expected.
    pub(crate) fn admits(&self, column: &ColumnType) -> bool {
        let value = column.value.as_ref().map(|base| base.atom);
        self.key == column.key.atom
            && self.value == value
            && (column.min == 1 || !self.is_required)
            && (column.max == 1 || self.is_many)
    }

    /// The plainest type of a schema that has such values.
    pub(crate) fn to_type(self) -> ColumnType {
        let base = |atom| crate::schema::BaseType {
            atom,
            refers_to: None,
        };
        ColumnType {
            key: base(self.key),
            value: self.value.map(base),
            min: usize::from(self.is_required),
            max: if self.is_many { usize::MAX } else { 1 },
        }
    }
}

/// A column that a client wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ColumnSpec {
    /// Its name in the schema.
    pub name: &'static str,
    /// Its values.
    pub expected: Expected,
    /// Whether changes of it are told. They are not for columns that this side writes.
    pub is_told: bool,
}

/// A table that a client wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TableSpec {
    /// Its name in the schema.
    pub name: &'static str,
    /// Its columns; the first has its rows' names if `is_named`.
    pub columns: &'static [ColumnSpec],
    /// Whether rows are looked for by their first column, a text.
    pub is_named: bool,
}

/// A column and the type of its values.
#[derive(Debug)]
pub struct Column<K> {
    pub(crate) table: TableIndex,
    pub(crate) index: u16,
    kind: PhantomData<fn() -> K>,
}

impl<K> Clone for Column<K> {
    fn clone(&self) -> Column<K> {
        *self
    }
}

impl<K> Copy for Column<K> {}

impl<K> Column<K> {
    /// The column at a place; the specification there must expect `K`.
    pub const fn new(table: TableIndex, index: u16) -> Column<K> {
        Column {
            table,
            index,
            kind: PhantomData,
        }
    }

    /// The table that has it.
    pub const fn table(self) -> TableIndex {
        self.table
    }
}

/// What a column holds, as types of Rust.
pub trait ColumnKind {
    /// A value that was read.
    type View<'a>;
    /// A value that is written.
    type Given<'a>;
    /// What a schema must say.
    const EXPECTED: Expected;
    /// Reads a value.
    fn view(datum: &Datum) -> Self::View<'_>;
    /// Makes a value.
    fn datum(given: Self::Given<'_>) -> Datum;
}

/// What a set or a map holds, as types of Rust.
pub trait AtomKind {
    /// An element that was read.
    type View<'a>: Copy;
    /// An element that is written.
    type Given<'a>: Copy + 'a;
    /// What a schema must say.
    const TYPE: AtomType;
    /// Reads an element.
    fn view(atom: &Atom) -> Self::View<'_>;
    /// Makes an element.
    fn atom(given: Self::Given<'_>) -> Atom;
}

/// A text.
#[derive(Debug)]
pub enum Text {}
/// A number of 64 bits.
#[derive(Debug)]
pub enum Integer {}
/// True or false.
#[derive(Debug)]
pub enum Boolean {}
/// The name of a row of the table `T`.
#[derive(Debug)]
pub struct Ref<T>(PhantomData<T>);
/// A value or none.
#[derive(Debug)]
pub struct Optional<K>(PhantomData<K>);
/// A set.
#[derive(Debug)]
pub struct Many<K>(PhantomData<K>);
/// A map.
#[derive(Debug)]
pub struct MapOf<K, V>(PhantomData<(K, V)>);

/// A table that references name.
pub trait RowsOf {
    /// Its place.
    const TABLE: TableIndex;
}

/// A row that a reference is set to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum RowRef {
    /// One of the database.
    Known(Uuid),
    /// One that the same transaction inserts.
    New(NewRow),
}

impl From<Uuid> for RowRef {
    fn from(uuid: Uuid) -> RowRef {
        RowRef::Known(uuid)
    }
}

impl From<NewRow> for RowRef {
    fn from(row: NewRow) -> RowRef {
        RowRef::New(row)
    }
}

const MISTYPED: &str = "a replica holds what the specification expects";

macro_rules! atom_kind {
    ($kind:ident, $type:ident, $view:ty, $atom:ident => $read:expr) => {
        impl AtomKind for $kind {
            type View<'a> = $view;
            type Given<'a> = $view;
            const TYPE: AtomType = AtomType::$type;

            fn view(atom: &Atom) -> Self::View<'_> {
                match atom {
                    Atom::$type($atom) => $read,
                    _ => unreachable!("{MISTYPED}"),
                }
            }

            fn atom(given: Self::Given<'_>) -> Atom {
                Atom::$type(given.into())
            }
        }

        impl ColumnKind for $kind {
            type View<'a> = $view;
            type Given<'a> = $view;
            const EXPECTED: Expected = expected(AtomType::$type, None, true, false);

            fn view(datum: &Datum) -> Self::View<'_> {
                <$kind as AtomKind>::view(datum.atoms().first().expect(MISTYPED))
            }

            fn datum(given: Self::Given<'_>) -> Datum {
                Datum::set([<$kind as AtomKind>::atom(given)])
            }
        }
    };
}

atom_kind!(Text, Text, &'a str, text => text);
atom_kind!(Integer, Integer, i64, number => *number);
atom_kind!(Boolean, Boolean, bool, flag => *flag);

impl<T> AtomKind for Ref<T> {
    type View<'a> = Uuid;
    type Given<'a> = RowRef;
    const TYPE: AtomType = AtomType::Uuid;

    fn view(atom: &Atom) -> Uuid {
        match atom {
            Atom::Uuid(uuid) => *uuid,
            _ => unreachable!("{MISTYPED}"),
        }
    }

    fn atom(given: RowRef) -> Atom {
        match given {
            RowRef::Known(uuid) => Atom::Uuid(uuid),
            RowRef::New(row) => Atom::NewRow(row),
        }
    }
}

const fn expected(key: AtomType, value: Option<AtomType>, one: bool, many: bool) -> Expected {
    Expected {
        key,
        value,
        is_required: one,
        is_many: many,
    }
}

impl<K: AtomKind> ColumnKind for Optional<K> {
    type View<'a> = Option<K::View<'a>>;
    type Given<'a> = Option<K::Given<'a>>;
    const EXPECTED: Expected = expected(K::TYPE, None, false, false);

    fn view(datum: &Datum) -> Self::View<'_> {
        datum.atoms().first().map(K::view)
    }

    fn datum(given: Self::Given<'_>) -> Datum {
        Datum::set(given.map(K::atom))
    }
}

impl<K: AtomKind> ColumnKind for Many<K> {
    type View<'a> = Elements<'a, K>;
    type Given<'a> = &'a [K::Given<'a>];
    const EXPECTED: Expected = expected(K::TYPE, None, false, true);

    fn view(datum: &Datum) -> Self::View<'_> {
        Elements {
            atoms: datum.atoms().iter(),
            kind: PhantomData,
        }
    }

    fn datum(given: Self::Given<'_>) -> Datum {
        Datum::set(given.iter().map(|given| K::atom(*given)))
    }
}

impl<K: AtomKind, V: AtomKind> ColumnKind for MapOf<K, V> {
    type View<'a> = Pairs<'a, K, V>;
    type Given<'a> = &'a [(K::Given<'a>, V::Given<'a>)];
    const EXPECTED: Expected = expected(K::TYPE, Some(V::TYPE), false, true);

    fn view(datum: &Datum) -> Self::View<'_> {
        Pairs {
            pairs: datum.pairs(),
            kind: PhantomData,
        }
    }

    fn datum(given: Self::Given<'_>) -> Datum {
        let pairs = given.iter();
        Datum::map(pairs.map(|(key, value)| (K::atom(*key), V::atom(*value))))
    }
}

/// The elements of a set, in order.
#[derive(Clone, Debug)]
pub struct Elements<'a, K> {
    atoms: std::slice::Iter<'a, Atom>,
    kind: PhantomData<K>,
}

impl<'a, K: AtomKind> Iterator for Elements<'a, K> {
    type Item = K::View<'a>;

    fn next(&mut self) -> Option<K::View<'a>> {
        self.atoms.next().map(K::view)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.atoms.size_hint()
    }
}

impl<K: AtomKind> ExactSizeIterator for Elements<'_, K> {}

/// The pairs of a map.
#[derive(Clone, Copy, Debug)]
pub struct Pairs<'a, K, V> {
    pairs: &'a [(Atom, Atom)],
    kind: PhantomData<(K, V)>,
}

impl<'a, K: AtomKind, V: AtomKind> Pairs<'a, K, V> {
    /// The value of a key.
    pub fn get(&self, key: K::Given<'_>) -> Option<V::View<'a>> {
        let at = find(self.pairs, &K::atom(key))?;
        Some(V::view(&self.pairs[at].1))
    }

    /// All pairs, in the order of the keys.
    pub fn iter(self) -> impl ExactSizeIterator<Item = (K::View<'a>, V::View<'a>)> {
        let pairs = self.pairs.iter();
        pairs.map(|(key, value)| (K::view(key), V::view(value)))
    }
}
