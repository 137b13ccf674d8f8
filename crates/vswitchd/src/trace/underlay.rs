//! What native tunnels do with a packet: the headers that they put in front, and what the bridge
//! does with the frame that they make (`native_tunnel_output` and `terminate_native_tunnel` of
//! Open vSwitch).
//!
//! The frame comes into the bridge by its own port, as a packet of its own, and its walk is the
//! interpreter's. It counts for no rule, and nothing is learned or asked.

use thalweg_packet::{Headers, Packet, PortId, Receipt, TunnelValues};
use thalweg_pipeline::translate;
use thalweg_tunnel::PerPacket;

use super::arguments::Switch;
use super::names::NativePush;
use crate::datapath_text::{
    ActionWriter, DatapathFlow, Leaving, TunnelOutput, no_tunnels, push_header_text,
};

/// Bytes of the packet that stands for the one that is put into a tunnel.
const INNER_BYTES: usize = 60;

/// A packet that leaves by a port.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked<'a> {
    pub(super) number: PortId,
    pub(super) values: &'a TunnelValues,
    pub(super) in_port: PortId,
    pub(super) leaving: Leaving,
}

/// What a port does with a packet; `spelt` names ports of the datapath.
pub(super) fn tunnel_output(
    switch: Switch<'_>,
    spelt: &dyn Fn(PortId) -> String,
    asked: Asked<'_>,
) -> TunnelOutput {
    let Asked {
        number,
        values,
        in_port,
        leaving,
    } = asked;
    let target = leaving.target;
    let end = target.and_then(|target| switch.names.tunnel_end(number, &target));
    if let Some(end) = end {
        return TunnelOutput::Popped(end);
    }
    let of_packet = (in_port, leaving.inner);
    let sent = switch.names.tunnel_output(number, values, of_packet);
    let TunnelOutput::Sent { is_layer3, .. } = sent else {
        return sent;
    };
    let of_packet = (in_port, leaving);
    match switch.names.tunnel_push(number, values, of_packet) {
        None => sent,
        Some(None) => TunnelOutput::Dropped,
        Some(Some(push)) => match forwarded(switch, spelt, &push) {
            None => sent,
            Some(then) => TunnelOutput::Pushed {
                push: format!(
                    "tnl_push(tnl_port({}),{},out_port({}))",
                    spelt(number),
                    push_header_text(&push.header, push.tunnel_type),
                    spelt(push.local)
                ),
                then,
                is_layer3,
                mark: push.mark,
            },
        },
    }
}

/// What the bridge does with the frame; `None` if that cannot be told in one line: it would be
/// looked up again.
fn forwarded(
    switch: Switch<'_>,
    spelt: &dyn Fn(PortId) -> String,
    push: &NativePush,
) -> Option<String> {
    let pipeline = switch.pipeline;
    let mut packet = Packet::from_bytes(&[0; INNER_BYTES]);
    push.header.push(&mut packet, PerPacket::default()).ok()?;
    let frame = packet.bytes();
    let headers = Headers::parse(frame).ok()?;
    let receipt = Receipt::from_port(push.local.0);
    let mut key = vec![0; pipeline.layout().ingress_words()];
    (pipeline.layout()).extract(frame, &headers, &receipt, &mut key);
    let translation = translate(pipeline, &key, pipeline.version());
    if !translation.continuations.is_empty() {
        return None;
    }
    let writer = ActionWriter {
        ports: spelt,
        recirculations: &|number| number,
        senders: &|sender| switch.names.sender(sender),
        tunnels: &no_tunnels,
    };
    let flow = DatapathFlow::of_packet(switch.layout, frame, frame.len(), &receipt)?;
    let text = writer.write(&translation.effects, &flow).text;
    Some(if text == "drop" { String::new() } else { text })
}
