//! Lists the runs of a plan: each fabric, scheme, cache size, transport and seed, in this
//! order.

use std::path::Path;

use anyhow::Result;
use thalweg_config::{
    CacheAmount, CacheSize, Plan, PlanProfile, PlannedGatewayMove, PlannedTopology, SchemeKind,
    Transport,
};
use thalweg_fabric::{
    Bluebird, Config, Controller, Failure, FatTree, GatewayMove, OnDemand, Payload, Scheme,
    SwitchV2p, TcpConfig, Time, Topology,
};
use thalweg_v2p::{MemoryPlacement, Profile};

use super::files::{Traffic, servers_of};
use thalweg_command::failure::bad_input;

/// A run to be done.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) kind: SchemeKind,
    pub(super) transport: Transport,
    pub(super) profile: PlanProfile,
    /// The plan's cache size; `None` if the scheme has no caches.
    pub(super) cache: Option<CacheSize>,
    /// Entries of each switch that has a cache.
    pub(super) entries: Option<u32>,
    /// All entries of all switches.
    pub(super) total_entries: u64,
    /// Percentage of the trace by which memory is placed; `None` without miss-ratio curves.
    pub(super) measure_percent: Option<u32>,
    /// Number of gateways in use.
    pub(super) gateways: u32,
    pub(super) config: Config,
}

impl Run {
    /// The plan's cache size, if it is in percent.
    pub(super) fn percent(&self) -> Option<f64> {
        match self.cache?.amount {
            CacheAmount::Percent(percent) => Some(percent),
            CacheAmount::Entries(_) => None,
        }
    }

    /// Describes the run for people.
    pub(super) fn text(&self) -> String {
        let size = match (self.percent(), self.entries) {
            (Some(percent), _) => format!(" {percent} %"),
            (None, Some(entries)) => format!(" {entries} entries"),
            (None, None) => String::new(),
        };
        format!("{}{size}, seed {}", self.kind.name(), self.config.seed)
    }
}

/// Largest size of an entry: a cache line, or a node of an LRU cache.
const ENTRY_BYTES: u64 = 96;

/// All runs of a plan.
///
/// # Errors
/// If the machines do not fit the fabric, or something that moves does not exist.
pub(super) fn runs_of(plan: &Plan, traffic: &Traffic, path: &Path) -> Result<Vec<Run>> {
    let mut runs = Vec::new();
    for planned in &plan.topologies {
        let servers = servers_of(&planned.shape);
        let placement = traffic.placement(servers);
        let shape = room_for_gateways(plan, planned, path)?;
        let failures = failures_of(plan, &shape, path)?;
        let moves = plan.gateway_moves.iter().map(|planned| planned.moved);
        let gateway_moves: Vec<GatewayMove> = moves.collect();
        for &kind in &plan.schemes {
            let sizes: Vec<Option<CacheSize>> = match kind.has_cache() {
                true => plan.caches.iter().copied().map(Some).collect(),
                false => vec![None],
            };
            for cache in sizes {
                let share =
                    cache.map(|cache| share_of(kind, planned, traffic.machine_count, cache));
                let share = share
                    .transpose()
                    .map_err(|what| refuse(path, cache, &what))?;
                let (entries, total_entries) = share.unwrap_or_default();
                let transports = plan.workload.transports.iter();
                let each =
                    transports.flat_map(|way| plan.seeds.iter().map(move |seed| (way, seed)));
                for (&transport, &seed) in each {
                    let scheme = scheme_of(kind, plan, planned, entries);
                    let shape = shape.clone();
                    let placement = placement.clone().into_owned();
                    let base = match plan.profile {
                        PlanProfile::Artifact => Config::artifact(shape, placement, scheme),
                        PlanProfile::Paper => Config::paper(shape, placement, scheme, seed),
                    };
                    runs.push(Run {
                        kind,
                        transport,
                        profile: plan.profile,
                        cache,
                        entries: cache.map(|_| entries),
                        total_entries,
                        measure_percent: (kind == SchemeKind::SwitchV2pCurves)
                            .then_some(plan.measure_percent),
                        gateways: gateway_count(&planned.shape),
                        config: Config {
                            failures: failures.clone(),
                            gateway_moves: gateway_moves.clone(),
                            ..with_rest(base, plan, transport, seed)
                        },
                    });
                }
            }
        }
    }
    Ok(runs)
}

/// The fabric with room for gateways at the targets of moves.
fn room_for_gateways(plan: &Plan, planned: &PlannedTopology, path: &Path) -> Result<FatTree> {
    let room = PlannedGatewayMove::make_room(&plan.gateway_moves, &planned.shape);
    room.map_err(|(planned, what)| {
        let (path, line, column) = (path.display(), planned.line, planned.column);
        bad_input(format!("{path}:{line}:{column}: {what}"))
    })
}

/// The failures in a fabric.
fn failures_of(plan: &Plan, shape: &FatTree, path: &Path) -> Result<Vec<Failure>> {
    if plan.failures.is_empty() {
        return Ok(Vec::new());
    }
    let topology = Topology::new(shape).map_err(bad_input)?;
    let failures = plan.failures.iter().map(|failure| {
        let found = failure.in_fabric(&topology);
        found.map_err(|what| {
            let (path, line, column) = (path.display(), failure.line, failure.column);
            bad_input(format!("{path}:{line}:{column}: {what}"))
        })
    });
    failures.collect()
}

fn with_rest(base: Config, plan: &Plan, transport: Transport, seed: u64) -> Config {
    let payload = plan.workload.payload_bytes.map(Payload::Fixed);
    let mut config = Config {
        payload: payload.unwrap_or(base.payload),
        gateway_service: plan.gateway_service,
        tenants: plan.tenants.clone(),
        migrations: plan.migration.into_iter().collect(),
        reroute_after: plan.reroute_after,
        seed,
        ..base
    };
    if let Transport::Tcp {
        algorithm,
        loss_detection,
        mark_bytes,
    } = transport
    {
        config.transport = thalweg_fabric::Transport::Tcp(TcpConfig {
            algorithm,
            loss_detection,
            ..TcpConfig::artifact()
        });
        for link in [&mut config.edge_link, &mut config.fabric_link] {
            link.mark_bytes = mark_bytes.unwrap_or(link.mark_bytes);
        }
    }
    config
}

fn refuse(path: &Path, cache: Option<CacheSize>, what: &str) -> anyhow::Error {
    let place = cache.map(|cache| format!("{}:{}: ", cache.line, cache.column));
    bad_input(format!(
        "{}:{}{what}",
        path.display(),
        place.unwrap_or_default()
    ))
}

/// Entries of each switch with a cache, and the total of all switches.
///
/// A percentage refers to the number of machines. As in the published code, it is divided
/// among all switches, the gateways' racks (GwCache), or all racks (Bluebird, SwitchV2P in
/// ToRs only).
fn share_of(
    kind: SchemeKind,
    planned: &PlannedTopology,
    machines: u32,
    cache: CacheSize,
) -> Result<(u32, u64), String> {
    let switches = switches_with_cache(kind, planned);
    let each = match cache.amount {
        CacheAmount::Entries(entries) => u64::from(entries),
        CacheAmount::Percent(percent) => {
            let total = percent / 100.0 * f64::from(machines);
            total as u64 / u64::from(switches.max(1))
        }
    };
    let entries = u32::try_from(each)
        .ok()
        .filter(|entries| *entries <= 1 << 28);
    let entries = entries.ok_or_else(|| {
        format!(" {each} entries in a switch are more than a cache can have (2^28); give less")
    })?;
    Ok((entries, each * u64::from(switches)))
}

fn switches_with_cache(kind: SchemeKind, planned: &PlannedTopology) -> u32 {
    let shape = &planned.shape;
    match kind {
        SchemeKind::GwCache => shape.gateway_tors.len() as u32,
        SchemeKind::Bluebird | SchemeKind::SwitchV2pTors => shape.pods * shape.tors_per_pod,
        _ => planned.switches_with_memory,
    }
}

/// Divides memory by the plan's weights, if given. The total stays that of an equal division.
fn placement_of(plan: &Plan, planned: &PlannedTopology, entries: u32) -> MemoryPlacement {
    let Some(weights) = plan.memory else {
        return MemoryPlacement::Everywhere;
    };
    let shape = &planned.shape;
    let spines = shape.pods * shape.spines_per_pod;
    let tors = shape.pods * shape.tors_per_pod;
    let cores = planned.switches_with_memory - spines - tors;
    let layers = [
        (weights.core, cores),
        (weights.spine, spines),
        (weights.tor, tors),
    ];
    let sum: u64 = layers
        .iter()
        .map(|(weight, count)| u64::from(*weight) * u64::from(*count))
        .sum();
    let total = u64::from(entries) * u64::from(planned.switches_with_memory);
    let lines = |weight: u32| (total * u64::from(weight) / sum.max(1)).min(1 << 28) as u32;
    MemoryPlacement::ByLayer {
        core: lines(weights.core),
        spine: lines(weights.spine),
        tor: lines(weights.tor),
    }
}

fn scheme_of(kind: SchemeKind, plan: &Plan, planned: &PlannedTopology, entries: u32) -> Scheme {
    let profile = plan.profile;
    let protocol = match profile {
        PlanProfile::Artifact => Profile::Artifact,
        PlanProfile::Paper => Profile::Paper,
    };
    let v2p = SwitchV2p {
        memory: placement_of(plan, planned, entries),
        ..SwitchV2p::new(protocol, entries)
    };
    let is_artifact = profile == PlanProfile::Artifact;
    let controller = |micros| {
        let interval = Time::from_micros(micros);
        Scheme::Controller(match is_artifact {
            true => Controller::artifact(entries, interval),
            false => Controller::paper(entries, interval),
        })
    };
    match kind {
        SchemeKind::NoCache => Scheme::NoCache,
        SchemeKind::Direct => Scheme::Direct,
        SchemeKind::OnDemand if is_artifact => Scheme::OnDemand(OnDemand::Artifact),
        SchemeKind::OnDemand => Scheme::OnDemand(OnDemand::Paper {
            threshold_packets: 1,
        }),
        SchemeKind::Offload => Scheme::OnDemand(OnDemand::Paper {
            threshold_packets: plan.offload_threshold_packets,
        }),
        SchemeKind::LocalLearning => Scheme::LocalLearning { entries },
        SchemeKind::GwCache => Scheme::GwCache { entries },
        SchemeKind::Bluebird if is_artifact => Scheme::Bluebird(Bluebird::artifact(entries)),
        SchemeKind::Bluebird => Scheme::Bluebird(Bluebird::paper(entries)),
        SchemeKind::Controller150 => controller(150),
        SchemeKind::Controller300 => controller(300),
        SchemeKind::SwitchV2p => Scheme::SwitchV2p(v2p),
        SchemeKind::SwitchV2pNoInvalidations => Scheme::SwitchV2p(SwitchV2p {
            sends_invalidations: false,
            ..v2p
        }),
        SchemeKind::SwitchV2pNoTimestamps => Scheme::SwitchV2p(SwitchV2p {
            has_timestamp_vector: false,
            ..v2p
        }),
        SchemeKind::SwitchV2pTors => Scheme::SwitchV2p(SwitchV2p {
            memory: MemoryPlacement::TorsOnly,
            ..v2p
        }),
        SchemeKind::SwitchV2pPartitions => Scheme::SwitchV2p(SwitchV2p {
            is_partitioned: true,
            ..v2p
        }),
        SchemeKind::SwitchV2pPlus | SchemeKind::SwitchV2pCurves => Scheme::SwitchV2p(SwitchV2p {
            profile: Profile::Plus,
            ..v2p
        }),
    }
}

/// Refuses caches that exceed the machine's memory when `jobs` runs are done at a time.
///
/// # Errors
/// If one is too large; gives the place of the size in the plan.
pub(super) fn check_memory(runs: &[&Run], jobs: usize, path: &Path) -> Result<()> {
    let memory = thalweg_command::memory::machine_bytes();
    for run in runs {
        let needed = run.total_entries.saturating_mul(ENTRY_BYTES);
        if needed.saturating_mul(jobs as u64) > memory {
            let what = format!(
                " {} caches of {} entries in all are up to {} each run, and {jobs} at a time more \
                 than this machine's memory ({}); give less, or --jobs 1",
                run.kind.name(),
                thalweg_command::report::format_count(run.total_entries),
                thalweg_command::report::format_bytes(needed),
                thalweg_command::report::format_bytes(memory),
            );
            return Err(refuse(path, run.cache, &what));
        }
    }
    Ok(())
}

/// Number of gateways in a fabric.
pub(super) fn gateway_count(shape: &FatTree) -> u32 {
    shape.gateway_tors.len() as u32 * shape.gateways_per_tor
}
