//! `cargo xtask p4runtime`: real controllers against a running switch.
//!
//! Each controller is a Python program beside the tests of `control`, and has an environment of
//! its own in the build folder, into which pip installs what it needs, with a version. It runs in
//! a network namespace of its own, as it makes tap interfaces, and starts the switch itself.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use crate::ci::succeeds;
use crate::packages;
use crate::workspace::Workspace;

/// A controller: its script, and what pip installs for it.
struct Controller {
    script: &'static str,
    requirements: &'static [&'static str],
}

const CONTROLLERS: [Controller; 2] = [
    Controller {
        script: "finsy_controller.py",
        requirements: &["finsy==0.30.0"],
    },
    Controller {
        script: "shell_controller.py",
        requirements: &["p4runtime-shell==0.0.6", "protobuf<3.21"],
    },
];

/// Where the scripts are.
const SCRIPTS: &str = "crates/control/tests/peers";
/// Where the program is that the switch runs.
const PROGRAMS: &str = "crates/control/testdata";

/// Runs every controller; the tests have built the program already.
///
/// # Errors
/// If something cannot be built or installed.
pub fn run(workspace: &Workspace, is_built: bool) -> anyhow::Result<bool> {
    if !packages::is_root()? {
        bail!("controllers need root, for network namespaces and tap interfaces");
    }
    let build = ["build", "--profile", "tested", "--package", "thalweg"];
    if !is_built && !succeeds(workspace.cargo(&build))? {
        return Ok(false);
    }
    let folder = workspace.metadata.target_directory.as_std_path();
    let program = folder.join("tested/thalweg");
    let mut all_well = true;
    for controller in &CONTROLLERS {
        let environment = environment(&folder.join("peers"), controller)?;
        let mut command = Command::new("unshare");
        command.arg("--net").arg(environment.join("bin/python"));
        command.arg(workspace.root.join(SCRIPTS).join(controller.script));
        command.arg(&program).arg(workspace.root.join(PROGRAMS));
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        all_well &= succeeds(command)?;
    }
    Ok(all_well)
}

/// The Python environment of a controller, with what it needs.
fn environment(folder: &Path, controller: &Controller) -> anyhow::Result<PathBuf> {
    let name = controller.script.trim_end_matches(".py");
    let path = folder.join(name);
    packages::ensure_python()?;
    let mut command = Command::new("python3");
    command.args(["-m", "venv"]).arg(&path);
    if !succeeds(command)? {
        bail!("{} cannot be made; see above", path.display());
    }
    let mut command = Command::new(path.join("bin/pip"));
    command.args(["install", "--quiet", "--disable-pip-version-check"]);
    command.args(controller.requirements);
    let installed = succeeds(command).context("pip does not run")?;
    if !installed {
        let list = controller.requirements.join(" ");
        bail!("pip did not install {list}; is the package index within reach?");
    }
    Ok(path)
}
