//! OpenFlow in a run: the server that clients and controllers speak with.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::Result;
use thalweg_command::failure::bad_input;
use thalweg_config::Configuration;
use thalweg_control::ServerError;
use thalweg_control::openflow::{FailMode, OpenFlowConfig, OpenFlowServer};
use thalweg_pipeline::BridgeId;
use thalweg_switch::{OpenFlowCounters, OpenFlowIdentity, PortIdentity, Switch};
use tracing::{info, warn};

use super::logging::module::OPENFLOW;

/// How long controllers may take to connect before their absence is logged.
const PATIENCE: Duration = Duration::from_secs(5);

/// A server, if the configuration asks for one.
pub(super) struct OpenFlow {
    server: Option<OpenFlowServer>,
    /// The line for the log when no controller is there; `None` if none is configured.
    without_controller: Option<String>,
    /// Whether a controller was there when it was logged last.
    had_controller: Option<bool>,
    started: Instant,
}

impl OpenFlow {
    /// Starts the server; `is_resumed` says whether rules will be restored that a former server
    /// set up.
    ///
    /// # Errors
    /// If an address or a file cannot be used.
    pub(super) fn start(
        config: &Configuration,
        is_resumed: bool,
        switch: &mut Switch,
    ) -> Result<OpenFlow> {
        let Some(settings) = &config.openflow else {
            return Ok(OpenFlow {
                server: None,
                without_controller: None,
                had_controller: None,
                started: Instant::now(),
            });
        };
        let identity = OpenFlowIdentity::new(settings.datapath_id, &config.name);
        for port in &config.ports {
            let name = port.name.clone();
            let identity = PortIdentity {
                name,
                ..PortIdentity::default()
            };
            switch.set_port_identity(port.number, identity);
        }
        let plane = switch.open_flow(BridgeId(0), identity);
        switch.set_openflow_tables(BridgeId(0), &settings.tables);
        let asked = OpenFlowConfig {
            is_resumed,
            ..settings.server.clone()
        };
        let server = OpenFlowServer::start(plane, asked);
        let server = server.map_err(|error| match error {
            ServerError::Thread(_) => anyhow::Error::new(error),
            error => bad_input(format!("[openflow]: {error}")),
        })?;
        if settings.server.controllers.is_empty() && settings.server.fail_mode == FailMode::Secure {
            warn!(
                target: OPENFLOW,
                "OpenFlow has no controller and fail_mode is secure: the switch forwards by the \
                 rules of its files and of clients at {}",
                server.addresses().join(", ")
            );
        }
        let controllers = settings.server.controllers.iter();
        let controllers: Vec<String> = controllers
            .map(|target| target.address.to_string())
            .collect();
        let text = format!(
            "OpenFlow: no controller of {} speaks with the switch; {}",
            controllers.join(", "),
            match settings.server.fail_mode {
                FailMode::Secure =>
                    "fail_mode is secure: the rules stay, what they send to the \
                                     controller is lost",
                FailMode::Standalone =>
                    "fail_mode is standalone: the switch forwards like a \
                                         learning switch",
            }
        );
        Ok(OpenFlow {
            server: Some(server),
            without_controller: (!controllers.is_empty()).then_some(text),
            had_controller: None,
            started: Instant::now(),
        })
    }

    /// Whether the server has set up what it sets up at its start.
    pub(super) fn has_begun(&self) -> bool {
        self.server.as_ref().is_none_or(OpenFlowServer::has_begun)
    }

    /// Logs that controllers came or went.
    pub(super) fn look(&mut self) {
        let (Some(server), Some(text)) = (&self.server, &self.without_controller) else {
            return;
        };
        let has_controller = server.has_controller();
        let is_early = self.had_controller.is_none() && self.started.elapsed() < PATIENCE;
        if self.had_controller == Some(has_controller) || is_early && !has_controller {
            return;
        }
        match has_controller {
            true => info!(target: OPENFLOW, "OpenFlow: a controller speaks with the switch"),
            false => warn!(target: OPENFLOW, "{text}"),
        }
        self.had_controller = Some(has_controller);
    }

    /// The counters; empty without a server.
    pub(super) fn counts(&self, switch: &Switch) -> BTreeMap<&'static str, u64> {
        let Some(server) = &self.server else {
            return BTreeMap::new();
        };
        let of_switch = switch.openflow_counters(BridgeId(0)).unwrap_or_default();
        counts_of(server, &of_switch)
    }

    /// Ends all connections; the switch then answers no more of their calls. Returns the counters.
    pub(super) fn stop(&mut self, switch: &mut Switch) -> BTreeMap<&'static str, u64> {
        let Some(mut server) = self.server.take() else {
            return BTreeMap::new();
        };
        let of_switch = switch.openflow_counters(BridgeId(0)).unwrap_or_default();
        switch.close_openflow(BridgeId(0));
        server.stop();
        counts_of(&server, &of_switch)
    }
}

/// Counters of a server and of the switch, by name.
fn counts_of(server: &OpenFlowServer, of_switch: &OpenFlowCounters) -> BTreeMap<&'static str, u64> {
    let (server, agent) = (server.counters(), server.counters().agent);
    BTreeMap::from([
        ("connections_accepted", server.accepted),
        ("connections_refused", server.refused),
        ("controllers_connected", server.connected),
        ("controllers_unreachable", server.unreachable),
        ("handshakes_failed", server.failed_handshakes),
        ("messages_received", agent.received),
        ("messages_sent", agent.sent),
        ("errors_sent", agent.errors),
        ("changes_done", agent.changes_done),
        ("changes_refused", agent.changes_refused),
        ("packet_ins_slow", agent.packets_dropped),
        ("packet_ins_limited", agent.packets_limited),
        ("packet_ins_refused", of_switch.packet_ins_refused),
        ("events_refused", of_switch.events_refused),
    ])
}
