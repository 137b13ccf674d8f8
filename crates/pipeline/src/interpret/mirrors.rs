//! Copies of packets for mirrors (`mirror_packet` in Open vSwitch).
//!
//! A packet is mirrored when it comes in, before the actions of its first rule, and whenever it
//! leaves by a port, as it is then. It does not come in by a patch or leave by one. Copies for
//! a mirror leave by ports as well, so other mirrors may select them.
//!
//! 1. A bit of [`Walk::mirrored`] stays set for the rest of the walk in the bridge, however it
//!    branches, as in Open vSwitch.

use std::sync::Arc;

use thalweg_packet::{PortId, standard as f};

use super::DropReason;
use super::normal::is_reserved;
use super::observer::{Observer, Sight};
use super::walk::{Nested, Walk};
use crate::bridge::BridgeId;
use crate::effect::Effect;
use crate::mirror::{BridgeMirror, MirrorOutput, Mirrors};
use crate::trace::{Input, StepKind};

impl<O: Observer> Walk<'_, O> {
    /// The mirrors of the bridge that the walk is in.
    fn mirrors(&mut self) -> Option<Arc<Mirrors>> {
        if self.pipeline.mirrors.is_empty() {
            return None;
        }
        let bridge = self.bridge();
        self.pipeline.mirrors(bridge, self.version).cloned()
    }

    /// Whether a port of the bridge is for mirrored packets only.
    pub(super) fn is_mirror_output(&mut self, port: PortId) -> bool {
        self.mirrors()
            .is_some_and(|mirrors| mirrors.have_output(port))
    }

    /// Mirrors a packet that comes in; returns whether it goes on.
    pub(super) fn mirror_incoming(&mut self) -> bool {
        let Some(mirrors) = self.mirrors() else {
            return true;
        };
        let port = self.in_port();
        self.ask(Input::Port(port));
        if self.pipeline.port(port, self.version).is_none() {
            return true;
        }
        if mirrors.have_output(port) {
            self.tell(Sight::FromMirror);
            self.drop(DropReason::MirrorPort);
            return false;
        }
        self.mirror(&mirrors, port, mirrors.selecting(port, false));
        true
    }

    /// Mirrors a packet that leaves by a port.
    pub(super) fn mirror_outgoing(&mut self, port: PortId) {
        if let Some(mirrors) = self.mirrors() {
            self.mirror(&mirrors, port, mirrors.selecting(port, true));
        }
    }

    /// Forgets which mirrors have had a copy that goes to another bridge, and returns them.
    pub(super) fn leave_mirrors(&mut self, kind: Nested) -> Option<u32> {
        let Nested::Bridge(peer) = kind else {
            return None;
        };
        let leaves = BridgeId::of_port(peer) != self.bridge();
        leaves.then(|| std::mem::take(&mut self.mirrored))
    }

    /// Sends a packet of a port to those of the `selecting` mirrors that have not had it.
    fn mirror(&mut self, mirrors: &Mirrors, port: PortId, mut selecting: u32) {
        selecting &= !self.mirrored;
        while selecting != 0 && self.failure.is_none() {
            let number = selecting.trailing_zeros() as usize;
            selecting &= selecting - 1;
            let mirror = mirrors.get(number);
            let cut = std::mem::replace(&mut self.cut_to_bytes, mirror.snaplen_bytes);
            self.send_to_mirror(mirror, port, mirrors, mirrors.with_output_of(number));
            self.cut_to_bytes = cut;
            selecting &= !self.mirrored;
        }
    }

    /// Notes that a mirror, and those with the same output, have had the packet.
    fn count_mirrored(&mut self, mirror: &BridgeMirror, outputs: u32) {
        self.mirrored |= outputs;
        let caller = (self.step, self.author);
        self.begin_step(StepKind::Mirror(mirror.id));
        self.return_to(caller);
    }

    fn send_to_mirror(
        &mut self,
        mirror: &BridgeMirror,
        port: PortId,
        mirrors: &Mirrors,
        outputs: u32,
    ) {
        self.ask(Input::Port(port));
        let pipeline = self.pipeline;
        let takes_all = mirror.vlans.is_all() && !pipeline.port_vlans(port, self.version).limits();
        if let (true, MirrorOutput::Port(to)) = (takes_all, mirror.output)
            && !pipeline.port_vlans(to, self.version).edits_tags()
        {
            // Its tags do not matter, so that they are not read.
            self.ask(Input::Port(to));
            self.count_mirrored(mirror, outputs);
            if let Some(state) = pipeline.port(to, self.version)
                && !self.is_kept_apart(to)
            {
                self.deliver(to, state);
            }
            return;
        }
        let Ok(inside) = self.come_in(port) else {
            return;
        };
        if !mirror.vlans.contains(inside.vlan) {
            return;
        }
        self.count_mirrored(mirror, outputs);
        match mirror.output {
            MirrorOutput::Port(to) => {
                self.ask(Input::Port(to));
                if let Some(state) = pipeline.port(to, self.version)
                    && !self.is_kept_apart(to)
                {
                    self.send_in_vlan(to, state, &inside);
                }
            }
            MirrorOutput::Vlan(vlan) => {
                let destination = self.state.read(f::ETH_DST) as u64;
                if inside.vlan == vlan || is_reserved(destination) {
                    return;
                }
                let moved = inside.moved_to(vlan);
                let bridge = self.bridge();
                self.ask(Input::AllPorts);
                for (to, state) in pipeline.ports_of(bridge, self.version) {
                    if !self.spend(1) {
                        return;
                    }
                    let is_wanted = self.is_carried(to, &moved) && !mirrors.have_output(to);
                    if is_wanted && !self.is_kept_apart(to) {
                        self.send_in_vlan(to, state, &moved);
                    }
                }
            }
        }
    }

    /// Sends the first bytes of the packet to a port that is not a patch.
    pub(super) fn emit_cut(&mut self, port: PortId, len_bytes: u32) {
        let cut = [Effect::Cut { len_bytes }, Effect::Output(port)];
        self.emit(Effect::Clone(cut.into()));
    }

    /// Sends to a port that is not a patch, as long as the mirror wants the packet.
    pub(super) fn emit_output(&mut self, port: PortId) {
        match self.cut_to_bytes {
            None => self.emit(Effect::Output(port)),
            Some(len_bytes) => self.emit_cut(port, len_bytes.into()),
        }
    }
}
