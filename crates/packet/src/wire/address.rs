//! The 48-bit address of an Ethernet station or group.

use std::fmt;
use std::str::FromStr;

/// An EUI-48 address (IEEE 802-2014 section 8.2).
///
/// ```
/// use thalweg_packet::wire::MacAddress;
///
/// let address: MacAddress = "02:00:00:00:00:0a".parse()?;
/// assert_eq!(address, MacAddress([2, 0, 0, 0, 0, 10]));
/// assert_eq!(address.to_string(), "02:00:00:00:00:0a");
/// assert!(!address.is_multicast());
/// # Ok::<(), thalweg_packet::wire::ParseMacAddressError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct MacAddress(pub [u8; 6]);

impl MacAddress {
    /// The broadcast address.
    pub const BROADCAST: MacAddress = MacAddress([0xff; 6]);

    /// The address that means "unknown".
    pub const ZERO: MacAddress = MacAddress([0; 6]);

    /// Whether the address is a group's, broadcast included (the I/G bit, section 8.2.2).
    #[inline]
    pub const fn is_multicast(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// Whether the address is the broadcast address.
    #[inline]
    pub const fn is_broadcast(self) -> bool {
        self.to_u64() == 0xffff_ffff_ffff
    }

    /// The address as a 48-bit number, first byte most significant.
    #[inline]
    pub const fn to_u64(self) -> u64 {
        let [a, b, c, d, e, f] = self.0;
        u64::from_be_bytes([0, 0, a, b, c, d, e, f])
    }

    /// The address from the low 48 bits of `number`.
    #[inline]
    pub const fn from_u64(number: u64) -> Self {
        let [_, _, a, b, c, d, e, f] = number.to_be_bytes();
        MacAddress([a, b, c, d, e, f])
    }
}

impl From<[u8; 6]> for MacAddress {
    fn from(octets: [u8; 6]) -> Self {
        MacAddress(octets)
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl FromStr for MacAddress {
    type Err = ParseMacAddressError;

    fn from_str(text: &str) -> Result<Self, ParseMacAddressError> {
        let mut octets = [0; 6];
        let mut parts = text.split([':', '-']);
        for octet in &mut octets {
            let part = parts.next().ok_or(ParseMacAddressError)?;
            // `from_str_radix` would accept a sign.
            if !(1..=2).contains(&part.len()) || !part.bytes().all(|b| b.is_ascii_hexdigit()) {
                return Err(ParseMacAddressError);
            }
            *octet = u8::from_str_radix(part, 16).map_err(|_| ParseMacAddressError)?;
        }
        match parts.next() {
            None => Ok(MacAddress(octets)),
            Some(_) => Err(ParseMacAddressError),
        }
    }
}

/// Error for a text that is not an Ethernet address.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("not an Ethernet address; write six hexadecimal octets, as in 02:00:00:00:00:0a")]
pub struct ParseMacAddressError;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_is_no_address_is_refused() {
        for text in [
            "",
            "1:2:3:4:5",
            "1:2:3:4:5:6:7",
            "1:2:3:4:5:",
            "g:2:3:4:5:6",
            "+1:2:3:4:5:6",
        ] {
            assert_eq!(
                text.parse::<MacAddress>(),
                Err(ParseMacAddressError),
                "{text}"
            );
        }
        assert_eq!("1-2-3-4-5-ff".parse(), Ok(MacAddress([1, 2, 3, 4, 5, 255])));
    }

    #[test]
    fn kinds_of_address() {
        assert!(MacAddress::BROADCAST.is_multicast() && MacAddress::BROADCAST.is_broadcast());
        let group = MacAddress([0x33, 0x33, 0, 0, 0, 1]);
        assert!(group.is_multicast() && !group.is_broadcast());
        assert!(!MacAddress::ZERO.is_multicast());
        assert_eq!(MacAddress::from_u64(group.to_u64()), group);
    }
}
