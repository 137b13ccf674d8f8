//! One meter, as `ovs-ofctl add-meter` takes it.
//!
//! ```text
//! meter=1,kbps,burst,stats,bands=type=drop,rate=1000,burst_size=500,type=drop,rate=2000
//! ```
//!
//! `meter` is a number, `controller` or `slowpath`. Without a unit, rates are in kilobits. A band
//! begins with its type: `drop`, or `dscp_remark` with `prec_level`, by how many levels it raises
//! the drop precedence. Without a burst it has its rate's number, as in Open vSwitch's userspace
//! datapath.

use super::error::Parsed;
use super::line::Line;
use crate::meters::{BandKind, MAX_BANDS, MAX_METER, MeterId, RateBand, RateMeter, RateUnit};

/// Whether a line of a rules file is a meter.
pub(super) fn is_meter(text: &str) -> bool {
    text.starts_with("meter=")
}

/// Reads a meter.
pub(super) fn read_meter<'a>(line: &'a Line<'a>, text: &'a str) -> Parsed<RateMeter> {
    let Some(start) = text.find("bands=") else {
        return Err(line.syntax(text, "the meter has no bands; write bands=type=drop,rate=N"));
    };
    let (head, bands) = text.split_at(start);
    let (mut id, mut unit) = (None, None);
    let (mut has_burst, mut has_statistics) = (false, false);
    let mut pairs = line.pairs(head);
    while let Some(pair) = pairs.next()? {
        let asked = match pair.key {
            "meter" => {
                id = Some(read_id(line, pair.value)?);
                continue;
            }
            "kbps" => RateUnit::Kilobits,
            "pktps" => RateUnit::Packets,
            "burst" => {
                has_burst = true;
                continue;
            }
            "stats" => {
                has_statistics = true;
                continue;
            }
            _ => return Err(line.unknown(pair.key, "property of a meter", PROPERTIES)),
        };
        if unit.replace(asked).is_some_and(|said| said != asked) {
            return Err(line.syntax(pair.key, "a meter has one unit; remove kbps or pktps"));
        }
    }
    let Some(id) = id else {
        return Err(line.syntax(text, "the meter has no number; write meter=N"));
    };
    Ok(RateMeter {
        id,
        unit: unit.unwrap_or(RateUnit::Kilobits),
        bands: read_bands(line, &bands["bands=".len()..])?.into(),
        has_burst,
        has_statistics,
    })
}

const PROPERTIES: &str = "there are meter, kbps, pktps, burst, stats and bands";

fn read_id(line: &Line<'_>, value: &str) -> Parsed<MeterId> {
    let number = match value {
        "controller" => MeterId::CONTROLLER,
        "slowpath" => MeterId::SLOW_PATH,
        number => match line.integer::<u32>(number)? {
            number @ 1..=MAX_METER => number,
            _ => return Err(line.value(value, "a meter (1 to 4294901760, controller, slowpath)")),
        },
    };
    Ok(MeterId(number.into()))
}

fn read_bands<'a>(line: &'a Line<'a>, text: &'a str) -> Parsed<Vec<RateBand>> {
    let mut bands: Vec<(&str, RateBand)> = Vec::new();
    let mut pairs = line.pairs(text);
    while let Some(pair) = pairs.next()? {
        if pair.key == "type" {
            let kind = match pair.value {
                "drop" => BandKind::Drop,
                "dscp_remark" => BandKind::Remark { levels: 0 },
                _ => return Err(line.value(pair.value, "a type of band (drop, dscp_remark)")),
            };
            if bands.len() == MAX_BANDS {
                return Err(line.limit(pair.key, "a meter has more bands", MAX_BANDS));
            }
            let band = RateBand {
                kind,
                rate: 0,
                burst: 0,
            };
            bands.push((pair.key, band));
            continue;
        }
        let Some((_, band)) = bands.last_mut() else {
            return Err(line.syntax(pair.key, "a band begins with its type; write type=drop"));
        };
        match pair.key {
            "rate" => band.rate = line.integer(pair.value)?,
            "burst_size" => band.burst = line.integer(pair.value)?,
            "prec_level" => match &mut band.kind {
                BandKind::Remark { levels } => *levels = line.integer(pair.value)?,
                BandKind::Drop => {
                    return Err(
                        line.syntax(pair.key, "only a band of type dscp_remark has a level")
                    );
                }
            },
            _ => {
                let known = "there are type, rate, burst_size and prec_level";
                return Err(line.unknown(pair.key, "property of a band", known));
            }
        }
    }
    if bands.is_empty() {
        return Err(line.syntax(text, "the meter has no bands; write bands=type=drop,rate=N"));
    }
    let bands = bands.into_iter().map(|(place, band)| match band {
        RateBand { rate: 0, .. } => Err(line.syntax(place, "the band has no rate; write rate=N")),
        RateBand { burst: 0, .. } => Ok(RateBand {
            burst: band.rate,
            ..band
        }),
        band => Ok(band),
    });
    bands.collect()
}
