//! Hello, roles, which messages are wanted, other controllers' changes.

use super::{Context, Frame, decode, stats_types};
use crate::error::{ErrorCode, Refusal, refuse};
use crate::message::Message;
use crate::message::connection::{
    AsyncConfig, Hello, RequestForward, Role, RoleMessage, RoleStatus,
};
use crate::property;
use crate::version::{Version, Versions};
use crate::wire::{Reader, Writer};

/// Experimenter and subtype of `NXT_GROUP_MOD`.
const NICIRA_GROUP_MOD: [u8; 8] = [0, 0, 0x23, 0x20, 0, 0, 0, 31];

/// A generation that is none.
const NO_GENERATION: u64 = u64::MAX;

pub(super) fn decode_hello(number: u8, body: &mut Reader<'_>) -> Result<Hello, Refusal> {
    let mut versions = None;
    let mut elements = *body;
    body.rest();
    while elements.len() >= 4 {
        let mut start = elements;
        let (kind, length) = (start.u16()?, usize::from(start.u16()?));
        // A hello is not refused for the elements behind its header.
        let Ok(mut value) = start.part(length.saturating_sub(4)) else {
            break;
        };
        if length < 4 {
            break;
        }
        if kind == 1 && value.len() >= 4 {
            versions = Some(Versions::from_bits(value.u32()?));
        }
        let _ = elements.take(length.next_multiple_of(8).min(elements.len()));
    }
    Ok(Hello {
        versions: versions.unwrap_or_else(|| Versions::up_to(number)),
    })
}

fn role_of(number: u32, is_nicira: bool) -> Result<Role, Refusal> {
    // Nicira's numbers are one less, and it has no "no change".
    let number = if is_nicira {
        number.saturating_add(1)
    } else {
        number
    };
    Ok(match number {
        0 => Role::NoChange,
        1 => Role::Equal,
        2 => Role::Primary,
        3 => Role::Secondary,
        other => {
            let what = format!("role {other}");
            return Err(refuse(ErrorCode::OFPRRFC_BAD_ROLE, what));
        }
    })
}

pub(super) fn decode_role(is_nicira: bool, body: &mut Reader<'_>) -> Result<RoleMessage, Refusal> {
    let role = role_of(body.u32()?, is_nicira)?;
    let generation = match is_nicira {
        true => None,
        false => {
            body.skip(4)?;
            Some(body.u64()?)
        }
    };
    Ok(RoleMessage {
        is_nicira,
        role,
        generation,
    })
}

pub(super) fn put_role(message: RoleMessage, writer: &mut Writer) {
    if message.is_nicira {
        return writer.u32((message.role as u32).saturating_sub(1));
    }
    writer.u32(message.role as u32);
    writer.zeros(4);
    writer.u64(message.generation.unwrap_or(NO_GENERATION));
}

pub(super) fn decode_role_status(body: &mut Reader<'_>) -> Result<RoleStatus, Refusal> {
    let (role, reason) = (role_of(body.u32()?, false)?, body.u8()?);
    body.skip(3)?;
    let generation = body.u64()?;
    body.rest();
    Ok(RoleStatus {
        role,
        reason,
        generation: Some(generation),
    })
}

pub(super) fn put_role_status(status: RoleStatus, writer: &mut Writer) {
    writer.u32(status.role as u32);
    writer.u8(status.reason);
    writer.zeros(3);
    writer.u64(status.generation.unwrap_or(NO_GENERATION));
}

/// Reads the versions' own configuration of unasked messages.
pub(super) fn decode_async(
    version: Version,
    is_reply: bool,
    body: &mut Reader<'_>,
) -> Result<AsyncConfig, Refusal> {
    match version {
        Version::V13 => decode_masks(version, body),
        _ => decode_properties(version, is_reply, body),
    }
}

/// The reasons that a kind of message has in a version, in the order of `AsyncKind`.
fn known_reasons(version: Version) -> [u32; 6] {
    let packet_in = match version {
        Version::V14 | Version::V15 => 0b11_1111,
        _ => 0b111,
    };
    [packet_in, 0b111, 0b11_1111, 0b111, 0b1_1000, 0b11]
}

/// Reads masks of three kinds, each for both sides.
///
/// Reasons that do not exist are dropped, as Open vSwitch drops them.
pub(super) fn decode_masks(
    version: Version,
    body: &mut Reader<'_>,
) -> Result<AsyncConfig, Refusal> {
    let mut config = AsyncConfig::default();
    for (kind, known) in known_reasons(version).into_iter().enumerate().take(3) {
        config.primary[kind] = Some(body.u32()? & known);
        config.secondary[kind] = Some(body.u32()? & known);
    }
    Ok(config)
}

/// Reads properties: one for each kind and side. Unknown reasons of a reply are dropped, those
/// of a request refused.
pub(super) fn decode_properties(
    version: Version,
    is_reply: bool,
    body: &mut Reader<'_>,
) -> Result<AsyncConfig, Refusal> {
    let mut config = AsyncConfig::default();
    while !body.is_empty() {
        let (kind, mut value) = property::decode(body)?;
        if kind >= 12 {
            let what = format!("property {kind} of the asynchronous configuration");
            return Err(refuse(ErrorCode::OFPACFC_UNSUPPORTED, what));
        }
        let side = match kind % 2 {
            0 => &mut config.secondary,
            _ => &mut config.primary,
        };
        let place = usize::from(kind / 2);
        let (mask, known) = (value.u32()?, known_reasons(version)[place]);
        if mask & !known != 0 && !is_reply {
            let what = format!("reasons {:#x} of property {kind}", mask & !known);
            return Err(refuse(ErrorCode::OFPACFC_INVALID, what));
        }
        side[place] = Some(mask & known);
    }
    Ok(config)
}

pub(super) fn put_async(version: Version, config: &AsyncConfig, writer: &mut Writer) {
    match version {
        Version::V13 => put_masks(config, writer),
        _ => put_properties(config, writer),
    }
}

pub(super) fn put_masks(config: &AsyncConfig, writer: &mut Writer) {
    for kind in 0..3 {
        writer.u32(config.primary[kind].unwrap_or(0));
        writer.u32(config.secondary[kind].unwrap_or(0));
    }
}

pub(super) fn put_properties(config: &AsyncConfig, writer: &mut Writer) {
    let sides = config.secondary.iter().zip(&config.primary);
    let masks = sides.flat_map(|(secondary, primary)| [*secondary, *primary]);
    for (kind, mask) in masks.enumerate() {
        if let Some(mask) = mask {
            property::encode(kind as u16, writer, |writer| writer.u32(mask));
        }
    }
}

pub(super) fn decode_forward(
    context: Context,
    body: &mut Reader<'_>,
) -> Result<RequestForward, Refusal> {
    let inner = body.rest();
    // Only a message that changes something is forwarded, so there is no deeper nesting.
    let kind = inner.get(1).copied().unwrap_or(0);
    let version = inner.first().copied().and_then(Version::from_number);
    let is_stats = version.is_some_and(|version| {
        let (request, reply) = stats_types(version);
        kind == request || kind == reply
    });
    let is_nicira_group = kind == 4
        && inner
            .get(8..16)
            .is_some_and(|rest| rest == NICIRA_GROUP_MOD);
    let is_change = (matches!(kind, 15 | 29) || is_nicira_group) && !is_stats;
    let bad = || {
        refuse(
            ErrorCode::OFPBFC_MSG_UNSUP,
            "a forwarded message of another kind",
        )
    };
    if !is_change {
        return Err(bad());
    }
    let Frame { xid, message, .. } = decode(inner, context)?;
    match message {
        Message::GroupMod(group) => Ok(RequestForward::Group(xid, group)),
        Message::MeterMod(meter) => Ok(RequestForward::Meter(xid, meter)),
        _ => Err(bad()),
    }
}
