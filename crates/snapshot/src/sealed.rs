//! A file whose blocks have sums, under redb.
//!
//! ```text
//!   block 0:    magic, version, length             sum
//!   block n:    4092 bytes of the contents         sum of n and of these bytes
//! ```
//!
//! redb checks sums of its own only when it repairs a file. Here a block whose sum is wrong is
//! an error before any of its bytes are used.
//!
//! 1. Each block is a page of the file: a process that is killed leaves it old or new, not half.
//!    A machine that loses power may leave half of one, where sectors are shorter; the file is
//!    refused then.
//! 2. Every byte of the file is under a sum, zeros that were never written too.

use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use redb::StorageBackend;

use crate::error::SnapshotError;

/// What files begin with.
const MAGIC: &[u8; 16] = b"thalweg snapshot";

/// The version of what this module does.
const VERSION: u32 = 1;

/// Bytes of a block.
const BLOCK: usize = 4_096;

/// Bytes of the contents in a block.
const DATA: usize = BLOCK - SUM;

/// Bytes of a sum (CRC-32C, RFC 3720, section 12.1).
const SUM: usize = 4;

/// A file whose blocks have sums.
#[derive(Debug)]
pub(crate) struct SealedFile {
    file: File,
    /// The length of the contents; locked while blocks are written.
    len: Mutex<u64>,
}

/// Part of a block.
struct Part {
    block: u64,
    start: usize,
    end: usize,
}

impl SealedFile {
    /// Opens a file; an empty one gets its first block.
    ///
    /// # Errors
    /// If it is no such file, or cannot be read.
    pub(crate) fn open(file: File) -> std::result::Result<SealedFile, SnapshotError> {
        let size = file.metadata()?.len();
        let sealed = SealedFile {
            file,
            len: Mutex::new(0),
        };
        if size == 0 {
            sealed.write_header(0)?;
            return Ok(sealed);
        }
        let mut magic = [0; MAGIC.len()];
        if size < magic.len() as u64 {
            return Err(SnapshotError::Foreign);
        }
        sealed.file.read_exact_at(&mut magic, 0)?;
        if magic != *MAGIC {
            return Err(SnapshotError::Foreign);
        }
        let header = match sealed.read_block(0) {
            Ok(header) => header,
            Err(error) if is_of_contents(&error) => return Err(SnapshotError::damaged(error)),
            Err(error) => return Err(error.into()),
        };
        let found = u32::from_le_bytes(part_of(&header, 16));
        if found != VERSION {
            let known = VERSION;
            return Err(SnapshotError::Format { found, known });
        }
        *sealed.lock() = u64::from_le_bytes(part_of(&header, 20));
        Ok(sealed)
    }

    fn lock(&self) -> MutexGuard<'_, u64> {
        self.len.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_header(&self, len: u64) -> Result<()> {
        let mut block = [0; BLOCK];
        block[..16].copy_from_slice(MAGIC);
        block[16..20].copy_from_slice(&VERSION.to_le_bytes());
        block[20..28].copy_from_slice(&len.to_le_bytes());
        self.write_block(0, &mut block)
    }

    fn read_block(&self, number: u64) -> Result<[u8; BLOCK]> {
        let mut block = [0; BLOCK];
        let read = self.file.read_exact_at(&mut block, number * BLOCK as u64);
        read.map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => wrong("it ends too early"),
            _ => error,
        })?;
        match sum(number, &block) == part_of(&block, DATA) {
            true => Ok(block),
            false => Err(wrong(&format!("block {number} has another sum"))),
        }
    }

    /// Writes a block in one call (invariant 1).
    fn write_block(&self, number: u64, block: &mut [u8; BLOCK]) -> Result<()> {
        #[cfg(test)]
        crate::tests::spend_write()?;
        let sum = sum(number, block);
        block[DATA..].copy_from_slice(&sum);
        self.file.write_all_at(block, number * BLOCK as u64)
    }

    /// Refuses what lies beyond the contents.
    fn check(&self, len: u64, offset: u64, count: usize) -> Result<()> {
        match offset.checked_add(count as u64) {
            Some(end) if end <= len => Ok(()),
            _ => Err(wrong("it names bytes beyond its end")),
        }
    }
}

/// The parts of blocks that hold `count` bytes of the contents from `offset` on.
fn parts(offset: u64, count: usize) -> impl Iterator<Item = Part> {
    let end = offset + count as u64;
    let mut next = offset;
    std::iter::from_fn(move || {
        if next >= end {
            return None;
        }
        let start = (next % DATA as u64) as usize;
        let taken = (end - next).min((DATA - start) as u64);
        let block = next / DATA as u64 + 1;
        next += taken;
        Some(Part {
            block,
            start,
            end: start + taken as usize,
        })
    })
}

/// The sum of a block, and of where it is.
fn sum(number: u64, block: &[u8; BLOCK]) -> [u8; SUM] {
    let of_number = crc32c::crc32c(&number.to_le_bytes());
    crc32c::crc32c_append(of_number, &block[..DATA]).to_le_bytes()
}

fn part_of<const N: usize>(block: &[u8; BLOCK], at: usize) -> [u8; N] {
    let mut part = [0; N];
    part.copy_from_slice(&block[at..at + N]);
    part
}

fn wrong(what: &str) -> Error {
    Error::new(ErrorKind::InvalidData, what)
}

fn is_of_contents(error: &Error) -> bool {
    error.kind() == ErrorKind::InvalidData
}

impl StorageBackend for SealedFile {
    fn len(&self) -> Result<u64> {
        Ok(*self.lock())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let len = *self.lock();
        self.check(len, offset, out.len())?;
        let mut rest = out;
        for part in parts(offset, rest.len()) {
            let block = self.read_block(part.block)?;
            let (filled, left) = rest.split_at_mut(part.end - part.start);
            filled.copy_from_slice(&block[part.start..part.end]);
            rest = left;
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> Result<()> {
        let mut now = self.lock();
        let blocks = |len: u64| len.div_ceil(DATA as u64) + 1;
        // Blocks that stay behind a longer length are written before it, and cut off after it.
        for number in blocks(*now)..blocks(len) {
            self.write_block(number, &mut [0; BLOCK])?;
        }
        let kept = len % DATA as u64;
        if len < *now && kept > 0 {
            let mut block = self.read_block(blocks(len) - 1)?;
            block[kept as usize..DATA].fill(0);
            self.write_block(blocks(len) - 1, &mut block)?;
        }
        self.write_header(len)?;
        self.file.set_len(blocks(len) * BLOCK as u64)?;
        *now = len;
        Ok(())
    }

    fn sync_data(&self) -> Result<()> {
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<()> {
        let len = self.lock();
        self.check(*len, offset, data.len())?;
        let mut rest = data;
        for part in parts(offset, data.len()) {
            let (taken, left) = rest.split_at(part.end - part.start);
            let mut block = match taken.len() {
                DATA => [0; BLOCK],
                _ => self.read_block(part.block)?,
            };
            block[part.start..part.end].copy_from_slice(taken);
            self.write_block(part.block, &mut block)?;
            rest = left;
        }
        Ok(())
    }
}
