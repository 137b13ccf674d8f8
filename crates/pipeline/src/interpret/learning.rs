//! `learn` and `fin_timeout`: what packets teach about rules.

use std::sync::Arc;

use super::frozen::{Author, Continuation, FrozenList};
use super::observer::{Observer, Sight};
use super::walk::{Next, Walk};
use crate::action::{Action, Subfield, TableId, Write};
use crate::effect::Effect;
use crate::learning::{LearnedRule, Learning};

impl<O: Observer> Walk<'_, O> {
    /// Makes a rule of the packet. If the packet goes on by whether there is room for it, the walk
    /// freezes: only then is that known.
    pub(super) fn learn_rule(&mut self, learning: &Learning) -> Next {
        let has_bridges = self.pipeline.config.bridges;
        let flow = learning.flow(has_bridges, |bits| self.state.read_subfield(bits));
        self.tell(Sight::Teaches(&flow));
        let seed = self.pipeline.seed();
        let rule = Arc::new(LearnedRule::new(flow, learning.limit, seed));
        match &learning.result {
            Some(bit) => {
                self.taught = Some((rule, bit.clone()));
                Next::Freeze
            }
            None => {
                self.emit(Effect::LearnRule {
                    rule,
                    outcomes: None,
                });
                Next::Continue
            }
        }
    }

    /// Lets the packet go on with the bit that tells whether there was room for a rule; `place` is
    /// where the rest of the walk begins among the lists.
    pub(super) fn go_on_by_room(
        &mut self,
        (rule, bit): (Arc<LearnedRule>, Subfield),
        rest: Continuation,
        place: usize,
    ) {
        let with = self.number(with_result(rest.clone(), &bit, 1, place));
        let without = self.number(with_result(rest, &bit, 0, place));
        self.emit(Effect::LearnRule {
            rule,
            outcomes: Some((with, without)),
        });
    }

    /// Reports packets that end a TCP connection to the rule that the list belongs to.
    pub(super) fn note_fin(&mut self, idle_s: u16, hard_s: u16) {
        if let Some(rule) = self.author.rule() {
            self.emit(Effect::FinTimeout {
                rule,
                idle_s,
                hard_s,
            });
        }
    }
}

/// The rest of a walk that begins by writing a bit.
fn with_result(mut rest: Continuation, bit: &Subfield, value: u128, place: usize) -> Continuation {
    let writes = bit.slices.iter().map(|slice| Write {
        field: slice.field,
        value: value << slice.offset,
        mask: 1 << slice.offset,
    });
    let mut lists = rest.lists.into_vec();
    let list = FrozenList {
        actions: Arc::new([Action::SetField(writes.collect())]),
        table: lists.get(place).map_or(TableId(0), |next| next.table),
        author: Author::None,
    };
    lists.insert(place, list);
    rest.lists = lists.into();
    rest
}
