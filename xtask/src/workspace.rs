//! The workspace as cargo describes it, and cargo commands that run at its root.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Context;
use cargo_metadata::{Metadata, MetadataCommand, Package};

/// The feature of tests that need root and external programs.
pub(crate) const PRIVILEGED: &str = "privileged-tests";
/// The feature of tests that read the shared folder.
pub(crate) const SHARED: &str = "shared-data";
/// The folder of data shared by several projects, unless `THALWEG_SHARED` names another.
const SHARED_DEFAULT: &str = "../shared";

/// The workspace: its root folder and its `cargo metadata`.
pub struct Workspace {
    /// The folder of the workspace's `Cargo.toml`.
    pub root: PathBuf,
    /// Packages and resolved dependencies, for this machine's platform only.
    pub metadata: Metadata,
}

impl Workspace {
    /// Loads the metadata. Dependencies of other platforms are left out: they are not built
    /// here.
    pub fn load() -> anyhow::Result<Self> {
        let mut command = MetadataCommand::new();
        if let Some(platform) = host_platform()? {
            command.other_options(vec!["--filter-platform".to_owned(), platform]);
        }
        // xtask always lies in the workspace that it was built from.
        command.manifest_path(concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml"));
        let metadata = command.exec().context("cargo metadata failed")?;
        let root = metadata.workspace_root.clone().into_std_path_buf();
        Ok(Self { root, metadata })
    }

    /// Loads another workspace inside this one, by its manifest's path from the root.
    ///
    /// Fetches nothing: fails if a dependency is missing on this machine.
    pub fn load_other(&self, manifest: &str) -> anyhow::Result<Self> {
        let mut command = MetadataCommand::new();
        let mut options = vec!["--offline".to_owned()];
        if let Some(platform) = host_platform()? {
            options.extend(["--filter-platform".to_owned(), platform]);
        }
        command.other_options(options);
        command.manifest_path(self.root.join(manifest));
        let metadata = command.exec();
        let metadata = metadata.with_context(|| format!("cargo metadata of {manifest} failed"))?;
        let root = self.root.clone();
        Ok(Self { root, metadata })
    }

    /// The packages of the workspace, in no particular order.
    pub fn packages(&self) -> Vec<&Package> {
        self.metadata.workspace_packages()
    }

    /// `cargo` at the root, with no standard input.
    pub fn cargo(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(cargo_program());
        command.current_dir(&self.root).args(arguments);
        command.stdin(std::process::Stdio::null());
        command
    }

    /// The folder of shared data, if this machine has it.
    pub fn shared_data(&self) -> Option<PathBuf> {
        let named = std::env::var_os("THALWEG_SHARED").map(PathBuf::from);
        let path = named.unwrap_or_else(|| PathBuf::from(SHARED_DEFAULT));
        self.root
            .join(path)
            .canonicalize()
            .ok()
            .filter(|path| path.is_dir())
    }

    /// `package/feature` for every package of the workspace that declares `feature`.
    pub fn features_named(&self, feature: &str) -> Vec<String> {
        let mut found: Vec<String> = self
            .packages()
            .into_iter()
            .filter(|package| package.features.contains_key(feature))
            .map(|package| format!("{}/{feature}", package.name))
            .collect();
        found.sort();
        found
    }
}

/// The cargo that started xtask, so that a toolchain override also holds for its children.
fn cargo_program() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"))
}

/// The compiler's default target platform.
pub(crate) fn host_platform() -> anyhow::Result<Option<String>> {
    let output = Command::new("rustc")
        .arg("-vV")
        .output()
        .context("rustc does not run")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(text
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .map(str::to_owned))
}
