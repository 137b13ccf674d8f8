//! Converts the header of controller packets to and from a list of numbers.
//!
//! The program puts a header named `packet_in` in front of packets to the controller's port,
//! and expects one named `packet_out` in front of packets from there. On the stream the header
//! is one number per field. Fields are packed one after the other, the most significant bit
//! first; unused bits of the last byte are zero.

use bytes::Bytes;

use crate::p4info::PacketHeader;
use crate::problem::{Code, Problem};
use crate::proto::p4::v1::PacketMetadata;
use crate::value::Value;

/// Removes the header from a packet.
///
/// `None` if the packet is shorter than the header; no program with this header sends such a
/// packet.
pub(crate) fn split(
    header: Option<&PacketHeader>,
    packet: &Bytes,
) -> Option<(Vec<PacketMetadata>, Bytes)> {
    let Some(header) = header else {
        return Some((Vec::new(), packet.clone()));
    };
    let length = header.length_bytes();
    if packet.len() < length {
        return None;
    }
    let mut start = 0;
    let mut metadata = Vec::with_capacity(header.fields.len());
    for field in &header.fields {
        metadata.push(PacketMetadata {
            metadata_id: field.id,
            value: take_bits(packet, start, field.width).to_bytes(),
        });
        start += field.width as usize;
    }
    Some((metadata, packet.slice(length..)))
}

/// Puts the header in front of a packet.
///
/// # Errors
/// Fails unless there is exactly one number for each field, and each fits.
pub(crate) fn join(
    header: Option<&PacketHeader>,
    metadata: &[PacketMetadata],
    payload: &[u8],
) -> Result<Vec<u8>, Problem> {
    let fields = header.map_or(&[][..], |header| &header.fields);
    if metadata.len() != fields.len() {
        return Err(Problem::invalid(format!(
            "the packet has {} metadata; the program's packet_out has {}",
            metadata.len(),
            fields.len()
        )));
    }
    let length = header.map_or(0, PacketHeader::length_bytes);
    let mut packet = vec![0; length];
    let mut start = 0;
    for field in fields {
        let mut given = metadata
            .iter()
            .filter(|given| given.metadata_id == field.id);
        let (Some(first), None) = (given.next(), given.next()) else {
            return Err(Problem::invalid(format!(
                "metadata {} (`{}`) is not there once; give each field of packet_out",
                field.id, field.name
            )));
        };
        let value = Value::parse(&first.value, field.width).map_err(|error| {
            let text = format!("metadata `{}`: {error}", field.name);
            Problem::new(Code::OutOfRange, text)
        })?;
        put_bits(&mut packet, start, field.width, &value);
        start += field.width as usize;
    }
    packet.extend_from_slice(payload);
    Ok(packet)
}

fn take_bits(bytes: &[u8], start: usize, width: u32) -> Value {
    let width = width as usize;
    let mut number = vec![0; width.div_ceil(8)];
    let count = number.len() * 8;
    for bit in 0..width {
        let from = start + bit;
        let is_set = bytes[from / 8] >> (7 - from % 8) & 1;
        let to = count - width + bit;
        number[to / 8] |= is_set << (7 - to % 8);
    }
    Value::shortest(&number)
}

fn put_bits(bytes: &mut [u8], start: usize, width: u32, value: &Value) {
    let number = value.to_fixed(width);
    let width = width as usize;
    let count = number.len() * 8;
    for bit in 0..width {
        let from = count - width + bit;
        let is_set = number[from / 8] >> (7 - from % 8) & 1;
        let to = start + bit;
        bytes[to / 8] |= is_set << (7 - to % 8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::p4info::Parameter;

    fn header(widths: &[u32]) -> PacketHeader {
        let fields = widths.iter().zip(1..);
        let fields = fields.map(|(width, id)| Parameter {
            id,
            name: format!("f{id}"),
            width: *width,
        });
        PacketHeader {
            fields: fields.collect(),
        }
    }

    fn metadata(numbers: &[u64]) -> Vec<PacketMetadata> {
        let numbers = numbers.iter().zip(1..);
        let metadata = numbers.map(|(number, metadata_id)| PacketMetadata {
            metadata_id,
            value: Value::from(*number).to_bytes(),
        });
        metadata.collect()
    }

    #[test]
    fn what_was_joined_is_split_again() {
        let header = header(&[9, 7, 1, 48, 3]);
        let numbers = metadata(&[0x1ff, 0, 1, 0x0102_0304_0506, 5]);
        let joined = join(Some(&header), &numbers, b"payload").unwrap();
        assert_eq!(joined.len(), header.length_bytes() + 7);
        assert_eq!(joined[..2], [0xff, 0x80]);
        let (split_numbers, payload) = split(Some(&header), &joined.into()).unwrap();
        assert_eq!((split_numbers, &payload[..]), (numbers, &b"payload"[..]));
    }

    #[test]
    fn metadata_that_is_not_the_programs_is_refused() {
        let header = header(&[9, 7]);
        let code = |numbers: &[PacketMetadata]| join(Some(&header), numbers, b"").unwrap_err().code;
        assert_eq!(code(&metadata(&[1])), Code::InvalidArgument);
        assert_eq!(code(&metadata(&[1, 2, 3])), Code::InvalidArgument);
        assert_eq!(code(&metadata(&[512, 0])), Code::OutOfRange);
        let mut twice = metadata(&[1, 1]);
        twice[1].metadata_id = 1;
        assert_eq!(code(&twice), Code::InvalidArgument);
        assert!(join(None, &metadata(&[1]), b"").is_err());
        assert_eq!(join(None, &[], b"x").unwrap(), b"x");
        assert!(split(Some(&header), &Bytes::from_static(&[1])).is_none());
    }
}
