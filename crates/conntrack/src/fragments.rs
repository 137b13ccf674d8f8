//! Holds the fragments of IP packets until the tracker can see the whole packet.
//!
//! Only the first fragment of a packet has ports, and no fragment has a transport checksum of
//! its own. So the switch gives every fragment that meets `ct()` to [`Fragments::hold`]:
//!
//! ```text
//!   not a fragment, or reassembly is off:  Passed    track it as it is
//!   some of the packet is missing:         Waiting   nothing to do
//!   the packet is complete:                Complete  track `whole`, call `finish`, send the parts
//!   it cannot be part of a packet:         Refused   it goes on as invalid
//! ```
//!
//! Fragments leave as they came, with the tracker's verdict and the translated addresses and
//! ports, so the switch never changes the size of packets. Fragments of a packet that stays
//! incomplete for 15 seconds leave through [`Fragments::expire`].
//!
//! 1. A list has parts of one packet that do not overlap, sorted by offset. So it is complete
//!    exactly if the last fragment is known and the lengths add up to its end.
//! 2. An overlap, or two different ends, refuses the packet: all its parts are dropped, and
//!    those that still come are refused until the list expires (RFC 8200 section 4.5, RFC 5722
//!    section 3). An exact copy of a part is refused alone.
//! 3. For each family: accepted = completed + expired + purged + held.
//! 4. Parts, bytes, and lists that remember a refusal are bounded. One packet costs at most
//!    `O(log n)` comparisons and a move of its list's entries; a completion copies the packet.
//! 5. The serial numbers of lists order them by deadline: all have the same time to live, and
//!    time never runs backwards in here.
//!
//! The limits, their defaults and the counters are those of Open vSwitch (`lib/ipf.c`), with
//! these differences. Open vSwitch refuses an overlapping fragment and keeps the list. It
//! counts an exact copy as an overlap only; here it is counted as a duplicate as well. It
//! accepts fragments whose length is no multiple of eight, or that lie behind the last one. It
//! leaves an empty fragment header in a whole IPv6 packet; here the header is removed, as RFC
//! 8200 says. And it limits the number of parts but not their bytes.
//!
//! References: RFC 791 section 3.2, RFC 815 (holes), RFC 8200 section 4.5, RFC 6946 (atomic
//! fragments are no fragments), RFC 5722.

mod list;
mod piece;
#[cfg(test)]
mod reference;
mod status;
#[cfg(test)]
mod tests;
mod whole;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use thalweg_packet::standard::header;
use thalweg_packet::{Headers, Instant, Scalar};

use self::list::{Clash, List, Part};
use self::piece::{Key, Piece};
pub use self::status::{
    FamilyStatus, FragmentList, FragmentListState, FragmentRefusal, FragmentsStatus, IpFamily,
};
pub use self::whole::Reassembled;

/// How long a packet may stay incomplete (`IPF_FRAG_LIST_TIMEOUT`).
const TIME_TO_LIVE: Duration = Duration::from_secs(15);
/// The least that the smallest size of a fragment may be set to (`IPF_V4_FRAG_SIZE_LBOUND`).
pub const MIN_SIZE_FLOOR_BYTES: u32 = 400;
/// The most fragments that may be held (`IPF_NFRAG_UBOUND`).
pub const MAX_FRAGMENTS_CEILING: u32 = 5000;
/// How many lists remember a refusal; the oldest are forgotten first.
const REFUSED_LISTS_MAX: usize = 256;
/// The longest IPv4 header (RFC 791 section 3.1).
const IPV4_HEADER_MAX: usize = 60;
/// The longest IPv4 packet, and the longest payload of IPv6.
const PACKET_MAX: usize = 65_535;

/// The limits of [`Fragments`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FragmentSettings {
    /// Whether fragments of IPv4 are held.
    pub is_ipv4_enabled: bool,
    /// Whether fragments of IPv6 are held.
    pub is_ipv6_enabled: bool,
    /// The shortest IPv4 packet that may be a fragment before the last.
    pub min_ipv4_bytes: u32,
    /// The shortest IPv6 packet that may be a fragment before the last.
    pub min_ipv6_bytes: u32,
    /// The most fragments held.
    pub max_fragments: u32,
    /// The most bytes of frames held, with the capacity that their vectors have to spare.
    pub max_bytes: usize,
}

impl Default for FragmentSettings {
    /// Open vSwitch's defaults, and 16 MiB.
    fn default() -> FragmentSettings {
        FragmentSettings {
            is_ipv4_enabled: true,
            is_ipv6_enabled: true,
            min_ipv4_bytes: 1200,
            min_ipv6_bytes: 1280,
            max_fragments: 1000,
            max_bytes: 16 << 20,
        }
    }
}

/// A value that a setting does not accept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FragmentSettingError {
    /// The smallest size is below [`MIN_SIZE_FLOOR_BYTES`].
    #[error("the smallest fragment must have at least {MIN_SIZE_FLOOR_BYTES} bytes")]
    MinSizeTooSmall,
    /// The number of fragments is above [`MAX_FRAGMENTS_CEILING`].
    #[error("at most {MAX_FRAGMENTS_CEILING} fragments can be held")]
    TooManyFragments,
}

/// A frame with what its owner needs to send it on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fragment<T> {
    /// The bytes, from the Ethernet header to the end of the padding.
    pub frame: Vec<u8>,
    /// The owner's: ports, metadata.
    pub token: T,
}

/// The part of the pipeline that a fragment is in: fragments of two are never joined.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct FragmentContext {
    /// The zone of the `ct()`.
    pub zone: u16,
    /// A number of what the packet does after the `ct()`.
    pub place: u64,
}

/// What became of a frame that was given to [`Fragments::hold`].
#[derive(Debug)]
pub enum Held<T> {
    /// It is no fragment, or its family's reassembly is off. The tracker refuses fragments.
    Passed(Fragment<T>),
    /// It is kept until the packet is complete or expires.
    Waiting,
    /// It was the last that was missing.
    Complete(Box<Reassembled<T>>),
    /// It goes on as invalid.
    Refused(FragmentRefusal, Fragment<T>),
}

/// The fragments of incomplete packets.
///
/// ```
/// use thalweg_conntrack::{Fragment, FragmentContext, FragmentSettings, Fragments, Held};
/// use thalweg_packet::{Headers, Instant, wire::{MacAddress, PacketBuilder}};
///
/// let mut fragments = Fragments::new(FragmentSettings::default());
/// let [a, b] = [[10, 0, 0, 1], [10, 0, 0, 2]].map(Into::into);
/// let frame = PacketBuilder::ethernet(MacAddress::ZERO, MacAddress::ZERO)
///     .ipv4(a, b)
///     .udp(1, 2)
///     .build();
/// let headers = Headers::parse(&frame).expect("long enough");
/// let fragment = Fragment { frame, token: () };
/// let context = FragmentContext::default();
/// let held = fragments.hold(fragment, &headers, context, Instant::ZERO);
/// assert!(matches!(held, Held::Passed(_)));
/// ```
#[derive(Debug)]
pub struct Fragments<T> {
    settings: FragmentSettings,
    /// The lists that still accept or refuse parts.
    index: BTreeMap<Key, u64>,
    /// All lists by serial number, so by deadline. Invariant 5.
    lists: BTreeMap<u64, List<T>>,
    /// Those that only remember a refusal.
    refused: BTreeSet<u64>,
    next_serial: u64,
    latest: Instant,
    held: usize,
    held_bytes: usize,
    families: [FamilyStatus; 2],
}

impl<T> Fragments<T> {
    /// No fragments yet.
    ///
    /// Settings out of bounds are moved to the bound.
    pub fn new(mut settings: FragmentSettings) -> Fragments<T> {
        settings.min_ipv4_bytes = settings.min_ipv4_bytes.max(MIN_SIZE_FLOOR_BYTES);
        settings.min_ipv6_bytes = settings.min_ipv6_bytes.max(MIN_SIZE_FLOOR_BYTES);
        settings.max_fragments = settings.max_fragments.min(MAX_FRAGMENTS_CEILING);
        Fragments {
            settings,
            index: BTreeMap::new(),
            lists: BTreeMap::new(),
            refused: BTreeSet::new(),
            next_serial: 0,
            latest: Instant::ZERO,
            held: 0,
            held_bytes: 0,
            families: [FamilyStatus::default(); 2],
        }
    }

    /// Takes a frame before the tracker sees it; `headers` are those of the frame.
    pub fn hold(
        &mut self,
        fragment: Fragment<T>,
        headers: &Headers,
        context: FragmentContext,
        now: Instant,
    ) -> Held<T> {
        let family = match (headers.has(header::IPV4), headers.has(header::IPV6)) {
            (true, _) => IpFamily::V4,
            (_, true) => IpFamily::V6,
            _ => return Held::Passed(fragment),
        };
        if headers.scalar(Scalar::IpFragment) == 0 || !self.is_enabled(family) {
            return Held::Passed(fragment);
        }
        self.latest = self.latest.max(now);
        match self.accept(&fragment.frame, headers, family, context) {
            Ok((piece, serial)) => self.insert(Part { fragment, piece }, family, serial),
            Err(reason) => self.refuse(family, reason, fragment),
        }
    }

    /// Gives back at most `budget` fragments of packets that stayed incomplete.
    ///
    /// Returns nothing only if no list has expired, or if it removed `budget` lists without
    /// fragments.
    pub fn expire(&mut self, now: Instant, budget: usize) -> Vec<Fragment<T>> {
        self.latest = self.latest.max(now);
        let mut expired = Vec::new();
        let mut work = 0;
        while work < budget {
            let Some(mut entry) = self.lists.first_entry() else {
                break;
            };
            if self.latest <= entry.get().deadline {
                break;
            }
            let (serial, list) = (*entry.key(), entry.get_mut());
            forget(&mut self.index, &list.key, serial);
            let family = list.key.family();
            let taken = list.take(budget - work);
            let is_empty = list.parts().is_empty();
            if is_empty {
                entry.remove();
                self.refused.remove(&serial);
            }
            work += taken.len().max(1);
            self.families[family as usize].expired += taken.len() as u64;
            self.release(&taken);
            expired.extend(taken.into_iter().map(|part| part.fragment));
        }
        expired
    }

    /// Whether fragments of `family` are held.
    pub fn is_enabled(&self, family: IpFamily) -> bool {
        match family {
            IpFamily::V4 => self.settings.is_ipv4_enabled,
            IpFamily::V6 => self.settings.is_ipv6_enabled,
        }
    }

    /// Sets whether fragments of `family` are held; those that are already held expire.
    pub fn set_enabled(&mut self, family: IpFamily, is_enabled: bool) {
        match family {
            IpFamily::V4 => self.settings.is_ipv4_enabled = is_enabled,
            IpFamily::V6 => self.settings.is_ipv6_enabled = is_enabled,
        }
    }

    /// Sets the shortest packet that may be a fragment before the last.
    ///
    /// # Errors
    /// Below [`MIN_SIZE_FLOOR_BYTES`].
    pub fn set_min(&mut self, family: IpFamily, bytes: u32) -> Result<(), FragmentSettingError> {
        if bytes < MIN_SIZE_FLOOR_BYTES {
            return Err(FragmentSettingError::MinSizeTooSmall);
        }
        match family {
            IpFamily::V4 => self.settings.min_ipv4_bytes = bytes,
            IpFamily::V6 => self.settings.min_ipv6_bytes = bytes,
        }
        Ok(())
    }

    /// Sets the most fragments held; those above the new limit stay until they leave.
    ///
    /// # Errors
    /// Above [`MAX_FRAGMENTS_CEILING`].
    pub fn set_max_fragments(&mut self, count: u32) -> Result<(), FragmentSettingError> {
        if count > MAX_FRAGMENTS_CEILING {
            return Err(FragmentSettingError::TooManyFragments);
        }
        self.settings.max_fragments = count;
        Ok(())
    }

    /// Settings and counters.
    pub fn status(&self) -> FragmentsStatus {
        let of = |family: IpFamily| FamilyStatus {
            is_enabled: self.is_enabled(family),
            min_bytes: self.min_bytes(family) as u32,
            ..self.families[family as usize]
        };
        FragmentsStatus {
            v4: of(IpFamily::V4),
            v6: of(IpFamily::V6),
            held: self.held as u32,
            held_bytes: self.held_bytes,
            max_fragments: self.settings.max_fragments,
        }
    }

    /// At most `limit` lists, oldest first, and where to go on if there may be more.
    ///
    /// A dump begins at 0.
    pub fn lists(&self, from: u64, limit: usize) -> (Vec<FragmentList>, Option<u64>) {
        let mut rest = self.lists.range(from..);
        let lists = rest.by_ref().take(limit);
        let lists = lists.map(|(_, list)| list.describe()).collect();
        (lists, rest.next().map(|(serial, _)| *serial))
    }

    fn min_bytes(&self, family: IpFamily) -> usize {
        let bytes = match family {
            IpFamily::V4 => self.settings.min_ipv4_bytes,
            IpFamily::V6 => self.settings.min_ipv6_bytes,
        };
        bytes as usize
    }

    /// The most parts of one packet.
    ///
    /// For IPv6 the length of the headers in front is unknown, and the limit of all fragments
    /// bounds a list.
    fn max_parts(&self, family: IpFamily) -> usize {
        match family {
            IpFamily::V4 => {
                // No fragment but the last has less than eight bytes of data.
                let least = self
                    .min_bytes(family)
                    .saturating_sub(IPV4_HEADER_MAX)
                    .max(8);
                (PACKET_MAX - IPV4_HEADER_MAX).div_ceil(least)
            }
            IpFamily::V6 => self.settings.max_fragments as usize,
        }
    }

    /// Checks everything but the other parts, and finds or begins the list.
    fn accept(
        &mut self,
        frame: &Vec<u8>,
        headers: &Headers,
        family: IpFamily,
        context: FragmentContext,
    ) -> Result<(Piece, u64), FragmentRefusal> {
        let (piece, key) = match family {
            IpFamily::V4 => Piece::parse_ipv4(frame, headers, context)?,
            IpFamily::V6 => Piece::parse_ipv6(frame, headers, context)?,
        };
        if !piece.is_last && piece.packet_len() < self.min_bytes(family) {
            return Err(FragmentRefusal::TooSmall);
        }
        if piece.end() > PACKET_MAX {
            return Err(FragmentRefusal::TooLong);
        }
        if self.held >= self.settings.max_fragments as usize
            || self.held_bytes + frame.capacity() > self.settings.max_bytes
        {
            return Err(FragmentRefusal::Full);
        }
        let serial = self.list_of(key);
        let list = &self.lists[&serial];
        match list.refusal {
            Some(reason) => Err(reason),
            None if list.parts().len() >= self.max_parts(family) => Err(FragmentRefusal::TooMany),
            None => Ok((piece, serial)),
        }
    }

    /// The list of `key` that has not expired, perhaps a new one.
    fn list_of(&mut self, key: Key) -> u64 {
        if let Some(&serial) = self.index.get(&key)
            && self.latest <= self.lists[&serial].deadline
        {
            return serial;
        }
        let serial = self.next_serial;
        self.next_serial += 1;
        let list = List::new(key, self.latest + TIME_TO_LIVE);
        self.lists.insert(serial, list);
        // An expired list of the same key stays in `lists` alone, until `expire` takes it.
        self.index.insert(key, serial);
        serial
    }

    fn insert(&mut self, part: Part<T>, family: IpFamily, serial: u64) -> Held<T> {
        let bytes = part.fragment.frame.capacity();
        let list = self.lists.get_mut(&serial).expect("just found or made");
        match list.insert(part) {
            Ok(()) => {}
            Err((Clash::Duplicate, part)) => {
                return self.refuse(family, FragmentRefusal::Duplicate, part.fragment);
            }
            Err((Clash::Overlap, part)) => {
                self.refuse_list(serial, FragmentRefusal::Overlap);
                return self.refuse(family, FragmentRefusal::Overlap, part.fragment);
            }
            Err((Clash::Ends, part)) => {
                self.refuse_list(serial, FragmentRefusal::Inconsistent);
                return self.refuse(family, FragmentRefusal::Inconsistent, part.fragment);
            }
        }
        let is_complete = list.is_complete();
        self.held += 1;
        self.held_bytes += bytes;
        self.families[family as usize].accepted += 1;
        if is_complete {
            self.complete(family, serial)
        } else {
            Held::Waiting
        }
    }

    /// Joins the parts of a complete list; a packet that cannot be joined is refused.
    fn complete(&mut self, family: IpFamily, serial: u64) -> Held<T> {
        let list = self.lists.get_mut(&serial).expect("it has just grown");
        match whole::join(list) {
            Ok((frame, headers, data_at)) => {
                let mut list = self.lists.remove(&serial).expect("it has just grown");
                forget(&mut self.index, &list.key, serial);
                let parts = list.take(usize::MAX);
                self.families[family as usize].completed += parts.len() as u64;
                self.release(&parts);
                let reassembled = Reassembled::new(frame, headers, data_at, parts);
                Held::Complete(Box::new(reassembled))
            }
            Err(reason) => {
                let newest = list.take_newest();
                self.release(std::slice::from_ref(&newest));
                self.families[family as usize].accepted -= 1;
                self.refuse_list(serial, reason);
                self.refuse(family, reason, newest.fragment)
            }
        }
    }

    /// Drops the parts of a list and remembers why. Invariant 2.
    fn refuse_list(&mut self, serial: u64, reason: FragmentRefusal) {
        let list = self.lists.get_mut(&serial).expect("the caller found it");
        list.refusal = Some(reason);
        let family = list.key.family();
        let parts = list.take(usize::MAX);
        self.families[family as usize].purged += parts.len() as u64;
        self.release(&parts);
        self.refused.insert(serial);
        if self.refused.len() > REFUSED_LISTS_MAX
            && let Some(oldest) = self.refused.pop_first()
            && let Some(list) = self.lists.remove(&oldest)
        {
            forget(&mut self.index, &list.key, oldest);
        }
    }

    fn refuse(
        &mut self,
        family: IpFamily,
        reason: FragmentRefusal,
        fragment: Fragment<T>,
    ) -> Held<T> {
        self.families[family as usize].count(reason);
        Held::Refused(reason, fragment)
    }

    /// Takes the parts out of the sums.
    fn release(&mut self, parts: &[Part<T>]) {
        self.held -= parts.len();
        let bytes = parts.iter().map(|part| part.fragment.frame.capacity());
        self.held_bytes -= bytes.sum::<usize>();
    }
}

/// Removes `key` from the index if it still means the list `serial`.
fn forget(index: &mut BTreeMap<Key, u64>, key: &Key, serial: u64) {
    if index.get(key) == Some(&serial) {
        index.remove(key);
    }
}
