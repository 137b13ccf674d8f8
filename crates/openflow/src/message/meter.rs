//! Meters: changes, configuration, statistics (OpenFlow 1.3 and later).

use crate::message::counts::{Counts, Duration};

/// The largest number of a meter.
pub const MAX_METER: u32 = 0xffff_0000;
/// The meter of packets for the slow path.
pub const SLOWPATH_METER: u32 = 0xffff_fffd;
/// The meter of packets for controllers.
pub const CONTROLLER_METER: u32 = 0xffff_fffe;
/// All meters.
pub const ALL_METERS: u32 = 0xffff_ffff;

/// A change of a meter (`OFPT_METER_MOD`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MeterMod {
    /// The kind of change.
    pub command: MeterCommand,
    /// The meter.
    pub meter: MeterConfig,
}

/// What a [`MeterMod`] does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MeterCommand {
    /// Adds a meter.
    Add = 0,
    /// Changes a meter.
    Modify = 1,
    /// Removes a meter, or all.
    Delete = 2,
}

/// A meter's configuration (`OFPMP_METER_CONFIG`, later `OFPMP_METER_DESC`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MeterConfig {
    /// The meter.
    pub id: u32,
    /// Bits of `OFPMF_*`.
    pub flags: u16,
    /// Its bands.
    pub bands: Vec<MeterBand>,
}

/// Bits of a meter's flags.
pub mod flags {
    /// Rates are in kbit/s.
    pub const KBPS: u16 = 1 << 0;
    /// Rates are in packets a second.
    pub const PKTPS: u16 = 1 << 1;
    /// Bands have a burst.
    pub const BURST: u16 = 1 << 2;
    /// Statistics are kept.
    pub const STATS: u16 = 1 << 3;
}

/// A band: what happens to packets above a rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MeterBand {
    /// 1 drops, 2 lowers the drop precedence of the DSCP.
    pub kind: u16,
    /// The rate above which it acts.
    pub rate: u32,
    /// The burst that is let through.
    pub burst: u32,
    /// By how much the drop precedence rises.
    pub precedence: u8,
}

/// A band that drops.
pub const BAND_DROP: u16 = 1;
/// A band that remarks the DSCP.
pub const BAND_DSCP_REMARK: u16 = 2;

/// A meter's statistics (`OFPMP_METER`, later `OFPMP_METER_STATS`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MeterStats {
    /// The meter.
    pub id: u32,
    /// How many flow entries use it.
    pub flows: u32,
    /// What came in.
    pub counts: Counts,
    /// How long it exists.
    pub duration: Duration,
    /// What each band met.
    pub bands: Vec<Counts>,
}

/// What meters can do (`OFPMP_METER_FEATURES`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MeterFeatures {
    /// Most meters.
    pub max_meters: u32,
    /// Bits of the band types that exist.
    pub bands: u32,
    /// Bits of `OFPMF_*`.
    pub capabilities: u32,
    /// Most bands of a meter.
    pub max_bands: u8,
    /// Most colours.
    pub max_colors: u8,
    /// Bits of `OFPMFF_*` (OpenFlow 1.5).
    pub features: u32,
}
