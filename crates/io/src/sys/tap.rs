//! A tap's descriptor: `Documentation/networking/tuntap.rst`.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;

use super::check;
use super::interface::named;

/// Opens the tap called `name`, or creates it. Each read and write is one frame.
pub(crate) fn open_tap(name: &str) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open("/dev/net/tun")?;
    let mut request = named(name);
    request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: the request reads and writes one `ifreq`, which is borrowed for the call (1, 2).
    check(unsafe {
        libc::ioctl(
            file.as_raw_fd(),
            libc::TUNSETIFF,
            std::ptr::from_mut(&mut request),
        )
    })?;
    Ok(file)
}

/// Whether the tap still has its interface: the descriptor outlives a deleted one.
pub(crate) fn has_interface(file: &File) -> bool {
    let mut request = named("");
    // SAFETY: the request writes one `ifreq`, which is borrowed for the call (1, 2).
    let answer = check(unsafe {
        libc::ioctl(
            file.as_raw_fd(),
            libc::TUNGETIFF,
            std::ptr::from_mut(&mut request),
        )
    });
    answer.is_ok()
}
