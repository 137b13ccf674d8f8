//! The results of a run, as the ledger stores and `--json` prints them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use thalweg_config::Plan;
use thalweg_fabric::{
    Config, Drop, Layers, NodeId, NodeKind, Report, Simulation, TenantReport, Topology,
};
use thalweg_v2p::Role;

use super::runs::{Run, gateway_count};

/// The row of a run; its figures are those of [`thalweg_fabric::Report`].
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Row {
    pub(super) scheme: String,
    pub(super) profile: String,
    /// `null` for schemes without caches, and if the plan gives entries.
    pub(super) cache_percent: Option<f64>,
    /// Entries of each switch that has a cache.
    pub(super) cache_entries: Option<u32>,
    pub(super) seed: u64,
    pub(super) pods: u32,
    pub(super) gateways: u32,
    pub(super) transport: String,
    /// Duplicate acknowledgements after which a segment counts as lost, or `rack-tlp`; `null`
    /// for datagrams.
    pub(super) loss_detection: Option<String>,
    pub(super) hit_rate: f64,
    pub(super) mean_fct_us: f64,
    pub(super) mean_first_packet_us: f64,
    pub(super) mean_packet_latency_us: f64,
    pub(super) stretch: f64,
    pub(super) packets_sent: u64,
    pub(super) delivered: u64,
    pub(super) gateway_packets: u64,
    pub(super) host_resolved: u64,
    pub(super) control_plane_packets: u64,
    pub(super) misdelivered: u64,
    pub(super) last_misdelivered_us: Option<f64>,
    pub(super) invalidations: u64,
    pub(super) learning_packets: u64,
    pub(super) drops: u64,
    pub(super) drops_by_reason: BTreeMap<String, u64>,
    pub(super) reordered: u64,
    pub(super) retransmitted: u64,
    pub(super) timeouts: u64,
    pub(super) recoveries: u64,
    pub(super) connections_finished: u64,
    pub(super) connections_failed: u64,
    pub(super) switch_bytes: Vec<u64>,
    pub(super) hits_by_layer: Hits,
    pub(super) first_hits_by_layer: Hits,
    pub(super) packet_hops: u64,
    pub(super) controller: Option<Plans>,
    /// Cache lines per layer, if they were placed by miss-ratio curves.
    pub(super) placed_entries: Option<Hits>,
    /// Results per tenant in the plan's order, if there are several tenants.
    pub(super) tenants: Vec<TenantRow>,
    /// Processor time, the only figure that varies between repetitions.
    pub(super) cpu_seconds: f64,
}

/// Counts by the layer of the switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Hits {
    pub(super) core: u64,
    pub(super) spine: u64,
    pub(super) tor: u64,
}

/// The results for one of several tenants.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TenantRow {
    pub(super) packets_sent: u64,
    pub(super) gateway_packets: u64,
    pub(super) hit_rate: f64,
    pub(super) mean_fct_us: f64,
    pub(super) mean_first_packet_us: f64,
}

impl From<&TenantReport> for TenantRow {
    fn from(report: &TenantReport) -> TenantRow {
        TenantRow {
            packets_sent: report.packets_sent,
            gateway_packets: report.gateway_packets,
            hit_rate: report.hit_rate,
            mean_fct_us: report.mean_fct_us,
            mean_first_packet_us: report.mean_first_packet_us,
        }
    }
}

/// The quality of a controller's plans.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Plans {
    pub(super) plans: u64,
    pub(super) proven: u64,
    pub(super) unproven: u64,
    pub(super) largest_gap: f64,
}

impl From<Layers> for Hits {
    fn from(layers: Layers) -> Hits {
        Hits {
            core: layers.core,
            spine: layers.spine,
            tor: layers.tor,
        }
    }
}

impl Hits {
    pub(super) fn total(self) -> u64 {
        self.core + self.spine + self.tor
    }
}

impl Row {
    /// Creates the row of a finished run.
    pub(super) fn new(
        run: &Run,
        config: &Config,
        simulation: &Simulation,
        cpu_seconds: f64,
    ) -> Row {
        let report: Report = simulation.report();
        let reasons = Drop::ALL.into_iter().map(|reason| {
            let name = reason.name().to_owned();
            (name, report.drops.of(reason))
        });
        let controller = simulation.controller().map(|plans| Plans {
            plans: plans.plans,
            proven: plans.proven,
            unproven: plans.unproven,
            largest_gap: plans.largest_gap,
        });
        Row {
            scheme: run.kind.name().to_owned(),
            profile: run.profile.name().to_owned(),
            cache_percent: run.percent(),
            cache_entries: run.entries,
            seed: run.config.seed,
            pods: run.config.shape.pods,
            gateways: run.gateways,
            transport: run.transport.name().to_owned(),
            loss_detection: run.transport.loss_detection(),
            hit_rate: report.hit_rate,
            mean_fct_us: report.mean_fct_us,
            mean_first_packet_us: report.mean_first_packet_us,
            mean_packet_latency_us: report.mean_packet_latency_us,
            stretch: report.stretch,
            packets_sent: report.packets_sent,
            delivered: report.delivered,
            gateway_packets: report.gateway_packets,
            host_resolved: report.host_resolved,
            control_plane_packets: report.control_plane_packets,
            misdelivered: report.misdelivered,
            last_misdelivered_us: report.last_misdelivered_us,
            invalidations: report.invalidations,
            learning_packets: report.learning_packets,
            drops: report.drops.total(),
            drops_by_reason: reasons.filter(|(_, count)| *count > 0).collect(),
            reordered: report.reordered,
            retransmitted: report.retransmitted,
            timeouts: report.timeouts,
            recoveries: report.recoveries,
            connections_finished: report.connections_finished,
            connections_failed: report.connections_failed,
            switch_bytes: report.switch_bytes,
            hits_by_layer: report.hits_by_layer.into(),
            first_hits_by_layer: report.first_hits_by_layer.into(),
            packet_hops: report.packet_hops,
            controller,
            placed_entries: config
                .switch_entries
                .as_deref()
                .map(|entries| by_layer(simulation.topology(), entries)),
            tenants: report.tenants.iter().map(TenantRow::from).collect(),
            cpu_seconds,
        }
    }

    /// The cache size, for people.
    pub(super) fn cache_text(&self) -> String {
        match (self.cache_percent, self.cache_entries) {
            (Some(percent), _) => format!("{percent} %"),
            (None, Some(entries)) => format!("{entries} each"),
            (None, None) => "-".to_owned(),
        }
    }

    /// The cache size, as a position on an axis.
    pub(super) fn cache_size(&self) -> Option<f64> {
        self.cache_percent.or(self.cache_entries.map(f64::from))
    }

    /// Whether two rows share fabric, transport and seed, so that they can be compared.
    pub(super) fn is_beside(&self, other: &Row) -> bool {
        self.pods == other.pods
            && self.gateways == other.gateways
            && self.seed == other.seed
            && self.loss_detection == other.loss_detection
    }
}

/// Cache lines of the switches, summed by layer.
fn by_layer(topology: &Topology, entries: &[u32]) -> Hits {
    let mut layers = Hits::default();
    for (number, &entries) in (0..).zip(entries) {
        *match topology.kind(NodeId(number)) {
            NodeKind::Switch(Role::Core) => &mut layers.core,
            NodeKind::Switch(Role::Spine | Role::GatewaySpine) => &mut layers.spine,
            _ => &mut layers.tor,
        } += u64::from(entries);
    }
    layers
}

/// Which dimensions have several values in a plan.
pub(super) struct Variety {
    pub(super) pods: bool,
    pub(super) gateways: bool,
    pub(super) transports: bool,
    pub(super) seeds: bool,
}

impl Variety {
    pub(super) fn of(plan: &Plan) -> Variety {
        let shapes = || plan.topologies.iter().map(|planned| &planned.shape);
        let differs = |of: fn(&thalweg_fabric::FatTree) -> u32| {
            let mut all = shapes().map(of);
            let first = all.next();
            all.any(|other| Some(other) != first)
        };
        Variety {
            pods: differs(|shape| shape.pods),
            gateways: differs(gateway_count),
            transports: plan.workload.transports.len() > 1,
            seeds: plan.seeds.len() > 1,
        }
    }
}
