//! The statement control-flow graph: decisions, actions, and their order.
//!
//! ```text
//!   predication vertex   a condition, or the match of a table
//!   action vertex        an action of a table; the parser; what the target does between pipelines
//!   termination vertex   the end
//! ```
//!
//! 1. Edges lead from lower numbers to higher ones, once vertices are in order: programs are
//!    acyclic.
//! 2. An action of several tables has a vertex for each, since its successors differ.
//! 3. Unreachable vertices are left out.
//!
//! Reference: B-Cache, section III and figure 3.

use std::collections::{BTreeMap, HashMap};

use crate::program::control::{NodeKind, Pipeline};
use crate::program::ids::{ActionId, FieldId, NodeId, TableId};
use crate::program::parser::{KeyPart, ParserStep};
use crate::program::table::Table;

use super::objects::ObjectId;
use super::reads::{Reader, Set};
use super::statement::Effects;

/// The kind of a vertex.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VertexKind {
    /// The parser, which sets all headers.
    Parser,
    /// A condition.
    Condition,
    /// The match of a table.
    Match,
    /// An action.
    Action,
    /// The target between ingress and egress: it sets a replica's port and number.
    Replication,
    /// The end.
    Termination,
}

/// A vertex.
#[derive(Clone, Debug)]
pub struct Vertex {
    /// Its kind.
    pub kind: VertexKind,
    /// Its name in the program.
    pub name: String,
    /// What it reads and writes.
    pub effects: Effects,
    /// Edges to the possible successors.
    pub next: Vec<Edge>,
}

/// An edge: one vertex may follow another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Edge {
    /// The vertex it leads to.
    pub to: usize,
    /// The label: `true`, `false`, `hit`, `miss`, `exit`, or empty.
    pub way: &'static str,
}

/// The graph; the first vertex is the parser, the last the end.
#[derive(Clone, Debug)]
pub struct Graph {
    /// The vertices; each comes before its successors.
    pub vertices: Vec<Vertex>,
    /// By object that the parser fills: the objects it comes from.
    parsed: BTreeMap<ObjectId, Set>,
}

/// Fields that the target sets for each replica.
const REPLICATED: [&str; 8] = [
    "egress_port",
    "egress_rid",
    "instance_type",
    "enq_timestamp",
    "enq_qdepth",
    "deq_timedelta",
    "deq_qdepth",
    "egress_global_timestamp",
];

/// Builds the graph of a program. The loader has checked that its pipelines are acyclic.
pub(super) fn of(reader: Reader<'_>) -> Graph {
    let control = &reader.program.control;
    let (parser, parsed) = parser_effects(reader);
    let mut drafts = Drafts {
        reader,
        vertices: Vec::new(),
        nodes: HashMap::new(),
    };
    let termination = drafts.add(VertexKind::Termination, "end", Effects::default());
    let egress = drafts.add_pipeline(&control.egress, termination);
    let mut effects = Effects::default();
    let names = REPLICATED.iter();
    let set = names.filter_map(|name| reader.objects.find(&format!("standard_metadata.{name}")));
    effects.written.extend(set);
    effects.may_write.clone_from(&effects.written);
    let replication = drafts.add(VertexKind::Replication, "replication", effects);
    drafts.lead(replication, egress, "");
    let ingress = drafts.add_pipeline(&control.ingress, replication);
    let first = drafts.add(VertexKind::Parser, "parser", parser);
    drafts.lead(first, ingress, "");
    Graph {
        vertices: in_order(&drafts.vertices, first),
        parsed,
    }
}

impl Graph {
    /// The object itself, and the objects from which the parser may have made it.
    pub(super) fn sources(&self, id: ObjectId) -> Set {
        let mut found = Set::from([id]);
        let mut open = vec![id];
        while let Some(id) = open.pop() {
            for &source in self.parsed.get(&id).into_iter().flatten() {
                if found.insert(source) {
                    open.push(source);
                }
            }
        }
        found
    }
}

/// What decides which headers exist, and what the parser writes where.
fn parser_effects(reader: Reader<'_>) -> (Effects, BTreeMap<ObjectId, Set>) {
    const AHEAD: &str = "the parser looks ahead of the headers";
    let mut effects = Effects::default();
    let mut parsed: BTreeMap<ObjectId, Set> = BTreeMap::new();
    let word = |word| reader.objects.of_word(word);
    let field = |field: FieldId| reader.objects.of_field(field);
    for state in &reader.program.parser.states {
        for step in &state.steps {
            match step {
                ParserStep::Extract(_, length) => {
                    if let Some(length) = length {
                        reader.expr(length.expr(), &mut effects.operands);
                    }
                }
                ParserStep::Do(step) => {
                    let mut done = Effects::default();
                    reader.step(step, false, &mut done);
                    reader.note_moments(&mut done);
                    let reads: Set = done.matched.union(&done.operands).copied().collect();
                    for id in done.may_write {
                        parsed.entry(id).or_default().extend(&reads);
                    }
                    effects.stops.extend(done.stops);
                }
                ParserStep::Lookahead(to, ..) => {
                    effects.stops.insert(AHEAD);
                    if let Some(id) = field(*to) {
                        parsed.entry(id).or_default();
                    }
                }
                ParserStep::Verify(condition, error) => {
                    reader.expr(condition.expr(), &mut effects.operands);
                    reader.expr(error.expr(), &mut effects.operands);
                }
                ParserStep::Advance(bits) => reader.expr(bits.expr(), &mut effects.operands),
            }
        }
        for part in &state.key {
            match part {
                KeyPart::Value(code, _) => reader.expr(code.expr(), &mut effects.operands),
                KeyPart::Word(from) => effects.operands.extend(word(*from)),
                KeyPart::Lookahead(..) => {
                    effects.stops.insert(AHEAD);
                }
            }
        }
    }
    reader.note_moments(&mut effects);
    (effects, parsed)
}

/// Vertices under construction, successors first.
struct Drafts<'a> {
    reader: Reader<'a>,
    vertices: Vec<Vertex>,
    nodes: HashMap<NodeId, usize>,
}

impl Drafts<'_> {
    fn add(&mut self, kind: VertexKind, name: &str, effects: Effects) -> usize {
        self.vertices.push(Vertex {
            kind,
            name: name.to_owned(),
            effects,
            next: Vec::new(),
        });
        self.vertices.len() - 1
    }

    fn lead(&mut self, from: usize, to: usize, way: &'static str) {
        let next = &mut self.vertices[from].next;
        if !next.iter().any(|edge| edge.to == to) {
            next.push(Edge { to, way });
            next.sort_unstable();
        }
    }

    /// The vertex that a pipeline begins with; `end` follows the pipeline.
    fn add_pipeline(&mut self, pipeline: &Pipeline, end: usize) -> usize {
        // All nodes first, then their edges, since nodes come in any order.
        for id in pipeline.nodes.clone().map(NodeId) {
            self.add_node(id);
        }
        for id in pipeline.nodes.clone().map(NodeId) {
            self.connect(id, end);
        }
        self.place(pipeline.start, end)
    }

    fn place(&self, next: Option<NodeId>, end: usize) -> usize {
        next.map_or(end, |id| self.nodes[&id])
    }

    fn add_node(&mut self, id: NodeId) {
        let program = self.reader.program;
        let node = &program.control.nodes[id.index()];
        let index = match &node.kind {
            NodeKind::If(condition, ..) => {
                let mut effects = Effects::default();
                self.reader.expr(condition.expr(), &mut effects.matched);
                self.reader.note_moments(&mut effects);
                self.add(VertexKind::Condition, &node.name, effects)
            }
            NodeKind::Do(action, _) => self.add_action(*action),
            NodeKind::Table(table) => {
                let effects = self.table_effects(program.table(*table));
                self.add(VertexKind::Match, &node.name, effects)
            }
        };
        self.nodes.insert(id, index);
    }

    fn add_action(&mut self, id: ActionId) -> usize {
        let action = self.reader.program.action(id);
        let effects = self.reader.action(action);
        self.add(VertexKind::Action, &action.name, effects)
    }

    /// The effects of its key, its selector's hash and its entries' meters.
    fn table_effects(&self, table: &Table) -> Effects {
        let reader = self.reader;
        let mut effects = Effects::default();
        for part in &table.key {
            effects.matched.extend(reader.objects.of_field(part.field));
            // The part is 0 if its header is invalid.
            if let Some(valid) = part.valid_word {
                effects.operands.extend(reader.objects.of_word(valid));
            }
        }
        let profile = table.profile.map(|id| &reader.program.profiles[id.index()]);
        if let Some(selector) = profile.and_then(|profile| profile.selector) {
            let stop = reader.calculation(selector, &mut effects.operands);
            effects.stops.extend(stop);
        }
        if let Some(meter) = table.meter {
            reader.direct_meter(meter, &mut effects);
        }
        reader.note_moments(&mut effects);
        effects
    }

    fn connect(&mut self, id: NodeId, end: usize) {
        let program = self.reader.program;
        let index = self.nodes[&id];
        match &program.control.nodes[id.index()].kind {
            NodeKind::If(_, yes, no) => {
                self.lead(index, self.place(*yes, end), "true");
                self.lead(index, self.place(*no, end), "false");
            }
            NodeKind::Do(_, next) => {
                if self.vertices[index].effects.exits {
                    self.lead(index, end, "exit");
                }
                self.lead(index, self.place(*next, end), "");
            }
            NodeKind::Table(table) => self.connect_table(index, *table, end),
        }
    }

    fn connect_table(&mut self, index: usize, table: TableId, end: usize) {
        let table = self.reader.program.table(table);
        for (position, action) in table.actions.iter().enumerate() {
            let vertex = self.add_action(*action);
            self.lead(index, vertex, "");
            if self.vertices[vertex].effects.exits {
                self.lead(vertex, end, "exit");
            }
            let on = |is_hit| self.place(table.next(is_hit, Some(position)), end);
            let (hit, miss) = (on(true), on(false));
            let ways = match hit == miss {
                true => ["", ""],
                false => ["hit", "miss"],
            };
            self.lead(vertex, hit, ways[0]);
            self.lead(vertex, miss, ways[1]);
        }
        // A table without a default action may do nothing; so may an entry whose member is
        // gone.
        if table.default.is_none() || table.actions.is_empty() {
            self.lead(index, self.place(table.next(false, None), end), "miss");
        }
        if table.profile.is_some() {
            self.lead(index, self.place(table.next(true, None), end), "hit");
        }
    }
}

/// Establishes invariants 1 and 3.
fn in_order(vertices: &[Vertex], first: usize) -> Vec<Vertex> {
    let mut is_seen = vec![false; vertices.len()];
    let mut finished = Vec::new();
    let mut stack = vec![(first, 0)];
    is_seen[first] = true;
    while let Some((index, way)) = stack.pop() {
        let Some(&Edge { to: next, .. }) = vertices[index].next.get(way) else {
            finished.push(index);
            continue;
        };
        stack.push((index, way + 1));
        if !std::mem::replace(&mut is_seen[next], true) {
            stack.push((next, 0));
        }
    }
    finished.reverse();
    let places = finished.iter().enumerate();
    let places: HashMap<usize, usize> = places.map(|(place, index)| (*index, place)).collect();
    let ordered = finished.iter().map(|index| {
        let vertex = &vertices[*index];
        let next = vertex.next.iter().map(|edge| Edge {
            to: places[&edge.to],
            way: edge.way,
        });
        Vertex {
            next: next.collect(),
            ..vertex.clone()
        }
    });
    ordered.collect()
}
