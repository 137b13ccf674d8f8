//! The reference interpreter: it defines the pipeline's answer to a packet.
//!
//! [`translate`] walks the tables with a key. It yields the [`Effect`]s to run on the packet,
//! the mask (which ingress bits the walk depended on), and the [`Trace`]. It is slow, obvious
//! and complete; caches are right when they agree with it.
//!
//! ```text
//!   lookup(table):                         execute(actions of the rule):
//!     rule = best match, bits examined       output, group  -> effects
//!     execute(rule.actions)                  set, move, push-> state, effects
//!     table = goto of the rule, if any       resubmit       -> lookup(other table)
//!   finally: the action set                  goto           -> after the list
//! ```
//!
//! 1. **Strong soundness.** Every packet that agrees with the key on the mask has exactly this
//!    trace and these effects. All reads go through `State`, which resolves them to ingress
//!    bits at the moment they happen. Nothing that bypasses `State` may influence a walk.
//! 2. **The answer depends on key and version alone**: no clock, no chance, no packet bytes.
//!    So a translation can be repeated from a cached key.
//! 3. **Bounded.** A walk is bounded by [`MAX_LOOKUPS`] lookups, [`MAX_DEPTH`] nested buckets
//!    and backward resubmits, [`MAX_COPIES`] nested copies, [`MAX_STACK_BYTES`] on the stack,
//!    and [`MAX_WORK`] units of work. A packet that meets one of these bounds is dropped for
//!    that reason, and none of its walk takes effect. Effects beyond [`MAX_EFFECTS`], those of
//!    copies included, are left out and counted.
//! 4. `debug_recirc` ends a pass. Some actions expose headers that were never parsed: popping
//!    the last MPLS label, or a VLAN tag above one that was not looked at. Such an action is
//!    followed by a recirculation before anything else is read. The rest of the walk is frozen
//!    into a [`Continuation`] that continues in the next pass, from a new parse.
//! 5. An output to the controller may pause the walk. Its rest is frozen in the same way, and
//!    the controller gets it with the packet.
//! 6. An observer ([`observe`]) sees each step of a walk and changes nothing of it. The plain
//!    walk is compiled without one.
//!
//! Semantics follow OpenFlow 1.5.1, and Open vSwitch (`ofproto-dpif-xlate.c`) where the
//! standard leaves room. Departures: a write to an absent header is not done at all (Open
//! vSwitch pretends in its flow key that it was); `dec_ttl` does not fix the TTL in the mask,
//! only the fact that it is above 1. `docs/differences-from-open-vswitch.md` lists the others,
//! each with an example that is checked against Open vSwitch.

mod action_set;
mod fragments;
mod frozen;
mod groups;
mod layers;
mod learning;
mod length;
mod links;
mod lists;
mod meters;
mod mirrors;
mod normal;
mod observer;
mod output;
mod place;
mod rewriting;
mod select;
mod shortcut;
mod spare;
mod stack;
mod tracking;
mod vlans;
mod walk;
mod work;

use std::sync::Arc;

use thalweg_classifier::{RuleId, Version};
use thalweg_packet::Layout;

use crate::action::{Action, Actions, TableId};
pub use crate::drops::DropReason;
use crate::effect::Effect;
use crate::pipeline::Pipeline;
use crate::trace::Trace;
pub use frozen::{Author, Continuation, FrozenList};
pub use observer::{ExpiredTtl, NormalSight, Observer, SeenFields, Sight};
pub use shortcut::Shortcut;
pub(crate) use spare::Spare;
use walk::Lookups;
pub use work::MAX_WORK;

/// Most lookups of one packet after the first (Open vSwitch's `MAX_RESUBMITS`).
pub const MAX_LOOKUPS: usize = 4096;

/// How deep buckets, and resubmits to the same or an earlier table, may nest (Open vSwitch's
/// `MAX_DEPTH`). A resubmit that leads forward ends by itself.
pub const MAX_DEPTH: u32 = 64;

/// How deep copies (clones and buckets) may nest; more than there are tables.
///
/// Running nested effects takes stack for each level.
pub const MAX_COPIES: u32 = 256;

/// Most effects of one packet and its copies; drop counts are not limited.
pub const MAX_EFFECTS: usize = 4096;

/// Most bytes on a walk's stack when it looks up further. Each subfield takes one byte more
/// than its bits (Open vSwitch's bound on `ctx->stack`).
pub const MAX_STACK_BYTES: usize = 65_536;

/// The result of a walk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Translation {
    /// Which ingress bits the walk depended on.
    pub mask: Vec<u64>,
    /// The effects to run on the packet.
    pub effects: Vec<Effect>,
    /// The steps of the walk.
    pub trace: Trace,
    /// The continuations that [`Effect::Recirculate`] refers to by index.
    pub continuations: Vec<Arc<Continuation>>,
    /// Why nothing is sent, if nothing is: the last of the drop reasons among the effects.
    pub drop_reason: Option<DropReason>,
}

/// Walks a packet's key through the tables at `version`.
///
/// `key` holds the layout's ingress words, or all its words (the rest is ignored).
///
/// # Panics
/// If the key is shorter than the layout's ingress words.
pub fn translate(pipeline: &Pipeline, key: &[u64], version: Version) -> Translation {
    Walker::default().walk(pipeline, key, None, version, None)
}

/// Like [`translate`], for a packet whose registers are not all zero when it comes in.
/// `registers` are the layout's words after its ingress words.
///
/// # Panics
/// If the key is shorter than the layout's ingress words, or the number of registers is not
/// the layout's.
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
    walk.start();
    walk.finish()
}

/// Walks as [`translate_from`] does, and tells an observer.
///
/// `layout` has all fields of the pipeline's catalogue, and `words` their values. The mask is
/// in words of that layout; the effects, the continuations and the steps are those of the plain
/// walk. With a list of `actions`, the walk begins with it, as a packet-out does, instead of
/// the first table.
///
/// # Panics
/// If `layout` lacks a field of the pipeline's layout, or `words` are fewer than it has.
pub fn observe(
    pipeline: &Pipeline,
    (layout, words): (&Layout, &[u64]),
    actions: Option<Actions>,
    version: Version,
    observer: &mut impl Observer,
) -> Translation {
    let used = pipeline.layout().used();
    let is_whole = used.iter().all(|field| layout.slot(*field).is_some());
    assert!(is_whole, "an observed walk has all fields that rules read");
    let (key, registers) = words.split_at(layout.ingress_words());
    let mut spare = Spare::default();
    let state = (layout, key, Some(registers));
    let lookups = Lookups::Examined(None);
    let mut walk = walk::Walk::observed(pipeline, state, version, lookups, observer, &mut spare);
    match actions {
        None => walk.start(),
        Some(actions) => walk.start_with(actions),
    }
    walk.finish()
}

/// Resumes a frozen walk as [`resume`] does, and tells an observer as [`observe`] does.
///
/// `known` is the layout of the continuation's registers. `words` are the packet's on this
/// pass.
///
/// # Panics
/// Like [`observe`].
pub fn observe_resumed(
    pipeline: &Pipeline,
    (layout, words): (&Layout, &[u64]),
    (continuation, known): (&Continuation, &Layout),
    version: Version,
    observer: &mut impl Observer,
) -> Translation {
    let used = pipeline.layout().used();
    let is_whole = used.iter().all(|field| layout.slot(*field).is_some());
    assert!(is_whole, "an observed walk has all fields that rules read");
    let ingress = layout.ingress_words();
    let mut words = words.to_vec();
    words[ingress..].fill(0);
    let mut narrow = vec![0; known.ingress_words()];
    narrow.extend_from_slice(&continuation.registers);
    observer::copy_fields((layout, &mut words), (known, &narrow));
    let (key, registers) = words.split_at(ingress);
    let mut spare = Spare::default();
    let state = (layout, key, Some(registers));
    let lookups = Lookups::Examined(None);
    let mut walk = walk::Walk::observed(pipeline, state, version, lookups, observer, &mut spare);
    walk.resume(continuation);
    walk.finish()
}

/// Remembers lookups, so that a walk need not repeat them.
pub trait Memory {
    /// The best rule of `table` for `words` at the walk's version, if it is known. If so, adds
    /// the bits that decide it to `examined`: all keys that agree with `words` on them meet
    /// the same rule.
    fn recall(&self, table: TableId, words: &[u64], examined: &mut [u64])
    -> Option<Option<RuleId>>;
}

/// Makes walks one after the other, and reuses their memory.
///
/// A walk writes some kilobytes; allocating them each time takes longer than some walks.
#[derive(Debug, Default)]
pub struct Walker {
    spare: Spare,
}

impl Walker {
    /// Like [`translate`], or [`resume`] if there is a continuation.
    ///
    /// With a `memory`, known lookups are not repeated. The answer is then as right as the
    /// memory, and the mask as narrow as the bits it adds.
    ///
    /// # Panics
    /// Like [`translate`] and [`resume`].
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
            None => walk.start(),
            Some(continuation) => walk.resume(continuation),
        }
        walk.finish()
    }

    /// Finds only the answer to a packet: like [`Walker::walk`], but the mask is meaningless
    /// and the trace has only kinds of steps. `first` is the outcome of the walk's first
    /// lookup, in table 0, if it is known and the pipeline has no bridges.
    ///
    /// # Panics
    /// Like [`translate`] and [`resume`].
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
            None => walk.start(),
            Some(continuation) => walk.resume(continuation),
        }
        walk.finish()
    }

    /// Takes back memory of results that are no longer needed.
    pub fn recycle(&mut self, trace: Trace, mask: Vec<u64>, effects: Vec<Effect>) {
        self.spare.keep_trace(trace);
        self.spare.keep(mask);
        self.spare.keep_effects(effects);
    }
}

/// Resumes a frozen walk, with the current key of the packet.
///
/// A walk frozen for another parse resumes at the version at which it began, or one with the
/// same answer to the packet; a walk that a controller paused resumes at any.
///
/// # Panics
/// If the key is shorter than the layout's ingress words, or the continuation's registers are
/// of another layout.
pub fn resume(
    pipeline: &Pipeline,
    key: &[u64],
    continuation: &Continuation,
    version: Version,
) -> Translation {
    Walker::default().walk(pipeline, key, Some(continuation), version, None)
}

/// Whether an action can run without knowing headers behind those already changed.
fn is_blind(action: &Action) -> bool {
    use crate::action::Output;
    match action {
        Action::Output(output) => {
            !matches!(output, Output::Normal | Output::Field(_) | Output::Table)
        }
        Action::Note(_)
        | Action::Sample(_)
        | Action::Conjunction { .. }
        | Action::ClearActions
        | Action::WriteActions(_)
        | Action::Exit
        | Action::Meter(_)
        | Action::SetQueue(_)
        | Action::PopQueue
        | Action::Untrack => true,
        _ => false,
    }
}
