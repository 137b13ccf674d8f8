//! Metrics, where the database's `other_config:thalweg-metrics` names an address.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use thalweg_metrics::{MetricsDesk, MetricsServer, PortLabel, Snapshot};
use thalweg_packet::PortId;
use thalweg_switch::Switch;

use crate::bridges::{Bridges, Complaint};

/// The key of `Open_vSwitch.other_config`.
pub(super) const KEY: &str = "thalweg-metrics";

/// The server of metrics, as far as the database asks for one.
#[derive(Debug, Default)]
pub(super) struct DaemonMetrics {
    running: Option<(MetricsServer, MetricsDesk)>,
    /// What the database says, as it was followed.
    followed: Option<String>,
    complaint: Option<String>,
}

impl DaemonMetrics {
    /// Follows the database's setting; returns the complaint about it, if there is one.
    pub(super) fn follow(&mut self, said: Option<&str>, switch: &Switch) -> Option<Complaint> {
        if self.followed.as_deref() != said {
            // The old server has closed its socket before another one opens it.
            self.running = None;
            let started = said.map(|said| start(said, switch));
            (self.running, self.complaint) = match started.transpose() {
                Ok(running) => (running, None),
                Err(complaint) => (None, Some(complaint)),
            };
            self.followed = said.map(str::to_owned);
        }
        self.complaint.clone().map(Complaint::warning)
    }

    /// Where metrics are read, if they are.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        self.running.as_ref().map(|(server, _)| server.address())
    }

    /// Answers readers that wait.
    pub(super) fn serve(&mut self, bridges: &Bridges, switch: &mut Switch) {
        if let Some((_, desk)) = &mut self.running {
            desk.serve(|| Snapshot::take(switch, labels(bridges)));
        }
    }
}

fn start(said: &str, switch: &Switch) -> Result<(MetricsServer, MetricsDesk), String> {
    let wrong = |error: &dyn std::fmt::Display| format!("other_config:{KEY}={said}: {error}");
    let address: SocketAddr = said.parse().map_err(|_| {
        wrong(&"not an address with a port, such as 127.0.0.1:9200; metrics are not served")
    })?;
    let interrupter = switch.interrupter();
    let started = MetricsServer::start(address, move || interrupter.interrupt());
    started.map_err(|error| wrong(&format!("cannot listen ({error}); choose another address")))
}

fn labels(bridges: &Bridges) -> BTreeMap<PortId, PortLabel> {
    let bridges = bridges.by_name.iter();
    let labels = bridges.flat_map(|(bridge_name, bridge)| {
        let interfaces = bridge.interfaces.iter();
        interfaces.filter_map(move |(name, interface)| {
            let label = PortLabel {
                bridge: bridge_name.clone(),
                name: name.clone(),
            };
            Some((bridge.id.port(interface.number?), label))
        })
    });
    labels.collect()
}
