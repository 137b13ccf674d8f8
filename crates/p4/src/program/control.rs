//! The two pipelines, ingress and egress: graphs of tables, conditions and bare actions.
//!
//! p4c makes a keyless table for every statement outside of a table, with an action that cannot
//! change. Here such a table is a node that runs its action ([`NodeKind::Do`]).
//!
//! Loading checks that a graph has no cycle, so a walk visits each node at most once.

use std::collections::HashMap;

use crate::error::{LoadError, SourceLocation};
use crate::json::Node;

use super::code::Code;
use super::expression::Reader;
use super::headers::Headers;
use super::ids::{ActionId, NodeId, TableId};
use super::table::{Table, TableReader};

/// A node of a graph.
#[derive(Clone, Debug)]
pub struct GraphNode {
    /// Its name in the JSON.
    pub name: String,
    /// What it does.
    pub kind: NodeKind,
    /// Its place in the P4 program.
    pub source: Option<SourceLocation>,
}

/// What a node does.
#[derive(Clone, Debug)]
pub enum NodeKind {
    /// Looks up a table.
    Table(TableId),
    /// Branches: the condition, the node if it holds, the node if it does not.
    If(Code, Option<NodeId>, Option<NodeId>),
    /// Runs an action without data, then goes to the next node.
    Do(ActionId, Option<NodeId>),
}

/// A pipeline.
#[derive(Clone, Debug)]
pub struct Pipeline {
    /// `ingress` or `egress`.
    pub name: String,
    /// The first node; `None` for an empty pipeline.
    pub start: Option<NodeId>,
    /// The range of its nodes.
    pub nodes: std::ops::Range<u32>,
}

/// Both pipelines' graphs.
#[derive(Clone, Debug)]
pub struct Control {
    /// All nodes.
    pub nodes: Vec<GraphNode>,
    /// The pipeline before replication.
    pub ingress: Pipeline,
    /// The pipeline after replication.
    pub egress: Pipeline,
}

/// Nodes by name.
pub(super) type Names = HashMap<String, NodeId>;

/// Reads a pipeline; adds its tables to `reader`.
pub(super) fn read_pipeline(
    node: &Node<'_>,
    headers: &Headers,
    reader: &mut TableReader<'_>,
    nodes: &mut Vec<GraphNode>,
) -> Result<Pipeline, LoadError> {
    reader.read_profiles(node)?;
    let tables = node.list("tables")?;
    let conditionals = node.list("conditionals")?;
    let calls = node.list("action_calls")?;
    let first = nodes.len() as u32;
    let mut names = Names::new();
    for (index, one) in tables.iter().chain(&conditionals).chain(&calls).enumerate() {
        let id = NodeId(first + index as u32);
        if names.insert(one.text_of("name")?.to_owned(), id).is_some() {
            return Err(one.refuse("two nodes of this name"));
        }
    }
    for table in &tables {
        let name = table.text_of("name")?.to_owned();
        let kind = match reader.read_inline(table, &names)? {
            Some((action, next)) => NodeKind::Do(action, next),
            None => NodeKind::Table(reader.read_table(table, &names)?),
        };
        nodes.push(GraphNode {
            name,
            kind,
            source: table.source(),
        });
    }
    for conditional in &conditionals {
        let expression = Reader {
            headers,
            parameters: 0,
        };
        let condition = expression.read(&conditional.get("expression")?)?;
        let condition = Code::exact(condition, headers, &[]);
        let next = |key| successor(conditional, key, &names);
        nodes.push(GraphNode {
            name: conditional.text_of("name")?.to_owned(),
            kind: NodeKind::If(condition, next("true_next")?, next("false_next")?),
            source: conditional.source(),
        });
    }
    for call in &calls {
        let action = reader.action_by_id(&call.get("action_id")?)?;
        nodes.push(GraphNode {
            name: call.text_of("name")?.to_owned(),
            kind: NodeKind::Do(action, successor(call, "next_node", &names)?),
            source: call.source(),
        });
    }
    Ok(Pipeline {
        name: node.text_of("name")?.to_owned(),
        start: successor(node, "init_table", &names)?,
        nodes: first..nodes.len() as u32,
    })
}

/// The node that a key names; `None` for null.
pub(super) fn successor(
    node: &Node<'_>,
    key: &str,
    names: &Names,
) -> Result<Option<NodeId>, LoadError> {
    let Some(name) = node.find(key) else {
        return Ok(None);
    };
    let found = names.get(name.text()?).copied();
    match found {
        Some(id) => Ok(Some(id)),
        None => Err(name.refuse("there is no table, condition or action call of this name")),
    }
}

/// The nodes that may follow a node.
pub fn successors(node: &GraphNode, tables: &[Table]) -> Vec<NodeId> {
    let mut next = Vec::new();
    match &node.kind {
        NodeKind::Table(table) => next.extend(tables[table.index()].successors()),
        NodeKind::If(_, yes, no) => next.extend(yes.iter().chain(no)),
        NodeKind::Do(_, after) => next.extend(after),
    }
    next.sort_unstable();
    next.dedup();
    next
}

/// Refuses a graph with a cycle.
pub(super) fn check_acyclic(
    root: &Node<'_>,
    nodes: &[GraphNode],
    tables: &[Table],
) -> Result<(), LoadError> {
    // Removes nodes without incoming edges; a cycle always keeps some.
    let mut incoming = vec![0_u32; nodes.len()];
    for node in nodes {
        for next in successors(node, tables) {
            incoming[next.index()] += 1;
        }
    }
    let mut open: Vec<usize> = (0..nodes.len())
        .filter(|&node| incoming[node] == 0)
        .collect();
    let mut taken = 0;
    while let Some(node) = open.pop() {
        taken += 1;
        for next in successors(&nodes[node], tables) {
            incoming[next.index()] -= 1;
            if incoming[next.index()] == 0 {
                open.push(next.index());
            }
        }
    }
    if taken == nodes.len() {
        return Ok(());
    }
    let cyclic = incoming.iter().position(|&count| count > 0);
    let name = cyclic.map_or("", |index| &nodes[index].name);
    Err(root.refuse(format!(
        "the node {name:?} of a pipeline is on, or behind, a cycle"
    )))
}

/// The reachable nodes of a pipeline, each before those that follow it.
pub(crate) fn in_order(program: &super::Program, pipeline: &Pipeline) -> Vec<NodeId> {
    let next = |id: NodeId| {
        let node = &program.control.nodes[id.index()];
        successors(node, &program.tables)
    };
    let mut is_open = vec![false; program.control.nodes.len()];
    let mut finished = Vec::new();
    let mut stack: Vec<(NodeId, Vec<NodeId>)> = Vec::new();
    if let Some(start) = pipeline.start {
        is_open[start.index()] = true;
        stack.push((start, next(start)));
    }
    while let Some((id, rest)) = stack.last_mut() {
        match rest.pop() {
            Some(one) if !is_open[one.index()] => {
                is_open[one.index()] = true;
                stack.push((one, next(one)));
            }
            Some(_) => {}
            None => {
                finished.push(*id);
                stack.pop();
            }
        }
    }
    finished.reverse();
    finished
}
