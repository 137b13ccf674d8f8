//! The pidfile: the number of the daemon's process, in a file that the process keeps locked.
//!
//! Open vSwitch's programs find the daemon by it, and a second daemon sees that there is one.
//!
//! ```text
//!   1. open FILE.tmp and lock it: of daemons that start together, one goes on
//!   2. if FILE is there and locked, its process is the daemon: refuse
//!      if FILE is there and not locked, it was left behind: lock it, and remove it
//!   3. write the number into FILE.tmp and rename it to FILE; the lock moves with it
//! ```
//!
//! 1. The lock is one of `fcntl`, over the whole file: it belongs to the process and ends with
//!    it, however that ends.
//! 2. No descriptor of the file is closed before the process ends: closing any would unlock it.
//! 3. At the end, the file is removed only if it is still this one.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::io::Errno;
use rustix::process::{Flock, FlockType, fcntl_getlk};

use crate::log::os_text;

/// A pidfile of this process; removed when dropped.
#[derive(Debug)]
pub(crate) struct PidFile {
    path: PathBuf,
    /// Kept for its lock (invariant 2).
    file: File,
}

impl PidFile {
    /// Writes the number of this process. `overwrite` replaces the file of a daemon that runs.
    ///
    /// # Errors
    ///
    /// The daemon runs already, or the file cannot be written; the text says which.
    pub(crate) fn create(path: PathBuf, overwrite: bool) -> Result<PidFile, String> {
        let pid = std::process::id();
        let mut name = path.clone().into_os_string();
        name.push(match overwrite {
            true => format!(".tmp{pid}"),
            false => ".tmp".to_owned(),
        });
        let new = PathBuf::from(name);
        let mut open = OpenOptions::new();
        let file = open.read(true).append(true).create(true).open(&new);
        let file = file.map_err(|error| failed(&new, "create", &error))?;
        lock(&file).map_err(|error| failed(&new, "fcntl(F_SETLK)", &error.into()))?;
        let written = match overwrite {
            true => Ok(()),
            false => refuse_second(&path),
        }
        .and_then(|()| {
            let written = file.set_len(0).and_then(|()| writeln!(&file, "{pid}"));
            written.map_err(|error| failed(&new, "write", &error))
        })
        .and_then(|()| {
            let renamed = std::fs::rename(&new, &path);
            renamed.map_err(|error| {
                let (new, path, error) = (new.display(), path.display(), os_text(&error));
                format!("failed to rename \"{new}\" to \"{path}\" ({error})")
            })
        });
        match written {
            Ok(()) => Ok(PidFile { path, file }),
            Err(error) => {
                // The lock on it is ours. That it cannot be removed changes nothing.
                let _ = std::fs::remove_file(&new);
                Err(error)
            }
        }
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        // Invariant 3.
        if is_named(&self.file, &self.path) {
            // The process ends, and its lock with it: a file that stays is known as left behind.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn failed(path: &Path, what: &str, error: &std::io::Error) -> String {
    format!("{}: {what} failed ({})", path.display(), os_text(error))
}

fn lock(file: &File) -> Result<(), Errno> {
    fcntl_lock(file, FlockOperation::NonBlockingLockExclusive)
}

/// Whether a path names an open file.
fn is_named(file: &File, path: &Path) -> bool {
    match (file.metadata(), std::fs::metadata(path)) {
        (Ok(file), Ok(named)) => (file.dev(), file.ino()) == (named.dev(), named.ino()),
        _ => false,
    }
}

/// Refuses to go on if a daemon holds the pidfile; removes one that was left behind.
fn refuse_second(path: &Path) -> Result<(), String> {
    let shown = path.display();
    match holder(path) {
        Ok(None) => Ok(()),
        Ok(Some(pid)) => Err(format!("{shown}: already running as pid {pid}, aborting")),
        Err(error) => Err(format!("{shown}: pidfile check failed ({error}), aborting")),
    }
}

/// The process that holds a pidfile; removes the file if there is none.
fn holder(path: &Path) -> Result<Option<i32>, String> {
    let file = OpenOptions::new().read(true).write(true).open(path);
    let mut file = match file {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => file.map_err(|error| os_text(&error))?,
    };
    let of_lock = |error: Errno| os_text(&error.into());
    let held = fcntl_getlk(&file, &Flock::from(FlockType::WriteLock)).map_err(of_lock)?;
    let Some(held) = held.filter(|held| held.typ != FlockType::Unlocked) else {
        // Only the process that locks it may remove it; the name may have another file by now.
        lock(&file).map_err(of_lock)?;
        if !is_named(&file, path) {
            return Err("another process replaces it".to_owned());
        }
        std::fs::remove_file(path).map_err(|error| os_text(&error))?;
        return Ok(None);
    };
    let mut text = String::new();
    let read = (&mut file).take(20).read_to_string(&mut text);
    read.map_err(|error| os_text(&error))?;
    let pid = held.pid.map_or(0, |pid| pid.as_raw_nonzero().get());
    match text.trim().parse() == Ok(pid) {
        true => Ok(Some(pid)),
        false => Err(format!("process {pid} replaces it")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(folder: &tempfile::TempDir) -> PathBuf {
        folder.path().join("daemon.pid")
    }

    #[test]
    fn it_has_the_number_and_goes_with_its_owner() {
        let folder = tempfile::tempdir().expect("a folder");
        let pidfile = PidFile::create(path(&folder), false).expect("it is written");
        let text = std::fs::read_to_string(path(&folder)).expect("it is there");
        assert_eq!(text, format!("{}\n", std::process::id()));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        drop(pidfile);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_file_left_behind_is_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(path(&folder), "1\n").expect("it is written");
        let pidfile = PidFile::create(path(&folder), false).expect("nothing holds it");
        let text = std::fs::read_to_string(path(&folder)).expect("it is there");
        assert_eq!(text, format!("{}\n", std::process::id()));
        drop(pidfile);
    }

    #[test]
    fn the_file_of_another_is_not_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let pidfile = PidFile::create(path(&folder), false).expect("it is written");
        std::fs::remove_file(path(&folder)).expect("it is there");
        std::fs::write(path(&folder), "1\n").expect("it is written");
        drop(pidfile);
        assert!(path(&folder).exists());
    }

    #[test]
    fn what_cannot_be_written_is_said() {
        let error = PidFile::create("/nonexistent/x".into(), false).unwrap_err();
        let text = "/nonexistent/x.tmp: create failed (No such file or directory)";
        assert_eq!(error, text);
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(path(&folder)).expect("it is made");
        let error = PidFile::create(path(&folder), false).unwrap_err();
        let text = "pidfile check failed (Is a directory), aborting";
        assert!(error.ends_with(text), "{error}");
        // Nothing is left of the attempt.
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
