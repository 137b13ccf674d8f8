//! Performs the operations on meters.

use std::collections::BTreeSet;
use std::sync::Arc;

use thalweg_classifier::RuleId;
use thalweg_packet::Instant;

use super::{Done, Plan};
use crate::change::{ChangeError, Operation, meters_named};
use crate::meters::{ExistingMeter, MAX_METERS, MeterId, RateMeter};
use crate::pipeline::Pipeline;
use crate::reclaim::Touched;

impl Pipeline {
    /// Adds a meter, or modifies the one with its number, which keeps its place.
    pub(super) fn set_meter(
        &mut self,
        index: usize,
        meter: &RateMeter,
        now: Instant,
    ) -> Result<(), ChangeError> {
        let known = self.meter(meter.id, self.open_version()).cloned();
        let (place, created_at) = match &known {
            Some(known) => {
                if known.meter.remarks() != meter.remarks() {
                    self.unpublished().delta.meters.push(meter.id);
                }
                (known.place, known.created_at)
            }
            None => match self.meters.take_place() {
                Some(place) => {
                    self.note(Done::MeterPlace(place));
                    self.unpublished().delta.meters.push(meter.id);
                    (place, now)
                }
                None => {
                    return Err(ChangeError::MetersFull {
                        operation: index,
                        capacity: MAX_METERS,
                    });
                }
            },
        };
        let existing = ExistingMeter {
            meter: meter.clone(),
            place,
            created_at,
            set_at: now,
        };
        self.record_meter(meter.id, Some(Arc::new(existing)));
        self.unpublished().meters_set.push(meter.id);
        Ok(())
    }

    /// Does the next part of a removal of meters: first they go, then their rules.
    pub(super) fn perform_on_meters(
        &mut self,
        meters: &[MeterId],
        operation: &Operation,
        plan: &mut Plan<'_>,
    ) {
        let part = plan.part();
        let found = plan.found(|| self.meant_by(operation));
        let parts = meters.len() + found.len();
        let rule = part.checked_sub(meters.len());
        match rule.map(|rule| found.get(rule).copied()) {
            None => self.delete_meter(meters[part]),
            Some(Some(rule)) => self.remove(rule),
            Some(None) => {}
        }
        plan.advance(parts);
    }

    fn delete_meter(&mut self, id: MeterId) {
        let Some(known) = self.meter(id, self.open_version()) else {
            return;
        };
        let place = known.place;
        self.record_meter(id, None);
        self.touch(Touched::MeterPlace(place));
        self.unpublished().delta.meters.push(id);
    }

    fn record_meter(&mut self, id: MeterId, state: Option<Arc<ExistingMeter>>) {
        let open = self.open_version();
        let history = self.meters.histories.entry(id).or_default();
        history.record(open, state);
        self.touch(Touched::Meter(id));
        self.note(Done::Meter(id));
    }

    /// The rules that use one of these meters, at the version being prepared.
    pub(super) fn users_of_any(&self, meters: &[MeterId]) -> Vec<RuleId> {
        let open = self.open_version();
        let known = meters.iter().copied();
        let known = known.filter(|id| self.meter(*id, open).is_some());
        let known: BTreeSet<MeterId> = known.collect();
        if known.is_empty() {
            return Vec::new();
        }
        let rules = self.rules(open);
        let users = rules.filter(|(_, rule)| {
            let mut is_user = false;
            meters_named(&rule.actions, &mut |id| is_user |= known.contains(&id));
            is_user
        });
        users.map(|(id, _)| id).collect()
    }
}
