//! Which port has the most stations: a binary heap of ports whose counts change.
//!
//! 1. No member has more stations than its parent: the one at `(place - 1) / 2`.
//! 2. `places` says where each port is.

use std::collections::BTreeMap;

use thalweg_packet::PortId;

/// Ports with stations, by their number.
#[derive(Debug, Default)]
pub(super) struct Fullest {
    heap: Vec<(usize, PortId)>,
    places: BTreeMap<PortId, usize>,
}

impl Fullest {
    /// A port with the most stations.
    pub(super) fn first(&self) -> Option<PortId> {
        self.heap.first().map(|(_, port)| *port)
    }

    /// Sets how many stations a port has.
    pub(super) fn set(&mut self, port: PortId, count: usize) {
        match (self.places.get(&port).copied(), count) {
            (None, 0) => {}
            (None, _) => {
                self.places.insert(port, self.heap.len());
                self.heap.push((count, port));
                self.rise(self.heap.len() - 1);
            }
            (Some(place), 0) => {
                self.places.remove(&port);
                self.heap.swap_remove(place);
                if let Some((_, moved)) = self.heap.get(place) {
                    self.places.insert(*moved, place);
                    self.rise_or_sink(place);
                }
            }
            (Some(place), _) => {
                self.heap[place].0 = count;
                self.rise_or_sink(place);
            }
        }
    }

    fn rise_or_sink(&mut self, place: usize) {
        if self.rise(place) == place {
            self.sink(place);
        }
    }

    /// Moves a member up to where it belongs; returns that place.
    fn rise(&mut self, mut place: usize) -> usize {
        while place > 0 {
            let parent = (place - 1) / 2;
            if self.heap[parent].0 >= self.heap[place].0 {
                break;
            }
            self.swap(parent, place);
            place = parent;
        }
        place
    }

    /// Moves a member down to where it belongs.
    fn sink(&mut self, mut place: usize) {
        loop {
            let mut fullest = place;
            for child in [2 * place + 1, 2 * place + 2] {
                let count = self.heap.get(child).map(|(count, _)| *count);
                if count.is_some_and(|count| count > self.heap[fullest].0) {
                    fullest = child;
                }
            }
            if fullest == place {
                return;
            }
            self.swap(fullest, place);
            place = fullest;
        }
    }

    fn swap(&mut self, one: usize, other: usize) {
        self.heap.swap(one, other);
        for place in [one, other] {
            self.places.insert(self.heap[place].1, place);
        }
    }

    /// The counts of all ports, after a check of both invariants.
    #[cfg(test)]
    pub(super) fn checked(&self) -> BTreeMap<PortId, usize> {
        for (place, (count, port)) in self.heap.iter().enumerate() {
            assert!(place == 0 || self.heap[(place - 1) / 2].0 >= *count);
            assert_eq!(self.places.get(port), Some(&place));
        }
        assert_eq!(self.places.len(), self.heap.len());
        self.heap
            .iter()
            .map(|(count, port)| (*port, *count))
            .collect()
    }
}
