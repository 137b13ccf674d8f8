//! Writes datapath flows (`odp_flow_format` of Open vSwitch).
//!
//! An attribute is written if the mask has any bit of it, and a member of it in the same way.
//! The verbose form writes all of them, with masks of zero.
//!
//! 1. A flow that is written and read again is the same flow, but for IEEE 802.3 frames, whose
//!    lack of a type Open vSwitch writes and does not read, for whether it compares the priority,
//!    and for the flags of a tunnel, which the text alone has.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};

use thalweg_packet::{FieldId, PortId, standard as f};

use super::attribute::{
    ARP, Attribute, CONNECTION, CT_BITS, CT_TUPLE4, CT_TUPLE6, DISCOVERY, ERSPAN, ETHER_TYPE_IPV4,
    ETHER_TYPE_IPV6, ETHER_TYPE_NSH, ETHERNET, FRAGMENTS, GROUP_POLICY, GTPU, HASH, ICMP, ICMPV6,
    IPV4, IPV6, MARK, Member, NSH, SCTP, Spelling, TCP, TCP_FLAGS, TUNNEL, UDP, is_arp, is_mpls,
    is_neighbor_discovery, ones,
};
use super::field_bits::FieldBits;
use super::flow::DatapathFlow;
use super::options::{AskOption, write_geneve};

/// How much of a flow is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Extent {
    /// The compared bits.
    Compared,
    /// All, with masks.
    Whole,
    /// A packet's values, without masks.
    Packet,
}

/// Writes flows.
#[derive(Clone, Copy)]
pub struct FlowWriter<'a> {
    ports: &'a dyn Fn(PortId) -> String,
    options: AskOption<'a>,
    extent: Extent,
}

impl<'a> FlowWriter<'a> {
    /// Writes what the mask covers; `ports` gives a port's number in the datapath, or its name.
    pub fn new(ports: &'a dyn Fn(PortId) -> String) -> FlowWriter<'a> {
        FlowWriter {
            ports,
            options: &|_, _| None,
            extent: Extent::Compared,
        }
    }

    /// Writes options of Geneve too; `options` says which option a field is, where a packet came
    /// by this port.
    pub fn with_options(self, options: AskOption<'a>) -> FlowWriter<'a> {
        FlowWriter { options, ..self }
    }

    /// Writes a packet's values; the flow must be one that compares all.
    pub fn packet(self) -> FlowWriter<'a> {
        FlowWriter {
            extent: Extent::Packet,
            ..self
        }
    }

    /// Writes all that the flow's packets have, as `dpctl/dump-flows -m` does.
    pub fn verbose(self) -> FlowWriter<'a> {
        FlowWriter {
            extent: Extent::Whole,
            ..self
        }
    }

    /// Writes a flow.
    pub fn write(&self, flow: &DatapathFlow) -> String {
        let mut attributes = Attributes {
            flow,
            extent: self.extent,
            is_verbose: self.extent == Extent::Whole,
            text: String::new(),
        };
        attributes.metadata(self.ports, self.options);
        attributes.link();
        attributes.text
    }
}

/// The state of a packet that no connection tracking has seen, as a flow compares it.
const NO_CONNECTION: &str = "-new-est-rel-rpl-inv-trk-snat-dnat";

/// The attributes of a flow, being written.
struct Attributes<'a> {
    flow: &'a DatapathFlow,
    extent: Extent,
    /// Whether all is written.
    is_verbose: bool,
    text: String,
}

impl Attributes<'_> {
    fn push(&mut self, name: &str, inside: impl std::fmt::Display) {
        if !self.text.is_empty() && !self.text.ends_with('(') {
            self.text.push(',');
        }
        // Writing to a string does not fail, here and below.
        let _ = write!(self.text, "{name}({inside})");
    }

    /// Writes attributes that no key here has: they are zero in every packet. Only a flow that
    /// compares all compares them.
    fn fieldless(&mut self, names: &[&str]) {
        for name in names {
            let inside = match (self.flow.is_exact, self.extent) {
                (true, Extent::Whole) if *name == "ct_state" => "0/0xff",
                (true, Extent::Compared) if *name == "ct_state" => NO_CONNECTION,
                (true, _) => "0",
                (false, Extent::Compared) => continue,
                (false, _) => "0/0",
            };
            self.push(name, inside);
        }
    }

    fn attribute(&mut self, attribute: &Attribute) {
        let (key, mask) = (&self.flow.key, &self.flow.mask);
        let inside = members(attribute.members, key, mask, self.is_verbose);
        if !inside.is_empty() {
            self.push(attribute.name, inside);
        }
    }

    fn metadata(&mut self, ports: &dyn Fn(PortId) -> String, options: AskOption<'_>) {
        let (key, mask) = (&self.flow.key, &self.flow.mask);
        match self.flow.compares_queue {
            true => self.push("skb_priority", 0),
            false => self.fieldless(&["skb_priority"]),
        }
        let addresses = [f::TUN_SRC, f::TUN_DST, f::TUN_IPV6_SRC, f::TUN_IPV6_DST];
        if addresses.iter().any(|address| key.get(*address) != 0) {
            let inside = self.tunnel(options);
            self.push("tunnel", inside);
        }
        self.number(MARK);
        self.connection();
        if self.is_verbose || mask.get(f::RECIRC_ID) != 0 {
            self.push("recirc_id", hexadecimal(key.get(f::RECIRC_ID)));
        }
        self.number(HASH);
        match mask.get(f::IN_PORT) {
            0 if !self.is_verbose => {}
            mask => {
                let mut inside = ports(PortId(key.get(f::IN_PORT) as u32));
                push_mask(&mut inside, mask, 32);
                self.push("in_port", inside);
            }
        }
        let packet_type = self.flow.key.get(f::PACKET_TYPE) as u32;
        let (namespace, kind) = (
            packet_type >> 16,
            hexadecimal(u128::from(packet_type as u16)),
        );
        self.push("packet_type", format_args!("ns={namespace},id={kind}"));
    }

    /// The inside of `tunnel(...)`.
    fn tunnel(&self, options: AskOption<'_>) -> String {
        let (key, mask) = (&self.flow.key, &self.flow.mask);
        // The addresses of the other version of IP, and zeros, are left out.
        let is_said = |member: &&Member| member.part.get(key) | member.part.get(mask) != 0;
        let said = |attribute: &Attribute| {
            let said: Vec<Member> = attribute.members.iter().filter(is_said).copied().collect();
            members(&said, key, mask, self.is_verbose)
        };
        let in_port = PortId(key.get(f::IN_PORT) as u32);
        let geneve = write_geneve(key, mask, &|field| options(in_port, field));
        let mut parts = vec![said(&TUNNEL)];
        let special = [
            ("vxlan(gbp(", said(&GROUP_POLICY), "))"),
            ("geneve(", geneve, ")"),
            ("erspan(", said(&ERSPAN), ")"),
            ("gtpu(", said(&GTPU), ")"),
        ];
        let special = special.iter().filter(|(_, inside, _)| !inside.is_empty());
        parts.extend(special.map(|(before, inside, behind)| format!("{before}{inside}{behind}")));
        let oam = match (mask.get(f::TUN_FLAGS), key.get(f::TUN_FLAGS)) {
            (0, _) => "",
            (_, 0) => "-oam",
            _ => "+oam",
        };
        let id = if mask.get(f::TUN_ID) == 0 { "" } else { "+key" };
        if !oam.is_empty() || !id.is_empty() {
            parts.push(format!("flags({oam}{id})"));
        }
        parts.retain(|part| !part.is_empty());
        parts.join(",")
    }

    /// Writes a number that the packet has beside its bytes.
    fn number(&mut self, (name, field, width): (&str, FieldId, u16)) {
        let (value, bits) = (self.flow.key.get(field), self.flow.mask.get(field));
        if value == 0 && (bits == 0 || self.flow.is_exact) {
            return self.fieldless(&[name]);
        }
        let is_state = field == f::CT_STATE;
        let mut text = match (self.extent, is_state) {
            (Extent::Compared, true) => ct_state(value, bits),
            _ => hexadecimal(value),
        };
        match self.extent {
            Extent::Packet => {}
            Extent::Compared if is_state || bits == ones(width) => {}
            Extent::Compared if bits == 0 => return,
            Extent::Whole if !is_state && bits == ones(width) => {}
            _ => {
                let _ = write!(text, "/{}", hexadecimal(bits));
            }
        }
        self.push(name, text);
    }

    /// Writes what a tracker said.
    fn connection(&mut self) {
        CONNECTION.into_iter().for_each(|known| self.number(known));
        let key = &self.flow.key;
        let tuple = match key.get(f::CT_IPV6_SRC) | key.get(f::CT_IPV6_DST) {
            0 => &CT_TUPLE4,
            _ => &CT_TUPLE6,
        };
        if key.get(f::CT_NW_PROTO) != 0 {
            self.attribute(tuple);
        }
    }

    fn link(&mut self) {
        if self.flow.key.get(f::PACKET_TYPE) == 0 {
            self.attribute(&ETHERNET);
        }
        let (key, mask) = (&self.flow.key, &self.flow.mask);
        let mut tags = 0;
        for (field, tag_type) in [f::VLAN_TCI, f::VLAN_TCI_INNER]
            .into_iter()
            .zip(self.flow.tag_types)
        {
            let tag = key.short(field);
            if tag & f::VLAN_PRESENT == 0 {
                break;
            }
            let tag_type = if tag_type == 0 { 0x8100 } else { tag_type };
            self.push("eth_type", format_args!("{tag_type:#06x}"));
            let tag_mask = mask.short(field);
            if self.is_verbose || tag_mask != 0 {
                self.push("vlan", tag_members(tag, tag_mask, self.is_verbose));
            }
            self.text.push_str(",encap(");
            tags += 1;
        }
        let (ether_type, type_mask) = (key.short(f::ETH_TYPE), mask.short(f::ETH_TYPE));
        if ether_type >= 0x0600 {
            self.ether_type(ether_type, type_mask);
            self.network(ether_type);
        } else if type_mask != 0 {
            // There is no type, and that is compared.
            self.push("eth_type", format_args!("0/{type_mask:#06x}"));
        }
        self.text.push_str(&")".repeat(tags));
    }

    fn ether_type(&mut self, value: u16, mask: u16) {
        match mask {
            0xffff => self.push("eth_type", format_args!("{value:#06x}")),
            0 if !self.is_verbose => {}
            _ => self.push("eth_type", format_args!("{value:#06x}/{mask:#06x}")),
        }
    }

    fn network(&mut self, ether_type: u16) {
        match ether_type {
            ETHER_TYPE_IPV4 => self.attribute(&IPV4),
            ETHER_TYPE_IPV6 => self.attribute(&IPV6),
            ETHER_TYPE_NSH => self.attribute(&NSH),
            _ if is_arp(ether_type) => self.attribute(&ARP),
            _ if is_mpls(ether_type) => self.labels(),
            _ => {}
        }
        let key = &self.flow.key;
        let is_ip = matches!(ether_type, ETHER_TYPE_IPV4 | ETHER_TYPE_IPV6);
        if !is_ip || key.is_later_fragment() {
            return;
        }
        match (key.short(f::IP_PROTO), ether_type) {
            (6, _) => {
                self.attribute(&TCP);
                self.tcp_flags();
            }
            (17, _) => self.attribute(&UDP),
            (132, _) => self.attribute(&SCTP),
            (1, ETHER_TYPE_IPV4) => self.attribute(&ICMP),
            (58, ETHER_TYPE_IPV6) => {
                self.attribute(&ICMPV6);
                let mask = &self.flow.mask;
                let is_exact = [f::ICMP_TYPE, f::ICMP_CODE].map(|field| mask.get(field) == 0xff);
                if is_neighbor_discovery(key) && is_exact == [true, true] {
                    self.attribute(&DISCOVERY);
                }
            }
            _ => {}
        }
    }

    fn tcp_flags(&mut self) {
        let value = self.flow.key.get(f::TCP_FLAGS);
        match self.flow.mask.get(f::TCP_FLAGS) {
            0 if !self.is_verbose || value == 0 => {}
            mask => self.push("tcp_flags", tcp_flags(value, mask)),
        }
    }

    fn labels(&mut self) {
        let (entries, masks) = (self.flow.key.labels(), self.flow.mask.labels());
        let count = label_count(&entries);
        let masks = &masks[..count];
        if !self.is_verbose && masks.iter().all(|mask| *mask == 0) {
            return;
        }
        let is_exact = masks.iter().all(|mask| *mask == u32::MAX);
        let texts = entries
            .iter()
            .zip(masks)
            .map(|(entry, mask)| match is_exact {
                true => label(*entry),
                false => masked_label(*entry, *mask),
            });
        let texts: Vec<String> = texts.collect();
        self.push("mpls", texts.join(","));
    }
}

/// The number of entries of a label stack, of which at most three are known.
pub(super) fn label_count(entries: &[u32; 3]) -> usize {
    let bottom = entries.iter().position(|entry| entry & 1 << 8 != 0);
    bottom.map_or(entries.len(), |bottom| bottom + 1)
}

/// Writes a label stack entry.
pub(super) fn label(entry: u32) -> String {
    let (label, class) = (entry >> 12, entry >> 9 & 7);
    let (ttl, bottom) = (entry & 0xff, entry >> 8 & 1);
    format!("label={label},tc={class},ttl={ttl},bos={bottom}")
}

/// Writes a label stack entry with its mask.
pub(super) fn masked_label(entry: u32, mask: u32) -> String {
    let parts = |entry: u32| (entry >> 12, entry >> 9 & 7, entry & 0xff, entry >> 8 & 1);
    let (label, class, ttl, bottom) = parts(entry);
    let (label_mask, class_mask, ttl_mask, bottom_mask) = parts(mask);
    // Two of the masks have no prefix in Open vSwitch either.
    format!(
        "label={label}/{label_mask:#x},tc={class}/{class_mask:x},ttl={ttl}/{ttl_mask:#x},\
         bos={bottom}/{bottom_mask:x}"
    )
}

/// Writes the members of a tag, of those that are compared or not zero.
pub(super) fn tag_members(tag: u16, mask: u16, is_verbose: bool) -> String {
    let mut parts = Vec::new();
    for (name, shift, whole) in [("vid", 0, 0x0fff), ("pcp", 13, 7)] {
        let (value, mask) = (tag >> shift & whole, mask >> shift & whole);
        if !is_verbose && value == 0 && mask == 0 {
            continue;
        }
        parts.push(match mask == whole {
            true => format!("{name}={value}"),
            false => format!("{name}={value}/{mask:#x}"),
        });
    }
    if tag & f::VLAN_PRESENT == 0 {
        parts.push("cfi=0".to_owned());
    }
    parts.join(",")
}

/// Writes the members of which the mask has bits, or all.
pub(super) fn members(
    members: &[Member],
    key: &FieldBits,
    mask: &FieldBits,
    is_verbose: bool,
) -> String {
    let is_compared = |member: &Member| member.part.get(mask) != 0;
    if !is_verbose && !members.iter().any(is_compared) {
        return String::new();
    }
    let mut texts = Vec::new();
    for member in members {
        let (value, mask) = (member.part.get(key), member.part.get(mask));
        // A kind of fragment is a word, of which there are no bits.
        let is_shown = mask != 0 || is_verbose && member.spelling != Spelling::Fragment;
        if is_shown {
            texts.push(format!(
                "{}={}",
                member.name,
                member_value(member, value, mask)
            ));
        }
    }
    texts.join(",")
}

fn member_value(member: &Member, value: u128, mask: u128) -> String {
    let width = member.part.width_bits();
    let address = |address: u128| match member.spelling {
        Spelling::Ethernet => ethernet(address),
        Spelling::Ipv4 => Ipv4Addr::from(address as u32).to_string(),
        _ => ipv6(address),
    };
    match member.spelling {
        Spelling::Ethernet | Spelling::Ipv4 | Spelling::Ipv6 => match mask == ones(width) {
            true => address(value),
            false => format!("{}/{}", address(value), address(mask)),
        },
        Spelling::Fragment => {
            let kind = FRAGMENTS.iter().find(|kind| kind.1 == value);
            kind.map_or("later", |kind| kind.0).to_owned()
        }
        Spelling::Decimal | Spelling::Hexadecimal | Spelling::Prefixed => {
            let mut text = match member.spelling {
                Spelling::Decimal => value.to_string(),
                Spelling::Hexadecimal => hexadecimal(value),
                _ => format!("{value:#x}"),
            };
            push_mask(&mut text, mask, width);
            text
        }
    }
}

fn push_mask(text: &mut String, mask: u128, width_bits: u16) {
    if mask != ones(width_bits) {
        let _ = write!(text, "/{}", hexadecimal(mask));
    }
}

/// The bits of a connection's state that are compared.
fn ct_state(value: u128, mask: u128) -> String {
    let bits = CT_BITS.iter().enumerate();
    let compared = bits.filter(|(bit, _)| mask >> bit & 1 == 1);
    let text = compared.map(|(bit, name)| match value >> bit & 1 {
        0 => format!("-{name}"),
        _ => format!("+{name}"),
    });
    text.collect()
}

/// A number like C's `%#x`: zero has no prefix.
pub(super) fn hexadecimal(number: u128) -> String {
    match number {
        0 => "0".to_owned(),
        _ => format!("{number:#x}"),
    }
}

fn ethernet(address: u128) -> String {
    let bytes = (address as u64).to_be_bytes();
    bytes[2..]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect::<Vec<_>>()
        .join(":")
}

/// An address as `inet_ntop` of the C library writes it: the last 32 bits behind zeros are an
/// IPv4 address, unless they are below 65,536.
fn ipv6(address: u128) -> String {
    match u32::try_from(address) {
        Ok(last) if last > 0xffff => format!("::{}", Ipv4Addr::from(last)),
        _ => Ipv6Addr::from(address).to_string(),
    }
}

fn tcp_flags(value: u128, mask: u128) -> String {
    let flags = TCP_FLAGS.iter().enumerate();
    match mask {
        0 => "0/0".to_owned(),
        _ if mask == ones(12) && value == 0 => "0".to_owned(),
        _ if mask == ones(12) => {
            let set = flags.filter(|(bit, _)| value >> bit & 1 == 1);
            set.map(|(_, name)| *name).collect::<Vec<_>>().join("|")
        }
        _ => {
            let compared = flags.filter(|(bit, _)| mask >> bit & 1 == 1);
            let signed = compared.map(|(bit, name)| {
                let sign = if value >> bit & 1 == 1 { '+' } else { '-' };
                format!("{sign}{name}")
            });
            signed.collect()
        }
    }
}
