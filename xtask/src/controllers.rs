//! `cargo xtask controllers`: runs real controllers of P4Runtime and OpenFlow, and products that
//! bring their own, against a running switch.
//!
//! Each is driven by a Python program beside the tests of `control`, with its own environment
//! in the build folder, into which pip installs pinned requirements. It has namespaces of its
//! own for the network, mounts and processes, because it creates interfaces and uses the
//! machine's paths; what it leaves running ends with them. It starts the switch itself.

use std::process::Command;

use anyhow::bail;

use crate::ci::succeeds;
use crate::packages;
use crate::workspace::Workspace;

/// A controller: its script, and its pip requirements.
struct Controller {
    script: &'static str,
    requirements: &'static [&'static str],
}

const CONTROLLERS: [Controller; 5] = [
    Controller {
        script: "faucet_controller.py",
        requirements: &["faucet==1.10.12"],
    },
    Controller {
        script: "finsy_controller.py",
        requirements: &["finsy==0.30.0"],
    },
    Controller {
        script: "mininet_controller.py",
        // The last version of os-ken that has its example applications.
        requirements: &["os-ken==1.4.1", "eventlet==0.41.3"],
    },
    Controller {
        script: "ovn_controller.py",
        requirements: &[],
    },
    Controller {
        script: "shell_controller.py",
        requirements: &["p4runtime-shell==0.0.6", "protobuf<3.21"],
    },
];

/// Seconds after which a script is ended: far more than any needs.
const PATIENCE_S: &str = "600";
/// The namespaces that a script gets.
const NAMESPACES: [&str; 6] = [
    "--net",
    "--mount",
    "--pid",
    "--fork",
    "--kill-child",
    "--mount-proc",
];

/// The folder of the scripts.
const SCRIPTS: &str = "crates/control/tests/peers";
/// The folder of the P4 program that the switch runs.
const PROGRAMS: &str = "crates/control/testdata";

/// Runs every controller; `is_built` says that the tests have already built the program.
///
/// # Errors
/// If a build or an installation fails.
pub fn run(workspace: &Workspace, is_built: bool) -> anyhow::Result<bool> {
    if !packages::is_root()? {
        bail!("controllers need root, for network namespaces and interfaces");
    }
    packages::ensure_clients()?;
    let build = ["build", "--profile", "tested", "--package", "thalweg"];
    if !is_built && !succeeds(workspace.cargo(&build))? {
        return Ok(false);
    }
    let folder = workspace.metadata.target_directory.as_std_path();
    let program = folder.join("tested/thalweg");
    let mut all_well = true;
    for controller in &CONTROLLERS {
        let name = controller.script.trim_end_matches(".py");
        let environment = folder.join("peers").join(name);
        let python = match controller.requirements {
            [] => "python3".into(),
            requirements => {
                packages::ensure_environment(&environment, requirements)?;
                environment.join("bin/python")
            }
        };
        let mut command = Command::new("timeout");
        command.args(["--kill-after=10", PATIENCE_S, "unshare"]);
        command.args(NAMESPACES).arg(python);
        command.arg(workspace.root.join(SCRIPTS).join(controller.script));
        command.arg(&program).arg(workspace.root.join(PROGRAMS));
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        all_well &= succeeds(command)?;
    }
    Ok(all_well)
}
