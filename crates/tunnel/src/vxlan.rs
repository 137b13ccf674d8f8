//! VXLAN (RFC 7348), with its two extensions.
//!
//! ```text
//!   0       1          3           4     7          8
//!   | flags | reserved | protocol  | VNI | reserved | frame or packet ...     I P: generic protocol
//!   | flags | D A      | group:16  | VNI | reserved | frame ...               I G: group policy
//! ```
//!
//! Headers are accepted as in Open vSwitch. The P flag alone says that a header is VXLAN-GPE,
//! reserved bits must be zero, and the version of VXLAN-GPE is not looked at. Open vSwitch's
//! userspace knows no group policy; that follows Linux (`vxlan_parse_gbp_hdr`,
//! `vxlan_build_gbp_hdr`), which ignores the reserved bits beside a group, and sends no group that
//! is zero.

use thalweg_packet::wire::EtherType;

use crate::bytes::{HeaderBytes, Stripped, front};
use crate::{
    DecapsulateError, EncapsulateError, GroupPolicy, InnerType, TunnelFlags, TunnelMetadata,
    VxlanFlavour,
};

const HEADER_LEN: usize = 8;

/// The I flag: the identifier is valid.
const IDENTIFIER: u32 = 0x0800_0000;
/// The P flag: the protocol is stated.
const PROTOCOL: u32 = 0x0400_0000;
/// The O flag: a control packet.
const CONTROL: u32 = 0x0100_0000;
/// The version of VXLAN-GPE.
const VERSION: u32 = 0x3000_0000;
/// The bits that VXLAN-GPE uses.
const PROTOCOL_BITS: u32 = PROTOCOL | CONTROL | VERSION | 0xff;
/// The G flag: there is a group.
const GROUP: u32 = 0x8000_0000;
/// The bits that the group policy uses, and those that it reserves.
const GROUP_BITS: u32 = GROUP | 0xff_ffff;

/// Numbers of VXLAN-GPE's protocols (draft-ietf-nvo3-vxlan-gpe-01 section 3.2).
const PROTOCOLS: [(u8, InnerType); 4] = [
    (1, InnerType::Bare(EtherType::IPV4)),
    (2, InnerType::Bare(EtherType::IPV6)),
    (3, InnerType::Ethernet),
    (4, InnerType::Bare(InnerType::NSH)),
];

/// Reads the header.
pub(crate) fn parse(
    bytes: &[u8],
    flavour: VxlanFlavour,
    metadata: &mut TunnelMetadata,
) -> Result<Stripped, DecapsulateError> {
    let [f0, f1, f2, f3, v0, v1, v2, reserved] = front::<HEADER_LEN>(bytes, 0)?;
    let mut flags = u32::from_be_bytes([f0, f1, f2, f3]);
    let mut inner = InnerType::Ethernet;
    if flags & PROTOCOL != 0 {
        if flags & CONTROL != 0 {
            return Err(DecapsulateError::VxlanControl);
        }
        let row = PROTOCOLS.iter().find(|(number, _)| *number == f3);
        inner = row.ok_or(DecapsulateError::VxlanProtocol)?.1;
        flags &= !PROTOCOL_BITS;
    } else if flavour == VxlanFlavour::GroupPolicy && flags & GROUP != 0 {
        metadata.group_policy = GroupPolicy {
            id: u16::from_be_bytes([f2, f3]),
            flags: f1 & GroupPolicy::FLAGS,
        };
        flags &= !GROUP_BITS;
    }
    if flags != IDENTIFIER {
        return Err(DecapsulateError::VxlanFlags);
    }
    if reserved != 0 {
        return Err(DecapsulateError::VxlanReserved);
    }
    metadata.id = u32::from_be_bytes([0, v0, v1, v2]).into();
    metadata.flags |= TunnelFlags::KEY;
    Ok(Stripped::Header {
        len: HEADER_LEN,
        inner,
    })
}

/// Writes the header.
pub(crate) fn build(
    metadata: &TunnelMetadata,
    flavour: VxlanFlavour,
    inner: InnerType,
    header: &mut HeaderBytes,
) -> Result<(), EncapsulateError> {
    let flags = match (flavour, inner) {
        (VxlanFlavour::GenericProtocol, _) => IDENTIFIER | PROTOCOL | number_of(inner)?,
        (_, InnerType::Bare(_)) => return Err(EncapsulateError::NeedsEthernet),
        (VxlanFlavour::GroupPolicy, _) => IDENTIFIER | group_bits(metadata.group_policy),
        (VxlanFlavour::Plain, _) => IDENTIFIER,
    };
    header.extend(&flags.to_be_bytes());
    // The low 24 bits are sent, as Open vSwitch does.
    header.extend(&((metadata.id as u32) << 8).to_be_bytes());
    Ok(())
}

fn number_of(inner: InnerType) -> Result<u32, EncapsulateError> {
    let inner = match inner {
        InnerType::Bare(EtherType::ETHERNET) => InnerType::Ethernet,
        other => other,
    };
    match (PROTOCOLS.iter().find(|(_, known)| *known == inner), inner) {
        (Some((number, _)), _) => Ok(u32::from(*number)),
        (None, InnerType::Bare(ether_type)) => Err(EncapsulateError::NoVxlanProtocol(ether_type)),
        (None, InnerType::Ethernet) => Err(EncapsulateError::NeedsBarePacket),
    }
}

fn group_bits(group: GroupPolicy) -> u32 {
    let flags = group.flags & GroupPolicy::FLAGS;
    match (group.id, flags) {
        (0, 0) => 0,
        _ => GROUP | u32::from(flags) << 16 | u32::from(group.id),
    }
}
