//! The section `[dashboard]`: where a browser looks at the switch.

use std::net::SocketAddr;

use serde::Deserialize;
use toml::Spanned;

use crate::{Result, Source};

/// Where the dashboard is if the section does not say.
pub(crate) const LISTEN: &str = "127.0.0.1:8080";

/// Where the dashboard is, and who may look at it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DashboardSettings {
    /// The address that it listens on.
    pub listen: SocketAddr,
    /// Whether that may be an address which other machines reach.
    pub allows_remote: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DashboardSection {
    listen: Option<Spanned<String>>,
    #[serde(default)]
    allow_remote: bool,
}

impl Source<'_> {
    /// Where the dashboard is.
    pub(crate) fn dashboard(&self, section: &DashboardSection) -> Result<DashboardSettings> {
        let allows_remote = section.allow_remote;
        let Some(said) = &section.listen else {
            let listen = LISTEN.parse().expect("it is an address with a port");
            return Ok(DashboardSettings {
                listen,
                allows_remote,
            });
        };
        let listen: SocketAddr = said.get_ref().parse().map_err(|_| {
            let what = format!(
                "`{}` is not an address with a port, such as {LISTEN} or [::1]:8080",
                said.get_ref()
            );
            self.error(&said.span(), what)
        })?;
        if !listen.ip().to_canonical().is_loopback() && !allows_remote {
            let what = format!(
                "{listen} is not a loopback address, and the dashboard has neither encryption nor \
                 a password; listen on {LISTEN}, or set allow_remote = true"
            );
            return Err(self.error(&said.span(), what));
        }
        Ok(DashboardSettings {
            listen,
            allows_remote,
        })
    }
}
