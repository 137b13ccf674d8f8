//! MPLS label stack entries (RFC 3032 section 2.1, RFC 5462 for the traffic class).
//!
//! ```text
//!   | label:20 | traffic class:3 | bottom:1 | time to live:8 |
//! ```
//!
//! Nothing in the stack names the payload behind its bottom: only the router that assigned the
//! label knows it.

use super::WireError;
use super::field::{self, Field};

const ENTRY: Field = 0..4;

const LABEL_SHIFT: u32 = 12;
const TRAFFIC_CLASS_SHIFT: u32 = 9;
const BOTTOM: u32 = 1 << 8;
const LABEL_MAX: u32 = 0xf_ffff;

/// A checked view of one entry of a label stack.
#[derive(Clone, Copy, Debug)]
pub struct MplsView<'a> {
    bytes: &'a [u8],
}

impl<'a> MplsView<'a> {
    /// The length of an entry in bytes.
    pub const HEADER_LEN: usize = ENTRY.end;

    /// Views `bytes` as an entry.
    ///
    /// # Errors
    /// [`WireError::Truncated`] under four bytes.
    #[inline]
    pub fn new_checked(bytes: &'a [u8]) -> Result<Self, WireError> {
        if bytes.len() < Self::HEADER_LEN {
            return Err(WireError::Truncated);
        }
        Ok(MplsView { bytes })
    }

    /// The whole entry as a number.
    #[inline]
    pub fn entry(&self) -> u32 {
        field::read_u32(self.bytes, ENTRY)
    }

    /// The label, 20 bits.
    #[inline]
    pub fn label(&self) -> u32 {
        self.entry() >> LABEL_SHIFT
    }

    /// The traffic class, 0 to 7 (RFC 5462).
    #[inline]
    pub fn traffic_class(&self) -> u8 {
        (self.entry() >> TRAFFIC_CLASS_SHIFT) as u8 & 0x07
    }

    /// Whether this is the last entry.
    #[inline]
    pub fn is_bottom(&self) -> bool {
        self.entry() & BOTTOM != 0
    }

    /// The time to live.
    #[inline]
    pub fn ttl(&self) -> u8 {
        self.entry() as u8
    }

    /// The bytes behind the entry.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[Self::HEADER_LEN..]
    }
}

/// The fields of an entry of a label stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MplsRepr {
    /// The label, below 2^20.
    pub label: u32,
    /// The traffic class, 0 to 7.
    pub traffic_class: u8,
    /// Whether this is the last entry.
    pub bottom: bool,
    /// The time to live.
    pub ttl: u8,
}

impl MplsRepr {
    /// Reads the entry.
    ///
    /// # Errors
    /// None: any four bytes are an entry.
    pub fn parse(view: &MplsView<'_>) -> Result<Self, WireError> {
        Ok(MplsRepr {
            label: view.label(),
            traffic_class: view.traffic_class(),
            bottom: view.is_bottom(),
            ttl: view.ttl(),
        })
    }

    /// Bytes that [`MplsRepr::emit`] writes.
    pub const fn buffer_len(&self) -> usize {
        MplsView::HEADER_LEN
    }

    /// Writes the entry.
    ///
    /// # Panics
    /// If `bytes` is shorter than [`MplsRepr::buffer_len`] or a field is out of range.
    pub fn emit(&self, bytes: &mut [u8]) {
        let in_range = self.label <= LABEL_MAX && self.traffic_class < 8;
        assert!(in_range, "a field of a label stack entry is out of range");
        let bottom = if self.bottom { BOTTOM } else { 0 };
        let class = u32::from(self.traffic_class) << TRAFFIC_CLASS_SHIFT;
        let entry = self.label << LABEL_SHIFT | class | bottom | u32::from(self.ttl);
        field::write_u32(bytes, ENTRY, entry);
    }
}

/// The entries of a label stack, top first, including the bottom.
///
/// If the bytes end early, the walk ends without a bottom entry.
#[derive(Clone, Debug)]
pub struct LabelStack<'a> {
    bytes: &'a [u8],
    is_finished: bool,
}

impl<'a> LabelStack<'a> {
    /// Walks the stack at the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        LabelStack {
            bytes,
            is_finished: false,
        }
    }
}

impl<'a> Iterator for LabelStack<'a> {
    type Item = MplsView<'a>;

    fn next(&mut self) -> Option<MplsView<'a>> {
        if self.is_finished {
            return None;
        }
        let view = MplsView::new_checked(self.bytes).ok()?;
        self.bytes = view.payload();
        self.is_finished = view.is_bottom();
        Some(view)
    }
}
