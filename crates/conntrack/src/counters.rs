//! Counts what the tracker refuses, drops and ends.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! events {
    ($($(#[$doc:meta])* $event:ident => $field:ident,)*) => {
        /// What is counted; see [`Counters`].
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(crate) enum Event { $($event),* }

        /// How often things happened since the tracker was made.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct Counters {
            $($(#[$doc])* pub $field: u64,)*
        }

        impl Counters {
            /// The counters by name, in the order of the fields.
            pub fn each(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($field), self.$field)),*].into_iter()
            }
        }

        /// The counters as all workers add to them.
        #[derive(Debug, Default)]
        pub(crate) struct Tally { $($field: AtomicU64,)* }

        impl Tally {
            pub(crate) fn count(&self, event: Event) {
                let counter = match event { $(Event::$event => &self.$field),* };
                counter.fetch_add(1, Ordering::Relaxed);
            }

            pub(crate) fn read(&self) -> Counters {
                Counters { $($field: self.$field.load(Ordering::Relaxed)),* }
            }
        }
    };
}

events! {
    /// Invalid: no IPv4 or IPv6 packet, or one whose headers are not whole.
    NotIp => not_ip,
    /// Invalid: a fragment that was not put together.
    Fragment => fragments,
    /// Invalid: a wrong checksum of the IPv4 header.
    BadNetworkChecksum => bad_network_checksums,
    /// Invalid: a wrong checksum of TCP, UDP, ICMP or ICMPv6.
    BadTransportChecksum => bad_transport_checksums,
    /// Invalid: a transport header that is not whole, or port 0.
    BadTransport => bad_transports,
    /// Invalid: a type of ICMP that belongs to no connection.
    UntrackedIcmp => untracked_icmp,
    /// Invalid: an ICMP error whose embedded packet cannot be read.
    BadIcmpError => bad_icmp_errors,
    /// Invalid: an ICMP error about a connection that is not known.
    UnrelatedIcmpError => unrelated_icmp_errors,
    /// Invalid: flags that no TCP peer sends together.
    BadTcpFlags => bad_tcp_flags,
    /// Invalid: a TCP segment outside the windows.
    OutOfWindow => out_of_window,
    /// Invalid: a packet that cannot begin a connection.
    NoBeginning => no_beginnings,
    /// Invalid: no address and port was free for a translation.
    PortsExhausted => ports_exhausted,
    /// Invalid: an announcement of FTP that is malformed or names another host.
    BadAnnouncement => bad_announcements,
    /// Invalid: a segment with a part of a rewritten announcement, or an earlier one.
    TornAnnouncement => torn_announcements,
    /// Invalid: the frame has no room for the rewritten announcement.
    AnnouncementTooLong => announcements_too_long,
    /// Valid, but not expected: an announcement that does not end in its segment.
    UnfinishedAnnouncement => unfinished_announcements,
    /// The payload of a packet was rewritten.
    AnnouncementRewritten => announcements_rewritten,
    /// Not committed: the table is full and no connection could be ended early.
    TableFull => table_full,
    /// Not committed: the zone has reached its limit.
    ZoneFull => zone_full,
    /// Not committed: the answers would belong to another connection.
    Clash => clashes,
    /// A connection was committed.
    Committed => committed,
    /// A connection ended because its time was over.
    Expired => expired,
    /// A connection ended early to make room.
    Evicted => evicted,
    /// A connection ended because another began in its place.
    Replaced => replaced,
    /// A connection ended by a flush.
    Flushed => flushed,
    /// A connection ended because the rule that committed it is gone.
    Orphaned => orphaned,
    /// An expectation was made.
    Expected => expected,
    /// An expectation was refused: too many were open.
    ExpectationRefused => expectations_refused,
}
