//! Values as the file has them, and what is said about values of another type.
//!
//! What serde says by itself (`expected usize`, `expected a sequence`) is for programmers.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use std::path::PathBuf;

use serde::de::{
    Deserialize, Deserializer, Error, IntoDeserializer, SeqAccess, Unexpected, Visitor,
};
use toml::Spanned;

use crate::PortSection;

/// A number from 0 on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Number(pub(crate) u64);

/// A number with or without a fraction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decimal(pub(crate) f64);

/// One value of a key, or a list of them; those of a list with their places.
#[derive(Debug)]
pub(crate) struct Several<T>(Vec<(Option<Range<usize>>, T)>);

impl<T> Several<T> {
    /// The values, each with the place of which an error should speak.
    pub(crate) fn items(said: &Spanned<Several<T>>) -> impl Iterator<Item = (Range<usize>, &T)> {
        let whole = said.span();
        let place = move |span: &Option<Range<usize>>| span.clone().unwrap_or(whole.clone());
        let values = said.get_ref().0.iter();
        values.map(move |(span, value)| (place(span), value))
    }

    /// The values.
    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|(_, value)| value)
    }
}

/// A number from 0 on, or a name.
#[derive(Clone, Debug)]
pub(crate) enum CountOrName {
    Count(u64),
    Name(String),
}

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

impl<'de> Deserialize<'de> for Decimal {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Decimal, D::Error> {
        deserializer.deserialize_any(DecimalVisitor)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Several<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Several<T>, D::Error> {
        deserializer.deserialize_any(SeveralVisitor(PhantomData))
    }
}

struct SeveralVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for SeveralVisitor<T> {
    type Value = Several<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value, or a list of values")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Several<T>, A::Error> {
        let mut list = Vec::new();
        while let Some(element) = elements.next_element::<Spanned<T>>()? {
            list.push((Some(element.span()), element.into_inner()));
        }
        Ok(Several(list))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Several<T>, E> {
        one(value)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Several<T>, E> {
        one(value)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Several<T>, E> {
        one(value)
    }
}

fn one<'de, T, V, E>(value: V) -> Result<Several<T>, E>
where
    T: Deserialize<'de>,
    V: IntoDeserializer<'de, E>,
    E: Error,
{
    let value = T::deserialize(value.into_deserializer())?;
    Ok(Several(vec![(None, value)]))
}

struct DecimalVisitor;

impl Visitor<'_> for DecimalVisitor {
    type Value = Decimal;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number")
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Decimal, E> {
        Ok(Decimal(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Decimal, E> {
        Ok(Decimal(value as f64))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Decimal, E> {
        Ok(Decimal(value as f64))
    }
}

impl<'de> Deserialize<'de> for CountOrName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<CountOrName, D::Error> {
        deserializer.deserialize_any(CountOrNameVisitor)
    }
}

struct CountOrNameVisitor;

impl Visitor<'_> for CountOrNameVisitor {
    type Value = CountOrName;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number from 0, or a name")
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<CountOrName, E> {
        let number = u64::try_from(value);
        let number = number.map_err(|_| E::invalid_value(Unexpected::Signed(value), &self))?;
        Ok(CountOrName::Count(number))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<CountOrName, E> {
        Ok(CountOrName::Count(value))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<CountOrName, E> {
        Ok(CountOrName::Name(value.to_owned()))
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
pub(crate) fn list<'de, D, T>(deserializer: D, expected: &'static str) -> Result<Vec<T>, D::Error>
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
