//! The section `[v2p]`: the switch's role in a fabric that caches virtual addresses.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde::Deserialize;
use thalweg_io::PortConfig;
use thalweg_packet::PortId;
use thalweg_switch::{V2pConfig, V2pMap, V2pRole};
use thalweg_v2p::{Address, LEARNING_PROBABILITY, Profile, Role};
use toml::Spanned;

use crate::map::read_map;
use crate::value::Number;
use crate::{Result, Source};

/// Entries that a cache can hold.
pub(crate) const CACHE_ENTRIES: std::ops::RangeInclusive<u64> = 0..=1 << 24;

/// Default number of mappings in a switch's cache.
pub(crate) const DEFAULT_ENTRIES: u32 = 4_096;

pub(crate) const ROLES: [(&str, V2pRole); 7] = [
    ("tor", V2pRole::Switch(Role::Tor)),
    ("gateway-tor", V2pRole::Switch(Role::GatewayTor)),
    ("spine", V2pRole::Switch(Role::Spine)),
    ("gateway-spine", V2pRole::Switch(Role::GatewaySpine)),
    ("core", V2pRole::Switch(Role::Core)),
    ("gateway", V2pRole::Gateway),
    ("host", V2pRole::Host),
];

pub(crate) const PROFILES: [(&str, Profile); 3] = [
    ("plus", Profile::Plus),
    ("paper", Profile::Paper),
    ("artifact", Profile::Artifact),
];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct V2pSection {
    role: Spanned<String>,
    address: Spanned<String>,
    map: Spanned<PathBuf>,
    profile: Option<Spanned<String>>,
    cache_entries: Option<Spanned<Number>>,
    learning_probability: Option<Spanned<f64>>,
    #[serde(default)]
    attached: BTreeMap<String, Spanned<String>>,
}

/// The switch's role and its map. The map is read at the start, and again when it has changed.
#[derive(Clone, Debug)]
pub struct V2pSettings {
    /// The role, with an empty map.
    pub config: V2pConfig,
    /// The map's file.
    pub map: PathBuf,
}

impl V2pSettings {
    /// The name of its role in a configuration.
    pub fn role_name(&self) -> &'static str {
        name_of(&ROLES, self.config.role)
    }

    /// The name of its profile.
    pub fn profile_name(&self) -> &'static str {
        name_of(&PROFILES, self.config.profile)
    }

    /// Reads the map; port names are those of `ports`.
    ///
    /// # Errors
    /// If it cannot be read, or contains something impossible.
    pub fn read_map(&self, ports: &[PortConfig]) -> Result<Arc<V2pMap>> {
        let number = |name: &str| number_of(ports, name);
        Ok(Arc::new(read_map(&self.map, &number)?))
    }
}

fn name_of<T: Copy + PartialEq>(all: &[(&'static str, T)], value: T) -> &'static str {
    let mut named = all.iter().filter(|(_, known)| *known == value);
    named.next().map_or("", |(name, _)| name)
}

fn number_of(ports: &[PortConfig], name: &str) -> Option<PortId> {
    let port = ports.iter().find(|port| port.name == name)?;
    Some(port.number)
}

impl Source<'_> {
    pub(crate) fn v2p(
        &self,
        section: &V2pSection,
        ports: &[PortConfig],
        seed: u64,
    ) -> Result<V2pSettings> {
        let role = self.one_of("role", &section.role, &ROLES)?;
        let profile = section.profile.as_ref();
        let profile = profile.map(|name| self.one_of("profile", name, &PROFILES));
        let entries = section.cache_entries.as_ref();
        let entries = entries.map(|said| self.number("cache_entries", said, CACHE_ENTRIES));
        let probability = match &section.learning_probability {
            None => LEARNING_PROBABILITY,
            Some(said) if (0.0..=1.0).contains(said.get_ref()) => *said.get_ref(),
            Some(said) => {
                let what = "learning_probability must be from 0 to 1";
                return Err(self.error(&said.span(), what));
            }
        };
        let mut attached = BTreeMap::new();
        for (name, address) in &section.attached {
            let Some(port) = number_of(ports, name) else {
                let what = format!("there is no port {name:?}; give the name of a [[port]]");
                return Err(self.error(&address.span(), what));
            };
            attached.insert(port, self.address(address)?);
        }
        let config = V2pConfig {
            role,
            address: self.address(&section.address)?,
            profile: profile.transpose()?.unwrap_or(Profile::Plus),
            cache_entries: entries
                .transpose()?
                .map_or(DEFAULT_ENTRIES, |said| said as u32),
            learning_probability: probability,
            attached,
            map: Arc::default(),
            seed,
        };
        let map = self.path(section.map.get_ref());
        Ok(V2pSettings { config, map })
    }

    fn one_of<T: Copy>(&self, key: &str, name: &Spanned<String>, all: &[(&str, T)]) -> Result<T> {
        let known = all.iter().find(|(known, _)| known == name.get_ref());
        known.map(|(_, value)| *value).ok_or_else(|| {
            let names: Vec<String> = all.iter().map(|(name, _)| format!("{name:?}")).collect();
            let (said, names) = (name.get_ref(), names.join(", "));
            let what = format!("there is no {key} {said:?}; choose one of {names}");
            self.error(&name.span(), what)
        })
    }

    fn address(&self, text: &Spanned<String>) -> Result<Address> {
        let address = text.get_ref().parse().ok().and_then(Address::new);
        address.ok_or_else(|| {
            let what = format!(
                "{:?} is no IP address; give one, not \"::\"",
                text.get_ref()
            );
            self.error(&text.span(), what)
        })
    }
}
