//! Finds the sub-tables that may have a rule for a key, by a vector filter of their common
//! bits.
//!
//! Sub-tables whose masks share enough bits form a group. The group's filter knows each rule
//! by its sub-table and the hash of its value on the shared bits. A key is hashed on the same
//! bits:
//!
//! ```text
//!   group:      shared mask C = the AND of its sub-tables' masks; 64 sub-tables at most
//!   insert:     put (hash of value & C, sub-table)           remove: the counters, down again
//!   for a key:  one hash of key & C, one load: the sub-tables of the group that may match
//! ```
//!
//! A rule that matches a key agrees with it on C. So the filter's "no" is certain, whatever
//! the versions, precedences, overlaps and earlier lookups. The "maybe" is wrong where rules
//! agree with a key on C but do not match it, and rarely by chance.
//!
//! Groups are formed by size, starting with the sub-table with the most rules. Each joins the
//! group with which it shares most bits, if that is half of its own bits and half of the
//! group's. Otherwise it starts a new group, up to [`GROUPS_MAX`], or is always searched.
//! Groups and filters are rebuilt when the rules have doubled or are a quarter of what they
//! were. They are also rebuilt when new sub-tables came together with a quarter more rules. On
//! average this is a constant number of steps per change, but all at once.
//!
//! 1. Each sub-table is in one group, or in `open`.
//! 2. The filter of a group has the bits of the hash of each rule of its sub-tables, at any
//!    version. Only the writer puts and removes, and filters do not age: "no" is certain.
//! 3. `highest` of a member is at least the best precedence of its rules; `highest` of a group
//!    is at least that of its members.

use thalweg_packet::MAX_WORDS;

use crate::hash::WordHash;
use crate::tuple_space::TupleSpace;
use crate::value_hash::ValueHash;
use crate::{MaskedWords, Precedence};

use super::counters::bits_of;
use super::filter::{FilterStatistics, VectorFilter, VectorFilterConfig};

/// The most groups: each costs a hash and a load.
pub(super) const GROUPS_MAX: usize = 8;
/// The most sub-tables of a group.
const MEMBERS_MAX: usize = 64;
/// Marks a member that lost its last rule.
pub(super) const GONE: u32 = u32::MAX;

/// The groups and the sub-tables without a group.
#[derive(Debug)]
pub(super) struct Groups {
    hash: WordHash,
    size_bytes_max: usize,
    /// The groups, the one with the best rule first.
    pub(super) groups: Vec<Group>,
    /// The sub-tables without a group.
    pub(super) open: Vec<Member>,
    /// The place of each sub-table, by its number.
    places: Vec<Option<Place>>,
    /// The number of rules when the groups were formed.
    formed_for: usize,
    /// Rules inserted since then; next, removed rules that left bits behind.
    inserted: usize,
    stuck: usize,
    /// Whether new sub-tables came since then.
    has_newcomers: bool,
}

/// Sub-tables that share a filter.
#[derive(Debug)]
pub(super) struct Group {
    /// The hash under the shared mask.
    pub(super) hash: ValueHash,
    mask: Box<[u64]>,
    pub(super) filter: VectorFilter,
    /// The sub-table of each set of the filter.
    pub(super) members: Vec<Member>,
    pub(super) highest: Precedence,
}

/// A sub-table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    pub(super) number: u32,
    pub(super) highest: Precedence,
}

/// The place of a sub-table.
#[derive(Clone, Copy, Debug)]
enum Place {
    Open,
    Group { group: usize, set: usize },
}

impl Groups {
    pub(super) fn new(hash: WordHash, size_bytes_max: usize) -> Groups {
        Groups {
            hash,
            size_bytes_max,
            groups: Vec::new(),
            open: Vec::new(),
            places: Vec::new(),
            formed_for: 0,
            inserted: 0,
            stuck: 0,
            has_newcomers: false,
        }
    }

    /// Notes that a rule with this value was inserted into a sub-table, which may be new.
    pub(super) fn insert(
        &mut self,
        rules: &TupleSpace,
        number: u32,
        value: &[u64],
        precedence: Precedence,
    ) {
        self.places.resize(rules.numbers_end(), None);
        self.inserted += 1;
        let place = match self.places[number as usize] {
            Some(place) => place,
            None => self.join(rules, number),
        };
        match place {
            Place::Open => {
                let mut open = self.open.iter_mut();
                let member = open.find(|member| member.number == number);
                let member = member.expect("it has its place there");
                member.highest = member.highest.max(precedence);
            }
            Place::Group { group, set } => {
                let group = &mut self.groups[group];
                group.filter.put(group.hash.of_key(value), set);
                let member = &mut group.members[set];
                member.highest = member.highest.max(precedence);
                group.highest = group.highest.max(precedence);
            }
        }
        let is_wide = self.has_newcomers && self.inserted > self.formed_for / 4 + 16;
        if is_wide || rules.rule_count() > 2 * self.formed_for {
            self.form(rules);
        }
    }

    /// Notes that a rule with this value is about to leave a sub-table.
    pub(super) fn remove(&mut self, number: u32, value: &[u64]) {
        if let Some(Place::Group { group, set }) = self.places[number as usize] {
            let group = &mut self.groups[group];
            let hash = group.hash.of_key(value);
            self.stuck += usize::from(!group.filter.remove(hash, set));
        }
    }

    /// Notes that rules, and perhaps sub-tables, are gone; reforms the groups if that frees
    /// enough.
    pub(super) fn settle(&mut self, rules: &TupleSpace) {
        for (number, place) in self.places.iter_mut().enumerate() {
            if rules.has_subtable(number as u32) {
                continue;
            }
            if let Some(Place::Group { group, set }) = place.take() {
                self.groups[group].members[set].number = GONE;
            }
        }
        self.open.retain(|member| rules.has_subtable(member.number));
        let few = rules.rule_count() * 4 < self.formed_for;
        if few || self.stuck > self.formed_for / 4 + 16 {
            self.form(rules);
        }
    }

    /// Places a new sub-table in a group whose mask is part of its mask, or in none.
    fn join(&mut self, rules: &TupleSpace, number: u32) -> Place {
        let words = &rules.subtable(number).staged.words;
        let fits = |group: &Group| {
            let has_room = group.members.len() < group.filter.sets();
            has_room && is_within(&group.mask, words)
        };
        let fitting = self
            .groups
            .iter()
            .enumerate()
            .filter(|(_, group)| fits(group));
        let widest = fitting.max_by_key(|(_, group)| bits(&group.mask));
        let member = Member {
            number,
            highest: Precedence::LOWEST,
        };
        let place = match widest.map(|(group, _)| group) {
            Some(group) => {
                let members = &mut self.groups[group].members;
                members.push(member);
                Place::Group {
                    group,
                    set: members.len() - 1,
                }
            }
            None => {
                self.has_newcomers = true;
                self.open.push(member);
                Place::Open
            }
        };
        self.places[number as usize] = Some(place);
        place
    }

    /// Forms the groups and fills their filters.
    fn form(&mut self, rules: &TupleSpace) {
        let (plans, open) = plan(rules);
        self.formed_for = rules.rule_count();
        (self.inserted, self.stuck, self.has_newcomers) = (0, 0, false);
        self.open = open;
        self.places.clear();
        self.places.resize(rules.numbers_end(), None);
        self.places.shrink_to_fit();
        for member in &self.open {
            self.places[member.number as usize] = Some(Place::Open);
        }
        let total = self.formed_for.max(1);
        let groups = plans.into_iter().map(|plan| {
            // Room for twice as many rules and half as many sub-tables more.
            let share = plan.rules as f64 / total as f64;
            let size_bytes_max = (self.size_bytes_max as f64 * share) as usize;
            let filter = VectorFilter::new(VectorFilterConfig {
                sets: (plan.members.len() * 3 / 2).clamp(8, MEMBERS_MAX),
                keys: plan.rules * 2,
                size_bytes_max: size_bytes_max.max(SMALLEST_BYTES),
                counting: true,
                ages: false,
                seed: 0,
            });
            Group {
                hash: ValueHash::new(&MaskedWords::new(&plan.mask), self.hash),
                mask: plan.mask,
                filter,
                highest: plan.members[0].highest,
                members: plan.members,
            }
        });
        self.groups = groups.collect();
        self.groups
            .sort_by_key(|group| std::cmp::Reverse(group.highest));
        for (number, group) in self.groups.iter().enumerate() {
            for (set, member) in group.members.iter().enumerate() {
                self.places[member.number as usize] = Some(Place::Group { group: number, set });
                fill(group, set, rules.subtable(member.number));
            }
        }
    }

    /// The statistics of all filters together.
    pub(super) fn statistics(&self) -> FilterStatistics {
        let groups = self.groups.iter().map(|group| group.filter.statistics());
        groups.fold(FilterStatistics::default(), FilterStatistics::and)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let groups = self.groups.iter().map(|group| {
            let lists = group.hash.heap_bytes() + size_of_val(&*group.mask);
            lists + group.members.capacity() * size_of::<Member>() + group.filter.size_bytes()
        });
        groups.sum::<usize>()
            + self.groups.capacity() * size_of::<Group>()
            + self.open.capacity() * size_of::<Member>()
            + self.places.capacity() * size_of::<Option<Place>>()
    }
}

impl Group {
    /// The sub-tables of these sets.
    #[inline(always)]
    pub(super) fn members_of(&self, sets: u64) -> impl Iterator<Item = Member> + '_ {
        let members = bits_of(sets).map(|set| self.members[set as usize]);
        members.filter(|member| member.number != GONE)
    }
}

/// Enough for one block with counters.
const SMALLEST_BYTES: usize = 5 * 64;

/// A planned group.
struct Plan {
    mask: Box<[u64]>,
    members: Vec<Member>,
    rules: usize,
}

/// Decides which sub-tables form groups, and which have none.
fn plan(rules: &TupleSpace) -> (Vec<Plan>, Vec<Member>) {
    let mut by_rules: Vec<(u32, Precedence)> = rules.ranking().collect();
    by_rules.sort_by_key(|&(number, _)| std::cmp::Reverse(rules.subtable(number).len()));
    let (mut plans, mut open): (Vec<Plan>, Vec<Member>) = Default::default();
    for (number, highest) in by_rules {
        let subtable = rules.subtable(number);
        let mut mask = vec![0; rules.words()];
        subtable
            .staged
            .words
            .add_to(0..subtable.staged.words.len(), &mut mask);
        let own = bits(&mask);
        let shared = |plan: &Plan| {
            let words = plan.mask.iter().zip(&mask);
            words.map(|(a, b)| (a & b).count_ones()).sum::<u32>()
        };
        let fits = |plan: &&mut Plan| {
            let is_alike = shared(plan) * 2 >= own.max(bits(&plan.mask));
            is_alike && plan.members.len() < MEMBERS_MAX
        };
        let best = plans
            .iter_mut()
            .filter(fits)
            .max_by_key(|plan| shared(plan));
        let member = Member { number, highest };
        if let Some(plan) = best {
            plan.mask
                .iter_mut()
                .zip(&mask)
                .for_each(|(shared, own)| *shared &= own);
            plan.members.push(member);
            plan.rules += subtable.len();
        } else if plans.len() < GROUPS_MAX && own > 0 {
            let (mask, rules) = (mask.into(), subtable.len());
            plans.push(Plan {
                mask,
                members: vec![member],
                rules,
            });
        } else {
            open.push(member);
        }
    }
    for plan in &mut plans {
        plan.members
            .sort_by_key(|member| std::cmp::Reverse(member.highest));
    }
    open.sort_by_key(|member| std::cmp::Reverse(member.highest));
    (plans, open)
}

/// Puts all rules of a sub-table into a group's filter.
fn fill(group: &Group, set: usize, subtable: &crate::tuple_space::Subtable) {
    let mut value = [0; MAX_WORDS];
    for record in 0..subtable.len() {
        subtable
            .staged
            .words
            .expand(subtable.value(record as u32), &mut value);
        group.filter.put(group.hash.of_key(&value), set);
    }
}

fn bits(mask: &[u64]) -> u32 {
    mask.iter().map(|word| word.count_ones()).sum()
}

/// Whether `words` has all bits of `mask`.
fn is_within(mask: &[u64], words: &MaskedWords) -> bool {
    let inside: u32 = words
        .iter()
        .map(|(word, own)| (mask[word] & own).count_ones())
        .sum();
    inside == bits(mask)
}
