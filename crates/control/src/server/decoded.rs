//! Bounds the memory that a decoded message takes, from its bytes as they arrive.
//!
//! An empty update has two bytes on the wire and some hundred in memory. A [`Walk`] follows the
//! wire format and adds up the sizes of repeated fields' elements. Everything else is inside
//! these, or in the receive buffer, which decoding shares (`bytes` fields are slices of it).
//!
//! ```text
//!   the first element of a vector: 4 sizes, the least that a vector has room for
//!   each other one: 3 sizes, as a vector that grows holds the old half beside the new whole
//! ```
//!
//! Bytes after the first invalid one are ignored: decoding ends there too.
//!
//! References: Protocol Buffers, "Encoding".

use std::collections::HashMap;
use std::sync::OnceLock;

use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor};

use crate::p4info::descriptors;
use crate::proto::p4::{config::v1 as config, v1 as p4};

/// Maximum depth to which prost follows nested messages.
const MAX_DEPTH: usize = 100;
/// The size of an element that is not in [`sizes`]: an entry of a map.
const ELEMENT_BYTES: usize = 512;
/// The size of a string or byte array apart from its bytes.
const TEXT_BYTES: usize = 32;
/// The size of a repeated number.
const SCALAR_BYTES: u64 = 8;

/// The contribution of a field.
#[derive(Clone, Copy, Debug)]
enum Field {
    /// A number that occurs once.
    Flat,
    /// Repeated numbers, separate or packed.
    Scalars,
    /// A string: its bytes are copied, and each element of a vector has its own header.
    Text { size: u64 },
    /// A message; in a vector, with the size of an element.
    Message { shape: usize, size: u64 },
}

type Fields = HashMap<u32, Field>;

/// The fields of all messages that a request can contain.
struct Shapes {
    all: Vec<Fields>,
    by_name: HashMap<String, usize>,
}

impl Shapes {
    fn get() -> &'static Shapes {
        static SHAPES: OnceLock<Shapes> = OnceLock::new();
        SHAPES.get_or_init(|| {
            let mut shapes = Shapes {
                all: Vec::new(),
                by_name: HashMap::new(),
            };
            let sizes = sizes().into_iter().collect();
            for service in descriptors().services() {
                for method in service.methods() {
                    shapes.add(&method.input(), &sizes);
                }
            }
            shapes
        })
    }

    fn add(&mut self, message: &MessageDescriptor, sizes: &HashMap<String, usize>) -> usize {
        if let Some(shape) = self.by_name.get(message.full_name()) {
            return *shape;
        }
        let shape = self.all.len();
        self.by_name.insert(message.full_name().to_owned(), shape);
        self.all.push(Fields::new());
        for field in message.fields() {
            let made = self.field(&field, sizes);
            self.all[shape].insert(field.number(), made);
        }
        shape
    }

    fn field(&mut self, field: &FieldDescriptor, sizes: &HashMap<String, usize>) -> Field {
        let is_repeated = field.is_list() || field.is_map();
        let of_vector = |size: usize| if is_repeated { size as u64 } else { 0 };
        match field.kind() {
            Kind::Message(message) => {
                let size = sizes.get(message.full_name());
                let size = size.copied().unwrap_or(ELEMENT_BYTES);
                Field::Message {
                    shape: self.add(&message, sizes),
                    size: of_vector(size),
                }
            }
            Kind::String | Kind::Bytes => Field::Text {
                size: of_vector(TEXT_BYTES),
            },
            _ if is_repeated => Field::Scalars,
            _ => Field::Flat,
        }
    }
}

/// The sizes of messages that are elements of vectors.
fn sizes() -> Vec<(String, usize)> {
    use config::{
        action as action_info, controller_packet_metadata as packet_info, p4_enum_type_spec,
        p4_header_type_spec, p4_header_union_type_spec, p4_serializable_enum_type_spec,
        p4_struct_type_spec, table_action_call,
    };
    use p4::{action, action_profile_group};
    macro_rules! sizes {
        ($($package:literal $module:ident: $($name:ident)+;)+) => {
            vec![$($((
                format!("{}.{}", $package, stringify!($name)),
                size_of::<$module::$name>(),
            ),)+)+]
        };
    }
    sizes! {
        "p4.v1" p4: Update Entity FieldMatch ActionProfileAction BackupReplica Replica
            ValueSetMember PacketMetadata P4Data P4Header P4HeaderUnion TableEntry;
        "p4.v1.Action" action: Param;
        "p4.v1.ActionProfileGroup" action_profile_group: Member;
        "p4.config.v1" config: Table Action ActionProfile Counter DirectCounter Meter DirectMeter
            ControllerPacketMetadata ValueSet Register Digest Extern ExternInstance MatchField
            ActionRef SourceLocation StructuredAnnotation KeyValuePair Expression P4DataTypeSpec;
        "p4.config.v1.Action" action_info: Param;
        "p4.config.v1.TableActionCall" table_action_call: Argument;
        "p4.config.v1.ControllerPacketMetadata" packet_info: Metadata;
        "p4.config.v1.P4StructTypeSpec" p4_struct_type_spec: Member;
        "p4.config.v1.P4HeaderTypeSpec" p4_header_type_spec: Member;
        "p4.config.v1.P4HeaderUnionTypeSpec" p4_header_union_type_spec: Member;
        "p4.config.v1.P4EnumTypeSpec" p4_enum_type_spec: Member;
        "p4.config.v1.P4SerializableEnumTypeSpec" p4_serializable_enum_type_spec: Member;
        "google.protobuf" prost_types: Any;
    }
}

/// A message with bytes still to come.
#[derive(Clone, Copy, Debug)]
struct Level {
    shape: usize,
    left: u64,
    /// The last field, whose vector already has an element.
    last: Option<u32>,
}

/// What the next bytes are expected to be.
#[derive(Clone, Copy, Debug)]
enum Expect {
    Tag,
    Number,
    Length(Option<Field>, bool),
    Skip(u64),
    /// The input is no valid message; the rest is ignored.
    Nothing,
}

/// A walk over a message whose bytes arrive in pieces.
pub(super) struct Walk {
    levels: Vec<Level>,
    expect: Expect,
    /// The varint read so far, and its number of bits.
    number: u64,
    bits: u32,
}

impl Walk {
    /// Starts a walk over a message of `len` bytes of type `name`, such as
    /// `p4.v1.WriteRequest`.
    pub(super) fn new(name: &str, len: u64) -> Walk {
        let shape = Shapes::get().by_name.get(name);
        let level = shape.map(|shape| Level {
            shape: *shape,
            left: len,
            last: None,
        });
        Walk {
            expect: level.map_or(Expect::Nothing, |_| Expect::Tag),
            levels: level.into_iter().collect(),
            number: 0,
            bits: 0,
        }
    }

    /// Takes the next bytes. Returns how much more memory the decoded message takes for them.
    pub(super) fn handle_bytes(&mut self, mut bytes: &[u8]) -> u64 {
        let mut size = 0;
        while let Some(&byte) = bytes.first() {
            match self.expect {
                Expect::Nothing => break,
                Expect::Skip(left) => {
                    let taken = left.min(bytes.len() as u64);
                    bytes = &bytes[taken as usize..];
                    self.expect = match left - taken {
                        0 => Expect::Tag,
                        left => Expect::Skip(left),
                    };
                    self.pass(taken);
                }
                _ => {
                    bytes = &bytes[1..];
                    self.pass(1);
                    if self.expect_more(byte) {
                        continue;
                    }
                    let number = std::mem::take(&mut self.number);
                    self.bits = 0;
                    size += self.handle_number(number);
                }
            }
            if matches!(self.expect, Expect::Tag) {
                self.leave();
            }
        }
        size
    }

    /// Takes a byte of a varint. Returns whether more follow.
    fn expect_more(&mut self, byte: u8) -> bool {
        self.number |= u64::from(byte & 0x7f).checked_shl(self.bits).unwrap_or(0);
        self.bits += 7;
        if byte & 0x80 != 0 && self.bits >= 70 {
            self.expect = Expect::Nothing;
        }
        byte & 0x80 != 0
    }

    /// Subtracts bytes from the innermost message; ends the walk if it has fewer left.
    fn pass(&mut self, count: u64) {
        match self.levels.last_mut() {
            Some(level) if level.left >= count => level.left -= count,
            _ => self.expect = Expect::Nothing,
        }
    }

    /// Leaves complete messages.
    fn leave(&mut self) {
        while self.levels.len() > 1 && self.levels.last().is_some_and(|level| level.left == 0) {
            self.levels.pop();
        }
    }

    fn handle_number(&mut self, number: u64) -> u64 {
        match self.expect {
            Expect::Tag => self.handle_tag(number),
            Expect::Length(field, is_first) => self.handle_length(field, is_first, number),
            Expect::Number => {
                self.expect = Expect::Tag;
                0
            }
            Expect::Skip(_) | Expect::Nothing => 0,
        }
    }

    fn handle_tag(&mut self, tag: u64) -> u64 {
        let Some(level) = self.levels.last_mut() else {
            return 0;
        };
        let (number, wire_type) = ((tag >> 3) as u32, tag & 7);
        let is_first = level.last.replace(number) != Some(number);
        let field = Shapes::get().all[level.shape].get(&number).copied();
        self.expect = match wire_type {
            0 => Expect::Number,
            1 => Expect::Skip(8),
            2 => Expect::Length(field, is_first),
            5 => Expect::Skip(4),
            // Groups: no message has any, and unknown fields are skipped.
            3 | 4 => Expect::Tag,
            _ => Expect::Nothing,
        };
        match (field, wire_type) {
            (Some(Field::Scalars), 0 | 1 | 5) => element(SCALAR_BYTES, is_first),
            _ => 0,
        }
    }

    fn handle_length(&mut self, field: Option<Field>, is_first: bool, length: u64) -> u64 {
        let is_deepest = self.levels.len() == MAX_DEPTH;
        let Some(level) = self.levels.last_mut() else {
            return 0;
        };
        if length > level.left {
            self.expect = Expect::Nothing;
            return 0;
        }
        self.expect = match length {
            0 => Expect::Tag,
            length => Expect::Skip(length),
        };
        match field {
            None | Some(Field::Flat) => 0,
            Some(Field::Scalars) => element(SCALAR_BYTES, true) * length,
            Some(Field::Text { size }) => element(size, is_first) + length,
            Some(Field::Message { shape, size }) => {
                if is_deepest {
                    self.expect = Expect::Nothing;
                } else if length > 0 {
                    level.left -= length;
                    self.levels.push(Level {
                        shape,
                        left: length,
                        last: None,
                    });
                    self.expect = Expect::Tag;
                }
                element(size, is_first)
            }
        }
    }
}

/// The memory that an element adds to its vector.
fn element(size: u64, is_first: bool) -> u64 {
    if is_first { 4 * size } else { 3 * size }
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;

    fn size_of_decoded(name: &str, bytes: &[u8]) -> u64 {
        Walk::new(name, bytes.len() as u64).handle_bytes(bytes)
    }

    #[test]
    fn each_message_that_is_an_element_has_its_size() {
        let sizes: HashMap<String, usize> = sizes().into_iter().collect();
        let known: Vec<String> = Shapes::get().by_name.keys().cloned().collect();
        let mut elements = 0;
        for name in known {
            let message = descriptors().get_message_by_name(&name).unwrap();
            for field in message.fields().filter(|field| field.is_list()) {
                if let Kind::Message(element) = field.kind() {
                    let name = element.full_name();
                    assert!(sizes.contains_key(name), "{name} has no size");
                    elements += 1;
                }
            }
        }
        assert!(elements > 50, "{elements}");
    }

    #[test]
    fn what_is_decoded_has_at_most_the_size_that_was_said() {
        let update = p4::Update {
            r#type: 1,
            entity: Some(p4::Entity {
                entity: Some(p4::entity::Entity::TableEntry(p4::TableEntry {
                    r#match: vec![p4::FieldMatch::default(); 3],
                    ..Default::default()
                })),
            }),
        };
        for (updates, matches) in [
            (vec![p4::Update::default(); 1], 0),
            (vec![p4::Update::default(); 1_025], 0),
            (vec![update; 9], 3),
        ] {
            let bytes = p4::WriteRequest {
                role: "a role".to_owned(),
                updates,
                ..Default::default()
            };
            let bytes = bytes.encode_to_vec();
            let said = size_of_decoded("p4.v1.WriteRequest", &bytes);
            let decoded = p4::WriteRequest::decode(&bytes[..]).unwrap();
            // A growing vector holds its old and its new memory at once.
            let capacity = decoded.updates.capacity();
            let most = capacity + if capacity > 4 { capacity / 2 } else { 0 };
            let own = most * size_of::<p4::Update>();
            let fields = decoded.updates.len() * matches * 4 / 3 * size_of::<p4::FieldMatch>();
            let takes = (own + fields + decoded.role.len()) as u64;
            assert!(said >= takes, "{said} for {takes}");
            assert!(said <= 4 * takes, "{said} for {takes}");
        }
    }

    #[test]
    fn pieces_are_as_the_whole_and_what_is_no_message_ends_the_walk() {
        let bytes = p4::ReadRequest {
            device_id: 1,
            role: "r".repeat(300),
            entities: vec![p4::Entity::default(); 7],
        };
        let bytes = bytes.encode_to_vec();
        let name = "p4.v1.ReadRequest";
        let whole = size_of_decoded(name, &bytes);
        let entity = size_of::<p4::Entity>() as u64;
        assert_eq!(whole, 300 + (4 + 6 * 3) * entity);
        for piece in 1..bytes.len() {
            let mut walk = Walk::new(name, bytes.len() as u64);
            let sizes = bytes.chunks(piece).map(|piece| walk.handle_bytes(piece));
            assert_eq!(sizes.sum::<u64>(), whole, "in pieces of {piece}");
        }
        // Lengths past the end, endless numbers, types that do not exist.
        for bytes in [&[0x12, 0x7f, 0x12, 0][..], &[0xff; 64], &[0x07, 0x12, 0]] {
            assert_eq!(size_of_decoded(name, bytes), 0);
        }
        assert_eq!(size_of_decoded("no.Message", &bytes), 0);
    }
}
