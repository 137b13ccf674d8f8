//! Numbers as C's `strtol` and `atoi` read them, for texts that Open vSwitch reads with those.
//!
//! They take what looks like a number from the front of a text, and ignore what follows. Values
//! out of range are the nearest one that fits 64 bits, and are then cut to the width of the field.

/// The base of a number's digits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Base {
    /// 10.
    Decimal,
    /// 16, with or without `0x`.
    Hexadecimal,
    /// 16 after `0x`, 8 after `0`, and else 10.
    Any,
}

/// `strtol`: the number at the front of a text, and the text behind it.
///
/// A text without a number has the number 0, and all of the text is behind it.
pub(crate) fn signed(text: &str, base: Base) -> (i64, &str) {
    let (is_negative, magnitude, rest) = scan(text, base);
    let value = match is_negative {
        true => -magnitude,
        false => magnitude,
    };
    let nearest = value.clamp(i64::MIN.into(), i64::MAX.into());
    (nearest as i64, rest)
}

/// `strtoull`: the number at the front of a text; a negative one wraps.
pub(crate) fn unsigned(text: &str, base: Base) -> u64 {
    let (is_negative, magnitude, _) = scan(text, base);
    match (u64::try_from(magnitude), is_negative) {
        (Err(_), _) => u64::MAX,
        (Ok(value), true) => value.wrapping_neg(),
        (Ok(value), false) => value,
    }
}

/// `atoi`, cut to eight bits.
pub(crate) fn byte(text: &str) -> u8 {
    signed(text, Base::Decimal).0 as u8
}

/// The sign, the magnitude up to a bound above 64 bits, and the text behind the number.
fn scan(text: &str, base: Base) -> (bool, i128, &str) {
    let number = text.trim_start_matches([' ', '\t', '\n', '\x0b', '\x0c', '\r']);
    let (is_negative, number) = match number.strip_prefix('-') {
        Some(behind) => (true, behind),
        None => (false, number.strip_prefix('+').unwrap_or(number)),
    };
    let prefixed = match number.get(..2) {
        Some("0x" | "0X") => number.get(2..).filter(|digits| {
            let first = digits.chars().next();
            first.is_some_and(|digit| digit.is_ascii_hexdigit())
        }),
        _ => None,
    };
    let (radix, digits) = match (base, prefixed) {
        (Base::Decimal, _) => (10, number),
        (_, Some(digits)) => (16, digits),
        (Base::Hexadecimal, None) => (16, number),
        (Base::Any, None) if number.starts_with('0') => (8, number),
        (Base::Any, None) => (10, number),
    };
    let end = digits
        .find(|digit: char| !digit.is_digit(radix))
        .unwrap_or(digits.len());
    if end == 0 {
        return (false, 0, text);
    }
    let mut magnitude = 0_i128;
    for digit in digits[..end].chars().filter_map(|c| c.to_digit(radix)) {
        magnitude =
            (magnitude * i128::from(radix) + i128::from(digit)).min(i128::from(u64::MAX) + 1);
    }
    (is_negative, magnitude, &digits[end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_as_c_reads_them() {
        assert_eq!(signed("12ab", Base::Decimal), (12, "ab"));
        assert_eq!(signed(" -0x10z", Base::Any), (-16, "z"));
        assert_eq!(signed("0x", Base::Any), (0, "x"));
        assert_eq!(signed("089", Base::Any), (0, "89"));
        assert_eq!(signed("+017", Base::Any), (15, ""));
        assert_eq!(signed("0xfF", Base::Hexadecimal), (255, ""));
        assert_eq!(signed("ff", Base::Hexadecimal), (255, ""));
        assert_eq!(signed("flow", Base::Decimal), (0, "flow"));
        assert_eq!(signed("", Base::Any), (0, ""));
        assert_eq!(signed("9".repeat(99).as_str(), Base::Decimal).0, i64::MAX);
        assert_eq!(
            signed(&format!("-{}", "9".repeat(99)), Base::Any).0,
            i64::MIN
        );
        assert_eq!(unsigned("-1", Base::Any), u64::MAX);
        assert_eq!(unsigned("0xffffffffffffffff", Base::Any), u64::MAX);
        assert_eq!(unsigned(&"9".repeat(40), Base::Any), u64::MAX);
        assert_eq!(unsigned("é", Base::Any), 0);
        assert_eq!(byte("257"), 1);
        assert_eq!(byte("-1"), 255);
    }
}
