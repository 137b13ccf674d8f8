//! Changes of meters, decided by the meters as earlier operations leave them, and answers about
//! meters.
//!
//! A meter is refused as Open vSwitch with its userspace datapath refuses it
//! (`handle_meter_mod`, `dpif_meter_set`, `dpif_netdev_meter_set`): each meter has a unit and a
//! band, and each band a rate. A burst of 0 is the rate's number. Open vSwitch also refuses bands
//! that remark; here only the slow path's meter cannot have them.

use std::collections::BTreeMap;

use thalweg_openflow::message::flow::Counts;
use thalweg_openflow::message::meter::{
    ALL_METERS, BAND_DROP, BAND_DSCP_REMARK, MAX_METER, MeterBand, MeterCommand, MeterConfig,
    MeterFeatures, MeterMod, MeterStats, flags,
};
use thalweg_openflow::{ErrorCode, Refusal, refuse};
use thalweg_pipeline::{
    BandKind, Counters, ExistingMeter, MAX_BANDS, MAX_METERS, MeterId, Operation, RateBand,
    RateMeter, RateUnit,
};

use super::cursor::duration;
use super::groups::Overlay;
use super::numbering::Numbering;
use crate::switch::Switch;

/// Meters that differ from the pipeline's, by number: whether they exist.
pub(super) type ChangedMeters = BTreeMap<u32, bool>;

impl Overlay<'_> {
    /// Whether a meter of the bridge exists.
    pub(super) fn has_meter(&self, number: u32) -> bool {
        let changed = self.changed_meters.get(&number);
        changed.copied().unwrap_or_else(|| {
            let id = self.numbers().bridge.meter(number);
            let pipeline = self.pipeline();
            pipeline.meter(id, pipeline.version()).is_some()
        })
    }

    /// The operations of a change of meters, in the bridge's numbers.
    ///
    /// # Errors
    /// With OpenFlow's error for the fault.
    pub(super) fn change_meters(&mut self, asked: &MeterMod) -> Result<Vec<Operation>, Refusal> {
        let number = asked.meter.id;
        let exists = match asked.command {
            MeterCommand::Delete => return Ok(self.delete_meters(number)),
            MeterCommand::Add => false,
            MeterCommand::Modify => true,
        };
        check_number(number)?;
        if asked.meter.bands.len() > MAX_BANDS {
            return Err(refuse(
                ErrorCode::OFPMMFC_OUT_OF_BANDS,
                too_many_bands(number),
            ));
        }
        match (self.has_meter(number), exists) {
            (true, false) => {
                let what = format!("meter {number} exists");
                return Err(refuse(ErrorCode::OFPMMFC_METER_EXISTS, what));
            }
            (false, true) => return Err(unknown(number)),
            _ => {}
        }
        let meter = rate_meter(&asked.meter)?;
        self.changed_meters.insert(number, true);
        Ok(vec![Operation::SetMeter(meter)])
    }

    /// Removes a meter, or all; one that does not exist is no error, as in Open vSwitch.
    fn delete_meters(&mut self, number: u32) -> Vec<Operation> {
        let gone = match number {
            ALL_METERS => self.meter_numbers(),
            number if self.has_meter(number) => vec![number],
            _ => return Vec::new(),
        };
        for number in &gone {
            self.changed_meters.insert(*number, false);
        }
        let ids = gone.into_iter().map(|number| MeterId(number.into()));
        vec![Operation::DeleteMeters(ids.collect())]
    }

    fn meter_numbers(&self) -> Vec<u32> {
        let pipeline = self.pipeline();
        let known = pipeline.meters_of(self.numbers().bridge, pipeline.version());
        let known = known.map(|known| known.meter.id.number());
        let mut numbers: Vec<u32> = known.chain(self.changed_meters.keys().copied()).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers.retain(|number| self.has_meter(*number));
        numbers
    }
}

fn check_number(number: u32) -> Result<(), Refusal> {
    match number {
        1..=MAX_METER | MeterId::SLOW_PATH | MeterId::CONTROLLER => Ok(()),
        _ => {
            let what = format!("{number} is no meter's number");
            Err(refuse(ErrorCode::OFPMMFC_INVALID_METER, what))
        }
    }
}

fn too_many_bands(number: u32) -> String {
    format!("meter {number} has more than {MAX_BANDS} bands")
}

fn unknown(number: u32) -> Refusal {
    let what = format!("there is no meter {number}");
    refuse(ErrorCode::OFPMMFC_UNKNOWN_METER, what)
}

/// The meter that is asked for.
fn rate_meter(asked: &MeterConfig) -> Result<RateMeter, Refusal> {
    let is_set = |flag: u16| asked.flags & flag != 0;
    let unit = match (is_set(flags::KBPS), is_set(flags::PKTPS)) {
        (true, false) => RateUnit::Kilobits,
        (false, true) => RateUnit::Packets,
        _ => {
            let what = format!("meter {} needs one of kbps and pktps", asked.id);
            return Err(refuse(ErrorCode::OFPMMFC_BAD_FLAGS, what));
        }
    };
    if asked.bands.is_empty() {
        let what = format!("meter {} has no bands", asked.id);
        return Err(refuse(ErrorCode::OFPMMFC_OUT_OF_BANDS, what));
    }
    if asked.bands.iter().any(|band| band.rate == 0) {
        let what = format!("a band of meter {} has no rate", asked.id);
        return Err(refuse(ErrorCode::OFPMMFC_BAD_RATE, what));
    }
    let remarks = asked.bands.iter().any(|band| band.kind != BAND_DROP);
    if remarks && asked.id == MeterId::SLOW_PATH {
        let what = "the meter of the slow path only drops";
        return Err(refuse(ErrorCode::OFPMMFC_BAD_BAND, what));
    }
    let bands = asked.bands.iter().map(|band| RateBand {
        kind: match band.kind {
            BAND_DSCP_REMARK => BandKind::Remark {
                levels: band.precedence,
            },
            _ => BandKind::Drop,
        },
        rate: band.rate,
        burst: match band.burst {
            0 => band.rate,
            burst => burst,
        },
    });
    Ok(RateMeter {
        id: MeterId(asked.id.into()),
        unit,
        bands: bands.collect(),
        has_burst: is_set(flags::BURST),
        has_statistics: is_set(flags::STATS),
    })
}

/// A meter as it is told.
fn told(known: &ExistingMeter) -> MeterConfig {
    let meter = &known.meter;
    let unit = match meter.unit {
        RateUnit::Kilobits => flags::KBPS,
        RateUnit::Packets => flags::PKTPS,
    };
    let flag = |is_set: bool, flag: u16| if is_set { flag } else { 0 };
    let bands = meter.bands.iter().map(|band| {
        let (kind, precedence) = match band.kind {
            BandKind::Drop => (BAND_DROP, 0),
            BandKind::Remark { levels } => (BAND_DSCP_REMARK, levels),
        };
        MeterBand {
            kind,
            rate: band.rate,
            burst: band.burst,
            precedence,
        }
    });
    MeterConfig {
        id: meter.id.number(),
        flags: unit
            | flag(meter.has_burst, flags::BURST)
            | flag(meter.has_statistics, flags::STATS),
        bands: bands.collect(),
    }
}

/// What meters can do.
pub(super) fn features() -> MeterFeatures {
    MeterFeatures {
        max_meters: MAX_METERS,
        bands: 1 << BAND_DROP | 1 << BAND_DSCP_REMARK,
        capabilities: (flags::KBPS | flags::PKTPS | flags::BURST | flags::STATS).into(),
        max_bands: MAX_BANDS as u8,
        max_colors: 0,
        features: 0,
    }
}

/// How a bridge's meters are set; of one, or of all.
///
/// # Errors
/// If there is no such meter.
pub(super) fn configurations(
    switch: &Switch,
    numbers: Numbering,
    number: u32,
) -> Result<Vec<MeterConfig>, Refusal> {
    select(switch, numbers, number, told)
}

/// What a bridge's meters have counted; of one, or of all.
///
/// # Errors
/// If there is no such meter.
pub(super) fn statistics(
    switch: &Switch,
    numbers: Numbering,
    number: u32,
) -> Result<Vec<MeterStats>, Refusal> {
    let now = switch.now();
    let pipeline = switch.pipeline();
    let users = pipeline.users_of_meters(numbers.bridge);
    let buckets = pipeline.meters().clone();
    drop(pipeline);
    select(switch, numbers, number, |known| {
        let measured = buckets.counts(known.place);
        MeterStats {
            id: known.meter.id.number(),
            flows: users.get(&known.meter.id).copied().unwrap_or(0),
            counts: counts(measured.total),
            duration: duration(now - known.created_at),
            bands: measured.bands.into_iter().map(counts).collect(),
        }
    })
}

fn counts(counters: Counters) -> Counts {
    Counts {
        packets: counters.packets,
        bytes: counters.bytes,
    }
}

fn select<T>(
    switch: &Switch,
    numbers: Numbering,
    number: u32,
    tell: impl Fn(&ExistingMeter) -> T,
) -> Result<Vec<T>, Refusal> {
    let pipeline = switch.pipeline();
    let version = pipeline.version();
    if number == ALL_METERS {
        let known = pipeline.meters_of(numbers.bridge, version);
        return Ok(known.map(|known| tell(known)).collect());
    }
    match pipeline.meter(numbers.bridge.meter(number), version) {
        Some(known) => Ok(vec![tell(known)]),
        None => Err(unknown(number)),
    }
}
