//! `cargo xtask test`: runs every test, with the real clients and the shared data.
//!
//! A package marks such tests by the name of a feature: `privileged-tests` (root, network
//! namespaces, the programs of `packages.rs`) or `shared-data` (the folder that
//! `THALWEG_SHARED` names, `../shared` by default). The project must build and pass its own
//! tests without the shared folder, so its absence is no failure; omitted tests are reported.
//!
//! The last line is `N passed, N failed`, summed over every test binary and every doc test. It
//! is printed only if cargo ran all of them to the end.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use anyhow::Context;

use crate::autotest;
use crate::controllers;
use crate::dbsp;
use crate::differential;
use crate::fuzz;
use crate::packages;
use crate::phases::Phases;
use crate::switch_tests;
use crate::workspace::{PRIVILEGED, SHARED, Workspace};

/// The flags of the model check: locks and threads are the checker's. Clippy does not see this
/// build, so its warnings are errors here.
const MODEL_FLAGS: &str = "--cfg thalweg_model -D warnings";
/// A build folder for the model check, so that it does not invalidate other builds.
const MODEL_FOLDER: &str = "target/model";
/// The arguments that select its tests.
const MODEL_TESTS: [&str; 6] = [
    "-p",
    "thalweg-switch",
    "--test",
    "model",
    "--test",
    "model_orders",
];
/// The arguments that select the model's tests of the table of connections.
const TRACKER_MODEL_TESTS: [&str; 4] = ["-p", "thalweg-conntrack", "--lib", "tests::model::"];
const COMPARISON: &str = "comparison with Open vSwitch";
const CONTROLLERS: &str = "controllers";
const OWN_TESTS: &str = "Open vSwitch's own tests";
/// Phases that run programs of others.
const PEERS: [&str; 3] = [COMPARISON, CONTROLLERS, OWN_TESTS];
/// Seconds for each fuzz target.
const FUZZ_SECONDS: u64 = 5;

/// Sums over the `test result:` lines of cargo.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    passed: u64,
    failed: u64,
    ignored: u64,
}

impl Counts {
    /// Adds one line of output, if it is the result of a test binary.
    fn add_line(&mut self, line: &str) {
        let Some((_, result)) = line.split_once("test result: ") else {
            return;
        };
        for part in result.split(['.', ';']) {
            let mut words = part.split_whitespace();
            let (Some(number), Some(label)) = (words.next(), words.next()) else {
                continue;
            };
            let Ok(number) = number.parse::<u64>() else {
                continue;
            };
            match label {
                "passed" => self.passed += number,
                "failed" => self.failed += number,
                "ignored" => self.ignored += number,
                _ => {}
            }
        }
    }
}

/// The result of one `cargo test` call.
struct Outcome {
    counts: Counts,
    is_success: bool,
}

/// How much is tested.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// Leaves out the real clients and the shared data.
    pub is_quick: bool,
    /// Includes `extras/dbsp`, which takes many minutes to build.
    pub has_dbsp: bool,
    /// Includes all of Open vSwitch's own tests that pass, instead of a sample.
    pub has_all_autotests: bool,
}

/// Runs everything in the extent.
pub fn run(workspace: &Workspace, extent: Extent) -> anyhow::Result<bool> {
    let is_quick = extent.is_quick;
    let mut phases = Phases::default();
    let mut left_out = Vec::new();
    let features = chosen_features(workspace, is_quick, &mut left_out);
    if !is_quick {
        phases.run("real clients", || {
            packages::ensure_clients()?;
            switch_tests::write_cases(workspace)?;
            if !workspace.features_named(PRIVILEGED).is_empty() && !packages::is_root()? {
                anyhow::bail!("the privileged tests need root; `--quick` leaves them out");
            }
            Ok(true)
        });
    }
    let mut summary = Summary::default();
    phases.run("cargo test", || {
        let mut arguments = vec!["--workspace", "--profile", "tested"];
        let list = features.join(",");
        if !features.is_empty() {
            eprintln!("with {list}");
            arguments.extend(["--features", &list]);
        }
        Ok(summary.add(cargo_test(workspace, &arguments)?))
    });
    if is_quick {
        run_without_peers(workspace, &mut phases, &mut summary, 1);
        left_out.extend(PEERS.map(|what| format!("{what}: --quick was given")));
    } else {
        run_with_peers(workspace, &mut phases, &mut summary, extent);
        if !extent.has_all_autotests {
            left_out.push(format!(
                "most of {OWN_TESTS}: --all-autotests was not given"
            ));
        }
    }
    if extent.has_dbsp {
        phases.run("cargo test of extras/dbsp", || {
            Ok(summary.add(cargo_test(workspace, &dbsp::TEST_ARGUMENTS)?))
        });
    } else {
        left_out.push("extras/dbsp: --dbsp was not given".to_owned());
    }
    let is_success = phases.finish();
    for line in &left_out {
        eprintln!("LEFT OUT: {line}");
    }
    summary.print();
    Ok(is_success)
}

/// Runs the phases that need programs of others, and the other phases beside them.
fn run_with_peers(
    workspace: &Workspace,
    phases: &mut Phases,
    summary: &mut Summary,
    extent: Extent,
) {
    // Open vSwitch's own tests mostly wait.
    phases.run_beside(
        OWN_TESTS,
        || autotest::run_passing(workspace, !extent.has_all_autotests),
        |phases| run_without_peers(workspace, phases, summary, FUZZ_SECONDS),
    );
    phases.run(COMPARISON, || {
        let folder = differential::default_folder(workspace);
        differential::run(&differential::Config::for_tests(folder))
    });
    phases.run(CONTROLLERS, || controllers::run(workspace, true));
}

/// Runs the tests with builds of their own, and fuzzes each target for `seconds` seconds.
fn run_without_peers(
    workspace: &Workspace,
    phases: &mut Phases,
    summary: &mut Summary,
    seconds: u64,
) {
    phases.run("model check of changes", || {
        let arguments = ["--profile", "tested", "--target-dir", MODEL_FOLDER];
        let arguments = [&arguments[..], &MODEL_TESTS].concat();
        let flags = [("RUSTFLAGS", MODEL_FLAGS)];
        Ok(summary.add(cargo_test_with(workspace, &arguments, &flags)?))
    });
    phases.run("model check of connections", || {
        let arguments = ["--profile", "tested", "--target-dir", MODEL_FOLDER];
        let arguments = [&arguments[..], &TRACKER_MODEL_TESTS].concat();
        let flags = [("RUSTFLAGS", MODEL_FLAGS)];
        Ok(summary.add(cargo_test_with(workspace, &arguments, &flags)?))
    });
    phases.run("fuzz targets", || {
        let config = fuzz::Config {
            seconds,
            seed: 1,
            target: None,
            is_guided: false,
            is_built: true,
        };
        fuzz::run(workspace, &config)
    });
}

/// Returns the features to turn on; writes the others to `left_out`, with the reason.
fn chosen_features(
    workspace: &Workspace,
    is_quick: bool,
    left_out: &mut Vec<String>,
) -> Vec<String> {
    let mut features = Vec::new();
    let privileged = workspace.features_named(PRIVILEGED);
    let shared = workspace.features_named(SHARED);
    if is_quick {
        for feature in privileged.iter().chain(&shared) {
            left_out.push(format!("{feature}: --quick was given"));
        }
        return features;
    }
    features.extend(privileged);
    if workspace.shared_data().is_some() {
        features.extend(shared);
    } else {
        for feature in &shared {
            left_out.push(format!(
                "{feature}: there is no folder of shared data; set THALWEG_SHARED to it"
            ));
        }
    }
    features
}

fn cargo_test(workspace: &Workspace, arguments: &[&str]) -> anyhow::Result<Outcome> {
    cargo_test_with(workspace, arguments, &[])
}

/// Runs `cargo test` with environment variables.
fn cargo_test_with(
    workspace: &Workspace,
    arguments: &[&str],
    variables: &[(&str, &str)],
) -> anyhow::Result<Outcome> {
    let mut command = workspace.cargo(&["test", "--no-fail-fast"]);
    command.args(arguments).envs(variables.iter().copied());
    if let Some(path) = workspace.shared_data() {
        command.env("THALWEG_SHARED", path);
    }
    command.env(
        switch_tests::VARIABLE,
        switch_tests::path_of_cases(workspace),
    );
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .context("cargo does not start")?;
    let output = child.stdout.take().context("cargo test has no output")?;
    let mut counts = Counts::default();
    for line in BufReader::new(output).split(b'\n') {
        let line = line.context("reading the output of cargo test")?;
        let line = String::from_utf8_lossy(&line);
        counts.add_line(&line);
        println!("{line}");
    }
    let status = child.wait().context("waiting for cargo test")?;
    Ok(Outcome {
        counts,
        is_success: status.success(),
    })
}

/// Sums over all calls of `cargo test`, and whether they are complete.
#[derive(Default)]
struct Summary {
    counts: Counts,
    run_count: u64,
    is_broken_off: bool,
}

impl Summary {
    /// Adds a call; returns whether all of its tests passed.
    fn add(&mut self, outcome: Outcome) -> bool {
        let Outcome { counts, is_success } = outcome;
        self.counts.passed += counts.passed;
        self.counts.failed += counts.failed;
        self.counts.ignored += counts.ignored;
        self.run_count += 1;
        // Failure without a failed test: it did not build, or a test binary crashed.
        self.is_broken_off |= !is_success && counts.failed == 0;
        is_success && counts.ignored == 0
    }

    /// Prints the last line; with numbers only if every run was complete.
    fn print(&self) {
        let Counts {
            passed,
            failed,
            ignored,
        } = self.counts;
        if ignored > 0 {
            println!("{ignored} tests are ignored: run them or remove them");
        }
        if self.run_count == 0 || self.is_broken_off {
            println!("the tests broke off (no build, or a crashed test binary); see above");
        } else {
            println!("{passed} passed, {failed} failed");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_lines_are_summed_and_others_are_not() {
        let mut counts = Counts::default();
        counts.add_line(
            "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out; \
             finished in 0.02s",
        );
        counts.add_line("test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured");
        counts.add_line("test names::result ... ok");
        counts.add_line("17 passed");
        assert_eq!(
            counts,
            Counts {
                passed: 15,
                failed: 2,
                ignored: 1
            }
        );
    }
}
