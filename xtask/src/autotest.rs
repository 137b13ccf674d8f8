//! `cargo xtask autotest`: Open vSwitch's own tests on the daemon, in ovs-vswitchd's place.
//!
//! The tests are those of Debian's package `openvswitch-source`, whose archive has them
//! expanded; all other programs are Debian's. Nothing of Open vSwitch is built, and the tests
//! run unchanged, in a network namespace of their own.
//!
//! `passing.txt` beside this file lists the tests that pass. A run fails if one of them does
//! not pass, also when it is tried again alone. `--update` tries all that start the daemon,
//! adds those that pass to the list, and writes `docs/open-vswitch-tests.md`.
//! `cargo xtask test` runs a sample of the list: every n-th test of each file.

mod page;
mod suite;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use crate::ci::succeeds;
use crate::packages;
use crate::workspace::Workspace;
use suite::{Group, Outcome, Suite};

/// The tests that pass, by number, file and title.
const PASSING: &str = "xtask/src/autotest/passing.txt";
const PAGE: &str = "docs/open-vswitch-tests.md";
/// How many tests run at once; most of the time they wait.
const JOBS: usize = 4;

/// How many tests a sample has at most, beside the first of each file.
const SAMPLE: usize = 200;

/// Seconds after which a run is ended: a daemon that never answers must not hold it up for ever.
const PATIENCE_S: &str = "2700";

/// What is run.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Run all tests that start the daemon, and bring the list and the page up to date.
    #[arg(long)]
    update: bool,
    /// Run all tests that start the daemon.
    #[arg(long)]
    all: bool,
    /// Run only the tests of these files, such as `ofproto.at`.
    #[arg(long, value_delimiter = ',')]
    files: Vec<String>,
    /// Another program in ovs-vswitchd's place.
    #[arg(long)]
    program: Option<PathBuf>,
    /// Only these tests, by number.
    numbers: Vec<u32>,
}

/// Runs tests as asked; `false` if one does not pass that should.
///
/// # Errors
/// If the tests cannot be run.
pub fn run(workspace: &Workspace, arguments: &Arguments) -> anyhow::Result<bool> {
    let suite = prepare(workspace, arguments.program.as_deref())?;
    let passing = read_passing(workspace)?;
    let is_chosen = |group: &Group| {
        let is_named =
            arguments.numbers.contains(&group.number) || arguments.files.contains(&group.file);
        let is_selection = !arguments.numbers.is_empty() || !arguments.files.is_empty();
        match is_selection {
            true => is_named && group.starts_daemon,
            false if arguments.all || arguments.update => group.starts_daemon,
            false => passing.contains(&group.key()),
        }
    };
    let mut groups = suite.groups();
    groups.retain(is_chosen);
    let chosen: Vec<&Group> = groups.iter().collect();
    let outcomes = suite.run(&chosen, JOBS)?;
    let lost = judge(&suite, &chosen, &outcomes, &passing)?;
    if arguments.update {
        let mut all = passing;
        all.extend(
            chosen
                .iter()
                .filter(|group| is_ok(&outcomes, group))
                .map(|group| group.key()),
        );
        let lines: Vec<String> = sorted(&all);
        write(
            &workspace.root.join(PASSING),
            &format!("{}\n", lines.join("\n")),
        )?;
        let page = page::render(&chosen, &outcomes);
        write(&workspace.root.join(PAGE), &page)?;
    }
    Ok(lost.is_empty())
}

/// Runs a sample of the tests that pass, or all, as a part of `cargo xtask test`, which has
/// built the program.
///
/// # Errors
/// If the tests cannot be run.
pub(crate) fn run_passing(workspace: &Workspace, is_sample: bool) -> anyhow::Result<bool> {
    let program = built(workspace);
    let suite = prepare(workspace, Some(&program))?;
    let mut passing = read_passing(workspace)?;
    if is_sample {
        passing = sample(&passing, SAMPLE);
    }
    let mut groups = suite.groups();
    groups.retain(|group| passing.contains(&group.key()));
    let chosen: Vec<&Group> = groups.iter().collect();
    let outcomes = suite.run(&chosen, JOBS)?;
    Ok(judge(&suite, &chosen, &outcomes, &passing)?.is_empty())
}

/// Every n-th test of each file, from its first on: at most `count`, and one more for each file.
fn sample(passing: &BTreeSet<String>, count: usize) -> BTreeSet<String> {
    let step = passing.len().div_ceil(count).max(1);
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    let is_in_it = |key: &String| {
        let file = key.split(' ').nth(1).unwrap_or_default();
        let place = places.entry(file.to_owned()).or_default();
        *place += 1;
        (*place - 1).is_multiple_of(step)
    };
    sorted(passing).into_iter().filter(is_in_it).collect()
}

/// Where the build folder has the program.
fn built(workspace: &Workspace) -> PathBuf {
    let target = workspace.metadata.target_directory.as_std_path();
    target.join("tested/thalweg")
}

fn prepare(workspace: &Workspace, program: Option<&Path>) -> anyhow::Result<Suite> {
    packages::ensure_open_vswitch()?;
    packages::ensure_open_vswitch_tests()?;
    if !packages::is_root()? {
        bail!("Open vSwitch's tests need root, for a network namespace");
    }
    let target = workspace.metadata.target_directory.as_std_path();
    let program = match program {
        Some(program) => program.canonicalize().context("the program")?,
        None => build(workspace)?,
    };
    Suite::prepare(&target.join("open-vswitch-tests"), &program)
}

/// Builds the daemon.
fn build(workspace: &Workspace) -> anyhow::Result<PathBuf> {
    let arguments = ["build", "--profile", "tested", "--package", "thalweg"];
    if !succeeds(workspace.cargo(&arguments))? {
        bail!("the daemon does not build; see above");
    }
    Ok(built(workspace))
}

/// Prints what became of the tests; gives those of the list that do not pass.
fn judge<'a>(
    suite: &Suite,
    chosen: &[&'a Group],
    outcomes: &BTreeMap<u32, Outcome>,
    passing: &BTreeSet<String>,
) -> anyhow::Result<Vec<&'a Group>> {
    print_outcomes(chosen, outcomes);
    let lost = lost(suite, chosen, outcomes, passing)?;
    for group in &lost {
        eprintln!("does not pass any more: {}", group.key());
    }
    Ok(lost)
}

/// The tests of the list that do not pass, also not alone.
fn lost<'a>(
    suite: &Suite,
    chosen: &[&'a Group],
    outcomes: &BTreeMap<u32, Outcome>,
    passing: &BTreeSet<String>,
) -> anyhow::Result<Vec<&'a Group>> {
    let should = chosen.iter().filter(|group| passing.contains(&group.key()));
    let failed: Vec<&Group> = should
        .filter(|group| !is_ok(outcomes, group))
        .copied()
        .collect();
    if failed.is_empty() {
        return Ok(failed);
    }
    eprintln!("trying {} again, one at a time", failed.len());
    let again = suite.run(&failed, 1)?;
    Ok(failed
        .into_iter()
        .filter(|group| !is_ok(&again, group))
        .collect())
}

fn is_ok(outcomes: &BTreeMap<u32, Outcome>, group: &Group) -> bool {
    outcomes.get(&group.number) == Some(&Outcome::Passed)
}

fn print_outcomes(chosen: &[&Group], outcomes: &BTreeMap<u32, Outcome>) {
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for group in chosen {
        match outcomes.get(&group.number) {
            Some(Outcome::Passed) => passed += 1,
            Some(Outcome::Skipped) => skipped += 1,
            Some(Outcome::Failed(place)) => {
                failed += 1;
                eprintln!("{}: FAILED ({place})", group.key());
            }
            None => {
                failed += 1;
                eprintln!("{}: not run", group.key());
            }
        }
    }
    println!("Open vSwitch's tests: {passed} passed, {failed} failed, {skipped} skipped");
}

fn read_passing(workspace: &Workspace) -> anyhow::Result<BTreeSet<String>> {
    let text = std::fs::read_to_string(workspace.root.join(PASSING)).context(PASSING)?;
    Ok(text.lines().map(str::to_owned).collect())
}

/// The keys in the order of their numbers.
fn sorted(keys: &BTreeSet<String>) -> Vec<String> {
    let number = |key: &String| -> u32 {
        let digits = key.split(' ').next();
        digits
            .and_then(|digits| digits.parse().ok())
            .unwrap_or(u32::MAX)
    };
    let mut keys: Vec<String> = keys.iter().cloned().collect();
    keys.sort_by_key(number);
    keys
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).with_context(|| path.display().to_string())
}

/// A command that runs in a network namespace of its own, with a loopback interface.
fn in_namespace(script: &str) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--net", "timeout", PATIENCE_S, "bash", "-c"]);
    command.arg(format!("ip link set lo up; {script}"));
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_tests_of_every_file() {
        let mut passing: BTreeSet<String> = BTreeSet::from(["7 few.at only one".to_owned()]);
        passing.extend((10..110).map(|number| format!("{number} many.at test {number}")));
        passing.extend((200..205).map(|number| format!("{number} some.at test {number}")));
        let chosen = sorted(&sample(&passing, 20));
        let numbers: Vec<&str> = chosen
            .iter()
            .filter_map(|key| key.split(' ').next())
            .collect();
        // Every sixth of 106.
        let expected = "7 10 16 22 28 34 40 46 52 58 64 70 76 82 88 94 100 106 200";
        assert_eq!(numbers.join(" "), expected);
        assert_eq!(sample(&passing, 106), passing);
        assert_eq!(sample(&passing, 1_000), passing);
        assert!(sample(&BTreeSet::new(), 20).is_empty());
    }
}
