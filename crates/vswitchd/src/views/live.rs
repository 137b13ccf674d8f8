//! The counts of a switch at one moment, as one JSON object, for programs that ask often
//! (`thalweg/live`).
//!
//! It costs what metrics cost: workers report between two bursts. Neither rules nor entries are
//! looked at.

use serde_json::{Value, json};
use thalweg_datapath::{EvictReason, RefuseReason};
use thalweg_io::PortStatus;
use thalweg_pipeline::BridgeId;
use thalweg_switch::{PortTotals, Switch, Totals};

use crate::trace::TraceNames;

/// The counts of a switch since it started; times are in seconds. Ports without a name are left
/// out, and so are reasons that did not occur.
pub fn live_text(switch: &mut Switch, names: &dyn TraceNames) -> String {
    let totals = switch.totals();
    let (datapath, work) = (&totals.datapath, totals.maintenance);
    let ports = totals.ports.iter();
    let ports: Vec<Value> = ports.filter_map(|port| port_object(port, names)).collect();
    let object = json!({
        "seconds": switch.now().as_nanos() as f64 / 1e9,
        "version": totals.version.0,
        "rules": totals.rules,
        "packets": datapath.packets,
        "recirculations": datapath.recirculations,
        "computed": datapath.computed,
        "upcalls": datapath.upcalls,
        "probes": datapath.lookups.subtables,
        "microflow": {
            "hits": datapath.microflow.hits,
            "misses": datapath.microflow.misses,
            "entries": totals.microflows,
        },
        "megaflow": {
            "hits": datapath.megaflow.hits,
            "misses": datapath.megaflow.misses,
            "entries": totals.megaflows,
        },
        "masks": totals.masks,
        "evictions": evictions(&totals),
        "refusals": refusals(&totals),
        "drops": totals.drops(),
        "changes": totals.changes.made,
        "change_seconds": totals.changes.time.as_secs_f64(),
        "repairs": {
            "unchanged": work.falsely_affected(),
            "repaired": work.repaired,
            "moved": work.moved,
            "evicted": work.evicted,
        },
        "repair_seconds": totals.workers.maintenance_time.as_secs_f64(),
        "connections": switch.tracker().connection_count(),
        "ports": ports,
    });
    object.to_string()
}

fn evictions(totals: &Totals) -> Value {
    let counts = EvictReason::ALL.map(|reason| (reason.name(), totals.datapath.evictions(reason)));
    counted(&counts)
}

fn refusals(totals: &Totals) -> Value {
    let counts = RefuseReason::ALL.map(|reason| (reason.name(), totals.datapath.refusals(reason)));
    counted(&counts)
}

/// An object of the counts that are not zero.
fn counted(counts: &[(&'static str, u64)]) -> Value {
    let counts = counts.iter().filter(|(_, count)| *count > 0);
    counts
        .map(|(name, count)| ((*name).to_owned(), json!(count)))
        .collect()
}

fn port_object(port: &PortTotals, names: &dyn TraceNames) -> Option<Value> {
    let name = names.port_name(port.number)?;
    let counters = &port.counters;
    let drops: u64 = counters.drops.iter().map(|(_, count)| count).sum();
    Some(json!({
        "bridge": names.bridge_name(BridgeId::of_port(port.number)),
        "name": name,
        "status": match port.status {
            PortStatus::Up => "up",
            PortStatus::Down => "down",
            PortStatus::Gone => "gone",
            PortStatus::Finished => "finished",
        },
        "received_packets": counters.received_packets,
        "received_bytes": counters.received_bytes,
        "sent_packets": counters.sent_packets,
        "sent_bytes": counters.sent_bytes,
        "drops": drops,
    }))
}
