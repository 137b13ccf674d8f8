//! The targets under libFuzzer: guided by coverage, with AddressSanitizer.
//!
//! libFuzzer starts from the committed corpus and keeps inputs that reach new code in
//! `fuzz/target/guided/<target>/`, where the next run continues. An input that breaks a target
//! is written to `fuzz/artifacts/<target>/`, as in unguided runs.
//!
//! The flags are those of `cargo fuzz`, which therefore need not be installed.

use std::fs;
use std::path::Path;

use anyhow::{Context, bail, ensure};

use super::Config;
use crate::ci::succeeds;
use crate::nightly::Nightly;
use crate::workspace::Workspace;

/// The sanitizer, and LLVM's counters of edges and traces of comparisons for libFuzzer.
const FLAGS: &str = "-Zsanitizer=address -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares \
    -Cllvm-args=-simplifycfg-branch-fold-threshold=0 \
    -Cforce-frame-pointers=yes";
/// The build folder of `fuzz/`, from the root.
const BUILD_FOLDER: &str = "fuzz/target";
/// libFuzzer options for each target, besides time and seed. The longest input matches the
/// unguided runs; an input that takes a minute or 2 GB is a finding.
const LIMITS: [&str; 4] = [
    "-max_len=4096",
    "-timeout=60",
    "-rss_limit_mb=2048",
    "-verbosity=0",
];

/// Runs the targets one after the other; `false` if one of them found a fault.
pub(super) fn run(workspace: &Workspace, config: &Config) -> anyhow::Result<bool> {
    let seed = seed(config.seed)?;
    let folder = workspace.root.join("fuzz/fuzz_targets");
    let targets = chosen(names(&folder)?, config.target.as_deref())?;
    let nightly = Nightly::find()?;
    let arguments = ["build", "--release", "--manifest-path", "fuzz/Cargo.toml"];
    let mut build = nightly.cargo(workspace, &arguments, FLAGS);
    build.args(["--features", "libfuzzer", "--target-dir", BUILD_FOLDER]);
    for target in &targets {
        build.args(["--bin", target]);
    }
    ensure!(
        succeeds(build)?,
        "the targets do not build for libFuzzer, which also needs a C++ compiler"
    );
    let mut is_sound = true;
    for target in &targets {
        let is_target_sound = fuzz(workspace, &nightly, target, config.seconds, seed)?;
        if is_target_sound {
            println!("{target}: {} s from seed {seed}: sound", config.seconds);
        } else {
            eprintln!("{target}: broken; the input is in fuzz/artifacts/{target}/");
        }
        is_sound &= is_target_sound;
    }
    Ok(is_sound)
}

/// Checks a seed: libFuzzer's seeds have 32 bits, and 0 means a random one.
fn seed(seed: u64) -> anyhow::Result<u32> {
    match u32::try_from(seed) {
        Ok(seed) if seed > 0 => Ok(seed),
        _ => bail!(
            "--seed {seed}: a guided run takes a seed from 1 to {}",
            u32::MAX
        ),
    }
}

/// The names of the files in `fuzz_targets`, sorted.
fn names(folder: &Path) -> anyhow::Result<Vec<String>> {
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut names = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "rs") {
            let name = path
                .file_stem()
                .context("a file with an extension has a stem")?;
            names.push(name.to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// The named target, or all.
fn chosen(names: Vec<String>, target: Option<&str>) -> anyhow::Result<Vec<String>> {
    match target {
        None => Ok(names),
        Some(target) if names.iter().any(|name| name == target) => Ok(vec![target.to_owned()]),
        Some(target) => bail!(
            "there is no target `{target}`; there are {}",
            names.join(", ")
        ),
    }
}

fn fuzz(
    workspace: &Workspace,
    nightly: &Nightly,
    target: &str,
    seconds: u64,
    seed: u32,
) -> anyhow::Result<bool> {
    let build_folder = workspace.root.join(BUILD_FOLDER);
    let found = build_folder.join("guided").join(target);
    let artifacts = workspace.root.join("fuzz/artifacts").join(target);
    for folder in [&found, &artifacts] {
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    let program = build_folder.join(&nightly.platform).join("release");
    let mut command = std::process::Command::new(program.join(target));
    command.args(LIMITS);
    // libFuzzer takes 0 as no time limit.
    command.arg(format!("-max_total_time={}", seconds.max(1)));
    command.arg(format!("-seed={seed}"));
    command.arg(format!("-artifact_prefix={}/", artifacts.display()));
    // New inputs go to the first folder.
    command.arg(found);
    command.arg(workspace.root.join("fuzz/corpus").join(target));
    command.stdin(std::process::Stdio::null());
    succeeds(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_chosen_by_its_name() {
        let names = || vec!["frame".to_owned(), "wire".to_owned()];
        assert_eq!(chosen(names(), None).unwrap(), names());
        assert_eq!(chosen(names(), Some("wire")).unwrap(), ["wire"]);
        let error = chosen(names(), Some("wired")).unwrap_err().to_string();
        assert_eq!(error, "there is no target `wired`; there are frame, wire");
    }

    #[test]
    fn seeds_are_those_of_libfuzzer() {
        assert_eq!(seed(1).unwrap(), 1);
        assert_eq!(seed(u64::from(u32::MAX)).unwrap(), u32::MAX);
        assert!(seed(0).is_err());
        assert!(seed(1 << 32).is_err());
    }

    #[test]
    fn every_target_has_a_file_and_a_corpus() {
        let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz");
        let names = names(&fuzz.join("fuzz_targets")).unwrap();
        assert!(names.contains(&"wire".to_owned()));
        for name in names {
            assert!(fuzz.join("corpus").join(&name).is_dir(), "{name}");
        }
    }
}
