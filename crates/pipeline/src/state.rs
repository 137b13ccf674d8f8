//! The state of a walk: the value of every bit, and where it came from.
//!
//! The words of the layout start as the packet's key (ingress fields) and zeros (registers).
//! Each bit has a *provenance*: it is still the ingress bit of the same place, or a constant,
//! or a copy of another ingress bit, or the result of arithmetic on several. Reading a bit
//! adds to the mask the ingress bits it came from; a constant adds nothing. So the mask names
//! only ingress bits, however often they are moved and rewritten on the way. (`set_field` adds
//! nothing to the mask; reading a register that holds a moved address reads the address.)
//!
//! 1. `original & constant == 0`, and bits in neither have an entry in `sources`.
//! 2. The mask only grows. Keys that agree on it have the same values in all bits ever read,
//!    because each such bit is a function of the bits added when it was read.
//! 3. A bit outside the layout is never read, so writes to it need no record.
//! 4. Two functions of the same bits share one number. So there are few of them, however often
//!    a copy of the packet has its TTL decremented, and their numbers fit above those of bits.

use thalweg_packet::standard::IN_PORT;
use thalweg_packet::{FieldId, Layout, Slot};

use crate::action::{Slice, Subfield};
use crate::interpret::Spare;

/// Numbers below this are ingress bits; from here on they are functions.
const FIRST_FUNCTION: u16 = 0x8000;

/// The bits of the input port that say which port of its bridge it is.
pub(crate) const PORT_BITS: u32 = 0xffff;

/// Values and provenance of all bits, and the mask of the bits read.
#[derive(Clone, Debug)]
pub(crate) struct State<'a> {
    layout: &'a Layout,
    words: Vec<u64>,
    original: Vec<u64>,
    constant: Vec<u64>,
    /// Indexed by bit (word * 64 + shift): its source, where it is neither original nor
    /// constant. Allocated at the first copy.
    sources: Vec<u16>,
    /// Indexed by function: the ingress bits it depends on.
    functions: Vec<Box<[u64]>>,
    /// Ingress bits read so far.
    mask: Vec<u64>,
    /// Bits read since [`State::move_reads`]: bits of the state, then the ingress bits they
    /// added.
    reads: Vec<u64>,
    /// One bit for each word: whether any bit of the word was written since the walk began.
    pub(crate) written_words: u64,
    /// Whether the upper half of the input port is the bridge, which actions neither read nor
    /// write: to them those bits are zero.
    pub(crate) hides_bridge: bool,
}

/// The state that a clone restores afterwards: all except the records of reads.
pub(crate) struct Snapshot {
    words: Vec<u64>,
    original: Vec<u64>,
    constant: Vec<u64>,
    sources: Vec<u16>,
}

/// Bits that were saved by `push`, with their provenance.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Lifted {
    value: Vec<bool>,
    provenance: Vec<Provenance>,
}

impl Lifted {
    /// Constant bits, from a big-endian number of whole bytes.
    pub fn from_bytes(bytes: &[u8]) -> Lifted {
        let bytes = bytes.iter().rev();
        let value: Vec<bool> = bytes
            .flat_map(|byte| (0..8).map(move |bit| byte >> bit & 1 == 1))
            .collect();
        Lifted {
            provenance: vec![Provenance::Constant; value.len()],
            value,
        }
    }

    /// The bits as a big-endian number of as few whole bytes as hold their width.
    pub fn to_bytes(&self) -> Vec<u8> {
        let bytes = self.value.chunks(8).rev();
        let byte = |bits: &[bool]| {
            let bits = bits.iter().enumerate();
            bits.fold(0, |byte, (place, bit)| byte | u8::from(*bit) << place)
        };
        bytes.map(byte).collect()
    }

    /// The number of bits.
    pub(crate) fn width_bits(&self) -> usize {
        self.value.len()
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.value.len() + std::mem::size_of_val(&*self.provenance)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Provenance {
    Constant,
    Source(u16),
}

impl<'a> State<'a> {
    /// Creates the state of a packet with this key; `registers` are the values it resumes
    /// with.
    pub(crate) fn new(
        layout: &'a Layout,
        key: &[u64],
        registers: Option<&[u64]>,
        spare: &mut Spare,
    ) -> State<'a> {
        let (ingress, words) = (layout.ingress_words(), layout.words());
        // Fills ingress words with one value and registers with another.
        let mut filled = |of_ingress: u64, of_registers: u64| {
            let mut list = spare.filled(of_registers, words);
            list[..ingress].fill(of_ingress);
            list
        };
        let mut state = State {
            layout,
            words: filled(0, 0),
            original: filled(u64::MAX, 0),
            constant: filled(0, u64::MAX),
            sources: Vec::new(),
            functions: Vec::new(),
            mask: spare.filled(0, ingress),
            reads: spare.filled(0, words + ingress),
            written_words: 0,
            hides_bridge: false,
        };
        state.words[..ingress].copy_from_slice(&key[..ingress]);
        if let Some(registers) = registers {
            state.words[ingress..].copy_from_slice(registers);
        }
        state
    }

    /// Returns the mask; leaves all other memory to the next walk.
    pub(crate) fn into_mask(self, spare: &mut Spare) -> Vec<u64> {
        for list in [self.words, self.original, self.constant, self.reads] {
            spare.keep(list);
        }
        self.mask
    }

    pub(crate) fn words(&self) -> &[u64] {
        &self.words
    }

    /// Reads all registers and returns their values.
    pub(crate) fn read_registers(&mut self) -> Vec<u64> {
        let ingress = self.layout.ingress_words();
        let mut all = vec![0; self.words.len()];
        all[ingress..].fill(u64::MAX);
        self.read_words(&all);
        self.words[ingress..].to_vec()
    }

    /// Moves the reads since the last call into a step's record.
    pub(crate) fn move_reads(&mut self, into: &mut [u64]) {
        for (into, reads) in into.iter_mut().zip(&mut self.reads) {
            *into |= std::mem::take(reads);
        }
    }

    /// Reads the bits `mask` of the state.
    pub(crate) fn read_words(&mut self, mask: &[u64]) {
        for (word, &bits) in mask.iter().enumerate() {
            if bits != 0 {
                self.read_word(word, bits);
            }
        }
    }

    /// Reads bits of a word.
    pub(crate) fn read_word(&mut self, word: usize, bits: u64) {
        self.reads[word] |= bits;
        let original = bits & self.original[word];
        if original != 0 {
            self.add_to_mask(word, original);
        }
        let mut moved = bits & !self.original[word] & !self.constant[word];
        while moved != 0 {
            let bit = moved.trailing_zeros() as usize;
            moved &= moved - 1;
            self.read_source(self.sources[word * 64 + bit]);
        }
    }

    fn add_to_mask(&mut self, word: usize, bits: u64) {
        let added = bits & !self.mask[word];
        self.mask[word] |= added;
        let words = self.words.len();
        self.reads[words + word] |= added;
    }

    fn read_source(&mut self, source: u16) {
        if source < FIRST_FUNCTION {
            self.add_to_mask(usize::from(source) / 64, 1 << (source % 64));
            return;
        }
        for word in 0..self.mask.len() {
            let dependencies = self.functions[usize::from(source - FIRST_FUNCTION)][word];
            self.add_to_mask(word, dependencies);
        }
    }

    /// Reads a field and returns its value. A field outside the layout is zero and adds
    /// nothing.
    pub(crate) fn read(&mut self, field: FieldId) -> u128 {
        self.read_masked(field, u128::MAX)
    }

    /// Reads the bits `mask` of a field.
    pub(crate) fn read_masked(&mut self, field: FieldId, mask: u128) -> u128 {
        let Some(slot) = self.layout.slot(field) else {
            return 0;
        };
        for (word, bits) in words_of(slot, mask) {
            if bits != 0 {
                self.read_word(word, bits);
            }
        }
        self.peek(field) & mask
    }

    /// A field's value, without reading it; used for fields that are overwritten or reported.
    pub(crate) fn peek(&self, field: FieldId) -> u128 {
        self.layout.get(&self.words, field).unwrap_or(0)
    }

    /// Reads the bits of a subfield as one number, least significant first.
    pub(crate) fn read_subfield(&mut self, subfield: &Subfield) -> u128 {
        let mut value = 0;
        let mut width = 0;
        for slice in &subfield.slices {
            let mut ones = slice_mask(slice);
            if self.hides_bridge && slice.field == IN_PORT {
                ones &= u128::from(PORT_BITS);
            }
            value |= (self.read_masked(slice.field, ones) >> slice.offset) << width;
            width += slice.width_bits;
        }
        value
    }

    /// Writes constants over the bits `mask` of a field.
    pub(crate) fn write(&mut self, field: FieldId, value: u128, mask: u128) {
        let Some(slot) = self.layout.slot(field) else {
            return;
        };
        let old = self.peek(field);
        self.layout
            .set(&mut self.words, field, old & !mask | value & mask);
        for (word, bits) in words_of(slot, mask) {
            self.original[word] &= !bits;
            self.constant[word] |= bits;
            self.written_words |= 1 << word;
        }
    }

    /// Writes a value that depends on all bits that `of` depends on.
    pub(crate) fn write_function(&mut self, field: FieldId, value: u128, of: FieldId) {
        let Some(slot) = self.layout.slot(field) else {
            return;
        };
        // To find what reading `of` would add, read it in a state whose mask is empty.
        let (mask, reads) = (self.mask.clone(), self.reads.clone());
        self.mask.fill(0);
        self.read(of);
        let dependencies = std::mem::replace(&mut self.mask, mask);
        self.reads = reads;
        self.write(field, value, u128::MAX >> (128 - slot.width_bits));
        if dependencies.iter().all(|word| *word == 0) {
            return;
        }
        // Invariant 4.
        let known = self
            .functions
            .iter()
            .position(|known| **known == *dependencies);
        let number = known.unwrap_or(self.functions.len());
        if known.is_none() {
            self.functions.push(dependencies.into());
        }
        let source = FIRST_FUNCTION + number as u16;
        for bit in 0..slot.width_bits {
            let (word, shift) = slot.position(bit);
            self.set_provenance(word, shift, Provenance::Source(source));
        }
    }

    /// Makes all registers zero.
    pub(crate) fn clear_registers(&mut self) {
        for word in self.layout.ingress_words()..self.words.len() {
            (self.words[word], self.original[word], self.constant[word]) = (0, 0, u64::MAX);
            self.written_words |= 1 << word;
        }
    }

    /// Copies bits with their provenance; both sides are equally wide.
    pub(crate) fn copy(&mut self, source: &Subfield, destination: &Subfield) {
        let bits = self.lift(source);
        self.put_down(&bits, destination);
    }

    /// Lifts the bits of a subfield with their provenance, without reading them.
    pub(crate) fn lift(&self, subfield: &Subfield) -> Lifted {
        let mut lifted = Lifted {
            value: Vec::new(),
            provenance: Vec::new(),
        };
        for slice in &subfield.slices {
            for bit in slice.offset..slice.offset + slice.width_bits {
                let Some(slot) = self.slot_of_bit(slice.field, bit) else {
                    lifted.value.push(false);
                    lifted.provenance.push(Provenance::Constant);
                    continue;
                };
                let (word, shift) = slot.position(bit);
                lifted.value.push(self.words[word] >> shift & 1 == 1);
                lifted.provenance.push(self.provenance(word, shift));
            }
        }
        lifted
    }

    /// Where a field lies, if actions know its bit.
    fn slot_of_bit(&self, field: FieldId, bit: u16) -> Option<Slot> {
        let is_hidden = self.hides_bridge && field == IN_PORT && PORT_BITS >> bit & 1 == 0;
        self.layout.slot(field).filter(|_| !is_hidden)
    }

    /// Writes lifted bits to a subfield; missing bits are zero.
    pub(crate) fn put_down(&mut self, lifted: &Lifted, subfield: &Subfield) {
        let mut next = 0;
        for slice in &subfield.slices {
            for bit in slice.offset..slice.offset + slice.width_bits {
                let value = lifted.value.get(next).copied().unwrap_or(false);
                let provenance = lifted.provenance.get(next).copied();
                next += 1;
                let Some(slot) = self.slot_of_bit(slice.field, bit) else {
                    continue;
                };
                let (word, shift) = slot.position(bit);
                self.words[word] = self.words[word] & !(1 << shift) | u64::from(value) << shift;
                self.set_provenance(word, shift, provenance.unwrap_or(Provenance::Constant));
            }
        }
    }

    /// Reads lifted bits and returns their value.
    pub(crate) fn read_lifted(&mut self, lifted: &Lifted) -> u128 {
        for provenance in &lifted.provenance {
            if let Provenance::Source(source) = provenance {
                self.read_source(*source);
            }
        }
        let bits = lifted.value.iter().take(128).enumerate();
        bits.fold(0, |value, (index, bit)| value | u128::from(*bit) << index)
    }

    /// Reads lifted bits and makes them constants, for a walk that goes on in another state.
    pub(crate) fn read_for_good(&mut self, lifted: &Lifted) -> Lifted {
        self.read_lifted(lifted);
        let provenance = vec![Provenance::Constant; lifted.value.len()];
        Lifted {
            value: lifted.value.clone(),
            provenance,
        }
    }

    /// Whether every bit of a field still has its ingress value.
    pub(crate) fn is_original(&self, field: FieldId) -> bool {
        let Some(slot) = self.layout.slot(field) else {
            return false;
        };
        (0..slot.width_bits).all(|bit| {
            let (word, shift) = slot.position(bit);
            self.original[word] >> shift & 1 == 1
        })
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot {
            words: self.words.clone(),
            original: self.original.clone(),
            constant: self.constant.clone(),
            sources: self.sources.clone(),
        }
    }

    pub(crate) fn restore(&mut self, snapshot: Snapshot) {
        self.words = snapshot.words;
        self.original = snapshot.original;
        self.constant = snapshot.constant;
        self.sources = snapshot.sources;
    }

    fn provenance(&self, word: usize, shift: u32) -> Provenance {
        if self.constant[word] >> shift & 1 == 1 {
            Provenance::Constant
        } else if self.original[word] >> shift & 1 == 1 {
            Provenance::Source((word * 64) as u16 + shift as u16)
        } else {
            Provenance::Source(self.sources[word * 64 + shift as usize])
        }
    }

    fn set_provenance(&mut self, word: usize, shift: u32, provenance: Provenance) {
        let bit = 1 << shift;
        self.written_words |= 1 << word;
        self.original[word] &= !bit;
        self.constant[word] &= !bit;
        match provenance {
            Provenance::Constant => self.constant[word] |= bit,
            Provenance::Source(source) => {
                if self.sources.is_empty() {
                    self.sources = vec![0; self.words.len() * 64];
                }
                self.sources[word * 64 + shift as usize] = source;
            }
        }
    }
}

/// The bits of a field in a mask: each word they lie in, and which of its bits.
fn words_of(slot: Slot, mask: u128) -> impl Iterator<Item = (usize, u64)> {
    let count = slot.word_count();
    (0..count).map(move |index| {
        let below = (count - 1 - index) * 64;
        let width = (usize::from(slot.width_bits) - below).min(64);
        let ones = u64::MAX >> (64 - width);
        let bits = ((mask >> below) as u64 & ones) << slot.shift;
        (usize::from(slot.word) + index, bits)
    })
}

fn slice_mask(slice: &Slice) -> u128 {
    let ones = if slice.width_bits >= 128 {
        u128::MAX
    } else {
        (1 << slice.width_bits) - 1
    };
    ones << slice.offset
}
