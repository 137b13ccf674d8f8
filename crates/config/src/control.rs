//! The section `[control]`: where `thalweg ctl` asks the running switch.

use std::path::PathBuf;

use serde::Deserialize;

use crate::Source;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ControlSection {
    socket: Option<PathBuf>,
}

impl Source<'_> {
    /// The control socket. The default is beside the configuration, named after the switch.
    pub(crate) fn control(&self, section: &ControlSection, name: &str) -> PathBuf {
        match &section.socket {
            Some(path) => self.path(path),
            None => {
                let file = name.replace(['/', '\0'], "_");
                self.path(format!("{file}.ctl").as_ref())
            }
        }
    }
}
