//! Prints rules, groups and cache entries in the spelling of Open vSwitch's tools.
//!
//! A rule is printed like `ovs-ofctl dump-flows --no-stats` (`lib/match.c`,
//! `lib/ofp-actions.c`), so that outputs can be compared by eye and by program. Where several
//! spellings mean the same, the printer uses the first that reads back as the same value.

mod actions;
mod datapath;
mod effects;
mod flow;
mod matches;
mod megaflow;

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::fields::{Format, Name};
use super::value::{LOCAL_PORT, NO_PORT, TCP_FLAGS, ones};

pub(super) use datapath::{Spelling, members_of};
pub use effects::print_effects;
pub use megaflow::{MegaflowStyle, print_megaflow};

/// The printer's output.
type Out<'a, 'b> = &'a mut fmt::Formatter<'b>;

/// Writes a number in hexadecimal like C's `%#x`: zero has no `0x`.
fn hexadecimal(out: &mut dyn fmt::Write, number: u128) -> fmt::Result {
    match number {
        0 => out.write_str("0"),
        _ => write!(out, "{number:#x}"),
    }
}

/// Writes an Ethernet address.
fn ethernet(out: &mut dyn fmt::Write, address: u128) -> fmt::Result {
    let bytes = (address as u64).to_be_bytes();
    let [_, _, a, b, c, d, e, f] = bytes;
    write!(out, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}")
}

/// The length of a prefix, if the mask is a prefix.
fn prefix_length(mask: u128, width: u16) -> Option<u32> {
    let length = (mask << (128 - width)).leading_ones();
    (mask == ones(width) & !ones(width - length as u16)).then_some(length)
}

fn ipv4(out: &mut dyn fmt::Write, value: u128, mask: u128) -> fmt::Result {
    write!(out, "{}", Ipv4Addr::from(value as u32))?;
    match prefix_length(mask, 32) {
        Some(32) => Ok(()),
        Some(length) => write!(out, "/{length}"),
        None => write!(out, "/{}", Ipv4Addr::from(mask as u32)),
    }
}

fn ipv6(out: &mut dyn fmt::Write, value: u128, mask: u128) -> fmt::Result {
    write!(out, "{}", Ipv6Addr::from(value))?;
    match prefix_length(mask, 128) {
        Some(128) => Ok(()),
        Some(length) => write!(out, "/{length}"),
        None => write!(out, "/{}", Ipv6Addr::from(mask)),
    }
}

fn masked_ethernet(out: &mut dyn fmt::Write, value: u128, mask: u128) -> fmt::Result {
    ethernet(out, value)?;
    if mask != ones(48) {
        out.write_str("/")?;
        ethernet(out, mask)?;
    }
    Ok(())
}

fn tcp_flags(out: &mut dyn fmt::Write, value: u128, mask: u128) -> fmt::Result {
    let is_exact = mask == ones(12);
    if is_exact && value == 0 {
        return out.write_str("0");
    }
    let mut separator = "";
    for (bit, name) in TCP_FLAGS.iter().enumerate() {
        let (is_set, is_asked) = (value >> bit & 1 != 0, mask >> bit & 1 != 0);
        if is_exact && is_set {
            write!(out, "{separator}{name}")?;
            separator = "|";
        } else if !is_exact && is_asked {
            write!(out, "{}{name}", if is_set { '+' } else { '-' })?;
        }
    }
    Ok(())
}

/// Writes a port's number, or the name of a reserved one.
fn port(out: &mut dyn fmt::Write, number: u128) -> fmt::Result {
    match number {
        _ if number == u128::from(LOCAL_PORT.0) => out.write_str("LOCAL"),
        _ if number == u128::from(NO_PORT.0) => out.write_str("ANY"),
        _ => write!(out, "{number}"),
    }
}

/// Writes a value in its name's notation, as in `set_field`.
fn value(out: &mut dyn fmt::Write, name: &Name, value: u128, mask: u128) -> fmt::Result {
    match name.format {
        Format::Ethernet => return masked_ethernet(out, value, mask),
        Format::Ipv4 => return ipv4(out, value, mask),
        Format::Ipv6 => return ipv6(out, value, mask),
        Format::TcpFlags => return tcp_flags(out, value, mask),
        Format::Port => return port(out, value),
        Format::Hexadecimal => hexadecimal(out, value)?,
        _ => write!(out, "{value}")?,
    }
    if mask != ones(name.width_bits) {
        out.write_str("/")?;
        hexadecimal(out, mask)?;
    }
    Ok(())
}
