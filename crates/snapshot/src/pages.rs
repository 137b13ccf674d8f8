//! Records in pages: each record has its length in front, and a page is of one section.

use std::collections::BTreeMap;

use redb::{Table, TableDefinition};

use crate::error::SnapshotError;

/// By section and number: records, one after another.
pub(crate) const PAGES: TableDefinition<'_, (u8, u32), &[u8]> = TableDefinition::new("pages");

/// Bytes of a page's records, at the most one record more: what redb keeps in 64 KiB.
const PAGE_BYTES: usize = 60_000;

/// Bytes of a length.
const LENGTH: usize = 4;

/// Takes the records of a write.
pub struct SnapshotWriter<'a> {
    table: Table<'a, (u8, u32), &'static [u8]>,
    open: BTreeMap<u8, OpenPage>,
}

/// The page of a section that has room.
#[derive(Default)]
struct OpenPage {
    number: u32,
    bytes: Vec<u8>,
    /// Records of the section so far.
    count: u64,
}

impl<'a> SnapshotWriter<'a> {
    pub(crate) fn new(table: Table<'a, (u8, u32), &'static [u8]>) -> SnapshotWriter<'a> {
        SnapshotWriter {
            table,
            open: BTreeMap::new(),
        }
    }

    /// Adds a record to a section.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn add(&mut self, section: u8, record: &[u8]) -> Result<(), SnapshotError> {
        let page = self.open.entry(section).or_default();
        if !page.bytes.is_empty() && page.bytes.len() + record.len() > PAGE_BYTES {
            flush(&mut self.table, section, page)?;
        }
        let length = u32::try_from(record.len());
        let length = length.map_err(|_| SnapshotError::damaged("a record is too long"))?;
        page.bytes.extend_from_slice(&length.to_le_bytes());
        page.bytes.extend_from_slice(record);
        page.count += 1;
        Ok(())
    }

    /// Writes what is left, and returns how many records each section has.
    pub(crate) fn finish(mut self) -> Result<Vec<(u8, u64)>, SnapshotError> {
        for (section, page) in &mut self.open {
            flush(&mut self.table, *section, page)?;
        }
        let counts = self.open.iter();
        Ok(counts
            .map(|(section, page)| (*section, page.count))
            .collect())
    }
}

/// Writes a page, and begins the next.
fn flush(
    table: &mut Table<'_, (u8, u32), &'static [u8]>,
    section: u8,
    page: &mut OpenPage,
) -> Result<(), SnapshotError> {
    let inserted = table.insert((section, page.number), &page.bytes[..]);
    inserted.map_err(|error| SnapshotError::from(redb::Error::from(error)))?;
    page.bytes.clear();
    page.number += 1;
    Ok(())
}

/// The records of a file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SnapshotPages {
    /// In the order of sections and numbers.
    pages: Vec<((u8, u32), Vec<u8>)>,
}

impl SnapshotPages {
    /// Checks that nothing is missing.
    pub(crate) fn new(
        pages: Vec<((u8, u32), Vec<u8>)>,
        counts: &[(u8, u64)],
    ) -> Result<SnapshotPages, SnapshotError> {
        let mut found: BTreeMap<u8, (u32, u64)> = BTreeMap::new();
        for ((section, number), bytes) in &pages {
            let (next, count) = found.entry(*section).or_default();
            if *number != *next {
                return Err(SnapshotError::damaged("a page is missing"));
            }
            *next += 1;
            *count += count_of(bytes)?;
        }
        let found = found.into_iter();
        let found: Vec<(u8, u64)> = found
            .map(|(section, (_, count))| (section, count))
            .collect();
        match found == counts {
            true => Ok(SnapshotPages { pages }),
            false => Err(SnapshotError::damaged("records are missing")),
        }
    }

    /// The records of a section, in the order in which they were added.
    pub fn records(&self, section: u8) -> impl Iterator<Item = &[u8]> {
        let pages = self.pages.iter().filter(move |((of, _), _)| *of == section);
        pages.flat_map(|(_, bytes)| records_of(bytes).map_while(Result::ok))
    }
}

/// How many records a page has.
fn count_of(bytes: &[u8]) -> Result<u64, SnapshotError> {
    let mut count = 0;
    for record in records_of(bytes) {
        record?;
        count += 1;
    }
    Ok(count)
}

/// The records of a page; an error if it ends within one.
fn records_of(bytes: &[u8]) -> impl Iterator<Item = Result<&[u8], SnapshotError>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let taken = rest
            .split_first_chunk::<LENGTH>()
            .and_then(|(length, behind)| {
                let length = u32::from_le_bytes(*length) as usize;
                behind.split_at_checked(length)
            });
        let Some((record, behind)) = taken else {
            rest = &[];
            return Some(Err(SnapshotError::damaged("a page ends within a record")));
        };
        rest = behind;
        Some(Ok(record))
    })
}
