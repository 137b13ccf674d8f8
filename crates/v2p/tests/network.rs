//! A small fabric with random message order, losses, duplicates, and machines that move.
//!
//! Two tenants use the same virtual addresses on disjoint hosts, so the place shows if a
//! mapping reaches the wrong tenant. `THALWEG_CHECKS` sets another number of runs of each
//! kind.

mod lab;

use lab::fabric::{Fabric, Plan};
use lab::*;
use rand::Rng;
use thalweg_v2p::*;

const TENANTS: [u32; 2] = [7, 8];
const MACHINES: u32 = 5;
const EVENTS: usize = 600;
const PROFILES: [Profile; 3] = [Profile::Artifact, Profile::Paper, Profile::Plus];

const CALM: Plan = Plan {
    profile: Profile::Plus,
    seed: 0,
    entries: 4,
    loss: 0.0,
    duplication: 0.0,
    sends_invalidations: true,
};

fn runs() -> u64 {
    let asked = std::env::var("THALWEG_CHECKS").ok();
    asked.map_or(12, |asked| {
        asked.parse().expect("THALWEG_CHECKS is a number")
    })
}

/// Draws a random machine's key and a random host of its tenant.
fn draw(fabric: &mut Fabric) -> (Key, usize) {
    let tenant = fabric.random.random_range(0..TENANTS.len());
    let key = tenant_key(TENANTS[tenant], fabric.random.random_range(0..MACHINES));
    (
        key,
        2 * fabric.random.random_range(0..TORS as usize) + tenant,
    )
}

/// Lets machines send and move while messages are under way; then waits until all is at rest.
fn run(plan: Plan) -> Fabric {
    let mut fabric = Fabric::new(plan);
    for (index, tenant) in TENANTS.into_iter().enumerate() {
        for machine in 0..MACHINES {
            let host = 2 * (machine % TORS) as usize + index;
            fabric.place(tenant_key(tenant, machine), host);
        }
    }
    for _ in 0..EVENTS {
        let (key, host) = draw(&mut fabric);
        match fabric.random.random_range(0..100) {
            0..3 => fabric.place(key, host),
            3..40 => {
                let number = fabric.random.random_range(0..MACHINES);
                fabric.send(key, tenant_key(key.vni.number(), number));
            }
            _ => (0..8).for_each(|_| {
                fabric.step();
            }),
        }
    }
    fabric.settle();
    check_counters(&fabric);
    fabric
}

fn check_counters(fabric: &Fabric) {
    for switch in &fabric.switches {
        let counters = switch.counters();
        let removed = counters.invalidated_by_tag + counters.invalidated_by_packet;
        let entries = switch.cache().entries().count() as u64;
        assert_eq!(
            counters.admitted_free - removed,
            entries,
            "{:?}",
            fabric.plan
        );
        assert!(counters.spilled <= counters.evicted);
        assert!(counters.hits + counters.misses <= counters.packets);
        assert_eq!(counters.control_overflow + counters.unknown_targets, 0);
        assert_eq!((counters.forged_tags, counters.forged_control), (0, 0));
    }
}

#[test]
fn without_losses_every_packet_is_delivered_once() {
    for profile in PROFILES {
        let mut misdelivered = 0;
        for seed in 0..runs() {
            let fabric = run(Plan {
                profile,
                seed,
                ..CALM
            });
            let observer = &fabric.observer;
            for flow in &observer.sent {
                let count = observer.delivered.get(flow).copied().unwrap_or(0);
                let is_there = count == 1 || fabric.is_under_way(*flow);
                assert!(is_there, "{flow}: {count}, {:?}", fabric.plan);
            }
            let hits: u64 = fabric
                .switches
                .iter()
                .map(|switch| switch.counters().hits)
                .sum();
            assert!(hits > 0, "the caches are of use: {:?}", fabric.plan);
            misdelivered += observer.misdelivered.len();
        }
        assert!(misdelivered > 0, "{profile:?}");
    }
}

#[test]
fn what_is_not_lost_is_delivered_at_last() {
    for (profile, seed) in PROFILES
        .into_iter()
        .flat_map(|p| (0..runs()).map(move |s| (p, s)))
    {
        let fabric = run(Plan {
            profile,
            seed,
            loss: 0.02,
            duplication: 0.02,
            ..CALM
        });
        let observer = &fabric.observer;
        assert!(!observer.lost.is_empty());
        let is_missing = |flow: &&u32| {
            let is_there = observer.delivered.contains_key(flow) || fabric.is_under_way(**flow);
            !is_there && !observer.lost.contains(flow)
        };
        let missing = observer.sent.iter().find(is_missing);
        assert_eq!(missing, None, "{:?}", fabric.plan);
    }
}

/// Holds even where invalidation packets are often lost, or never sent.
#[test]
fn with_versions_a_packet_is_misdelivered_at_most_as_often_as_its_destination_moved() {
    for (sends_invalidations, seed) in (0..2 * runs()).map(|seed| (seed % 2 == 0, seed)) {
        for entries in [1, 4, 64] {
            let fabric = run(Plan {
                seed,
                sends_invalidations,
                entries,
                ..CALM
            });
            let observer = &fabric.observer;
            for (&flow, &count) in &observer.misdelivered {
                assert!(
                    count <= observer.moves(flow),
                    "{flow}: {count}, {:?}",
                    fabric.plan
                );
            }
        }
    }
}

#[test]
fn with_versions_a_stale_mapping_is_never_reinstalled() {
    for seed in 0..2 * runs() {
        for (entries, loss) in [(1, 0.0), (4, 0.05), (64, 0.2)] {
            let fabric = run(Plan {
                seed,
                entries,
                loss,
                duplication: 0.2,
                ..CALM
            });
            let observer = &fabric.observer;
            assert_eq!(observer.reinstalled, 0, "{:?}", fabric.plan);
            assert_eq!(observer.untrue, 0, "{:?}", fabric.plan);
        }
    }
}

/// Shows that the observer can see the fault: it happens without versions.
#[test]
fn without_versions_stale_mappings_come_back() {
    for profile in [Profile::Artifact, Profile::Paper] {
        let plans = (0..runs()).map(|seed| Plan {
            profile,
            seed,
            duplication: 0.02,
            ..CALM
        });
        let reinstalled: u64 = plans.map(|plan| run(plan).observer.reinstalled).sum();
        assert!(reinstalled > 0, "{profile:?}");
    }
}

/// Two stale caches send a packet back and forth; versions end that at once.
#[test]
fn two_stale_caches_do_not_keep_a_packet() {
    let (moved, places) = (key(1), [host(0, 0), host(1, 0)]);
    let bounces = |profile: Profile| {
        // On the way from each old host to the gateway, one switch maps to the other old host.
        let mut switches = [SPINE, GATEWAY_SPINE].map(|number| roomy(number, profile));
        for (index, number) in [SPINE, GATEWAY_SPINE].into_iter().enumerate() {
            let version = MapVersion(2 - index as u64);
            let wrong = Mapping {
                version,
                ..mapping(moved, places[1 - index])
            };
            teach(&mut switches[index], number, &[wrong]);
        }
        let mut at = 0;
        let mut packet = packet(key(9), host(2, 0), moved, gateway(0));
        for bounce in 0..10 {
            packet.outer_destination = gateway(0);
            let mut tor = roomy(at as u32, profile);
            enter(&mut tor, &mut packet, places[at]);
            pass(&mut switches[at], &mut packet);
            match places
                .iter()
                .position(|place| *place == packet.outer_destination)
            {
                Some(next) => at = next,
                None => return bounce,
            }
        }
        10
    };
    assert_eq!(
        bounces(Profile::Paper),
        10,
        "nobody carries its invalidations out here"
    );
    assert_eq!(bounces(Profile::Plus), 1);
}

/// The artifact sends tagged packets after a machine, and rewrites them on the way without
/// blame. A ToR that maps to the first of three places turns them back each time.
#[test]
fn the_artifact_can_bounce_a_packet_for_ever_and_the_paper_cannot() {
    let old = [host(0, 0), host(1, 0)];
    let returns = |profile: Profile| {
        let mut tors = [TOR, OTHER_TOR].map(|number| roomy(number, profile));
        teach(&mut tors[1], OTHER_TOR, &[mapping(key(1), old[0])]);
        let mut hosts = old.map(|address| HostAgent::new(address, profile, directory()));
        hosts[0].release(key(1), Some(old[1]));
        hosts[1].release(key(1), Some(host(2, 0)));
        let mut packet = packet(key(9), host(2, 0), key(1), old[1]);
        for count in 0..20 {
            let Some(at) = old
                .iter()
                .position(|place| *place == packet.outer_destination)
            else {
                return count;
            };
            assert_eq!(hosts[at].handle_packet(&mut packet), HostVerdict::Resend);
            enter(&mut tors[at], &mut packet, old[at]);
            if let Some(mut invalidation) = tors[at].poll_transmit() {
                assert_eq!(invalidation.outer_destination, switch_address(OTHER_TOR));
                pass(&mut tors[1], &mut invalidation);
            }
        }
        20
    };
    assert_eq!(returns(Profile::Artifact), 20);
    assert_eq!(returns(Profile::Paper), 2);
    assert_eq!(returns(Profile::Plus), 1);
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for profile in PROFILES {
        let plan = Plan {
            profile,
            seed: 5,
            loss: 0.02,
            duplication: 0.02,
            ..CALM
        };
        let counters = |fabric: Fabric| {
            let switches = fabric.switches.iter();
            switches
                .map(|switch| *switch.counters())
                .collect::<Vec<_>>()
        };
        assert_eq!(counters(run(plan)), counters(run(plan)));
    }
}
