//! The message that tells a peer of an error.

use bytes::Bytes;

use crate::error::{ErrorCode, ErrorNumber, Refusal};
use crate::version::Version;
use crate::wire::{Reader, Writer};

/// The type of an experimenter's errors, from OpenFlow 1.2 on.
const EXPERIMENTER: u16 = 0xffff;

/// The error message (OpenFlow 1.5.1, section 7.5.4).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ErrorMessage {
    /// Its numbers.
    pub number: ErrorNumber,
    /// The message that failed, as far as there is room, or a text for a failed hello.
    pub data: Bytes,
}

/// Most bytes of a message that an error quotes; Open vSwitch, too, quotes all that there is room
/// for. The rest of an error's message is shorter than the remaining room.
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
