//! Tables and action profiles as the program declares them.
//!
//! A table's key is packed into the words of a classifier. A part of up to 64 bits is within
//! one word; a wider one has its own words, the most significant first. Parts of one word are
//! packed in order, the first at the bottom.

use std::collections::HashMap;

use num_bigint::{BigInt, BigUint};

use crate::error::LoadError;
use crate::json::Node;

use super::action::Action;
use super::arrays::Arrays;
use super::calculation::Calculations;
use super::control::{Names, successor};
use super::headers::{Headers, VALID};
use super::ids::{
    ActionId, CalculationId, CounterId, FieldId, MeterId, NodeId, ProfileId, TableId,
};

/// Maximum declared capacity; a larger number in the JSON is capped to this.
pub const TABLE_SIZE_MAX: u32 = 1 << 24;

/// Maximum words of a key, given by classifiers.
const KEY_WORDS_MAX: u32 = thalweg_packet::MAX_WORDS as u32;

/// How a part of a key is matched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MatchKind {
    /// All bits.
    Exact,
    /// A prefix.
    Lpm,
    /// Any bits, under a mask.
    Ternary,
    /// A range from least to greatest.
    Range,
    /// All bits or none.
    Optional,
}

/// A part of a key.
#[derive(Clone, Debug)]
pub struct KeyPart {
    /// Its name for the controller.
    pub name: String,
    /// How it is matched.
    pub kind: MatchKind,
    /// The field.
    pub field: FieldId,
    /// Its width.
    pub width_bits: u32,
    /// The bits of the field that count, as words; `None` if all do.
    pub mask: Option<Vec<u64>>,
    /// The field's first word in the frame.
    pub from_word: u32,
    /// The validity word of its header, `None` for metadata; if the header is invalid, the part
    /// is 0.
    pub valid_word: Option<u32>,
    /// Its first word in the key.
    pub word: u32,
    /// Its lowest bit in that word.
    pub shift: u32,
}

impl KeyPart {
    /// Words of the key that it touches.
    pub const fn words(&self) -> u32 {
        self.width_bits.div_ceil(64)
    }
}

/// The condition of an entry on a part of the key.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Match {
    /// This number.
    Exact(BigUint),
    /// The leading bits of a number: the number, how many bits.
    Lpm(BigUint, u32),
    /// A number, on the bits of a mask.
    Ternary(BigUint, BigUint),
    /// From a number to a number, both included.
    Range(BigUint, BigUint),
    /// Any number.
    Any,
}

/// An entry declared in the program.
#[derive(Clone, Debug)]
pub struct ConstantEntry {
    /// Its condition on each part.
    pub matches: Vec<Match>,
    /// The larger priority wins. Of `n` entries the first to win has `n`, the last has 1, as
    /// the compiler numbers them for P4Runtime (1.4.1, section 9.1.4, "Constant Tables").
    pub priority: u32,
    /// The action.
    pub action: ActionId,
    /// Its data.
    pub data: Vec<BigUint>,
}

/// The action that runs when no entry matches.
#[derive(Clone, Debug)]
pub struct DefaultEntry {
    /// The action.
    pub action: ActionId,
    /// Its data.
    pub data: Vec<BigUint>,
    /// Whether the action can never change.
    pub is_action_constant: bool,
    /// Whether its data can never change either.
    pub is_entry_constant: bool,
}

/// A table.
#[derive(Clone, Debug)]
pub struct Table {
    /// Its name.
    pub name: String,
    /// Its key; a table without a key always misses.
    pub key: Vec<KeyPart>,
    /// Words of the packed key.
    pub key_words: u32,
    /// Whether entries have priorities.
    pub has_priorities: bool,
    /// Its capacity in entries.
    pub max_size: u32,
    /// The actions that its entries may have.
    pub actions: Vec<ActionId>,
    /// The node after each action, if it does not depend on hit or miss.
    pub next: Vec<Option<NodeId>>,
    /// The node after a hit, for any action.
    pub next_on_hit: Option<Option<NodeId>>,
    /// The node after a miss, for any action.
    pub next_on_miss: Option<Option<NodeId>>,
    /// The node if no action runs.
    pub base_next: Option<NodeId>,
    /// The initial default action.
    pub default: Option<DefaultEntry>,
    /// Its action profile.
    pub profile: Option<ProfileId>,
    /// Whether each entry counts packets and bytes.
    pub has_counters: bool,
    /// The array through which its entries' counters are read.
    pub counter: Option<CounterId>,
    /// The array of its entries' meters.
    pub meter: Option<MeterId>,
    /// Whether entries have idle timeouts.
    pub has_timeouts: bool,
    /// Whether its entries belong to the program, so that controllers may not write to it.
    ///
    /// The JSON does not distinguish `entries` from `const entries`, and simple_switch treats
    /// both as constant. [`Program::open_table`](super::Program::open_table) is for callers
    /// that know better.
    pub is_constant: bool,
    /// The program's entries.
    pub entries: Vec<ConstantEntry>,
}

impl Table {
    /// The next node.
    pub(crate) fn next(&self, is_hit: bool, action: Option<usize>) -> Option<NodeId> {
        let by_outcome = if is_hit {
            self.next_on_hit
        } else {
            self.next_on_miss
        };
        by_outcome.unwrap_or_else(|| action.map_or(self.base_next, |index| self.next[index]))
    }

    /// All possible next nodes.
    pub fn successors(&self) -> impl Iterator<Item = NodeId> + '_ {
        let outcomes = [
            self.next_on_hit.flatten(),
            self.next_on_miss.flatten(),
            self.base_next,
        ];
        self.next.iter().copied().chain(outcomes).flatten()
    }

    /// The index of an action in the table's list of actions.
    pub fn action_index(&self, action: ActionId) -> Option<usize> {
        self.actions.iter().position(|&one| one == action)
    }
}

/// An action profile: actions that entries share, alone or in groups.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Its name.
    pub name: String,
    /// Maximum number of members.
    pub max_size: u32,
    /// The hash that chooses a member of a group; groups are allowed only with one.
    pub selector: Option<CalculationId>,
    /// Actions that members may have: the actions of its tables.
    pub actions: Vec<ActionId>,
}

/// Reads tables.
pub(super) struct TableReader<'a> {
    pub(super) headers: &'a Headers,
    pub(super) arrays: &'a Arrays,
    pub(super) actions: &'a [Action],
    pub(super) calculations: &'a mut Calculations,
    pub(super) action_ids: HashMap<u32, ActionId>,
    pub(super) tables: Vec<Table>,
    pub(super) profiles: Vec<Profile>,
    pub(super) profile_names: HashMap<String, ProfileId>,
}

impl TableReader<'_> {
    /// The action with this JSON id.
    pub(super) fn action_by_id(&self, node: &Node<'_>) -> Result<ActionId, LoadError> {
        let found = self.action_ids.get(&node.number()?).copied();
        found.ok_or_else(|| node.refuse("there is no action with this id"))
    }

    /// Reads the action profiles of a pipeline.
    pub(super) fn read_profiles(&mut self, pipeline: &Node<'_>) -> Result<(), LoadError> {
        for node in pipeline.list("action_profiles")? {
            let name = node.text_of("name")?.to_owned();
            let max_size = node
                .find("max_size")
                .map(|size| size.number())
                .transpose()?;
            self.add_profile(&node, name, max_size.unwrap_or(TABLE_SIZE_MAX))?;
        }
        Ok(())
    }

    fn add_profile(
        &mut self,
        node: &Node<'_>,
        name: String,
        max_size: u32,
    ) -> Result<ProfileId, LoadError> {
        let selector = match node.find("selector") {
            Some(selector) => {
                let calculation = format!("{name}.selector");
                Some(
                    self.calculations
                        .add_selector(&selector, calculation, self.headers)?,
                )
            }
            None => None,
        };
        let id = ProfileId(self.profiles.len() as u32);
        self.profile_names.insert(name.clone(), id);
        self.profiles.push(Profile {
            name,
            max_size: max_size.min(TABLE_SIZE_MAX),
            selector,
            actions: Vec::new(),
        });
        Ok(id)
    }

    /// A table that only ever runs one action: the action, and the next node.
    pub(super) fn read_inline(
        &self,
        node: &Node<'_>,
        names: &Names,
    ) -> Result<Option<(ActionId, Option<NodeId>)>, LoadError> {
        let Some(default) = node.find("default_entry") else {
            return Ok(None);
        };
        let fixed = default.flag_of("action_const")? && default.flag_of("action_entry_const")?;
        let is_plain = node.find("type").is_none_or(|kind| kind.is_text("simple"));
        let watched = node.flag_of("with_counters")? || node.find("direct_meters").is_some();
        if !fixed || !is_plain || watched || !node.list("key")?.is_empty() {
            return Ok(None);
        }
        let action = self.action_by_id(&default.get("action_id")?)?;
        if !self.actions[action.index()].parameters.is_empty() {
            return Ok(None);
        }
        let next_tables = node.get("next_tables")?;
        let name = &self.actions[action.index()].name;
        let key = match next_tables.value().get("__MISS__") {
            Some(_) => "__MISS__",
            None => name,
        };
        Ok(Some((action, successor(&next_tables, key, names)?)))
    }

    /// Reads a table with entries, and adds it.
    pub(super) fn read_table(
        &mut self,
        node: &Node<'_>,
        names: &Names,
    ) -> Result<TableId, LoadError> {
        let name = node.text_of("name")?.to_owned();
        let (key, key_words) = self.read_key(node)?;
        let actions = self.read_actions(node)?;
        let next_tables = node.get("next_tables")?;
        let has = |key: &str| next_tables.value().get(key).is_some();
        let outcome = |key: &str| match has(key) {
            true => successor(&next_tables, key, names).map(Some),
            false => Ok(None),
        };
        let mut next = Vec::new();
        for &action in &actions {
            next.push(successor(
                &next_tables,
                &self.actions[action.index()].name,
                names,
            )?);
        }
        let profile = self.read_profile(node, &actions)?;
        let default = match node.find("default_entry") {
            Some(default) => Some(self.read_default(&default, &actions)?),
            None => None,
        };
        let counter = self.direct_counter(&name);
        let has_priorities = key.iter().any(|part| {
            matches!(
                part.kind,
                MatchKind::Ternary | MatchKind::Range | MatchKind::Optional
            )
        });
        let mut table = Table {
            name,
            key,
            key_words,
            has_priorities,
            max_size: node.number_of("max_size")?.clamp(1, TABLE_SIZE_MAX),
            actions,
            next,
            next_on_hit: outcome("__HIT__")?,
            next_on_miss: outcome("__MISS__")?,
            base_next: successor(node, "base_default_next", names)?,
            default,
            profile,
            has_counters: node.flag_of("with_counters")? || counter.is_some(),
            counter,
            meter: self.read_meter(node)?,
            has_timeouts: node.flag_of("support_timeout")?,
            is_constant: node.find("entries").is_some(),
            entries: Vec::new(),
        };
        for entry in node.list("entries")? {
            let entry = self.read_entry(&entry, &table)?;
            table.entries.push(entry);
        }
        rank(&mut table.entries);
        table.max_size = table.max_size.max(table.entries.len() as u32);
        let id = TableId(self.tables.len() as u32);
        self.tables.push(table);
        Ok(id)
    }

    /// The array through which the counters of a table's entries are read.
    fn direct_counter(&self, table: &str) -> Option<CounterId> {
        let mut counters = self.arrays.counters.iter();
        let index = counters.position(|array| array.direct_table.as_deref() == Some(table))?;
        Some(CounterId(index as u32))
    }

    /// The array of a table's entry meters.
    fn read_meter(&self, node: &Node<'_>) -> Result<Option<MeterId>, LoadError> {
        let Some(name) = node.find("direct_meters") else {
            return Ok(None);
        };
        let found = self.arrays.find_meter(name.text()?);
        let meter = found.ok_or_else(|| name.refuse("there is no such meter"))?;
        match self.arrays.meters[meter.index()].result {
            Some(_) => Ok(Some(meter)),
            None => Err(name.refuse("this meter is no direct one")),
        }
    }

    /// The field of a part of a key, and how it is matched.
    fn read_match(&self, part: &Node<'_>) -> Result<(MatchKind, FieldId), LoadError> {
        let target = part.get("target")?;
        let kind_node = part.get("match_type")?;
        let kind = match kind_node.text()? {
            "exact" => MatchKind::Exact,
            "lpm" => MatchKind::Lpm,
            "ternary" => MatchKind::Ternary,
            "range" => MatchKind::Range,
            "optional" => MatchKind::Optional,
            "valid" => {
                let header = self.headers.header_at(&target)?;
                let valid = self.headers.header(header).valid_field();
                return Ok((MatchKind::Exact, valid));
            }
            other => return Err(kind_node.refuse(format!("a match of kind {other:?}"))),
        };
        let field = self.headers.field_of(&target)?;
        match self.headers.field(field).is_varbit {
            true => Err(target.refuse("a varbit field cannot be part of a key")),
            false => Ok((kind, field)),
        }
    }

    fn read_key(&self, node: &Node<'_>) -> Result<(Vec<KeyPart>, u32), LoadError> {
        let mut key = Vec::new();
        let (mut words, mut used) = (0, 64);
        for part in node.list("key")? {
            let (kind, field) = self.read_match(&part)?;
            let name = match part.find("name") {
                Some(name) => name.text()?.to_owned(),
                None => self.headers.field_name(field),
            };
            let header = self.headers.header(self.headers.field(field).header);
            let field_name = &self.headers.field(field).name;
            let always = header.is_metadata || field_name == VALID;
            let field_shape = self.headers.field(field);
            let width_bits = field_shape.width_bits;
            let mask = match part.find("mask") {
                Some(mask) => {
                    let mut bits = vec![0; field_shape.words() as usize];
                    crate::program::exact::store(&mask.big()?, width_bits, &mut bits);
                    Some(bits)
                }
                None => None,
            };
            if used + width_bits > 64 {
                (words, used) = (words + 1, 0);
            }
            let (word, shift) = (words - 1, used);
            used += width_bits;
            if width_bits > 64 {
                (words, used) = (words + width_bits.div_ceil(64) - 1, 64);
            }
            key.push(KeyPart {
                name,
                kind,
                field,
                width_bits,
                mask,
                from_word: field_shape.word,
                valid_word: (!always).then_some(header.base),
                word,
                shift,
            });
        }
        if words > KEY_WORDS_MAX {
            let what = format!("the key needs more than {KEY_WORDS_MAX} words of 64 bits");
            return Err(node.refuse(what));
        }
        if key
            .iter()
            .filter(|part| part.kind == MatchKind::Lpm)
            .count()
            > 1
        {
            return Err(node.refuse("a key has at most one part that is matched by prefix"));
        }
        Ok((key, words))
    }

    /// Reads actions by id; files of old versions only have names.
    fn read_actions(&self, node: &Node<'_>) -> Result<Vec<ActionId>, LoadError> {
        let mut actions = Vec::new();
        for id in node.list("action_ids")? {
            actions.push(self.action_by_id(&id)?);
        }
        if actions.is_empty() {
            for name in node.list("actions")? {
                let found = self
                    .actions
                    .iter()
                    .position(|action| name.is_text(&action.name));
                let index = found.ok_or_else(|| name.refuse("there is no such action"))?;
                actions.push(ActionId(index as u32));
            }
        }
        Ok(actions)
    }

    fn read_profile(
        &mut self,
        node: &Node<'_>,
        actions: &[ActionId],
    ) -> Result<Option<ProfileId>, LoadError> {
        match node.find("type").map(|kind| kind.text()).transpose()? {
            None | Some("simple") => return Ok(None),
            Some("indirect" | "indirect_ws") => {}
            Some(other) => return Err(node.refuse(format!("a table of type {other:?}"))),
        }
        let id = match node.find("action_profile") {
            Some(name) => {
                let found = self.profile_names.get(name.text()?).copied();
                found.ok_or_else(|| name.refuse("there is no such action profile"))?
            }
            // In files of old versions the selector belongs to the table.
            None => {
                let name = node.text_of("act_prof_name")?.to_owned();
                match self.profile_names.get(&name) {
                    Some(&id) => id,
                    None => self.add_profile(node, name, node.number_of("max_size")?)?,
                }
            }
        };
        let profile = &mut self.profiles[id.index()];
        for &action in actions {
            if !profile.actions.contains(&action) {
                profile.actions.push(action);
            }
        }
        Ok(Some(id))
    }

    fn read_default(
        &self,
        node: &Node<'_>,
        actions: &[ActionId],
    ) -> Result<DefaultEntry, LoadError> {
        let action = self.action_by_id(&node.get("action_id")?)?;
        if !actions.contains(&action) {
            return Err(node.refuse("the default action is none of the table's"));
        }
        Ok(DefaultEntry {
            action,
            data: self.read_data(node, action)?,
            is_action_constant: node.flag_of("action_const")?,
            is_entry_constant: node.flag_of("action_entry_const")?,
        })
    }

    fn read_data(&self, node: &Node<'_>, action: ActionId) -> Result<Vec<BigUint>, LoadError> {
        let data = node.list("action_data")?;
        if data.len() != self.actions[action.index()].parameters.len() {
            return Err(node.refuse("the action takes another number of parameters"));
        }
        data.iter().map(|value| positive(value)).collect()
    }

    fn read_entry(&self, node: &Node<'_>, table: &Table) -> Result<ConstantEntry, LoadError> {
        let parts = node.list("match_key")?;
        if parts.len() != table.key.len() {
            return Err(node.refuse("the entry has another number of parts than the table's key"));
        }
        let mut matches = Vec::new();
        for part in &parts {
            let number = |key: &str| positive(&part.get(key)?);
            matches.push(match part.text_of("match_type")? {
                "exact" | "valid" => match part.get("key")?.value().as_bool() {
                    Some(flag) => Match::Exact(u8::from(flag).into()),
                    None => Match::Exact(number("key")?),
                },
                "lpm" => Match::Lpm(number("key")?, part.number_of("prefix_length")?),
                "ternary" | "optional" => Match::Ternary(number("key")?, number("mask")?),
                "range" => Match::Range(number("start")?, number("end")?),
                other => return Err(part.refuse(format!("a match of kind {other:?}"))),
            });
        }
        let action_entry = node.get("action_entry")?;
        let action = self.action_by_id(&action_entry.get("action_id")?)?;
        if table.action_index(action).is_none() {
            return Err(action_entry.refuse("this is none of the table's actions"));
        }
        let priority = node.find("priority").map(|priority| priority.number());
        Ok(ConstantEntry {
            matches,
            // As in the JSON, where the smaller wins; `rank` reverses it.
            priority: priority.transpose()?.unwrap_or(0),
            action,
            data: self.read_data(&action_entry, action)?,
        })
    }
}

/// Replaces the JSON's priorities with distinct ones, where the larger wins. Of entries with
/// equal JSON priority, the first in the list wins, as on simple_switch.
fn rank(entries: &mut [ConstantEntry]) {
    let mut order: Vec<usize> = (0..entries.len()).collect();
    order.sort_by_key(|&index| entries[index].priority);
    for (priority, &index) in (1..).zip(order.iter().rev()) {
        entries[index].priority = priority;
    }
}

fn positive(node: &Node<'_>) -> Result<BigUint, LoadError> {
    let number: BigInt = node.big()?;
    BigUint::try_from(number).map_err(|_| node.refuse("this must not be negative"))
}
