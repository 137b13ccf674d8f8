//! Meters.

use super::stats::{decode_counts, decode_duration, entry, put_counts, put_duration};
use crate::error::{ErrorCode, Refusal, refuse};
use crate::message::meter::{
    BAND_DROP, BAND_DSCP_REMARK, MeterBand, MeterCommand, MeterConfig, MeterFeatures, MeterMod,
    MeterStats, flags,
};
use crate::version::Version;
use crate::wire::{Reader, Writer};

pub(super) fn decode_mod(body: &mut Reader<'_>) -> Result<MeterMod, Refusal> {
    let command = match body.u16()? {
        0 => MeterCommand::Add,
        1 => MeterCommand::Modify,
        2 => MeterCommand::Delete,
        other => {
            let what = format!("command {other} of a meter-mod");
            return Err(refuse(ErrorCode::OFPMMFC_BAD_COMMAND, what));
        }
    };
    let flags = body.u16()?;
    let id = body.u32()?;
    let known = flags::KBPS | flags::PKTPS | flags::BURST | flags::STATS;
    let has_both = flags & flags::KBPS != 0 && flags & flags::PKTPS != 0;
    if command != MeterCommand::Delete && (flags & !known != 0 || has_both) {
        let what = format!("a meter with flags {flags:#x}");
        return Err(refuse(ErrorCode::OFPMMFC_BAD_FLAGS, what));
    }
    Ok(MeterMod {
        command,
        meter: MeterConfig {
            id,
            flags,
            bands: decode_bands(body)?,
        },
    })
}

fn decode_bands(list: &mut Reader<'_>) -> Result<Vec<MeterBand>, Refusal> {
    let mut bands = Vec::new();
    while !list.is_empty() {
        let mut start = *list;
        let (kind, length) = (start.u16()?, start.u16()?);
        if kind != BAND_DROP && kind != BAND_DSCP_REMARK {
            let what = format!("a band of type {kind}");
            return Err(refuse(ErrorCode::OFPMMFC_BAD_BAND, what));
        }
        if length != 16 {
            return Err(list.bad_length(format!("a band of {length} bytes")));
        }
        let mut band = list.part(16)?;
        band.skip(4)?;
        let (rate, burst, precedence) = (band.u32()?, band.u32()?, band.u8()?);
        bands.push(MeterBand {
            kind,
            rate,
            burst,
            precedence: if kind == BAND_DSCP_REMARK {
                precedence
            } else {
                0
            },
        });
    }
    Ok(bands)
}

fn put_bands(bands: &[MeterBand], writer: &mut Writer) {
    for band in bands {
        writer.u16(band.kind);
        writer.u16(16);
        writer.u32(band.rate);
        writer.u32(band.burst);
        writer.u8(band.precedence);
        writer.zeros(3);
    }
}

pub(super) fn put_mod(asked: &MeterMod, writer: &mut Writer) {
    writer.u16(asked.command as u16);
    writer.u16(asked.meter.flags);
    writer.u32(asked.meter.id);
    put_bands(&asked.meter.bands, writer);
}

pub(super) fn decode_config(body: &mut Reader<'_>) -> Result<MeterConfig, Refusal> {
    let mut entry = entry(body, 8)?;
    let (flags, id) = (entry.u16()?, entry.u32()?);
    Ok(MeterConfig {
        id,
        flags,
        bands: decode_bands(&mut entry)?,
    })
}

pub(super) fn put_config(config: &MeterConfig, writer: &mut Writer) {
    let start = writer.len();
    writer.u16(0);
    writer.u16(config.flags);
    writer.u32(config.id);
    put_bands(&config.bands, writer);
    writer.patch_length(start, start);
}

pub(super) fn decode_stats(body: &mut Reader<'_>) -> Result<MeterStats, Refusal> {
    let mut start = *body;
    let (id, length) = (start.u32()?, usize::from(start.u16()?));
    if length < 40 {
        return Err(body.bad_length(format!("a meter of {length} bytes")));
    }
    let mut entry = body.part(length)?;
    entry.skip(12)?;
    let flows = entry.u32()?;
    let counts = decode_counts(&mut entry)?;
    let duration = decode_duration(&mut entry)?;
    let mut bands = Vec::new();
    while !entry.is_empty() {
        bands.push(decode_counts(&mut entry)?);
    }
    Ok(MeterStats {
        id,
        flows,
        counts,
        duration,
        bands,
    })
}

pub(super) fn put_stats(stats: &MeterStats, writer: &mut Writer) {
    let start = writer.len();
    writer.u32(stats.id);
    writer.zeros(8);
    writer.u32(stats.flows);
    put_counts(stats.counts, writer);
    put_duration(stats.duration, writer);
    for counts in &stats.bands {
        put_counts(*counts, writer);
    }
    writer.patch_length(start + 4, start);
}

pub(super) fn decode_features(
    version: Version,
    body: &mut Reader<'_>,
) -> Result<MeterFeatures, Refusal> {
    let mut features = MeterFeatures {
        max_meters: body.u32()?,
        bands: body.u32()?,
        capabilities: body.u32()?,
        max_bands: body.u8()?,
        max_colors: body.u8()?,
        features: 0,
    };
    body.skip(2)?;
    if version == Version::V15 && !body.is_empty() {
        features.features = body.u32()?;
        body.skip(4)?;
    }
    Ok(features)
}

/// Writes the features; Open vSwitch sends OpenFlow 1.5 the form of 1.3.
pub(super) fn put_features(features: MeterFeatures, writer: &mut Writer) {
    writer.u32(features.max_meters);
    writer.u32(features.bands);
    writer.u32(features.capabilities);
    writer.u8(features.max_bands);
    writer.u8(features.max_colors);
    writer.zeros(2);
}
