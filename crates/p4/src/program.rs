//! A loaded program: packets find everything by index, not by name.
//!
//! ```text
//!   JSON --json::Node--> headers, arrays, calculations --> actions --> parser, pipelines
//! ```
//!
//! Loading runs once and reads the JSON in order of reference. It refuses anything unknown,
//! with its place ([`LoadError`]). A loaded program does not change; entries, counters and
//! registers do, and are in [`crate::State`].

pub mod action;
pub mod arrays;
pub mod calculation;
pub mod code;
pub mod control;
pub(crate) mod cost;
pub mod exact;
pub mod expression;
pub(crate) mod hash;
pub mod headers;
pub mod ids;
pub(crate) mod narrow;
pub mod parser;
mod standard;
pub mod table;

use std::collections::HashMap;

use serde_json::Value;

pub use standard::{ErrorCodes, Spot, Standard};

use self::action::{Action, Step, Surroundings};
use self::arrays::Arrays;
use self::calculation::{Calculations, Checksum};
use self::control::Control;
use self::cost::Costs;
use self::headers::Headers;
use self::ids::{ActionId, HeaderId, ProfileId, TableId};
use self::parser::Parser;
use self::table::{Profile, Table, TableReader};
use crate::error::LoadError;
use crate::json::Node;

/// A P4 program for v1model, ready to run.
///
/// ```
/// use thalweg_p4::Program;
///
/// let error = Program::from_json(r#"{"header_types": 7}"#).unwrap_err();
/// assert!(error.to_string().contains("/header_types: this is no array"));
/// ```
#[derive(Clone, Debug)]
pub struct Program {
    /// Headers, stacks, unions, and the layout of a frame.
    pub headers: Headers,
    /// Counters, meters, registers, lists of fields.
    pub arrays: Arrays,
    /// Hashes and checksums.
    pub calculations: Calculations,
    /// Fields that hold a checksum.
    pub checksums: Vec<Checksum>,
    /// Actions.
    pub actions: Vec<Action>,
    /// The parser.
    pub parser: Parser,
    /// The pipelines.
    pub control: Control,
    /// Tables with entries.
    pub tables: Vec<Table>,
    /// Action profiles.
    pub profiles: Vec<Profile>,
    /// Steps that the deparser runs before it emits.
    pub deparser_steps: Vec<Step>,
    /// Headers that the deparser emits, in order.
    pub deparser: Vec<HeaderId>,
    /// The fields that the switch itself reads and writes.
    pub standard: Standard,
    /// The parser's error codes.
    pub errors: ErrorCodes,
    /// The work of each part.
    pub(crate) costs: Costs,
}

impl Program {
    /// Loads a program from p4c's JSON for BMv2.
    ///
    /// # Errors
    /// Fails if the text is no JSON, or is incomplete, contradictory or not supported. The
    /// error has the place in the JSON, and in the P4 program if the compiler recorded it.
    pub fn from_json(text: &str) -> Result<Program, LoadError> {
        let value: Value = serde_json::from_str(text).map_err(|error| {
            let said = error.to_string();
            LoadError::Syntax {
                line: error.line(),
                column: error.column(),
                // The message ends with the place, which the error has in fields.
                what: said.split(" at line ").next().unwrap_or(&said).to_owned(),
            }
        })?;
        Program::from_value(&value)
    }

    /// Loads a program from parsed JSON.
    ///
    /// # Errors
    /// As for [`Program::from_json`].
    pub fn from_value(value: &Value) -> Result<Program, LoadError> {
        let root = Node::root(value);
        check_version(&root)?;
        let mut program = Program::read(&root)?;
        program.costs = Costs::of(&program);
        Ok(program)
    }

    /// Reads everything except the costs.
    fn read(root: &Node<'_>) -> Result<Program, LoadError> {
        let headers = headers::read(root)?;
        let standard = Standard::read(root, &headers)?;
        let arrays = arrays::read(root, &headers)?;
        let mut calculations = calculation::read(root, &headers)?;
        let checksums = calculation::read_checksums(root, &headers, &calculations)?;
        if let Some(node) = root.list("extern_instances")?.first() {
            return Err(node.refuse("extern instances are not supported; v1model has none"));
        }
        let around = Surroundings {
            headers: &headers,
            arrays: &arrays,
            calculations: &calculations,
        };
        let (mut actions, mut action_ids) = (Vec::new(), HashMap::new());
        for node in root.list("actions")? {
            let action = around.read_action(&node)?;
            let id = ActionId(actions.len() as u32);
            if action_ids.insert(action.id, id).is_some() {
                return Err(node.refuse("two actions have this id"));
            }
            actions.push(action);
        }
        let parser = parser::read(root, &around)?;
        let (deparser, deparser_steps) = read_deparser(root, &around)?;
        let mut reader = TableReader {
            headers: &headers,
            arrays: &arrays,
            actions: &actions,
            calculations: &mut calculations,
            action_ids,
            tables: Vec::new(),
            profiles: Vec::new(),
            profile_names: HashMap::new(),
        };
        let mut nodes = Vec::new();
        let mut pipeline = |name: &str| {
            let pipelines = root.list("pipelines")?;
            let node = pipelines
                .iter()
                .find(|one| one.find("name").is_some_and(|found| found.is_text(name)));
            let missing = format!("there is no pipeline {name:?}; this is no v1model program");
            let node = node.ok_or_else(|| root.refuse(missing))?;
            control::read_pipeline(node, &headers, &mut reader, &mut nodes)
        };
        let (ingress, egress) = (pipeline("ingress")?, pipeline("egress")?);
        let (tables, profiles) = (reader.tables, reader.profiles);
        control::check_acyclic(root, &nodes, &tables)?;
        Ok(Program {
            errors: ErrorCodes::read(root)?,
            costs: Costs::default(),
            control: Control {
                nodes,
                ingress,
                egress,
            },
            headers,
            arrays,
            calculations,
            checksums,
            actions,
            parser,
            tables,
            profiles,
            deparser_steps,
            deparser,
            standard,
        })
    }

    /// Finds a table by name.
    pub fn find_table(&self, name: &str) -> Option<TableId> {
        let index = self.tables.iter().position(|table| table.name == name)?;
        Some(TableId(index as u32))
    }

    /// Finds an action profile by name.
    pub fn find_profile(&self, name: &str) -> Option<ProfileId> {
        let index = self
            .profiles
            .iter()
            .position(|profile| profile.name == name)?;
        Some(ProfileId(index as u32))
    }

    /// Lets controllers write to a table that has entries in the program, and sets its
    /// capacity. The table then has `entries`, not `const entries`.
    ///
    /// The JSON says neither; P4Info says both.
    pub fn open_table(&mut self, id: TableId, max_size: u32) {
        let table = &mut self.tables[id.index()];
        table.is_constant = false;
        table.max_size = max_size
            .min(table::TABLE_SIZE_MAX)
            .max(table.entries.len() as u32);
    }

    /// Returns a table.
    pub fn table(&self, id: TableId) -> &Table {
        &self.tables[id.index()]
    }

    /// Returns an action.
    pub fn action(&self, id: ActionId) -> &Action {
        &self.actions[id.index()]
    }
}

fn check_version(root: &Node<'_>) -> Result<(), LoadError> {
    let Some(version) = root.find("__meta__").and_then(|meta| meta.find("version")) else {
        return Ok(());
    };
    match version.at(0)?.number()? {
        2 => Ok(()),
        other => Err(version.refuse(format!(
            "version {other} of the format is not supported, only 2; compile with p4c's BMv2 \
             back end"
        ))),
    }
}

fn read_deparser(
    root: &Node<'_>,
    around: &Surroundings<'_>,
) -> Result<(Vec<HeaderId>, Vec<Step>), LoadError> {
    let deparsers = root.list("deparsers")?;
    let node = deparsers.iter().find(|one| {
        one.find("name")
            .is_some_and(|name| name.is_text("deparser"))
    });
    let node = node.ok_or_else(|| {
        root.refuse("there is no deparser named \"deparser\"; this is no v1model program")
    })?;
    let mut order = Vec::new();
    for header in node.list("order")? {
        let id = around.headers.header_at(&header)?;
        if around.headers.header(id).is_metadata {
            return Err(header.refuse("metadata is not on the wire"));
        }
        order.push(id);
    }
    let mut steps = Vec::new();
    for primitive in node.list("primitives")? {
        let step = around.read_step(&primitive, &[])?;
        if matches!(step, Step::Jump(_) | Step::JumpIfZero(..)) {
            return Err(primitive.refuse("a jump in the deparser"));
        }
        steps.push(step);
    }
    Ok((order, steps))
}
