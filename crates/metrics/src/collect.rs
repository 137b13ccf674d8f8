//! The metrics: their names, what they mean, and their values of a snapshot.
//!
//! Names begin with `thalweg_`; counters end in `_total`, as OpenMetrics has it. Times are in
//! seconds and sizes in bytes.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use thalweg_datapath::{EvictReason, RefuseReason};
use thalweg_io::PortStatus;

use crate::snapshot::{PortLabel, Snapshot};

/// The metrics of a snapshot, as OpenMetrics text.
///
/// ```
/// let text = thalweg_metrics::exposition(thalweg_metrics::Snapshot::default().into());
/// assert!(text.contains("thalweg_packets_total 0\n"));
/// assert!(text.ends_with("# EOF\n"));
/// ```
pub fn exposition(snapshot: Arc<Snapshot>) -> String {
    let mut registry = Registry::with_prefix("thalweg");
    registry.register_collector(Box::new(Collected(snapshot)));
    let mut text = String::new();
    encode(&mut text, &registry).expect("a string takes all that is written");
    text
}

#[derive(Debug)]
struct Collected(Arc<Snapshot>);

impl Collector for Collected {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let snapshot = &self.0;
        let mut metrics = Metrics(&mut encoder);
        metrics.lookups(snapshot)?;
        metrics.caches(snapshot)?;
        metrics.drops(snapshot)?;
        metrics.changes(snapshot)?;
        metrics.ports(snapshot)?;
        metrics.tracking(snapshot)?;
        metrics.control(snapshot)
    }
}

/// One label and a value, for each of a metric's rows.
type Row<'a> = (&'a str, u64);

struct Metrics<'a, 'b>(&'a mut DescriptorEncoder<'b>);

impl Metrics<'_, '_> {
    fn count(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        let mut metric = self
            .0
            .encode_descriptor(name, help, None, MetricType::Counter)?;
        metric.encode_counter::<NoLabelSet, u64, u64>(&value, None)
    }

    fn counts<'r>(
        &mut self,
        (name, help): (&str, &str),
        label: &str,
        rows: impl IntoIterator<Item = Row<'r>>,
    ) -> fmt::Result {
        let mut metric = self
            .0
            .encode_descriptor(name, help, None, MetricType::Counter)?;
        for (value_of_label, value) in rows {
            let labels = [(label, value_of_label)];
            let mut row = metric.encode_family(&labels)?;
            row.encode_counter::<NoLabelSet, u64, u64>(&value, None)?;
        }
        Ok(())
    }

    fn gauge(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        let mut metric = self
            .0
            .encode_descriptor(name, help, None, MetricType::Gauge)?;
        metric.encode_gauge(&value)
    }

    fn seconds(&mut self, name: &str, help: &str, kind: MetricType, value: f64) -> fmt::Result {
        let unit = Some(&Unit::Seconds);
        let mut metric = self.0.encode_descriptor(name, help, unit, kind)?;
        match kind {
            MetricType::Counter => metric.encode_counter::<NoLabelSet, f64, f64>(&value, None),
            _ => metric.encode_gauge(&value),
        }
    }

    fn lookups(&mut self, snapshot: &Snapshot) -> fmt::Result {
        let datapath = &snapshot.totals.datapath;
        self.count("packets", "Packets that were looked up", datapath.packets)?;
        self.count(
            "recirculations",
            "Packets that were looked up again",
            datapath.recirculations,
        )?;
        let mut metric = self.0.encode_descriptor(
            "cache_lookups",
            "Lookups in each cache, by whether an entry was found",
            None,
            MetricType::Counter,
        )?;
        for (layer, counters) in [
            ("microflow", datapath.microflow),
            ("megaflow", datapath.megaflow),
        ] {
            for (result, count) in [("hit", counters.hits), ("miss", counters.misses)] {
                let labels = [("layer", layer), ("result", result)];
                let mut row = metric.encode_family(&labels)?;
                row.encode_counter::<NoLabelSet, u64, u64>(&count, None)?;
            }
        }
        self.count(
            "upcalls",
            "Packets that no cache answered, so that the tables were walked",
            datapath.upcalls,
        )?;
        self.count(
            "computed",
            "Packets that the rules answered without a cache",
            datapath.computed,
        )?;
        self.count(
            "probes",
            "Masks that lookups in the megaflow cache searched",
            datapath.lookups.subtables,
        )
    }

    fn caches(&mut self, snapshot: &Snapshot) -> fmt::Result {
        let totals = &snapshot.totals;
        let mut metric = self.0.encode_descriptor(
            "cache_entries",
            "Entries of each cache, over all workers",
            None,
            MetricType::Gauge,
        )?;
        for (layer, entries) in [
            ("microflow", totals.microflows),
            ("megaflow", totals.megaflows),
        ] {
            let labels = [("layer", layer)];
            metric
                .encode_family(&labels)?
                .encode_gauge(&(entries as u64))?;
        }
        self.gauge(
            "cache_masks",
            "Masks of the megaflow cache, over all workers",
            totals.masks as u64,
        )?;
        let evictions =
            EvictReason::ALL.map(|reason| (reason.name(), totals.datapath.evictions(reason)));
        self.counts(
            ("evictions", "Entries that left the megaflow cache"),
            "reason",
            evictions,
        )?;
        let refusals =
            RefuseReason::ALL.map(|reason| (reason.name(), totals.datapath.refusals(reason)));
        self.counts(("refusals", "What the caches refused"), "reason", refusals)
    }

    fn drops(&mut self, snapshot: &Snapshot) -> fmt::Result {
        let drops = snapshot.totals.drops();
        self.counts(
            ("drops", "Packets and copies that were dropped"),
            "reason",
            drops.iter().map(|(reason, count)| (*reason, *count)),
        )?;
        let mut metric = self.0.encode_descriptor(
            "port_drops",
            "Packets that a port dropped",
            None,
            MetricType::Counter,
        )?;
        for port in &snapshot.totals.ports {
            let Some(PortLabel { bridge, name }) = snapshot.ports.get(&port.number) else {
                continue;
            };
            for (reason, count) in port.counters.drops.iter() {
                let labels = [
                    ("bridge", bridge.as_str()),
                    ("port", name),
                    ("reason", reason.name()),
                ];
                let mut row = metric.encode_family(&labels)?;
                row.encode_counter::<NoLabelSet, u64, u64>(&count, None)?;
            }
        }
        Ok(())
    }

    fn changes(&mut self, snapshot: &Snapshot) -> fmt::Result {
        let totals = &snapshot.totals;
        let changes = totals.changes;
        self.count(
            "changes",
            "Changes of rules, groups, ports and what else the tables have",
            changes.made,
        )?;
        self.seconds(
            "change_acknowledgement",
            "Time from the start of changes until all workers followed them",
            MetricType::Counter,
            changes.time.as_secs_f64(),
        )?;
        self.seconds(
            "longest_change_acknowledgement",
            "The longest time from the start of a change until all workers followed it",
            MetricType::Gauge,
            changes.longest.as_secs_f64(),
        )?;
        let work = totals.maintenance;
        let outcomes = [
            ("unchanged", work.falsely_affected()),
            ("repaired", work.repaired),
            ("moved", work.moved),
            ("evicted", work.evicted),
        ];
        self.counts(
            (
                "repairs",
                "Entries that were looked at after a change, by what became of them",
            ),
            "outcome",
            outcomes,
        )?;
        self.seconds(
            "repair",
            "Time that workers spent following changes",
            MetricType::Counter,
            totals.workers.maintenance_time.as_secs_f64(),
        )?;
        self.seconds(
            "longest_pause",
            "The longest time that maintenance and reports took between two bursts",
            MetricType::Gauge,
            totals.workers.longest_pause.as_secs_f64(),
        )?;
        self.gauge("version", "The version of the rules", totals.version.0)?;
        self.gauge("rules", "Rules at that version", totals.rules as u64)?;
        let mut metric = self.0.encode_descriptor(
            "table_memory",
            "Memory of the rules and their indexes, without lists of actions",
            Some(&Unit::Bytes),
            MetricType::Gauge,
        )?;
        metric.encode_gauge(&(snapshot.table_bytes as u64))
    }

    fn ports(&mut self, snapshot: &Snapshot) -> fmt::Result {
        let named = || {
            let ports = snapshot.totals.ports.iter();
            ports.filter_map(|port| Some((port, snapshot.ports.get(&port.number)?)))
        };
        let mut metric = self.0.encode_descriptor(
            "port_up",
            "Whether a port can carry packets",
            None,
            MetricType::Gauge,
        )?;
        for (port, label) in named() {
            let labels = [("bridge", &label.bridge), ("port", &label.name)];
            let is_up = port.status == PortStatus::Up;
            metric
                .encode_family(&labels)?
                .encode_gauge(&u64::from(is_up))?;
        }
        let counts = [
            ("port_packets", "Packets of a port"),
            ("port_bytes", "Bytes of a port"),
        ];
        for (place, (name, help)) in counts.into_iter().enumerate() {
            let mut metric = self
                .0
                .encode_descriptor(name, help, None, MetricType::Counter)?;
            for (port, label) in named() {
                let counters = &port.counters;
                let received = [counters.received_packets, counters.received_bytes];
                let sent = [counters.sent_packets, counters.sent_bytes];
                for (direction, counts) in [("received", received), ("sent", sent)] {
                    let labels = [
                        ("bridge", label.bridge.as_str()),
                        ("port", &label.name),
                        ("direction", direction),
                    ];
                    let mut row = metric.encode_family(&labels)?;
                    row.encode_counter::<NoLabelSet, u64, u64>(&counts[place], None)?;
                }
            }
        }
        Ok(())
    }

    fn tracking(&mut self, snapshot: &Snapshot) -> fmt::Result {
        self.gauge("connections", "Tracked connections", snapshot.connections)?;
        self.counts(
            (
                "tracking",
                "What happened to connections and tracked packets",
            ),
            "event",
            snapshot.tracking.iter().copied(),
        )
    }

    fn control(&mut self, snapshot: &Snapshot) -> fmt::Result {
        let totals = &snapshot.totals;
        let stations = totals.stations;
        self.counts(
            ("stations", "What happened to stations of the MAC tables"),
            "event",
            [
                ("learned", stations.learned),
                ("expired", stations.expired),
                ("evicted", stations.evicted),
                ("moved", stations.moved),
                ("kept", stations.kept),
                ("refused", totals.stations_refused),
            ],
        )?;
        let learning = totals.learning;
        self.counts(
            ("learned_rules", "What became of rules that packets taught"),
            "event",
            [
                ("learned", learning.learned),
                ("refreshed", learning.refreshed),
                ("refused", learning.refused),
                ("over_limit", totals.workers.rules_over_limit),
            ],
        )?;
        self.counts(
            ("packet_ins", "Packets for controllers"),
            "result",
            [
                ("handed_over", totals.workers.packet_ins),
                ("refused", totals.workers.packet_ins_refused),
            ],
        )?;
        self.count(
            "own_changes",
            "Changes made for stations, ports and timeouts",
            totals.own_changes,
        )?;
        self.counts(
            (
                "ports_plugged",
                "Ports that came and went while the switch ran",
            ),
            "event",
            [
                ("attached", totals.plugs.attached),
                ("detached", totals.plugs.detached),
                ("gone", totals.plugs.gone),
            ],
        )
    }
}
