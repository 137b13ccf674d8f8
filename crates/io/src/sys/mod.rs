//! The system calls of this crate, behind safe functions that know nothing of ports.
//!
//! All `unsafe` code of the crate is here. What each block relies on is one of these:
//!
//! 1. A structure is handed to the kernel with its true size, and is plain old data: every bit
//!    pattern, zeros above all, is a value of it.
//! 2. Memory whose address is handed to the kernel is borrowed until the call has returned, and
//!    mutably where the kernel writes. No call here leaves an address behind in the kernel.
//! 3. A descriptor is owned by the structure that uses it.

mod interface;
mod packet_socket;
mod tap;

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

pub(crate) use interface::{Interface, Link};
pub(crate) use packet_socket::{Offload, PacketSocket, Received, VlanTag};
pub(crate) use tap::open_tap;

fn socket(domain: i32, kind: i32) -> io::Result<OwnedFd> {
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: takes no address.
    let descriptor = unsafe { libc::socket(domain, kind | flags, 0) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call above made it, and nothing else knows it (3).
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

fn set_option<T>(socket: &OwnedFd, level: i32, option: i32, value: &T) -> io::Result<()> {
    let (address, size) = (std::ptr::from_ref(value), size_of::<T>());
    // SAFETY: `value` is borrowed for the call, which reads `size` bytes of it (1, 2).
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            address.cast(),
            size as libc::socklen_t,
        )
    };
    check(result)
}

fn check(result: i32) -> io::Result<()> {
    match result {
        0.. => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
