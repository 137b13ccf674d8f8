//! Bundles.

use bytes::Bytes;

use super::message_length;
use crate::error::{ErrorCode, Refusal, refuse};
use crate::message::bundle::{BundleAdd, BundleControl, BundleControlType};
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

pub(super) fn decode_add(body: &mut Reader<'_>) -> Result<BundleAdd, Refusal> {
    let bundle = body.u32()?;
    body.skip(2)?;
    let flags = body.u16()?;
    let bad = |what: &str| refuse(ErrorCode::OFPBFC_MSG_BAD_LEN, what);
    let length = message_length(body.peek()).map_err(|refusal| bad(&refusal.what))?;
    let length = length.filter(|length| *length <= body.len());
    let length = length.ok_or_else(|| bad("a message in a bundle that is cut short"))?;
    let message = Bytes::copy_from_slice(body.take(length)?);
    Ok(BundleAdd {
        bundle,
        flags,
        message,
        properties: Bytes::copy_from_slice(body.rest()),
    })
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
