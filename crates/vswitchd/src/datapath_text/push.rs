//! Writes what a native tunnel puts in front of a packet (`format_odp_tnl_push_header` of Open
//! vSwitch).
//!
//! ```text
//!   header(size=50,type=4,eth(dst=..,src=..,dl_type=0x0800),ipv4(src=1.1.2.88,dst=1.1.2.92,
//!   proto=17,tos=0,ttl=64,frag=0x4000),udp(src=0,dst=4789,csum=0x0),
//!   vxlan(flags=0x8000000,vni=0x7b))
//! ```

use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

use thalweg_packet::wire::{EtherType, EthernetView};
use thalweg_tunnel::{OuterHeader, TunnelType};

use super::format::hexadecimal;

/// Bits of GRE's flags: a checksum, a key, a sequence number follow.
const GRE_OPTIONS: [(u16, &str); 3] = [(0x8000, "csum"), (0x2000, "key"), (0x1000, "seq")];

/// Writes the headers of a tunnel of this type, which are those of a frame.
pub fn push_header_text(header: &OuterHeader, tunnel_type: TunnelType) -> String {
    let bytes = header.bytes();
    let is_ipv6 = short(bytes, 12) == EtherType::IPV6.0;
    let number = number(tunnel_type, is_ipv6);
    let mut text = format!("header(size={},type={number},", bytes.len());
    if let Ok(ethernet) = EthernetView::new_checked(bytes) {
        let ether_type = ethernet.ether_type();
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "eth(dst={},src={},dl_type={:#06x}),",
            ethernet.destination(),
            ethernet.source(),
            ether_type.0
        );
        text += &network(ether_type, &bytes[EthernetView::HEADER_LEN..]);
    }
    let tunnel = &bytes[header.tunnel_offset()..];
    if let Some(start) = header.tunnel_offset().checked_sub(8)
        && tunnel_type.default_port().is_some()
    {
        let udp = &bytes[start..];
        let (from, to, sum) = (short(udp, 0), short(udp, 2), short(udp, 6));
        let _ = write!(text, "udp(src={from},dst={to},csum={sum:#x}),");
    }
    text += &match tunnel_type {
        TunnelType::Vxlan => {
            let (flags, vni) = (word(tunnel, 0), word(tunnel, 4) >> 8);
            format!("vxlan(flags={flags:#x},vni={vni:#x})")
        }
        TunnelType::Geneve => geneve(tunnel),
        TunnelType::Gre | TunnelType::Ip6Gre => gre(tunnel),
        TunnelType::Erspan | TunnelType::Ip6Erspan => erspan(tunnel),
        TunnelType::Gtpu => {
            let (flags, message) = (byte(tunnel, 0), byte(tunnel, 1));
            let endpoint = word(tunnel, 4);
            format!("gtpu(flags={flags:#x},msgtype={message},teid={endpoint:#x})")
        }
    };
    text.push(')');
    text
}

/// The number of a type of tunnel in Open vSwitch's datapaths (`OVS_VPORT_TYPE_*`).
fn number(tunnel_type: TunnelType, is_ipv6: bool) -> u32 {
    match (tunnel_type, is_ipv6) {
        (TunnelType::Gre | TunnelType::Ip6Gre, false) => 3,
        (TunnelType::Vxlan, _) => 4,
        (TunnelType::Geneve, _) => 5,
        (TunnelType::Erspan | TunnelType::Ip6Erspan, false) => 107,
        (TunnelType::Erspan | TunnelType::Ip6Erspan, true) => 108,
        (TunnelType::Gre | TunnelType::Ip6Gre, true) => 109,
        (TunnelType::Gtpu, _) => 110,
    }
}

fn network(ether_type: EtherType, bytes: &[u8]) -> String {
    if ether_type == EtherType::IPV4 {
        // Its lengths are not written yet.
        return format!(
            "ipv4(src={},dst={},proto={},tos={},ttl={},frag={:#x}),",
            Ipv4Addr::from(word(bytes, 12)),
            Ipv4Addr::from(word(bytes, 16)),
            byte(bytes, 9),
            hexadecimal(byte(bytes, 1).into()),
            byte(bytes, 8),
            short(bytes, 6),
        );
    }
    let start = word(bytes, 0);
    let address = |at: usize| {
        let words = [0, 4, 8, 12].map(|word_at| u128::from(word(bytes, at + word_at)));
        Ipv6Addr::from(words.into_iter().fold(0, |bits, word| bits << 32 | word))
    };
    format!(
        "ipv6(src={},dst={},label={},proto={},tclass={:#x},hlimit={}),",
        address(8),
        address(24),
        start & 0xf_ffff,
        byte(bytes, 6),
        start >> 20 & 0xff,
        byte(bytes, 7),
    )
}

fn geneve(bytes: &[u8]) -> String {
    let flags = byte(bytes, 1);
    let mut text = String::from("geneve(");
    for (bit, name) in [(0x80, "oam,"), (0x40, "crit,")] {
        text.push_str(if flags & bit != 0 { name } else { "" });
    }
    let _ = write!(text, "vni={:#x}", word(bytes, 4) >> 8);
    let mut rest = bytes.get(8..).unwrap_or_default();
    if !rest.is_empty() {
        text.push_str(",options(");
        while rest.len() >= 4 {
            let len = usize::from(byte(rest, 3) & 0x1f) * 4;
            let kind = hexadecimal(byte(rest, 2).into());
            let _ = write!(text, "{{class={:#x},type={kind},len={len}", short(rest, 0));
            let data = rest.get(4..4 + len).unwrap_or_default();
            if !data.is_empty() {
                let digits: String = data.iter().map(|byte| format!("{byte:02x}")).collect();
                let digits = digits.trim_start_matches('0');
                let _ = write!(text, ",0x{}", if digits.is_empty() { "0" } else { digits });
            }
            text.push('}');
            rest = rest.get(4 + len..).unwrap_or_default();
        }
        text.push(')');
    }
    text.push(')');
    text
}

fn gre(bytes: &[u8]) -> String {
    let flags = short(bytes, 0);
    let mut text = format!("gre((flags={flags:#x},proto={:#x})", short(bytes, 2));
    let mut at = 4;
    for (bit, name) in GRE_OPTIONS {
        if flags & bit == 0 {
            continue;
        }
        let value = match name {
            "csum" => short(bytes, at).into(),
            _ => word(bytes, at),
        };
        let _ = write!(text, ",{name}={value:#x}");
        at += 4;
    }
    text.push(')');
    text
}

fn erspan(bytes: &[u8]) -> String {
    // A sequence number follows the four bytes of GRE.
    let session = short(bytes, 10) & 0x3ff;
    match byte(bytes, 8) >> 4 {
        1 => {
            let index = word(bytes, 12);
            format!("erspan(ver=1,sid={session:#x},idx={index:#x})")
        }
        _ => {
            let last = short(bytes, 18);
            let (direction, hardware) = (last >> 3 & 1, last >> 4 & 0x3f);
            format!("erspan(ver=2,sid={session:#x},dir={direction},hwid={hardware:#x})")
        }
    }
}

/// A byte; 0 behind the end.
fn byte(bytes: &[u8], at: usize) -> u8 {
    bytes.get(at).copied().unwrap_or_default()
}

fn short(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([byte(bytes, at), byte(bytes, at + 1)])
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from(short(bytes, at)) << 16 | u32::from(short(bytes, at + 2))
}
