//! Formats numbers for people.

/// The unit of a number, which decides its format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// A count, written with thousands separators.
    Count,
    /// A share from 0 to 1, written in percent.
    Share,
    /// A time in nanoseconds, written in a suitable unit.
    Nanoseconds,
}

impl Unit {
    /// The number with full precision, for tables.
    pub fn format(self, value: f64) -> String {
        match self {
            Unit::Count => format_count(value.round().max(0.0) as u64),
            Unit::Share => format!("{:.1} %", value * 100.0),
            Unit::Nanoseconds => format_time(value, digits),
        }
    }

    /// The number in few characters, for the ticks of an axis.
    pub fn format_tick(self, value: f64) -> String {
        match self {
            Unit::Count => scaled(value, 1e3, &["", "k", "M", "G"], "", trimmed),
            Unit::Share => format!("{} %", trimmed(value * 100.0)),
            Unit::Nanoseconds => format_time(value, trimmed),
        }
    }
}

/// A count with commas between thousands.
pub fn format_count(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A size in a suitable unit.
pub fn format_bytes(bytes: u64) -> String {
    scaled(
        bytes as f64,
        1024.0,
        &["B", "KiB", "MiB", "GiB"],
        " ",
        trimmed,
    )
}

fn format_time(nanoseconds: f64, write: fn(f64) -> String) -> String {
    scaled(nanoseconds, 1e3, &["ns", "µs", "ms", "s"], " ", write)
}

/// The value in the largest unit in which it is at least 1.
fn scaled(
    mut value: f64,
    base: f64,
    units: &[&str],
    space: &str,
    write: fn(f64) -> String,
) -> String {
    let mut unit = 0;
    // A value that would round up to a whole next unit uses that unit.
    while value.abs() >= base * 0.9995 && unit + 1 < units.len() {
        value /= base;
        unit += 1;
    }
    format!("{}{space}{}", write(value), units[unit])
}

/// Three significant digits, so that all cells of a column have the same number.
fn digits(value: f64) -> String {
    let decimals = match value.abs() {
        0.0 => 0,
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.decimals$}")
}

/// At most three significant digits, without trailing zeros.
fn trimmed(value: f64) -> String {
    let text = digits(value);
    if !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_for_people() {
        assert_eq!(format_count(0), "0");
        assert_eq!(format_count(999), "999");
        assert_eq!(format_count(1_234_567), "1,234,567");
        assert_eq!(format_bytes(20_567_712), "19.6 MiB");
        assert_eq!(Unit::Share.format(0.9871), "98.7 %");
        assert_eq!(Unit::Nanoseconds.format(999.9), "1.00 µs");
        assert_eq!(Unit::Nanoseconds.format(10_990.0), "11.0 µs");
        assert_eq!(Unit::Nanoseconds.format_tick(10_000.0), "10 µs");
        assert_eq!(Unit::Nanoseconds.format(520_850_123.0), "521 ms");
        assert_eq!(Unit::Nanoseconds.format(0.0), "0 ns");
        assert_eq!(Unit::Count.format_tick(250_000.0), "250k");
        assert_eq!(Unit::Share.format_tick(0.5), "50 %");
    }
}
