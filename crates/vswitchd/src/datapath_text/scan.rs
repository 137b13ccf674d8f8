//! Reads values from the front of a text, as C's `scanf` does with Open vSwitch's formats.
//!
//! Numbers follow C: decimal, hexadecimal behind `0x`, octal behind `0`. A number that does not
//! fit its field is refused.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::attribute::{FRAGMENTS, Spelling, TCP_FLAGS, ones};

/// A value, and which of its bits are compared.
pub(super) type Masked = (u128, u128);

/// The rest of a text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scanner<'a> {
    pub(super) rest: &'a str,
    /// Whether values may have masks behind a slash.
    pub(super) masks: bool,
}

impl<'a> Scanner<'a> {
    /// Takes `word` if the text begins with it.
    pub(super) fn eat(&mut self, word: &str) -> bool {
        let rest = self.rest.strip_prefix(word);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// Takes the name of an attribute or a member, and the `mark` behind it.
    pub(super) fn name(&mut self, mark: char) -> Option<&'a str> {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let end = self.rest.bytes().position(|byte| !is_part(byte))?;
        let (name, rest) = self.rest.split_at(end);
        self.rest = rest.strip_prefix(mark)?;
        Some(name)
    }

    /// Skips white space and commas between attributes.
    pub(super) fn skip_delimiters(&mut self) {
        self.rest = self.rest.trim_start_matches([',', ' ', '\t', '\r', '\n']);
    }

    /// Takes the text up to `end`, `end` excluded; parentheses may be nested in it.
    pub(super) fn until(&mut self, is_end: impl Fn(u8) -> bool) -> Option<&'a str> {
        let mut level = 0_usize;
        for (index, byte) in self.rest.bytes().enumerate() {
            match byte {
                _ if level == 0 && is_end(byte) => {
                    let (text, rest) = self.rest.split_at(index);
                    self.rest = rest;
                    return Some(text);
                }
                b'(' => level += 1,
                b')' => level = level.checked_sub(1)?,
                _ => {}
            }
        }
        None
    }

    /// Takes a value, with its mask if it has one; without, all bits are compared.
    pub(super) fn masked(&mut self, spelling: Spelling, width_bits: u16) -> Option<Masked> {
        let value = self.value(spelling, width_bits)?;
        let mask = match self.masks && spelling != Spelling::Fragment && self.eat("/") {
            true => self.value(spelling, width_bits)?,
            false => ones(width_bits),
        };
        Some((value, mask))
    }

    fn value(&mut self, spelling: Spelling, width_bits: u16) -> Option<u128> {
        match spelling {
            Spelling::Decimal | Spelling::Hexadecimal | Spelling::Prefixed => {
                self.number().filter(|number| *number <= ones(width_bits))
            }
            Spelling::Ethernet => self.ethernet(),
            Spelling::Ipv4 => {
                let word = self.word(|byte| byte.is_ascii_digit() || byte == b'.');
                let address: Ipv4Addr = word.parse().ok()?;
                Some(u32::from(address).into())
            }
            Spelling::Ipv6 => {
                let is_part = |byte: u8| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.');
                let address: Ipv6Addr = self.word(is_part).parse().ok()?;
                Some(address.into())
            }
            Spelling::Fragment => {
                let word = self.word(|byte| byte.is_ascii_alphabetic());
                let kind = FRAGMENTS
                    .iter()
                    .find(|kind| kind.0.eq_ignore_ascii_case(word));
                kind.map(|kind| kind.1)
            }
        }
    }

    /// Takes a number in C's notation.
    pub(super) fn number(&mut self) -> Option<u128> {
        // White space before it is skipped, also a break of a line.
        let text = self.rest.trim_start_matches([' ', '\t', '\r', '\n']);
        let (digits, radix) = match text.as_bytes() {
            [b'0', b'x' | b'X', digit, ..] if digit.is_ascii_hexdigit() => (&text[2..], 16),
            [b'0', ..] => (text, 8),
            _ => (text, 10),
        };
        let end = digits.find(|digit: char| !digit.is_digit(radix));
        let (digits, rest) = digits.split_at(end.unwrap_or(digits.len()));
        let number = u128::from_str_radix(digits, radix).ok()?;
        self.rest = rest;
        Some(number)
    }

    fn ethernet(&mut self) -> Option<u128> {
        let word = self.word(|byte| byte.is_ascii_hexdigit() || byte == b':');
        let mut address = 0;
        let mut count = 0;
        for part in word.split(':') {
            let byte = u8::from_str_radix(part, 16).ok()?;
            address = address << 8 | u128::from(byte);
            count += 1;
        }
        (count == 6).then_some(address)
    }

    fn word(&mut self, is_part: impl Fn(u8) -> bool) -> &'a str {
        let end = self.rest.bytes().position(|byte| !is_part(byte));
        let (word, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest;
        word
    }
}

/// Reads TCP flags: `0x2/0x12`, `+syn-ack`, `syn|ack`, or `0x12`.
pub(super) fn tcp_flags(text: &str) -> Option<Masked> {
    flags(text, &TCP_FLAGS)
}

/// Reads named bits, the first name that of bit 0.
pub(super) fn flags(text: &str, names: &[&str]) -> Option<Masked> {
    let whole = ones(names.len() as u16);
    let bit = |name: &str| {
        let place = names.iter().position(|flag| *flag == name)?;
        Some(1_u128 << place)
    };
    let number = |text: &str| {
        let mut scanner = Scanner {
            rest: text,
            masks: false,
        };
        let number = scanner.number()?;
        (scanner.rest.is_empty() && number <= whole).then_some(number)
    };
    if let Some((value, mask)) = text.split_once('/') {
        return Some((number(value)?, number(mask)?));
    }
    if text.starts_with(['+', '-']) {
        let (mut value, mut mask) = (0, 0);
        let mut rest = text;
        while let Some(sign) = rest.chars().next() {
            let end = rest[1..].find(['+', '-']).map_or(rest.len(), |end| end + 1);
            let flag = bit(&rest[1..end]).filter(|flag| mask & flag == 0)?;
            mask |= flag;
            value |= if sign == '+' { flag } else { 0 };
            rest = &rest[end..];
        }
        return Some((value, mask));
    }
    let mut value = 0;
    for part in text.split('|') {
        value |= number(part).or_else(|| bit(part))?;
    }
    Some((value, whole))
}
