//! The rules that iSets have: who they are and when they exist, apart from what they match.
//!
//! ```text
//!   slot 0 1 2 3 ...   the best rule first: the lower slot wins, in every iSet
//!   slot -> precedence, id, iSet          (16 bytes: what lookups read)
//!   slot -> born, died, home              (24 bytes: what changes read, and lookups of rules that
//!                                          do not exist at every version)
//! ```
//!
//! A training leaves slots vacant behind the rules of each priority: a rule that comes later is the
//! youngest of its priority, and so worse than all of these and better than those of the next.
//!
//! 1. Precedence falls with the slot number, vacant slots included. It is the same in two slots only
//!    if their rules exist together at no version.
//! 2. `places` has the ids of all slots that are not vacant.

use super::groups::Lane;
use crate::places::{Place, Places};
use crate::{Precedence, RuleId, Version};

/// No slot.
pub(super) const NO_SLOT: u32 = u32::MAX;

/// For how many rules of a priority one slot is left vacant.
const RULES_PER_SPARE: usize = 4;

/// Rules that are moved on by one, at most, to make room for one that comes.
const MOVED_MAX: usize = 16;

/// Room for a rule that comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Room {
    /// The slot that is vacant.
    pub(super) vacant: u32,
    /// The one that the rule is to have; all between it and the vacant one move on by one.
    pub(super) slot: u32,
}

impl Room {
    /// The moves that make the slot vacant, from and to, in order.
    pub(super) fn moves(self) -> impl Iterator<Item = (u32, u32)> {
        let (count, is_up) = (self.vacant.abs_diff(self.slot), self.vacant > self.slot);
        (0..count).map(move |step| match is_up {
            true => (self.vacant - step - 1, self.vacant - step),
            false => (self.vacant + step + 1, self.vacant + step),
        })
    }
}

/// A rule, without what it matches.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) precedence: Precedence,
    pub(super) id: RuleId,
    /// The iSet that has it.
    pub(super) iset: u8,
    pub(super) is_vacant: bool,
    /// Whether it has copies beside the one at home.
    pub(super) has_copies: bool,
}

/// When a rule exists, and where it lies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fate {
    /// From which version on it exists; a settled one may be any other settled one.
    pub(super) born: Version,
    /// From which version on it does not exist any more.
    pub(super) died: Version,
    /// Where it is, or its first copy.
    pub(super) home: Lane,
}

impl Fate {
    const FRESH: Fate = Fate {
        born: Version::FIRST,
        died: Version::NEVER,
        home: Lane::NONE,
    };
}

/// All of them.
#[derive(Clone, Debug)]
pub(super) struct Slots {
    slots: Vec<Slot>,
    fates: Vec<Fate>,
    places: Places,
    /// The slot that became vacant last, for a rule that only changes what it matches.
    lately_vacant: u32,
    /// Vacant slots that may yet be left behind rules, times [`RULES_PER_SPARE`].
    spare: usize,
    /// Rules of the last priority so far.
    of_priority: usize,
}

impl Slots {
    /// No slots; `places` is empty.
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

    /// Adds a rule that is worse than all before it; says which slot it has.
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

    /// Leaves slots vacant behind the rules of the last priority.
    pub(super) fn push_spares(&mut self) {
        let Some(last) = self.slots.last() else {
            return;
        };
        self.spare += self.of_priority;
        self.of_priority = 0;
        let (priority, lowest) = (last.precedence.priority(), last.precedence);
        let wanted = (self.spare / RULES_PER_SPARE) as u64;
        // The ages that come last; no rule is as young as these.
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

    /// Where there is a vacant slot for a rule that comes now: between those that are better and those
    /// that are worse, or near, with rules between that can be moved on by one.
    pub(super) fn room_for(&self, precedence: Precedence) -> Option<Room> {
        let slots = &self.slots;
        let slot = self.lately_vacant;
        let lately = slots.get(slot as usize).filter(|other| other.is_vacant);
        if lately.is_some_and(|other| other.precedence == precedence) {
            return Some(Room { vacant: slot, slot });
        }
        let place = slots.partition_point(|other| other.precedence > precedence);
        // The slots from here on, up or down, of which the first that is vacant is looked for.
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

    /// Moves a rule to the slot beside it, which is vacant; its own is vacant then.
    pub(super) fn relocate(&mut self, from: u32, to: u32) {
        debug_assert!(self.slots[to as usize].is_vacant && from.abs_diff(to) == 1);
        self.slots[to as usize] = self.slots[from as usize];
        self.fates[to as usize] = self.fates[from as usize];
        self.slots[from as usize].is_vacant = true;
        let id = self.slots[to as usize].id;
        self.places.relocate(id, place(from), place(to));
    }

    /// Puts a rule into a slot that was found for its precedence, and is vacant.
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

    /// Lets a slot be found by the id of its rule.
    fn enter(&mut self, slot: u32) {
        let slots = &self.slots;
        let id = slots[slot as usize].id;
        self.places
            .insert(id, place(slot), |place| slots[place.record as usize].id);
    }

    /// How many rules are there, at whichever version.
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// How many slots there are, vacant or not.
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

    /// Says where a rule lies, or another copy of it.
    pub(super) fn add_lane(&mut self, slot: u32, lane: Lane) {
        let home = &mut self.fates[slot as usize].home;
        if *home == Lane::NONE {
            *home = lane;
        } else {
            self.slots[slot as usize].has_copies = true;
        }
    }

    /// Says that a rule, or a copy of it, lies elsewhere.
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

    /// The slots that are not vacant, the best first.
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

    /// Puts a rule in; says where, and how many were moved for it, and checks that the order stays.
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
        // Of priority 7 there were too few for one to be left: all of priority 5 move on.
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
        // The one that takes the place of another, which is dying.
        slots.set_died(18, Version(4));
        assert_eq!(put(&mut slots, precedence(5, 16), 52), Some((18, 1)));
        assert_eq!(
            put(&mut slots, precedence(8, 0), 53),
            Some((9, 0)),
            "between two priorities"
        );
        // The nearest vacant one is better: those between move up in rank.
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
