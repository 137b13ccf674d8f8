//! The bits of `ct_state`.

use std::ops::{BitOr, BitOrAssign};

use serde::{Deserialize, Serialize};

/// The state of a packet's connection: the bits of `ct_state`.
///
/// The values are Open vSwitch's (`CS_*` of `lib/packets.h`), which rules and tools spell.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub struct CtState(pub u8);

impl CtState {
    /// The tracker has not seen the packet.
    pub const UNTRACKED: CtState = CtState(0);
    /// The packet begins a connection that is not committed yet.
    pub const NEW: CtState = CtState(0x01);
    /// The packet belongs to a connection that is established.
    pub const ESTABLISHED: CtState = CtState(0x02);
    /// The packet concerns another connection: an ICMP error, or the data of FTP.
    pub const RELATED: CtState = CtState(0x04);
    /// The packet goes against the direction of the first.
    pub const REPLY: CtState = CtState(0x08);
    /// The packet does not fit its connection, or cannot be tracked.
    pub const INVALID: CtState = CtState(0x10);
    /// The tracker has seen the packet.
    pub const TRACKED: CtState = CtState(0x20);
    /// The source was translated.
    pub const SOURCE_NAT: CtState = CtState(0x40);
    /// The destination was translated.
    pub const DESTINATION_NAT: CtState = CtState(0x80);

    /// Whether all bits of `other` are set.
    pub const fn has(self, other: CtState) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for CtState {
    type Output = CtState;

    fn bitor(self, other: CtState) -> CtState {
        CtState(self.0 | other.0)
    }
}

impl BitOrAssign for CtState {
    fn bitor_assign(&mut self, other: CtState) {
        self.0 |= other.0;
    }
}
