//! Generates whole pipelines: the tables, their rules, and the ways through.
//!
//! A [`Pipeline`] is a description (tables, their fields, their next tables) with its rules
//! and its *traversal templates*: the sequences of tables that packets take, with weights.
//! [`FlowSource`](crate::FlowSource) draws flows from the templates, and
//! [`ChangeSource`](crate::ChangeSource) picks rules by the roles of the tables.
//!
//! Four generators, all from a rule count and a seed ([`PipelineKind::generate`]):
//!
//! | kind | tables | templates | model |
//! | --- | --- | --- | --- |
//! | [`Ofd`](OfdConfig) | 10 | 5 | Cord's OF-DPA |
//! | [`Psc`](PscConfig) | 7 | 2 | the L2L3-ACL pipeline of PISCES |
//! | [`Ant`](AntConfig) | 31 | 20 | Antrea's, with a tracker, groups, policies and learned rules |
//! | [`Synthetic`](SyntheticConfig) | any | any | none; any depth |
//!
//! Invariants of every generated pipeline, all tested:
//!
//! 1. The number of rules is the requested number.
//! 2. No two rules of a table overlap at equal priority.
//! 3. A goto leads to a later table, one that the table's description names.
//!    ANT's rules also resubmit and track; there, each next table is named, in any order.
//! 4. A flow drawn for a template visits the template's tables, in order; only a drop by an
//!    access list ends it early. In ANT, a flow may leave out tables of policies and services.
//!
//! The papers' generator (Pipebench) is not public; the shapes follow Zulfiqar et al., *Gigaflow:
//! Pipeline-Aware Sub-Traversal Caching for Modern SmartNICs*, ASPLOS 2025, and the OF-DPA 2.0
//! abstract switch specification.

mod ant;
mod network;
mod ofd;
mod psc;
mod synthetic;
#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) mod walk;

use std::sync::Arc;

pub use ant::AntConfig;
pub(crate) use ant::Cluster;
pub(crate) use network::ACL_PRIORITIES;
pub use ofd::OfdConfig;
pub use psc::PscConfig;
pub use synthetic::SyntheticConfig;

use crate::error::WorkloadError;
use crate::field::Field;
use crate::rule::{Rule, rules_text};

/// The purpose of a table's rules.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TableRole {
    /// Sorts packets by input, or prepares them for output.
    Classify,
    /// Ethernet destinations: one rule per host.
    Bridging,
    /// IPv4 prefixes, the longest wins; every rule except a drop leads to the same table.
    Routing,
    /// Five-tuples, ordered by priority; a drop ends the traversal.
    Acl,
}

/// The description of one table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Table {
    /// Its number.
    pub id: u8,
    /// Its name.
    pub name: String,
    /// The purpose of its rules.
    pub role: TableRole,
    /// The fields its rules match.
    pub fields: Vec<Field>,
    /// The tables its rules lead to.
    pub next: Vec<u8>,
    /// At most two fields that earlier tables have settled when a packet arrives here.
    pub joins: Vec<Field>,
}

/// One path through the tables.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Template {
    /// Its name.
    pub name: String,
    /// Its share of the flows, relative to the other templates.
    pub weight: u32,
    /// The tables, in order.
    pub tables: Vec<u8>,
    /// The input ports that lead to it; empty if all do.
    pub ports: Vec<u32>,
}

/// A generated pipeline.
///
/// ```
/// use thalweg_workload::PipelineKind;
///
/// let pipeline = PipelineKind::Ofd.generate(1000, 7)?;
/// assert_eq!(pipeline.rules_text().lines().count(), 1000);
/// # Ok::<(), thalweg_workload::WorkloadError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pipeline {
    /// The name of its kind.
    pub name: String,
    /// The tables in ascending order.
    pub tables: Vec<Table>,
    /// The paths through the tables.
    pub templates: Vec<Template>,
    /// The rules.
    pub rules: Vec<Rule>,
    /// The groups, one per line in `ovs-ofctl add-groups` syntax; mostly empty.
    pub groups: Vec<String>,
    /// The input and output ports.
    pub ports: Vec<u32>,
    /// What flows are drawn from, if not from the rules.
    pub(crate) cluster: Option<Arc<Cluster>>,
}

impl Pipeline {
    /// The rules in `ovs-ofctl add-flows` syntax, one per line.
    pub fn rules_text(&self) -> String {
        rules_text(&self.rules)
    }

    /// The groups in `ovs-ofctl add-groups` syntax, one per line.
    pub fn groups_text(&self) -> String {
        self.groups.iter().map(|line| format!("{line}\n")).collect()
    }

    /// The groups and then the rules, for switches that take both from one text.
    pub fn text(&self) -> String {
        self.groups_text() + &self.rules_text()
    }

    /// Whether the rules track connections, so that an answer depends on packets before.
    pub fn tracks(&self) -> bool {
        self.cluster.is_some()
    }

    /// The table with this number.
    pub fn table(&self, id: u8) -> Option<&Table> {
        self.tables.iter().find(|table| table.id == id)
    }
}

/// The kind of pipeline to generate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PipelineKind {
    /// Cord's OF-DPA, 10 tables, 5 templates.
    Ofd,
    /// The L2L3-ACL pipeline of PISCES, 7 tables, 2 templates.
    Psc,
    /// Antrea's, 31 tables, 20 templates.
    Ant,
    /// Any number of tables and templates.
    Synthetic {
        /// The number of tables.
        tables: u8,
        /// The number of templates.
        traversals: u8,
    },
}

impl PipelineKind {
    /// Generates a pipeline of exactly `rules` rules, with sizes in proportion.
    ///
    /// # Errors
    /// When the kind does not allow that number of rules.
    pub fn generate(self, rules: usize, seed: u64) -> Result<Pipeline, WorkloadError> {
        match self {
            PipelineKind::Ofd => OfdConfig::with_rules(rules, seed)?.generate(),
            PipelineKind::Psc => PscConfig::with_rules(rules, seed)?.generate(),
            PipelineKind::Ant => AntConfig::with_rules(rules, seed)?.generate(),
            PipelineKind::Synthetic { tables, traversals } => SyntheticConfig {
                tables,
                traversals,
                rules,
                seed,
            }
            .generate(),
        }
    }
}

/// A shorthand for the descriptions in the generators.
fn table(
    id: u8,
    name: &str,
    role: TableRole,
    fields: &[Field],
    next: &[u8],
    joins: &[Field],
) -> Table {
    Table {
        id,
        name: name.to_owned(),
        role,
        fields: fields.to_vec(),
        next: next.to_vec(),
        joins: joins.to_vec(),
    }
}

/// A shorthand for the templates in the generators.
fn template(name: &str, weight: u32, tables: &[u8]) -> Template {
    Template {
        name: name.to_owned(),
        weight,
        tables: tables.to_vec(),
        ports: Vec::new(),
    }
}
