//! Replaces the address and the port in an announcement.

use std::net::Ipv6Addr;

use thalweg_packet::checksum::{Alignment, Edit, checksum};

use crate::Endpoint;

/// Where a payload names an address and a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct AnnouncedText {
    /// The first byte of the text, from the beginning of the payload.
    pub(crate) start: usize,
    /// The byte behind its last.
    pub(crate) end: usize,
    /// How it is written.
    pub(crate) form: TextForm,
    /// The address that it names now, if it names one.
    pub(crate) address: Option<Ipv6Addr>,
    /// The port that it names now.
    pub(crate) port: u16,
}

/// How an announcement writes address and port.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum TextForm {
    /// `h1,h2,h3,h4,p1,p2` (RFC 959 section 4.1.2).
    Commas,
    /// `address|port` with a delimiter in place of `|` (RFC 2428 section 2).
    Extended {
        /// The delimiter.
        delimiter: u8,
    },
    /// The port alone (RFC 2428 section 3).
    PortOnly,
}

/// A payload with another address or port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Rewritten {
    /// The new payload.
    pub(crate) payload: Vec<u8>,
    /// By how many bytes it is longer; negative if shorter.
    pub(crate) shift: i32,
    /// Where the replaced text ended in the old payload.
    pub(crate) text_end: usize,
}

/// The payload with `to` in place of the announced address and port.
///
/// Returns `None` if nothing changes: the text names `to` already, `text` is not of this
/// payload, or an IPv6 address cannot be written in its form.
pub(crate) fn rewrite_announcement(
    payload: &[u8],
    text: &AnnouncedText,
    to: Endpoint,
) -> Option<Rewritten> {
    let is_same = text.address.is_none_or(|address| address == to.address) && text.port == to.port;
    if is_same || text.start > text.end || text.end > payload.len() {
        return None;
    }
    let new = match text.form {
        TextForm::Commas => {
            let [a, b, c, d] = to.address.to_ipv4_mapped()?.octets();
            let [high, low] = to.port.to_be_bytes();
            format!("{a},{b},{c},{d},{high},{low}")
        }
        TextForm::Extended { delimiter } => {
            format!("{}{}{}", written(text, to), char::from(delimiter), to.port)
        }
        TextForm::PortOnly => to.port.to_string(),
    };
    let payload = [&payload[..text.start], new.as_bytes(), &payload[text.end..]].concat();
    Some(Rewritten {
        payload,
        shift: new.len() as i32 - (text.end - text.start) as i32,
        text_end: text.end,
    })
}

/// The address in the family of the announced one.
///
/// A native IPv6 packet may have a mapped address, which is IPv6's to write.
fn written(text: &AnnouncedText, to: Endpoint) -> String {
    let is_ipv4 = |address: Ipv6Addr| address.to_ipv4_mapped().is_some();
    if text.address.is_some_and(is_ipv4) {
        to.ip().to_string()
    } else {
        to.address.to_string()
    }
}

/// Puts a rewritten payload into a frame: lengths and checksums follow.
///
/// `ip_at` and `tcp_at` are where the headers start; `is_ipv6` says which IP it is. A wrong
/// checksum of TCP is as wrong afterwards. Padding stays behind the packet. Returns whether
/// the frame was changed: not if it is no whole TCP segment, or would become too long for IP.
pub(crate) fn replace_payload(
    frame: &mut Vec<u8>,
    ip_at: usize,
    tcp_at: usize,
    is_ipv6: bool,
    payload: &[u8],
) -> bool {
    let Some((length_at, old_length, end)) = packet_end(frame, ip_at, is_ipv6) else {
        return false;
    };
    let Some(tcp) = frame.get(tcp_at..end).filter(|tcp| tcp.len() >= 20) else {
        return false;
    };
    let payload_at = tcp_at + usize::from(tcp[12] >> 4) * 4;
    if payload_at < tcp_at + 20 || payload_at > end || tcp_at < ip_at + 20 {
        return false;
    }
    let shift = payload.len() as i64 - (end - payload_at) as i64;
    let Ok(new_length) = u16::try_from(i64::from(old_length) + shift) else {
        return false;
    };
    // The pseudo-header has the segment's length, which changes as the packet's does. The
    // segment's header is a multiple of four bytes, so the payload's words keep their places.
    let edit = Edit::default()
        .replace_u16(
            !checksum(&frame[payload_at..end]),
            !checksum(payload),
            Alignment::Even,
        )
        .replace_u16(old_length, new_length, Alignment::Even);
    update(&mut frame[tcp_at + 16..tcp_at + 18], edit);
    frame[length_at..length_at + 2].copy_from_slice(&new_length.to_be_bytes());
    if !is_ipv6 {
        let edit = Edit::default().replace_u16(old_length, new_length, Alignment::Even);
        update(&mut frame[ip_at + 10..ip_at + 12], edit);
    }
    frame.splice(payload_at..end, payload.iter().copied());
    true
}

/// Where the IP header states a length, that length, and where the packet ends.
fn packet_end(frame: &[u8], ip_at: usize, is_ipv6: bool) -> Option<(usize, u16, usize)> {
    let (length_at, header_len) = if is_ipv6 {
        (ip_at + 4, 40)
    } else {
        (ip_at + 2, 0)
    };
    let bytes = frame.get(length_at..length_at + 2)?;
    let length = u16::from_be_bytes([bytes[0], bytes[1]]);
    let end = ip_at + header_len + usize::from(length);
    (end <= frame.len()).then_some((length_at, length, end))
}

fn update(field: &mut [u8], edit: Edit) {
    let checksum = edit.apply(u16::from_be_bytes([field[0], field[1]]));
    field.copy_from_slice(&checksum.to_be_bytes());
}
