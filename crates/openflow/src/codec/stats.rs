//! Parts that several messages have in common: times, counts, numbers, OXS statistics.

use crate::error::{ErrorCode, Refusal, refuse};
use crate::message::counts::{Counts, Duration};
use crate::wire::{Reader, Writer};

pub(super) fn decode_duration(body: &mut Reader<'_>) -> Result<Duration, Refusal> {
    Ok(Duration {
        seconds: body.u32()?,
        nanoseconds: body.u32()?,
    })
}

pub(super) fn put_duration(duration: Duration, writer: &mut Writer) {
    writer.u32(duration.seconds);
    writer.u32(duration.nanoseconds);
}

pub(super) fn decode_counts(body: &mut Reader<'_>) -> Result<Counts, Refusal> {
    Ok(Counts {
        packets: body.u64()?,
        bytes: body.u64()?,
    })
}

pub(super) fn put_counts(counts: Counts, writer: &mut Writer) {
    writer.u64(counts.packets);
    writer.u64(counts.bytes);
}

/// Reads a number of 32 bits and four bytes of padding.
pub(super) fn decode_number(body: &mut Reader<'_>) -> Result<u32, Refusal> {
    let number = body.u32()?;
    body.skip(4)?;
    Ok(number)
}

pub(super) fn put_number(number: u32, writer: &mut Writer) {
    writer.u32(number);
    writer.zeros(4);
}

/// Reads an entry that begins with its length, in `least` bytes at the least.
pub(super) fn entry<'a>(body: &mut Reader<'a>, least: usize) -> Result<Reader<'a>, Refusal> {
    let mut start = *body;
    let length = usize::from(start.u16()?);
    if length < least {
        return Err(body.bad_length(format!("an entry of {length} bytes")));
    }
    let mut entry = body.part(length)?;
    entry.skip(2)?;
    Ok(entry)
}

/// Statistics of OpenFlow 1.5, in a list of their own (OpenFlow 1.5.1, section 7.2.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Oxs {
    pub(super) duration: Option<Duration>,
    pub(super) idle: Option<Duration>,
    pub(super) flows: Option<u32>,
    pub(super) packets: Option<u64>,
    pub(super) bytes: Option<u64>,
}

const OXS_CLASS: u16 = 0x8002;
const DURATION: u8 = 0;
const IDLE: u8 = 1;
const FLOWS: u8 = 3;
const PACKETS: u8 = 4;
const BYTES: u8 = 5;

impl Oxs {
    pub(super) fn decode(body: &mut Reader<'_>) -> Result<Oxs, Refusal> {
        let mut start = *body;
        start.skip(2)?;
        let length = usize::from(start.u16()?);
        if length < 4 {
            return Err(body.bad_length(format!("statistics of {length} bytes")));
        }
        let mut list = start.part(length - 4)?;
        body.skip(length.next_multiple_of(8))?;
        let mut oxs = Oxs::default();
        while !list.is_empty() {
            let (class, number) = (list.u16()?, list.u8()? >> 1);
            let length = list.u8()?;
            let mut value = list.part(length.into())?;
            match (class, number) {
                (OXS_CLASS, DURATION) => oxs.duration = Some(decode_duration(&mut value)?),
                (OXS_CLASS, IDLE) => oxs.idle = Some(decode_duration(&mut value)?),
                (OXS_CLASS, FLOWS) => oxs.flows = Some(value.u32()?),
                (OXS_CLASS, PACKETS) => oxs.packets = Some(value.u64()?),
                (OXS_CLASS, BYTES) => oxs.bytes = Some(value.u64()?),
                _ => {
                    let what = format!("statistic {number} of class {class:#x}");
                    return Err(refuse(ErrorCode::OFPBMC_BAD_FIELD, what));
                }
            }
        }
        Ok(oxs)
    }

    pub(super) fn encode(&self, writer: &mut Writer) {
        let start = writer.len();
        writer.u32(0);
        let header = |number: u8, length: u8, writer: &mut Writer| {
            writer.u16(OXS_CLASS);
            writer.u8(number << 1);
            writer.u8(length);
        };
        for (number, time) in [(DURATION, self.duration), (IDLE, self.idle)] {
            if let Some(time) = time {
                header(number, 8, writer);
                put_duration(time, writer);
            }
        }
        for (number, count) in [(PACKETS, self.packets), (BYTES, self.bytes)] {
            if let Some(count) = count {
                header(number, 8, writer);
                writer.u64(count);
            }
        }
        if let Some(flows) = self.flows {
            header(FLOWS, 4, writer);
            writer.u32(flows);
        }
        writer.patch_length(start + 2, start);
        writer.pad_to_8(start);
    }

    pub(super) fn counts(&self) -> Counts {
        Counts {
            packets: self.packets.unwrap_or(u64::MAX),
            bytes: self.bytes.unwrap_or(u64::MAX),
        }
    }

    /// The counts; those that are not kept are left out.
    pub(super) fn with_counts(self, counts: Counts) -> Oxs {
        let kept = |count: u64| (count != u64::MAX).then_some(count);
        Oxs {
            packets: kept(counts.packets),
            bytes: kept(counts.bytes),
            ..self
        }
    }
}
