//! The bits of `ct_state`.

use std::ops::{BitOr, BitOrAssign};

/// What is known of a packet's connection: the bits of `ct_state`.
///
/// The values are Open vSwitch's (`CS_*` of `lib/packets.h`), which rules and tools spell.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct State(pub u8);

impl State {
    /// The tracker has not seen the packet.
    pub const UNTRACKED: State = State(0);
    /// The packet begins a connection that is not committed yet.
    pub const NEW: State = State(0x01);
    /// The packet belongs to a connection that is established.
    pub const ESTABLISHED: State = State(0x02);
    /// The packet concerns another connection: an ICMP error, or the data of FTP.
    pub const RELATED: State = State(0x04);
    /// The packet goes against the direction of the first.
    pub const REPLY: State = State(0x08);
    /// The packet does not fit its connection, or cannot be tracked.
    pub const INVALID: State = State(0x10);
    /// The tracker has seen the packet.
    pub const TRACKED: State = State(0x20);
    /// The source was translated.
    pub const SOURCE_NAT: State = State(0x40);
    /// The destination was translated.
    pub const DESTINATION_NAT: State = State(0x80);

    /// Whether all bits of `other` are set.
    pub const fn has(self, other: State) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for State {
    type Output = State;

    fn bitor(self, other: State) -> State {
        State(self.0 | other.0)
    }
}

impl BitOrAssign for State {
    fn bitor_assign(&mut self, other: State) {
        self.0 |= other.0;
    }
}
