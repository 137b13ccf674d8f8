//! Compares checksums with etherparse, and edited checksums with recomputed ones.

use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;
use thalweg_packet::checksum::{
    Alignment, Edit, Sum, checksum, udp_checksum_for_wire, update_u16, update_u32, update_u48,
    update_u128,
};
use thalweg_packet::wire::IpProtocol;

/// The definition of the checksum, word by word.
fn naive(bytes: &[u8]) -> u16 {
    let mut sum = 0_u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |&low| u32::from(low));
        sum = (sum >> 16) + (sum & 0xffff);
    }
    !(sum as u16)
}

/// Overwrites `N` bytes at `offset` and returns the old ones.
fn replace<const N: usize>(bytes: &mut [u8], offset: usize, new: [u8; N]) -> [u8; N] {
    let slot = &mut bytes[offset..offset + N];
    let old = <[u8; N]>::try_from(&*slot).unwrap();
    slot.copy_from_slice(&new);
    old
}

#[test]
fn long_runs_of_ones_carry() {
    for len in [1, 2, 31, 32, 33, 1500, 65_535] {
        let bytes = vec![0xff; len];
        assert_eq!(checksum(&bytes), naive(&bytes), "{len} bytes");
    }
    assert_eq!(checksum(&[]), 0xffff);
}

proptest! {
    #[test]
    fn the_sum_is_the_definition_and_the_oracles(
        bytes in prop::collection::vec(any::<u8>(), 0..3000),
    ) {
        prop_assert_eq!(checksum(&bytes), naive(&bytes));
        let oracle = etherparse::checksum::Sum16BitWords::new().add_slice(&bytes);
        prop_assert_eq!(checksum(&bytes), oracle.ones_complement().to_be());
    }

    /// Pieces of any length add up to the whole, odd ones too.
    #[test]
    fn pieces_add_up(pieces in prop::collection::vec(
        prop::collection::vec(any::<u8>(), 0..70), 0..12,
    )) {
        let sum = pieces.iter().fold(Sum::default(), |sum, piece| sum.with_bytes(piece));
        prop_assert_eq!(sum.checksum(), naive(&pieces.concat()));
    }

    #[test]
    fn pseudo_headers_are_their_bytes(
        v4 in any::<[[u8; 4]; 2]>(), v6 in any::<[[u8; 16]; 2]>(), protocol: u8, len: u16,
        long_len: u32,
    ) {
        let sum = Sum::of_ipv4_pseudo_header(
            Ipv4Addr::from(v4[0]), Ipv4Addr::from(v4[1]), IpProtocol(protocol), len);
        let bytes = [&v4.concat()[..], &[0, protocol], &len.to_be_bytes()].concat();
        prop_assert_eq!(sum.checksum(), naive(&bytes));
        let sum = Sum::of_ipv6_pseudo_header(
            Ipv6Addr::from(v6[0]), Ipv6Addr::from(v6[1]), IpProtocol(protocol), long_len);
        let bytes = [&v6.concat()[..], &long_len.to_be_bytes(), &[0, 0, 0, protocol]].concat();
        prop_assert_eq!(sum.checksum(), naive(&bytes));
    }

    /// Data that includes its checksum is valid; after a change of one word it is not.
    #[test]
    fn valid_is_told_from_invalid(
        mut bytes in prop::collection::vec(any::<u8>(), 4..200), flip in 1_u16..0xffff,
    ) {
        bytes[..2].fill(0);
        let sum = checksum(&bytes);
        replace(&mut bytes, 0, sum.to_be_bytes());
        prop_assert!(Sum::default().with_bytes(&bytes).is_valid());
        let word = u16::from_be_bytes([bytes[2], bytes[3]]);
        // A flip of all 16 bits is left out: it may swap the two zeros, which no sum can
        // detect.
        replace(&mut bytes, 2, (word ^ flip).to_be_bytes());
        prop_assert!(!Sum::default().with_bytes(&bytes).is_valid());
    }

    /// Edits of every width, at any offset, one by one and combined.
    #[test]
    fn an_edited_checksum_is_the_recomputed_one(
        mut bytes in prop::collection::vec(any::<u8>(), 40..200), at in any::<[usize; 4]>(),
        a: u16, b: u32, c in any::<[u8; 6]>(), d: u128,
    ) {
        // All-zero data is the exception named in the module, so avoid it.
        bytes.extend_from_slice(&[1, 1]);
        let before = checksum(&bytes);
        let [at_a, at_b, at_c, at_d] = at.map(|at| at % 24);
        let [even_a, even_b, even_c, even_d] = [at_a, at_b, at_c, at_d].map(Alignment::of_offset);

        let old_a = u16::from_be_bytes(replace(&mut bytes, at_a, a.to_be_bytes()));
        let sum = update_u16(before, old_a, a, even_a);
        prop_assert_eq!(sum, checksum(&bytes));
        let old_b = u32::from_be_bytes(replace(&mut bytes, at_b, b.to_be_bytes()));
        let sum = update_u32(sum, old_b, b, even_b);
        prop_assert_eq!(sum, checksum(&bytes));
        let old_c = replace(&mut bytes, at_c, c);
        let sum = update_u48(sum, old_c, c, even_c);
        prop_assert_eq!(sum, checksum(&bytes));
        let old_d = u128::from_be_bytes(replace(&mut bytes, at_d, d.to_be_bytes()));
        let sum = update_u128(sum, old_d, d, even_d);
        prop_assert_eq!(sum, checksum(&bytes));

        let edit = Edit::default()
            .replace_u16(old_a, a, even_a)
            .replace_u32(old_b, b, even_b)
            .replace_u48(old_c, c, even_c)
            .replace_u128(old_d, d, even_d);
        prop_assert_eq!(edit.apply(before), checksum(&bytes));
        let udp = edit.apply_to_udp(udp_checksum_for_wire(before));
        prop_assert_eq!(udp, udp_checksum_for_wire(checksum(&bytes)));
    }

    /// A wrong checksum stays wrong by the same amount.
    #[test]
    fn corruption_survives_an_edit(old: u16, new: u16, rest: u16, error in 1_u16..0xffff) {
        let data = |word: u16| [word.to_be_bytes(), rest.to_be_bytes(), [0, 1]].concat();
        let sum_of = |word: u16| checksum(&data(word));
        // An error of all 16 bits is left out: it may swap the two zeros.
        let wrong = sum_of(old) ^ error;
        let edited = update_u16(wrong, old, new, Alignment::Even);
        let sum = Sum::default().with_bytes(&data(new)).with_bytes(&edited.to_be_bytes());
        prop_assert!(!sum.is_valid());
    }
}
