//! How a trace finds bridges and ports, and what it calls them.

use thalweg_packet::{FieldId, PortId, TunnelValues};
use thalweg_pipeline::{BridgeId, Sender};
use thalweg_tunnel::{InnerIp, OuterHeader, TunnelType};

use super::frozen::FrozenTrace;
use crate::datapath_text::{Leaving, OptionBits, OuterTarget, TunnelOutput};

/// What a native tunnel does with a packet.
#[derive(Clone, Debug)]
pub struct NativePush {
    /// What it puts in front.
    pub header: OuterHeader,
    /// The type of the tunnel.
    pub tunnel_type: TunnelType,
    /// The mark that the packet gets, with which the frame is routed.
    pub mark: Option<u32>,
    /// The own port of the bridge that receives the frame.
    pub local: PortId,
}

/// Finds bridges and ports by their names, and names them.
pub trait TraceNames {
    /// The bridge with this name.
    fn bridge(&self, name: &str) -> Option<BridgeId>;

    /// The name of a bridge.
    fn bridge_name(&self, bridge: BridgeId) -> String;

    /// The port with this name, in a bridge.
    fn port(&self, bridge: BridgeId, name: &str) -> Option<PortId>;

    /// The name of a port.
    fn port_name(&self, port: PortId) -> Option<String>;

    /// Whether bridges use a datapath of this type, such as `system` or `dummy`; with `None`,
    /// whether all bridges use one type.
    fn has_datapath(&self, kind: Option<&str>) -> bool;

    /// The bridge's port of a number in the datapath.
    fn port_of_datapath(&self, number: u32) -> Option<PortId>;

    /// The datapath's number of the port with this name.
    fn datapath_number(&self, name: &str) -> Option<u32>;

    /// The datapath's number of a bridge's port.
    fn datapath_number_of(&self, port: PortId) -> Option<u32>;

    /// The port that a packet with these values of a tunnel and this type comes from, if it came
    /// to where `port` listens; `None` if that is no tunnel.
    fn tunnel_source(
        &self,
        _port: PortId,
        _values: &TunnelValues,
        _packet_type: u32,
    ) -> Option<Option<PortId>> {
        None
    }

    /// What a port does with the values of a tunnel that a packet has, given the port that it
    /// came from and its IP header.
    fn tunnel_output(
        &self,
        _port: PortId,
        _values: &TunnelValues,
        _of_packet: (PortId, Option<InnerIp>),
    ) -> TunnelOutput {
        TunnelOutput::Untouched
    }

    /// What a native tunnel does with a packet that it sends; `None` if the port is none, and
    /// `Some(None)` if it drops the packet.
    fn tunnel_push(
        &self,
        _port: PortId,
        _values: &TunnelValues,
        _of_packet: (PortId, Leaving),
    ) -> Option<Option<NativePush>> {
        None
    }

    /// The datapath's number of the native tunnels that take a packet which leaves by a port.
    fn tunnel_end(&self, _port: PortId, _target: &OuterTarget) -> Option<u32> {
        None
    }

    /// The option of Geneve that a field is in a bridge.
    fn option(&self, _bridge: BridgeId, _field: FieldId) -> Option<OptionBits> {
        None
    }

    /// The datapath's numbers of walks that a trace froze.
    fn recirculations(&self, walks: &[FrozenTrace]) -> Vec<u32> {
        (1..).take(walks.len()).collect()
    }

    /// The walk that an earlier trace froze, by its number.
    fn frozen(&self, _number: u32) -> Option<FrozenTrace> {
        None
    }

    /// Whether the datapath puts labels in front of packets; where it does not, the slow path
    /// does that.
    fn adds_labels(&self) -> bool {
        true
    }

    /// The datapath's number of the state that is sent to a controller.
    fn sender(&self, _sender: Option<&Sender>) -> u32 {
        1
    }
}
