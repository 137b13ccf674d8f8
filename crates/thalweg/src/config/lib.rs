//! The configuration of `thalweg run`: from TOML to the limits that the crates take.
//!
//! It is a library of its own beside the program, so that it can be fuzzed like every other parser
//! of what comes from outside.
//!
//! Every section but `[[port]]` is optional, and unknown keys are errors, as a key that is
//! silently ignored is worse. What later versions will know is refused by name. Each error says
//! file, line and column, and what to do.

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use thalweg_datapath::MaintainerKind;
use thalweg_io::{PortConfig, PortKind};
use thalweg_packet::PortId;
use thalweg_switch::SwitchConfig;
use toml::Spanned;

/// A configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{}: {source}; check the path", .path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// The operating system's answer.
        source: std::io::Error,
    },
    /// The text says something that cannot be done.
    #[error("{file}:{line}:{column}: {what}")]
    Refused {
        /// The file's name.
        file: String,
        /// The line, from 1.
        line: usize,
        /// The column in characters, from 1.
        column: usize,
        /// What is wrong, and what to do.
        what: String,
    },
}

type Result<T> = std::result::Result<T, ConfigError>;

/// A switch, as it is to be run.
#[derive(Debug)]
pub struct Configuration {
    /// What it is called.
    pub name: String,
    /// Limits of pipeline, caches and workers.
    pub switch: SwitchConfig,
    /// Its ports.
    pub ports: Vec<PortConfig>,
    /// Files of rules.
    pub rules: Vec<PathBuf>,
    /// Files of groups.
    pub groups: Vec<PathBuf>,
    /// Whether the run ends when all captures have been read.
    pub ends_when_finished: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    switch: SwitchSection,
    #[serde(default)]
    cache: CacheSection,
    #[serde(default)]
    limits: LimitsSection,
    port: Spanned<Vec<PortSection>>,
    // Recognised, to be refused by name.
    openflow: Option<Spanned<toml::Value>>,
    p4: Option<Spanned<toml::Value>>,
    p4runtime: Option<Spanned<toml::Value>>,
    metrics: Option<Spanned<toml::Value>>,
    dashboard: Option<Spanned<toml::Value>>,
    v2p: Option<Spanned<toml::Value>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct SwitchSection {
    name: Option<String>,
    workers: Option<Spanned<usize>>,
    #[serde(default)]
    rules: Vec<PathBuf>,
    #[serde(default)]
    groups: Vec<PathBuf>,
    maintainer: Option<Spanned<String>>,
    mode: Option<Spanned<String>>,
    seed: Option<u64>,
    #[serde(default)]
    end_when_finished: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct CacheSection {
    #[serde(default)]
    microflow: MicroflowSection,
    #[serde(default)]
    megaflow: MegaflowSection,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct MicroflowSection {
    entries: Option<usize>,
    admit_one_in: Option<u32>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct MegaflowSection {
    entries: Option<usize>,
    bytes: Option<usize>,
    masks: Option<usize>,
    classifier: Option<Spanned<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct LimitsSection {
    rules: Option<usize>,
    groups: Option<usize>,
    stations: Option<usize>,
    packets_per_worker: Option<usize>,
    packet_bytes: Option<usize>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PortSection {
    number: Spanned<u32>,
    name: Option<String>,
    kind: Option<Spanned<String>>,
    interface: Option<String>,
    mtu_bytes: Option<u32>,
    read: Option<PathBuf>,
    write: Option<PathBuf>,
}

/// The text and its name, to say where something is.
struct Source<'a> {
    name: String,
    text: &'a str,
    folder: &'a Path,
}

/// The largest number of a port (OpenFlow 1.0's `OFPP_MAX`, less one); above are reserved names.
const LARGEST_PORT: u32 = 0xfeff;

/// More threads than any machine that this is meant for has.
const MOST_WORKERS: usize = 256;

impl Configuration {
    /// Reads a configuration file; paths in it are relative to its folder.
    ///
    /// # Errors
    /// If it cannot be read, or says something that cannot be done.
    pub fn read(path: &Path) -> Result<Configuration> {
        let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Unreadable {
            path: path.to_owned(),
            source,
        })?;
        let folder = path.parent().unwrap_or(Path::new(""));
        Configuration::parse(&path.display().to_string(), folder, &text)
    }

    /// Reads a text; `name` is what errors call it, and paths in it are relative to `folder`.
    ///
    /// # Errors
    /// If it says something that cannot be done.
    pub fn parse(name: &str, folder: &Path, text: &str) -> Result<Configuration> {
        let source = Source {
            name: name.to_owned(),
            text,
            folder,
        };
        let file: File = toml::from_str(text).map_err(|error| {
            let span = error.span().unwrap_or(0..0);
            source.error(&span, error.message().replace('\n', "; "))
        })?;
        source.refuse_later_sections(&file)?;
        Ok(Configuration {
            name: file.switch.name.clone().unwrap_or("thalweg".to_owned()),
            switch: source.switch(&file)?,
            ports: source.ports(&file.port)?,
            rules: source.paths(&file.switch.rules),
            groups: source.paths(&file.switch.groups),
            ends_when_finished: file.switch.end_when_finished,
        })
    }
}

impl Source<'_> {
    fn error(&self, span: &Range<usize>, what: impl std::fmt::Display) -> ConfigError {
        let before = &self.text[..span.start.min(self.text.len())];
        let line = before.matches('\n').count() + 1;
        let start = before.rfind('\n').map_or(0, |end| end + 1);
        let column = before[start..].chars().count() + 1;
        ConfigError::Refused {
            file: self.name.clone(),
            line,
            column,
            what: what.to_string(),
        }
    }

    fn path(&self, path: &Path) -> PathBuf {
        self.folder.join(path)
    }

    fn paths(&self, paths: &[PathBuf]) -> Vec<PathBuf> {
        paths.iter().map(|path| self.path(path)).collect()
    }

    fn refuse_later_sections(&self, file: &File) -> Result<()> {
        let later = [
            ("openflow", &file.openflow),
            ("p4", &file.p4),
            ("p4runtime", &file.p4runtime),
            ("metrics", &file.metrics),
            ("dashboard", &file.dashboard),
            ("v2p", &file.v2p),
        ];
        for (name, section) in later {
            if let Some(section) = section {
                let what = format!("[{name}] is not supported yet; remove the section");
                return Err(self.error(&section.span(), what));
            }
        }
        Ok(())
    }

    fn switch(&self, file: &File) -> Result<SwitchConfig> {
        let mut config = SwitchConfig::default();
        let (switch, limits) = (&file.switch, &file.limits);
        if let Some(workers) = &switch.workers {
            config.workers = *workers.get_ref();
            if !(1..=MOST_WORKERS).contains(&config.workers) {
                let what = format!("workers must be 1 to {MOST_WORKERS}");
                return Err(self.error(&workers.span(), what));
            }
        }
        if let Some(mode) = &switch.mode {
            self.check_mode(mode)?;
        }
        if let Some(maintainer) = &switch.maintainer {
            config.datapath.maintainer = self.maintainer(maintainer)?;
        }
        if let Some(classifier) = &file.cache.megaflow.classifier {
            self.check_classifier(classifier)?;
        }
        let seed = switch.seed.unwrap_or(0);
        (config.pipeline.seed, config.datapath.seed) = (seed, seed);
        let (microflow, megaflow) = (&file.cache.microflow, &file.cache.megaflow);
        let datapath = &mut config.datapath;
        set(&mut datapath.microflow.entries, microflow.entries);
        set(&mut datapath.microflow.admit_one_in, microflow.admit_one_in);
        set(&mut datapath.megaflow.entries, megaflow.entries);
        set(&mut datapath.megaflow.bytes, megaflow.bytes);
        set(&mut datapath.megaflow.masks, megaflow.masks);
        set(&mut config.pipeline.rules, limits.rules);
        set(&mut config.pipeline.groups, limits.groups);
        set(&mut config.pipeline.stations, limits.stations);
        set(&mut config.packets_per_worker, limits.packets_per_worker);
        set(&mut config.packet_bytes, limits.packet_bytes);
        Ok(config)
    }

    fn check_mode(&self, mode: &Spanned<String>) -> Result<()> {
        let what = match mode.get_ref().as_str() {
            "megaflows" => return Ok(()),
            "computational-flows" => {
                "mode \"computational-flows\" is not supported yet; use \"megaflows\"".to_owned()
            }
            other => format!("there is no mode {other:?}; use \"megaflows\""),
        };
        Err(self.error(&mode.span(), what))
    }

    fn maintainer(&self, name: &Spanned<String>) -> Result<MaintainerKind> {
        name.get_ref()
            .parse()
            .map_err(|error| match name.get_ref().as_str() {
                "incremental" | "barrier" => {
                    let what = format!(
                        "maintainer {:?} is not supported yet; use \"revalidate\"",
                        name.get_ref()
                    );
                    self.error(&name.span(), what)
                }
                _ => self.error(&name.span(), error),
            })
    }

    fn check_classifier(&self, name: &Spanned<String>) -> Result<()> {
        let what = match name.get_ref().as_str() {
            "auto" | "tuple_space" => return Ok(()),
            "bloom" | "learned" => format!(
                "classifier {:?} is not supported for megaflows yet; use \"tuple_space\" or \
                 \"auto\"",
                name.get_ref()
            ),
            other => format!("there is no classifier {other:?}; use \"tuple_space\" or \"auto\""),
        };
        Err(self.error(&name.span(), what))
    }

    fn ports(&self, sections: &Spanned<Vec<PortSection>>) -> Result<Vec<PortConfig>> {
        let mut numbers = HashMap::new();
        let mut names = HashMap::new();
        let mut ports = Vec::new();
        if sections.get_ref().is_empty() {
            return Err(self.error(&sections.span(), "a switch needs a port: add [[port]]"));
        }
        for section in sections.get_ref() {
            let (number, span) = (*section.number.get_ref(), section.number.span());
            if !(1..=LARGEST_PORT).contains(&number) {
                let what = format!("port {number}: numbers are 1 to {LARGEST_PORT}");
                return Err(self.error(&span, what));
            }
            if numbers.insert(number, ()).is_some() {
                let what = format!("there are two ports {number}; give each its own number");
                return Err(self.error(&span, what));
            }
            let name = section.name.clone().unwrap_or(format!("port{number}"));
            if let Some(other) = names.insert(name.clone(), number) {
                let what = format!("ports {other} and {number} are both called {name:?}");
                return Err(self.error(&span, what));
            }
            ports.push(self.port(section, name)?);
        }
        Ok(ports)
    }

    fn port(&self, section: &PortSection, name: String) -> Result<PortConfig> {
        let kind = match &section.kind {
            None => PortKind::default(),
            Some(kind) => kind
                .get_ref()
                .parse()
                .map_err(|error: thalweg_io::Error| self.error(&kind.span(), error))?,
        };
        Ok(PortConfig {
            kind,
            interface: section.interface.clone(),
            mtu_bytes: section.mtu_bytes,
            read: section.read.as_deref().map(|path| self.path(path)),
            write: section.write.as_deref().map(|path| self.path(path)),
            ..PortConfig::new(PortId(*section.number.get_ref()), &name)
        })
    }
}

/// Takes over what was said.
fn set<T: Copy>(limit: &mut T, said: Option<T>) {
    *limit = said.unwrap_or(*limit);
}

#[cfg(test)]
mod tests;
