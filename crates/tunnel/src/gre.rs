//! GRE (RFC 2784) with key and sequence number (RFC 2890).
//!
//! ```text
//!   0                        2          4
//!   | C:1 0:1 K:1 S:1 ... v:3 | protocol | checksum:16, 0:16 | key:32 | sequence:32 | packet ...
//! ```
//!
//! The fields behind the protocol are there if their flag is set. The checksum covers the header
//! and the packet. Protocol 0x6558 is an Ethernet frame; any other EtherType is a packet without
//! Ethernet.

use thalweg_packet::checksum::checksum;
use thalweg_packet::wire::EtherType;

use crate::bytes::{HeaderBytes, PerPacket, Stripped, front};
use crate::{DecapsulateError, InnerType, TunnelFlags, TunnelMetadata};

/// The bytes that are always there.
const BASE_LEN: usize = 4;
/// The bytes of each optional field.
const FIELD_LEN: usize = 4;

const CHECKSUM: u16 = 0x8000;
const KEY: u16 = 0x2000;
/// The flag that says that there is a sequence number.
pub(crate) const SEQUENCE: u16 = 0x1000;
const VERSION: u16 = 0x0007;

/// The flags and the protocol of a header of version 0.
pub(crate) fn parse_base(bytes: &[u8]) -> Result<(u16, EtherType), DecapsulateError> {
    let [f0, f1, p0, p1] = front::<BASE_LEN>(bytes, 0)?;
    let flags = u16::from_be_bytes([f0, f1]);
    if flags & VERSION != 0 {
        return Err(DecapsulateError::GreVersion);
    }
    Ok((flags, EtherType(u16::from_be_bytes([p0, p1]))))
}

/// Reads the header.
pub(crate) fn parse(
    bytes: &[u8],
    metadata: &mut TunnelMetadata,
) -> Result<Stripped, DecapsulateError> {
    let (flags, protocol) = parse_base(bytes)?;
    if flags & !(CHECKSUM | KEY | SEQUENCE) != 0 {
        return Err(DecapsulateError::GreFlags);
    }
    let len = header_len(flags);
    if bytes.len() < len {
        return Err(DecapsulateError::Truncated);
    }
    if flags & CHECKSUM != 0 {
        if checksum(bytes) != 0 {
            return Err(DecapsulateError::GreChecksum);
        }
        metadata.flags |= TunnelFlags::CHECKSUM;
    }
    if flags & KEY != 0 {
        let key = front::<FIELD_LEN>(bytes, header_len(flags & CHECKSUM))?;
        metadata.id = u32::from_be_bytes(key).into();
        metadata.flags |= TunnelFlags::KEY;
    }
    let inner = match protocol {
        EtherType::ETHERNET => InnerType::Ethernet,
        other if other.is_length() => return Err(DecapsulateError::GreProtocol),
        other => InnerType::Bare(other),
    };
    Ok(Stripped::Header { len, inner })
}

/// The length of a header with these flags.
fn header_len(flags: u16) -> usize {
    BASE_LEN + FIELD_LEN * (flags & (CHECKSUM | KEY | SEQUENCE)).count_ones() as usize
}

/// Writes the header, with zeros where checksum and sequence number will be.
pub(crate) fn build(
    metadata: &TunnelMetadata,
    inner: InnerType,
    has_sequence: bool,
    header: &mut HeaderBytes,
) {
    let protocol = match inner {
        InnerType::Ethernet => EtherType::ETHERNET,
        InnerType::Bare(ether_type) => ether_type,
    };
    let has_checksum = metadata.flags.has(TunnelFlags::CHECKSUM);
    let has_key = metadata.flags.has(TunnelFlags::KEY);
    let flag = |is_set: bool, flag: u16| if is_set { flag } else { 0 };
    let flags = flag(has_checksum, CHECKSUM) | flag(has_key, KEY) | flag(has_sequence, SEQUENCE);
    header.extend(&flags.to_be_bytes());
    header.extend(&protocol.0.to_be_bytes());
    if has_checksum {
        header.extend(&[0; FIELD_LEN]);
    }
    if has_key {
        header.extend(&(metadata.id as u32).to_be_bytes());
    }
    if has_sequence {
        header.extend(&[0; FIELD_LEN]);
    }
}

/// Writes what depends on the packet, which follows the header in `bytes`.
///
/// The sequence number comes first, since the checksum covers it.
pub(crate) fn complete(bytes: &mut [u8], variable: PerPacket) {
    let flags = u16::from_be_bytes([bytes[0], bytes[1]]);
    if flags & SEQUENCE != 0 {
        let end = header_len(flags);
        bytes[end - FIELD_LEN..end].copy_from_slice(&variable.sequence.to_be_bytes());
    }
    if flags & CHECKSUM != 0 {
        let sum = checksum(bytes);
        bytes[BASE_LEN..BASE_LEN + 2].copy_from_slice(&sum.to_be_bytes());
    }
}
