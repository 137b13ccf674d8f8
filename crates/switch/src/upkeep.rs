//! What follows from changes and from time, the same for one thread and for many.
//!
//! [`crate::Engine`] and [`crate::Switch`] differ in how caches are told of a change. What happens
//! around that is here: stations age, timeouts end rules, and rules whose end is to be reported
//! are reported with all that they have counted.
//!
//! 1. [`Upkeep::conclude`] comes last in a change: every cache has followed it, and what the
//!    caches had counted is settled. Only then may the pipeline forget the version before, which
//!    is the caller's to do.
//! 2. What nobody collects does not grow without end: reports beyond [`MAX_REMOVALS`] are counted
//!    and dropped.

use thalweg_packet::{Instant, PortId};
use thalweg_pipeline::{
    Change, Delta, MacMove, Operation, Pipeline, PortState, RuleId, Selector, Station,
};

use crate::aging::Aging;
use crate::engine::{Removal, RemovalReason};
use crate::timeouts::{Due, Timeouts};

/// Reports of ended rules that wait to be collected.
const MAX_REMOVALS: usize = 65_536;

/// Stations, timeouts and reports.
#[derive(Debug)]
pub(crate) struct Upkeep {
    aging: Aging,
    timeouts: Timeouts,
    removals: Vec<Removal>,
    removals_refused: u64,
}

/// Rules whose time is over: the change that ends them, and why.
#[derive(Debug)]
pub(crate) struct Expired {
    pub(crate) change: Change,
    pub(crate) reasons: Vec<(RuleId, RemovalReason)>,
}

impl Upkeep {
    /// For this many stations.
    pub(crate) fn new(stations: usize) -> Upkeep {
        Upkeep {
            aging: Aging::new(stations),
            timeouts: Timeouts::default(),
            removals: Vec::new(),
            removals_refused: 0,
        }
    }

    /// Another number of stations.
    pub(crate) fn set_stations(&mut self, stations: usize) {
        self.aging.capacity = stations;
    }

    /// A station was seen; says whether the pipeline has to know.
    pub(crate) fn see(&mut self, station: Station, port: PortId, now: Instant) -> Option<MacMove> {
        self.aging.see(station, port, now)
    }

    /// Stations that were not remembered because there was no room.
    pub(crate) fn stations_refused(&self) -> u64 {
        self.aging.refused
    }

    /// The change that forgets silent stations, if there are any.
    pub(crate) fn forget_silent(&mut self, now: Instant) -> Option<Change> {
        let silent = self.aging.expire(now);
        (!silent.is_empty()).then(|| Change::one(Operation::MoveMacs(silent)))
    }

    /// The change that removes a port, and the stations behind it.
    pub(crate) fn port_gone(&mut self, port: PortId) -> Change {
        let moves = Operation::MoveMacs(self.aging.forget_port(port));
        Change {
            operations: vec![Operation::DeletePort(port), moves],
        }
    }

    /// The change that says whether a port is up; none if it is known, or the port is not.
    ///
    /// Stations stay behind a port that is down: they will mostly be there when it is up again,
    /// and are learned elsewhere as soon as they speak there.
    pub(crate) fn port_state(
        &self,
        pipeline: &Pipeline,
        port: PortId,
        is_up: bool,
    ) -> Option<Change> {
        let known = pipeline.port(port, pipeline.version());
        let known = known.filter(|known| known.is_up != is_up)?;
        let state = PortState { is_up, ..known };
        Some(Change::one(Operation::SetPort(port, state)))
    }

    /// The rules whose time may be over; which of them were used, the caches are to be asked.
    pub(crate) fn due(&mut self, pipeline: &Pipeline, now: Instant) -> Due {
        self.timeouts.due(pipeline, now)
    }

    /// The rules whose time is over, if there are any; `uses` are of those that may be idle.
    pub(crate) fn expired(
        &mut self,
        pipeline: &Pipeline,
        due: Due,
        uses: &[Option<Instant>],
    ) -> Option<Expired> {
        let mut reasons = self.timeouts.over(pipeline, due, uses);
        reasons.sort_unstable_by_key(|(id, _)| *id);
        let flows = reasons.iter().filter_map(|(id, _)| pipeline.flow_of(*id));
        let operations: Vec<Operation> = flows
            .map(|flow| {
                Operation::Delete(Selector {
                    table: Some(flow.table),
                    matching: flow.matching,
                    strict_priority: Some(flow.priority),
                    cookie: None,
                })
            })
            .collect();
        let change = Change { operations };
        (!reasons.is_empty()).then_some(Expired { change, reasons })
    }

    /// Ends a change: see invariant 1. `over` is sorted by rule.
    pub(crate) fn conclude(
        &mut self,
        pipeline: &Pipeline,
        delta: &Delta,
        over: &[(RuleId, RemovalReason)],
        now: Instant,
    ) {
        for id in &delta.removed {
            self.report_removal(pipeline, *id, over, now);
        }
        self.timeouts.forget(&delta.removed);
        self.timeouts.watch(pipeline, &delta.inserted);
    }

    /// Reports of ended rules, since the last call.
    pub(crate) fn take_removals(&mut self) -> Vec<Removal> {
        std::mem::take(&mut self.removals)
    }

    /// Reports that nobody collected in time.
    pub(crate) fn removals_refused(&self) -> u64 {
        self.removals_refused
    }

    fn report_removal(
        &mut self,
        pipeline: &Pipeline,
        id: RuleId,
        over: &[(RuleId, RemovalReason)],
        now: Instant,
    ) {
        let Some(rule) = pipeline.rule(id).filter(|rule| rule.reports_removal) else {
            return;
        };
        // A modified rule lives on in its successor.
        let flow = pipeline.flow_of(id).filter(|_| !pipeline.is_succeeded(id));
        let Some(flow) = flow else { return };
        // Invariant 2.
        if self.removals.len() >= MAX_REMOVALS {
            self.removals_refused += 1;
            return;
        }
        let reason = over.binary_search_by_key(&id, |(rule, _)| *rule);
        self.removals.push(Removal {
            flow,
            reason: reason.map_or(RemovalReason::Deleted, |place| over[place].1),
            counters: rule.counters,
            duration: now - rule.created_at,
        });
    }
}
