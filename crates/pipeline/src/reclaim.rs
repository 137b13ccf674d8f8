//! Giving back what only older versions could see, in steps.
//!
//! Every change leaves behind what it took out: rules that have died, former states of groups,
//! ports and stations. They are listed by version as they are left ([`Leavings`]), so that
//! reclaiming costs what is reclaimed, however much lives.
//!
//! 1. Each list is sorted by version: a change notes at its end, undoing takes from there.
//! 2. A state that is listed at a version may be gone already, as the one before it was reclaimed
//!    with the same history.

use std::collections::VecDeque;

use thalweg_classifier::{RuleId, Version};
use thalweg_packet::PortId;

use crate::action::GroupId;
use crate::mac::Station;
use crate::pipeline::{GroupCounters, Pipeline, Rule};
use crate::prepare::{Progress, Slice};

/// What may be reclaimed some day, and when it was left.
#[derive(Debug, Default)]
pub(crate) struct Leavings {
    /// How many rules have died at a version.
    deaths: VecDeque<(Version, usize)>,
    touched: VecDeque<(Version, Touched)>,
    /// How published changes could have been undone; memory that is freed bit by bit.
    slices: Vec<Slice>,
    /// Up to here the tables have been told.
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

/// Something that has had another state.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Touched {
    Group(GroupId),
    /// A group has taken the place of another, whose counters it begins with.
    GroupCounters(GroupId),
    Port(PortId),
    Station(Station),
}

/// Which places for rules are free.
///
/// 1. A place in `free` may be gone, but none is there twice: new ones are made only when `free`
///    is empty.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places {
    free: Vec<RuleId>,
    used: usize,
}

/// Places that may be kept free without asking whether that is too many.
const FREE_MIN: usize = 1_024;

/// Places at the end that are given back for each part of a step.
const TRIMMED_PER_PART: usize = 64;

impl Places {
    /// How many are taken.
    pub(crate) fn used(&self) -> usize {
        self.used
    }

    /// Takes a free place, or a new one, and says which of the two.
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

    /// Undoes the last [`Places::take`] that is not undone.
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

    /// Gives free places at the end back, so many at most, and memory if few are left; says
    /// whether that is over.
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

    /// The same in steps: drops so many rules and former states, or as many as fill a slice.
    ///
    /// Changes may be begun and done in between.
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
            // No rule is left for it, but tables also forget what can be undone no more.
            self.reclaim_tables(oldest);
        }
        Progress::Finished
    }

    /// Notes that a rule has died at the version being prepared.
    pub(crate) fn count_death(&mut self, version: Version) {
        match self.leavings.deaths.back_mut() {
            Some((last, count)) if *last == version => *count += 1,
            _ => self.leavings.deaths.push_back((version, 1)),
        }
    }

    /// Notes that something has another state at the version being prepared.
    pub(crate) fn touch(&mut self, touched: Touched) {
        let version = self.open_version();
        self.leavings.touched.push_back((version, touched));
    }

    /// Forgets what was noted for a version, the last.
    pub(crate) fn forget_touched(&mut self, version: Version) {
        let Leavings {
            deaths, touched, ..
        } = &mut self.leavings;
        while deaths.pop_back_if(|(last, _)| *last == version).is_some() {}
        while touched.pop_back_if(|(last, _)| *last == version).is_some() {}
    }

    /// Slice by slice, so that places become free in the same order however long the steps are.
    fn reclaim_rules(&mut self, oldest: Version, left: &mut usize) {
        let is_due = |(version, _): &mut (Version, usize)| *version <= oldest;
        while *left > 0
            && let Some((version, count)) = self.leavings.deaths.pop_front_if(is_due)
        {
            *left = left.saturating_sub(count);
            self.reclaim_tables(version);
        }
    }

    /// Frees the rules that are dead at a version, in the tables that have them.
    fn reclaim_tables(&mut self, version: Version) {
        let prepared = self.prepared.as_mut();
        let former = prepared.and_then(|prepared| prepared.former_mut());
        let generation = former.unwrap_or(&mut self.generation);
        let tables = generation.tables.iter_mut().flatten();
        for id in tables.flat_map(|table| table.classifier.reclaim(version)) {
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
                Touched::Station(station) => self.macs.reclaim(station, oldest),
                Touched::Port(id) => {
                    if let Some(history) = self.ports.get_mut(&id)
                        && history.reclaim(oldest)
                    {
                        self.ports.remove(&id);
                    }
                }
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

    /// Lets a group that has taken another's place count from zero, if it is still there
    /// (invariant 6 of the pipeline).
    fn reset_group(&mut self, id: GroupId, set_at: Version, oldest: Version) {
        let Some(history) = self.groups.get(&id) else {
            return;
        };
        if history.since(oldest) == Some(set_at) && history.at(oldest).is_some() {
            let rooms = history.states().map(|group| group.buckets.len());
            let counters = GroupCounters::zero(rooms.max().unwrap_or(0));
            self.group_counters.insert(id, counters);
        }
    }
}
