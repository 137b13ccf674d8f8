//! VLAN tags: customer (IEEE 802.1Q) and service (IEEE 802.1ad, now part of 802.1Q).
//!
//! A tag lies between a frame's addresses and its type. The type before it (the tag protocol
//! identifier, [`EtherType::VLAN`] or [`EtherType::SERVICE_VLAN`]) belongs to the previous
//! header. So the view starts at the tag control information, and tags can be stacked (QinQ):
//!
//! ```text
//!   0                                   2      4
//!   | priority:3 | eligible:1 | id:12   | type | ...      (IEEE 802.1Q-2018 section 9.6)
//! ```

use super::field::{self, Field};
use super::{EtherType, WireError};

const CONTROL: Field = 0..2;
const TYPE: Field = 2..4;

const PRIORITY_SHIFT: u32 = 13;
const DROP_ELIGIBLE: u16 = 1 << 12;
const VLAN_ID_MASK: u16 = 0x0fff;

/// A checked view of a tag, starting at its control information.
#[derive(Clone, Copy, Debug)]
pub struct VlanView<'a> {
    bytes: &'a [u8],
}

impl<'a> VlanView<'a> {
    /// The length of a tag in bytes: its control information and the type of the payload.
    pub const HEADER_LEN: usize = TYPE.end;

    /// Views `bytes` as a tag; they must follow the type field that announced it.
    ///
    /// # Errors
    /// [`WireError::Truncated`] under four bytes.
    #[inline]
    pub fn new_checked(bytes: &'a [u8]) -> Result<Self, WireError> {
        if bytes.len() < Self::HEADER_LEN {
            return Err(WireError::Truncated);
        }
        Ok(VlanView { bytes })
    }

    /// The tag control information: priority, drop eligibility and identifier.
    #[inline]
    pub fn control(&self) -> u16 {
        field::read_u16(self.bytes, CONTROL)
    }

    /// The priority code point, 0 to 7.
    #[inline]
    pub fn priority(&self) -> u8 {
        (self.control() >> PRIORITY_SHIFT) as u8
    }

    /// Whether the frame may be dropped first.
    #[inline]
    pub fn is_drop_eligible(&self) -> bool {
        self.control() & DROP_ELIGIBLE != 0
    }

    /// The VLAN identifier, 12 bits; 0 marks a tag that carries only a priority.
    #[inline]
    pub fn vlan_id(&self) -> u16 {
        self.control() & VLAN_ID_MASK
    }

    /// The type field behind the tag, as stored.
    #[inline]
    pub fn ether_type(&self) -> EtherType {
        EtherType(field::read_u16(self.bytes, TYPE))
    }

    /// The frame from the type field behind the tag on, as [`crate::wire::FrameType::parse`]
    /// expects it.
    #[inline]
    pub fn from_type(&self) -> &'a [u8] {
        &self.bytes[TYPE.start..]
    }

    /// The bytes behind the tag.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[Self::HEADER_LEN..]
    }
}

/// The fields of a tag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VlanRepr {
    /// The priority code point, 0 to 7.
    pub priority: u8,
    /// Whether the frame may be dropped first.
    pub drop_eligible: bool,
    /// The VLAN identifier, 0 to 4095.
    pub vlan_id: u16,
    /// The type of the payload, or a length.
    pub ether_type: EtherType,
}

impl VlanRepr {
    /// Reads the tag.
    ///
    /// # Errors
    /// None: any four bytes are a tag.
    pub fn parse(view: &VlanView<'_>) -> Result<Self, WireError> {
        Ok(VlanRepr {
            priority: view.priority(),
            drop_eligible: view.is_drop_eligible(),
            vlan_id: view.vlan_id(),
            ether_type: view.ether_type(),
        })
    }

    /// Bytes that [`VlanRepr::emit`] writes.
    pub const fn buffer_len(&self) -> usize {
        VlanView::HEADER_LEN
    }

    /// Writes the tag.
    ///
    /// # Panics
    /// If `bytes` is shorter than [`VlanRepr::buffer_len`] or a field is out of range.
    pub fn emit(&self, bytes: &mut [u8]) {
        assert!(
            self.priority < 8 && self.vlan_id <= VLAN_ID_MASK,
            "a tag's field is out of range"
        );
        let eligible = if self.drop_eligible { DROP_ELIGIBLE } else { 0 };
        let control = u16::from(self.priority) << PRIORITY_SHIFT | eligible | self.vlan_id;
        field::write_u16(bytes, CONTROL, control);
        field::write_u16(bytes, TYPE, self.ether_type.0);
    }
}
