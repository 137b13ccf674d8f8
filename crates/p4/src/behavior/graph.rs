//! The statement control-flow graph: what is decided, what is done, and what comes after what.
//!
//! ```text
//!   predication vertex   a condition, or the match of a table
//!   action vertex        an action of a table; the parser; what the target does between pipelines
//!   termination vertex   the end
//! ```
//!
//! 1. Edges lead from lower numbers to higher ones, once vertices are in order: programs are acyclic.
//! 2. An action that several tables have is a vertex for each, since what follows it differs.
//!
//! Reference: B-Cache, section III and figure 3.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::error::LoadError;
use crate::json::Node;

use super::objects::{ObjectId, Objects};
use super::statement::{Effects, Reader};

/// What kind of vertex it is.
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
    /// What it is.
    pub kind: VertexKind,
    /// As the program names it.
    pub name: String,
    /// What it reads and writes.
    pub effects: Effects,
    /// What may come next.
    pub next: Vec<Edge>,
}

/// That one vertex may come after another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Edge {
    /// The later one.
    pub to: usize,
    /// When: `true`, `false`, `hit`, `miss`, `exit`, or nothing to tell apart.
    pub way: &'static str,
}

/// The graph; the first vertex is the parser, the last the end.
#[derive(Clone, Debug)]
pub struct Graph {
    /// In an order in which each comes before what follows it.
    pub vertices: Vec<Vertex>,
    /// Metadata that the parser fills: from which objects.
    pub(super) parsed: BTreeMap<ObjectId, BTreeSet<ObjectId>>,
}

/// What the target sets for each replica.
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

/// A vertex whose successors are known by name only.
struct Draft {
    vertex: Vertex,
    next: BTreeSet<(Target, &'static str)>,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Target {
    Draft(usize),
    Node(&'static str, String),
    EndOf(&'static str),
}

/// Reads the graph out of the JSON.
///
/// # Errors
/// If something is missing, not as the format has it, or comes round to itself.
pub(super) fn read(root: &Node<'_>, objects: &Objects) -> Result<Graph, LoadError> {
    let reader = Reader { objects, root };
    let mut drafts = vec![Draft {
        vertex: vertex(VertexKind::Parser, "parser", parser_effects(root, &reader)?),
        next: BTreeSet::new(),
    }];
    let mut names = HashMap::new();
    let pipelines = root.list("pipelines")?;
    let mut starts = Vec::new();
    for which in ["ingress", "egress"] {
        let mut named = pipelines.iter();
        let pipeline = named.find(|one| one.find("name").is_some_and(|name| name.is_text(which)));
        let missing = || root.refuse(format!("there is no pipeline {which:?}"));
        let pipeline = pipeline.ok_or_else(missing)?;
        let builder = &mut Builder {
            which,
            root,
            reader: &reader,
            drafts: &mut drafts,
            names: &mut names,
        };
        builder.add_all(pipeline)?;
        starts.push(builder.target(pipeline.find("init_table"))?);
    }
    let egress = starts.pop().unwrap_or(Target::EndOf("egress"));
    let ingress = starts.pop().unwrap_or(Target::EndOf("ingress"));
    drafts[0].next.insert((ingress, ""));
    let replication = drafts.len();
    let mut effects = Effects::default();
    let set = REPLICATED
        .iter()
        .filter_map(|name| objects.find(&format!("standard_metadata.{name}")));
    effects.written.extend(set);
    effects.may_write.clone_from(&effects.written);
    drafts.push(Draft {
        vertex: vertex(VertexKind::Replication, "replication", effects),
        next: BTreeSet::from([(egress, "")]),
    });
    let end = drafts.len();
    drafts.push(Draft {
        vertex: vertex(VertexKind::Termination, "end", Effects::default()),
        next: BTreeSet::new(),
    });
    let place_of = |target: &Target| match target {
        Target::Draft(index) => Ok(*index),
        Target::EndOf("ingress") => Ok(replication),
        Target::EndOf(_) => Ok(end),
        Target::Node(which, name) => {
            let found = names.get(&(*which, name.clone())).copied();
            found.ok_or_else(|| root.refuse(format!("{which} has no table or condition {name:?}")))
        }
    };
    let mut vertices = Vec::new();
    for draft in &drafts {
        let edges = draft.next.iter().map(|(target, way)| {
            let to = place_of(target)?;
            Ok(Edge { to, way })
        });
        let next = edges.collect::<Result<_, LoadError>>()?;
        vertices.push(Vertex {
            next,
            ..draft.vertex.clone()
        });
    }
    Ok(Graph {
        vertices: in_order(vertices, root)?,
        parsed: parsed_metadata(root, &reader)?,
    })
}

fn vertex(kind: VertexKind, name: &str, effects: Effects) -> Vertex {
    Vertex {
        kind,
        name: name.to_owned(),
        effects,
        next: Vec::new(),
    }
}

/// What the parser selects by decides which headers there are.
fn parser_effects(root: &Node<'_>, reader: &Reader<'_, '_>) -> Result<Effects, LoadError> {
    let mut effects = Effects::default();
    for parser in root.list("parsers")? {
        for state in parser.list("parse_states")? {
            for key in state.list("transition_key")? {
                if key.get("type")?.is_text("lookahead") {
                    effects
                        .stops
                        .insert("the parser looks ahead of the headers");
                }
                reader.read(&key, &mut effects.operands)?;
            }
        }
    }
    Ok(effects)
}

/// What the parser puts into metadata: copies of what it has read.
fn parsed_metadata(
    root: &Node<'_>,
    reader: &Reader<'_, '_>,
) -> Result<BTreeMap<ObjectId, BTreeSet<ObjectId>>, LoadError> {
    let mut parsed: BTreeMap<ObjectId, BTreeSet<ObjectId>> = BTreeMap::new();
    for parser in root.list("parsers")? {
        for state in parser.list("parse_states")? {
            for operation in state.list("parser_ops")? {
                let parameters = operation.list("parameters")?;
                let (true, [target, source, ..]) =
                    (operation.get("op")?.is_text("set"), &parameters[..])
                else {
                    continue;
                };
                let mut targets = BTreeSet::new();
                reader.read(target, &mut targets)?;
                for target in targets {
                    reader.read(source, parsed.entry(target).or_default())?;
                }
            }
        }
    }
    Ok(parsed)
}

struct Builder<'a, 'n> {
    which: &'static str,
    root: &'a Node<'n>,
    reader: &'a Reader<'a, 'n>,
    drafts: &'a mut Vec<Draft>,
    names: &'a mut HashMap<(&'static str, String), usize>,
}

impl Builder<'_, '_> {
    fn add_all(&mut self, pipeline: &Node<'_>) -> Result<(), LoadError> {
        for condition in pipeline.list("conditionals")? {
            let mut effects = Effects::default();
            self.reader
                .read(&condition.get("expression")?, &mut effects.matched)?;
            let index = self.add(VertexKind::Condition, condition.text_of("name")?, effects);
            for (key, way) in [("true_next", "true"), ("false_next", "false")] {
                let target = self.target(condition.find(key))?;
                self.drafts[index].next.insert((target, way));
            }
        }
        for table in pipeline.list("tables")? {
            self.add_table(&table, pipeline)?;
        }
        Ok(())
    }

    fn add(&mut self, kind: VertexKind, name: &str, effects: Effects) -> usize {
        let index = self.drafts.len();
        let vertex = vertex(kind, name, effects);
        let next = BTreeSet::new();
        self.drafts.push(Draft { vertex, next });
        self.names.insert((self.which, name.to_owned()), index);
        index
    }

    fn add_table(&mut self, table: &Node<'_>, pipeline: &Node<'_>) -> Result<(), LoadError> {
        let name = table.text_of("name")?;
        let mut effects = Effects::default();
        for key in table.list("key")? {
            let target = key.get("target")?;
            let name = match target.value().as_str() {
                Some(text) => text.to_owned(),
                None => format!("{}.{}", target.at(0)?.text()?, target.at(1)?.text()?),
            };
            effects.matched.extend(self.reader.objects.find(&name));
        }
        self.read_selector(table, pipeline, &mut effects)?;
        let index = self.add(VertexKind::Match, name, effects);
        let ways = table.get("next_tables")?;
        let default = self.target(table.find("base_default_next"))?;
        let always = |way: &str| ways.value().get(way).is_some();
        let mut actions = BTreeSet::new();
        let named = table.list("actions")?;
        let by_match = |key: &str| match always(key) {
            true => self.target(ways.find(key)),
            false => Ok(default.clone()),
        };
        let (hit, miss) = (by_match("__HIT__")?, by_match("__MISS__")?);
        for (action, id) in named.iter().zip(table.list("action_ids")?) {
            let action = action.text()?;
            let effects = self.effects_of(id.number()?)?;
            let mut next = BTreeSet::new();
            if effects.exits {
                next.insert((Target::EndOf(self.which), "exit"));
            }
            if always(action) {
                next.insert((self.target(ways.find(action))?, ""));
            } else {
                let ways = match hit == miss {
                    true => ["", ""],
                    false => ["hit", "miss"],
                };
                next.extend([(hit.clone(), ways[0]), (miss.clone(), ways[1])]);
            }
            actions.insert((Target::Draft(self.drafts.len()), ""));
            let vertex = vertex(VertexKind::Action, action, effects);
            self.drafts.push(Draft { vertex, next });
        }
        // A table without a default action may do nothing.
        if table.find("default_entry").is_none() || actions.is_empty() {
            actions.insert((miss, "miss"));
        }
        self.drafts[index].next = actions;
        Ok(())
    }

    /// A selector hashes its input to choose a member.
    fn read_selector(
        &self,
        table: &Node<'_>,
        pipeline: &Node<'_>,
        effects: &mut Effects,
    ) -> Result<(), LoadError> {
        let mut selectors: Vec<Node<'_>> = table.find("selector").into_iter().collect();
        if let Some(name) = table.find("action_profile") {
            for profile in pipeline.list("action_profiles")? {
                if profile.get("name")?.is_text(name.text()?) {
                    selectors.extend(profile.find("selector"));
                }
            }
        }
        for selector in selectors {
            for input in selector.list("input")? {
                self.reader.read(&input, &mut effects.operands)?;
            }
        }
        Ok(())
    }

    fn effects_of(&self, id: u32) -> Result<Effects, LoadError> {
        for action in self.root.list("actions")? {
            if action.number_of("id")? == id {
                return self.reader.action(&action);
            }
        }
        Err(self
            .root
            .refuse(format!("there is no action {id}, which a table has")))
    }

    fn target(&self, next: Option<Node<'_>>) -> Result<Target, LoadError> {
        Ok(match next {
            None => Target::EndOf(self.which),
            Some(next) => Target::Node(self.which, next.text()?.to_owned()),
        })
    }
}

/// Invariant 1; vertices that nothing leads to are left out.
fn in_order(vertices: Vec<Vertex>, root: &Node<'_>) -> Result<Vec<Vertex>, LoadError> {
    const NEW: u8 = 0;
    const OPEN: u8 = 1;
    const DONE: u8 = 2;
    let mut states = vec![NEW; vertices.len()];
    let mut finished = Vec::new();
    let mut stack = vec![(0, 0)];
    states[0] = OPEN;
    while let Some((index, way)) = stack.pop() {
        let Some(&Edge { to: next, .. }) = vertices[index].next.get(way) else {
            states[index] = DONE;
            finished.push(index);
            continue;
        };
        stack.push((index, way + 1));
        match states[next] {
            NEW => {
                states[next] = OPEN;
                stack.push((next, 0));
            }
            OPEN => {
                let name = &vertices[next].name;
                return Err(root.refuse(format!("the control flow comes round to {name:?}")));
            }
            _ => {}
        }
    }
    finished.reverse();
    let places: HashMap<usize, usize> = finished
        .iter()
        .enumerate()
        .map(|(place, index)| (*index, place))
        .collect();
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
    Ok(ordered.collect())
}
