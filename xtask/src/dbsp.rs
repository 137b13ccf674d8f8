//! `cargo xtask dbsp`: the view of recorded packets in `extras/dbsp`, checked and tested; or, with
//! `--out FILE`, measured.
//!
//! `extras/dbsp` is a workspace of its own, with its own lock file: its engine brings some hundreds
//! of packages along, which take many minutes to build and which nothing else needs. So neither
//! `cargo xtask test` nor `cargo xtask ci` touches it unless they are told to, and all its checks
//! are here: formatting, lints, tests, and the licences of what it stands on.
//!
//! What is measured becomes rows of a peer: `thalweg bench update --peer FILE`.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, ensure};

use crate::ci::succeeds;
use crate::phases::Phases;
use crate::tidy;
use crate::workspace::Workspace;

/// Its manifest, from the root.
pub const MANIFEST: &str = "extras/dbsp/Cargo.toml";

/// What its tests are run with: unoptimised, the engine takes minutes for them.
pub(crate) const TEST_ARGUMENTS: [&str; 3] = ["--release", "--manifest-path", MANIFEST];

/// What the command takes.
#[derive(clap::Args)]
pub struct Arguments {
    /// Measure, and write the rows there for `thalweg bench update --peer`.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// How to measure: `--entries N,... --updates N --pipeline ofd|psc --rules N --seed N`.
    #[arg(last = true, requires = "out", value_name = "OPTIONS")]
    options: Vec<String>,
}

/// Runs all checks, also past the first failure; or measures.
///
/// # Errors
/// If nothing can be measured or written.
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
    // By now all packages are here, so cargo knows their licences.
    phases.run("extras/dbsp: tidy", || tidy::run_on_dbsp(workspace));
    Ok(phases.finish())
}
