//! The dashboard, where the database's `other_config:thalweg-dashboard` names an address.

use std::net::SocketAddr;

use thalweg_dashboard::DashboardConfig;
use thalweg_switch::Switch;

use crate::bridges::{Bridges, Complaint};
use crate::dashboard::SwitchDashboard;

/// The key of `Open_vSwitch.other_config` that names the address.
pub(super) const KEY: &str = "thalweg-dashboard";
/// The key that lets other machines read it, if it is `true`.
pub(super) const REMOTE_KEY: &str = "thalweg-dashboard-remote";

/// What the database says: the address, and whether other machines may read.
type Said = (Option<String>, Option<String>);

/// The dashboard, as far as the database asks for one.
#[derive(Debug, Default)]
pub(super) struct DaemonDashboard {
    running: Option<SwitchDashboard>,
    /// What the database says, as it was followed.
    followed: Said,
    complaint: Option<String>,
}

impl DaemonDashboard {
    /// Follows the database's settings; returns the complaint about them, if there is one.
    pub(super) fn follow(&mut self, said: Said, switch: &Switch) -> Option<Complaint> {
        if self.followed != said {
            // The old server has closed its socket before another one opens it.
            self.running = None;
            let (address, remote) = &said;
            let allows_remote = remote.as_deref() == Some("true");
            let started = address.as_deref();
            let started = started.map(|address| start(address, allows_remote, switch));
            (self.running, self.complaint) = match started.transpose() {
                Ok(running) => (running, None),
                Err(complaint) => (None, Some(complaint)),
            };
            self.followed = said;
        }
        self.complaint.clone().map(Complaint::warning)
    }

    /// Where the dashboard is, if there is one.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        self.running.as_ref().map(SwitchDashboard::address)
    }

    /// Answers browsers that wait; returns whether there is more to do at once.
    pub(super) fn serve(&mut self, bridges: &Bridges, switch: &mut Switch) -> bool {
        let running = self.running.as_mut();
        running.is_some_and(|running| running.serve(switch, bridges))
    }
}

fn start(said: &str, allows_remote: bool, switch: &Switch) -> Result<SwitchDashboard, String> {
    let wrong = |error: &dyn std::fmt::Display| format!("other_config:{KEY}={said}: {error}");
    let listen: SocketAddr = said.parse().map_err(|_| {
        wrong(&"not an address with a port, such as 127.0.0.1:8080; there is no dashboard")
    })?;
    let config = DashboardConfig {
        listen,
        allows_remote,
    };
    SwitchDashboard::start(config, switch).map_err(|error| {
        let key = match allows_remote {
            true => String::new(),
            false => format!(" ({REMOTE_KEY}=true allows them)"),
        };
        match error {
            error @ thalweg_dashboard::DashboardError::Remote(_) => wrong(&format!("{error}{key}")),
            error => wrong(&error),
        }
    })
}
