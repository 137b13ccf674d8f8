//! Parses values of the file, with error messages for users.
//!
//! Serde's own messages (`expected usize`, `expected a sequence`) are for programmers.
//!
//! A size or time is a number in the unit of its key's name, or a text with a unit. So
//! `bytes = 67108864` equals `bytes = "64 MiB"`, and `at_us = 1500` equals
//! `at_us = "1ms 500us"`.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use std::path::PathBuf;

use bytesize::ByteSize;
use serde::de::{
    Deserialize, Deserializer, Error, IntoDeserializer, SeqAccess, Unexpected, Visitor,
};
use toml::Spanned;

use crate::PortSection;

/// A non-negative integer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Number(pub(crate) u64);

/// A number with or without a fraction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decimal(pub(crate) f64);

/// One value of a key, or a list of values with their places.
#[derive(Debug)]
pub(crate) struct Several<T>(Vec<(Option<Range<usize>>, T)>);

impl<T> Several<T> {
    /// The values, each with the place that an error should name.
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

/// A non-negative integer or a name.
#[derive(Clone, Debug)]
pub(crate) enum CountOrName {
    Count(u64),
    Name(String),
}

/// The files of a key that takes several.
#[derive(Debug, Default)]
pub(crate) struct Paths(pub(crate) Vec<PathBuf>);

/// A size in bytes, with or without a unit.
struct Bytes(u64);

/// A time in microseconds, with or without a unit.
struct Micros(u64);

/// Reads an optional size in bytes.
pub(crate) fn bytes<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Spanned<Number>>, D::Error> {
    let said = Option::<Spanned<Bytes>>::deserialize(deserializer)?;
    Ok(said.map(|said| Spanned::new(said.span(), Number(said.get_ref().0))))
}

/// Reads an optional time in microseconds.
pub(crate) fn micros<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Spanned<Number>>, D::Error> {
    Option::<Spanned<Micros>>::deserialize(deserializer).map(|said| said.map(number_of))
}

/// Reads a time in microseconds.
pub(crate) fn some_micros<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Spanned<Number>, D::Error> {
    Spanned::<Micros>::deserialize(deserializer).map(number_of)
}

fn number_of(said: Spanned<Micros>) -> Spanned<Number> {
    Spanned::new(said.span(), Number(said.get_ref().0))
}

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

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
        let expected = "a whole number of bytes, or a size such as \"64 MiB\"";
        let read = |text: &str| Some(text.parse::<ByteSize>().ok()?.as_u64());
        deserializer
            .deserialize_any(AmountVisitor { expected, read })
            .map(Bytes)
    }
}

impl<'de> Deserialize<'de> for Micros {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Micros, D::Error> {
        let expected = "a whole number of microseconds, or a time such as \"250ms\"";
        let read = |text: &str| {
            let time = humantime::parse_duration(text).ok()?;
            let is_whole = time.subsec_nanos().is_multiple_of(1_000);
            u64::try_from(time.as_micros()).ok().filter(|_| is_whole)
        };
        deserializer
            .deserialize_any(AmountVisitor { expected, read })
            .map(Micros)
    }
}

/// Visits a number, or a text that `read` understands.
struct AmountVisitor<F> {
    expected: &'static str,
    read: F,
}

impl<F: Fn(&str) -> Option<u64>> Visitor<'_> for AmountVisitor<F> {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<u64, E> {
        Ok(value)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<u64, E> {
        u64::try_from(value).map_err(|_| E::invalid_value(Unexpected::Signed(value), &self))
    }

    fn visit_i128<E: Error>(self, value: i128) -> Result<u64, E> {
        let said = value.to_string();
        Err(E::invalid_value(Unexpected::Other(&said), &self))
    }

    fn visit_u128<E: Error>(self, value: u128) -> Result<u64, E> {
        let said = value.to_string();
        Err(E::invalid_value(Unexpected::Other(&said), &self))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<u64, E> {
        let read = (self.read)(text);
        read.ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
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

    // TOML's integers have at most 64 bits in every notation.
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

/// Reads a list; `expected` is what error messages call it.
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
