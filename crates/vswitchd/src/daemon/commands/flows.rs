//! Commands that show the entries of the caches, as the flows of a datapath.

use thalweg_ovsdb::Uuid;
use thalweg_pipeline::BridgeId;
use thalweg_unixctl::ControlCommand;

use super::Entry;
use super::datapath::{datapaths, is_datapath};
use crate::bridges::datapath_of;
use crate::daemon::Daemon;
use crate::views::{FlowSelection, FlowStyle, datapath_line, dump_text};

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

fn dump_datapath(daemon: &mut Daemon, arguments: &[String]) -> Result<String, String> {
    let (mut style, mut selection) = (FlowStyle::default(), FlowSelection::default());
    let known = datapaths(daemon);
    for argument in arguments {
        if !style.take(argument) {
            selection.take(argument, &known)?;
        }
    }
    let flows = daemon.flows(style);
    let flows = flows.iter().filter(|shown| {
        let bridge = daemon.bridges.of_port(shown.in_port);
        let datapath = bridge.map(|(_, bridge)| datapath_of(&bridge.datapath_type));
        let datapath = datapath.map(|(kind, own)| (kind.to_owned(), own));
        selection.has(&daemon.bridges, shown, datapath.as_ref())
    });
    Ok(dump_text(flows, style))
}

/// The flow with an identifier.
fn get_flow(daemon: &mut Daemon, arguments: &[String]) -> Result<String, String> {
    let mut style = FlowStyle::default();
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
    let mut style = FlowStyle::default();
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
