//! Commands about what workers did, as Open vSwitch's userspace datapath tells of its threads.
//!
//! All workers are told together, as the main thread, to which dumps of flows also say that
//! flows belong. What Thalweg does not have is zero, and what it does not count is left out.

use thalweg_unixctl::ControlCommand;

use super::Entry;
use super::datapath::is_datapath;
use crate::daemon::Daemon;

pub(super) const COMMANDS: &[Entry] = &[
    (
        ControlCommand::new("dpif-netdev/pmd-stats-show", "[-pmd core] [dp]", 0, 3),
        show,
    ),
    (
        ControlCommand::new("dpif-netdev/pmd-stats-clear", "[-pmd core] [dp]", 0, 3),
        clear,
    ),
];

/// What workers have counted, or had when their counts were cleared last.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(in crate::daemon) struct WorkerSums {
    packets: u64,
    recirculations: u64,
    exact_hits: u64,
    wildcard_hits: u64,
    subtables: u64,
    upcalls: u64,
}

impl WorkerSums {
    fn of(daemon: &mut Daemon) -> WorkerSums {
        let counts = daemon.switch.totals().datapath;
        WorkerSums {
            packets: counts.packets,
            recirculations: counts.recirculations,
            exact_hits: counts.microflow.hits,
            wildcard_hits: counts.megaflow.hits,
            subtables: counts.lookups.subtables,
            upcalls: counts.upcalls,
        }
    }

    fn since(self, before: WorkerSums) -> WorkerSums {
        WorkerSums {
            packets: self.packets - before.packets,
            recirculations: self.recirculations - before.recirculations,
            exact_hits: self.exact_hits - before.exact_hits,
            wildcard_hits: self.wildcard_hits - before.wildcard_hits,
            subtables: self.subtables - before.subtables,
            upcalls: self.upcalls - before.upcalls,
        }
    }
}

/// A mean; zero of nothing.
fn mean(sum: u64, count: u64) -> f64 {
    match count {
        0 => 0.0,
        _ => sum as f64 / count as f64,
    }
}

/// Whether the arguments ask for the main thread; it is the only one.
fn asks_for_main(daemon: &Daemon, arguments: &[String]) -> Result<bool, String> {
    let (core, datapath) = match arguments {
        [] => (None, None),
        [option, core, rest @ ..] if option == "-pmd" => (Some(core), rest.first()),
        [datapath] => (None, Some(datapath)),
        _ => return Err("give [-pmd core] [dp]".to_owned()),
    };
    if let Some(unknown) = datapath.filter(|name| !is_datapath(daemon, name)) {
        return Err(format!("{unknown}: there is no such datapath"));
    }
    let number = core.map(|core| core.parse::<u32>());
    match number {
        Some(Err(_)) => Err("-pmd takes the number of a core".to_owned()),
        Some(Ok(_)) => Ok(false),
        None => Ok(true),
    }
}

fn show(daemon: &mut Daemon, arguments: &[String]) -> Result<String, String> {
    if !asks_for_main(daemon, arguments)? {
        return Ok(String::new());
    }
    let sums = WorkerSums::of(daemon).since(daemon.sums_before);
    let passes = mean(sums.packets + sums.recirculations, sums.packets);
    let subtables = mean(sums.subtables, sums.wildcard_hits);
    // Every miss has an answer; where a walk meets a bound, it is to drop.
    Ok(format!(
        "main thread:\n  \
         packets received: {}\n  \
         packet recirculations: {}\n  \
         avg. datapath passes per packet: {passes:.2}\n  \
         phwol hits: 0\n  \
         mfex opt hits: 0\n  \
         simple match hits: 0\n  \
         emc hits: {}\n  \
         smc hits: 0\n  \
         megaflow hits: {}\n  \
         avg. subtable lookups per megaflow hit: {subtables:.2}\n  \
         miss with success upcall: {}\n  \
         miss with failed upcall: 0",
        sums.packets, sums.recirculations, sums.exact_hits, sums.wildcard_hits, sums.upcalls
    ))
}

fn clear(daemon: &mut Daemon, arguments: &[String]) -> Result<String, String> {
    if asks_for_main(daemon, arguments)? {
        daemon.sums_before = WorkerSums::of(daemon);
    }
    Ok(String::new())
}
