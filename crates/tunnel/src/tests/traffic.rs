//! Compares how Open vSwitch and this crate handle packets through tunnel ports.
//!
//! `open_vswitch_traffic.txt` has 12 configurations that Open vSwitch 3.1 was given. A `port` has
//! its number, type and options; Open vSwitch refused it or gave it a datapath port. A packet that
//! it should `receive` has the values of its outer headers; its answer is the port. A packet that
//! it should `send` has the port, what the inner IP header says, and what rules set; its answer is
//! the action, and the fields that the megaflow has.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::IpAddr;

use thalweg_packet::wire::EtherType;

use crate::{
    Endpoints, InnerIp, InnerType, SendRefusal, TunnelFlags, TunnelListener, TunnelMetadata,
    TunnelPort, TunnelPorts, TunnelReads, TunnelType,
};

/// The words of a line as names and values; those without `=` have an empty value.
fn pairs(words: &'static str) -> BTreeMap<&'static str, &'static str> {
    let words = words.split_whitespace();
    let pairs = words.map(|word| word.split_once('=').unwrap_or((word, "")));
    pairs.collect()
}

fn number<N: std::str::FromStr>(text: &str) -> N {
    text.parse().ok().expect("a number that fits")
}

/// The metadata of a packet that was received.
fn received(values: &BTreeMap<&str, &str>) -> (TunnelMetadata, InnerType) {
    let address = |name| values[name].parse::<IpAddr>().expect("an address");
    let metadata = TunnelMetadata {
        id: number(values["id"]),
        endpoints: Endpoints::new(address("src"), address("dst")).expect("one family"),
        tos: number(values["tos"]),
        ..TunnelMetadata::default()
    };
    let inner = match values.contains_key("bare") {
        true => InnerType::Bare(EtherType::IPV4),
        false => InnerType::Ethernet,
    };
    (metadata, inner)
}

/// What actions `set_field:VALUE->FIELD` make of a packet that came from no tunnel.
fn set_by(actions: &str) -> TunnelMetadata {
    let mut metadata = TunnelMetadata::default();
    let (mut source, mut destination) = (None, None);
    for action in actions.split(',').filter(|action| *action != "-") {
        let set = action
            .strip_prefix("set_field:")
            .expect("an action that sets");
        let (value, field) = set.split_once("->").expect("a field");
        let address = || Some(value.parse::<IpAddr>().expect("an address"));
        match field {
            "tun_id" => metadata.id = number(value),
            "tun_src" | "tun_ipv6_src" => source = address(),
            "tun_dst" | "tun_ipv6_dst" => destination = address(),
            "tun_gbp_id" => metadata.group_policy.id = number(value),
            "tun_gbp_flags" => metadata.group_policy.flags = number(value),
            "tun_flags" => metadata.flags = TunnelFlags::OAM,
            "tun_erspan_ver" => metadata.erspan.version = number(value),
            "tun_erspan_idx" => metadata.erspan.index = number(value),
            "tun_erspan_dir" => metadata.erspan.direction = number(value),
            "tun_erspan_hwid" => metadata.erspan.hardware_id = number(value),
            other => panic!("the field {other}"),
        }
    }
    let zero = |other: Option<IpAddr>| match other {
        Some(IpAddr::V6(_)) => IpAddr::V6(std::net::Ipv6Addr::UNSPECIFIED),
        _ => IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED),
    };
    metadata.endpoints = Endpoints::new(
        source.unwrap_or(zero(destination)),
        destination.unwrap_or(zero(source)),
    )
    .expect("addresses of one family");
    metadata
}

/// The action that sets the values of a packet's tunnel, as Open vSwitch prints it.
fn set_text(tunnel_type: TunnelType, metadata: &TunnelMetadata) -> String {
    let mut parts: Vec<String> = Vec::new();
    if metadata.flags.has(TunnelFlags::KEY) {
        parts.push(format!("tun_id={:#x}", metadata.id));
    }
    let family = if metadata.endpoints.is_ipv6() {
        "ipv6_"
    } else {
        ""
    };
    for (name, address) in [
        ("src", metadata.endpoints.source()),
        ("dst", metadata.endpoints.destination()),
    ] {
        if !address.is_unspecified() {
            parts.push(format!("{family}{name}={address}"));
        }
    }
    if metadata.tos != 0 {
        parts.push(format!("tos={:#x}", metadata.tos));
    }
    parts.push(format!("ttl={}", metadata.ttl));
    if metadata.destination_port != 0 {
        parts.push(format!("tp_dst={}", metadata.destination_port));
    }
    // As C prints it with `%#x`.
    let hexadecimal = |number: u32| match number {
        0 => "0".to_owned(),
        _ => format!("{number:#x}"),
    };
    let (policy, erspan) = (metadata.group_policy, metadata.erspan);
    if (policy.id, policy.flags) != (0, 0) {
        let flags = hexadecimal(policy.flags.into());
        parts.push(format!("vxlan(gbp(id={},flags={flags}))", policy.id));
    }
    let is_erspan = tunnel_type == TunnelType::Erspan;
    match erspan.version {
        1 if is_erspan => {
            let index = hexadecimal(erspan.index);
            parts.push(format!("erspan(ver=1,idx={index})"));
        }
        2 if is_erspan => {
            let hardware_id = hexadecimal(erspan.hardware_id.into());
            let direction = erspan.direction;
            parts.push(format!("erspan(ver=2,dir={direction},hwid={hardware_id})"));
        }
        _ => {}
    }
    let flags = [
        (TunnelFlags::OAM, "oam"),
        (TunnelFlags::DONT_FRAGMENT, "df"),
        (TunnelFlags::CHECKSUM, "csum"),
        (TunnelFlags::KEY, "key"),
    ];
    let set = flags
        .into_iter()
        .filter(|(flag, _)| metadata.flags.has(*flag));
    let names: Vec<&str> = set.map(|(_, name)| name).collect();
    let mut text = format!("set(tunnel({},flags(", parts.join(","));
    let flags = if names.is_empty() {
        "0".to_owned()
    } else {
        names.join("|")
    };
    write!(text, "{flags})))").expect("a string takes any text");
    text
}

/// Compares a sent packet with Open vSwitch's `actions` and `megaflow`; true if it is sent.
fn check_sent(port: &TunnelPort, inner: &str, actions: &str, said: &[&str], line: &str) -> bool {
    let inner = inner.split_once('/').map(|(tos, ttl)| InnerIp {
        tos: number(tos),
        ttl: number(ttl),
    });
    let (outgoing, reads) = port.outgoing(&set_by(actions), inner, None);
    let (said_actions, megaflow) = (
        said[0].strip_prefix("actions ").expect("actions"),
        said[1].strip_prefix("megaflow ").expect("a megaflow"),
    );
    let outgoing = match outgoing {
        Ok(outgoing) => outgoing,
        Err(SendRefusal::MixedFamilies) => {
            // Open vSwitch sends a sender of one family and a receiver of the other.
            assert!(
                said_actions.contains("src=") && said_actions.contains("dst="),
                "{line}"
            );
            assert!(
                said_actions.contains("ipv6_") && said_actions.contains('.'),
                "{line}"
            );
            return false;
        }
        Err(refusal) => {
            assert_eq!(refusal, SendRefusal::OwnAddress, "{line}");
            assert_eq!(
                (said_actions, said.get(2)),
                ("drop", Some(&"own address")),
                "{line}"
            );
            return false;
        }
    };
    let text = set_text(port.tunnel_type, &outgoing.metadata);
    assert!(
        said_actions.starts_with(&text),
        "{line}: {text} is not {said_actions}"
    );
    let fields: Vec<&str> = megaflow.split(',').collect();
    let has = |name: &str| fields.iter().any(|field| field.starts_with(name));
    assert_eq!(has("nw_tos="), reads.has(TunnelReads::INNER_DSCP), "{line}");
    assert_eq!(has("nw_ecn="), reads.has(TunnelReads::INNER_ECN), "{line}");
    assert_eq!(has("nw_ttl="), reads.has(TunnelReads::INNER_TTL), "{line}");
    assert_eq!(has("pkt_mark="), outgoing.packet_mark.is_some(), "{line}");
    let mark = outgoing
        .packet_mark
        .map(|mark| format!("set(skb_mark({mark:#x}))"));
    assert!(
        mark.is_none_or(|mark| said_actions.contains(&mark)),
        "{line}"
    );
    true
}

#[test]
fn packets_pass_as_through_open_vswitch() {
    let text = include_str!("open_vswitch_traffic.txt");
    let mut lines = text.lines().peekable();
    let mut ports = TunnelPorts::default();
    let (mut found, mut lost, mut sent, mut dropped, mut refused) = (0, 0, 0, 0, 0);
    while let Some(line) = lines.next() {
        let mut said = Vec::new();
        while let Some(answer) = lines.next_if(|line| line.starts_with("  ")) {
            said.push(answer.trim_start());
        }
        let (what, rest) = line.split_once(' ').unwrap_or((line, ""));
        let (first, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        match what {
            "configuration" => ports = TunnelPorts::default(),
            "port" => {
                let (name, options) = rest.split_once(' ').expect("options");
                let tunnel_type = TunnelType::from_name(name).expect("a type");
                let parsed = TunnelPort::parse("t0", tunnel_type, pairs(options));
                let datapath = said[0].strip_prefix("datapath ");
                let added = parsed.ok().map(|parsed| {
                    let datapath_port = datapath.map_or(0, number);
                    ports.insert(number::<u32>(first), "t0", parsed.port, datapath_port)
                });
                let is_added = matches!(added, Some(Ok(())));
                assert_eq!(is_added, datapath.is_some(), "{line}");
                refused += usize::from(!is_added);
            }
            "receive" => {
                let (port, values) = rest.split_once(' ').expect("values");
                let tunnel_type = TunnelType::from_name(first).expect("a type");
                let listener = TunnelListener {
                    tunnel_type,
                    destination_port: match port {
                        "-" => tunnel_type.default_port().unwrap_or(0),
                        port => number(port),
                    },
                };
                let (metadata, inner) = received(&pairs(values));
                let answer = ports.find_at(listener, &metadata, inner);
                let expected = said[0].strip_prefix("in_port ").expect("a port");
                assert_eq!(answer, expected.parse().ok(), "{line}");
                *(if answer.is_some() {
                    &mut found
                } else {
                    &mut lost
                }) += 1;
            }
            _ => {
                let (inner, actions) = rest.split_once(' ').expect("actions");
                let inner = inner.strip_prefix("inner=").expect("the inner header");
                let port = ports.get(number(first)).expect("a port that is there");
                let is_sent = check_sent(port, inner, actions, &said, line);
                *(if is_sent { &mut sent } else { &mut dropped }) += 1;
            }
        }
    }
    assert_eq!((found, lost, sent, dropped), (109, 179, 277, 11));
    assert_ne!(refused, 0);
}
