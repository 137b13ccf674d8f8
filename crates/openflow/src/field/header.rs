//! Headers of fields: OXM (OpenFlow 1.5.1, section 7.2.3.2) and NXM, which has the same form.

use crate::error::{ErrorCode, Refusal, refuse};
use crate::wire::{Reader, Writer};

/// The space that a field's number is in.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Class {
    /// Nicira's names for fields of OpenFlow 1.0.
    Nxm0,
    /// Nicira's further fields.
    Nxm1,
    /// Ericsson's fields.
    Ericsson,
    /// The standard's fields.
    Oxm,
    /// The standard's packet registers (OpenFlow 1.5).
    PacketRegisters,
    /// An experimenter's fields: 32 bits more say whose.
    Experimenter(u32),
}

const EXPERIMENTER_CLASS: u16 = 0xffff;

impl Class {
    /// Whether it is one of Nicira's two classes.
    pub fn is_nxm(self) -> bool {
        matches!(self, Class::Nxm0 | Class::Nxm1)
    }

    fn from_number(number: u16) -> Option<Class> {
        Some(match number {
            0x0000 => Class::Nxm0,
            0x0001 => Class::Nxm1,
            0x1000 => Class::Ericsson,
            0x8000 => Class::Oxm,
            0x8001 => Class::PacketRegisters,
            _ => return None,
        })
    }

    fn number(self) -> u16 {
        match self {
            Class::Nxm0 => 0x0000,
            Class::Nxm1 => 0x0001,
            Class::Ericsson => 0x1000,
            Class::Oxm => 0x8000,
            Class::PacketRegisters => 0x8001,
            Class::Experimenter(_) => EXPERIMENTER_CLASS,
        }
    }
}

/// The header in front of a field's value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Header {
    /// The space of its number.
    pub class: Class,
    /// Its number, of 7 bits.
    pub number: u8,
    /// Whether a mask follows the value.
    pub has_mask: bool,
    /// Bytes of the value, without those of a mask.
    pub length: u8,
}

impl Header {
    /// Size of the header on the wire.
    pub fn bytes(self) -> usize {
        match self.class {
            Class::Experimenter(_) => 8,
            _ => 4,
        }
    }

    /// Reads a header. `None` stands for an unknown class; its length is then
    /// that of everything behind the first four bytes.
    ///
    /// # Errors
    /// If the header is cut short, or if its length cannot hold an experimenter or an equal
    /// share for value and mask.
    pub fn decode(reader: &mut Reader<'_>) -> Result<(Option<Header>, usize), Refusal> {
        let class = reader.u16()?;
        let field = reader.u8()?;
        let length = usize::from(reader.u8()?);
        let has_mask = field & 1 != 0;
        let (class, payload) = if class == EXPERIMENTER_CLASS {
            if length < 4 {
                return Err(bad_length(
                    "an experimenter's field without the experimenter",
                ));
            }
            (Some(Class::Experimenter(reader.u32()?)), length - 4)
        } else {
            (Class::from_number(class), length)
        };
        if has_mask && payload % 2 != 0 {
            return Err(bad_length("a field whose mask and value differ in length"));
        }
        let value = if has_mask { payload / 2 } else { payload };
        let header = class.map(|class| Header {
            class,
            number: field >> 1,
            has_mask,
            length: value as u8,
        });
        Ok((header, payload))
    }

    /// Writes the header.
    pub fn encode(self, writer: &mut Writer) {
        let payload = self.length << u8::from(self.has_mask);
        writer.u16(self.class.number());
        writer.u8(self.number << 1 | u8::from(self.has_mask));
        match self.class {
            Class::Experimenter(experimenter) => {
                writer.u8(payload + 4);
                writer.u32(experimenter);
            }
            _ => writer.u8(payload),
        }
    }
}

fn bad_length(what: &str) -> Refusal {
    refuse(ErrorCode::OFPBMC_BAD_LEN, what)
}
