//! Writes files that are complete when they appear.
//!
//! While a command writes a file, it is named `NAME.XXXXXX.part`, with six random characters.
//! When it is complete, it gets its name in one step. Until then, an older file of that name
//! stays as it is.
//!
//! 1. Two processes that write the same name do not interfere; the last to finish wins.
//! 2. A command that fails or is interrupted leaves no `.part` file ([`abandon`]). A killed
//!    command may leave one, but nothing takes it for a result.
//!
//! An existing path that is not a regular file (a pipe, `/dev/null`) is written in place.

use std::collections::BTreeSet;
use std::fs::{File, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use tempfile::TempPath;
use thalweg_io::CaptureWriter;
use thalweg_packet::{Instant, Packet};

use crate::failure::bad_input;

/// File mode before the user's umask: the default for new files.
const MODE: u32 = 0o666;

/// The unfinished and completed files of this process.
static FILES: Mutex<Files> = Mutex::new(Files {
    parts: BTreeSet::new(),
    completed: 0,
});

struct Files {
    parts: BTreeSet<PathBuf>,
    completed: u64,
}

fn files() -> MutexGuard<'static, Files> {
    FILES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes all unfinished files before the process ends; returns the number of completed ones.
///
/// No other thread can begin or complete a file after this call: it waits for ever.
pub fn abandon() -> u64 {
    let files = files();
    for part in &files.parts {
        // The process is ending; a failure here cannot be handled.
        let _ = std::fs::remove_file(part);
    }
    let completed = files.completed;
    std::mem::forget(files);
    completed
}

/// The name of a file while it is written, and its final name.
#[derive(Debug)]
struct Name {
    path: PathBuf,
    /// The temporary name; `None` if the file is written in place.
    part: Option<TempPath>,
}

/// A file that is being written.
#[derive(Debug)]
pub struct FileOutput {
    file: BufWriter<File>,
    // After the file, which must be closed first.
    name: Name,
}

/// A capture that is being written.
pub struct CaptureOutput {
    writer: CaptureWriter<FileOutput>,
}

impl Name {
    fn create(path: &Path) -> io::Result<(Name, File)> {
        // A link stays; the file that it points to is replaced.
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        if path.metadata().is_ok_and(|there| !there.is_file()) {
            let file = File::create(&path)?;
            return Ok((Name { path, part: None }, file));
        }
        let name = path.file_name().ok_or(io::ErrorKind::IsADirectory)?;
        let mut prefix = name.to_owned();
        prefix.push(".");
        let folder = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        let mut builder = tempfile::Builder::new();
        let builder = builder.prefix(&prefix).suffix(".part");
        let builder = builder.permissions(Permissions::from_mode(MODE));
        let mut files = files();
        let part = builder.tempfile_in(folder.unwrap_or(Path::new(".")))?;
        let (file, part) = part.into_parts();
        files.parts.insert(part.to_path_buf());
        let part = Some(part);
        Ok((Name { path, part }, file))
    }

    fn finish(mut self) -> io::Result<()> {
        let mut files = files();
        if let Some(part) = self.part.take() {
            files.parts.remove::<Path>(&part);
            part.persist(&self.path).map_err(|failed| failed.error)?;
        }
        files.completed += 1;
        Ok(())
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        if let Some(part) = self.part.take() {
            // The command has failed and reports that itself.
            files().parts.remove::<Path>(&part);
        }
    }
}

impl FileOutput {
    /// Begins a file that replaces any file named `path`.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn create(path: &Path) -> io::Result<FileOutput> {
        let (name, file) = Name::create(path)?;
        let file = BufWriter::new(file);
        Ok(FileOutput { file, name })
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// If its end cannot be written.
    pub fn finish(mut self) -> io::Result<()> {
        self.file.flush()?;
        let FileOutput { file, name } = self;
        drop(file);
        name.finish()
    }
}

impl Write for FileOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl CaptureOutput {
    /// Begins a capture that replaces any file named `path`.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn create(path: &Path) -> Result<CaptureOutput> {
        let output = FileOutput::create(path).map_err(|error| refused(path, &error))?;
        let writer = CaptureWriter::with_name(output, &path.display().to_string())?;
        Ok(CaptureOutput { writer })
    }

    /// Adds a packet.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&mut self, bytes: &[u8], at: Instant) -> Result<()> {
        Ok(self.writer.write(bytes, at)?)
    }

    /// Adds a packet, with its original length if it was cut.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write_packet(&mut self, packet: &Packet, at: Instant) -> Result<()> {
        Ok(self.writer.write_packet(packet, at)?)
    }

    /// Gives the capture its name; returns the number of packets in it.
    ///
    /// # Errors
    /// If its end cannot be written.
    pub fn finish(self) -> Result<u64> {
        let packets = self.writer.packets();
        let output = self.writer.into_inner()?;
        let path = output.name.path.clone();
        output.finish().map_err(|error| refused(&path, &error))?;
        Ok(packets)
    }
}

/// Writes a text file.
///
/// # Errors
/// If it cannot be written.
pub fn write_text(path: &Path, text: &str) -> Result<()> {
    write_bytes(path, text.as_bytes())
}

/// Writes a file of bytes.
///
/// # Errors
/// If it cannot be written.
pub fn write_bytes(path: &Path, bytes: &[u8]) -> Result<()> {
    let write = || {
        let mut output = FileOutput::create(path)?;
        output.write_all(bytes)?;
        output.finish()
    };
    write().map_err(|error| refused(path, &error))
}

fn refused(path: &Path, error: &io::Error) -> anyhow::Error {
    let path = path.display();
    bad_input(format!(
        "{path} cannot be written: {error}; choose another place"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).expect("it is there");
        let mut names: Vec<_> = entries
            .map(|entry| entry.expect("an entry").file_name().display().to_string())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_capture_has_its_name_when_it_is_whole() {
        let folder = tempfile::tempdir().expect("there is a place for files");
        let path = folder.path().join("a.pcap");
        write_text(&path, "before").expect("the folder is ours");
        let given_up = CaptureOutput::create(&path).expect("the folder is ours");
        let [_, part] = &names(folder.path())[..] else {
            panic!("a part beside the file")
        };
        assert!(
            part.starts_with("a.pcap.") && part.ends_with(".part"),
            "{part}"
        );
        drop(given_up);
        assert_eq!(names(folder.path()), ["a.pcap"]);
        assert_eq!(std::fs::read(&path).expect("it is there"), b"before");
        let mut output = CaptureOutput::create(&path).expect("the folder is ours");
        output
            .write(&[0; 60], Instant::ZERO)
            .expect("there is room");
        assert_eq!(output.finish().expect("there is room"), 1);
        assert_eq!(names(folder.path()), ["a.pcap"]);
        assert_eq!(
            std::fs::read(&path).expect("it is there").len(),
            24 + 16 + 60
        );
    }

    #[test]
    fn two_that_write_one_file_do_not_meet() {
        let folder = tempfile::tempdir().expect("there is a place for files");
        let path = folder.path().join("a.json");
        let mut outputs = ["first", "second"].map(|text| {
            let mut output = FileOutput::create(&path).expect("the folder is ours");
            output.write_all(text.as_bytes()).expect("there is room");
            output
        });
        assert_eq!(names(folder.path()).len(), 2, "each has its own");
        outputs.reverse();
        for (output, text) in outputs.into_iter().zip(["second", "first"]) {
            output.finish().expect("the folder is ours");
            let content = std::fs::read_to_string(&path).expect("it is there");
            assert_eq!(content, text, "whole, of the one that is done");
        }
        assert_eq!(names(folder.path()), ["a.json"]);
    }

    #[test]
    fn files_can_be_read_by_those_whom_the_mask_lets() {
        let folder = tempfile::tempdir().expect("there is a place for files");
        let mode = |path: &Path| path.metadata().expect("it is there").permissions().mode();
        let (path, plain) = (folder.path().join("a"), folder.path().join("b"));
        write_text(&path, "x").expect("the folder is ours");
        std::fs::write(&plain, "x").expect("the folder is ours");
        assert_eq!(mode(&path), mode(&plain));
    }

    #[test]
    fn what_is_no_file_is_written_in_place() {
        let folder = tempfile::tempdir().expect("there is a place for files");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("/dev/null", &link).expect("the folder is ours");
        write_text(&link, "nothing").expect("it takes everything");
        write_text(Path::new("/dev/null"), "nothing").expect("it takes everything");
        assert_eq!(names(folder.path()), ["link"]);
        let error = write_text(folder.path(), "x").expect_err("it is a folder");
        assert!(
            error.to_string().contains("choose another place"),
            "{error}"
        );
    }
}
