//! Patches between bridges: ports without a device, in pairs.
//!
//! ```text
//!   add_patch(a, b)      a is there; what is sent to it is dropped: b does not lead back yet
//!   add_patch(b, a)      what is sent to a enters b's bridge, and the other way
//!   remove_patch(b)      what is sent to a is dropped again
//! ```
//!
//! As in Open vSwitch, a patch always has a link, and cannot be taken down.
//!
//! 1. A patch leads on only if its peer leads back, and if neither is configured not to: the
//!    one sends and the other receives.

use std::collections::{BTreeMap, BTreeSet};

use thalweg_io::{PortCounters, PortStatus};
use thalweg_packet::PortId;
use thalweg_pipeline::{BridgeId, Change, MirrorId, Operation, PortState};

use crate::switch::{Switch, SwitchError};
use crate::totals::{PortTotals, Totals};

/// The ends of patches, each with its peer.
#[derive(Debug, Default)]
pub(crate) struct Patches {
    peers: BTreeMap<PortId, Option<PortId>>,
}

impl Patches {
    /// Whether a port is the end of a patch.
    pub(crate) fn contains(&self, port: PortId) -> bool {
        self.peers.contains_key(&port)
    }

    /// The other end, if it leads back.
    fn peer(&self, port: PortId) -> Option<PortId> {
        let peer = (*self.peers.get(&port)?)?;
        (self.peers.get(&peer) == Some(&Some(port)) && peer != port).then_some(peer)
    }

    /// The ends in a bridge.
    pub(crate) fn in_bridge(&self, bridge: BridgeId) -> Vec<PortId> {
        let ends = self.peers.range(bridge.port(0)..=bridge.port(u16::MAX));
        ends.map(|(port, _)| *port).collect()
    }
}

/// A port that never exists (`OFPP_NONE`): where a patch leads whose peer is not there.
fn nowhere(port: PortId) -> PortId {
    BridgeId::of_port(port).port(u16::MAX)
}

impl Switch {
    /// Makes a port one end of a patch, or gives it another peer. The peer may come later, or
    /// not be known yet.
    ///
    /// # Errors
    /// If a port with a device has the number.
    pub fn add_patch(&mut self, port: PortId, peer: Option<PortId>) -> Result<(), SwitchError> {
        if self.routes.find(port).is_some() {
            return Err(SwitchError::DuplicatePort { number: port });
        }
        let former = self.patches.peers.insert(port, peer).flatten();
        self.follow_patches([Some(port), peer, former].into_iter().flatten(), Vec::new());
        Ok(())
    }

    /// Removes one end of a patch; returns whether it existed. The other end stays.
    pub fn remove_patch(&mut self, port: PortId) -> bool {
        let Some(peer) = self.patches.peers.remove(&port) else {
            return false;
        };
        self.moves.retain(|moved| moved.port != Some(port));
        let gone = self.upkeep.ports_gone(&[port].into());
        self.follow_patches(peer.into_iter(), gone.operations);
        self.shared.pipeline.write().reset_patch_counters(port);
        true
    }

    /// Forgets the ends in a bridge, whose ports are gone; those that led there stay.
    pub(crate) fn forget_patches(&mut self, bridge: BridgeId) {
        let gone = self.patches.in_bridge(bridge);
        let peers = gone
            .iter()
            .filter_map(|port| self.patches.peers.remove(port));
        let peers: Vec<PortId> = peers.flatten().collect();
        self.follow_patches(peers.into_iter(), Vec::new());
    }

    /// Forgets what other mirrors than these have counted.
    pub fn retain_mirror_counters(&self, mirrors: &BTreeSet<MirrorId>) {
        self.shared.pipeline.write().retain_mirror_counters(mirrors);
    }

    /// Adds the ends of patches to the ports, with what went through them.
    pub(crate) fn add_patches(&self, totals: &mut Totals) {
        let pipeline = self.pipeline();
        let ends = self.patches.peers.keys().map(|port| {
            let counted = pipeline.patch_counters(*port);
            PortTotals {
                number: *port,
                status: PortStatus::Up,
                counters: PortCounters {
                    received_packets: counted.received.packets,
                    received_bytes: counted.received.bytes,
                    sent_packets: counted.sent.packets,
                    sent_bytes: counted.sent.bytes,
                    ..PortCounters::default()
                },
            }
        });
        totals.ports.extend(ends);
    }

    /// Where packets sent to a port continue their walk; `None` for a port with a device.
    pub(crate) fn way_through(&self, port: PortId) -> Option<PortId> {
        if !self.patches.contains(port) {
            return None;
        }
        let peer = self.patches.peer(port);
        let passes = |peer: &PortId| self.settings.sends(port) && self.settings.receives(*peer);
        Some(peer.filter(passes).unwrap_or(nowhere(port)))
    }

    /// Has the other end of a patch follow the settings of `port`.
    pub(crate) fn follow_peer_of(&mut self, port: PortId) {
        if let Some(peer) = self.patches.peer(port) {
            self.follow_port(peer);
        }
    }

    /// Tells the pipeline of ends of patches, those that are there, with other operations in
    /// one change.
    fn follow_patches(&mut self, ends: impl Iterator<Item = PortId>, mut others: Vec<Operation>) {
        for port in ends.filter(|port| self.patches.contains(*port)) {
            let state = PortState {
                is_up: true,
                floods: self.settings.floods(port),
                forwards: self.settings.forwards(port),
                peer: self.way_through(port),
            };
            others.push(Operation::SetPort(port, state));
        }
        if !others.is_empty() {
            self.apply_own(&Change { operations: others }, &[]);
        }
    }
}
