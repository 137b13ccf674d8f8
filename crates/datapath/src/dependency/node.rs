//! Nodes: what entries depend on, each stored once however many entries share it.
//!
//! A lookup's node says: in this table, every key that agrees with this value under this mask
//! meets this rule. Entries whose walks have the same certificate share the node. Nodes of one
//! table and mask are stored side by side, their values packed to the words that the mask
//! touches.
//!
//! 1. Two lookups with equal table, mask, value and rule have the same node; a node lives as
//!    long as an entry depends on it.
//! 2. A rule's list has the nodes of the lookups that it won.
//! 3. A node is in every pivot of its table.
//! 4. A certificate that a new rule has met is no longer certain, though entries whose own
//!    regions do not meet the rule may keep it.

use std::collections::HashMap;

use hashbrown::HashTable;
use smallvec::SmallVec;
use thalweg_classifier::hash::WordHash;
use thalweg_classifier::simd::prefetch;
use thalweg_classifier::{MaskedWords, RuleId};
use thalweg_pipeline::{Input, Station, TableId};

use crate::entry::EntryId;

use super::node_id::NodeId;
use super::pivot::{Bits, Pivot, Prefix};

/// An input of a walk that is not a table.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Cause {
    /// A group or a port.
    Input(Input),
    /// The port of a station.
    Station(Station),
}

#[derive(Clone, Debug)]
enum What {
    /// A lookup: its class, its row there, the rule that won, and its place in the rule's
    /// list. `is_certain` says whether that rule still is the best for all keys that agree
    /// with the value.
    Lookup {
        class: u32,
        row: u32,
        rule: Option<RuleId>,
        place: u32,
        is_certain: bool,
        /// Whether it was certain until a new rule met it; distinguishes it from an earlier
        /// node with the same number.
        is_doubted: bool,
    },
    /// Another input; boxed, as there are few.
    Cause(Box<Cause>),
    Free,
}

#[derive(Clone, Debug)]
struct Node {
    what: What,
    dependents: SmallVec<[EntryId; 4]>,
}

/// The lookups of one table that were decided by the same bits.
#[derive(Clone, Debug)]
struct Class {
    table: TableId,
    words: MaskedWords,
    mask: Box<[u64]>,
    /// For each pivot of the table: the number of leading bits in the mask.
    lengths: Box<[u32]>,
    /// For each row: the node, and its value's masked words.
    nodes: Vec<NodeId>,
    values: Vec<u64>,
}

#[derive(Clone, Debug, Default)]
struct TableNodes {
    classes: Vec<u32>,
    count: usize,
    /// For each entry of `bits`; made when the first node has any of them in its mask.
    pivots: Vec<Option<Pivot>>,
}

/// All nodes.
#[derive(Debug)]
pub(super) struct Nodes {
    hash: WordHash,
    bits: Vec<Bits>,
    /// A scan replaces a pivot that finds more than one in `scan_share` of a table's nodes, as
    /// it reads them side by side; 0 to scan always.
    scan_share: usize,
    nodes: Vec<Node>,
    free: Vec<NodeId>,
    classes: Vec<Class>,
    free_classes: Vec<u32>,
    class_index: HashTable<u32>,
    /// Stored with the lower half of their hashes, so that the table can grow without reading
    /// nodes.
    lookups: HashTable<(u32, NodeId)>,
    causes: HashMap<Cause, NodeId, WordHash>,
    by_rule: HashMap<RuleId, Vec<NodeId>, WordHash>,
    tables: Vec<TableNodes>,
}

/// The words of a rule that is new in a table.
#[derive(Clone, Copy, Debug)]
pub(super) struct NewRule<'a> {
    pub(super) table: TableId,
    pub(super) value: &'a [u64],
    pub(super) mask: &'a [u64],
}

/// The certificate in a lookup's node.
pub(super) struct Certificate<'a> {
    pub(super) winner: Option<RuleId>,
    /// Whether it holds for every key that agrees with the value.
    pub(super) is_certain: bool,
    /// Whether it was certain until new rules met it.
    pub(super) is_doubted: bool,
    /// The mask's words.
    pub(super) words: &'a MaskedWords,
}

impl Nodes {
    pub(super) fn new(bits: Vec<Bits>, scan_share: usize, seed: u64) -> Nodes {
        let hash = WordHash::new(seed);
        Nodes {
            hash,
            bits,
            scan_share,
            nodes: Vec::new(),
            free: Vec::new(),
            classes: Vec::new(),
            free_classes: Vec::new(),
            class_index: HashTable::new(),
            lookups: HashTable::new(),
            causes: HashMap::with_hasher(hash),
            by_rule: HashMap::with_hasher(hash),
            tables: Vec::new(),
        }
    }

    /// The number of nodes.
    pub(super) fn len(&self) -> usize {
        self.nodes.len() - self.free.len()
    }

    /// The number of nodes of a table.
    pub(super) fn table_len(&self, table: TableId) -> usize {
        let table = self.tables.get(table.index());
        table.map_or(0, |table| table.count)
    }

    /// The node of a lookup, created if needed; a new one is not certain.
    pub(super) fn lookup(
        &mut self,
        table: TableId,
        key: &[u64],
        searched: &[u64],
        rule: Option<RuleId>,
    ) -> NodeId {
        let class_number = self.class(table, searched);
        let class = &self.classes[class_number as usize];
        let hash = hash_lookup(self.hash, class_number, class.words.compact(key), rule);
        let (classes, nodes) = (&self.classes, &self.nodes);
        let is_same = |node: &NodeId| match &nodes[node.0 as usize].what {
            What::Lookup {
                class: number,
                row,
                rule: winner,
                ..
            } => {
                let class = &classes[*number as usize];
                *number == class_number
                    && *winner == rule
                    && class.words.is_match(key, class.value(*row))
            }
            _ => false,
        };
        let known = self.lookups.find(hash, |(_, node)| is_same(node));
        if let Some((_, node)) = known {
            return *node;
        }
        let class = &mut self.classes[class_number as usize];
        let row = class.nodes.len() as u32;
        class.values.extend(class.words.compact(key));
        let place = rule.map_or(0, |rule| self.by_rule.get(&rule).map_or(0, Vec::len)) as u32;
        let node = self.make(What::Lookup {
            class: class_number,
            row,
            rule,
            place,
            is_certain: false,
            is_doubted: false,
        });
        self.classes[class_number as usize].nodes.push(node);
        if let Some(rule) = rule {
            self.by_rule.entry(rule).or_default().push(node);
        }
        let kept = (hash as u32, node);
        self.lookups
            .insert_unique(hash, kept, |(hash, _)| spread(*hash));
        self.put_in_pivots(node, class_number, row);
        node
    }

    /// The node of another input, created if needed.
    pub(super) fn cause(&mut self, cause: Cause) -> NodeId {
        if let Some(node) = self.causes.get(&cause) {
            return *node;
        }
        let node = self.make(What::Cause(Box::new(cause)));
        self.causes.insert(cause, node);
        node
    }

    fn make(&mut self, what: What) -> NodeId {
        let node = Node {
            what,
            dependents: SmallVec::new(),
        };
        match self.free.pop() {
            Some(id) => {
                self.nodes[id.0 as usize] = node;
                id
            }
            None => {
                self.nodes.push(node);
                NodeId(self.nodes.len() as u32 - 1)
            }
        }
    }

    /// The class of a table's mask, created if needed.
    fn class(&mut self, table: TableId, mask: &[u64]) -> u32 {
        let hash = hash_class(self.hash, table, mask);
        let classes = &self.classes;
        let is_same = |number: &u32| {
            let class = &classes[*number as usize];
            class.table == table && *class.mask == *mask
        };
        if let Some(number) = self.class_index.find(hash, is_same) {
            return *number;
        }
        let class = Class {
            table,
            words: MaskedWords::new(mask),
            mask: mask.into(),
            lengths: self.bits.iter().map(|bits| bits.length(mask)).collect(),
            nodes: Vec::new(),
            values: Vec::new(),
        };
        let number = match self.free_classes.pop() {
            Some(number) => {
                self.classes[number as usize] = class;
                number
            }
            None => {
                self.classes.push(class);
                self.classes.len() as u32 - 1
            }
        };
        let index = table.index();
        if self.tables.len() <= index {
            self.tables.resize_with(index + 1, TableNodes::default);
        }
        self.tables[index].classes.push(number);
        let (classes, hasher) = (&self.classes, self.hash);
        self.class_index.insert_unique(hash, number, |number| {
            let class = &classes[*number as usize];
            hash_class(hasher, class.table, &class.mask)
        });
        number
    }

    /// Drops a class without nodes.
    fn remove_class(&mut self, number: u32) {
        let class = &mut self.classes[number as usize];
        class.nodes = Vec::new();
        class.values = Vec::new();
        let hash = hash_class(self.hash, class.table, &class.mask);
        let known = self.class_index.find_entry(hash, |other| *other == number);
        known.expect("the index has every class").remove();
        let table = &mut self.tables[class.table.index()];
        table.classes.retain(|other| *other != number);
        self.free_classes.push(number);
    }

    /// Keeps invariant 3.
    fn put_in_pivots(&mut self, node: NodeId, class: u32, row: u32) {
        let table = self.classes[class as usize].table.index();
        self.tables[table].count += 1;
        self.tables[table].pivots.resize(self.bits.len(), None);
        for place in 0..self.bits.len() {
            if self.tables[table].pivots[place].is_some() {
                let prefix = self.prefix(class, row, place);
                let pivot = self.tables[table].pivots[place].as_mut();
                pivot.expect("it was just there").insert(prefix, node);
            } else if self.classes[class as usize].lengths[place] > 0 {
                self.make_pivot(table, place);
            }
        }
    }

    /// Makes a pivot with all nodes of a table.
    fn make_pivot(&mut self, table: usize, place: usize) {
        let mut pivot = Pivot::new();
        for class in &self.tables[table].classes {
            let nodes = &self.classes[*class as usize].nodes;
            for (row, node) in nodes.iter().enumerate() {
                pivot.insert(self.prefix(*class, row as u32, place), *node);
            }
        }
        self.tables[table].pivots[place] = Some(pivot);
    }

    /// The leading bits of a pivot's field that a node's mask has.
    fn prefix(&self, class: u32, row: u32, place: usize) -> Prefix {
        let (class, bits) = (&self.classes[class as usize], self.bits[place]);
        let word = class.words.iter().position(|(word, _)| word == bits.word);
        let word = word.map_or(0, |index| class.value(row)[index]);
        bits.prefix_of_word(word, class.lengths[place])
    }

    /// Makes an entry a dependent of a node; returns its place in the list.
    pub(super) fn add_dependent(&mut self, node: NodeId, entry: EntryId) -> u32 {
        let dependents = &mut self.nodes[node.0 as usize].dependents;
        if dependents.len() == dependents.capacity() && dependents.len() >= DOUBLED_UP_TO {
            dependents.reserve_exact(dependents.len() / 8);
        }
        dependents.push(entry);
        dependents.len() as u32 - 1
    }

    /// Removes the dependent at a place; returns the entry that moved there.
    pub(super) fn remove_dependent(&mut self, node: NodeId, place: u32) -> Option<EntryId> {
        let dependents = &mut self.nodes[node.0 as usize].dependents;
        dependents.swap_remove(place as usize);
        let moved = dependents.get(place as usize).copied();
        match dependents.len() {
            0 => self.remove(node),
            // A node that many entries once depended on frees the memory.
            len if dependents.spilled() && len * 4 < dependents.capacity() => {
                dependents.shrink_to_fit();
            }
            _ => {}
        }
        moved
    }

    /// Removes a node without dependents (invariant 1).
    fn remove(&mut self, id: NodeId) {
        let node = &self.nodes[id.0 as usize];
        match &node.what {
            What::Free => unreachable!("a free node has no dependents to lose"),
            What::Cause(cause) => {
                self.causes.remove(&**cause);
            }
            &What::Lookup {
                class,
                row,
                rule,
                place,
                ..
            } => {
                let hash = hash_of(self.hash, &self.classes, node);
                let entry = self.lookups.find_entry(hash, |(_, other)| *other == id);
                entry.expect("the index has every lookup").remove();
                self.take_out_of_pivots(id, class, row);
                self.take_out_of_rule(rule, place);
                self.take_out_of_class(class, row);
            }
        }
        self.nodes[id.0 as usize].what = What::Free;
        self.free.push(id);
    }

    fn take_out_of_pivots(&mut self, node: NodeId, class: u32, row: u32) {
        let table = self.classes[class as usize].table.index();
        self.tables[table].count -= 1;
        let is_last = self.tables[table].count == 0;
        for place in 0..self.bits.len() {
            if self.tables[table].pivots[place].is_none() {
                continue;
            }
            let prefix = self.prefix(class, row, place);
            let pivot = &mut self.tables[table].pivots[place];
            match (is_last, &mut *pivot) {
                (false, Some(pivot)) => pivot.remove(prefix, node),
                _ => *pivot = None,
            }
        }
    }

    fn take_out_of_rule(&mut self, rule: Option<RuleId>, place: u32) {
        let Some(rule) = rule else { return };
        let list = self.by_rule.get_mut(&rule).expect("the rule has this node");
        list.swap_remove(place as usize);
        if list.is_empty() {
            self.by_rule.remove(&rule);
            return;
        }
        if list.capacity() > 16 && list.len() * 4 < list.capacity() {
            list.shrink_to_fit();
        }
        if let Some(moved) = list.get(place as usize).copied()
            && let What::Lookup { place: of, .. } = &mut self.nodes[moved.0 as usize].what
        {
            *of = place;
        }
    }

    fn take_out_of_class(&mut self, number: u32, row: u32) {
        let class = &mut self.classes[number as usize];
        class.nodes.swap_remove(row as usize);
        let stride = class.words.len();
        let last = class.nodes.len() * stride;
        class.values.copy_within(last.., row as usize * stride);
        class.values.truncate(last);
        if let Some(moved) = class.nodes.get(row as usize).copied()
            && let What::Lookup { row: of, .. } = &mut self.nodes[moved.0 as usize].what
        {
            *of = row;
        }
        if class.nodes.is_empty() {
            self.remove_class(number);
        }
    }

    /// Records that a search at the newest version gave the node's result.
    pub(super) fn confirm(&mut self, node: NodeId) {
        if let What::Lookup { is_certain, .. } = &mut self.nodes[node.0 as usize].what {
            *is_certain = true;
        }
    }

    /// Ends the node's certainty (invariant 4); returns whether it was certain until now.
    pub(super) fn doubt(&mut self, node: NodeId) -> bool {
        match &mut self.nodes[node.0 as usize].what {
            What::Lookup {
                is_certain,
                is_doubted,
                ..
            } => {
                *is_doubted |= *is_certain;
                std::mem::replace(is_certain, false)
            }
            _ => false,
        }
    }

    /// The node's certificate, if it is of a lookup in this table and agrees with the words.
    pub(super) fn certificate(
        &self,
        node: NodeId,
        table: TableId,
        words: &[u64],
    ) -> Option<Certificate<'_>> {
        let &What::Lookup {
            class,
            row,
            rule,
            is_certain,
            is_doubted,
            ..
        } = &self.nodes[node.0 as usize].what
        else {
            return None;
        };
        let class = &self.classes[class as usize];
        let agrees = class.table == table && class.words.is_match(words, class.value(row));
        agrees.then_some(Certificate {
            winner: rule,
            is_certain,
            is_doubted,
            words: &class.words,
        })
    }

    /// The table of a node's lookup, and the rule that won; `None` if it is not a lookup.
    pub(super) fn lookup_of(&self, node: NodeId) -> Option<(TableId, Option<RuleId>)> {
        match &self.nodes[node.0 as usize].what {
            What::Lookup { class, rule, .. } => Some((self.classes[*class as usize].table, *rule)),
            _ => None,
        }
    }

    /// Whether a new rule meets the certificate of a lookup's node.
    pub(super) fn is_met(&self, node: NodeId, new: NewRule<'_>) -> bool {
        match &self.nodes[node.0 as usize].what {
            What::Lookup { class, row, .. } => self.classes[*class as usize].meets(*row, new),
            _ => false,
        }
    }

    /// The node's input, if it is not a lookup.
    pub(super) fn cause_of(&self, node: NodeId) -> Option<&Cause> {
        match &self.nodes[node.0 as usize].what {
            What::Cause(cause) => Some(cause),
            _ => None,
        }
    }

    /// The entries that depend on a node.
    pub(super) fn dependents(&self, node: NodeId) -> &[EntryId] {
        &self.nodes[node.0 as usize].dependents
    }

    /// Prefetches a node.
    pub(super) fn prefetch(&self, node: NodeId) {
        prefetch(&self.nodes, node.0 as usize);
    }

    /// The nodes of the lookups that a rule won.
    pub(super) fn of_rule(&self, rule: RuleId) -> &[NodeId] {
        self.by_rule.get(&rule).map_or(&[], |nodes| nodes)
    }

    /// The node of another input, if any entry depends on it.
    pub(super) fn of_cause(&self, cause: Cause) -> Option<NodeId> {
        self.causes.get(&cause).copied()
    }

    /// Finds the nodes of a table whose certificate a new rule meets.
    ///
    /// The caller compares the precedence of the winners.
    pub(super) fn meeting(&self, new: NewRule<'_>, mut found: impl FnMut(NodeId, Option<RuleId>)) {
        let Some(table) = self.tables.get(new.table.index()) else {
            return;
        };
        let scan_at = match self.scan_share {
            0 => 0,
            share => SCAN_FROM.max(table.count / share),
        };
        if let Some(candidates) = self.candidates(table, new, scan_at) {
            // In three rounds, each of which prefetches for the next: nodes and their values
            // are scattered in memory.
            candidates.iter().for_each(|node| self.prefetch(*node));
            let rows = candidates.iter().map(|node| {
                let &What::Lookup {
                    class, row, rule, ..
                } = &self.nodes[node.0 as usize].what
                else {
                    unreachable!("invariant 3: pivots have lookups alone");
                };
                self.classes[class as usize].prefetch(row);
                (*node, class, row, rule)
            });
            let rows: SmallVec<[_; 64]> = rows.collect();
            for (node, class, row, rule) in rows {
                if self.classes[class as usize].meets(row, new) {
                    found(node, rule);
                }
            }
            return;
        }
        for class in &table.classes {
            let class = &self.classes[*class as usize];
            for (row, node) in class.nodes.iter().enumerate() {
                if class.meets(row as u32, new)
                    && let What::Lookup { rule, .. } = &self.nodes[node.0 as usize].what
                {
                    found(*node, *rule);
                }
            }
        }
    }

    /// The nodes that the smallest pivot finds, unless all pivots find more than `limit`.
    ///
    /// The pivots race: each in turn may find a few, then four times as many, until one is
    /// finished.
    fn candidates(
        &self,
        table: &TableNodes,
        new: NewRule<'_>,
        limit: usize,
    ) -> Option<SmallVec<[NodeId; 64]>> {
        let racers = table.pivots.iter().zip(&self.bits);
        let racers = racers.filter_map(|(pivot, bits)| {
            let length = bits.length(new.mask);
            (length > 0).then_some((pivot.as_ref()?, bits.prefix(new.value, length)))
        });
        let racers: SmallVec<[_; 8]> = racers.collect();
        let mut found = SmallVec::new();
        let mut budget = 16;
        while budget / 4 < limit {
            let budgeted = budget.min(limit);
            for (pivot, prefix) in &racers {
                found.clear();
                found.extend(pivot.meeting(*prefix).take(budgeted + 1));
                if found.len() <= budgeted {
                    return Some(found);
                }
            }
            budget *= 4;
        }
        None
    }

    /// Checks invariants 1 to 3, and that `edges` edges lead to nodes.
    pub(super) fn verify(&self, edges: usize) -> Result<(), String> {
        let mut dependents = 0;
        let (mut lookups, mut of_rules) = (0, 0);
        for (number, node) in self.nodes.iter().enumerate() {
            let id = NodeId(number as u32);
            dependents += node.dependents.len();
            let is_free = matches!(node.what, What::Free);
            if is_free != node.dependents.is_empty() {
                return Err(format!(
                    "{id:?}: a node is there while an entry depends on it"
                ));
            }
            let is_found = match &node.what {
                What::Free => true,
                What::Cause(cause) => self.causes.get(&**cause) == Some(&id),
                &What::Lookup {
                    class, row, rule, ..
                } => {
                    lookups += 1;
                    of_rules += usize::from(rule.is_some());
                    let hash = hash_of(self.hash, &self.classes, node);
                    let in_index = self.lookups.find(hash, |(_, other)| *other == id).is_some();
                    let in_class = self.classes[class as usize].nodes[row as usize] == id;
                    let in_rule = rule.is_none_or(|rule| self.of_rule(rule).contains(&id));
                    in_index && in_class && in_rule && self.is_in_pivots(id, class, row)
                }
            };
            if !is_found {
                return Err(format!("{id:?} is not where it is looked for"));
            }
        }
        let listed: usize = self.by_rule.values().map(Vec::len).sum();
        let in_tables: usize = self.tables.iter().map(|table| table.count).sum();
        let in_classes: usize = self.classes.iter().map(|class| class.nodes.len()).sum();
        let counts = [self.lookups.len(), in_tables, in_classes];
        if dependents != edges || listed != of_rules || counts != [lookups; 3] {
            return Err("an index has what is not there".to_owned());
        }
        Ok(())
    }

    fn is_in_pivots(&self, node: NodeId, class: u32, row: u32) -> bool {
        let table = &self.tables[self.classes[class as usize].table.index()];
        let pivots = table.pivots.iter().enumerate();
        let mut made = pivots.filter_map(|(place, pivot)| Some((place, pivot.as_ref()?)));
        made.all(|(place, pivot)| pivot.contains(self.prefix(class, row, place), node))
    }

    /// Bytes of memory.
    pub(super) fn memory_bytes(&self) -> usize {
        let spilled = |node: &Node| match node.dependents.spilled() {
            true => node.dependents.capacity() * 4,
            false => 0,
        };
        let nodes = self.nodes.capacity() * std::mem::size_of::<Node>()
            + self.nodes.iter().map(spilled).sum::<usize>()
            + self.free.capacity() * 4;
        let classes = self.classes.iter().map(|class| {
            std::mem::size_of::<Class>()
                + class.words.heap_bytes()
                + class.mask.len() * 8
                + class.lengths.len() * 4
                + class.nodes.capacity() * 4
                + class.values.capacity() * 8
        });
        let pivots = self.tables.iter().flat_map(|table| &table.pivots);
        let pivots = pivots.flatten().map(Pivot::memory_bytes);
        let lists = self.by_rule.values().map(|list| list.capacity() * 4);
        nodes
            + classes.sum::<usize>()
            + pivots.sum::<usize>()
            + self.lookups.allocation_size()
            + self.class_index.allocation_size()
            + lists.sum::<usize>()
            + self.by_rule.capacity() * 40
            + self.causes.capacity() * 56
    }
}

/// Lists of dependents double up to this length, and then grow by an eighth.
const DOUBLED_UP_TO: usize = 4_096;

/// Up to this many candidates, a pivot is always preferred to a scan.
const SCAN_FROM: usize = 64;

impl Class {
    fn value(&self, row: u32) -> &[u64] {
        let stride = self.words.len();
        &self.values[row as usize * stride..(row as usize + 1) * stride]
    }

    /// Prefetches a node's value.
    fn prefetch(&self, row: u32) {
        prefetch(&self.values, row as usize * self.words.len());
    }

    /// Whether some key agrees with a node's value and also matches the rule.
    #[inline]
    fn meets(&self, row: u32, new: NewRule<'_>) -> bool {
        let value = self.value(row).iter();
        value
            .zip(self.words.iter())
            .all(|(value, (word, mask))| (value ^ new.value[word]) & mask & new.mask[word] == 0)
    }
}

fn hash_class(hash: WordHash, table: TableId, mask: &[u64]) -> u64 {
    hash.step(hash.hash_words(mask), table.0.into())
}

fn hash_lookup(
    hash: WordHash,
    class: u32,
    value: impl Iterator<Item = u64>,
    rule: Option<RuleId>,
) -> u64 {
    let rule = rule.map_or(u64::MAX, |rule| rule.0.into());
    let start = hash.step(hash.step(hash.start(), class.into()), rule);
    spread(value.fold(start, |state, word| hash.step(state, word)) as u32)
}

/// Spreads a hash of 32 bits to 64, as hash tables use the upper bits too.
fn spread(hash: u32) -> u64 {
    // Fibonacci hashing; the lower half is unchanged, so that it alone can be stored.
    let upper = u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    upper << 32 | u64::from(hash)
}

fn hash_of(hash: WordHash, classes: &[Class], node: &Node) -> u64 {
    match &node.what {
        What::Lookup {
            class, row, rule, ..
        } => {
            let value = classes[*class as usize].value(*row);
            hash_lookup(hash, *class, value.iter().copied(), *rule)
        }
        _ => unreachable!("only lookups are in the index"),
    }
}
