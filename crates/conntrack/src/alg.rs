//! Reads payloads that announce further connections.
//!
//! ```text
//!   payload, control connection --announced--> the connection to expect, and where its address
//!                                              stands in the payload
//!   payload, text, new endpoint --rewrite_announcement---> the new payload
//!   segment, rewritings so far --SequenceShift--> the segment with fitting numbers
//! ```
//!
//! The tracker calls [`announced`] for each packet of a connection that was committed with a
//! protocol (`ct(commit,alg=ftp)`), and remembers what it returns. The expected connection goes
//! from one end of the control connection to the other:
//!
//! | announcement | sender | who opens the expected connection |
//! | --- | --- | --- |
//! | FTP `PORT`, `EPRT` (active) | client | the server |
//! | FTP replies 227, 229 (passive) | server | the client |
//! | TFTP request | client | the server |
//!
//! So the sender is always the listener, whatever the direction of the packet.
//!
//! 1. The expected connection has the two addresses of its control connection. A sender cannot
//!    announce a third host (the bounce attack, RFC 2577 section 3), nor the port zero.
//! 2. Only a whole command in one segment counts, and only within its first 127 bytes, as in
//!    Open vSwitch.
//! 3. No payload panics, and the work is linear in 127 bytes and the end of the line.
//!
//! Open vSwitch (`lib/conntrack.c`) reads PORT and 227 for IPv4, EPRT and 229 for IPv6. Here
//! both families have the extended forms (RFC 2428). Open vSwitch finds the words "EXTENDED
//! PASSIVE" anywhere; here the reply's code decides. It also accepts a command without its end
//! of line, whose last digits may still come; here that is [`AnnouncementError::Unfinished`].
//! It expects TFTP's data at the client's untranslated port; here at the port that the server
//! sees. And it translates one end of an expected connection, here both may be.
//!
//! References: RFC 959 sections 4.1.2 and 4.2, RFC 1123 section 4.1.2.6, RFC 1350 sections 4
//! and 5, RFC 2428 sections 2 and 3.

mod ftp;
#[cfg(test)]
mod reference;
mod rewrite;
mod sequence;
#[cfg(test)]
mod tests;
mod tftp;

use std::net::Ipv6Addr;

use crate::{Alg, Endpoint, Tuple};

pub(crate) use self::rewrite::{
    AnnouncedText, Rewritten, TextForm, replace_payload, rewrite_announcement,
};
pub(crate) use self::sequence::{SequenceShift, ShiftPlace};

/// A packet of a control connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ControlPacket<'a> {
    /// The connection's first direction, before translation.
    pub(crate) original: &'a Tuple,
    /// The direction of replies, before they are translated back.
    pub(crate) reply: &'a Tuple,
    /// Whether the packet is a reply.
    pub(crate) is_reply: bool,
}

/// One end of a control connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum ControlPeer {
    /// The sender of its first packet: the client.
    Original,
    /// The other: the server.
    Reply,
}

/// A connection that a payload announced.
///
/// With translation, the two ends know each other by other addresses than their own:
///
/// ```text
///   opener               as the opener sends   as the listener receives
///   source               `source`              `source_seen`, any port
///   destination          `destination`         `listener`
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct ExpectedConnection {
    /// The end of the control connection that will open it.
    pub(crate) opener: ControlPeer,
    /// The address that the first packet comes from; its port is unknown.
    pub(crate) source: Ipv6Addr,
    /// The address that the listener knows the opener by.
    pub(crate) source_seen: Ipv6Addr,
    /// Where the first packet goes, unless the payload is rewritten to say otherwise.
    pub(crate) destination: Endpoint,
    /// Where the listener listens.
    pub(crate) listener: Endpoint,
    /// The IP protocol.
    pub(crate) protocol: u8,
    /// The zone.
    pub(crate) zone: u16,
    /// Whether it is IPv6.
    pub is_ipv6: bool,
}

impl ExpectedConnection {
    /// The tuple of its first packet, before translation; the source port is 0 for any.
    pub(crate) fn tuple(&self) -> Tuple {
        Tuple {
            source: Endpoint {
                address: self.source,
                port: 0,
            },
            destination: self.destination,
            icmp: (0, 0),
            zone: self.zone,
            protocol: self.protocol,
            is_ipv6: self.is_ipv6,
        }
    }

    /// What the destination becomes, if it is translated.
    pub(crate) fn new_destination(&self) -> Option<Endpoint> {
        (self.listener != self.destination).then_some(self.listener)
    }

    /// What the source's address becomes, if it is translated.
    pub(crate) fn new_source(&self) -> Option<Ipv6Addr> {
        (self.source_seen != self.source).then_some(self.source_seen)
    }
}

/// What a payload announces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Announcement {
    /// The connection to expect.
    pub(crate) expected: ExpectedConnection,
    /// Where the payload names the listener; `None` for TFTP, whose headers name it.
    ///
    /// With translation it must name `expected.destination`.
    pub(crate) text: Option<AnnouncedText>,
}

/// Why an announcement does not count.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum AnnouncementError {
    /// The command or reply is malformed. The packet is invalid.
    Malformed,
    /// It names a host other than the sender. The packet is invalid.
    ForeignAddress,
    /// Its end is not in the segment. The packet is valid, but expects nothing.
    Unfinished,
}

impl AnnouncementError {
    /// Whether the packet becomes invalid.
    pub(crate) const fn is_invalid(self) -> bool {
        !matches!(self, AnnouncementError::Unfinished)
    }
}

/// The connection that the payload of a packet announces, if it does.
///
/// # Errors
/// If the payload begins an announcement that does not count.
pub(crate) fn announced(
    alg: Alg,
    payload: &[u8],
    packet: ControlPacket<'_>,
) -> Result<Option<Announcement>, AnnouncementError> {
    match alg {
        Alg::Ftp => announced_by_ftp(payload, packet),
        Alg::Tftp => Ok(announced_by_tftp(payload, packet)),
    }
}

fn announced_by_ftp(
    payload: &[u8],
    packet: ControlPacket<'_>,
) -> Result<Option<Announcement>, AnnouncementError> {
    let Some(found) = ftp::find(payload, packet.original.is_ipv6)? else {
        return Ok(None);
    };
    let expected = packet.expects(found.port, found.port);
    // Invariant 1: the sender's own address, or the one that its peer knows it by.
    let own = [expected.listener.address, expected.destination.address];
    if found.address.is_some_and(|address| !own.contains(&address)) {
        return Err(AnnouncementError::ForeignAddress);
    }
    let text = Some(found.text());
    Ok(Some(Announcement { expected, text }))
}

/// A request's answer comes from a port that the server chooses, to the port that the request
/// came from.
fn announced_by_tftp(payload: &[u8], packet: ControlPacket<'_>) -> Option<Announcement> {
    if packet.is_reply || !tftp::is_request(payload) {
        return None;
    }
    let ports = (packet.original.source.port, packet.reply.destination.port);
    let expected = packet.expects(ports.0, ports.1);
    let text = None;
    Some(Announcement { expected, text })
}

impl ControlPacket<'_> {
    /// A connection to the packet's sender, which listens at `port` and is known to listen at
    /// `port_seen`.
    fn expects(&self, port: u16, port_seen: u16) -> ExpectedConnection {
        let (original, reply) = (self.original, self.reply);
        // Each tuple has the true source, and the destination as its sender knows it.
        let (opener, to_sender, from_sender) = if self.is_reply {
            (ControlPeer::Original, original, reply)
        } else {
            (ControlPeer::Reply, reply, original)
        };
        ExpectedConnection {
            opener,
            source: to_sender.source.address,
            source_seen: from_sender.destination.address,
            destination: Endpoint {
                address: to_sender.destination.address,
                port: port_seen,
            },
            listener: Endpoint {
                address: from_sender.source.address,
                port,
            },
            protocol: original.protocol,
            zone: original.zone,
            is_ipv6: original.is_ipv6,
        }
    }
}
