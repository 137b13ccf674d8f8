//! Assigns handles as simple_switch does.
//!
//! A new item takes the lowest free place. Each place counts how often it has been vacated, up
//! to 255; the handles of entries have this count above the place (`entries`).

use std::collections::BTreeSet;

/// Items with handles, by place.
#[derive(Clone, Debug)]
pub(super) struct Handles<T> {
    places: Vec<Place<T>>,
    free: BTreeSet<u32>,
}

/// A place, and how often it has been vacated.
#[derive(Clone, Debug)]
struct Place<T> {
    left: u8,
    taken: Option<T>,
}

impl<T> Default for Handles<T> {
    fn default() -> Handles<T> {
        Handles {
            places: Vec::new(),
            free: BTreeSet::new(),
        }
    }
}

impl<T> Handles<T> {
    /// The place that the next item will take.
    pub(super) fn next(&self) -> u32 {
        let free = self.free.first().copied();
        free.unwrap_or(self.places.len() as u32)
    }

    pub(super) fn insert(&mut self, what: T) {
        match self.free.pop_first() {
            Some(place) => self.places[place as usize].taken = Some(what),
            None => self.places.push(Place {
                left: 0,
                taken: Some(what),
            }),
        }
    }

    pub(super) fn get(&self, place: u32) -> Option<&T> {
        self.places.get(place as usize)?.taken.as_ref()
    }

    pub(super) fn get_mut(&mut self, place: u32) -> Option<&mut T> {
        self.places.get_mut(place as usize)?.taken.as_mut()
    }

    /// How often a place has been vacated.
    pub(super) fn left(&self, place: u32) -> u8 {
        self.places.get(place as usize).map_or(0, |one| one.left)
    }

    pub(super) fn remove(&mut self, place: u32) {
        let one = &mut self.places[place as usize];
        one.taken = None;
        one.left = one.left.wrapping_add(1);
        self.free.insert(place);
    }

    /// All items, in the order of their places.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.places.iter().filter_map(|place| place.taken.as_ref())
    }
}
