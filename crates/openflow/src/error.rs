//! Errors: why a message or a request is refused, under the standard's type and code.
//!
//! A [`Refusal`] is what decoding and carrying out return; [`ErrorMessage`] is the message that
//! tells the peer, with the beginning of the message that it is about. One list
//! (`error/table.rs`) has the numbers of every error in every version. An error that a version
//! cannot express is sent as the nearest it has ([`ErrorCode::number`]).

mod table;

use std::fmt;

use bytes::Bytes;

use crate::version::Version;
use crate::wire::{Reader, Writer};

use table::{EXPERIMENTER, Number, ROWS};

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
    /// What is wrong, for logs.
    pub what: String,
}

/// Creates a refusal.
pub fn refuse(code: ErrorCode, what: impl Into<String>) -> Refusal {
    Refusal {
        code,
        what: what.into(),
    }
}

/// The error message (OpenFlow 1.5.1, section 7.5.4).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ErrorMessage {
    /// Its numbers.
    pub number: ErrorNumber,
    /// The message that failed, as far as there is room, or a text for a failed hello.
    pub data: Bytes,
}

/// Most bytes of a message that an error quotes; Open vSwitch, too, quotes all that there is room
/// for. The rest of an error's message is shorter than what is left.
const MOST_QUOTED: usize = u16::MAX as usize - 64;

/// The experimenter's number of OpenFlow 1.0 and 1.1 errors (Open vSwitch, `NXVC_VENDOR_ERROR`).
const VENDOR_ERROR: (u16, u16) = (0xb0c2, 0);

impl ErrorMessage {
    /// Tells a peer that speaks `version` why `offending`, a whole message, was refused.
    ///
    /// An error that the version lacks is told as Open vSwitch does: by
    /// `NXBRC_UNENCODABLE_ERROR`, which every version has.
    pub fn new(version: Version, code: ErrorCode, offending: &[u8]) -> ErrorMessage {
        let number = code
            .number(version)
            .or_else(|| ErrorCode::NXBRC_UNENCODABLE_ERROR.number(version))
            .expect("every version has that error");
        ErrorMessage {
            number,
            data: Bytes::copy_from_slice(&offending[..offending.len().min(MOST_QUOTED)]),
        }
    }

    /// Its name in a version, if the numbers are known.
    pub fn code(&self, version: Version) -> Option<ErrorCode> {
        ErrorCode::from_number(version, self.number)
    }

    pub(crate) fn encode(&self, writer: &mut Writer) {
        let ErrorNumber {
            experimenter,
            kind,
            code,
        } = self.number;
        match experimenter {
            None => {
                writer.u16(kind);
                writer.u16(code);
            }
            Some(experimenter) if kind == EXPERIMENTER => {
                writer.u16(kind);
                writer.u16(code);
                writer.u32(experimenter);
            }
            Some(experimenter) => {
                writer.u16(VENDOR_ERROR.0);
                writer.u16(VENDOR_ERROR.1);
                writer.u32(experimenter);
                writer.u16(kind);
                writer.u16(code);
            }
        }
        writer.put(&self.data);
    }

    pub(crate) fn decode(version: Version, reader: &mut Reader<'_>) -> Result<Self, Refusal> {
        let (kind, code) = (reader.u16()?, reader.u16()?);
        let number = if version >= Version::V12 && kind == EXPERIMENTER {
            let experimenter = Some(reader.u32()?);
            ErrorNumber {
                experimenter,
                kind,
                code,
            }
        } else if version < Version::V12 && (kind, code) == VENDOR_ERROR {
            ErrorNumber {
                experimenter: Some(reader.u32()?),
                kind: reader.u16()?,
                code: reader.u16()?,
            }
        } else {
            ErrorNumber {
                experimenter: None,
                kind,
                code,
            }
        };
        Ok(ErrorMessage {
            number,
            data: Bytes::copy_from_slice(reader.rest()),
        })
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

    #[test]
    fn messages_survive_the_wire() {
        for code in ErrorCode::all() {
            for version in Version::ALL {
                let message = ErrorMessage::new(version, code, &[7; 80]);
                let mut writer = Writer::new();
                message.encode(&mut writer);
                let bytes = writer.into_bytes();
                let mut reader = Reader::new(&bytes, ErrorCode::OFPBRC_BAD_LEN);
                let back = ErrorMessage::decode(version, &mut reader);
                assert_eq!(back.as_ref(), Ok(&message));
                assert_eq!(message.data.len(), 80);
            }
        }
    }
}
