//! The stations that `normal` has learned, and the port of each.
//!
//! A learning switch's table (IEEE 802.1Q, clause 8.8) is an input of the pipeline like its
//! rules, so it is versioned like them. What a packet teaches takes effect at a later version,
//! as a [`MacMove`] in a [`crate::Change`], and a lookup names the version it reads. So the
//! answer to a packet depends on its version alone, in the caches and in the interpreter
//! alike.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, DefaultHasher};

use thalweg_classifier::Version;
use thalweg_packet::PortId;

use crate::bridge::BridgeId;
use crate::history::History;

/// A station, identified by bridge, VLAN and Ethernet address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Station {
    /// The bridge that saw it.
    pub bridge: BridgeId,
    /// The VLAN; 0 for untagged packets.
    pub vlan: u16,
    /// The Ethernet address, in the lower 48 bits.
    pub mac: u64,
}

/// Records that a station was seen at a port, or has been silent for too long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MacMove {
    /// The station.
    pub station: Station,
    /// Its new port; `None` to forget the station.
    pub port: Option<PortId>,
}

/// The stations, and the port of each at every version that a reader may still use.
#[derive(Clone, Debug, Default)]
pub struct MacTable {
    /// Hashed without a random seed; the capacity bounds what crafted addresses can cost.
    stations: HashMap<Station, History<PortId>, BuildHasherDefault<DefaultHasher>>,
}

impl MacTable {
    /// The station's port at `version`, if it is known.
    pub fn lookup(&self, station: Station, version: Version) -> Option<PortId> {
        self.stations.get(&station)?.at(version).copied()
    }

    /// How many stations are known, at any version.
    pub fn len(&self) -> usize {
        self.stations.len()
    }

    /// Whether no station is known.
    pub fn is_empty(&self) -> bool {
        self.stations.is_empty()
    }

    /// The stations known at `version`, in no order.
    pub fn stations(&self, version: Version) -> impl Iterator<Item = (Station, PortId)> {
        let known = self.stations.iter();
        known.filter_map(move |(station, history)| Some((*station, *history.at(version)?)))
    }

    pub(crate) fn record(&mut self, change: MacMove, since: Version) {
        self.stations
            .entry(change.station)
            .or_default()
            .record(since, change.port);
    }

    /// Drops the state of a station recorded for `version`, which must be the last.
    pub(crate) fn abort(&mut self, station: Station, version: Version) {
        if let Some(history) = self.stations.get_mut(&station)
            && history.abort(version)
        {
            self.stations.remove(&station);
        }
    }

    /// Drops states of a station that no version from `oldest` on can see.
    pub(crate) fn reclaim(&mut self, station: Station, oldest: Version) {
        if let Some(history) = self.stations.get_mut(&station)
            && history.reclaim(oldest)
        {
            self.stations.remove(&station);
        }
    }
}
