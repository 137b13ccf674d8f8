//! Finds announcements of FTP.
//!
//! ```text
//!   PORT h1,h2,h3,h4,p1,p2 <end>      command, IPv4    RFC 959 section 4.1.2
//!   227 ... h1,h2,h3,h4,p1,p2 ...     reply, IPv4      from the first digit: RFC 1123 4.1.2.6
//!   EPRT |f|address|port| <end>       command          RFC 2428 section 2
//!   229 ... (|||port|) ...            reply            RFC 2428 section 3
//! ```
//!
//! `f` is 1 for IPv4 and 2 for IPv6, and must be the control connection's family. Instead of
//! `|` any other printable character may stand, if no address can contain it. `<end>` is
//! spaces and the end of the line.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::{AnnouncedText, AnnouncementError, TextForm};

/// An announcement ends within these bytes: Open vSwitch's `LARGEST_FTP_MSG_OF_INTEREST`, less
/// the zero that ends its copy.
pub(super) const WINDOW: usize = 127;
/// The longest text of an IPv6 address.
const ADDRESS_MAX: usize = 45;

/// An announcement, not yet compared with its connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Found {
    /// The announced address; `None` for the reply 229, which has none.
    pub(super) address: Option<Ipv6Addr>,
    pub(super) port: u16,
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) form: TextForm,
}

impl Found {
    pub(super) fn text(&self) -> AnnouncedText {
        AnnouncedText {
            start: self.start,
            end: self.end,
            form: self.form,
            address: self.address,
            port: self.port,
        }
    }
}

/// Finds an announcement at the beginning of `payload`.
pub(super) fn find(payload: &[u8], is_ipv6: bool) -> Result<Option<Found>, AnnouncementError> {
    let Some((keyword, rest)) = payload.split_first_chunk::<4>() else {
        return Ok(None);
    };
    let is_command = rest.first() == Some(&b' ');
    let mut text = Cursor {
        bytes: &payload[..payload.len().min(WINDOW)],
        at: 4,
    };
    let parse: fn(&mut Cursor<'_>, bool) -> Option<Found> =
        match &keyword.map(|byte| byte.to_ascii_uppercase()) {
            b"PORT" if is_command && !is_ipv6 => parse_port,
            b"227 " if !is_ipv6 => parse_227,
            b"EPRT" if is_command => parse_eprt,
            b"229 " => parse_229,
            _ => return Ok(None),
        };
    // Invariant 2 of `alg.rs`. Bytes behind the end of the line are another command.
    let Some(line_end) = payload.iter().position(|byte| *byte == b'\n') else {
        return Err(AnnouncementError::Unfinished);
    };
    text.bytes = &text.bytes[..text.bytes.len().min(line_end + 1)];
    let found = parse(&mut text, is_ipv6);
    let found = found.filter(|found| found.port != 0);
    found.map(Some).ok_or(AnnouncementError::Malformed)
}

fn parse_port(text: &mut Cursor<'_>, _: bool) -> Option<Found> {
    text.spaces()?;
    let found = parse_commas(text)?;
    text.end_of_line()?;
    Some(found)
}

fn parse_227(text: &mut Cursor<'_>, _: bool) -> Option<Found> {
    text.skip_to(|byte| byte.is_ascii_digit())?;
    let found = parse_commas(text)?;
    // The last number must be whole.
    (!text.peek()?.is_ascii_digit()).then_some(found)
}

/// `h1,h2,h3,h4,p1,p2`
fn parse_commas(text: &mut Cursor<'_>) -> Option<Found> {
    let start = text.at;
    let mut octets = [0; 4];
    for octet in &mut octets {
        *octet = text.octet(false)?;
        text.expect(b',')?;
    }
    let high = text.octet(true)?;
    text.expect(b',')?;
    let low = text.octet(true)?;
    Some(Found {
        address: Some(Ipv4Addr::from(octets).to_ipv6_mapped()),
        port: u16::from_be_bytes([high, low]),
        start,
        end: text.at,
        form: TextForm::Commas,
    })
}

fn parse_eprt(text: &mut Cursor<'_>, is_ipv6: bool) -> Option<Found> {
    text.spaces()?;
    let delimiter = text.delimiter()?;
    text.expect(if is_ipv6 { b'2' } else { b'1' })?;
    text.expect(delimiter)?;
    let start = text.at;
    let address = text.take_while(|byte| byte.is_ascii_hexdigit() || b":.".contains(&byte));
    let address = parse_address(address, is_ipv6)?;
    text.expect(delimiter)?;
    let port = text.port()?;
    let end = text.at;
    text.expect(delimiter)?;
    text.end_of_line()?;
    Some(Found {
        address: Some(address),
        port,
        start,
        end,
        form: TextForm::Extended { delimiter },
    })
}

fn parse_229(text: &mut Cursor<'_>, _: bool) -> Option<Found> {
    text.skip_to(|byte| byte == b'(')?;
    text.expect(b'(')?;
    let delimiter = text.delimiter()?;
    text.expect(delimiter)?;
    text.expect(delimiter)?;
    let start = text.at;
    let port = text.port()?;
    let end = text.at;
    text.expect(delimiter)?;
    text.expect(b')')?;
    Some(Found {
        address: None,
        port,
        start,
        end,
        form: TextForm::PortOnly,
    })
}

/// The address in IPv4's or IPv6's usual text.
fn parse_address(bytes: &[u8], is_ipv6: bool) -> Option<Ipv6Addr> {
    if bytes.len() > ADDRESS_MAX {
        return None;
    }
    let text = str::from_utf8(bytes).ok()?;
    if is_ipv6 {
        text.parse().ok()
    } else {
        let address: Ipv4Addr = text.parse().ok()?;
        Some(address.to_ipv6_mapped())
    }
}

/// A place in a text. Every step returns `None` where the text does not go on as it asks.
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn expect(&mut self, wanted: u8) -> Option<()> {
        (self.peek()? == wanted).then(|| self.at += 1)
    }

    fn take_while(&mut self, is_wanted: impl Fn(u8) -> bool) -> &'a [u8] {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let len = rest.iter().take_while(|byte| is_wanted(**byte)).count();
        self.at += len;
        &rest[..len]
    }

    /// Goes on to the first byte that is wanted.
    fn skip_to(&mut self, is_wanted: impl Fn(u8) -> bool) -> Option<()> {
        self.take_while(|byte| !is_wanted(byte));
        self.peek().map(|_| ())
    }

    /// One space or more.
    fn spaces(&mut self) -> Option<()> {
        (!self.take_while(|byte| byte == b' ').is_empty()).then_some(())
    }

    /// Spaces, perhaps a carriage return, and the line feed.
    fn end_of_line(&mut self) -> Option<()> {
        self.take_while(|byte| byte == b' ');
        let _ = self.expect(b'\r');
        self.expect(b'\n')
    }

    /// A number of at most `digits` digits.
    fn number(&mut self, digits: usize) -> Option<u32> {
        let taken = self.take_while(|byte| byte.is_ascii_digit());
        if taken.is_empty() || taken.len() > digits {
            return None;
        }
        let value = |sum, digit: &u8| sum * 10 + u32::from(digit - b'0');
        Some(taken.iter().fold(0, value))
    }

    /// A number below 256. In an address, a leading zero might mean octal and is refused.
    fn octet(&mut self, may_lead_with_zero: bool) -> Option<u8> {
        let start = self.at;
        let value = self.number(3)?;
        if !may_lead_with_zero && self.at > start + 1 && self.bytes[start] == b'0' {
            return None;
        }
        u8::try_from(value).ok()
    }

    fn port(&mut self) -> Option<u16> {
        u16::try_from(self.number(5)?).ok()
    }

    /// A printable character that no address has (RFC 2428 section 2).
    fn delimiter(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        let is_usable = byte.is_ascii_graphic() && !byte.is_ascii_alphanumeric();
        (is_usable && !b":.".contains(&byte)).then(|| {
            self.at += 1;
            byte
        })
    }
}
