//! `cargo xtask fuzz`: the fuzz targets of `fuzz/`, on a stable compiler.
//!
//! `fuzz/` is a separate package with its own lock file. Its program `replay` first runs a
//! target's committed corpus, then seeded mutations of it, for a bounded time. With a nightly
//! compiler the same targets run guided by coverage (`guided.rs`); see `fuzz/README.md`.

mod guided;

use crate::ci::succeeds;
use crate::workspace::Workspace;

/// How to run the targets.
pub struct Config {
    /// Seconds to mutate each target.
    pub seconds: u64,
    /// The seed of the mutations.
    pub seed: u64,
    /// One target; all if `None`.
    pub target: Option<String>,
    /// Whether to run under libFuzzer with AddressSanitizer, which needs a nightly compiler.
    pub is_guided: bool,
}

/// Whether the fuzz package exists.
pub fn is_present(workspace: &Workspace) -> bool {
    workspace.root.join("fuzz/Cargo.toml").exists()
}

/// Runs the targets; `false` if one of them found a fault.
pub fn run(workspace: &Workspace, config: &Config) -> anyhow::Result<bool> {
    anyhow::ensure!(is_present(workspace), "there is no fuzz/Cargo.toml");
    if config.is_guided {
        return guided::run(workspace, config);
    }
    let manifest = [
        "run",
        "--release",
        "--quiet",
        "--manifest-path",
        "fuzz/Cargo.toml",
    ];
    let mut command = workspace.cargo(&manifest);
    command.args(["--bin", "replay", "--"]);
    command.arg("--seconds").arg(config.seconds.to_string());
    command.arg("--seed").arg(config.seed.to_string());
    command.args(&config.target);
    succeeds(command)
}
