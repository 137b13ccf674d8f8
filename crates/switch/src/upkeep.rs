//! Upkeep after changes and as time passes, the same for one thread and for many.
//!
//! [`crate::Engine`] and [`crate::Switch`] differ in how caches follow a change. The rest is
//! here: stations age, timeouts end rules, and rules that ask for it are reported at their end
//! with all their counts.
//!
//! 1. [`Upkeep::conclude`] comes last in a change: every cache has followed it, and the
//!    caches' counts are settled. Only then may the caller let the pipeline forget the
//!    previous version.
//! 2. Uncollected reports do not grow without bound: those beyond [`MAX_REMOVALS`] are counted
//!    and dropped.

use std::collections::BTreeSet;

use thalweg_packet::{Instant, PortId};
use thalweg_pipeline::{
    BridgeId, Change, Delta, MacMove, Operation, Pipeline, PortState, RuleId, Selector, Station,
    uses_group, uses_meter,
};

use crate::aging::Aging;
use crate::learning::Lessons;
use crate::removal::{Removal, RemovalReason};
use crate::stations::StationCounters;
use crate::timeouts::{Due, Timeouts};

/// Most reports of ended rules waiting to be collected.
const MAX_REMOVALS: usize = 65_536;

/// Stations, lessons, timeouts and reports.
#[derive(Debug)]
pub(crate) struct Upkeep {
    aging: Aging,
    pub(crate) lessons: Lessons,
    timeouts: Timeouts,
    removals: Vec<Removal>,
    removals_refused: u64,
}

/// The change that ends rules whose time is over, and the reasons.
#[derive(Debug)]
pub(crate) struct Expired {
    pub(crate) change: Change,
    pub(crate) reasons: Vec<(RuleId, RemovalReason)>,
}

impl Upkeep {
    /// Creates the upkeep for this many stations.
    pub(crate) fn new(stations: usize) -> Upkeep {
        Upkeep {
            aging: Aging::new(stations),
            lessons: Lessons::default(),
            timeouts: Timeouts::default(),
            removals: Vec::new(),
            removals_refused: 0,
        }
    }

    /// Sets the most stations.
    pub(crate) fn set_stations(&mut self, stations: usize) {
        self.aging.capacity = stations;
    }

    /// Records that a station was seen; returns what the pipeline must know.
    pub(crate) fn see(&mut self, station: Station, port: PortId, now: Instant) -> Vec<MacMove> {
        self.aging.see(station, port, now)
    }

    /// When stations were seen, and what bridges have room for.
    pub(crate) fn aging(&mut self) -> &mut Aging {
        &mut self.aging
    }

    /// What happened to the stations of all bridges.
    pub(crate) fn station_counters(&self) -> StationCounters {
        self.aging.counters
    }

    /// Stations not remembered for lack of room.
    pub(crate) fn stations_refused(&self) -> u64 {
        self.aging.refused
    }

    /// The change that forgets silent stations, if there are any.
    pub(crate) fn forget_silent(&mut self, now: Instant) -> Option<Change> {
        let silent = self.aging.expire(now);
        (!silent.is_empty()).then(|| Change::one(Operation::MoveMacs(silent)))
    }

    /// The change that removes ports, and the stations behind them.
    pub(crate) fn ports_gone(&mut self, ports: &BTreeSet<PortId>) -> Change {
        let moves = Operation::MoveMacs(self.aging.forget_ports(ports));
        let deletions = ports.iter().map(|port| Operation::DeletePort(*port));
        Change {
            operations: deletions.chain([moves]).collect(),
        }
    }

    /// The change that sets whether a port is up; `None` if that is already known or the port
    /// is not.
    ///
    /// Stations stay behind a port that is down. Most will be there when it is up again, and
    /// the others are learned elsewhere as soon as they send.
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

    /// Follows rules whose timeouts were shortened.
    pub(crate) fn shorten_timeouts(&mut self, pipeline: &Pipeline, rules: &[RuleId]) {
        self.timeouts.watch(pipeline, rules);
    }

    /// The rules whose time may be over; the caller must check the caches for uses of the idle
    /// ones.
    pub(crate) fn due(&mut self, pipeline: &Pipeline, now: Instant) -> Due {
        self.timeouts.due(pipeline, now)
    }

    /// The change for rules whose time is over, if there are any; `uses` are for the possibly
    /// idle rules.
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
                    bridge: BridgeId::default(),
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

    /// Concludes a change (invariant 1). `over` is sorted by rule.
    pub(crate) fn conclude(
        &mut self,
        pipeline: &Pipeline,
        delta: &Delta,
        over: &[(RuleId, RemovalReason)],
        now: Instant,
    ) {
        for id in &delta.removed {
            self.report_removal(pipeline, delta, *id, over, now);
        }
        self.timeouts.forget(&delta.removed);
        self.timeouts.watch(pipeline, &delta.inserted);
    }

    /// Reports of ended rules, since the last call.
    pub(crate) fn take_removals(&mut self) -> Vec<Removal> {
        std::mem::take(&mut self.removals)
    }

    /// Whether there are reports of ended rules.
    pub(crate) fn has_removals(&self) -> bool {
        !self.removals.is_empty()
    }

    /// Reports that were not collected in time.
    pub(crate) fn removals_refused(&self) -> u64 {
        self.removals_refused
    }

    fn report_removal(
        &mut self,
        pipeline: &Pipeline,
        delta: &Delta,
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
        let lost_group = delta.groups.iter().any(|group| {
            let is_there = pipeline.group(*group, delta.version).is_some();
            !is_there && uses_group(&rule.actions, *group)
        });
        let lost_meter = delta.meters.iter().any(|meter| {
            let is_there = pipeline.meter(*meter, delta.version).is_some();
            !is_there && uses_meter(&rule.actions, *meter)
        });
        let reason = match over.binary_search_by_key(&id, |(rule, _)| *rule) {
            Ok(place) => over[place].1,
            Err(_) if delta.evicted.contains(&id) => RemovalReason::Evicted,
            Err(_) if lost_group => RemovalReason::GroupDeleted,
            Err(_) if lost_meter => RemovalReason::MeterDeleted,
            Err(_) => RemovalReason::Deleted,
        };
        self.removals.push(Removal {
            flow,
            reason,
            counters: rule.counters,
            duration: now - rule.created_at,
        });
    }
}
