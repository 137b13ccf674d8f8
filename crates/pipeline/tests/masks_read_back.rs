//! I8: a mask that is printed and read back is the same mask.
//!
//! The masks have any bits of any fields, including masks that no walk would make.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::sample::select;
use thalweg_packet::standard as f;
use thalweg_packet::{FieldId, Layout, Source};
use thalweg_pipeline::text::{MegaflowStyle, parse_datapath_flow, parse_megaflow, print_megaflow};
use thalweg_pipeline::{Match, Term};

const IPV4: u128 = 0x0800;
const IPV6: u128 = 0x86dd;
const ARP: u128 = 0x0806;

fn fields() -> impl Iterator<Item = FieldId> {
    f::all_but_options().chain((0..3).map(f::tunnel_option_field))
}

fn ones(field: FieldId) -> u128 {
    u128::MAX >> (128 - f::fields()[field.index()].width_bits)
}

fn layout() -> Layout {
    let all: BTreeSet<FieldId> = fields().collect();
    Layout::new(Arc::new(f::fields()), &all).expect("all fields fit")
}

fn words(layout: &Layout, matching: &Match) -> (Vec<u64>, Vec<u64>) {
    let (mut key, mut mask) = (vec![0; layout.words()], vec![0; layout.words()]);
    for term in matching.terms() {
        layout.set(&mut key, term.field, term.value);
        layout.set(&mut mask, term.field, term.mask);
    }
    (key, mask)
}

/// Bits of a field: all, a prefix, a single bit, or any.
fn bits(field: FieldId) -> impl Strategy<Value = (u128, u128)> {
    let common = match field {
        f::ETH_TYPE => vec![IPV4, IPV6, ARP, 0x8035, 0x8847, 0x8848, 0x88cc],
        f::IP_PROTO => vec![1, 6, 17, 58, 132, 0],
        f::ICMP_TYPE => vec![135, 136, 0],
        f::VLAN_TCI | f::VLAN_TCI_INNER => vec![0, 0x1064, 0xffff, 0x1000, 0x0064, 0xe000],
        f::IN_PORT => vec![1, 0xfff8, 0xfffe, 0xffff, 0xff00, 0xffff_fffe, 0x1_0000],
        _ => vec![0, 1, u128::MAX],
    };
    let ones = ones(field);
    let value = prop_oneof![select(common), any::<u128>()];
    (value, any::<u128>(), 0..6_u8, 0..128_u32).prop_map(move |(value, any, kind, length)| {
        let mask = match kind {
            0 => any & ones,
            1 => ones & ones.checked_shl(length).unwrap_or(ones),
            2 => 1_u128.checked_shl(length).unwrap_or(1) & ones,
            _ => ones,
        };
        (value & mask, mask)
    })
}

/// Conditions on some or all fields.
fn matching() -> impl Strategy<Value = Match> {
    let fields: Vec<FieldId> = fields().collect();
    let count = fields.len();
    let chosen = prop::sample::subsequence(fields, 0..=count);
    let terms = chosen.prop_flat_map(|chosen| {
        let bits = |field| bits(field).prop_map(move |(value, mask)| (field, value, mask));
        chosen.into_iter().map(bits).collect::<Vec<_>>()
    });
    terms.prop_map(|terms| {
        let mut matching = Match::default();
        for (field, value, mask) in terms {
            // An option cannot have a value and be absent.
            if matching.add(field, value, mask).is_err() {
                assert!(f::tunnel_option_of(field).is_some(), "each field once");
            }
        }
        matching
    })
}

fn assert_reads_back(matching: &Match) {
    let text = matching.to_string();
    let read = parse_megaflow(&text);
    assert_eq!(read.as_ref(), Ok(matching), "{text}");
    // The same in words: no bit more, no bit less.
    let layout = layout();
    let read = read.expect("it was read");
    assert_eq!(words(&layout, &read), words(&layout, matching));
}

/// Whether Open vSwitch's spelling leaves the term out: the presence of headers that the
/// EtherType and the protocol name, and the absence of others.
fn is_a_matter_of_course(matching: &Match, term: &Term) -> bool {
    let value = |field| matching.term(field).map_or(0, |term| term.value);
    let (ether_type, protocol) = (value(f::ETH_TYPE), value(f::IP_PROTO));
    if ether_type == 0 {
        return false;
    }
    let is_ip = matches!(ether_type, IPV4 | IPV6);
    let carries = |number| is_ip && protocol == number;
    let is_there = match term.field {
        f::PRESENT_TCP
        | f::PRESENT_UDP
        | f::PRESENT_SCTP
        | f::PRESENT_ICMPV4
        | f::PRESENT_ICMPV6
            if is_ip && protocol == 0 =>
        {
            return false;
        }
        f::PRESENT_MPLS => matches!(ether_type, 0x8847 | 0x8848),
        f::PRESENT_ARP => matches!(ether_type, ARP | 0x8035),
        f::PRESENT_IPV4 => ether_type == IPV4,
        f::PRESENT_IPV6 | f::PRESENT_IPV6_CHAIN => ether_type == IPV6,
        f::PRESENT_TCP => carries(6),
        f::PRESENT_UDP => carries(17),
        f::PRESENT_SCTP => carries(132),
        f::PRESENT_ICMPV4 => carries(1),
        f::PRESENT_ICMPV6 => carries(58),
        _ => return false,
    };
    is_there == (term.value == 1)
}

/// A printed entry reads back, except for presence that is implied.
fn assert_megaflow_reads_back(matching: &Match) {
    let layout = layout();
    let (key, mask) = words(&layout, matching);
    let text = print_megaflow(&layout, &key, &mask, MegaflowStyle::OpenFlow);
    let read = parse_megaflow(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let mut expected = Match::default();
    if matching.term(f::RECIRC_ID).is_none() {
        let added = expected.add(f::RECIRC_ID, 0, ones(f::RECIRC_ID));
        added.expect("it is the first");
    }
    let terms = matching.terms().iter();
    for term in terms.filter(|term| !is_a_matter_of_course(matching, term)) {
        let added = expected.add(term.field, term.value, term.mask);
        added.expect("each field once");
    }
    assert_eq!(read, expected, "{text}");
    let (key, mask) = words(&layout, &read);
    let again = print_megaflow(&layout, &key, &mask, MegaflowStyle::OpenFlow);
    assert_eq!(again, text);
}

/// The parsed flow prints as the same text. The spelling has no second tag without a first.
fn assert_datapath_flow_reads_back(matching: &Match) {
    let is_tagged = |field| {
        let present = u128::from(f::VLAN_PRESENT);
        let term = matching.term(field);
        term.is_some_and(|term| term.value & present != 0)
    };
    if is_tagged(f::VLAN_TCI_INNER) && !is_tagged(f::VLAN_TCI) {
        return;
    }
    let layout = layout();
    let print = |matching: &Match| {
        let (key, mask) = words(&layout, matching);
        print_megaflow(&layout, &key, &mask, MegaflowStyle::Datapath)
    };
    let text = print(matching);
    let read = parse_datapath_flow(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(print(&read), text);
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(4000)
    })]

    #[test]
    fn i8_any_mask_reads_back(matching in matching()) {
        assert_reads_back(&matching);
    }

    #[test]
    fn i8_any_mask_reads_back_as_dumps_have_it(matching in matching()) {
        assert_megaflow_reads_back(&matching);
    }

    #[test]
    fn any_entry_reads_back_in_the_datapaths_spelling(matching in matching()) {
        assert_datapath_flow_reads_back(&matching);
    }

    #[test]
    fn no_text_makes_the_datapaths_reader_panic(text in "[a-z0-9_:=/(),.+-]{0,60}") {
        let _ = parse_datapath_flow(&text);
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in "[a-z0-9_:=/\\[\\].,+-]{0,60}") {
        let _ = parse_megaflow(&text);
    }
}

/// Each bit alone, and each with all bits above it, with its value set or clear.
#[test]
fn i8_every_bit_of_every_field_reads_back() {
    for field in fields() {
        let ones = ones(field);
        for bit in (0..128).filter(|bit| ones >> bit & 1 == 1) {
            for mask in [1 << bit, ones & (u128::MAX << bit)] {
                for value in [0, 1 << bit, mask] {
                    let mut matching = Match::default();
                    matching.add(field, value, mask).expect("the first");
                    assert_reads_back(&matching);
                    assert_megaflow_reads_back(&matching);
                }
            }
        }
    }
}

/// Presence is a separate condition; a text that leaves it out means something else.
#[test]
fn presence_reads_back() {
    let presence = f::fields();
    let presence = presence
        .iter()
        .enumerate()
        .filter(|(_, field)| matches!(field.source, Source::Presence(_)));
    let mut count = 0;
    for (place, field) in presence {
        let text = format!("{}=0x1", field.name);
        let read = parse_megaflow(&text).expect("a presence bit");
        let term = Term {
            field: FieldId(place as u16),
            value: 1,
            mask: 1,
        };
        assert_eq!(read.terms(), [term]);
        count += 1;
    }
    assert!(count > 10);
}

#[test]
fn what_is_no_entry_is_refused() {
    for (text, expected) in [
        ("nw_dst=10.0.0.300", "10.0.0.300"),
        ("present:nonsense=1", "present"),
        ("colour=red", "colour"),
        ("blue", "blue"),
        ("reg0=1,reg0=2", "contradicts"),
        ("dl_vlan=4096", "4096"),
        ("nw_proto=0x100", "0x100"),
        ("present:tcp=2", "2"),
    ] {
        let error = parse_megaflow(text).expect_err(text).to_string();
        assert!(error.contains(expected), "{error}");
    }
}
