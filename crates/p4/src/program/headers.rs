//! Headers, stacks and unions, and where their fields are in a packet's frame.
//!
//! A packet being processed has one array of 64-bit words, its *frame*. Each header instance
//! has a block in it:
//!
//! ```text
//!   word base       whether the header is valid (0 or 1); the hidden field `$valid$`
//!   word base + 1   only with a varbit field: how many bits it has now
//!   then            the fields, each with words of its own, the most significant word first
//! ```
//!
//! So a field of 64 bits or less is one word, read and written without a shift; values are
//! right-aligned, with zero bits to their left. All headers of one type have the same block
//! layout, so a header is assigned, compared and moved within a stack by copying its block. A
//! stack has one more word: how many of its elements have been extracted, `nextIndex` in P4.
//!
//! 1. Bits of a field's words above its width are zero.
//! 2. When a packet comes in, the validity words of metadata are 1. Those of other headers are
//!    0, unless the JSON says `initially_valid`. All other words are 0.
//! 3. At most one header of a union is valid.

use std::collections::HashMap;

use crate::error::LoadError;
use crate::json::Node;

use super::ids::{FieldId, HeaderId, StackId, UnionId, UnionStackId};

/// Maximum words of a frame: more than any known program has, less than would hurt.
pub const FRAME_WORDS_MAX: usize = 1 << 18;

/// Maximum bits of a field.
pub const FIELD_BITS_MAX: u32 = 1 << 16;

/// The name of the hidden field that holds a header's validity.
pub const VALID: &str = "$valid$";

/// A field of a header instance.
#[derive(Clone, Debug)]
pub struct Field {
    /// Its header.
    pub header: HeaderId,
    /// Its name within the header.
    pub name: String,
    /// Its width; for a varbit, its maximum width.
    pub width_bits: u32,
    /// Whether it is signed, in two's complement.
    pub is_signed: bool,
    /// Whether its width changes from packet to packet.
    pub is_varbit: bool,
    /// Whether a value that does not fit saturates, as P4_14 allows.
    pub is_saturating: bool,
    /// Its first word in the frame.
    pub word: u32,
}

impl Field {
    /// Number of its words in the frame.
    pub const fn words(&self) -> u32 {
        self.width_bits.div_ceil(64)
    }
}

/// A header instance.
#[derive(Clone, Debug)]
pub struct Header {
    /// Its name, such as `hdr.ipv4` or `stack[1]`.
    pub name: String,
    /// The name of its type.
    pub type_name: String,
    /// The index of its type; headers of one type have the same block layout.
    pub type_index: u32,
    /// Whether it is metadata: always valid, and never on the wire.
    pub is_metadata: bool,
    /// Whether it is valid before parsing.
    pub is_initially_valid: bool,
    /// Its first field; the others follow, with `$valid$` after the last.
    pub first_field: FieldId,
    /// Number of its fields, without `$valid$`.
    pub field_count: u32,
    /// Bits of all its fields except the varbit.
    pub fixed_bits: u32,
    /// The first word of its block in the frame, which is its validity.
    pub base: u32,
    /// The words of its block.
    pub words: u32,
    /// Its varbit field, if it has one.
    pub varbit: Option<FieldId>,
    /// The union that it is a member of.
    pub union: Option<UnionId>,
}

impl Header {
    /// The word with the varbit field's current number of bits, if there is a varbit.
    pub const fn varbit_length_word(&self) -> u32 {
        self.base + 1
    }

    /// The field that holds its validity.
    pub const fn valid_field(&self) -> FieldId {
        FieldId(self.first_field.0 + self.field_count)
    }

    /// Its fields, without `$valid$`.
    pub fn fields(&self) -> impl Iterator<Item = FieldId> + use<> {
        (self.first_field.0..self.first_field.0 + self.field_count).map(FieldId)
    }
}

/// Bits of a header on the wire, at most one word of the frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Lane {
    /// Its word in the frame.
    pub(crate) word: u32,
    /// How many of the word's lowest bits.
    pub(crate) width_bits: u32,
}

/// A header stack.
#[derive(Clone, Debug)]
pub struct Stack {
    /// Its name.
    pub name: String,
    /// Its elements.
    pub headers: Vec<HeaderId>,
    /// The word that counts the elements in use.
    pub next_word: u32,
}

/// A header union.
#[derive(Clone, Debug)]
pub struct Union {
    /// Its name.
    pub name: String,
    /// Its type.
    pub type_name: String,
    /// The names of its members, in order.
    pub members: Vec<String>,
    /// Its members.
    pub headers: Vec<HeaderId>,
}

/// A stack of header unions.
#[derive(Clone, Debug)]
pub struct UnionStack {
    /// Its name.
    pub name: String,
    /// Its elements.
    pub unions: Vec<UnionId>,
    /// The word that counts the elements in use.
    pub next_word: u32,
}

/// All headers of a program, with their names.
#[derive(Clone, Debug, Default)]
pub struct Headers {
    /// Instances, in the order of the JSON.
    pub headers: Vec<Header>,
    /// Fields, those of one header together.
    pub fields: Vec<Field>,
    /// Stacks.
    pub stacks: Vec<Stack>,
    /// Unions.
    pub unions: Vec<Union>,
    /// Stacks of unions.
    pub union_stacks: Vec<UnionStack>,
    /// The initial frame of an arriving packet.
    pub initial: Vec<u64>,
    /// By header: its bits on the wire, in order; empty if it has a varbit field.
    lanes: Vec<Box<[Lane]>>,
    header_names: HashMap<String, HeaderId>,
    stack_names: HashMap<String, StackId>,
    union_names: HashMap<String, UnionId>,
    union_stack_names: HashMap<String, UnionStackId>,
    field_names: HashMap<(HeaderId, String), FieldId>,
    aliases: HashMap<(String, String), (String, String)>,
}

impl Headers {
    /// Returns a header instance.
    pub fn header(&self, id: HeaderId) -> &Header {
        &self.headers[id.index()]
    }

    /// Returns a field.
    pub fn field(&self, id: FieldId) -> &Field {
        &self.fields[id.index()]
    }

    /// Returns a stack.
    pub fn stack(&self, id: StackId) -> &Stack {
        &self.stacks[id.index()]
    }

    /// Returns a union.
    pub fn union(&self, id: UnionId) -> &Union {
        &self.unions[id.index()]
    }

    /// Returns a stack of unions.
    pub fn union_stack(&self, id: UnionStackId) -> &UnionStack {
        &self.union_stacks[id.index()]
    }

    /// A header's lanes on the wire, in order; `None` if its length depends on the packet.
    #[inline]
    pub(crate) fn lanes(&self, id: HeaderId) -> Option<&[Lane]> {
        match self.header(id).varbit {
            None => Some(&self.lanes[id.index()]),
            Some(_) => None,
        }
    }

    /// The lanes of a field of fixed width.
    pub(crate) fn lanes_of(&self, field: FieldId) -> impl Iterator<Item = Lane> + use<> {
        let field = self.field(field);
        let (first, words, width_bits) = (field.word, field.words(), field.width_bits);
        (0..words).map(move |index| Lane {
            word: first + index,
            width_bits: match index {
                0 => (width_bits - 1) % 64 + 1,
                _ => 64,
            },
        })
    }

    /// Finds a header by name.
    pub fn find_header(&self, name: &str) -> Option<HeaderId> {
        self.header_names.get(name).copied()
    }

    /// Finds a field by its header's name and its own, or by an alias of both.
    pub fn find_field(&self, header: &str, field: &str) -> Option<FieldId> {
        let direct = |header: &str, field: &str| {
            let header = self.find_header(header)?;
            self.field_names.get(&(header, field.to_owned())).copied()
        };
        direct(header, field).or_else(|| {
            let alias = self.aliases.get(&(header.to_owned(), field.to_owned()))?;
            direct(&alias.0, &alias.1)
        })
    }

    /// The name of a field as `header.field`.
    pub fn field_name(&self, id: FieldId) -> String {
        let field = self.field(id);
        format!("{}.{}", self.header(field.header).name, field.name)
    }

    /// The field at an index in a header's list of fields.
    pub(crate) fn field_at(&self, header: HeaderId, index: u32) -> Option<FieldId> {
        let header = self.header(header);
        (index <= header.field_count).then(|| FieldId(header.first_field.0 + index))
    }

    /// The header that a JSON node names.
    pub(crate) fn header_at(&self, node: &Node<'_>) -> Result<HeaderId, LoadError> {
        let name = node.text()?;
        let header = self.find_header(name);
        header.ok_or_else(|| node.refuse(format!("there is no header {name:?}")))
    }

    /// The stack that a JSON node names.
    pub(crate) fn stack_at(&self, node: &Node<'_>) -> Result<StackId, LoadError> {
        let name = node.text()?;
        let stack = self.stack_names.get(name).copied();
        stack.ok_or_else(|| node.refuse(format!("there is no header stack {name:?}")))
    }

    /// The union that a JSON node names.
    pub(crate) fn union_at(&self, node: &Node<'_>) -> Result<UnionId, LoadError> {
        let name = node.text()?;
        let union = self.union_names.get(name).copied();
        union.ok_or_else(|| node.refuse(format!("there is no header union {name:?}")))
    }

    /// The stack of unions that a JSON node names.
    pub(crate) fn union_stack_at(&self, node: &Node<'_>) -> Result<UnionStackId, LoadError> {
        let name = node.text()?;
        let stack = self.union_stack_names.get(name).copied();
        stack.ok_or_else(|| node.refuse(format!("there is no stack of header unions {name:?}")))
    }

    /// The field that `[header, field]` names.
    pub(crate) fn field_of(&self, node: &Node<'_>) -> Result<FieldId, LoadError> {
        let (header, field) = (node.at(0)?.text()?, node.at(1)?.text()?);
        let found = self.find_field(header, field);
        found.ok_or_else(|| node.refuse(format!("there is no field {header}.{field}")))
    }

    /// The index of a field in the list of its header type.
    pub(crate) fn index_in_type(
        &self,
        header: HeaderId,
        node: &Node<'_>,
    ) -> Result<u32, LoadError> {
        let name = node.text()?;
        let field = self.field_names.get(&(header, name.to_owned()));
        let field = field.ok_or_else(|| node.refuse(format!("there is no field {name:?}")))?;
        Ok(field.0 - self.header(header).first_field.0)
    }

    /// The index of a union's member, given by index or by name.
    pub(crate) fn member_index(&self, union: UnionId, node: &Node<'_>) -> Result<usize, LoadError> {
        if let Some(index) = node.value().as_u64() {
            let is_there = (index as usize) < self.union(union).headers.len();
            return match is_there {
                true => Ok(index as usize),
                false => Err(node.refuse("the union has no such member")),
            };
        }
        let name = node.text()?;
        let members = &self.union(union).members;
        let index = members.iter().position(|member| member == name);
        index.ok_or_else(|| node.refuse(format!("the union has no member {name:?}")))
    }
}

/// A header type from the JSON.
struct HeaderType {
    name: String,
    fields: Vec<FieldShape>,
    max_bytes: Option<u32>,
}

struct FieldShape {
    name: String,
    /// `None` for a varbit field.
    width_bits: Option<u32>,
    is_signed: bool,
    is_saturating: bool,
}

/// Reads header types, instances, stacks, unions and aliases.
pub(super) fn read(root: &Node<'_>) -> Result<Headers, LoadError> {
    let mut types = Vec::new();
    for node in root.list("header_types")? {
        types.push(read_type(&node)?);
    }
    let mut headers = Headers::default();
    for node in root.list("headers")? {
        let type_name = node.get("header_type")?;
        let found = types.iter().position(|one| type_name.is_text(&one.name));
        let index = found.ok_or_else(|| type_name.refuse("there is no such header type"))?;
        headers.add_instance(&node, &types[index], index)?;
    }
    headers.add_lanes();
    headers.read_stacks(root)?;
    headers.read_unions(root)?;
    for node in root.list("field_aliases")? {
        let (alias, target) = (node.at(0)?, node.at(1)?);
        let (header, field) = alias
            .text()?
            .rsplit_once('.')
            .ok_or_else(|| alias.refuse("an alias is written like header.field"))?;
        let target = (target.at(0)?.text()?, target.at(1)?.text()?);
        let target = (target.0.to_owned(), target.1.to_owned());
        let alias = (header.to_owned(), field.to_owned());
        headers.aliases.insert(alias, target);
    }
    Ok(headers)
}

fn read_type(node: &Node<'_>) -> Result<HeaderType, LoadError> {
    let mut fields = Vec::new();
    for field in node.list("fields")? {
        let width = field.at(1)?;
        let width_bits = match width.is_text("*") {
            true => None,
            false => Some(width.number()?),
        };
        if width_bits.is_some_and(|bits| bits == 0 || bits > FIELD_BITS_MAX) {
            let what = format!("a field has 1 to {FIELD_BITS_MAX} bits");
            return Err(width.refuse(what));
        }
        let flag = |index| field.at(index).ok().and_then(|node| node.value().as_bool());
        fields.push(FieldShape {
            name: field.at(0)?.text()?.to_owned(),
            width_bits,
            is_signed: flag(2).unwrap_or(false),
            is_saturating: flag(3).unwrap_or(false),
        });
    }
    if fields
        .iter()
        .filter(|field| field.width_bits.is_none())
        .count()
        > 1
    {
        return Err(node.refuse("a header has at most one varbit field"));
    }
    let max_bytes = node.find("max_length").map(|node| node.number());
    if node.find("length_exp").is_some() {
        return Err(node.refuse(
            "a header whose length is an expression of its type (length_exp, P4_14) is not \
             supported; extract it with a length (P4_16)",
        ));
    }
    Ok(HeaderType {
        name: node.text_of("name")?.to_owned(),
        fields,
        max_bytes: max_bytes.transpose()?,
    })
}

impl Headers {
    fn add_words(&mut self, node: &Node<'_>, count: u32) -> Result<u32, LoadError> {
        let first = self.initial.len();
        if first + count as usize > FRAME_WORDS_MAX {
            let what = format!("the headers need more than {FRAME_WORDS_MAX} words of 64 bits");
            return Err(node.refuse(what));
        }
        self.initial.resize(first + count as usize, 0);
        Ok(first as u32)
    }

    fn add_instance(
        &mut self,
        node: &Node<'_>,
        shape: &HeaderType,
        type_index: usize,
    ) -> Result<(), LoadError> {
        let id = HeaderId(self.headers.len() as u32);
        let name = node.text_of("name")?;
        let is_metadata = node.flag_of("metadata")?;
        let is_initially_valid = is_metadata || node.flag_of("initially_valid")?;
        let base = self.add_words(node, 1)?;
        self.initial[base as usize] = u64::from(is_initially_valid);
        let first_field = FieldId(self.fields.len() as u32);
        let fixed_bits = fixed_bits(node, shape)?;
        let mut varbit = None;
        if shape.fields.iter().any(|field| field.width_bits.is_none()) {
            self.add_words(node, 1)?;
        }
        if !is_metadata && !fixed_bits.is_multiple_of(8) {
            return Err(node.refuse("the bits of a header are no whole number of bytes"));
        }
        for field in &shape.fields {
            let is_varbit = field.width_bits.is_none();
            let width_bits = match field.width_bits {
                Some(bits) => bits,
                None => varbit_bits(node, shape, fixed_bits)?,
            };
            let field_id = FieldId(self.fields.len() as u32);
            if is_varbit {
                varbit = Some(field_id);
            }
            let word = self.add_words(node, width_bits.div_ceil(64))?;
            self.add_field(Field {
                header: id,
                name: field.name.clone(),
                width_bits,
                is_signed: field.is_signed,
                is_varbit,
                is_saturating: field.is_saturating,
                word,
            });
        }
        self.add_field(Field {
            header: id,
            name: VALID.to_owned(),
            width_bits: 1,
            is_signed: false,
            is_varbit: false,
            is_saturating: false,
            word: base,
        });
        if self.header_names.insert(name.to_owned(), id).is_some() {
            return Err(node.refuse(format!("there are two headers {name:?}")));
        }
        self.headers.push(Header {
            name: name.to_owned(),
            type_name: shape.name.clone(),
            type_index: type_index as u32,
            is_metadata,
            is_initially_valid,
            first_field,
            field_count: shape.fields.len() as u32,
            fixed_bits,
            base,
            words: self.initial.len() as u32 - base,
            varbit,
            union: None,
        });
        Ok(())
    }

    /// Adds the lanes of each header.
    fn add_lanes(&mut self) {
        let lanes = self.headers.iter().map(|header| {
            let fields = header.fields().filter(|_| header.varbit.is_none());
            fields.flat_map(|field| self.lanes_of(field)).collect()
        });
        self.lanes = lanes.collect();
    }

    fn add_field(&mut self, field: Field) {
        let id = FieldId(self.fields.len() as u32);
        self.field_names
            .insert((field.header, field.name.clone()), id);
        self.fields.push(field);
    }

    /// JSON ids are unique only within their list and need not be indices.
    fn read_stacks(&mut self, root: &Node<'_>) -> Result<(), LoadError> {
        let ids = instance_ids(root, "headers")?;
        for node in root.list("header_stacks")? {
            let mut headers = Vec::new();
            for id in node.list("header_ids")? {
                let index = ids.get(&id.number()?);
                let index = index.ok_or_else(|| id.refuse("there is no header with this id"))?;
                headers.push(HeaderId(*index));
            }
            let first = headers
                .first()
                .map(|&id: &HeaderId| self.header(id).type_index);
            let types = headers.iter().map(|&id| self.header(id).type_index);
            if first.is_none() || types.clone().any(|one| Some(one) != first) {
                return Err(node.refuse("a stack has one or more headers, all of one type"));
            }
            let next_word = self.add_words(&node, 1)?;
            let name = node.text_of("name")?.to_owned();
            let id = StackId(self.stacks.len() as u32);
            self.stack_names.insert(name.clone(), id);
            self.stacks.push(Stack {
                name,
                headers,
                next_word,
            });
        }
        Ok(())
    }

    fn read_unions(&mut self, root: &Node<'_>) -> Result<(), LoadError> {
        let header_ids = instance_ids(root, "headers")?;
        let types = root.list("header_union_types")?;
        for node in root.list("header_unions")? {
            let type_name = node.get("union_type")?;
            let found = types.iter().find(|one| {
                one.find("name")
                    .is_some_and(|name| name.value() == type_name.value())
            });
            let union_type = found.ok_or_else(|| type_name.refuse("there is no such type"))?;
            let mut members = Vec::new();
            for member in union_type.list("headers")? {
                members.push(member.at(0)?.text()?.to_owned());
            }
            let union = UnionId(self.unions.len() as u32);
            let mut headers = Vec::new();
            for id in node.list("header_ids")? {
                let index = header_ids.get(&id.number()?).copied();
                let index = index.ok_or_else(|| id.refuse("there is no header with this id"))?;
                let header = &mut self.headers[index as usize];
                if header.union.replace(union).is_some() {
                    return Err(id.refuse("this header is a member of two unions"));
                }
                headers.push(HeaderId(index));
            }
            if headers.is_empty() || headers.len() != members.len() {
                return Err(node.refuse("the union has other members than its type"));
            }
            let name = node.text_of("name")?.to_owned();
            self.union_names.insert(name.clone(), union);
            self.unions.push(Union {
                name,
                type_name: type_name.text()?.to_owned(),
                members,
                headers,
            });
        }
        let union_ids = instance_ids(root, "header_unions")?;
        for node in root.list("header_union_stacks")? {
            let mut unions = Vec::new();
            for id in node.list("header_union_ids")? {
                let index = union_ids.get(&id.number()?);
                let index = index.ok_or_else(|| id.refuse("there is no union with this id"))?;
                unions.push(UnionId(*index));
            }
            let first = unions
                .first()
                .map(|&id: &UnionId| &self.union(id).type_name);
            if first.is_none()
                || unions
                    .iter()
                    .any(|&id| Some(&self.union(id).type_name) != first)
            {
                return Err(node.refuse("a stack has one or more unions, all of one type"));
            }
            let next_word = self.add_words(&node, 1)?;
            let name = node.text_of("name")?.to_owned();
            let id = UnionStackId(self.union_stacks.len() as u32);
            self.union_stack_names.insert(name.clone(), id);
            self.union_stacks.push(UnionStack {
                name,
                unions,
                next_word,
            });
        }
        Ok(())
    }
}

/// Bits of all fields of a header except the varbit.
fn fixed_bits(node: &Node<'_>, shape: &HeaderType) -> Result<u32, LoadError> {
    let fixed = shape.fields.iter().filter_map(|field| field.width_bits);
    let bits: u64 = fixed.map(u64::from).sum();
    match u32::try_from(bits) {
        Ok(bits) if bits as usize <= FRAME_WORDS_MAX => Ok(bits),
        _ => Err(node.refuse(format!("a header has at most {FRAME_WORDS_MAX} bits"))),
    }
}

/// Maximum bits of a varbit field.
fn varbit_bits(node: &Node<'_>, shape: &HeaderType, fixed_bits: u32) -> Result<u32, LoadError> {
    let max_bytes = shape.max_bytes.ok_or_else(|| {
        node.refuse(format!(
            "the header type {:?} has a varbit field and no max_length",
            shape.name
        ))
    })?;
    let bits = u64::from(max_bytes) * 8;
    match bits.checked_sub(u64::from(fixed_bits)) {
        Some(bits) if (1..=u64::from(FIELD_BITS_MAX)).contains(&bits) => Ok(bits as u32),
        _ => Err(node.refuse(format!(
            "the max_length of {:?} leaves its varbit field no bits, or more than \
             {FIELD_BITS_MAX}",
            shape.name
        ))),
    }
}

/// Maps the ids of a list's objects to their indices.
fn instance_ids(root: &Node<'_>, list: &str) -> Result<HashMap<u32, u32>, LoadError> {
    let mut ids = HashMap::new();
    for (index, node) in root.list(list)?.iter().enumerate() {
        ids.insert(node.number_of("id")?, index as u32);
    }
    Ok(ids)
}
