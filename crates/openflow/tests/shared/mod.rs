//! Messages that other programs wrote, and damage to them.
//!
//! A line has a name, the bytes, and the error of a message that must be refused. A name
//! with `TABLES` belongs to a message that was sent on a connection with `NXT_FLOW_MOD_TABLE_ID`.

// Each test program uses only a part of it.
#![allow(dead_code)]

use thalweg_openflow::Context;

/// One line.
pub(crate) struct Vector {
    pub(crate) name: &'static str,
    pub(crate) bytes: Vec<u8>,
    pub(crate) error: Option<&'static str>,
    pub(crate) context: Context,
}

pub(crate) fn vectors() -> Vec<Vector> {
    let files = [
        include_str!("../vectors/ovs-ofctl.txt"),
        include_str!("../vectors/ovs-vswitchd.txt"),
        include_str!("../vectors/messages.txt"),
        include_str!("../vectors/actions.txt"),
    ];
    let lines = files.into_iter().flat_map(str::lines);
    let vector = |line: &'static str| {
        let mut parts = line.split('|').map(str::trim);
        let (name, hex) = (parts.next()?, parts.next()?);
        Some(Vector {
            name,
            bytes: from_hex(hex),
            error: parts.next().filter(|error| !error.is_empty()),
            context: Context {
                flow_mod_table_id: name.contains("TABLES"),
            },
        })
    };
    let vectors: Vec<Vector> = lines.filter_map(vector).collect();
    assert!(vectors.len() > 1000, "{} vectors", vectors.len());
    vectors
}

fn from_hex(hex: &str) -> Vec<u8> {
    let digits = hex.as_bytes().chunks(2);
    let byte = |pair: &[u8]| {
        let text = std::str::from_utf8(pair).expect("hexadecimal digits");
        u8::from_str_radix(text, 16).expect("hexadecimal digits")
    };
    digits.map(byte).collect()
}

impl Vector {
    /// The message with a wrong number in each place in turn that may be a length.
    pub(crate) fn wrong_lengths(&self) -> impl Iterator<Item = Vec<u8>> {
        let places = 8..self.bytes.len().saturating_sub(1);
        places.flat_map(move |place| {
            let right = u16::from_be_bytes([self.bytes[place], self.bytes[place + 1]]);
            let wrong = [
                0,
                1,
                3,
                7,
                right.wrapping_sub(1),
                right.wrapping_add(1),
                right.wrapping_add(8),
                self.bytes.len() as u16,
                u16::MAX,
            ];
            wrong.into_iter().map(move |wrong: u16| {
                let mut bytes = self.bytes.clone();
                bytes[place..place + 2].copy_from_slice(&wrong.to_be_bytes());
                bytes
            })
        })
    }
}

/// Numbers that look random and are the same in every run.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// A number below `below`.
    pub(crate) fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as usize % below
    }

    /// The message with one to four bytes changed, added or removed, and the right length.
    pub(crate) fn change(&mut self, message: &[u8]) -> Vec<u8> {
        let mut bytes = message.to_vec();
        for _ in 0..=self.next(4) {
            let place = self.next(bytes.len());
            match self.next(4) {
                0 => bytes[place] = self.next(256) as u8,
                1 => bytes[place] ^= 1 << self.next(8),
                2 => {
                    bytes.remove(place);
                }
                _ => bytes.insert(place, self.next(256) as u8),
            }
            if bytes.is_empty() {
                bytes.push(0);
            }
        }
        set_length(&mut bytes);
        bytes
    }
}

/// Gives a message its length.
pub(crate) fn set_length(bytes: &mut [u8]) {
    let length = (bytes.len() as u16).to_be_bytes();
    if let Some(place) = bytes.get_mut(2..4) {
        place.copy_from_slice(&length);
    }
}
