//! Reads the plan of `thalweg simulate`: its fabrics, traffic, schemes and repetitions.
//!
//! ```toml
//! # A time or a size may be a text with its unit: at_us = "2ms", size_limit_bytes = "4 KiB".
//! [topology]
//! kind = "ft8-10k"                 # "ft16-400k"; or [topology.fat_tree], [topology.leaf_spine]
//! gateways_per_tor = 10            # a list makes a fabric of each
//! pods = 8                         # of ft8-10k; a list as in Figure 10
//! [workload]
//! trace = "hadoop.csv.gz"          # relative to the plan; or generate = "hadoop", and then
//!                                  # duration_us, load_percent, count, traffic_seed
//! placement = "placement.json.gz"  # or machines = 10240, evenly
//! start_before_us = 2500           # optional cuts
//! size_limit_bytes = 4096
//! transport = "tcp"                # or "udp"
//! payload_bytes = 64               # of a datagram; else as the profile has it
//! [workload.tcp]                   # optional; lists make a run of each
//! algorithm = "cubic-ns3"          # "cubic", "newreno", "dctcp"
//! loss_detection = [2048, 300, "rack-tlp"]
//! mark_bytes = 100000              # for "dctcp": in queues longer than that
//! [run]
//! profile = "artifact"             # "paper"
//! schemes = ["nocache", "switchv2p"]
//! cache_percent = [10, 50]         # of the machines, for all switches; or cache_entries, of one
//! seeds = [1]
//! offload_threshold_packets = 10   # of "offload"
//! measure_percent = 25             # of the trace, by which "switchv2p+curves" places memory
//! reroute_after_us = 0             # how long after a failure switches go round it
//! [gateways]                       # optional: each takes no more than that
//! packets_per_second = 50000000
//! queue_packets = 1000
//! [memory]                         # optional: of SwitchV2P's switches, in proportion
//! core = 1
//! spine = 2
//! tor = 4
//! [[tenant]]                       # any number of them; each has all machines
//! traffic = 9                      # its part of the flows, in proportion
//! memory = 1                       # of each switch, for "switchv2p-partitions"
//! [migration]                      # optional
//! vm = 5200
//! at_us = 500
//! to_server = 68
//! [[failure]]                      # any number of them
//! link = ["spine 5", "tor 4"]      # or switch = "core 0"; counted in the fabric, from 0
//! at_us = 300
//! until_us = 900                   # without it for ever
//! [[gateway_move]]                 # any number of them: all gateways of a ToR
//! at_us = 400
//! from = "tor 0"
//! to = "tor 5"                     # which has idle gateways until then
//! ```
//!
//! A plan that was read has only known names, numbers within limits and no empty lists. The
//! contents of its files and the available memory are checked later.

mod failures;
mod gateway_moves;
mod schemes;
mod tenants;
mod topology;
mod workload;

use std::ops::RangeInclusive;
use std::path::Path;

use serde::Deserialize;
use thalweg_fabric::{GatewayService, Migration, Tenant, Time};
use toml::Spanned;

pub use self::failures::{PlannedElement, PlannedFailure};
pub use self::gateway_moves::PlannedGatewayMove;
pub use self::schemes::{CacheAmount, CacheSize, MemoryWeights, PlanProfile, SchemeKind};
pub use self::topology::PlannedTopology;
pub use self::workload::{Generator, Machines, TrafficSource, Transport, Workload};
use crate::error::explain_toml;
use crate::value::{Number, Several};
use crate::{Result, Source, read_text};

/// A simulation plan.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// The fabrics; everything is run in each.
    pub topologies: Vec<PlannedTopology>,
    /// The traffic.
    pub workload: Workload,
    /// Which parameters and behaviour to use: the published code's or the paper's.
    pub profile: PlanProfile,
    /// The schemes of address resolution, in the plan's order.
    pub schemes: Vec<SchemeKind>,
    /// Cache sizes; a meaningless one if no scheme has caches.
    pub caches: Vec<CacheSize>,
    /// Seeds of the random choices.
    pub seeds: Vec<u64>,
    /// Packets from a host to a machine before `offload` gives the host the mapping.
    pub offload_threshold_packets: u32,
    /// Capacity of gateways; unlimited if absent.
    pub gateway_service: Option<GatewayService>,
    /// How SwitchV2P's memory is divided; equally if absent.
    pub memory: Option<MemoryWeights>,
    /// Percentage of the trace that is measured before memory is placed by miss-ratio curves.
    pub measure_percent: u32,
    /// The tenants that share the fabric; empty means a single tenant.
    pub tenants: Vec<Tenant>,
    /// A machine that moves.
    pub migration: Option<Migration>,
    /// Gateways that move.
    pub gateway_moves: Vec<PlannedGatewayMove>,
    /// Elements that fail.
    pub failures: Vec<PlannedFailure>,
    /// Delay after a failure, or its end, until switches use other ports.
    pub reroute_after: Time,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    topology: topology::Section,
    workload: workload::Section,
    run: schemes::Section,
    migration: Option<MigrationSection>,
    gateways: Option<GatewaysSection>,
    memory: Option<schemes::MemorySection>,
    #[serde(default)]
    tenant: tenants::Sections,
    #[serde(default)]
    failure: failures::Sections,
    #[serde(default)]
    gateway_move: gateway_moves::Sections,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct GatewaysSection {
    packets_per_second: Spanned<Number>,
    queue_packets: Spanned<Number>,
}

/// From one packet per second to one per picosecond.
const RATE: RangeInclusive<u64> = 1..=1_000_000_000_000;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct MigrationSection {
    vm: Spanned<Number>,
    #[serde(deserialize_with = "crate::value::some_micros")]
    at_us: Spanned<Number>,
    to_server: Spanned<Number>,
}

/// Numbers of machines and servers.
const NUMBERS: RangeInclusive<u64> = 0..=u32::MAX as u64;

/// Up to an hour, longer than any run.
const MICROS: RangeInclusive<u64> = 0..=3_600_000_000;

impl Plan {
    /// Reads a plan; paths in it are relative to its folder.
    ///
    /// # Errors
    /// If it cannot be read, or asks for something impossible.
    pub fn read(path: &Path) -> Result<Plan> {
        let text = read_text(path)?;
        let folder = path.parent().unwrap_or(Path::new(""));
        Plan::parse(&path.display().to_string(), folder, &text)
    }

    /// Parses a plan. `name` is its name in errors; paths in it are relative to `folder`.
    ///
    /// # Errors
    /// If it asks for something impossible.
    pub fn parse(name: &str, folder: &Path, text: &str) -> Result<Plan> {
        let source = Source {
            name: name.to_owned(),
            text,
            folder,
        };
        let file: File = toml::from_str(text).map_err(|error| {
            let span = error.span().unwrap_or(0..0);
            source.error(&span, explain_toml(error.message()))
        })?;
        let (schemes, caches, seeds) = source.runs(&file.run)?;
        let profile = source.profile(&file.run)?;
        Ok(Plan {
            topologies: source.topologies(&file.topology)?,
            workload: source.workload(&file.workload, profile)?,
            profile,
            tenants: source.tenants(&file.tenant, &schemes)?,
            measure_percent: source.measure_percent(&file.run)?,
            schemes,
            caches,
            seeds,
            offload_threshold_packets: source.offload_threshold(&file.run)?,
            gateway_service: file
                .gateways
                .map(|section| source.gateway_service(&section))
                .transpose()?,
            memory: file
                .memory
                .map(|section| source.memory(&section))
                .transpose()?,
            migration: file
                .migration
                .map(|section| source.migration(&section))
                .transpose()?,
            gateway_moves: source.gateway_moves(&file.gateway_move)?,
            failures: source.failures(&file.failure)?,
            reroute_after: source.reroute_after(&file.run)?,
        })
    }
}

impl Source<'_> {
    fn migration(&self, section: &MigrationSection) -> Result<Migration> {
        let at_us = self.number("at_us", &section.at_us, MICROS)?;
        Ok(Migration {
            machine: self.number("vm", &section.vm, NUMBERS)? as u32,
            at: Time::from_micros(at_us),
            to_server: self.number("to_server", &section.to_server, NUMBERS)? as u32,
        })
    }

    fn gateway_service(&self, section: &GatewaysSection) -> Result<GatewayService> {
        let rate = self.number("packets_per_second", &section.packets_per_second, RATE)?;
        let queue = self.number("queue_packets", &section.queue_packets, NUMBERS)?;
        Ok(GatewayService {
            packets_per_second: rate,
            queue_packets: queue as u32,
        })
    }

    /// The numbers of a key, at least one and without repetition.
    fn numbers(
        &self,
        key: &str,
        said: &Spanned<Several<Number>>,
        range: RangeInclusive<u64>,
    ) -> Result<Vec<u64>> {
        let mut numbers = Vec::new();
        for (span, number) in Several::items(said) {
            let value = self.within(key, number.0, &span, range.clone())?;
            if numbers.contains(&value) {
                let what = format!("{key} has {value} twice; remove one");
                return Err(self.error(&span, what));
            }
            numbers.push(value);
        }
        if numbers.is_empty() {
            let what = format!("{key} has nothing in it; give one number at least");
            return Err(self.error(&said.span(), what));
        }
        Ok(numbers)
    }
}

#[cfg(test)]
mod tests;
