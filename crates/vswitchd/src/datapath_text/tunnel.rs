//! Writes the values of a tunnel's outer headers as Open vSwitch does (`format_odp_tunnel`).
//!
//! ```text
//!   set(tunnel(tun_id=0x5,src=2.2.2.2,dst=1.1.1.1,ttl=64,flags(df|key))),1
//! ```

use std::fmt::Write;
use std::net::IpAddr;

use thalweg_packet::wire::{IpProtocol, MacAddress};
use thalweg_packet::{PortId, TunnelValues};
use thalweg_tunnel::{InnerIp, TunnelFlags, TunnelMetadata};

use super::format::hexadecimal;

/// What a port does with the values of a packet's tunnel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TunnelOutput {
    /// Nothing: it is no tunnel.
    Untouched,
    /// It drops the packet.
    Dropped,
    /// A native tunnel puts headers in front of the packet, and a bridge forwards the frame.
    Pushed {
        /// The action that does it.
        push: String,
        /// What the bridge does with the frame; empty for nothing.
        then: String,
        /// Whether it takes Ethernet off first.
        is_layer3: bool,
        /// The mark that the packet gets there.
        mark: Option<u32>,
    },
    /// A native tunnel takes its headers off the packet, which goes to this port of the datapath.
    Popped(u32),
    /// It sends the packet.
    Sent {
        /// The values of the outer headers.
        values: Box<TunnelMetadata>,
        /// Whether it takes Ethernet off first.
        is_layer3: bool,
    },
}

/// Asks what a port does with a packet of these values and this IP header.
pub type AskTunnel<'a> = &'a dyn Fn(PortId, &TunnelValues, Leaving) -> TunnelOutput;

/// What a packet has in front when it leaves by a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Leaving {
    /// What its IP header says, if it has one.
    pub inner: Option<InnerIp>,
    /// Its EtherType.
    pub ether_type: u16,
    /// Where it goes, if it is a whole packet of IP without tags.
    pub target: Option<OuterTarget>,
}

/// Where a packet of IP goes, by which a bridge's own port knows packets of native tunnels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OuterTarget {
    /// The Ethernet address.
    pub mac: MacAddress,
    /// The address of IP.
    pub address: IpAddr,
    /// The protocol.
    pub protocol: IpProtocol,
    /// The port, of UDP and others.
    pub port: u16,
}

/// Answers for a switch without tunnels.
pub fn no_tunnels(_: PortId, _: &TunnelValues, _: Leaving) -> TunnelOutput {
    TunnelOutput::Untouched
}

/// Writes the values, without the name of the attribute.
pub(super) fn tunnel_values(values: &TunnelMetadata) -> String {
    let mut parts = Vec::new();
    if values.flags.has(TunnelFlags::KEY) {
        parts.push(format!("tun_id={}", hexadecimal(values.id.into())));
    }
    let endpoints = values.endpoints;
    for (name, address) in [
        ("src", endpoints.source()),
        ("dst", endpoints.destination()),
    ] {
        match address {
            address if address.is_unspecified() => {}
            IpAddr::V4(address) => parts.push(format!("{name}={address}")),
            IpAddr::V6(address) => parts.push(format!("ipv6_{name}={address}")),
        }
    }
    if values.tos != 0 {
        parts.push(format!("tos={:#x}", values.tos));
    }
    parts.push(format!("ttl={}", values.ttl));
    if values.destination_port != 0 {
        parts.push(format!("tp_dst={}", values.destination_port));
    }
    parts.extend(of_kind(values));
    parts.push(flags(values.flags));
    parts.join(",")
}

/// The values that one kind of tunnel has.
fn of_kind(values: &TunnelMetadata) -> Option<String> {
    let (group, erspan, gtpu) = (values.group_policy, values.erspan, values.gtpu);
    let options = values.options.iter().map(|option| {
        let mut text = format!(
            "{{class={:#x},type={:#x},len={}",
            option.class,
            option.kind,
            option.data.len()
        );
        if !option.data.is_empty() {
            text.push_str(",0x");
            let digits: String = option
                .data
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect();
            let digits = digits.trim_start_matches('0');
            text.push_str(if digits.is_empty() { "0" } else { digits });
        }
        text.push('}');
        text
    });
    let options: String = options.collect();
    if !options.is_empty() {
        return Some(format!(
            "geneve({})",
            options.replace("type=0x0,", "type=0,")
        ));
    }
    if (group.id, group.flags) != (0, 0) {
        return Some(format!(
            "vxlan(gbp(id={},flags={:#x}))",
            group.id, group.flags
        ));
    }
    if (gtpu.flags, gtpu.message) != (0, 0) {
        return Some(format!(
            "gtpu(flags={:#x},msgtype={})",
            gtpu.flags, gtpu.message
        ));
    }
    match erspan.version {
        1 => Some(format!("erspan(ver=1,idx={:#x})", erspan.index)),
        2 => {
            let (direction, hardware) = (erspan.direction, erspan.hardware_id);
            Some(format!("erspan(ver=2,dir={direction},hwid={hardware:#x})"))
        }
        _ => None,
    }
}

/// The flags by their names.
fn flags(flags: TunnelFlags) -> String {
    let names = [
        (TunnelFlags::DONT_FRAGMENT, "df"),
        (TunnelFlags::CHECKSUM, "csum"),
        (TunnelFlags::KEY, "key"),
        (TunnelFlags::OAM, "oam"),
    ];
    let mut text = String::from("flags(");
    let set = names.iter().filter(|(flag, _)| flags.has(*flag));
    let set: Vec<&str> = set.map(|(_, name)| *name).collect();
    let _ = write!(text, "{})", set.join("|"));
    text
}
