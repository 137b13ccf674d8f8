//! What metrics are made of: the counts of a switch at one moment.

use std::collections::BTreeMap;

use thalweg_packet::PortId;
use thalweg_switch::{Switch, Totals};

/// A port's labels.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PortLabel {
    /// Its bridge.
    pub bridge: String,
    /// Its name.
    pub name: String,
}

/// The counts of a switch at one moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// The counts of ports, caches and workers.
    pub totals: Totals,
    /// The ports that have a name; counts of others are left out.
    pub ports: BTreeMap<PortId, PortLabel>,
    /// Bytes that the rules and their indexes take.
    pub table_bytes: usize,
    /// Tracked connections.
    pub connections: u64,
    /// What happened to connections and tracked packets, by name.
    pub tracking: Vec<(&'static str, u64)>,
}

impl Snapshot {
    /// Takes a switch's counts; `ports` names its ports.
    pub fn take(switch: &mut Switch, ports: BTreeMap<PortId, PortLabel>) -> Snapshot {
        let totals = switch.totals();
        let tracker = switch.tracker();
        Snapshot {
            totals,
            ports,
            table_bytes: switch.pipeline().memory_bytes(),
            connections: tracker.connection_count().into(),
            tracking: tracker.counters().each().collect(),
        }
    }
}
