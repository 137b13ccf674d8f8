//! Reads the arguments of `dpctl`'s commands about connections.
//!
//! Numbers are C's: decimal, octal with a leading 0, hexadecimal with 0x. Error messages are
//! those of Open vSwitch. It differs from 3.1 where that is plainly wrong:
//!
//! - A number out of range is refused, also where `strtoul` wraps or cuts it, and text behind a
//!   zone's or a default limit's number is refused.
//! - `ct_nw_proto` in both tuples must be the same. Open vSwitch takes the later one.
//! - Fields of ICMP that are not given match all. Open vSwitch compares them with zero.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::family_of;
use crate::{Bits, ConnectionEntry, IpFamily, Tuple, protocol};

/// Why a text is refused; the message is Open vSwitch's.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConntrackTextError {
    /// A field without a value.
    #[error("field {0} missing value")]
    MissingValue(String),
    /// An address of the other version of IP.
    #[error("the L3 protocol does not match {0}")]
    OtherFamily(String),
    /// A field that was given already.
    #[error("{0} is set multiple times")]
    SetTwice(String),
    /// A value that its field cannot have.
    #[error("failed to parse field {0}")]
    BadValue(String),
    /// A field of ICMP before a protocol that has it.
    #[error("invalid L4 fields")]
    NotIcmp,
    /// A field that tuples do not have.
    #[error("invalid conntrack tuple field: {0}")]
    UnknownTupleField(String),
    /// A port of no protocol.
    #[error("port is set without protocol")]
    PortWithoutProtocol,
    /// A zone to flush that is no number.
    #[error("failed to parse zone")]
    BadFlushZone,
    /// More arguments than two tuples.
    #[error("invalid arguments")]
    TooManyArguments,
    /// A field that limits do not have.
    #[error("invalid zone limit field: {0}")]
    UnknownLimitField(String),
    /// A limit without a zone, or the other way around.
    #[error("failed to parse zone limit")]
    IncompleteLimit,
    /// A default limit that is no number.
    #[error("invalid default limit")]
    BadDefaultLimit,
    /// An argument that is no list of zones.
    #[error("invalid argument {0}")]
    NotZones(String),
    /// A list of zones with something else in it.
    #[error("invalid zone")]
    BadZone,
}

/// The part of a tuple that a command names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PartialTuple {
    /// The source; unspecified (`::`) for any.
    pub source: Ipv6Addr,
    /// The destination; unspecified (`::`) for any.
    pub destination: Ipv6Addr,
    /// The source port; 0 for any.
    pub source_port: u16,
    /// The destination port; 0 for any.
    pub destination_port: u16,
    /// The identifier of ICMP's echo.
    pub icmp_id: Option<u16>,
    /// The type of ICMP.
    pub icmp_type: Option<u8>,
    /// The code of ICMP.
    pub icmp_code: Option<u8>,
}

impl Default for PartialTuple {
    /// Any tuple.
    fn default() -> PartialTuple {
        PartialTuple {
            source: Ipv6Addr::UNSPECIFIED,
            destination: Ipv6Addr::UNSPECIFIED,
            source_port: 0,
            destination_port: 0,
            icmp_id: None,
            icmp_type: None,
            icmp_code: None,
        }
    }
}

/// The connections that `dpctl/flush-conntrack` ends.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FlushRequest {
    /// The zone, if one is named.
    pub zone: Option<u16>,
    /// What the first packet's direction must have.
    pub original: PartialTuple,
    /// What the direction of replies must have.
    pub reply: PartialTuple,
    /// The IP protocol; 0 for any.
    pub protocol: u8,
    /// The version of IP, if an address names one.
    pub family: Option<IpFamily>,
    /// Bits of the mark. Only a controller names them, as later versions of Open vSwitch do.
    pub mark: Bits<u32>,
    /// Bits of the label, the same way.
    pub label: Bits<u128>,
}

impl PartialTuple {
    /// Whether the tuple has all that is named; `protocol` is the named one.
    fn matches(&self, tuple: &Tuple, protocol: u8) -> bool {
        let fits = |named: Ipv6Addr, address| named.is_unspecified() || named == address;
        let fits_port = |named: u16, port| named == 0 || named == port;
        if !fits(self.source, tuple.source.address)
            || !fits(self.destination, tuple.destination.address)
            || !fits_port(self.source_port, tuple.source.port)
            || !fits_port(self.destination_port, tuple.destination.port)
        {
            return false;
        }
        let (kind, code) = tuple.icmp;
        !is_icmp(protocol)
            || (self.icmp_id.is_none_or(|id| id == tuple.source.port)
                && self.icmp_type.is_none_or(|named| named == kind)
                && self.icmp_code.is_none_or(|named| named == code))
    }

    /// Whether all that the protocol has is named.
    fn is_whole(&self, protocol: u8) -> bool {
        let has_ends = if is_icmp(protocol) {
            self.icmp_id.is_some() && self.icmp_type.is_some() && self.icmp_code.is_some()
        } else {
            self.source_port != 0 && self.destination_port != 0
        };
        has_ends && !self.source.is_unspecified() && !self.destination.is_unspecified()
    }
}

impl FlushRequest {
    /// Whether all connections of the zone, or of all zones, are meant.
    pub fn is_unconditional(&self) -> bool {
        *self
            == FlushRequest {
                zone: self.zone,
                ..FlushRequest::default()
            }
    }

    /// Whether one connection is named by a whole tuple.
    ///
    /// Then, as in Open vSwitch, the tuple may be of either direction, and the zone is 0 unless
    /// it is named.
    pub fn is_exact(&self) -> bool {
        self.original.is_whole(self.protocol)
            && self.reply == PartialTuple::default()
            && (self.mark, self.label) == Default::default()
    }

    /// Whether the connection ends.
    pub fn matches(&self, entry: &ConnectionEntry) -> bool {
        let (original, reply) = (&entry.original, &entry.reply);
        let zone = if self.is_exact() {
            Some(self.zone.unwrap_or(0))
        } else {
            self.zone
        };
        if zone.is_some_and(|zone| zone != original.zone)
            || (self.protocol != 0 && self.protocol != original.protocol)
            || self
                .family
                .is_some_and(|family| family != family_of(original))
            || (entry.mark ^ self.mark.value) & self.mark.mask != 0
            || (entry.label ^ self.label.value) & self.label.mask != 0
        {
            return false;
        }
        let fits = |named: &PartialTuple, tuple| named.matches(tuple, self.protocol);
        if self.is_exact() {
            return fits(&self.original, original) || fits(&self.original, reply);
        }
        fits(&self.original, original) && fits(&self.reply, reply)
    }
}

/// Reads the arguments of `dpctl/flush-conntrack`: `[zone=N] [original [reply]]`.
///
/// # Errors
/// The first that is wrong.
pub fn parse_flush(arguments: &[&str]) -> Result<FlushRequest, ConntrackTextError> {
    let mut request = FlushRequest::default();
    let mut tuples = arguments;
    if let Some((first, rest)) = arguments.split_first()
        && let Some(zone) = first.strip_prefix("zone=")
    {
        let zone = decimal(zone).ok_or(ConntrackTextError::BadFlushZone)?;
        request.zone = Some(zone);
        tuples = rest;
    }
    if tuples.len() > 2 {
        return Err(ConntrackTextError::TooManyArguments);
    }
    if let Some(original) = tuples.first() {
        request.original = parse_tuple(original, &mut request.protocol, &mut request.family)?;
    }
    if let Some(reply) = tuples.get(1) {
        request.reply = parse_tuple(reply, &mut request.protocol, &mut request.family)?;
    }
    Ok(request)
}

/// Reads a tuple: `ct_nw_src=..,ct_nw_dst=..,ct_nw_proto=..,ct_tp_src=..,ct_tp_dst=..`, with
/// `ct_ipv6_src` and `ct_ipv6_dst` for IPv6 and `icmp_id`, `icmp_type`, `icmp_code` for ICMP.
///
/// `protocol` and `family` are those of tuples read before, or 0 and `None`.
///
/// # Errors
/// The first field that is wrong.
pub fn parse_tuple(
    text: &str,
    protocol: &mut u8,
    family: &mut Option<IpFamily>,
) -> Result<PartialTuple, ConntrackTextError> {
    let mut tuple = PartialTuple::default();
    let mut has_protocol = false;
    for (field, value) in Fields(text) {
        if value.is_empty() {
            return Err(ConntrackTextError::MissingValue(field.to_owned()));
        }
        let bad = || ConntrackTextError::BadValue(field.to_owned());
        match field {
            "ct_nw_src" | "ct_nw_dst" | "ct_ipv6_src" | "ct_ipv6_dst" => {
                let is_source = field.ends_with("src");
                let end = if is_source {
                    &mut tuple.source
                } else {
                    &mut tuple.destination
                };
                parse_address(field, value, end, family)?;
            }
            "ct_nw_proto" => {
                let number = integer(value, 255).ok_or_else(bad)? as u8;
                if has_protocol || (*protocol != 0 && *protocol != number) {
                    return Err(ConntrackTextError::SetTwice(field.to_owned()));
                }
                (*protocol, has_protocol) = (number, true);
            }
            "ct_tp_src" => tuple.source_port = integer(value, 65_535).ok_or_else(bad)? as u16,
            "ct_tp_dst" => tuple.destination_port = integer(value, 65_535).ok_or_else(bad)? as u16,
            "icmp_id" | "icmp_type" | "icmp_code" if !is_icmp(*protocol) => {
                return Err(ConntrackTextError::NotIcmp);
            }
            "icmp_id" => tuple.icmp_id = Some(integer(value, 65_535).ok_or_else(bad)? as u16),
            "icmp_type" => tuple.icmp_type = Some(integer(value, 255).ok_or_else(bad)? as u8),
            "icmp_code" => tuple.icmp_code = Some(integer(value, 255).ok_or_else(bad)? as u8),
            _ => return Err(ConntrackTextError::UnknownTupleField(field.to_owned())),
        }
    }
    if *protocol == 0 && (tuple.source_port != 0 || tuple.destination_port != 0) {
        return Err(ConntrackTextError::PortWithoutProtocol);
    }
    Ok(tuple)
}

/// Reads an address of the family that its field names.
fn parse_address(
    field: &str,
    value: &str,
    end: &mut Ipv6Addr,
    family: &mut Option<IpFamily>,
) -> Result<(), ConntrackTextError> {
    let wanted = if field.starts_with("ct_nw") {
        IpFamily::V4
    } else {
        IpFamily::V6
    };
    if family.is_some_and(|family| family != wanted) {
        return Err(ConntrackTextError::OtherFamily(value.to_owned()));
    }
    if !end.is_unspecified() {
        return Err(ConntrackTextError::SetTwice(field.to_owned()));
    }
    let address = match wanted {
        IpFamily::V4 => value
            .parse()
            .ok()
            .map(|address: Ipv4Addr| address.to_ipv6_mapped()),
        IpFamily::V6 => value.parse().ok(),
    };
    *end = address.ok_or_else(|| ConntrackTextError::BadValue(field.to_owned()))?;
    *family = Some(wanted);
    Ok(())
}

/// The limits that `dpctl/ct-set-limits` sets.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LimitChanges {
    /// The limit of zones without their own, if it is named.
    pub default: Option<u32>,
    /// Zones and their limits, in the order of the text.
    pub zones: Vec<(u16, u32)>,
}

/// Reads the arguments of `dpctl/ct-set-limits`: `[default=N] [zone=N,limit=N] ...`.
///
/// # Errors
/// The first argument that is wrong.
pub fn parse_set_limits(arguments: &[&str]) -> Result<LimitChanges, ConntrackTextError> {
    let mut default = None;
    let mut zones = arguments;
    if let Some((first, rest)) = arguments.split_first()
        && let Some(limit) = first.strip_prefix("default=")
    {
        default = Some(decimal(limit).ok_or(ConntrackTextError::BadDefaultLimit)?);
        zones = rest;
    }
    let zones: Result<_, _> = zones.iter().map(|zone| parse_zone_limit(zone)).collect();
    let zones = zones?;
    Ok(LimitChanges { default, zones })
}

/// Reads `zone=1,limit=10`.
///
/// # Errors
/// The first field that is wrong or missing.
pub fn parse_zone_limit(text: &str) -> Result<(u16, u32), ConntrackTextError> {
    let (mut zone, mut limit) = (None, None);
    for (field, value) in Fields(text) {
        if value.is_empty() {
            return Err(ConntrackTextError::MissingValue(field.to_owned()));
        }
        let bad = || ConntrackTextError::BadValue(field.to_owned());
        match field {
            "zone" => zone = Some(integer(value, 65_535).ok_or_else(bad)? as u16),
            "limit" => limit = Some(integer(value, u32::MAX.into()).ok_or_else(bad)? as u32),
            _ => return Err(ConntrackTextError::UnknownLimitField(field.to_owned())),
        }
    }
    zone.zip(limit).ok_or(ConntrackTextError::IncompleteLimit)
}

/// Reads `zone=1,2,3`.
///
/// # Errors
/// If the text is no such list, or has no zone.
pub fn parse_zones(text: &str) -> Result<Vec<u16>, ConntrackTextError> {
    let Some(list) = text.strip_prefix("zone=") else {
        return Err(ConntrackTextError::NotZones(text.to_owned()));
    };
    let zones = list.split(',').filter(|zone| !zone.is_empty());
    let zones: Vec<Option<u16>> = zones.map(decimal).collect();
    let zones: Option<Vec<u16>> = zones.into_iter().collect();
    zones
        .filter(|zones| !zones.is_empty())
        .ok_or(ConntrackTextError::BadZone)
}

fn is_icmp(protocol: u8) -> bool {
    matches!(protocol, protocol::ICMP | protocol::ICMPV6)
}

/// A decimal number without a sign.
fn decimal<T: std::str::FromStr>(text: &str) -> Option<T> {
    let is_decimal = text.bytes().all(|byte| byte.is_ascii_digit());
    if is_decimal { text.parse().ok() } else { None }
}

/// A number as C's `strtoll` reads it with base 0, from zero to `max`.
pub(super) fn integer(text: &str, max: u64) -> Option<u64> {
    let text = text.trim_start_matches(|letter: char| " \t\n\r\u{b}\u{c}".contains(letter));
    let (is_negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let hexadecimal = digits
        .strip_prefix("0x")
        .or_else(|| digits.strip_prefix("0X"));
    let (digits, base) = match (hexadecimal, digits.strip_prefix('0')) {
        (Some(digits), _) => (digits, 16),
        (None, Some(octal)) if !octal.is_empty() => (octal, 8),
        _ => (digits, 10),
    };
    // Rust's parser takes a second sign.
    if digits.starts_with(['+', '-']) {
        return None;
    }
    let value = u64::from_str_radix(digits, base).ok()?;
    (value <= max && (!is_negative || value == 0)).then_some(value)
}

/// The fields of a text and their values: `key=value`, `key:value` and `key(value)`, between
/// commas and white space. A field without a value has an empty one.
struct Fields<'a>(&'a str);

const BETWEEN: [char; 5] = [',', ' ', '\t', '\r', '\n'];

impl<'a> Iterator for Fields<'a> {
    type Item = (&'a str, &'a str);

    fn next(&mut self) -> Option<(&'a str, &'a str)> {
        let text = self.0.trim_start_matches(BETWEEN);
        if text.is_empty() {
            return None;
        }
        let is_key_end = |letter: char| ":=(".contains(letter) || BETWEEN.contains(&letter);
        let key_len = text.find(is_key_end).unwrap_or(text.len());
        let (key, rest) = text.split_at(key_len);
        let mut letters = rest.chars();
        let ends: &[char] = match letters.next() {
            Some(':' | '=') => &BETWEEN,
            Some('(') => &[')'],
            _ => {
                self.0 = rest;
                return Some((key, ""));
            }
        };
        let rest = letters.as_str();
        let len = value_len(rest, ends);
        let (value, rest) = rest.split_at(len);
        self.0 = rest.strip_prefix(ends).unwrap_or(rest);
        Some((key, value))
    }
}

/// How long a value is that ends before one of `ends` outside of parentheses.
fn value_len(text: &str, ends: &[char]) -> usize {
    let mut depth = 0_usize;
    for (at, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' if depth > 0 => depth -= 1,
            _ if depth == 0 && ends.contains(&letter) => return at,
            _ => {}
        }
    }
    text.len()
}
