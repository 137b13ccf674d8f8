//! Sockets that send into tunnels, made when they are first needed.
//!
//! A socket has one UDP source port, one setting for fragments and one for checksums. So there is
//! a socket for each of these, and [`SENDERS`] of them for the source port, which a hash of the
//! inner packet chooses.

use std::io;
use std::sync::OnceLock;

use crate::sys::{Carrier, DatagramSocket, IpFamily};

/// The number of UDP source ports over which flows are spread.
pub const SENDERS: usize = 64;

/// Families, fragments and checksums: two of each.
const VARIANTS: usize = 8;

/// Which socket sends a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SenderPlace {
    pub(super) family: IpFamily,
    pub(super) carrier: Carrier,
    pub(super) dont_fragment: bool,
    pub(super) has_checksum: bool,
    pub(super) number: u8,
}

impl SenderPlace {
    /// The place of a packet; raw sockets have no ports, so one of them is enough.
    pub(super) fn new(
        (family, carrier): (IpFamily, Carrier),
        (dont_fragment, has_checksum): (bool, bool),
        hash: u32,
    ) -> SenderPlace {
        let scaled = (u64::from(hash) * SENDERS as u64) >> 32;
        SenderPlace {
            family,
            carrier,
            dont_fragment,
            has_checksum: has_checksum && carrier == Carrier::Udp,
            number: match carrier {
                Carrier::Udp => scaled as u8,
                Carrier::Gre => 0,
            },
        }
    }

    fn index(self) -> usize {
        let variant = usize::from(self.family == IpFamily::V6) << 2
            | usize::from(self.dont_fragment) << 1
            | usize::from(self.has_checksum);
        match self.carrier {
            Carrier::Udp => variant * SENDERS + usize::from(self.number),
            Carrier::Gre => VARIANTS * SENDERS + variant,
        }
    }
}

/// All sockets.
#[derive(Debug)]
pub(super) struct Senders(Vec<OnceLock<DatagramSocket>>);

impl Default for Senders {
    /// None yet.
    fn default() -> Self {
        let count = VARIANTS * SENDERS + VARIANTS;
        Senders((0..count).map(|_| OnceLock::new()).collect())
    }
}

impl Senders {
    /// The socket of a place, in the network namespace of the thread that first asks for it.
    ///
    /// # Errors
    /// If it cannot be made.
    pub(super) fn get(&self, place: SenderPlace) -> io::Result<&DatagramSocket> {
        let cell = &self.0[place.index()];
        if let Some(socket) = cell.get() {
            return Ok(socket);
        }
        let (fragment, checksum) = (place.dont_fragment, place.has_checksum);
        let made = DatagramSocket::for_sending(place.family, place.carrier, fragment, checksum)?;
        // Another thread may have been faster.
        Ok(cell.get_or_init(|| made))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_place_has_its_own_socket() {
        let (mut seen, mut indexes) = (Vec::new(), BTreeSet::new());
        for family in IpFamily::ALL {
            for carrier in [Carrier::Udp, Carrier::Gre] {
                for bits in 0..4 {
                    for hash in (0..64_u32).map(|number| number << 26) {
                        let settings = (bits & 1 == 1, bits & 2 == 2);
                        let place = SenderPlace::new((family, carrier), settings, hash);
                        if !seen.contains(&place) {
                            seen.push(place);
                        }
                        indexes.insert(place.index());
                    }
                }
            }
        }
        assert_eq!(seen.len(), 2 * 4 * SENDERS + 2 * 2);
        assert_eq!(indexes.len(), seen.len());
        assert!(indexes.last() < Some(&Senders::default().0.len()));
    }
}
