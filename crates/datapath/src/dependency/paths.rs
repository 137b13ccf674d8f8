//! Paths: the nodes that each entry depends on, and its place among their dependents.
//!
//! Paths of equal length are stored side by side in one list, so that a path takes eight bytes
//! per node and no separate allocation.
//!
//! 1. A place in a list belongs to one path or is free.

use thalweg_classifier::simd::prefetch;

use crate::entry::EntryId;

use super::node_id::NodeId;

/// An entry's place among a node's dependents.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Edge {
    pub(super) node: NodeId,
    pub(super) place: u32,
}

/// Marks a missing path.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Path {
    /// Index among the paths of its length.
    row: u32,
    length: u32,
    /// The number of its traversal; `NONE` if there is no path.
    traversal: u32,
    /// The search that last found this path, or passed it (plus one); 0 if none did.
    found_by: u32,
}

/// The paths of one length.
#[derive(Clone, Debug, Default)]
struct Rows {
    edges: Vec<Edge>,
    free: Vec<u32>,
}

/// The paths, by entry.
#[derive(Clone, Debug, Default)]
pub(super) struct Paths {
    paths: Vec<Path>,
    /// Indexed by length.
    rows: Vec<Rows>,
    count: usize,
    /// The number of the last search; always even.
    search: u32,
}

impl Paths {
    /// Stores the path of an entry that has none.
    pub(super) fn insert(&mut self, entry: EntryId, edges: &[Edge], traversal: u32) {
        let empty = Path {
            row: NONE,
            length: 0,
            traversal: NONE,
            found_by: 0,
        };
        let place = entry.0 as usize;
        if self.paths.len() <= place {
            let more = place + 1 - self.paths.len();
            reserve(&mut self.paths, more);
            self.paths.resize(place + 1, empty);
        }
        if self.rows.len() <= edges.len() {
            self.rows.resize_with(edges.len() + 1, Rows::default);
        }
        debug_assert!(self.paths[place].traversal == NONE, "an entry has one path");
        let rows = &mut self.rows[edges.len()];
        let row = match rows.free.pop() {
            Some(row) => {
                let start = row as usize * edges.len();
                rows.edges[start..start + edges.len()].copy_from_slice(edges);
                row
            }
            None if edges.is_empty() => 0,
            None => {
                reserve(&mut rows.edges, edges.len());
                rows.edges.extend_from_slice(edges);
                (rows.edges.len() / edges.len()) as u32 - 1
            }
        };
        let path = &mut self.paths[place];
        (path.row, path.length, path.traversal) = (row, edges.len() as u32, traversal);
        path.found_by = 0;
        self.count += 1;
    }

    /// Removes an entry's path: sets `into` to its edges, and returns its traversal.
    pub(super) fn remove(&mut self, entry: EntryId, into: &mut Vec<Edge>) -> Option<u32> {
        into.clear();
        let path = *self.paths.get(entry.0 as usize)?;
        if path.traversal == NONE {
            return None;
        }
        into.extend_from_slice(self.edges(entry));
        if path.length > 0 {
            self.rows[path.length as usize].free.push(path.row);
        }
        let emptied = &mut self.paths[entry.0 as usize];
        (emptied.length, emptied.traversal, emptied.found_by) = (0, NONE, 0);
        self.count -= 1;
        Some(path.traversal)
    }

    /// The nodes that an entry depends on.
    pub(super) fn edges(&self, entry: EntryId) -> &[Edge] {
        let path = &self.paths[entry.0 as usize];
        let (start, length) = (
            path.row as usize * path.length as usize,
            path.length as usize,
        );
        &self.rows[length].edges[start..start + length]
    }

    /// Records an entry's new place among the dependents of a node.
    pub(super) fn set_place(&mut self, entry: EntryId, node: NodeId, place: u32) {
        let path = &self.paths[entry.0 as usize];
        let (start, length) = (
            path.row as usize * path.length as usize,
            path.length as usize,
        );
        let edges = &mut self.rows[length].edges[start..start + length];
        let edge = edges.iter_mut().find(|edge| edge.node == node);
        edge.expect("a dependent has an edge to its node").place = place;
    }

    /// The number of an entry's traversal.
    pub(super) fn traversal(&self, entry: EntryId) -> Option<u32> {
        let path = self.paths.get(entry.0 as usize)?;
        (path.traversal != NONE).then_some(path.traversal)
    }

    /// Begins a search; no entry has been found in it yet.
    pub(super) fn begin_search(&mut self) {
        self.search = self.search.wrapping_add(2);
        if self.search == 0 {
            self.paths.iter_mut().for_each(|path| path.found_by = 0);
            self.search = 2;
        }
    }

    /// Marks the entry as found; returns whether this search finds it for the first time.
    pub(super) fn is_first_find(&mut self, entry: EntryId) -> bool {
        let path = &mut self.paths[entry.0 as usize];
        std::mem::replace(&mut path.found_by, self.search) != self.search
    }

    /// Prefetches the path of an entry.
    pub(super) fn prefetch(&self, entry: EntryId) {
        prefetch(&self.paths, entry.0 as usize);
    }

    /// Whether this search has found the entry.
    pub(super) fn is_found(&self, entry: EntryId) -> bool {
        self.paths[entry.0 as usize].found_by == self.search
    }

    /// Marks an entry as passed, but not found, by this search.
    pub(super) fn pass(&mut self, entry: EntryId) {
        self.paths[entry.0 as usize].found_by = self.search | 1;
    }

    /// Whether the entry still has the path that it had when this search found or passed it.
    pub(super) fn is_as_found(&self, entry: EntryId) -> bool {
        let path = self.paths.get(entry.0 as usize);
        path.is_some_and(|path| path.found_by | 1 == self.search | 1)
    }

    /// The number of entries with a path.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Bytes of memory.
    pub(super) fn memory_bytes(&self) -> usize {
        let rows = self.rows.iter().map(|rows| {
            std::mem::size_of::<Rows>()
                + rows.edges.capacity() * std::mem::size_of::<Edge>()
                + rows.free.capacity() * 4
        });
        self.paths.capacity() * std::mem::size_of::<Path>() + rows.sum::<usize>()
    }
}

/// Makes room for more values, at least an eighth of the length, as these lists are large.
fn reserve<T>(list: &mut Vec<T>, more: usize) {
    if list.capacity() - list.len() < more {
        list.reserve_exact(more.max(list.len() / 8).max(16));
    }
}
