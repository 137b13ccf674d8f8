//! Packets under way, by index: one list with a list of free places.
//!
//! It works like the crate `slab`, except that a place can be prefetched ([`Flights::ask`]),
//! so that it is in the processor's cache when its event comes. That needs the list as a
//! slice.
//!
//! 1. `len` = places - free places; a free place is never read.

use std::ops::{Index, IndexMut};

use prefetch_index::prefetch_index;

use super::Flight;

/// A line of the processor's cache.
const LINE_BYTES: usize = 64;

#[derive(Clone, Debug, Default)]
pub(super) struct Flights {
    all: Vec<Flight>,
    free: Vec<u32>,
}

impl Flights {
    pub(super) fn len(&self) -> usize {
        self.all.len() - self.free.len()
    }

    /// Inserts a packet in the place most recently freed, which is likely cached.
    #[inline]
    pub(super) fn insert(&mut self, flight: Flight) -> usize {
        match self.free.pop() {
            Some(place) => {
                self.all[place as usize] = flight;
                place as usize
            }
            None => {
                self.all.push(flight);
                self.all.len() - 1
            }
        }
    }

    /// Removes a packet, which must be present.
    #[inline]
    pub(super) fn remove(&mut self, place: usize) {
        self.free.push(place as u32);
    }

    /// Prefetches the start of a place: enough for a switch without a cache.
    #[inline]
    pub(super) fn ask(&self, place: u32) {
        prefetch_index(&self.all, place as usize);
    }

    /// Prefetches all of a place.
    #[inline]
    pub(super) fn ask_all(&self, place: u32) {
        let first = std::slice::from_ref(&self.all[place as usize].path);
        for line in 0..size_of::<Flight>() / LINE_BYTES {
            prefetch_index(first, line * (LINE_BYTES / size_of::<u64>()));
        }
    }
}

impl Index<usize> for Flights {
    type Output = Flight;

    #[inline]
    fn index(&self, place: usize) -> &Flight {
        &self.all[place]
    }
}

impl IndexMut<usize> for Flights {
    #[inline]
    fn index_mut(&mut self, place: usize) -> &mut Flight {
        &mut self.all[place]
    }
}
