//! What [`Fragments`](super::Fragments) tells its operator.

use std::net::Ipv6Addr;

use super::FragmentContext;

/// A version of IP.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum IpFamily {
    /// RFC 791.
    V4,
    /// RFC 8200.
    V6,
}

/// Why a fragment was not held.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum FragmentRefusal {
    /// Its lengths are impossible, it has no data, or the packet is itself a fragment.
    Malformed,
    /// Its IPv4 header has a wrong checksum.
    Checksum,
    /// It is not the last, and shorter than the operator allows.
    TooSmall,
    /// The packet would be too long: for IP, or for the parser, which reads frames of up to
    /// 65,534 bytes.
    TooLong,
    /// It overlaps another part, or the packet was refused for that.
    Overlap,
    /// It disagrees with another part about the packet's end, or the packet was refused for
    /// that.
    Inconsistent,
    /// The same bytes are held already.
    Duplicate,
    /// The packet has as many parts as one may have.
    TooMany,
    /// No more fragments or bytes can be held.
    Full,
}

/// Settings and counters of one version of IP; all counters are of fragments.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FamilyStatus {
    /// Whether fragments are held.
    pub is_enabled: bool,
    /// The shortest packet that may be a fragment before the last.
    pub min_bytes: u32,
    /// Held, now or earlier.
    pub accepted: u64,
    /// Given back as parts of whole packets.
    pub completed: u64,
    /// Given back because the packet stayed incomplete.
    pub expired: u64,
    /// Dropped because their packet was refused.
    pub purged: u64,
    /// Refused as too small.
    pub too_small: u64,
    /// Refused as overlapping; duplicates are counted here too, as Open vSwitch does.
    pub overlapped: u64,
    /// Refused as an exact copy.
    pub duplicates: u64,
    /// Refused for a different end.
    pub inconsistent: u64,
    /// Refused as malformed.
    pub malformed: u64,
    /// Refused for a wrong checksum.
    pub checksum: u64,
    /// Refused as too long.
    pub too_long: u64,
    /// Refused because their packet has too many parts.
    pub too_many: u64,
    /// Refused because no more can be held.
    pub full: u64,
}

impl FamilyStatus {
    pub(super) fn count(&mut self, reason: FragmentRefusal) {
        let counter = match reason {
            FragmentRefusal::Malformed => &mut self.malformed,
            FragmentRefusal::Checksum => &mut self.checksum,
            FragmentRefusal::TooSmall => &mut self.too_small,
            FragmentRefusal::TooLong => &mut self.too_long,
            FragmentRefusal::Overlap => &mut self.overlapped,
            FragmentRefusal::Inconsistent => &mut self.inconsistent,
            FragmentRefusal::Duplicate => {
                self.overlapped += 1;
                &mut self.duplicates
            }
            FragmentRefusal::TooMany => &mut self.too_many,
            FragmentRefusal::Full => &mut self.full,
        };
        *counter += 1;
    }
}

/// Settings and counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FragmentsStatus {
    /// IPv4.
    pub v4: FamilyStatus,
    /// IPv6.
    pub v6: FamilyStatus,
    /// Fragments that are held now.
    pub held: u32,
    /// Bytes of frames that are held now, with spare capacity.
    pub held_bytes: usize,
    /// The most fragments that may be held.
    pub max_fragments: u32,
}

/// Which parts of a packet are known, with Open vSwitch's names.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FragmentListState {
    /// Neither the first nor the last.
    Other,
    /// The first.
    First,
    /// The last.
    Last,
    /// Both; one in between is missing.
    FirstAndLast,
    /// The packet is refused.
    Refused,
}

impl FragmentListState {
    /// The name that tools print.
    pub const fn name(self) -> &'static str {
        match self {
            FragmentListState::Other => "other frag",
            FragmentListState::First => "first frag",
            FragmentListState::Last => "last frag",
            FragmentListState::FirstAndLast => "first/last frag",
            FragmentListState::Refused => "reassemble fail",
        }
    }
}

/// A packet that is incomplete or refused, as a dump shows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FragmentList {
    /// The source; IPv4 as its mapped address.
    pub source: Ipv6Addr,
    /// The destination; IPv4 as its mapped address.
    pub destination: Ipv6Addr,
    /// Where in the pipeline the packet is.
    pub context: FragmentContext,
    /// The number that its fragments share.
    pub identification: u32,
    /// Whether it is IPv6.
    pub is_ipv6: bool,
    /// The IP protocol; zero for IPv6.
    pub protocol: u8,
    /// How many fragments are held.
    pub fragments: u32,
    /// Which are known.
    pub state: FragmentListState,
}
