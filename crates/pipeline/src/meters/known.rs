//! Which meters exist at each version, and their places.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use thalweg_classifier::Version;

use super::{ExistingMeter, MAX_METERS, MeterId, MeterPlace, Meters};
use crate::action::Action;
use crate::bridge::BridgeId;
use crate::change::meters_named;
use crate::history::History;
use crate::pipeline::Pipeline;

/// The meters of a pipeline.
#[derive(Debug, Default)]
pub(crate) struct KnownMeters {
    pub(crate) histories: BTreeMap<MeterId, History<Arc<ExistingMeter>>>,
    /// Places below `next` that are free.
    free: BTreeSet<MeterPlace>,
    /// The first place that was never taken.
    next: u32,
    buckets: Arc<Meters>,
}

impl KnownMeters {
    /// Takes the lowest free place; `None` if there is none.
    pub(crate) fn take_place(&mut self) -> Option<MeterPlace> {
        if let Some(place) = self.free.pop_first() {
            return Some(place);
        }
        let place = MeterPlace(self.next);
        (place.0 < MAX_METERS).then(|| {
            self.next += 1;
            place
        })
    }

    /// Gives back a place.
    pub(crate) fn free_place(&mut self, place: MeterPlace) {
        self.buckets.clear(place);
        self.free.insert(place);
    }

    /// Fills the buckets of a meter that a change has set.
    pub(crate) fn fill(&self, id: MeterId, version: Version) {
        let known = self.histories.get(&id);
        if let Some(known) = known.and_then(|history| history.at(version)) {
            self.buckets.set(known.place, &known.meter, known.set_at);
        }
    }
}

impl Pipeline {
    /// A meter at a version.
    pub fn meter(&self, id: MeterId, version: Version) -> Option<&Arc<ExistingMeter>> {
        self.meters.histories.get(&id)?.at(version)
    }

    /// The meters of a bridge at a version, in the order of their numbers.
    pub fn meters_of(
        &self,
        bridge: BridgeId,
        version: Version,
    ) -> impl Iterator<Item = &Arc<ExistingMeter>> {
        let range = bridge.meter(0)..=bridge.meter(u32::MAX);
        let known = self.meters.histories.range(range);
        known.filter_map(move |(_, history)| history.at(version))
    }

    /// The meters of all bridges at a version.
    pub fn all_meters(&self, version: Version) -> impl Iterator<Item = &Arc<ExistingMeter>> {
        let known = self.meters.histories.values();
        known.filter_map(move |history| history.at(version))
    }

    /// The buckets of all meters, which packets are measured by.
    pub fn meters(&self) -> &Arc<Meters> {
        &self.meters.buckets
    }

    /// How many rules of the newest version use each meter of a bridge. Looks at all rules.
    pub fn users_of_meters(&self, bridge: BridgeId) -> BTreeMap<MeterId, u32> {
        let mut users = BTreeMap::new();
        if self.meters_of(bridge, self.version()).next().is_none() {
            return users;
        }
        for (_, rule) in self.rules(self.version()) {
            for id in meters_used(&rule.actions) {
                if id.bridge() == bridge {
                    *users.entry(id).or_default() += 1;
                }
            }
        }
        users
    }
}

/// The meters that a list of actions names, each once.
fn meters_used(list: &[Action]) -> BTreeSet<MeterId> {
    let mut used = BTreeSet::new();
    meters_named(list, &mut |id| {
        used.insert(id);
    });
    used
}
