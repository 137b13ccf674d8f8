//! Faster extraction for packets that look like earlier ones.
//!
//! Most packets of a network have one of a few shapes, such as Ethernet, IPv4 and TCP. For
//! packets with the same headers, the compiled extraction (see [`crate::Layout::extract`]) can
//! be specialised further: one list of loads, with the presence bits already in place.
//!
//! ```text
//!   shape = shapes[hash of the present headers]; is it for exactly these headers?
//!     yes: key = presence bits; for load in loads: key[load.word] |= rotate(frame[..]) & load.mask
//!     no:  the general extraction; a shape that was of no use since the last time is replaced
//! ```
//!
//! 1. The key equals the general extraction's key in every bit: that one is the slow twin.
//!
//! Saves under a tenth of a packet's time where the IPv4 5-tuple is read.

use crate::extract::{Extraction, Receipt, load};
use crate::headers::Headers;

/// The number of remembered shapes; the headers present determine the place.
const PLACES: usize = 16;

/// One load of eight bytes.
#[derive(Clone, Copy, Debug)]
struct Load {
    /// The header that the load reads; `byte` counts from its start.
    header: u16,
    byte: u16,
    word: u16,
    rotate: u16,
    mask: u64,
}

/// How to extract a key from packets with one set of headers.
#[derive(Clone, Debug)]
struct Shape<const W: usize> {
    /// The headers, one bit each; zero before the first packet.
    present: u32,
    /// Whether the shape was used since another one was wanted in its place.
    was_of_use: bool,
    loads: Vec<Load>,
    /// The presence bits.
    constant: [u64; W],
}

/// Remembers how to extract keys of `W` words from recently seen sets of headers.
#[derive(Clone, Debug)]
pub struct Shapes<const W: usize> {
    shapes: Vec<Shape<W>>,
}

impl<const W: usize> Default for Shapes<W> {
    fn default() -> Self {
        let empty = Shape {
            present: 0,
            was_of_use: false,
            loads: Vec::new(),
            constant: [0; W],
        };
        Shapes {
            shapes: vec![empty; PLACES],
        }
    }
}

impl<const W: usize> Shapes<W> {
    /// Fills a key as the general extraction does; words from index `words` on are zero.
    #[inline]
    pub(crate) fn extract(
        &mut self,
        extraction: &Extraction,
        words: usize,
        (frame, headers, receipt): (&[u8], &Headers, &Receipt<'_>),
        key: &mut [u64; W],
    ) {
        let shape = &mut self.shapes[place_of(headers.present())];
        // Every parsed packet has an Ethernet header, so `present` is never zero here.
        if shape.present == headers.present() {
            shape.was_of_use = true;
            *key = shape.constant;
            for run in &shape.loads {
                let at = headers.offset_of_present(run.header as u8) + usize::from(run.byte);
                let loaded = load(frame, at).rotate_left(u32::from(run.rotate));
                key[usize::from(run.word) % W] |= loaded & run.mask;
            }
            extraction.fill_scalars(headers, receipt, key);
            return;
        }
        key[words..].fill(0);
        extraction.run(frame, headers, receipt, &mut key[..words]);
        if !std::mem::take(&mut shape.was_of_use) {
            shape.learn(extraction, headers.present());
        }
    }
}

impl<const W: usize> Shape<W> {
    /// Builds the list of loads for packets with these headers.
    #[cold]
    fn learn(&mut self, extraction: &Extraction, present: u32) {
        self.present = present;
        self.constant = [0; W];
        extraction.fill_presences(present, &mut self.constant);
        self.loads.clear();
        let runs = extraction.runs_of(present);
        self.loads.extend(runs.map(|(header, run)| Load {
            header: u16::from(header),
            byte: run.byte,
            word: run.word,
            rotate: run.rotate as u16,
            mask: run.mask,
        }));
    }
}

#[inline]
fn place_of(present: u32) -> usize {
    // Fibonacci hashing: the upper bits depend on all input bits.
    (present.wrapping_mul(0x9e37_79b9) >> 28) as usize % PLACES
}
