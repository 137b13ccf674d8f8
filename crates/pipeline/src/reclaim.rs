//! Frees rules and states that only older versions could see, in steps.
//!
//! Every change leaves behind dead rules, and former states of groups, ports and stations. They
//! are listed by version when they are left ([`Leavings`]). So the cost of reclaiming depends
//! only on their number, however many rules are alive.
//!
//! 1. Each list is sorted by version: a change appends at its end, undoing takes from there.
//! 2. A state listed at a version may already be gone, if the state before it was reclaimed
//!    with the same history.

use std::collections::{BTreeMap, VecDeque};

use thalweg_classifier::{RuleId, Version};
use thalweg_packet::PortId;

use crate::action::GroupId;
use crate::bridge::BridgeId;
use crate::history::History;
use crate::mac::Station;
use crate::meters::{MeterId, MeterPlace};
use crate::pipeline::{GroupCounters, Pipeline, Rule};
use crate::prepare::{Progress, Slice};

/// The states to reclaim later, each with the version at which it was left.
#[derive(Debug, Default)]
pub(crate) struct Leavings {
    /// How many rules died at each version.
    deaths: VecDeque<(Version, usize)>,
    touched: VecDeque<(Version, Touched)>,
    /// Undo records of published changes; freed a bit at a time.
    slices: Vec<Slice>,
    /// The latest version that the tables have been told to reclaim.
    settled: Version,
}

impl Leavings {
    pub(crate) fn add_slices(&mut self, mut slices: Vec<Slice>) {
        match self.slices.is_empty() {
            true => self.slices = slices,
            false => self.slices.append(&mut slices),
        }
    }

    fn forget_slices(&mut self, left: &mut usize) {
        while *left > 0 && self.slices.pop().is_some() {
            *left -= 1;
        }
        if *left > 0 {
            self.slices = Vec::new();
        }
    }
}

/// Something that has a former state.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Touched {
    Group(GroupId),
    /// A group has replaced another, and begins with its counters.
    GroupCounters(GroupId),
    Meter(MeterId),
    /// The place of a meter that was removed.
    MeterPlace(MeterPlace),
    Port(PortId),
    PortVlans(PortId),
    Mirrors(BridgeId),
    Bpdus(BridgeId),
    Misses(BridgeId),
    Fragments(BridgeId),
    Station(Station),
}

/// The free places for rules.
///
/// 1. A place in `free` may no longer exist, but none is listed twice: new places are made
///    only when `free` is empty.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places {
    free: Vec<RuleId>,
    used: usize,
}

/// Spare room of this many places never triggers shrinking.
const FREE_MIN: usize = 1_024;

/// Places at the end that each part of a step gives back.
const TRIMMED_PER_PART: usize = 64;

impl Places {
    /// Number of places in use.
    pub(crate) fn used(&self) -> usize {
        self.used
    }

    /// Takes a free place or a new one; returns whether it is new.
    pub(crate) fn take(&mut self, rules: &mut Vec<Option<Rule>>) -> (RuleId, bool) {
        self.used += 1;
        while let Some(id) = self.free.pop() {
            if (id.0 as usize) < rules.len() {
                return (id, false);
            }
        }
        rules.push(None);
        (RuleId(rules.len() as u32 - 1), true)
    }

    /// Undoes the last [`Places::take`] not yet undone.
    pub(crate) fn give_back(
        &mut self,
        rules: &mut Vec<Option<Rule>>,
        id: RuleId,
        is_new_place: bool,
    ) {
        self.used -= 1;
        rules[id.0 as usize] = None;
        if is_new_place {
            debug_assert_eq!(id.0 as usize, rules.len() - 1, "the newest place is last");
            rules.pop();
        } else {
            self.free.push(id);
        }
    }

    /// Frees the place of a rule.
    pub(crate) fn free(&mut self, rules: &mut [Option<Rule>], id: RuleId) {
        self.used -= 1;
        rules[id.0 as usize] = None;
        self.free.push(id);
    }

    /// Gives back up to `places` free places at the end, and memory if few are left; returns
    /// whether that is finished.
    pub(crate) fn trim(&mut self, rules: &mut Vec<Option<Rule>>, places: usize) -> bool {
        for _ in 0..places {
            match rules.last() {
                Some(None) => drop(rules.pop()),
                _ => {
                    self.shrink(rules);
                    return true;
                }
            }
        }
        false
    }

    fn shrink(&mut self, rules: &mut Vec<Option<Rule>>) {
        let len = rules.len();
        if rules.capacity() > 4 * len + FREE_MIN {
            rules.shrink_to(2 * len);
        }
        if self.free.len() > 2 * (len - self.used) + FREE_MIN {
            self.free.retain(|id| (id.0 as usize) < len);
        }
        if self.free.capacity() > 4 * self.free.len() + FREE_MIN {
            self.free.shrink_to(2 * self.free.len());
        }
    }
}

impl Pipeline {
    /// Drops what no version from `oldest` on can see.
    ///
    /// # Panics
    /// If `oldest` is not published.
    pub fn reclaim(&mut self, oldest: Version) {
        while self.reclaim_some(oldest, usize::MAX) == Progress::Unfinished {}
    }

    /// Drops up to `parts` rules and former states, or as many as fill a slice.
    ///
    /// Changes may be begun and performed in between.
    ///
    /// # Panics
    /// If `oldest` is not published.
    pub fn reclaim_some(&mut self, oldest: Version, parts: usize) -> Progress {
        assert!(oldest <= self.version, "{oldest} is not published");
        let mut left = parts.max(1);
        self.reclaim_rules(oldest, &mut left);
        self.reclaim_left_behind(oldest, &mut left);
        self.reclaim_touched(oldest, &mut left);
        self.leavings.forget_slices(&mut left);
        let places = left.saturating_mul(TRIMMED_PER_PART);
        if left == 0 || !self.places.trim(&mut self.rules, places) {
            return Progress::Unfinished;
        }
        if self.leavings.settled < oldest {
            // No rule is left to reclaim, but tables must also forget what can no longer be
            // undone.
            self.reclaim_tables(oldest);
        }
        Progress::Finished
    }

    /// Records that a rule died at the version being prepared.
    pub(crate) fn count_death(&mut self, version: Version) {
        match self.leavings.deaths.back_mut() {
            Some((last, count)) if *last == version => *count += 1,
            _ => self.leavings.deaths.push_back((version, 1)),
        }
    }

    /// Records that something changed state at the version being prepared.
    pub(crate) fn touch(&mut self, touched: Touched) {
        let version = self.open_version();
        self.leavings.touched.push_back((version, touched));
    }

    /// Drops the records of a version, which must be the last.
    pub(crate) fn forget_touched(&mut self, version: Version) {
        let Leavings {
            deaths, touched, ..
        } = &mut self.leavings;
        while deaths.pop_back_if(|(last, _)| *last == version).is_some() {}
        while touched.pop_back_if(|(last, _)| *last == version).is_some() {}
    }

    /// Works slice by slice, so that places become free in the same order for any length of
    /// steps.
    fn reclaim_rules(&mut self, oldest: Version, left: &mut usize) {
        let is_due = |(version, _): &mut (Version, usize)| *version <= oldest;
        while *left > 0
            && let Some((version, count)) = self.leavings.deaths.pop_front_if(is_due)
        {
            *left = left.saturating_sub(count);
            self.reclaim_tables(version);
        }
    }

    /// Frees the rules that are dead at `version`, in their tables.
    fn reclaim_tables(&mut self, version: Version) {
        let prepared = self.prepared.as_mut();
        let former = prepared.and_then(|prepared| prepared.former_mut());
        let generation = former.unwrap_or(&mut self.generation);
        let tables = generation.tables.iter_mut().flatten();
        for id in tables.flat_map(|table| table.reclaim(version)) {
            self.places.free(&mut self.rules, id);
        }
        self.leavings.settled = version.max(self.leavings.settled);
    }

    fn reclaim_left_behind(&mut self, oldest: Version, left: &mut usize) {
        while *left > 0
            && let Some((_, id)) = self.left_behind.pop_front_if(|(at, _)| *at <= oldest)
        {
            self.places.free(&mut self.rules, id);
            *left -= 1;
        }
    }

    fn reclaim_touched(&mut self, oldest: Version, left: &mut usize) {
        while *left > 0
            && let Some((at, touched)) = self.leavings.touched.pop_front_if(|(at, _)| *at <= oldest)
        {
            *left -= 1;
            match touched {
                Touched::Group(id) => self.reclaim_group(id, oldest),
                Touched::GroupCounters(id) => self.reset_group(id, at, oldest),
                Touched::Meter(id) => reclaim_in(&mut self.meters.histories, id, oldest),
                // Invariant 2 of `meters`.
                Touched::MeterPlace(place) => self.meters.free_place(place),
                Touched::Misses(bridge) => reclaim_in(&mut self.misses, bridge, oldest),
                Touched::Fragments(bridge) => reclaim_in(&mut self.fragments, bridge, oldest),
                Touched::Station(station) => self.macs.reclaim(station, oldest),
                Touched::Port(id) => {
                    reclaim_in(&mut self.ports, id, oldest);
                    if !self.ports.contains_key(&id) {
                        self.patch_counters.remove(&id);
                    }
                }
                Touched::PortVlans(id) => reclaim_in(&mut self.vlans, id, oldest),
                Touched::Mirrors(bridge) => reclaim_in(&mut self.mirrors, bridge, oldest),
                Touched::Bpdus(bridge) => reclaim_in(&mut self.bpdus, bridge, oldest),
            }
        }
    }

    fn reclaim_group(&mut self, id: GroupId, oldest: Version) {
        if let Some(history) = self.groups.get_mut(&id)
            && history.reclaim(oldest)
        {
            self.groups.remove(&id);
            self.group_counters.remove(&id);
        }
    }

    /// Makes a group that has replaced another count from zero (invariant 6 of the pipeline).
    /// Does nothing if the group is gone or was replaced again.
    fn reset_group(&mut self, id: GroupId, set_at: Version, oldest: Version) {
        let Some(history) = self.groups.get(&id) else {
            return;
        };
        if history.since(oldest) == Some(set_at) && history.at(oldest).is_some() {
            let rooms = history.states().map(|known| known.numbers.len());
            let counters = GroupCounters::zero(rooms.max().unwrap_or(0));
            self.group_counters.insert(id, counters);
        }
    }
}

/// Drops states of one history that no version from `oldest` on can see.
fn reclaim_in<I: Ord, T>(histories: &mut BTreeMap<I, History<T>>, id: I, oldest: Version) {
    if let Some(history) = histories.get_mut(&id)
        && history.reclaim(oldest)
    {
        histories.remove(&id);
    }
}
