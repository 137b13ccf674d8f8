//! `[dashboard]`: a browser looks at a running switch.

use anyhow::{Result, anyhow};
use thalweg_config::Configuration;
use thalweg_dashboard::DashboardConfig;
use thalweg_switch::Switch;
use thalweg_vswitchd::dashboard::SwitchDashboard;
use thalweg_vswitchd::trace::FrozenTraces;
use tracing::info;

use super::control::RunNames;
use super::logging::module::DASHBOARD;

/// The dashboard; nothing without the section.
pub(super) struct Dashboard {
    running: Option<SwitchDashboard>,
    /// None are kept: nothing is asked about later passes.
    traces: FrozenTraces,
}

impl Dashboard {
    /// Starts the dashboard if the configuration has the section.
    ///
    /// # Errors
    /// If its address cannot be listened on.
    pub(super) fn start(config: &Configuration, switch: &Switch) -> Result<Dashboard> {
        let started = config.dashboard.map(|settings| {
            let dashboard = DashboardConfig {
                listen: settings.listen,
                allows_remote: settings.allows_remote,
            };
            SwitchDashboard::start(dashboard, switch)
        });
        let running = started.transpose();
        let running = running.map_err(|error| anyhow!("[dashboard]: {error}"))?;
        if let Some(running) = &running {
            info!(target: DASHBOARD, "dashboard at http://{}/", running.address());
        }
        Ok(Dashboard {
            running,
            traces: FrozenTraces::default(),
        })
    }

    /// Answers browsers that wait; returns whether there is more to do at once.
    pub(super) fn serve(&mut self, config: &Configuration, switch: &mut Switch) -> bool {
        let Some(running) = &mut self.running else {
            return false;
        };
        let names = RunNames {
            config,
            traces: &self.traces,
        };
        running.serve(switch, &names)
    }
}
