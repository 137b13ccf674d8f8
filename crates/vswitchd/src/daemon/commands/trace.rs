//! `ofproto/trace`, with the bridges and ports of the daemon.

use thalweg_packet::wire::EtherType;
use thalweg_packet::{FieldId, PortId, TunnelValues, standard as f};
use thalweg_pipeline::BridgeId;
use thalweg_tunnel::{InnerIp, InnerType};
use thalweg_unixctl::ControlCommand;

use super::Entry;
use crate::bridges::{Bridges, LOCAL, datapath_of};
use crate::daemon::Daemon;
use crate::datapath_text::{Leaving, OptionBits, OuterTarget, TunnelOutput};
use crate::trace::{FrozenTrace, NativePush, TraceCommand, TraceNames, trace};

/// As many as Open vSwitch takes.
pub(super) const ARGUMENTS_MAX: usize = 1_024;

pub(super) const COMMANDS: &[Entry] = &[
    (
        ControlCommand::new(
            "ofproto/trace",
            "{[dp_name] odp_flow | bridge br_flow} [OPTIONS...] [-generate|packet]",
            1,
            ARGUMENTS_MAX,
        ),
        trace_packet,
    ),
    (
        ControlCommand::new(
            "ofproto/trace-packet-out",
            "[-consistent] {[dp_name] odp_flow | bridge br_flow} [OPTIONS...] [-generate|packet] \
             actions",
            2,
            ARGUMENTS_MAX,
        ),
        trace_packet_out,
    ),
];

fn trace_packet(daemon: &mut Daemon, arguments: &[String]) -> Result<String, String> {
    answer(daemon, TraceCommand::Trace, arguments)
}

fn trace_packet_out(daemon: &mut Daemon, arguments: &[String]) -> Result<String, String> {
    answer(daemon, TraceCommand::TracePacketOut, arguments)
}

fn answer(
    daemon: &mut Daemon,
    command: TraceCommand,
    arguments: &[String],
) -> Result<String, String> {
    daemon.bridges.traced_at = daemon.switch.now();
    let bridges = &daemon.bridges;
    let pipeline = daemon.switch.pipeline();
    let answered = trace(&pipeline, bridges, command, arguments);
    drop(pipeline);
    let answer = answered.map_err(|refusal| refusal.to_string())?;
    daemon.bridges.frozen_traces.keep(answer.frozen);
    if let Some(packet) = answer.packet {
        let (port, effects) = (packet.in_port, &packet.effects);
        daemon.switch.run_effects(port, &packet.frame, effects);
        daemon.hurry();
    }
    Ok(answer.text)
}

impl TraceNames for Bridges {
    fn bridge(&self, name: &str) -> Option<BridgeId> {
        self.by_name.get(name).map(|bridge| bridge.id)
    }

    fn bridge_name(&self, bridge: BridgeId) -> String {
        let mut bridges = self.by_name.iter();
        let found = bridges.find(|(_, state)| state.id == bridge);
        found.map_or_else(|| bridge.0.to_string(), |(name, _)| name.clone())
    }

    fn port(&self, bridge: BridgeId, name: &str) -> Option<PortId> {
        let mut bridges = self.by_name.values();
        let bridge = bridges.find(|state| state.id == bridge)?;
        let number = bridge.interfaces.get(name)?.number?;
        Some(bridge.port(number))
    }

    fn port_name(&self, port: PortId) -> Option<String> {
        Some(Bridges::port(self, port)?.0.to_owned())
    }

    fn has_datapath(&self, kind: Option<&str>) -> bool {
        let kinds = self.by_name.values();
        let mut kinds = kinds.map(|bridge| datapath_of(&bridge.datapath_type).0);
        match kind {
            Some(kind) => kinds.any(|known| known == kind),
            None => kinds
                .next()
                .is_some_and(|first| kinds.all(|other| other == first)),
        }
    }

    fn port_of_datapath(&self, number: u32) -> Option<PortId> {
        self.by_name.values().find_map(|bridge| {
            let mut interfaces = bridge.interfaces.values();
            let found = interfaces.find(|known| known.datapath_number == Some(number))?;
            Some(bridge.port(found.number?))
        })
    }

    fn datapath_number(&self, name: &str) -> Option<u32> {
        self.interface(name)?.1.datapath_number
    }

    fn datapath_number_of(&self, port: PortId) -> Option<u32> {
        Bridges::port(self, port)?.1.datapath_number
    }

    fn tunnel_source(
        &self,
        port: PortId,
        values: &TunnelValues,
        packet_type: u32,
    ) -> Option<Option<PortId>> {
        self.tunnels.receiver(port, values, packet_type)
    }

    fn tunnel_output(
        &self,
        port: PortId,
        values: &TunnelValues,
        of_packet: (PortId, Option<InnerIp>),
    ) -> TunnelOutput {
        match self.tunnels.preview(port, values, of_packet) {
            None => TunnelOutput::Untouched,
            Some(Ok(outgoing)) => TunnelOutput::Sent {
                values: Box::new(outgoing.metadata),
                is_layer3: self.tunnels.is_layer3(port),
            },
            Some(Err(_)) => TunnelOutput::Dropped,
        }
    }

    fn tunnel_push(
        &self,
        port: PortId,
        values: &TunnelValues,
        (in_port, leaving): (PortId, Leaving),
    ) -> Option<Option<NativePush>> {
        let of_packet = (in_port, leaving.inner);
        let outgoing = self.tunnels.preview(port, values, of_packet)?.ok()?;
        let inner = match self.tunnels.is_layer3(port) {
            true => InnerType::Bare(EtherType(leaving.ether_type)),
            false => InnerType::Ethernet,
        };
        let push = self
            .tunnels
            .preview_push(port, &outgoing, inner, self.traced_at)?;
        Some(push.ok().and_then(|push| {
            let bridge = self.by_name.get(&push.bridge)?;
            Some(NativePush {
                header: push.header,
                tunnel_type: push.tunnel_type,
                mark: outgoing.packet_mark,
                local: bridge.port(LOCAL),
            })
        }))
    }

    fn tunnel_end(&self, port: PortId, target: &OuterTarget) -> Option<u32> {
        let mut bridges = self.by_name.iter();
        let (name, _) = bridges.find(|(_, bridge)| bridge.port(LOCAL) == port)?;
        let to = (target.mac, target.address);
        let at = (target.protocol, target.port);
        self.tunnels.preview_pop(name, to, at)
    }

    fn option(&self, bridge: BridgeId, field: FieldId) -> Option<OptionBits> {
        let number = f::tunnel_option_of(field)?;
        let option = self.tunnels.option(bridge.0.into(), number.into())?;
        Some(OptionBits {
            class: option.class,
            kind: option.kind,
            len_bytes: option.len_bytes,
            bits: None,
        })
    }

    fn adds_labels(&self) -> bool {
        self.adds_labels
    }

    fn recirculations(&self, walks: &[FrozenTrace]) -> Vec<u32> {
        self.frozen_traces.numbers(walks)
    }

    fn frozen(&self, number: u32) -> Option<FrozenTrace> {
        self.frozen_traces.get(number).cloned()
    }
}
