//! Commands about the stations that bridges know (`fdb/*`).

use thalweg_packet::wire::MacAddress;
use thalweg_pipeline::{BridgeId, Station};
use thalweg_unixctl::ControlCommand;

use super::Entry;
use crate::daemon::Daemon;
use crate::views::{port_text, station_counters_text, stations_text};

pub(super) const COMMANDS: &[Entry] = &[
    (
        ControlCommand::new("fdb/add", "bridge port vlan mac", 4, 4),
        add,
    ),
    (
        ControlCommand::new("fdb/del", "bridge vlan mac", 3, 3),
        delete,
    ),
    (ControlCommand::new("fdb/flush", "[bridge]", 0, 1), flush),
    (ControlCommand::new("fdb/show", "bridge", 1, 1), show),
    (
        ControlCommand::new("fdb/stats-clear", "[bridge]", 0, 1),
        clear_counters,
    ),
    (
        ControlCommand::new("fdb/stats-show", "bridge", 1, 1),
        show_counters,
    ),
];

/// The highest number of a VLAN.
const VLAN_MAX: u16 = 4_095;

fn bridge(daemon: &Daemon, name: &str) -> Result<BridgeId, String> {
    let bridge = daemon.bridges.by_name.get(name);
    Ok(bridge.ok_or("no such bridge")?.id)
}

/// The bridge of a command that means all if none is named.
fn bridges(daemon: &Daemon, arguments: &[String]) -> Result<Vec<BridgeId>, String> {
    match arguments.first() {
        Some(name) => Ok(vec![bridge(daemon, name)?]),
        None => {
            let bridges = daemon.bridges.by_name.values();
            Ok(bridges.map(|bridge| bridge.id).collect())
        }
    }
}

fn station(bridge: BridgeId, vlan: &str, mac: &str) -> Result<Station, String> {
    let vlan = vlan.parse().ok().filter(|vlan| *vlan <= VLAN_MAX);
    let vlan = vlan.ok_or_else(|| format!("the VLAN must be from 0 to {VLAN_MAX}"))?;
    let mac: MacAddress = mac.parse().map_err(|_| "bad MAC address")?;
    let mac = mac.to_u64();
    if mac & 1 << 40 != 0 {
        return Err("bad MAC address: it is a group's".to_owned());
    }
    Ok(Station { bridge, vlan, mac })
}

/// Fixes a station to a port.
fn add(daemon: &mut Daemon, arguments: &[String]) -> Result<String, String> {
    let [bridge_name, port_name, vlan, mac] = arguments else {
        unreachable!("the command has four arguments");
    };
    let bridge = bridge(daemon, bridge_name)?;
    let station = station(bridge, vlan, mac)?;
    let interface = daemon.bridges.by_name[bridge_name]
        .interfaces
        .get(port_name);
    let number = interface.and_then(|interface| interface.number);
    let number = number.ok_or_else(|| format!("{port_name}: the bridge has no such port"))?;
    let port = bridge.port(number);
    let before = daemon.switch.station(station);
    let before = before.filter(|known| !known.is_fixed || known.port != port);
    if !daemon.switch.fix_station(station, port) {
        return Err("could not add static mac entry".to_owned());
    }
    let told = before.map(|known| {
        let kind = if known.is_fixed { "static" } else { "dynamic" };
        let port = port_text(known.port);
        format!("Overriding already existing {kind} entry on {port}\n")
    });
    Ok(told.unwrap_or_default())
}

fn delete(daemon: &mut Daemon, arguments: &[String]) -> Result<String, String> {
    let [bridge_name, vlan, mac] = arguments else {
        unreachable!("the command has three arguments");
    };
    let station = station(bridge(daemon, bridge_name)?, vlan, mac)?;
    match daemon.switch.release_station(station) {
        true => Ok(String::new()),
        false => Err("could not find static mac entry".to_owned()),
    }
}

/// Forgets learned stations; fixed ones stay.
fn flush(daemon: &mut Daemon, arguments: &[String]) -> Result<String, String> {
    for bridge in bridges(daemon, arguments)? {
        daemon.switch.forget_stations(bridge);
    }
    Ok("table successfully flushed".to_owned())
}

/// The stations of a bridge, from the one that was silent for the longest time.
fn show(daemon: &mut Daemon, arguments: &[String]) -> Result<String, String> {
    let bridge = bridge(daemon, &arguments[0])?;
    Ok(stations_text(&mut daemon.switch, bridge))
}

fn clear_counters(daemon: &mut Daemon, arguments: &[String]) -> Result<String, String> {
    for bridge in bridges(daemon, arguments)? {
        daemon.switch.reset_station_counters(bridge);
    }
    Ok("statistics successfully cleared".to_owned())
}

fn show_counters(daemon: &mut Daemon, arguments: &[String]) -> Result<String, String> {
    let name = &arguments[0];
    let bridge = bridge(daemon, name)?;
    Ok(station_counters_text(&mut daemon.switch, bridge, name))
}
