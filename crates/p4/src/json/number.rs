//! Parses numbers as BMv2's JSON, STF and command files write them.

use num_bigint::BigInt;

/// Parses `31`, `0x1f` or `0b11111`, with an optional minus; underscores are allowed.
///
/// The number of digits is bounded, so that parsing costs no more than the input's length: P4's
/// widest value on BMv2 has 2,048 bits, or as many as the longest varbit.
pub(crate) fn parse_number(text: &str) -> Option<BigInt> {
    const DIGITS_MAX: usize = 16_384;
    let (is_negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let lower = digits.to_ascii_lowercase().replace('_', "");
    let (radix, digits) = match lower.get(..2) {
        Some("0x") => (16, &lower[2..]),
        Some("0b") => (2, &lower[2..]),
        _ => (10, lower.as_str()),
    };
    let is_plain = digits.chars().all(|digit| digit.is_digit(radix));
    if digits.is_empty() || digits.len() > DIGITS_MAX || !is_plain {
        return None;
    }
    let number = BigInt::parse_bytes(digits.as_bytes(), radix)?;
    Some(if is_negative { -number } else { number })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_all_kinds() {
        let same = [("31", 31), ("0x1F", 31), ("-0x1f", -31), ("0b1_1", 3)];
        for (text, number) in same {
            assert_eq!(parse_number(text), Some(number.into()), "{text}");
        }
        for text in ["", "0x", "-", "1a", "0b2", "--1", "+1", "0x-1"] {
            assert_eq!(parse_number(text), None, "{text}");
        }
    }
}
