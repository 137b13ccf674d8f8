//! The plan of a cache table: its key, the outputs of its actions, and the contents of a report.

use std::collections::{BTreeMap, BTreeSet};

use num_bigint::BigUint;

use crate::cache::behavior::known::Derived;
use crate::program::ids::{ActionId, FieldId, NodeId, TableId};
use crate::program::table::Match;

/// Bits of a counter's index.
pub(super) const INDEX_BITS: u32 = 32;
/// Bits of the epoch.
pub(super) const EPOCH_BITS: u32 = 32;

/// A field of the key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FieldPart {
    /// Its header.
    pub header: String,
    /// Its name in the header.
    pub field: String,
    /// Its width.
    pub width_bits: u32,
    /// Whether ingress may change it, so that a copy must be kept.
    pub is_copied: bool,
    /// The part of the key with its header's validity, if that may differ.
    pub validity: Option<usize>,
}

/// A field that compound actions set.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Output {
    /// Its header.
    pub header: String,
    /// Its name in the header.
    pub field: String,
    /// Its width.
    pub width_bits: u32,
    /// Whether it is outside the key, so that it is set only where the path wrote it.
    pub is_flagged: bool,
}

/// A `count` of the program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Count {
    pub(super) action: ActionId,
    pub(super) step: usize,
    /// The array of counters.
    pub array: String,
}

/// A `register_write` of the program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Write {
    pub(super) action: ActionId,
    pub(super) step: usize,
    /// The array of registers.
    pub array: String,
    /// Bits of a cell.
    pub width_bits: u32,
    /// Cells of the array.
    pub(super) size: u32,
}

impl Write {
    /// Names and widths of the fields: whether it was done, where, and the value.
    pub(super) fn fields(&self, number: usize) -> [(String, u32); 3] {
        [
            (format!("wrote_{number}"), 1),
            (format!("cell_{number}"), INDEX_BITS),
            (format!("new_{number}"), self.width_bits),
        ]
    }
}

/// A table that a hit looks up again, because its entries count packets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recount {
    /// The table.
    pub table: String,
    /// The parts of its key that ingress may write.
    pub(super) key: Vec<RecountPart>,
    /// Fields that the second lookup writes.
    pub(super) writes: BTreeSet<FieldId>,
}

/// A part of a key that is restored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct RecountPart {
    pub(super) header: String,
    pub(super) field: String,
    pub(super) width_bits: u32,
}

impl Recount {
    /// Names and widths of the fields: whether the lookup hit, and the parts of its key.
    pub(super) fn fields(&self, number: usize) -> Vec<(String, u32)> {
        let key = self.key.iter().enumerate();
        let key = key.map(|(index, part)| (format!("key_{number}_{index}"), part.width_bits));
        std::iter::once((format!("hit_{number}"), 1))
            .chain(key)
            .collect()
    }
}

/// A compound action: the odd primitives it contains.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CacheAction {
    /// Its name.
    pub name: String,
    /// Indices into [`Plan::counts`].
    pub counts: Vec<usize>,
    /// For each of [`Plan::headers`]: added (`true`), removed (`false`), or unchanged (`None`).
    pub headers: Vec<Option<bool>>,
}

/// The design of a transformed program.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Capacity of the cache table.
    pub entries: u32,
    /// The key, in front of the epoch.
    pub key: Vec<FieldPart>,
    /// The outputs that compound actions set, in order.
    pub outputs: Vec<Output>,
    /// The counts that they may do.
    pub counts: Vec<Count>,
    /// The register writes that they may do, in the order of the walk.
    pub writes: Vec<Write>,
    /// Tables that they may look up again, in the order of the walk.
    pub recounts: Vec<Recount>,
    /// Outputs that are set once more after tables were looked up again.
    pub(super) restored: Vec<usize>,
    /// The key's registers and the values that locate them, in order, by number.
    pub(super) derived: Vec<(usize, Derived)>,
    /// Headers that may be added or removed, each with its place in the key.
    pub headers: Vec<(String, usize)>,
    /// The compound actions.
    pub actions: Vec<CacheAction>,
    /// Why paths end, with the node or action.
    pub stops: Vec<(String, &'static str)>,
    /// The actions that ingress runs.
    pub(super) walked: BTreeSet<ActionId>,
    pub(super) step_stops: BTreeSet<(ActionId, usize)>,
    pub(super) node_stops: BTreeSet<NodeId>,
    /// Tables at which only a hit ends the path.
    pub(super) hit_stops: BTreeSet<NodeId>,
    /// By table: for each part of its key, the part of the cache's key that surely equals it.
    pub(super) same_parts: BTreeMap<TableId, Vec<Option<usize>>>,
    /// By word: the flagged output that it belongs to.
    pub(super) flagged: BTreeMap<u32, usize>,
}

pub(super) fn value_name(output: usize) -> String {
    format!("value_{output}")
}

pub(super) fn flag_name(output: usize) -> String {
    format!("flag_{output}")
}

pub(super) fn index_name(count: usize) -> String {
    format!("index_{count}")
}

/// A parsed report: epoch, key, index of the action, its data.
type Read = (BigUint, Vec<BigUint>, usize, Vec<BigUint>);

impl FieldPart {
    /// Its name in the cache table.
    pub fn name(&self) -> String {
        format!("{}.{}", self.header, self.field)
    }
}

impl Plan {
    /// The parameters of a compound action: names and widths.
    pub fn data_widths(&self, action: &CacheAction) -> Vec<(String, u32)> {
        let mut widths = Vec::new();
        for (place, output) in self.outputs.iter().enumerate() {
            widths.push((value_name(place), output.width_bits));
            if output.is_flagged {
                widths.push((flag_name(place), 1));
            }
        }
        for &count in &action.counts {
            widths.push((index_name(count), INDEX_BITS));
        }
        widths.extend(self.state_widths());
        widths
    }

    /// The parameters for register writes and repeated lookups.
    pub(super) fn state_widths(&self) -> Vec<(String, u32)> {
        let writes = self.writes.iter().enumerate();
        let writes = writes.flat_map(|(number, write)| write.fields(number));
        let recounts = self.recounts.iter().enumerate();
        let recounts = recounts.flat_map(|(number, one)| one.fields(number));
        writes.chain(recounts).collect()
    }

    /// The widths of a report's numbers.
    pub fn report_bits(&self) -> Vec<u32> {
        let mut bits = vec![EPOCH_BITS];
        bits.extend(self.key.iter().map(|part| part.width_bits));
        for output in &self.outputs {
            bits.push(output.width_bits);
            bits.extend(output.is_flagged.then_some(1));
        }
        for _ in &self.counts {
            bits.extend([1, INDEX_BITS]);
        }
        bits.extend(self.state_widths().into_iter().map(|(_, bits)| bits));
        bits.extend(self.headers.iter().map(|_| 1));
        bits
    }

    /// Bits of the cache table's key.
    pub fn key_bits(&self) -> u32 {
        self.key.iter().map(|part| part.width_bits).sum()
    }

    /// Parses a report as an entry; `None` if the numbers do not form one.
    pub(super) fn read(&self, numbers: &[BigUint]) -> Option<Read> {
        let bits = self.report_bits();
        let fits = |(number, bits): (&BigUint, &u32)| number.bits() <= u64::from(*bits);
        if numbers.len() != bits.len() || !numbers.iter().zip(&bits).all(fits) {
            return None;
        }
        let mut numbers = numbers.iter();
        let epoch = numbers.next()?.clone();
        let mut key: Vec<BigUint> = numbers.by_ref().take(self.key.len()).cloned().collect();
        let mut data = Vec::new();
        for output in &self.outputs {
            data.push(numbers.next()?.clone());
            if output.is_flagged {
                data.push(numbers.next()?.clone());
            }
        }
        let is_set = |number: &BigUint| number.bits() > 0;
        let mut counts = Vec::new();
        for count in 0..self.counts.len() {
            let (did, index) = (numbers.next()?, numbers.next()?);
            if is_set(did) {
                counts.push(count);
                data.push(index.clone());
            }
        }
        for _ in self.state_widths() {
            data.push(numbers.next()?.clone());
        }
        let mut headers = Vec::new();
        for (_, place) in &self.headers {
            let (before, after) = (is_set(&key[*place]), is_set(numbers.next()?));
            headers.push((before != after).then_some(after));
        }
        // Invariant 2: a lookup reads 0 from an invalid header.
        for (place, part) in self.key.iter().enumerate() {
            let is_there = part.validity.is_none_or(|validity| is_set(&key[validity]));
            if !is_there {
                key[place] = BigUint::ZERO;
            }
        }
        let wanted = |action: &CacheAction| action.counts == counts && action.headers == headers;
        let action = self.actions.iter().position(wanted)?;
        Some((epoch, key, action, data))
    }

    /// Whether a behaviour may depend on a changed part of a table.
    pub(super) fn is_affected(
        &self,
        table: TableId,
        matches: &Option<Vec<Match>>,
        key: &[BigUint],
    ) -> bool {
        // No behaviour includes a table that only egress looks up.
        let Some(parts) = self.same_parts.get(&table) else {
            return false;
        };
        let Some(matches) = matches else { return true };
        let mut asked = parts.iter().zip(matches);
        asked.all(|(part, wanted)| match part {
            Some(place) => may_match(wanted, &key[*place], self.key[*place].width_bits),
            None => true,
        })
    }
}

/// Whether an entry may match a number.
fn may_match(wanted: &Match, number: &BigUint, width_bits: u32) -> bool {
    match wanted {
        Match::Exact(value) => value == number,
        Match::Lpm(value, length) => {
            let dropped = width_bits.saturating_sub(*length);
            value >> dropped == number >> dropped
        }
        Match::Ternary(value, mask) => value & mask == number & mask,
        Match::Range(least, most) => least <= number && number <= most,
        Match::Any => true,
    }
}
