//! `cargo xtask ci`: all checks except the tests.

use std::process::Command;

use anyhow::Context;

use crate::phases::Phases;
use crate::tidy;
use crate::workspace::{PRIVILEGED, SHARED, Workspace};

/// Runs all checks, even after a failure.
///
/// Lints and documentation are made with the profile and the features of the tests, so that
/// procedural macros and build scripts are those that the tests have built.
pub fn run(workspace: &Workspace) -> anyhow::Result<bool> {
    let mut phases = Phases::default();
    let mut features = workspace.features_named(PRIVILEGED);
    features.extend(workspace.features_named(SHARED));
    let features = features.join(",");
    let build = [
        "--profile",
        "tested",
        "--workspace",
        "--features",
        &features,
    ];
    phases.run("rustfmt", || {
        succeeds(workspace.cargo(&["fmt", "--all", "--check"]))
    });
    phases.run("clippy", || {
        let mut command = workspace.cargo(&["clippy", "--all-targets"]);
        command.args(build).args(["--", "-D", "warnings"]);
        succeeds(command)
    });
    phases.run("documentation", || {
        let mut command = workspace.cargo(&["doc", "--no-deps"]);
        command.args(build).env("RUSTDOCFLAGS", "-Dwarnings");
        succeeds(command)
    });
    phases.run("tidy", || tidy::run(workspace));
    Ok(phases.finish())
}

/// Whether a command succeeds; an error if it does not start.
pub(crate) fn succeeds(mut command: Command) -> anyhow::Result<bool> {
    let status = command
        .status()
        .with_context(|| format!("{command:?} does not start"))?;
    Ok(status.success())
}
