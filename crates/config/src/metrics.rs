//! The section `[metrics]`: where Prometheus reads.

use std::net::SocketAddr;

use serde::Deserialize;
use toml::Spanned;

use crate::{Result, Source};

/// Where metrics are read if the section does not say.
pub(crate) const LISTEN: &str = "127.0.0.1:9200";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MetricsSection {
    listen: Option<Spanned<String>>,
}

impl Source<'_> {
    /// Where metrics are read.
    pub(crate) fn metrics(&self, section: &MetricsSection) -> Result<SocketAddr> {
        let Some(listen) = &section.listen else {
            return Ok(LISTEN.parse().expect("it is an address with a port"));
        };
        listen.get_ref().parse().map_err(|_| {
            let what = format!(
                "`{}` is not an address with a port, such as {LISTEN} or [::1]:9200",
                listen.get_ref()
            );
            self.error(&listen.span(), what)
        })
    }
}
