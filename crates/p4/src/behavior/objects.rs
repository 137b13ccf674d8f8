//! The objects that a program's statements read and write, with their categories.
//!
//! A field is an object; so is a header's validity, and so is an array of registers, meters or
//! counters. Metadata is always valid, so its validity is no object. Padding is no object
//! either. A field of varying width counts with its maximum width.
//!
//! Reference: Zhang et al., *B-Cache: A Behavior-Level Caching Framework for the Programmable
//! Data Plane*, figure 2.

use crate::program::Program;
use crate::program::headers::{Headers, VALID};
use crate::program::ids::{CounterId, FieldId, HeaderId, MeterId, RegisterId};

/// The header instance that v1model's target shares with programs.
const INTRINSIC: &str = "standard_metadata";

/// The compiler names padding between fields this way, with a number appended.
const PADDING: &str = "_padding";

/// The category of an object.
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
    /// Its name.
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

    /// Whether it is stateless: nothing of it carries over to the next packet.
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
    /// Its name in the program: `header.field`, or the name of an array.
    pub name: String,
    /// Its category.
    pub category: Category,
    /// Bits of one value; for an array, bits of one cell.
    pub bits: u32,
}

/// All objects of a program.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    all: Vec<Object>,
    /// By field; `None` for padding and for metadata's validity.
    fields: Vec<Option<ObjectId>>,
    /// By word of the frame.
    words: Vec<Option<ObjectId>>,
    first_register: u32,
    first_meter: u32,
    first_counter: u32,
}

impl Objects {
    /// Lists the objects of a program.
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
        // The paper counts 32 bits for a counter; a color of v1model has two.
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

    /// Returns the object with this number.
    pub fn get(&self, id: ObjectId) -> &Object {
        &self.all[id.0 as usize]
    }

    /// All objects, by number.
    pub fn iter(&self) -> impl Iterator<Item = (ObjectId, &Object)> {
        let all = self.all.iter().enumerate();
        all.map(|(index, object)| (ObjectId(index as u32), object))
    }

    /// Number of objects.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there are no objects.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Finds the object with a name.
    pub fn find(&self, name: &str) -> Option<ObjectId> {
        let index = self.all.iter().position(|object| object.name == name)?;
        Some(ObjectId(index as u32))
    }

    /// The object of a field or validity.
    pub fn of_field(&self, field: FieldId) -> Option<ObjectId> {
        self.fields[field.index()]
    }

    /// The object that a frame word belongs to.
    pub(super) fn of_word(&self, word: u32) -> Option<ObjectId> {
        self.words[word as usize]
    }

    /// The object of a header's validity; `None` for metadata.
    pub(super) fn validity(&self, headers: &Headers, header: HeaderId) -> Option<ObjectId> {
        self.of_field(headers.header(header).valid_field())
    }

    /// The objects of a header's fields and validity.
    pub(super) fn of_header(&self, headers: &Headers, header: HeaderId) -> Vec<ObjectId> {
        let fields = headers.header(header).fields();
        let mut ids: Vec<_> = fields.filter_map(|field| self.of_field(field)).collect();
        ids.extend(self.validity(headers, header));
        ids
    }

    /// The object of an array of registers.
    pub(super) fn register(&self, id: RegisterId) -> ObjectId {
        ObjectId(self.first_register + id.index() as u32)
    }

    /// The object of an array of meters.
    pub(super) fn meter(&self, id: MeterId) -> ObjectId {
        ObjectId(self.first_meter + id.index() as u32)
    }

    /// The object of an array of counters.
    pub(super) fn counter(&self, id: CounterId) -> ObjectId {
        ObjectId(self.first_counter + id.index() as u32)
    }
}
