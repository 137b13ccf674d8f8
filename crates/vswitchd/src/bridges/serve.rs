//! The OpenFlow server of a bridge.

use std::collections::BTreeMap;
use std::sync::Arc;

use thalweg_control::openflow::{
    AgentLimits, ControllerTarget, FailMode, ListenAddress, OpenFlowClock, OpenFlowConfig,
    OpenFlowServer, Remote, SharedEar,
};
use thalweg_packet::Instant;
use thalweg_switch::{OpenFlowIdentity, OpenFlowTable, Switch};

use super::ear::LoggingEar;
use super::wanted::WantedTable;
use super::{Bridge, Bridges, WantedBridge};

impl Bridges {
    /// Starts the server of a bridge, or starts it again if its settings have changed.
    pub(super) fn serve(&mut self, wanted: &WantedBridge, switch: &mut Switch) {
        let folder = self.run_folder.clone();
        let Some(bridge) = self.by_name.get_mut(&wanted.name) else {
            return;
        };
        let is_same = bridge.openflow == wanted.openflow && !bridge.is_renumbered(wanted);
        if bridge.server.is_some() && is_same {
            return;
        }
        let is_resumed = self.resumed.contains(&wanted.name) || bridge.stands_alone();
        bridge.stop_server(switch);
        bridge.datapath_id = wanted
            .datapath_id
            .unwrap_or_else(|| number_of(bridge.mac.0));
        if bridge.openflow.is_controlled() != wanted.openflow.is_controlled() {
            // As in Open vSwitch: what controllers set up goes with the last of them, and the
            // first of them finds nothing.
            switch.clear_bridge(bridge.id);
        }
        bridge.openflow = wanted.openflow.clone();
        bridge.reached.clear();
        let mut complaints = Vec::new();
        let mut config = OpenFlowConfig {
            listen: vec![unix(&folder.join(format!("{}.mgmt", wanted.name)))],
            snoop: vec![unix(&folder.join(format!("{}.snoop", wanted.name)))],
            fail_mode: wanted.openflow.fail_mode,
            is_resumed,
            versions: wanted.openflow.versions,
            agent: AgentLimits {
                bundle_timeout: wanted.openflow.bundle_timeout,
                ..AgentLimits::default()
            },
            // The operator wrote the address.
            allows_remote: true,
            ..OpenFlowConfig::default()
        };
        for controller in &wanted.openflow.controllers {
            if let Ok(address) = controller.target.parse::<Remote>() {
                bridge.reached.push(controller.uuid);
                config.controllers.push(ControllerTarget {
                    address: address.relative_to(&folder),
                    pace: Some(controller.pace),
                });
            } else if let Ok(address) = controller.target.parse::<ListenAddress>() {
                // Those who connect share one limit.
                config.packet_rate = controller.pace.packet_rate;
                config.listen.push(address.relative_to(&folder));
            } else {
                complaints.push(format!("controller {:?} is no address", controller.target));
            }
        }
        let plane = switch.open_flow(bridge.id, identity_of(bridge, wanted));
        let ear: SharedEar = Arc::new(LoggingEar {
            log: self.log.clone(),
            bridge: wanted.name.clone(),
        });
        let clock = switch.clock();
        let clock: OpenFlowClock = Arc::new(move || clock.now() - Instant::ZERO);
        match OpenFlowServer::start_by(plane, config, clock, Some(ear)) {
            Ok(server) => bridge.server = Some(server),
            Err(error) => {
                switch.close_openflow(bridge.id);
                complaints.push(error.to_string());
            }
        }
        bridge.error = (!complaints.is_empty()).then(|| complaints.join("; "));
    }
}

impl Bridge {
    /// Whether its server has given it the rule of a bridge without controllers. The next server
    /// must not add it again: clients may have replaced it.
    fn stands_alone(&self) -> bool {
        let is_standalone = self.openflow.fail_mode == FailMode::Standalone;
        self.server.is_some() && is_standalone && !self.openflow.is_controlled()
    }

    fn is_renumbered(&self, wanted: &WantedBridge) -> bool {
        wanted.datapath_id.unwrap_or_else(|| number_of(self.mac.0)) != self.datapath_id
    }

    /// Ends the server and its connections.
    pub(super) fn stop_server(&mut self, switch: &mut Switch) {
        if let Some(mut server) = self.server.take() {
            // In this order: a connection may wait for the switch.
            switch.close_openflow(self.id);
            server.stop();
        }
    }
}

/// What the server tells of a bridge.
fn identity_of(bridge: &Bridge, wanted: &WantedBridge) -> OpenFlowIdentity {
    let mut identity = OpenFlowIdentity::new(bridge.datapath_id, &wanted.name);
    if let Some(description) = &wanted.description {
        identity.description.datapath.clone_from(description);
    }
    identity
}

/// The tables as the switch wants them.
pub(super) fn tables(wanted: &BTreeMap<u8, WantedTable>) -> BTreeMap<u8, OpenFlowTable> {
    let mut tables = BTreeMap::new();
    for (number, table) in wanted {
        let mut configured = OpenFlowTable {
            name: table.name.clone(),
            ..OpenFlowTable::default()
        };
        configured.limit.rules = table.rules;
        configured.limit.evicts = table.evicts;
        let groups = table.groups.iter();
        configured.limit.groups = groups
            .filter_map(|text| thalweg_pipeline::text::parse_subfield(text).ok())
            .collect();
        tables.insert(*number, configured);
    }
    tables
}

/// An address as a number, the datapath's by default.
fn number_of(mac: [u8; 6]) -> u64 {
    mac.iter()
        .fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn unix(path: &std::path::Path) -> ListenAddress {
    let text = format!("punix:{}", path.display());
    text.parse().expect("a path makes an address")
}
