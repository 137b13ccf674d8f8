//! What a program's statements read and write, as objects, and their kinds.
//!
//! A field is an object, so is the validity of a header, and so is an array of registers, meters or
//! counters. Metadata is always valid: that is no object, nor is what fills a header up to whole
//! bytes. A field of varying width counts as wide as it may be.
//!
//! Reference: Zhang et al., *B-Cache: A Behavior-Level Caching Framework for the Programmable Data
//! Plane*, figure 2.

use crate::program::Program;
use crate::program::headers::{Headers, VALID};
use crate::program::ids::{CounterId, FieldId, HeaderId, MeterId, RegisterId};

/// The header instance that v1model's target shares with programs.
const INTRINSIC: &str = "standard_metadata";

/// What the compiler puts between fields is called so, and a number.
const PADDING: &str = "_padding";

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
    /// By field; none of padding and of metadata's validity.
    fields: Vec<Option<ObjectId>>,
    /// By word of the frame.
    words: Vec<Option<ObjectId>>,
    first_register: u32,
    first_meter: u32,
    first_counter: u32,
}

impl Objects {
    /// The objects of a program.
    pub(super) fn of(program: &Program) -> Objects {
        let headers = &program.headers;
        let mut objects = Objects {
            fields: vec![None; headers.fields.len()],
            words: vec![None; headers.initial.len()],
            ..Objects::default()
        };
        for (index, header) in headers.headers.iter().enumerate() {
            let category = match (header.is_metadata, header.name.as_str()) {
                (true, INTRINSIC) => Category::IntrinsicMetadata,
                (true, _) => Category::UserMetadata,
                (false, _) => Category::PacketHeader,
            };
            for field in header.fields() {
                objects.add_field(headers, field, category);
            }
            if !header.is_metadata {
                objects.add_field(headers, header.valid_field(), category);
            }
            if let Some(varbit) = headers.headers[index].varbit {
                let length = header.varbit_length_word() as usize;
                objects.words[length] = objects.fields[varbit.index()];
            }
        }
        let arrays = &program.arrays;
        objects.first_register = objects.all.len() as u32;
        for array in &arrays.registers {
            objects.add(array.name.clone(), Category::Register, array.width_bits);
        }
        // The paper counts 32 bits for a counter, and v1model has two for a color.
        objects.first_meter = objects.all.len() as u32;
        for array in &arrays.meters {
            objects.add(array.name.clone(), Category::Meter, 2);
        }
        objects.first_counter = objects.all.len() as u32;
        for array in &arrays.counters {
            objects.add(array.name.clone(), Category::Counter, 32);
        }
        objects
    }

    fn add_field(&mut self, headers: &Headers, id: FieldId, category: Category) {
        let field = headers.field(id);
        if field.name.starts_with(PADDING) {
            return;
        }
        let bits = match field.name == VALID {
            true => 1,
            false => field.width_bits,
        };
        let object = self.add(headers.field_name(id), category, bits);
        self.fields[id.index()] = Some(object);
        for word in field.word..field.word + field.words() {
            self.words[word as usize] = Some(object);
        }
    }

    fn add(&mut self, name: String, category: Category, bits: u32) -> ObjectId {
        let id = ObjectId(self.all.len() as u32);
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
        let index = self.all.iter().position(|object| object.name == name)?;
        Some(ObjectId(index as u32))
    }

    /// A field, or a validity.
    pub fn of_field(&self, field: FieldId) -> Option<ObjectId> {
        self.fields[field.index()]
    }

    /// What a word of the frame belongs to.
    pub(super) fn of_word(&self, word: u32) -> Option<ObjectId> {
        self.words[word as usize]
    }

    /// Whether a header is valid; none of metadata.
    pub(super) fn validity(&self, headers: &Headers, header: HeaderId) -> Option<ObjectId> {
        self.of_field(headers.header(header).valid_field())
    }

    /// The fields of a header, and its validity.
    pub(super) fn of_header(&self, headers: &Headers, header: HeaderId) -> Vec<ObjectId> {
        let fields = headers.header(header).fields();
        let mut ids: Vec<_> = fields.filter_map(|field| self.of_field(field)).collect();
        ids.extend(self.validity(headers, header));
        ids
    }

    /// An array of registers.
    pub(super) fn register(&self, id: RegisterId) -> ObjectId {
        ObjectId(self.first_register + id.index() as u32)
    }

    /// An array of meters.
    pub(super) fn meter(&self, id: MeterId) -> ObjectId {
        ObjectId(self.first_meter + id.index() as u32)
    }

    /// An array of counters.
    pub(super) fn counter(&self, id: CounterId) -> ObjectId {
        ObjectId(self.first_counter + id.index() as u32)
    }
}
