//! Geneve (RFC 8926), whose format is in [`thalweg_packet::wire`].
//!
//! Only Ethernet frames are carried, as in Open vSwitch. The options are kept as they are;
//! [`crate::OptionMap`] gives them a meaning, and refuses critical ones without one.

use thalweg_packet::wire::{EtherType, GeneveRepr, GeneveView, WireError};

use crate::bytes::{HeaderBytes, Stripped};
use crate::{DecapsulateError, EncapsulateError, InnerType, TunnelFlags, TunnelMetadata};

/// The bits of an identifier.
const IDENTIFIER_MASK: u64 = 0xff_ffff;

/// Reads the header.
pub(crate) fn parse(
    bytes: &[u8],
    metadata: &mut TunnelMetadata,
) -> Result<Stripped, DecapsulateError> {
    let view = GeneveView::new_checked(bytes).map_err(|error| match error {
        WireError::BadVersion => DecapsulateError::GeneveVersion,
        WireError::BadOption => DecapsulateError::GeneveOptions,
        _ => DecapsulateError::Truncated,
    })?;
    if view.protocol() != EtherType::ETHERNET {
        return Err(DecapsulateError::GeneveProtocol);
    }
    metadata.id = view.identifier().into();
    metadata.flags |= TunnelFlags::KEY;
    if view.is_control() {
        metadata.flags |= TunnelFlags::OAM;
    }
    metadata.options.replace(view.option_bytes())?;
    Ok(Stripped::Header {
        len: view.header_len(),
        inner: InnerType::Ethernet,
    })
}

/// Writes the header.
pub(crate) fn build(
    metadata: &TunnelMetadata,
    inner: InnerType,
    header: &mut HeaderBytes,
) -> Result<(), EncapsulateError> {
    if inner != InnerType::Ethernet {
        return Err(EncapsulateError::NeedsEthernet);
    }
    let repr = GeneveRepr {
        control: metadata.flags.has(TunnelFlags::OAM),
        critical: metadata.options.has_critical(),
        protocol: EtherType::ETHERNET,
        identifier: (metadata.id & IDENTIFIER_MASK) as u32,
        options: metadata.options.bytes(),
    };
    repr.emit(header.grow(repr.buffer_len()));
    Ok(())
}
