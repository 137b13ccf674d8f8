//! Where the profile `artifact` differs from the paper, step by step.

mod lab;

use lab::*;
use thalweg_packet::Instant;
use thalweg_v2p::*;

const PROFILE: Profile = Profile::Artifact;

/// A packet that a host sent back: the host tags it and is the outer source.
fn tagged(old_host: Address, blamed: Option<SwitchId>, to: Address) -> Packet {
    let mut packet = packet(key(1), old_host, key(2), to);
    let tags = &mut data_mut(&mut packet).tags;
    tags.origin = Some(host(2, 0));
    tags.hit = blamed;
    tags.misdelivery = Some(Stale {
        place: old_host,
        version: MapVersion::NONE,
    });
    packet
}

#[test]
fn step_1_any_tor_without_gateways_blames_and_each_switch_once_for_ever() {
    let mut tor = roomy(TOR, PROFILE);
    for (blamed, now, is_sent) in [(SPINE, 1, true), (SPINE, 1 << 40, false), (CORE, 2, true)] {
        let mut packet = tagged(host(0, 1), Some(SwitchId(blamed)), gateway(0));
        let now = Instant::from_nanos(now);
        tor.handle_packet(&mut packet, Ingress::Host(host(0, 1)), now, || 0);
        assert_eq!(data(&packet).tags.hit, None);
        let sent = tor.poll_transmit();
        assert_eq!(sent.is_some(), is_sent, "{blamed}");
        let stale = Mapping {
            version: MapVersion::NONE,
            ..mapping(key(2), host(0, 1))
        };
        assert!(sent.is_none_or(|sent| sent.body == Body::Invalidation(stale)));
    }
    let mut gateway_tor = roomy(GATEWAY_TOR, PROFILE);
    let mut packet = tagged(host(3, 1), Some(SwitchId(SPINE)), gateway(0));
    enter(&mut gateway_tor, &mut packet, host(3, 1));
    assert_eq!(
        data(&packet).tags.hit,
        Some(SwitchId(SPINE)),
        "the tag stays"
    );
    assert_eq!(gateway_tor.poll_transmit(), None);
}

#[test]
fn step_1_a_tagged_packet_is_rewritten_wherever_it_goes_and_names_nobody() {
    let mut core = roomy(CORE, PROFILE);
    teach(&mut core, CORE, &[mapping(key(2), host(1, 1))]);
    let mut packet = tagged(host(0, 1), None, host(2, 1));
    pass(&mut core, &mut packet);
    assert_eq!(packet.outer_destination, host(1, 1));
    assert_eq!(data(&packet).tags.hit, None);
    assert!(is_active(&core, key(2)), "it was a lookup");
    assert_eq!(core.counters().hits, 0, "and no hit");
}

#[test]
fn step_1_a_switch_that_blames_itself_counts_and_sends_nothing() {
    let mut tor = roomy(TOR, PROFILE);
    enter(
        &mut tor,
        &mut tagged(host(0, 1), Some(SwitchId(TOR)), gateway(0)),
        host(0, 1),
    );
    assert_eq!(
        (tor.counters().invalidation_packets, tor.poll_transmit()),
        (1, None)
    );
}

#[test]
fn step_2_a_spine_promotes_each_hit_and_lets_the_next_switch_resolve() {
    let mut spine = roomy(SPINE, PROFILE);
    teach(&mut spine, SPINE, &[mapping(key(2), host(1, 1))]);
    let mut packet = packet(key(1), host(0, 0), key(2), gateway(0));
    data_mut(&mut packet).tags.carried = spilled(mapping(key(3), host(2, 0)));
    pass(&mut spine, &mut packet);
    assert_eq!(packet.outer_destination, gateway(0));
    assert_eq!(
        data(&packet).tags.carried,
        promoted(mapping(key(2), host(1, 1)))
    );
    assert_eq!(cached(&spine, key(3)), None, "the spilled mapping is lost");
    let counters = spine.counters();
    assert_eq!(
        (counters.promoted, counters.carried_lost, counters.hits),
        (1, 1, 0)
    );

    let mut core = roomy(CORE, PROFILE);
    pass(&mut core, &mut packet);
    assert_eq!(packet.outer_destination, host(1, 1));
    assert_eq!(data(&packet).tags.hit, Some(SwitchId(CORE)));
    assert_eq!(core.counters().hits, 1);
}

#[test]
fn step_3_a_tor_learns_sources_from_afar_else_destinations_that_fit() {
    let mut tor = tiny(TOR, PROFILE);
    enter(
        &mut tor,
        &mut packet(key(1), host(0, 0), key(2), gateway(0)),
        host(0, 0),
    );
    assert_eq!(
        tor.cache().entries().count(),
        0,
        "neither its own source nor a gateway"
    );
    enter(
        &mut tor,
        &mut packet(key(1), host(0, 0), key(2), host(1, 0)),
        host(0, 0),
    );
    assert_eq!(cached(&tor, key(2)), Some(host(1, 0)));
    enter(
        &mut tor,
        &mut packet(key(1), host(0, 0), key(3), host(1, 0)),
        host(0, 0),
    );
    assert_eq!(cached(&tor, key(3)), None);
    assert_eq!(tor.counters().refused_occupied, 1);
    let mut from_afar = packet(key(4), host(2, 0), key(1), host(0, 0));
    pass(&mut tor, &mut from_afar);
    assert_eq!(cached(&tor, key(4)), Some(host(2, 0)));
    assert_eq!(
        (tor.counters().evicted, tor.counters().spilled),
        (1, 0),
        "it never spills"
    );
}

#[test]
fn step_3_a_core_takes_what_is_carried_for_this_destination_only() {
    let mut core = tiny(CORE, PROFILE);
    let carry = |core: &mut SwitchAgent, carried| {
        let mut packet = packet(key(1), host(0, 0), key(2), gateway(0));
        data_mut(&mut packet).tags.carried = carried;
        pass(core, &mut packet);
        data(&packet).tags.carried
    };
    let other = spilled(mapping(key(3), host(1, 1)));
    assert_eq!(carry(&mut core, other), other, "it goes on");
    teach(&mut core, CORE, &[mapping(key(3), host(1, 1))]);
    let own = promoted(mapping(key(2), host(2, 1)));
    assert_eq!(carry(&mut core, own), other, "the displaced one is spilled");
    assert_eq!(carry(&mut core, own), own, "it is there already");
    assert_eq!(core.counters().refused_present, 1);
}

#[test]
fn step_3_a_core_takes_destinations_that_fit() {
    let mut core = tiny(CORE, PROFILE);
    pass(
        &mut core,
        &mut packet(key(1), host(0, 0), key(2), host(2, 0)),
    );
    pass(
        &mut core,
        &mut packet(key(1), host(0, 0), key(3), host(2, 0)),
    );
    assert_eq!(cached(&core, key(2)), Some(host(2, 0)));
    assert_eq!(cached(&core, key(3)), None);
}

#[test]
fn step_3_a_spine_carries_on_what_it_cannot_take() {
    let mut spine = tiny(SPINE, PROFILE);
    teach(&mut spine, SPINE, &[mapping(key(5), host(1, 1))]);
    pass(
        &mut spine,
        &mut packet(key(1), host(0, 0), key(5), gateway(0)),
    );
    let mut resolved = packet(key(1), host(0, 0), key(2), host(2, 0));
    data_mut(&mut resolved).tags.carried = spilled(mapping(key(3), host(1, 1)));
    pass(&mut spine, &mut resolved);
    assert_eq!(
        data(&resolved).tags.carried,
        spilled(mapping(key(3), host(1, 1)))
    );
    let mut known = packet(key(1), host(0, 0), key(5), host(1, 1));
    pass(&mut spine, &mut known);
    assert!(
        !is_active(&spine, key(5)),
        "the same key again clears the bit"
    );
}

#[test]
fn step_3_a_gateway_tor_teaches_whatever_it_inserts_to_the_original_sender() {
    let mut switch = roomy(GATEWAY_TOR, PROFILE);
    let mut resolved = packet(key(1), host(0, 1), key(2), host(2, 0));
    let tags = &mut data_mut(&mut resolved).tags;
    tags.carried = spilled(mapping(key(3), host(1, 1)));
    tags.origin = Some(host(1, 0));
    pass(&mut switch, &mut resolved);
    let learning = switch.poll_transmit().expect("a learning packet");
    assert_eq!(learning.outer_destination, switch_address(OTHER_TOR));
    assert_eq!(learning.body, Body::Learning(mapping(key(3), host(1, 1))));
    for expected in 2..5 {
        pass(
            &mut switch,
            &mut packet(key(1), host(1, 1), key(2), host(2, 0)),
        );
        assert!(switch.poll_transmit().is_some(), "also when it is known");
        assert_eq!(switch.counters().learning_packets, expected);
    }
    pass(
        &mut switch,
        &mut packet(key(1), host(1, 1), key(2), gateway(0)),
    );
    assert_eq!(
        switch.counters().learning_packets,
        4,
        "nothing was inserted"
    );
}

#[test]
fn step_4_hits_are_counted_and_named() {
    let mut tor = roomy(TOR, PROFILE);
    teach(&mut tor, TOR, &[mapping(key(2), host(1, 1))]);
    let mut packet = packet(key(1), host(0, 0), key(2), gateway(1));
    enter(&mut tor, &mut packet, host(0, 0));
    assert_eq!(packet.outer_destination, host(1, 1));
    assert_eq!(data(&packet).tags.hit, Some(SwitchId(TOR)));
    assert_eq!((tor.counters().hits, tor.counters().misses), (1, 0));
}

#[test]
fn control_packets_are_sent_anew_by_each_switch() {
    for body in [Body::Learning(mapping(key(2), host(2, 0))), {
        Body::Invalidation(mapping(key(2), host(2, 0)))
    }] {
        let mut packet = Packet {
            outer_source: switch_address(GATEWAY_TOR),
            outer_destination: switch_address(TOR),
            ttl: 60,
            flow: 0,
            body,
        };
        assert_eq!(
            pass(&mut roomy(SPINE, PROFILE), &mut packet),
            Verdict::Forward
        );
        assert_eq!(
            (packet.outer_source, packet.ttl),
            (switch_address(SPINE), INITIAL_TTL)
        );
    }
}

#[test]
fn the_host_tags_and_follows_where_no_cache_was_wrong() {
    let mut old = HostAgent::new(host(0, 1), PROFILE, directory());
    old.release(key(2), Some(host(1, 1)));
    let mut by_gateway = packet(key(1), host(2, 0), key(2), host(0, 1));
    by_gateway.ttl = 59;
    let mut by_cache = by_gateway;
    data_mut(&mut by_cache).tags.hit = Some(SwitchId(SPINE));

    assert_eq!(old.handle_packet(&mut by_gateway), HostVerdict::Resend);
    assert_eq!(by_gateway.outer_destination, host(1, 1));
    assert_eq!(
        (by_gateway.outer_source, by_gateway.ttl),
        (host(0, 1), INITIAL_TTL)
    );
    let tags = data(&by_gateway).tags;
    assert_eq!(tags.misdelivery.map(|stale| stale.place), Some(host(0, 1)));
    assert_eq!(tags.origin, Some(host(2, 0)));

    assert_eq!(old.handle_packet(&mut by_cache), HostVerdict::Resend);
    assert!(directory().is_gateway(by_cache.outer_destination));
    assert_eq!(
        (old.counters().misdelivered, old.counters().followed),
        (2, 1)
    );
}

#[test]
fn the_gateway_keeps_the_hit_tag_and_drops_the_others() {
    let mut database = Database::new();
    database.place(key(2), host(1, 1));
    for (profile, hit) in [(PROFILE, Some(SwitchId(SPINE))), (Profile::Paper, None)] {
        let mut packet = tagged(host(0, 1), Some(SwitchId(SPINE)), gateway(0));
        data_mut(&mut packet).tags.carried = spilled(mapping(key(3), host(2, 1)));
        let mut agent = GatewayAgent::new(profile);
        assert_eq!(
            agent.handle_packet(&database, &mut packet),
            GatewayVerdict::Forward
        );
        let tags = data(&packet).tags;
        assert_eq!(
            (tags.hit, tags.carried, tags.misdelivery),
            (hit, None, None)
        );
        assert_eq!(
            (packet.outer_destination, tags.resolved_version),
            (host(1, 1), MapVersion(1))
        );
        let mut unknown = tagged(host(0, 1), None, gateway(0));
        data_mut(&mut unknown).vni = Vni::new(8).unwrap();
        let verdict = agent.handle_packet(&database, &mut unknown);
        assert_eq!(
            verdict,
            GatewayVerdict::UnknownDestination,
            "of another tenant"
        );
    }
}

/// The weakness that versions are for: a delayed message brings a removed mapping back.
#[test]
fn a_stale_mapping_comes_back_but_not_in_plus() {
    for (profile, place) in [(PROFILE, Some(host(0, 1))), (Profile::Plus, None)] {
        let mut tor = roomy(TOR, profile);
        let stale = mapping(key(2), host(0, 1));
        teach(&mut tor, TOR, &[stale]);
        let mut invalidation = Packet {
            outer_source: switch_address(OTHER_TOR),
            outer_destination: switch_address(TOR),
            ttl: INITIAL_TTL,
            flow: 0,
            body: Body::Invalidation(stale),
        };
        assert_eq!(pass(&mut tor, &mut invalidation), Verdict::Consumed);
        assert_eq!(cached(&tor, key(2)), None);
        teach(&mut tor, TOR, &[stale]);
        assert_eq!(cached(&tor, key(2)), place);
    }
}
