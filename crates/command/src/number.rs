//! Parses whole numbers on the command line.
//!
//! Error messages are for people: they give the allowed range, not
//! `invalid digit found in string`.

use std::ops::{Bound, RangeBounds, RangeInclusive};

/// A clap parser for numbers within `range`.
///
/// # Panics
/// If `T` cannot hold the range's numbers.
pub fn number<T: TryFrom<u64>>(
    range: impl RangeBounds<u64>,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {
    let least = match range.start_bound() {
        Bound::Included(least) => *least,
        Bound::Excluded(below) => below + 1,
        Bound::Unbounded => 0,
    };
    let most = match range.end_bound() {
        Bound::Included(most) => *most,
        Bound::Excluded(above) => above - 1,
        Bound::Unbounded => u64::MAX >> (64 - 8 * size_of::<T>()),
    };
    move |text| {
        let number = text.parse().ok();
        let number = number.filter(|number| (least..=most).contains(number));
        let number = number.ok_or_else(|| match most {
            // The caller set no upper limit, so the message gives none.
            u64::MAX => format!("give a whole number from {least}"),
            _ => format!("give a whole number from {least} to {most}"),
        })?;
        let Ok(number) = T::try_from(number) else {
            unreachable!("the range is of numbers of this type")
        };
        Ok(number)
    }
}

/// A count with its noun, in the regular plural where needed.
pub fn counted(count: impl ToString, what: &str) -> String {
    let count = count.to_string();
    match what.strip_suffix('y') {
        _ if count == "1" => format!("1 {what}"),
        Some(stem) => format!("{count} {stem}ies"),
        None => format!("{count} {what}s"),
    }
}

/// Valid ingress ports. OpenFlow 1.0 reserves `OFPP_MAX` and above.
pub const PORTS: RangeInclusive<u64> = 1..=0xfeff;

/// Parses an ingress port.
pub fn port(text: &str) -> Result<u32, String> {
    number(PORTS)(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_no_plural() {
        let all = [0, 1, 2].map(|count| counted(count, "rule"));
        assert_eq!(all, ["0 rules", "1 rule", "2 rules"]);
        let all = [1_u64, 21].map(|count| counted(count, "entry"));
        assert_eq!(all, ["1 entry", "21 entries"]);
    }

    #[test]
    fn numbers_are_within_their_range() {
        let read = number::<u8>(..);
        assert_eq!((read("0"), read("255")), (Ok(0), Ok(255)));
        let refused = Err("give a whole number from 0 to 255".to_owned());
        for text in ["256", "-1", "", "x", "1.5", "99999999999999999999"] {
            assert_eq!(read(text), refused, "{text}");
        }
        assert_eq!(number::<u64>(..)("18446744073709551615"), Ok(u64::MAX));
        let refused = number::<usize>(1..)("0");
        assert_eq!(refused, Err("give a whole number from 1".to_owned()));
        assert_eq!((port("65279"), port("65280").is_err()), (Ok(65_279), true));
    }
}
