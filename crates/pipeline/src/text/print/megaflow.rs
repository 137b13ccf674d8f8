//! Prints cache entries, in Open vSwitch's two spellings.

use thalweg_packet::standard as f;
use thalweg_packet::{FieldId, Layout, Source};

use super::datapath::Attributes;
use super::{PortSpelling, matches};
use crate::matching::Match;
use crate::text::shape::{
    ETHER_TYPE_IPV4, ETHER_TYPE_IPV6, Needs, PROTOCOL_ICMP, PROTOCOL_ICMPV6, PROTOCOL_SCTP,
    PROTOCOL_TCP, PROTOCOL_UDP, Shape,
};

/// A spelling for cache entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MegaflowStyle {
    /// Like the `Megaflow:` line of `ofproto/trace`: `recirc_id=0,eth,ip,in_port=1,...`.
    OpenFlow,
    /// Like `ovs-appctl dpctl/dump-flows`: `recirc_id(0),in_port(1),eth(src=...),...`.
    Datapath,
}

/// Prints a cache entry's key and mask, given in words of `layout`.
///
/// Presence bits are left out where the EtherType and the protocol in the key imply them: Open
/// vSwitch has no such bits.
pub fn print_megaflow(layout: &Layout, key: &[u64], mask: &[u64], style: MegaflowStyle) -> String {
    let (shown, shape) = shown(layout, key, mask);
    match style {
        MegaflowStyle::OpenFlow => openflow(&shown, PortSpelling::default()),
        MegaflowStyle::Datapath => Attributes::of(&shown, shape).flow(),
    }
}

/// Like [`print_megaflow`] in OpenFlow's spelling, with ports spelt in a way of the caller.
pub fn print_megaflow_with_ports(
    layout: &Layout,
    key: &[u64],
    mask: &[u64],
    ports: PortSpelling<'_>,
) -> String {
    openflow(&shown(layout, key, mask).0, ports)
}

/// The conditions to print, and the shape of the packets.
fn shown(layout: &Layout, key: &[u64], mask: &[u64]) -> (Match, Shape) {
    let all = Match::from_words(layout, key, mask);
    // Of entries, only the EtherType says which headers there are.
    let mut shape = Shape::default();
    for term in all.terms() {
        if term.field != f::PACKET_TYPE {
            shape.learn(term.field, term.value);
        }
    }
    let mut shown = Match::default();
    for term in all.terms() {
        let source = layout
            .catalogue()
            .get(term.field.index())
            .map(|field| &field.source);
        let is_implied = matches!(source, Some(Source::Presence(_)))
            && expected_presence(term.field, &shape) == Some(term.value != 0);
        if !is_implied {
            // Terms of one match do not contradict each other.
            let _ = shown.add(term.field, term.value, term.mask);
        }
    }
    (shown, shape)
}

/// Whether packets of this shape have a header, if the shape implies it.
fn expected_presence(field: FieldId, shape: &Shape) -> Option<bool> {
    let ether_type = shape.ether_type;
    if ether_type == 0 {
        return None;
    }
    let is_ip = matches!(ether_type, ETHER_TYPE_IPV4 | ETHER_TYPE_IPV6);
    let carries = |protocol: u8| match shape.protocol {
        _ if !is_ip => Some(false),
        0 => None,
        found => Some(found == protocol),
    };
    match field {
        f::PRESENT_ARP => Some(shape.is_arp()),
        f::PRESENT_IPV4 => Some(ether_type == ETHER_TYPE_IPV4),
        f::PRESENT_IPV6 | f::PRESENT_IPV6_CHAIN => Some(shape.is_ipv6()),
        f::PRESENT_MPLS => Some(shape.has(Needs::Mpls)),
        f::PRESENT_TCP => carries(PROTOCOL_TCP),
        f::PRESENT_UDP => carries(PROTOCOL_UDP),
        f::PRESENT_SCTP => carries(PROTOCOL_SCTP),
        f::PRESENT_ICMPV4 => carries(PROTOCOL_ICMP),
        f::PRESENT_ICMPV6 => carries(PROTOCOL_ICMPV6),
        _ => None,
    }
}

fn openflow(shown: &Match, ports: PortSpelling<'_>) -> String {
    let mut text = String::new();
    let mut shown = shown.clone();
    // Every entry in Open vSwitch matches the recirculation id.
    if shown.term(f::RECIRC_ID).is_none() {
        // The field occurs once.
        let _ = shown.add(f::RECIRC_ID, 0, u32::MAX.into());
    }
    // Writing to a string does not fail.
    let _ = matches::conditions(&mut text, &shown, "eth,", ports);
    text.truncate(text.trim_end_matches(',').len());
    text
}
