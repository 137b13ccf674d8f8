//! Commands that show the switch and change nothing that it forwards by.

use thalweg_unixctl::ControlCommand;
use thalweg_vswitchd::trace::{TraceCommand, explain, trace, why_drop};
use thalweg_vswitchd::views;

use super::names::{BRIDGE, RunNames};
use super::{Asked, Entry};
use crate::run::report;

/// As many arguments of a trace as Open vSwitch takes.
const ARGUMENTS_MAX: usize = 1_024;
const QUESTION: &str = "{odp_flow | bridge br_flow} [packet]";

pub(super) const COMMANDS: &[Entry] = &[
    (
        ControlCommand::new("statistics", "[--json]", 0, 1),
        statistics,
    ),
    (ControlCommand::new("rules", "", 0, 0), |asked, _| {
        Ok(views::rules_text(asked.switch, BRIDGE, false))
    }),
    (
        ControlCommand::new("bridge/dump-flows", "[--offload-stats] bridge", 1, 2),
        dump_rules,
    ),
    (
        ControlCommand::new("caches", "[-m] [--names] [filter=..] [limit=N]", 0, 4),
        |asked, arguments| {
            let (switch, names) = asked.split();
            views::explained_entries(switch, &names, arguments)
        },
    ),
    (
        ControlCommand::new(
            "dpctl/dump-flows",
            "[-m] [--names] [filter=..] [type=..] [pmd=..]",
            0,
            5,
        ),
        |asked, arguments| {
            let (switch, names) = asked.split();
            views::dump_flows(switch, &names, arguments)
        },
    ),
    (
        ControlCommand::new("snapshot/show", "", 0, 0),
        |asked, _| asked.running.snapshots.status(),
    ),
    (
        ControlCommand::new("fdb/show", "[bridge]", 0, 1),
        |asked, arguments| {
            asked.check_bridge(arguments.first())?;
            Ok(views::stations_text(asked.switch, BRIDGE))
        },
    ),
    (
        ControlCommand::new("fdb/stats-show", "[bridge]", 0, 1),
        |asked, arguments| {
            asked.check_bridge(arguments.first())?;
            let name = &asked.running.config.name;
            Ok(views::station_counters_text(asked.switch, BRIDGE, name))
        },
    ),
    (
        ControlCommand::new("dpctl/dump-conntrack", "[-m] [-s] [zone=N]", 0, 3),
        |asked, arguments| views::dump_connections(asked.switch, arguments, &|_| false),
    ),
    (
        ControlCommand::new(
            "ofproto/trace",
            "{odp_flow | bridge br_flow} [OPTIONS...] [-generate|packet]",
            1,
            ARGUMENTS_MAX,
        ),
        trace_packet,
    ),
    (
        ControlCommand::new("thalweg/explain", QUESTION, 1, ARGUMENTS_MAX),
        |asked, arguments| {
            let (switch, names) = asked.split();
            let answer = explain(&switch.pipeline(), &names, arguments);
            answer.map_err(|refusal| refusal.to_string())
        },
    ),
    (
        ControlCommand::new(
            "thalweg/why-drop",
            "[{odp_flow | bridge br_flow} [packet]]",
            0,
            ARGUMENTS_MAX,
        ),
        explain_drops,
    ),
    (
        ControlCommand::new("thalweg/connections", "", 0, 0),
        |asked, _| Ok(views::tracking_text(asked.switch)),
    ),
    (
        ControlCommand::new("thalweg/learning", "", 0, 0),
        |asked, _| Ok(views::learning_text(asked.switch)),
    ),
    (
        ControlCommand::new("thalweg/repairs", "", 0, 0),
        |asked, _| Ok(views::repairs_text(asked.switch)),
    ),
    (ControlCommand::new("thalweg/live", "", 0, 0), |asked, _| {
        let (switch, names) = asked.split();
        Ok(views::live_text(switch, &names))
    }),
    (
        ControlCommand::new("thalweg/talkers", "[filter=..] [limit=N]", 0, 2),
        |asked, arguments| {
            let (switch, names) = asked.split();
            views::talkers_text(switch, &names, arguments)
        },
    ),
];

impl Asked<'_> {
    /// The switch, and the names of its ports.
    fn split(&mut self) -> (&mut thalweg_switch::Switch, RunNames<'_>) {
        let names = RunNames {
            config: &self.running.config,
            traces: self.traces,
        };
        (self.switch, names)
    }

    /// Refuses the name of another bridge; the bridge need not be named.
    pub(super) fn check_bridge(&self, name: Option<&String>) -> Result<(), String> {
        let own = &self.running.config.name;
        match name {
            Some(other) if other != own => Err(format!(
                "{other}: no such bridge; the switch is called {own}"
            )),
            _ => Ok(()),
        }
    }
}

/// What the report at the end of the run would have now.
fn statistics(asked: &mut Asked<'_>, arguments: &[String]) -> Result<String, String> {
    let is_json = match arguments.first().map(String::as_str) {
        None => false,
        Some("--json") => true,
        Some(other) => return Err(format!("{other}: only --json may be given")),
    };
    let totals = asked.switch.totals();
    let pipeline = asked.switch.pipeline();
    let openflow = asked.openflow.counts(asked.switch);
    let outcome = asked.running.outcome(&totals, &pipeline, openflow);
    report::text(&outcome, is_json).map_err(|error| error.to_string())
}

fn dump_rules(asked: &mut Asked<'_>, arguments: &[String]) -> Result<String, String> {
    let (options, name) = match arguments {
        [options @ .., name] => (options, name),
        [] => unreachable!("the command has an argument"),
    };
    if let Some(other) = options.iter().find(|option| *option != "--offload-stats") {
        return Err(format!("{other}: only --offload-stats may be given"));
    }
    asked.check_bridge(Some(name))?;
    Ok(views::rules_text(asked.switch, BRIDGE, !options.is_empty()))
}

fn trace_packet(asked: &mut Asked<'_>, arguments: &[String]) -> Result<String, String> {
    let (switch, names) = asked.split();
    let traced = trace(&switch.pipeline(), &names, TraceCommand::Trace, arguments);
    let answer = traced.map_err(|refusal| refusal.to_string())?;
    asked.traces.keep(answer.frozen);
    if let Some(packet) = answer.packet {
        let (port, effects) = (packet.in_port, &packet.effects);
        asked.switch.run_effects(port, &packet.frame, effects);
    }
    Ok(answer.text)
}

/// With a packet, why it is dropped; without, how many were and the last of them, by reason.
fn explain_drops(asked: &mut Asked<'_>, arguments: &[String]) -> Result<String, String> {
    let (switch, names) = asked.split();
    if arguments.is_empty() {
        return Ok(views::drops_text(switch, &names));
    }
    let answer = why_drop(&switch.pipeline(), &names, arguments);
    answer.map_err(|refusal| refusal.to_string())
}
