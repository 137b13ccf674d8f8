//! What becomes of packets: what leaves, what the controller is told, what was dropped and why.

use crate::program::ids::LearnListId;

/// Why a packet, or a copy of one, ends.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DropReason {
    /// Ingress left `egress_spec` at the drop port.
    Ingress,
    /// Egress left `egress_spec` at the drop port.
    Egress,
    /// The multicast group has no copies, or is not there.
    NoReplicas,
    /// An `assert` or `assume` did not hold.
    Assert,
    /// The parser went through more states than [`PARSER_STATES_MAX`].
    ParserTooLong,
    /// An action made more steps than [`ACTION_STEPS_MAX`].
    ActionTooLong,
    /// The packet began anew more often than [`PASSES_MAX`] times.
    TooManyPasses,
    /// One packet became more copies than [`COPIES_MAX`].
    TooManyCopies,
    /// Headers were added until the packet had more bytes than [`PACKET_BYTES_MAX`].
    TooLong,
    /// The packet, with its copies, was more work than [`WORK_MAX`].
    TooMuchWork,
}

/// States that the parser goes through for one packet at most.
pub const PARSER_STATES_MAX: u32 = 1 << 12;

/// Steps that one run of an action takes at most.
pub const ACTION_STEPS_MAX: u32 = 1 << 16;

/// Times that one packet passes ingress at most.
pub const PASSES_MAX: u32 = 1 << 8;

/// Copies that one packet may become, and passes that they may begin anew, all together.
pub const COPIES_MAX: u32 = 1 << 13;

/// Work that one packet may make, its copies and passes included: words that are moved, nodes of
/// expressions that are evaluated, products of two limbs of 64 bits.
pub const WORK_MAX: u64 = 1 << 26;

/// Bytes that a packet may have when it leaves.
pub const PACKET_BYTES_MAX: usize = 1 << 17;

impl DropReason {
    /// All there are.
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

/// What a program did that has no effect; packets go on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Fault {
    /// A counter, meter or register past the end of its array.
    IndexPastEnd,
    /// A field of an element past the end of a stack was to be written.
    ElementPastEnd,
    /// A clone to a session that is not there.
    NoSession,
    /// A group without members was chosen, or a member is gone.
    NoMember,
    /// A random number between a least and a smaller most.
    EmptyRange,
}

impl Fault {
    /// All there are.
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

/// How often everything happened.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    drops: [u64; DropReason::ALL.len()],
    faults: [u64; Fault::ALL.len()],
    /// Packets that came in.
    pub received: u64,
    /// Packets that left.
    pub sent: u64,
    /// Digests that were sent to the controller.
    pub digests: u64,
}

impl Counts {
    /// Packets that ended for a reason.
    pub fn drops(&self, reason: DropReason) -> u64 {
        self.drops[reason as usize]
    }

    /// How often something had no effect.
    pub fn faults(&self, fault: Fault) -> u64 {
        self.faults[fault as usize]
    }

    /// How often anything had no effect.
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

/// A message to the controller: the fields of a learn list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Digest<'a> {
    /// Which list.
    pub list: LearnListId,
    /// The words of its fields, one after the other; the most significant word of each first.
    pub words: &'a [u64],
}

/// What a packet, or several, came to. It is emptied by whoever has taken everything.
#[derive(Clone, Debug, Default)]
pub struct Outbox {
    pub(super) bytes: Vec<u8>,
    sent: Vec<(u32, usize)>,
    words: Vec<u64>,
    digests: Vec<(LearnListId, usize)>,
}

impl Outbox {
    /// An empty one.
    pub fn new() -> Outbox {
        Outbox::default()
    }

    /// Forgets everything, and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.sent.clear();
        self.words.clear();
        self.digests.clear();
    }

    /// Packets, in the order in which they left.
    pub fn sent(&self) -> impl Iterator<Item = Sent<'_>> {
        let mut from = 0;
        self.sent.iter().map(move |&(port, to)| {
            let bytes = &self.bytes[from..to];
            from = to;
            Sent { port, bytes }
        })
    }

    /// Digests, in the order in which they were made.
    pub fn digests(&self) -> impl Iterator<Item = Digest<'_>> {
        let mut from = 0;
        self.digests.iter().map(move |&(list, to)| {
            let words = &self.words[from..to];
            from = to;
            Digest { list, words }
        })
    }

    /// What was appended to `bytes` leaves by a port.
    pub(super) fn send(&mut self, port: u32) {
        self.sent.push((port, self.bytes.len()));
    }

    pub(super) fn digest_words(&mut self) -> &mut Vec<u64> {
        &mut self.words
    }

    pub(super) fn digest(&mut self, list: LearnListId) {
        self.digests.push((list, self.words.len()));
    }
}
