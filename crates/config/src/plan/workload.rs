//! `[workload]`: the traffic of a plan, and the placement of machines.

use std::ops::{Range, RangeInclusive};
use std::path::PathBuf;

use serde::Deserialize;
use thalweg_fabric::{Algorithm, LossDetection};
use toml::Spanned;

use super::PlanProfile;
use crate::value::{CountOrName, Number, Several};
use crate::{Result, Source};

/// The traffic of a plan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Workload {
    /// The source of flows or packets.
    pub source: TrafficSource,
    /// The placement of machines on servers.
    pub machines: Machines,
    /// Trace lines that start at or after this time are left out.
    pub start_before_us: Option<u64>,
    /// Trace lines are cut to this size.
    pub size_limit_bytes: Option<u64>,
    /// The transports; each is a separate run.
    pub transports: Vec<Transport>,
    /// Payload of a datagram, in place of the profile's.
    pub payload_bytes: Option<u32>,
}

/// A source of flows or packets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TrafficSource {
    /// A trace file.
    Trace(PathBuf),
    /// A generator; absent parameters have the published values.
    Generated {
        /// The generator.
        generator: Generator,
        /// When flows stop starting, or packets stop being sent.
        duration_us: Option<u64>,
        /// Load of the servers' links, for `hadoop` and `websearch`.
        load_percent: Option<u32>,
        /// Number of bursts, pairs, calls or senders.
        count: Option<u32>,
        /// Seed of the generator.
        seed: u64,
    },
}

/// Generators of traffic.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Generator {
    /// Flows with the sizes of Hadoop.
    Hadoop,
    /// Flows with the sizes of WebSearch.
    WebSearch,
    /// Bursts of datagrams.
    Microbursts,
    /// Bursts fitted to the paper's Table 5.
    MicroburstsFitted,
    /// Pairs that send at a constant rate.
    Video,
    /// Calls between services.
    Alibaba,
    /// Calls fitted to the paper's Table 5.
    AlibabaFitted,
    /// Many senders to one receiver.
    Incast,
}

impl Generator {
    /// All generators, by their names in a plan.
    pub const ALL: [(&str, Generator); 8] = [
        ("hadoop", Generator::Hadoop),
        ("websearch", Generator::WebSearch),
        ("microbursts", Generator::Microbursts),
        ("microbursts-fitted", Generator::MicroburstsFitted),
        ("video", Generator::Video),
        ("alibaba", Generator::Alibaba),
        ("alibaba-fitted", Generator::AlibabaFitted),
        ("incast", Generator::Incast),
    ];

    /// Its name in a plan.
    pub fn name(self) -> &'static str {
        let known = Generator::ALL.iter().find(|(_, known)| *known == self);
        known.map_or("", |(name, _)| name)
    }

    fn has_load(self) -> bool {
        matches!(self, Generator::Hadoop | Generator::WebSearch)
    }
}

/// The placement of machines on servers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Machines {
    /// From a placement file.
    Placed(PathBuf),
    /// This many machines, numbered from 0, spread evenly over the servers.
    Even(u32),
}

/// A transport protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transport {
    /// Each trace line is a datagram.
    Udp,
    /// Each trace line is a connection.
    Tcp {
        /// The congestion-control algorithm.
        algorithm: Algorithm,
        /// How senders detect lost segments.
        loss_detection: LossDetection,
        /// Queues longer than this mark packets, for algorithms that use marks.
        mark_bytes: Option<u64>,
    },
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Section {
    trace: Option<Spanned<PathBuf>>,
    generate: Option<Spanned<String>>,
    #[serde(default, deserialize_with = "crate::value::micros")]
    duration_us: Option<Spanned<Number>>,
    load_percent: Option<Spanned<Number>>,
    count: Option<Spanned<Number>>,
    traffic_seed: Option<Spanned<Number>>,
    placement: Option<Spanned<PathBuf>>,
    machines: Option<Spanned<Number>>,
    #[serde(default, deserialize_with = "crate::value::micros")]
    start_before_us: Option<Spanned<Number>>,
    #[serde(default, deserialize_with = "crate::value::bytes")]
    size_limit_bytes: Option<Spanned<Number>>,
    transport: Spanned<String>,
    #[serde(default, deserialize_with = "crate::value::bytes")]
    payload_bytes: Option<Spanned<Number>>,
    tcp: Option<Spanned<TcpSection>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct TcpSection {
    algorithm: Option<Spanned<String>>,
    loss_detection: Option<Spanned<Several<CountOrName>>>,
    #[serde(default, deserialize_with = "crate::value::bytes")]
    mark_bytes: Option<Spanned<Number>>,
}

/// Algorithms by their names in a plan; the first is the published code's.
const ALGORITHMS: [(&str, Algorithm); 4] = [
    ("cubic-ns3", Algorithm::CubicNs3),
    ("cubic", Algorithm::Cubic),
    ("newreno", Algorithm::NewReno),
    ("dctcp", Algorithm::Dctcp),
];

const RACK_TLP: &str = "rack-tlp";

/// Numbers of duplicate acknowledgements after which a segment counts as lost.
const DUPLICATES: RangeInclusive<u64> = 1..=1 << 20;

/// Lengths of a queue.
const MARK_BYTES: RangeInclusive<u64> = 1..=1 << 40;

/// Most bursts, pairs, calls or senders, so that they fit in memory.
const MOST_COUNT: u64 = 100_000_000;

/// One minute.
const MOST_DURATION_US: u64 = 60_000_000;

const MACHINES: RangeInclusive<u64> = 1..=10_000_000;

/// Payloads that fit in an IPv4 packet (RFC 768, RFC 791).
const PAYLOAD_BYTES: RangeInclusive<u64> = 0..=65_507;

impl Transport {
    /// Its name in a plan.
    pub fn name(&self) -> &'static str {
        match self {
            Transport::Udp => "udp",
            Transport::Tcp { .. } => "tcp",
        }
    }

    /// The name of its loss detection in a plan; `None` for datagrams.
    pub fn loss_detection(&self) -> Option<String> {
        match self {
            Transport::Udp => None,
            Transport::Tcp { loss_detection, .. } => Some(match loss_detection {
                LossDetection::Duplicates(count) => count.to_string(),
                LossDetection::RackTlp => RACK_TLP.to_owned(),
            }),
        }
    }
}

impl Source<'_> {
    pub(super) fn workload(&self, section: &Section, profile: PlanProfile) -> Result<Workload> {
        let machines = match (&section.placement, &section.machines) {
            (Some(path), None) => Machines::Placed(self.path(path.get_ref())),
            (None, Some(count)) => Machines::Even(self.number("machines", count, MACHINES)? as u32),
            (None, None) => {
                let end = self.text.len();
                let what = "where are the machines? give [workload] a placement, or machines";
                return Err(self.error(&(end..end), what));
            }
            (Some(_), Some(count)) => {
                let what = "a placement has its own machines; remove one of the two";
                return Err(self.error(&count.span(), what));
            }
        };
        let optional = |key, said: &Option<Spanned<Number>>, range| {
            let said = said.as_ref();
            said.map(|said| self.number(key, said, range)).transpose()
        };
        let payload = optional("payload_bytes", &section.payload_bytes, PAYLOAD_BYTES)?;
        Ok(Workload {
            source: self.traffic_source(section)?,
            machines,
            start_before_us: optional("start_before_us", &section.start_before_us, super::MICROS)?,
            size_limit_bytes: optional(
                "size_limit_bytes",
                &section.size_limit_bytes,
                0..=i64::MAX as u64,
            )?,
            transports: self.transports(section, profile)?,
            payload_bytes: payload.map(|bytes| bytes as u32),
        })
    }

    fn traffic_source(&self, section: &Section) -> Result<TrafficSource> {
        let parameters = [
            ("duration_us", &section.duration_us),
            ("load_percent", &section.load_percent),
            ("count", &section.count),
            ("traffic_seed", &section.traffic_seed),
        ];
        match (&section.trace, &section.generate) {
            (Some(path), None) => {
                if let Some((key, Some(said))) = parameters.iter().find(|one| one.1.is_some()) {
                    let what = format!("{key} is of generated traffic; remove it");
                    return Err(self.error(&said.span(), what));
                }
                Ok(TrafficSource::Trace(self.path(path.get_ref())))
            }
            (None, Some(name)) => self.generated(section, name),
            (None, None) => {
                let end = self.text.len();
                let what = "what is sent? give [workload] a trace, or generate";
                Err(self.error(&(end..end), what))
            }
            (Some(_), Some(name)) => {
                let what = "a trace is not generated; remove one of the two";
                Err(self.error(&name.span(), what))
            }
        }
    }

    fn generated(&self, section: &Section, name: &Spanned<String>) -> Result<TrafficSource> {
        let known = Generator::ALL
            .iter()
            .find(|known| known.0 == name.get_ref());
        let Some(&(_, generator)) = known else {
            let names = Generator::ALL.map(|(name, _)| name).join(", ");
            let what = format!(
                "there is no generator {:?}; give one of {names}",
                name.get_ref()
            );
            return Err(self.error(&name.span(), what));
        };
        let refused = match generator {
            Generator::Incast => section
                .duration_us
                .as_ref()
                .map(|said| ("duration_us", said)),
            _ if generator.has_load() => section.count.as_ref().map(|said| ("count", said)),
            _ => None,
        };
        let load = section
            .load_percent
            .as_ref()
            .filter(|_| !generator.has_load());
        if let Some((key, said)) = refused.or(load.map(|said| ("load_percent", said))) {
            let what = format!("{key} is of no use to {:?}; remove it", generator.name());
            return Err(self.error(&said.span(), what));
        }
        let optional = |key, said: &Option<Spanned<Number>>, range| {
            let said = said.as_ref();
            said.map(|said| self.number(key, said, range)).transpose()
        };
        let load = optional("load_percent", &section.load_percent, 1..=100)?;
        let count = optional("count", &section.count, 1..=MOST_COUNT)?;
        let seed = optional("traffic_seed", &section.traffic_seed, 0..=i64::MAX as u64)?;
        Ok(TrafficSource::Generated {
            generator,
            duration_us: optional("duration_us", &section.duration_us, 1..=MOST_DURATION_US)?,
            load_percent: load.map(|load| load as u32),
            count: count.map(|count| count as u32),
            seed: seed.unwrap_or(1),
        })
    }

    fn transports(&self, section: &Section, profile: PlanProfile) -> Result<Vec<Transport>> {
        let said = &section.transport;
        match (said.get_ref().as_str(), &section.tcp) {
            ("tcp", None) => self.tcp(&TcpSection::default(), profile),
            ("tcp", Some(tcp)) => self.tcp(tcp.get_ref(), profile),
            ("udp", None) => Ok(vec![Transport::Udp]),
            ("udp", Some(tcp)) => {
                let what = "[workload.tcp] is of no use to datagrams; remove it, or use \"tcp\"";
                Err(self.error(&tcp.span(), what))
            }
            (other, _) => {
                let what = format!("there is no transport {other:?}; use \"tcp\" or \"udp\"");
                Err(self.error(&said.span(), what))
            }
        }
    }

    fn tcp(&self, section: &TcpSection, profile: PlanProfile) -> Result<Vec<Transport>> {
        let algorithm = match &section.algorithm {
            Some(said) => self.algorithm(said)?,
            None => ALGORITHMS[0].1,
        };
        let mark_bytes = match &section.mark_bytes {
            Some(said) => Some(self.number("mark_bytes", said, MARK_BYTES)?),
            None => None,
        };
        if let (Algorithm::Dctcp, None, Some(said)) = (algorithm, mark_bytes, &section.algorithm) {
            let what = "dctcp needs marks; add mark_bytes, such as 100000";
            return Err(self.error(&said.span(), what));
        }
        let with = |loss_detection| Transport::Tcp {
            algorithm,
            loss_detection,
            mark_bytes,
        };
        let Some(said) = &section.loss_detection else {
            return Ok(vec![with(LossDetection::Duplicates(match profile {
                PlanProfile::Artifact => 2048,
                PlanProfile::Paper => 300,
            }))]);
        };
        let mut transports = Vec::new();
        for (span, way) in Several::items(said) {
            let transport = with(self.loss_detection(way, &span)?);
            if transports.contains(&transport) {
                return Err(self.error(&span, "loss_detection has this twice; remove one"));
            }
            transports.push(transport);
        }
        match transports.is_empty() {
            true => {
                let what = "loss_detection has nothing in it; give one way at least";
                Err(self.error(&said.span(), what))
            }
            false => Ok(transports),
        }
    }

    fn algorithm(&self, said: &Spanned<String>) -> Result<Algorithm> {
        let known = ALGORITHMS.iter().find(|(name, _)| name == said.get_ref());
        known.map(|(_, algorithm)| *algorithm).ok_or_else(|| {
            let names = ALGORITHMS.map(|(name, _)| name).join(", ");
            let what = format!(
                "there is no algorithm {:?}; give one of {names}",
                said.get_ref()
            );
            self.error(&said.span(), what)
        })
    }

    fn loss_detection(&self, way: &CountOrName, span: &Range<usize>) -> Result<LossDetection> {
        match way {
            CountOrName::Count(count) => {
                let count = self.within("loss_detection", *count, span, DUPLICATES)?;
                Ok(LossDetection::Duplicates(count as u32))
            }
            CountOrName::Name(name) if name == RACK_TLP => Ok(LossDetection::RackTlp),
            CountOrName::Name(name) => {
                let what = format!(
                    "there is no loss detection {name:?}; give a number of duplicates, or \"rack-tlp\""
                );
                Err(self.error(span, what))
            }
        }
    }
}
