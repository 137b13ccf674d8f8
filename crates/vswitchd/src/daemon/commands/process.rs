//! Commands about the process: its end, its clock, what it uses.

use std::time::Duration;

use thalweg_unixctl::ControlCommand;

use super::Entry;
use crate::daemon::Daemon;

/// Most steps of one command; the daemon does nothing else meanwhile.
const WARP_STEPS_MAX: u64 = 100_000;

/// How long a command that moves the clock waits for controllers that do not answer.
const CONTROLLER_PATIENCE: Duration = Duration::from_millis(200);

pub(super) const COMMANDS: &[Entry] = &[
    (ControlCommand::new("exit", "[--cleanup]", 0, 1), exit),
    (ControlCommand::new("time/stop", "", 0, 0), stop_time),
    (
        ControlCommand::new("time/warp", "[large_msecs] msecs", 1, 2),
        warp_time,
    ),
    (ControlCommand::new("memory/show", "", 0, 0), show_memory),
    (ControlCommand::new("revalidator/wait", "", 0, 0), wait),
    (ControlCommand::new("revalidator/purge", "", 0, 0), purge),
    (unlisted("revalidator/pause"), pause),
    (unlisted("revalidator/resume"), resume),
];

/// A command without arguments that the list of commands leaves out, as Open vSwitch's does.
const fn unlisted(name: &'static str) -> ControlCommand {
    ControlCommand {
        name,
        usage: None,
        arguments_min: 0,
        arguments_max: 0,
    }
}

/// Ends the daemon. Its devices end with it, so there is nothing more to clean up.
fn exit(daemon: &mut Daemon, arguments: &[String]) -> Result<String, String> {
    if let Some(other) = arguments.iter().find(|argument| *argument != "--cleanup") {
        return Err(format!("{other}: only --cleanup may be given"));
    }
    daemon.must_exit = true;
    Ok(String::new())
}

fn stop_time(daemon: &mut Daemon, _: &[String]) -> Result<String, String> {
    daemon.switch.clock().stop();
    Ok(String::new())
}

/// Moves the stopped clock; a large time passes in steps, with a round of the loop after each.
fn warp_time(daemon: &mut Daemon, arguments: &[String]) -> Result<String, String> {
    let times: Option<Vec<u64>> = arguments.iter().map(|text| text.parse().ok()).collect();
    let times = times.filter(|times| times.iter().all(|time| *time > 0));
    let times = times.ok_or("invalid MSECS")?;
    let (mut rest, step) = match times[..] {
        [large, step] => (large, step),
        [step] => (step, step),
        _ => unreachable!("the command has one or two arguments"),
    };
    if rest / step > WARP_STEPS_MAX {
        return Err(format!("at most {WARP_STEPS_MAX} steps; make MSECS larger"));
    }
    let clock = daemon.switch.clock();
    clock.stop();
    let patience = std::time::Instant::now() + CONTROLLER_PATIENCE;
    while rest > 0 {
        // Work that began before the clock moves ends before, as on a machine without load.
        daemon.await_controllers(patience);
        let now = rest.min(step);
        clock.advance(Duration::from_millis(now));
        rest -= now;
        daemon.hurry();
        daemon.meet_servers();
    }
    Ok("warped".to_owned())
}

fn show_memory(daemon: &mut Daemon, _: &[String]) -> Result<String, String> {
    let totals = daemon.switch.totals();
    Ok(format!(
        "ports:{} rules:{} spare packets:{}",
        totals.ports.len(),
        totals.rules,
        totals.spare_packets
    ))
}

/// Waits until all caches are repaired and counts settled: Thalweg has no sweep to wait for.
fn wait(daemon: &mut Daemon, _: &[String]) -> Result<String, String> {
    daemon.hurry();
    daemon.switch.settle();
    daemon.log_flows();
    Ok(String::new())
}

/// Entries without packets stay, until `revalidator/resume`. Changes are followed all the same.
fn pause(daemon: &mut Daemon, _: &[String]) -> Result<String, String> {
    daemon.pause_eviction(true);
    Ok(String::new())
}

fn resume(daemon: &mut Daemon, _: &[String]) -> Result<String, String> {
    daemon.pause_eviction(false);
    Ok(String::new())
}

fn purge(daemon: &mut Daemon, _: &[String]) -> Result<String, String> {
    daemon.switch.flush_caches();
    Ok(String::new())
}
