//! The sections `[p4]` and `[p4runtime]`: a program instead of rules, and its controller.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use thalweg_control::{Listen, ServerLimits, TlsFiles};
use toml::Spanned;

use crate::value::{Number, bytes, micros};
use crate::{Result, Sections, Source};

/// Port numbers of v1model, whose `egress_spec` has 9 bits.
pub(crate) const PROGRAM_PORTS: std::ops::RangeInclusive<u64> = 0..=511;
/// The default port of `mark_to_drop`, as on simple_switch.
pub(crate) const DROP_PORT: u32 = 511;
/// Entries that a cache may remember.
pub(crate) const CACHE_ENTRIES: std::ops::RangeInclusive<u64> = 1..=1 << 24;
/// Thresholds that the detector's counters can reach.
pub(crate) const THRESHOLDS: std::ops::RangeInclusive<u64> = 0..=u16::MAX as u64;
/// Handshakes or reads that may be under way.
pub(crate) const PLACES: std::ops::RangeInclusive<u64> = 1..=1 << 16;
/// Memory for messages: at least enough for a small one.
pub(crate) const MESSAGE_BYTES: std::ops::RangeInclusive<u64> = 1 << 16..=1 << 40;
/// The largest message: gRPC's lengths have 32 bits.
pub(crate) const MAX_MESSAGE_BYTES: std::ops::RangeInclusive<u64> = 1 << 10..=1 << 31;
/// Timeouts of a handshake.
pub(crate) const TIMEOUTS_US: std::ops::RangeInclusive<u64> = 1..=3_600_000_000;
/// Device numbers; 0 means none.
pub(crate) const DEVICES: std::ops::RangeInclusive<u64> = 1..=i64::MAX as u64;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct P4Section {
    cache: Option<Spanned<String>>,
    cache_entries: Option<Spanned<Number>>,
    threshold: Option<Spanned<Number>>,
    program: Option<Spanned<PathBuf>>,
    p4info: Option<Spanned<PathBuf>>,
    entries: Option<Spanned<PathBuf>>,
    keep_going: Option<Spanned<bool>>,
    cpu_port: Option<Spanned<Number>>,
    drop_port: Option<Spanned<Number>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct P4RuntimeSection {
    listen: Option<Spanned<String>>,
    device_id: Option<Spanned<Number>>,
    certificate: Option<Spanned<PathBuf>>,
    key: Option<Spanned<PathBuf>>,
    client_authorities: Option<Spanned<PathBuf>>,
    #[serde(default)]
    insecure: bool,
    max_handshakes: Option<Spanned<Number>>,
    max_handshakes_per_peer: Option<Spanned<Number>>,
    #[serde(default, deserialize_with = "micros")]
    handshake_timeout_us: Option<Spanned<Number>>,
    max_reads: Option<Spanned<Number>>,
    max_reads_per_peer: Option<Spanned<Number>>,
    max_connections: Option<Spanned<Number>>,
    max_connections_per_peer: Option<Spanned<Number>>,
    max_streams: Option<Spanned<Number>>,
    max_streams_per_peer: Option<Spanned<Number>>,
    #[serde(default, deserialize_with = "bytes")]
    max_message_bytes: Option<Spanned<Number>>,
    #[serde(default, deserialize_with = "bytes")]
    message_bytes: Option<Spanned<Number>>,
    #[serde(default, deserialize_with = "bytes")]
    message_bytes_per_peer: Option<Spanned<Number>>,
    #[serde(default, deserialize_with = "bytes")]
    answer_bytes: Option<Spanned<Number>>,
    #[serde(default, deserialize_with = "bytes")]
    answer_bytes_per_peer: Option<Spanned<Number>>,
    #[serde(default, deserialize_with = "bytes")]
    stream_queue_bytes: Option<Spanned<Number>>,
}

/// The cache in front of a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum P4Cache {
    /// No cache.
    Off,
    /// Walks through its pipelines, in segments.
    Traversal,
    /// Whole behaviours that are hot (B-Cache).
    Behavior,
}

impl P4Cache {
    /// All kinds.
    pub(crate) const ALL: [P4Cache; 3] = [P4Cache::Off, P4Cache::Traversal, P4Cache::Behavior];

    /// The name in a configuration.
    pub fn name(self) -> &'static str {
        match self {
            P4Cache::Off => "off",
            P4Cache::Traversal => "traversal",
            P4Cache::Behavior => "behavior",
        }
    }
}

/// The files of a program that a switch starts with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct P4Program {
    /// The JSON written by p4c's back end for BMv2.
    pub program: PathBuf,
    /// Its P4Info; derived from the program if absent.
    pub p4info: Option<PathBuf>,
    /// Its entries: commands in the syntax of simple_switch_CLI.
    pub entries: Option<PathBuf>,
    /// Whether faulty lines of the entries are reported and skipped.
    pub keep_going: bool,
}

/// A switch that forwards with a P4 program.
#[derive(Clone, Debug)]
pub struct P4Settings {
    /// The program that it starts with; if absent, the controller brings it.
    pub program: Option<P4Program>,
    /// The port through which the program and the controller exchange packets.
    pub cpu_port: Option<u32>,
    /// The port that `mark_to_drop` sends to.
    pub drop_port: u32,
    /// The cache in front of the program.
    pub cache: P4Cache,
    /// Its size: segments, or behaviours of each pipeline.
    pub cache_entries: Option<u32>,
    /// A behaviour seen more often than this is remembered.
    pub threshold: Option<u16>,
    /// Where the P4Runtime server listens.
    pub listen: Listen,
    /// Its certificates, if it listens with TLS.
    pub tls: Option<TlsFiles>,
    /// The switch's number for controllers.
    pub device_id: u64,
    /// Limits on what clients may use of the server.
    pub limits: ServerLimits,
}

impl Source<'_> {
    /// Reads the two sections, if present.
    pub(crate) fn p4(&self, file: &Sections, name: &str) -> Result<Option<P4Settings>> {
        let Some(section) = &file.p4 else {
            return match &file.p4runtime {
                None => Ok(None),
                Some(section) => {
                    let what = "[p4runtime] controls a P4 program; add [p4], which may be empty";
                    Err(self.error(&section.span(), what))
                }
            };
        };
        self.refuse_beside_p4(file, section)?;
        let section = section.get_ref();
        let cache = self.p4_cache(section)?;
        let number = |key, said: &Option<Spanned<Number>>, range| {
            let said = said.as_ref();
            said.map(|said| self.number(key, said, range)).transpose()
        };
        let cache_entries = number("cache_entries", &section.cache_entries, CACHE_ENTRIES)?;
        let threshold = number("threshold", &section.threshold, THRESHOLDS)?;
        let path = |said: &Option<Spanned<PathBuf>>| {
            let said = said.as_ref();
            said.map(|said| self.path(said.get_ref()))
        };
        let program = path(&section.program).map(|program| P4Program {
            program,
            p4info: path(&section.p4info),
            entries: path(&section.entries),
            keep_going: section
                .keep_going
                .as_ref()
                .is_some_and(|said| *said.get_ref()),
        });
        if let (Some(said), None) = (&section.keep_going, &section.entries) {
            let what = "keep_going is about lines of entries; set entries";
            return Err(self.error(&said.span(), what));
        }
        let without = section.p4info.as_ref().or(section.entries.as_ref());
        if let (None, Some(said)) = (&program, without) {
            let what = "P4Info and entries are of a program; set program";
            return Err(self.error(&said.span(), what));
        }
        let cpu_port = number("cpu_port", &section.cpu_port, PROGRAM_PORTS)?;
        let cpu_port = cpu_port.map(|port| port as u32);
        let drop_port = number("drop_port", &section.drop_port, PROGRAM_PORTS)?;
        let drop_port = drop_port.map_or(DROP_PORT, |port| port as u32);
        if let (true, Some(said)) = (cpu_port == Some(drop_port), &section.cpu_port) {
            let what = "cpu_port is the drop port; give another";
            return Err(self.error(&said.span(), what));
        }
        let default = P4RuntimeSection::default();
        let runtime = file.p4runtime.as_ref();
        let runtime = runtime.map_or(&default, Spanned::get_ref);
        let (listen, tls) = self.p4_listen(runtime, name)?;
        let device_id = runtime.device_id.as_ref();
        let device_id = device_id.map(|said| self.number("device_id", said, DEVICES));
        Ok(Some(P4Settings {
            program,
            cpu_port,
            drop_port,
            cache,
            cache_entries: cache_entries.map(|entries| entries as u32),
            threshold: threshold.map(|threshold| threshold as u16),
            listen,
            tls,
            device_id: device_id.transpose()?.unwrap_or(1),
            limits: self.p4_limits(runtime)?,
        }))
    }

    /// Limits on what clients may use of the server.
    fn p4_limits(&self, section: &P4RuntimeSection) -> Result<ServerLimits> {
        let mut limits = ServerLimits::default();
        let places = [
            ("max_handshakes", &section.max_handshakes),
            ("max_handshakes_per_peer", &section.max_handshakes_per_peer),
            ("max_reads", &section.max_reads),
            ("max_reads_per_peer", &section.max_reads_per_peer),
            ("max_connections", &section.max_connections),
            (
                "max_connections_per_peer",
                &section.max_connections_per_peer,
            ),
            ("max_streams", &section.max_streams),
            ("max_streams_per_peer", &section.max_streams_per_peer),
        ];
        let own = [
            &mut limits.max_handshakes,
            &mut limits.max_handshakes_per_peer,
            &mut limits.max_reads,
            &mut limits.max_reads_per_peer,
            &mut limits.max_connections,
            &mut limits.max_connections_per_peer,
            &mut limits.max_streams,
            &mut limits.max_streams_per_peer,
        ];
        for ((key, said), own) in places.into_iter().zip(own) {
            if let Some(said) = said {
                *own = self.number(key, said, PLACES)? as usize;
            }
        }
        if let Some(said) = &section.handshake_timeout_us {
            let timeout = self.number("handshake_timeout_us", said, TIMEOUTS_US)?;
            limits.handshake_timeout = Duration::from_micros(timeout);
        }
        self.p4_memory(section, &mut limits)?;
        Ok(limits)
    }

    /// Limits on the memory that messages may hold.
    fn p4_memory(&self, section: &P4RuntimeSection, limits: &mut ServerLimits) -> Result<()> {
        let sizes = [
            ("message_bytes", &section.message_bytes),
            ("message_bytes_per_peer", &section.message_bytes_per_peer),
            ("answer_bytes", &section.answer_bytes),
            ("answer_bytes_per_peer", &section.answer_bytes_per_peer),
        ];
        let own = [
            &mut limits.message_bytes,
            &mut limits.message_bytes_per_peer,
            &mut limits.answer_bytes,
            &mut limits.answer_bytes_per_peer,
        ];
        for ((key, said), own) in sizes.into_iter().zip(own) {
            if let Some(said) = said {
                *own = self.number(key, said, MESSAGE_BYTES)?;
            }
        }
        if let Some(said) = &section.max_message_bytes {
            let size = self.number("max_message_bytes", said, MAX_MESSAGE_BYTES)?;
            limits.max_message_bytes = size as usize;
        }
        if let Some(said) = &section.stream_queue_bytes {
            let size = self.number("stream_queue_bytes", said, MESSAGE_BYTES)?;
            limits.stream_queue_bytes = size as usize;
        }
        Ok(())
    }

    /// Reads the kind of cache; size and threshold need a cache that has them.
    fn p4_cache(&self, section: &P4Section) -> Result<P4Cache> {
        let cache = match &section.cache {
            None => P4Cache::Off,
            Some(said) => {
                let mut all = P4Cache::ALL.into_iter();
                let found = all.find(|cache| cache.name() == said.get_ref());
                let what = "there is no such cache of P4 programs; set cache to \"traversal\", \
                            \"behavior\" or \"off\"";
                found.ok_or_else(|| self.error(&said.span(), what))?
            }
        };
        if let (Some(said), P4Cache::Off) = (&section.cache_entries, cache) {
            let what = "cache_entries is the size of a cache; set cache";
            return Err(self.error(&said.span(), what));
        }
        if let (Some(said), P4Cache::Off | P4Cache::Traversal) = (&section.threshold, cache) {
            let what = "threshold is of the detector of hot behaviours; set cache to \"behavior\"";
            return Err(self.error(&said.span(), what));
        }
        Ok(cache)
    }

    fn refuse_beside_p4(&self, file: &Sections, section: &Spanned<P4Section>) -> Result<()> {
        let others = [
            (!file.switch.rules.0.is_empty(), "rules"),
            (!file.switch.groups.0.is_empty(), "groups"),
            (file.v2p.is_some(), "[v2p]"),
            (file.openflow.is_some(), "[openflow]"),
        ];
        if let Some((_, other)) = others.into_iter().find(|(is_there, _)| *is_there) {
            let what = format!("a P4 program has no use for {other}; remove one of the two");
            return Err(self.error(&section.span(), what));
        }
        if let Some(workers) = &file.switch.workers
            && workers.get_ref().0 > 1
        {
            let what = "a P4 program has one worker; set workers to 1";
            return Err(self.error(&workers.span(), what));
        }
        Ok(())
    }

    /// Where to listen. The default is a socket beside the configuration, named after the
    /// switch.
    fn p4_listen(
        &self,
        section: &P4RuntimeSection,
        name: &str,
    ) -> Result<(Listen, Option<TlsFiles>)> {
        let Some(said) = &section.listen else {
            let file = name.replace(['/', '\0'], "_");
            return Ok((
                Listen::Unix(self.path(format!("{file}.p4rt").as_ref())),
                None,
            ));
        };
        let listen = said.get_ref().parse::<Listen>();
        let listen = listen.map_err(|error| self.error(&said.span(), error))?;
        let files = [
            &section.certificate,
            &section.key,
            &section.client_authorities,
        ];
        match (&listen, files) {
            (Listen::Tls(_), [Some(certificate), Some(key), Some(authorities)]) => {
                let path = |said: &Spanned<PathBuf>| self.path(said.get_ref());
                let files = TlsFiles {
                    certificate: path(certificate),
                    key: path(key),
                    client_authorities: path(authorities),
                };
                Ok((listen, Some(files)))
            }
            (Listen::Tls(_), _) => {
                let what = "TLS needs files; set certificate, key and client_authorities";
                Err(self.error(&said.span(), what))
            }
            (_, [None, None, None]) => match listen {
                Listen::Plain(_) if !section.insecure => {
                    let what = "whoever reaches this address could control the switch; use \
                                \"tls:\", or set insecure to true";
                    Err(self.error(&said.span(), what))
                }
                Listen::Unix(path) => Ok((Listen::Unix(self.path(&path)), None)),
                listen => Ok((listen, None)),
            },
            _ => {
                let what = "certificates are for \"tls:\" addresses; remove them";
                Err(self.error(&said.span(), what))
            }
        }
    }
}
