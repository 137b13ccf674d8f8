//! Commands that drive dummies.

use std::time::{Duration, Instant};

use thalweg_io::{DummyConnection, DummyHandle};
use thalweg_unixctl::ControlCommand;

use super::Entry;
use crate::daemon::Daemon;
use crate::datapath_text::frames_of;

pub(super) const COMMANDS: &[Entry] = &[
    (
        ControlCommand::new(
            "netdev-dummy/receive",
            "name [--qid queue_id] packet|flow [--len packet_len]",
            2,
            usize::MAX,
        ),
        receive,
    ),
    (
        ControlCommand::new("netdev-dummy/set-admin-state", "[netdev] up|down", 1, 2),
        set_admin_state,
    ),
    (
        ControlCommand::new("netdev-dummy/conn-state", "[netdev]", 0, 1),
        show_connections,
    ),
];

/// How long a packet may take to be received.
const PATIENCE: Duration = Duration::from_secs(10);

/// Gives packets to a dummy, and returns when they are forwarded.
fn receive(daemon: &mut Daemon, arguments: &[String]) -> Result<String, String> {
    let (name, packets) = (&arguments[0], &arguments[1..]);
    let interface = daemon.bridges.interface(name);
    let device = interface.and_then(|(_, interface)| interface.device.as_ref());
    let handle = device.and_then(|device| device.dummy.clone());
    let handle = handle.ok_or_else(|| format!("no such dummy netdev {name}"))?;
    let packets = match packets {
        [option, number, rest @ ..] if option == "--qid" => {
            let queue = number.parse::<u32>();
            queue.map_err(|_| format!("{number}: the queue must be a number"))?;
            rest
        }
        packets => packets,
    };
    let frames = frames_of(packets).map_err(|error| error.to_string())?;
    for frame in frames {
        if !handle.inject(&frame) {
            return Err(format!("{name}: the receive queue is full"));
        }
    }
    let start = Instant::now();
    let mut is_waiting = true;
    while is_waiting {
        if start.elapsed() >= PATIENCE {
            return Err(format!("{name}: packets wait in the receive queue still"));
        }
        daemon.hurry();
        std::thread::yield_now();
        if handle.waiting() == 0 {
            // What a worker was forwarding may have come out of a tunnel, or gone into one.
            daemon.switch.meet_workers();
            is_waiting = daemon.bridges.tunnels.waiting() > 0;
        }
    }
    daemon.hurry();
    daemon.meet_servers();
    Ok(String::new())
}

/// Whether dummies are joined to others: the one that is named, or each.
fn show_connections(daemon: &mut Daemon, arguments: &[String]) -> Result<String, String> {
    let text = |handle: &DummyHandle| {
        handle.tend();
        match handle.connection() {
            DummyConnection::Unknown => "unknown",
            DummyConnection::Connected => "connected",
            DummyConnection::Disconnected => "disconnected",
        }
    };
    let mut lines = Vec::new();
    for bridge in daemon.bridges.by_name.values() {
        for (name, interface) in &bridge.interfaces {
            let device = interface.device.as_ref();
            let Some(handle) = device.and_then(|device| device.dummy.as_ref()) else {
                continue;
            };
            if arguments.first() == Some(name) {
                return Ok(text(handle).to_owned());
            }
            lines.push(format!("{name}: {}", text(handle)));
        }
    }
    match arguments.is_empty() {
        true => Ok(lines.join("\n")),
        false => Err("Unknown Dummy Interface".to_owned()),
    }
}

fn set_admin_state(daemon: &mut Daemon, arguments: &[String]) -> Result<String, String> {
    let (name, state) = match arguments {
        [name, state] => (Some(name), state),
        [state] => (None, state),
        _ => unreachable!("the command has one or two arguments"),
    };
    let is_up = match state.as_str() {
        "up" => true,
        "down" => false,
        _ => return Err("Invalid Admin State".to_owned()),
    };
    let mut found = false;
    for bridge in daemon.bridges.by_name.values_mut() {
        for (of_interface, interface) in &mut bridge.interfaces {
            if name.is_some_and(|name| name != of_interface) {
                continue;
            }
            let Some(device) = &mut interface.device else {
                continue;
            };
            if let Some(handle) = &device.dummy {
                handle.set_up(is_up);
                device.is_up = is_up;
                found = true;
            }
        }
    }
    if !found && name.is_some() {
        return Err("Unknown Dummy Interface".to_owned());
    }
    daemon.must_report = true;
    Ok("OK".to_owned())
}
