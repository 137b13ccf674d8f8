//! Memory that a walk leaves for the next one.
//!
//! 1. It never holds more than one walk takes, plus what callers give back.

use super::lists::Caller;
use crate::effect::Effect;
use crate::trace::Trace;

/// Most lists kept (invariant 1).
const LISTS_MAX: usize = 16;

/// Most walks have no more effects than this.
const EFFECTS: usize = 8;

/// Spare lists and a spare trace, all empty.
#[derive(Debug, Default)]
pub(crate) struct Spare {
    lists: Vec<Vec<u64>>,
    trace: Option<Trace>,
    effects: Vec<Effect>,
    callers: Vec<Caller>,
}

impl Spare {
    /// Takes an empty list.
    pub(crate) fn list(&mut self) -> Vec<u64> {
        self.lists.pop().unwrap_or_default()
    }

    /// Takes a list of `count` copies of `value`.
    pub(crate) fn filled(&mut self, value: u64, count: usize) -> Vec<u64> {
        let mut list = self.list();
        list.resize(count, value);
        list
    }

    /// Keeps a list for the next walk.
    pub(crate) fn keep(&mut self, mut list: Vec<u64>) {
        if self.lists.len() < LISTS_MAX {
            list.clear();
            self.lists.push(list);
        }
    }

    /// Takes an empty list of effects.
    pub(super) fn effects(&mut self) -> Vec<Effect> {
        let mut effects = std::mem::take(&mut self.effects);
        effects.reserve(EFFECTS);
        effects
    }

    /// Keeps a list of effects for the next walk.
    pub(super) fn keep_effects(&mut self, mut effects: Vec<Effect>) {
        effects.clear();
        self.effects = effects;
    }

    /// Takes an empty list of callers.
    pub(super) fn callers(&mut self) -> Vec<Caller> {
        std::mem::take(&mut self.callers)
    }

    /// Keeps a list of callers for the next walk.
    pub(super) fn keep_callers(&mut self, mut callers: Vec<Caller>) {
        callers.clear();
        self.callers = callers;
    }

    /// Takes an empty trace.
    pub(super) fn trace(&mut self, words: usize, ingress_words: usize) -> Trace {
        let mut trace = self.trace.take().unwrap_or_default();
        trace.begin(words, ingress_words);
        trace
    }

    /// Keeps a trace for the next walk.
    pub(super) fn keep_trace(&mut self, trace: Trace) {
        self.trace = Some(trace);
    }
}
