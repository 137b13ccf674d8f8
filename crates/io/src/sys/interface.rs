//! Reads and sets properties of a network interface: `netdevice(7)`.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use super::{check, socket};

/// The kernel's longest interface name, without the closing zero.
const NAME_BYTES: usize = libc::IFNAMSIZ - 1;

/// A network interface, identified by its index, which survives a rename.
#[derive(Debug)]
pub(crate) struct Interface {
    /// Any socket will do; it binds the requests to the network namespace it was made in.
    pub(super) control: OwnedFd,
    index: i32,
}

/// The state of an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Link {
    /// It is up and has carrier.
    Up,
    /// It is down or has no carrier.
    Down,
    /// It no longer exists.
    Gone,
}

impl Interface {
    /// Whether the kernel accepts `name` as the name of one interface.
    pub(crate) fn is_name(name: &str) -> bool {
        let is_odd = |b: u8| b == b'/' || b == b':' || b == b'%' || b == 0;
        let bytes = name.as_bytes();
        (1..=NAME_BYTES).contains(&bytes.len())
            && !matches!(name, "." | "..")
            && !bytes.iter().any(|&b| is_odd(b) || b.is_ascii_whitespace())
    }

    /// Finds the interface called `name`.
    pub(crate) fn find(name: &str) -> io::Result<Interface> {
        let control = socket(libc::AF_INET, libc::SOCK_DGRAM, 0)?;
        let mut request = named(name);
        ask(&control, libc::SIOCGIFINDEX, &mut request)?;
        // SAFETY: the call above has set this field, and all fields are plain data (1).
        let index = unsafe { request.ifr_ifru.ifru_ifindex };
        Ok(Interface { control, index })
    }

    pub(crate) fn index(&self) -> i32 {
        self.index
    }

    pub(crate) fn link(&self) -> Link {
        let needed = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
        match self.flags() {
            Ok((_, flags)) if flags & needed == needed => Link::Up,
            Ok(_) => Link::Down,
            Err(_) => Link::Gone,
        }
    }

    /// The `ARPHRD_` number of the link layer.
    pub(crate) fn hardware_type(&self) -> io::Result<u16> {
        let mut request = self.request()?;
        ask(&self.control, libc::SIOCGIFHWADDR, &mut request)?;
        // SAFETY: the call above has set this field, and all fields are plain data (1).
        Ok(unsafe { request.ifr_ifru.ifru_hwaddr.sa_family })
    }

    pub(crate) fn set_up(&self) -> io::Result<()> {
        let (mut request, flags) = self.flags()?;
        request.ifr_ifru.ifru_flags = flags | libc::IFF_UP as libc::c_short;
        ask(&self.control, libc::SIOCSIFFLAGS, &mut request)
    }

    pub(crate) fn mtu(&self) -> io::Result<u32> {
        let mut request = self.request()?;
        ask(&self.control, libc::SIOCGIFMTU, &mut request)?;
        // SAFETY: the call above has set this field, and all fields are plain data (1).
        let mtu = unsafe { request.ifr_ifru.ifru_mtu };
        Ok(u32::try_from(mtu).unwrap_or(0))
    }

    pub(crate) fn set_mtu(&self, mtu_bytes: u32) -> io::Result<()> {
        let mut request = self.request()?;
        request.ifr_ifru.ifru_mtu = i32::try_from(mtu_bytes).unwrap_or(i32::MAX);
        ask(&self.control, libc::SIOCSIFMTU, &mut request)
    }

    pub(crate) fn set_address(&self, address: [u8; 6]) -> io::Result<()> {
        let mut request = self.request()?;
        let mut told = libc::sockaddr {
            sa_family: libc::ARPHRD_ETHER,
            sa_data: [0; 14],
        };
        for (target, byte) in told.sa_data.iter_mut().zip(address) {
            *target = byte as libc::c_char;
        }
        request.ifr_ifru.ifru_hwaddr = told;
        ask(&self.control, libc::SIOCSIFHWADDR, &mut request)
    }

    fn flags(&self) -> io::Result<(libc::ifreq, libc::c_short)> {
        let mut request = self.request()?;
        ask(&self.control, libc::SIOCGIFFLAGS, &mut request)?;
        // SAFETY: the call above has set this field, and all fields are plain data (1).
        let flags = unsafe { request.ifr_ifru.ifru_flags };
        Ok((request, flags))
    }

    /// A request with the interface's current name; fails once it is deleted.
    pub(super) fn request(&self) -> io::Result<libc::ifreq> {
        let mut request = named("");
        request.ifr_ifru.ifru_ifindex = self.index;
        ask(&self.control, libc::SIOCGIFNAME, &mut request)?;
        Ok(request)
    }
}

/// A request for the interface called `name`, truncated to the field's size.
pub(super) fn named(name: &str) -> libc::ifreq {
    // SAFETY: zeros are a value of this structure (1).
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (target, byte) in request.ifr_name[..NAME_BYTES].iter_mut().zip(name.bytes()) {
        *target = byte as libc::c_char;
    }
    request
}

/// Makes a request; if it uses the pointer field, the caller has set that to memory that lives
/// until this returns, of the size that the request asks for.
pub(super) fn ask(
    control: &OwnedFd,
    request: libc::c_ulong,
    data: &mut libc::ifreq,
) -> io::Result<()> {
    // SAFETY: the requests of this folder read and write one `ifreq` (2). Those of this file do not
    // use its pointer field; `ethtool.rs` sets it to a structure that is borrowed for the call.
    check(unsafe { libc::ioctl(control.as_raw_fd(), request, std::ptr::from_mut(data)) })
}
