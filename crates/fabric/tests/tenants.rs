//! Tenants that share a fabric, memory placed by measurements, and bytes of tags.

mod small;

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use thalweg_fabric::*;
use thalweg_v2p::{Demand, Profile};

use small::small;

fn config(scheme: Scheme) -> Config {
    Config::artifact(small(), Placement::even(32, 8), scheme)
}

fn tenants(weights: &[(u32, u32)]) -> Vec<Tenant> {
    let tenant = |&(traffic, memory): &(u32, u32)| Tenant { traffic, memory };
    weights.iter().map(tenant).collect()
}

/// Packets of random pairs, each in its own flow, so that every tenant has some.
fn traffic(seed: u64, packets: u32) -> Vec<TraceLine> {
    let mut random = Pcg64::seed_from_u64(seed);
    let line = |flow: u32| TraceLine {
        source: random.random_range(0..16),
        destination: random.random_range(16..32),
        start: Time::from_nanos(u64::from(flow) * 300),
        flow,
        bytes: random.random_range(1..1400),
    };
    (0..packets).map(line).collect()
}

fn run(config: &Config, trace: &[TraceLine]) -> Report {
    let mut run = Simulation::new(config, trace).unwrap();
    run.run();
    let (census, report) = (run.census(), run.report());
    assert_eq!(census.sent, census.delivered + report.drops.total());
    report
}

fn schemes() -> Vec<Scheme> {
    let v2p = |profile| SwitchV2p::new(profile, 8);
    vec![
        Scheme::NoCache,
        Scheme::Direct,
        Scheme::SwitchV2p(v2p(Profile::Artifact)),
        Scheme::SwitchV2p(v2p(Profile::Paper)),
        Scheme::SwitchV2p(SwitchV2p {
            is_partitioned: true,
            ..v2p(Profile::Plus)
        }),
        Scheme::LocalLearning { entries: 8 },
        Scheme::GwCache { entries: 8 },
        Scheme::Bluebird(Bluebird::artifact(8)),
        Scheme::OnDemand(OnDemand::Artifact),
        Scheme::Controller(Controller::artifact(4, Time::from_micros(50))),
    ]
}

/// All tenants have the same addresses at different servers. A mapping of another tenant would
/// lead to a host without the machine.
#[test]
fn tenants_with_the_same_addresses_never_meet() {
    for scheme in schemes() {
        let base = config(scheme);
        let config = Config {
            tenants: tenants(&[(2, 1), (1, 1), (1, 2)]),
            ..base.clone()
        };
        let report = run(&config, &traffic(1, 6_000));
        assert_eq!(
            (report.delivered, report.misdelivered, report.drops.total()),
            (6_000, 0, 0),
            "{scheme:?}"
        );
        let all = &report.tenants;
        assert_eq!(all.len(), 3);
        let sum = |of: fn(&TenantReport) -> u64| all.iter().map(of).sum::<u64>();
        assert_eq!(sum(|one| one.packets_sent), 6_000);
        assert_eq!(sum(|one| one.gateway_packets), report.gateway_packets);
        assert!(all[0].packets_sent > all[1].packets_sent + 1_000);
        // A single tenant is the same as no tenants.
        let one = Config {
            tenants: tenants(&[(5, 1)]),
            ..base.clone()
        };
        let trace = traffic(1, 500);
        assert_eq!(run(&one, &trace), run(&base, &trace), "{scheme:?}");
    }
}

/// A tenant with little traffic beside a busy one benefits from its own lines.
#[test]
fn a_small_tenant_keeps_its_lines() {
    let hit_rates = |is_partitioned, memory: [u32; 2]| {
        let settings = SwitchV2p {
            is_partitioned,
            ..SwitchV2p::new(Profile::Paper, 16)
        };
        let config = Config {
            tenants: tenants(&[(19, memory[0]), (1, memory[1])]),
            ..config(Scheme::SwitchV2p(settings))
        };
        let report = run(&config, &traffic(2, 40_000));
        [report.tenants[0].hit_rate, report.tenants[1].hit_rate]
    };
    let shared = hit_rates(false, [1, 1]);
    let divided = hit_rates(true, [1, 1]);
    assert!(divided[1] > shared[1] + 0.1, "{shared:?}, {divided:?}");
    // A tenant without lines is served by gateways alone.
    let none = hit_rates(true, [1, 0]);
    assert!(none[1] == 0.0 && none[0] > 0.9, "{none:?}");
}

#[test]
fn tenants_without_traffic_or_memory_are_refused() {
    for weights in [vec![(0, 1)], vec![(1, 0), (1, 0)]] {
        let config = Config {
            tenants: tenants(&weights),
            ..config(Scheme::NoCache)
        };
        let refused = Simulation::new(&config, &traffic(1, 10)).unwrap_err();
        assert_eq!(refused, ConfigError::Tenants(weights.len()));
    }
    let config = Config {
        switch_entries: Some(vec![4; 9]),
        ..config(Scheme::NoCache)
    };
    let refused = Simulation::new(&config, &traffic(1, 10)).unwrap_err();
    let switches = 10;
    assert_eq!(refused, ConfigError::SwitchEntries { said: 9, switches });
}

/// Measurements match the agents' own counts, and lines placed by them hit more.
#[test]
fn memory_by_curves_hits_more_than_memory_everywhere() {
    let settings = SwitchV2p::new(Profile::Plus, 8);
    let base = config(Scheme::SwitchV2p(settings));
    let trace = traffic(3, 20_000);
    let mut measured = Simulation::new(&base, &trace).unwrap();
    assert_eq!(measured.demand().count(), 0);
    measured.measure_demand(64);
    measured.run();
    let demands: Vec<&Demand> = measured.demand().collect();
    let asked: Vec<u64> = demands.iter().map(|demand| demand.questions()).collect();
    let counted = measured.switch_counters();
    let counted: Vec<u64> = counted
        .map(|counters| counters.hits + counters.misses)
        .collect();
    assert_eq!(asked, counted);
    // Measuring changes nothing.
    assert_eq!(measured.report(), run(&base, &trace));
    let entries = place_memory(demands, 8 * 10, 4);
    assert_eq!(entries.iter().sum::<u32>(), 8 * 10);
    let placed = Config {
        switch_entries: Some(entries.clone()),
        ..base
    };
    let mut again = Simulation::new(&placed, &trace).unwrap();
    again.run();
    let (placed, even) = (again.report().hit_rate, measured.report().hit_rate);
    assert!(placed > even + 0.02, "{placed} for {even}: {entries:?}");
}

/// A tag lengthens its packet, which then takes longer on each link.
#[test]
fn tags_take_bytes_where_they_are_charged() {
    let bytes = |charges_tags, profile| {
        let config = Config {
            charges_tags,
            ..config(Scheme::SwitchV2p(SwitchV2p::new(profile, 64)))
        };
        let report = run(&config, &traffic(4, 3_000));
        let hits = report.hits_by_layer;
        let hits = hits.core + hits.spine + hits.tor;
        (
            report.switch_bytes.iter().sum::<u64>(),
            hits,
            report.packet_hops,
        )
    };
    let (free, hits, hops) = bytes(false, Profile::Paper);
    let (charged, ..) = bytes(true, Profile::Paper);
    // A hit tag is 12 bytes (class, type and length; format, kind and flags; the switch). It
    // travels from the switch that hit to the host, over at least one switch.
    assert!(
        hits > 500 && charged > free + 12 * hits / 2,
        "{charged} for {free}"
    );
    assert!(charged < free + 40 * hops);
    // With versions each packet carries at most two of them.
    let (plus_free, _, plus_hops) = bytes(false, Profile::Plus);
    let (plus, ..) = bytes(true, Profile::Plus);
    assert!(plus >= plus_free + 16 * plus_hops, "{plus} for {plus_free}");
}
