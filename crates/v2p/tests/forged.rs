//! Tests which tags and messages a switch accepts from a host's port.

mod lab;

use lab::*;
use thalweg_v2p::*;

const PROFILES: [Profile; 2] = [Profile::Paper, Profile::Plus];

#[test]
fn tags_that_a_host_sets_on_its_own_packets_are_ignored_and_counted() {
    for profile in PROFILES {
        for (to, is_new, count) in [(gateway(0), true, 3), (host(2, 0), false, 5)] {
            let mut honest = packet(key(1), host(0, 0), key(2), to);
            data_mut(&mut honest).tags.resolved_version = MapVersion::NONE;
            let mut forged = honest;
            let tags = &mut data_mut(&mut forged).tags;
            tags.origin = Some(host(2, 1));
            tags.carried = spilled(mapping(key(5), host(0, 0)));
            tags.misdelivery = Some(Stale {
                place: host(2, 1),
                version: MapVersion(9),
            });
            if !is_new {
                tags.hit = Some(SwitchId(CORE));
                tags.resolved_version = MapVersion(u64::MAX);
            }
            let mut tor = roomy(TOR, profile);
            teach(&mut tor, TOR, &[mapping(key(6), host(2, 1))]);
            assert_eq!(enter(&mut tor, &mut forged, host(0, 0)), Verdict::Forward);
            assert_eq!(forged, honest);
            assert_eq!(tor.counters().forged_tags, count);
            assert_eq!((tor.counters().tagged, tor.poll_transmit()), (0, None));
            assert_eq!(cached(&tor, key(5)), None);
        }
    }
}

/// Marks of an earlier resolution make a packet a returned one, even with the host's own
/// source.
#[test]
fn a_packet_that_came_back_to_its_own_host_is_tagged() {
    for profile in PROFILES {
        let mut tor = roomy(TOR, profile);
        teach(&mut tor, TOR, &[mapping(key(2), host(0, 0))]);
        let mut sent = packet(key(1), host(0, 0), key(2), gateway(0));
        data_mut(&mut sent).tags.resolved_version = MapVersion::NONE;
        enter(&mut tor, &mut sent, host(0, 0));
        assert_eq!(sent.outer_destination, host(0, 0));
        let mut agent = HostAgent::new(host(0, 0), profile, directory());
        assert_eq!(agent.handle_packet(&mut sent), HostVerdict::Resend);
        enter(&mut tor, &mut sent, host(0, 0));
        assert!(
            directory().is_gateway(sent.outer_destination),
            "not back again"
        );
        assert_eq!(cached(&tor, key(2)), None);
        assert_eq!(tor.counters().misdelivered, 1);
    }
}

#[test]
fn control_packets_of_a_host_are_dropped_and_counted() {
    for profile in PROFILES.into_iter().chain([Profile::Artifact]) {
        let mut tor = roomy(TOR, profile);
        teach(&mut tor, TOR, &[mapping(key(2), host(1, 1))]);
        for body in [Body::Learning(mapping(key(3), host(0, 0))), {
            Body::Invalidation(mapping(key(2), host(1, 1)))
        }] {
            let mut forged = Packet {
                outer_source: switch_address(GATEWAY_TOR),
                outer_destination: switch_address(TOR),
                ttl: INITIAL_TTL,
                flow: 0,
                body,
            };
            let verdict = enter(&mut tor, &mut forged, host(0, 0));
            assert_eq!(verdict, Verdict::Drop(DropReason::ForgedControl));
        }
        assert_eq!(tor.counters().forged_control, 2);
        assert_eq!(cached(&tor, key(2)), Some(host(1, 1)));
        assert_eq!(cached(&tor, key(3)), None);
    }
}

#[test]
fn another_hosts_physical_source_is_dropped_unless_the_packet_came_back() {
    for profile in PROFILES {
        let mut tor = roomy(TOR, profile);
        let mut spoofed = packet(key(1), host(2, 0), key(2), host(1, 0));
        let verdict = enter(&mut tor, &mut spoofed, host(0, 0));
        assert_eq!(verdict, Verdict::Drop(DropReason::SpoofedSource));
        assert_eq!(tor.counters().spoofed_sources, 1);
        assert_eq!(tor.cache().entries().count(), 0);
    }
}

/// A host that claims a misdelivery can only invalidate mappings to itself.
#[test]
fn a_pretended_misdelivery_harms_no_mapping_to_another_host() {
    for profile in PROFILES {
        let mut tor = roomy(TOR, profile);
        let right = mapping(key(2), host(1, 1));
        teach(&mut tor, TOR, &[right]);
        let mut lie = packet(key(1), host(2, 0), key(2), gateway(0));
        let tags = &mut data_mut(&mut lie).tags;
        tags.hit = Some(SwitchId(SPINE));
        tags.resolved_version = MapVersion(u64::MAX);
        tags.misdelivery = Some(Stale {
            place: host(1, 1),
            version: MapVersion(9),
        });
        enter(&mut tor, &mut lie, host(0, 0));
        assert_eq!(cached(&tor, key(2)), Some(host(1, 1)));

        let mut invalidation = tor.poll_transmit().expect("the blamed switch is told");
        let mut spine = roomy(SPINE, profile);
        teach(&mut spine, SPINE, &[right]);
        pass(&mut spine, &mut invalidation);
        assert_eq!(cached(&spine, key(2)), Some(host(1, 1)));
        teach(&mut spine, SPINE, &[right]);
        assert_eq!(spine.counters().refused_found_stale, 0);
    }
}

/// In `plus` no switch learns a resolved destination that a host made up.
#[test]
fn a_host_cannot_teach_destinations() {
    let mut lie = packet(key(1), host(0, 0), key(2), host(2, 0));
    data_mut(&mut lie).tags.resolved_version = MapVersion(u64::MAX);
    enter(&mut roomy(TOR, Profile::Plus), &mut lie, host(0, 0));
    let mut spine = roomy(SPINE, Profile::Plus);
    pass(&mut spine, &mut lie);
    assert_eq!(spine.cache().entries().count(), 0);
    assert_eq!(spine.counters().refused_unversioned, 1);
}

/// A packet that claims to be returned has another's source; no switch learns that source.
#[test]
fn a_host_cannot_teach_sources_of_another_host() {
    let mut lie = packet(key(1), host(2, 0), key(2), gateway(0));
    data_mut(&mut lie).tags.source_version = MapVersion(u64::MAX);
    enter(&mut roomy(TOR, Profile::Plus), &mut lie, host(0, 0));
    let mut database = Database::new();
    database.place(key(2), host(1, 0));
    GatewayAgent::new(Profile::Plus).handle_packet(&database, &mut lie);
    let mut tor = roomy(OTHER_TOR, Profile::Plus);
    pass(&mut tor, &mut lie);
    assert_eq!(cached(&tor, key(1)), None);
    assert_eq!(tor.counters().refused_unversioned, 1);
}

#[test]
fn a_switch_that_does_not_exist_is_not_told() {
    for profile in PROFILES {
        let mut tor = roomy(TOR, profile);
        let mut lie = packet(key(1), host(2, 0), key(2), gateway(0));
        data_mut(&mut lie).tags.hit = Some(SwitchId(u32::MAX));
        enter(&mut tor, &mut lie, host(0, 0));
        assert_eq!(
            (tor.poll_transmit(), tor.counters().unknown_targets),
            (None, 1)
        );
    }
}

#[test]
fn what_is_not_collected_is_bounded_and_counted() {
    let without = AgentConfig {
        has_timestamp_vector: false,
        ..config(TOR, Profile::Paper, 8)
    };
    let mut tor = SwitchAgent::new(&without, directory());
    for _ in 0..70 {
        let mut returned = packet(key(1), host(2, 0), key(2), gateway(0));
        data_mut(&mut returned).tags.hit = Some(SwitchId(SPINE));
        enter(&mut tor, &mut returned, host(0, 0));
    }
    assert_eq!(tor.counters().control_overflow, 6);
    assert_eq!(std::iter::from_fn(|| tor.poll_transmit()).count(), 64);
}

/// A carried mapping of another tenant is removed before the packet reaches a host.
#[test]
fn nothing_carried_reaches_a_host() {
    for profile in PROFILES.into_iter().chain([Profile::Artifact]) {
        for tor in [TOR, GATEWAY_TOR] {
            let mut agent = tiny(tor, profile);
            teach(&mut agent, tor, &[mapping(tenant_key(8, 1), host(1, 1))]);
            let mut down = packet(key(1), host(2, 0), key(2), host(tor, 0));
            data_mut(&mut down).tags.carried = spilled(mapping(tenant_key(9, 1), host(1, 1)));
            pass(&mut agent, &mut down);
            assert_eq!(data(&down).tags.carried, None, "{profile:?}, ToR {tor}");
        }
    }
}

#[test]
fn equal_addresses_of_two_tenants_are_two_keys() {
    for profile in PROFILES.into_iter().chain([Profile::Artifact]) {
        let mut tor = roomy(TOR, profile);
        teach(&mut tor, TOR, &[mapping(tenant_key(8, 1), host(1, 1))]);
        let mut packet = packet(tenant_key(9, 5), host(0, 0), tenant_key(9, 1), gateway(0));
        pass(&mut tor, &mut packet);
        assert_eq!(packet.outer_destination, gateway(0));
    }
}
