//! The counters of a port.
//!
//! 1. A packet is counted once: as received, as sent, or under one [`DropReason`]. One that stands
//!    for segments counts as these.
//! 2. Counters only grow, and are plain numbers. A port belongs to one worker; other threads
//!    get copies.

use thalweg_packet::Packet;

/// Why a port dropped a packet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DropReason {
    /// The packet is shorter than an Ethernet header.
    TooShort,
    /// The packet is longer than the port can receive or the interface can send.
    TooLong,
    /// The packet's queue is full.
    QueueFull,
    /// The interface is down, without carrier, or gone.
    LinkDown,
    /// The capture ends in the middle of this packet.
    Truncated,
    /// The port cannot carry out the packet's offload request.
    Offload,
    /// Receiving failed for another reason.
    ReceiveError,
    /// Sending failed for another reason.
    SendError,
    /// The kernel had no room for the packet before this port could read it.
    KernelDropped,
    /// The port does not send (a capture that is only read, the other direction of a sink).
    NoOutput,
    /// A [`FaultPort`](crate::FaultPort) dropped the packet on purpose.
    Fault,
    /// The port was told to carry nothing in this direction ([`Block`](crate::Block)).
    Blocked,
    /// The packet came above the rate that the port may receive
    /// ([`Policing`](crate::Policing)).
    Policed,
    /// The packet does not fit the tunnel, or no tunnel takes it; the
    /// [`TunnelHub`](crate::TunnelHub) counts why.
    Tunnel,
}

impl DropReason {
    /// Every reason, in declaration order.
    pub const ALL: [DropReason; 14] = [
        DropReason::TooShort,
        DropReason::TooLong,
        DropReason::QueueFull,
        DropReason::LinkDown,
        DropReason::Truncated,
        DropReason::Offload,
        DropReason::ReceiveError,
        DropReason::SendError,
        DropReason::KernelDropped,
        DropReason::NoOutput,
        DropReason::Fault,
        DropReason::Blocked,
        DropReason::Policed,
        DropReason::Tunnel,
    ];

    /// The reason's name in metrics and `--json`: words joined by underscores.
    pub fn name(self) -> &'static str {
        match self {
            DropReason::TooShort => "too_short",
            DropReason::TooLong => "too_long",
            DropReason::QueueFull => "queue_full",
            DropReason::LinkDown => "link_down",
            DropReason::Truncated => "truncated",
            DropReason::Offload => "offload",
            DropReason::ReceiveError => "receive_error",
            DropReason::SendError => "send_error",
            DropReason::KernelDropped => "kernel_dropped",
            DropReason::NoOutput => "no_output",
            DropReason::Fault => "fault",
            DropReason::Blocked => "blocked",
            DropReason::Policed => "policed",
            DropReason::Tunnel => "tunnel",
        }
    }

    /// Whether only arriving packets are dropped for this reason.
    fn is_of_arrivals(self) -> bool {
        matches!(
            self,
            DropReason::TooShort
                | DropReason::Truncated
                | DropReason::ReceiveError
                | DropReason::KernelDropped
                | DropReason::Policed
        )
    }
}

/// Drops of a port, by reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Drops([u64; DropReason::ALL.len()]);

impl Drops {
    /// The number of packets dropped for `reason`.
    pub fn count(&self, reason: DropReason) -> u64 {
        self.0[reason as usize]
    }

    /// The number of packets dropped in total.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The reasons that occurred, with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (DropReason, u64)> + '_ {
        let counts = DropReason::ALL.into_iter().zip(self.0);
        counts.filter(|&(_, count)| count > 0)
    }

    pub(crate) fn add(&mut self, reason: DropReason, packets: u64) {
        self.0[reason as usize] += packets;
    }
}

/// The counts of a port since it was opened.
///
/// ```
/// use thalweg_io::{DropReason, PortCounters};
///
/// let counters = PortCounters::default();
/// assert_eq!(counters.drops.count(DropReason::LinkDown), 0);
/// assert_eq!(counters.drops.iter().count(), 0);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PortCounters {
    /// Packets returned by [`Port::receive`](crate::Port::receive).
    pub received_packets: u64,
    /// Bytes of these packets, without preamble and frame check sequence.
    pub received_bytes: u64,
    /// Packets sent.
    pub sent_packets: u64,
    /// Bytes of these packets.
    pub sent_bytes: u64,
    /// Receive calls that ended early because the pool was empty. They lose no packet.
    pub pool_refusals: u64,
    /// Packets dropped, by reason.
    pub drops: Drops,
}

impl PortCounters {
    /// Packets that were dropped as they arrived.
    pub fn receive_drops(&self) -> u64 {
        let drops = self.drops.iter();
        let of_arrivals = drops.filter(|(reason, _)| reason.is_of_arrivals());
        of_arrivals.map(|(_, count)| count).sum()
    }

    /// Packets that were dropped for other reasons, most of them as they were sent.
    pub fn send_drops(&self) -> u64 {
        self.drops.total() - self.receive_drops()
    }

    /// Adds the counters of another port, such as this port's predecessor.
    pub fn add(&mut self, other: &PortCounters) {
        self.received_packets += other.received_packets;
        self.received_bytes += other.received_bytes;
        self.sent_packets += other.sent_packets;
        self.sent_bytes += other.sent_bytes;
        self.pool_refusals += other.pool_refusals;
        for (reason, count) in other.drops.iter() {
            self.drops.add(reason, count);
        }
    }

    pub(crate) fn add_received(&mut self, bytes: usize) {
        self.received_packets += 1;
        self.received_bytes += bytes as u64;
    }

    /// Counts a packet as the frames that it stands for.
    pub(crate) fn add_received_packet(&mut self, packet: &Packet) {
        let (packets, bytes) = packet.wire_counts();
        self.received_packets += packets;
        self.received_bytes += bytes;
    }

    /// Counts a packet as the frames that it stands for.
    pub(crate) fn add_sent_packet(&mut self, packet: &Packet) {
        let (packets, bytes) = packet.wire_counts();
        self.sent_packets += packets;
        self.sent_bytes += bytes;
    }

    pub(crate) fn add_sent(&mut self, bytes: usize) {
        self.sent_packets += 1;
        self.sent_bytes += bytes as u64;
    }

    pub(crate) fn add_drop(&mut self, reason: DropReason) {
        self.drops.add(reason, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_its_own_counter_and_name() {
        let mut drops = Drops::default();
        for (index, reason) in DropReason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, index);
            drops.add(reason, index as u64);
        }
        assert_eq!(drops.total(), (0..14).sum());
        assert_eq!(
            drops.iter().count(),
            13,
            "a reason that did not occur is not listed"
        );
        let mut names: Vec<_> = DropReason::ALL.map(DropReason::name).into();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), DropReason::ALL.len());
    }
}
