//! The rules in iSets: their ids and lifetimes, separate from their patterns.
//!
//! ```text
//!   slot 0 1 2 3 ...   the best rule first: the lower slot wins, in every iSet
//!   slot -> precedence, id, iSet          (16 bytes: what lookups read)
//!   slot -> born, died, home              (24 bytes: what changes read, and lookups of rules that
//!                                          do not exist at every version)
//! ```
//!
//! A training leaves vacant slots behind the rules of each priority. A later rule is the
//! youngest of its priority, so it is worse than all of these and better than those of the
//! next priority.
//!
//! 1. Precedence falls with the slot number, vacant slots included. Two slots have the same
//!    precedence only if their rules never exist at the same version.
//! 2. `places` has the ids of all slots that are not vacant.

use super::lane::Lane;
use super::limits::NO_SLOT;
use crate::places::{Place, Places};
use crate::{Precedence, RuleId, Version};

/// The number of rules of a priority for each vacant slot behind them.
const RULES_PER_SPARE: usize = 4;

/// The most rules that are shifted by one slot to make room for a new one.
const MOVED_MAX: usize = 16;

/// Room for a new rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Room {
    /// The vacant slot.
    pub(super) vacant: u32,
    /// The new rule's slot; all rules between it and the vacant slot shift by one.
    pub(super) slot: u32,
}

impl Room {
    /// The moves that free the slot, from and to, in order.
    pub(super) fn moves(self) -> impl Iterator<Item = (u32, u32)> {
        let (count, is_up) = (self.vacant.abs_diff(self.slot), self.vacant > self.slot);
        (0..count).map(move |step| match is_up {
            true => (self.vacant - step - 1, self.vacant - step),
            false => (self.vacant + step + 1, self.vacant + step),
        })
    }
}

/// A rule without its pattern.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) precedence: Precedence,
    pub(super) id: RuleId,
    /// The rule's iSet.
    pub(super) iset: u8,
    pub(super) is_vacant: bool,
    /// Whether the rule has copies besides its home.
    pub(super) has_copies: bool,
}

/// The lifetime of a rule, and its lane.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fate {
    /// The version of birth; for a settled birth, any settled version.
    pub(super) born: Version,
    /// The first version at which it no longer exists.
    pub(super) died: Version,
    /// The lane of the rule, or of its first copy.
    pub(super) home: Lane,
}

impl Fate {
    const FRESH: Fate = Fate {
        born: Version::FIRST,
        died: Version::NEVER,
        home: Lane::NONE,
    };
}

/// All slots.
#[derive(Clone, Debug)]
pub(super) struct Slots {
    slots: Vec<Slot>,
    fates: Vec<Fate>,
    places: Places,
    /// The last slot that became vacant, for a rule that only changes its pattern.
    lately_vacant: u32,
    /// The number of vacant slots still due, times [`RULES_PER_SPARE`].
    spare: usize,
    /// The number of rules of the last priority so far.
    of_priority: usize,
}

impl Slots {
    /// Creates an empty list; `places` must be empty.
    pub(super) fn new(places: Places) -> Slots {
        Slots {
            slots: Vec::new(),
            fates: Vec::new(),
            places,
            lately_vacant: NO_SLOT,
            spare: 0,
            of_priority: 0,
        }
    }

    /// Adds a rule that is worse than all before it; returns its slot.
    pub(super) fn push(&mut self, precedence: Precedence, id: RuleId, iset: u8) -> u32 {
        if let Some(last) = self.slots.last()
            && last.precedence.priority() != precedence.priority()
        {
            self.push_spares();
        }
        debug_assert!(
            self.slots
                .last()
                .is_none_or(|last| last.precedence > precedence)
        );
        let slot = self.end();
        self.slots.push(Slot {
            precedence,
            id,
            iset,
            is_vacant: false,
            has_copies: false,
        });
        self.fates.push(Fate::FRESH);
        self.of_priority += 1;
        self.enter(slot);
        slot
    }

    /// Leaves vacant slots behind the rules of the last priority.
    pub(super) fn push_spares(&mut self) {
        let Some(last) = self.slots.last() else {
            return;
        };
        self.spare += self.of_priority;
        self.of_priority = 0;
        let (priority, lowest) = (last.precedence.priority(), last.precedence);
        let wanted = (self.spare / RULES_PER_SPARE) as u64;
        // The last possible ages; no rule is as young as these.
        for left in (0..wanted).rev() {
            let precedence = Precedence::youngest(priority, left);
            if precedence >= lowest {
                break;
            }
            self.spare -= RULES_PER_SPARE;
            self.slots.push(Slot {
                precedence,
                id: RuleId(u32::MAX),
                iset: 0,
                is_vacant: true,
                has_copies: false,
            });
            self.fates.push(Fate::FRESH);
        }
    }

    /// Finds a vacant slot for a new rule between the better and the worse rules, or near.
    ///
    /// In the latter case the rules between can shift by one.
    pub(super) fn room_for(&self, precedence: Precedence) -> Option<Room> {
        let slots = &self.slots;
        let slot = self.lately_vacant;
        let lately = slots.get(slot as usize).filter(|other| other.is_vacant);
        if lately.is_some_and(|other| other.precedence == precedence) {
            return Some(Room { vacant: slot, slot });
        }
        let place = slots.partition_point(|other| other.precedence > precedence);
        // Finds the first vacant slot from here, up or down.
        let nearest = |slots: &mut dyn Iterator<Item = (usize, &Slot)>| {
            let mut slots = slots.take(MOVED_MAX + 1);
            let found = slots.find(|(_, slot)| slot.is_vacant || slot.has_copies);
            found.filter(|(_, slot)| slot.is_vacant).map(|(at, _)| at)
        };
        let up = nearest(&mut slots.iter().enumerate().skip(place));
        let down = nearest(&mut slots[..place].iter().enumerate().rev());
        let is_up = match (up, down) {
            (Some(up), Some(down)) => up - place < place - down,
            (up, down) => {
                up.or(down)?;
                up.is_some()
            }
        };
        match (is_up, up, down) {
            (true, Some(vacant), _) => Some(Room {
                vacant: vacant as u32,
                slot: place as u32,
            }),
            (false, _, Some(vacant)) => Some(Room {
                vacant: vacant as u32,
                slot: place as u32 - 1,
            }),
            _ => None,
        }
    }

    /// Moves a rule to the vacant slot beside it, which leaves its own slot vacant.
    pub(super) fn relocate(&mut self, from: u32, to: u32) {
        debug_assert!(self.slots[to as usize].is_vacant && from.abs_diff(to) == 1);
        self.slots[to as usize] = self.slots[from as usize];
        self.fates[to as usize] = self.fates[from as usize];
        self.slots[from as usize].is_vacant = true;
        let id = self.slots[to as usize].id;
        self.places.relocate(id, place(from), place(to));
    }

    /// Puts a rule into a vacant slot that was found for its precedence.
    pub(super) fn occupy(
        &mut self,
        slot: u32,
        precedence: Precedence,
        id: RuleId,
        iset: u8,
        born: Version,
    ) {
        let place = slot as usize;
        debug_assert!(self.slots[place].is_vacant);
        self.slots[place] = Slot {
            precedence,
            id,
            iset,
            is_vacant: false,
            has_copies: false,
        };
        self.fates[place] = Fate {
            born,
            ..Fate::FRESH
        };
        debug_assert!(
            self.slots[place.saturating_sub(1)..][..2.min(place + 1)]
                .is_sorted_by(|one, other| one.precedence >= other.precedence)
        );
        self.enter(slot);
    }

    /// Makes a slot findable by its rule's id.
    fn enter(&mut self, slot: u32) {
        let slots = &self.slots;
        let id = slots[slot as usize].id;
        self.places
            .insert(id, place(slot), |place| slots[place.record as usize].id);
    }

    /// The number of rules, at any version.
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// The number of slots, vacant or not.
    pub(super) fn end(&self) -> u32 {
        self.slots.len() as u32
    }

    #[inline(always)]
    pub(super) fn get(&self, slot: u32) -> &Slot {
        &self.slots[slot as usize]
    }

    #[inline(always)]
    pub(super) fn fate(&self, slot: u32) -> &Fate {
        &self.fates[slot as usize]
    }

    #[inline(always)]
    pub(super) fn prefetch(&self, slot: u32) {
        crate::simd::prefetch(&self.slots, slot as usize);
    }

    /// Whether a rule, which is not vacant, exists at a version.
    #[inline(always)]
    pub(super) fn exists_at(&self, slot: u32, version: Version) -> bool {
        let fate = self.fate(slot);
        fate.born <= version && version < fate.died
    }

    pub(super) fn find(&self, id: RuleId) -> Option<u32> {
        let found = self
            .places
            .find(id, |place| self.slots[place.record as usize].id);
        found.map(|place| place.record)
    }

    /// Records the lane of a rule, or of another copy of it.
    pub(super) fn add_lane(&mut self, slot: u32, lane: Lane) {
        let home = &mut self.fates[slot as usize].home;
        if *home == Lane::NONE {
            *home = lane;
        } else {
            self.slots[slot as usize].has_copies = true;
        }
    }

    /// Records that a rule, or a copy of it, moved to another lane.
    pub(super) fn move_lane(&mut self, slot: u32, from: Lane, to: Lane) {
        let home = &mut self.fates[slot as usize].home;
        if *home == from {
            *home = to;
        }
    }

    pub(super) fn set_died(&mut self, slot: u32, died: Version) {
        self.fates[slot as usize].died = died;
    }

    /// Forgets a rule.
    pub(super) fn vacate(&mut self, slot: u32) {
        let slots = &self.slots;
        let id = slots[slot as usize].id;
        let place = self
            .places
            .remove(id, |place| slots[place.record as usize].id);
        debug_assert_eq!(place.map(|place| place.record), Some(slot));
        self.slots[slot as usize].is_vacant = true;
        self.lately_vacant = slot;
    }

    /// The slots that are not vacant, best first.
    pub(super) fn occupied(&self) -> impl Iterator<Item = (u32, &Slot, &Fate)> {
        let slots = (0..).zip(&self.slots).zip(&self.fates);
        let slots = slots.map(|((number, slot), fate)| (number, slot, fate));
        slots.filter(|(_, slot, _)| !slot.is_vacant)
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>()
            + self.fates.capacity() * size_of::<Fate>()
            + self.places.heap_bytes()
    }
}

fn place(slot: u32) -> Place {
    Place {
        subtable: 0,
        record: slot,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::WordHash;

    fn precedence(priority: u16, age: u64) -> Precedence {
        Precedence::new(priority, age)
    }

    /// Eight rules of priority 9, one of 7, eight of 5.
    fn slots() -> Slots {
        let mut slots = Slots::new(Places::new(WordHash::new(1)));
        let rules = (0..8).map(|age| (9, age));
        let rules = rules.chain([(7, 8)]).chain((9..17).map(|age| (5, age)));
        for (id, (priority, age)) in (0..).zip(rules) {
            slots.push(precedence(priority, age), RuleId(id), 0);
        }
        slots.push_spares();
        slots
    }

    /// Inserts a rule and checks the order; returns its slot and the number of moved rules.
    fn put(slots: &mut Slots, precedence: Precedence, id: u32) -> Option<(u32, usize)> {
        let room = slots.room_for(precedence)?;
        for (from, to) in room.moves() {
            slots.relocate(from, to);
        }
        slots.occupy(room.slot, precedence, RuleId(id), 0, Version(3));
        let all = (0..slots.end()).map(|slot| slots.get(slot).precedence);
        assert!(all.is_sorted_by(|one, other| one >= other));
        for (slot, rule, _) in slots.occupied() {
            assert_eq!(slots.find(rule.id), Some(slot));
        }
        Some((room.slot, room.moves().count()))
    }

    #[test]
    fn younger_rules_come_behind_those_of_their_priority() {
        let mut slots = slots();
        assert_eq!(slots.end(), 8 + 2 + 1 + 8 + 2);
        assert_eq!(put(&mut slots, precedence(9, 100), 50), Some((8, 0)));
        assert_eq!(put(&mut slots, precedence(9, 101), 51), Some((9, 0)));
        assert!(!slots.exists_at(9, Version(2)) && slots.exists_at(9, Version(3)));
        // Priority 7 had too few rules for a vacant slot: all rules of priority 5 shift.
        assert_eq!(put(&mut slots, precedence(7, 103), 53), Some((11, 8)));
        assert_eq!(put(&mut slots, precedence(5, 104), 54), Some((20, 0)));
        assert_eq!(
            put(&mut slots, precedence(5, 105), 55),
            None,
            "there is no slot left"
        );
        assert_eq!(slots.len(), 17 + 4);
    }

    #[test]
    fn a_slot_is_used_again_by_whoever_belongs_there() {
        let mut slots = slots();
        slots.vacate(3);
        assert_eq!(put(&mut slots, precedence(9, 3), 50), Some((3, 0)));
        slots.vacate(10);
        assert_eq!(put(&mut slots, precedence(7, 200), 51), Some((10, 0)));
        // A rule that replaces a dying one.
        slots.set_died(18, Version(4));
        assert_eq!(put(&mut slots, precedence(5, 16), 52), Some((18, 1)));
        assert_eq!(
            put(&mut slots, precedence(8, 0), 53),
            Some((9, 0)),
            "between two priorities"
        );
        // The nearest vacant slot is a better one: the rules between move up.
        slots.vacate(12);
        assert_eq!(
            put(&mut slots, precedence(5, 13), 54).map(|(_, moved)| moved),
            Some(2)
        );
    }

    #[test]
    fn rules_with_copies_are_not_moved() {
        let mut slots = slots();
        let lane = |lane| Lane::new(0, lane);
        slots.add_lane(10, lane(1));
        slots.add_lane(10, lane(2));
        slots.add_lane(11, lane(3));
        slots.add_lane(11, lane(4));
        assert_eq!(slots.room_for(precedence(7, 200)), None);
        assert!(slots.room_for(precedence(7, 0)).is_some());
    }
}
