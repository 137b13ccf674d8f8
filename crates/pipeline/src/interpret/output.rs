//! Where a packet goes: ports, queues, floods, patches, controllers.

use std::sync::Arc;

use thalweg_packet::PortId;

use super::DropReason;
use super::observer::{Observer, Sight};
use super::vlans::Inside;
use super::walk::{Nested, Next, Walk};
use crate::action::{Output, Subfield, TableId};
use crate::bridge::BridgeId;
use crate::effect::Effect;
use crate::flow::PortState;
use crate::text::LOCAL_PORT;
use crate::trace::{Input, StepKind};

impl<O: Observer> Walk<'_, O> {
    pub(super) fn output(&mut self, output: &Output, table: TableId) -> Next {
        match output {
            Output::Port(port) => self.send(*port),
            Output::Local => {
                let local = self.bridge().port(LOCAL_PORT.0 as u16);
                self.send(local);
            }
            Output::InPort => {
                let port = self.in_port();
                self.send_anywhere(port);
            }
            Output::All => self.flood(|_| true, None),
            Output::Flood => self.flood(|state| state.floods, None),
            Output::Normal => self.normal(),
            Output::Controller {
                max_len_bytes,
                controller_id,
                reason,
                userdata,
                pause,
                meter,
            } => {
                let meter = self.controller_meter(*meter);
                let sender = self.sender(table);
                let effect = Effect::Controller {
                    reason: match pause {
                        true => *reason,
                        false => self.reason_here(output, *reason),
                    },
                    // A packet that comes back must be whole.
                    max_len_bytes: if *pause { u16::MAX } else { *max_len_bytes },
                    controller_id: *controller_id,
                    userdata: userdata.clone(),
                    sender,
                    meter,
                };
                if *pause {
                    self.paused = Some(effect);
                    return Next::Freeze;
                }
                self.emit(effect);
            }
            Output::Table => {
                return Next::Resubmit {
                    in_port: None,
                    table: self.first_table(),
                    asks: true,
                };
            }
            Output::Field(source) => return self.output_to_field(source, table),
            Output::Enqueue { port, queue } => self.enqueue(*port, *queue),
            Output::Truncated {
                port,
                max_len_bytes,
            } => self.send_cut(*port, *max_len_bytes),
        }
        Next::Continue
    }

    /// Sends to a port, unless the packet came from it.
    pub(super) fn send(&mut self, port: PortId) {
        if self.in_port() == port {
            self.tell(Sight::SkipsInputPort);
            self.drop(DropReason::InputPort);
        } else {
            self.send_anywhere(port);
        }
    }

    fn send_anywhere(&mut self, port: PortId) {
        self.ask(Input::Port(port));
        match self.pipeline.port(port, self.version) {
            Some(_) if self.is_kept_apart(port) => self.drop_for_protection(),
            Some(state) => self.deliver(port, state),
            None => self.drop_for_port(),
        }
    }

    /// Sends to a port that exists, or through its patch.
    pub(super) fn deliver(&mut self, port: PortId, state: PortState) {
        if !state.forwards {
            return self.drop_for_silence();
        }
        match state.peer {
            // A packet that is cut does not go through a patch, as in Open vSwitch.
            Some(_) if self.cut_to_bytes.is_some() => {}
            Some(peer) => self.cross(port, peer),
            None => {
                self.emit_output(port);
                self.mirror_outgoing(port);
            }
        }
    }

    pub(super) fn drop_for_port(&mut self) {
        self.tell(Sight::NoSuchPort);
        self.drop(DropReason::NoSuchPort);
    }

    /// Drops a copy for a port that was told to forward nothing.
    fn drop_for_silence(&mut self) {
        self.tell(Sight::PortForwardsNothing);
        self.drop(DropReason::PortForwardsNothing);
    }

    /// Sends a copy through the patch from `port` to `peer`, into the bridge of that.
    fn cross(&mut self, port: PortId, peer: PortId) {
        self.ask(Input::Port(peer));
        if self.pipeline.port(peer, self.version).is_none() {
            return self.drop_for_port();
        }
        if self.spend(self.copy_cost()) {
            let caller = (self.step, self.author);
            self.begin_step(StepKind::Patch {
                from: port,
                to: peer,
            });
            let table = BridgeId::of_port(peer).table(0);
            // How the other bridge ends is its own matter; a failure is noted in the walk.
            self.on_copy(Arc::from([]), table, Nested::Bridge(peer));
            self.return_to(caller);
        }
    }

    /// Sends to the port whose number these bits hold, or where a reserved number leads.
    fn output_to_field(&mut self, source: &Subfield, table: TableId) -> Next {
        let number = self.state.read_subfield(source);
        self.tell(Sight::OutputTo(number));
        let bridge = self.bridge();
        let port = match self.pipeline.config.bridges {
            true => u16::try_from(number).map(|number| bridge.port(number)),
            false => u32::try_from(number).map(PortId),
        };
        let Ok(port) = port else {
            self.drop(DropReason::NoSuchPort);
            return Next::Continue;
        };
        match Output::reserved(self.number_of(port)) {
            Some(reserved) => return self.output(&reserved, table),
            None => self.send(port),
        }
        Next::Continue
    }

    /// A port's number in its bridge.
    pub(super) fn number_of(&self, port: PortId) -> PortId {
        match self.pipeline.config.bridges {
            true => PortId(port.0 & 0xffff),
            false => port,
        }
    }

    /// Sends the first bytes of the packet to a port (`xlate_output_trunc_action`).
    fn send_cut(&mut self, port: PortId, len_bytes: u32) {
        if self.number_of(port) == Output::IN_PORT {
            self.tell(Sight::NotCut(port));
            return self.drop(DropReason::NotCut);
        }
        if self.in_port() == port {
            self.tell(Sight::SkipsInputPort);
            return self.drop(DropReason::InputPort);
        }
        self.ask(Input::Port(port));
        match self.pipeline.port(port, self.version) {
            None => {
                self.tell(Sight::NotCut(port));
                self.drop(DropReason::NoSuchPort);
            }
            Some(state) if !state.forwards => self.drop_for_silence(),
            Some(state) if state.peer.is_some() => {
                self.tell(Sight::NotCut(port));
                self.drop(DropReason::NotCut);
            }
            Some(_) if self.is_kept_apart(port) => self.drop_for_protection(),
            Some(_) => {
                self.emit_cut(port, len_bytes);
                self.mirror_outgoing(port);
            }
        }
    }

    /// Gives the packet a queue; 0 for none.
    pub(super) fn set_queue(&mut self, queue: u32) {
        if self.queue != queue {
            self.queue = queue;
            self.emit(Effect::Queue(queue));
        }
    }

    /// Sends to a port in a queue of it.
    fn enqueue(&mut self, port: PortId, queue: u32) {
        let before = self.queue;
        let in_port = self.in_port();
        if self.number_of(port) == Output::IN_PORT {
            self.set_queue(queue);
            self.send_anywhere(in_port);
        } else if port == in_port {
            self.drop(DropReason::InputPort);
        } else {
            self.set_queue(queue);
            self.send_anywhere(port);
        }
        self.set_queue(before);
    }

    /// Sends to the ports for which `is_chosen` holds, except the one the packet came from;
    /// in the VLAN that it is in, if it is in one.
    pub(super) fn flood(&mut self, is_chosen: impl Fn(PortState) -> bool, inside: Option<&Inside>) {
        let (in_port, bridge) = (self.in_port(), self.bridge());
        self.ask(Input::AllPorts);
        let pipeline = self.pipeline;
        let mut why_not = Some(DropReason::InputPort);
        for (port, state) in pipeline.ports_of(bridge, self.version) {
            if !self.spend(1) {
                return;
            }
            if port == in_port || !is_chosen(state) {
                continue;
            }
            if inside.is_some_and(|inside| !self.is_flooded(port, inside)) {
                why_not = why_not.map(|_| DropReason::NoPortInVlan);
            } else if self.is_kept_apart(port) {
                why_not = why_not.map(|_| DropReason::ProtectedPort);
            } else {
                match inside {
                    Some(inside) => self.send_in_vlan(port, state, inside),
                    None => self.deliver(port, state),
                }
                why_not = None;
            }
        }
        if let Some(reason) = why_not {
            self.drop(reason);
        }
    }
}
