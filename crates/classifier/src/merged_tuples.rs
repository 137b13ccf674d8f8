//! Merged tuples: tuple space search in which rules of many masks share a table.
//!
//! A tuple space has a table for each mask, and a lookup probes nearly all of them. Here a
//! table's mask is a part of the masks of its rules, so a few dozen tables serve hundreds of
//! masks. Rules that agree under the table's mask are in one bucket, and are compared one by
//! one (Daly et al., *TupleMerge: fast software packet processing for online packet
//! classification*, IEEE/ACM Transactions on Networking 2019):
//!
//! ```text
//!   insert: into the table of the longest mask that is a part of the rule's, and whose bucket has
//!           room; else into a new one, of the shortest mask on the rule's ladder that no table has
//!   lookup: for each table, by its highest precedence, best first:
//!               if the best rule so far beats that precedence: stop
//!               for each pattern of the key's bucket, best first:
//!                   if the best rule so far beats it: next table
//!                   if it matches, and a rule of it exists: that is the best so far
//! ```
//!
//! `ladder` defines the masks that a table may have. Departures from TupleMerge:
//!
//! - A full bucket is not split. The next rule goes further down the ladder, so no insert
//!   moves other rules of its bucket.
//! - Rules of the same pattern count once, because they are compared together.
//! - Masks are any bits of a key, not five fields.
//!
//! While there are few masks, each has its own table: the classifier is a tuple space then,
//! and has the masks of a [`TupleSpace`](crate::TupleSpace). Once there are more masks than
//! [`MergedTuples::after`] allows, these tables are retired. Each later insert moves a few of
//! their rules, until they are empty. There is no way back until all rules are gone.
//!
//! [`MergedTuples::lookup_examined`] finds the best rule first, and then the bits that show
//! that there is no better one (`examine`). So that rule's bits cost nothing, and tables and
//! rules below it are not visited.
//!
//! 1. `order` has every table once, and none is empty. It is sorted by the highest precedence
//!    of any rule in the table, at any version.
//! 2. The mask of a rule's table is a part of the rule's mask. Rules of one pattern are in one
//!    table, except those still in a retired table.
//! 3. A bucket has at most `patterns_max` patterns, plus one whose mask is the table's.
//! 4. Tries, stages and indexes hold the patterns of all rules that are not reclaimed. Each
//!    trie has one prefix for each pattern and table.
//! 5. The memory follows the rules, except that arrays may be up to four times larger than
//!    their content.
//!
//! Cost of a lookup: one probe for each table in the order that may be better, and one
//! comparison per pattern. In the worst case there are [`ladder::RUNGS`] tables for each mask.
//! On access lists, firewalls and the like, one table serves 10 to 150 masks. A rule takes 40
//! bytes, 8 for each word that masks of its table touch, and about 28 for index and id. Tries
//! cost as in a tuple space. Inserting compares the rule's mask with each table's, unless the
//! last insert of this mask did so and no table was made since. It then probes the suitable
//! tables and walks the rules of its pattern. Removing walks them too.

mod batch;
mod beside;
mod examine;
mod ladder;
mod masks;
mod table;
mod write;

use crate::hash::WordHash;
use crate::history::History;
use crate::key_shape::{KeyShape, TupleSpaceConfig};
use crate::places::{Place, Places};
use crate::prefix_trie::PrefixTrie;
use crate::simd::Level;
use crate::{Classifier, Pattern, Precedence, RuleId, Version};

use masks::Masks;
use table::{Rule, Table};

/// The default number of patterns that fill a bucket; further rules go to a table of a longer
/// mask.
///
/// Of 8, 12, 16, 24 and 40, larger values are better on firewalls; 40 is worse than 24 on
/// access lists.
const PATTERNS_MAX: usize = 32;

/// Rules moved out of retired tables by each insert.
const MOVES_PER_INSERT: usize = 4;

/// A classifier whose hash tables each hold rules of several masks.
///
/// ```
/// use thalweg_classifier::{
///     Classifier, MergedTuples, Pattern, Precedence, RuleId, TupleSpaceConfig, Version,
/// };
///
/// let mut rules = MergedTuples::new(TupleSpaceConfig::flat(1, 7));
/// let v1 = Version::FIRST.next();
/// let ssh = Pattern { value: &[22], mask: &[0xffff] };
/// rules.insert(ssh, Precedence::new(10, 0), RuleId(7), v1);
/// let mut examined = [0];
/// assert_eq!(rules.lookup_examined(&[0x9_0016], v1, &mut examined), Some(RuleId(7)));
/// assert_eq!(examined, [0xffff]); // the bits above did not matter
/// ```
#[derive(Clone, Debug)]
pub struct MergedTuples {
    shape: KeyShape,
    hash: WordHash,
    level: Level,
    tries: Box<[PrefixTrie]>,
    masks: Masks,
    order: Vec<Ranked>,
    /// The tables, longest masks first.
    by_bits: Vec<u32>,
    /// The most masks for which each mask has its own table.
    own_masks_max: usize,
    /// The number of patterns that fill a bucket.
    patterns_max: usize,
    /// Whether there have been more than `own_masks_max` masks.
    is_merging: bool,
    /// Single-mask tables that are being emptied.
    retired: Vec<u32>,
    tables: Vec<Option<Box<Table>>>,
    free_tables: Vec<u32>,
    /// The number of tables ever made.
    tables_made: u64,
    places: Places,
    history: History,
}

/// A table and the best precedence in it.
#[derive(Clone, Copy, Debug)]
struct Ranked {
    highest: Precedence,
    table: u32,
}

impl Ranked {
    /// Sorts best first; the number makes the order total.
    fn sort_key(&self) -> (std::cmp::Reverse<Precedence>, u32) {
        (std::cmp::Reverse(self.highest), self.table)
    }
}

/// The best rule of a lookup so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Best {
    /// The precedence, the id, and the number of the mask.
    rule: Option<(Precedence, RuleId, u32)>,
}

impl Best {
    pub(crate) const NONE: Best = Best { rule: None };

    pub(crate) fn id(self) -> Option<RuleId> {
        self.rule.map(|(_, id, _)| id)
    }

    /// Whether the best rule beats every rule up to this precedence.
    #[inline(always)]
    fn is_above(self, highest: Precedence) -> bool {
        self.rule.is_some_and(|(own, ..)| own > highest)
    }

    /// Whether a rule of this precedence would be better.
    #[inline(always)]
    fn is_below(self, precedence: Precedence) -> bool {
        self.rule.is_none_or(|(own, ..)| precedence > own)
    }

    #[inline(always)]
    fn improve(&mut self, found: Option<&Rule>) {
        if let Some(rule) = found
            && self.is_below(rule.precedence)
        {
            self.rule = Some((rule.precedence, rule.id, rule.mask));
        }
    }
}

impl MergedTuples {
    /// Creates an empty classifier that merges from the first mask on.
    ///
    /// # Panics
    /// If there are no words or more than [`thalweg_packet::MAX_WORDS`], more than
    /// [`crate::PREFIX_FIELDS_MAX`] prefix fields, or one that is wider than 128 bits or outside
    /// the words.
    pub fn new(config: TupleSpaceConfig) -> MergedTuples {
        MergedTuples::after(0, config)
    }

    /// Creates an empty classifier that is a tuple space until its rules have more than
    /// `masks` masks.
    ///
    /// # Panics
    /// As [`MergedTuples::new`].
    pub fn after(masks: usize, config: TupleSpaceConfig) -> MergedTuples {
        let shape = KeyShape::new(&config);
        let hash = WordHash::new(config.seed);
        let fields = shape.prefix_fields().iter();
        MergedTuples {
            tries: fields.map(|_| PrefixTrie::new()).collect(),
            masks: Masks::new(shape.words(), hash),
            shape,
            hash,
            level: Level::best(),
            order: Vec::new(),
            by_bits: Vec::new(),
            own_masks_max: masks,
            patterns_max: PATTERNS_MAX,
            is_merging: false,
            retired: Vec::new(),
            tables: Vec::new(),
            free_tables: Vec::new(),
            tables_made: 0,
            places: Places::new(hash),
            history: History::default(),
        }
    }

    /// Sets the number of patterns per bucket, for rules inserted later; the default is 32.
    ///
    /// Fewer patterns make more tables, more make longer searches in one.
    ///
    /// # Panics
    /// If `patterns` is zero.
    pub fn with_patterns_max(mut self, patterns: usize) -> MergedTuples {
        assert!(patterns > 0, "a bucket without room");
        self.patterns_max = patterns;
        self
    }

    /// Uses the instructions of `level` in bursts, for comparisons.
    pub fn with_level(mut self, level: Level) -> MergedTuples {
        self.level = level;
        self
    }

    /// The number of tables: the most that a lookup visits.
    pub fn table_count(&self) -> usize {
        self.order.len()
    }

    /// The number of different masks that the rules have.
    pub fn mask_count(&self) -> usize {
        self.masks.len()
    }

    /// The number of tables that a lookup of this key visits, and of patterns that it
    /// compares.
    pub fn visited_by(&self, key: &[u64], version: Version) -> (usize, usize) {
        self.visited(key, version, Best::NONE)
    }

    /// As [`MergedTuples::visited_by`], starting with a best rule.
    fn visited(&self, key: &[u64], version: Version, mut best: Best) -> (usize, usize) {
        let (mut visited, mut compared) = (0, 0);
        for ranked in &self.order {
            if best.is_above(ranked.highest) {
                break;
            }
            let table = self.table(ranked.table);
            let hash = table.staged.hash(key);
            let before = best;
            table.search(hash, key, version, &self.masks, &mut best);
            visited += 1;
            let is_tried = |&record: &u32| !before.is_above(table.rule(record).precedence);
            compared += table.bucket(hash, key).take_while(is_tried).count();
        }
        (visited, compared)
    }

    #[inline(always)]
    fn table(&self, number: u32) -> &Table {
        let table = self.tables[number as usize].as_deref();
        table.expect("a table in the order is not free")
    }

    fn table_mut(&mut self, number: u32) -> &mut Table {
        let table = self.tables[number as usize].as_deref_mut();
        table.expect("a table in the order is not free")
    }

    /// The place of the rule with this id, if it has not been reclaimed.
    fn place_of(&self, id: RuleId) -> Option<Place> {
        self.places.find(id, id_in(&self.tables))
    }

    /// The best rules of a pattern, one per table that has it: the table, its number, and the
    /// record.
    fn find_pattern(&self, value: &[u64], mask: u32) -> impl Iterator<Item = (&Table, u32, u32)> {
        let tables = self.masks.uses(mask).iter().map(|used| used.table);
        tables.filter_map(move |number| {
            let table = self.table(number);
            Some((table, number, table.find_pattern(value, mask)?))
        })
    }

    /// The best rule at `version` that matches `key`, or `best` if none is better.
    #[inline(always)]
    pub(crate) fn improve(&self, key: &[u64], version: Version, mut best: Best) -> Best {
        for ranked in &self.order {
            if best.is_above(ranked.highest) {
                break;
            }
            let table = self.table(ranked.table);
            let hash = table.staged.hash(key);
            table.search(hash, key, version, &self.masks, &mut best);
        }
        best
    }
}

/// Reads the id of the rule at a place.
fn id_in(tables: &[Option<Box<Table>>]) -> impl Fn(Place) -> RuleId + '_ {
    |place| {
        let table = tables[place.subtable as usize].as_deref();
        let table = table.expect("a table with rules is not free");
        table.rule(place.record).id
    }
}

impl Classifier for MergedTuples {
    fn insert(&mut self, pattern: Pattern<'_>, precedence: Precedence, id: RuleId, born: Version) {
        pattern.check(self.shape.words());
        assert!(self.place_of(id).is_none(), "rule id in use");
        let mask = self.masks.find_or_add(pattern.mask);
        self.merge_if_many();
        let rule = Rule::new(precedence, id, mask, born);
        let place = self.add(pattern.value, rule);
        self.places.insert(id, place, id_in(&self.tables));
        self.history.record_birth(id, born);
        for _ in 0..MOVES_PER_INSERT {
            self.move_one();
        }
    }

    fn remove(&mut self, id: RuleId, died: Version) {
        let rule = self.rule_mut(id).filter(|rule| rule.died == Version::NEVER);
        let rule = rule.expect("the caller names a living rule");
        assert!(rule.born <= died, "a death before the birth");
        rule.died = died;
        self.history.record_death(id, died);
    }

    fn lookup(&self, key: &[u64], version: Version) -> Option<RuleId> {
        self.improve(key, version, Best::NONE).id()
    }

    fn lookup_examined(
        &self,
        key: &[u64],
        version: Version,
        examined: &mut [u64],
    ) -> Option<RuleId> {
        if !self.is_merging {
            return self.find_examined(key, version, examined).id();
        }
        let best = self.improve(key, version, Best::NONE);
        self.examine(key, version, best, examined);
        best.id()
    }

    fn lookup_batch(&self, keys: &[u64], version: Version, answers: &mut [Option<RuleId>]) {
        let words = self.shape.words();
        assert_eq!(keys.len(), words * answers.len(), "keys of another layout");
        let bursts = keys.chunks(words * batch::BURST);
        for (keys, answers) in bursts.zip(answers.chunks_mut(batch::BURST)) {
            let mut best = [Best::NONE; batch::BURST];
            let best = &mut best[..answers.len()];
            self.improve_burst(keys, version, best);
            for (answer, best) in answers.iter_mut().zip(best) {
                *answer = best.id();
            }
        }
    }

    fn find(&self, pattern: Pattern<'_>, priority: u16) -> Option<RuleId> {
        let mask = self.masks.find(pattern.mask)?;
        let best = self.find_pattern(pattern.value, mask);
        let mut rules = best.flat_map(|(table, _, record)| table.chain(record));
        let is_it =
            |rule: &&Rule| rule.died == Version::NEVER && rule.precedence.priority() == priority;
        rules.find(is_it).map(|rule| rule.id)
    }

    fn find_within(&self, pattern: Pattern<'_>, found: &mut Vec<RuleId>) {
        let is_within = |mask: &[u64]| {
            let mut words = mask.iter().zip(pattern.mask);
            words.all(|(mask, wanted)| wanted & !mask == 0)
        };
        for ranked in &self.order {
            let table = self.table(ranked.table);
            let mut masks = table.masks().iter().map(|&mask| self.masks.bits(mask));
            if masks.any(is_within) {
                let is_within = |rule: &Rule| is_within(self.masks.bits(rule.mask));
                table.find_within(pattern, is_within, found);
            }
        }
    }

    fn pattern(&self, id: RuleId) -> Option<(Vec<u64>, Vec<u64>)> {
        let place = self.place_of(id)?;
        let table = self.table(place.subtable);
        let mut value = vec![0; self.shape.words()];
        table.expand(place.record, &mut value);
        let mask = self.masks.bits(table.rule(place.record).mask);
        Some((value, mask.to_vec()))
    }

    fn abort(&mut self, version: Version) {
        let (births, deaths) = self.history.take_version(version);
        for id in births {
            let rule = self
                .rule_mut(id)
                .expect("rules of an open version are present");
            let died = rule.died;
            if died != Version::NEVER && died != version {
                self.history.forget_death(id, died);
            }
            self.free(id);
        }
        for id in deaths {
            // Rules that were born in the same version are already gone.
            if let Some(rule) = self.rule_mut(id) {
                rule.died = Version::NEVER;
            }
        }
        self.shrink();
    }

    fn reclaim(&mut self, oldest: Version) -> Vec<RuleId> {
        let dead = self.history.settle(oldest);
        for &id in &dead {
            self.free(id);
        }
        self.shrink();
        dead
    }

    fn len(&self, version: Version) -> usize {
        self.places.len() - self.history.born_after(version) - self.history.died_by(version)
    }

    fn memory_bytes(&self) -> usize {
        let tables = self.tables.iter().flatten();
        let tables = tables.map(|table| size_of::<Table>() + table.heap_bytes());
        let tries = self.tries.iter().map(PrefixTrie::heap_bytes);
        tables.sum::<usize>()
            + tries.sum::<usize>()
            + self.masks.heap_bytes()
            + self.order.capacity() * size_of::<Ranked>()
            + self.by_bits.capacity() * size_of::<u32>()
            + self.retired.capacity() * size_of::<u32>()
            + self.tables.capacity() * size_of::<Option<Box<Table>>>()
            + self.free_tables.capacity() * size_of::<u32>()
            + self.places.heap_bytes()
            + self.history.heap_bytes()
    }
}
