//! `[metrics]`: Prometheus reads what a running switch counts.

use anyhow::{Context, Result};
use thalweg_config::Configuration;
use thalweg_metrics::{MetricsDesk, MetricsServer, PortLabel, Snapshot};
use thalweg_switch::Switch;
use tracing::info;

use super::logging::module::METRICS;

/// The server and its desk; nothing without the section.
pub(super) struct Metrics(Option<(MetricsServer, MetricsDesk)>);

impl Metrics {
    /// Starts the server if the configuration has the section.
    ///
    /// # Errors
    /// If its address cannot be listened on.
    pub(super) fn start(config: &Configuration, switch: &Switch) -> Result<Metrics> {
        let Some(listen) = config.metrics else {
            return Ok(Metrics(None));
        };
        let interrupter = switch.interrupter();
        let started = MetricsServer::start(listen, move || interrupter.interrupt());
        let refused = || format!("[metrics]: cannot listen on {listen}; choose another address");
        let (server, desk) = started.with_context(refused)?;
        info!(target: METRICS, "metrics at http://{}/metrics", server.address());
        Ok(Metrics(Some((server, desk))))
    }

    /// Answers readers that wait.
    pub(super) fn serve(&mut self, config: &Configuration, switch: &mut Switch) {
        if let Some((_, desk)) = &mut self.0 {
            desk.serve(|| {
                let ports = config.ports.iter().map(|port| {
                    let label = PortLabel {
                        bridge: config.name.clone(),
                        name: port.name.clone(),
                    };
                    (port.number, label)
                });
                Snapshot::take(switch, ports.collect())
            });
        }
    }
}
