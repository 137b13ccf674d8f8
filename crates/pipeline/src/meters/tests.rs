//! The buckets against Open vSwitch's own arithmetic, burst by burst, and by several threads.

use std::sync::Arc;
use std::thread;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;

/// What a meter does to bursts, as `dp_netdev_run_meter` of Open vSwitch 3.1 says it.
struct BurstMeter {
    meter: RateMeter,
    /// The tokens of each band.
    buckets: Vec<u128>,
    /// Microseconds.
    used: u128,
    counts: MeterCounts,
}

impl BurstMeter {
    fn new(meter: &RateMeter, now: u128) -> BurstMeter {
        BurstMeter {
            meter: meter.clone(),
            buckets: meter.bands.iter().map(capacity).collect(),
            used: now,
            counts: MeterCounts {
                total: Counters::default(),
                bands: vec![Counters::default(); meter.bands.len()],
            },
        }
    }

    /// What becomes of packets of these lengths at `now`.
    fn run(&mut self, lengths: &[u64], now: u128) -> Vec<MeterVerdict> {
        let bands = self.meter.bands.iter();
        let longest = bands
            .map(|band| capacity(band) / u128::from(band.rate))
            .max();
        let passed = (now / 1_000 - self.used / 1_000).min(longest.unwrap_or(0));
        self.used = now;
        for length in lengths {
            count(&mut self.counts.total, *length);
        }
        let in_packets = self.meter.unit == RateUnit::Packets;
        let volume = |length: u64| match in_packets {
            true => 1_000,
            false => u128::from(length) * 8,
        };
        let whole: u128 = lengths.iter().map(|length| volume(*length)).sum();
        let mut exceeded: Vec<Option<usize>> = vec![None; lengths.len()];
        let mut rates = vec![0; lengths.len()];
        for (number, band) in self.meter.bands.iter().enumerate() {
            let bucket = &mut self.buckets[number];
            *bucket = (*bucket + passed * u128::from(band.rate)).min(capacity(band));
            if *bucket >= whole {
                *bucket -= whole;
                continue;
            }
            for (index, length) in lengths.iter().enumerate() {
                if *bucket >= volume(*length) {
                    *bucket -= volume(*length);
                } else if band.rate > rates[index] {
                    (rates[index], exceeded[index]) = (band.rate, Some(number));
                }
            }
        }
        for (band, length) in exceeded.iter().zip(lengths) {
            if let Some(band) = band {
                count(&mut self.counts.bands[*band], *length);
            }
        }
        let bands = &self.meter.bands;
        let verdicts = exceeded.into_iter().map(|band| match band {
            Some(band) => MeterVerdict::Exceeds(bands[band].kind),
            None => MeterVerdict::Pass,
        });
        verdicts.collect()
    }
}

fn capacity(band: &RateBand) -> u128 {
    u128::from(band.burst) * 1_000
}

fn count(counters: &mut Counters, bytes: u64) {
    counters.add(Counters { packets: 1, bytes });
}

fn meter(unit: RateUnit, bands: &[(u32, u32)]) -> RateMeter {
    let bands = bands.iter().map(|&(rate, burst)| RateBand {
        kind: BandKind::Drop,
        rate,
        burst,
    });
    RateMeter {
        id: MeterId(1),
        unit,
        bands: bands.collect(),
        has_burst: true,
        has_statistics: true,
    }
}

const PLACE: MeterPlace = MeterPlace(1_025);

fn at(micros: u128) -> Instant {
    Instant::from_nanos((micros * 1_000) as u64)
}

fn meters() -> impl Strategy<Value = RateMeter> {
    let unit = select(vec![RateUnit::Kilobits, RateUnit::Packets]);
    let number = || prop_oneof![8 => 1..40_u32, 1 => Just(u32::MAX), 1 => Just(1)];
    let bands = vec((number(), number(), prop::option::of(0..9_u8)), 1..5);
    (unit, bands).prop_map(|(unit, bands)| {
        let rates: Vec<(u32, u32)> = bands.iter().map(|band| (band.0, band.1)).collect();
        let mut meter = meter(unit, &rates);
        for (band, (_, _, levels)) in meter.bands.iter_mut().zip(bands) {
            band.kind = levels.map_or(BandKind::Drop, |levels| BandKind::Remark { levels });
        }
        meter
    })
}

/// Whether the meter lets the next packet go on as it is.
fn passes(meters: &Meters, place: MeterPlace, len_bytes: usize, now: Instant) -> bool {
    meters.measure(place, len_bytes, now) == MeterVerdict::Pass
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(4000)
    })]

    /// A packet at a time, the same packets go on as in Open vSwitch by bursts.
    #[test]
    fn packets_go_on_as_in_open_vswitch(
        meter in meters(),
        bursts in vec((0..3_000_u128, vec(14..3_000_u64, 1..8)), 1..40),
        begin in 0..5_000_u128,
    ) {
        let meters = Meters::default();
        meters.set(PLACE, &meter, at(begin));
        let mut slow = BurstMeter::new(&meter, begin);
        let mut now = begin;
        for (passed, lengths) in bursts {
            now += passed;
            let expected = slow.run(&lengths, now);
            let lengths = lengths.into_iter();
            let told = lengths.map(|length| meters.measure(PLACE, length as usize, at(now)));
            prop_assert_eq!(told.collect::<Vec<MeterVerdict>>(), expected);
        }
        prop_assert_eq!(meters.counts(PLACE), slow.counts);
    }

    /// However late a packet comes, nothing overflows, and no time brings more than a long one.
    #[test]
    fn long_silence_is_as_long_as_any(meter in meters(), nanos in any::<u64>()) {
        let late = [u64::MAX / 3, nanos.max(u64::MAX / 3)].map(|late| {
            let meters = Meters::default();
            meters.set(PLACE, &meter, Instant::ZERO);
            for _ in 0..100 {
                meters.measure(PLACE, 1_000, Instant::ZERO);
            }
            let late = Instant::from_nanos(late);
            (0..100).filter(|_| passes(&meters, PLACE, 1_000, late)).count()
        });
        prop_assert_eq!(late[0], late[1]);
    }
}

#[test]
fn the_band_with_the_highest_rate_counts_the_packet() {
    let meters = Meters::default();
    let bands = [(2, 1), (9, 1), (9, 1), (3, 5)];
    meters.set(PLACE, &meter(RateUnit::Packets, &bands), Instant::ZERO);
    let passed = [(); 2].map(|()| passes(&meters, PLACE, 60, Instant::ZERO));
    assert_eq!(passed, [true, false]);
    let packets = meters.counts(PLACE).bands.into_iter();
    let packets: Vec<u64> = packets.map(|band| band.packets).collect();
    assert_eq!(packets, [0, 1, 0, 0]);
}

#[test]
fn only_a_place_with_a_meter_stops_packets() {
    let meters = Meters::default();
    let passes = |place| passes(&meters, MeterPlace(place), 60, Instant::ZERO);
    assert!(passes(0) && passes(MAX_METERS - 1) && passes(u32::MAX));
    let one = meter(RateUnit::Packets, &[(1, 1)]);
    meters.set(MeterPlace(MAX_METERS - 1), &one, Instant::ZERO);
    assert!(passes(MAX_METERS - 1) && !passes(MAX_METERS - 1) && passes(MAX_METERS - 2));
    // Set again, it is full and has counted nothing.
    meters.set(MeterPlace(MAX_METERS - 1), &one, Instant::ZERO);
    assert!(passes(MAX_METERS - 1));
    assert_eq!(meters.counts(MeterPlace(MAX_METERS - 1)).total.packets, 1);
    meters.clear(MeterPlace(MAX_METERS - 1));
    assert!(passes(MAX_METERS - 1));
    assert_eq!(
        meters.counts(MeterPlace(MAX_METERS - 1)),
        MeterCounts::default()
    );
}

/// Invariants 3 and 4: several workers, whose times differ, let through what one would.
#[test]
fn workers_share_the_tokens() {
    const WORKERS: u64 = 4;
    const PACKETS: u64 = 20_000;
    let meters = Arc::new(Meters::default());
    meters.set(PLACE, &meter(RateUnit::Packets, &[(7_000, 1_234)]), at(0));
    let workers = (0..WORKERS).map(|worker| {
        let meters = meters.clone();
        thread::spawn(move || {
            let packets = (0..PACKETS).map(|packet| {
                // Up to 3 ms, in another order on each worker; the last is the latest.
                let micros = (packet * (worker + 1) * 31) % 3_000;
                let micros = if packet + 1 == PACKETS { 3_000 } else { micros };
                u64::from(passes(&meters, PLACE, 100, at(micros.into())))
            });
            packets.sum::<u64>()
        })
    });
    let workers: Vec<_> = workers.collect();
    let passed = workers
        .into_iter()
        .map(|worker| worker.join().expect("it ends"));
    let passed: u64 = passed.sum();
    // 3 ms at 7,000 packets a second are 21 packets beside the burst.
    assert_eq!(passed, 1_234 + 21);
    let counts = meters.counts(PLACE);
    assert_eq!(counts.total.packets, WORKERS * PACKETS);
    assert_eq!(counts.bands[0].packets, WORKERS * PACKETS - passed);
    assert_eq!(counts.bands[0].bytes, 100 * counts.bands[0].packets);
}
