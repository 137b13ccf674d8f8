//! Walks of affected entries, made elsewhere.
//!
//! Most of a repair is the walk of the entry's key at the new version, and the note of what that
//! read. Neither needs the caches: a walk needs the key, the rules, and the record of what entries
//! depend on. So a worker need not make them:
//!
//! ```text
//!   worker                          control side
//!   marks entries, moves to v+1
//!   keys of marked entries ------->  walks each, notes in the record what it read
//!   gives each its new content <---  what the walks have come to
//! ```
//!
//! Meanwhile the worker forwards; a packet that meets a marked entry is an upcall, as ever, and the
//! entry that this makes is not the marked one. On OF-DPA some three quarters of a repair are made
//! elsewhere.
//!
//! 1. A walk is of the version that the caches have when they take it: the next change begins when
//!    this one is settled.
//! 2. The record is written for an entry only if it has the path with which the search of this
//!    change came by. One that was evicted meanwhile, or is another, has none or a new one; if the
//!    worker has noted and not yet written that, what it writes comes later and stands.
//! 3. What could not be walked elsewhere is walked by the worker: an entry of a packet that was
//!    looked up before, one that was made since the search, one whose walk leads to another pass.

use std::collections::VecDeque;

use thalweg_classifier::Version;
use thalweg_classifier::hash::WordHash;
use thalweg_pipeline::{Pipeline, Translation, Walker};

use crate::dependency::Index;
use crate::entry::{Credit, EntryId};
use crate::intern::Hashed;
use crate::upcall::{Again, Content, lookups_of};

/// Entries that a datapath asks to be walked, with their keys.
#[derive(Debug)]
pub struct Requests {
    version: Version,
    key_words: usize,
    /// Of lists that entries share.
    hash: WordHash,
    /// With their places among the marked entries, and the bits that their masks may have.
    entries: Vec<(usize, EntryId, u32)>,
    keys: Vec<u64>,
}

impl Requests {
    /// With room for `count` entries.
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

/// What a walk has come to.
#[derive(Debug)]
pub(super) struct Walk {
    pub(super) place: usize,
    pub(super) content: Content,
}

/// What the walks of some entries have come to.
#[derive(Debug)]
pub struct Walks {
    version: Version,
    walks: VecDeque<Walk>,
}

impl Walks {
    pub(super) fn version(&self) -> Version {
        self.version
    }

    /// In the order of their places.
    pub(super) fn into_walks(self) -> VecDeque<Walk> {
        self.walks
    }
}

impl Index {
    /// Walks the entries that a datapath asks for, and notes what the walks read.
    ///
    /// The record is held for one entry at a time.
    ///
    /// # Panics
    /// If the pipeline has another layout than the datapath that asked.
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
