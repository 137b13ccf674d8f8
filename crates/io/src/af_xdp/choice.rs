//! Which kind of port `auto` means for an interface that exists.
//!
//! A packet socket, unless AF_XDP is surely better and takes nothing away:
//!
//! 1. The host has no address on the interface, and no bridge, bond or VLAN of the host is on it:
//!    AF_XDP would take their packets away.
//! 2. The card leaves VLAN tags in the frames, which AF_XDP would lose otherwise.
//! 3. The interface's frames fit into a chunk.
//! 4. The card reads and writes the frames' memory itself. Where the kernel copies, a packet socket
//!    also keeps segments whole, which is worth more.
//!
//! A tap is never meant: on one that exists another program may want to be the owner's end.

use std::path::Path;

use thalweg_packet::PortId;

use super::open::MOST_MTU;
use super::{AfXdpPort, Parts, XdpMode, XdpSettings};
use crate::af_packet::{claim, find_ethernet};
use crate::sys::has_address;
use crate::{AfPacketPort, Error, OpenedPort, ReceiveMethod};

/// What a packet socket needs.
const CAPABILITY: &str = "CAP_NET_RAW";

/// What decides without trying.
#[derive(Clone, Copy, Debug)]
struct Facts {
    /// Whether a way to receive from a packet socket was asked for.
    has_method: bool,
    has_address: bool,
    /// Whether another interface of the host sends and receives by it.
    is_shared: bool,
    takes_tags_out: bool,
    mtu_bytes: usize,
}

impl Facts {
    /// Why AF_XDP is not even tried.
    fn objection(self) -> Option<String> {
        if self.has_method {
            return Some("`receive` is for one".to_owned());
        }
        if self.has_address {
            return Some(
                "this host has an address there, and AF_XDP would take its packets".into(),
            );
        }
        if self.is_shared {
            return Some(
                "another interface of this host is on it, and AF_XDP would take its packets".into(),
            );
        }
        if self.takes_tags_out {
            return Some("VLAN tags are kept beside frames, where AF_XDP does not see them".into());
        }
        let is_long = self.mtu_bytes > MOST_MTU;
        is_long.then(|| format!("AF_XDP has no room for frames of an MTU above {MOST_MTU}"))
    }
}

/// Opens the better kind of port on the interface called `name`, and says why it is that.
///
/// # Errors
/// As for a packet socket.
pub(crate) fn open_best(
    number: PortId,
    name: &str,
    method: Option<ReceiveMethod>,
) -> Result<OpenedPort, Error> {
    let interface = find_ethernet(name, CAPABILITY)?;
    let facts = Facts {
        has_method: method.is_some(),
        // What cannot be read keeps the packet socket.
        has_address: has_address(name).unwrap_or(true),
        // A process in a namespace may have the machine's `/sys`, which does not tell.
        is_shared: is_shared(name).unwrap_or(false),
        takes_tags_out: interface.takes_tags_out(),
        mtu_bytes: interface.mtu().map_or(usize::MAX, |mtu| mtu as usize),
    };
    let claim = claim(name, &interface, CAPABILITY)?;
    let reason = match facts.objection() {
        Some(objection) => objection,
        None => match Parts::open(name, &interface, with_zero_copy()) {
            Ok(parts) => {
                let port = AfXdpPort::of(number, interface, claim, parts);
                return Ok(OpenedPort::of_xdp(port));
            }
            Err(error) => format!("AF_XDP: {error}"),
        },
    };
    let method = method.unwrap_or_default();
    let port = AfPacketPort::open_claimed(number, name, (interface, claim), method)?;
    let remarks = vec![format!("a packet socket: {reason}")];
    Ok(OpenedPort {
        remarks,
        ..OpenedPort::new(Box::new(port))
    })
}

/// Whether an interface is part of another one, or has others on it.
fn is_shared(name: &str) -> std::io::Result<bool> {
    let entries = std::fs::read_dir(Path::new("/sys/class/net").join(name))?;
    for entry in entries {
        let entry = entry?.file_name();
        if entry == "master" || entry.to_string_lossy().starts_with("upper_") {
            return Ok(true);
        }
    }
    Ok(false)
}

fn with_zero_copy() -> XdpSettings {
    XdpSettings {
        mode: XdpMode::NativeWithZeroCopy,
        ..XdpSettings::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_socket_is_chosen_for_each_reason_alone() {
        let best = Facts {
            has_method: false,
            has_address: false,
            is_shared: false,
            takes_tags_out: false,
            mtu_bytes: 1500,
        };
        assert_eq!(best.objection(), None);
        let others = [
            (
                Facts {
                    has_method: true,
                    ..best
                },
                "`receive`",
            ),
            (
                Facts {
                    has_address: true,
                    ..best
                },
                "an address",
            ),
            (
                Facts {
                    is_shared: true,
                    ..best
                },
                "another interface",
            ),
            (
                Facts {
                    takes_tags_out: true,
                    ..best
                },
                "VLAN tags",
            ),
            (
                Facts {
                    mtu_bytes: 9000,
                    ..best
                },
                "MTU above 3818",
            ),
        ];
        for (facts, word) in others {
            let said = facts.objection().unwrap();
            assert!(said.contains(word), "{said}");
        }
    }
}
