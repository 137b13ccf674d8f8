//! A packet in memory: its bytes, with room in front for more headers.
//!
//! A [`Packet`] owns one allocation. It lives from the receive queue to the transmit queue,
//! and ports recycle it. The bytes in use are `storage[start..end]`.
//!
//! ```text
//!   storage: |....headroom....|<------ bytes ------>|...tailroom...|
//!            0              start                  end        capacity
//! ```
//!
//! 1. `start <= end <= storage.len()`, always.
//! 2. [`Packet::prepend`] never moves the payload while headroom lasts. After that it makes
//!    new headroom with one copy, so a push always succeeds.
//! 3. Nothing outside `start..end` is ever shown: a recycled buffer leaks no earlier packet.
//! 4. A packet that was captured only in part knows how many bytes are missing
//!    ([`Packet::cut_bytes`]). New bytes ([`Packet::fill`], [`Packet::receive_area`]) are
//!    whole.
//! 5. A packet that begins behind Ethernet ([`Packet::is_layer3`]) keeps 14 bytes in front all the
//!    same: twelve zeros, and the type of what follows. So it is read and changed like any other,
//!    and leaves by a port for Ethernet as it is.
//! 6. What a packet leaves to the port that sends it ([`Packet::unfinished`]) is forgotten with its
//!    bytes, and done before bytes at its end come or go.

use crate::unfinished::UNFINISHED_BITS;
use crate::{Instant, TunnelValues};

/// A port's number, as rules and configurations use it (OpenFlow `ofp_port`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct PortId(pub u32);

impl std::fmt::Display for PortId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// Bytes that ports leave free in front of a received packet.
///
/// Enough for two VLAN tags, three MPLS labels and an outer Ethernet, IPv6, UDP and Geneve header
/// with options.
pub const HEADROOM_BYTES: usize = 192;

/// What a packet that begins behind Ethernet keeps in front (invariant 5).
const LAYER3_FRONT_BYTES: usize = 14;

/// A packet: bytes with headroom, the port it came from, and when.
///
/// ```
/// use thalweg_packet::Packet;
///
/// let mut packet = Packet::from_bytes(b"payload");
/// packet.prepend(4).copy_from_slice(b"head");
/// assert_eq!(packet.bytes(), b"headpayload");
/// packet.remove_front(4);
/// assert_eq!(packet.bytes(), b"payload");
/// ```
#[derive(Clone, Default)]
pub struct Packet {
    // Packets move from list to list: in few words, each of which is read as it was written.
    storage: Box<[u8]>,
    start: u32,
    end: u32,
    in_port: PortId,
    cut_bytes: u32,
    received_at: Instant,
    /// Kept for the next packet in this memory without [`TUNNELED`].
    tunnel: TunnelMemory,
    pub(crate) flags: u64,
}

/// Room for a tunnel's values. Few packets have it; what frees it is out of the way, so that a
/// packet is moved and dropped in registers.
#[derive(Clone, Default)]
struct TunnelMemory(Option<Box<TunnelValues>>);

impl Drop for TunnelMemory {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(values) = self.0.take() {
            free(values);
        }
    }
}

#[cold]
#[inline(never)]
fn free(values: Box<TunnelValues>) {
    drop(values);
}

/// The flag of a packet that is from a tunnel or goes into one.
const TUNNELED: u64 = 1;
/// The flag of a packet that begins behind Ethernet.
const LAYER3: u64 = 2;

/// The most room that a packet grows to in small steps; behind that it becomes a large one.
pub(crate) const GROWN_BYTES: usize = 16 << 10;

/// The room of a large packet: the longest frame with a 16-bit IP length, its Ethernet header and
/// tags.
pub const LARGE_PACKET_BYTES: usize = 65_536 + 64;

const _: () = assert!(std::mem::size_of::<Packet>() == 56);

impl Packet {
    /// An empty packet with room for `capacity_bytes` behind the usual headroom.
    pub fn with_capacity(capacity_bytes: usize) -> Self {
        Packet {
            storage: vec![0; place(HEADROOM_BYTES + capacity_bytes) as usize].into(),
            start: place(HEADROOM_BYTES),
            end: place(HEADROOM_BYTES),
            ..Packet::default()
        }
    }

    /// A packet with a copy of `bytes`.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let mut packet = Packet::with_capacity(bytes.len());
        packet.fill(bytes);
        packet
    }

    /// A packet that begins behind Ethernet, with the header of an EtherType.
    pub fn from_layer3(ether_type: u16, bytes: &[u8]) -> Self {
        let mut packet = Packet::from_bytes(bytes);
        let front = packet.prepend(LAYER3_FRONT_BYTES);
        front[..12].fill(0);
        front[12..].copy_from_slice(&ether_type.to_be_bytes());
        packet.flags |= LAYER3;
        packet
    }

    /// Removes the bytes in front that are not the packet's own, and returns the packet's type.
    pub fn strip_front(&mut self) -> u32 {
        let packet_type = self.packet_type();
        if self.is_layer3() {
            self.flags &= !LAYER3;
            self.remove_front(LAYER3_FRONT_BYTES.min(self.len()));
        }
        packet_type
    }

    /// The packet, from its first header to its last byte.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.storage[self.start as usize..self.end as usize]
    }

    /// The packet's bytes, writable.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.storage[self.start as usize..self.end as usize]
    }

    /// The packet's length in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        (self.end - self.start) as usize
    }

    /// The number of bytes missing behind the last one: a capture may hold only the front.
    #[inline]
    pub fn cut_bytes(&self) -> u32 {
        self.cut_bytes
    }

    /// The length of the packet with its missing bytes.
    #[inline]
    pub fn original_len(&self) -> usize {
        self.len() + self.cut_bytes as usize
    }

    /// The bytes in front that are not the packet's (invariant 5).
    #[inline]
    pub fn front_len(&self) -> usize {
        match self.is_layer3() {
            false => 0,
            true => LAYER3_FRONT_BYTES,
        }
    }

    /// The length that is counted: the packet's own, with its missing bytes and without the bytes
    /// in front.
    #[inline]
    pub fn own_len(&self) -> usize {
        self.original_len().saturating_sub(self.front_len())
    }

    /// Sets the number of bytes missing behind the last one.
    #[inline]
    pub fn set_cut_bytes(&mut self, cut_bytes: u32) {
        self.cut_bytes = cut_bytes;
    }

    /// Whether the packet has no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// The port that received the packet.
    #[inline]
    pub fn in_port(&self) -> PortId {
        self.in_port
    }

    /// The time at which the packet was received.
    #[inline]
    pub fn received_at(&self) -> Instant {
        self.received_at
    }

    /// Sets the port and the time at which the packet was received.
    #[inline]
    pub fn set_received(&mut self, in_port: PortId, received_at: Instant) {
        self.in_port = in_port;
        self.received_at = received_at;
    }

    /// The values of the tunnel that the packet is from or goes into, if it has any.
    #[inline]
    pub fn tunnel(&self) -> Option<&TunnelValues> {
        match self.flags & TUNNELED {
            0 => None,
            _ => self.tunnel.0.as_deref(),
        }
    }

    /// The values of the packet's tunnel, to change; zeros if it had none.
    pub fn tunnel_mut(&mut self) -> &mut TunnelValues {
        let tunnel = self.tunnel.0.get_or_insert_default();
        if self.flags & TUNNELED == 0 {
            self.flags |= TUNNELED;
            tunnel.clear();
        }
        tunnel
    }

    /// Forgets the values of the packet's tunnel.
    #[inline]
    pub fn leave_tunnel(&mut self) {
        self.flags &= !TUNNELED;
    }

    /// Whether the packet begins behind Ethernet (invariant 5).
    #[inline]
    pub fn is_layer3(&self) -> bool {
        self.flags & LAYER3 != 0
    }

    /// The packet's type (OpenFlow 1.5.1, section 7.2.3.11): 0 for Ethernet, else namespace 1 and
    /// the EtherType.
    #[inline]
    pub fn packet_type(&self) -> u32 {
        match self.is_layer3() {
            false => 0,
            true => self.layer3_type(),
        }
    }

    #[cold]
    fn layer3_type(&self) -> u32 {
        let ether_type = self.bytes().get(12..14).unwrap_or(&[0; 2]);
        1 << 16 | u32::from(u16::from_be_bytes([ether_type[0], ether_type[1]]))
    }

    /// Says whether the packet begins behind Ethernet; the caller has written the bytes in front.
    pub(crate) fn set_layer3(&mut self, is_layer3: bool) {
        self.flags = self.flags & !LAYER3 | if is_layer3 { LAYER3 } else { 0 };
    }

    /// Replaces the packet's bytes, with full headroom in front; keeps the allocation if it fits.
    pub fn fill(&mut self, bytes: &[u8]) {
        let end = HEADROOM_BYTES + bytes.len();
        if self.storage.len() < end {
            self.lengthen(end);
        }
        self.storage[HEADROOM_BYTES..end].copy_from_slice(bytes);
        (self.start, self.end) = (place(HEADROOM_BYTES), place(end));
        self.cut_bytes = 0;
        self.flags = 0;
    }

    /// Makes this packet a copy of `other`, bytes and origin; keeps the allocation if it fits.
    pub fn copy_from(&mut self, other: &Packet) {
        self.fill(other.bytes());
        self.cut_bytes = other.cut_bytes;
        self.flags |= other.flags & UNFINISHED_BITS;
        self.take_origin(other);
    }

    /// Takes what another packet has beside its bytes: its port, its time, its tunnel, and whether
    /// it begins behind Ethernet.
    pub(crate) fn take_origin(&mut self, other: &Packet) {
        self.set_received(other.in_port, other.received_at);
        self.set_layer3(other.is_layer3());
        if let Some(tunnel) = other.tunnel() {
            self.tunnel_mut().clone_from(tunnel);
        }
    }

    /// The whole room behind the headroom, for a receiver to write into; see [`Packet::set_len`].
    pub fn receive_area(&mut self) -> &mut [u8] {
        if self.storage.len() < HEADROOM_BYTES {
            self.lengthen(HEADROOM_BYTES);
        }
        self.start = place(HEADROOM_BYTES);
        self.end = self.end.max(self.start);
        self.cut_bytes = 0;
        self.flags = 0;
        &mut self.storage[HEADROOM_BYTES..]
    }

    /// Sets the packet's length after a write into [`Packet::receive_area`].
    ///
    /// # Panics
    /// If `len_bytes` is past the allocation.
    pub fn set_len(&mut self, len_bytes: usize) {
        let room = self.storage.len() - self.start as usize;
        assert!(len_bytes <= room, "length past the packet's allocation");
        self.end = self.start + len_bytes as u32;
    }

    /// Adds `count` bytes in front and returns them with unspecified content.
    pub fn prepend(&mut self, count: usize) -> &mut [u8] {
        if count > self.start as usize {
            self.make_headroom(count);
        }
        self.start -= count as u32;
        &mut self.storage[self.start as usize..][..count]
    }

    /// Removes `count` bytes from the front.
    ///
    /// # Panics
    /// If the packet is shorter.
    pub fn remove_front(&mut self, count: usize) {
        assert!(
            count <= self.len(),
            "removing more bytes than the packet has"
        );
        self.start += count as u32;
    }

    /// Cuts the packet to `len_bytes`, if it is longer; missing bytes count as present.
    pub fn truncate(&mut self, len_bytes: usize) {
        if len_bytes < self.len() {
            self.finish(); // Invariant 6.
        }
        let missing = len_bytes.saturating_sub(self.len());
        self.cut_bytes = self
            .cut_bytes
            .min(u32::try_from(missing).unwrap_or(u32::MAX));
        self.end = self.start + len_bytes.min(self.len()) as u32;
    }

    /// Appends bytes behind the packet (padding, a trailer).
    pub fn append(&mut self, bytes: &[u8]) {
        self.finish(); // Invariant 6.
        let before = self.end as usize;
        let end = before + bytes.len();
        if self.storage.len() < end {
            self.lengthen(end);
        }
        self.storage[before..end].copy_from_slice(bytes);
        self.end = place(end);
    }

    /// Gives the packet the room of a large one, with what it has.
    pub(crate) fn enlarge(&mut self) {
        let least = HEADROOM_BYTES + LARGE_PACKET_BYTES;
        if self.storage.len() < least {
            self.lengthen(least);
        }
    }

    /// The bytes behind the headroom.
    #[inline]
    pub(crate) fn room(&self) -> usize {
        self.storage.len().saturating_sub(HEADROOM_BYTES)
    }

    /// Gives the packet `len_bytes` of memory, or more, with what it has.
    #[cold]
    fn lengthen(&mut self, len_bytes: usize) {
        let len_bytes = match len_bytes > HEADROOM_BYTES + GROWN_BYTES {
            false => len_bytes,
            // A large packet does not grow again.
            true => len_bytes.max(HEADROOM_BYTES + LARGE_PACKET_BYTES),
        };
        let mut storage = std::mem::take(&mut self.storage).into_vec();
        storage.resize(len_bytes, 0);
        self.storage = storage.into();
    }

    fn make_headroom(&mut self, count: usize) {
        let (len, start) = (self.len(), HEADROOM_BYTES.max(count));
        let mut storage = vec![0; start + len];
        storage[start..].copy_from_slice(self.bytes());
        self.storage = storage.into();
        (self.start, self.end) = (place(start), place(start + len));
    }
}

/// A place in a packet's memory.
fn place(at: usize) -> u32 {
    u32::try_from(at).expect("a packet has less than 4 GiB")
}

impl PartialEq for Packet {
    fn eq(&self, other: &Packet) -> bool {
        self.bytes() == other.bytes()
            && self.cut_bytes == other.cut_bytes
            && self.in_port == other.in_port
            && self.received_at == other.received_at
            && self.tunnel() == other.tunnel()
            && self.is_layer3() == other.is_layer3()
            && self.unfinished() == other.unfinished()
    }
}

impl std::fmt::Debug for Packet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Packet(port {}, {} bytes:", self.in_port, self.len())?;
        for byte in self.bytes().iter().take(64) {
            write!(f, " {byte:02x}")?;
        }
        f.write_str(if self.len() > 64 { " ..)" } else { ")" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_bytes_stay_missing_until_the_packet_is_another() {
        let mut packet = Packet::from_bytes(b"front");
        packet.set_cut_bytes(10);
        let mut copy = Packet::default();
        copy.copy_from(&packet);
        assert_eq!(copy, packet);
        copy.prepend(4);
        copy.remove_front(2);
        assert_eq!((copy.len(), copy.original_len()), (7, 17));
        copy.truncate(20);
        assert_eq!((copy.len(), copy.original_len()), (7, 17));
        copy.truncate(12);
        assert_eq!((copy.len(), copy.original_len()), (7, 12));
        copy.truncate(3);
        assert_eq!((copy.len(), copy.original_len()), (3, 3));
        packet.receive_area();
        assert_eq!(packet.cut_bytes(), 0);
        packet.set_cut_bytes(1);
        packet.fill(b"whole");
        assert_eq!(packet.original_len(), 5);
    }

    #[test]
    fn prepend_past_the_headroom_keeps_the_payload() {
        let mut packet = Packet::from_bytes(b"abc");
        packet.prepend(HEADROOM_BYTES).fill(1);
        packet.prepend(1000).fill(2);
        assert_eq!(packet.len(), 1000 + HEADROOM_BYTES + 3);
        assert!(packet.bytes().ends_with(b"\x01abc"));
        assert!(packet.bytes().starts_with(&[2; 1000]));
    }

    #[test]
    fn a_recycled_packet_shows_nothing_of_the_earlier_one() {
        let mut packet = Packet::from_bytes(&[7; 100]);
        packet.fill(b"xy");
        assert_eq!(packet.bytes(), b"xy");
        packet.truncate(1);
        packet.append(b"z");
        assert_eq!(packet.bytes(), b"xz");
    }

    #[test]
    fn a_type_is_copied_and_ends_with_the_packet() {
        let mut packet = Packet::from_layer3(0x0800, b"ab");
        assert_eq!((packet.len(), packet.packet_type()), (16, 0x1_0800));
        let mut copy = Packet::default();
        copy.copy_from(&packet);
        assert_eq!(copy, packet);
        assert_eq!(packet.strip_front(), 0x1_0800);
        assert_eq!((packet.bytes(), packet.packet_type()), (&b"ab"[..], 0));
        copy.fill(b"xy");
        assert_eq!((copy.strip_front(), copy.bytes()), (0, &b"xy"[..]));
    }

    #[test]
    fn a_tunnel_is_copied_and_ends_with_the_packet() {
        let mut packet = Packet::from_bytes(b"ab");
        packet.tunnel_mut().id = 5;
        let mut copy = Packet::default();
        copy.copy_from(&packet);
        assert_eq!(copy, packet);
        packet.fill(b"ab");
        assert_eq!(packet.tunnel(), None);
        assert_eq!(packet.tunnel_mut().id, 0);
        copy.receive_area();
        assert_eq!(copy.tunnel(), None);
    }

    #[test]
    fn a_default_packet_can_receive() {
        let mut packet = Packet::default();
        assert!(packet.receive_area().is_empty());
        packet.set_len(0);
        packet.append(b"q");
        assert_eq!(packet.bytes(), b"q");
    }
}
