//! Reads the configuration of `thalweg run` from TOML; `plan.rs` reads the plans of
//! `thalweg simulate`.
//!
//! It is a separate library beside the program, so that it can be fuzzed like every parser of
//! outside input.
//!
//! Every section except `[[port]]` is optional. Unknown keys are errors, because a silently
//! ignored key is worse; so are keys that a kind of port does not use. Keys of planned
//! features are refused by name. Each error gives file, line and column, and says how to
//! correct it.
//!
//! `reload.rs` handles a configuration that is read again while its switch runs.
//!
//! 1. No text makes the reader panic.
//! 2. Numbers have limits, given by the constants here, so no size overflows. Whether memory
//!    suffices is checked when the switch starts.

mod conntrack;
mod control;
mod dashboard;
mod error;
mod map;
mod metrics;
mod openflow;
mod p4;
mod plan;
mod process;
mod reference;
mod reload;
mod snapshot;
mod v2p;
mod value;

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{Error, ErrorKind, Read};
use std::net::SocketAddr;
use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use thalweg_datapath::{
    MaintainerKind, MegaflowClassifier, Mode, UnknownMaintainer, UnknownMegaflowClassifier,
    UnknownMode,
};
use thalweg_io::{PortConfig, PortKind, ReceiveMethod, XdpSettings};
use thalweg_packet::PortId;
use thalweg_pipeline::{ClassifierKind, UnknownClassifier};
use thalweg_switch::{SnapshotSettings, SwitchConfig};
use toml::Spanned;

use crate::conntrack::ConntrackSection;
use crate::control::ControlSection;
use crate::dashboard::DashboardSection;
pub use crate::dashboard::DashboardSettings;
pub use crate::error::ConfigError;
pub use crate::map::{parse_map, read_map};
use crate::metrics::MetricsSection;
use crate::openflow::OpenFlowSection;
pub use crate::openflow::OpenFlowSettings;
pub use crate::p4::{P4Cache, P4Program, P4Settings};
use crate::p4::{P4RuntimeSection, P4Section};
pub use crate::plan::{
    CacheAmount, CacheSize, Generator, Machines, MemoryWeights, Plan, PlanProfile, PlannedElement,
    PlannedFailure, PlannedGatewayMove, PlannedTopology, SchemeKind, TrafficSource, Transport,
    Workload,
};
pub use crate::process::ProcessSettings;
pub use crate::reference::{KeyReference, configuration_page, key_references};
use crate::snapshot::SnapshotSection;
use crate::v2p::V2pSection;
pub use crate::v2p::V2pSettings;
use crate::value::{Number, Paths, Ports};

type Result<T> = std::result::Result<T, ConfigError>;

/// The configuration of a switch.
#[derive(Debug)]
pub struct Configuration {
    /// The switch's name.
    pub name: String,
    /// Limits of pipeline, caches and workers.
    pub switch: SwitchConfig,
    /// Its ports.
    pub ports: Vec<PortConfig>,
    /// Files of rules.
    pub rules: Vec<PathBuf>,
    /// Files of groups.
    pub groups: Vec<PathBuf>,
    /// Whether a file of rules or groups may be empty.
    pub allows_empty_rules: bool,
    /// Its role in a fabric that caches virtual addresses.
    pub v2p: Option<V2pSettings>,
    /// The P4 program that forwards instead of rules, and its controller.
    pub p4: Option<P4Settings>,
    /// How OpenFlow drives the switch, if it does.
    pub openflow: Option<OpenFlowSettings>,
    /// The control socket, if there is one.
    pub control: Option<PathBuf>,
    /// Where Prometheus reads metrics, if it does.
    pub metrics: Option<SocketAddr>,
    /// Where a browser looks at the switch, if it does.
    pub dashboard: Option<DashboardSettings>,
    /// Where the switch keeps what it knows for its next start, if it does.
    pub snapshot: Option<SnapshotSettings>,
    /// What the process may do while it runs.
    pub process: ProcessSettings,
    /// Whether the run ends when all captures have been read.
    pub ends_when_finished: bool,
    /// Whether the file gives a seed.
    has_seed: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sections {
    #[serde(default)]
    switch: SwitchSection,
    #[serde(default)]
    cache: CacheSection,
    #[serde(default)]
    limits: LimitsSection,
    #[serde(default)]
    conntrack: ConntrackSection,
    port: Option<Spanned<Ports>>,
    openflow: Option<Spanned<OpenFlowSection>>,
    control: Option<Spanned<ControlSection>>,
    metrics: Option<Spanned<MetricsSection>>,
    dashboard: Option<Spanned<DashboardSection>>,
    snapshot: Option<Spanned<SnapshotSection>>,
    #[serde(default)]
    process: ProcessSettings,
    v2p: Option<V2pSection>,
    p4: Option<Spanned<P4Section>>,
    p4runtime: Option<Spanned<P4RuntimeSection>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct SwitchSection {
    name: Option<String>,
    workers: Option<Spanned<Number>>,
    #[serde(default)]
    rules: Paths,
    #[serde(default)]
    groups: Paths,
    maintainer: Option<Spanned<String>>,
    mode: Option<Spanned<String>>,
    classifier: Option<Spanned<String>>,
    seed: Option<Number>,
    #[serde(default)]
    allow_empty_rules: bool,
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
    entries: Option<Spanned<Number>>,
    admit_one_in: Option<Spanned<Number>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct MegaflowSection {
    entries: Option<Spanned<Number>>,
    #[serde(default, deserialize_with = "crate::value::bytes")]
    bytes: Option<Spanned<Number>>,
    masks: Option<Spanned<Number>>,
    max_idle_ms: Option<Spanned<Number>>,
    classifier: Option<Spanned<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct LimitsSection {
    rules: Option<Spanned<Number>>,
    groups: Option<Spanned<Number>>,
    stations: Option<Spanned<Number>>,
    packets_per_worker: Option<Spanned<Number>>,
    #[serde(default, deserialize_with = "crate::value::bytes")]
    packet_bytes: Option<Spanned<Number>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PortSection {
    number: Spanned<Number>,
    name: Option<String>,
    kind: Option<Spanned<String>>,
    interface: Option<Spanned<String>>,
    #[serde(default, deserialize_with = "crate::value::bytes")]
    mtu_bytes: Option<Spanned<Number>>,
    receive: Option<Spanned<String>>,
    xdp_mode: Option<Spanned<String>>,
    queues: Option<Spanned<Number>>,
    busy_poll_us: Option<Spanned<Number>>,
    read: Option<Spanned<PathBuf>>,
    write: Option<Spanned<PathBuf>>,
}

/// A switch without a port does nothing.
const NO_PORT: &str = "a switch needs a port: add [[port]] with its number";

/// The text and its name, for the places in errors.
struct Source<'a> {
    name: String,
    text: &'a str,
    folder: &'a Path,
}

/// Port numbers. OpenFlow 1.0 reserves `OFPP_MAX` and above for names.
pub const PORT_NUMBERS: RangeInclusive<u64> = 1..=0xfeff;

/// The upper limit exceeds the threads of any machine that this is meant for.
const WORKERS: RangeInclusive<u64> = 1..=256;

/// Flows that the exact-match cache can have.
const FLOWS: RangeInclusive<u64> = 0..=1 << 28;

/// Entries that the wildcard cache can have.
const ENTRIES: RangeInclusive<u64> = 0..=thalweg_classifier::RULES_MAX as u64;

/// Rules that a pipeline can have.
const RULES: RangeInclusive<u64> = 0..=thalweg_pipeline::RULES_MAX as u64;

/// Things that are counted but take no memory until they exist.
const COUNT: RangeInclusive<u64> = 0..=1 << 28;

/// The same, where zero makes no sense.
const POSITIVE: RangeInclusive<u64> = 1..=1 << 28;

/// Memory of the caches.
const BYTES: RangeInclusive<u64> = 0..=1 << 40;

/// Packet buffers, which are allocated at the start; enough for a thousand ports.
const PACKETS: RangeInclusive<u64> = 1..=1 << 16;

/// From the shortest frame to more than the longest IP packet and its headers.
const PACKET_BYTES: RangeInclusive<u64> = 60..=1 << 17;

/// From IP's minimum for a link (RFC 791) to the maximum of its length field.
const MTU_BYTES: RangeInclusive<u64> = 68..=0xffff;
const XDP_QUEUES: RangeInclusive<u64> = 1..=XdpSettings::MOST_QUEUES as u64;
const BUSY_POLL_US: RangeInclusive<u64> = 1..=XdpSettings::MOST_BUSY_POLL_US as u64;

impl Configuration {
    /// Reads a configuration file; paths in it are relative to its folder.
    ///
    /// # Errors
    /// If it cannot be read, or asks for something impossible.
    pub fn read(path: &Path) -> Result<Configuration> {
        let text = read_text(path)?;
        let folder = path.parent().unwrap_or(Path::new(""));
        Configuration::parse(&path.display().to_string(), folder, &text)
    }

    /// Parses a configuration. `name` is its name in errors; paths in it are relative to
    /// `folder`.
    ///
    /// # Errors
    /// If it asks for something impossible.
    pub fn parse(name: &str, folder: &Path, text: &str) -> Result<Configuration> {
        let source = Source {
            name: name.to_owned(),
            text,
            folder,
        };
        let file: Sections = toml::from_str(text).map_err(|error| {
            let span = error.span().unwrap_or(0..0);
            source.error(&span, error::explain_toml(error.message()))
        })?;
        source.refuse_sections(&file)?;
        let Some(ports) = &file.port else {
            return Err(source.error(&(text.len()..text.len()), NO_PORT));
        };
        let switch = source.switch(&file)?;
        let ports = source.ports(ports)?;
        let seed = switch.datapath.seed;
        let v2p = file.v2p.as_ref();
        let v2p = v2p.map(|section| source.v2p(section, &ports, seed));
        let name = file.switch.name.clone().unwrap_or("thalweg".to_owned());
        let openflow = file.openflow.as_ref();
        let openflow = openflow.map(|section| source.openflow(section, &name));
        let control = file.control.as_ref();
        let control = control.map(|section| source.control(section.get_ref(), &name));
        let metrics = file.metrics.as_ref();
        let metrics = metrics.map(|section| source.metrics(section.get_ref()));
        let dashboard = file.dashboard.as_ref();
        let dashboard = dashboard.map(|section| source.dashboard(section.get_ref()));
        let snapshot = file.snapshot.as_ref();
        let snapshot = snapshot.map(|section| source.snapshot(section.get_ref(), &name));
        Ok(Configuration {
            p4: source.p4(&file, &name)?,
            openflow: openflow.transpose()?,
            control,
            metrics: metrics.transpose()?,
            dashboard: dashboard.transpose()?,
            snapshot: snapshot.transpose()?,
            process: file.process,
            name,
            switch,
            v2p: v2p.transpose()?,
            ports,
            rules: source.paths(&file.switch.rules.0),
            groups: source.paths(&file.switch.groups.0),
            allows_empty_rules: file.switch.allow_empty_rules,
            ends_when_finished: file.switch.end_when_finished,
            has_seed: file.switch.seed.is_some(),
        })
    }

    /// Uses `seed` for all packet hash tables and all random choices, unless the file gives a
    /// seed. The choice of a select group's bucket keeps its own seed, because it is part of
    /// what the rules mean.
    #[must_use]
    pub fn or_seed(mut self, seed: u64) -> Configuration {
        if !self.has_seed {
            self.switch.pipeline.index_seed = seed;
            self.switch.datapath.seed = seed;
            self.v2p.iter_mut().for_each(|v2p| v2p.config.seed = seed);
        }
        self
    }

    /// Whether the file gives a seed; otherwise [`Configuration::or_seed`] sets one.
    pub fn has_seed(&self) -> bool {
        self.has_seed
    }

    /// The seed of the packet hash tables.
    pub fn seed(&self) -> u64 {
        self.switch.datapath.seed
    }
}

impl Source<'_> {
    fn error(&self, span: &Range<usize>, what: impl std::fmt::Display) -> ConfigError {
        let (line, column) = self.place(span);
        ConfigError::Refused {
            file: self.name.clone(),
            line,
            column,
            what: on_one_line(&what.to_string()),
        }
    }

    /// Line and column, from 1, where `span` begins.
    fn place(&self, span: &Range<usize>) -> (usize, usize) {
        let before = &self.text[..span.start.min(self.text.len())];
        let line = before.matches('\n').count() + 1;
        let start = before.rfind('\n').map_or(0, |end| end + 1);
        (line, before[start..].chars().count() + 1)
    }

    fn path(&self, path: &Path) -> PathBuf {
        self.folder.join(path)
    }

    fn paths(&self, paths: &[PathBuf]) -> Vec<PathBuf> {
        paths.iter().map(|path| self.path(path)).collect()
    }

    fn refuse_sections(&self, file: &Sections) -> Result<()> {
        if file.p4.is_none() {
            return Ok(());
        }
        if let Some(section) = &file.metrics {
            let what = "[metrics] does not cover a P4 program; remove [metrics] or [p4]";
            return Err(self.error(&section.span(), what));
        }
        if let Some(section) = &file.dashboard {
            let what = "[dashboard] does not cover a P4 program; remove [dashboard] or [p4]";
            return Err(self.error(&section.span(), what));
        }
        if let Some(section) = &file.snapshot {
            let what = "[snapshot] keeps rules, and [p4] has a program, whose entries come from its \
                        controller; remove one of them";
            return Err(self.error(&section.span(), what));
        }
        if let Some(section) = &file.control {
            let what = "[control] asks about rules, and [p4] has a program, which P4Runtime asks \
                        about; remove one of them";
            return Err(self.error(&section.span(), what));
        }
        Ok(())
    }

    fn switch(&self, file: &Sections) -> Result<SwitchConfig> {
        let mut config = SwitchConfig::default();
        let switch = &file.switch;
        if let Some(mode) = &switch.mode {
            config.datapath.mode = self.mode(mode)?;
        }
        if let Some(maintainer) = &switch.maintainer {
            config.datapath.maintainer = self.maintainer(maintainer)?;
        }
        if let Some(classifier) = &file.cache.megaflow.classifier {
            config.datapath.megaflow.classifier = self.megaflow_classifier(classifier)?;
        }
        if let Some(classifier) = &switch.classifier {
            config.pipeline.classifier = self.table_classifier(classifier)?;
        }
        let seed = switch.seed.map_or(0, |seed| seed.0);
        (config.pipeline.seed, config.pipeline.index_seed) = (seed, seed);
        config.datapath.seed = seed;
        self.limits(file, &mut config)?;
        config.tracking = self.conntrack(&file.conntrack)?;
        Ok(config)
    }

    fn limits(&self, file: &Sections, config: &mut SwitchConfig) -> Result<()> {
        let (microflow, said) = (&mut config.datapath.microflow, &file.cache.microflow);
        self.set(&mut microflow.entries, "entries", &said.entries, FLOWS)?;
        let mut one_in = microflow.admit_one_in as usize;
        self.set(&mut one_in, "admit_one_in", &said.admit_one_in, POSITIVE)?;
        microflow.admit_one_in = one_in as u32;
        let (megaflow, said) = (&mut config.datapath.megaflow, &file.cache.megaflow);
        self.set(&mut megaflow.entries, "entries", &said.entries, ENTRIES)?;
        self.set(&mut megaflow.bytes, "bytes", &said.bytes, BYTES)?;
        self.set(&mut megaflow.masks, "masks", &said.masks, POSITIVE)?;
        if said.max_idle_ms.is_some() {
            let mut milliseconds = 0;
            self.set(&mut milliseconds, "max_idle_ms", &said.max_idle_ms, COUNT)?;
            let max_idle = Duration::from_millis(milliseconds as u64);
            megaflow.max_idle = Some(max_idle).filter(|limit| !limit.is_zero());
        }
        let (pipeline, said) = (&mut config.pipeline, &file.limits);
        self.set(&mut pipeline.rules, "rules", &said.rules, RULES)?;
        self.set(&mut pipeline.groups, "groups", &said.groups, COUNT)?;
        self.set(&mut pipeline.stations, "stations", &said.stations, COUNT)?;
        let packets = &mut config.packets_per_worker;
        self.set(
            packets,
            "packets_per_worker",
            &said.packets_per_worker,
            PACKETS,
        )?;
        let bytes = &mut config.packet_bytes;
        self.set(bytes, "packet_bytes", &said.packet_bytes, PACKET_BYTES)?;
        self.set(
            &mut config.workers,
            "workers",
            &file.switch.workers,
            WORKERS,
        )
    }

    /// Sets `limit` if the file gives the key.
    fn set(
        &self,
        limit: &mut usize,
        key: &str,
        said: &Option<Spanned<Number>>,
        range: RangeInclusive<u64>,
    ) -> Result<()> {
        if let Some(said) = said {
            *limit = self.number(key, said, range)? as usize;
        }
        Ok(())
    }

    fn mode(&self, name: &Spanned<String>) -> Result<Mode> {
        let mode = name.get_ref().parse();
        mode.map_err(|error: UnknownMode| self.error(&name.span(), error))
    }

    fn table_classifier(&self, name: &Spanned<String>) -> Result<ClassifierKind> {
        let kind = name.get_ref().replace('_', "-").parse();
        kind.map_err(|error: UnknownClassifier| self.error(&name.span(), error))
    }

    fn maintainer(&self, name: &Spanned<String>) -> Result<MaintainerKind> {
        let kind = name.get_ref().parse();
        kind.map_err(|error: UnknownMaintainer| self.error(&name.span(), error))
    }

    fn megaflow_classifier(&self, name: &Spanned<String>) -> Result<MegaflowClassifier> {
        let kind = name.get_ref().parse();
        kind.map_err(|error: UnknownMegaflowClassifier| self.error(&name.span(), error))
    }

    fn ports(&self, sections: &Spanned<Ports>) -> Result<Vec<PortConfig>> {
        let mut numbers = HashSet::new();
        let mut names = HashMap::new();
        let mut ports = Vec::new();
        if sections.get_ref().0.is_empty() {
            return Err(self.error(&sections.span(), NO_PORT));
        }
        for section in &sections.get_ref().0 {
            let number = self.number("number", &section.number, PORT_NUMBERS)? as u32;
            let span = section.number.span();
            if !numbers.insert(number) {
                let what = format!("there are two ports {number}; give each its own number");
                return Err(self.error(&span, what));
            }
            let name = section.name.clone().unwrap_or(format!("port{number}"));
            if let Some(other) = names.insert(name.clone(), number) {
                let what = format!(
                    "ports {other} and {number} are both called {name:?}; give each its own name"
                );
                return Err(self.error(&span, what));
            }
            let port = self.port(section, PortId(number), &name)?;
            self.refuse_what_is_shared(section, &port, &ports)?;
            ports.push(port);
        }
        Ok(ports)
    }

    /// Refuses a port that needs exclusively what another already has: an interface, or an
    /// output capture.
    fn refuse_what_is_shared(
        &self,
        section: &PortSection,
        port: &PortConfig,
        others: &[PortConfig],
    ) -> Result<()> {
        let span = |said: &Option<Spanned<PathBuf>>| said.as_ref().map(Spanned::span);
        let refused = |span: Option<Range<usize>>, what: String| {
            let span = span.unwrap_or(section.number.span());
            Err(self.error(&span, what))
        };
        for other in others.iter().filter(|_| port.has_interface()) {
            if other.has_interface() && other.interface() == port.interface() {
                let (first, second) = (other.number, port.number);
                let interface = port.interface();
                let what = format!(
                    "ports {first} and {second} are both on interface {interface:?}, and each \
                     would hand over all its packets; give each its own"
                );
                return refused(section.interface.as_ref().map(Spanned::span), what);
            }
        }
        let both = others.iter().chain([port]);
        let read = both.clone().filter_map(|other| other.read.as_ref());
        let written = others.iter().filter_map(|other| other.write.as_ref());
        if let Some(path) = &port.write
            && (written.clone().any(|other| other == path) || read.clone().any(|r| r == path))
        {
            let path = path.display();
            let what = format!("another port or direction has capture {path}; choose another file");
            return refused(span(&section.write), what);
        }
        if let Some(path) = &port.read
            && written.clone().any(|other| other == path)
        {
            let path = path.display();
            let what = format!("capture {path} is written by another port; choose another file");
            return refused(span(&section.read), what);
        }
        Ok(())
    }

    fn port(&self, section: &PortSection, number: PortId, name: &str) -> Result<PortConfig> {
        let kind = match &section.kind {
            None => PortKind::default(),
            Some(kind) => kind
                .get_ref()
                .parse()
                .map_err(|error: thalweg_io::Error| self.error(&kind.span(), error))?,
        };
        self.refuse_what_is_of_no_use(section, kind)?;
        let receive = section.receive.as_ref().map(|word| {
            let method = word.get_ref().parse::<ReceiveMethod>();
            method.map_err(|error| self.error(&word.span(), error))
        });
        let mtu_bytes = section.mtu_bytes.as_ref();
        let mtu_bytes = mtu_bytes.map(|said| self.number("mtu_bytes", said, MTU_BYTES));
        let path = |said: &Spanned<PathBuf>| self.path(said.get_ref());
        Ok(PortConfig {
            kind,
            interface: section
                .interface
                .as_ref()
                .map(|said| said.get_ref().clone()),
            mtu_bytes: mtu_bytes.transpose()?.map(|said| said as u32),
            receive: receive.transpose()?,
            xdp: self.xdp(section)?,
            read: section.read.as_ref().map(path),
            write: section.write.as_ref().map(path),
            ..PortConfig::new(number, name)
        })
    }

    /// What an AF_XDP port is asked for.
    fn xdp(&self, section: &PortSection) -> Result<XdpSettings> {
        let number = |key, said: &Option<Spanned<Number>>, range: RangeInclusive<u64>| {
            let number = said.as_ref().map(|said| self.number(key, said, range));
            Ok(number.transpose()?.map(|number| number as u32))
        };
        let mode = section.xdp_mode.as_ref().map(|word| {
            let mode = word.get_ref().parse();
            mode.map_err(|error: thalweg_io::Error| self.error(&word.span(), error))
        });
        Ok(XdpSettings {
            mode: mode.transpose()?.unwrap_or_default(),
            queues: number("queues", &section.queues, XDP_QUEUES)?,
            busy_poll_us: number("busy_poll_us", &section.busy_poll_us, BUSY_POLL_US)?,
        })
    }

    /// Refuses keys that this kind of port ignores, and reports missing keys that it needs.
    fn refuse_what_is_of_no_use(&self, section: &PortSection, kind: PortKind) -> Result<()> {
        let has_file = section.read.is_some() || section.write.is_some();
        if let (PortKind::Pcap, false, Some(said)) = (kind, has_file, &section.kind) {
            let what = "a port of kind \"pcap\" needs a file; set read, write, or both";
            return Err(self.error(&said.span(), what));
        }
        let span = |said: Option<Range<usize>>, kinds: &[PortKind]| {
            said.filter(|_| !kinds.contains(&kind))
        };
        let interfaces = [
            PortKind::Auto,
            PortKind::AfPacket,
            PortKind::AfXdp,
            PortKind::Tap,
        ];
        let xdp = [PortKind::AfXdp];
        let taps = [PortKind::Tap];
        let packet_sockets = [PortKind::Auto, PortKind::AfPacket];
        let section = [
            (
                "interface",
                section.interface.as_ref().map(Spanned::span),
                &interfaces[..],
            ),
            (
                "mtu_bytes",
                section.mtu_bytes.as_ref().map(Spanned::span),
                &taps,
            ),
            (
                "receive",
                section.receive.as_ref().map(Spanned::span),
                &packet_sockets,
            ),
            (
                "xdp_mode",
                section.xdp_mode.as_ref().map(Spanned::span),
                &xdp,
            ),
            ("queues", section.queues.as_ref().map(Spanned::span), &xdp),
            (
                "busy_poll_us",
                section.busy_poll_us.as_ref().map(Spanned::span),
                &xdp,
            ),
            (
                "read",
                section.read.as_ref().map(Spanned::span),
                &[PortKind::Pcap],
            ),
            (
                "write",
                section.write.as_ref().map(Spanned::span),
                &[PortKind::Pcap],
            ),
        ];
        for (key, said, kinds) in section {
            if let Some(span) = span(said, kinds) {
                let kinds: Vec<String> = kinds.iter().map(|kind| format!("\"{kind}\"")).collect();
                let what = format!(
                    "a port of kind \"{kind}\" has no use for {key}; remove it, or set kind to {}",
                    kinds.join(" or ")
                );
                return Err(self.error(&span, what));
            }
        }
        Ok(())
    }

    /// A number within the range of its key.
    fn number(&self, key: &str, said: &Spanned<Number>, range: RangeInclusive<u64>) -> Result<u64> {
        self.within(key, said.get_ref().0, &said.span(), range)
    }

    /// The same, for a number whose place is known separately.
    fn within(
        &self,
        key: &str,
        number: u64,
        span: &Range<usize>,
        range: RangeInclusive<u64>,
    ) -> Result<u64> {
        if !range.contains(&number) {
            let (least, most) = range.into_inner();
            let what = format!("{key} must be {least} to {most}, not {number}");
            return Err(self.error(span, what));
        }
        Ok(number)
    }
}

/// Longest configuration, plan or map.
const MAX_FILE_BYTES: u64 = 256 << 20;

fn read_text(path: &Path) -> Result<String> {
    let read = || {
        let mut text = String::new();
        let file = File::open(path)?;
        // One more byte shows that the file is too long.
        file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text)?;
        match text.len() as u64 > MAX_FILE_BYTES {
            false => Ok(text),
            true => Err(Error::new(
                ErrorKind::FileTooLarge,
                "it has more than 256 MiB",
            )),
        }
    };
    read().map_err(|source| ConfigError::Unreadable {
        path: path.to_owned(),
        source,
    })
}

/// Names from the text may contain control characters, which a terminal would execute.
fn on_one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() {
            line.extend(character.escape_default());
        } else {
            line.push(character);
        }
    }
    line
}

#[cfg(test)]
mod tests;
