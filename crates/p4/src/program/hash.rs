//! The hashes and checksums of simple_switch.
//!
//! CRCs use a table of 256 remainders, for any width up to 64 bits and any of Williams'
//! parameters. Programs that name a `_custom` CRC may set its parameters. `toeplitz` has BMv2's
//! initial key of four zero bytes, so its result is 0.

use std::collections::HashMap;

use twox_hash::XxHash64;

use crate::program::calculation::Algorithm;

/// Inputs that `round_robin_consistent` remembers; later ones are counted but not remembered.
const REMEMBERED_MAX: usize = 1 << 16;

/// A cyclic redundancy check, as Ross Williams' model parameters describe it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CrcParameters {
    /// The polynomial, without its highest term.
    pub polynomial: u64,
    /// The initial value of the register.
    pub initial: u64,
    /// The value that is combined with the result by exclusive or.
    pub final_xor: u64,
    /// Whether each byte is read from its lowest bit.
    pub is_data_reflected: bool,
    /// Whether the bits of the result are reversed.
    pub is_remainder_reflected: bool,
}

/// A calculation's function, with its memory.
#[derive(Clone, Debug)]
pub(crate) struct Calculator {
    algorithm: Algorithm,
    crc: Option<Box<Crc>>,
    count: u64,
    remembered: HashMap<Vec<u8>, u64>,
}

impl Calculator {
    pub(crate) fn new(algorithm: Algorithm) -> Calculator {
        Calculator {
            algorithm,
            crc: standard_crc(algorithm).map(|(width, crc)| Box::new(Crc::new(width, crc))),
            count: 0,
            remembered: HashMap::new(),
        }
    }

    /// Sets the parameters of a custom CRC. Returns false for any other function.
    pub(crate) fn set_crc(&mut self, parameters: CrcParameters) -> bool {
        let is_custom = matches!(
            self.algorithm,
            Algorithm::Crc8Custom
                | Algorithm::Crc16Custom
                | Algorithm::Crc32Custom
                | Algorithm::Crc64Custom
        );
        if let (true, Some(crc)) = (is_custom, &mut self.crc) {
            **crc = Crc::new(crc.width, parameters);
        }
        is_custom
    }

    /// The result for these bytes.
    pub(crate) fn compute(&mut self, bytes: &[u8]) -> u64 {
        match self.algorithm {
            Algorithm::Csum16 => thalweg_packet::checksum::checksum(bytes).into(),
            Algorithm::Xor16 => folded(bytes, 2),
            Algorithm::Xor32 => folded(bytes, 4),
            Algorithm::Identity => {
                let first = bytes.iter().take(8);
                first.fold(0, |number, &byte| number << 8 | u64::from(byte))
            }
            Algorithm::Xxh64 => XxHash64::oneshot(0, bytes),
            Algorithm::HashEx => hash_ex(bytes).into(),
            Algorithm::RoundRobin => {
                self.count += 1;
                self.count - 1
            }
            Algorithm::RoundRobinConsistent => {
                if let Some(&before) = self.remembered.get(bytes) {
                    return before;
                }
                if self.remembered.len() < REMEMBERED_MAX {
                    self.remembered.insert(bytes.to_vec(), self.count);
                }
                self.count += 1;
                self.count - 1
            }
            Algorithm::Toeplitz => 0,
            Algorithm::Crc8Custom
            | Algorithm::Crc16
            | Algorithm::Crc16Custom
            | Algorithm::Crc32
            | Algorithm::Crc32Custom
            | Algorithm::Crc64Custom
            | Algorithm::CrcCcitt => {
                let crc = self.crc.as_ref().expect("these have one");
                crc.compute(bytes)
            }
        }
    }
}

/// The exclusive or of big-endian numbers; the last is padded with zeros at its end.
fn folded(bytes: &[u8], size: usize) -> u64 {
    let numbers = bytes.chunks(size).map(|chunk| {
        let number = chunk
            .iter()
            .fold(0, |number, &byte| number << 8 | u64::from(byte));
        number << (8 * (size - chunk.len()))
    });
    numbers.fold(0, |folded, number| folded ^ number)
}

/// simple_switch's hash: FNV over signed bytes, then mixed.
fn hash_ex(bytes: &[u8]) -> u32 {
    let step = |hash: u32, &byte: &u8| (hash ^ byte as i8 as u32).wrapping_mul(16_777_619);
    let mut hash = bytes.iter().fold(2_166_136_261, step);
    hash = hash.wrapping_add(hash << 13);
    hash ^= hash >> 7;
    hash = hash.wrapping_add(hash << 3);
    hash ^= hash >> 17;
    hash.wrapping_add(hash << 5)
}

/// Width and parameters as in simple_switch.
fn standard_crc(algorithm: Algorithm) -> Option<(u32, CrcParameters)> {
    let crc = |width, polynomial, initial, final_xor, is_reflected| {
        Some((
            width,
            CrcParameters {
                polynomial,
                initial,
                final_xor,
                is_data_reflected: is_reflected,
                is_remainder_reflected: is_reflected,
            },
        ))
    };
    match algorithm {
        Algorithm::Crc8Custom => crc(8, 0x07, 0, 0, false),
        Algorithm::Crc16 | Algorithm::Crc16Custom => crc(16, 0x8005, 0, 0, true),
        Algorithm::Crc32 | Algorithm::Crc32Custom => {
            crc(32, 0x04c1_1db7, 0xffff_ffff, 0xffff_ffff, true)
        }
        Algorithm::Crc64Custom => crc(64, 0x1b, 0, 0, true),
        Algorithm::CrcCcitt => crc(16, 0x1021, 0xffff, 0, false),
        _ => None,
    }
}

/// A CRC with its table.
#[derive(Clone, Debug)]
struct Crc {
    width: u32,
    parameters: CrcParameters,
    table: [u64; 256],
}

impl Crc {
    fn new(width: u32, parameters: CrcParameters) -> Crc {
        let mask = u64::MAX >> (64 - width);
        let top = 1 << (width - 1);
        let mut table = [0; 256];
        for (dividend, remainder) in (0_u64..).zip(&mut table) {
            *remainder = dividend << (width - 8);
            for _ in 0..8 {
                *remainder = match *remainder & top != 0 {
                    true => *remainder << 1 ^ parameters.polynomial,
                    false => *remainder << 1,
                } & mask;
            }
        }
        Crc {
            width,
            parameters,
            table,
        }
    }

    fn compute(&self, bytes: &[u8]) -> u64 {
        let mask = u64::MAX >> (64 - self.width);
        let mut remainder = self.parameters.initial & mask;
        for &byte in bytes {
            let byte = match self.parameters.is_data_reflected {
                true => byte.reverse_bits(),
                false => byte,
            };
            let index = u64::from(byte) ^ remainder >> (self.width - 8);
            remainder = (self.table[index as usize & 0xff] ^ remainder.wrapping_shl(8)) & mask;
            if self.width == 8 {
                remainder = self.table[index as usize & 0xff];
            }
        }
        if self.parameters.is_remainder_reflected {
            remainder = remainder.reverse_bits() >> (64 - self.width);
        }
        (remainder ^ self.parameters.final_xor) & mask
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected values are from the catalogue of parametrised CRC algorithms, for these
    /// nine digits.
    #[test]
    fn crcs_of_nine_digits() {
        let known = [
            (Algorithm::Crc16, 0xbb3d),
            (Algorithm::Crc32, 0xcbf4_3926),
            (Algorithm::CrcCcitt, 0x29b1),
            (Algorithm::Crc8Custom, 0xf4),
        ];
        for (algorithm, expected) in known {
            assert_eq!(
                Calculator::new(algorithm).compute(b"123456789"),
                expected,
                "{algorithm:?}"
            );
        }
        let mut ecma = Calculator::new(Algorithm::Crc64Custom);
        assert!(ecma.set_crc(CrcParameters {
            polynomial: 0x42f0_e1eb_a9ea_3693,
            initial: u64::MAX,
            final_xor: u64::MAX,
            is_data_reflected: true,
            is_remainder_reflected: true,
        }));
        assert_eq!(ecma.compute(b"123456789"), 0x995d_c9bb_df19_39fa);
    }

    #[test]
    fn the_others() {
        let compute = |algorithm, bytes: &[u8]| Calculator::new(algorithm).compute(bytes);
        assert_eq!(compute(Algorithm::Identity, &[1, 2]), 0x102);
        assert_eq!(compute(Algorithm::Identity, &[1; 9]), 0x0101_0101_0101_0101);
        assert_eq!(compute(Algorithm::Xor16, &[1, 2, 4]), 0x0502);
        assert_eq!(compute(Algorithm::Xor32, &[1, 2, 3, 4, 1]), 0x0002_0304);
        assert_eq!(compute(Algorithm::Csum16, &[0x45, 0x00, 0x00]), 0xbaff);
        assert_eq!(compute(Algorithm::Xxh64, b""), 0xef46_db37_51d8_e999);
        // The results of simple_switch's own function.
        let mixed: [(&[u8], u64); 3] = [
            (b"", 0x5902_879e),
            (b"123456789", 0xaf67_fb84),
            (&[0xff, 0x80, 1], 0xfd9b_3b6c),
        ];
        for (bytes, expected) in mixed {
            assert_eq!(compute(Algorithm::HashEx, bytes), expected, "{bytes:?}");
        }
        let mut consistent = Calculator::new(Algorithm::RoundRobinConsistent);
        let asked: [&[u8]; 4] = [b"a", b"b", b"a", b"c"];
        assert_eq!(asked.map(|bytes| consistent.compute(bytes)), [0, 1, 0, 2]);
    }
}
