//! The graph of tables and ports that packets go through.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::{Value, json};
use thalweg_packet::{PortId, standard as f};
use thalweg_pipeline::{DropReason, Effect, Pipeline, TableId};
use thalweg_switch::{Megaflows, SlicedEntry};

use crate::trace::TraceNames;
use crate::views::drops::note_reasons;

/// Ports of an entry that are shown one by one; an entry with more goes to "many ports".
const PORTS_SHOWN: usize = 4;

/// A node.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Node {
    In(PortId),
    Table(TableId),
    Out(PortId),
    ManyPorts,
    Controller,
    Drop,
}

/// Packets of an edge, by the layer that answered them.
#[derive(Clone, Copy, Debug, Default)]
struct LayerCounts {
    microflow: u64,
    megaflow: u64,
    slow_path: u64,
}

/// Where a walk's packets go.
#[derive(Debug, Default)]
struct Ends {
    ports: BTreeSet<PortId>,
    to_controller: bool,
    is_dropped: bool,
    /// The numbers of the walks that go on.
    continued: Vec<u32>,
}

/// The graph, as far as entries were added.
pub(super) struct WalkGraph<'a> {
    pipeline: &'a Pipeline,
    names: &'a dyn TraceNames,
    edges: BTreeMap<(Node, Node), LayerCounts>,
    /// For each number of a walk that goes on, where the earlier pass ended.
    continued: HashMap<u32, Node>,
}

impl<'a> WalkGraph<'a> {
    pub(super) fn new(pipeline: &'a Pipeline, names: &'a dyn TraceNames) -> WalkGraph<'a> {
        WalkGraph {
            pipeline,
            names,
            edges: BTreeMap::new(),
            continued: HashMap::new(),
        }
    }

    /// Adds an entry's packets to the edges of its walk.
    pub(super) fn add(
        &mut self,
        entry: &SlicedEntry,
        number: u32,
        context: &Megaflows,
        layer: &str,
    ) {
        let packets = entry.report.counters.packets;
        let mut counts = LayerCounts {
            slow_path: entry.first_packets,
            ..LayerCounts::default()
        };
        match layer {
            "microflow" => counts.microflow = packets,
            _ => counts.megaflow = packets,
        }
        let in_port = context.layout.get(&entry.report.key, f::IN_PORT);
        let begin = match number {
            0 => in_port.map(|port| Node::In(PortId(port as u32))),
            number => self.continued.get(&number).cloned(),
        };
        let tables = self.tables(entry).into_iter().map(Node::Table);
        let walk: Vec<Node> = begin.into_iter().chain(tables).collect();
        for pair in walk.windows(2) {
            self.count(&pair[0], &pair[1], counts);
        }
        let Some(last) = walk.last() else {
            return;
        };
        let mut ends = Ends::default();
        ends.note(&entry.report.effects);
        for number in &ends.continued {
            self.continued.entry(*number).or_insert(last.clone());
        }
        for end in ends.nodes() {
            self.count(last, &end, counts);
        }
    }

    /// The tables of an entry's walk: those of its rules, and the one in which nothing matched.
    fn tables(&self, entry: &SlicedEntry) -> Vec<TableId> {
        let mut reasons = Vec::new();
        note_reasons(&entry.report.effects, &mut reasons);
        let missed = reasons.iter().find_map(|reason| match reason {
            DropReason::TableMiss(table) => Some(*table),
            _ => None,
        });
        let rules = entry.rules.iter();
        let matched = rules.filter_map(|rule| Some(self.pipeline.rule(*rule)?.table));
        matched.chain(missed).collect()
    }

    fn count(&mut self, from: &Node, to: &Node, counts: LayerCounts) {
        let known = self.edges.entry((from.clone(), to.clone())).or_default();
        known.microflow += counts.microflow;
        known.megaflow += counts.megaflow;
        known.slow_path += counts.slow_path;
    }

    /// Nodes, and edges between their places: all tables with lookups, and the ends of edges.
    pub(super) fn object(&self) -> Value {
        let counted: BTreeMap<TableId, (u64, u64)> = self
            .pipeline
            .table_counters()
            .map(|(table, lookups, matches)| (table, (lookups, matches)))
            .collect();
        let ends = self.edges.keys().flat_map(|(from, to)| [from, to]);
        let mut nodes: BTreeSet<Node> = ends.cloned().collect();
        nodes.extend(counted.keys().map(|table| Node::Table(*table)));
        let places: HashMap<&Node, usize> = nodes.iter().zip(0..).collect();
        let edges = self.edges.iter().map(|((from, to), counts)| {
            json!({
                "from": places[from],
                "to": places[to],
                "microflow": counts.microflow,
                "megaflow": counts.megaflow,
                "slow_path": counts.slow_path,
            })
        });
        let edges: Vec<Value> = edges.collect();
        let nodes = nodes.iter().map(|node| self.node_object(node, &counted));
        let nodes: Vec<Value> = nodes.collect();
        json!({"nodes": nodes, "edges": edges})
    }

    fn node_object(&self, node: &Node, counted: &BTreeMap<TableId, (u64, u64)>) -> Value {
        let port_name = |port: &PortId| {
            let name = self.names.port_name(*port);
            name.unwrap_or_else(|| port.to_string())
        };
        match node {
            Node::In(port) => json!({"kind": "in", "name": port_name(port)}),
            Node::Out(port) => json!({"kind": "out", "name": port_name(port)}),
            Node::ManyPorts => json!({"kind": "out", "name": "many ports"}),
            Node::Controller => json!({"kind": "controller", "name": "controller"}),
            Node::Drop => json!({"kind": "drop", "name": "drop"}),
            Node::Table(table) => {
                let (lookups, matches) = counted.get(table).copied().unwrap_or_default();
                json!({
                    "kind": "table",
                    "bridge": self.names.bridge_name(table.bridge()),
                    "table": table.number(),
                    "rules": self.pipeline.rules_of_table(*table),
                    "lookups": lookups,
                    "matches": matches,
                })
            }
        }
    }
}

impl Ends {
    fn note(&mut self, effects: &[Effect]) {
        // An entry without effects drops without a word.
        for effect in effects {
            match effect {
                Effect::Output(port) => {
                    self.ports.insert(*port);
                }
                Effect::Controller { .. } => self.to_controller = true,
                Effect::Drop { .. } => self.is_dropped = true,
                Effect::Recirculate(number) => self.continued.push(*number),
                Effect::LearnRule {
                    outcomes: Some((with, without)),
                    ..
                } => self.continued.extend([*with, *without]),
                other => other.lists().for_each(|list| self.note(list)),
            }
        }
    }

    fn nodes(&self) -> Vec<Node> {
        let mut nodes = Vec::new();
        match self.ports.len() <= PORTS_SHOWN {
            true => nodes.extend(self.ports.iter().map(|port| Node::Out(*port))),
            false => nodes.push(Node::ManyPorts),
        }
        if self.to_controller {
            nodes.push(Node::Controller);
        }
        if self.is_dropped {
            nodes.push(Node::Drop);
        }
        nodes
    }
}
