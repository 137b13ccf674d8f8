//! Walks that traces froze: a later trace goes on with one, by its `recirc_id`.

use std::collections::VecDeque;
use std::sync::Arc;

use thalweg_packet::Layout;
use thalweg_pipeline::Continuation;

/// Most walks that are kept; the oldest go.
const KEPT: usize = 256;

/// A walk that a trace froze.
#[derive(Clone, PartialEq, Debug)]
pub struct FrozenTrace {
    /// The rest of the walk.
    pub continuation: Arc<Continuation>,
    /// The layout of its registers.
    pub(super) layout: Arc<Layout>,
}

/// The walks that traces froze, by their numbers.
#[derive(Debug, Default)]
pub struct FrozenTraces {
    kept: VecDeque<(u32, FrozenTrace)>,
    last: u32,
}

impl FrozenTraces {
    /// The numbers of walks: that of an equal one, otherwise the next.
    pub fn numbers(&self, walks: &[FrozenTrace]) -> Vec<u32> {
        let mut last = self.last;
        let numbers = walks.iter().map(|walk| {
            let known = self.kept.iter().find(|(_, known)| {
                known.continuation == walk.continuation && Arc::ptr_eq(&known.layout, &walk.layout)
            });
            known.map_or_else(
                || {
                    last = last.wrapping_add(1).max(1);
                    last
                },
                |(number, _)| *number,
            )
        });
        numbers.collect()
    }

    /// Keeps walks under their numbers.
    pub fn keep(&mut self, walks: Vec<(u32, FrozenTrace)>) {
        for (number, walk) in walks {
            if self.get(number).is_some() {
                continue;
            }
            self.last = number;
            self.kept.push_back((number, walk));
            if self.kept.len() > KEPT {
                self.kept.pop_front();
            }
        }
    }

    /// The walk with this number, if it is kept.
    pub fn get(&self, number: u32) -> Option<&FrozenTrace> {
        let mut kept = self.kept.iter();
        kept.find(|(known, _)| *known == number)
            .map(|(_, walk)| walk)
    }
}
