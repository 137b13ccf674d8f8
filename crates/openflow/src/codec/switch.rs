//! The switch itself: features, configuration, descriptions.

use super::port::{decode_desc, put_desc};
use crate::error::{ErrorCode, Refusal, refuse};
use crate::message::switch::{
    Description, FRAG_MASK, Features, INVALID_TTL_TO_CONTROLLER, SwitchConfig, capability,
};
use crate::version::Version;
use crate::wire::{Reader, Writer};

/// Capabilities that a version's message has.
fn known_capabilities(version: Version) -> u32 {
    let common = capability::FLOW_STATS
        | capability::TABLE_STATS
        | capability::PORT_STATS
        | capability::IP_REASM
        | capability::QUEUE_STATS;
    let groups = common | capability::GROUP_STATS;
    match version {
        Version::V10 => common | capability::STP | capability::ARP_MATCH_IP,
        Version::V11 => groups | capability::ARP_MATCH_IP,
        Version::V12 | Version::V13 => groups | capability::PORT_BLOCKED,
        _ => groups | capability::PORT_BLOCKED | capability::BUNDLES | capability::FLOW_MONITORING,
    }
}

pub(super) fn decode_features(
    version: Version,
    body: &mut Reader<'_>,
) -> Result<Features, Refusal> {
    let (datapath_id, buffers) = (body.u64()?, body.u32()?);
    let (tables, auxiliary_id) = (body.u8()?, body.u8()?);
    body.skip(2)?;
    let (mut capabilities, actions) = (body.u32()?, body.u32()?);
    if version > Version::V10 && capabilities & capability::STP != 0 {
        // One bit means the spanning tree in 1.0, and groups from 1.1 on.
        capabilities = capabilities & !capability::STP | capability::GROUP_STATS;
    }
    let mut ports = Vec::new();
    while version <= Version::V12 && !body.is_empty() {
        ports.push(decode_desc(version, body)?);
    }
    Ok(Features {
        datapath_id,
        buffers,
        tables,
        auxiliary_id,
        capabilities: capabilities & known_capabilities(version),
        actions: if version == Version::V10 { actions } else { 0 },
        ports,
    })
}

pub(super) fn put_features(version: Version, features: &Features, writer: &mut Writer) {
    let mut capabilities = features.capabilities & known_capabilities(version);
    if capabilities & capability::GROUP_STATS != 0 {
        capabilities = capabilities & !capability::GROUP_STATS | capability::STP;
    }
    writer.u64(features.datapath_id);
    writer.u32(features.buffers);
    writer.u8(features.tables);
    writer.u8(if version >= Version::V13 {
        features.auxiliary_id
    } else {
        0
    });
    writer.zeros(2);
    writer.u32(capabilities);
    writer.u32(if version == Version::V10 {
        features.actions
    } else {
        0
    });
    if version <= Version::V12 {
        for port in &features.ports {
            let before = writer.len();
            put_desc(version, port, writer);
            if writer.len() > usize::from(u16::MAX) {
                // As Open vSwitch leaves them out; a request for descriptions gets them all.
                writer.truncate(before);
                break;
            }
        }
    }
}

/// Flags of the configuration that a version has.
fn known_flags(version: Version) -> u16 {
    match version {
        Version::V10 | Version::V11 | Version::V12 => FRAG_MASK | INVALID_TTL_TO_CONTROLLER,
        _ => FRAG_MASK,
    }
}

/// Reads the configuration. Unknown flags of a reply are dropped, those of a request refused.
pub(super) fn decode_config(
    version: Version,
    is_reply: bool,
    body: &mut Reader<'_>,
) -> Result<SwitchConfig, Refusal> {
    let (flags, known) = (body.u16()?, known_flags(version));
    if flags & !known != 0 && !is_reply {
        let what = format!("a configuration with flags {flags:#x}");
        return Err(refuse(ErrorCode::OFPSCFC_BAD_FLAGS, what));
    }
    Ok(SwitchConfig {
        flags: flags & known,
        miss_send_length: body.u16()?,
    })
}

pub(super) fn put_config(version: Version, config: SwitchConfig, writer: &mut Writer) {
    writer.u16(config.flags & known_flags(version));
    writer.u16(config.miss_send_length);
}

pub(super) fn decode_description(body: &mut Reader<'_>) -> Result<Description, Refusal> {
    Ok(Description {
        manufacturer: body.text(256)?,
        hardware: body.text(256)?,
        software: body.text(256)?,
        serial: body.text(32)?,
        datapath: body.text(256)?,
    })
}

pub(super) fn put_description(description: &Description, writer: &mut Writer) {
    writer.text(&description.manufacturer, 256);
    writer.text(&description.hardware, 256);
    writer.text(&description.software, 256);
    writer.text(&description.serial, 32);
    writer.text(&description.datapath, 256);
}
