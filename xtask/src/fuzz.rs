//! `cargo xtask fuzz`: the fuzz targets of `fuzz/`, on a stable compiler.
//!
//! The program `replay` of `fuzz/` first runs a target's committed corpus, then seeded
//! mutations of it, for a bounded time. As many targets run at once as there are processors,
//! each in a process of its own. With a nightly compiler the same targets run guided by coverage
//! (`guided.rs`); see `fuzz/README.md`.

mod guided;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::thread;

use anyhow::{Context, bail};

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
    /// Whether the tests have already built `replay`.
    pub is_built: bool,
}

/// Runs the targets; `false` if one of them found a fault.
///
/// # Errors
/// If the targets do not build, or the named one is unknown.
pub fn run(workspace: &Workspace, config: &Config) -> anyhow::Result<bool> {
    let names = names(&workspace.root.join("fuzz/fuzz_targets"))?;
    let targets = chosen(names, config.target.as_deref())?;
    if config.is_guided {
        return guided::run(workspace, config, &targets);
    }
    let build = ["build", "--quiet", "--profile", "tested"];
    let package = ["--package", "thalweg-fuzz", "--bin", "replay"];
    if !config.is_built && !succeeds(workspace.cargo(&[build, package].concat()))? {
        bail!("the targets do not build; see above");
    }
    let folder = workspace.metadata.target_directory.as_std_path();
    run_all(&folder.join("tested/replay"), config, targets)
}

/// Runs `replay` for each target, several at once.
fn run_all(program: &Path, config: &Config, targets: Vec<String>) -> anyhow::Result<bool> {
    let left = Mutex::new(targets.into_iter());
    let next = || left.lock().expect("no thread panics with it").next();
    let run_some = || {
        let mut is_sound = true;
        while let Some(target) = next() {
            let mut command = Command::new(program);
            command.arg("--seconds").arg(config.seconds.to_string());
            command.arg("--seed").arg(config.seed.to_string());
            command.arg(target);
            is_sound &= succeeds(command)?;
        }
        anyhow::Ok(is_sound)
    };
    let count = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..count).map(|_| scope.spawn(run_some)).collect();
        let mut is_sound = true;
        for thread in threads {
            is_sound &= thread.join().expect("it only starts programs")?;
        }
        Ok(is_sound)
    })
}

/// The names of the files in `fuzz_targets`, sorted.
fn names(folder: &Path) -> anyhow::Result<Vec<String>> {
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut names = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "rs") {
            let name = path
                .file_stem()
                .context("a file with an extension has a stem")?;
            names.push(name.to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// The named target, or all.
fn chosen(names: Vec<String>, target: Option<&str>) -> anyhow::Result<Vec<String>> {
    match target {
        None => Ok(names),
        Some(target) if names.iter().any(|name| name == target) => Ok(vec![target.to_owned()]),
        Some(target) => bail!(
            "there is no target `{target}`; there are {}",
            names.join(", ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_chosen_by_its_name() {
        let names = || vec!["frame".to_owned(), "wire".to_owned()];
        assert_eq!(chosen(names(), None).unwrap(), names());
        assert_eq!(chosen(names(), Some("wire")).unwrap(), ["wire"]);
        let error = chosen(names(), Some("wired")).unwrap_err().to_string();
        assert_eq!(error, "there is no target `wired`; there are frame, wire");
    }

    #[test]
    fn every_target_has_a_file_and_a_corpus() {
        let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz");
        let names = names(&fuzz.join("fuzz_targets")).unwrap();
        assert!(names.contains(&"wire".to_owned()));
        for name in names {
            assert!(fuzz.join("corpus").join(&name).is_dir(), "{name}");
        }
    }
}
