//! The bridges that run, and how they follow the database.
//!
//! ```text
//!   database --> wanted::read --> Bridges::follow --> Switch (ports, rules of bridges)
//!                                                 \-> an OpenFlow server for each bridge
//!   Bridges::report --> ofport, datapath_id, errors, statistics --> database
//! ```
//!
//! Running bridges that differ from the database are changed at once; nothing else is touched. A
//! change that fails stays as an error of its interface or bridge, and is tried again with the
//! next change of the database.
//!
//! 1. No two ports of a bridge have one number, and no two bridges one [`BridgeId`].
//! 2. An interface has a device, or it has an error.

mod addresses;
mod allocate;
mod complaint;
mod device;
mod ear;
mod follow;
mod mirrors;
mod mtu;
mod policing;
mod report;
mod serve;
mod tunnels;
mod unsupported;
mod vlans;
mod wanted;
pub(crate) mod xdp;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use thalweg_control::openflow::{ControllerStatus, OpenFlowServer};
use thalweg_io::{PolicingRates, TunnelHub};
use thalweg_ovsdb::Uuid;
use thalweg_packet::wire::MacAddress;
use thalweg_packet::{Instant, PortId};
use thalweg_pipeline::{BridgeId, Mirrors, PortVlans};

pub(crate) use complaint::Complaint;
pub(crate) use device::{DeviceKind, Dummies};
pub(crate) use report::Report;
pub(crate) use wanted::{LOCAL, STATIONS_MAX, WantedBridge, read};

use crate::log::Log;
use crate::trace::FrozenTraces;
pub(crate) use tunnels::follow_options;

use allocate::{DatapathNumbers, PortNumbers};
use device::{Device, Devices};
use mirrors::MirrorNumbers;
use wanted::{WantedInterface, WantedOpenFlow};

/// A bridge that runs.
#[derive(Debug)]
pub(crate) struct Bridge {
    pub(crate) id: BridgeId,
    pub(crate) uuid: Uuid,
    pub(crate) datapath_type: String,
    pub(crate) datapath_id: u64,
    pub(crate) mac: MacAddress,
    /// Where its address comes from if the database gives none.
    default_mac: MacAddress,
    /// Whether it forwards frames that are for the link only.
    forwards_bpdus: bool,
    /// Its mirrors, as far as the switch was told.
    mirrors: Mirrors,
    pub(crate) interfaces: BTreeMap<String, Interface>,
    /// The numbers of its ports.
    numbers: PortNumbers,
    /// What the server was started with.
    openflow: WantedOpenFlow,
    pub(crate) server: Option<OpenFlowServer>,
    /// The rows of the controllers that the server connects to, in its order.
    reached: Vec<Uuid>,
    /// Why it has no server.
    pub(crate) error: Option<String>,
}

/// An interface of a bridge.
#[derive(Debug)]
pub(crate) struct Interface {
    /// What the database wants of it.
    pub(crate) wanted: WantedInterface,
    pub(crate) kind: Option<DeviceKind>,
    /// Its OpenFlow number, if it has a device.
    pub(crate) number: Option<u16>,
    /// Its number in the datapath; patches have none.
    pub(crate) datapath_number: Option<u32>,
    pub(crate) device: Option<Device>,
    /// What it does with VLANs, as far as the switch was told.
    vlans: PortVlans,
    /// What it may receive, as far as the switch was told.
    policing: PolicingRates,
    /// The other end, if it is a patch whose other end exists.
    pub(crate) peer: Option<PortId>,
    /// Why it has no device.
    pub(crate) error: Option<String>,
    /// Warnings about it, for the log.
    warnings: Vec<String>,
}

/// All bridges.
#[derive(Debug)]
pub(crate) struct Bridges {
    pub(crate) by_name: BTreeMap<String, Bridge>,
    pub(crate) dummies: Dummies,
    /// What all tunnels share.
    pub(crate) tunnels: TunnelHub,
    /// Whether flows say that the datapath puts labels in front of packets (`add_mpls`).
    pub(crate) adds_labels: bool,
    devices: Devices,
    numbers: DatapathNumbers,
    mirror_numbers: MirrorNumbers,
    /// Where sockets of bridges are.
    run_folder: PathBuf,
    log: Log,
    /// The names of bridges whose rules will be restored when all bridges are there.
    pub(crate) resumed: BTreeSet<String>,
    /// What traces of packets froze.
    pub(crate) frozen_traces: FrozenTraces,
    /// When the last packet was traced: neighbours of native tunnels are known for a time.
    pub(crate) traced_at: Instant,
}

impl Bridges {
    /// None yet; sockets will be in `run_folder`, and messages in the log.
    pub(crate) fn new(dummies: Dummies, run_folder: PathBuf, log: Log) -> Bridges {
        let tunnels = TunnelHub::new();
        Bridges {
            by_name: BTreeMap::new(),
            dummies,
            devices: Devices::new(run_folder.clone(), tunnels.clone()),
            tunnels,
            adds_labels: true,
            numbers: DatapathNumbers::default(),
            mirror_numbers: MirrorNumbers::default(),
            run_folder,
            log,
            resumed: BTreeSet::new(),
            frozen_traces: FrozenTraces::default(),
            traced_at: Instant::ZERO,
        }
    }

    /// Where sockets of bridges are.
    pub(crate) fn run_folder(&self) -> &Path {
        &self.run_folder
    }

    /// An interface of any bridge, and its bridge's name.
    pub(crate) fn interface(&self, name: &str) -> Option<(&str, &Interface)> {
        let mut bridges = self.by_name.iter();
        bridges.find_map(|(bridge, state)| {
            let interface = state.interfaces.get(name)?;
            Some((bridge.as_str(), interface))
        })
    }

    /// The interface with a port's number, and its name.
    pub(crate) fn port(&self, port: PortId) -> Option<(&str, &Interface)> {
        let id = BridgeId::of_port(port);
        let bridge = self.by_name.values().find(|bridge| bridge.id == id)?;
        let number = (port.0 & 0xffff) as u16;
        let mut interfaces = bridge.interfaces.iter();
        let found = interfaces.find(|(_, interface)| interface.number == Some(number));
        found.map(|(name, interface)| (name.as_str(), interface))
    }

    /// The bridge of a port, and its name.
    pub(crate) fn of_port(&self, port: PortId) -> Option<(&str, &Bridge)> {
        let id = BridgeId::of_port(port);
        let found = self.by_name.iter().find(|(_, bridge)| bridge.id == id);
        found.map(|(name, bridge)| (name.as_str(), bridge))
    }

    /// Forgets neighbours that were silent for long.
    pub(crate) fn tend_tunnels(&self, now: Instant) {
        self.tunnels.underlay().neighbors.expire(now);
    }

    /// Whether all servers have set up what they set up at their start.
    pub(crate) fn have_begun(&self) -> bool {
        let bridges = self.by_name.values();
        let mut servers = bridges.filter_map(|bridge| bridge.server.as_ref());
        servers.all(OpenFlowServer::has_begun)
    }

    /// How the controllers of all bridges are.
    pub(crate) fn controllers(&self) -> Vec<ControllerStatus> {
        let bridges = self.by_name.values();
        let servers = bridges.filter_map(|bridge| bridge.server.as_ref());
        servers.flat_map(OpenFlowServer::controllers).collect()
    }

    /// An interface of any bridge, to be changed.
    pub(crate) fn interface_mut(&mut self, name: &str) -> Option<&mut Interface> {
        let mut bridges = self.by_name.values_mut();
        bridges.find_map(|bridge| bridge.interfaces.get_mut(name))
    }
}

impl Bridge {
    /// The port with an OpenFlow number.
    pub(crate) fn port(&self, number: u16) -> PortId {
        self.id.port(number)
    }
}

/// The name of the datapath of bridges of a type, as `dpif/show` says it.
pub(crate) fn datapath_of(datapath_type: &str) -> (&str, &'static str) {
    match datapath_type {
        "" | "system" => ("system", "ovs-system"),
        "netdev" => ("netdev", "ovs-netdev"),
        other => (other, "ovs-dummy"),
    }
}
