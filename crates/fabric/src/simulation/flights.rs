//! Packets under way, by index, in one list with a list of free places.
//!
//! It is what the crate `slab` does, but for one thing: a place can be asked for ahead of time, so
//! that it is in the processor's cache when its event comes ([`Flights::ask`]). That needs the list
//! as a slice.
//!
//! 1. `len` = places - free ones; a place that is free is not read.

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

    /// Puts a packet where the last one was that is gone: its place is near.
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

    /// Takes a packet out, which is there.
    #[inline]
    pub(super) fn remove(&mut self, place: usize) {
        self.free.push(place as u32);
    }

    /// Has the start of a place brought nearer, with what a switch without a cache needs.
    #[inline]
    pub(super) fn ask(&self, place: u32) {
        prefetch_index(&self.all, place as usize);
    }

    /// Has all of a place brought nearer.
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
