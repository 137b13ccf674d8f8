use std::net::Ipv4Addr;

use proptest::prelude::*;

use super::*;
use crate::{Alg, Bits, Endpoint, FamilyStatus, FragmentContext, FragmentListState, OtherState};

fn endpoint(address: &str, port: u16) -> Endpoint {
    let address = match address.parse::<Ipv4Addr>() {
        Ok(address) => address.to_ipv6_mapped(),
        Err(_) => address.parse().expect("an address"),
    };
    Endpoint { address, port }
}

/// An entry between two endpoints without translation.
fn entry(
    number: u8,
    source: Endpoint,
    destination: Endpoint,
    protocol: ProtocolState,
) -> ConnectionEntry {
    let original = Tuple {
        source,
        destination,
        icmp: (0, 0),
        zone: 0,
        protocol: number,
        is_ipv6: source.address.to_ipv4_mapped().is_none(),
    };
    let reply = Tuple {
        source: destination,
        destination: source,
        ..original
    };
    ConnectionEntry {
        original,
        reply,
        parent: None,
        timeout_s: 29,
        mark: 0,
        label: 0,
        protocol,
        alg: None,
        status: Status(0),
        rule: 7,
        bucket: 8,
    }
}

fn udp() -> ConnectionEntry {
    let ends = (endpoint("10.1.1.1", 1), endpoint("10.1.1.2", 2));
    entry(17, ends.0, ends.1, ProtocolState::Other(OtherState::First))
}

fn icmp(zone: u16) -> ConnectionEntry {
    let ends = (endpoint("10.1.1.2", 77), endpoint("10.1.1.1", 77));
    let state = ProtocolState::Icmp { has_reply: true };
    let mut entry = entry(1, ends.0, ends.1, state);
    entry.original.icmp = (8, 0);
    (entry.original.zone, entry.reply.zone) = (zone, zone);
    entry
}

fn peer(state: TcpState, window_scale: u8, flags: u8) -> TcpPeer {
    let flags = TcpPeerFlags(flags);
    TcpPeer {
        state,
        window_scale,
        flags,
    }
}

fn tcp(original: TcpState, reply: TcpState) -> ConnectionEntry {
    let ends = (endpoint("10.1.1.1", 40_000), endpoint("10.1.1.2", 80));
    let (original, reply) = (peer(original, 7, 1), peer(reply, 0, 9));
    entry(6, ends.0, ends.1, ProtocolState::Tcp { original, reply })
}

const SHORT: EntryStyle = EntryStyle {
    is_verbose: false,
    has_statistics: false,
};
const LONG: EntryStyle = EntryStyle {
    is_verbose: true,
    has_statistics: true,
};

/// The lines that `tests/system-traffic.at` of Open vSwitch expects.
#[test]
fn lines_of_open_vswitch() {
    assert_eq!(
        entry_text(&udp(), SHORT),
        "udp,orig=(src=10.1.1.1,dst=10.1.1.2,sport=1,dport=2),\
         reply=(src=10.1.1.2,dst=10.1.1.1,sport=2,dport=1)"
    );
    assert_eq!(
        entry_text(&icmp(5), SHORT),
        "icmp,orig=(src=10.1.1.2,dst=10.1.1.1,id=77,type=8,code=0),\
         reply=(src=10.1.1.1,dst=10.1.1.2,id=77,type=0,code=0),zone=5"
    );
    let mut entry = tcp(TcpState::FinWait2, TcpState::TimeWait);
    entry.alg = Some(Alg::Ftp);
    (entry.mark, entry.label) = (3, 0x1_0000_0000_0000_000f);
    assert_eq!(
        entry_text(&entry, SHORT),
        "tcp,orig=(src=10.1.1.1,dst=10.1.1.2,sport=40000,dport=80),\
         reply=(src=10.1.1.2,dst=10.1.1.1,sport=80,dport=40000),\
         mark=3,labels=0x1000000000000000f,protoinfo=(state=TIME_WAIT),helper=ftp"
    );
}

#[test]
fn all_that_a_dump_can_show() {
    let mut entry = tcp(TcpState::Established, TcpState::SynReceived);
    entry.parent = Some(udp().original);
    entry.status = Status(0b1001_0010);
    entry.original.zone = 9;
    assert_eq!(
        entry_text(&entry, LONG),
        "tcp,orig=(src=10.1.1.1,dst=10.1.1.2,sport=40000,dport=80),\
         reply=(src=10.1.1.2,dst=10.1.1.1,sport=80,dport=40000),id=0,zone=9,\
         status=SEEN_REPLY|SRC_NAT|SRC_NAT_DONE,timeout=29,\
         protoinfo=(state_orig=ESTABLISHED,state_reply=SYN_RECV,wscale_orig=7,wscale_reply=0,\
         flags_orig=WINDOW_SCALE,flags_reply=WINDOW_SCALE|BE_LIBERAL),\
         parent=(src=10.1.1.1,dst=10.1.1.2,sport=1,dport=2)"
    );
    assert!(!entry_text(&entry, SHORT).contains("parent"));
    let verbose = EntryStyle {
        is_verbose: true,
        ..SHORT
    };
    let line = entry_text(&udp(), verbose);
    assert!(line.ends_with("dport=1),id=0,status=0"), "{line}");
    let statistics = EntryStyle {
        has_statistics: true,
        ..SHORT
    };
    assert!(entry_text(&udp(), statistics).ends_with("dport=1),timeout=29"));
}

#[test]
fn addresses_are_written_as_inet_ntop_does() {
    let cases = [
        ("fd00::1", "fd00::1"),
        ("::", "::"),
        ("::1", "::1"),
        ("::1.2.3.4", "::1.2.3.4"),
        ("::ffff:1.2.3.4", "::ffff:1.2.3.4"),
        ("1:0:2:0:0:3:0:0", "1:0:2::3:0:0"),
    ];
    for (address, text) in cases {
        assert_eq!(address_text(address.parse().unwrap(), true), text);
    }
    let mapped = Ipv4Addr::new(1, 2, 3, 4).to_ipv6_mapped();
    assert_eq!(address_text(mapped, false), "1.2.3.4");
}

#[test]
fn a_pair_of_tcp_states_has_one_name() {
    let pairs = [
        (TcpState::SynSent, TcpState::Closed, "SYN_SENT"),
        (TcpState::SynSent, TcpState::SynReceived, "ESTABLISHED"),
        (TcpState::Established, TcpState::Established, "ESTABLISHED"),
        (TcpState::FinWait2, TcpState::CloseWait, "TIME_WAIT"),
        (TcpState::Closing, TcpState::Established, "CLOSING"),
    ];
    for (original, reply, name) in pairs {
        assert_eq!(original.combined(reply).name(), name);
        assert_eq!(reply.combined(original).name(), name);
    }
    for (index, state) in TcpState::ALL.into_iter().enumerate() {
        assert_eq!(state as usize, index);
    }
}

#[test]
fn unknown_bits_are_a_number() {
    assert_eq!(flags_text(0, &Status::NAMES), "0");
    assert_eq!(flags_text(0x1000, &Status::NAMES), "UNTRACKED");
    assert_eq!(flags_text(0xc001, &Status::NAMES), "EXPECTED|0xc000");
    let numbers = [1, 2, 6, 17, 33, 58, 132, 136, 47];
    let names = "icmp igmp tcp udp dccp icmpv6 sctp udplite 47";
    assert_eq!(numbers.map(protocol_name).join(" "), names);
}

#[test]
fn statistics_count_by_protocol_and_state() {
    let mut statistics = ConnectionStatistics::default();
    let mut other = udp();
    other.original.protocol = 47;
    let mut icmpv6 = icmp(0);
    icmpv6.original.protocol = 58;
    for entry in [udp(), udp(), icmp(0), other, icmpv6] {
        statistics.count(&entry);
    }
    statistics.count(&tcp(TcpState::SynSent, TcpState::Closed));
    statistics.count(&tcp(TcpState::Established, TcpState::SynReceived));
    statistics.count(&tcp(TcpState::Established, TcpState::Established));
    assert_eq!(
        statistics.text(true),
        "Connections Stats:\n    Total: 8\n  TCP: 3\n    Conn per TCP states:\n\
         \t  [SYN_SENT]=1\n\t  [ESTABLISHED]=2\n  UDP: 2\n  ICMP: 1\n  Other: 1"
    );
    assert!(!statistics.text(false).contains("states"));
    let none = ConnectionStatistics::default().text(true);
    assert_eq!(none, "Connections Stats:\n    Total: 0");
}

#[test]
fn limits_of_zones() {
    assert_eq!(zone_limits_text(10, &[]), "default limit=10");
    let zones = [(0, 5, 0), (1, 15, 3)];
    let text = "default limit=10\nzone=0,limit=5,count=0\nzone=1,limit=15,count=3";
    assert_eq!(zone_limits_text(10, &zones), text);
    let arguments = ["default=10", "zone=0,limit=5", "zone=0x1, limit:017"];
    let zones = vec![(0, 5), (1, 15)];
    let changes = LimitChanges {
        default: Some(10),
        zones,
    };
    assert_eq!(parse_set_limits(&arguments), Ok(changes));
    assert_eq!(parse_set_limits(&[]), Ok(LimitChanges::default()));
    let refused = [
        ("zone=1", "failed to parse zone limit"),
        ("limit=1", "failed to parse zone limit"),
        ("", "failed to parse zone limit"),
        ("zone=1,limit", "field limit missing value"),
        ("zone=65536,limit=1", "failed to parse field zone"),
        ("zone=1,limit=-1", "failed to parse field limit"),
        ("zone=1,limit=4294967296", "failed to parse field limit"),
        ("zone=1,limits=1", "invalid zone limit field: limits"),
        ("default=1", "invalid zone limit field: default"),
    ];
    for (text, message) in refused {
        assert_eq!(parse_zone_limit(text).unwrap_err().to_string(), message);
    }
    for text in ["default=", "default=x", "default=4294967296", "default=+1"] {
        let error = parse_set_limits(&[text]).unwrap_err();
        assert_eq!(error.to_string(), "invalid default limit");
    }
}

#[test]
fn lists_of_zones() {
    assert_eq!(parse_zones("zone=0,1,,65535,"), Ok(vec![0, 1, 65_535]));
    let refused = [
        ("zones=1", "invalid argument zones=1"),
        ("zone=", "invalid zone"),
        ("zone=1,x", "invalid zone"),
        ("zone=65536", "invalid zone"),
        ("zone=1x", "invalid zone"),
    ];
    for (text, message) in refused {
        assert_eq!(parse_zones(text).unwrap_err().to_string(), message);
    }
}

#[test]
fn the_status_of_fragments() {
    let family = |base: u64| FamilyStatus {
        is_enabled: base > 10,
        min_bytes: base as u32,
        accepted: base + 1,
        completed: base + 2,
        expired: base + 3,
        too_small: base + 4,
        overlapped: base + 5,
        purged: base + 6,
        ..FamilyStatus::default()
    };
    let status = FragmentsStatus {
        v4: family(20),
        v6: family(10),
        held: 4,
        held_bytes: 5000,
        max_fragments: 1000,
    };
    let lines = [
        "Fragmentation Module Status",
        "---------------------------",
        "v4 enabled: 1",
        "v6 enabled: 0",
        "max num frags (v4/v6): 1000",
        "num frag: 4",
        "min v4 frag size: 20",
        "v4 frags accepted: 21",
        "v4 frags completed: 22",
        "v4 frags expired: 23",
        "v4 frags too small: 24",
        "v4 frags overlapped: 25",
        "v4 frags purged: 26",
        "min v6 frag size: 10",
        "v6 frags accepted: 11",
        "v6 frags completed: 12",
        "v6 frags expired: 13",
        "v6 frags too small: 14",
        "v6 frags overlapped: 15",
        "v6 frags purged: 16",
    ];
    let text = lines.map(|line| format!("        {line}")).join("\n");
    assert_eq!(fragments_text(&status), text);
    let list = FragmentList {
        source: endpoint("10.2.1.1", 0).address,
        destination: endpoint("10.2.1.2", 0).address,
        context: FragmentContext { zone: 9, place: 3 },
        identification: 41,
        is_ipv6: false,
        protocol: 17,
        fragments: 2,
        state: FragmentListState::FirstAndLast,
    };
    assert_eq!(
        fragment_list_text(&list),
        "(src=10.2.1.1,dst=10.2.1.2,recirc_id=3,ip_id=41,dl_type=0x800,zone=9,nw_proto=17,\
         num_fragments=2,state=first/last frag)"
    );
}

fn flush(arguments: &[&str]) -> FlushRequest {
    parse_flush(arguments).expect("well-formed")
}

/// The texts that `tests/ovs-ofctl.at`, "ovs-ofctl ct-flush", looks for.
#[test]
fn a_flush_is_told_as_open_vswitch_tells_it() {
    let named = "ct_nw_src=10.1.1.3,ct_nw_dst=10.1.1.4,ct_nw_proto=17,ct_tp_src=1";
    let none = "ct_nw_src=::,ct_nw_dst=::,ct_tp_src=0,ct_tp_dst=0";
    let all = "ct_nw_src=10.1.1.3,ct_nw_dst=10.1.1.4,ct_tp_src=1,ct_tp_dst=0";
    let icmp = "ct_ipv6_src=fc00::1,ct_nw_proto=58,icmp_type=128";
    let cases: [(&[&str], String); 5] = [
        (&[], "<all>".to_owned()),
        (&["zone=123"], "zone 123".to_owned()),
        (
            &["zone=5", named],
            format!("zone=5 '{all},ct_nw_proto=17' '{none}'"),
        ),
        (
            &["", named],
            format!("zone=0 '{none},ct_nw_proto=17' '{all}'"),
        ),
        (
            &[icmp],
            "zone=0 'ct_ipv6_src=fc00::1,ct_ipv6_dst=::,icmp_id=0,icmp_type=128,icmp_code=0,\
             ct_nw_proto=58' 'ct_ipv6_src=::,ct_ipv6_dst=::,icmp_id=0,icmp_type=0,icmp_code=0'"
                .to_owned(),
        ),
    ];
    for (arguments, expected) in cases {
        assert_eq!(flush_text(&flush(arguments)), expected, "{arguments:?}");
    }
}

/// Only a controller names marks and labels.
#[test]
fn a_flush_may_name_bits_of_mark_and_label() {
    let mut entry = udp();
    (entry.mark, entry.label) = (0x12, 1 << 100);
    let with = |mark: (u32, u32), label: (u128, u128)| FlushRequest {
        mark: Bits {
            value: mark.0,
            mask: mark.1,
        },
        label: Bits {
            value: label.0,
            mask: label.1,
        },
        ..FlushRequest::default()
    };
    for (request, expected) in [
        (with((0x02, 0x0f), (0, 0)), true),
        (with((0x03, 0x0f), (0, 0)), false),
        (with((0, 0), (1 << 100, 1 << 100)), true),
        (with((0, 0), (0, 1 << 100)), false),
    ] {
        assert_eq!(request.matches(&entry), expected);
        assert!(!request.is_unconditional() && !request.is_exact());
    }
}

/// The flushes of `tests/system-traffic.at`, "conntrack - ct flush".
#[test]
fn flushes_of_open_vswitch() {
    let first = udp();
    let mut second = udp();
    (second.original, second.reply) = (first.reply, first.original);
    (second.original.zone, second.reply.zone) = (5, 5);
    let reverse = "ct_nw_src=10.1.1.2,ct_nw_dst=10.1.1.1,ct_nw_proto=17,ct_tp_src=2,ct_tp_dst=1";
    let forward = "ct_nw_src=10.1.1.1,ct_nw_dst=10.1.1.2,ct_nw_proto=17,ct_tp_src=1,ct_tp_dst=2";
    let cases: [(&[&str], bool, bool); 15] = [
        (&[], true, true),
        (&["zone=5"], false, true),
        (&["zone=0"], true, false),
        (&[reverse], true, false),
        (&["zone=5", forward], false, true),
        (&["zone=6", forward], false, false),
        (&["ct_nw_proto=17,ct_tp_src=1"], true, false),
        (&["ct_nw_proto=17,ct_tp_src=2"], false, true),
        (&["ct_nw_proto=17,ct_tp_dst=2"], true, false),
        (&["ct_nw_src=10.1.1.2"], false, true),
        (&["ct_nw_dst=10.1.1.2"], true, false),
        (&["", "ct_nw_src=10.1.1.2"], true, false),
        (&["zone=5", "", "ct_nw_src=10.1.1.1"], false, true),
        (&["ct_nw_proto=6"], false, false),
        (&["ct_ipv6_src=::"], false, false),
    ];
    for (arguments, of_first, of_second) in cases {
        let request = flush(arguments);
        let matched = (request.matches(&first), request.matches(&second));
        assert_eq!(matched, (of_first, of_second), "{arguments:?}");
        let is_exact = arguments.last().is_some_and(|last| last.len() > 60);
        assert_eq!(request.is_exact(), is_exact);
    }
    assert!(flush(&["zone=5"]).is_unconditional());
    assert!(!flush(&["ct_nw_proto=17"]).is_unconditional());
}

#[test]
fn flushes_of_icmp_and_ipv6() {
    let both = "ct_nw_src=10.1.1.2,ct_nw_dst=10.1.1.1,ct_nw_proto=1";
    let exact = format!("{both},icmp_id=77,icmp_type=8,icmp_code=0");
    assert!(flush(&["zone=5", &exact]).is_exact());
    assert!(flush(&["zone=5", &exact]).matches(&icmp(5)));
    assert!(!flush(&[&exact]).matches(&icmp(5)), "zone 0 by default");
    assert!(!flush(&[both]).is_exact());
    assert!(flush(&[both]).matches(&icmp(5)));
    for other in ["icmp_id=78", "icmp_type=0", "icmp_code=1"] {
        let text = format!("ct_nw_proto=1,{other}");
        assert!(!flush(&[&text]).matches(&icmp(5)));
    }
    let ends = (endpoint("fd00::1", 1), endpoint("fd00::2", 2));
    let ipv6 = entry(17, ends.0, ends.1, ProtocolState::Other(OtherState::First));
    assert!(flush(&["ct_ipv6_src=fd00::1"]).matches(&ipv6));
    assert!(flush(&["ct_ipv6_dst=fd00::2", "ct_ipv6_src=fd00::2,ct_nw_proto=17"]).matches(&ipv6));
    assert!(!flush(&["ct_ipv6_src=fd00::2"]).matches(&ipv6));
    assert!(!flush(&["ct_nw_src=10.1.1.1"]).matches(&ipv6));
}

#[test]
fn messages_of_open_vswitch() {
    let cases: [(&[&str], &str); 17] = [
        (&["zone=x"], "failed to parse zone"),
        (&["zone=65536"], "failed to parse zone"),
        (&["", "", ""], "invalid arguments"),
        (&["zone=1", "", "", ""], "invalid arguments"),
        (&["ct_nw_src"], "field ct_nw_src missing value"),
        (&["ct_nw_src="], "field ct_nw_src missing value"),
        (&["ct_nw_src=1.2.3"], "failed to parse field ct_nw_src"),
        (
            &["ct_ipv6_dst=1.2.3.4"],
            "failed to parse field ct_ipv6_dst",
        ),
        (
            &["ct_nw_src=1.2.3.4,ct_ipv6_dst=::1"],
            "the L3 protocol does not match ::1",
        ),
        (
            &["ct_ipv6_dst=::1", "ct_nw_src=1.2.3.4"],
            "the L3 protocol does not match 1.2.3.4",
        ),
        (
            &["ct_nw_src=1.2.3.4,ct_nw_src=1.2.3.4"],
            "ct_nw_src is set multiple times",
        ),
        (
            &["ct_nw_proto=6", "ct_nw_proto=17"],
            "ct_nw_proto is set multiple times",
        ),
        (&["ct_nw_proto=256"], "failed to parse field ct_nw_proto"),
        (
            &["ct_nw_proto=6,ct_tp_src=65536"],
            "failed to parse field ct_tp_src",
        ),
        (&["icmp_id=1,ct_nw_proto=1"], "invalid L4 fields"),
        (&["ct_tp_dst=1"], "port is set without protocol"),
        (&["ct_foo=1"], "invalid conntrack tuple field: ct_foo"),
    ];
    for (arguments, message) in cases {
        let error = parse_flush(arguments).expect_err("refused");
        assert_eq!(error.to_string(), message, "{arguments:?}");
    }
    assert_eq!(flush(&["ct_nw_proto=6", "ct_nw_proto=0x6"]).protocol, 6);
}

proptest! {
    /// What a dump prints of a connection, a flush finds.
    #[test]
    fn a_flush_by_a_whole_tuple_finds_its_connection(
        source in any::<u32>(),
        destination in any::<u32>(),
        ports in (1..=u16::MAX, 1..=u16::MAX),
        zone: u16,
        is_reply: bool,
    ) {
        let ends = [source, destination].map(|bits| Ipv4Addr::from(bits).to_ipv6_mapped());
        let source = Endpoint { address: ends[0], port: ports.0 };
        let destination = Endpoint { address: ends[1], port: ports.1 };
        let state = ProtocolState::Other(OtherState::Multiple);
        let mut entry = entry(17, source, destination, state);
        (entry.original.zone, entry.reply.zone) = (zone, zone);
        let named = if is_reply { entry.reply } else { entry.original };
        let text = format!("{},ct_nw_proto=17", tuple_text(&named))
            .replace("src=", "ct_nw_src=")
            .replace("dst=", "ct_nw_dst=")
            .replace("sport=", "ct_tp_src=")
            .replace("dport=", "ct_tp_dst=");
        let zone = format!("zone={zone}");
        let request = parse_flush(&[&zone, &text]).unwrap();
        prop_assert!(request.is_exact());
        prop_assert!(request.matches(&entry));
        entry.original.source.port ^= 1;
        entry.reply.destination.port ^= 1;
        prop_assert!(!request.matches(&entry));
    }

    #[test]
    fn no_text_panics(
        text in "(ct_nw_|ct_tp_|ct_ipv6_|icmp_|zone|=|src|dst|proto|[(),: ]|[0-9]|\\PC){0,12}",
    ) {
        let _ = parse_flush(&[&text, &text]);
        let _ = parse_set_limits(&[&text]);
        let _ = parse_zones(&text);
    }

    #[test]
    fn numbers_are_those_of_c(value in any::<i64>(), max in any::<u64>()) {
        let wanted = u64::try_from(value).ok().filter(|value| *value <= max);
        let texts = [value.to_string(), format!("  {value}")];
        for text in texts {
            prop_assert_eq!(parse::integer(&text, max), wanted, "{}", text);
        }
        if value > 0 {
            for text in [format!("{value:#x}"), format!("0{value:o}"), format!("+{value}")] {
                prop_assert_eq!(parse::integer(&text, max), wanted, "{}", text);
            }
        }
    }
}
