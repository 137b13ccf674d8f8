//! The `normal` action: a learning switch (IEEE 802.1Q, clause 8) as one action.

use thalweg_packet::standard as f;

use super::DropReason;
use super::walk::Walk;
use crate::effect::Effect;
use crate::mac::Station;
use crate::trace::StepKind;

/// Group addresses have this bit set.
const MULTICAST: u64 = 1 << 40;

/// Addresses that bridges do not forward: 01-80-c2-00-00-00 to -0f (IEEE 802.1Q, table 8-1).
const RESERVED: u64 = 0x0180_c200_0000;

impl Walk<'_> {
    /// Learns the source and sends to where the destination was seen, or floods.
    pub(super) fn normal(&mut self) {
        let in_port = self.in_port();
        let source = self.state.read(f::ETH_SRC) as u64;
        let destination = self.state.read(f::ETH_DST) as u64;
        let tag = self.state.read_masked(f::VLAN_TCI, 0x1fff) as u16;
        // Without a tag the other bits may have been written; they are of none yet.
        let vlan = if tag & f::VLAN_PRESENT != 0 {
            tag & 0x0fff
        } else {
            0
        };
        if destination & !0xf == RESERVED {
            self.drop(DropReason::ReservedAddress);
            return;
        }
        if source & MULTICAST == 0 {
            self.emit(Effect::Learn {
                station: Station { vlan, mac: source },
                port: in_port,
            });
        }
        if destination & MULTICAST != 0 {
            self.flood(|state| state.floods);
            return;
        }
        let station = Station {
            vlan,
            mac: destination,
        };
        let port = self.pipeline.station(station, self.version);
        self.begin_step(StepKind::Station { station, port });
        match port {
            Some(port) => self.send(port),
            None => self.flood(|state| state.floods),
        }
    }
}
