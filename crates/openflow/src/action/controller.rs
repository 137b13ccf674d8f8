//! Outputs to a controller with options: `NXAST_CONTROLLER` and `NXAST_CONTROLLER2`.

use bytes::Bytes;

use super::Controller;
use super::encoder::Encoder;
use super::subfield::check_zeros;
use super::table::Kind;
use crate::error::{ErrorCode, Refusal, refuse};
use crate::wire::{Reader, Writer};

const MAX_LENGTH: u16 = 0;
const ID: u16 = 1;
const REASON: u16 = 2;
const USERDATA: u16 = 3;
const PAUSE: u16 = 4;
const METER: u16 = 5;
const EXPERIMENTER: u16 = 0xffff;
/// `OFPR_ACTION`: an explicit action sent the packet.
const BY_ACTION: u8 = 1;

pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Controller, Refusal> {
    let (max_length, id, reason) = (reader.u16()?, reader.u16()?, reader.u8()?);
    Ok(Controller {
        max_length,
        id,
        reason,
        pause: false,
        userdata: None,
        meter: None,
    })
}

pub(super) fn decode_2(reader: &mut Reader<'_>) -> Result<Controller, Refusal> {
    check_zeros(reader.take(6)?, ErrorCode::NXBRC_MUST_BE_ZERO)?;
    let mut controller = Controller {
        max_length: u16::MAX,
        id: 0,
        reason: BY_ACTION,
        pause: false,
        userdata: Some(Bytes::new()),
        meter: None,
    };
    let reader = &mut reader.with_code(ErrorCode::OFPBPC_BAD_LEN);
    while !reader.is_empty() {
        let mut ahead = *reader;
        let (kind, length) = (ahead.u16()?, usize::from(ahead.u16()?));
        if length < 4 {
            return Err(reader.bad_length("a property shorter than its header"));
        }
        let mut property = reader.part(length.next_multiple_of(8))?.part(length)?;
        property.skip(4)?;
        match kind {
            MAX_LENGTH => controller.max_length = property.u16()?,
            ID => controller.id = property.u16()?,
            REASON => controller.reason = property.u8()?,
            USERDATA => controller.userdata = Some(Bytes::copy_from_slice(property.rest())),
            PAUSE => controller.pause = true,
            METER => controller.meter = Some(property.u32()?).filter(|meter| *meter != 0),
            _ => return Err(unknown(kind, property)),
        }
    }
    Ok(controller)
}

fn unknown(kind: u16, mut property: Reader<'_>) -> Refusal {
    let code = match (kind, property.u32()) {
        (EXPERIMENTER, Err(refusal)) => return refusal,
        (EXPERIMENTER, Ok(0)) => ErrorCode::OFPBPC_BAD_EXPERIMENTER,
        (EXPERIMENTER, Ok(_)) => ErrorCode::OFPBPC_BAD_EXP_TYPE,
        _ => ErrorCode::OFPBPC_BAD_TYPE,
    };
    refuse(
        code,
        format!("the action controller has no property {kind}"),
    )
}

pub(super) fn encode(encoder: &mut Encoder<'_>, controller: &Controller) {
    let has_options = controller.pause || controller.meter.is_some();
    if controller.userdata.is_none() && !has_options {
        encoder.put(Kind::Controller, |writer| {
            writer.u16(controller.max_length);
            writer.u16(controller.id);
            writer.u8(controller.reason);
            writer.u8(0);
        });
        return;
    }
    encoder.put(Kind::Controller2, |writer| {
        writer.zeros(6);
        if controller.max_length != u16::MAX {
            property(writer, MAX_LENGTH, &wide(controller.max_length));
        }
        if controller.id != 0 {
            property(writer, ID, &wide(controller.id));
        }
        if controller.reason != BY_ACTION {
            property(writer, REASON, &[controller.reason]);
        }
        if let Some(userdata) = controller.userdata.as_ref().filter(|data| !data.is_empty()) {
            property(writer, USERDATA, userdata);
        }
        if controller.pause {
            property(writer, PAUSE, &[]);
        }
        if let Some(meter) = controller.meter {
            property(writer, METER, &meter.to_be_bytes());
        }
    });
}

/// Numbers of 16 bits have 32 bits of room, as Open vSwitch writes them.
fn wide(number: u16) -> [u8; 4] {
    let [high, low] = number.to_be_bytes();
    [high, low, 0, 0]
}

fn property(writer: &mut Writer, kind: u16, bytes: &[u8]) {
    let start = writer.len();
    writer.u16(kind);
    writer.u16(0);
    writer.put(bytes);
    writer.patch_length(start + 2, start);
    writer.pad_to_8(start);
}
