//! `cargo xtask ci`: all checks except the tests.

use std::process::Command;

use anyhow::Context;

use crate::phases::Phases;
use crate::tidy;
use crate::workspace::Workspace;

/// Runs all checks, even after a failure.
pub fn run(workspace: &Workspace) -> anyhow::Result<bool> {
    let mut phases = Phases::default();
    phases.run("rustfmt", || {
        succeeds(workspace.cargo(&["fmt", "--all", "--check"]))
    });
    phases.run("clippy", || {
        let arguments = ["clippy", "--workspace", "--all-targets", "--all-features"];
        let mut command = workspace.cargo(&arguments);
        command.args(["--", "-D", "warnings"]);
        succeeds(command)
    });
    phases.run("documentation", || {
        let mut command = workspace.cargo(&["doc", "--workspace", "--no-deps"]);
        command.env("RUSTDOCFLAGS", "-Dwarnings");
        succeeds(command)
    });
    if workspace.root.join("fuzz/Cargo.toml").exists() {
        phases.run("fuzz targets: rustfmt and clippy", || {
            let manifest = ["--manifest-path", "fuzz/Cargo.toml"];
            let mut format = workspace.cargo(&["fmt", "--check"]);
            format.args(manifest);
            let mut clippy = workspace.cargo(&["clippy", "--all-targets"]);
            clippy.args(manifest).args(["--", "-D", "warnings"]);
            Ok(succeeds(format)? & succeeds(clippy)?)
        });
    }
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
