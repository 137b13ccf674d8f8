//! Where segments may begin, and how a frame's key is packed there.
//!
//! A *start* is a node of a control graph: the first of a pipeline, or one where a segment
//! stopped. Its key has the frame words by which any node from there on may steer, and the
//! words from which those may be computed. So the walk from there is a function of the key, of
//! the tables' entries, and of what it reads outside the frame.
//!
//! ```text
//!   steering = words of keys, conditions, jumps, validity, of all nodes that may follow
//!   repeat:    for each primitive of these nodes that may write a steering word:
//!                  what it reads is steering too
//! ```
//!
//! A word that the parser, the switch and all actions leave alone keeps its initial value and
//! takes no room in the key.
//!
//! Each word of a key holds as many frame words as fit, each as wide as its field.

use thalweg_packet::MAX_WORDS;

use crate::packed::{KeyHash, Packing};
use crate::program::Program;
use crate::program::control::successors;
use crate::program::headers::Headers;
use crate::program::ids::{HeaderId, NodeId};
use crate::program::parser::{Extracted, ParserStep};

use super::facts::{Facts, Reads, steering};
use super::words::WordSet;

/// Maximum frame words in a key.
pub(crate) const PARTS_MAX: usize = 256;

/// No part.
const NONE: u32 = u32::MAX;

/// A word of the frame in a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Part {
    /// Its index in the frame.
    pub(crate) word: u32,
    /// Its word in the key.
    pub(crate) into: u16,
    /// Its lowest bit in that word.
    pub(crate) shift: u8,
    pub(crate) width_bits: u8,
}

/// How a key is packed.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) parts: Box<[Part]>,
    /// By word of the frame: its part.
    part_of: Box<[u32]>,
    packing: Packing,
    /// Words of a key.
    pub(crate) words: usize,
}

impl Layout {
    /// The layout of a key of these frame words; `None` if it would be too wide.
    fn new(words: &WordSet, widths: &[u8]) -> Option<Layout> {
        let mut wanted: Vec<u32> = words.iter().collect();
        // The widest first, so that little is wasted at the ends of words.
        wanted.sort_by_key(|&word| (std::cmp::Reverse(widths[word as usize]), word));
        let mut room: Vec<u8> = Vec::new();
        let mut parts = Vec::new();
        let mut part_of = vec![NONE; widths.len()];
        for word in wanted {
            let width_bits = widths[word as usize];
            let place = room.iter().position(|&free| free >= width_bits);
            let into = place.unwrap_or_else(|| {
                room.push(64);
                room.len() - 1
            });
            parts.push(Part {
                word,
                into: into as u16,
                shift: 64 - room[into],
                width_bits,
            });
            room[into] -= width_bits;
        }
        parts.sort_by_key(|part| (part.into, part.shift));
        for (index, part) in parts.iter().enumerate() {
            part_of[part.word as usize] = index as u32;
        }
        let fits = room.len() <= MAX_WORDS && parts.len() <= PARTS_MAX;
        // A classifier's key has at least one word.
        let words = room.len().max(1);
        fits.then(|| {
            let packed = parts.iter();
            let packed = packed.map(|part| (part.word, usize::from(part.into), part.shift.into()));
            Layout {
                packing: Packing::new(words, packed),
                parts: parts.into(),
                part_of: part_of.into(),
                words,
            }
        })
    }

    /// The part for a word of the frame, if any.
    #[inline]
    pub(crate) fn part_of(&self, word: u32) -> Option<u32> {
        let part = self.part_of[word as usize];
        (part != NONE).then_some(part)
    }

    /// Packs a frame's words into `key`, of [`Layout::words`] words. Returns the key's hash.
    #[inline]
    pub(crate) fn pack(&self, hash: &KeyHash, frame: &[u64], key: &mut [u64]) -> u64 {
        self.packing.pack_and_hash(hash, frame, key)
    }

    /// Writes a key's words back to their places in the frame.
    pub(crate) fn unpack(&self, key: &[u64], frame: &mut [u64]) {
        for part in &self.parts {
            let ones = crate::program::code::low_mask(part.width_bits.into());
            frame[part.word as usize] = key[part.into as usize] >> part.shift & ones;
        }
    }
}

/// The facts about a program's frames that hold for every start.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    /// For each word of the frame, how many of its bits may be nonzero.
    widths: Box<[u8]>,
    /// Words that may differ from their initial value when ingress begins.
    at_ingress: WordSet,
    /// The same at any other start.
    anywhere: WordSet,
}

impl Shape {
    pub(crate) fn new(program: &Program, facts: &Facts) -> Shape {
        let at_ingress = written_before_ingress(program);
        let mut anywhere = at_ingress.clone();
        for action in &facts.actions {
            anywhere.extend(action.writes.iter().copied());
        }
        for meter in &program.arrays.meters {
            let result = meter.result.map(|field| program.headers.field(field));
            anywhere.extend(result.into_iter().flat_map(words_of));
        }
        Shape {
            widths: widths(&program.headers),
            at_ingress,
            anywhere,
        }
    }

    /// Whether a word may differ from its initial value when a start is reached.
    pub(crate) fn varies(&self, program: &Program, start: NodeId, word: u32) -> bool {
        match program.control.ingress.start == Some(start) {
            true => self.at_ingress.contains(word),
            false => self.anywhere.contains(word),
        }
    }

    /// The layout of a start's keys; `None` if they would be too wide.
    pub(crate) fn layout(&self, program: &Program, facts: &Facts, start: NodeId) -> Option<Layout> {
        let mut words = WordSet::new(self.widths.len());
        let mut actions = Vec::new();
        for node in reachable(program, start) {
            let node = &program.control.nodes[node.index()];
            words.extend(steering(program, node, &mut actions));
        }
        actions.sort_unstable();
        actions.dedup();
        loop {
            let mut has_changed = false;
            for &action in &actions {
                for step in &facts.action(action).steps {
                    let is_source =
                        !step.is_impure && step.writes.iter().any(|&word| words.contains(word));
                    if is_source {
                        has_changed |= words.extend(step.reads.iter().copied());
                    }
                }
            }
            if !has_changed {
                break;
            }
        }
        let constant: Vec<u32> = words
            .iter()
            .filter(|&word| !self.varies(program, start, word))
            .collect();
        for word in constant {
            words.remove(word);
        }
        Layout::new(&words, &self.widths)
    }
}

/// A node and all nodes that may follow it.
pub(crate) fn reachable(program: &Program, start: NodeId) -> Vec<NodeId> {
    let nodes = &program.control.nodes;
    let mut seen = vec![false; nodes.len()];
    let (mut open, mut found) = (vec![start], Vec::new());
    while let Some(node) = open.pop() {
        if !std::mem::replace(&mut seen[node.index()], true) {
            found.push(node);
            open.extend(successors(&nodes[node.index()], &program.tables));
        }
    }
    found
}

fn words_of(field: &crate::program::headers::Field) -> impl Iterator<Item = u32> + use<> {
    field.word..field.word + field.words()
}

/// How wide the value in each word of the frame may be.
fn widths(headers: &Headers) -> Box<[u8]> {
    // Words that belong to no field count: bits of a varbit, elements of a stack.
    let mut widths = vec![32; headers.initial.len()];
    for field in &headers.fields {
        for word in words_of(field) {
            widths[word as usize] = 64;
        }
        widths[field.word as usize] = ((field.width_bits - 1) % 64 + 1) as u8;
    }
    widths.into()
}

/// Words that the parser, the switch or an earlier pass may have written when ingress begins.
fn written_before_ingress(program: &Program) -> WordSet {
    let headers = &program.headers;
    let mut written = WordSet::new(headers.initial.len());
    let mut header = |id: HeaderId| {
        let shape = headers.header(id);
        written.extend(shape.base..shape.base + shape.words);
        let union = shape.union.map(|union| &headers.union(union).headers);
        for &member in union.into_iter().flatten() {
            written.insert(headers.header(member).base);
        }
    };
    let mut others = Vec::new();
    for step in program.parser.states.iter().flat_map(|state| &state.steps) {
        match step {
            ParserStep::Extract(Extracted::Header(id), _) => header(*id),
            ParserStep::Extract(Extracted::Next(stack), _) => {
                let stack = headers.stack(*stack);
                others.push(stack.next_word);
                stack.headers.iter().copied().for_each(&mut header);
            }
            ParserStep::Extract(Extracted::NextUnion(stack, member), _) => {
                let stack = headers.union_stack(*stack);
                others.push(stack.next_word);
                for &union in &stack.unions {
                    header(headers.union(union).headers[*member as usize]);
                }
            }
            ParserStep::Do(step) => others.extend(Facts::writes_of(program, step)),
            ParserStep::Lookahead(field, ..) => others.extend(words_of(headers.field(*field))),
            ParserStep::Verify(..) | ParserStep::Advance(_) => {}
        }
    }
    others.extend(program.standard.all().map(|spot| spot.word));
    let lists = program.arrays.field_lists.iter();
    for &field in lists.flat_map(|list| &list.fields) {
        others.extend(words_of(headers.field(field)));
    }
    written.extend(others);
    written
}

/// The words that are read after each pipeline, outside its nodes.
#[derive(Clone, Debug)]
pub(crate) struct Liveness {
    after_ingress: WordSet,
    after_egress: WordSet,
}

impl Liveness {
    pub(crate) fn new(program: &Program, facts: &Facts) -> Liveness {
        let after_egress = read_after_egress(program);
        let mut after_ingress = after_egress.clone();
        if let Some(start) = program.control.egress.start {
            for node in reachable(program, start) {
                after_ingress.extend(node_reads(program, facts, node));
            }
        }
        Liveness {
            after_ingress,
            after_egress,
        }
    }

    /// The words that may be read after a segment ends: by what follows its pipeline, and by
    /// the nodes from `next` on.
    pub(crate) fn at_end(
        &self,
        program: &Program,
        facts: &Facts,
        is_ingress: bool,
        next: Option<NodeId>,
    ) -> WordSet {
        let mut live = match is_ingress {
            true => self.after_ingress.clone(),
            false => self.after_egress.clone(),
        };
        for node in next.into_iter().flat_map(|next| reachable(program, next)) {
            live.extend(node_reads(program, facts, node));
        }
        live
    }
}

/// All words that a node may read.
fn node_reads(program: &Program, facts: &Facts, node: NodeId) -> Vec<u32> {
    let mut actions = Vec::new();
    let node = &program.control.nodes[node.index()];
    let mut words = steering(program, node, &mut actions);
    for action in actions {
        words.extend(facts.action(action).reads.iter().copied());
    }
    words
}

fn read_after_egress(program: &Program) -> WordSet {
    let headers = &program.headers;
    let mut live = WordSet::new(headers.initial.len());
    let mut reads = Reads::new(headers);
    for checksum in &program.checksums {
        if let Some(condition) = &checksum.condition {
            reads.expr(condition.expr());
        }
        reads.calculation(program, checksum.calculation);
    }
    live.extend(reads.words);
    for step in &program.deparser_steps {
        live.extend(Facts::reads_of(program, step));
    }
    // The deparser emits headers; a clone at the end of egress begins with them.
    for header in headers.headers.iter().filter(|header| !header.is_metadata) {
        live.extend(header.base..header.base + header.words);
    }
    live.extend(program.standard.all().map(|spot| spot.word));
    let lists = program.arrays.field_lists.iter().map(|list| &list.fields);
    let learned = program.arrays.learn_lists.iter().map(|list| &list.fields);
    for &field in lists.chain(learned).flatten() {
        live.extend(words_of(headers.field(field)));
    }
    live
}
