//! A snapshot's file: opened for each read and each write, so that it is whole in between.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use redb::{Builder, Database, ReadableDatabase, ReadableTable, TableDefinition};

use crate::error::SnapshotError;
use crate::pages::{PAGES, SnapshotPages, SnapshotWriter};
use crate::sealed::SealedFile;

/// Bytes of the file that redb keeps in memory.
const CACHE_BYTES: usize = 4 << 20;

/// The format of the records.
const FORMAT: TableDefinition<'_, (), u32> = TableDefinition::new("format");

/// By section: the number of its records.
pub(crate) const COUNTS: TableDefinition<'_, u8, u64> = TableDefinition::new("counts");

/// A file of records.
///
/// ```
/// use thalweg_snapshot::{SnapshotError, SnapshotFile};
///
/// let folder = tempfile::tempdir()?;
/// let file = SnapshotFile::new(folder.path().join("switch.snapshot"), 1);
/// assert!(file.read()?.is_none());
/// file.write::<SnapshotError>(|writer| {
///     writer.add(0, b"first")?;
///     writer.add(0, b"second")
/// })?;
/// let pages = file.read()?.expect("it was written");
/// assert_eq!(pages.records(0).collect::<Vec<_>>(), [&b"first"[..], b"second"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SnapshotFile {
    path: PathBuf,
    format: u32,
}

impl SnapshotFile {
    /// Names a file, which need not exist, and the format of its records.
    pub fn new(path: impl Into<PathBuf>, format: u32) -> SnapshotFile {
        SnapshotFile {
            path: path.into(),
            format,
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The records of the last write; `None` if there is no file.
    ///
    /// # Errors
    /// If the file is damaged, of something else or of another format, or cannot be read.
    pub fn read(&self) -> Result<Option<SnapshotPages>, SnapshotError> {
        let file = match OpenOptions::new().read(true).write(true).open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        if file.metadata()?.len() == 0 {
            return Err(SnapshotError::Foreign);
        }
        let database = open(file)?;
        let found = read(&database, self.format).map_err(as_error)?;
        found.map(Some)
    }

    /// Writes the records that `fill` adds in the place of those that are there; all or none.
    ///
    /// # Errors
    /// If `fill` fails, or the file cannot be written; then its records are as they were.
    pub fn write<E: From<SnapshotError>>(
        &self,
        fill: impl FnOnce(&mut SnapshotWriter<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let known = OpenOptions::new().read(true).write(true).open(&self.path);
        match known {
            Ok(file) => self.write_into(file, fill),
            Err(error) if error.kind() == ErrorKind::NotFound => self.create(fill),
            Err(error) => Err(SnapshotError::from(error).into()),
        }
    }

    /// Gives a file that was refused another name, so that it is kept, and returns that name.
    ///
    /// # Errors
    /// If the operating system refuses.
    pub fn set_aside(&self) -> std::io::Result<PathBuf> {
        let mut name = self.path.clone().into_os_string();
        name.push(".refused");
        let aside = PathBuf::from(name);
        std::fs::rename(&self.path, &aside)?;
        Ok(aside)
    }

    /// Makes a new file beside its place, and puts it there when it is complete.
    fn create<E: From<SnapshotError>>(
        &self,
        fill: impl FnOnce(&mut SnapshotWriter<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let folder = self.path.parent().filter(|path| *path != Path::new(""));
        let folder = folder.unwrap_or(Path::new("."));
        let new = tempfile::NamedTempFile::new_in(folder).map_err(SnapshotError::from)?;
        let file = new.reopen().map_err(SnapshotError::from)?;
        self.write_into(file, fill)?;
        let placed = new.persist(&self.path).map_err(|error| error.error);
        placed.map_err(SnapshotError::from)?;
        Ok(())
    }

    fn write_into<E: From<SnapshotError>>(
        &self,
        file: File,
        fill: impl FnOnce(&mut SnapshotWriter<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let database = open(file)?;
        let transaction = database.begin_write().map_err(as_error)?;
        let begun = begin(&transaction, self.format);
        begun.map_err(as_error)?;
        let pages = transaction.open_table(PAGES).map_err(as_error)?;
        let mut writer = SnapshotWriter::new(pages);
        fill(&mut writer)?;
        let counts = writer.finish()?;
        note(&transaction, &counts).map_err(as_error)?;
        transaction.commit().map_err(as_error)?;
        Ok(())
    }
}

/// Opens the database of a file that no other process uses.
fn open(file: File) -> Result<Database, SnapshotError> {
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(SnapshotError::Busy),
        Err(TryLockError::Error(error)) => return Err(error.into()),
    }
    let sealed = SealedFile::open(file)?;
    let mut builder = Builder::new();
    builder.set_cache_size(CACHE_BYTES);
    builder.create_with_backend(sealed).map_err(as_error)
}

/// Empties the tables.
fn begin(transaction: &redb::WriteTransaction, format: u32) -> Result<(), redb::Error> {
    transaction.delete_table(PAGES)?;
    transaction.delete_table(COUNTS)?;
    transaction.open_table(FORMAT)?.insert((), format)?;
    Ok(())
}

fn note(transaction: &redb::WriteTransaction, counts: &[(u8, u64)]) -> Result<(), redb::Error> {
    let mut table = transaction.open_table(COUNTS)?;
    for (section, count) in counts {
        table.insert(section, count)?;
    }
    Ok(())
}

fn read(
    database: &Database,
    known: u32,
) -> Result<Result<SnapshotPages, SnapshotError>, redb::Error> {
    let transaction = database.begin_read()?;
    let format = transaction.open_table(FORMAT)?.get(())?;
    let found = format.map_or(0, |format| format.value());
    if found != known {
        return Ok(Err(SnapshotError::Format { found, known }));
    }
    let mut pages = Vec::new();
    for page in transaction.open_table(PAGES)?.iter()? {
        let (place, bytes) = page?;
        pages.push((place.value(), bytes.value().to_vec()));
    }
    let mut counts = Vec::new();
    for count in transaction.open_table(COUNTS)?.iter()? {
        let (section, count) = count?;
        counts.push((section.value(), count.value()));
    }
    Ok(SnapshotPages::new(pages, &counts))
}

fn as_error(error: impl Into<redb::Error>) -> SnapshotError {
    error.into().into()
}
