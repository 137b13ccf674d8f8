//! Values: numbers, addresses, ports and flags.
//!
//! Numbers follow C, as in `ovs-ofctl`: decimal, `0x` hexadecimal, and octal after a leading
//! zero. A number that does not fit is refused; none wraps around.

use std::net::{Ipv4Addr, Ipv6Addr};

use thalweg_packet::PortId;

use super::error::Parsed;
use super::line::Line;

/// The number of the switch's own network stack (`LOCAL`; OpenFlow 1.0 `OFPP_LOCAL`).
pub const LOCAL_PORT: PortId = PortId(0xfffe);

/// The number that means no port (`ANY`; OpenFlow 1.0 `OFPP_NONE`).
pub const NO_PORT: PortId = PortId(0xffff);

/// Numbers below this one are ports (OpenFlow 1.0 `OFPP_MAX`).
pub(super) const FIRST_RESERVED_PORT: u32 = 0xff00;

/// A value and its mask.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Masked {
    pub(super) value: u128,
    pub(super) mask: u128,
}

/// The lowest `width` bits.
pub(super) const fn ones(width: u16) -> u128 {
    if width >= 128 {
        u128::MAX
    } else {
        (1 << width) - 1
    }
}

/// A reserved port, or an ordinary port number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PortWord {
    Number(PortId),
    InPort,
    Table,
    Normal,
    Flood,
    All,
    Controller,
    Local,
    None,
}

/// The reserved ports: name, number in OpenFlow 1.0, meaning.
const RESERVED_PORTS: [(&str, u32, PortWord); 9] = [
    ("in_port", 0xfff8, PortWord::InPort),
    ("table", 0xfff9, PortWord::Table),
    ("normal", 0xfffa, PortWord::Normal),
    ("flood", 0xfffb, PortWord::Flood),
    ("all", 0xfffc, PortWord::All),
    ("controller", 0xfffd, PortWord::Controller),
    ("local", LOCAL_PORT.0, PortWord::Local),
    ("any", NO_PORT.0, PortWord::None),
    ("none", NO_PORT.0, PortWord::None),
];

/// Parses a number in C's notation; `None` if it is invalid or above 128 bits.
pub(super) fn number(text: &str) -> Option<u128> {
    let (digits, radix) = match text.as_bytes() {
        [b'0', b'x' | b'X', ..] => (&text[2..], 16),
        [b'0', _, ..] => (&text[1..], 8),
        _ => (text, 10),
    };
    if digits.is_empty() || digits.starts_with('+') {
        return None;
    }
    match u64::from_str_radix(digits, radix) {
        Ok(number) => Some(u128::from(number)),
        Err(_) => u128::from_str_radix(digits, radix).ok(),
    }
}

impl Line<'_> {
    /// Reads a number of at most `width` bits.
    pub(super) fn number(&self, part: &str, width: u16) -> Parsed<u128> {
        match number(part) {
            Some(number) if number <= ones(width) => Ok(number),
            _ if part.is_empty() => Err(self.syntax(part, "a number is missing here")),
            _ => Err(self.value(part, format!("a number of at most {width} bits"))),
        }
    }

    /// Reads a number that fits an unsigned integer type.
    pub(super) fn integer<T: TryFrom<u128>>(&self, part: &str) -> Parsed<T> {
        let width = 8 * size_of::<T>() as u16;
        let number = self.number(part, width)?;
        T::try_from(number).map_err(|_| self.value(part, "in range"))
    }

    /// Reads a 64-bit number; `-1` has all bits set.
    pub(super) fn cookie(&self, part: &str) -> Parsed<u64> {
        match part {
            "-1" => Ok(u64::MAX),
            _ => self.integer(part),
        }
    }

    /// Reads a number with or without a mask.
    pub(super) fn masked_number(&self, part: &str, width: u16) -> Parsed<Masked> {
        let (value, mask) = match part.split_once('/') {
            Some((value, mask)) => (self.number(value, width)?, self.number(mask, width)?),
            None => (self.number(part, width)?, ones(width)),
        };
        Ok(Masked { value, mask })
    }

    pub(super) fn ethernet(&self, part: &str) -> Parsed<u64> {
        ethernet(part).ok_or_else(|| self.value(part, "an Ethernet address (aa:bb:cc:dd:ee:ff)"))
    }

    pub(super) fn masked_ethernet(&self, part: &str) -> Parsed<Masked> {
        let (value, mask) = match part.split_once('/') {
            Some((value, mask)) => (self.ethernet(value)?, self.ethernet(mask)?),
            None => (self.ethernet(part)?, ones(48) as u64),
        };
        Ok(Masked {
            value: value.into(),
            mask: mask.into(),
        })
    }

    pub(super) fn ipv4(&self, part: &str) -> Parsed<u32> {
        let address: Option<Ipv4Addr> = part.parse().ok();
        address
            .map(u32::from)
            .ok_or_else(|| self.value(part, "an IPv4 address (10.0.0.1)"))
    }

    /// Reads an IPv4 address, with a prefix length, a mask or neither.
    pub(super) fn masked_ipv4(&self, part: &str) -> Parsed<Masked> {
        let Some((address, mask)) = part.split_once('/') else {
            let value = self.ipv4(part)?.into();
            return Ok(Masked {
                value,
                mask: ones(32),
            });
        };
        let mask = match mask.contains('.') {
            true => self.ipv4(mask)?.into(),
            false => self.prefix(mask, 32)?,
        };
        let value = self.ipv4(address)?.into();
        Ok(Masked { value, mask })
    }

    fn ipv6(&self, part: &str) -> Parsed<u128> {
        let address: Option<Ipv6Addr> = part.parse().ok();
        address
            .map(u128::from)
            .ok_or_else(|| self.value(part, "an IPv6 address (fe80::1)"))
    }

    /// Reads an IPv6 address, with a prefix length, a mask or neither.
    pub(super) fn masked_ipv6(&self, part: &str) -> Parsed<Masked> {
        let (address, mask) = match part.split_once('/') {
            Some((address, mask)) if mask.contains(':') => (address, self.ipv6(mask)?),
            Some((address, mask)) => (address, self.prefix(mask, 128)?),
            None => (part, u128::MAX),
        };
        let value = self.ipv6(address)?;
        Ok(Masked { value, mask })
    }

    /// The mask of a prefix length.
    fn prefix(&self, part: &str, width: u16) -> Parsed<u128> {
        let length = part.parse::<u16>().ok().filter(|&length| length <= width);
        let length =
            length.ok_or_else(|| self.value(part, format!("a prefix length of 0 to {width}")))?;
        Ok(ones(width) & !ones(width - length))
    }

    /// Reads a port by number or name, or a reserved port; `None` if it is neither.
    pub(super) fn port_word(&self, part: &str) -> Parsed<Option<PortWord>> {
        if let Some(number) = number(part) {
            // OpenFlow 1.1 and later have 32-bit numbers, with the reserved ones at the top.
            let number = u32::try_from(number).unwrap_or(u32::MAX - 0xff);
            let short = if number >= 0xffff_ff00 {
                number & 0xffff
            } else {
                number
            };
            let reserved = RESERVED_PORTS.iter().find(|port| port.1 == short);
            return match reserved {
                Some(port) => Ok(Some(port.2)),
                None if short < FIRST_RESERVED_PORT => Ok(Some(PortWord::Number(PortId(short)))),
                None => Err(self.value(part, "a port (0 to 65279)")),
            };
        }
        let name = part
            .strip_prefix('"')
            .and_then(|part| part.strip_suffix('"'));
        if let Some(port) = (self.ports)(name.unwrap_or(part)) {
            return Ok(Some(PortWord::Number(port)));
        }
        let reserved = RESERVED_PORTS
            .iter()
            .find(|port| part.eq_ignore_ascii_case(port.0));
        Ok(reserved.map(|port| port.2))
    }

    /// Reads a port that a packet can come from, including `ANY` and `LOCAL`.
    pub(super) fn ingress_port(&self, part: &str) -> Parsed<PortId> {
        match self.port_word(part)? {
            Some(PortWord::Number(port)) => Ok(port),
            Some(PortWord::Local) => Ok(LOCAL_PORT),
            Some(PortWord::None) => Ok(NO_PORT),
            Some(_) => Err(self.value(part, "a port that packets come from")),
            None => Err(self.unknown_port(part, "port")),
        }
    }

    /// Reads a port of an action set, in OpenFlow 1.1's numbers; 0 for none.
    pub(super) fn set_output(&self, part: &str) -> Parsed<u32> {
        if part.eq_ignore_ascii_case("unset") || matches!(number(part), Some(0xfff7)) {
            return Ok(0);
        }
        let word = self.port_word(part)?;
        let named = RESERVED_PORTS.iter().find(|port| Some(port.2) == word);
        match (word, named) {
            (Some(PortWord::Number(port)), _) => Ok(port.0 & 0xffff),
            (_, Some(port)) => Ok(port.1 | 0xffff_0000),
            _ => Err(self.unknown_port(part, "port")),
        }
    }

    /// Reads a kind of fragment, as bits of `ip_frag`.
    pub(super) fn fragment(&self, part: &str) -> Parsed<Masked> {
        let (value, mask) = match part.to_ascii_lowercase().as_str() {
            "no" => (0, 3),
            "yes" => (1, 1),
            "first" => (1, 3),
            "later" => (3, 3),
            "not_later" => (0, 2),
            _ => return Err(self.value(part, "one of no, yes, first, later, not_later")),
        };
        Ok(Masked { value, mask })
    }

    /// Reads TCP flags: a number with or without a mask, `+syn-ack`, or `syn|ack`.
    pub(super) fn tcp_flags(&self, part: &str) -> Parsed<Masked> {
        const EXPECTED: &str = "TCP flags (+syn-ack, syn|ack, or 0x2/0x12)";
        self.flags(part, 12, tcp_flag, EXPECTED)
    }

    /// Reads the bits of a connection's state: `+trk-new`, `trk|new`, or a number and a mask.
    pub(super) fn ct_state(&self, part: &str) -> Parsed<Masked> {
        const EXPECTED: &str = "bits of a connection's state (+trk-new, trk|est, or 0x21/0x21)";
        self.flags(part, 32, ct_bit, EXPECTED)
    }

    /// Reads the yes-or-no values of a tunnel: `oam`, `+oam`, `-oam`, or a number and a mask.
    pub(super) fn tun_flags(&self, part: &str) -> Parsed<Masked> {
        let bit_of = |name: &str| (name == "oam").then_some(1);
        self.flags(
            part,
            1,
            bit_of,
            "a flag of a tunnel (+oam, -oam, oam, or 0)",
        )
    }

    /// Reads named bits of a field with `width` bits.
    fn flags(
        &self,
        part: &str,
        width: u16,
        bit_of: impl Fn(&str) -> Option<u128>,
        expected: &'static str,
    ) -> Parsed<Masked> {
        if part.starts_with(|first: char| first.is_ascii_digit()) {
            return self.masked_number(part, width);
        }
        if !part.starts_with(['+', '-']) {
            let mut value = 0;
            for name in part.split('|') {
                value |= bit_of(name).ok_or_else(|| self.value(name, expected))?;
            }
            return Ok(Masked {
                value,
                mask: ones(width),
            });
        }
        let mut flags = Masked { value: 0, mask: 0 };
        let mut rest = part;
        while let Some(sign) = rest.chars().next() {
            let end = rest[1..].find(['+', '-']).map_or(rest.len(), |end| end + 1);
            let name = &rest[1..end];
            let bit = bit_of(name).ok_or_else(|| self.value(name, expected))?;
            if flags.mask & bit != 0 {
                return Err(self.value(name, "named only once"));
            }
            flags.mask |= bit;
            flags.value |= if sign == '+' { bit } else { 0 };
            rest = &rest[end..];
        }
        Ok(flags)
    }

    /// Reads bytes in hexadecimal, with or without `.` or white space between them.
    pub(super) fn hex_bytes(&self, part: &str) -> Parsed<Box<[u8]>> {
        let is_gap = |byte: &u8| *byte == b'.' || byte.is_ascii_whitespace();
        let digits: Vec<u8> = part.bytes().filter(|byte| !is_gap(byte)).collect();
        let bytes = digits.chunks(2).map(|pair| {
            let text = std::str::from_utf8(pair).ok()?;
            let is_hex = pair.len() == 2 && pair.iter().all(u8::is_ascii_hexdigit);
            u8::from_str_radix(text, 16).ok().filter(|_| is_hex)
        });
        let bytes: Option<Box<[u8]>> = bytes.collect();
        bytes.ok_or_else(|| self.value(part, "bytes of two hexadecimal digits (00.1f.ff)"))
    }
}

/// The names of the TCP flags, from bit 0 (RFC 9293, section 3.1; RFC 3540 for `ns`).
pub(super) const TCP_FLAGS: [&str; 12] = [
    "fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr", "ns", "[200]", "[400]", "[800]",
];

fn tcp_flag(name: &str) -> Option<u128> {
    let bit = TCP_FLAGS.iter().position(|flag| *flag == name)?;
    Some(1 << bit)
}

/// The names of the bits of `ct_state`, from bit 0 (`ovs-fields(7)`).
pub(super) const CT_BITS: [&str; 8] = ["new", "est", "rel", "rpl", "inv", "trk", "snat", "dnat"];

fn ct_bit(name: &str) -> Option<u128> {
    let bit = CT_BITS.iter().position(|known| *known == name)?;
    Some(1 << bit)
}

fn ethernet(text: &str) -> Option<u64> {
    let mut address = 0;
    let mut bytes = 0;
    for part in text.split(':') {
        let is_hex = part.len() <= 2 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
        let byte = u8::from_str_radix(part, 16).ok().filter(|_| is_hex)?;
        address = address << 8 | u64::from(byte);
        bytes += 1;
        if bytes > 6 {
            return None;
        }
    }
    (bytes == 6).then_some(address)
}
