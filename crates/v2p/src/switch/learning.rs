//! Learns mappings from passing packets, as each role does, and handles displaced ones.
//!
//! | role | from | admission | displaced |
//! | --- | --- | --- | --- |
//! | ToR | the source, or (`artifact`) a destination that fits | all | lost in `artifact`; else spilled on the way up, and lost on the way down |
//! | gateway ToR | the carried mapping, else the destination | all | spilled |
//! | spine, gateway spine | the carried mapping, else the destination | line not active | spilled |
//! | core | promotions; in `artifact` the carried mapping for this destination, or a destination that fits | line not active | spilled |
//!
//! A gateway ToR occasionally sends a learning packet, so that a sender's ToR learns the
//! sender's destinations. Section 3.2.2 has it do so "when they learn a new mapping". That
//! cannot mean the mapping's first packet alone: a failed draw would then be the last one,
//! while Figure 4a has the packet sent "at some point", and section 5 draws for "all the
//! traffic passing through the gateway switch". So it draws for every packet that leaves it
//! resolved, by a gateway, by an earlier switch, or by its own cache: the mapping may be new
//! to the sender's ToR in all three cases. The artifact draws at insertions, which leaves out
//! what its own cache resolves.
//!
//! Section 3.2.1 and Table 1 of the paper; section 3.2.2 for spillover and learning packets.
//! Two rules are the artifact's: a carried mapping takes precedence over the destination, and
//! a refused one is carried on.

use super::{Ingress, SwitchAgent};
use crate::Address;
use crate::cache::{Admission, Put, Refusal};
use crate::mapping::Mapping;
use crate::packet::{Body, Carried, CarryReason, Data, Tags};
use crate::rules::{CoreLearning, LearningContent, Role};

impl SwitchAgent {
    /// Step 4: inserts a mapping; returns the mapping that the sender's ToR may be taught.
    #[inline]
    pub(super) fn learn(
        &mut self,
        data: &mut Data,
        source: Address,
        destination: Address,
        is_unresolved: bool,
        from: Ingress,
    ) -> Option<Mapping> {
        let resolved = (!is_unresolved).then(|| destination_of(data, destination));
        match self.role {
            Role::Tor => self.learn_at_tor(data, source, resolved, from),
            Role::GatewayTor => return self.learn_at_gateway_tor(data, resolved),
            Role::Spine | Role::GatewaySpine => self.learn_at_spine(&mut data.tags, resolved),
            Role::Core => self.learn_at_core(data, resolved),
        }
        None
    }

    fn learn_at_tor(
        &mut self,
        data: &mut Data,
        source: Address,
        resolved: Option<Mapping>,
        from: Ingress,
    ) {
        let is_own_host = from != Ingress::Fabric;
        if !is_own_host || self.rules.tor_learns_own_hosts {
            let mapping = Mapping {
                key: data.source_key(),
                place: source,
                version: data.tags.source_version,
            };
            let put = self.insert(mapping, Admission::Always);
            if is_own_host && self.rules.tor_spills {
                self.settle(&mut data.tags, put, None);
            }
        } else if let Some(mapping) = resolved
            && self.rules.tor_learns_destinations
        {
            self.insert(mapping, Admission::Free);
        }
    }

    fn learn_at_gateway_tor(
        &mut self,
        data: &mut Data,
        resolved: Option<Mapping>,
    ) -> Option<Mapping> {
        let carried = data.tags.carried.take();
        let mapping = carried.map(|carried| carried.mapping).or(resolved)?;
        let put = self.insert(mapping, Admission::Always);
        self.settle(&mut data.tags, put, carried);
        (self.rules.learning_content == LearningContent::Inserted).then_some(mapping)
    }

    /// The mapping of a leaving packet that the sender's ToR may be taught.
    #[inline]
    pub(super) fn destination_to_teach(
        &self,
        data: &Data,
        destination: Address,
    ) -> Option<Mapping> {
        let is_teacher = self.role == Role::GatewayTor
            && self.rules.learning_content == LearningContent::Destination;
        (is_teacher && !self.directory.is_gateway(destination))
            .then(|| destination_of(data, destination))
    }

    fn learn_at_spine(&mut self, tags: &mut Tags, resolved: Option<Mapping>) {
        let carried = tags.carried.take();
        if let Some(mapping) = carried.map(|carried| carried.mapping).or(resolved) {
            let put = self.insert(mapping, Admission::Inactive);
            self.settle(tags, put, carried);
        }
    }

    fn learn_at_core(&mut self, data: &mut Data, resolved: Option<Mapping>) {
        let Some(carried) = data.tags.carried else {
            if let Some(mapping) = resolved
                && self.rules.core_learning == CoreLearning::OwnDestination
            {
                self.insert(mapping, Admission::Free);
            }
            return;
        };
        let admission = match self.rules.core_learning {
            CoreLearning::OwnDestination if carried.mapping.key == data.destination_key() => {
                Admission::InactiveAndAbsent
            }
            CoreLearning::Promotions if carried.reason == CarryReason::Promoted => {
                Admission::Inactive
            }
            _ => return,
        };
        let put = self.insert(carried.mapping, admission);
        data.tags.carried = None;
        self.settle(&mut data.tags, put, Some(carried));
    }

    #[inline]
    pub(super) fn insert(&mut self, mapping: Mapping, admission: Admission) -> Put {
        if let Some(demand) = &mut self.demand {
            demand.note_offer(mapping.key);
        }
        let set = self.cache.locate(mapping.key);
        let put = self.cache.put(set, mapping, admission);
        self.counters.count_put(&put);
        put
    }

    /// Puts a displaced mapping, or a carried one that found no room, into the packet.
    #[inline]
    fn settle(&mut self, tags: &mut Tags, put: Put, carried: Option<Carried>) {
        match put {
            Put::Inserted | Put::Refreshed | Put::Replaced => {}
            Put::Evicted(mapping) => {
                self.counters.spilled += 1;
                let reason = CarryReason::Spilled;
                tags.carried = Some(Carried { mapping, reason });
            }
            Put::Refused(refusal) => {
                let has_a_chance = matches!(
                    refusal,
                    Refusal::NoMemory | Refusal::Active | Refusal::Occupied | Refusal::Present
                );
                match carried {
                    Some(_) if has_a_chance => tags.carried = carried,
                    Some(_) => self.counters.carried_lost += 1,
                    None => {}
                }
            }
        }
    }

    /// Step 6: tells the sender's ToR a mapping, with a probability (section 3.2.2, "learning
    /// packets").
    #[inline]
    pub(super) fn teach(
        &mut self,
        data: &Data,
        source: Address,
        mapping: Mapping,
        random: impl FnOnce() -> u32,
    ) {
        if u64::from(random()) >= self.learning_threshold {
            return;
        }
        self.counters.learning_packets += 1;
        let host = data.tags.origin.unwrap_or(source);
        match self.directory.attachment(host) {
            Some(attachment) => self.send_control(attachment.tor, Body::Learning(mapping)),
            None => self.counters.unknown_targets += 1,
        }
    }
}

/// The mapping that a resolved packet shows.
fn destination_of(data: &Data, destination: Address) -> Mapping {
    Mapping {
        key: data.destination_key(),
        place: destination,
        version: data.tags.resolved_version,
    }
}
