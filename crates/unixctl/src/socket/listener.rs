//! Makes the listening socket.

use std::io::Error;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, fchmod};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

/// Connections that wait to be accepted.
const BACKLOG: i32 = 64;
/// Most bytes of a socket's path, with its end.
const PATH_BYTES_MAX: usize = 108;

/// The file of a socket, which knows whether it is still that of the socket.
#[derive(Debug)]
pub(super) struct SocketFile {
    path: PathBuf,
    /// Device and inode.
    identity: (u64, u64),
}

impl SocketFile {
    /// Removes it, unless another daemon has put its own there.
    pub(super) fn remove(&self) {
        let now = std::fs::symlink_metadata(&self.path);
        if now.is_ok_and(|now| (now.dev(), now.ino()) == self.identity) {
            // The socket ends in any case; a file that stays is replaced by the next daemon.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Listens at a path, with permissions; a socket that was left behind there is replaced.
pub(super) fn listen(path: &Path, mode: u32) -> Result<(UnixListener, SocketFile), Error> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let family = AddressFamily::UNIX;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    // Before it has a path, so that the file never has other permissions.
    fchmod(&socket, Mode::from_raw_mode(mode))?;
    match std::fs::symlink_metadata(path) {
        Ok(old) if old.file_type().is_socket() => std::fs::remove_file(path)?,
        // What else is there makes `bind` fail, and says why.
        _ => (),
    }
    // Held until the socket is bound: a short path may go through it.
    let folder = std::fs::File::open(folder_of(path))?;
    let short = match path.as_os_str().len() < PATH_BYTES_MAX {
        true => path.to_owned(),
        false => PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()))
            .join(path.file_name().unwrap_or_default()),
    };
    rustix::net::bind(&socket, &SocketAddrUnix::new(&short)?)?;
    rustix::net::listen(&socket, BACKLOG)?;
    let made = std::fs::symlink_metadata(path)?;
    let file = SocketFile {
        path: path.to_owned(),
        identity: (made.dev(), made.ino()),
    };
    Ok((UnixListener::from(socket), file))
}

/// The folder of a path; the current one, if the path is a name.
fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder.as_os_str().is_empty() => Path::new("."),
        Some(folder) => folder,
        None => Path::new("/"),
    }
}
