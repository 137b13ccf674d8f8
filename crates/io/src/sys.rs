//! The system calls of this crate, behind safe functions that know nothing of ports.
//!
//! All `unsafe` code of the crate is here. Each block relies on some of these invariants:
//!
//! 1. A structure is passed to the kernel with its true size and is plain old data: every bit
//!    pattern, including all zeros, is a valid value.
//! 2. Memory whose address is passed to the kernel is borrowed until the call returns, mutably
//!    where the kernel writes. No call here leaves an address in the kernel, but that of frames
//!    which are mapped for as long as their sockets live (`xdp/umem.rs`).
//! 3. A descriptor is owned by the structure that uses it.
//! 4. Memory shared with the kernel is mapped by one structure, for as long as that structure
//!    lives. It is read only while the kernel has handed it over: see `receive_ring.rs`, `xdp.rs`.

mod addresses;
mod claim;
mod datagram;
mod ethtool;
mod interface;
mod messages;
mod packet_socket;
mod receive_ring;
mod received;
mod tap;
mod xdp;

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

pub(crate) use addresses::has_address;
pub(crate) use claim::{Claim, ClaimError};
pub(crate) use datagram::{
    Carrier, Datagram, DatagramSocket, Departure, IpFamily, SEGMENTS_BYTES_MAX, SEGMENTS_MAX,
};
pub(crate) use interface::{Interface, Link};
pub(crate) use messages::Overflow;
pub(crate) use packet_socket::{LONGEST_FRAME_BYTES, PacketSocket};
pub(crate) use receive_ring::ReceiveRing;
pub(crate) use received::{Offload, Received, VIRTIO_HEADER_BYTES, VlanTag};
pub(crate) use tap::{has_interface, let_tap_keep_whole, open_tap};
pub(crate) use xdp::{
    AttachMode, BadFrame, CopyMode, Flushed, LARGE_CHUNK_BYTES, Refused, SMALL_CHUNK_BYTES,
    XdpLink, XdpSockets, XdpSocketsConfig, longest_frame, promiscuous,
};

fn socket(domain: i32, kind: i32, protocol: i32) -> io::Result<OwnedFd> {
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: takes no address.
    let descriptor = unsafe { libc::socket(domain, kind | flags, protocol) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call above made the descriptor, and nothing else has it (3).
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

/// Reads an option; the kernel's answer replaces the front of `value`.
///
/// `T` must satisfy invariant 1.
fn option<T: Copy>(socket: &OwnedFd, level: i32, option: i32, mut value: T) -> io::Result<T> {
    let mut size = size_of::<T>() as libc::socklen_t;
    // SAFETY: the call writes at most `size` bytes of `value`, and the size; both are borrowed
    // mutably until it returns (1, 2).
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            option,
            std::ptr::from_mut(&mut value).cast(),
            &raw mut size,
        )
    };
    check(result).map(|()| value)
}

fn vector(bytes: &mut [u8]) -> libc::iovec {
    libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    }
}

/// A vector for sending: the kernel does not write through it.
fn const_vector(bytes: &[u8]) -> libc::iovec {
    libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    }
}

fn check(result: i32) -> io::Result<()> {
    match result {
        0.. => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
