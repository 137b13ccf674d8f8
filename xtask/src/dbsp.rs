//! `cargo xtask dbsp`: the view of recorded packets in `extras/dbsp`, checked and tested.
//!
//! `extras/dbsp` is a workspace of its own, with its own lock file: its engine brings some hundreds
//! of packages along, which take many minutes to build and which nothing else needs. So neither
//! `cargo xtask test` nor `cargo xtask ci` touches it unless they are told to, and all its checks
//! are here: formatting, lints, tests, and the licences of what it stands on.

use crate::ci::succeeds;
use crate::phases::Phases;
use crate::tidy;
use crate::workspace::Workspace;

/// Its manifest, from the root.
pub const MANIFEST: &str = "extras/dbsp/Cargo.toml";

/// What its tests are run with: unoptimised, the engine takes minutes for them.
pub(crate) const TEST_ARGUMENTS: [&str; 3] = ["--release", "--manifest-path", MANIFEST];

/// Runs all of it, also past the first failure.
pub fn run(workspace: &Workspace) -> anyhow::Result<bool> {
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
