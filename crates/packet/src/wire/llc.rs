//! Logical link control and its sub-network access protocol (IEEE 802-2014 section 9, RFC
//! 1042).
//!
//! A frame whose type field is a length below 1536 carries LLC. Under the SNAP service access
//! points, LLC carries an organisation and a type:
//!
//! ```text
//!   0      2      3      4         5              8      10
//!   | len  | DSAP | SSAP | control | organisation | type | ...
//! ```
//!
//! A SNAP header of organisation zero says in ten bytes what Ethernet II says in two (RFC
//! 1042). A switch that overlooks it treats IPv4 as an unknown protocol. [`FrameType::parse`]
//! reads either form where a type field is: after the addresses or after a tag.

use super::field::{self, Field};
use super::{EtherType, WireError};

const DESTINATION_SAP: usize = 0;
const SOURCE_SAP: usize = 1;
const CONTROL: usize = 2;
const ORGANISATION: Field = 3..6;
const TYPE: Field = 6..8;

/// The service access point of SNAP (IEEE 802-2014 section 9.2.2).
const SNAP_SAP: u8 = 0xaa;
/// Unnumbered information (IEEE 802.2-1998 section 5.4.2): one byte of control.
const UNNUMBERED_INFORMATION: u8 = 0x03;

/// A checked view of an LLC header.
#[derive(Clone, Copy, Debug)]
pub struct LlcView<'a> {
    bytes: &'a [u8],
}

impl<'a> LlcView<'a> {
    /// Views `bytes`, which follow the length field, as LLC.
    ///
    /// # Errors
    /// [`WireError::Truncated`] if LLC, or the SNAP header it announces, is not whole.
    pub fn new_checked(bytes: &'a [u8]) -> Result<Self, WireError> {
        let view = LlcView { bytes };
        // The order matters: `header_len` needs the first three bytes.
        if bytes.len() <= CONTROL || bytes.len() < view.header_len() {
            return Err(WireError::Truncated);
        }
        Ok(view)
    }

    /// The destination's service access point.
    pub fn destination_sap(&self) -> u8 {
        self.bytes[DESTINATION_SAP]
    }

    /// The source's service access point.
    pub fn source_sap(&self) -> u8 {
        self.bytes[SOURCE_SAP]
    }

    /// The first control byte; only unnumbered frames have no second one.
    pub fn control(&self) -> u8 {
        self.bytes[CONTROL]
    }

    /// The organisation and type under SNAP.
    pub fn snap(&self) -> Option<Snap> {
        self.is_snap().then(|| Snap {
            organisation: field::read(self.bytes, ORGANISATION),
            ether_type: EtherType(field::read_u16(self.bytes, TYPE)),
        })
    }

    /// Bytes of the header: three, or eight with SNAP.
    pub fn header_len(&self) -> usize {
        if self.is_snap() {
            TYPE.end
        } else {
            CONTROL + 1
        }
    }

    /// The bytes behind the header, padding included.
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[self.header_len()..]
    }

    fn is_snap(&self) -> bool {
        self.destination_sap() == SNAP_SAP
            && self.source_sap() == SNAP_SAP
            && self.control() == UNNUMBERED_INFORMATION
    }
}

/// An organisation, and the type of its protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Snap {
    /// The organisation; zero means that the type is an Ethernet type.
    pub organisation: [u8; 3],
    /// The type of the payload, as the organisation numbers it.
    pub ether_type: EtherType,
}

/// The fields of an LLC header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LlcRepr {
    /// LLC alone.
    Plain {
        /// The destination's service access point.
        destination_sap: u8,
        /// The source's service access point.
        source_sap: u8,
        /// The first byte of control.
        control: u8,
    },
    /// LLC with a SNAP header.
    Snap(Snap),
}

impl LlcRepr {
    /// Reads the header.
    ///
    /// # Errors
    /// None beyond those of the view.
    pub fn parse(view: &LlcView<'_>) -> Result<Self, WireError> {
        Ok(match view.snap() {
            Some(snap) => LlcRepr::Snap(snap),
            None => LlcRepr::Plain {
                destination_sap: view.destination_sap(),
                source_sap: view.source_sap(),
                control: view.control(),
            },
        })
    }

    /// Bytes that [`LlcRepr::emit`] writes.
    pub const fn buffer_len(&self) -> usize {
        match self {
            LlcRepr::Plain { .. } => CONTROL + 1,
            LlcRepr::Snap(_) => TYPE.end,
        }
    }

    /// Writes the header.
    ///
    /// # Panics
    /// If `bytes` is shorter than [`LlcRepr::buffer_len`].
    pub fn emit(&self, bytes: &mut [u8]) {
        match *self {
            LlcRepr::Plain {
                destination_sap,
                source_sap,
                control,
            } => {
                bytes[..=CONTROL].copy_from_slice(&[destination_sap, source_sap, control]);
            }
            LlcRepr::Snap(snap) => {
                bytes[..=CONTROL].copy_from_slice(&[SNAP_SAP, SNAP_SAP, UNNUMBERED_INFORMATION]);
                field::write(bytes, ORGANISATION, &snap.organisation);
                field::write_u16(bytes, TYPE, snap.ether_type.0);
            }
        }
    }
}

/// The payload that the type field of a frame or a tag leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameType {
    /// A payload of this type, directly or through SNAP of organisation zero.
    EtherType {
        /// The type.
        ether_type: EtherType,
        /// Bytes from the start of the type field to the payload: 2, or 10 through SNAP.
        payload_offset: usize,
    },
    /// An IEEE 802.3 frame whose payload has no Ethernet type.
    Llc,
}

impl FrameType {
    /// Reads the type at the start of `bytes`, which must be a type field.
    ///
    /// The length of an IEEE 802.3 frame is not compared with the bytes, since the frame may
    /// be padded.
    ///
    /// # Errors
    /// [`WireError::Truncated`] under two bytes. A short LLC header is not an error: it has no
    /// type.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<Self, WireError> {
        let Some((field, rest)) = bytes.split_first_chunk() else {
            return Err(WireError::Truncated);
        };
        let ether_type = EtherType(u16::from_be_bytes(*field));
        if ether_type.is_length() {
            return Ok(Self::parse_llc(rest));
        }
        Ok(FrameType::EtherType {
            ether_type,
            payload_offset: 2,
        })
    }

    fn parse_llc(bytes: &[u8]) -> Self {
        match LlcView::new_checked(bytes)
            .ok()
            .and_then(|view| view.snap())
        {
            Some(Snap {
                organisation: [0, 0, 0],
                ether_type,
            }) if !ether_type.is_length() => FrameType::EtherType {
                ether_type,
                payload_offset: 2 + TYPE.end,
            },
            _ => FrameType::Llc,
        }
    }
}
