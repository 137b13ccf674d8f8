//! Tests the P4Info of p4c's and BMv2's own programs, from the shared data.
//!
//! It must fit its program, and equal what we derive. The folder is too large to commit and not
//! ours; `$THALWEG_SHARED` names it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thalweg_binding::derive;
use thalweg_control::proto::p4::config::v1::{P4Info, Preamble};
use thalweg_control::{Catalog, Target, read};
use thalweg_p4::Program;
use thalweg_packet::Instant;
use thalweg_switch::{P4Plane, P4PlaneConfig};

const FOLDERS: [&str; 5] = ["bmv2-testdata", "chain", "l2l3", "large", "stf"];

/// The programs of all folders, each with its P4Info if there is one.
fn programs() -> Vec<(String, PathBuf, Option<PathBuf>)> {
    let shared = std::env::var_os("THALWEG_SHARED").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
        PathBuf::from,
    );
    let mut programs = Vec::new();
    for folder in FOLDERS {
        let path = shared.join("data/p4").join(folder);
        let entries = std::fs::read_dir(&path)
            .unwrap_or_else(|error| panic!("{}: {error}; set THALWEG_SHARED", path.display()));
        for entry in entries {
            let json = entry.expect("an entry").path();
            if json.extension().is_none_or(|ending| ending != "json") {
                continue;
            }
            let name = json.file_stem().expect("a name").to_string_lossy();
            let infos = ["p4info.txtpb", "proto.txt"];
            let mut infos = infos.iter().map(|ending| json.with_extension(ending));
            let info = infos.find(|info| info.exists());
            programs.push((format!("{folder}/{name}"), json, info));
        }
    }
    programs.sort();
    programs
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).expect("the file")
}

fn plane() -> P4Plane {
    let config = P4PlaneConfig {
        program: thalweg_p4::Config::default(),
        traversals: None,
        behaviors: None,
        cpu_port: Some(510),
        clock: Arc::new(|| Instant::ZERO),
    };
    P4Plane::new(config, || {}).0
}

fn fits(info: &P4Info, program: &str) -> Result<(), String> {
    let catalog = Catalog::new(info).map_err(|error| error.to_string())?;
    let verified = plane().verify(&catalog, program.as_bytes());
    verified.map_err(|problem| problem.message)
}

/// Every P4Info fits its program, or the refusal gives a reason.
#[test]
fn what_was_compiled_together_fits() {
    let (mut fitting, mut refused) = (0, String::new());
    for (name, json, info) in programs() {
        let Some(info) = info else {
            continue;
        };
        let info = read(text(&info).as_bytes()).map_err(|error| error.to_string());
        match info.and_then(|info| fits(&info, &text(&json))) {
            Ok(()) => fitting += 1,
            Err(why) => refused += &format!("{name}: {why}\n"),
        }
    }
    let found = format!("{fitting} fit their programs\n{refused}");
    expect_test::expect_file!["p4info_programs.txt"].assert_eq(&found);
}

/// Derived P4Info fits every program that runs.
#[test]
fn what_is_derived_fits() {
    let mut count = 0;
    for (name, json, _) in programs() {
        let text = text(&json);
        let Ok(program) = Program::from_json(&text) else {
            continue;
        };
        let derived = fits(&derive(&program), &text);
        derived.unwrap_or_else(|why| panic!("{name}: {why}"));
        count += 1;
    }
    assert!(count > 180, "only {count} programs");
}

/// Derived ids equal the compiler's, except ids that a program assigns itself.
#[test]
fn what_is_derived_has_the_compilers_numbers() {
    let (mut same, mut others) = (0, BTreeSet::new());
    for (name, json, info) in programs() {
        let (Some(info), Ok(program)) = (info, Program::from_json(&text(&json))) else {
            continue;
        };
        // BMv2's own are from an older compiler with different ids for everything.
        if name.starts_with("bmv2-testdata") {
            continue;
        }
        let theirs = numbers(&read(text(&info).as_bytes()).expect("P4Info"));
        for (of, number) in numbers(&derive(&program)) {
            match theirs.get(&of) {
                Some(their) if *their == number => same += 1,
                Some(their) => {
                    others.insert(format!("{name} {of:?}: {their:#x}, not {number:#x}\n"));
                }
                None => {
                    others.insert(format!("{name} {of:?}: only derived\n"));
                }
            }
        }
    }
    let others: String = others.into_iter().collect();
    let found = format!("{same} are the same\n{others}");
    expect_test::expect_file!["p4info_numbers.txt"].assert_eq(&found);
}

/// The ids of all objects, by kind and name.
fn numbers(info: &P4Info) -> BTreeMap<(&'static str, String), u32> {
    let mut numbers = BTreeMap::new();
    let mut add = |kind, preamble: Option<&Preamble>| {
        let preamble = preamble.expect("a preamble");
        numbers.insert((kind, preamble.name.clone()), preamble.id);
    };
    for one in &info.tables {
        add("table", one.preamble.as_ref());
    }
    for one in &info.actions {
        add("action", one.preamble.as_ref());
    }
    for one in &info.action_profiles {
        add("profile", one.preamble.as_ref());
    }
    for one in &info.counters {
        add("counter", one.preamble.as_ref());
    }
    for one in &info.direct_counters {
        add("direct counter", one.preamble.as_ref());
    }
    for one in &info.meters {
        add("meter", one.preamble.as_ref());
    }
    for one in &info.direct_meters {
        add("direct meter", one.preamble.as_ref());
    }
    for one in &info.registers {
        add("register", one.preamble.as_ref());
    }
    for one in &info.digests {
        add("digest", one.preamble.as_ref());
    }
    for one in &info.value_sets {
        add("value set", one.preamble.as_ref());
    }
    numbers
}
