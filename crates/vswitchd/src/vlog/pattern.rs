//! A line from a pattern, ovs-appctl(8), "PATTERN".

use std::time::Duration;

use chrono::format::{Item, StrftimeItems};
use chrono::{DateTime, FixedOffset, Offset, TimeDelta, Utc};

use super::{LogIdentity, LogLevel, LogModule};

/// Most bytes that a field is padded to.
pub const FIELD_MAX: usize = 1_000;
/// Most bytes of a format of a time.
const TIME_FORMAT_MAX: usize = 127;
/// The format of a time that has none.
const TIME_FORMAT: &str = "%Y-%m-%d %H:%M:%S.###";
/// The facility of lines if none was chosen: local0.
const FACILITY: u8 = 16;

/// A message.
#[derive(Clone, Copy, Debug)]
pub struct LogRecord<'a> {
    /// The module that logs it.
    pub module: LogModule,
    /// How severe it is.
    pub level: LogLevel,
    /// The thread that logs it; empty for the main thread.
    pub thread: &'a str,
    /// What it says.
    pub text: &'a str,
}

/// When a message is logged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LogMoment {
    /// The wall clock, since the begin of 1970 in UTC.
    pub since_epoch: Duration,
    /// Since the daemon started.
    pub since_start: Duration,
    /// The local time's difference to UTC, in seconds.
    pub utc_offset_seconds: i32,
    /// The message's number in its thread.
    pub sequence: u32,
}

/// Makes the line.
pub(super) fn format(
    pattern: &str,
    identity: &LogIdentity,
    facility: Option<u8>,
    module: &str,
    record: &LogRecord<'_>,
    moment: &LogMoment,
) -> String {
    let mut line = String::new();
    let mut rest = pattern;
    while let Some((before, field)) = rest.split_once('%') {
        line += before;
        let (is_left, field) = flag(field, '-');
        let (is_zero, field) = flag(field, '0');
        let digits = field.len() - field.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (width, field) = field.split_at(digits);
        let width = match width {
            "" => 0,
            // More digits than a number has are a large number.
            width => width.parse().unwrap_or(FIELD_MAX).min(FIELD_MAX),
        };
        let Some(letter) = field.chars().next() else {
            return line;
        };
        rest = &field[letter.len_utf8()..];
        let (text, after) = match letter {
            'A' => (identity.program.clone(), rest),
            'B' => {
                let facility = facility.unwrap_or(FACILITY);
                (
                    (u32::from(facility) * 8 + u32::from(record.level.severity())).to_string(),
                    rest,
                )
            }
            'c' => (module.to_owned(), braces(rest, "").1),
            'd' | 'D' => {
                let (format, after) = braces(rest, TIME_FORMAT);
                let offset = if letter == 'd' {
                    moment.utc_offset_seconds
                } else {
                    0
                };
                (time(moment.since_epoch, offset, format), after)
            }
            'E' => (identity.host.clone(), rest),
            'm' => (record.text.trim_end_matches('\n').to_owned(), rest),
            'N' => (moment.sequence.to_string(), rest),
            'n' => ("\n".to_owned(), rest),
            'p' => (record.level.name().to_owned(), rest),
            'P' => (identity.pid.to_string(), rest),
            'r' => (moment.since_start.as_millis().to_string(), rest),
            't' if record.thread.is_empty() => ("main".to_owned(), rest),
            't' => (record.thread.to_owned(), rest),
            'T' if record.thread.is_empty() => (String::new(), rest),
            'T' => (format!("({})", record.thread), rest),
            other => (other.to_string(), rest),
        };
        rest = after;
        let pad = if is_zero { "0" } else { " " };
        let pad = pad.repeat(width.saturating_sub(text.len()));
        match is_left {
            true => line += &(text + &pad),
            false => line += &(pad + &text),
        }
    }
    line + rest
}

fn flag(text: &str, flag: char) -> (bool, &str) {
    match text.strip_prefix(flag) {
        Some(rest) => (true, rest),
        None => (false, text),
    }
}

/// The text in braces, or the default; and the rest behind it.
fn braces<'a>(text: &'a str, default: &'a str) -> (&'a str, &'a str) {
    let Some(inner) = text.strip_prefix('{') else {
        return (default, text);
    };
    let (inner, rest) = inner.split_once('}').unwrap_or((inner, ""));
    (&inner[..inner.floor_char_boundary(TIME_FORMAT_MAX)], rest)
}

/// A time by a format of strftime(3), in which `#` stands for a digit of the milliseconds.
fn time(since_epoch: Duration, offset_seconds: i32, format: &str) -> String {
    let since = TimeDelta::from_std(since_epoch).unwrap_or_default();
    let utc = DateTime::<Utc>::UNIX_EPOCH.checked_add_signed(since);
    let offset = FixedOffset::east_opt(offset_seconds).unwrap_or_else(|| Utc.fix());
    let local = utc.unwrap_or_default().with_timezone(&offset);
    let mut text = String::new();
    let mut rest = format;
    while let Some(start) = rest.find('%') {
        text += &rest[..start];
        let (field, after) = rest[start..].split_at(field_len(&rest[start..]));
        rest = after;
        // Other calendars and digits are those of the C locale: the same.
        let plain = field.replace(['E', 'O'], "");
        let items: Vec<Item<'_>> = StrftimeItems::new(&plain).collect();
        match items.contains(&Item::Error) {
            // What strftime does not know is left as it is.
            true => text += field,
            false => text += &local.format_with_items(items.into_iter()).to_string(),
        }
    }
    text += rest;
    let millis = format!("{:03}", since_epoch.subsec_millis());
    let mut digits = millis.chars();
    let digit = |letter| match letter {
        '#' => digits.next().unwrap_or('0'),
        other => {
            digits = millis.chars();
            other
        }
    };
    text.chars().map(digit).collect()
}

/// The length of a field that begins with `%`: flags, a modifier and a letter.
fn field_len(text: &str) -> usize {
    let is_before = |letter: &char| "-_0EO".contains(*letter);
    let before = text.chars().skip(1).take_while(is_before).count();
    let letter = text[1 + before..].chars().next();
    1 + before + letter.map_or(0, char::len_utf8)
}
