//! `check_pkt_larger`: what follows depends on the packet's length.
//!
//! A packet's length is not in its key, so a walk is the same for packets of all lengths. It goes
//! on twice, with either answer, and gives both results as one effect, which chooses when it runs
//! ([`Effect::ByLength`]).
//!
//! ```text
//!   output:1, check_pkt_larger(1500)->reg0[0], resubmit(,1)
//!       1, by length 1500 (what resubmit(,1) does with reg0[0]=1 | and with reg0[0]=0)
//! ```
//!
//! 1. Both branches begin with the same packet and fields, except for the bit. Nothing of either
//!    is left afterwards, save the bits read: the mask covers both.
//! 2. A branch that sends nothing counts a drop of its own.
//!
//! As in Open vSwitch (`xlate_check_pkt_larger`), a branch is the rest of the list that checks,
//! and then the action set; lists that resubmitted to it go on with the packet as it was before
//! the check. They do not if the branch of longer packets exits or waits for another pass. Both
//! branches count for the rules that they meet. The second begins with the stack and the action
//! set that the first leaves behind. An executed set leaves only writes made meanwhile.

use super::lists::List;
use super::meters::place_of_drops;
use super::observer::Observer;
use super::stack::Stack;
use super::walk::{Nested, Next, Walk, sends_something};
use crate::action::{Action, LengthCheck, Write};
use crate::drops::DropReason;
use crate::effect::Effect;

impl<O: Observer> Walk<'_, O> {
    /// Executes the rest of a list for longer packets, and for all others.
    pub(super) fn branch_by_length(&mut self, check: &LengthCheck, rest: &List) -> Next {
        let mirrored = self.mirrored;
        let mut left = (self.stack.clone(), self.action_set.clone());
        let (longer, next) = match self.branch(check, true, rest, &mut left) {
            Ok(branch) => branch,
            Err(next) => return next,
        };
        let had = std::mem::replace(&mut self.mirrored, mirrored);
        let others = match self.failure {
            None => self.branch(check, false, rest, &mut left),
            Some(_) => Ok((Vec::new(), Next::Fail)),
        };
        let others = others.map_or(Vec::new(), |(effects, _)| effects);
        self.mirrored |= had;
        self.effects.push(Effect::ByLength {
            limit_bytes: check.limit_bytes,
            longer: longer.into(),
            others: others.into(),
        });
        match next {
            _ if self.failure.is_some() => Next::Fail,
            Next::Exit | Next::Freeze => Next::Exit,
            _ => Next::Continue,
        }
    }

    /// The effects of one branch, its drops included, and how it ended. It begins with the stack
    /// and the action set of `left`, and leaves its own there.
    fn branch(
        &mut self,
        check: &LengthCheck,
        is_longer: bool,
        rest: &List,
        left: &mut (Stack, Vec<Action>),
    ) -> Result<(Vec<Effect>, Next), Next> {
        let drops = std::mem::take(&mut self.drops);
        let missed = self.missed.take();
        let rest = rest.clone();
        let branch = self.apart(Nested::Branch, |walk| {
            for slice in &check.larger.slices {
                walk.set_field(Write {
                    field: slice.field,
                    value: u128::from(is_longer) << slice.offset,
                    mask: 1 << slice.offset,
                });
            }
            (walk.stack, walk.action_set) = std::mem::take(left);
            let (table, author) = (rest.table(), walk.author);
            walk.set_owner = Some((table, author));
            let next = walk.execute_rest_of(rest);
            left.0 = walk.stack.clone();
            if next == Next::Freeze {
                left.1 = walk.action_set.clone();
            }
            walk.end(next, Some((table, author)));
            if next != Next::Exit && next != Next::Freeze {
                left.1 = walk.action_set.clone();
            }
            next
        });
        let (mut effects, next) = branch?;
        let sends = effects.iter().any(sends_something);
        if !sends && self.drops.is_empty() {
            self.drop(self.missed.unwrap_or(DropReason::Action)); // Invariant 2.
        }
        self.missed = missed;
        let drops = std::mem::replace(&mut self.drops, drops);
        let place = place_of_drops(&effects, sends);
        let drops = drops.into_iter();
        effects.splice(
            place..place,
            drops.map(|(reason, copies)| Effect::Drop { reason, copies }),
        );
        Ok((effects, next))
    }
}
