//! The reference interpreter: what the pipeline's answer to a packet *is*.
//!
//! [`translate`] walks the tables with a key. It yields the [`Effect`]s that are to be run on the
//! packet, the mask (which ingress bits the walk depended on), and the [`Trace`]. It is slow,
//! obvious and complete; caches are right when they agree with it.
//!
//! ```text
//!   lookup(table):                         execute(actions of the rule):
//!     rule = best match, bits examined       output, group  -> effects
//!     execute(rule.actions)                  set, move, push-> state, effects
//!     table = goto of the rule, if any       resubmit       -> lookup(other table)
//!   finally: the action set                  goto           -> after the list
//! ```
//!
//! 1. **Strong soundness.** Every packet that agrees with the key on the mask has this very trace
//!    and these effects. All reads go through `State`, which resolves them to ingress bits at
//!    the moment they happen; what is not read through it must not influence anything.
//! 2. **The answer depends on key and version alone**: no clock, no chance, no packet bytes. So a
//!    translation can be repeated from a cached key.
//! 3. **Bounded.** A packet that meets one of these bounds is dropped, nothing of what its walk
//!    would have done is done, and the bound is the reason: [`MAX_LOOKUPS`] lookups, [`MAX_DEPTH`]
//!    buckets and backward resubmits in each other, [`MAX_COPIES`] copies in each other,
//!    [`MAX_STACK_BYTES`] on the stack, [`MAX_WORK`] units of work. Of more than [`MAX_EFFECTS`]
//!    effects, those of copies included, the rest is not done, and counted.
//! 4. An action that exposes headers that were never parsed (popping the last MPLS label, or a
//!    VLAN tag above one that was not looked at) is followed, before anything else is read, by a
//!    recirculation: the rest of the walk is frozen into a [`Continuation`] that goes on from a
//!    new parse.
//!
//! Semantics follow OpenFlow 1.5.1, and Open vSwitch (`ofproto-dpif-xlate.c`) where the standard
//! leaves room. Departures: a write to a header that is absent is not done at all (Open vSwitch
//! would pretend in its flow key that it was); `dec_ttl` does not fix the TTL in the mask, only
//! the fact that it is above 1. `docs/differences-from-open-vswitch.md` has the others, each with
//! an example that is checked against Open vSwitch.

mod action_set;
mod groups;
mod lists;
mod normal;
mod rewriting;
mod select;
mod shortcut;
mod spare;
mod stack;
mod walk;
mod work;

use std::sync::Arc;

use thalweg_classifier::{RuleId, Version};

use crate::action::{Action, Actions, TableId};
pub use crate::drops::DropReason;
use crate::effect::Effect;
use crate::pipeline::Pipeline;
use crate::state::Lifted;
use crate::trace::Trace;
pub use shortcut::Shortcut;
pub(crate) use spare::Spare;
use walk::Lookups;
pub use work::MAX_WORK;

/// Lookups that one packet may cause behind the first (Open vSwitch's `MAX_RESUBMITS`).
pub const MAX_LOOKUPS: usize = 4096;

/// How deep buckets, and resubmits to the same or an earlier table, may be in each other (Open
/// vSwitch's `MAX_DEPTH`). A resubmit that leads forward comes to an end by itself.
pub const MAX_DEPTH: u32 = 64;

/// How deep copies, those of clones and buckets, may be in each other.
///
/// Running what comes of them takes stack for each. More than the tables that there are.
pub const MAX_COPIES: u32 = 256;

/// Effects that one packet may cause, on itself and on copies; counting drops is not limited.
pub const MAX_EFFECTS: usize = 4096;

/// Bytes that a walk may have on its stack when it looks up further, each subfield with one byte
/// more than its bits take (Open vSwitch's bound on `ctx->stack`).
pub const MAX_STACK_BYTES: usize = 65_536;

/// A walk that goes on after another parse: what was still to be done, and with what.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Continuation {
    /// What was still to be done, resubmits and goto included.
    pub actions: Actions,
    /// The action set.
    pub action_set: Actions,
    /// The registers' words.
    pub registers: Box<[u64]>,
    /// Bits that `push` has put aside.
    pub(crate) stack: Box<[Lifted]>,
    /// The rule whose actions were interrupted, if any.
    pub rule: Option<RuleId>,
}

/// What a walk came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Translation {
    /// Which ingress bits the walk depended on.
    pub mask: Vec<u64>,
    /// What is to be done with the packet.
    pub effects: Vec<Effect>,
    /// The steps of the walk.
    pub trace: Trace,
    /// What [`Effect::Recirculate`] refers to.
    pub continuations: Vec<Arc<Continuation>>,
    /// Why nothing is sent, if nothing is: the last of the reasons, which are all among the effects.
    pub drop_reason: Option<DropReason>,
}

/// Walks a packet's key through the tables as they are at `version`.
///
/// `key` has the layout's ingress words, or all of them (the rest is ignored).
///
/// # Panics
/// If the key is shorter than the layout's ingress words.
pub fn translate(pipeline: &Pipeline, key: &[u64], version: Version) -> Translation {
    Walker::default().walk(pipeline, key, None, version, None)
}

/// The same for a packet whose registers are not all zero when it comes in: `registers` are the
/// layout's words behind its ingress words.
///
/// # Panics
/// If the key is shorter than the layout's ingress words, or there are other registers than the
/// layout's.
pub fn translate_from(
    pipeline: &Pipeline,
    key: &[u64],
    registers: &[u64],
    version: Version,
) -> Translation {
    let mut spare = Spare::default();
    let lookups = Lookups::Examined(None);
    let registers = Some(registers);
    let mut walk = walk::Walk::new(pipeline, key, version, lookups, registers, &mut spare);
    walk.start(TableId(0));
    walk.finish()
}

/// What is known of lookups, so that they need not be made again.
pub trait Memory {
    /// The rule of `table` that is the best for `words` at the version of the walk, if it is known;
    /// then the bits that decide it are added to `examined`: whatever agrees with `words` on them
    /// meets the same rule.
    fn recall(&self, table: TableId, words: &[u64], examined: &mut [u64])
    -> Option<Option<RuleId>>;
}

/// Walks one after the other, each in the memory of those before.
///
/// A walk writes some kilobytes; to ask for them anew takes longer than some walks.
#[derive(Debug, Default)]
pub struct Walker {
    spare: Spare,
}

impl Walker {
    /// The same as [`translate`], or [`resume`] if there is a continuation.
    ///
    /// With a `memory`, with the help of what is known of its lookups: as right as that is, and its
    /// mask as narrow as what it knows.
    ///
    /// # Panics
    /// As these.
    pub fn walk(
        &mut self,
        pipeline: &Pipeline,
        key: &[u64],
        continuation: Option<&Continuation>,
        version: Version,
        memory: Option<&dyn Memory>,
    ) -> Translation {
        let registers = continuation.map(|continuation| &continuation.registers[..]);
        let spare = &mut self.spare;
        let lookups = Lookups::Examined(memory);
        let mut walk = walk::Walk::new(pipeline, key, version, lookups, registers, spare);
        match continuation {
            None => walk.start(TableId(0)),
            Some(continuation) => walk.resume(continuation),
        }
        walk.finish()
    }

    /// The answer to a packet and no more than that: as [`Walker::walk`], but the mask says nothing,
    /// and the trace has kinds of steps alone. `first` is the outcome of the walk's first lookup, in
    /// table 0, if it is known.
    ///
    /// # Panics
    /// As [`translate`] and [`resume`].
    pub fn answer(
        &mut self,
        pipeline: &Pipeline,
        key: &[u64],
        continuation: Option<&Continuation>,
        version: Version,
        first: Option<Option<RuleId>>,
    ) -> Translation {
        let registers = continuation.map(|continuation| &continuation.registers[..]);
        let spare = &mut self.spare;
        let lookups = Lookups::Bare(first.filter(|_| continuation.is_none()));
        let mut walk = walk::Walk::new(pipeline, key, version, lookups, registers, spare);
        match continuation {
            None => walk.start(TableId(0)),
            Some(continuation) => walk.resume(continuation),
        }
        walk.finish()
    }

    /// Takes back the memory of what nobody needs any more.
    pub fn recycle(&mut self, trace: Trace, mask: Vec<u64>, effects: Vec<Effect>) {
        self.spare.keep_trace(trace);
        self.spare.keep(mask);
        self.spare.keep_effects(effects);
    }
}

/// Goes on with a walk that was frozen, with the key of the packet as it is now.
///
/// `version` is that at which the walk began, or one with the same answer to the packet.
///
/// # Panics
/// If the key is shorter than the layout's ingress words, or the continuation's registers are of
/// another layout.
pub fn resume(
    pipeline: &Pipeline,
    key: &[u64],
    continuation: &Continuation,
    version: Version,
) -> Translation {
    Walker::default().walk(pipeline, key, Some(continuation), version, None)
}

/// Whether an action can be executed without knowing headers behind those already changed.
fn is_blind(action: &Action) -> bool {
    use crate::action::Output;
    match action {
        Action::Output(output) => {
            !matches!(output, Output::Normal | Output::Field(_) | Output::Table)
        }
        Action::Note(_) | Action::ClearActions | Action::WriteActions(_) | Action::Exit => true,
        _ => false,
    }
}
