//! Parses the whole ClassBench sets of the shared data folder; their rules must be
//! unambiguous.
//!
//! Built only with the feature `shared-data`. The folder is `$THALWEG_SHARED`, else
//! `../shared` beside the workspace; if it is missing, the test fails.

use std::collections::{BTreeMap, BTreeSet};
use std::io::BufReader;
use std::path::PathBuf;

use thalweg_workload::{
    Extra, Field, Filter, Match, Profile, Shape, filter_rules, generate_filters, parse_filters,
};

fn shared_folder() -> PathBuf {
    match std::env::var_os("THALWEG_SHARED") {
        Some(folder) => folder.into(),
        None => PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
    }
}

fn read_set(name: &str) -> String {
    let path = shared_folder()
        .join("data/classbench")
        .join(format!("{name}.rules.xz"));
    let file = std::fs::File::open(&path)
        .unwrap_or_else(|error| panic!("{}: {error}; set THALWEG_SHARED", path.display()));
    let mut bytes = Vec::new();
    lzma_rs::xz_decompress(&mut BufReader::new(file), &mut bytes).expect("an xz file");
    String::from_utf8(bytes).expect("ASCII text")
}

#[test]
fn every_file_parses_and_reads_back() {
    let sizes = [
        ("acl1_1k", 456),
        ("acl1_10k", 6291),
        ("acl1_100k", 61898),
        ("fw1_1k", 565),
        ("fw1_10k", 8111),
        ("fw1_100k", 75613),
        ("ipc1_1k", 947),
        ("ipc1_10k", 7564),
        ("ipc1_100k", 78146),
        ("acl5_1k", 723),
        ("fw4_1k", 730),
        ("ipc2_1k", 629),
    ];
    for (name, size) in sizes {
        let text = read_set(name);
        let filters = parse_filters(name, &text).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(filters.len(), size, "{name}");
        for (line, filter) in text.lines().zip(&filters) {
            assert_eq!(filter.to_string(), line.trim_end(), "{name}");
        }
        let rules = filter_rules(&filters, 0, Extra::Ignore, |_| Vec::new()).expect("it fits");
        assert!(rules.len() >= size, "{name}");
        assert!(
            rules
                .windows(2)
                .all(|pair| pair[0].priority >= pair[1].priority)
        );
    }
}

/// A distribution over texts, as fractions of one.
fn shares<'a>(items: impl Iterator<Item = (String, u32)> + 'a) -> BTreeMap<String, f64> {
    let mut shares = BTreeMap::new();
    let mut total = 0.0;
    for (name, weight) in items {
        *shares.entry(name).or_default() += f64::from(weight);
        total += f64::from(weight);
    }
    shares
        .values_mut()
        .for_each(|share: &mut f64| *share /= total);
    shares
}

/// The share of the items that must change to make the two equal.
fn distance(left: &BTreeMap<String, f64>, right: &BTreeMap<String, f64>) -> f64 {
    let names: BTreeSet<&String> = left.keys().chain(right.keys()).collect();
    let share = |of: &BTreeMap<String, f64>, name| of.get(name).copied().unwrap_or(0.0);
    let gaps = names
        .into_iter()
        .map(|name| (share(left, name) - share(right, name)).abs());
    gaps.sum::<f64>() / 2.0
}

fn lengths(shape: &Shape) -> BTreeMap<String, f64> {
    let lengths = shape.lengths.iter();
    shares(lengths.map(|one| (format!("{} {}", one.source, one.destination), one.weight)))
}

fn services(shape: &Shape) -> BTreeMap<String, f64> {
    let services = shape.services.iter();
    shares(services.map(|service| {
        let classes = (service.source, service.destination);
        (
            format!("{:?} {classes:?}", service.protocol),
            service.weight,
        )
    }))
}

fn ports(shape: &Shape) -> BTreeMap<String, f64> {
    let exact = shape.destination_ports.exact.iter();
    shares(exact.map(|(port, weight)| (port.to_string(), *weight)))
}

/// The numbers of rules, and of different masks among them.
fn rules_and_masks(filters: &[Filter]) -> (f64, f64) {
    let matches: Vec<Match> = filters
        .iter()
        .flat_map(|filter| filter.matches(Extra::Ignore))
        .collect();
    let masks: BTreeSet<Vec<(Field, u128)>> = matches
        .iter()
        .map(|matching| {
            let terms = matching.terms().iter();
            terms.map(|term| (term.field, term.mask)).collect()
        })
        .collect();
    (matches.len() as f64, masks.len() as f64)
}

/// The largest share of filters whose prefixes on one side do not overlap: one iSet's
/// coverage.
fn apart(filters: &[Filter], side: fn(&Filter) -> thalweg_workload::Prefix) -> f64 {
    let mut ranges: Vec<(u128, u128)> = filters
        .iter()
        .map(side)
        .map(|prefix| (prefix.address() | prefix.free_bits(), prefix.address()))
        .collect();
    ranges.sort_unstable();
    let (mut count, mut last) = (0, None);
    for (high, low) in ranges {
        if last.is_none_or(|last| low > last) {
            last = Some(high);
            count += 1;
        }
    }
    f64::from(count) / filters.len() as f64
}

/// The shapes were counted in the largest sets. The smaller ones are new to them.
#[test]
fn generated_sets_resemble_the_real_ones() {
    for (profile, size, tolerance) in [
        (Profile::Acl1, "10k", 0.12),
        (Profile::Acl1, "100k", 0.03),
        (Profile::Fw1, "10k", 0.08),
        (Profile::Fw1, "100k", 0.03),
        (Profile::Ipc1, "10k", 0.12),
        (Profile::Ipc1, "100k", 0.05),
    ] {
        let name = format!("{}_{size}", profile.name());
        let real = parse_filters(&name, &read_set(&name)).expect("it parses");
        let made = generate_filters(profile, real.len(), 1);
        let (real_shape, made_shape) = (Shape::of(&real), Shape::of(&made));
        for (what, of) in [
            ("pairs of lengths", lengths as fn(&Shape) -> _),
            ("services", services),
            ("ports", ports),
        ] {
            let gap = distance(&of(&real_shape), &of(&made_shape));
            assert!(gap < tolerance, "{name}: {what} differ by {gap:.3}");
        }
        let near = |what: &str, real: f64, made: f64, factor: f64| {
            let ratio = made / real;
            let is_near = (1.0 / factor..factor).contains(&ratio);
            assert!(is_near, "{name}: {made:.3} {what}, not {real:.3}");
        };
        let (real_rules, real_masks) = rules_and_masks(&real);
        let (made_rules, made_masks) = rules_and_masks(&made);
        near("rules", real_rules, made_rules, 1.03);
        near("masks", real_masks, made_masks, 1.25);
        for (what, side) in [
            (
                "sources apart",
                (|filter| filter.source) as fn(&Filter) -> _,
            ),
            ("destinations apart", |filter| filter.destination),
        ] {
            near(what, apart(&real, side), apart(&made, side), 1.15);
        }
    }
}

#[test]
fn the_built_in_shapes_are_those_of_the_largest_sets() {
    for profile in [Profile::Acl1, Profile::Fw1, Profile::Ipc1] {
        let name = format!("{}_100k", profile.name());
        let real = parse_filters(&name, &read_set(&name)).expect("it parses");
        let (counted, built_in) = (Shape::of(&real), Shape::built_in(profile));
        assert_eq!(counted.lengths, built_in.lengths, "{name}");
        assert_eq!(counted.sharing[0].filters, built_in.sharing[2].filters);
        for of in [services, ports] {
            assert!(distance(&of(&counted), &of(&built_in)) < 1e-9, "{name}");
        }
        let flags = |shape: &Shape| -> BTreeSet<_> { shape.tcp_flags.iter().copied().collect() };
        assert_eq!(flags(&counted), flags(&built_in), "{name}");
    }
}
