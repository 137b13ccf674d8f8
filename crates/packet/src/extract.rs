//! Fills a key from a packet: the compiled form of a layout.
//!
//! ```text
//!   for header in present headers that the program reads:
//!       for run in runs of that header:
//!           key[run.word] |= rotate(load 8 bytes at header + run.byte, run.rotate) & run.mask
//!   then scalars, presence bits, and what the receiver said
//! ```
//!
//! 1. The locations of one field lie in headers of which a packet has at most one, so runs are
//!    simply or-ed together.
//! 2. A load near the packet's end takes the bytes that exist and zeros for the rest. The
//!    parser has shown that the *field* lies inside.
//!
//! An IPv4 5-tuple is three runs.

use crate::field::{FieldDescriptor, FieldId, Intrinsic, Scalar, Source};
use crate::headers::Headers;
use crate::slot::{Slot, ones};
use crate::standard as f;
use crate::tunnel::TunnelValues;

/// What the receiver knows about a packet: everything in a key that is not in the bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Receipt<'a> {
    /// The port that received the packet.
    pub in_port: u32,
    /// The frozen continuation that the packet resumes; zero on a first pass.
    pub recirculation_id: u32,
    /// The packet's type ([`crate::Packet::packet_type`]); zero for Ethernet.
    pub packet_type: u32,
    /// The values of its tunnel, if it is from one.
    pub tunnel: Option<&'a TunnelValues>,
    /// The packet's mark (Linux's `skb->mark`).
    pub mark: u32,
    /// The hash that a datapath gave the packet.
    pub datapath_hash: u32,
    /// What the tracker of connections said of the packet.
    pub connection: Connection,
}

/// What a tracker of connections said of a packet: the fields `ct_*`.
///
/// The tuple is that of the connection's first packet, before its addresses were translated. It
/// is zero if the packet has no connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Connection {
    /// The connection's label.
    pub label: u128,
    /// The source address; an IPv4 address in the lowest 32 bits.
    pub source: u128,
    /// The destination address, in the same way.
    pub destination: u128,
    /// The connection's mark.
    pub mark: u32,
    /// The zone.
    pub zone: u16,
    /// The source port, or the ICMP type.
    pub source_port: u16,
    /// The destination port, or the ICMP code.
    pub destination_port: u16,
    /// The bits of `ct_state`; zero if the packet was not tracked.
    pub state: u8,
    /// The IP protocol.
    pub protocol: u8,
    /// Whether the addresses are IPv6.
    pub is_ipv6: bool,
}

impl Connection {
    /// The connection of a packet that was not tracked.
    pub const NONE: Connection = Connection {
        label: 0,
        source: 0,
        destination: 0,
        mark: 0,
        zone: 0,
        source_port: 0,
        destination_port: 0,
        state: 0,
        protocol: 0,
        is_ipv6: false,
    };

    /// Sets the field of the standard catalogue; returns whether it is one of a connection.
    pub fn set(&mut self, field: FieldId, value: u128) -> bool {
        match field {
            f::CT_STATE => self.state = value as u8,
            f::CT_ZONE => self.zone = value as u16,
            f::CT_MARK => self.mark = value as u32,
            f::CT_LABEL => self.label = value,
            // The addresses of the other version of IP are zero.
            f::CT_NW_SRC | f::CT_NW_DST | f::CT_IPV6_SRC | f::CT_IPV6_DST if value == 0 => {}
            f::CT_NW_SRC => (self.source, self.is_ipv6) = (value, false),
            f::CT_NW_DST => (self.destination, self.is_ipv6) = (value, false),
            f::CT_IPV6_SRC => (self.source, self.is_ipv6) = (value, true),
            f::CT_IPV6_DST => (self.destination, self.is_ipv6) = (value, true),
            f::CT_NW_PROTO => self.protocol = value as u8,
            f::CT_TP_SRC => self.source_port = value as u16,
            f::CT_TP_DST => self.destination_port = value as u16,
            _ => return false,
        }
        true
    }
}

impl Receipt<'_> {
    /// A packet from `in_port`, not from a tunnel, on its first pass.
    pub fn from_port(in_port: u32) -> Self {
        Receipt {
            in_port,
            ..Receipt::default()
        }
    }

    /// Whether all values but the port are zero, as of most packets.
    #[inline]
    fn is_plain(&self) -> bool {
        let numbers = self.recirculation_id | self.packet_type | self.mark | self.datapath_hash;
        numbers == 0 && self.tunnel.is_none() && self.connection == Connection::NONE
    }

    fn get(&self, what: Intrinsic) -> u64 {
        match what {
            Intrinsic::InPort => u64::from(self.in_port),
            Intrinsic::RecirculationId => u64::from(self.recirculation_id),
            Intrinsic::Tunnel(part) => self.tunnel.map_or(0, |tunnel| tunnel.get(part) as u64),
            Intrinsic::PacketType => u64::from(self.packet_type),
            Intrinsic::PacketMark => u64::from(self.mark),
            Intrinsic::DatapathHash => u64::from(self.datapath_hash),
            Intrinsic::ConnectionState => u64::from(self.connection.state),
            Intrinsic::ConnectionZone => u64::from(self.connection.zone),
            Intrinsic::ConnectionMark => u64::from(self.connection.mark),
            Intrinsic::ConnectionIpv4Source if !self.connection.is_ipv6 => {
                self.connection.source as u64
            }
            Intrinsic::ConnectionIpv4Destination if !self.connection.is_ipv6 => {
                self.connection.destination as u64
            }
            Intrinsic::ConnectionProtocol => u64::from(self.connection.protocol),
            Intrinsic::ConnectionSourcePort => u64::from(self.connection.source_port),
            Intrinsic::ConnectionDestinationPort => u64::from(self.connection.destination_port),
            _ => 0,
        }
    }

    /// A value of 128 bits.
    fn get_wide(&self, what: Intrinsic) -> u128 {
        match what {
            Intrinsic::Tunnel(part) => self.tunnel.map_or(0, |tunnel| tunnel.get(part)),
            Intrinsic::ConnectionLabel => self.connection.label,
            Intrinsic::ConnectionIpv6Source if self.connection.is_ipv6 => self.connection.source,
            Intrinsic::ConnectionIpv6Destination if self.connection.is_ipv6 => {
                self.connection.destination
            }
            _ => 0,
        }
    }
}

/// Bits of one header that go to one word with one rotation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    /// Start of the 8 bytes to load, counted from the start of the header.
    pub(crate) byte: u16,
    pub(crate) word: u16,
    /// The left rotation of the loaded word.
    pub(crate) rotate: u32,
    /// The bits of the key's word that the run fills.
    pub(crate) mask: u64,
}

/// Where to put a small value that needs no load.
#[derive(Clone, Copy, Debug)]
struct Place<T> {
    what: T,
    word: u16,
    shift: u8,
}

/// The compiled extraction of one layout.
#[derive(Clone, Debug, Default)]
pub(crate) struct Extraction {
    /// The headers that have runs, one bit each.
    headers: u32,
    /// The runs, header by header.
    runs: Vec<Run>,
    /// The index of each header's first run, plus one last entry for the end.
    starts: Vec<u16>,
    scalars: Vec<Place<Scalar>>,
    presences: Vec<Place<u8>>,
    /// The places of the port: one, or none.
    ports: Vec<Place<()>>,
    /// Other values that the receiver knows.
    intrinsics: Vec<Place<Intrinsic>>,
    /// Those of 128 bits, each with its first word.
    wide_intrinsics: Vec<Place<Intrinsic>>,
}

impl Extraction {
    pub(crate) fn new(fields: &[FieldDescriptor], slots: &[Option<Slot>]) -> Extraction {
        let mut extraction = Extraction::default();
        let mut by_header: Vec<Vec<Run>> = vec![Vec::new(); 32];
        for (field, slot) in fields.iter().zip(slots) {
            let Some(slot) = *slot else { continue };
            let (word, shift) = (slot.word, slot.shift);
            match &field.source {
                Source::Wire(locations) => {
                    for location in locations.iter() {
                        let runs = &mut by_header[usize::from(location.header.0)];
                        add_runs(runs, location.bit_offset, slot);
                        extraction.headers |= 1 << location.header.0;
                    }
                }
                Source::Scalar(what) => {
                    extraction.scalars.push(Place {
                        what: *what,
                        word,
                        shift,
                    });
                }
                Source::Presence(header) => {
                    extraction.presences.push(Place {
                        what: header.0,
                        word,
                        shift,
                    });
                }
                Source::Intrinsic(Intrinsic::InPort) => {
                    let what = ();
                    extraction.ports.push(Place { what, word, shift });
                }
                Source::Intrinsic(what) => {
                    let places = match slot.width_bits {
                        128 => &mut extraction.wide_intrinsics,
                        _ => &mut extraction.intrinsics,
                    };
                    places.push(Place {
                        what: *what,
                        word,
                        shift,
                    });
                }
                Source::Register => {}
            }
        }
        extraction.starts.push(0);
        for runs in by_header {
            extraction.runs.extend(runs);
            extraction.starts.push(extraction.runs.len() as u16);
        }
        extraction
    }

    #[inline]
    pub(crate) fn run(
        &self,
        frame: &[u8],
        headers: &Headers,
        receipt: &Receipt<'_>,
        key: &mut [u64],
    ) {
        key.fill(0);
        for (header, run) in self.runs_of(headers.present()) {
            let at = headers.offset_of_present(header) + usize::from(run.byte);
            key[usize::from(run.word)] |= load(frame, at).rotate_left(run.rotate) & run.mask;
        }
        self.fill_presences(headers.present(), key);
        self.fill_scalars(headers, receipt, key);
    }

    /// The runs of the headers that are present.
    #[inline]
    pub(crate) fn runs_of(&self, present: u32) -> impl Iterator<Item = (u8, &Run)> {
        let mut wanted = present & self.headers;
        let header = std::iter::from_fn(move || {
            let header = (wanted != 0).then(|| wanted.trailing_zeros());
            wanted &= wanted.wrapping_sub(1);
            header
        });
        header.flat_map(|header| {
            let runs = usize::from(self.starts[header as usize])
                ..usize::from(self.starts[header as usize + 1]);
            self.runs[runs].iter().map(move |run| (header as u8, run))
        })
    }

    /// Sets the presence bits of the layout.
    #[inline]
    pub(crate) fn fill_presences(&self, present: u32, key: &mut [u64]) {
        for place in &self.presences {
            key[usize::from(place.word)] |= u64::from(present >> place.what & 1) << place.shift;
        }
    }

    /// Fills in the values that are not read directly from the packet's bytes.
    #[inline]
    pub(crate) fn fill_scalars(&self, headers: &Headers, receipt: &Receipt<'_>, key: &mut [u64]) {
        for place in &self.scalars {
            key[usize::from(place.word)] |= u64::from(headers.scalar(place.what)) << place.shift;
        }
        for place in &self.ports {
            key[usize::from(place.word)] |= u64::from(receipt.in_port) << place.shift;
        }
        if !receipt.is_plain() {
            self.fill_intrinsics(receipt, key);
        }
    }

    /// Fills in what the receiver knows besides the port; zeros are there already.
    #[inline(never)]
    fn fill_intrinsics(&self, receipt: &Receipt<'_>, key: &mut [u64]) {
        for place in &self.intrinsics {
            key[usize::from(place.word)] |= receipt.get(place.what) << place.shift;
        }
        for place in &self.wide_intrinsics {
            let (value, word) = (receipt.get_wide(place.what), usize::from(place.word));
            key[word] = (value >> 64) as u64;
            key[word + 1] = value as u64;
        }
    }
}

/// The 8 bytes at `at`, most significant first, with zeros past the end.
#[inline]
pub(crate) fn load(frame: &[u8], at: usize) -> u64 {
    match frame.get(at..at + 8) {
        Some(bytes) => u64::from_be_bytes(bytes.try_into().expect("the slice has 8 bytes")),
        None => load_at_end(frame, at),
    }
}

#[cold]
fn load_at_end(frame: &[u8], at: usize) -> u64 {
    let mut bytes = [0; 8];
    let rest = frame.get(at..).unwrap_or_default();
    bytes[..rest.len()].copy_from_slice(rest);
    u64::from_be_bytes(bytes)
}

/// Adds the runs of one field at one location; joins a run with the same rotation if it can.
fn add_runs(runs: &mut Vec<Run>, bit_offset: u16, slot: Slot) {
    let words = slot.word_count();
    for index in 0..words {
        // The most significant word may be partial; all others are full.
        let width = if index == 0 {
            slot.width_bits - 64 * (words as u16 - 1)
        } else {
            64
        };
        let skipped = if index == 0 {
            0
        } else {
            slot.width_bits - 64 * (words - index) as u16
        };
        let start = bit_offset + skipped;
        add_run(
            runs,
            start,
            width,
            slot.word + index as u16,
            u16::from(slot.shift),
        );
    }
}

fn add_run(runs: &mut Vec<Run>, start_bit: u16, width: u16, word: u16, shift: u16) {
    let byte = start_bit / 8;
    // `left` is the number of bits in the loaded word before the field.
    let left = start_bit % 8;
    if left + width > 64 {
        // The field straddles nine bytes: take its upper and its lower half.
        let upper = width / 2;
        add_run(runs, start_bit, upper, word, shift + width - upper);
        add_run(runs, start_bit + upper, width - upper, word, shift);
        return;
    }
    let rotate = u32::from((left + width + shift) % 64);
    let mask = ones(width) << shift;
    let joined = runs
        .iter_mut()
        .find(|run| run.word == word && run.serves(byte, left + width, rotate));
    match joined {
        Some(run) => run.mask |= mask,
        None => runs.push(Run {
            byte,
            word,
            rotate,
            mask,
        }),
    }
}

impl Run {
    /// Whether this run's load also serves `bits` bits that start at `byte`, with rotation
    /// `rotate`.
    ///
    /// They must lie within the eight bytes that the run loads, with the same total rotation.
    fn serves(&self, byte: u16, bits: u16, rotate: u32) -> bool {
        let Some(ahead) = byte.checked_sub(self.byte) else {
            return false;
        };
        ahead * 8 + bits <= 64 && (rotate + u32::from(ahead) * 8) % 64 == self.rotate
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::{Connection, Receipt};
    use crate::field::{FieldId, Source};
    use crate::{Headers, Layout, MAX_WORDS, Shapes, TunnelValues, standard};

    #[test]
    fn a_connection_is_read_back_field_by_field() {
        for is_ipv6 in [false, true] {
            let connection = Connection {
                label: 1 << 100 | 3,
                source: if is_ipv6 { 1 << 99 } else { 0x0a00_0001 },
                destination: 0x0a00_0002,
                mark: 7,
                zone: 9,
                source_port: 1_000,
                destination_port: 53,
                state: 0x22,
                protocol: 17,
                is_ipv6,
            };
            let receipt = Receipt {
                connection,
                ..Receipt::default()
            };
            let all: BTreeSet<FieldId> = standard::all_but_options().collect();
            let layout = Layout::new(Arc::new(standard::fields()), &all).expect("all fit");
            let mut key = vec![0; layout.words()];
            let headers = Headers::parse(&[0; 60]).expect("long enough");
            layout.extract(&[0; 60], &headers, &receipt, &mut key);
            let mut read_back = Connection::NONE;
            for field in all {
                read_back.set(field, layout.get(&key, field).expect("used"));
            }
            assert_eq!(read_back, connection);
        }
    }

    /// The field's value, read bit by bit.
    fn read(
        source: &Source,
        width: u16,
        frame: &[u8],
        headers: &Headers,
        receipt: &Receipt<'_>,
    ) -> u128 {
        match source {
            Source::Wire(locations) => {
                let found = locations
                    .iter()
                    .find(|location| headers.has(location.header));
                let Some(location) = found else { return 0 };
                let start = headers.offset(location.header).expect("present") * 8
                    + usize::from(location.bit_offset);
                (start..start + usize::from(width)).fold(0, |value, bit| {
                    value << 1 | u128::from(frame[bit / 8] >> (7 - bit % 8) & 1)
                })
            }
            Source::Scalar(scalar) => u128::from(headers.scalar(*scalar)),
            Source::Presence(header) => u128::from(headers.has(*header)),
            Source::Intrinsic(what) => u128::from(receipt.get(*what)),
            Source::Register => 0,
        }
    }

    fn frames() -> impl Strategy<Value = Vec<u8>> {
        let ether_type = prop::sample::select(vec![
            vec![0x08, 0x00],
            vec![0x81, 0x00, 0x00, 0x07, 0x08, 0x00],
            vec![0x88, 0xa8, 0x20, 0x07, 0x81, 0x00, 0x00, 0x09, 0x86, 0xdd],
            vec![0x86, 0xdd],
            vec![0x88, 0x47],
            vec![0x89, 0x4f, 0x0f, 0xc6, 1, 3],
            vec![0x89, 0x4f, 0x2f, 0xc4, 2, 1],
            vec![0x08, 0x06, 0, 1, 8, 0, 6, 4],
            vec![0x00, 0x40],
        ]);
        let first = prop::sample::select(vec![0x45u8, 0x46, 0x60, 0x00]);
        let protocol = prop::sample::select(vec![0u8, 1, 6, 17, 44, 58, 132]);
        let rest = prop::collection::vec(any::<u8>(), 0..90);
        (any::<[u8; 12]>(), ether_type, first, protocol, rest).prop_map(
            |(addresses, ether_type, first, protocol, mut rest)| {
                let len = rest.len() as u8;
                if rest.len() > 20 {
                    rest[0] = first;
                    let length = if first == 0x60 {
                        [0, len - 20]
                    } else {
                        [0, len]
                    };
                    let at = if first == 0x60 { 4 } else { 2 };
                    rest[at..at + 2].copy_from_slice(&length);
                    rest[if first == 0x60 { 6 } else { 9 }] = protocol;
                    if first != 0x60 {
                        rest[6] &= 0x40;
                        rest[7] &= if protocol == 6 { 0 } else { 1 };
                    }
                }
                [&addresses[..], &ether_type, &rest].concat()
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None,
            ..ProptestConfig::with_cases(2000)
        })]
        #[test]
        fn extraction_reads_what_a_reader_of_bits_reads(
            frames in prop::collection::vec(frames(), 1..5),
            order in prop::collection::vec(0_usize..5, 1..12),
            chosen in prop::collection::btree_set(0..standard::fields().len() as u16, 1..30),
            in_port in any::<u32>(),
        ) {
            let fields = standard::fields();
            let used: BTreeSet<FieldId> = chosen.into_iter().map(FieldId).collect();
            let layout = Layout::new(Arc::new(fields.clone()), &used).expect("fits");
            let mut shapes = Shapes::<MAX_WORDS>::default();
            for index in order {
                // A repeated frame repeats its shape, and so does one cut at its end.
                let mut frame = frames[index % frames.len()].clone();
                frame.truncate(frame.len().saturating_sub(index % 3).max(14));
                let headers = Headers::parse(&frame).expect("long enough");
                let mut tunnel = TunnelValues::default();
                tunnel.id = 77;
                let receipt = Receipt { in_port, tunnel: Some(&tunnel), ..Receipt::default() };
                let mut key = vec![u64::MAX; layout.ingress_words()];
                layout.extract(&frame, &headers, &receipt, &mut key);
                let mut alike = [u64::MAX; MAX_WORDS];
                layout.extract_like(&mut shapes, &frame, &headers, &receipt, &mut alike);
                key.resize(MAX_WORDS, 0);
                prop_assert_eq!(&key[..], &alike[..]);
                for field in &used {
                    let descriptor = &fields[field.index()];
                    let expected =
                        read(&descriptor.source, descriptor.width_bits, &frame, &headers, &receipt);
                    prop_assert_eq!(layout.get(&key, *field), Some(expected), "{}", descriptor.name);
                }
            }
        }
    }
}
