//! Walks of affected entries, made on another thread.
//!
//! Most of a repair is the walk of the entry's key at the new version, and recording what that
//! read. Neither needs the caches: a walk needs the key, the rules, and the dependency record.
//! So the control side can make the walks:
//!
//! ```text
//!   worker                          control side
//!   marks entries, moves to v+1
//!   keys of marked entries ------->  walks each, notes in the record what it read
//!   gives each its new content <---  what the walks have come to
//! ```
//!
//! Meanwhile the worker forwards. A packet that meets a marked entry is an upcall, as always,
//! and makes an entry of its own. On OF-DPA about three quarters of a repair can be done
//! elsewhere.
//!
//! 1. A walk is of the version of the caches when they accept it: the next change begins when
//!    this one is settled.
//! 2. The record is written for an entry only if the entry still has the path that this
//!    change's search saw. An entry evicted or replaced meanwhile has no path or a new one. If
//!    the worker has noted an update that it has not yet written, that is written later and
//!    stands.
//! 3. The worker itself walks what cannot be walked elsewhere: an entry of a recirculated
//!    packet, one made since the search, one whose walk leads to another pass.

use std::collections::VecDeque;

use thalweg_classifier::Version;
use thalweg_classifier::hash::WordHash;
use thalweg_pipeline::{Pipeline, Translation, Walker};

use crate::content::Content;
use crate::dependency::Index;
use crate::entry::{Credit, EntryId};
use crate::intern::Hashed;
use crate::upcall::{Again, lookups_of};

/// Entries that a datapath wants walked, with their keys.
#[derive(Debug)]
pub struct Requests {
    version: Version,
    key_words: usize,
    /// The hash function for shared lists.
    hash: WordHash,
    /// For each: its place among the marked entries, and the most bits allowed in its mask.
    entries: Vec<(usize, EntryId, u32)>,
    keys: Vec<u64>,
}

impl Requests {
    /// Creates requests with room for `count` entries.
    pub(super) fn new(
        version: Version,
        key_words: usize,
        hash: WordHash,
        count: usize,
    ) -> Requests {
        Requests {
            version,
            key_words,
            hash,
            entries: Vec::with_capacity(count),
            keys: Vec::with_capacity(count * key_words),
        }
    }

    /// Adds an entry, if its key is given.
    pub(super) fn add(
        &mut self,
        entry: (usize, EntryId, u32),
        give_key: impl FnOnce(&mut Vec<u64>) -> bool,
    ) {
        if give_key(&mut self.keys) {
            self.entries.push(entry);
        }
    }
}

/// The result of one walk.
#[derive(Debug)]
pub(super) struct Walk {
    pub(super) place: usize,
    pub(super) content: Content,
}

/// The results of several walks.
#[derive(Debug)]
pub struct Walks {
    version: Version,
    walks: VecDeque<Walk>,
}

impl Walks {
    pub(super) fn version(&self) -> Version {
        self.version
    }

    /// The walks, in the order of their places.
    pub(super) fn into_walks(self) -> VecDeque<Walk> {
        self.walks
    }
}

impl Index {
    /// Walks the requested entries, and records what the walks read.
    ///
    /// Locks the record for one entry at a time.
    ///
    /// # Panics
    /// If the pipeline has another layout than the datapath that requested the walks.
    pub fn walk(&self, walker: &mut Walker, pipeline: &Pipeline, requests: &Requests) -> Walks {
        let version = requests.version;
        let keys = requests.keys.chunks_exact(requests.key_words);
        let mut walks = VecDeque::with_capacity(requests.entries.len());
        for ((place, entry, mask_limit), key) in requests.entries.iter().zip(keys) {
            let mut record = self.lock();
            // Invariant 2.
            if !record.is_as_found(*entry) {
                continue;
            }
            let again = Again {
                entry: *entry,
                mask_limit: *mask_limit,
            };
            let (translation, known) = again.walk(walker, &record, pipeline, key, (None, version));
            let is_anew = known.is_anew;
            let Translation {
                mut mask,
                effects,
                trace,
                continuations,
                ..
            } = translation;
            if !continuations.is_empty() {
                walker.recycle(trace, mask, effects);
                continue;
            }
            record.set(*entry, &trace, &known);
            drop(record);
            mask.resize(requests.key_words, 0);
            let content = Content {
                mask,
                effects: Hashed::new(effects, requests.hash),
                credits: Hashed::new(Credit::of(&trace), requests.hash),
                lookups: lookups_of(&trace),
                recalled: known.recalled,
                is_anew,
                read: None,
            };
            walker.recycle(trace, Vec::new(), Vec::new());
            walks.push_back(Walk {
                place: *place,
                content,
            });
        }
        Walks { version, walks }
    }
}
