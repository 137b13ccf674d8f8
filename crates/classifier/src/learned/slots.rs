//! The rules that iSets have: who they are and when they end, apart from what they match.
//!
//! ```text
//!   slot 0 1 2 3 ...   the best rule first: the lower slot wins, in every iSet
//!   slot -> precedence, died, id, home       (32 bytes)
//! ```
//!
//! All rules were born, and their births settled, before they came here: so a slot has no birth.
//!
//! 1. Precedence falls strictly with the slot number.
//! 2. A slot is used once; when its rule is reclaimed it is vacant until the next training.
//! 3. `places` has the ids of all slots that are not vacant.

use super::groups::Lane;
use crate::places::{Place, Places};
use crate::{Precedence, RuleId, Version};

/// No slot.
pub(super) const NO_SLOT: u32 = u32::MAX;

/// A rule, without what it matches.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) precedence: Precedence,
    /// From which version on it does not exist.
    pub(super) died: Version,
    pub(super) id: RuleId,
    /// Where it is, or its first copy.
    pub(super) home: Lane,
    /// The iSet that has it.
    pub(super) iset: u8,
    pub(super) is_vacant: bool,
}

/// All of them.
#[derive(Clone, Debug)]
pub(super) struct Slots {
    slots: Vec<Slot>,
    places: Places,
}

impl Slots {
    /// No slots; `places` is empty.
    pub(super) fn new(places: Places) -> Slots {
        Slots {
            slots: Vec::new(),
            places,
        }
    }

    /// Adds a rule that is worse than all before it.
    pub(super) fn push(&mut self, precedence: Precedence, id: RuleId, iset: u8) {
        debug_assert!(
            self.slots
                .last()
                .is_none_or(|last| last.precedence > precedence)
        );
        self.slots.push(Slot {
            precedence,
            died: Version::NEVER,
            id,
            home: Lane::NONE,
            iset,
            is_vacant: false,
        });
        let place = place(self.slots.len() as u32 - 1);
        let slots = &self.slots;
        self.places
            .insert(id, place, |place| slots[place.record as usize].id);
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
    pub(super) fn prefetch(&self, slot: u32) {
        crate::simd::prefetch(&self.slots, slot as usize);
    }

    /// Whether a rule, which is not vacant, exists at a version.
    #[inline(always)]
    pub(super) fn exists_at(&self, slot: u32, version: Version) -> bool {
        version < self.get(slot).died
    }

    pub(super) fn find(&self, id: RuleId) -> Option<u32> {
        let found = self
            .places
            .find(id, |place| self.slots[place.record as usize].id);
        found.map(|place| place.record)
    }

    /// Says where a rule is, unless that is known.
    pub(super) fn set_home(&mut self, slot: u32, lane: Lane) {
        let home = &mut self.slots[slot as usize].home;
        if *home == Lane::NONE {
            *home = lane;
        }
    }

    pub(super) fn set_died(&mut self, slot: u32, died: Version) {
        self.slots[slot as usize].died = died;
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
    }

    /// The slots that are not vacant, the best first.
    pub(super) fn occupied(&self) -> impl Iterator<Item = (u32, &Slot)> {
        (0..).zip(&self.slots).filter(|(_, slot)| !slot.is_vacant)
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>() + self.places.heap_bytes()
    }
}

fn place(slot: u32) -> Place {
    Place {
        subtable: 0,
        record: slot,
    }
}
