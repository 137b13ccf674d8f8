//! Geneve: any frame over UDP, with options (RFC 8926 section 3).
//!
//! ```text
//!   0                          1                        2          4     7          8
//!   | version:2 | length:6     | control | critical | 0 | protocol | VNI | reserved | options ...
//!
//!   an option:    | class:16 | type:8 | reserved:3, length:5 | data, 4 * length bytes
//! ```
//!
//! The lengths of options must add up to the length in the header; otherwise the packet is
//! invalid and must be dropped (section 3.5). The view checks this once, so walking the
//! options cannot fail.

use super::field::{self, Field};
use super::{EtherType, WireError};

const VERSION_AND_LENGTH: usize = 0;
const FLAGS: usize = 1;
const PROTOCOL: Field = 2..4;
const IDENTIFIER: Field = 4..7;
const HEADER_END: usize = 8;

const VERSION_SHIFT: u32 = 6;
const LENGTH_MASK: u8 = 0x3f;
/// The O flag: a control packet (section 3.4).
const FLAG_CONTROL: u8 = 0x80;
/// The C flag: some option is critical (section 3.4).
const FLAG_CRITICAL: u8 = 0x40;
const IDENTIFIER_MAX: u32 = 0xff_ffff;
const OPTIONS_LEN_MAX: usize = 4 * LENGTH_MASK as usize;

const OPTION_CLASS: Field = 0..2;
const OPTION_TYPE: usize = 2;
const OPTION_LENGTH: usize = 3;
const OPTION_HEADER_LEN: usize = 4;
const OPTION_LENGTH_MASK: u8 = 0x1f;

/// The UDP destination port of Geneve (section 3.3).
pub const GENEVE_PORT: u16 = 6081;

/// A checked view of a Geneve header.
#[derive(Clone, Copy, Debug)]
pub struct GeneveView<'a> {
    bytes: &'a [u8],
}

impl<'a> GeneveView<'a> {
    /// The length of the header without options, in bytes.
    pub const HEADER_LEN: usize = HEADER_END;

    /// Views `bytes`, the payload of a UDP datagram, as Geneve.
    ///
    /// # Errors
    /// [`WireError::Truncated`] if the header or its options are not whole,
    /// [`WireError::BadVersion`] if it is not version 0, [`WireError::BadOption`] if the options
    /// do not add up.
    pub fn new_checked(bytes: &'a [u8]) -> Result<Self, WireError> {
        if bytes.len() < Self::HEADER_LEN {
            return Err(WireError::Truncated);
        }
        let view = GeneveView { bytes };
        if bytes[VERSION_AND_LENGTH] >> VERSION_SHIFT != 0 {
            return Err(WireError::BadVersion);
        }
        if bytes.len() < view.header_len() {
            return Err(WireError::Truncated);
        }
        GeneveOptions::new_checked(view.option_bytes())?;
        Ok(view)
    }

    /// The length of the header with its options, in bytes.
    #[inline]
    pub fn header_len(&self) -> usize {
        HEADER_END + 4 * usize::from(self.bytes[VERSION_AND_LENGTH] & LENGTH_MASK)
    }

    /// Whether this is a control packet between tunnel endpoints, which must not be forwarded.
    #[inline]
    pub fn is_control(&self) -> bool {
        self.bytes[FLAGS] & FLAG_CONTROL != 0
    }

    /// Whether the receiver must understand some option.
    #[inline]
    pub fn is_critical(&self) -> bool {
        self.bytes[FLAGS] & FLAG_CRITICAL != 0
    }

    /// The type of the inner packet.
    #[inline]
    pub fn protocol(&self) -> EtherType {
        EtherType(field::read_u16(self.bytes, PROTOCOL))
    }

    /// The virtual network identifier, 24 bits.
    #[inline]
    pub fn identifier(&self) -> u32 {
        field::read_u24(self.bytes, IDENTIFIER)
    }

    /// The bytes of the options.
    #[inline]
    pub fn option_bytes(&self) -> &'a [u8] {
        &self.bytes[HEADER_END..self.header_len()]
    }

    /// The options, in order.
    #[inline]
    pub fn options(&self) -> GeneveOptions<'a> {
        GeneveOptions {
            bytes: self.option_bytes(),
        }
    }

    /// The frame inside.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[self.header_len()..]
    }
}

/// One option of a Geneve header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GeneveOption<'a> {
    /// The organisation that defined the option.
    pub class: u16,
    /// The option within its class; the high bit says that receivers must understand it.
    pub kind: u8,
    /// The value: a multiple of four bytes, at most 124.
    pub data: &'a [u8],
}

impl GeneveOption<'_> {
    /// Whether a receiver that does not know the option must drop the packet (section 3.5.1).
    pub const fn is_critical(&self) -> bool {
        self.kind & 0x80 != 0
    }

    /// Bytes that [`GeneveOption::emit`] writes.
    pub const fn buffer_len(&self) -> usize {
        OPTION_HEADER_LEN + self.data.len()
    }

    /// Writes the option.
    ///
    /// # Panics
    /// If `bytes` is shorter than [`GeneveOption::buffer_len`], or if the value is longer than 124
    /// bytes or no multiple of four.
    pub fn emit(&self, bytes: &mut [u8]) {
        let words = self.data.len() / 4;
        let in_range =
            self.data.len().is_multiple_of(4) && words <= usize::from(OPTION_LENGTH_MASK);
        assert!(
            in_range,
            "an option's value is a multiple of four bytes, at most 124"
        );
        field::write_u16(bytes, OPTION_CLASS, self.class);
        bytes[OPTION_TYPE] = self.kind;
        bytes[OPTION_LENGTH] = words as u8;
        bytes[OPTION_HEADER_LEN..self.buffer_len()].copy_from_slice(self.data);
    }
}

/// The options of a Geneve header, in order.
#[derive(Clone, Debug)]
pub struct GeneveOptions<'a> {
    bytes: &'a [u8],
}

impl<'a> GeneveOptions<'a> {
    /// Views `bytes` as options.
    ///
    /// # Errors
    /// [`WireError::BadOption`] if the lengths of the options do not add up.
    pub fn new_checked(bytes: &'a [u8]) -> Result<Self, WireError> {
        let options = GeneveOptions { bytes };
        let mut walk = options.clone();
        while walk.next().is_some() {}
        match walk.bytes.is_empty() {
            true => Ok(options),
            false => Err(WireError::BadOption),
        }
    }
}

impl<'a> Iterator for GeneveOptions<'a> {
    type Item = GeneveOption<'a>;

    fn next(&mut self) -> Option<GeneveOption<'a>> {
        let words = *self.bytes.get(OPTION_LENGTH)? & OPTION_LENGTH_MASK;
        let (option, rest) = self
            .bytes
            .split_at_checked(OPTION_HEADER_LEN + 4 * usize::from(words))?;
        self.bytes = rest;
        Some(GeneveOption {
            class: field::read_u16(option, OPTION_CLASS),
            kind: option[OPTION_TYPE],
            data: &option[OPTION_HEADER_LEN..],
        })
    }
}

/// The fields of a Geneve header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GeneveRepr<'a> {
    /// Whether this is a control packet between tunnel endpoints.
    pub control: bool,
    /// Whether the receiver must understand some option.
    pub critical: bool,
    /// The type of the inner packet; a frame is [`EtherType::ETHERNET`].
    pub protocol: EtherType,
    /// The virtual network identifier, below 2^24.
    pub identifier: u32,
    /// The bytes of the options: a multiple of four, at most 252.
    pub options: &'a [u8],
}

impl<'a> GeneveRepr<'a> {
    /// Reads the header.
    ///
    /// # Errors
    /// None beyond those of the view.
    pub fn parse(view: &GeneveView<'a>) -> Result<Self, WireError> {
        Ok(GeneveRepr {
            control: view.is_control(),
            critical: view.is_critical(),
            protocol: view.protocol(),
            identifier: view.identifier(),
            options: view.option_bytes(),
        })
    }

    /// Bytes that [`GeneveRepr::emit`] writes.
    pub const fn buffer_len(&self) -> usize {
        HEADER_END + self.options.len()
    }

    /// Writes the header.
    ///
    /// # Panics
    /// If `bytes` is shorter than [`GeneveRepr::buffer_len`] or a field is out of range.
    pub fn emit(&self, bytes: &mut [u8]) {
        let length = self.options.len();
        assert!(
            length.is_multiple_of(4) && length <= OPTIONS_LEN_MAX,
            "options fill up to 63 words"
        );
        assert!(
            self.identifier <= IDENTIFIER_MAX,
            "a network identifier has 24 bits"
        );
        bytes[..HEADER_END].fill(0);
        bytes[VERSION_AND_LENGTH] = (length / 4) as u8;
        bytes[FLAGS] = if self.control { FLAG_CONTROL } else { 0 }
            | if self.critical { FLAG_CRITICAL } else { 0 };
        field::write_u16(bytes, PROTOCOL, self.protocol.0);
        field::write_u24(bytes, IDENTIFIER, self.identifier);
        bytes[HEADER_END..self.buffer_len()].copy_from_slice(self.options);
    }
}
