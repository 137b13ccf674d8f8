//! GTP-U (3GPP TS 29.281 section 5.1).
//!
//! ```text
//!   0                          1         2        4            8
//!   | version:3 P 0 E S PN     | message | length | endpoint   | sequence:16, N-PDU:8, next:8 |
//! ```
//!
//! The length counts the bytes behind the endpoint. The last four bytes are there if the S flag is
//! set. The standard has them for E and PN too, which Open vSwitch does not look at: a packet with
//! extension headers is refused here, since none of its bytes can be an IP version.
//!
//! Only the message G-PDU carries a packet. Others are left as they are, for rules to send them to
//! a controller or an application.

use thalweg_packet::wire::EtherType;

use crate::bytes::{HeaderBytes, PerPacket, Stripped, front};
use crate::{DecapsulateError, EncapsulateError, GtpuValues, InnerType, TunnelMetadata};

const HEADER_LEN: usize = 8;
/// The bytes of sequence number, N-PDU number and type of extension.
const OPTIONAL_LEN: usize = 4;
const FLAGS: usize = 0;
const LENGTH: std::ops::Range<usize> = 2..4;

/// Reads the header.
pub(crate) fn parse(
    bytes: &[u8],
    metadata: &mut TunnelMetadata,
) -> Result<Stripped, DecapsulateError> {
    let [flags, message, l0, l1, endpoint @ ..] = front::<HEADER_LEN>(bytes, 0)?;
    metadata.id = u32::from_be_bytes(endpoint).into();
    metadata.gtpu = GtpuValues { flags, message };
    if message != GtpuValues::PACKET {
        return Ok(Stripped::Message);
    }
    let stated = usize::from(u16::from_be_bytes([l0, l1]));
    if stated > bytes.len() - HEADER_LEN {
        return Err(DecapsulateError::GtpuLength);
    }
    let len = header_len(flags);
    let ether_type = match front::<1>(bytes, len)?[0] >> 4 {
        4 => EtherType::IPV4,
        6 => EtherType::IPV6,
        _ => return Err(DecapsulateError::GtpuPayload),
    };
    let inner = InnerType::Bare(ether_type);
    Ok(Stripped::Header { len, inner })
}

fn header_len(flags: u8) -> usize {
    match flags & GtpuValues::SEQUENCE {
        0 => HEADER_LEN,
        _ => HEADER_LEN + OPTIONAL_LEN,
    }
}

/// Writes the header, with zeros where length and sequence number will be.
pub(crate) fn build(
    metadata: &TunnelMetadata,
    inner: InnerType,
    has_sequence: bool,
    header: &mut HeaderBytes,
) -> Result<(), EncapsulateError> {
    if inner == InnerType::Ethernet {
        return Err(EncapsulateError::NeedsBarePacket);
    }
    let or_default = |value: u8, default: u8| if value == 0 { default } else { value };
    let mut flags = or_default(metadata.gtpu.flags, GtpuValues::DEFAULT_FLAGS);
    if has_sequence {
        flags |= GtpuValues::SEQUENCE;
    }
    let message = or_default(metadata.gtpu.message, GtpuValues::PACKET);
    header.extend(&[flags, message, 0, 0]);
    header.extend(&(metadata.id as u32).to_be_bytes());
    header.grow(header_len(flags) - HEADER_LEN);
    Ok(())
}

/// Writes what depends on the packet, which follows the header in `bytes`.
pub(crate) fn complete(bytes: &mut [u8], variable: PerPacket) {
    // Bounded by the length of the UDP datagram, which was checked.
    let len = (bytes.len() - HEADER_LEN) as u16;
    bytes[LENGTH].copy_from_slice(&len.to_be_bytes());
    if bytes[FLAGS] & GtpuValues::SEQUENCE != 0 {
        let sequence = (variable.sequence as u16).to_be_bytes();
        bytes[HEADER_LEN..HEADER_LEN + 2].copy_from_slice(&sequence);
    }
}
