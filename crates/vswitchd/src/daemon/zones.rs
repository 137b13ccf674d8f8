//! Time-outs of connections, by zone: from the database to the tracker.
//!
//! A row of `Datapath` names zones, and a zone a policy (ovs-vswitchd.conf.db(5), `CT_Zone`,
//! `CT_Timeout_Policy`). All datapaths share one tracker, so a zone that two of them name has
//! the policy of the later one by name. What a policy does not say is as without it.
//!
//! 1. The tracker has the policies that were wanted last, and is told of differences only.

use std::collections::BTreeMap;

use thalweg_conntrack::{Timeout, TimeoutPolicy, Tracker};
use thalweg_ovsdb::DatabaseReplica;
use thalweg_ovsdb::open_vswitch::{ct_timeout_policy, ct_zone, datapath, root};

/// The policies that zones have.
pub(super) type WantedZones = BTreeMap<u16, TimeoutPolicy>;

/// The policies that the tracker was told of.
#[derive(Debug, Default)]
pub(super) struct ZonePolicies {
    by_zone: WantedZones,
}

impl ZonePolicies {
    /// Gives the tracker the wanted policies.
    pub(super) fn follow(&mut self, wanted: WantedZones, tracker: &Tracker) {
        for zone in self.by_zone.keys() {
            if !wanted.contains_key(zone) {
                tracker.set_zone_timeout_policy(*zone, None);
                tracker.set_timeout_policy(number_of(*zone), None);
            }
        }
        for (zone, policy) in &wanted {
            let former = self.by_zone.get(zone);
            if former != Some(policy) {
                tracker.set_timeout_policy(number_of(*zone), Some(*policy));
            }
            if former.is_none() {
                tracker.set_zone_timeout_policy(*zone, Some(number_of(*zone)));
            }
        }
        self.by_zone = wanted;
    }

    /// Whether no zone has a policy, before and after.
    pub(super) fn is_idle(&self, wanted: &WantedZones) -> bool {
        self.by_zone.is_empty() && wanted.is_empty()
    }
}

/// The number of a zone's policy; 0 is the default's.
fn number_of(zone: u16) -> u32 {
    u32::from(zone) + 1
}

/// Reads the policies of zones.
pub(super) fn read_zones(replica: &DatabaseReplica) -> WantedZones {
    let mut wanted = WantedZones::new();
    for root in replica.rows(root::TABLE) {
        for row in root.get(root::DATAPATHS).iter() {
            let Some(row) = replica.row(datapath::TABLE, row.1) else {
                continue;
            };
            for (number, uuid) in row.get(datapath::CT_ZONES).iter() {
                let (Ok(number), Some(zone)) =
                    (u16::try_from(number), replica.row(ct_zone::TABLE, uuid))
                else {
                    continue;
                };
                for policy in replica.follow(zone, ct_zone::TIMEOUT_POLICY) {
                    let times = policy.get(ct_timeout_policy::TIMEOUTS).iter();
                    wanted.insert(number, policy_of(times));
                }
            }
        }
    }
    wanted
}

/// A policy with these times; names of states that the tracker does not have count for nothing,
/// as in Open vSwitch's.
fn policy_of<'a>(times: impl Iterator<Item = (&'a str, i64)>) -> TimeoutPolicy {
    times.fold(TimeoutPolicy::default(), |policy, (name, seconds)| {
        match (Timeout::of_name(name), u32::try_from(seconds)) {
            (Some(timeout), Ok(seconds)) => policy.with(timeout, seconds),
            _ => policy,
        }
    })
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use thalweg_conntrack::{Cursor, FlushFilter, Previous, TrackRequest};
    use thalweg_packet::wire::{MacAddress, PacketBuilder};
    use thalweg_packet::{Headers, Instant};

    use super::*;

    #[test]
    fn a_policy_has_the_times_that_it_names() {
        let times = [("udp_first", 7), ("tcp_unack", 3), ("icmp_reply", -1)];
        let policy = policy_of(times.into_iter());
        assert_eq!(policy, TimeoutPolicy::default().with(Timeout::UdpFirst, 7));
    }

    /// The seconds that a new connection of a zone has.
    fn seconds_of(tracker: &Tracker, zone: u16) -> u32 {
        let mut frame = PacketBuilder::ethernet(MacAddress::ZERO, MacAddress::ZERO)
            .ipv4(Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2))
            .udp(1, 2)
            .build();
        let headers = Headers::parse(&frame).expect("a frame");
        let request = TrackRequest {
            zone,
            is_commit: true,
            ..TrackRequest::default()
        };
        let (previous, now) = (Previous::default(), Instant::ZERO);
        tracker.track(&mut frame, &headers, &request, previous, now, 0);
        let (entries, _) = tracker.entries(Cursor::default(), usize::MAX, now);
        tracker.flush(FlushFilter::All);
        let entry = entries.iter().find(|entry| entry.original.zone == zone);
        entry.expect("it was committed").timeout_s
    }

    #[test]
    fn a_tracker_follows_the_policies_of_zones() {
        let tracker = Tracker::default();
        let mut policies = ZonePolicies::default();
        let udp_first = |seconds| policy_of([("udp_first", seconds)].into_iter());
        let plain = seconds_of(&tracker, 0);
        let steps: [&[(u16, i64)]; 4] = [&[(0, 5), (9, 7)], &[(0, 5), (9, 8)], &[(9, 8)], &[]];
        for step in steps {
            let wanted: WantedZones = step
                .iter()
                .map(|(zone, seconds)| (*zone, udp_first(*seconds)))
                .collect();
            assert!(!policies.is_idle(&wanted));
            policies.follow(wanted.clone(), &tracker);
            for zone in [0, 1, 9] {
                let expected = wanted.get(&zone);
                let expected = expected.map_or(plain, |policy| policy.seconds(Timeout::UdpFirst));
                assert_eq!(
                    seconds_of(&tracker, zone),
                    expected,
                    "{step:?}, zone {zone}"
                );
            }
        }
        assert!(policies.is_idle(&WantedZones::new()));
        assert_eq!(tracker.timeout_policy(number_of(9)), None);
    }
}
