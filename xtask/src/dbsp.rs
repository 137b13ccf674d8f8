//! `cargo xtask dbsp`: checks and tests `extras/dbsp`, the view of recorded packets.
//!
//! With `--out FILE` it measures instead.
//!
//! `extras/dbsp` is a separate workspace with its own lock file: its engine has some hundreds
//! of dependencies, which take many minutes to build and which nothing else needs. So `cargo
//! xtask test` and `cargo xtask ci` skip it unless told otherwise, and all its checks are
//! here: formatting, lints, tests, and the licences of its dependencies.
//!
//! Measurements become a peer's rows: `thalweg bench update --peer FILE`.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, ensure};

use crate::ci::succeeds;
use crate::phases::Phases;
use crate::tidy::{self, DBSP_MANIFEST as MANIFEST};
use crate::workspace::Workspace;

/// Arguments of its test run; without optimization the engine takes minutes.
pub(crate) const TEST_ARGUMENTS: [&str; 3] = ["--release", "--manifest-path", MANIFEST];

/// Arguments of the command.
#[derive(clap::Args)]
pub struct Arguments {
    /// Measure, and write the rows to this file for `thalweg bench update --peer`.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Options of the measurement: `--entries N,... --updates N --pipeline ofd|psc --rules N
    /// --seed N`.
    #[arg(last = true, requires = "out", value_name = "OPTIONS")]
    options: Vec<String>,
}

/// Runs all checks, even after a failure; or measures.
///
/// # Errors
/// If the measurement or its output fails.
pub fn run(workspace: &Workspace, arguments: &Arguments) -> anyhow::Result<bool> {
    if let Some(out) = &arguments.out {
        measure(workspace, out, &arguments.options)?;
        return Ok(true);
    }
    check(workspace)
}

fn measure(workspace: &Workspace, out: &Path, options: &[String]) -> anyhow::Result<()> {
    let mut command = workspace.cargo(&["run"]);
    command
        .args(TEST_ARGUMENTS)
        .args(["--", "--json"])
        .args(options);
    let done = command.stderr(Stdio::inherit()).output()?;
    ensure!(
        done.status.success(),
        "nothing was measured: {}",
        done.status
    );
    let place = out.display();
    std::fs::write(out, done.stdout).with_context(|| format!("{place} cannot be written"))
}

fn check(workspace: &Workspace) -> anyhow::Result<bool> {
    let mut phases = Phases::default();
    phases.run("extras/dbsp: rustfmt", || {
        succeeds(workspace.cargo(&["fmt", "--check", "--manifest-path", MANIFEST]))
    });
    phases.run("extras/dbsp: clippy", || {
        let mut command = workspace.cargo(&["clippy", "--all-targets"]);
        command.args(TEST_ARGUMENTS).args(["--", "-D", "warnings"]);
        succeeds(command)
    });
    phases.run("extras/dbsp: tests", || {
        let mut command = workspace.cargo(&["test", "--no-fail-fast"]);
        command.args(TEST_ARGUMENTS);
        succeeds(command)
    });
    // All packages are present now, so cargo knows their licences.
    phases.run("extras/dbsp: tidy", || tidy::run_on_dbsp(workspace));
    Ok(phases.finish())
}
