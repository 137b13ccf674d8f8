//! Tuple space search: one hash table for each mask, the most important first.
//!
//! All rules with the same mask ("tuple") are in one sub-table, which finds a key's rule by
//! one probe. A lookup visits the sub-tables in turn (Srinivasan, Suri, Varghese, *Packet
//! classification using tuple space search*, SIGCOMM 1999, section 4). There are far fewer
//! masks than rules:
//!
//! ```text
//!   for each sub-table, by its highest precedence, best first:
//!       if the best rule so far beats that precedence: stop
//!       if the sub-table has a better rule for the key: that is the best so far
//! ```
//!
//! [`TupleSpace::lookup_examined`] also reports the bits of the key that decided. Every
//! visited sub-table leaves a *certificate* in the mask: bits which show that the key has
//! exactly this value in it, or none. To keep it small, it is searched for in Open vSwitch's
//! order (Pfaff et al., *The design and implementation of Open vSwitch*, NSDI 2015, section 5;
//! `lib/classifier.h`):
//!
//! ```text
//!   for each stage (metadata, link, network, transport) that the mask touches:
//!       for each prefix field in it: ask the field's trie, once a lookup
//!           no rule of any sub-table has a matching prefix of this mask's length:
//!               no match; examined: the bits the trie looked at, if these are no more than
//!               this mask has, or examined already
//!       not the last stage, and no value begins like the key (set of hashes):
//!           no match; examined: the stages up to this one
//!   not in the hash table:
//!       no match; examined: of the last stage, the leading bits in which no value agrees with
//!       the key (a trie of the last stage); the whole mask if some value agrees on all of it
//!   in the hash table: examined: the whole mask
//! ```
//!
//! There are three departures from Open vSwitch:
//!
//! - It also adds the earlier stages when a trie refuses. That is not needed, because the
//!   tries cover all values.
//! - It has the last trie for L4 ports only. Here every sub-table has one if its last stage
//!   takes one word (two of L4) and is not all prefix fields, which have tries already. So an
//!   unknown Ethernet address is also recognised by its first bits.
//! - It always skips a sub-table of the same priority as the best rule. Precedence is a total
//!   order here, so such a sub-table is skipped only if all its rules are younger.
//!
//! 1. `order` has every sub-table once, and none is empty. It is sorted by the highest
//!    precedence of any rule in the sub-table, at any version: a bound that holds for every
//!    version.
//! 2. Sets, tries and hash tables hold the values of all rules that are not reclaimed. So
//!    "none" is true at every version that may be looked up, and so is its certificate.
//! 3. The tries of the prefix fields hold one prefix for each value of each sub-table.
//! 4. The memory follows the rules: nothing is kept for reclaimed or aborted rules, except
//!    that arrays may be up to four times larger than their content.
//!
//! Costs: a lookup visits each sub-table at most once, whatever the rules and the key. A user
//! who can add masks can make lookups slow (Csikor et al., *Tuple space explosion*, CoNEXT
//! 2019). [`TupleSpace::subtable_count`] is the bound; the code that admits rules should watch
//! and limit it. A rule takes 48 bytes with one or two masked words, 64 with three or four,
//! and otherwise 32 plus 8 per word; index and id add about 28. Stages and tries add up to 60
//! bytes if the rule's addresses are unique, and little if they are shared. Inserting and
//! removing take a constant number of steps, a walk in each trie and a move in `order`. The
//! steps of [`Classifier::abort`] and [`Classifier::reclaim`] are proportional to the affected
//! rules.

mod batch;
mod examine;
mod matches;
mod probe;
mod probes;
mod records;
mod subtable;
mod write;

use thalweg_packet::MAX_WORDS;

use crate::hash::WordHash;
use crate::history::History;
use crate::index::Index;
use crate::key_shape::{KeyShape, PREFIX_FIELDS_MAX, TupleSpaceConfig};
use crate::places::{Place, Places};
use crate::prefix_trie::{PrefixMatch, PrefixTrie};
use crate::simd::{Level, Simd, Work};
use crate::{Classifier, Pattern, Precedence, RuleId, Version};

pub use matches::Matches;

pub(crate) use batch::{BURST, Masked, OfOpen};
pub(crate) use probes::Wanted;
pub(crate) use records::Rule;
pub(crate) use subtable::Subtable;

/// A classifier with one hash table for each mask.
///
/// ```
/// use thalweg_classifier::{
///     Classifier, Pattern, Precedence, RuleId, TupleSpace, TupleSpaceConfig, Version,
/// };
///
/// let mut rules = TupleSpace::new(TupleSpaceConfig::flat(1, 7));
/// let v1 = Version::FIRST.next();
/// let ssh = Pattern { value: &[22], mask: &[0xffff] };
/// rules.insert(ssh, Precedence::new(10, 0), RuleId(7), v1);
/// let mut examined = [0];
/// assert_eq!(rules.lookup_examined(&[0x9_0016], v1, &mut examined), Some(RuleId(7)));
/// assert_eq!(examined, [0xffff]); // the bits above did not matter
/// ```
#[derive(Clone, Debug)]
pub struct TupleSpace {
    shape: KeyShape,
    tries: Box<[PrefixTrie]>,
    hash: WordHash,
    level: Level,
    order: Vec<Ranked>,
    subtables: Vec<Option<Box<Subtable>>>,
    free_subtables: Vec<u32>,
    /// Maps a mask's hash to its sub-table.
    masks: Index,
    places: Places,
    history: History,
}

/// A sub-table and the best precedence in it.
#[derive(Clone, Copy, Debug)]
struct Ranked {
    highest: Precedence,
    subtable: u32,
}

impl Ranked {
    /// Sorts best first; the number makes the order total.
    fn sort_key(&self) -> (std::cmp::Reverse<Precedence>, u32) {
        (std::cmp::Reverse(self.highest), self.subtable)
    }
}

/// The best rule of a lookup so far.
pub(crate) type Best = Option<(Precedence, RuleId)>;

/// The answer of each prefix field's trie for the key of a lookup, once asked.
type PrefixAnswers = [Option<PrefixMatch>; PREFIX_FIELDS_MAX];

impl TupleSpace {
    /// Creates an empty classifier.
    ///
    /// # Panics
    /// If there are no words or more than [`MAX_WORDS`], more than [`PREFIX_FIELDS_MAX`] prefix
    /// fields, or one that is wider than 128 bits or outside the words.
    pub fn new(config: TupleSpaceConfig) -> TupleSpace {
        let shape = KeyShape::new(&config);
        let fields = shape.prefix_fields().iter();
        let hash = WordHash::new(config.seed);
        TupleSpace {
            tries: fields.map(|_| PrefixTrie::new()).collect(),
            shape,
            hash,
            level: Level::best(),
            order: Vec::new(),
            subtables: Vec::new(),
            free_subtables: Vec::new(),
            masks: Index::new(),
            places: Places::new(hash),
            history: History::default(),
        }
    }

    /// Uses the instructions of `level`, for comparisons.
    pub fn with_level(mut self, level: Level) -> TupleSpace {
        self.level = level;
        self
    }

    /// The number of different masks: the most sub-tables that a lookup visits.
    pub fn subtable_count(&self) -> usize {
        self.order.len()
    }

    /// The number of sub-tables that a lookup of this key visits.
    pub fn visited_by(&self, key: &[u64], version: Version) -> usize {
        let (_, visited) = self.search(key, version);
        visited
    }

    /// The best rule, and the number of sub-tables visited.
    #[inline(always)]
    fn search(&self, key: &[u64], version: Version) -> (Best, usize) {
        self.level.run(OfAll {
            rules: self,
            key,
            version,
        })
    }

    #[inline(always)]
    pub(crate) fn subtable(&self, number: u32) -> &Subtable {
        let subtable = self.subtables[number as usize].as_deref();
        subtable.expect("a sub-table in the order is not free")
    }

    fn subtable_mut(&mut self, number: u32) -> &mut Subtable {
        let subtable = self.subtables[number as usize].as_deref_mut();
        subtable.expect("a sub-table in the order is not free")
    }

    /// The place of the rule with this id, if it has not been reclaimed.
    fn place_of(&self, id: RuleId) -> Option<Place> {
        self.places.find(id, id_in(&self.subtables))
    }
}

/// The lookup of one key, compiled for each set of instructions.
struct OfAll<'a> {
    rules: &'a TupleSpace,
    key: &'a [u64],
    version: Version,
}

impl Work for OfAll<'_> {
    type Output = (Best, usize);

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> (Best, usize) {
        let mut best = None;
        let visited = self
            .rules
            .probe_all(simd, self.key, self.version, &mut best);
        (best, visited)
    }
}

/// Reads the id of the rule at a place.
fn id_in(subtables: &[Option<Box<Subtable>>]) -> impl Fn(Place) -> RuleId + '_ {
    |place| {
        let subtable = subtables[place.subtable as usize].as_deref();
        let subtable = subtable.expect("a sub-table with rules is not free");
        subtable.rule(place.record).id
    }
}

impl Classifier for TupleSpace {
    fn insert(&mut self, pattern: Pattern<'_>, precedence: Precedence, id: RuleId, born: Version) {
        pattern.check(self.shape.words());
        assert!(self.place_of(id).is_none(), "rule id in use");
        let number = self.subtable_of_mask(pattern.mask);
        let subtable = self.subtables[number as usize].as_deref_mut();
        let subtable = subtable.expect("a sub-table that was looked for is not free");
        let highest = subtable.highest();
        let mut value = [0; MAX_WORDS];
        let words = subtable.staged.words.len();
        for (word, compact) in value
            .iter_mut()
            .zip(subtable.staged.words.compact(pattern.value))
        {
            *word = compact;
        }
        let (rule, oldest) = (Rule::new(precedence, id), self.history.oldest());
        let (record, is_first_of_value) = subtable.insert(&value[..words], rule, born, oldest);
        if is_first_of_value {
            for check in &subtable.prefixes {
                let prefix = self.shape.prefix_fields()[check.field].value(pattern.value);
                self.tries[check.field].insert(prefix, check.length);
            }
        }
        self.rerank(number, highest);
        let place = Place {
            subtable: number,
            record,
        };
        self.places.insert(id, place, id_in(&self.subtables));
        self.history.record_birth(id, born);
    }

    fn remove(&mut self, id: RuleId, died: Version) {
        let life = self.life(id).filter(|life| life.is_living());
        let life = life.expect("the caller names a living rule");
        assert!(life.born <= died, "a death before the birth");
        self.change_life(id, |life| life.died = died);
        self.history.record_death(id, died);
    }

    fn lookup(&self, key: &[u64], version: Version) -> Option<RuleId> {
        let (best, _) = self.search(key, version);
        best.map(|(_, id)| id)
    }

    fn lookup_examined(
        &self,
        key: &[u64],
        version: Version,
        examined: &mut [u64],
    ) -> Option<RuleId> {
        let mut best = None;
        let mut answers = PrefixAnswers::default();
        for ranked in &self.order {
            if is_settled(best, ranked.highest) {
                break;
            }
            let subtable = self.subtable(ranked.subtable);
            let found = self.find_examined(subtable, key, version, &mut answers, examined);
            improve(&mut best, found);
        }
        best.map(|(_, id)| id)
    }

    fn lookup_batch(&self, keys: &[u64], version: Version, answers: &mut [Option<RuleId>]) {
        let words = self.shape.words();
        assert_eq!(keys.len(), words * answers.len(), "keys of another layout");
        let bursts = keys.chunks(words * batch::BURST);
        for (keys, answers) in bursts.zip(answers.chunks_mut(batch::BURST)) {
            self.lookup_burst(keys, version, answers);
        }
    }

    fn find(&self, pattern: Pattern<'_>, priority: u16) -> Option<RuleId> {
        let is_it = |number| self.subtable(number).staged.words.is_mask(pattern.mask);
        let subtable = self.subtable(self.masks.find(self.hash.hash_words(pattern.mask), is_it)?);
        let mut rules = subtable.living_of(pattern.value);
        let rule = rules.find(|rule| rule.precedence.priority() == priority);
        rule.map(|rule| rule.id)
    }

    fn find_within(&self, pattern: Pattern<'_>, found: &mut Vec<RuleId>) {
        for ranked in &self.order {
            self.subtable(ranked.subtable).find_within(pattern, found);
        }
    }

    fn pattern(&self, id: RuleId) -> Option<(Vec<u64>, Vec<u64>)> {
        let place = self.place_of(id)?;
        let subtable = self.subtable(place.subtable);
        let (mut value, mut mask) = (vec![0; self.shape.words()], vec![0; self.shape.words()]);
        subtable
            .staged
            .words
            .expand(subtable.value(place.record), &mut value);
        subtable
            .staged
            .words
            .add_to(0..subtable.staged.words.len(), &mut mask);
        Some((value, mask))
    }

    fn abort(&mut self, version: Version) {
        let (births, deaths) = self.history.take_version(version);
        for id in births {
            let life = self.life(id).expect("rules of an open version are present");
            if !life.is_living() && life.died != version {
                self.history.forget_death(id, life.died);
            }
            self.free(id);
        }
        for id in deaths {
            // Rules that were born in the same version are already gone.
            self.change_life(id, |life| life.died = Version::NEVER);
        }
        self.shrink();
    }

    fn reclaim(&mut self, oldest: Version) -> Vec<RuleId> {
        let born: Vec<RuleId> = self.history.born_by(oldest).collect();
        let dead = self.history.settle(oldest);
        for id in born {
            // Marks the rule as existing always, now that earlier versions are not looked up.
            self.change_life(id, |_| ());
        }
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
        let subtables = self.subtables.iter().flatten();
        let subtable_bytes = |subtable: &Subtable| size_of::<Subtable>() + subtable.heap_bytes();
        let tries = self.tries.iter().map(PrefixTrie::heap_bytes);
        subtables
            .map(|subtable| subtable_bytes(subtable))
            .sum::<usize>()
            + tries.sum::<usize>()
            + self.order.capacity() * size_of::<Ranked>()
            + self.subtables.capacity() * size_of::<Option<Box<Subtable>>>()
            + self.free_subtables.capacity() * size_of::<u32>()
            + self.masks.heap_bytes()
            + self.places.heap_bytes()
            + self.history.heap_bytes()
    }
}

/// Whether the best so far beats every rule up to this precedence.
#[inline(always)]
pub(crate) fn is_settled(best: Best, highest: Precedence) -> bool {
    best.is_some_and(|(precedence, _)| precedence > highest)
}

#[inline(always)]
pub(crate) fn improve(best: &mut Best, found: Option<&Rule>) {
    if let Some(rule) = found
        && best.is_none_or(|(precedence, _)| rule.precedence > precedence)
    {
        *best = Some((rule.precedence, rule.id));
    }
}
