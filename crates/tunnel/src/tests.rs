//! Shared parts of the crate's tests, and the tests themselves.

mod generate;
mod known;
mod malformed;
mod neighbors;
mod option_map;
mod port;
mod properties;
mod receive;
mod routes;
mod send;
mod traffic;

use thalweg_packet::Packet;

use crate::{EncapsulateError, OuterHeader, PerPacket};

/// The bytes that a text of hexadecimal digits stands for.
fn bytes_of(hex: &str) -> Vec<u8> {
    let digits: Vec<char> = hex.chars().filter(|digit| !digit.is_whitespace()).collect();
    let byte = |pair: &[char]| {
        let text: String = pair.iter().collect();
        u8::from_str_radix(&text, 16).expect("hexadecimal digits")
    };
    digits.chunks(2).map(byte).collect()
}

/// The outer packet of `inner`.
fn pushed(
    header: &OuterHeader,
    inner: &[u8],
    variable: PerPacket,
) -> Result<Vec<u8>, EncapsulateError> {
    let mut packet = Packet::from_bytes(inner);
    header.push(&mut packet, variable)?;
    Ok(packet.bytes().to_vec())
}
