//! `cargo xtask switch-tests`: os-ken's switch tests of OpenFlow 1.3 against a running switch.
//!
//! The cases are JSON files in the package os-ken. pip installs it into an environment in the
//! build folder, and a script beside the test that runs the cases makes bytes of them with
//! os-ken's own libraries. The test finds their file by a variable.

use std::path::PathBuf;
use std::process::Command;

use anyhow::bail;

use crate::ci::succeeds;
use crate::packages;
use crate::workspace::Workspace;

/// Names the file of cases to the test.
pub(crate) const VARIABLE: &str = "THALWEG_SWITCH_TESTS";

const REQUIREMENTS: [&str; 1] = ["os-ken==4.2.2"];
const SCRIPT: &str = "crates/switch/tests/peers/os_ken_cases.py";
const TEST: [&str; 9] = [
    "test",
    "--profile",
    "tested",
    "--package",
    "thalweg-switch",
    "--features",
    "privileged-tests",
    "--test",
    "os_ken",
];

/// Runs the cases.
///
/// # Errors
/// If an installation fails, or cargo does not start.
pub fn run(workspace: &Workspace) -> anyhow::Result<bool> {
    write_cases(workspace)?;
    let mut command = workspace.cargo(&TEST);
    command.env(VARIABLE, path_of_cases(workspace));
    succeeds(command)
}

/// Where the cases are.
pub(crate) fn path_of_cases(workspace: &Workspace) -> PathBuf {
    let folder = workspace.metadata.target_directory.as_std_path();
    folder.join("peers/os_ken_cases.json")
}

/// Installs os-ken, and writes its cases.
pub(crate) fn write_cases(workspace: &Workspace) -> anyhow::Result<()> {
    let path = path_of_cases(workspace);
    let environment = path.with_file_name("os_ken");
    packages::ensure_environment(&environment, &REQUIREMENTS)?;
    let mut command = Command::new(environment.join("bin/python"));
    command.arg(workspace.root.join(SCRIPT)).arg(&path);
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    if !succeeds(command)? {
        bail!("the cases of os-ken cannot be written; see above");
    }
    Ok(())
}
