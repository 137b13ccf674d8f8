//! The section `[process]`: what the process may do while it runs.

use serde::Deserialize;

/// What the process may do while it runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcessSettings {
    /// Whether it keeps the capabilities that it was started with.
    #[serde(default, rename = "keep_capabilities")]
    pub keeps_capabilities: bool,
    /// Whether it may make all system calls.
    #[serde(default, rename = "keep_system_calls")]
    pub keeps_system_calls: bool,
}
