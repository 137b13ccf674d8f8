//! Settings of ports: their names and addresses, OpenFlow's configuration bits, and policing.
//!
//! 1. A setting stays when its port leaves, and holds for the next one with its number, until
//!    it is forgotten ([`Switch::forget_port`]).
//! 2. Configuration is OpenFlow's bits (`OFPPC_*`), whether a controller or the switch's owner
//!    set them.

use std::collections::BTreeMap;

use thalweg_io::{Block, BlockPort, PolicePort, Policing, PolicingRates, Port};
use thalweg_openflow::message::port::config;
use thalweg_packet::PortId;
use thalweg_pipeline::{Change, Operation, PortState};

use crate::switch::Switch;

/// What OpenFlow tells of a port besides its number.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PortIdentity {
    /// Its name.
    pub name: String,
    /// Its Ethernet address; if there is none, one is made of the datapath and the number.
    pub address: Option<[u8; 6]>,
    /// The kind of device behind it.
    pub device: PortDevice,
}

/// The kind of device behind a port; OpenFlow's answers depend on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PortDevice {
    /// Something that counts what it drops, and has no queues that OpenFlow knows of.
    #[default]
    Interface,
    /// A dummy as Open vSwitch has it: with queue 0, and with
    /// [counts of its own](thalweg_io::dummy_counts) instead of drops and errors.
    Dummy,
    /// A tunnel, of which OpenFlow is told the packets and bytes only, as in Open vSwitch.
    Tunnel,
}

/// The settings of all ports.
#[derive(Debug, Default)]
pub(crate) struct PortSettings {
    blocks: BTreeMap<PortId, Block>,
    policings: BTreeMap<PortId, Policing>,
    /// Those of ports that are limited.
    rates: BTreeMap<PortId, PolicingRates>,
    configs: BTreeMap<PortId, u32>,
    identities: BTreeMap<PortId, PortIdentity>,
    /// Whether ports give frames that stand for segments as one packet.
    keeps_segments: bool,
}

impl PortSettings {
    /// No settings yet.
    pub(crate) fn new(keeps_segments: bool) -> PortSettings {
        PortSettings {
            keeps_segments,
            ..PortSettings::default()
        }
    }

    /// Makes a port follow the settings of its number.
    pub(crate) fn wrap(&mut self, number: PortId, port: Box<dyn Port>) -> Box<dyn Port> {
        let (port, policing) = PolicePort::new(port);
        let (mut port, block) = BlockPort::new(port);
        if self.keeps_segments {
            port.keep_whole();
        }
        if let Some(rates) = self.rates.get(&number) {
            policing.set(*rates);
        }
        self.blocks.insert(number, block);
        self.policings.insert(number, policing);
        self.put(number);
        Box::new(port)
    }

    /// The configuration bits of a port; none at first.
    pub(crate) fn config(&self, number: PortId) -> u32 {
        self.configs.get(&number).copied().unwrap_or(0)
    }

    /// Whether a port was taken down.
    pub(crate) fn is_down(&self, number: PortId) -> bool {
        self.config(number) & config::PORT_DOWN != 0
    }

    /// Whether flooded packets go to a port.
    pub(crate) fn floods(&self, number: PortId) -> bool {
        self.config(number) & config::NO_FLOOD == 0
    }

    /// Whether packets are forwarded to a port.
    pub(crate) fn forwards(&self, number: PortId) -> bool {
        self.config(number) & config::NO_FWD == 0
    }

    /// Whether a port receives.
    pub(crate) fn receives(&self, number: PortId) -> bool {
        self.config(number) & (config::PORT_DOWN | config::NO_RECV) == 0
    }

    /// Whether a port sends.
    pub(crate) fn sends(&self, number: PortId) -> bool {
        self.config(number) & (config::PORT_DOWN | config::NO_FWD) == 0
    }

    /// What a port is called, if that was set.
    pub(crate) fn identity(&self, number: PortId) -> Option<&PortIdentity> {
        self.identities.get(&number)
    }

    /// The kind of device behind a port.
    pub(crate) fn device(&self, number: PortId) -> PortDevice {
        let identity = self.identity(number);
        identity.map_or(PortDevice::default(), |identity| identity.device)
    }

    /// Forgets the settings of a port that has left.
    pub(crate) fn forget(&mut self, number: PortId) {
        self.blocks.remove(&number);
        self.policings.remove(&number);
        self.rates.remove(&number);
        self.configs.remove(&number);
        self.identities.remove(&number);
    }

    /// Sets configuration bits. Workers see it with their next burst.
    fn set_config(&mut self, number: PortId, bits: u32, mask: u32) {
        let known = self.configs.entry(number).or_default();
        *known = *known & !mask | bits & mask;
        self.put(number);
    }

    /// Sets rates. The port sees them with its next burst.
    fn set_rates(&mut self, number: PortId, rates: PolicingRates) {
        match rates == PolicingRates::default() {
            true => self.rates.remove(&number),
            false => self.rates.insert(number, rates),
        };
        if let Some(policing) = self.policings.get(&number) {
            policing.set(rates);
        }
    }

    fn put(&self, number: PortId) {
        if let Some(block) = self.blocks.get(&number) {
            block.set(!self.receives(number), !self.sends(number));
        }
    }
}

impl Switch {
    /// Names a port, which may come later, and gives it an Ethernet address. Controllers are
    /// told in the next poll.
    pub fn set_port_identity(&mut self, port: PortId, identity: PortIdentity) {
        self.settings.identities.insert(port, identity);
        self.desks.note_ports();
    }

    /// Sets the bits of a port's configuration (`OFPPC_*`) that are in `mask`, as a controller
    /// does with a port-mod; a patch cannot be taken down. Workers follow when this returns.
    pub fn set_port_config(&mut self, port: PortId, bits: u32, mask: u32) {
        let mask = match self.patches.contains(port) {
            true => mask & !config::PORT_DOWN,
            false => mask,
        };
        self.settings.set_config(port, bits, mask);
        self.desks.note_ports();
        self.follow_port(port);
        self.follow_peer_of(port);
        self.meet_workers();
    }

    /// Limits what a port receives; its buckets are full afterwards.
    pub fn set_port_policing(&mut self, port: PortId, rates: PolicingRates) {
        self.settings.set_rates(port, rates);
    }

    /// Forgets the settings and counters of a port that has left: the next one with its number
    /// is a new port. Does nothing for a port that is there.
    pub fn forget_port(&mut self, port: PortId) {
        if !self.has_port(port) {
            self.settings.forget(port);
            self.links.remove(&port);
            self.plugs.forget(port);
        }
    }

    /// Tells the pipeline of a port's settings and of the state of its link.
    pub(crate) fn follow_port(&mut self, port: PortId) {
        let pipeline = self.pipeline();
        let known = pipeline.port(port, pipeline.version());
        drop(pipeline);
        let Some(known) = known else { return };
        let state = PortState {
            is_up: self.is_port_up(port) && !self.settings.is_down(port),
            floods: self.settings.floods(port),
            forwards: self.settings.forwards(port),
            peer: self.way_through(port),
        };
        if state != known {
            self.apply_own(&Change::one(Operation::SetPort(port, state)), &[]);
        }
    }
}
