//! The targets under libFuzzer: guided by coverage, with AddressSanitizer.
//!
//! libFuzzer starts from the committed corpus and keeps inputs that reach new code in
//! `fuzz/target/guided/<target>/`, where the next run continues. An input that breaks a target
//! is written to `fuzz/artifacts/<target>/`, as in unguided runs.
//!
//! The flags are those of `cargo fuzz`, which therefore need not be installed.

use std::fs;

use anyhow::{Context, bail, ensure};

use super::Config;
use crate::ci::succeeds;
use crate::nightly::Nightly;
use crate::workspace::Workspace;

/// The sanitizer with lines for its reports, and LLVM's counters of edges and traces of
/// comparisons for libFuzzer.
const FLAGS: &str = "-Zsanitizer=address -Cdebuginfo=line-tables-only -Cpasses=sancov-module \
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
pub(super) fn run(
    workspace: &Workspace,
    config: &Config,
    targets: &[String],
) -> anyhow::Result<bool> {
    let seed = seed(config.seed)?;
    let nightly = Nightly::find()?;
    let arguments = ["build", "--profile", "tested", "--package", "thalweg-fuzz"];
    let mut build = nightly.cargo(workspace, &arguments, FLAGS);
    build.args(["--features", "libfuzzer", "--target-dir", BUILD_FOLDER]);
    for target in targets {
        build.args(["--bin", target]);
    }
    ensure!(
        succeeds(build)?,
        "the targets do not build for libFuzzer, which also needs a C++ compiler"
    );
    let mut is_sound = true;
    for target in targets {
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
    let program = build_folder.join(&nightly.platform).join("tested");
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
    fn seeds_are_those_of_libfuzzer() {
        assert_eq!(seed(1).unwrap(), 1);
        assert_eq!(seed(u64::from(u32::MAX)).unwrap(), u32::MAX);
        assert!(seed(0).is_err());
        assert!(seed(1 << 32).is_err());
    }
}
