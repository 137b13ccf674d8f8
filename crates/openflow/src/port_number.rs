//! Port numbers, with the reserved ones.

use std::fmt;

/// A port's number, as OpenFlow 1.1 and later write it; OpenFlow 1.0's 16 bits are widened.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortNumber(pub u32);

impl PortNumber {
    /// The largest number of a real port in OpenFlow 1.0.
    pub const MAX_10: u32 = 0xff00;
    /// The first reserved number.
    pub const MAX: u32 = 0xffff_ff00;
    /// `OFPP_UNSET`: no output in an action set.
    pub const UNSET: PortNumber = PortNumber(0xffff_fff7);
    /// `OFPP_IN_PORT`.
    pub const IN_PORT: PortNumber = PortNumber(0xffff_fff8);
    /// `OFPP_TABLE`.
    pub const TABLE: PortNumber = PortNumber(0xffff_fff9);
    /// `OFPP_NORMAL`.
    pub const NORMAL: PortNumber = PortNumber(0xffff_fffa);
    /// `OFPP_FLOOD`.
    pub const FLOOD: PortNumber = PortNumber(0xffff_fffb);
    /// `OFPP_ALL`.
    pub const ALL: PortNumber = PortNumber(0xffff_fffc);
    /// `OFPP_CONTROLLER`.
    pub const CONTROLLER: PortNumber = PortNumber(0xffff_fffd);
    /// `OFPP_LOCAL`.
    pub const LOCAL: PortNumber = PortNumber(0xffff_fffe);
    /// `OFPP_ANY`, and OpenFlow 1.0's `OFPP_NONE`.
    pub const ANY: PortNumber = PortNumber(0xffff_ffff);

    /// The number that 16 bits stand for: reserved ones are widened.
    pub fn from_u16(number: u16) -> PortNumber {
        match number {
            0xff00.. => PortNumber(0xffff_0000 | u32::from(number)),
            _ => PortNumber(number.into()),
        }
    }

    /// The number in 16 bits; `None` if it needs more.
    pub fn to_u16(self) -> Option<u16> {
        match self.0 {
            ..PortNumber::MAX_10 => Some(self.0 as u16),
            PortNumber::MAX.. => Some(self.0 as u16),
            _ => None,
        }
    }

    /// Whether the number is reserved: no real port has it, apart from `LOCAL`.
    pub fn is_reserved(self) -> bool {
        self.0 >= PortNumber::MAX
    }
}

impl fmt::Debug for PortNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for PortNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match *self {
            PortNumber::UNSET => "UNSET",
            PortNumber::IN_PORT => "IN_PORT",
            PortNumber::TABLE => "TABLE",
            PortNumber::NORMAL => "NORMAL",
            PortNumber::FLOOD => "FLOOD",
            PortNumber::ALL => "ALL",
            PortNumber::CONTROLLER => "CONTROLLER",
            PortNumber::LOCAL => "LOCAL",
            PortNumber::ANY => "ANY",
            PortNumber(number) => return write!(f, "{number}"),
        };
        f.write_str(name)
    }
}
