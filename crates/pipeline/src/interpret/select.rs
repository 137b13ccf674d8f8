//! Chooses a bucket of a select group: hashes a flow, and draws a bucket by weight.
//!
//! By default the two ends of a connection are hashed, the smaller first, so that both
//! directions have one hash:
//!
//! ```text
//!   IPv4, IPv6:  {source, destination}, protocol
//!                and in whole packets of TCP, UDP and SCTP the ports beside the addresses
//!   others:      {source, destination}, EtherType, VLAN id, of the link layer
//! ```
//!
//! A bucket is drawn by weighted rendezvous hashing. The flow's hash and the bucket's number
//! give each bucket an exponentially distributed time, with the bucket's weight as the rate.
//! The earliest time wins:
//!
//! ```text
//!   u = hash(flow, bucket) in (0, 1);  time = -log2(u) / weight
//!   bucket 1 wins against bucket 2 if -log2(u1) * weight2 < -log2(u2) * weight1
//! ```
//!
//! 1. A bucket's share of flows is its weight's share of all weights: the first of independent
//!    exponential times is that of rate `r` with probability `r` / sum.
//! 2. A bucket's time does not depend on other buckets. So when a bucket is added, removed or
//!    changes weight, flows move only to it or from it.
//! 3. All arithmetic is on integers, so that every machine chooses the same bucket.
//! 4. Exactly the bits that decide the choice are read, and so enter the mask.
//! 5. All fragments of a packet have one hash, since only the first has ports.
//!
//! Costs: one hash and one logarithm for each bucket; the logarithm takes most of the time.
//!
//! References: Thaler and Ravishankar, "Using Name-Based Mappings to Increase Hit Rates",
//! IEEE/ACM Transactions on Networking 6(1), 1998; Schindelhauer and Schomaker, "Weighted
//! Distributed Hash Tables", SPAA 2005, section 3, whose logarithmic method this is. Open
//! vSwitch 3.1 hashes the same ends (`flow_hash_symmetric_l3l4`), without UDP's ports. It
//! spreads buckets over 16 to 64 hash values, which limits how exact its shares are.

use thalweg_packet::{FieldId, standard as f};

use super::observer::Observer;
use super::walk::Walk;
use crate::action::GroupId;
use crate::flow::{Bucket, Selection, SelectionMethod};

/// Fraction bits of a logarithm.
const FRACTION_BITS: u32 = 40;

const TCP: u128 = 6;
const UDP: u128 = 17;
const SCTP: u128 = 132;

impl<O: Observer> Walk<'_, O> {
    /// Hashes the fields that decide the choice of a bucket.
    pub(super) fn flow_hash(&mut self, group: GroupId, selection: &Selection) -> u64 {
        let seed = self.pipeline.seed() ^ u64::from(group.number());
        let mut hash = Hash(seed ^ mix(selection.parameter));
        let SelectionMethod::Fields(fields) = &selection.method else {
            return self.connection_hash(hash);
        };
        if fields.is_empty() {
            return self.connection_hash(hash);
        }
        for hashed in fields {
            let header = hashed.only_with;
            let counts = header.is_none_or(|header| self.state.read(header) == 1);
            // A field that does not count is hashed as zero, so that the others keep their
            // positions.
            hash.add(match counts {
                true => self.state.read_masked(hashed.field, hashed.mask),
                false => 0,
            });
        }
        hash.0
    }

    /// Hashes the two ends of a connection, with the same result for both directions.
    fn connection_hash(&mut self, mut hash: Hash) -> u64 {
        let is_ipv4 = self.state.read(f::PRESENT_IPV4) == 1;
        let is_ipv6 = !is_ipv4 && self.state.read(f::PRESENT_IPV6) == 1;
        let addresses = match (is_ipv4, is_ipv6) {
            (true, _) => [f::IP_SRC, f::IP_DST],
            (_, true) => [f::IPV6_SRC, f::IPV6_DST],
            _ => {
                hash.add(self.state.read(f::ETH_TYPE));
                let tag = u128::from(f::VLAN_PRESENT | 0x0fff);
                hash.add(self.state.read_masked(f::VLAN_TCI, tag));
                hash.add_ends(self.ends([f::ETH_SRC, f::ETH_DST], None));
                return hash.0;
            }
        };
        let protocol = self.state.read(f::IP_PROTO);
        hash.add(protocol);
        let has_ports = matches!(protocol, TCP | UDP | SCTP) && self.state.read(f::IP_FRAG) == 0;
        let ports = has_ports.then_some([f::TP_SRC, f::TP_DST]);
        hash.add_ends(self.ends(addresses, ports));
        hash.0
    }

    /// Address and port, of the source and of the destination.
    pub(super) fn ends(
        &mut self,
        addresses: [FieldId; 2],
        ports: Option<[FieldId; 2]>,
    ) -> [(u128, u128); 2] {
        let addresses = addresses.map(|field| self.state.read(field));
        let ports = ports.map_or([0; 2], |ports| ports.map(|field| self.state.read(field)));
        [(addresses[0], ports[0]), (addresses[1], ports[1])]
    }
}

/// A hash in progress.
pub(super) struct Hash(u64);

impl Hash {
    pub(super) fn new(seed: u64) -> Hash {
        Hash(mix(seed))
    }

    /// The hash of two numbers.
    pub(super) fn of(one: u64, other: u64) -> Hash {
        let mut hash = Hash(one);
        hash.add(other.into());
        hash
    }

    pub(super) fn value(&self) -> u64 {
        self.0
    }

    pub(super) fn add(&mut self, value: u128) {
        self.0 = mix(self.0 ^ value as u64);
        self.0 = mix(self.0 ^ (value >> 64) as u64);
    }

    /// Adds two ends, the smaller first.
    pub(super) fn add_ends(&mut self, mut ends: [(u128, u128); 2]) {
        ends.sort_unstable();
        for (address, port) in ends {
            self.add(address);
            self.add(port);
        }
    }
}

/// A bucket's draw for a flow.
#[derive(Clone, Copy)]
pub(super) struct Draw {
    /// The time before division by the weight, in units of 2^-[`FRACTION_BITS`].
    time: u64,
    weight: u16,
    bucket: u32,
}

impl Draw {
    /// The draw of `bucket`, whose weight is not zero, for the flow with this hash.
    pub(super) fn new(flow_hash: u64, bucket: &Bucket) -> Draw {
        // The step of SplitMix64: neighbouring numbers lie far apart.
        let step = (u64::from(bucket.id) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Draw {
            time: minus_log2(mix(flow_hash.wrapping_add(step))),
            weight: bucket.weight,
            bucket: bucket.id,
        }
    }

    /// Whether the bucket comes before another; at equal times the lower number wins.
    pub(super) fn wins_against(self, other: Draw) -> bool {
        // 47 bits times 16 bits fit.
        let key = |draw: Draw, by: Draw| (draw.time * u64::from(by.weight), draw.bucket);
        key(self, other) < key(other, self)
    }
}

/// -log2(`random` / 2^64) in units of 2^-[`FRACTION_BITS`]; zero counts as one.
///
/// The fraction bits of a logarithm come from squaring: the square of a number from 1 to 2 is
/// above 2 if the next bit is set.
fn minus_log2(random: u64) -> u64 {
    let random = random.max(1);
    let zeros = random.leading_zeros();
    // From 1 to 2, with 63 fraction bits.
    let mut number = random << zeros;
    let mut fraction = 0;
    for _ in 0..FRACTION_BITS {
        let square = u128::from(number) * u128::from(number);
        let bit = (square >> 127) as u64;
        fraction = fraction << 1 | bit;
        number = (square >> (63 + bit)) as u64;
    }
    (u64::from(zeros + 1) << FRACTION_BITS) - fraction
}

/// Spreads each bit of a number over all others (the finalizer of SplitMix64).
fn mix(value: u64) -> u64 {
    let value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms_are_those_of_floating_point() {
        let one = (1_u64 << FRACTION_BITS) as f64;
        let mut random = 1;
        for _ in 0..1_000 {
            random = mix(random);
            for random in [random, random >> 40, u64::MAX - (random >> 20)] {
                let expected = 64.0 - (random as f64).log2();
                let found = minus_log2(random) as f64 / one;
                assert!(
                    (found - expected).abs() < 1e-10,
                    "{random:#x}: {found}, {expected}"
                );
            }
        }
        assert_eq!(minus_log2(0), 64 << FRACTION_BITS);
        assert_eq!(minus_log2(1 << 63), 1 << FRACTION_BITS);
        assert_eq!(minus_log2(u64::MAX), 1);
    }
}
