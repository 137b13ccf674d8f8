//! The schema that a server tells (RFC 7047, section 3.2): tables, columns and their types.
//!
//! Only what a client needs is kept. Constraints on values (`enum`, `minInteger`) are the
//! server's to enforce: a value that breaks one never reaches a client.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::jsonrpc::excerpt;
use crate::number::integer;

/// A type of atoms.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AtomType {
    /// Numbers of 64 bits.
    Integer,
    /// Numbers with a fraction.
    Real,
    /// True or false.
    Boolean,
    /// Texts.
    Text,
    /// Names of rows.
    Uuid,
}

impl AtomType {
    /// Its name in schemas.
    pub fn name(self) -> &'static str {
        match self {
            AtomType::Integer => "integer",
            AtomType::Real => "real",
            AtomType::Boolean => "boolean",
            AtomType::Text => "string",
            AtomType::Uuid => "uuid",
        }
    }

    fn parse(name: &str) -> Option<AtomType> {
        let all = [
            AtomType::Integer,
            AtomType::Real,
            AtomType::Boolean,
            AtomType::Text,
            AtomType::Uuid,
        ];
        all.into_iter().find(|known| known.name() == name)
    }
}

/// What the keys or values of a column are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BaseType {
    /// Their type.
    pub atom: AtomType,
    /// For UUIDs, the table whose rows they name.
    pub refers_to: Option<String>,
}

/// What a column holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ColumnType {
    /// The elements of a set, or the keys of a map.
    pub key: BaseType,
    /// The values of a map.
    pub value: Option<BaseType>,
    /// Fewest elements: 0 or 1.
    pub min: usize,
    /// Most elements.
    pub max: usize,
}

impl std::fmt::Display for ColumnType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let key = self.key.atom.name();
        match &self.value {
            Some(value) => write!(f, "a map from {key} to {}", value.atom.name()),
            None if self.max > 1 => write!(f, "a set of {key}"),
            None if self.min == 0 => write!(f, "an optional {key}"),
            None => write!(f, "one {key}"),
        }
    }
}

/// The columns of a table.
pub type TableSchema = BTreeMap<String, ColumnType>;

/// What a database holds.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DatabaseSchema {
    /// Its name.
    pub name: String,
    /// Its version, such as "8.3.1".
    pub version: String,
    /// Its tables by name.
    pub tables: BTreeMap<String, TableSchema>,
}

/// Why a schema cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the schema {place} {what}")]
pub struct SchemaError {
    place: String,
    what: String,
}

fn wrong(place: &str, what: &str) -> SchemaError {
    SchemaError {
        place: format!("at \"{place}\""),
        what: what.to_owned(),
    }
}

impl DatabaseSchema {
    /// Reads a schema.
    ///
    /// # Errors
    ///
    /// Says at which table and column it is not one.
    pub fn parse(value: &Value) -> Result<DatabaseSchema, SchemaError> {
        let text = |name: &str| {
            let text = value.get(name).and_then(Value::as_str);
            text.map(str::to_owned)
        };
        let name = text("name").ok_or_else(|| wrong("name", "has no text"))?;
        let version = text("version").unwrap_or_default();
        let Some(Value::Object(members)) = value.get("tables") else {
            return Err(wrong("tables", "has no tables"));
        };
        let mut tables = BTreeMap::new();
        for (table, members) in members {
            let Some(Value::Object(columns)) = members.get("columns") else {
                return Err(wrong(table, "has no columns"));
            };
            let mut types = TableSchema::new();
            for (column, members) in columns {
                let place = format!("{table}.{column}");
                let column_type = members.get("type");
                let column_type = column_type.ok_or_else(|| wrong(&place, "has no type"))?;
                types.insert(column.clone(), ColumnType::parse(column_type, &place)?);
            }
            tables.insert(table.clone(), types);
        }
        Ok(DatabaseSchema {
            name,
            version,
            tables,
        })
    }
}

impl ColumnType {
    fn parse(value: &Value, place: &str) -> Result<ColumnType, SchemaError> {
        if value.is_string() {
            let key = BaseType::parse(value, place)?;
            return Ok(ColumnType {
                key,
                value: None,
                min: 1,
                max: 1,
            });
        }
        let key = value.get("key").ok_or_else(|| wrong(place, "has no key"))?;
        let key = BaseType::parse(key, place)?;
        let of_value = value.get("value");
        let of_value = of_value
            .map(|value| BaseType::parse(value, place))
            .transpose()?;
        let count = |name: &str| match value.get(name) {
            None => Some(1),
            Some(Value::String(text)) if text == "unlimited" => Some(usize::MAX),
            Some(number) => integer(number).and_then(|number| usize::try_from(number).ok()),
        };
        match (count("min"), count("max")) {
            (Some(min), Some(max)) if min <= 1 && max >= 1 => Ok(ColumnType {
                key,
                value: of_value,
                min,
                max,
            }),
            _ => Err(wrong(place, "has a \"min\" above 1 or a \"max\" below 1")),
        }
    }
}

impl BaseType {
    fn parse(value: &Value, place: &str) -> Result<BaseType, SchemaError> {
        let name = match value {
            Value::String(name) => Some(name.as_str()),
            value => value.get("type").and_then(Value::as_str),
        };
        let atom = name.and_then(AtomType::parse);
        let what = || format!("has the unknown type {}", excerpt(value));
        let atom = atom.ok_or_else(|| wrong(place, &what()))?;
        let refers_to = value.get("refTable").and_then(Value::as_str);
        Ok(BaseType {
            atom,
            refers_to: refers_to.map(str::to_owned),
        })
    }
}

#[cfg(test)]
mod tests;
