//! A tap's descriptor: `Documentation/networking/tuntap.rst`.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;

use super::interface::named;
use super::{VIRTIO_HEADER_BYTES, check};

/// What an owner of a tap can do that a network card does (`linux/if_tun.h`).
const TUN_F_CSUM: libc::c_uint = 0x01;
const TUN_F_TSO4: libc::c_uint = 0x02;
const TUN_F_TSO6: libc::c_uint = 0x04;
const TUN_F_TSO_ECN: libc::c_uint = 0x08;
const TUN_F_USO4: libc::c_uint = 0x20;
const TUN_F_USO6: libc::c_uint = 0x40;

/// Opens the tap called `name`, or creates it. Each read and write is one frame behind a virtio
/// header.
pub(crate) fn open_tap(name: &str) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open("/dev/net/tun")?;
    let mut request = named(name);
    request.ifr_ifru.ifru_flags =
        (libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as libc::c_short;
    // SAFETY: the request reads and writes one `ifreq`, which is borrowed for the call (1, 2).
    check(unsafe {
        libc::ioctl(
            file.as_raw_fd(),
            libc::TUNSETIFF,
            std::ptr::from_mut(&mut request),
        )
    })?;
    let header_bytes = VIRTIO_HEADER_BYTES as libc::c_int;
    // SAFETY: the request reads one integer, which is borrowed for the call (1, 2).
    check(unsafe {
        libc::ioctl(
            file.as_raw_fd(),
            libc::TUNSETVNETHDRSZ,
            std::ptr::from_ref(&header_bytes),
        )
    })?;
    // Another program may have left them on.
    set_offloads(&file, 0)?;
    Ok(file)
}

/// Lets the tap give super-frames and partial checksums: of UDP too, where the kernel knows that.
pub(crate) fn let_tap_keep_whole(file: &File) -> io::Result<()> {
    let tcp = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN;
    set_offloads(file, tcp | TUN_F_USO4 | TUN_F_USO6).or_else(|_| set_offloads(file, tcp))
}

fn set_offloads(file: &File, offloads: libc::c_uint) -> io::Result<()> {
    // SAFETY: the request takes a number, no address.
    check(unsafe {
        libc::ioctl(
            file.as_raw_fd(),
            libc::TUNSETOFFLOAD,
            libc::c_ulong::from(offloads),
        )
    })
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
