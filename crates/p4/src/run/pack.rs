//! Appends fields to each other, bit to bit: the inputs of hashes and checksums, and headers.

use crate::program::calculation::{Algorithm, Calculation, Input};
use crate::program::headers::{Field, Headers, Lane};
use crate::program::ids::HeaderId;

use super::frame::Frame;
use crate::program::exact;

/// A sink of bits that arrive in words.
pub(super) trait Words {
    /// Takes the first bytes of a word, most significant first; the rest of the word is zero.
    /// All but the last word have eight bytes.
    fn push(&mut self, word: u64, bytes: usize);
}

impl Words for Vec<u8> {
    #[inline]
    fn push(&mut self, word: u64, bytes: usize) {
        self.extend_from_slice(&word.to_be_bytes()[..bytes]);
    }
}

/// The sum of RFC 1071. In it 2^16 counts as 1, so it sums whole words and folds once.
#[derive(Clone, Copy, Debug, Default)]
struct Sum(u128);

impl Words for Sum {
    #[inline]
    fn push(&mut self, word: u64, _: usize) {
        self.0 += u128::from(word);
    }
}

impl Sum {
    /// The checksum of all words taken.
    fn checksum(self) -> u16 {
        let mut sum = (self.0 >> 64) as u64 + (self.0 as u64 >> 32) + (self.0 as u64 & 0xffff_ffff);
        while sum > 0xffff {
            sum = (sum >> 16) + (sum & 0xffff);
        }
        !(sum as u16)
    }
}

/// Appends bits one after the other.
///
/// They are collected in a word, the first at its top, which is appended when it is full. So no
/// byte is read that was just written.
pub(super) struct BitWriter<'a, W> {
    pub(super) into: &'a mut W,
    word: u64,
    /// Bits in the word; always fewer than 64.
    filled: u32,
}

impl<'a, W: Words> BitWriter<'a, W> {
    pub(super) fn new(into: &'a mut W) -> BitWriter<'a, W> {
        BitWriter {
            into,
            word: 0,
            filled: 0,
        }
    }

    /// Appends a value of 1 to 64 bits.
    #[inline]
    fn put(&mut self, value: u64, width_bits: u32) {
        let free = 64 - self.filled;
        if width_bits < free {
            self.word |= value << (free - width_bits);
            self.filled += width_bits;
            return;
        }
        let rest = width_bits - free;
        let full = self.word | value >> rest;
        self.into.push(full, 8);
        self.word = match rest {
            0 => 0,
            rest => value << (64 - rest),
        };
        self.filled = rest;
    }

    /// Appends the lowest bits of the words, the most significant first.
    fn put_words(&mut self, words: &[u64], width_bits: u32) {
        let mut rest = width_bits;
        let used = width_bits.div_ceil(64) as usize;
        for &word in &words[words.len() - used..] {
            let bits = (rest - 1) % 64 + 1;
            self.put(word & crate::program::code::low_mask(bits), bits);
            rest -= bits;
        }
    }

    fn put_field(&mut self, field: &Field, width_bits: u32, frame: &Frame) {
        match field.words() {
            1 if width_bits > 0 => self.put(frame.words[field.word as usize], width_bits),
            1 => {}
            _ => self.put_words(&frame.words[exact::range(field)], width_bits),
        }
    }

    pub(super) fn put_header(&mut self, headers: &Headers, id: HeaderId, frame: &Frame) {
        if let Some(lanes) = headers.lanes(id) {
            for lane in lanes {
                self.put(frame.words[lane.word as usize], lane.width_bits);
            }
            return;
        }
        for field in headers.header(id).fields() {
            let field = headers.field(field);
            self.put_field(field, width(headers, field, frame), frame);
        }
    }

    /// Appends the lanes of valid headers.
    fn put_lanes(&mut self, lanes: &[(u32, Lane)], frame: &Frame) {
        for (valid, lane) in lanes {
            if frame.words[*valid as usize] != 0 {
                self.put(frame.words[lane.word as usize], lane.width_bits);
            }
        }
    }

    /// Appends the remaining bits, with the last byte padded with zeros.
    pub(super) fn finish(self) {
        self.into.push(self.word, self.filled.div_ceil(8) as usize);
    }
}

/// The current width of a field.
fn width(headers: &Headers, field: &Field, frame: &Frame) -> u32 {
    match field.is_varbit {
        false => field.width_bits,
        true => {
            let header = headers.header(field.header);
            frame.words[header.varbit_length_word() as usize] as u32
        }
    }
}

/// Appends the input of a calculation: valid fields, bit to bit.
pub(crate) fn pack(
    headers: &Headers,
    calculation: &Calculation,
    frame: &Frame,
    into: &mut Vec<u8>,
) {
    let mut writer = BitWriter::new(into);
    if let Some(lanes) = &calculation.lanes {
        writer.put_lanes(lanes, frame);
        return writer.finish();
    }
    let mut with_payload = false;
    for part in &calculation.input {
        match part {
            Input::Field(field) => {
                let field = headers.field(*field);
                if frame.is_valid(headers, field.header) {
                    let width = width(headers, field, frame);
                    writer.put_field(field, width, frame);
                }
            }
            Input::Constant(bytes, bits) => {
                let mut rest = *bits;
                for byte in bytes {
                    let width = rest.min(8);
                    writer.put(u64::from(byte >> (8 - width)), width);
                    rest -= width;
                }
            }
            Input::Header(header) => {
                if frame.is_valid(headers, *header) {
                    writer.put_header(headers, *header, frame);
                }
            }
            Input::Payload => with_payload = true,
        }
    }
    writer.finish();
    if with_payload {
        into.extend_from_slice(frame.payload());
    }
}

/// The checksum over a calculation's input, without writing the bytes. `None` if the function
/// is another one, or the input is not only lanes.
#[inline]
pub(crate) fn checksum_of(calculation: &Calculation, frame: &Frame) -> Option<u64> {
    let is_sum = calculation.algorithm == Algorithm::Csum16;
    let lanes = calculation.lanes.as_ref().filter(|_| is_sum)?;
    let mut sum = Sum::default();
    let mut writer = BitWriter::new(&mut sum);
    writer.put_lanes(lanes, frame);
    writer.finish();
    Some(sum.checksum().into())
}

#[cfg(test)]
mod tests {
    use rand::{Rng, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    use super::*;

    #[test]
    fn bits_are_appended_where_the_last_ended() {
        let mut bytes = vec![0xff];
        let mut writer = BitWriter::new(&mut bytes);
        writer.put(0b101, 3);
        writer.put(u64::MAX, 64);
        writer.put_words(&[0x1, 0x8000_0000_0000_0001], 65);
        writer.finish();
        let expected: [u8; 17] = [
            0b1011_1111,
            255,
            255,
            255,
            255,
            255,
            255,
            255,
            0b1111_1000 | 0b110,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0b0000_1000,
        ];
        // 3 + 64 + 65 bits: 132, so the last four are padding.
        assert_eq!(bytes[0], 0xff);
        assert_eq!(bytes.len(), 1 + 17);
        let bit = |at: usize| bytes[1 + at / 8] >> (7 - at % 8) & 1;
        let ones: Vec<usize> = (0..132).filter(|&at| bit(at) == 1).collect();
        let mut wanted = vec![0, 2];
        wanted.extend(3..67);
        wanted.extend([67, 68, 131]);
        assert_eq!(ones, wanted);
        assert_eq!(bytes[1], expected[0]);
    }

    /// Compares with the checksum of the bytes, over lanes of any width, including all zeros
    /// and all ones.
    #[test]
    fn a_sum_of_words_is_the_checksum_of_the_bytes() {
        let mut random = Pcg64Mcg::seed_from_u64(8);
        for round in 0..20_000 {
            let (mut bytes, mut sum) = (Vec::new(), Sum::default());
            let mut writers = (BitWriter::new(&mut bytes), BitWriter::new(&mut sum));
            for _ in 0..random.random_range(0..24) {
                let width = random.random_range(1..=64);
                let value = match round % 4 {
                    0 => 0,
                    1 => u64::MAX,
                    _ => random.random(),
                } & crate::program::code::low_mask(width);
                writers.0.put(value, width);
                writers.1.put(value, width);
            }
            writers.0.finish();
            writers.1.finish();
            let expected = thalweg_packet::checksum::checksum(&bytes);
            assert_eq!(sum.checksum(), expected, "{bytes:x?}");
        }
    }
}
