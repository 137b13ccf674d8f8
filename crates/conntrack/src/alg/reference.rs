//! The slow twins: FTP by splitting strings, and TCP's numbers by a list of all bytes.

use std::net::{IpAddr, Ipv6Addr};

use super::AnnouncementError;

/// Address, port, start and end of an announcement.
pub(super) type Naive = (Option<Ipv6Addr>, u16, usize, usize);

/// What `ftp::find` should return.
pub(super) fn find(payload: &[u8], is_ipv6: bool) -> Result<Option<Naive>, AnnouncementError> {
    // One character for each byte, so that offsets agree.
    let text: String = payload.iter().map(|byte| char::from(*byte)).collect();
    let chars: Vec<char> = text.chars().collect();
    let begins = |word: &str| {
        let start: String = chars.iter().take(word.len()).collect();
        start.eq_ignore_ascii_case(word)
    };
    let kind = match () {
        () if begins("PORT ") && !is_ipv6 => 0,
        () if begins("227 ") && !is_ipv6 => 1,
        () if begins("EPRT ") => 2,
        () if begins("229 ") => 3,
        () => return Ok(None),
    };
    if !chars.contains(&'\n') {
        return Err(AnnouncementError::Unfinished);
    }
    let mut line: Vec<char> = chars.into_iter().take(127).collect();
    if let Some(end) = line.iter().position(|letter| *letter == '\n') {
        line.truncate(end + 1);
    }
    let found = match kind {
        0 => port(&line),
        1 => reply_227(&line),
        2 => eprt(&line, is_ipv6),
        _ => reply_229(&line),
    };
    match found {
        Some(found) if found.1 != 0 => Ok(Some(found)),
        _ => Err(AnnouncementError::Malformed),
    }
}

/// The argument of a command and where it starts.
fn argument(line: &[char]) -> Option<(String, usize)> {
    let line: String = line.iter().collect();
    let body = line.strip_suffix('\n')?;
    let body = body.strip_suffix('\r').unwrap_or(body);
    let body = body.trim_end_matches(' ');
    let start = 4 + body
        .chars()
        .skip(4)
        .take_while(|letter| *letter == ' ')
        .count();
    Some((body.chars().skip(start).collect(), start))
}

fn number(text: &str, digits: usize, max: u32) -> Option<u32> {
    let is_number = !text.is_empty() && text.chars().all(|letter| letter.is_ascii_digit());
    let value = if is_number && text.len() <= digits {
        text.parse().ok()
    } else {
        None
    };
    value.filter(|value| *value <= max)
}

/// Exactly six numbers between commas.
fn six(text: &str) -> Option<(Ipv6Addr, u16)> {
    let parts: Vec<&str> = text.split(',').collect();
    if parts.len() != 6 {
        return None;
    }
    let address: IpAddr = parts[..4].join(".").parse().ok()?;
    let IpAddr::V4(address) = address else {
        return None;
    };
    let [high, low] = [number(parts[4], 3, 255)?, number(parts[5], 3, 255)?];
    Some((address.to_ipv6_mapped(), (high * 256 + low) as u16))
}

fn port(line: &[char]) -> Option<Naive> {
    let (text, start) = argument(line)?;
    let (address, port) = six(&text)?;
    Some((Some(address), port, start, start + text.chars().count()))
}

fn reply_227(line: &[char]) -> Option<Naive> {
    let start = 4 + line[4..]
        .iter()
        .position(|letter| letter.is_ascii_digit())?;
    // The longest run that is six numbers and not followed by a digit.
    (start + 11..=line.len()).rev().find_map(|end| {
        let next = line.get(end)?;
        let text: String = line[start..end].iter().collect();
        let (address, port) = six(&text)?;
        (!next.is_ascii_digit()).then_some((Some(address), port, start, end))
    })
}

fn is_delimiter(letter: char) -> bool {
    ('!'..='~').contains(&letter)
        && !letter.is_ascii_alphanumeric()
        && letter != ':'
        && letter != '.'
}

fn eprt(line: &[char], is_ipv6: bool) -> Option<Naive> {
    let (text, start) = argument(line)?;
    let delimiter = text.chars().next().filter(|letter| is_delimiter(*letter))?;
    let parts: Vec<&str> = text.split(delimiter).collect();
    let ["", family, address, port, ""] = parts[..] else {
        return None;
    };
    let address = match (family, address.parse().ok()?) {
        ("1", IpAddr::V4(address)) if !is_ipv6 => address.to_ipv6_mapped(),
        ("2", IpAddr::V6(address)) if is_ipv6 => address,
        _ => return None,
    };
    let value = number(port, 5, 65_535)? as u16;
    let end = start + text.chars().count() - 1;
    Some((Some(address), value, start + 3, end))
}

fn reply_229(line: &[char]) -> Option<Naive> {
    let open = 4 + line[4..].iter().position(|letter| *letter == '(')?;
    let text: String = line[open + 1..].iter().collect();
    let delimiter = text.chars().next().filter(|letter| is_delimiter(*letter))?;
    let three = delimiter.to_string().repeat(3);
    let rest = text.strip_prefix(&three)?;
    let (port, _) = rest.split_once(&format!("{delimiter})"))?;
    let value = number(port, 5, 65_535)? as u16;
    let start = open + 4;
    Some((None, value, start, start + port.len()))
}

/// A stream of one sender, with all its rewritings: start, end, and the growth of each.
pub(super) struct Stream {
    pub(super) rewritings: Vec<(i64, i64, i64)>,
}

impl Stream {
    fn is_inside(&self, offset: i64) -> bool {
        let within = |(start, end, _): &(i64, i64, i64)| *start < offset && offset < *end;
        self.rewritings.iter().any(within)
    }

    /// Where a byte of the sender arrives, unless it is within a command.
    pub(super) fn arrival(&self, offset: i64) -> Option<i64> {
        let before = self.rewritings.iter().filter(|(_, end, _)| *end <= offset);
        let growth: i64 = before.map(|(_, _, growth)| growth).sum();
        (!self.is_inside(offset)).then_some(offset + growth)
    }

    /// The last byte of the sender that arrives at or before `arrival`.
    pub(super) fn down(&self, arrival: i64, len: i64) -> i64 {
        let is_before = |offset: &i64| self.arrival(*offset).is_some_and(|at| at <= arrival);
        (-1000..=len)
            .rev()
            .find(is_before)
            .expect("within the stream")
    }

    /// The first byte of the sender that arrives at or after `arrival`.
    pub(super) fn up(&self, arrival: i64, len: i64) -> i64 {
        let is_behind = |offset: &i64| self.arrival(*offset).is_some_and(|at| at >= arrival);
        (-1000..=len).find(is_behind).expect("within the stream")
    }

    /// `None` for a torn segment; otherwise its shift, and whether it is rewritten again.
    pub(super) fn place(&self, start: i64, len: i64) -> Option<(i64, bool)> {
        let mut is_again = false;
        for (command, end, _) in &self.rewritings {
            let touches = if len == 0 {
                *command < start && start < *end
            } else {
                start < *end && start + len > *command
            };
            let is_whole = start == *command && start + len >= *end;
            is_again |= touches && is_whole;
            if touches && !is_whole {
                return None;
            }
        }
        let arrival = self.arrival(start).expect("not inside a command");
        Some((arrival - start, is_again))
    }
}
