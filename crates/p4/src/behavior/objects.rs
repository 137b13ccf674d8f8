//! The objects of a P4 program, as B-Cache classifies them: what a pipeline reads and writes.
//!
//! | category | object | set by | VIO | VOO |
//! | --- | --- | --- | --- | --- |
//! | stateless | intrinsic metadata | the target | yes | yes |
//! | | user metadata | zero | no | no |
//! | | packet header | the parser | yes | yes |
//! | | action parameter | the control plane | no | no |
//! | stateful | register | the target | yes | yes |
//! | | meter | the target | yes | yes |
//! | | counter | the target | yes | yes |
//!
//! Valid input objects (VIO) have their values before a packet enters the pipeline; valid output
//! objects (VOO) decide what becomes of the packet and of the switch.
//!
//! A header's validity is an object of its own, of one bit.
//!
//! Reference: Zhang et al., *B-Cache: A Behavior-Level Caching Framework for the Programmable Data
//! Plane*, figure 2.

use std::collections::HashMap;

use crate::error::LoadError;
use crate::json::Node;

/// The name under which a header's validity is read, as in the JSON.
pub(super) const VALID: &str = "$valid$";

/// The header instance that v1model's target shares with programs.
const INTRINSIC: &str = "standard_metadata";

/// What kind of object it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Category {
    /// A field of `standard_metadata`.
    IntrinsicMetadata,
    /// A field of the program's own metadata.
    UserMetadata,
    /// A field or the validity of a packet's header.
    PacketHeader,
    /// An array of registers.
    Register,
    /// An array of meters.
    Meter,
    /// An array of counters.
    Counter,
}

impl Category {
    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Category::IntrinsicMetadata => "intrinsic metadata",
            Category::UserMetadata => "user metadata",
            Category::PacketHeader => "packet header",
            Category::Register => "register",
            Category::Meter => "meter",
            Category::Counter => "counter",
        }
    }

    /// Whether it is stateless: as it was, for the next packet.
    pub fn is_stateless(self) -> bool {
        matches!(
            self,
            Category::IntrinsicMetadata | Category::UserMetadata | Category::PacketHeader
        )
    }

    /// Whether it is a valid input and a valid output.
    pub fn is_valid(self) -> bool {
        self != Category::UserMetadata
    }
}

/// An object's number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ObjectId(pub u32);

/// An object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Object {
    /// As the program names it: `header.field`, or the name of an array.
    pub name: String,
    /// Its kind.
    pub category: Category,
    /// Bits of one value; those of an array are of one cell.
    pub bits: u32,
}

/// All objects of a program.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    all: Vec<Object>,
    by_name: HashMap<String, ObjectId>,
    /// By header instance: its fields, validity last if it has one.
    headers: HashMap<String, Vec<ObjectId>>,
    /// By stack: its headers.
    stacks: HashMap<String, Vec<String>>,
}

impl Objects {
    /// Reads them out of the JSON.
    ///
    /// # Errors
    /// If something is missing or not as the format has it.
    pub(super) fn read(root: &Node<'_>) -> Result<Objects, LoadError> {
        let mut objects = Objects::default();
        let mut types = HashMap::new();
        for node in root.list("header_types")? {
            types.insert(node.text_of("name")?, node.list("fields")?);
        }
        for node in root.list("headers")? {
            let name = node.text_of("name")?;
            let kind = node.text_of("header_type")?;
            let fields = types.get(kind);
            let fields = fields.ok_or_else(|| node.refuse("there is no such header type"))?;
            objects.add_header(name, fields, node.flag_of("metadata")?)?;
        }
        for node in root.list("header_stacks")? {
            let mut names = Vec::new();
            for id in node.list("header_ids")? {
                names.push(header_name(root, id.number()?)?);
            }
            objects
                .stacks
                .insert(node.text_of("name")?.to_owned(), names);
        }
        for (key, category) in [
            ("register_arrays", Category::Register),
            ("meter_arrays", Category::Meter),
            ("counter_arrays", Category::Counter),
        ] {
            for node in root.list(key)? {
                let bits = match category {
                    Category::Register => node.number_of("bitwidth")?,
                    // The paper counts 32 bits for a counter, and v1model has two for a color.
                    Category::Counter => 32,
                    _ => 2,
                };
                objects.add(node.text_of("name")?.to_owned(), category, bits);
            }
        }
        Ok(objects)
    }

    fn add_header(
        &mut self,
        header: &str,
        fields: &[Node<'_>],
        is_metadata: bool,
    ) -> Result<(), LoadError> {
        let category = match (is_metadata, header) {
            (true, INTRINSIC) => Category::IntrinsicMetadata,
            (true, _) => Category::UserMetadata,
            (false, _) => Category::PacketHeader,
        };
        let mut ids = Vec::new();
        for field in fields {
            let name = field.at(0)?.text()?;
            // What fills a header up to whole bytes is no object of the program.
            if name.starts_with("_padding") {
                continue;
            }
            // Fields of varying width (`"*"`) count as the bits that are in any case there: none.
            let bits = field.at(1)?.number().unwrap_or(0);
            ids.push(self.add(format!("{header}.{name}"), category, bits));
        }
        if !is_metadata {
            ids.push(self.add(format!("{header}.{VALID}"), category, 1));
        }
        self.headers.insert(header.to_owned(), ids);
        Ok(())
    }

    fn add(&mut self, name: String, category: Category, bits: u32) -> ObjectId {
        let id = ObjectId(self.all.len() as u32);
        self.by_name.insert(name.clone(), id);
        self.all.push(Object {
            name,
            category,
            bits,
        });
        id
    }

    /// The object.
    pub fn get(&self, id: ObjectId) -> &Object {
        &self.all[id.0 as usize]
    }

    /// All of them, by number.
    pub fn iter(&self) -> impl Iterator<Item = (ObjectId, &Object)> {
        let all = self.all.iter().enumerate();
        all.map(|(index, object)| (ObjectId(index as u32), object))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The object with a name.
    pub fn find(&self, name: &str) -> Option<ObjectId> {
        self.by_name.get(name).copied()
    }

    /// The fields of a header, with its validity.
    pub(super) fn of_header(&self, header: &str) -> &[ObjectId] {
        self.headers.get(header).map_or(&[], Vec::as_slice)
    }

    /// The headers of a stack.
    pub(super) fn of_stack(&self, stack: &str) -> &[String] {
        self.stacks.get(stack).map_or(&[], Vec::as_slice)
    }
}

fn header_name(root: &Node<'_>, id: u32) -> Result<String, LoadError> {
    for node in root.list("headers")? {
        if node.number_of("id")? == id {
            return Ok(node.text_of("name")?.to_owned());
        }
    }
    Err(root.refuse(format!("there is no header {id}, which a stack has")))
}
