//! OpenFlow in a run: the server that clients and controllers speak with.

use anyhow::Result;
use thalweg_command::console::log;
use thalweg_command::failure::bad_input;
use thalweg_config::Configuration;
use thalweg_control::ServerError;
use thalweg_control::openflow::{FailMode, OpenFlowServer};
use thalweg_switch::{OpenFlowIdentity, Switch};

/// A server, if the configuration asks for one.
pub(super) struct OpenFlow {
    server: Option<OpenFlowServer>,
}

impl OpenFlow {
    /// Starts the server.
    ///
    /// # Errors
    /// If an address or a file cannot be used.
    pub(super) fn start(config: &Configuration, switch: &mut Switch) -> Result<OpenFlow> {
        let Some(settings) = &config.openflow else {
            return Ok(OpenFlow { server: None });
        };
        let mut identity = OpenFlowIdentity::new(settings.datapath_id, &config.name);
        let named = config.ports.iter();
        identity.port_names = named.map(|port| (port.number, port.name.clone())).collect();
        let plane = switch.open_flow(identity);
        let server = OpenFlowServer::start(plane, settings.server.clone());
        let server = server.map_err(|error| match error {
            ServerError::Thread(_) => anyhow::Error::new(error),
            error => bad_input(format!("[openflow]: {error}")),
        })?;
        if settings.server.controllers.is_empty() && settings.server.fail_mode == FailMode::Secure {
            log(&format!(
                "OpenFlow has no controller and fail_mode is secure: the switch forwards by the \
                 rules of its files and of clients at {}",
                server.addresses().join(", ")
            ));
        }
        Ok(OpenFlow {
            server: Some(server),
        })
    }

    /// Ends all connections; the switch then answers no more of their calls.
    pub(super) fn stop(&mut self, switch: &mut Switch) {
        if let Some(mut server) = self.server.take() {
            switch.close_openflow();
            server.stop();
        }
    }
}
