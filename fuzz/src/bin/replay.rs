//! Runs targets on a stable compiler: first the corpus, then mutations of it.
//!
//! An input that makes a target panic is written to `artifacts/<target>/`, and the program
//! fails. `replay TARGET --input FILE` runs it again.

use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Parser;
use thalweg_fuzz::mutation::Mutator;
use thalweg_fuzz::{TARGETS, Target};

#[derive(Parser)]
#[command(about = "Runs fuzz targets on a stable compiler")]
struct Arguments {
    /// Run only this target; all of them by default.
    target: Option<String>,
    /// Seconds of mutation for each target; the corpus always runs whole.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Seed of the mutations.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Run only this file.
    #[arg(long)]
    input: Option<PathBuf>,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Runs the chosen targets; `false` if one panicked.
fn run(arguments: &Arguments) -> anyhow::Result<bool> {
    let chosen: Vec<Target> = TARGETS
        .into_iter()
        .filter(|target| {
            arguments
                .target
                .as_deref()
                .is_none_or(|name| name == target.name)
        })
        .collect();
    if chosen.is_empty() {
        let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
        anyhow::bail!("no such target; there are {}", names.join(", "));
    }
    let mut is_sound = true;
    for target in chosen {
        is_sound &= match &arguments.input {
            Some(path) => {
                let input = std::fs::read(path).context(path.display().to_string())?;
                survives(target, &input)
            }
            None => fuzz(target, arguments)?,
        };
    }
    Ok(is_sound)
}

fn fuzz(target: Target, arguments: &Arguments) -> anyhow::Result<bool> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let corpus = read_corpus(&root.join("corpus").join(target.name))?;
    for input in &corpus {
        if !survives(target, input) {
            return keep(root, target, input);
        }
    }
    let mut mutator = Mutator::new(arguments.seed);
    let (start, limit) = (Instant::now(), Duration::from_secs(arguments.seconds));
    let mut count = 0_u64;
    while start.elapsed() < limit {
        let input = mutator.next_input(&corpus);
        count += 1;
        if !survives(target, &input) {
            return keep(root, target, &input);
        }
    }
    let (name, files, seed) = (target.name, corpus.len(), arguments.seed);
    println!("{name}: {files} inputs of the corpus, {count} mutations from seed {seed}: sound");
    Ok(true)
}

/// Reads the files of a folder in the order of their names, so that a seed is reproducible
/// everywhere.
fn read_corpus(folder: &Path) -> anyhow::Result<Vec<Vec<u8>>> {
    let entries = std::fs::read_dir(folder)
        .with_context(|| format!("{}: every target needs a corpus", folder.display()))?;
    let mut paths = Vec::new();
    for entry in entries {
        paths.push(entry?.path());
    }
    paths.sort();
    paths
        .iter()
        .map(|path| std::fs::read(path).context(path.display().to_string()))
        .collect()
}

fn survives(target: Target, input: &[u8]) -> bool {
    panic::catch_unwind(AssertUnwindSafe(|| (target.run)(input))).is_ok()
}

/// Saves the input that made a target panic.
fn keep(root: &Path, target: Target, input: &[u8]) -> anyhow::Result<bool> {
    let folder = root.join("artifacts").join(target.name);
    std::fs::create_dir_all(&folder)?;
    let sum = input.iter().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let path = folder.join(format!("{sum:016x}"));
    std::fs::write(&path, input)?;
    eprintln!(
        "{}: broken by {} ({} bytes)",
        target.name,
        path.display(),
        input.len()
    );
    Ok(false)
}
