//! Addresses of sockets whose paths may be longer than the kernel takes.

use std::io::Error;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::net::SocketAddrUnix;

/// Most bytes of a socket's path, with its end.
const PATH_BYTES_MAX: usize = 108;

/// A path of a socket, short enough for the kernel.
///
/// A long path goes through its open folder, as in Open vSwitch (`make_sockaddr_un`).
#[derive(Debug)]
pub(crate) struct SocketAddress {
    address: SocketAddrUnix,
    /// The folder that the address goes through.
    folder: Option<OwnedFd>,
}

impl SocketAddress {
    /// The address of a path.
    ///
    /// # Errors
    /// If the path is long and its folder cannot be opened, or its name is long too.
    pub(crate) fn of(path: &Path) -> Result<SocketAddress, Error> {
        if path.as_os_str().len() < PATH_BYTES_MAX {
            return Ok(SocketAddress {
                address: SocketAddrUnix::new(path)?,
                folder: None,
            });
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(folder_of(path), flags, Mode::empty())?;
        let short = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()));
        let short = short.join(path.file_name().unwrap_or_default());
        Ok(SocketAddress {
            address: SocketAddrUnix::new(&short)?,
            folder: Some(folder),
        })
    }

    /// The address as the kernel takes it.
    pub(crate) fn get(&self) -> &SocketAddrUnix {
        &self.address
    }

    /// The folder that the address goes through. While it is open, the address of a bound socket
    /// in the kernel's table leads to it.
    pub(crate) fn into_folder(self) -> Option<OwnedFd> {
        self.folder
    }
}

/// The folder of a path; the current one, if the path is a name.
fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder.as_os_str().is_empty() => Path::new("."),
        Some(folder) => folder,
        None => Path::new("/"),
    }
}
