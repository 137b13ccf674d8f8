//! A process's claim on a network interface: a lock that the kernel drops with the process.
//!
//! It is a Unix socket with an abstract name, `thalweg-port-INDEX`. Like interface indexes,
//! such names belong to a network namespace: the same name in two namespaces means two
//! interfaces. Two containers that share a namespace see each other's claims, which files
//! would not show. The index survives a rename of the interface, and no alternative name
//! avoids it.
//!
//! 1. At most one claim on an index exists at a time, across all processes of a network
//!    namespace.
//! 2. A claim ends when it is dropped, or when its process ends in any way.
//!
//! Any user of the namespace can bind a name. A user who does so keeps a switch from starting
//! on that interface, and the message names the process.

use std::io;
use std::mem::zeroed;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with,
};

use super::option;

/// How many connections that ask for the holder may wait; they are never accepted.
const BACKLOG: i32 = 8;

/// A claim on an interface, held until it is dropped.
#[derive(Debug)]
pub(crate) struct Claim {
    _socket: OwnedFd,
}

/// The reason why an interface cannot be claimed.
#[derive(Debug)]
pub(crate) enum ClaimError {
    /// The interface is already claimed.
    Taken {
        /// The process that holds the claim, if the kernel tells.
        process: Option<u32>,
    },
    /// The operating system refused.
    System(io::Error),
}

impl Claim {
    /// Claims the interface with this index, in this thread's network namespace.
    pub(crate) fn take(index: i32) -> Result<Claim, ClaimError> {
        let name = format!("thalweg-port-{index}");
        let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).map_err(system)?;
        let socket = unix_socket().map_err(system)?;
        match bind(&socket, &address) {
            Err(Errno::ADDRINUSE) => {
                let process = holder(&address);
                return Err(ClaimError::Taken { process });
            }
            bound => bound.map_err(system)?,
        }
        // Listening makes the kernel tell others which process holds the claim.
        listen(&socket, BACKLOG).map_err(system)?;
        Ok(Claim { _socket: socket })
    }
}

fn system(error: Errno) -> ClaimError {
    ClaimError::System(error.into())
}

fn unix_socket() -> rustix::io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
}

/// The process that listens at an address; none if it is in another PID namespace.
fn holder(address: &SocketAddrUnix) -> Option<u32> {
    let asking = unix_socket().ok()?;
    connect(&asking, address).ok()?;
    // SAFETY: zeros are a value of this structure (1).
    let nobody: libc::ucred = unsafe { zeroed() };
    let credentials = option(&asking, libc::SOL_SOCKET, libc::SO_PEERCRED, nobody).ok()?;
    u32::try_from(credentials.pid).ok().filter(|pid| *pid > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Indexes that no interface has here: the kernel counts up from 1.
    const UNUSED: i32 = 2_147_480_000;

    #[test]
    fn a_claim_is_one_at_a_time_and_says_whose_it_is() {
        let claim = Claim::take(UNUSED).expect("nobody has it");
        let other = Claim::take(UNUSED + 1).expect("it is another interface");
        for _ in 0..3 * BACKLOG {
            match Claim::take(UNUSED) {
                // Once the backlog is full, the kernel no longer tells the process.
                Err(ClaimError::Taken { process }) => {
                    assert!(process.is_none_or(|process| process == std::process::id()));
                }
                other => panic!("{other:?}"),
            }
        }
        drop((claim, other));
        Claim::take(UNUSED).expect("it was given back");
    }
}
