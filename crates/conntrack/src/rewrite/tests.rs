//! Translated packets against packets that are built with the new ends.

use proptest::prelude::*;
use thalweg_packet::Headers;

use super::*;
use crate::reading::read;
use crate::tests::{echo_tuple, error, packet, tuple};

fn translate_frame(frame: &mut [u8], to: &Tuple) {
    let headers = Headers::parse(frame).expect("a frame");
    let reading = read(frame, &headers, 0).expect("a packet");
    translate(frame, &reading.places, &reading.tuple, to);
}

/// Tuples of all protocols between two addresses.
fn tuples(a: &str, from: u16, b: &str, to: u16) -> Vec<Tuple> {
    let ends = tuple(a, from, b, to);
    let of = |number| Tuple {
        protocol: number,
        ..ends
    };
    let mut tuples: Vec<Tuple> = [protocol::TCP, protocol::UDP].map(of).into();
    tuples.push(echo_tuple(a, b, 7));
    tuples.push(Tuple {
        protocol: 47,
        ..tuple(a, 0, b, 0)
    });
    tuples
}

const CASES: [[&str; 5]; 2] = [
    ["10.0.0.1", "10.0.0.2", "192.0.2.1", "192.0.2.2", "10.9.9.9"],
    [
        "fc00::1",
        "fc00::2",
        "2001:db8::1",
        "2001:db8::2",
        "fc99::9",
    ],
];

#[test]
fn a_translated_packet_is_as_if_built_so() {
    for [a, b, c, d, _] in CASES {
        let before = tuples(a, 5, b, 6);
        let after = tuples(c, 77, d, 88);
        for (before, after) in before.iter().zip(&after) {
            let mut frame = packet(before).build();
            translate_frame(&mut frame, after);
            assert_eq!(frame, packet(after).build(), "{before:?}");
        }
    }
}

#[test]
fn sctp_gets_new_addresses_only() {
    let ends = Tuple {
        protocol: protocol::SCTP,
        ..tuple("10.0.0.1", 5, "10.0.0.2", 6)
    };
    let mut frame = packet(&ends).build();
    let to = Tuple {
        protocol: protocol::SCTP,
        ..tuple("192.0.2.1", 5, "10.0.0.2", 6)
    };
    translate_frame(&mut frame, &to);
    assert_eq!(frame, packet(&to).build());
}

#[test]
fn an_absent_checksum_stays_absent() {
    let mut frame = packet(&tuple("10.0.0.1", 5, "10.0.0.2", 6))
        .without_udp_checksum()
        .build();
    let to = tuple("192.0.2.1", 77, "10.0.0.2", 6);
    translate_frame(&mut frame, &to);
    assert_eq!(frame, packet(&to).without_udp_checksum().build());
}

#[test]
fn an_error_is_as_if_about_the_other_packet() {
    for [a, b, c, _, router] in CASES {
        for (before, after) in tuples(c, 77, b, 6).iter().zip(&tuples(a, 5, b, 6)) {
            // The source of the embedded packet was translated, and is translated back.
            let about = packet(before).build();
            let mut frame = error(router, &about, 1_000);
            translate_frame(&mut frame, &after.reversed());
            assert_eq!(
                frame,
                error(router, &packet(after).build(), 1_000),
                "{before:?}"
            );
        }
        for (before, after) in tuples(a, 5, b, 6).iter().zip(&tuples(a, 5, c, 77)) {
            // The destination was translated: the error's sender gets its public address.
            let about = packet(before).build();
            let mut frame = error(router, &about, 1_000);
            translate_frame(&mut frame, &after.reversed());
            assert_eq!(frame, error(c, &packet(after).build(), 1_000), "{before:?}");
        }
    }
}

proptest! {
    /// Invariant 3: there and back, a cut packet is the same, its transport checksum included.
    #[test]
    fn a_cut_embedded_packet_goes_there_and_back(
        len in 8..40_usize,
        which in 0..4_usize,
        family in 0..2_usize,
        port in 1..u16::MAX,
    ) {
        let [a, b, c, _, router] = CASES[family];
        let header = if family == 0 { 20 } else { 40 };
        let before = tuples(c, port, b, 6)[which];
        let after = tuples(a, 5, b, 6)[which];
        let first = error(router, &packet(&before).build(), header + len);
        let mut frame = first.clone();
        translate_frame(&mut frame, &after.reversed());
        prop_assert_ne!(&frame, &first);
        prop_assert_eq!(frame.len(), first.len(), "invariant 2");
        translate_frame(&mut frame, &before.reversed());
        prop_assert_eq!(frame, first);
    }
}
