//! Commands that show the datapath.

use std::collections::BTreeMap;
use std::fmt::Write;

use thalweg_tunnel::{TunnelListener, TunnelPort};
use thalweg_unixctl::ControlCommand;

use super::Entry;
use crate::bridges::{Bridge, DeviceKind, datapath_of, xdp};
use crate::daemon::Daemon;
use crate::views::{DatapathName, is_named};

pub(super) const COMMANDS: &[Entry] = &[
    (ControlCommand::new("dpif/show", "", 0, 0), show),
    (ControlCommand::new("dpif/dump-dps", "", 0, 0), list),
    (
        ControlCommand::new("dpif/set-dp-features", "bridge [feature value]", 1, 3),
        set_feature,
    ),
    (
        ControlCommand::new("dpif/show-dp-features", "bridge", 1, 1),
        show_features,
    ),
    (
        ControlCommand::new("dpctl/show", "[dp...]", 0, usize::MAX),
        show_datapath,
    ),
    (
        ControlCommand::new("dpctl/dump-dps", "", 0, 0),
        list_datapaths,
    ),
    (
        ControlCommand::new("dpctl/del-if", "dp iface...", 2, usize::MAX),
        delete_ports,
    ),
    (
        ControlCommand::new("dpif-dummy/change-port-number", "dp port new-number", 3, 3),
        renumber,
    ),
    (ControlCommand::new("ofproto/list", "", 0, 0), list_bridges),
];

/// The datapaths of the bridges, by their types and names.
pub(super) fn datapaths(daemon: &Daemon) -> Vec<DatapathName> {
    let bridges = daemon.bridges.by_name.values();
    let mut kinds: Vec<DatapathName> = bridges
        .map(|bridge| datapath_of(&bridge.datapath_type))
        .map(|(kind, name)| (kind.to_owned(), name))
        .collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}

/// Changes what a datapath can do: whether it carries native tunnels, and whether flows and
/// traces say that it puts labels in front of packets.
fn set_feature(daemon: &mut Daemon, words: &[String]) -> Result<String, String> {
    let [bridge, feature, value] = words else {
        return Err("name a feature and its value: tnl_push_pop|add_mpls true|false".to_owned());
    };
    if !daemon.bridges.by_name.contains_key(bridge) {
        return Err("no such bridge".to_owned());
    }
    match (feature.as_str(), value.as_str()) {
        ("tnl_push_pop", value @ ("true" | "false")) => {
            daemon.bridges.tunnels.allow_native(value == "true");
            Ok(String::new())
        }
        ("add_mpls", value @ ("true" | "false")) => {
            daemon.bridges.adds_labels = value == "true";
            daemon.switch.flush_caches();
            Ok(String::new())
        }
        ("tnl_push_pop" | "add_mpls", _) => Err(format!("{value}: true or false is expected")),
        _ => Err(format!("{feature}: this feature is always as it is")),
    }
}

/// The features that depend on the bridge or on settings.
const TUNNELS: &str = "Tunnel push pop";
/// The same.
const LABELS: &str = "MPLS Label add";

/// The features of a datapath, as Open vSwitch lists them; `None` for one that varies.
const FEATURES: [(&str, Option<&str>); 26] = [
    ("Masked set action", Some("Yes")),
    (TUNNELS, None),
    ("Ufid", Some("Yes")),
    ("Truncate action", Some("Yes")),
    ("Clone action", Some("Yes")),
    ("Sample nesting", Some("0")),
    ("Conntrack eventmask", Some("No")),
    ("Conntrack clear", Some("Yes")),
    ("Max dp_hash algorithm", Some("0")),
    ("Check pkt length action", Some("Yes")),
    ("Conntrack timeout policy", Some("Yes")),
    ("Explicit Drop action", Some("Yes")),
    ("Optimized Balance TCP mode", Some("No")),
    ("Conntrack all-zero IP SNAT", Some("No")),
    (LABELS, None),
    ("Max VLAN headers", Some("2")),
    ("Max MPLS depth", Some("3")),
    ("Recirc", Some("Yes")),
    ("CT state", Some("Yes")),
    ("CT zone", Some("Yes")),
    ("CT mark", Some("Yes")),
    ("CT label", Some("Yes")),
    ("CT state NAT", Some("Yes")),
    ("CT orig tuple", Some("Yes")),
    ("CT orig tuple for IPv6", Some("Yes")),
    ("IPv6 ND Extension", Some("No")),
];

fn show_features(daemon: &mut Daemon, words: &[String]) -> Result<String, String> {
    let bridge = daemon.bridges.by_name.get(&words[0]);
    let bridge = bridge.ok_or("no such bridge")?;
    let has_dummies = daemon.bridges.dummies.has_datapath(&bridge.datapath_type);
    let is_native = has_dummies && daemon.bridges.tunnels.allows_native();
    let lines = FEATURES.map(|(feature, value)| {
        let is_so = match feature {
            TUNNELS => is_native,
            _ => daemon.bridges.adds_labels,
        };
        let value = value.unwrap_or(if is_so { "Yes" } else { "No" });
        format!("{feature}: {value}\n")
    });
    Ok(lines.concat())
}

/// The bridges of each datapath, with their ports.
fn show(daemon: &mut Daemon, _: &[String]) -> Result<String, String> {
    let counts = daemon.switch.totals().datapath;
    let mut text = String::new();
    for (kind, name) in datapaths(daemon) {
        let hits = counts.packets - counts.upcalls;
        let _ = writeln!(text, "{kind}@{name}: hit:{hits} missed:{}", counts.upcalls);
        for (bridge, state) in &daemon.bridges.by_name {
            if datapath_of(&state.datapath_type).0 == kind {
                let _ = writeln!(text, "  {bridge}:");
                show_ports(state, &mut text);
            }
        }
    }
    Ok(text)
}

/// The ports of a bridge, by name.
fn show_ports(bridge: &Bridge, text: &mut String) {
    for (name, interface) in &bridge.interfaces {
        let (Some(number), Some(kind)) = (interface.number, interface.kind) else {
            continue;
        };
        let options = &interface.wanted.options;
        let tunnel = interface.device.as_ref();
        let tunnel = tunnel.and_then(|device| device.tunnel.as_ref());
        let detail = match (kind, options.get("peer")) {
            (DeviceKind::Tunnel(_), _) => tunnel.map(options_text).unwrap_or_default(),
            (DeviceKind::Patch, Some(peer)) => format!(": peer={peer}"),
            (DeviceKind::Xdp(_), _) => xdp::shown(options),
            (DeviceKind::DummyPmd, _) => {
                let queues = |name: &str| {
                    let given = options.get(name).and_then(|text| text.parse::<u32>().ok());
                    given.filter(|count| *count > 0).unwrap_or(1)
                };
                let (received, sent) = (queues("n_rxq"), queues("n_txq"));
                format!(
                    ": configured_rx_queues=1, configured_tx_queues=1, \
                     requested_rx_queues={received}, requested_tx_queues={sent}"
                )
            }
            _ => String::new(),
        };
        let in_datapath = interface.datapath_number;
        let in_datapath = in_datapath.map_or("none".to_owned(), |number| number.to_string());
        let kind = kind.name();
        let _ = writeln!(text, "    {name} {number}/{in_datapath}: ({kind}{detail})");
    }
}

/// The options of a tunnel, behind its type.
fn options_text(port: &TunnelPort) -> String {
    let text = port.to_string();
    let options = text.strip_prefix(port.tunnel_type.name());
    options.unwrap_or(&text).to_owned()
}

/// Whether a datapath has a name, as `ovs-dpctl` takes it: with or without its type.
pub(super) fn is_datapath(daemon: &Daemon, name: &str) -> bool {
    is_datapath_of(&datapaths(daemon), name)
}

/// The same, given all datapaths.
pub(super) fn is_datapath_of(known: &[DatapathName], name: &str) -> bool {
    known.iter().any(|datapath| is_named(datapath, name))
}

/// Datapaths with their counts and ports, as `ovs-dpctl show`.
fn show_datapath(daemon: &mut Daemon, names: &[String]) -> Result<String, String> {
    if let Some(unknown) = names.iter().find(|name| !is_datapath(daemon, name)) {
        return Err(format!("{unknown}: there is no such datapath"));
    }
    let totals = daemon.switch.totals();
    let counts = &totals.datapath;
    let mut text = String::new();
    for (kind, name) in datapaths(daemon) {
        let is_meant = |wanted: &String| wanted == name || *wanted == format!("{kind}@{name}");
        if !names.is_empty() && !names.iter().any(is_meant) {
            continue;
        }
        let hits = counts.packets - counts.upcalls;
        let _ = writeln!(text, "{kind}@{name}:");
        let _ = writeln!(
            text,
            "  lookups: hit:{hits} missed:{} lost:0",
            counts.upcalls
        );
        let _ = writeln!(text, "  flows: {}", totals.megaflows);
        let mut ports = BTreeMap::new();
        if daemon.bridges.dummies.has_datapath(&kind) {
            ports.insert(0, (name.to_owned(), DeviceKind::DummyInternal.name()));
        }
        for bridge in daemon.bridges.by_name.values() {
            let is_meant = datapath_of(&bridge.datapath_type).0 == kind;
            for (name, interface) in bridge.interfaces.iter().filter(|_| is_meant) {
                if let (Some(number), Some(kind)) = (interface.datapath_number, interface.kind) {
                    let tunnel = interface.device.as_ref();
                    let tunnel = tunnel.and_then(|device| device.tunnel.as_ref());
                    let listener = tunnel.map(|port| TunnelListener::of(port).to_string());
                    ports.insert(number, (listener.unwrap_or(name.clone()), kind.name()));
                }
            }
        }
        for (number, (name, kind)) in ports {
            let _ = writeln!(text, "  port {number}: {name} ({kind})");
        }
    }
    Ok(text)
}

/// Takes ports out of a datapath, by name or number; the others go also if one cannot.
fn delete_ports(daemon: &mut Daemon, arguments: &[String]) -> Result<String, String> {
    let (datapath, ports) = (&arguments[0], &arguments[1..]);
    if !is_datapath(daemon, datapath) {
        return Err(format!("{datapath}: there is no such datapath"));
    }
    let mut errors = Vec::new();
    for port in ports {
        let number: Option<u32> = port.parse().ok();
        let bridges = daemon.bridges.by_name.values();
        let mut interfaces = bridges.flat_map(|bridge| &bridge.interfaces);
        let named = interfaces
            .find(|(_, interface)| number.is_some() && interface.datapath_number == number);
        let name = named.map_or(port, |(name, _)| name).clone();
        if let Err(error) = daemon.bridges.drop_port(&name, &mut daemon.switch) {
            errors.push(error);
        }
    }
    match errors.is_empty() {
        true => Ok(String::new()),
        false => Err(errors.join("\n")),
    }
}

/// Gives a port another number in its datapath.
fn renumber(daemon: &mut Daemon, arguments: &[String]) -> Result<String, String> {
    let [datapath, port, number] = arguments else {
        unreachable!("the command has three arguments");
    };
    if !is_datapath(daemon, datapath) {
        return Err("unknown datapath or not a dummy".to_owned());
    }
    let number = number.parse().ok().filter(|number| *number != 0);
    let number = number.ok_or("bad port number")?;
    daemon.bridges.renumber(port, number)?;
    Ok(String::new())
}

fn list(daemon: &mut Daemon, _: &[String]) -> Result<String, String> {
    let mut names: Vec<String> = Vec::new();
    for (name, bridge) in &daemon.bridges.by_name {
        let (kind, _) = datapath_of(&bridge.datapath_type);
        names.push(format!("{kind}@{name}"));
    }
    Ok(names.join("\n"))
}

fn list_datapaths(daemon: &mut Daemon, _: &[String]) -> Result<String, String> {
    let names = datapaths(daemon).into_iter();
    let names: Vec<String> = names.map(|(kind, name)| format!("{kind}@{name}")).collect();
    Ok(names.join("\n"))
}

fn list_bridges(daemon: &mut Daemon, _: &[String]) -> Result<String, String> {
    let names: Vec<&str> = daemon.bridges.by_name.keys().map(String::as_str).collect();
    Ok(names.join("\n"))
}
