//! ERSPAN type II and III over GRE (draft-foschiano-erspan-03 section 4).
//!
//! ```text
//!   GRE with a sequence number:  | 0x1000 | 0x88be or 0x22eb | sequence:32 |
//!   then, for both types:        | version:4, VLAN:12, COS:3, 2 bits, T:1, session:10 |
//!   type II, version 1:          | reserved:12, index:20 |
//!   type III, version 2:         | timestamp:32 | SGT:16, P:1, FT:5, hardware:6, D:1, Gra:2, O:1 |
//! ```
//!
//! As in Open vSwitch, the version decides the type, not GRE's protocol; VLAN, COS and the other
//! fields that are not named in [`crate::ErspanValues`] are sent as zero and not read.

use thalweg_packet::wire::EtherType;

use crate::bytes::{HeaderBytes, PerPacket, Stripped, front};
use crate::{DecapsulateError, EncapsulateError, InnerType, TunnelFlags, TunnelMetadata, gre};

const TYPE_2: EtherType = EtherType(0x88be);
const TYPE_3: EtherType = EtherType(0x22eb);
const VERSION_OF_TYPE_2: u8 = 1;
const VERSION_OF_TYPE_3: u8 = 2;

const SEQUENCE: std::ops::Range<usize> = 4..8;
const BASE: usize = 8;
const REST: usize = 12;
const LEN_OF_TYPE_2: usize = 16;
const LEN_OF_TYPE_3: usize = 20;

const SESSION_MASK: u16 = 0x03ff;
const HARDWARE_MASK: u16 = 0x03f0;
const HARDWARE_SHIFT: u32 = 4;
const DIRECTION: u16 = 0x0008;

/// Reads both headers.
pub(crate) fn parse(
    bytes: &[u8],
    metadata: &mut TunnelMetadata,
) -> Result<Stripped, DecapsulateError> {
    let (flags, protocol) = gre::parse_base(bytes)?;
    if ![TYPE_2, TYPE_3].contains(&protocol) {
        return Err(DecapsulateError::ErspanProtocol);
    }
    // Type I has the protocol of type II, no sequence number and no header of its own.
    if flags != gre::SEQUENCE {
        return Err(DecapsulateError::GreFlags);
    }
    let [version, _, session @ ..] = front::<4>(bytes, BASE)?;
    let erspan = &mut metadata.erspan;
    erspan.version = version >> 4;
    let len = match erspan.version {
        VERSION_OF_TYPE_2 => {
            erspan.index = u32::from_be_bytes(front::<4>(bytes, REST)?);
            LEN_OF_TYPE_2
        }
        VERSION_OF_TYPE_3 => {
            let [_, _, _, _, _, _, word @ ..] = front::<8>(bytes, REST)?;
            let word = u16::from_be_bytes(word);
            erspan.direction = u8::from(word & DIRECTION != 0);
            erspan.hardware_id = ((word & HARDWARE_MASK) >> HARDWARE_SHIFT) as u8;
            LEN_OF_TYPE_3
        }
        _ => return Err(DecapsulateError::ErspanVersion),
    };
    metadata.id = (u16::from_be_bytes(session) & SESSION_MASK).into();
    metadata.flags |= TunnelFlags::KEY;
    let inner = InnerType::Ethernet;
    Ok(Stripped::Header { len, inner })
}

/// Writes both headers, with zeros where sequence number and timestamp will be.
pub(crate) fn build(
    metadata: &TunnelMetadata,
    inner: InnerType,
    header: &mut HeaderBytes,
) -> Result<(), EncapsulateError> {
    if inner != InnerType::Ethernet {
        return Err(EncapsulateError::NeedsEthernet);
    }
    // The upper half of an id is not looked at, as in Open vSwitch.
    let id = metadata.id as u32;
    if id > u32::from(SESSION_MASK) {
        return Err(EncapsulateError::ErspanSession(id));
    }
    let erspan = metadata.erspan;
    let protocol = match erspan.version {
        VERSION_OF_TYPE_2 => TYPE_2,
        VERSION_OF_TYPE_3 => TYPE_3,
        other => return Err(EncapsulateError::ErspanVersion(other)),
    };
    header.extend(&gre::SEQUENCE.to_be_bytes());
    header.extend(&protocol.0.to_be_bytes());
    header.extend(&[0; 4]);
    header.extend(&[erspan.version << 4, 0]);
    header.extend(&(id as u16).to_be_bytes());
    if protocol == TYPE_2 {
        header.extend(&erspan.index.to_be_bytes());
        return Ok(());
    }
    let hardware = u16::from(erspan.hardware_id) << HARDWARE_SHIFT & HARDWARE_MASK;
    let direction = if erspan.direction & 1 == 1 {
        DIRECTION
    } else {
        0
    };
    header.extend(&[0; 6]);
    header.extend(&(hardware | direction).to_be_bytes());
    Ok(())
}

/// Writes the sequence number, and the timestamp of type III.
pub(crate) fn complete(bytes: &mut [u8], variable: PerPacket) {
    bytes[SEQUENCE].copy_from_slice(&variable.sequence.to_be_bytes());
    if bytes[BASE] >> 4 == VERSION_OF_TYPE_3 {
        bytes[REST..REST + 4].copy_from_slice(&variable.timestamp_100us.to_be_bytes());
    }
}
