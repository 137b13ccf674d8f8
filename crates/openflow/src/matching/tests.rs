//! Tests matches: the bytes that `ovs-ofctl` writes, and refusals.

use super::*;
use crate::error::{ErrorCode, Refusal};
use crate::version::Version;
use crate::wire::{Reader, Writer};

const VECTORS: &str = include_str!("vectors.txt");

pub(crate) fn from_hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let pairs = digits
        .chunks(2)
        .map(|pair| std::str::from_utf8(pair).expect("ASCII"));
    pairs
        .map(|pair| u8::from_str_radix(pair, 16).expect("hex"))
        .collect()
}

fn vectors() -> impl Iterator<Item = (Option<Version>, Vec<u8>)> {
    let lines = VECTORS.lines().filter(|line| !line.starts_with('#'));
    lines.flat_map(|line| {
        let (versions, hex) = line.split_once(' ').expect("two columns");
        let version = |word: &str| word.parse().ok();
        let list: Vec<Option<Version>> = versions.split(',').map(version).collect();
        list.into_iter().map(|version| (version, from_hex(hex)))
    })
}

fn reader(bytes: &[u8]) -> Reader<'_> {
    Reader::new(bytes, ErrorCode::OFPBRC_BAD_LEN)
}

fn decode(version: Option<Version>, bytes: &[u8], judge: Judgement) -> Result<Match, Refusal> {
    match version {
        None => Match::decode_entries(reader(bytes), judge),
        Some(version) => Match::decode_oxm(version, &mut reader(bytes), judge),
    }
}

fn encode(version: Option<Version>, matching: &Match) -> Vec<u8> {
    let mut writer = Writer::new();
    match version {
        None => matching.encode_entries(None, &mut writer),
        Some(version) => matching.encode_oxm(version, &mut writer),
    }
    writer.into_bytes()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn bytes_of_the_peer_survive() {
    for (version, bytes) in vectors() {
        let matching = decode(version, &bytes, Judgement::Strict);
        let matching = matching.unwrap_or_else(|refusal| panic!("{}: {refusal}", hex(&bytes)));
        let back = encode(version, &matching);
        assert_eq!(hex(&back), hex(&bytes), "{version:?} {matching:?}");
    }
}

#[test]
fn one_rule_has_the_names_of_every_version() {
    for (version, bytes) in vectors() {
        let matching = decode(version, &bytes, Judgement::Strict).expect("a vector");
        for other in [
            None,
            Some(Version::V12),
            Some(Version::V13),
            Some(Version::V15),
        ] {
            let there = encode(other, &matching);
            let read = decode(other, &there, Judgement::Loose).expect("what was written");
            let again = encode(other, &read);
            assert_eq!(hex(&again), hex(&there), "{other:?} {matching:?}");
        }
    }
}

#[test]
fn names_follow_the_version() {
    let cases = [
        // in_port, vlan_tci, nw_tos
        ("00000002fffe", "80000004fffffffe"),
        ("000008023123", "80000c0211238000 0e0101"),
        ("0000090411231fff", "80000c021123"),
        ("000006020800 00000a01f0", "80000a020800 8000103c"),
    ];
    for (nxm, oxm) in cases {
        let oxm = oxm.replace("8000103c", "8000 1001 3c");
        let from_nxm = decode(None, &from_hex(nxm), Judgement::Strict).expect("NXM");
        let mut writer = Writer::new();
        from_nxm.encode_entries(Some(Version::V13), &mut writer);
        assert_eq!(hex(writer.as_bytes()), hex(&from_hex(&oxm)), "{nxm}");
        let from_oxm = Match::decode_entries(reader(writer.as_bytes()), Judgement::Strict);
        assert_eq!(
            hex(&encode(None, &from_oxm.expect("OXM"))),
            hex(&from_hex(nxm))
        );
    }
    // Two registers of 32 bits are one of 64 in OpenFlow 1.5.
    let registers = decode(
        None,
        &from_hex("00010004 00000001 00010204 00000002"),
        Judgement::Strict,
    );
    let registers = registers.expect("two registers");
    let mut writer = Writer::new();
    registers.encode_entries(Some(Version::V15), &mut writer);
    assert_eq!(
        hex(writer.as_bytes()),
        "80010008000000010000000200".trim_end_matches("00")
    );
}

#[test]
fn what_is_wrong_has_the_codes_of_the_standard() {
    let cases: &[(&str, ErrorCode)] = &[
        ("00000002fffe 00000002fffe", ErrorCode::OFPBMC_DUP_FIELD),
        (
            "00010004 00000001 80010008 0000000100000000",
            ErrorCode::OFPBMC_DUP_FIELD,
        ),
        ("80000c021123 000008023123", ErrorCode::OFPBMC_DUP_FIELD),
        ("00000e04ac100014", ErrorCode::OFPBMC_BAD_PREREQ),
        ("000006020800 000012020050", ErrorCode::OFPBMC_BAD_PREREQ),
        ("80000e0101", ErrorCode::OFPBMC_BAD_PREREQ),
        (
            "000006020800 00000f08c0a80001ffff0000",
            ErrorCode::OFPBMC_BAD_WILDCARDS,
        ),
        ("000006020800 00000a0141", ErrorCode::OFPBMC_BAD_VALUE),
        ("80000c02f009", ErrorCode::OFPBMC_BAD_VALUE),
        ("80000004 00010000", ErrorCode::OFPBMC_BAD_VALUE),
        ("00000704 0800 fff0", ErrorCode::OFPBMC_BAD_MASK),
        ("00000602", ErrorCode::OFPBMC_BAD_LEN),
        ("000006", ErrorCode::OFPBMC_BAD_LEN),
        ("ffff0103 00002320", ErrorCode::OFPBMC_BAD_LEN),
        ("0000060108", ErrorCode::OFPBMC_BAD_FIELD),
        ("80ff060108", ErrorCode::OFPBMC_BAD_FIELD),
        ("0001fe0108", ErrorCode::OFPBMC_BAD_FIELD),
        ("00013c08 0000000000000001", ErrorCode::OFPBMC_BAD_FIELD),
        ("0001d804 00000001", ErrorCode::OFPBMC_BAD_FIELD),
    ];
    for (bytes, code) in cases {
        let refused = decode(None, &from_hex(bytes), Judgement::Strict);
        assert_eq!(refused.expect_err(bytes).code, *code, "{bytes}");
    }
}

#[test]
fn a_loose_reading_skips_what_it_does_not_know() {
    let bytes = from_hex("80ff060108 00000e04ac100014");
    let matching = decode(None, &bytes, Judgement::Loose).expect("loose");
    assert_eq!(matching.conditions.len(), 1);
    assert_eq!(matching.conditions[0].field, FieldId::IP_SRC);
}

#[test]
fn masks_that_say_nothing_vanish() {
    let bytes = from_hex("0000030c 0002e30f80a4 ffffffffffff 0000050c 000000000000 000000000000");
    let matching = decode(None, &bytes, Judgement::Strict).expect("masks");
    assert_eq!(hex(&encode(None, &matching)), "000002060002e30f80a4");
}

#[test]
fn a_cookie_stands_among_nicira_s_conditions() {
    let entries = from_hex("00000002fffe 00013d10 0000000000000001 00000000000000ff 000000000000");
    let mut all = reader(&entries);
    let read = Match::decode_nxm(&mut all, 26, Judgement::Strict).expect("a cookie");
    assert_eq!(read.1, Some((1, 0xff)));
    assert!(all.is_empty(), "the padding is read");
    let mut writer = Writer::new();
    assert_eq!(read.0.encode_nxm(read.1, &mut writer), 26);
    assert_eq!(hex(&writer.as_bytes()[..26]), hex(&entries[..26]));
    assert_eq!(writer.len(), 32);
}

/// OpenFlow 1.0: wildcards, port, addresses, VLAN, EtherType, TOS, protocol, IPv4, ports.
const OF10: &[&str] = &[
    "003820ff 0000 000000000000 000000000000 0000 00 00 0000 00 00 0000 00000000\
     00000000 0000 0000",
    "003820fe fffe 000000000000 000000000000 0000 00 00 0000 00 00 0000 00000000\
     00000000 0000 0000",
    "00282000 0003 505400000005 505400000006 0009 00 00 0800 00 06 0000 00000000\
     00000000 1f90 0050",
    "0018600f 0003 000000000000 000000000000 0000 00 00 0800 fc 11 0000 0a000000\
     00000000 1f90 0050",
    "00382000 0003 505400000005 505400000006 ffff 00 00 0800 00 01 0000 00000000\
     00000000 0008 0000",
    "00282002 0003 505400000005 505400000006 0000 05 00 0806 00 02 0000 0a000001\
     00000000 0000 0000",
];

#[test]
fn matches_of_openflow_1_0_survive() {
    for text in OF10 {
        let bytes = from_hex(text);
        let matching = Match::decode_of10(&mut reader(&bytes)).expect("40 bytes");
        let mut writer = Writer::new();
        matching.encode_of10(&mut writer);
        let again = Match::decode_of10(&mut reader(writer.as_bytes()));
        assert_eq!(again.as_ref(), Ok(&matching), "{text}");
        assert_eq!(writer.len(), 40);
    }
    let plain = from_hex(OF10[1]);
    let matching = Match::decode_of10(&mut reader(&plain)).expect("40 bytes");
    assert_eq!(matching.in_port().map(|port| port.0), Some(0xffff_fffe));
    assert_eq!(matching.conditions.len(), 1);
}

#[test]
fn matches_of_openflow_1_1_survive() {
    for text in OF10 {
        let matching = Match::decode_of10(&mut reader(&from_hex(text))).expect("40 bytes");
        let mut writer = Writer::new();
        matching.encode_of11(&mut writer);
        assert_eq!(writer.len(), 88);
        let bytes = writer.into_bytes();
        let read = Match::decode_oxm(Version::V11, &mut reader(&bytes), Judgement::Strict);
        let mut writer = Writer::new();
        read.expect("88 bytes")
            .encode_oxm(Version::V11, &mut writer);
        assert_eq!(hex(writer.as_bytes()), hex(&bytes), "{text}");
    }
}

#[test]
fn no_damage_makes_a_panic() {
    let mut seed = 1u64;
    for (version, bytes) in vectors() {
        for length in 0..bytes.len() {
            let cut = decode(version, &bytes[..length], Judgement::Strict);
            assert!(
                cut.is_err() || version.is_none(),
                "{} {length}",
                hex(&bytes)
            );
        }
        for place in 0..bytes.len() {
            let mut damaged = bytes.clone();
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            damaged[place] ^= (seed >> 33) as u8 | 1;
            for judge in [Judgement::Strict, Judgement::Loose] {
                let Ok(matching) = decode(version, &damaged, judge) else {
                    continue;
                };
                for other in [
                    None,
                    Some(Version::V11),
                    Some(Version::V13),
                    Some(Version::V15),
                ] {
                    let there = encode(other, &matching);
                    assert!(there.len() <= 8 * damaged.len() + 88);
                }
                matching.encode_of10(&mut Writer::new());
            }
        }
    }
}
