//! What each role learns from a packet that passes, and what it does with what it displaces.
//!
//! | role | from | admission | displaced |
//! | --- | --- | --- | --- |
//! | ToR | the source, or (`artifact`) a destination that fits | all | lost; spilled on the way up, but in `artifact` |
//! | gateway ToR | what is carried, else the destination; may send a learning packet | all | spilled |
//! | spine, gateway spine | what is carried, else the destination | line not active | spilled |
//! | core | promotions; in `artifact` what is carried for this destination, or what fits | line not active | spilled |
//!
//! Section 3.2.1 and Table 1 of the paper; section 3.2.2 for spillover and learning packets. That a
//! carried mapping has precedence over the destination, and that a refused one is carried on, is
//! the artifact's.

use super::{Ingress, SwitchAgent};
use crate::Address;
use crate::cache::{Admission, Put, Refusal};
use crate::mapping::Mapping;
use crate::packet::{Body, Carried, CarryReason, Data, Tags};
use crate::rules::{CoreLearning, LearningContent, Role};

impl SwitchAgent {
    /// Step 4.
    #[inline]
    pub(super) fn learn(
        &mut self,
        data: &mut Data,
        source: Address,
        destination: Address,
        is_unresolved: bool,
        from: Ingress,
        random: impl FnOnce() -> u32,
    ) {
        let resolved = (!is_unresolved).then(|| Mapping {
            key: data.destination_key(),
            place: destination,
            version: data.tags.resolved_version,
        });
        match self.role {
            Role::Tor => self.learn_at_tor(data, source, resolved, from),
            Role::GatewayTor => self.learn_at_gateway_tor(data, source, resolved, random),
            Role::Spine | Role::GatewaySpine => self.learn_at_spine(&mut data.tags, resolved),
            Role::Core => self.learn_at_core(data, resolved),
        }
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
        source: Address,
        resolved: Option<Mapping>,
        random: impl FnOnce() -> u32,
    ) {
        let carried = data.tags.carried.take();
        let Some(mapping) = carried.map(|carried| carried.mapping).or(resolved) else {
            return;
        };
        let put = self.insert(mapping, Admission::Always);
        self.settle(&mut data.tags, put, carried);
        let is_content = match self.rules.learning_content {
            LearningContent::Inserted => true,
            LearningContent::NewDestination => {
                let is_new = matches!(put, Put::Inserted | Put::Replaced | Put::Evicted(_));
                carried.is_none() && is_new
            }
        };
        if is_content && u64::from(random()) < self.learning_threshold {
            self.teach(data.tags.origin.unwrap_or(source), mapping);
        }
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

    /// Sends on what was displaced, or what was carried and found no room.
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

    /// Sends a mapping to the ToR of a host (section 3.2.2, "learning packets").
    fn teach(&mut self, host: Address, mapping: Mapping) {
        self.counters.learning_packets += 1;
        match self.directory.attachment(host) {
            Some(attachment) => self.send_control(attachment.tor, Body::Learning(mapping)),
            None => self.counters.unknown_targets += 1,
        }
    }
}
