//! Bundles.

use bytes::Bytes;

use super::{find, message_length, xid_of};
use crate::error::{ErrorCode, Refusal, refuse};
use crate::message::Kind;
use crate::message::bundle::{BundleAdd, BundleControl, BundleControlType};
use crate::version::Version;
use crate::wire::{Reader, Writer};

pub(super) fn decode_control(body: &mut Reader<'_>) -> Result<BundleControl, Refusal> {
    let bundle = body.u32()?;
    let kind = match body.u16()? {
        0 => BundleControlType::OpenRequest,
        1 => BundleControlType::OpenReply,
        2 => BundleControlType::CloseRequest,
        3 => BundleControlType::CloseReply,
        4 => BundleControlType::CommitRequest,
        5 => BundleControlType::CommitReply,
        6 => BundleControlType::DiscardRequest,
        7 => BundleControlType::DiscardReply,
        other => {
            let what = format!("bundle control {other}");
            return Err(refuse(ErrorCode::OFPBFC_BAD_TYPE, what));
        }
    };
    Ok(BundleControl {
        bundle,
        kind,
        flags: body.u16()?,
        properties: Bytes::copy_from_slice(body.rest()),
    })
}

pub(super) fn put_control(control: &BundleControl, writer: &mut Writer) {
    writer.u32(control.bundle);
    writer.u16(control.kind as u16);
    writer.u16(control.flags);
    writer.put(&control.properties);
}

/// Reads a message of a bundle. It has the version and the transaction of the message around
/// it, and is a change: nothing else can be in a bundle.
pub(super) fn decode_add(
    version: Version,
    xid: u32,
    body: &mut Reader<'_>,
) -> Result<BundleAdd, Refusal> {
    let bundle = body.u32()?;
    body.skip(2)?;
    let flags = body.u16()?;
    let bad = |what: &str| refuse(ErrorCode::OFPBFC_MSG_BAD_LEN, what);
    let length = message_length(body.peek()).map_err(|refusal| bad(&refusal.what))?;
    let length = length.filter(|length| *length <= body.len());
    let length = length.ok_or_else(|| bad("a message in a bundle that is cut short"))?;
    let message = body.take(length)?;
    if message[0] != version.number() {
        let what = format!(
            "a message of version {} in a bundle of {version}",
            message[0]
        );
        return Err(refuse(ErrorCode::OFPBFC_BAD_VERSION, what));
    }
    if xid_of(message) != xid {
        let what = "a message in a bundle has another transaction";
        return Err(refuse(ErrorCode::OFPBFC_MSG_BAD_XID, what));
    }
    if !is_bundlable(version, message) {
        let what = format!("a message of type {} in a bundle", message[1]);
        return Err(refuse(ErrorCode::OFPBFC_MSG_UNSUP, what));
    }
    Ok(BundleAdd {
        bundle,
        flags,
        message: Bytes::copy_from_slice(message),
        properties: Bytes::copy_from_slice(body.rest()),
    })
}

/// Whether a message is one that Open vSwitch takes into a bundle.
fn is_bundlable(version: Version, message: &[u8]) -> bool {
    let mut headers = Reader::new(&message[super::HEADER_BYTES..], ErrorCode::OFPBRC_BAD_LEN);
    let found = find(version, message[1], &mut headers);
    let kind = found.map(|(kind, _)| kind);
    matches!(
        kind,
        Ok(Kind::FlowMod | Kind::NxFlowMod | Kind::GroupMod | Kind::PortMod | Kind::PacketOut)
    )
}

pub(super) fn put_add(add: &BundleAdd, writer: &mut Writer) {
    writer.u32(add.bundle);
    writer.zeros(2);
    writer.u16(add.flags);
    writer.put(&add.message);
    if !add.properties.is_empty() {
        writer.put(&add.properties);
    }
}
