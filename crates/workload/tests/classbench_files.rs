//! The ClassBench sets of the shared data folder parse, whole, and become unambiguous rules.
//!
//! Built only with the feature `shared-data`; the folder is `$THALWEG_SHARED`, else `../shared`
//! beside the workspace, and a missing one fails the test.

use std::io::BufReader;
use std::path::PathBuf;

use thalweg_workload::{Extra, filter_rules, parse_filters};

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
