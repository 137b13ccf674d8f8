//! Opens the configured ports, follows their interfaces, and changes them on a reload.
//!
//! ```text
//!   an interface is deleted   the switch lets its port go; it is said, with the time
//!   something about links     netlink says so, on a thread of its own; ports that wait are tried
//!   its name is there again   the port is opened and attached; it is said, with the time
//! ```
//!
//! 1. A waiting port is tried when it is found to be gone, and after every later change of
//!    links. So an interface that reappears is never missed, in whichever order the two
//!    happen.
//! 2. A reload that cannot open a new port changes nothing, unless the port needs a resource
//!    that another port still holds.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};

use anyhow::Result;
use thalweg_io::{LinkWatch, OpenedPort, PortConfig, PortKind};
use thalweg_packet::PortId;
use thalweg_switch::{Interrupter, P4Switch, Switch, SwitchError, SwitchPort};

use thalweg_command::failure::{bad_input, text_of};
use tracing::{error, info, warn};

use super::logging::module::PORTS;

/// A running switch whose ports can come and go.
pub(super) trait Pluggable {
    /// Whether it has a port with this number that is not gone.
    fn has_port(&self, number: PortId) -> bool;

    /// Adds a port.
    fn attach(&mut self, port: SwitchPort) -> Result<(), SwitchError>;

    /// Removes a port.
    fn detach(&mut self, number: PortId) -> bool;
}

impl Pluggable for Switch {
    fn has_port(&self, number: PortId) -> bool {
        Switch::has_port(self, number)
    }

    fn attach(&mut self, port: SwitchPort) -> Result<(), SwitchError> {
        Switch::attach(self, port)
    }

    fn detach(&mut self, number: PortId) -> bool {
        Switch::detach(self, number)
    }
}

impl Pluggable for P4Switch {
    fn has_port(&self, number: PortId) -> bool {
        P4Switch::has_port(self, number)
    }

    fn attach(&mut self, port: SwitchPort) -> Result<(), SwitchError> {
        P4Switch::attach(self, port)
    }

    fn detach(&mut self, number: PortId) -> bool {
        P4Switch::detach(self, number)
    }
}

/// Follows the interfaces of ports.
pub(super) struct Following {
    /// Signals a change of links; if `None`, every look counts as a change.
    changes: Option<Receiver<()>>,
    /// Ports whose interface is missing, with the last message about each.
    waiting: BTreeMap<PortId, String>,
}

impl Following {
    /// Begins to follow; a change interrupts a waiting switch.
    pub(super) fn start(interrupter: Option<Interrupter>) -> Following {
        let changes = follow_links(interrupter);
        let changes = changes.map_err(|error| {
            let text = text_of(&error);
            warn!(target: PORTS, "interfaces are looked for once a second: {text}");
        });
        Following {
            changes: changes.ok(),
            waiting: BTreeMap::new(),
        }
    }

    /// Finds missing ports, and attaches those whose interface is back.
    pub(super) fn look(&mut self, ports: &[PortConfig], switch: &mut impl Pluggable) {
        let heard = self.changes.as_ref().map(Receiver::try_recv);
        let has_changed = !matches!(heard, Some(Err(TryRecvError::Empty)));
        if let Some(Err(TryRecvError::Disconnected)) = heard {
            self.changes = None;
            warn!(
                target: PORTS,
                "the kernel does not say any more when interfaces change; they are looked for"
            );
        }
        self.waiting.retain(|number, _| {
            let is_configured = ports.iter().any(|port| port.number == *number);
            is_configured && !switch.has_port(*number)
        });
        for config in ports.iter().filter(|config| has_interface(config)) {
            if switch.has_port(config.number) {
                continue;
            }
            let is_news = !self.waiting.contains_key(&config.number);
            if is_news {
                let (port, interface) = (describe(config), config.interface());
                warn!(
                    target: PORTS,
                    "{port}: interface `{interface}` is gone; the port is attached again when \
                     there is one of that name"
                );
                self.waiting.insert(config.number, String::new());
            }
            // Invariant 1.
            if is_news || has_changed {
                self.try_again(config, switch);
            }
        }
    }

    fn try_again(&mut self, config: &PortConfig, switch: &mut impl Pluggable) {
        let port = match thalweg_io::open_with_remarks(config) {
            Ok(opened) => opened,
            // The interface is still missing.
            Err(thalweg_io::Error::NoInterface { .. }) => return,
            Err(error) => return self.complain(config, error.to_string()),
        };
        if let Err(error) = switch.attach(switch_port(config, port)) {
            return self.complain(config, error.to_string());
        }
        self.waiting.remove(&config.number);
        let (port, interface) = (describe(config), config.interface());
        info!(target: PORTS, "{port}: attached again to interface `{interface}`");
    }

    /// Logs, once per reason, why a returned interface cannot be used.
    fn complain(&mut self, config: &PortConfig, what: String) {
        let said = self.waiting.entry(config.number).or_default();
        if *said != what {
            warn!(target: PORTS, "{}: {what}", describe(config));
            *said = what;
        }
    }
}

/// Reports changes of links on a channel, from a separate thread.
fn follow_links(interrupter: Option<Interrupter>) -> Result<Receiver<()>> {
    let watch = LinkWatch::open()?;
    // A capacity of one is enough: the receiver checks all ports.
    let (sender, changes) = sync_channel(1);
    let follow = move || {
        while let Ok(()) = watch.wait() {
            // If the channel is full, a notice is already waiting.
            let _ = sender.try_send(());
            if let Some(interrupter) = &interrupter {
                interrupter.interrupt();
            }
        }
    };
    let thread = std::thread::Builder::new().name("links".to_owned());
    thread.spawn(follow)?;
    Ok(changes)
}

/// The changes that a reload made to ports.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Replugged {
    pub(super) added: usize,
    pub(super) removed: usize,
}

/// Gives a switch the ports of another configuration; unchanged ports are left alone. Ports
/// that cannot be opened or attached are removed from `next`.
///
/// # Errors
/// If a new port cannot be opened; then nothing has changed.
pub(super) fn replug(
    former: &[PortConfig],
    next: &mut Vec<PortConfig>,
    switch: &mut impl Pluggable,
) -> Result<Replugged> {
    let is_in = |config: &PortConfig, others: &[PortConfig]| {
        others.iter().any(|other| is_same_port(config, other))
    };
    let removed: Vec<&PortConfig> = former.iter().filter(|port| !is_in(port, next)).collect();
    let added: Vec<PortConfig> = next
        .iter()
        .filter(|port| !is_in(port, former))
        .cloned()
        .collect();
    let mut opened = Vec::new();
    let mut late = Vec::new();
    for config in &added {
        match removed.iter().any(|other| excludes(other, config)) {
            true => late.push(config),
            false => opened.push(open(config)?),
        }
    }
    // Changes begin here; see invariant 2.
    for config in &removed {
        switch.detach(config.number);
    }
    let mut done = Replugged {
        removed: removed.len(),
        ..Replugged::default()
    };
    let late = late.into_iter().filter_map(|config| {
        let port = open(config);
        port.map_err(|error| leave_out(&text_of(&error))).ok()
    });
    for port in opened.into_iter().chain(late.collect::<Vec<_>>()) {
        let number = port.number;
        match switch.attach(port) {
            Ok(()) => done.added += 1,
            Err(error) => leave_out(&format!("port {number}: {error}")),
        }
    }
    next.retain(|port| is_in(port, former) || switch.has_port(port.number));
    Ok(done)
}

fn leave_out(what: &str) {
    error!(target: PORTS, "{what}; the port is left out: mend it and send SIGHUP again");
}

/// Whether two descriptions mean the same port; its name does not matter.
fn is_same_port(one: &PortConfig, other: &PortConfig) -> bool {
    let essence = |port: &PortConfig| PortConfig {
        name: String::new(),
        interface: has_interface(port).then(|| port.interface().to_owned()),
        ..port.clone()
    };
    essence(one) == essence(other)
}

/// Whether the second port can only be opened after the first is closed.
fn excludes(first: &PortConfig, second: &PortConfig) -> bool {
    let share = has_interface(first) && has_interface(second);
    let files = [&first.read, &first.write];
    share && first.interface() == second.interface()
        || second.write.is_some() && files.contains(&&second.write)
        || second.read.is_some() && first.write == second.read
}

fn has_interface(config: &PortConfig) -> bool {
    let kind = config.kind;
    matches!(
        kind,
        PortKind::Auto | PortKind::AfPacket | PortKind::AfXdp | PortKind::Tap
    )
}

fn describe(config: &PortConfig) -> String {
    format!("port {} ({})", config.number, config.name)
}

/// Opens the port that the configuration describes.
///
/// # Errors
/// If it cannot be opened.
pub(super) fn open(config: &PortConfig) -> Result<SwitchPort> {
    let refused = |error: thalweg_io::Error| {
        let text = format!("{}: {error}", describe(config));
        match error {
            thalweg_io::Error::NotPermitted { .. }
            | thalweg_io::Error::System { .. }
            | thalweg_io::Error::XdpRefused { .. }
            | thalweg_io::Error::Netlink { .. } => anyhow::anyhow!(text),
            _ => bad_input(text),
        }
    };
    let opened = thalweg_io::open_with_remarks(config).map_err(refused)?;
    Ok(switch_port(config, opened))
}

/// Makes a switch's port of one that was opened, and tells what there is to tell of it.
fn switch_port(config: &PortConfig, opened: OpenedPort) -> SwitchPort {
    for remark in &opened.remarks {
        info!(target: PORTS, "{}: {remark}", describe(config));
    }
    let is_source = match config.kind {
        PortKind::Memory => false,
        PortKind::Pcap => config.read.is_some(),
        _ => true,
    };
    SwitchPort {
        number: config.number,
        port: opened.port,
        is_source,
    }
}
