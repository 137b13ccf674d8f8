//! The IP addresses of interfaces: `getifaddrs(3)`.

use std::ffi::CStr;
use std::io;
use std::net::Ipv6Addr;

/// Whether this host has an IP address on the interface called `name`, in this thread's network
/// namespace. Addresses of IPv6 for one link do not count: every interface gets one by itself.
pub(crate) fn has_address(name: &str) -> io::Result<bool> {
    let mut list = std::ptr::null_mut();
    // SAFETY: the call writes one address to `list`, which is borrowed mutably (2).
    super::check(unsafe { libc::getifaddrs(&raw mut list) })?;
    let mut has = false;
    let mut at: *const libc::ifaddrs = list;
    // SAFETY: the list was made above, is freed below, and nothing changes it in between. Its
    // elements are valid or null, names end with a zero, and an address has the length of its
    // family.
    while let Some(one) = unsafe { at.as_ref() } {
        at = one.ifa_next;
        // SAFETY: as above.
        let is_it = unsafe { CStr::from_ptr(one.ifa_name) }.to_bytes() == name.as_bytes();
        // SAFETY: as above.
        has |= is_it && unsafe { is_of_host(one.ifa_addr) };
    }
    // SAFETY: the list was made above; no reference into it is left.
    unsafe { libc::freeifaddrs(list) };
    Ok(has)
}

/// Whether an address is one of IP, and not only for one link.
///
/// # Safety
/// - `address` is null, or points to an address of its family.
unsafe fn is_of_host(address: *const libc::sockaddr) -> bool {
    // SAFETY: this function's contract.
    let Some(general) = (unsafe { address.as_ref() }) else {
        return false;
    };
    match i32::from(general.sa_family) {
        libc::AF_INET => true,
        libc::AF_INET6 => {
            // SAFETY: the family says that this is its structure (this function's contract).
            let told = unsafe { address.cast::<libc::sockaddr_in6>().read_unaligned() };
            !Ipv6Addr::from(told.sin6_addr.s6_addr).is_unicast_link_local()
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_has_one_and_a_missing_one_has_none() {
        assert!(has_address("lo").unwrap());
        assert!(!has_address("thalweg-none").unwrap());
    }
}
