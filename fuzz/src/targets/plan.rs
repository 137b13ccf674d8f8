//! Plans of `thalweg simulate`, which are TOML.
//!
//! 1. No text makes the reader panic.
//! 2. An error is one line, names a place in the text, and says what to do.
//! 3. An accepted plan, written out in full with the first of its fabrics, reads back as the
//!    same. A key that is added to the reader must also be added to `written` and to the
//!    corpus file `everything`.

use std::path::Path;

use thalweg_config::{
    CacheAmount, ConfigError, Machines, Plan, PlannedElement, PlannedFailure, PlannedGatewayMove,
    TrafficSource, Transport,
};
use thalweg_fabric::{Algorithm, FatTree, Time};
use toml::{Table, Value};

/// Every error contains one of these words, because it must say what to do.
const ADVICE: [&str; 9] = [
    "add", "choose", "expected", "give", "must be", "remove", "set", "use", "write",
];

/// Runs one input.
pub fn run(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    match Plan::parse("fuzz.toml", Path::new("etc"), &text) {
        Ok(plan) => reads_back(&plan),
        Err(error) => check_error(&text, &error),
    }
}

fn check_error(text: &str, error: &ConfigError) {
    let said = error.to_string();
    assert!(!said.contains(char::is_control), "{said:?}");
    let ConfigError::Refused {
        line, column, what, ..
    } = error
    else {
        panic!("no file was read: {said}");
    };
    let start = format!("fuzz.toml:{line}:{column}: ");
    assert!(said.starts_with(&start), "{said}");
    // An error at the end may be on the line after the last.
    let lines: Vec<&str> = text.split('\n').collect();
    let place = lines.get(*line - 1).expect("the line is there");
    assert!((1..=place.chars().count() + 1).contains(column), "{said}");
    assert!(ADVICE.iter().any(|word| what.contains(word)), "{said}");
}

fn reads_back(plan: &Plan) {
    let expected = without_places(plan.clone());
    let printed = written(&expected).to_string();
    // The first reading made the paths relative to the current folder.
    let again = Plan::parse("again.toml", Path::new(""), &printed);
    let again = again.unwrap_or_else(|error| panic!("{error} in {printed}"));
    assert_eq!(without_places(again), expected, "{printed}");
}

/// The plan with one fabric, and without the places of sizes in the text.
fn without_places(mut plan: Plan) -> Plan {
    assert!(!plan.topologies.is_empty() && !plan.schemes.is_empty() && !plan.seeds.is_empty());
    plan.topologies.truncate(1);
    for size in &mut plan.caches {
        (size.line, size.column) = (0, 0);
    }
    for failure in &mut plan.failures {
        (failure.line, failure.column) = (0, 0);
    }
    for moved in &mut plan.gateway_moves {
        (moved.line, moved.column) = (0, 0);
    }
    plan
}

/// The plan as TOML, with every key given.
fn written(plan: &Plan) -> Table {
    let fat_tree = fabric(&plan.topologies[0].shape);
    let schemes = plan.schemes.iter().map(|scheme| scheme.name().into());
    let mut run = table([
        ("profile", plan.profile.name().into()),
        ("schemes", Value::Array(schemes.collect())),
        ("seeds", numbers(plan.seeds.iter().copied())),
        (
            "offload_threshold_packets",
            number(plan.offload_threshold_packets.into()),
        ),
        ("reroute_after_us", micros(plan.reroute_after)),
        ("measure_percent", number(plan.measure_percent.into())),
    ]);
    if let Some(first) = plan.caches.first() {
        let (key, sizes) = match first.amount {
            CacheAmount::Percent(_) => ("cache_percent", plan.caches.iter().map(percent).collect()),
            CacheAmount::Entries(_) => ("cache_entries", plan.caches.iter().map(entries).collect()),
        };
        run.insert(key.to_owned(), Value::Array(sizes));
    }
    let mut whole = table([
        ("topology", table([("fat_tree", fat_tree.into())]).into()),
        ("workload", workload(plan).into()),
        ("run", run.into()),
    ]);
    if let Some(service) = plan.gateway_service {
        let section = table([
            ("packets_per_second", number(service.packets_per_second)),
            ("queue_packets", number(service.queue_packets.into())),
        ]);
        whole.insert("gateways".to_owned(), section.into());
    }
    if let Some(weights) = plan.memory {
        let section = table([
            ("core", number(weights.core.into())),
            ("spine", number(weights.spine.into())),
            ("tor", number(weights.tor.into())),
        ]);
        whole.insert("memory".to_owned(), section.into());
    }
    if let Some(migration) = plan.migration {
        let section = table([
            ("vm", number(migration.machine.into())),
            ("at_us", micros(migration.at)),
            ("to_server", number(migration.to_server.into())),
        ]);
        whole.insert("migration".to_owned(), section.into());
    }
    if !plan.tenants.is_empty() {
        let sections = plan.tenants.iter().map(|tenant| {
            let section = table([
                ("traffic", number(tenant.traffic.into())),
                ("memory", number(tenant.memory.into())),
            ]);
            Value::from(section)
        });
        whole.insert("tenant".to_owned(), Value::Array(sections.collect()));
    }
    if !plan.failures.is_empty() {
        let sections = plan.failures.iter().map(failure).collect();
        whole.insert("failure".to_owned(), Value::Array(sections));
    }
    if !plan.gateway_moves.is_empty() {
        let sections = plan.gateway_moves.iter().map(gateway_move).collect();
        whole.insert("gateway_move".to_owned(), Value::Array(sections));
    }
    whole
}

fn failure(failure: &PlannedFailure) -> Value {
    let name = |name: thalweg_fabric::NodeName| Value::String(name.to_string());
    let what = match failure.element {
        PlannedElement::Switch(switch) => ("switch", name(switch)),
        PlannedElement::Link(one, other) => ("link", vec![name(one), name(other)].into()),
    };
    let mut section = table([what, ("at_us", micros(failure.at))]);
    section.extend(
        failure
            .until
            .map(|until| ("until_us".to_owned(), micros(until))),
    );
    section.into()
}

fn gateway_move(planned: &PlannedGatewayMove) -> Value {
    let moved = planned.moved;
    let section = table([
        ("at_us", micros(moved.at)),
        ("from", format!("tor {}", moved.from_tor).into()),
        ("to", format!("tor {}", moved.to_tor).into()),
    ]);
    section.into()
}

fn micros(time: Time) -> Value {
    number(time.as_picos() / 1_000_000)
}

fn fabric(shape: &FatTree) -> Table {
    table([
        ("pods", number(shape.pods.into())),
        ("tors_per_pod", number(shape.tors_per_pod.into())),
        ("spines_per_pod", number(shape.spines_per_pod.into())),
        (
            "core_links_per_spine",
            number(shape.core_links_per_spine.into()),
        ),
        ("servers_per_tor", number(shape.servers_per_tor.into())),
        (
            "gateway_tors",
            numbers(shape.gateway_tors.iter().copied().map(u64::from)),
        ),
        ("gateways_per_tor", number(shape.gateways_per_tor.into())),
    ])
}

fn workload(plan: &Plan) -> Table {
    let workload = &plan.workload;
    let first = workload.transports[0];
    let mut section = table([("transport", first.name().into())]);
    match &workload.source {
        TrafficSource::Trace(path) => {
            section.insert("trace".to_owned(), word(path));
        }
        TrafficSource::Generated {
            generator,
            duration_us,
            load_percent,
            count,
            seed,
        } => {
            section.insert("generate".to_owned(), generator.name().into());
            let parameters = [
                ("duration_us", *duration_us),
                ("load_percent", load_percent.map(u64::from)),
                ("count", count.map(u64::from)),
                ("traffic_seed", Some(*seed)),
            ];
            for (key, value) in parameters {
                section.extend(value.map(|value| (key.to_owned(), number(value))));
            }
        }
    }
    let (key, machines) = match &workload.machines {
        Machines::Placed(path) => ("placement", word(path)),
        Machines::Even(count) => ("machines", number((*count).into())),
    };
    section.insert(key.to_owned(), machines);
    let optional = [
        ("start_before_us", workload.start_before_us),
        ("size_limit_bytes", workload.size_limit_bytes),
        ("payload_bytes", workload.payload_bytes.map(u64::from)),
    ];
    for (key, value) in optional {
        section.extend(value.map(|value| (key.to_owned(), number(value))));
    }
    if let Transport::Tcp {
        algorithm,
        mark_bytes,
        ..
    } = first
    {
        let ways = workload.transports.iter().filter_map(|transport| {
            let way = transport.loss_detection()?;
            Some(way.parse().map(number).unwrap_or(Value::String(way)))
        });
        let mut tcp = table([
            ("algorithm", algorithm_name(algorithm).into()),
            ("loss_detection", Value::Array(ways.collect())),
        ]);
        tcp.extend(mark_bytes.map(|bytes| ("mark_bytes".to_owned(), number(bytes))));
        section.insert("tcp".to_owned(), tcp.into());
    }
    section
}

fn algorithm_name(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::CubicNs3 => "cubic-ns3",
        Algorithm::Cubic => "cubic",
        Algorithm::NewReno => "newreno",
        Algorithm::Dctcp => "dctcp",
    }
}

fn percent(size: &thalweg_config::CacheSize) -> Value {
    match size.amount {
        CacheAmount::Percent(percent) => Value::Float(percent),
        CacheAmount::Entries(_) => panic!("sizes of two kinds"),
    }
}

fn entries(size: &thalweg_config::CacheSize) -> Value {
    match size.amount {
        CacheAmount::Entries(entries) => number(entries.into()),
        CacheAmount::Percent(_) => panic!("sizes of two kinds"),
    }
}

fn table<const N: usize>(pairs: [(&str, Value); N]) -> Table {
    let pairs = pairs.into_iter();
    pairs.map(|(key, value)| (key.to_owned(), value)).collect()
}

fn numbers(numbers: impl Iterator<Item = u64>) -> Value {
    Value::Array(numbers.map(number).collect())
}

/// Numbers that came from TOML fit into its integers.
fn number(number: u64) -> Value {
    Value::Integer(i64::try_from(number).expect("limits are less"))
}

fn word(path: &Path) -> Value {
    Value::String(path.to_str().expect("it was text").to_owned())
}
