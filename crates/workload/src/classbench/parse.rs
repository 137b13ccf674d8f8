//! Parses ClassBench files with a cursor over a line, which gives the column of an error.

use std::net::Ipv6Addr;

use super::{Filter, PortRange, Prefix};

/// Why and where a ClassBench file was refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{file}:{line}:{column}: {problem}")]
pub struct FilterError {
    /// The name that the caller gave the text.
    pub file: String,
    /// The line, counted from 1.
    pub line: usize,
    /// The column in bytes, counted from 1.
    pub column: usize,
    /// The fault.
    pub problem: FilterProblem,
}

/// The faults of a ClassBench line, with their remedies.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FilterProblem {
    /// The line has something else here.
    #[error("expected {0}; a line reads `@SRC/LEN DST/LEN LO : HI LO : HI PROTO/MASK FLAGS/MASK`")]
    Expected(&'static str),
    /// A number does not fit its field.
    #[error("{number} is above {limit}, the largest {what}; give a smaller one")]
    TooLarge {
        /// The meaning of the number.
        what: &'static str,
        /// The number.
        number: u64,
        /// The largest allowed.
        limit: u64,
    },
    /// The ends of a range are in the wrong order.
    #[error("the port range {low} : {high} is empty; write the lower port first")]
    EmptyRange {
        /// The first end.
        low: u16,
        /// The second end.
        high: u16,
    },
    /// One address is IPv4's, the other IPv6's.
    #[error("one address is of IPv4 and the other of IPv6; no packet has both")]
    MixedFamilies,
    /// A protocol mask that is neither none nor all.
    #[error("the protocol mask {0:#04x} is neither 0x00 nor 0xFF; use one of these")]
    ProtocolMask(u8),
}

/// Parses a whole ClassBench file; empty lines are skipped.
///
/// `file` is only used to name the text in errors.
///
/// ```
/// let text = "@1.2.3.0/24\t5.6.7.8/32\t0 : 65535\t80 : 80\t0x06/0xFF\t0x0000/0x0000\n";
/// let filters = thalweg_workload::parse_filters("web.rules", text)?;
/// assert_eq!(filters[0].destination_ports.low(), 80);
/// # Ok::<(), thalweg_workload::FilterError>(())
/// ```
///
/// # Errors
/// The first line that is not a filter, with its line, column and fault.
pub fn parse_filters(file: &str, text: &str) -> Result<Vec<Filter>, FilterError> {
    let mut filters = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let mut cursor = Cursor { line, place: 0 };
        let filter = parse_filter(&mut cursor).map_err(|(place, problem)| FilterError {
            file: file.to_owned(),
            line: index + 1,
            column: place + 1,
            problem,
        })?;
        filters.push(filter);
    }
    Ok(filters)
}

/// A fault, and its byte position in the line.
type Refusal = (usize, FilterProblem);

/// Parses one line; the sixth field may be missing, as in older ClassBench files.
fn parse_filter(cursor: &mut Cursor<'_>) -> Result<Filter, Refusal> {
    cursor.parse_symbol('@', "`@`, which starts a filter")?;
    let source = cursor.parse_prefix()?;
    let destination_place = cursor.skip_space();
    let destination = cursor.parse_prefix()?;
    if source.width() != destination.width() {
        return Err((destination_place, FilterProblem::MixedFamilies));
    }
    let source_ports = cursor.parse_range()?;
    let destination_ports = cursor.parse_range()?;
    let protocol = cursor.parse_protocol()?;
    let (mut flags, mut flags_mask) = (0, 0);
    if !cursor.is_at_end() {
        flags = cursor.parse_number("flag value", u16::MAX.into())? as u16;
        cursor.parse_symbol('/', "`/` and the flag mask")?;
        flags_mask = cursor.parse_number("flag mask", u16::MAX.into())? as u16;
    }
    if !cursor.is_at_end() {
        return Err((cursor.place, FilterProblem::Expected("the end of the line")));
    }
    Ok(Filter {
        source,
        destination,
        source_ports,
        destination_ports,
        protocol,
        flags,
        flags_mask,
    })
}

/// A position in a line.
struct Cursor<'a> {
    line: &'a str,
    place: usize,
}

impl Cursor<'_> {
    fn rest(&self) -> &[u8] {
        &self.line.as_bytes()[self.place..]
    }

    fn skip_space(&mut self) -> usize {
        self.place += self
            .rest()
            .iter()
            .take_while(|byte| byte.is_ascii_whitespace())
            .count();
        self.place
    }

    fn is_at_end(&mut self) -> bool {
        self.skip_space() == self.line.len()
    }

    fn parse_symbol(&mut self, symbol: char, expected: &'static str) -> Result<(), Refusal> {
        self.skip_space();
        if self.rest().first() != Some(&(symbol as u8)) {
            return Err((self.place, FilterProblem::Expected(expected)));
        }
        self.place += 1;
        Ok(())
    }

    /// Parses a number, decimal or, after `0x`, hexadecimal.
    fn parse_number(&mut self, what: &'static str, limit: u64) -> Result<u64, Refusal> {
        let start = self.skip_space();
        let radix = if self.rest().starts_with(b"0x") || self.rest().starts_with(b"0X") {
            self.place += 2;
            16
        } else {
            10
        };
        let digits_start = self.place;
        let mut number = 0_u64;
        while let Some(digit) = self
            .rest()
            .first()
            .and_then(|byte| (*byte as char).to_digit(radix))
        {
            number = number
                .saturating_mul(radix.into())
                .saturating_add(digit.into());
            self.place += 1;
        }
        if self.place == digits_start {
            return Err((start, FilterProblem::Expected("a number")));
        }
        if number > limit {
            return Err((
                start,
                FilterProblem::TooLarge {
                    what,
                    number,
                    limit,
                },
            ));
        }
        Ok(number)
    }

    fn parse_prefix(&mut self) -> Result<Prefix, Refusal> {
        self.skip_space();
        let end = self.rest().iter().position(|byte| *byte == b'/');
        let text = &self.line[self.place..self.place + end.unwrap_or(0)];
        if text.contains(':') && text.bytes().all(|byte| !byte.is_ascii_whitespace()) {
            return self.parse_ipv6_prefix(text.len());
        }
        let mut address = 0_u32;
        for index in 0..4 {
            if index > 0 {
                self.parse_symbol('.', "`.` and the next byte of the address")?;
            }
            address = address << 8 | self.parse_number("byte of an address", 255)? as u32;
        }
        self.parse_symbol('/', "`/` and a prefix length")?;
        let length = self.parse_number("prefix length", 32)? as u8;
        Ok(Prefix::new(address, length))
    }

    /// Parses a prefix whose address takes the next `bytes` bytes of the line.
    fn parse_ipv6_prefix(&mut self, bytes: usize) -> Result<Prefix, Refusal> {
        let text = &self.line[self.place..self.place + bytes];
        let address: Result<Ipv6Addr, _> = text.parse();
        let address =
            address.map_err(|_| (self.place, FilterProblem::Expected("an IPv6 address")))?;
        self.place += bytes;
        self.parse_symbol('/', "`/` and a prefix length")?;
        let length = self.parse_number("prefix length", 128)? as u8;
        Ok(Prefix::new_ipv6(address.into(), length))
    }

    fn parse_range(&mut self) -> Result<PortRange, Refusal> {
        let start = self.skip_space();
        let low = self.parse_number("port", u16::MAX.into())? as u16;
        self.parse_symbol(':', "`:` and the highest port")?;
        let high = self.parse_number("port", u16::MAX.into())? as u16;
        PortRange::new(low, high).ok_or((start, FilterProblem::EmptyRange { low, high }))
    }

    fn parse_protocol(&mut self) -> Result<Option<u8>, Refusal> {
        let protocol = self.parse_number("protocol", 255)? as u8;
        self.parse_symbol('/', "`/` and the protocol mask")?;
        let start = self.skip_space();
        match self.parse_number("protocol mask", 255)? as u8 {
            0 => Ok(None),
            0xff => Ok(Some(protocol)),
            mask => Err((start, FilterProblem::ProtocolMask(mask))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "@1.2.3.0/24\t5.6.7.8/32\t0 : 65535\t80 : 81\t0x06/0xFF\t0x1000/0x1000\t";

    #[test]
    fn a_line_reads_back() {
        let filters = parse_filters("f", &format!("\n{LINE}\n")).unwrap();
        assert_eq!(filters.len(), 1);
        assert_eq!(filters[0].to_string(), LINE.trim_end());
        assert_eq!(filters[0].protocol, Some(6));
    }

    #[test]
    fn addresses_may_be_of_ipv6() {
        let line = "@2001:db8::/32\t::1/128\t0 : 65535\t53 : 53\t0x11/0xFF\t0x0000/0x0000";
        let filters = parse_filters("f", line).unwrap();
        assert_eq!(filters[0].to_string(), line);
        assert_eq!(filters[0].source.address(), 0x2001_0db8 << 96);
        assert!(filters[0].is_ipv6());
    }

    #[test]
    fn refusals_name_the_place() {
        let cases = [
            ("@2001::db8::/32", "f:1:2: expected an IPv6 address"),
            (
                "@::/129",
                "f:1:5: 129 is above 128, the largest prefix length",
            ),
            (
                "@::/0 1.2.3.4/32",
                "f:1:7: one address is of IPv4 and the other of IPv6",
            ),
            ("1.2.3.0/24", "f:1:1: expected `@`, which starts a filter"),
            (
                "@1.2.3/24",
                "f:1:7: expected `.` and the next byte of the address",
            ),
            (
                "@1.2.3.400/24",
                "f:1:8: 400 is above 255, the largest byte of an address",
            ),
            (
                "@1.2.3.4/33",
                "f:1:10: 33 is above 32, the largest prefix length",
            ),
            ("@1.2.3.4/32 x", "f:1:13: expected a number"),
            (
                "@0.0.0.0/0 0.0.0.0/0 9 : 8",
                "f:1:22: the port range 9 : 8 is empty",
            ),
            (
                "@0.0.0.0/0 0.0.0.0/0 0 : 8 0 : 8 0x06/0x0F",
                "f:1:39: the protocol mask 0x0f",
            ),
            (
                "@0.0.0.0/0 0.0.0.0/0 0 : 8 0 : 8 6/255 1/2 3",
                "f:1:44: expected the end of the line",
            ),
        ];
        for (text, expected) in cases {
            let error = parse_filters("f", text).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
    }
}
