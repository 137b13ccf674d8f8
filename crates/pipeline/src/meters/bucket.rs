//! The buckets of one meter.

use thalweg_packet::Instant;

use super::{BandKind, MeterCounts, MeterVerdict, RateMeter, RateUnit};
use crate::pipeline::Counters;

/// Tokens of a packet where the rate is in packets a second: a millisecond at that rate brings
/// a thousandth of a packet for each.
const PACKET: u64 = 1_000;

/// The buckets and counts of one meter.
#[derive(Debug)]
pub(super) struct Buckets {
    unit: RateUnit,
    /// The longest time that one of the buckets takes to fill, in whole milliseconds.
    longest_ms: u64,
    /// When the last packet was measured.
    used_ms: u64,
    total: Counters,
    bands: Box<[Bucket]>,
}

/// The bucket of a band.
#[derive(Debug)]
struct Bucket {
    kind: BandKind,
    /// Tokens per millisecond.
    rate: u64,
    /// Tokens that it holds.
    capacity: u64,
    tokens: u64,
    exceeding: Counters,
}

impl Buckets {
    /// Creates full buckets.
    pub(super) fn new(meter: &RateMeter, now: Instant) -> Buckets {
        let bands = meter.bands.iter().map(|band| {
            let capacity = u64::from(band.burst) * 1_000;
            Bucket {
                kind: band.kind,
                rate: band.rate.into(),
                capacity,
                tokens: capacity,
                exceeding: Counters::default(),
            }
        });
        let bands: Box<[Bucket]> = bands.collect();
        let longest = bands.iter().map(|band| band.capacity / band.rate.max(1));
        Buckets {
            unit: meter.unit,
            longest_ms: longest.max().unwrap_or(0),
            used_ms: millis(now),
            total: Counters::default(),
            bands,
        }
    }

    /// Takes a packet's tokens from all buckets that have enough.
    pub(super) fn measure(&mut self, len_bytes: u64, now: Instant) -> MeterVerdict {
        // Invariant 3 of `meters`.
        let now_ms = millis(now).max(self.used_ms);
        let passed_ms = (now_ms - self.used_ms).min(self.longest_ms);
        self.used_ms = now_ms;
        let packet = Counters {
            packets: 1,
            bytes: len_bytes,
        };
        self.total.add(packet);
        let volume = match self.unit {
            RateUnit::Packets => PACKET,
            RateUnit::Kilobits => len_bytes * 8,
        };
        let mut exceeded: Option<&mut Bucket> = None;
        for band in &mut self.bands {
            let filled = band
                .tokens
                .saturating_add(passed_ms.saturating_mul(band.rate));
            band.tokens = filled.min(band.capacity);
            if band.tokens >= volume {
                band.tokens -= volume;
            } else if exceeded.as_ref().is_none_or(|known| band.rate > known.rate) {
                exceeded = Some(band);
            }
        }
        match exceeded {
            Some(band) => {
                band.exceeding.add(packet);
                MeterVerdict::Exceeds(band.kind)
            }
            None => MeterVerdict::Pass,
        }
    }

    /// Goes on from earlier counts.
    pub(super) fn resume(&mut self, counts: &MeterCounts) {
        self.total = counts.total;
        for (band, exceeding) in self.bands.iter_mut().zip(&counts.bands) {
            band.exceeding = *exceeding;
        }
    }

    /// The counts.
    pub(super) fn counts(&self) -> MeterCounts {
        MeterCounts {
            total: self.total,
            bands: self.bands.iter().map(|band| band.exceeding).collect(),
        }
    }
}

fn millis(now: Instant) -> u64 {
    now.as_nanos() / 1_000_000
}
