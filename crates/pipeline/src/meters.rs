//! Meters: how many packets or bits a second go on.
//!
//! A meter has bands. Each band is a bucket of tokens that fills at the band's rate and holds
//! its burst. A packet takes tokens from every bucket that has enough of them. If some bucket
//! has too few, the packet counts in the band with the highest rate among those, and the band
//! drops it. This is what Open vSwitch's userspace datapath does (`dp_netdev_run_meter` in
//! `lib/dpif-netdev.c`), packet by packet instead of burst by burst:
//!
//! ```text
//!   measure(packet, now):
//!     passed = whole milliseconds since the last packet, at most the longest that a bucket takes
//!     for band: bucket = min(bucket + passed * rate, burst * 1000)
//!               bucket >= volume ? bucket -= volume : the packet exceeds the band
//!     volume: 1000 for a rate in packets a second, the packet's bits for one in kbit/s
//! ```
//!
//! The longest time is in whole milliseconds, rounded down, as in Open vSwitch. So a bucket whose
//! rate does not divide what it holds is not quite full after a long silence, and one that
//! fills in less than a millisecond never fills again.
//!
//! The pipeline knows which meters exist at each version, and each has a *place*: its number
//! among the meters of all bridges, which Open vSwitch's datapath has too. [`crate::Effect`]
//! names the place. [`Meters`] holds the buckets by place, shared by all workers; a packet
//! locks the bucket of one meter.
//!
//! Instead, a band can remark: the packet goes on with a higher drop precedence in its DSCP
//! (OpenFlow 1.3.5, section 5.7.1), which Open vSwitch's datapath refuses. Rules behind the meter
//! can match the DSCP. So a walk ends at a meter with such a band, and the packet is looked up
//! again with what the meter has made of it.
//!
//! 1. What a meter does to a packet is decided when the effects run, and never remembered. So a
//!    meter that is modified changes no effects: the next packet meets it as it then is. Only
//!    whether it has bands that remark changes them.
//! 2. A place is free again only when no reader has a version at which its meter exists.
//! 3. Time never goes back in a meter: of two workers, the later time counts.
//! 4. The sum of all packets that meters let through is what one worker would let through at
//!    the same times.
//! 5. A packet whose effects do not end at the meter is never remarked by it: it goes on as it is.

mod bucket;
mod known;
#[cfg(test)]
mod tests;

use std::sync::{Mutex, MutexGuard, OnceLock};

use thalweg_packet::Instant;

use self::bucket::Buckets;
pub(crate) use self::known::KnownMeters;
use crate::bridge::BridgeId;
use crate::pipeline::Counters;

/// A meter: its number, and above it the bridge's ([`crate::BridgeId`]).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MeterId(pub u64);

/// Highest number of a meter that rules can name (OpenFlow `OFPM_MAX`).
pub(crate) const MAX_METER: u32 = 0xffff_0000;

impl MeterId {
    /// The number of the meter of packets that the slow path handles (`OFPM_SLOWPATH`).
    pub const SLOW_PATH: u32 = 0xffff_fffd;

    /// The number of the meter of packets for controllers (`OFPM_CONTROLLER`).
    pub const CONTROLLER: u32 = 0xffff_fffe;

    /// The meter's number in its bridge.
    pub fn number(self) -> u32 {
        self.0 as u32
    }

    /// The meter's bridge.
    pub fn bridge(self) -> BridgeId {
        BridgeId((self.0 >> 32) as u16)
    }
}

/// A meter's number among those of all bridges, as Open vSwitch's datapath numbers meters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MeterPlace(pub u32);

/// What the rates of a meter count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RateUnit {
    /// Kilobits a second.
    Kilobits,
    /// Packets a second.
    Packets,
}

/// What a band does to packets above its rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BandKind {
    /// Drops them.
    Drop,
    /// Raises the drop precedence of their DSCP.
    Remark {
        /// By how many levels; 3 and more raise it to the highest.
        levels: u8,
    },
}

/// What a meter says of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MeterVerdict {
    /// It goes on.
    Pass,
    /// It exceeds a band of this kind.
    Exceeds(BandKind),
}

/// A band: a rate, and what happens to packets above it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RateBand {
    /// What happens to them.
    pub kind: BandKind,
    /// The rate; not 0.
    pub rate: u32,
    /// The burst, in kilobits or packets; not 0.
    pub burst: u32,
}

/// A meter as it is asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RateMeter {
    /// Its number.
    pub id: MeterId,
    /// What its rates count.
    pub unit: RateUnit,
    /// Its bands.
    pub bands: Box<[RateBand]>,
    /// Whether bursts were asked for (`OFPMF_BURST`); a dump tells.
    pub has_burst: bool,
    /// Whether statistics were asked for (`OFPMF_STATS`); a dump tells. They are always kept.
    pub has_statistics: bool,
}

/// Most meters of all bridges together, as Open vSwitch's userspace datapath has.
pub const MAX_METERS: u32 = 1 << 18;

/// Most bands of a meter, as Open vSwitch's userspace datapath has.
pub const MAX_BANDS: usize = 8;

impl RateMeter {
    /// Whether it has a band that remarks packets.
    pub fn remarks(&self) -> bool {
        let mut kinds = self.bands.iter().map(|band| band.kind);
        kinds.any(|kind| kind != BandKind::Drop)
    }

    /// The first fault; `None` if the meter is valid.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        let number = self.id.number();
        let is_reserved = matches!(number, MeterId::SLOW_PATH | MeterId::CONTROLLER);
        if number == 0 || number > MAX_METER && !is_reserved {
            Some(
                "meters have numbers from 1 to 4294901760, or are those of slow path or controller",
            )
        } else if self.bands.is_empty() || self.bands.len() > MAX_BANDS {
            Some("a meter has 1 to 8 bands")
        } else if self
            .bands
            .iter()
            .any(|band| band.rate == 0 || band.burst == 0)
        {
            Some("the rate and the burst of a band are not 0")
        } else if number == MeterId::SLOW_PATH && self.remarks() {
            Some("the meter of the slow path only drops")
        } else {
            None
        }
    }
}

/// A meter that exists.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExistingMeter {
    /// What it does.
    pub meter: RateMeter,
    /// Where its buckets are.
    pub place: MeterPlace,
    /// When it was added.
    pub created_at: Instant,
    /// When it was added or last modified: its buckets were full then, and its counts zero.
    pub set_at: Instant,
}

/// What a meter has counted since it was added or last modified.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MeterCounts {
    /// All packets that it measured.
    pub total: Counters,
    /// The packets that exceeded each band.
    pub bands: Vec<Counters>,
}

/// Places in one allocation.
const PLACES_PER_CHUNK: usize = 1 << 10;

/// Number of such allocations.
const CHUNKS: usize = MAX_METERS as usize / PLACES_PER_CHUNK;

/// A place: locked by each packet that is measured there.
type Place = Mutex<Option<Box<Buckets>>>;

/// Places that are allocated together.
type Chunk = OnceLock<Box<[Place]>>;

/// The buckets of all meters, by place; all workers share them.
///
/// Memory for places is allocated a thousand at a time, when the first of them is used, and
/// kept.
///
/// ```
/// use thalweg_packet::Instant;
/// use thalweg_pipeline::{
///     BandKind, MeterId, MeterPlace, MeterVerdict, Meters, RateBand, RateMeter, RateUnit,
/// };
///
/// let meters = Meters::default();
/// let meter = RateMeter {
///     id: MeterId(1),
///     unit: RateUnit::Packets,
///     bands: [RateBand { kind: BandKind::Drop, rate: 1, burst: 2 }].into(),
///     has_burst: true,
///     has_statistics: false,
/// };
/// let (place, now) = (MeterPlace(0), Instant::ZERO);
/// meters.set(place, &meter, now);
/// let verdicts = [(); 3].map(|()| meters.measure(place, 60, now));
/// let above = MeterVerdict::Exceeds(BandKind::Drop);
/// assert_eq!(verdicts, [MeterVerdict::Pass, MeterVerdict::Pass, above]);
/// assert_eq!(meters.counts(place).total.packets, 3);
/// ```
#[derive(Debug, Default)]
pub struct Meters {
    chunks: OnceLock<Box<[Chunk]>>,
}

impl Meters {
    /// Gives a place a meter with full buckets, instead of the one that is there.
    ///
    /// # Panics
    /// If the place is not below [`MAX_METERS`].
    pub fn set(&self, place: MeterPlace, meter: &RateMeter, now: Instant) {
        let buckets = Box::new(Buckets::new(meter, now));
        let former = self.lock_or_new(place).replace(buckets);
        // Freed without the lock.
        drop(former);
    }

    /// Leaves a place without a meter: packets pass it.
    pub fn clear(&self, place: MeterPlace) {
        let former = self.lock(place).and_then(|mut guard| guard.take());
        drop(former);
    }

    /// Measures a packet of `len_bytes` bytes.
    pub fn measure(&self, place: MeterPlace, len_bytes: usize, now: Instant) -> MeterVerdict {
        let Some(mut guard) = self.lock(place) else {
            return MeterVerdict::Pass;
        };
        guard.as_mut().map_or(MeterVerdict::Pass, |buckets| {
            buckets.measure(len_bytes as u64, now)
        })
    }

    /// Lets the meter of a place go on from counts that one like it had.
    pub fn resume(&self, place: MeterPlace, counts: &MeterCounts) {
        if let Some(mut guard) = self.lock(place)
            && let Some(buckets) = guard.as_mut()
        {
            buckets.resume(counts);
        }
    }

    /// What the meter of a place has counted.
    pub fn counts(&self, place: MeterPlace) -> MeterCounts {
        let guard = self.lock(place);
        let buckets = guard.as_ref().and_then(|guard| guard.as_ref());
        buckets.map_or_else(MeterCounts::default, |buckets| buckets.counts())
    }

    fn chunk(place: MeterPlace) -> (usize, usize) {
        let place = place.0 as usize;
        (place / PLACES_PER_CHUNK, place % PLACES_PER_CHUNK)
    }

    fn lock(&self, place: MeterPlace) -> Option<MutexGuard<'_, Option<Box<Buckets>>>> {
        let (chunk, index) = Meters::chunk(place);
        let places = self.chunks.get()?.get(chunk)?.get()?;
        Some(lock(&places[index]))
    }

    fn lock_or_new(&self, place: MeterPlace) -> MutexGuard<'_, Option<Box<Buckets>>> {
        let (chunk, index) = Meters::chunk(place);
        let chunks = self.chunks.get_or_init(|| {
            let chunks = std::iter::repeat_with(OnceLock::new);
            chunks.take(CHUNKS).collect()
        });
        let places = chunks[chunk].get_or_init(|| {
            let places = std::iter::repeat_with(Place::default);
            places.take(PLACES_PER_CHUNK).collect()
        });
        lock(&places[index])
    }
}

fn lock(place: &Place) -> MutexGuard<'_, Option<Box<Buckets>>> {
    place.lock().expect("no code panics while it holds a meter")
}
