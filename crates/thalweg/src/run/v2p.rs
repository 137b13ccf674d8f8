//! Sets up the switch's role in a fabric that caches virtual addresses, and its map.

use anyhow::Result;
use thalweg_config::Configuration;
use thalweg_switch::{Switch, V2pConfig};

use thalweg_command::failure::{self, bad_input};
use tracing::{info, warn};

use super::logging::module::FABRIC;

/// The role with its map, if the configuration has one.
///
/// # Errors
/// If the map cannot be read or does not include this switch.
pub(super) fn part(config: &Configuration) -> Result<Option<V2pConfig>> {
    let Some(settings) = &config.v2p else {
        return Ok(None);
    };
    let map = settings.read_map(&config.ports).map_err(bad_input)?;
    let part = settings.config.clone();
    Ok(Some(V2pConfig { map, ..part }))
}

/// Reads the map again; an unusable one changes nothing.
pub(super) fn reload(config: &Configuration, switch: &Switch) {
    let Some(settings) = &config.v2p else {
        return;
    };
    let read = settings.read_map(&config.ports).map_err(bad_input);
    let version = read.and_then(|map| {
        let version = map.version.0;
        let path = settings.map.display();
        let set = switch.set_v2p_map(map);
        set.map_err(|error| bad_input(format!("{path}: {error}")))?;
        Ok(version)
    });
    match version {
        Ok(version) => info!(target: FABRIC, "the map of the fabric is at version {version}"),
        Err(error) => {
            let text = failure::text_of(&error);
            warn!(target: FABRIC, "the map of the fabric stays as it was: {text}");
        }
    }
}
