//! Values as the file has them, and what is said about values of another type.
//!
//! What serde says by itself (`expected usize`, `expected a sequence`) is for programmers.

use std::fmt;
use std::marker::PhantomData;
use std::path::PathBuf;

use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Unexpected, Visitor};

use crate::PortSection;

/// A number from 0 on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Number(pub(crate) u64);

/// The files of a key that takes several.
#[derive(Debug, Default)]
pub(crate) struct Paths(pub(crate) Vec<PathBuf>);

/// All sections `[[port]]`.
#[derive(Debug)]
pub(crate) struct Ports(pub(crate) Vec<PortSection>);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Number, D::Error> {
        deserializer.deserialize_any(NumberVisitor)
    }
}

impl<'de> Deserialize<'de> for Paths {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Paths, D::Error> {
        let expected = "a list of paths, such as [\"my.rules\"]";
        list(deserializer, expected).map(Paths)
    }
}

impl<'de> Deserialize<'de> for Ports {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Ports, D::Error> {
        let expected = "a list: write [[port]], with two brackets, for each port";
        list(deserializer, expected).map(Ports)
    }
}

struct NumberVisitor;

impl Visitor<'_> for NumberVisitor {
    type Value = Number;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number from 0")
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Number, E> {
        Ok(Number(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Number, E> {
        let number = u64::try_from(value);
        let number = number.map_err(|_| E::invalid_value(Unexpected::Signed(value), &self))?;
        Ok(Number(number))
    }

    // TOML's integers end at 64 bits, whichever way they are written.
    fn visit_i128<E: Error>(self, value: i128) -> Result<Number, E> {
        Err(E::invalid_value(
            Unexpected::Other(&value.to_string()),
            &self,
        ))
    }

    fn visit_u128<E: Error>(self, value: u128) -> Result<Number, E> {
        Err(E::invalid_value(
            Unexpected::Other(&value.to_string()),
            &self,
        ))
    }
}

/// A list of anything, called what people know it as.
fn list<'de, D, T>(deserializer: D, expected: &'static str) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let elements = PhantomData;
    deserializer.deserialize_seq(ListVisitor { expected, elements })
}

struct ListVisitor<T> {
    expected: &'static str,
    elements: PhantomData<T>,
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for ListVisitor<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Vec<T>, A::Error> {
        let mut list = Vec::new();
        while let Some(element) = elements.next_element()? {
            list.push(element);
        }
        Ok(list)
    }
}
