use std::path::{Path, PathBuf};

use thalweg_fabric::FatTree;

use super::*;

const WHOLE: &str = r#"
[topology]
kind = "ft8-10k"
gateways_per_tor = [1, 10]
pods = [8, 32]
[workload]
trace = "hadoop.csv.gz"
placement = "placement.json.gz"
start_before_us = 2500
size_limit_bytes = 4096
transport = "tcp"
payload_bytes = 64
[workload.tcp]
algorithm = "dctcp"
loss_detection = [2048, "rack-tlp"]
mark_bytes = 90000
[run]
profile = "paper"
schemes = ["nocache", "switchv2p+", "controller-300"]
cache_percent = [1, 0.5, 150000]
seeds = [1, 7]
offload_threshold_packets = 3
[gateways]
packets_per_second = 1000
queue_packets = 4
[memory]
core = 1
spine = 0
tor = 9
[migration]
vm = 5200
at_us = 500
to_server = 68
[[failure]]
link = ["ToR 0", "spine 1"]
at_us = 20
until_us = 60
[[failure]]
switch = "core-3"
at_us = 70
[[gateway_move]]
at_us = 80
from = "tor 0"
to = "tor 7"
[[tenant]]
traffic = 9
[[tenant]]
traffic = 1
memory = 3
"#;

fn parse(text: &str) -> Result<Plan> {
    Plan::parse("p.toml", Path::new("plans"), text)
}

fn refused(text: &str) -> String {
    parse(text).unwrap_err().to_string()
}

#[test]
fn times_and_sizes_may_have_units() {
    let whole = parse(WHOLE).unwrap();
    let with_units = [
        ("start_before_us = 2500", "start_before_us = \"2ms 500us\""),
        ("size_limit_bytes = 4096", "size_limit_bytes = \"4 KiB\""),
        ("payload_bytes = 64", "payload_bytes = \"64 B\""),
        ("mark_bytes = 90000", "mark_bytes = \"90 kB\""),
        ("at_us = 500", "at_us = \"500us\""),
        ("at_us = 20\n", "at_us = \"20000ns\"\n"),
        ("until_us = 60", "until_us = \"60 us\""),
        ("at_us = 80", "at_us = \"80 usec\""),
    ];
    let mut text = WHOLE.to_owned();
    for (plain, with_unit) in with_units {
        assert_eq!(text.matches(plain).count(), 1, "{plain}");
        text = text.replace(plain, with_unit);
    }
    // Both texts have the same lines, so failures have the same places.
    assert_eq!(parse(&text).unwrap(), whole);
    for value in [
        "\"1500ns\"",
        "\"5\"",
        "\"soon\"",
        "-1",
        "\"600000000000years\"",
    ] {
        let said = refused(&WHOLE.replace("at_us = 500", &format!("at_us = {value}")));
        let expected = "expected a whole number of microseconds, or a time such as \"250ms\"";
        assert!(
            said.starts_with("p.toml:32:9: ") && said.ends_with(expected),
            "{said}"
        );
    }
}

#[test]
fn a_whole_plan_is_read() {
    let plan = parse(WHOLE).unwrap();
    let shapes: Vec<(u32, u32, u32)> = plan
        .topologies
        .iter()
        .map(|one| {
            let shape = &one.shape;
            (shape.pods, shape.gateways_per_tor, one.switches_with_memory)
        })
        .collect();
    assert_eq!(
        shapes,
        [(8, 1, 80), (8, 10, 80), (32, 1, 272), (32, 10, 272)]
    );
    assert_eq!(plan.topologies[3].shape.servers_per_tor, 1);
    assert_eq!(plan.topologies[3].shape.gateway_tors, [0, 10, 20, 127]);
    let workload = &plan.workload;
    let trace = PathBuf::from("plans/hadoop.csv.gz");
    assert_eq!(workload.source, TrafficSource::Trace(trace));
    let placed = PathBuf::from("plans/placement.json.gz");
    assert_eq!(workload.machines, Machines::Placed(placed));
    assert_eq!(workload.start_before_us, Some(2500));
    assert_eq!(workload.size_limit_bytes, Some(4096));
    assert_eq!(workload.payload_bytes, Some(64));
    let detections = workload.transports.iter().map(Transport::loss_detection);
    let detections: Vec<String> = detections.flatten().collect();
    assert_eq!(detections, ["2048", "rack-tlp"]);
    assert_eq!(plan.profile, PlanProfile::Paper);
    let names: Vec<&str> = plan.schemes.iter().map(|scheme| scheme.name()).collect();
    assert_eq!(names, ["nocache", "switchv2p+", "controller-300"]);
    let amounts: Vec<CacheAmount> = plan.caches.iter().map(|size| size.amount).collect();
    assert_eq!(amounts, [1.0, 0.5, 150_000.0].map(CacheAmount::Percent));
    assert_eq!((plan.caches[1].line, plan.caches[1].column), (20, 21));
    assert_eq!(plan.seeds, [1, 7]);
    assert_eq!(plan.offload_threshold_packets, 3);
    let service = plan.gateway_service.unwrap();
    assert_eq!(
        (service.packets_per_second, service.queue_packets),
        (1000, 4)
    );
    assert_eq!(plan.measure_percent, 25);
    let tenants = plan.tenants.iter();
    let tenants: Vec<(u32, u32)> = tenants.map(|one| (one.traffic, one.memory)).collect();
    assert_eq!(tenants, [(9, 1), (1, 3)]);
    let memory = plan.memory.unwrap();
    assert_eq!((memory.core, memory.spine, memory.tor), (1, 0, 9));
    let migration = plan.migration.unwrap();
    assert_eq!((migration.machine, migration.to_server), (5200, 68));
    assert_eq!(migration.at, Time::from_micros(500));
    let name = |text: &str| text.parse().unwrap();
    let [link, switch] = plan.failures[..] else {
        panic!("{:?}", plan.failures);
    };
    let both = PlannedElement::Link(name("tor 0"), name("spine 1"));
    assert_eq!((link.element, link.line, link.column), (both, 35, 8));
    assert_eq!(link.until, Some(Time::from_micros(60)));
    assert_eq!(switch.element, PlannedElement::Switch(name("core 3")));
    assert_eq!((switch.at, switch.until), (Time::from_micros(70), None));
    let moved = plan.gateway_moves[0].moved;
    assert_eq!((moved.from_tor, moved.to_tor), (0, 7));
    assert_eq!(moved.at, Time::from_micros(80));
}

#[test]
fn what_is_left_out_is_as_published() {
    let plan = parse(
        "[topology]\nkind = \"ft16-400k\"\n[workload]\ntrace = \"/t\"\nmachines = 3\n\
         transport = \"udp\"\n[run]\nschemes = \"direct\"\n",
    );
    let plan = plan.unwrap();
    assert_eq!(plan.topologies[0].switches_with_memory, 816);
    assert_eq!(plan.topologies[0].shape.gateways_per_tor, 10);
    assert_eq!(plan.workload.machines, Machines::Even(3));
    let trace = PathBuf::from("/t");
    assert_eq!(plan.workload.source, TrafficSource::Trace(trace));
    assert_eq!(plan.workload.transports, [Transport::Udp]);
    assert_eq!((plan.profile, plan.seeds), (PlanProfile::Artifact, vec![1]));
    assert!(plan.caches.is_empty() && plan.migration.is_none());
    assert!(plan.failures.is_empty() && plan.gateway_moves.is_empty());
    assert_eq!(plan.reroute_after, Time::ZERO);
}

#[test]
fn fabrics_of_one_s_own() {
    let with = |topology: &str| {
        parse(&format!(
            "{topology}\n[workload]\ntrace = \"t\"\nmachines = 3\ntransport = \"udp\"\n\
             [run]\nschemes = [\"gwcache\"]\ncache_entries = 12\n"
        ))
    };
    let plan = with(
        "[topology.fat_tree]\npods = 2\ntors_per_pod = 3\nspines_per_pod = 4\n\
         core_links_per_spine = 1\nservers_per_tor = 5\ngateway_tors = [0, 4]\n\
         gateways_per_tor = 6",
    )
    .unwrap();
    assert_eq!(plan.topologies[0].switches_with_memory, 4 + 2 * 7);
    assert_eq!(plan.topologies[0].shape.gateway_tors, [0, 4]);
    assert_eq!(plan.caches[0].amount, CacheAmount::Entries(12));
    let leaf_spine = "[topology.leaf_spine]\nleaves = 4\nspines = 2\nservers_per_leaf = 3\n";
    let plan = with(&format!("{leaf_spine}gateways = 1")).unwrap();
    assert_eq!(plan.topologies[0].shape, FatTree::leaf_spine(4, 2, 3, 1));
    assert_eq!(plan.topologies[0].switches_with_memory, 6);
    let error = with(&format!("{leaf_spine}gateways = 300")).unwrap_err();
    assert!(error.to_string().contains("give from"), "{error}");
}

#[test]
fn losses_are_found_as_the_profile_has_it() {
    let found = |profile: &str| {
        let plan = parse(&format!(
            "[topology]\nkind = \"ft8-10k\"\n[workload]\ntrace = \"t\"\nmachines = 3\n\
             transport = \"tcp\"\n[run]\nprofile = \"{profile}\"\nschemes = \"direct\"\n"
        ));
        plan.unwrap().workload.transports[0].loss_detection()
    };
    assert_eq!(found("artifact").as_deref(), Some("2048"));
    assert_eq!(found("paper").as_deref(), Some("300"));
}

#[test]
fn fabrics_and_traffic_that_cannot_be_are_refused_with_place_and_remedy() {
    refuses(&[
        (
            "\"ft8-10k\"",
            "\"ft9\"",
            "p.toml:3:8: there is no topology \"ft9\"; give kind",
        ),
        (
            "[1, 10]",
            "[1, 0]",
            "p.toml:4:24: gateways_per_tor must be 1 to 252, not 0",
        ),
        (
            "[1, 10]",
            "[1, 1]",
            "p.toml:4:24: gateways_per_tor has 1 twice; remove one",
        ),
        (
            "[1, 10]",
            "[]",
            "p.toml:4:20: gateways_per_tor has nothing in it; give",
        ),
        ("[8, 32]", "[9]", "p.toml:5:8: 9 pods: give 1, 8, 16 or 32"),
        (
            "trace = \"hadoop.csv.gz\"",
            "trail = 1",
            "p.toml:7:1: unknown field `trail`, expected one of `trace`",
        ),
        (
            "placement = \"placement.json.gz\"",
            "",
            "give [workload] a placement, or machines",
        ),
        (
            "\"tcp\"",
            "\"udp\"",
            "p.toml:13:1: [workload.tcp] is of no use to datagrams; remove it",
        ),
        (
            "\"tcp\"",
            "\"quic\"",
            "p.toml:11:13: there is no transport \"quic\"; use",
        ),
        (
            "\"dctcp\"",
            "\"vegas\"",
            "p.toml:14:13: there is no algorithm \"vegas\"; give one of cubic-ns3, cubic",
        ),
        (
            "mark_bytes = 90000",
            "",
            "p.toml:14:13: dctcp needs marks; add mark_bytes",
        ),
        (
            "\"rack-tlp\"",
            "\"rack\"",
            "p.toml:15:25: there is no loss detection \"rack\"; give a number",
        ),
        (
            "\"rack-tlp\"",
            "2048",
            "p.toml:15:25: loss_detection has this twice; remove one",
        ),
    ]);
}

#[test]
fn runs_that_cannot_be_are_refused_with_place_and_remedy() {
    refuses(&[
        (
            "\"paper\"",
            "\"book\"",
            "p.toml:18:11: there is no profile \"book\"; give",
        ),
        (
            "\"switchv2p+\"",
            "\"switchv3p\"",
            "p.toml:19:23: there is no scheme \"switchv3p\"; give some of nocache, direct",
        ),
        (
            "\"switchv2p+\"",
            "\"nocache\"",
            "p.toml:19:23: scheme \"nocache\" is there twice",
        ),
        ("0.5", "0", "p.toml:20:21: cache_percent must be above 0"),
        ("0.5", "nan", "p.toml:20:21: cache_percent must be above 0"),
        (
            "0.5",
            "1.0",
            "p.toml:20:21: cache_percent has 1 twice; remove one",
        ),
        (
            "0.5",
            "\"x\"",
            "p.toml:20:21: invalid type: string \"x\", expected a number",
        ),
        (
            "cache_percent = [1, 0.5, 150000]",
            "",
            "how large are the caches of switchv2p+? add",
        ),
        (
            "seeds = [1, 7]",
            "seeds = [-1]",
            "p.toml:21:10: invalid value",
        ),
        ("tor = 9", "tor = x", "p.toml:29:7: "),
        (
            "core = 1\nspine = 0\ntor = 9",
            "core = 0\nspine = 0\ntor = 0",
            "p.toml:29:7: nobody gets memory; give one layer more than 0",
        ),
        (
            "packets_per_second = 1000",
            "packets_per_second = 0",
            "p.toml:24:22: packets_per_second must be 1 to",
        ),
        (
            "vm = 5200",
            "vm = 4294967296",
            "p.toml:31:6: vm must be 0 to 4294967295",
        ),
        ("vm = 5200", "", "missing field `vm`; add it"),
    ]);
    assert!(refused("").contains("missing field `topology`; add it"));
}

#[test]
fn tenants_and_measurements_that_cannot_be_are_refused_with_place_and_remedy() {
    let tenants = "[[tenant]]\ntraffic = 9\n[[tenant]]\ntraffic = 1\nmemory = 3\n";
    assert!(WHOLE.ends_with(tenants));
    refuses(&[
        (
            "traffic = 9",
            "traffic = 1000001",
            "p.toml:46:11: traffic must be 0 to 1000000",
        ),
        (
            tenants,
            "[[tenant]]\ntraffic = 0\n",
            "p.toml:46:11: nobody sends; give one tenant traffic above 0",
        ),
        (
            tenants,
            "[[tenant]]\ntraffic = 1\nmemory = 0\n",
            "p.toml:46:11: nobody has memory; give one tenant some above 0",
        ),
        ("traffic = 9", "trafic = 9", "p.toml:46:1: unknown field"),
        (
            "seeds = [1, 7]",
            "measure_percent = 0",
            "p.toml:21:19: measure_percent must be 1 to 100, not 0",
        ),
    ]);
    let without = WHOLE
        .replace(tenants, "")
        .replace("switchv2p+", "switchv2p-partitions");
    let error = refused(&without);
    assert!(
        error.contains("divides memory among tenants; add [[tenant]]"),
        "{error}"
    );
    let more = format!(
        "{}{}",
        WHOLE.replace(tenants, ""),
        "[[tenant]]\ntraffic = 1\n".repeat(4_097)
    );
    assert!(refused(&more).contains("4097 tenants; give at most 4096"));
    let measured = WHOLE.replace("seeds = [1, 7]", "measure_percent = 40");
    assert_eq!(parse(&measured).unwrap().measure_percent, 40);
}

#[test]
fn what_fails_or_moves_and_cannot_is_refused_with_place_and_remedy() {
    refuses(&[
        (
            "\"spine 1\"",
            "\"spine\"",
            "p.toml:35:18: \"spine\" is no node; give",
        ),
        (
            ", \"spine 1\"",
            "",
            "p.toml:35:8: a link is between two nodes; give both",
        ),
        (
            "core-3",
            "server-3",
            "p.toml:39:10: server 3 is no switch; give",
        ),
        (
            "until_us = 60",
            "until_us = 20",
            "p.toml:37:12: it ends at 20 and begins at 20; give a later",
        ),
        (
            "switch = \"core-3\"",
            "",
            "p.toml:40:9: what fails? give either",
        ),
        (
            "\"tor 7\"",
            "\"spine 7\"",
            "p.toml:44:6: spine 7 has no gateways; give",
        ),
    ]);
}

#[test]
fn traffic_may_be_generated() {
    let with = |lines: &str| {
        parse(&format!(
            "[topology]\nkind = \"ft8-10k\"\n[workload]\n{lines}\nmachines = 3\n\
             transport = \"udp\"\n[run]\nschemes = \"direct\"\n"
        ))
    };
    let plan = with("generate = \"hadoop\"\nduration_us = 500\nload_percent = 20").unwrap();
    let expected = TrafficSource::Generated {
        generator: Generator::Hadoop,
        duration_us: Some(500),
        load_percent: Some(20),
        count: None,
        seed: 1,
    };
    assert_eq!(plan.workload.source, expected);
    for (name, generator) in Generator::ALL {
        let plan = with(&format!("generate = \"{name}\"\ntraffic_seed = 7")).unwrap();
        let source = plan.workload.source;
        assert!(matches!(
            source,
            TrafficSource::Generated { generator: one, seed: 7, .. } if one == generator
        ));
        assert_eq!(generator.name(), name);
    }
    for (lines, said) in [
        ("", "give [workload] a trace, or generate"),
        (
            "generate = \"x\"",
            "p.toml:4:12: there is no generator \"x\"; give one of hadoop",
        ),
        (
            "trace = \"t\"\ngenerate = \"video\"",
            "p.toml:5:12: a trace is not generated; remove",
        ),
        (
            "trace = \"t\"\ncount = 3",
            "p.toml:5:9: count is of generated traffic; remove it",
        ),
        (
            "generate = \"video\"\nload_percent = 3",
            "p.toml:5:16: load_percent is of no use to",
        ),
        (
            "generate = \"hadoop\"\ncount = 3",
            "p.toml:5:9: count is of no use to \"hadoop\"",
        ),
        (
            "generate = \"incast\"\nduration_us = 3",
            "p.toml:5:15: duration_us is of no use to",
        ),
        (
            "generate = \"hadoop\"\nload_percent = 0",
            "p.toml:5:16: load_percent must be 1 to",
        ),
    ] {
        let message = with(lines).unwrap_err().to_string();
        assert!(message.contains(said), "{message} should have {said}");
    }
}

/// Checks the shipped plans; each begins with a comment that describes it.
#[test]
fn all_plans_can_be_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plans");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path
            .extension()
            .is_some_and(|extension| extension == "toml")
        {
            let plan = Plan::read(&path).unwrap();
            assert!(
                plan.schemes.contains(&SchemeKind::NoCache),
                "{path:?}: to compare with"
            );
            assert!(
                std::fs::read_to_string(&path).unwrap().starts_with("# "),
                "{path:?}"
            );
            count += 1;
        }
    }
    assert!(count >= 17, "{count} plans");
}

/// Checks each slip: text to replace in the plan, its replacement, and the expected message.
fn refuses(slips: &[(&str, &str, &str)]) {
    for (from, to, said) in slips {
        assert!(WHOLE.contains(from), "{from}");
        let message = refused(&WHOLE.replacen(from, to, 1));
        assert!(message.contains(said), "{message} should have {said}");
    }
}
