//! p4c's and BMv2's own programs, from the shared data.
//!
//! The folder is too large, and not ours, to commit; `$THALWEG_SHARED` names it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use thalweg_p4::stf::{Script, run};
use thalweg_p4::{Config, Program, Target};

fn folder(name: &str) -> PathBuf {
    let shared = std::env::var_os("THALWEG_SHARED").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
        PathBuf::from,
    );
    shared.join("data/p4").join(name)
}

/// The files of a folder that end so, in the order of their names.
fn files(name: &str, ending: &str) -> Vec<PathBuf> {
    let folder = folder(name);
    let entries = std::fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}; set THALWEG_SHARED", folder.display()));
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.retain(|path| path.to_string_lossy().ends_with(ending));
    files.sort();
    files
}

fn load(path: &Path) -> Result<Program, String> {
    let text = std::fs::read_to_string(path).expect("the file");
    Program::from_json(&text).map_err(|error| error.to_string())
}

fn name(path: &Path) -> String {
    path.file_stem()
        .expect("a name")
        .to_string_lossy()
        .into_owned()
}

#[test]
fn every_vector_of_p4c_passes() {
    let scripts = files("stf", ".stf");
    assert!(scripts.len() >= 165, "only {} vectors", scripts.len());
    let mut failed = Vec::new();
    for path in &scripts {
        let outcome = load(&path.with_extension("json")).and_then(|program| {
            let text = std::fs::read_to_string(path).expect("the file");
            let script = Script::parse(&text).map_err(|error| error.to_string())?;
            let target = Target::new(Arc::new(program), Config::default());
            let mut target = target.map_err(|error| error.to_string())?;
            let failures = run(&script, &mut target);
            match failures.is_empty() {
                true => Ok(()),
                false => Err(format!("{failures:?}")),
            }
        });
        if let Err(what) = outcome {
            failed.push(format!("{}: {what}", name(path)));
        }
    }
    assert!(
        failed.is_empty(),
        "{} failed:\n{}",
        failed.len(),
        failed.join("\n")
    );
}

/// What BMv2's own tests have: complete programs of v1model run, the others are refused and say why.
#[test]
fn bmv2s_own_programs_run_or_say_why_not() {
    let mut lines = Vec::new();
    for path in files("bmv2-testdata", ".json") {
        let outcome = match load(&path) {
            Ok(program) => described(&program, run_bytes(program.clone())),
            Err(why) => format!("refused: {why}"),
        };
        lines.push(format!("{}: {outcome}\n", name(&path)));
    }
    expect_test::expect_file!["bmv2_programs.txt"].assert_eq(&lines.concat());
}

/// The large data planes, and those the measurements use.
#[test]
fn large_programs_run() {
    for folder in ["large", "l2l3", "chain"] {
        let programs = files(folder, ".json");
        assert!(programs.len() >= 3, "{folder}");
        for path in programs {
            let program = load(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
            assert!(!program.tables.is_empty(), "{}", path.display());
            run_bytes(program);
        }
    }
}

fn described(program: &Program, received: u64) -> String {
    format!(
        "{} tables, {} actions, {} parser states; ran {received} packets",
        program.tables.len(),
        program.actions.len(),
        program.parser.states.len(),
    )
}

/// Packets of any bytes and lengths; nothing panics, and each packet has an end.
fn run_bytes(program: Program) -> u64 {
    let mut target = Target::new(Arc::new(program), Config::default()).expect("own entries");
    let mut outbox = thalweg_p4::Outbox::new();
    let mut byte = 1_u32;
    for length in 0..200 {
        let bytes: Vec<u8> = (0..length)
            .map(|_| {
                byte = byte.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (byte >> 24) as u8
            })
            .collect();
        let now = thalweg_packet::Instant::from_nanos(u64::from(length) * 1_000);
        target.receive(length % 8, &bytes, now, &mut outbox);
        outbox.clear();
    }
    target.counts().received
}
