//! The claim of a process on a network interface: a lock that the kernel drops with the process.
//!
//! It is a Unix socket with an abstract name, `thalweg-port-INDEX`. Such names belong to a network
//! namespace, as indexes of interfaces do: the same name in two namespaces is two interfaces, and
//! two containers that share a namespace see each other's claims, which they would not by files.
//! The index stays when an interface is renamed, and no second name leads round it.
//!
//! 1. One claim on an index exists at a time, in all processes of a network namespace.
//! 2. A claim ends when it is dropped, or when its process ends, however that happens.
//!
//! A name can be bound by any user of the namespace. One who does so keeps a switch from starting
//! on that interface, and the message names the process.

use std::io;
use std::mem::zeroed;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with,
};

use super::option;

/// Questions about who has the claim that can wait; nobody answers them.
const BACKLOG: i32 = 8;

/// A claim on an interface, for as long as it lives.
#[derive(Debug)]
pub(crate) struct Claim {
    _socket: OwnedFd,
}

/// Why an interface cannot be claimed.
#[derive(Debug)]
pub(crate) enum ClaimError {
    /// There is a claim on it already.
    Taken {
        /// Whose, if the kernel says so.
        process: Option<u32>,
    },
    /// The operating system refused.
    System(io::Error),
}

impl Claim {
    /// Claims the interface of this index, in this thread's network namespace.
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
        // So that the kernel tells others whose it is.
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

/// The process that listens at an address; none if it is in another namespace of processes.
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

    /// Indexes that no interface has here: the kernel counts from 1 up.
    const UNUSED: i32 = 2_147_480_000;

    #[test]
    fn a_claim_is_one_at_a_time_and_says_whose_it_is() {
        let claim = Claim::take(UNUSED).expect("nobody has it");
        let other = Claim::take(UNUSED + 1).expect("it is another interface");
        for _ in 0..3 * BACKLOG {
            match Claim::take(UNUSED) {
                // Once the backlog is full, the kernel does not say it any more.
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
