//! The names of a run's one bridge and of its ports, as commands have them.

use thalweg_config::Configuration;
use thalweg_packet::PortId;
use thalweg_pipeline::BridgeId;
use thalweg_vswitchd::trace::{FrozenTrace, FrozenTraces, TraceNames};

/// The bridge of a run.
pub(super) const BRIDGE: BridgeId = BridgeId(0);

/// The names that the configuration gives. A port has the same number in the datapath.
pub(in crate::run) struct RunNames<'a> {
    pub(in crate::run) config: &'a Configuration,
    pub(in crate::run) traces: &'a FrozenTraces,
}

impl RunNames<'_> {
    fn number_of(&self, name: &str) -> Option<PortId> {
        let mut ports = self.config.ports.iter();
        Some(ports.find(|port| port.name == name)?.number)
    }

    fn has(&self, port: PortId) -> bool {
        self.config.ports.iter().any(|known| known.number == port)
    }
}

impl TraceNames for RunNames<'_> {
    fn bridge(&self, name: &str) -> Option<BridgeId> {
        (name == self.config.name).then_some(BRIDGE)
    }

    fn bridge_name(&self, _: BridgeId) -> String {
        self.config.name.clone()
    }

    fn port(&self, _: BridgeId, name: &str) -> Option<PortId> {
        self.number_of(name)
    }

    fn port_name(&self, port: PortId) -> Option<String> {
        let mut ports = self.config.ports.iter();
        Some(ports.find(|known| known.number == port)?.name.clone())
    }

    fn has_datapath(&self, kind: Option<&str>) -> bool {
        kind.is_none()
    }

    fn port_of_datapath(&self, number: u32) -> Option<PortId> {
        Some(PortId(number)).filter(|port| self.has(*port))
    }

    fn datapath_number(&self, name: &str) -> Option<u32> {
        Some(self.number_of(name)?.0)
    }

    fn datapath_number_of(&self, port: PortId) -> Option<u32> {
        self.has(port).then_some(port.0)
    }

    fn recirculations(&self, walks: &[FrozenTrace]) -> Vec<u32> {
        self.traces.numbers(walks)
    }

    fn frozen(&self, number: u32) -> Option<FrozenTrace> {
        self.traces.get(number).cloned()
    }
}
