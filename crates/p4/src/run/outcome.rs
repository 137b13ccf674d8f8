//! The results of packets: packets sent, digests, drops with reasons.

use crate::program::ids::LearnListId;

/// Why a packet, or a copy of one, was dropped.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DropReason {
    /// Ingress left `egress_spec` at the drop port.
    Ingress,
    /// Egress left `egress_spec` at the drop port.
    Egress,
    /// The multicast group has no copies, or does not exist.
    NoReplicas,
    /// An `assert` or `assume` did not hold.
    Assert,
    /// The parser visited more than [`PARSER_STATES_MAX`] states.
    ParserTooLong,
    /// An action ran more than [`ACTION_STEPS_MAX`] steps.
    ActionTooLong,
    /// The packet made more than [`PASSES_MAX`] passes.
    TooManyPasses,
    /// One packet made more than [`COPIES_MAX`] copies.
    TooManyCopies,
    /// Added headers made the packet longer than [`PACKET_BYTES_MAX`].
    TooLong,
    /// The packet, with its copies, did more work than [`WORK_MAX`].
    TooMuchWork,
}

/// Maximum parser states that one packet visits.
pub const PARSER_STATES_MAX: u32 = 1 << 12;

/// Maximum steps of one run of an action.
pub const ACTION_STEPS_MAX: u32 = 1 << 16;

/// Maximum passes of one packet through ingress.
pub const PASSES_MAX: u32 = 1 << 8;

/// Maximum copies of one packet, including passes that copies start over.
pub const COPIES_MAX: u32 = 1 << 13;

/// Maximum work of one packet, including its copies and passes.
///
/// Work is words moved, expression nodes evaluated, and products of two 64-bit limbs.
pub const WORK_MAX: u64 = 1 << 26;

/// Maximum bytes of a departing packet.
pub const PACKET_BYTES_MAX: usize = 1 << 17;

impl DropReason {
    /// All reasons.
    pub const ALL: [DropReason; 10] = [
        DropReason::Ingress,
        DropReason::Egress,
        DropReason::NoReplicas,
        DropReason::Assert,
        DropReason::ParserTooLong,
        DropReason::ActionTooLong,
        DropReason::TooManyPasses,
        DropReason::TooManyCopies,
        DropReason::TooLong,
        DropReason::TooMuchWork,
    ];

    /// The name of its counter.
    pub fn name(self) -> &'static str {
        match self {
            DropReason::Ingress => "p4_ingress",
            DropReason::Egress => "p4_egress",
            DropReason::NoReplicas => "p4_no_replicas",
            DropReason::Assert => "p4_assert",
            DropReason::ParserTooLong => "p4_parser_too_long",
            DropReason::ActionTooLong => "p4_action_too_long",
            DropReason::TooManyPasses => "p4_too_many_passes",
            DropReason::TooManyCopies => "p4_too_many_copies",
            DropReason::TooLong => "p4_too_long",
            DropReason::TooMuchWork => "p4_too_much_work",
        }
    }
}

/// A primitive that had no effect; the packet continues.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Fault {
    /// A counter, meter or register past the end of its array.
    IndexPastEnd,
    /// A write to a field past the end of a stack.
    ElementPastEnd,
    /// A clone to a session that does not exist.
    NoSession,
    /// A group without members was chosen, or a member no longer exists.
    NoMember,
    /// A random number from an empty range.
    EmptyRange,
}

impl Fault {
    /// All faults.
    pub const ALL: [Fault; 5] = [
        Fault::IndexPastEnd,
        Fault::ElementPastEnd,
        Fault::NoSession,
        Fault::NoMember,
        Fault::EmptyRange,
    ];

    /// The name of its counter.
    pub fn name(self) -> &'static str {
        match self {
            Fault::IndexPastEnd => "p4_index_past_end",
            Fault::ElementPastEnd => "p4_element_past_end",
            Fault::NoSession => "p4_no_session",
            Fault::NoMember => "p4_no_member",
            Fault::EmptyRange => "p4_empty_range",
        }
    }
}

/// Counters of everything that can happen.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    drops: [u64; DropReason::ALL.len()],
    faults: [u64; Fault::ALL.len()],
    /// Packets received.
    pub received: u64,
    /// Packets sent.
    pub sent: u64,
    /// Digests sent to the controller.
    pub digests: u64,
}

impl Counts {
    /// Packets dropped for this reason.
    pub fn drops(&self, reason: DropReason) -> u64 {
        self.drops[reason as usize]
    }

    /// How often this fault occurred.
    pub fn faults(&self, fault: Fault) -> u64 {
        self.faults[fault as usize]
    }

    /// How often any fault occurred.
    pub(crate) fn all_faults(&self) -> u64 {
        self.faults.iter().sum()
    }

    pub(crate) fn drop(&mut self, reason: DropReason) {
        self.drops[reason as usize] += 1;
    }

    pub(crate) fn fault(&mut self, fault: Fault) {
        self.faults[fault as usize] += 1;
    }
}

/// A packet that leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sent<'a> {
    /// The port it leaves by.
    pub port: u32,
    /// Its bytes.
    pub bytes: &'a [u8],
}

/// A message to the controller: the values of a learn list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Digest<'a> {
    /// The list.
    pub list: LearnListId,
    /// The words of its fields, one after the other; the most significant word of each first.
    pub words: &'a [u64],
}

/// The results of one or more packets. The caller clears it when it has taken everything.
#[derive(Clone, Debug, Default)]
pub struct Outbox {
    pub(crate) bytes: Vec<u8>,
    sent: Vec<(u32, usize)>,
    words: Vec<u64>,
    digests: Vec<(LearnListId, usize)>,
}

impl Outbox {
    /// Creates an empty outbox.
    pub fn new() -> Outbox {
        Outbox::default()
    }

    /// Removes everything but keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.sent.clear();
        self.words.clear();
        self.digests.clear();
    }

    /// Packets in the order in which they left.
    pub fn sent(&self) -> impl Iterator<Item = Sent<'_>> {
        let mut from = 0;
        self.sent.iter().map(move |&(port, to)| {
            let bytes = &self.bytes[from..to];
            from = to;
            Sent { port, bytes }
        })
    }

    /// Digests in the order in which they were made.
    pub fn digests(&self) -> impl Iterator<Item = Digest<'_>> {
        let mut from = 0;
        self.digests.iter().map(move |&(list, to)| {
            let words = &self.words[from..to];
            from = to;
            Digest { list, words }
        })
    }

    /// Sends the bytes appended since the last packet by a port.
    pub(crate) fn send(&mut self, port: u32) {
        self.sent.push((port, self.bytes.len()));
    }

    pub(crate) fn digest_words(&mut self) -> &mut Vec<u64> {
        &mut self.words
    }

    pub(crate) fn digest(&mut self, list: LearnListId) {
        self.digests.push((list, self.words.len()));
    }
}
