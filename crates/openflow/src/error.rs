//! Errors: why a message or a request is refused, under the standard's type and code.
//!
//! A [`Refusal`] is what decoding and carrying out return; [`ErrorMessage`](crate::ErrorMessage)
//! is the message that tells the peer, with the beginning of the message that it is about. One
//! list
//! (`error/table.rs`) has the numbers of every error in every version. An error that a version
//! cannot express is sent as the nearest it has ([`ErrorCode::number`]).

mod table;

use std::fmt;

use crate::version::Version;

use table::{Number, ROWS};

/// Whose numbers an error has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Owner {
    Standard,
    Nicira,
    Onf,
}

impl Owner {
    fn experimenter(self) -> Option<u32> {
        match self {
            Owner::Standard => None,
            Owner::Nicira => Some(crate::NICIRA),
            Owner::Onf => Some(crate::ONF),
        }
    }
}

/// An error's name and its numbers.
struct Row {
    name: &'static str,
    numbers: &'static [Number],
}

/// A named error of OpenFlow or of Open vSwitch.
///
/// ```
/// use thalweg_openflow::{ErrorCode, Version};
///
/// let error = ErrorCode::OFPFMFC_TABLE_FULL;
/// assert_eq!(error.to_string(), "OFPFMFC_TABLE_FULL");
/// assert_eq!(error.number(Version::V10).map(|number| number.code), Some(0));
/// assert_eq!(error.number(Version::V13).map(|number| number.code), Some(1));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ErrorCode(u16);

/// An error's numbers in one version.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ErrorNumber {
    /// The experimenter that the number belongs to, if it is not the standard's.
    pub experimenter: Option<u32>,
    /// The error's type; 0xffff for an experimenter's of OpenFlow 1.2 and later.
    pub kind: u16,
    /// Its code, or the experimenter's number.
    pub code: u16,
}

impl ErrorCode {
    /// Its name, such as `OFPBRC_BAD_TYPE`.
    pub fn name(self) -> &'static str {
        ROWS[usize::from(self.0)].name
    }

    /// Its numbers in a version; `None` if the version has no such error.
    pub fn number(self, version: Version) -> Option<ErrorNumber> {
        let numbers = ROWS[usize::from(self.0)].numbers;
        let fits = |number: &&Number| number.1 <= version && version <= number.2;
        numbers.iter().find(fits).map(as_number)
    }

    /// The error with these numbers.
    pub fn from_number(version: Version, number: ErrorNumber) -> Option<ErrorCode> {
        let is_it = |row: &Row| {
            let mut numbers = row.numbers.iter();
            numbers
                .any(|known| known.1 <= version && version <= known.2 && as_number(known) == number)
        };
        let place = ROWS.iter().position(is_it)?;
        Some(ErrorCode(place as u16))
    }

    /// All errors.
    pub fn all() -> impl Iterator<Item = ErrorCode> {
        (0..ROWS.len() as u16).map(ErrorCode)
    }
}

fn as_number(&(owner, _, _, kind, code): &Number) -> ErrorNumber {
    ErrorNumber {
        experimenter: owner.experimenter(),
        kind,
        code,
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a message was refused. What it asked for has not been done.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{code}: {what}")]
pub struct Refusal {
    /// The error that the peer is told.
    pub code: ErrorCode,
    /// A description of the fault, for logs.
    pub what: String,
}

/// Creates a refusal.
pub fn refuse(code: ErrorCode, what: impl Into<String>) -> Refusal {
    Refusal {
        code,
        what: what.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_lead_back_to_an_error_with_the_same_numbers() {
        for code in ErrorCode::all() {
            for version in Version::ALL {
                let Some(number) = code.number(version) else {
                    continue;
                };
                let back = ErrorCode::from_number(version, number).expect("it is in the list");
                assert_eq!(back.number(version), Some(number), "{code} in {version}");
            }
        }
    }
}
