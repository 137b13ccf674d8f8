//! Files that are whole when they appear.
//!
//! What a command writes is called `NAME.part` until it is complete, and then gets its name in one
//! step; if the command fails it is gone, and a file that had the name before is still what it
//! was. A command that is killed leaves a `.part`, which nobody takes for a result.
//!
//! What exists and is no file (a pipe, `/dev/null`) is written as it is.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Result;
use thalweg_io::CaptureWriter;
use thalweg_packet::Instant;

use crate::failure::bad_input;

/// The name under which a file is written, and that it is to have.
#[derive(Debug)]
struct Name {
    path: PathBuf,
    /// While it is being written, unless that is done in place.
    part: Option<PathBuf>,
}

/// A capture that is being written.
pub(crate) struct CaptureOutput {
    writer: CaptureWriter<BufWriter<File>>,
    // Behind the writer, which is closed first.
    name: Name,
}

impl Name {
    fn create(path: &Path) -> io::Result<(Name, File)> {
        // Of a link, what it leads to is replaced.
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let part = match path.metadata() {
            Ok(there) if !there.is_file() => None,
            _ => {
                let mut part = path.clone().into_os_string();
                part.push(".part");
                Some(PathBuf::from(part))
            }
        };
        let file = File::create(part.as_deref().unwrap_or(&path))?;
        Ok((Name { path, part }, file))
    }

    fn finish(mut self) -> io::Result<()> {
        if let Some(part) = &self.part {
            std::fs::rename(part, &self.path)?;
        }
        self.part = None;
        Ok(())
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        if let Some(part) = &self.part {
            // The command has failed, and says so; there is nothing to add.
            let _ = std::fs::remove_file(part);
        }
    }
}

impl CaptureOutput {
    /// Begins a capture that replaces one of this name.
    ///
    /// # Errors
    /// If it cannot be created.
    pub(crate) fn create(path: &Path) -> Result<CaptureOutput> {
        let (name, file) = Name::create(path).map_err(|error| refused(path, &error))?;
        let writer = CaptureWriter::with_name(BufWriter::new(file), &path.display().to_string())?;
        Ok(CaptureOutput { writer, name })
    }

    /// Adds a packet.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn write(&mut self, bytes: &[u8], at: Instant) -> Result<()> {
        Ok(self.writer.write(bytes, at)?)
    }

    /// Gives the capture its name; says how many packets are in it.
    ///
    /// # Errors
    /// If its end cannot be written.
    pub(crate) fn finish(mut self) -> Result<u64> {
        self.writer.flush()?;
        let (packets, path) = (self.writer.packets(), self.name.path.clone());
        let CaptureOutput { writer, name } = self;
        drop(writer);
        name.finish().map_err(|error| refused(&path, &error))?;
        Ok(packets)
    }
}

/// Writes a text as a file.
///
/// # Errors
/// If it cannot be written.
pub(crate) fn write_text(path: &Path, text: &str) -> Result<()> {
    write_bytes(path, text.as_bytes())
}

/// Writes bytes as a file.
///
/// # Errors
/// If it cannot be written.
pub(crate) fn write_bytes(path: &Path, bytes: &[u8]) -> Result<()> {
    let write = || {
        let (name, mut file) = Name::create(path)?;
        file.write_all(bytes)?;
        drop(file);
        name.finish()
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
        assert_eq!(names(folder.path()), ["a.pcap", "a.pcap.part"]);
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
