//! The commands `tnl/neigh/show`, `set`, `flush` and `aging`, which are also called `tnl/arp/...`.

use std::fmt::Write;
use std::net::IpAddr;
use std::time::Duration;

use thalweg_packet::Instant;
use thalweg_packet::wire::MacAddress;

use super::NeighborCache;
use crate::number::{Base, signed};

/// The longest time that an entry may live.
const AGING_MAX_SECONDS: i64 = 3600;

/// Why a command about neighbours is refused. The texts are Open vSwitch's.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NeighborError {
    /// The address is neither IPv4 nor IPv6.
    #[error("bad IP address")]
    BadAddress,
    /// The MAC address cannot be read.
    #[error("bad MAC address")]
    BadMac,
    /// The time is none from 1 to 3600 seconds.
    #[error("bad aging value")]
    BadAging,
}

impl NeighborCache {
    /// `tnl/neigh/show`: a head, and a line for each entry, by address and bridge.
    pub fn show_command(&self, now: Instant) -> String {
        let mut text = "IP                                            MAC                 Bridge\n\
             ==========================================================================\n"
            .to_owned();
        let ids = self
            .by_address
            .values()
            .flat_map(|bridges| bridges.values());
        for entry in ids.filter_map(|id| self.entries.get(id)) {
            let stale = if entry.expires <= now { " STALE" } else { "" };
            writeln!(
                text,
                "{:<46}{}   {}{stale}",
                entry.address.to_string(),
                entry.mac,
                entry.bridge
            )
            .expect("a string takes any text");
        }
        text
    }

    /// `tnl/neigh/set BRIDGE IP MAC`; true if that was not so before.
    ///
    /// # Errors
    /// If an address cannot be read.
    pub fn set_command(
        &mut self,
        [bridge, address, mac]: [&str; 3],
        now: Instant,
    ) -> Result<bool, NeighborError> {
        let address: IpAddr = address.parse().map_err(|_| NeighborError::BadAddress)?;
        let mac: MacAddress = mac.parse().map_err(|_| NeighborError::BadMac)?;
        Ok(self.set(bridge, address, mac, now))
    }

    /// `tnl/neigh/aging [SECS]`: says how long entries live, and gives the answer.
    ///
    /// # Errors
    /// If the time is none from 1 to 3600 seconds; what follows a number does not matter.
    pub fn aging_command(
        &mut self,
        seconds: Option<&str>,
        now: Instant,
    ) -> Result<String, NeighborError> {
        let Some(text) = seconds else {
            return Ok(self.aging().as_secs().to_string());
        };
        match signed(text, Base::Decimal).0 {
            seconds @ 1..=AGING_MAX_SECONDS => {
                self.set_aging(Duration::from_secs(seconds.unsigned_abs()), now);
                Ok("OK".to_owned())
            }
            _ => Err(NeighborError::BadAging),
        }
    }
}
