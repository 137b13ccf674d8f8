//! Commands that show the entries of the caches, as the flows of a datapath.

use std::time::Duration;

use thalweg_packet::{PortId, standard as f};
use thalweg_pipeline::BridgeId;
use thalweg_switch::MegaflowReport;

use super::Entry;
use super::datapath::is_datapath;
use crate::bridges::Bridges;
use crate::daemon::Daemon;
use crate::datapath_text::{ActionWriter, DatapathFlow, FlowStatistics, FlowWriter, dump_line};
use crate::unixctl::ControlCommand;

/// Most entries shown of each worker.
const ENTRIES_MAX: usize = 1_000_000;

pub(super) const COMMANDS: &[Entry] = &[
    (
        ControlCommand::new(
            "dpctl/dump-flows",
            "[-m] [--names] [dp] [filter=..] [type=..] [pmd=..]",
            0,
            6,
        ),
        dump_datapath,
    ),
    (
        ControlCommand::new(
            "dpif/dump-flows",
            "[-m] [--names | --no-names] bridge",
            1,
            usize::MAX,
        ),
        dump_bridge,
    ),
];

/// How flows are shown.
#[derive(Clone, Copy, Debug, Default)]
struct Style {
    is_verbose: bool,
    shows_names: bool,
}

impl Style {
    /// Takes an option; false if it is none.
    fn take(&mut self, argument: &str) -> bool {
        match argument {
            "-m" | "--more" => self.is_verbose = true,
            "--names" => self.shows_names = true,
            "--no-names" => self.shows_names = false,
            _ => return false,
        }
        true
    }
}

fn dump_datapath(daemon: &mut Daemon, arguments: &[String]) -> Result<String, String> {
    let mut style = Style::default();
    for argument in arguments {
        if style.take(argument) {
            continue;
        }
        match argument.split_once('=') {
            Some(("type", "ovs" | "all" | "non-offloaded")) => {}
            Some((name @ ("filter" | "pmd" | "type"), value)) => {
                return Err(format!("{name}={value} is not supported yet; leave it out"));
            }
            _ if is_datapath(daemon, argument) => {}
            _ => return Err(format!("{argument}: there is no such datapath")),
        }
    }
    let lines = lines(daemon, None, style);
    Ok(match lines.is_empty() {
        true => String::new(),
        false => format!("flow-dump from the main thread:\n{}", lines.join("\n")),
    })
}

fn dump_bridge(daemon: &mut Daemon, arguments: &[String]) -> Result<String, String> {
    let mut style = Style::default();
    let names: Vec<&String> = arguments
        .iter()
        .filter(|argument| !style.take(argument))
        .collect();
    let [name] = names[..] else {
        return Err("give the name of one bridge".to_owned());
    };
    let bridge = daemon.bridges.by_name.get(name);
    let id = bridge.ok_or("no such bridge")?.id;
    Ok(lines(daemon, Some(id), style).join("\n"))
}

/// The flows of a bridge or of all, a line each.
fn lines(daemon: &mut Daemon, bridge: Option<BridgeId>, style: Style) -> Vec<String> {
    let flows = daemon.switch.megaflows(ENTRIES_MAX);
    let bridges = &daemon.bridges;
    let ports = |port| bridges.datapath_port(port, style.shows_names);
    let mut writer = FlowWriter::new(&ports);
    if style.is_verbose {
        writer = writer.verbose();
    }
    let mut lines = Vec::new();
    for entry in &flows.entries {
        let mut flow = DatapathFlow::of_entry(&flows.layout, &entry.key, &entry.mask);
        let in_port = PortId(flow.key.get(f::IN_PORT) as u32);
        if bridge.is_some_and(|bridge| bridge != BridgeId::of_port(in_port)) {
            continue;
        }
        let actions = actions_of(bridges, entry, &mut flow, style);
        let unused_for: Option<Duration> = entry.used_at.map(|used| flows.now - used);
        let statistics = FlowStatistics {
            packets: entry.counters.packets,
            bytes: entry.counters.bytes,
            unused_for,
            tcp_flags: 0,
        };
        lines.push(dump_line(&writer, &flow, &statistics, &actions));
    }
    lines
}

/// What is done with an entry's packets; the flow's mask covers what that needs.
fn actions_of(
    bridges: &Bridges,
    entry: &MegaflowReport,
    flow: &mut DatapathFlow,
    style: Style,
) -> String {
    let ports = |port| bridges.datapath_port(port, style.shows_names);
    let writer = ActionWriter {
        ports: &ports,
        recirculations: &|number| number,
        senders: &|_| 0,
    };
    writer
        .write_covering(&entry.effects, flow)
        .installed()
        .to_owned()
}
