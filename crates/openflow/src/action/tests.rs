//! Tests actions: the bytes that Open vSwitch reads and writes, and refusals.

use super::*;
use crate::error::{ErrorCode, Refusal};
use crate::matching::Match;
use crate::version::Version;
use crate::wire::{Reader, Writer};

const VECTORS: &str = include_str!("vectors.txt");

fn from_hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let pairs = digits
        .chunks(2)
        .map(|pair| std::str::from_utf8(pair).expect("ASCII"));
    pairs
        .map(|pair| u8::from_str_radix(pair, 16).expect("hex"))
        .collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A list of actions or of instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum List {
    Actions,
    Instructions,
}

fn parse(line: &str) -> (List, Version, Vec<u8>) {
    let (kind, bytes) = line.split_once(' ').expect("two columns");
    let list = match kind.as_bytes()[0] {
        b'a' => List::Actions,
        _ => List::Instructions,
    };
    (list, kind[1..].parse().expect("a version"), from_hex(bytes))
}

fn vectors() -> impl Iterator<Item = (List, Version, Vec<u8>)> {
    let lines = VECTORS.lines().filter(|line| !line.starts_with('#'));
    lines.map(parse)
}

/// Reads a list; actions alone become the instruction that applies them.
fn decode(list: List, version: Version, bytes: &[u8]) -> Result<Instructions, Refusal> {
    let reader = Reader::new(bytes, ErrorCode::OFPBRC_BAD_LEN);
    match list {
        List::Instructions => Instructions::decode(version, reader),
        List::Actions => Ok(Instructions {
            apply: decode_actions(version, reader)?,
            ..Instructions::default()
        }),
    }
}

fn encode(list: List, version: Version, instructions: &Instructions) -> Vec<u8> {
    let mut writer = Writer::new();
    match list {
        List::Actions => encode_actions(&instructions.apply, version, &mut writer),
        List::Instructions => instructions.encode(version, &mut writer),
    }
    writer.into_bytes()
}

#[test]
fn bytes_of_the_peer_survive() {
    for (list, version, bytes) in vectors() {
        let read = decode(list, version, &bytes);
        let read = read.unwrap_or_else(|refusal| panic!("{version} {}: {refusal}", hex(&bytes)));
        assert_eq!(
            hex(&encode(list, version, &read)),
            hex(&bytes),
            "{version} {read:?}"
        );
    }
}

#[test]
fn every_version_reads_what_it_writes() {
    for (list, version, bytes) in vectors() {
        let read = decode(list, version, &bytes).expect("a vector");
        for other in Version::ALL {
            let there = encode(List::Instructions, other, &read);
            let back = decode(List::Instructions, other, &there)
                .unwrap_or_else(|refusal| panic!("{other} {read:?} {}: {refusal}", hex(&there)));
            let again = encode(List::Instructions, other, &back);
            assert_eq!(hex(&again), hex(&there), "{other} {back:?}");
        }
    }
}

/// Every form of the list in its versions: the header alone is found again.
#[test]
fn the_list_of_forms_has_each_number_once() {
    for row in table::ROWS {
        for version in Version::ALL {
            if row.first <= version && version <= row.last {
                let found = table::find(version, row.owner, row.number).expect("the row");
                assert_eq!(
                    (found.kind, found.number),
                    (row.kind, row.number),
                    "{version}"
                );
                let written = table::row(row.kind, version).expect("the row");
                assert_eq!(written.number, row.number, "{:?} {version}", row.kind);
            }
        }
    }
}

#[test]
fn forms_follow_the_version() {
    let cases: &[(&str, Version, &str)] = &[
        // mod_vlan_vid adds a tag, set_field does not.
        (
            "a1.0 0001 0008 0009 0000",
            Version::V13,
            "0011 0008 8100 0000 0019 0010 80000c02 1009 0000 00000000",
        ),
        (
            "a1.0 0005 0010 102030405060 000000000000",
            Version::V12,
            "0019 0010 80000606 102030405060 0000",
        ),
        (
            "a1.0 0006 0008 01020304",
            Version::V15,
            "0019 0010 80001604 01020304 00000000",
        ),
        (
            "a1.0 0008 0008 30 000000",
            Version::V13,
            "0019 0010 80001001 0c 00000000000000",
        ),
        (
            "a1.0 000b 0010 000a 000000000000 00000037",
            Version::V13,
            "0015 0008 00000037 0000 0010 0000000a ffff 000000000000 ffff 0010 00002320 0005\
             000000000000",
        ),
        // reg_load is set_field in 1.5.
        (
            "a1.0 ffff 0018 00002320 0007 0000 00010004 0000000000000001",
            Version::V15,
            "0019 0010 00010108 00000001 00000001",
        ),
        (
            "a1.0 ffff 0018 00002320 0006 0010 0000 0000 00000002 00000802",
            Version::V15,
            "001c 0018 0010 0000 0000 0000 00000002 00000802 00000000",
        ),
        (
            "a1.1 0017 0008 40 000000",
            Version::V10,
            "ffff 0018 00002320 0007 0007 00013a01 0000000000000040",
        ),
    ];
    for (from, version, to) in cases {
        let (list, old, bytes) = parse(from);
        let read = decode(list, old, &bytes).expect(from);
        assert_eq!(
            hex(&encode(list, *version, &read)),
            hex(&from_hex(to)),
            "{from}"
        );
    }
}

#[test]
fn the_match_says_which_form_an_action_has() {
    // dl_vlan=9, tcp
    let conditions = from_hex("80000c021009 80000a020800 8000140106");
    let reader = Reader::new(&conditions, ErrorCode::OFPBMC_BAD_LEN);
    let matching = Match::decode_entries(reader, crate::matching::Judgement::Strict);
    let matching = matching.expect("a match");
    let actions = [
        Action::SetVlanVid {
            id: 9,
            adds_tag: true,
        },
        Action::SetTpDst(80),
    ];
    let mut writer = Writer::new();
    encode_actions_for(&matching, &actions, Version::V13, &mut writer);
    let known = "0019 0010 80000c02 1009 000000000000 0019 0010 80001c02 0050 000000000000";
    assert_eq!(hex(writer.as_bytes()), hex(&from_hex(known)));
    let mut writer = Writer::new();
    encode_actions(&actions[1..], Version::V13, &mut writer);
    assert_eq!(hex(writer.as_bytes()), "000a000800500000");
}

const REFUSED: &[(&str, ErrorCode)] = &[
    (
        "a1.0 ffff002000002320 0016000000000000 fedcba9876543210 ffffffffffffffff",
        ErrorCode::OFPBIC_UNSUP_INST,
    ),
    ("a1.0 000000f000000000", ErrorCode::OFPBAC_BAD_LEN),
    (
        "a1.0 00000010fffeffff0000000000000000",
        ErrorCode::OFPBAC_BAD_LEN,
    ),
    ("a1.0 00000008fffe", ErrorCode::OFPBRC_BAD_LEN),
    ("a1.0 00000008ffff0000", ErrorCode::OFPBAC_BAD_OUT_PORT),
    ("a1.0 00ff000800000000", ErrorCode::OFPBAC_BAD_TYPE),
    (
        "a1.0 ffff00100000002200000000000000ff",
        ErrorCode::OFPBAC_BAD_VENDOR,
    ),
    (
        "a1.0 ffff001000002320 ffff000000000000",
        ErrorCode::OFPBAC_BAD_VENDOR_TYPE,
    ),
    (
        "a1.0 ffff00180000232000230002000000000000ff0000000000",
        ErrorCode::OFPBAC_BAD_ARGUMENT,
    ),
    (
        "a1.0 ffff00180000232000230000000100040007ff0000000000",
        ErrorCode::OFPBAC_BAD_SET_LEN,
    ),
    (
        "a1.0 ffff0018000023200007001f0001d604000000000000f009",
        ErrorCode::OFPBAC_BAD_SET_ARGUMENT,
    ),
    (
        "a1.0 ffff00300000232000230001000000000000ff0000000000\
         ffff0018000023200007000f0001d504000000000000f009",
        ErrorCode::OFPBAC_BAD_SET_ARGUMENT,
    ),
    (
        "a1.0 ffff00300000232000230001000000000000ff0000000000\
         ffff0018000023200007001f00010004000000000000f009",
        ErrorCode::OFPBAC_BAD_ARGUMENT,
    ),
    (
        "a1.0 ffff00180000232000250000000500001122334455000005",
        ErrorCode::NXBRC_MUST_BE_ZERO,
    ),
    (
        "a1.1 00000010ffffffff0000000000000000",
        ErrorCode::OFPBAC_BAD_OUT_PORT,
    ),
    (
        "i1.1 0004000800000000 0004000800000000",
        ErrorCode::OFPBIC_DUP_INST,
    ),
    (
        "i1.1 00010010010000000000000000000000",
        ErrorCode::OFPBIC_BAD_LEN,
    ),
    (
        "i1.1 0002001000000000fedcba9876543210",
        ErrorCode::OFPBIC_BAD_LEN,
    ),
    ("i1.1 ffff000801000000", ErrorCode::OFPBIC_BAD_EXPERIMENTER),
    ("i1.1 0000000801000000", ErrorCode::OFPBIC_UNKNOWN_INST),
    ("i1.5 0006000800000001", ErrorCode::OFPBIC_UNKNOWN_INST),
    // exit in an action set
    (
        "i1.3 0003001800000000 ffff001000002320 0011000000000000",
        ErrorCode::OFPBAC_BAD_TYPE,
    ),
    (
        "a1.2 001900188000090c00000000123400000000ffff00000000",
        ErrorCode::OFPBAC_BAD_SET_MASK,
    ),
    (
        "a1.3 001900088000fe00 0000001000000001 0000000000000000",
        ErrorCode::OFPBAC_BAD_SET_TYPE,
    ),
    (
        "a1.3 001900108000080700010203040500000000001000000001",
        ErrorCode::OFPBAC_BAD_SET_LEN,
    ),
    // conjunction with output
    (
        "a1.0 ffff001000002320 0022 00 02 00000001 00000008fffe0000",
        ErrorCode::NXBAC_BAD_CONJUNCTION,
    ),
    (
        "a1.0 ffff001000002320 0022 02 02 00000001",
        ErrorCode::NXBAC_BAD_CONJUNCTION,
    ),
    // nat outside ct
    (
        "a1.0 ffff001000002320 0024 0000 0000 0000",
        ErrorCode::OFPBAC_BAD_SET_ARGUMENT,
    ),
];

#[test]
fn what_is_wrong_has_the_codes_of_the_standard() {
    for (line, code) in REFUSED {
        let (list, version, bytes) = parse(line);
        let refused = decode(list, version, &bytes);
        assert_eq!(refused.expect_err(line).code, *code, "{line}");
    }
}

#[test]
fn actions_nest_to_a_bound() {
    let nested = |depth: usize| {
        let mut bytes = Vec::new();
        for level in 0..depth {
            let length = 16 * (depth - level);
            bytes.extend(from_hex("ffff"));
            bytes.extend((length as u16).to_be_bytes());
            bytes.extend(from_hex("00002320 002a 000000000000"));
        }
        bytes
    };
    let version = Version::V13;
    assert!(decode(List::Actions, version, &nested(16)).is_ok());
    let refused = decode(List::Actions, version, &nested(4000)).expect_err("too deep");
    assert_eq!(refused.code, ErrorCode::OFPBAC_TOO_MANY);
}

#[test]
fn actions_are_small() {
    assert!(size_of::<Action>() <= 80, "{}", size_of::<Action>());
}

#[test]
fn no_damage_makes_a_panic() {
    let mut seed = 1u64;
    let mut random = move || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) as u8
    };
    for (list, version, bytes) in vectors() {
        for length in (0..bytes.len()).filter(|length| length % 8 != 0) {
            assert!(
                decode(list, version, &bytes[..length]).is_err(),
                "{}",
                hex(&bytes)
            );
        }
        for place in (0..bytes.len()).flat_map(|place| [place; 4]) {
            let mut damaged = bytes.clone();
            damaged[place] ^= random() | 1;
            for version in Version::ALL {
                let Ok(read) = decode(list, version, &damaged) else {
                    continue;
                };
                for other in Version::ALL {
                    let there = encode(List::Instructions, other, &read);
                    assert!(there.len() <= 64 * damaged.len() + 64);
                }
            }
        }
    }
}
