//! The `normal` action: a learning switch (IEEE 802.1Q, clause 8) as one action.

use thalweg_packet::{PortId, standard as f};

use super::DropReason;
use super::observer::{NormalSight, Observer, Sight};
use super::vlans::Inside;
use super::walk::Walk;
use crate::bridge::BridgeId;
use crate::effect::Effect;
use crate::mac::Station;
use crate::trace::{Input, StepKind};

/// The bit that marks a group address.
const MULTICAST: u64 = 1 << 40;

/// Whether bridges must not forward to an address: reserved for one link by IEEE 802.1Q, table
/// 8-1, or used by two vendors' protocols. The list is Open vSwitch's.
pub(super) fn is_reserved(destination: u64) -> bool {
    match destination {
        // Spanning trees, pause, LACP, LLDP and others.
        0x0180_c200_0000..=0x0180_c200_000f => true,
        // Extreme's EDP and EAPS.
        0x00e0_2b00_0000 | 0x00e0_2b00_0004 | 0x00e0_2b00_0006 => true,
        // Cisco's ISL; CFM; PAgP, UDLD, CDP, DTP and VTP; PVST+; uplink fast.
        0x0100_0c00_0000 | 0x0100_0ccc_ccc0..=0x0100_0ccc_ccc7 => true,
        0x0100_0ccc_cccc | 0x0100_0ccc_cccd | 0x0100_0ccd_cdcd => true,
        _ => false,
    }
}

impl<O: Observer> Walk<'_, O> {
    /// Learns the source; sends to the port where the destination was seen, or floods its
    /// VLAN.
    pub(super) fn normal(&mut self) {
        let (in_port, bridge) = (self.in_port(), self.bridge());
        let source = self.state.read(f::ETH_SRC) as u64;
        let destination = self.state.read(f::ETH_DST) as u64;
        if self.is_mirror_output(in_port) {
            self.tell(Sight::Normal(NormalSight::FromMirror));
            self.drop(DropReason::MirrorPort);
            return;
        }
        let inside = match self.come_in(in_port) {
            Ok(inside) => inside,
            Err(vlan) => {
                self.tell(Sight::Normal(NormalSight::Disallowed { vlan }));
                self.drop(DropReason::VlanNotAllowed);
                return;
            }
        };
        if is_reserved(destination) && !self.forwards_bpdus(bridge) {
            self.tell(Sight::Normal(NormalSight::Reserved));
            self.drop(DropReason::ReservedAddress);
            return;
        }
        let station = |mac| Station {
            bridge,
            vlan: inside.vlan,
            mac,
        };
        if source & MULTICAST == 0 {
            self.tell_learned(station(source), in_port);
            self.emit(Effect::Learn {
                station: station(source),
                port: in_port,
            });
        }
        if destination & MULTICAST != 0 {
            self.tell(Sight::Normal(NormalSight::Multicast));
            self.flood(|state| state.floods, Some(&inside));
            return;
        }
        let station = station(destination);
        let port = self.pipeline.station(station, self.version);
        self.begin_step(StepKind::Station { station, port });
        match port {
            Some(port) if self.is_mirror_output(port) => {
                self.tell(Sight::Normal(NormalSight::BehindMirror));
                self.drop(DropReason::MirrorPort);
            }
            Some(port) if port == in_port => {
                self.tell(Sight::Normal(NormalSight::InputPort));
                self.drop(DropReason::InputPort);
            }
            Some(port) if self.can_carry(port, &inside) => {
                self.tell(Sight::Normal(NormalSight::Forwards));
                self.send_to_known(port, &inside);
            }
            _ => {
                self.tell(Sight::Normal(NormalSight::Unknown));
                self.flood(|state| state.floods, Some(&inside));
            }
        }
    }

    fn forwards_bpdus(&mut self, bridge: BridgeId) -> bool {
        self.ask(Input::Bpdus(bridge));
        self.pipeline.forwards_bpdus(bridge, self.version)
    }

    /// Whether the packet's VLAN still leads to the port where its destination was seen.
    fn can_carry(&mut self, port: PortId, inside: &Inside) -> bool {
        self.ask(Input::Port(port));
        self.pipeline
            .port_vlans(port, self.version)
            .carries(inside.vlan)
    }

    fn send_to_known(&mut self, port: PortId, inside: &Inside) {
        match self.pipeline.port(port, self.version) {
            Some(_) if self.is_kept_apart(port) => self.drop_for_protection(),
            Some(state) => self.send_in_vlan(port, state, inside),
            None => self.drop_for_port(),
        }
    }

    /// Tells of a station that was not known to be behind the port.
    fn tell_learned(&mut self, station: Station, port: PortId) {
        if O::OBSERVES && self.pipeline.station(station, self.version) != Some(port) {
            self.tell(Sight::Normal(NormalSight::Learns { station, port }));
        }
    }
}
