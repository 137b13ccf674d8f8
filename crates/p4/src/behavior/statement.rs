//! What a statement reads and writes, and what of it cannot be remembered.

use std::collections::BTreeSet;

use crate::error::LoadError;
use crate::json::Node;

use super::objects::{ObjectId, Objects, VALID};

/// What a statement does, in the terms of B-Cache.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// Objects read by what decides where the packet goes on: keys and conditions.
    pub matched: BTreeSet<ObjectId>,
    /// Objects that actions read: operands, indices, inputs of hashes and lists of fields.
    pub operands: BTreeSet<ObjectId>,
    /// Objects written, whatever they were, on every way through the statement.
    pub written: BTreeSet<ObjectId>,
    /// Objects that may be written.
    pub may_write: BTreeSet<ObjectId>,
    /// Primitives that no `modify_field` can stand for (section III.B), each with what it is about.
    pub odd: BTreeSet<String>,
    /// Why a remembered behaviour ends here, if it does.
    pub stops: BTreeSet<&'static str>,
    /// Whether the pipeline may end here.
    pub exits: bool,
}

/// What is read that differs from packet to packet although nothing of the packet does.
const IMPURE: [(&str, &str); 7] = [
    ("standard_metadata.enq_timestamp", "reads the time"),
    ("standard_metadata.deq_timedelta", "reads the time"),
    (
        "standard_metadata.ingress_global_timestamp",
        "reads the time",
    ),
    (
        "standard_metadata.egress_global_timestamp",
        "reads the time",
    ),
    ("standard_metadata.enq_qdepth", "reads how full a queue is"),
    ("standard_metadata.deq_qdepth", "reads how full a queue is"),
    (
        "standard_metadata.packet_length",
        "reads the packet's length",
    ),
];

/// What is read where: a set of objects, and reasons to stop.
pub(super) struct Reader<'a, 'n> {
    pub(super) objects: &'a Objects,
    pub(super) root: &'a Node<'n>,
}

impl Reader<'_, '_> {
    /// What an action does.
    pub(super) fn action(&self, action: &Node<'_>) -> Result<Effects, LoadError> {
        let mut effects = Effects::default();
        // After a jump, nothing is certain to be done.
        let mut is_straight = true;
        for primitive in action.list("primitives")? {
            is_straight &= !matches!(primitive.text_of("op")?, "_jump" | "_jump_if_zero");
            self.primitive(&primitive, is_straight, &mut effects)?;
        }
        Ok(effects)
    }

    fn primitive(
        &self,
        primitive: &Node<'_>,
        is_straight: bool,
        effects: &mut Effects,
    ) -> Result<(), LoadError> {
        let op = primitive.text_of("op")?;
        let parameters = primitive.list("parameters")?;
        for parameter in parameters.iter().skip(usize::from(only_writes_first(op))) {
            let reads = match op {
                "_jump_if_zero" => &mut effects.matched,
                _ => &mut effects.operands,
            };
            self.read(parameter, reads)?;
        }
        let targets = self.targets(op, &parameters)?;
        if is_straight {
            effects.written.extend(&targets);
        }
        effects.may_write.extend(targets);
        effects.odd.extend(odd(op, &parameters));
        effects.stops.extend(stop_of(op));
        effects.exits |= op == "exit";
        self.take_array(op, &parameters, effects)?;
        self.take_list(op, &parameters, &mut effects.operands)?;
        for (name, reason) in IMPURE {
            let id = self.objects.find(name);
            if id.is_some_and(|id| effects.operands.contains(&id) || effects.matched.contains(&id))
            {
                effects.stops.insert(reason);
            }
        }
        Ok(())
    }

    /// The objects that a primitive writes, but for arrays.
    fn targets(&self, op: &str, parameters: &[Node<'_>]) -> Result<BTreeSet<ObjectId>, LoadError> {
        let mut targets = BTreeSet::new();
        match (op, parameters.first()) {
            ("add_header" | "remove_header", Some(header)) => {
                let name = header.text_of("value")?;
                targets.extend(self.objects.find(&format!("{name}.{VALID}")));
            }
            ("mark_to_drop" | "drop", _) => {
                let names = [
                    "standard_metadata.egress_spec",
                    "standard_metadata.mcast_grp",
                ];
                let ids = names.iter().filter_map(|name| self.objects.find(name));
                targets.extend(ids);
            }
            ("execute_meter", _) => {
                if let Some(color) = parameters.get(2) {
                    self.read(color, &mut targets)?;
                }
            }
            ("add_to_field" | "subtract_from_field" | "push" | "pop", Some(target)) => {
                self.read(target, &mut targets)?;
            }
            (_, Some(target)) if only_writes_first(op) => self.read(target, &mut targets)?,
            _ => {}
        }
        Ok(targets)
    }

    /// The array of registers, meters or counters that a primitive is about.
    fn take_array(
        &self,
        op: &str,
        parameters: &[Node<'_>],
        effects: &mut Effects,
    ) -> Result<(), LoadError> {
        let (array, touched) = match op {
            "count" | "execute_meter" | "register_write" => {
                (parameters.first(), &mut effects.may_write)
            }
            "register_read" => (parameters.get(1), &mut effects.operands),
            _ => return Ok(()),
        };
        if let Some(array) = array {
            touched.extend(self.objects.find(array.text_of("value")?));
        }
        Ok(())
    }

    /// The fields of a list that a digest or a copy takes along.
    fn take_list(
        &self,
        op: &str,
        parameters: &[Node<'_>],
        reads: &mut BTreeSet<ObjectId>,
    ) -> Result<(), LoadError> {
        let (index, key) = match op {
            "generate_digest" => (1, "learn_lists"),
            "clone_ingress_pkt_to_egress" | "clone_egress_pkt_to_egress" => (1, "field_lists"),
            "resubmit" | "recirculate" => (0, "field_lists"),
            _ => return Ok(()),
        };
        let number = parameters.get(index).and_then(|node| node.find("value"));
        let Some(number) = number else {
            return Ok(());
        };
        let wanted = number.big()?;
        for list in self.root.list(key)? {
            if list.get("id")?.big()? == wanted {
                for element in list.list("elements")? {
                    self.read(&element, reads)?;
                }
            }
        }
        Ok(())
    }

    /// Objects that an expression, a parameter or a key names.
    pub(super) fn read(
        &self,
        node: &Node<'_>,
        reads: &mut BTreeSet<ObjectId>,
    ) -> Result<(), LoadError> {
        let Some(kind) = node.find("type") else {
            return self.read_operator(node, reads);
        };
        match kind.text()? {
            "field" => {
                let value = node.get("value")?;
                let (header, field) = (value.at(0)?.text()?, value.at(1)?.text()?);
                reads.extend(self.objects.find(&format!("{header}.{field}")));
            }
            "stack_field" | "union_stack_field" => {
                // Whichever header of the stack it is.
                let value = node.get("value")?;
                let parts = value.items()?;
                let field = parts.last().map(|part| part.text()).transpose()?;
                for header in self.objects.of_stack(value.at(0)?.text()?) {
                    let name = format!("{header}.{}", field.unwrap_or_default());
                    reads.extend(self.objects.find(&name));
                }
            }
            "header" => reads.extend(self.objects.of_header(node.text_of("value")?)),
            "header_stack" => {
                for header in self.objects.of_stack(node.text_of("value")?) {
                    reads.extend(self.objects.of_header(header));
                }
            }
            "expression" => self.read(&node.get("value")?, reads)?,
            "calculation" => {
                let name = node.text_of("value")?;
                for calculation in self.root.list("calculations")? {
                    if calculation.get("name")?.is_text(name) {
                        for input in calculation.list("input")? {
                            self.read(&input, reads)?;
                        }
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn read_operator(
        &self,
        node: &Node<'_>,
        reads: &mut BTreeSet<ObjectId>,
    ) -> Result<(), LoadError> {
        for side in ["left", "right", "cond"] {
            if let Some(side) = node.find(side) {
                self.read(&side, reads)?;
            }
        }
        Ok(())
    }
}

/// Whether a primitive writes its first parameter without reading it.
fn only_writes_first(op: &str) -> bool {
    matches!(
        op,
        "assign"
            | "modify_field"
            | "modify_field_with_hash_based_offset"
            | "modify_field_rng_uniform"
            | "assign_header"
            | "assign_VL"
            | "assign_union"
            | "assign_header_stack"
            | "assign_union_stack"
            | "copy_header"
            | "register_read"
            | "add_header"
            | "remove_header"
            | "mark_to_drop"
    )
}

/// The odd primitive, with what it is about, if it is one.
fn odd(op: &str, parameters: &[Node<'_>]) -> Option<String> {
    let index = match op {
        "count" | "add_header" | "remove_header" | "push" | "pop" => 0,
        "generate_digest" => 1,
        "truncate" | "resubmit" | "recirculate" => return Some(op.to_owned()),
        "clone_ingress_pkt_to_egress" | "clone_egress_pkt_to_egress" => return Some(op.to_owned()),
        _ => return None,
    };
    let value = parameters.get(index).and_then(|node| node.find("value"));
    let about = value.map(|value| match value.text() {
        Ok(text) => text.to_owned(),
        Err(_) => value.value().to_string(),
    });
    Some(format!("{op} {}", about.unwrap_or_default()))
}

/// Why what a primitive gives cannot be remembered.
fn stop_of(op: &str) -> Option<&'static str> {
    match op {
        "execute_meter" => Some("executes a meter: its color is of the moment"),
        "register_read" => Some("reads a register: its value is of the moment"),
        "modify_field_rng_uniform" => Some("draws a random number"),
        _ => None,
    }
}
