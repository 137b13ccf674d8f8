//! What a driver says of itself by `SIOCETHTOOL` (`linux/ethtool.h`).

use std::io;

use super::Interface;
use super::interface::ask;

const SIOCETHTOOL: libc::c_ulong = 0x8946;

const GET_FLAGS: u32 = 0x25;
const GET_CHANNELS: u32 = 0x3c;

/// `ETH_FLAG_RXVLAN`: VLAN tags are taken out of frames that arrive.
const FLAG_VLAN: u32 = 1 << 8;

/// `struct ethtool_value`.
#[derive(Default)]
#[repr(C)]
struct Flags {
    command: u32,
    flags: u32,
}

/// `struct ethtool_channels`.
#[derive(Default)]
#[repr(C)]
struct Channels {
    command: u32,
    most_receiving: u32,
    most_sending: u32,
    most_others: u32,
    most_combined: u32,
    receiving: u32,
    sending: u32,
    others: u32,
    combined: u32,
}

impl Interface {
    /// The number of queues that frames arrive in; none if the driver does not tell.
    pub(crate) fn receive_queues(&self) -> Option<u32> {
        let mut channels = Channels {
            command: GET_CHANNELS,
            ..Channels::default()
        };
        self.ask_driver(&mut channels).ok()?;
        let queues = channels.receiving.saturating_add(channels.combined);
        Some(queues).filter(|queues| *queues > 0)
    }

    /// Whether the card takes VLAN tags out of frames that arrive.
    pub(crate) fn takes_tags_out(&self) -> bool {
        let mut flags = Flags {
            command: GET_FLAGS,
            flags: 0,
        };
        self.ask_driver(&mut flags).is_ok() && flags.flags & FLAG_VLAN != 0
    }

    /// Asks the driver; `T` begins with the command, which fixes the structure.
    fn ask_driver<T>(&self, question: &mut T) -> io::Result<()> {
        let mut request = self.request()?;
        // The kernel writes to `question` by this address before the call returns (2); the
        // structures of this file have the size that their command asks for.
        request.ifr_ifru.ifru_data = std::ptr::from_mut(question).cast();
        ask(&self.control, SIOCETHTOOL, &mut request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_has_no_channels_and_no_tags() {
        let loopback = Interface::find("lo").unwrap();
        assert_eq!(loopback.receive_queues(), None);
        assert!(!loopback.takes_tags_out());
    }
}
