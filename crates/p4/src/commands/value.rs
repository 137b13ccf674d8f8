//! Parses values and rates in command files.

use std::net::{Ipv4Addr, Ipv6Addr};

use num_bigint::{BigInt, BigUint};

use crate::state::Rate;

/// Parses a number, an Ethernet, IPv4 or IPv6 address, `true` or `false`.
pub(super) fn parse(text: &str) -> Result<BigUint, String> {
    match text {
        "true" => return Ok(1_u8.into()),
        "false" => return Ok(BigUint::ZERO),
        _ => {}
    }
    if let Ok(address) = text.parse::<Ipv4Addr>() {
        return Ok(address.to_bits().into());
    }
    let octets: Vec<&str> = text.split(':').collect();
    if octets.len() == 6 && octets.iter().all(|octet| octet.len() == 2) {
        let hex = octets.concat();
        let number = BigUint::parse_bytes(hex.as_bytes(), 16);
        return number.ok_or_else(|| format!("{text:?} is no Ethernet address"));
    }
    if let Ok(address) = text.parse::<Ipv6Addr>() {
        return Ok(address.to_bits().into());
    }
    let number: Option<BigInt> = crate::json::parse_number(text);
    let number = number.and_then(|number| BigUint::try_from(number).ok());
    number.ok_or_else(|| format!("{text:?} is neither a number nor an address"))
}

/// Parses `RATE:BURST`, with the rate per microsecond.
pub(crate) fn rate(text: &str) -> Result<Rate, String> {
    let wrong = || format!("{text:?} is no RATE:BURST");
    let (rate, burst) = text.split_once(':').ok_or_else(wrong)?;
    let per_microsecond: f64 = rate.parse().map_err(|_| wrong())?;
    if !(0.0..=1e12).contains(&per_microsecond) {
        return Err(format!("{rate} is no rate from 0 to 10^12"));
    }
    Ok(Rate {
        per_second: (per_microsecond * 1e6).round() as u64,
        burst: burst.parse().map_err(|_| wrong())?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_all_kinds() {
        let known = [
            ("10.0.0.1", 0x0a00_0001_u128),
            ("02:00:00:00:00:aa", 0x0200_0000_00aa),
            ("::1", 1),
            ("0xff", 255),
            ("7", 7),
            ("true", 1),
        ];
        for (text, number) in known {
            assert_eq!(parse(text), Ok(number.into()), "{text}");
        }
        for text in ["", "-1", "10.0.0", "02:00:00:00:00:zz", "x"] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert_eq!(
            rate("0.5:10").map(|rate| (rate.per_second, rate.burst)),
            Ok((500_000, 10))
        );
        assert!(rate("-1:10").is_err() && rate("1").is_err() && rate("nan:1").is_err());
    }
}
