//! IPv6 extension headers (RFC 8200 section 4, RFC 4302 for authentication).
//!
//! Also the walk past them to the transport header.
//!
//! ```text
//!   options, routing:  | next header | length in 8 bytes, less one | body ...
//!   authentication:    | next header | length in 4 bytes, less two | body ...
//!   fragment:          | next header | 0 | offset:13, 0:2, more:1 | identification |
//! ```
//!
//! The walk continues while the next header's number is an extension's:
//!
//! ```text
//!   protocol, offset = the fixed header's next header, 40
//!   at most EXTENSIONS_MAX times:
//!       if protocol is no extension: done
//!       if it is a fragment header with an offset: step over it and be done
//!       protocol, offset = the extension's next header, offset + its length
//! ```
//!
//! 1. The walk ends: it is bounded, and every extension has at least eight bytes.
//! 2. Nothing behind the header of a later fragment is read: it is data, not a header.
//! 3. It reads only the packet, never the padding behind it.
//!
//! The walk accepts extensions in any order and number, as Linux's `ipv6_skip_exthdr` and Open
//! vSwitch do. RFC 8200 section 4.1 recommends an order and wants hop-by-hop options first.
//! But a more lenient receiver would then see a transport header that a strict switch did not
//! match.

use super::field::{self, Field};
use super::{FragmentKind, IpProtocol, Ipv6View, WireError};

const NEXT_HEADER: usize = 0;
const LENGTH: usize = 1;
const BODY_START: usize = 2;

const FRAGMENT_RESERVED: usize = 1;
const FRAGMENT_OFFSET: Field = 2..4;
const FRAGMENT_IDENTIFICATION: Field = 4..8;
/// The offset is the high 13 bits of its field, so the masked field is the offset in bytes.
const FRAGMENT_OFFSET_MASK: u16 = 0xfff8;
const FRAGMENT_MORE: u16 = 0x0001;

/// Bytes of an authentication header before its check value (RFC 4302 section 2).
const AUTHENTICATION_LEN_MIN: usize = 12;

/// The most extension headers in a walk: the number that RFC 8200 section 4.1 lists, plus one.
pub const EXTENSIONS_MAX: usize = 8;

/// The end of a packet's extension headers, and the facts that they stated.
///
/// Offsets count from the first byte of the IPv6 header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExtensionWalk {
    /// The protocol behind the last extension header.
    pub protocol: IpProtocol,
    /// Where that protocol's header starts, or the data of a later fragment.
    pub offset: usize,
    /// The byte that names the protocol: in the fixed header or in the last extension header.
    pub protocol_offset: usize,
    /// The part of a datagram that this packet holds.
    ///
    /// A fragment header of offset zero makes it [`FragmentKind::First`] even if no more fragments
    /// follow (an atomic fragment, RFC 6946), as in Open vSwitch.
    pub fragment: FragmentKind,
    /// Where the first fragment header starts, if there is one.
    pub fragment_offset: Option<usize>,
    /// The number of extension headers.
    pub count: usize,
}

/// Walks past the extension headers of a packet.
///
/// # Errors
/// [`WireError::Truncated`] if an extension runs past the packet, [`WireError::BadLength`] if its
/// length is impossible, [`WireError::TooManyHeaders`] past [`EXTENSIONS_MAX`].
#[inline]
pub fn walk_extensions(view: &Ipv6View<'_>) -> Result<ExtensionWalk, WireError> {
    let mut walk = ExtensionWalk {
        protocol: view.next_header(),
        offset: Ipv6View::HEADER_LEN,
        protocol_offset: Ipv6View::NEXT_HEADER_OFFSET,
        fragment: FragmentKind::Whole,
        fragment_offset: None,
        count: 0,
    };
    // Invariant 2: this condition keeps the walk out of a later fragment's data.
    while walk.protocol.is_ipv6_extension() && walk.fragment != FragmentKind::Later {
        if walk.count == EXTENSIONS_MAX {
            return Err(WireError::TooManyHeaders);
        }
        walk.step(view.packet())?;
    }
    Ok(walk)
}

impl ExtensionWalk {
    fn step(&mut self, packet: &[u8]) -> Result<(), WireError> {
        let bytes = packet.get(self.offset..).ok_or(WireError::Truncated)?;
        let (next_header, len) = if self.protocol == IpProtocol::FRAGMENT {
            let view = Ipv6FragmentView::new_checked(bytes)?;
            self.fragment = view.fragment_kind();
            self.fragment_offset = self.fragment_offset.or(Some(self.offset));
            (view.next_header(), Ipv6FragmentView::HEADER_LEN)
        } else {
            let view = ExtensionView::new_checked(self.protocol, bytes)?;
            (view.next_header(), view.header_len())
        };
        self.protocol_offset = self.offset + NEXT_HEADER;
        self.protocol = next_header;
        self.offset += len;
        self.count += 1;
        Ok(())
    }
}

/// A checked view of an extension header with a length: every kind but the fragment header.
#[derive(Clone, Copy, Debug)]
pub struct ExtensionView<'a> {
    kind: IpProtocol,
    bytes: &'a [u8],
}

impl<'a> ExtensionView<'a> {
    /// Views `bytes` as the extension header that the number `kind` names.
    ///
    /// # Errors
    /// [`WireError::BadField`] if `kind` names no such header, [`WireError::Truncated`] if it is
    /// not whole, [`WireError::BadLength`] if an authentication header is too short for its fields.
    #[inline]
    pub fn new_checked(kind: IpProtocol, bytes: &'a [u8]) -> Result<Self, WireError> {
        if !kind.is_ipv6_extension() || kind == IpProtocol::FRAGMENT {
            return Err(WireError::BadField);
        }
        if bytes.len() < BODY_START {
            return Err(WireError::Truncated);
        }
        let view = ExtensionView { kind, bytes };
        if kind == IpProtocol::AUTHENTICATION && view.header_len() < AUTHENTICATION_LEN_MIN {
            return Err(WireError::BadLength);
        }
        if bytes.len() < view.header_len() {
            return Err(WireError::Truncated);
        }
        Ok(view)
    }

    /// The number that names this header.
    #[inline]
    pub fn kind(&self) -> IpProtocol {
        self.kind
    }

    /// The next header.
    #[inline]
    pub fn next_header(&self) -> IpProtocol {
        IpProtocol(self.bytes[NEXT_HEADER])
    }

    /// The length of the header in bytes.
    #[inline]
    pub fn header_len(&self) -> usize {
        let length = usize::from(self.bytes[LENGTH]);
        if self.kind == IpProtocol::AUTHENTICATION {
            4 * (length + 2)
        } else {
            8 * (length + 1)
        }
    }

    /// The bytes behind the length field: options, addresses or a check value.
    #[inline]
    pub fn body(&self) -> &'a [u8] {
        &self.bytes[BODY_START..self.header_len()]
    }

    /// The bytes behind the header.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[self.header_len()..]
    }
}

/// The fields of an extension header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExtensionRepr<'a> {
    /// The number that names this header; it is stored in the previous header.
    pub kind: IpProtocol,
    /// The next header.
    pub next_header: IpProtocol,
    /// The bytes behind the length field.
    ///
    /// Two bytes short of a multiple of eight, or of four in an authentication header.
    pub body: &'a [u8],
}

impl<'a> ExtensionRepr<'a> {
    /// Reads the header.
    ///
    /// # Errors
    /// None beyond those of the view.
    pub fn parse(view: &ExtensionView<'a>) -> Result<Self, WireError> {
        Ok(ExtensionRepr {
            kind: view.kind(),
            next_header: view.next_header(),
            body: view.body(),
        })
    }

    /// Bytes that [`ExtensionRepr::emit`] writes.
    pub const fn buffer_len(&self) -> usize {
        BODY_START + self.body.len()
    }

    /// Writes the header.
    ///
    /// # Panics
    /// If `bytes` is shorter than [`ExtensionRepr::buffer_len`] or no length field fits the
    /// body.
    pub fn emit(&self, bytes: &mut [u8]) {
        let len = self.buffer_len();
        let (unit, less, least) = match self.kind {
            IpProtocol::AUTHENTICATION => (4, 2, AUTHENTICATION_LEN_MIN),
            _ => (8, 1, 8),
        };
        let is_possible = len.is_multiple_of(unit) && len >= least && len / unit - less <= 255;
        assert!(is_possible, "an extension header has no such length");
        bytes[NEXT_HEADER] = self.next_header.0;
        bytes[LENGTH] = (len / unit - less) as u8;
        bytes[BODY_START..len].copy_from_slice(self.body);
    }
}

/// A checked view of a fragment header (RFC 8200 section 4.5).
#[derive(Clone, Copy, Debug)]
pub struct Ipv6FragmentView<'a> {
    bytes: &'a [u8],
}

impl<'a> Ipv6FragmentView<'a> {
    /// Bytes of the header.
    pub const HEADER_LEN: usize = FRAGMENT_IDENTIFICATION.end;

    /// Views `bytes` as a fragment header.
    ///
    /// # Errors
    /// [`WireError::Truncated`] under eight bytes.
    #[inline]
    pub fn new_checked(bytes: &'a [u8]) -> Result<Self, WireError> {
        if bytes.len() < Self::HEADER_LEN {
            return Err(WireError::Truncated);
        }
        Ok(Ipv6FragmentView { bytes })
    }

    /// The header behind the extension headers of the reassembled datagram.
    #[inline]
    pub fn next_header(&self) -> IpProtocol {
        IpProtocol(self.bytes[NEXT_HEADER])
    }

    /// The payload's offset in the datagram, in bytes, a multiple of eight.
    #[inline]
    pub fn fragment_offset_bytes(&self) -> u16 {
        field::read_u16(self.bytes, FRAGMENT_OFFSET) & FRAGMENT_OFFSET_MASK
    }

    /// Whether fragments with higher offsets exist.
    #[inline]
    pub fn has_more_fragments(&self) -> bool {
        field::read_u16(self.bytes, FRAGMENT_OFFSET) & FRAGMENT_MORE != 0
    }

    /// The number that all fragments of a datagram share.
    #[inline]
    pub fn identification(&self) -> u32 {
        field::read_u32(self.bytes, FRAGMENT_IDENTIFICATION)
    }

    /// The part of a datagram that this packet holds; an atomic fragment counts as a first
    /// one.
    #[inline]
    pub fn fragment_kind(&self) -> FragmentKind {
        if self.fragment_offset_bytes() == 0 {
            FragmentKind::First
        } else {
            FragmentKind::Later
        }
    }

    /// The bytes behind the header.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[Self::HEADER_LEN..]
    }
}

/// The fields of a fragment header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ipv6FragmentRepr {
    /// The header behind the extension headers of the reassembled datagram.
    pub next_header: IpProtocol,
    /// The payload's offset in the datagram: a multiple of eight.
    pub fragment_offset_bytes: u16,
    /// Whether fragments with higher offsets exist.
    pub more_fragments: bool,
    /// The number that all fragments of a datagram share.
    pub identification: u32,
}

impl Ipv6FragmentRepr {
    /// Reads the header.
    ///
    /// # Errors
    /// None beyond those of the view.
    pub fn parse(view: &Ipv6FragmentView<'_>) -> Result<Self, WireError> {
        Ok(Ipv6FragmentRepr {
            next_header: view.next_header(),
            fragment_offset_bytes: view.fragment_offset_bytes(),
            more_fragments: view.has_more_fragments(),
            identification: view.identification(),
        })
    }

    /// Bytes that [`Ipv6FragmentRepr::emit`] writes.
    pub const fn buffer_len(&self) -> usize {
        Ipv6FragmentView::HEADER_LEN
    }

    /// Writes the header.
    ///
    /// # Panics
    /// If `bytes` is shorter than [`Ipv6FragmentRepr::buffer_len`] or the offset is no multiple of
    /// eight.
    pub fn emit(&self, bytes: &mut [u8]) {
        assert!(
            self.fragment_offset_bytes.is_multiple_of(8),
            "fragments start at eight bytes"
        );
        let more = if self.more_fragments {
            FRAGMENT_MORE
        } else {
            0
        };
        bytes[NEXT_HEADER] = self.next_header.0;
        bytes[FRAGMENT_RESERVED] = 0;
        field::write_u16(bytes, FRAGMENT_OFFSET, self.fragment_offset_bytes | more);
        field::write_u32(bytes, FRAGMENT_IDENTIFICATION, self.identification);
    }
}
