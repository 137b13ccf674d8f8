//! Repairs after a wrong cache: tags, blame, and the timestamp vector (section 3.3).
//!
//! A host that does not have the machine sends the packet back into the network. The packet
//! carries a tag with the host's place, so that no switch sends it there again, and still
//! carries the hit tag of the switch that was wrong. The ToR removes the hit tag and sends
//! that switch an invalidation packet, unless it recently sent one.
//!
//! The paper's ToR recognizes a returned packet by its physical source, which is not one of
//! its hosts. That fails if sender and old host share the ToR, or are the same host. Here the
//! source is compared with the host of the port; a packet with the host's own source was
//! returned if it shows that it has been resolved before.

use std::time::Duration;

use thalweg_packet::Instant;

use super::SwitchAgent;
use crate::Address;
use crate::cache::Invalidated;
use crate::mapping::{MapVersion, Mapping, SwitchId};
use crate::packet::{Body, Data, Stale, Tags};

impl SwitchAgent {
    /// Step 1: removes tags that a host may not set, and tags a returned packet.
    pub(super) fn admit_tags(
        &mut self,
        tags: &mut Tags,
        host: Address,
        source: Address,
        is_returned: bool,
    ) {
        let mut forged = 0;
        forged += u64::from(tags.carried.take().is_some());
        forged += u64::from(tags.origin.take().is_some());
        if is_returned {
            // A tag of an earlier misdelivery is no longer needed; this place is the one to
            // avoid.
            let (place, version) = (host, tags.resolved_version);
            tags.misdelivery = Some(Stale { place, version });
            if source != host {
                // The host cannot vouch for another host's machine.
                tags.source_version = MapVersion::NONE;
            }
            self.counters.misdelivered += 1;
        } else {
            forged += u64::from(tags.misdelivery.take().is_some());
            forged += u64::from(tags.hit.take().is_some());
            forged += u64::from(tags.resolved_version != MapVersion::NONE);
            tags.resolved_version = MapVersion::NONE;
        }
        self.counters.forged_tags += forged;
    }

    /// Step 2: removes the stale mapping, and uses a better one if the cache has it.
    pub(super) fn handle_tagged(
        &mut self,
        data: &mut Data,
        destination: &mut Address,
        is_unresolved: bool,
        stale: Stale,
    ) {
        self.counters.tagged += 1;
        let key = data.destination_key();
        match self.cache.invalidate(self.cache.locate(key), stale.of(key)) {
            Invalidated::Removed => self.counters.invalidated_by_tag += 1,
            Invalidated::Absent => {}
            Invalidated::Kept(found) => {
                let is_asked = is_unresolved || self.rules.rewrites_resolved;
                let is_better = found.place != stale.place && found.version > stale.version;
                if !is_asked || self.rules.is_versioned && !is_better {
                    return;
                }
                *destination = found.place;
                self.counters.tagged_resolved += 1;
                if self.rules.tagged_hit_is_blamed {
                    data.tags.hit = Some(self.id);
                    data.tags.resolved_version = found.version;
                }
            }
        }
    }

    /// Sends an invalidation packet to the switch that was wrong, unless one was sent
    /// recently.
    pub(super) fn blame(&mut self, switch: SwitchId, stale: Mapping, now: Instant) {
        if !self.sends_invalidations {
            return;
        }
        if let Some(timestamps) = &mut self.timestamps {
            match timestamps.take_turn(switch, now) {
                Some(true) => {}
                Some(false) => {
                    self.counters.invalidations_suppressed += 1;
                    return;
                }
                None => {
                    self.counters.unknown_targets += 1;
                    return;
                }
            }
        }
        self.counters.invalidation_packets += 1;
        self.send_control(switch, Body::Invalidation(stale));
    }
}

/// For each switch, the time from which it may be sent an invalidation packet; local time
/// only.
///
/// Sending again after a while repairs the loss of an invalidation packet. The artifact has a
/// bit instead, and never sends again.
#[derive(Clone, Debug)]
pub(super) struct TimestampVector {
    next: Vec<Instant>,
    interval: Option<Duration>,
}

impl TimestampVector {
    /// Creates a vector for `switch_count` switches; without an interval each has one turn in
    /// all.
    pub(super) fn new(switch_count: usize, interval: Option<Duration>) -> TimestampVector {
        let next = vec![Instant::ZERO; switch_count];
        TimestampVector { next, interval }
    }

    pub(super) fn grow(&mut self, switch_count: usize) {
        self.next.resize(switch_count, Instant::ZERO);
    }

    /// Takes the switch's turn, and returns whether it had one; `None` if there is no such
    /// switch.
    fn take_turn(&mut self, switch: SwitchId, now: Instant) -> Option<bool> {
        let next = self.next.get_mut(switch.0 as usize)?;
        let is_turn = *next <= now && *next != NEVER;
        if is_turn {
            *next = self.interval.map_or(NEVER, |interval| now + interval);
        }
        Some(is_turn)
    }
}

const NEVER: Instant = Instant::from_nanos(u64::MAX);
