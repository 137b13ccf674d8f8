//! AgentCounters of a switch's decisions: every insertion, refusal, loss and message.
//!
//! 1. Each attempt to insert is counted once: `admitted_*`, `evicted` or `refused_*`.
//! 2. A displaced mapping is `evicted`; then it is `spilled`, or it was lost.

use crate::cache::{Put, Refusal};

/// Counts of one switch since its start.
///
/// The fields that most packets change come first, in two cache lines of the processor.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C, align(64))]
pub struct AgentCounters {
    /// Tenants' packets handled.
    pub packets: u64,
    /// Unresolved packets that the cache resolved.
    pub hits: u64,
    /// Unresolved packets that the cache did not know.
    pub misses: u64,

    /// Mappings put into a free line.
    pub admitted_free: u64,
    /// Mappings that were already there.
    pub admitted_again: u64,
    /// Mappings that replaced another place of the key.
    pub admitted_other_place: u64,
    /// Mappings that displaced another key's mapping.
    pub evicted: u64,

    /// Refused: the switch has no memory.
    pub refused_no_memory: u64,
    /// Refused: the line in the way is in use.
    pub refused_active: u64,
    /// Refused: no line was free.
    pub refused_occupied: u64,
    /// Refused: the key was already there.
    pub refused_present: u64,
    /// Refused: the cached mapping is newer.
    pub refused_older: u64,
    /// Refused: this mapping was found stale before.
    pub refused_found_stale: u64,
    /// Refused: the mapping has no version.
    pub refused_unversioned: u64,

    /// Displaced mappings sent on with the packet.
    pub spilled: u64,
    /// Hits sent on to a core.
    pub promoted: u64,
    /// Carried mappings that were taken off a packet and not inserted.
    pub carried_lost: u64,

    /// Decisions to send a learning packet, including those that needed no packet.
    pub learning_packets: u64,
    /// Learning packets that arrived here.
    pub learned: u64,

    /// Misdelivered packets that were tagged here.
    pub misdelivered: u64,
    /// Tagged packets seen.
    pub tagged: u64,
    /// Tagged packets resolved here by a mapping other than the one that failed.
    pub tagged_resolved: u64,
    /// Mappings removed because of a tag.
    pub invalidated_by_tag: u64,
    /// Mappings removed because of an invalidation packet.
    pub invalidated_by_packet: u64,
    /// Decisions to send an invalidation packet, including those that needed no packet.
    pub invalidation_packets: u64,
    /// Invalidation packets that the timestamp vector held back.
    pub invalidations_suppressed: u64,

    /// Tags that a host must not set; ignored.
    pub forged_tags: u64,
    /// Learning and invalidation packets from a host; dropped.
    pub forged_control: u64,
    /// Packets from a host with another host's physical source that no misdelivery explains;
    /// dropped.
    pub spoofed_sources: u64,
    /// Identifiers or hosts that the directory does not know.
    pub unknown_targets: u64,
    /// Control packets lost because earlier ones had not been collected.
    pub control_overflow: u64,
}

impl AgentCounters {
    /// All counters by name, in the order above.
    pub fn each(&self) -> [(&'static str, u64); 31] {
        let AgentCounters {
            packets,
            hits,
            misses,
            admitted_free,
            admitted_again,
            admitted_other_place,
            evicted,
            refused_no_memory,
            refused_active,
            refused_occupied,
            refused_present,
            refused_older,
            refused_found_stale,
            refused_unversioned,
            spilled,
            promoted,
            carried_lost,
            learning_packets,
            learned,
            misdelivered,
            tagged,
            tagged_resolved,
            invalidated_by_tag,
            invalidated_by_packet,
            invalidation_packets,
            invalidations_suppressed,
            forged_tags,
            forged_control,
            spoofed_sources,
            unknown_targets,
            control_overflow,
        } = *self;
        [
            ("packets", packets),
            ("hits", hits),
            ("misses", misses),
            ("admitted_free", admitted_free),
            ("admitted_again", admitted_again),
            ("admitted_other_place", admitted_other_place),
            ("evicted", evicted),
            ("refused_no_memory", refused_no_memory),
            ("refused_active", refused_active),
            ("refused_occupied", refused_occupied),
            ("refused_present", refused_present),
            ("refused_older", refused_older),
            ("refused_found_stale", refused_found_stale),
            ("refused_unversioned", refused_unversioned),
            ("spilled", spilled),
            ("promoted", promoted),
            ("carried_lost", carried_lost),
            ("learning_packets", learning_packets),
            ("learned", learned),
            ("misdelivered", misdelivered),
            ("tagged", tagged),
            ("tagged_resolved", tagged_resolved),
            ("invalidated_by_tag", invalidated_by_tag),
            ("invalidated_by_packet", invalidated_by_packet),
            ("invalidation_packets", invalidation_packets),
            ("invalidations_suppressed", invalidations_suppressed),
            ("forged_tags", forged_tags),
            ("forged_control", forged_control),
            ("spoofed_sources", spoofed_sources),
            ("unknown_targets", unknown_targets),
            ("control_overflow", control_overflow),
        ]
    }

    /// All insertions made.
    pub fn admitted(&self) -> u64 {
        self.admitted_free + self.admitted_again + self.admitted_other_place + self.evicted
    }

    /// All insertions refused.
    pub fn refused(&self) -> u64 {
        self.refused_no_memory
            + self.refused_active
            + self.refused_occupied
            + self.refused_present
            + self.refused_older
            + self.refused_found_stale
            + self.refused_unversioned
    }

    pub(crate) fn count_put(&mut self, put: &Put) {
        *match put {
            Put::Inserted => &mut self.admitted_free,
            Put::Refreshed => &mut self.admitted_again,
            Put::Replaced => &mut self.admitted_other_place,
            Put::Evicted(_) => &mut self.evicted,
            Put::Refused(refusal) => match refusal {
                Refusal::NoMemory => &mut self.refused_no_memory,
                Refusal::Active => &mut self.refused_active,
                Refusal::Occupied => &mut self.refused_occupied,
                Refusal::Present => &mut self.refused_present,
                Refusal::Older => &mut self.refused_older,
                Refusal::FoundStale => &mut self.refused_found_stale,
                Refusal::Unversioned => &mut self.refused_unversioned,
            },
        } += 1;
    }
}
