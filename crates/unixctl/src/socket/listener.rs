//! Makes the listening socket, and removes its file.
//!
//! A file that a process left behind is replaced. A socket at which a process listens is not: a
//! connection tells them apart. Two processes that start at the same path in the same moment
//! are not kept apart; pidfiles are for that.

use std::io::{Error, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, fchmod};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use crate::address::SocketAddress;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 64;

/// The file of a socket, which is removed when this is dropped.
///
/// It knows whether it is still that of the socket: as long as the socket is open, no other file
/// has its device and inode.
#[derive(Debug)]
pub(super) struct SocketFile {
    path: PathBuf,
    /// Device and inode.
    identity: (u64, u64),
    /// Keeps the folder open through which the socket is bound.
    _folder: Option<OwnedFd>,
}

impl SocketFile {
    /// The file of a socket that was bound just now.
    fn of_bound(path: &Path, address: SocketAddress) -> Result<SocketFile, Error> {
        match std::fs::symlink_metadata(path) {
            Ok(made) => Ok(SocketFile {
                path: path.to_owned(),
                identity: (made.dev(), made.ino()),
                _folder: address.into_folder(),
            }),
            Err(error) => {
                // The first error is the one to tell.
                let _ = std::fs::remove_file(path);
                Err(error)
            }
        }
    }

    /// Removes it, unless another daemon has put its own there.
    pub(super) fn remove(&self) {
        let now = std::fs::symlink_metadata(&self.path);
        if now.is_ok_and(|now| (now.dev(), now.ino()) == self.identity) {
            // The socket ends in any case; a file that stays is replaced by the next daemon.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Listens at a path, with permissions; a socket that was left behind there is replaced.
///
/// # Errors
/// If another process listens there, or the socket cannot be made; then no file stays.
pub(super) fn listen(path: &Path, mode: u32) -> Result<(UnixListener, SocketFile), Error> {
    let socket = socket()?;
    // Before it has a path, so that the file never has other permissions.
    fchmod(&socket, Mode::from_raw_mode(mode))?;
    let address = SocketAddress::of(path)?;
    remove_left_behind(path, &address)?;
    rustix::net::bind(&socket, address.get())?;
    let file = SocketFile::of_bound(path, address)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok((UnixListener::from(socket), file))
}

/// Removes a socket at which no process listens.
fn remove_left_behind(path: &Path, address: &SocketAddress) -> Result<(), Error> {
    let found = std::fs::symlink_metadata(path);
    if !found.is_ok_and(|found| found.file_type().is_socket()) {
        // What else is there makes `bind` fail, and says why.
        return Ok(());
    }
    let probe = socket()?;
    match retry_on_intr(|| rustix::net::connect(&probe, address.get())) {
        Err(Errno::CONNREFUSED) => std::fs::remove_file(path),
        // It was removed meanwhile.
        Err(Errno::NOENT) => Ok(()),
        // It listens, has no room for more connections, or is of another kind.
        Ok(()) | Err(Errno::AGAIN | Errno::PROTOTYPE) => Err(Error::new(
            ErrorKind::AddrInUse,
            "another process listens there",
        )),
        Err(error) => Err(Error::new(
            Error::from(error).kind(),
            format!("a socket is there, and whether a process listens cannot be said: {error}"),
        )),
    }
}

/// A socket without an address that never waits.
fn socket() -> Result<OwnedFd, Error> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    Ok(socket)
}
