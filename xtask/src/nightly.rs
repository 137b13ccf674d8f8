//! Runs the nightly compiler where stable ones fall short: sanitizers and coverage for
//! libFuzzer.
//!
//! `fuzz --guided` calls it. No default build, test or measurement needs a nightly compiler.
//! Sanitizer flags are given together with `--target`, so build scripts and procedural macros
//! do not get them, and other builds stay valid.

use std::process::Command;

use anyhow::{Context, bail};

use crate::workspace::{Workspace, host_platform};

/// A nightly toolchain of this machine.
pub(crate) struct Nightly {
    /// The name that `rustup` lists.
    name: String,
    /// Its target platform.
    pub(crate) platform: String,
}

impl Nightly {
    /// Finds a nightly toolchain; the error says what to install.
    pub(crate) fn find() -> anyhow::Result<Self> {
        let list = output_of(Command::new("rustup").args(["toolchain", "list"]))
            .context("rustup does not say which toolchains there are")?;
        let Some(name) = nightly_in(&list) else {
            bail!(
                "there is no nightly toolchain, which sanitizers need: \
                 `rustup toolchain install nightly` installs one"
            );
        };
        let platform = host_platform()?.context("rustc does not say what it builds for")?;
        Ok(Self {
            name: name.to_owned(),
            platform,
        })
    }

    /// `cargo` of this toolchain at the workspace's root, with compiler flags `flags`.
    pub(crate) fn cargo(&self, workspace: &Workspace, arguments: &[&str], flags: &str) -> Command {
        let mut command = Command::new("rustup");
        command.args(["run", &self.name, "cargo"]).args(arguments);
        command.args(["--target", &self.platform]);
        command.current_dir(&workspace.root).env("RUSTFLAGS", flags);
        command.env_remove("CARGO_ENCODED_RUSTFLAGS");
        // `cargo run` sets these variables for xtask itself. Some build scripts rerun when
        // they change between builds.
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
                command.env_remove(&name);
            }
        }
        command.stdin(std::process::Stdio::null());
        command
    }
}

/// The first nightly toolchain of `rustup toolchain list`.
fn nightly_in(list: &str) -> Option<&str> {
    let mut names = list.lines().filter_map(|line| line.split(' ').next());
    names.find(|name| name.starts_with("nightly"))
}

fn output_of(command: &mut Command) -> anyhow::Result<String> {
    let output = command
        .output()
        .with_context(|| format!("{command:?} does not start"))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        bail!("{command:?} failed: {}", text.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nightly_toolchain_is_found_by_its_name() {
        let list = "stable-x86_64-unknown-linux-gnu (active, default)\n\
                    nightly-2026-05-19-x86_64-unknown-linux-gnu\n\
                    my-nightly\n";
        let name = "nightly-2026-05-19-x86_64-unknown-linux-gnu";
        assert_eq!(nightly_in(list), Some(name));
        assert_eq!(nightly_in("nightly-x (active)\n"), Some("nightly-x"));
        assert_eq!(nightly_in("stable\nmy-nightly\n"), None);
        assert_eq!(nightly_in("no installed toolchains\n"), None);
    }
}
