//! Action lists: the words, their arguments, and the order they must be in.
//!
//! A list is read pair by pair. Each family of actions has a file: `send` says where packets
//! go, `write` changes fields and headers, `track` asks for connections. These invariants hold
//! for lists as a whole:
//!
//! 1. Instructions come in OpenFlow's order, each once: actions, `clear_actions`,
//!    `write_actions`, `write_metadata`, `goto_table` (OpenFlow 1.5.1, section 5.5). They
//!    stand only in a rule's own list, never in a nested one or a bucket.
//! 2. `drop` stands alone. Beside `conjunction` stands only `note`.
//! 3. Lists nest at most [`MAX_NESTING`] deep.
//! 4. Where the rule is known, an action on a field needs the field's prerequisite; in a
//!    bucket the rule is not known. The old `mod_` actions are exempt, as in Open vSwitch: on
//!    other packets they do nothing.

mod conjunction;
mod encap;
mod learn;
mod links;
mod sample;
mod send;
mod track;
mod write;

pub(super) use send::{group_id, output, table_id};

use super::error::Parsed;
use super::fields::{self, Format, Name};
use super::intern::Interner;
use super::line::{Line, Mark, Pair, excerpt};
use super::shape::{Needs, Shape};
use crate::action::{Action, Actions, LengthCheck, Slice, Subfield};
use crate::check::form::{BESIDE_CONJUNCTION, MAX_NESTING, OUT_OF_ORDER, Owner};

/// Reads the action lists of a line.
pub(super) struct ActionReader<'a> {
    pub(super) line: &'a Line<'a>,
    pub(super) interner: &'a mut Interner,
    /// The packet's shape; `None` if nothing is known of it.
    pub(super) shape: Option<Shape>,
}

/// Reads the bits of a field, as actions name them.
pub(super) fn read_subfield<'a>(line: &'a Line<'a>, text: &'a str) -> Parsed<Subfield> {
    let reader = ActionReader {
        line,
        interner: &mut Interner::default(),
        shape: None,
    };
    Ok(reader.subfield(text, false)?.1)
}

impl<'a> ActionReader<'a> {
    /// Reads a list with everything nested in it.
    pub(super) fn list(&mut self, text: &'a str, owner: Owner, depth: usize) -> Parsed<Actions> {
        let line = self.line;
        if depth > MAX_NESTING {
            return Err(line.limit(text, "action lists are nested deeper", MAX_NESTING));
        }
        let mut actions = Vec::with_capacity(4);
        let mut rank = 0;
        let (mut drop, mut conjunction, mut other) = (None, None, None);
        let mut pairs = line.pairs(text);
        while let Some(pair) = pairs.next()? {
            if is_word(pair.key, "drop") {
                drop = Some(pair.key);
                continue;
            }
            let action = self.action(pair, owner, depth)?;
            if let Some(refusal) = owner.refusal(&action) {
                return Err(line.syntax(pair.key, refusal));
            }
            let next = action.instruction_rank();
            if !actions.is_empty() && (next < rank || next == rank && rank > 0) {
                return Err(line.syntax(pair.key, OUT_OF_ORDER));
            }
            rank = next;
            match action {
                Action::Conjunction { .. } => conjunction = Some(pair.key),
                Action::Note(_) => {}
                _ => other = Some(pair.key),
            }
            if let (Some(_), Some(other)) = (conjunction, other) {
                return Err(line.syntax(other, BESIDE_CONJUNCTION));
            }
            if let Some(shape) = &mut self.shape {
                shape.apply(&action);
            }
            actions.push(action);
        }
        match drop {
            Some(drop) if !actions.is_empty() => {
                Err(line.syntax(drop, "`drop` stands alone; remove it or the other actions"))
            }
            _ => Ok(self.interner.intern(actions)),
        }
    }

    fn action(&mut self, pair: Pair<'a>, owner: Owner, depth: usize) -> Parsed<Action> {
        let line = self.line;
        let lowered;
        let word = if pair.key.bytes().any(|byte| byte.is_ascii_uppercase()) {
            lowered = excerpt(pair.key).to_ascii_lowercase();
            &*lowered
        } else {
            pair.key
        };
        if let Some(action) = self.nested(word, pair, depth)? {
            return Ok(action);
        }
        if let Some(action) = self.send(word, pair)? {
            return Ok(action);
        }
        if let Some(action) = self.choose(word, pair)? {
            return Ok(action);
        }
        if word == "conjunction" {
            return conjunction::read(line, pair);
        }
        if let Some(action) = self.track(word, pair, depth)? {
            return Ok(action);
        }
        if let Some(action) = self.learn(word, pair)? {
            return Ok(action);
        }
        match word {
            "check_pkt_larger" => return self.length_check(pair.value),
            "sample" => return self.sample(pair),
            "encap" => return encap::encap(line, pair).map(Action::Encap),
            "decap" => return encap::decap(line, pair).map(Action::Decap),
            _ => {}
        }
        if let Some(action) = self.write(word, pair)? {
            return Ok(action);
        }
        if word == "apply_actions" {
            return Err(line.syntax(pair.key, "write its actions without `apply_actions(...)`"));
        }
        let is_bare = pair.mark == Mark::None && owner != Owner::ActionSet;
        match line.port_word(pair.key)? {
            Some(port) => send::output(line, pair.key, port).map(Action::Output),
            None if is_bare => Err(line.unknown_port(pair.key, "action or port")),
            None => Err(line.unknown(pair.key, "action", "see ovs-actions(7) for their names")),
        }
    }

    /// Reads `check_pkt_larger(LENGTH)->BIT`.
    fn length_check(&self, argument: &'a str) -> Parsed<Action> {
        let line = self.line;
        let form = "check_pkt_larger(LENGTH)->FIELD[BIT]";
        let (length, target) = self.split_arrow(argument, form)?;
        let length = length.strip_suffix(')').unwrap_or(length);
        let (_, larger) = self.subfield(target, true)?;
        match larger.width_bits() {
            1 => Ok(Action::CheckLarger(Box::new(LengthCheck {
                limit_bytes: line.integer(length)?,
                larger,
            }))),
            _ => Err(line.value(target, "one bit of a field (reg0[0])")),
        }
    }

    /// Reads an action that holds a list.
    fn nested(&mut self, word: &str, pair: Pair<'a>, depth: usize) -> Parsed<Option<Action>> {
        let owner = match word {
            "clone" => Owner::Nested,
            "write_actions" => Owner::ActionSet,
            _ => return Ok(None),
        };
        if pair.mark != Mark::Parenthesis {
            return Err(self.line.syntax(pair.key, format!("write {word}(ACTIONS)")));
        }
        // Changes made inside are undone when the outer list continues.
        let shape = self.shape;
        let list = self.list(pair.value, owner, depth + 1);
        self.shape = shape;
        Ok(Some(match owner {
            Owner::ActionSet => Action::WriteActions(list?),
            _ => Action::Clone(list?),
        }))
    }

    /// Fails unless packets of the rule have what `name` needs.
    fn check_prerequisite(&self, part: &str, name: &Name) -> Parsed<()> {
        self.check_prerequisite_in(part, name, self.shape)
    }

    /// The same for packets of this shape.
    fn check_prerequisite_in(&self, part: &str, name: &Name, shape: Option<Shape>) -> Parsed<()> {
        let needs = match name.format {
            Format::VlanVid => Needs::Vlan,
            _ => name.needs,
        };
        match shape {
            Some(shape) if !shape.has(needs) => Err(self.line.prerequisite(part, needs.advice())),
            _ => Ok(()),
        }
    }

    /// Splits a part into a field's name and the text of its bit range.
    fn named(&self, part: &'a str) -> Parsed<(&'static Name, &'a str)> {
        let (word, brackets) = match part.find('[') {
            Some(start) => part.split_at(start),
            None => part.split_at(part.len()),
        };
        match fields::find(word) {
            Some(name) => Ok((name, brackets)),
            None if fields::is_missing(word) => Err(self.line.unsupported(part, excerpt(word))),
            None => Err(self.line.unknown(word, "field", UNKNOWN_FIELD)),
        }
    }

    /// Reads a subfield that an action reads or, with `to_write`, writes.
    fn subfield(&self, part: &'a str, to_write: bool) -> Parsed<(&'static Name, Subfield)> {
        self.subfield_of(part, to_write, self.shape)
    }

    /// The same in packets of this shape.
    fn subfield_of(
        &self,
        part: &'a str,
        to_write: bool,
        shape: Option<Shape>,
    ) -> Parsed<(&'static Name, Subfield)> {
        let (name, brackets) = self.named(part)?;
        let (offset, width) = self.line.bit_range(name, brackets)?;
        if to_write && !name.is_writable {
            return Err(self.line.value(part, "a field that can be written"));
        }
        self.check_prerequisite_in(part, name, shape)?;
        let slices = name.pieces.iter().filter_map(|piece| {
            let first = offset.max(piece.name_offset);
            let end = (offset + width).min(piece.name_offset + piece.width_bits);
            (first < end).then(|| Slice {
                field: piece.field,
                offset: piece.field_offset + first - piece.name_offset,
                width_bits: end - first,
            })
        });
        let subfield = Subfield {
            slices: slices.collect(),
        };
        if subfield.width_bits() != width {
            let expected = match name.format {
                Format::CtState => "bits 0 to 7 of it; the others are always zero",
                _ => "bits 2 to 7 of it; the lowest two bits are `nw_ecn`",
            };
            return Err(self.line.value(part, expected));
        }
        Ok((name, subfield))
    }
}

/// Advice for an unknown field.
pub(super) const UNKNOWN_FIELD: &str = "see ovs-fields(7) for their names";

fn is_word(text: &str, word: &str) -> bool {
    text == word || text.eq_ignore_ascii_case(word)
}
