//! Commands about tunnels: what listens, routes, neighbours.

use std::net::IpAddr;

use thalweg_tunnel::InterfaceAddress;
use thalweg_unixctl::ControlCommand;

use super::Entry;
use crate::daemon::Daemon;

/// The arguments of commands that have two names.
const SET: &str = "BRIDGE IP MAC";
const AGING: &str = "[SECS]";

pub(super) const COMMANDS: &[Entry] = &[
    (ControlCommand::new("ofproto/list-tunnels", "", 0, 0), list),
    (
        ControlCommand::new("thalweg/tunnels", "", 0, 0),
        show_counts,
    ),
    (
        ControlCommand::new("tnl/ports/show", "-v", 0, 1),
        show_listeners,
    ),
    (
        ControlCommand::new("tnl/egress_port_range", "min max", 0, 2),
        source_ports,
    ),
    (
        ControlCommand::new("tnl/neigh/show", "", 0, 0),
        show_neighbors,
    ),
    (
        ControlCommand::new("tnl/neigh/set", SET, 3, 3),
        set_neighbor,
    ),
    (
        ControlCommand::new("tnl/neigh/flush", "", 0, 0),
        flush_neighbors,
    ),
    (ControlCommand::new("tnl/neigh/aging", AGING, 0, 1), aging),
    (
        ControlCommand::new("tnl/arp/show", "", 0, 0),
        show_neighbors,
    ),
    (ControlCommand::new("tnl/arp/set", SET, 3, 3), set_neighbor),
    (
        ControlCommand::new("tnl/arp/flush", "", 0, 0),
        flush_neighbors,
    ),
    (ControlCommand::new("tnl/arp/aging", AGING, 0, 1), aging),
    (
        ControlCommand::new(
            "ovs/route/add",
            "ip_addr/prefix_len out_br_name [gw] [pkt_mark=mark]",
            2,
            4,
        ),
        add_route,
    ),
    (ControlCommand::new("ovs/route/show", "", 0, 0), show_routes),
    (
        ControlCommand::new("ovs/route/del", "ip_addr/prefix_len [pkt_mark=mark]", 1, 2),
        delete_route,
    ),
    (
        ControlCommand::new("ovs/route/lookup", "ip_addr [pkt_mark=mark]", 1, 2),
        look_up_route,
    ),
    (
        ControlCommand::new(
            "netdev-dummy/ip4addr",
            "[netdev] ipaddr/mask-prefix-len",
            2,
            2,
        ),
        set_ipv4,
    ),
    (
        ControlCommand::new("netdev-dummy/ip6addr", "[netdev] ip6addr", 2, 2),
        set_ipv6,
    ),
];

fn list(daemon: &mut Daemon, _: &[String]) -> Result<String, String> {
    Ok(daemon.bridges.tunnels.list_text())
}

/// For which reasons packets did not go through tunnels, and how many.
fn show_counts(daemon: &mut Daemon, _: &[String]) -> Result<String, String> {
    let counts = daemon.bridges.tunnels.counts();
    let lines = counts
        .into_iter()
        .map(|(name, count)| format!("{name} {count}\n"));
    Ok(lines.collect())
}

fn show_listeners(daemon: &mut Daemon, arguments: &[String]) -> Result<String, String> {
    if let Some(other) = arguments.first() {
        return Err(format!(
            "{other}: only the list without arguments is supported"
        ));
    }
    Ok(daemon.bridges.tunnels.listeners_text())
}

/// Shows or sets from which UDP ports outer packets of native tunnels come.
fn source_ports(daemon: &mut Daemon, arguments: &[String]) -> Result<String, String> {
    let bounds = match arguments {
        [one, other] => Some([one.as_str(), other.as_str()]),
        _ => None,
    };
    let mut underlay = daemon.bridges.tunnels.underlay();
    Ok(underlay.source_ports.range_command(bounds))
}

fn show_neighbors(daemon: &mut Daemon, _: &[String]) -> Result<String, String> {
    let now = daemon.switch.now();
    let mut underlay = daemon.bridges.tunnels.underlay();
    underlay.neighbors.expire(now);
    Ok(underlay.neighbors.show_command(now))
}

fn set_neighbor(daemon: &mut Daemon, arguments: &[String]) -> Result<String, String> {
    let [bridge, address, mac] = arguments else {
        unreachable!("the command has three arguments");
    };
    let now = daemon.switch.now();
    let mut underlay = daemon.bridges.tunnels.underlay();
    let set = underlay.neighbors.set_command([bridge, address, mac], now);
    set.map_err(|error| error.to_string())?;
    Ok("OK".to_owned())
}

fn flush_neighbors(daemon: &mut Daemon, _: &[String]) -> Result<String, String> {
    daemon.bridges.tunnels.underlay().neighbors.flush();
    Ok("OK".to_owned())
}

fn aging(daemon: &mut Daemon, arguments: &[String]) -> Result<String, String> {
    let now = daemon.switch.now();
    let seconds = arguments.first().map(String::as_str);
    let mut underlay = daemon.bridges.tunnels.underlay();
    let answer = underlay.neighbors.aging_command(seconds, now);
    answer.map_err(|error| error.to_string())
}

/// Arguments as the parsers of routes take them.
fn texts(arguments: &[String]) -> Vec<&str> {
    arguments.iter().map(String::as_str).collect()
}

fn add_route(daemon: &mut Daemon, arguments: &[String]) -> Result<String, String> {
    let mut underlay = daemon.bridges.tunnels.underlay();
    let added = underlay.add_route(&texts(arguments));
    added.map(str::to_owned).map_err(|error| error.to_string())
}

fn show_routes(daemon: &mut Daemon, _: &[String]) -> Result<String, String> {
    Ok(daemon.bridges.tunnels.underlay().routes.show_command())
}

fn delete_route(daemon: &mut Daemon, arguments: &[String]) -> Result<String, String> {
    let mut underlay = daemon.bridges.tunnels.underlay();
    let deleted = underlay.routes.delete_command(&texts(arguments));
    deleted
        .map(str::to_owned)
        .map_err(|error| error.to_string())
}

fn look_up_route(daemon: &mut Daemon, arguments: &[String]) -> Result<String, String> {
    let underlay = daemon.bridges.tunnels.underlay();
    let found = underlay.routes.lookup_command(&texts(arguments));
    found.map_err(|error| error.to_string())
}

fn set_ipv4(daemon: &mut Daemon, arguments: &[String]) -> Result<String, String> {
    set_address(daemon, arguments, |address| address.is_ipv4())
}

fn set_ipv6(daemon: &mut Daemon, arguments: &[String]) -> Result<String, String> {
    set_address(daemon, arguments, |address| address.is_ipv6())
}

/// Gives a bridge's own port an address, with which it carries native tunnels.
fn set_address(
    daemon: &mut Daemon,
    arguments: &[String],
    is_family: fn(&IpAddr) -> bool,
) -> Result<String, String> {
    let (name, text) = (&arguments[0], &arguments[1]);
    let interface = daemon.bridges.interface(name);
    let device = interface.and_then(|(_, interface)| interface.device.as_ref());
    if device.is_none_or(|device| device.dummy.is_none()) {
        return Err("Unknown Dummy Interface".to_owned());
    }
    let address = interface_address(text).filter(|address| is_family(&address.address));
    let address = address.ok_or_else(|| format!("{text}: bad IP address"))?;
    let mut underlay = daemon.bridges.tunnels.underlay();
    match underlay.set_address(name, address) {
        true => Ok("OK".to_owned()),
        false => Err(format!(
            "{name} cannot have an address: only a bridge's own port carries tunnels"
        )),
    }
}

/// An address with the length of its network's prefix, all of it if none is given.
fn interface_address(text: &str) -> Option<InterfaceAddress> {
    let (address, prefix) = match text.split_once('/') {
        Some((address, prefix)) => (address, Some(prefix)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().ok()?;
    let longest = if address.is_ipv4() { 32 } else { 128 };
    let prefix_len = prefix.map_or(Some(longest), |prefix| prefix.parse().ok())?;
    (prefix_len <= longest).then_some(InterfaceAddress {
        address,
        prefix_len,
    })
}
