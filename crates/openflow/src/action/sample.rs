//! Sampling packets: `NXAST_SAMPLE` and its three successors.

use super::encoder::Encoder;
use super::port::narrow;
use super::subfield::check_zeros;
use super::table::Kind;
use super::{Sample, SampleId, Subfield};
use crate::error::{ErrorCode, Refusal, refuse};
use crate::port_number::PortNumber;
use crate::wire::{Reader, Writer};

const EGRESS: u8 = 2;

pub(super) fn decode(reader: &mut Reader<'_>, kind: Kind) -> Result<Sample, Refusal> {
    let mut sample = Sample {
        probability: reader.u16()?,
        collector_set: reader.u32()?,
        domain: SampleId::decode(reader, kind)?,
        point: SampleId::decode(reader, kind)?,
        port: PortNumber::ANY,
        direction: 0,
        form: match kind {
            Kind::Sample => 1,
            Kind::Sample2 => 2,
            Kind::Sample3 => 3,
            _ => 4,
        },
    };
    if sample.form > 1 {
        sample.port = PortNumber::from_u16(reader.u16()?);
    }
    if sample.form > 2 {
        sample.direction = reader.u8()?;
        check_zeros(reader.rest(), ErrorCode::NXBRC_MUST_BE_ZERO)?;
    }
    if sample.probability == 0 || sample.direction > EGRESS {
        let what = format!("{sample:?}");
        return Err(refuse(ErrorCode::OFPBAC_BAD_ARGUMENT, what));
    }
    Ok(sample)
}

pub(super) fn encode(encoder: &mut Encoder<'_>, sample: &Sample) {
    let is_field = |id: &SampleId| matches!(id, SampleId::Field(_));
    let kind = if sample.form >= 4 || is_field(&sample.domain) || is_field(&sample.point) {
        Kind::Sample4
    } else if sample.form == 3 || sample.direction != 0 {
        Kind::Sample3
    } else if sample.form == 2 || sample.port != PortNumber::ANY {
        Kind::Sample2
    } else {
        Kind::Sample
    };
    encoder.put(kind, |writer| {
        writer.u16(sample.probability);
        writer.u32(sample.collector_set);
        sample.domain.encode(kind, writer);
        sample.point.encode(kind, writer);
        if kind != Kind::Sample {
            writer.u16(narrow(sample.port));
            writer.u8(sample.direction);
        }
    });
}

impl SampleId {
    fn decode(reader: &mut Reader<'_>, kind: Kind) -> Result<SampleId, Refusal> {
        if kind != Kind::Sample4 {
            return reader.u32().map(SampleId::Number);
        }
        let header = reader.u32()?;
        let mut body = reader.part(4)?;
        if header == 0 {
            return body.u32().map(SampleId::Number);
        }
        let field = Subfield::from_packed(body.u16()?, header)?;
        check_zeros(body.rest(), ErrorCode::NXBRC_MUST_BE_ZERO)?;
        field.check_source()?;
        Ok(SampleId::Field(field))
    }

    fn encode(&self, kind: Kind, writer: &mut Writer) {
        match self {
            SampleId::Number(number) => {
                writer.zeros(if kind == Kind::Sample4 { 4 } else { 0 });
                writer.u32(*number);
            }
            SampleId::Field(field) => {
                writer.u32(field.short_header());
                writer.u16(field.packed());
                writer.u16(0);
            }
        }
    }
}
