//! `cargo xtask autotest`: Open vSwitch's own tests on the daemon, in ovs-vswitchd's place.
//!
//! The tests are those of Debian's package `openvswitch-source`, whose archive has them
//! expanded; all other programs are Debian's. Nothing of Open vSwitch is built, and the tests
//! run unchanged, in a network namespace of their own.
//!
//! `passing.txt` beside this file lists the tests that pass. A run fails if one of them does
//! not pass, also when it is tried again alone. `--update` tries all that start the daemon,
//! adds those that pass to the list, and writes `docs/open-vswitch-tests.md`.

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
    let groups = suite.groups();
    let is_chosen = |group: &&Group| {
        let is_named =
            arguments.numbers.contains(&group.number) || arguments.files.contains(&group.file);
        let is_selection = !arguments.numbers.is_empty() || !arguments.files.is_empty();
        match is_selection {
            true => is_named && group.starts_daemon,
            false if arguments.all || arguments.update => group.starts_daemon,
            false => passing.contains(&group.key()),
        }
    };
    let chosen: Vec<&Group> = groups.iter().filter(is_chosen).collect();
    let outcomes = suite.run(&chosen, JOBS)?;
    print_outcomes(&chosen, &outcomes);
    let lost = lost(&suite, &chosen, &outcomes, &passing)?;
    if arguments.update {
        let mut all = passing.clone();
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
    for group in &lost {
        eprintln!("does not pass any more: {}", group.key());
    }
    Ok(lost.is_empty())
}

/// Runs the tests that pass, as a part of `cargo xtask test`.
///
/// # Errors
/// If the tests cannot be run.
pub(crate) fn run_passing(workspace: &Workspace) -> anyhow::Result<bool> {
    let arguments = Arguments {
        update: false,
        all: false,
        files: Vec::new(),
        program: None,
        numbers: Vec::new(),
    };
    run(workspace, &arguments)
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
        None => build(workspace, target)?,
    };
    Suite::prepare(&target.join("open-vswitch-tests"), &program)
}

/// Builds the daemon.
fn build(workspace: &Workspace, target: &Path) -> anyhow::Result<PathBuf> {
    let arguments = ["build", "--profile", "tested", "--package", "thalweg"];
    if !succeeds(workspace.cargo(&arguments))? {
        bail!("the daemon does not build; see above");
    }
    Ok(target.join("tested/thalweg"))
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
