//! The rules of the paper, by section: each test is a sentence of the text.
//!
//! `paper` and `plus` share a test where the versions of `plus` make no difference.

mod lab;

use std::time::Duration;

use lab::*;
use thalweg_packet::Instant;
use thalweg_v2p::*;

const PROFILES: [Profile; 2] = [Profile::Paper, Profile::Plus];

#[test]
fn section_3_1_a_hit_rewrites_the_destination_and_a_miss_goes_on_to_the_gateway() {
    for (profile, number) in PROFILES
        .into_iter()
        .flat_map(|p| (0..SWITCHES).map(move |n| (p, n)))
    {
        let mut switch = roomy(number, profile);
        let mut miss = packet(key(1), host(2, 0), key(2), gateway(0));
        pass(&mut switch, &mut miss);
        assert_eq!(
            (miss.outer_destination, data(&miss).tags.hit),
            (gateway(0), None)
        );

        teach(&mut switch, number, &[mapping(key(2), host(1, 1))]);
        let mut hit = packet(key(1), host(2, 0), key(2), gateway(0));
        pass(&mut switch, &mut hit);
        assert_eq!(hit.outer_destination, host(1, 1), "{number}");
        assert_eq!(data(&hit).tags.hit, Some(SwitchId(number)));
        assert_eq!((switch.counters().misses, switch.counters().hits), (1, 1));
    }
}

#[test]
fn section_3_1_resolved_packets_are_not_looked_up() {
    let mut switch = roomy(SPINE, Profile::Paper);
    teach(&mut switch, SPINE, &[mapping(key(2), host(1, 1))]);
    let mut resolved = packet(key(1), host(2, 0), key(2), host(1, 0));
    pass(&mut switch, &mut resolved);
    assert_eq!(resolved.outer_destination, host(1, 0));
    assert_eq!(switch.counters().hits + switch.counters().misses, 0);
    assert!(!is_active(&switch, key(2)));
}

#[test]
fn section_3_2_a_hit_sets_the_access_bit_and_a_miss_of_the_line_clears_it() {
    let mut switch = tiny(SPINE, Profile::Paper);
    teach(&mut switch, SPINE, &[mapping(key(2), host(1, 1))]);
    assert!(!is_active(&switch, key(2)));
    pass(
        &mut switch,
        &mut packet(key(1), host(2, 0), key(2), gateway(0)),
    );
    assert!(is_active(&switch, key(2)));
    pass(
        &mut switch,
        &mut packet(key(1), host(2, 0), key(3), gateway(0)),
    );
    assert!(!is_active(&switch, key(2)));
}

#[test]
fn section_3_2_1_tors_learn_every_source_and_no_destination() {
    for profile in PROFILES {
        let mut switch = roomy(TOR, profile);
        pass(
            &mut switch,
            &mut packet(key(1), host(2, 0), key(2), host(0, 0)),
        );
        assert_eq!(cached(&switch, key(1)), Some(host(2, 0)));
        enter(
            &mut switch,
            &mut packet(key(3), host(0, 1), key(4), host(2, 1)),
            host(0, 1),
        );
        assert_eq!(cached(&switch, key(3)), Some(host(0, 1)));
        assert_eq!(
            (cached(&switch, key(2)), cached(&switch, key(4))),
            (None, None)
        );
    }
}

#[test]
fn section_3_2_1_tors_admit_all() {
    let mut switch = tiny(TOR, Profile::Paper);
    teach(&mut switch, TOR, &[mapping(key(2), host(1, 1))]);
    enter(
        &mut switch,
        &mut packet(key(9), host(0, 1), key(2), gateway(0)),
        host(0, 1),
    );
    assert_eq!(
        cached(&switch, key(9)),
        Some(host(0, 1)),
        "an active line is displaced too"
    );
    assert_eq!(switch.counters().evicted, 1);
}

#[test]
fn section_3_2_1_gateway_tors_learn_destinations_only() {
    for profile in PROFILES {
        let mut switch = roomy(GATEWAY_TOR, profile);
        pass(
            &mut switch,
            &mut packet(key(1), host(0, 0), key(2), gateway(0)),
        );
        assert_eq!(switch.cache().entries().count(), 0);
        let mut resolved = packet(key(1), host(0, 0), key(2), host(1, 0));
        switch.handle_packet(&mut resolved, Ingress::Gateway, Instant::ZERO, || 0);
        assert_eq!(cached(&switch, key(2)), Some(host(1, 0)));
        assert_eq!(cached(&switch, key(1)), None);
    }
}

#[test]
fn section_3_2_1_spines_do_not_evict_an_active_entry() {
    for number in [SPINE, GATEWAY_SPINE] {
        let mut switch = tiny(number, Profile::Paper);
        teach(&mut switch, number, &[mapping(key(2), host(1, 1))]);
        pass(
            &mut switch,
            &mut packet(key(1), host(2, 0), key(2), gateway(0)),
        );
        let mut other = packet(key(1), host(2, 0), key(3), host(0, 0));
        pass(&mut switch, &mut other);
        assert_eq!(
            (cached(&switch, key(3)), data(&other).tags.carried),
            (None, None)
        );
        assert_eq!(switch.counters().refused_active, 1);

        pass(
            &mut switch,
            &mut packet(key(1), host(2, 0), key(4), gateway(0)),
        );
        pass(&mut switch, &mut other);
        assert_eq!(
            cached(&switch, key(3)),
            Some(host(0, 0)),
            "inactive after a miss"
        );
    }
}

#[test]
fn section_3_2_1_cores_learn_from_promotions_only() {
    for profile in PROFILES {
        let mut switch = roomy(CORE, profile);
        pass(
            &mut switch,
            &mut packet(key(1), host(0, 0), key(2), host(2, 0)),
        );
        let mut spill = packet(key(1), host(0, 0), key(2), host(2, 0));
        data_mut(&mut spill).tags.carried = spilled(mapping(key(3), host(1, 1)));
        pass(&mut switch, &mut spill);
        assert_eq!(switch.cache().entries().count(), 0);
        assert_eq!(
            data(&spill).tags.carried,
            spilled(mapping(key(3), host(1, 1)))
        );

        let mut promotion = packet(key(1), host(0, 0), key(2), host(2, 0));
        data_mut(&mut promotion).tags.carried = promoted(mapping(key(2), host(2, 0)));
        pass(&mut switch, &mut promotion);
        assert_eq!(cached(&switch, key(2)), Some(host(2, 0)));
        assert_eq!(data(&promotion).tags.carried, None);
    }
}

#[test]
fn section_3_2_1_cores_evict_only_what_is_not_active() {
    let mut switch = tiny(CORE, Profile::Paper);
    teach(&mut switch, CORE, &[mapping(key(5), host(1, 1))]);
    pass(
        &mut switch,
        &mut packet(key(1), host(2, 0), key(5), gateway(0)),
    );
    let mut promotion = packet(key(1), host(0, 0), key(2), host(2, 0));
    data_mut(&mut promotion).tags.carried = promoted(mapping(key(2), host(2, 0)));
    pass(&mut switch, &mut promotion);
    assert_eq!(cached(&switch, key(2)), None);
    pass(
        &mut switch,
        &mut packet(key(1), host(2, 0), key(6), gateway(0)),
    );
    pass(&mut switch, &mut promotion);
    assert_eq!(cached(&switch, key(2)), Some(host(2, 0)));
    assert_eq!(
        data(&promotion).tags.carried,
        spilled(mapping(key(5), host(1, 1)))
    );
}

/// For packets resolved by a gateway, by an earlier switch, or by the ToR's own cache.
#[test]
fn section_3_2_2_a_gateway_tor_tells_the_senders_tor_where_resolved_packets_go() {
    for profile in PROFILES {
        let mut switch = roomy(GATEWAY_TOR, profile);
        let lesson = Body::Learning(mapping(key(2), host(2, 0)));
        let taught = |switch: &mut SwitchAgent, packet: Packet, from: Ingress| {
            switch.handle_packet(&mut packet.clone(), from, Instant::ZERO, || 0);
            let learning = switch.poll_transmit()?;
            assert_eq!(learning.outer_destination, switch_address(OTHER_TOR));
            assert_eq!(learning.outer_source, switch_address(GATEWAY_TOR));
            assert_eq!(switch.poll_transmit(), None, "one is enough");
            Some(learning.body)
        };
        let unresolved = packet(key(1), host(1, 0), key(2), gateway(0));
        assert_eq!(taught(&mut switch, unresolved, Ingress::Fabric), None);
        let resolved = packet(key(1), host(1, 0), key(2), host(2, 0));
        for from in [Ingress::Gateway, Ingress::Gateway, Ingress::Fabric] {
            // Even if the mapping is known here: the sender's ToR may not know it yet.
            assert_eq!(taught(&mut switch, resolved, from), Some(lesson));
        }
        assert_eq!(
            taught(&mut switch, unresolved, Ingress::Fabric),
            Some(lesson)
        );
        assert_eq!(switch.counters().hits, 1);

        let mut with_spilled = resolved;
        data_mut(&mut with_spilled).tags.carried = spilled(mapping(key(3), host(2, 1)));
        let found = taught(&mut switch, with_spilled, Ingress::Fabric);
        assert_eq!(
            found,
            Some(lesson),
            "not of what the sender did not ask for"
        );
        assert_eq!(cached(&switch, key(3)), Some(host(2, 1)));

        let mut misdelivered = unresolved;
        let (place, version) = (host(1, 1), MapVersion(9));
        data_mut(&mut misdelivered).tags.misdelivery = Some(Stale { place, version });
        assert_eq!(taught(&mut switch, misdelivered, Ingress::Fabric), None);
        assert_eq!(switch.counters().learning_packets, 5);
    }
}

/// The gateway ToR may be the sender's own ToR: then there is nothing to send.
#[test]
fn section_3_2_2_a_gateway_tor_sends_no_learning_packet_to_itself() {
    for profile in PROFILES {
        let mut switch = roomy(GATEWAY_TOR, profile);
        let mut resolved = packet(key(1), host(GATEWAY_TOR, 0), key(2), host(2, 0));
        switch.handle_packet(&mut resolved, Ingress::Gateway, Instant::ZERO, || 0);
        assert_eq!(switch.poll_transmit(), None);
        assert_eq!(switch.counters().learning_packets, 1);
    }
}

#[test]
fn section_3_2_2_learning_packets_are_sent_with_a_probability() {
    let mut switch = roomy(GATEWAY_TOR, Profile::Paper);
    let limit = (LEARNING_PROBABILITY * 2_f64.powi(32)) as u32;
    // The same mapping again and again: sending does not depend on known mappings.
    for draw in [limit, u32::MAX, limit - 1, limit, 0, limit - 1] {
        for to in [host(2, 0), gateway(0)] {
            let mut packet = packet(key(9), host(1, 0), key(1), to);
            switch.handle_packet(&mut packet, Ingress::Fabric, Instant::ZERO, || draw);
            assert_eq!(
                switch.poll_transmit().is_some(),
                draw < limit,
                "{draw} {to:?}"
            );
        }
    }
}

#[test]
fn section_3_2_2_a_learning_packet_is_learned_where_it_is_addressed() {
    for profile in PROFILES {
        let learning = Packet {
            outer_source: switch_address(GATEWAY_TOR),
            outer_destination: switch_address(TOR),
            ttl: 60,
            flow: 0,
            body: Body::Learning(mapping(key(2), host(2, 0))),
        };
        let mut spine = roomy(SPINE, profile);
        let mut passing = learning;
        assert_eq!(pass(&mut spine, &mut passing), Verdict::Forward);
        assert_eq!((spine.cache().entries().count(), passing), (0, learning));
        let mut tor = roomy(TOR, profile);
        assert_eq!(pass(&mut tor, &mut passing), Verdict::Consumed);
        assert_eq!(cached(&tor, key(2)), Some(host(2, 0)));
        assert_eq!(tor.counters().learned, 1);
    }
}

#[test]
fn section_3_2_2_what_is_evicted_goes_along_and_is_inserted_by_a_switch_behind() {
    let mut gateway_tor = tiny(GATEWAY_TOR, Profile::Paper);
    teach(
        &mut gateway_tor,
        GATEWAY_TOR,
        &[mapping(key(2), host(1, 1))],
    );
    let mut resolved = packet(key(3), host(0, 0), key(4), host(0, 1));
    pass(&mut gateway_tor, &mut resolved);
    assert_eq!(
        data(&resolved).tags.carried,
        spilled(mapping(key(2), host(1, 1)))
    );
    assert_eq!(
        (
            gateway_tor.counters().evicted,
            gateway_tor.counters().spilled
        ),
        (1, 1)
    );

    let mut spine = roomy(GATEWAY_SPINE, Profile::Paper);
    pass(&mut spine, &mut resolved);
    assert_eq!(cached(&spine, key(2)), Some(host(1, 1)));
    assert_eq!(cached(&spine, key(4)), None, "one insertion a packet");
    assert_eq!(data(&resolved).tags.carried, None);
}

#[test]
fn section_3_2_2_a_tor_spills_upward_only() {
    let mut switch = tiny(TOR, Profile::Paper);
    teach(&mut switch, TOR, &[mapping(key(2), host(1, 1))]);
    let mut up = packet(key(3), host(0, 0), key(4), gateway(0));
    enter(&mut switch, &mut up, host(0, 0));
    assert_eq!(data(&up).tags.carried, spilled(mapping(key(2), host(1, 1))));
    let mut down = packet(key(5), host(2, 0), key(3), host(0, 0));
    pass(&mut switch, &mut down);
    assert_eq!(data(&down).tags.carried, None);
    assert_eq!(
        (switch.counters().evicted, switch.counters().spilled),
        (2, 1)
    );
}

#[test]
fn section_3_2_2_spines_promote_a_second_hit_that_leaves_the_pod() {
    for profile in PROFILES {
        let mut spine = roomy(SPINE, profile);
        teach(
            &mut spine,
            SPINE,
            &[mapping(key(2), host(2, 0)), mapping(key(3), host(1, 0))],
        );
        let mut carried_after_hit = |destination| {
            let mut packet = packet(key(1), host(0, 0), destination, gateway(0));
            pass(&mut spine, &mut packet);
            assert!(data(&packet).tags.hit.is_some());
            data(&packet).tags.carried
        };
        assert_eq!(carried_after_hit(key(2)), None, "the access bit was clear");
        assert_eq!(
            carried_after_hit(key(2)),
            promoted(mapping(key(2), host(2, 0)))
        );
        assert_eq!(carried_after_hit(key(3)), None);
        assert_eq!(carried_after_hit(key(3)), None, "it stays in the pod");
        assert_eq!(spine.counters().promoted, 1);
    }
}

#[test]
fn section_3_2_2_gateway_spines_and_cores_do_not_promote() {
    for number in [GATEWAY_SPINE, CORE, TOR, GATEWAY_TOR] {
        let mut switch = roomy(number, Profile::Paper);
        teach(&mut switch, number, &[mapping(key(2), host(0, 0))]);
        for _ in 0..3 {
            let mut packet = packet(key(1), host(1, 0), key(2), gateway(0));
            pass(&mut switch, &mut packet);
            assert_eq!(data(&packet).tags.carried, None);
        }
        assert_eq!(switch.counters().promoted, 0);
    }
}

/// A packet that the old host sent back: the physical source is still the sender's.
fn returned(version: u64) -> Packet {
    let mut packet = packet(key(1), host(2, 0), key(2), gateway(0));
    let tags = &mut data_mut(&mut packet).tags;
    tags.hit = Some(SwitchId(SPINE));
    tags.resolved_version = MapVersion(version);
    packet
}

#[test]
fn section_3_3_the_tor_tags_what_comes_from_a_host_that_did_not_send_it() {
    for (profile, tor) in PROFILES
        .into_iter()
        .flat_map(|p| [TOR, GATEWAY_TOR].map(|t| (p, t)))
    {
        let mut switch = roomy(tor, profile);
        let mut returned = returned(4);
        assert_eq!(
            enter(&mut switch, &mut returned, host(tor, 1)),
            Verdict::Forward
        );
        let (place, version) = (host(tor, 1), MapVersion(4));
        assert_eq!(
            data(&returned).tags.misdelivery,
            Some(Stale { place, version })
        );
        assert_eq!(switch.counters().misdelivered, 1);
        assert_eq!(cached(&switch, key(1)), None, "it teaches nothing");
    }
}

#[test]
fn section_3_3_a_tagged_packet_removes_the_stale_mapping_or_uses_another() {
    for profile in PROFILES {
        let mut stale = roomy(CORE, profile);
        teach(&mut stale, CORE, &[mapping(key(2), host(0, 1))]);
        let mut fresh = roomy(CORE, profile);
        let version = MapVersion(2);
        teach(
            &mut fresh,
            CORE,
            &[Mapping {
                version,
                ..mapping(key(2), host(1, 1))
            }],
        );

        let mut tagged = returned(1);
        enter(&mut roomy(TOR, profile), &mut tagged, host(0, 1));
        pass(&mut stale, &mut tagged);
        assert_eq!(
            (tagged.outer_destination, cached(&stale, key(2))),
            (gateway(0), None)
        );
        assert_eq!(stale.counters().invalidated_by_tag, 1);
        pass(&mut fresh, &mut tagged);
        assert_eq!(tagged.outer_destination, host(1, 1));
        assert_eq!(data(&tagged).tags.hit, Some(SwitchId(CORE)));
        assert_eq!(fresh.counters().tagged_resolved, 1);

        let mut another = roomy(GATEWAY_SPINE, profile);
        let version = MapVersion(3);
        let newer = Mapping {
            version,
            ..mapping(key(2), host(2, 1))
        };
        teach(&mut another, GATEWAY_SPINE, &[newer]);
        pass(&mut another, &mut tagged);
        assert_eq!(
            tagged.outer_destination,
            host(1, 1),
            "it is resolved by now"
        );
    }
}

#[test]
fn section_3_3_the_switch_that_was_wrong_gets_an_invalidation_packet() {
    for profile in PROFILES {
        let mut tor = roomy(TOR, profile);
        let mut tagged = returned(1);
        enter(&mut tor, &mut tagged, host(0, 1));
        assert_eq!(data(&tagged).tags.hit, None);
        let mut invalidation = tor.poll_transmit().expect("an invalidation packet");
        assert_eq!(invalidation.outer_destination, switch_address(SPINE));
        assert_eq!(
            invalidation.body,
            Body::Invalidation(mapping(key(2), host(0, 1)))
        );

        for (number, verdict) in [(CORE, Verdict::Forward), (SPINE, Verdict::Consumed)] {
            let mut switch = roomy(number, profile);
            teach(
                &mut switch,
                number,
                &[mapping(key(2), host(0, 1)), mapping(key(3), host(0, 1))],
            );
            assert_eq!(pass(&mut switch, &mut invalidation), verdict);
            assert_eq!(cached(&switch, key(2)), None, "on the way and at its end");
            assert!(cached(&switch, key(3)).is_some());
            assert_eq!(switch.counters().invalidated_by_packet, 1);
        }
        let mut right = roomy(CORE, profile);
        teach(&mut right, CORE, &[mapping(key(2), host(1, 1))]);
        pass(&mut right, &mut invalidation);
        assert_eq!(
            cached(&right, key(2)),
            Some(host(1, 1)),
            "only the stale mapping goes"
        );
    }
}

#[test]
fn section_3_3_the_timestamp_vector_allows_one_invalidation_packet_per_base_rtt() {
    for profile in PROFILES {
        let mut tor = roomy(TOR, profile);
        let mut sent_at = |now: Duration, blamed: u32| {
            let mut returned = returned(1);
            data_mut(&mut returned).tags.hit = Some(SwitchId(blamed));
            let now = Instant::ZERO + now;
            tor.handle_packet(&mut returned, Ingress::Host(host(0, 1)), now, || 0);
            tor.poll_transmit().is_some()
        };
        let start = Duration::from_millis(1);
        assert!(sent_at(start, SPINE));
        assert!(!sent_at(start + BASE_RTT - Duration::from_nanos(1), SPINE));
        assert!(
            sent_at(start + Duration::from_nanos(5), CORE),
            "each switch has its own entry"
        );
        assert!(
            sent_at(start + BASE_RTT, SPINE),
            "the first may have been lost"
        );
        assert_eq!(tor.counters().invalidation_packets, 3);
        assert_eq!(tor.counters().invalidations_suppressed, 1);
    }
}

#[test]
fn section_3_3_the_host_returns_what_is_not_for_it_to_the_gateway() {
    for profile in PROFILES {
        let mut old = HostAgent::new(host(0, 1), profile, directory());
        let mut arrived = packet(key(1), host(2, 0), key(2), host(0, 1));
        arrived.ttl = 60;
        old.release(key(2), Some(host(1, 1)));
        assert_eq!(old.handle_packet(&mut arrived), HostVerdict::Resend);
        assert_eq!(
            Some(arrived.outer_destination),
            directory().gateway_of(arrived.flow)
        );
        assert_eq!(
            (arrived.outer_source, arrived.ttl),
            (host(2, 0), INITIAL_TTL)
        );
        assert_eq!(data(&arrived).tags.misdelivery, None, "the ToR tags");
        old.admit(key(2), MapVersion(1));
        assert_eq!(old.handle_packet(&mut arrived), HostVerdict::Deliver);
    }
}

#[test]
fn section_4_gateway_migration_changes_a_role_and_leaves_the_cache() {
    let mut switch = roomy(TOR, Profile::Paper);
    teach(&mut switch, TOR, &[mapping(key(2), host(1, 1))]);
    switch.set_role(Role::GatewayTor);
    pass(
        &mut switch,
        &mut packet(key(1), host(2, 0), key(3), host(0, 0)),
    );
    assert_eq!(cached(&switch, key(2)), Some(host(1, 1)));
    assert_eq!(
        cached(&switch, key(3)),
        Some(host(0, 0)),
        "it learns destinations now"
    );
    assert_eq!(cached(&switch, key(1)), None);
}

#[test]
fn section_4_tors_only_memory_leaves_the_others_forwarding() {
    let entries = |role| MemoryPlacement::TorsOnly.entries(role, 64);
    assert_eq!([Role::Tor, Role::GatewayTor].map(entries), [64, 64]);
    assert_eq!(
        [Role::Spine, Role::GatewaySpine, Role::Core].map(entries),
        [0, 0, 0]
    );
    for number in [SPINE, GATEWAY_SPINE, CORE] {
        let mut switch = SwitchAgent::new(&config(number, Profile::Paper, 0), directory());
        let mut packet = packet(key(1), host(0, 0), key(2), host(2, 0));
        data_mut(&mut packet).tags.carried = promoted(mapping(key(3), host(1, 1)));
        let before = packet;
        assert_eq!(pass(&mut switch, &mut packet), Verdict::Forward);
        assert_eq!(
            packet, before,
            "what is carried goes on to a switch with memory"
        );
        packet.outer_destination = gateway(0);
        pass(&mut switch, &mut packet);
        assert_eq!(
            (packet.outer_destination, switch.counters().misses),
            (gateway(0), 1)
        );
        assert_eq!(switch.counters().refused_no_memory, 2);
    }
}

#[test]
fn section_4_a_host_that_sends_directly_leaves_the_access_bit_alone() {
    let mut switch = roomy(TOR, Profile::Paper);
    teach(&mut switch, TOR, &[mapping(key(2), host(1, 1))]);
    enter(
        &mut switch,
        &mut packet(key(1), host(0, 0), key(2), host(1, 1)),
        host(0, 0),
    );
    assert!(!is_active(&switch, key(2)));
}

#[test]
fn section_5_2_without_invalidations_only_tags_invalidate() {
    let without = AgentConfig {
        sends_invalidations: false,
        ..config(TOR, Profile::Paper, 64)
    };
    let mut tor = SwitchAgent::new(&without, directory());
    teach(&mut tor, TOR, &[mapping(key(2), host(0, 1))]);
    enter(&mut tor, &mut returned(1), host(0, 1));
    assert_eq!((tor.poll_transmit(), cached(&tor, key(2))), (None, None));
    assert_eq!(tor.counters().invalidation_packets, 0);
}

#[test]
fn section_5_2_without_the_timestamp_vector_each_misdelivery_sends_one() {
    let without = AgentConfig {
        has_timestamp_vector: false,
        ..config(TOR, Profile::Paper, 64)
    };
    let mut tor = SwitchAgent::new(&without, directory());
    for _ in 0..5 {
        enter(&mut tor, &mut returned(1), host(0, 1));
    }
    assert_eq!(std::iter::from_fn(|| tor.poll_transmit()).count(), 5);
    assert_eq!(tor.counters().invalidation_packets, 5);
}
