//! Commands that show the entries of the caches, as the flows of a datapath.

use thalweg_ovsdb::Uuid;
use thalweg_packet::standard as f;
use thalweg_pipeline::{BridgeId, Match, text};
use thalweg_unixctl::ControlCommand;

use super::Entry;
use super::datapath::is_datapath;
use crate::bridges::datapath_of;
use crate::daemon::Daemon;
use crate::daemon::flows::{ShownFlow, Style};

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
        ControlCommand::new("dpctl/get-flow", "[dp] ufid", 1, 4),
        get_flow,
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

impl Style {
    /// Takes an option; false if it is none.
    fn take(&mut self, argument: &str) -> bool {
        match argument {
            "-m" | "--more" => self.is_verbose = true,
            "--names" => self.shows_names = Some(true),
            "--no-names" => self.shows_names = Some(false),
            _ => return false,
        }
        true
    }
}

/// Which flows are shown.
#[derive(Debug, Default)]
struct Selection {
    /// The name of the datapath, with or without its type.
    datapath: Option<String>,
    filter: Option<Match>,
    /// Whether flows of this datapath's kind are asked for at all.
    is_empty: bool,
}

impl Selection {
    fn take(&mut self, daemon: &Daemon, argument: &str) -> Result<(), String> {
        match argument.split_once('=') {
            Some(("filter", text)) => {
                let filter = text::parse_match(text);
                let wrong = |error| format!("Failed to parse filter ({error})");
                self.filter = Some(filter.map_err(wrong)?);
            }
            Some(("type", kinds)) => {
                let known = [
                    ("ovs", true),
                    ("all", true),
                    ("non-offloaded", true),
                    // No device does the datapath's work here.
                    ("tc", false),
                    ("dpdk", false),
                    ("offloaded", false),
                    ("partially-offloaded", false),
                ];
                self.is_empty = true;
                for kind in kinds.split(',') {
                    let found = known.iter().find(|(name, _)| *name == kind);
                    let (_, has_flows) = found.ok_or_else(|| {
                        format!("{kind}: there is no such type of flows; leave it out")
                    })?;
                    self.is_empty &= !has_flows;
                }
            }
            Some(("pmd", core)) => {
                let core: i32 = core.parse().map_err(|_| "pmd= takes a number")?;
                // All flows are of the main thread, which has this number.
                self.is_empty = core != -1;
            }
            _ if is_datapath(daemon, argument) => self.datapath = Some(argument.to_owned()),
            _ => return Err(format!("{argument}: there is no such datapath")),
        }
        Ok(())
    }

    /// Whether a flow is shown.
    fn has(&self, daemon: &Daemon, shown: &ShownFlow) -> bool {
        let is_of_datapath = self.datapath.as_ref().is_none_or(|name| {
            let bridge = daemon.bridges.of_port(shown.in_port);
            let datapath = bridge.map(|(_, bridge)| datapath_of(&bridge.datapath_type));
            datapath.is_some_and(|(kind, own)| name == own || *name == format!("{kind}@{own}"))
        });
        is_of_datapath
            && !self.is_empty
            && self
                .filter
                .as_ref()
                .is_none_or(|filter| meets(filter, daemon, shown))
    }
}

/// Whether packets of a flow can meet a filter, in which ports have the datapath's numbers.
fn meets(filter: &Match, daemon: &Daemon, shown: &ShownFlow) -> bool {
    let number = daemon.bridges.port(shown.in_port);
    let number = number.and_then(|(_, interface)| interface.datapath_number);
    filter.terms().iter().all(|term| {
        let value = match term.field {
            f::IN_PORT => number.map_or(u128::MAX, u128::from),
            field => shown.flow.key.get(field),
        };
        (value ^ term.value) & term.mask & shown.flow.mask.get(term.field) == 0
    })
}

fn dump_datapath(daemon: &mut Daemon, arguments: &[String]) -> Result<String, String> {
    let (mut style, mut selection) = (Style::default(), Selection::default());
    for argument in arguments {
        if !style.take(argument) {
            selection.take(daemon, argument)?;
        }
    }
    let flows = daemon.flows(style);
    let flows = flows.iter().filter(|shown| selection.has(daemon, shown));
    let lines: Vec<String> = flows.map(|shown| datapath_line(shown, style)).collect();
    Ok(match lines.is_empty() {
        true => String::new(),
        false => format!("flow-dump from the main thread:\n{}", lines.join("\n")),
    })
}

fn datapath_line(shown: &ShownFlow, style: Style) -> String {
    match style.is_verbose {
        false => shown.line(""),
        true => format!("{}, {}", shown.identifier_text(), shown.line(", dp:ovs")),
    }
}

/// The flow with an identifier.
fn get_flow(daemon: &mut Daemon, arguments: &[String]) -> Result<String, String> {
    let mut style = Style::default();
    let rest: Vec<&String> = arguments
        .iter()
        .filter(|argument| !style.take(argument))
        .collect();
    let identifier = match rest[..] {
        [identifier] => identifier,
        [datapath, identifier] if is_datapath(daemon, datapath) => identifier,
        [datapath, _] => return Err(format!("{datapath}: there is no such datapath")),
        _ => return Err("give the identifier of one flow: ufid:...".to_owned()),
    };
    let digits = identifier.strip_prefix("ufid:").unwrap_or(identifier);
    let number = Uuid::parse_str(digits);
    let number = number.map_err(|_| format!("{identifier}: this is no identifier of a flow"))?;
    let flows = daemon.flows(style);
    let found = flows
        .iter()
        .find(|shown| shown.identifier == number.as_u128());
    let found = found.ok_or("getting flow (No such file or directory)")?;
    Ok(datapath_line(found, style))
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
    // Ports have names here where all is shown.
    style.shows_names = style.shows_names.or(Some(style.is_verbose));
    let flows = daemon.flows(style);
    let flows = flows
        .iter()
        .filter(|shown| BridgeId::of_port(shown.in_port) == id);
    let lines = flows.map(|shown| match style.is_verbose {
        false => shown.line(""),
        true => format!("{} {}", shown.identifier_text(), shown.line("")),
    });
    Ok(lines.collect::<Vec<_>>().join("\n"))
}
