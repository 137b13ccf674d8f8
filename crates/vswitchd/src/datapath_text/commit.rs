//! Changes of a packet's headers, as datapath actions (`commit_odp_actions` of Open vSwitch).
//!
//! A walk changes fields one by one. Open vSwitch writes datapath actions for what differs when
//! the packet is about to leave, header by header. What a walk has changed back by then, or
//! set to the value that it had, is not written.
//!
//! ```text
//!   base: the packet that the actions so far have made
//!   flow: the packet as the walk has it
//!   commit: actions that make base into flow; then base = flow
//! ```

use std::net::{Ipv4Addr, Ipv6Addr};

use thalweg_packet::wire::{IpProtocol, MacAddress};
use thalweg_packet::{FieldId, TUNNEL_OPTIONS, TunnelValues, standard as f};
use thalweg_tunnel::InnerIp;

use super::attribute::{
    ARP, Attribute, DISCOVERY, ETHER_TYPE_IPV4, ETHER_TYPE_IPV6, ETHER_TYPE_NSH, ETHERNET, ICMP,
    ICMPV6, IPV4, IPV6, Member, NSH, Part, SCTP, TCP, UDP, is_arp, is_mpls, is_neighbor_discovery,
    ones,
};
use super::field_bits::FieldBits;
use super::flow::DatapathFlow;
use super::format::{hexadecimal, label, label_count, masked_label, members, tag_members};
use super::front::{ETHER_TYPES, Front};
use super::tunnel::{Leaving, OuterTarget};

/// The fields of tags that a packet came with, outermost first.
const TAG_FIELDS: [FieldId; 2] = [f::VLAN_TCI, f::VLAN_TCI_INNER];

/// Fields of IP whose header a write finds by the protocol.
const INTERNET: [FieldId; 8] = [
    f::IP_SRC,
    f::IP_DST,
    f::IPV6_SRC,
    f::IPV6_DST,
    f::IPV6_LABEL,
    f::IP_DSCP,
    f::IP_ECN,
    f::IP_TTL,
];

/// Attributes that no datapath of Open vSwitch writes.
const SLOW: [&str; 4] = [ARP.name, ICMP.name, ICMPV6.name, DISCOVERY.name];

/// A tag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Tag {
    tag_type: u16,
    /// With the bit that says that it is there.
    bits: u16,
}

/// A label stack entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Label {
    pub(super) entry: u32,
    /// Which bits of it are known.
    pub(super) known: u32,
}

impl std::fmt::Display for Label {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&match self.known {
            u32::MAX => label(self.entry),
            known => masked_label(self.entry, known),
        })
    }
}

/// A packet's headers.
#[derive(Clone, Debug)]
pub(super) struct Packet {
    pub(super) values: FieldBits,
    /// The bits of `values` that are known.
    pub(super) known: FieldBits,
    /// Outermost first.
    pub(super) tags: Vec<Tag>,
    /// Outermost first.
    pub(super) labels: Vec<Label>,
    pub(super) ether_type: u16,
    /// 0 for Ethernet, else namespace 1 and an EtherType.
    pub(super) packet_type: u32,
    /// 0 for none.
    pub(super) queue: u32,
}

impl Packet {
    fn of(flow: &DatapathFlow) -> Packet {
        let mut known = FieldBits::default();
        for (index, field) in f::fields().iter().enumerate() {
            let id = FieldId(index as u16);
            if flow.knows(id) {
                known.set(id, ones(field.width_bits));
            }
        }
        let ether_type = flow.key.short(f::ETH_TYPE);
        let tags = TAG_FIELDS.into_iter().zip(flow.tag_types);
        let tags = tags.map(|(field, tag_type)| Tag {
            tag_type: if tag_type == 0 { 0x8100 } else { tag_type },
            bits: flow.key.short(field),
        });
        let (entries, masks) = (flow.key.labels(), known.labels());
        let labels = entries.iter().zip(masks);
        let labels = labels.map(|(&entry, known)| Label { entry, known });
        let count = if is_mpls(ether_type) {
            label_count(&entries)
        } else {
            0
        };
        let labels = labels.take(count).collect();
        Packet {
            values: flow.key.clone(),
            known,
            tags: tags
                .take_while(|tag| tag.bits & f::VLAN_PRESENT != 0)
                .collect(),
            labels,
            ether_type,
            packet_type: flow.key.get(f::PACKET_TYPE) as u32,
            queue: 0,
        }
    }

    /// The values of the tunnel that the packet is from or goes into.
    pub(super) fn tunnel(&self) -> TunnelValues {
        self.values.tunnel()
    }

    /// What the packet's IP header says, if it has one.
    pub(super) fn inner_ip(&self) -> Option<InnerIp> {
        let value = |field| self.values.get(field) as u8;
        self.is_ip().then(|| InnerIp {
            tos: value(f::IP_DSCP) << 2 | value(f::IP_ECN),
            ttl: value(f::IP_TTL),
        })
    }

    /// What it has in front.
    pub(super) fn leaving(&self) -> Leaving {
        Leaving {
            inner: self.inner_ip(),
            ether_type: self.ether_type,
            target: self.target(),
        }
    }

    fn target(&self) -> Option<OuterTarget> {
        let get = |field| self.values.get(field);
        let address = match self.ether_type {
            ETHER_TYPE_IPV4 => Ipv4Addr::from(get(f::IP_DST) as u32).into(),
            ETHER_TYPE_IPV6 => Ipv6Addr::from(get(f::IPV6_DST)).into(),
            _ => return None,
        };
        let is_plain = self.tags.is_empty() && self.packet_type == 0 && get(f::IP_FRAG) == 0;
        is_plain.then(|| OuterTarget {
            mac: MacAddress::from_u64(get(f::ETH_DST) as u64),
            address,
            protocol: IpProtocol(get(f::IP_PROTO) as u8),
            port: self.values.short(f::TP_DST),
        })
    }

    /// Whether all these bits of a field are known.
    pub(super) fn knows(&self, field: FieldId, mask: u128) -> bool {
        self.known.get(field) & mask == mask
    }

    fn is_ip(&self) -> bool {
        matches!(self.ether_type, ETHER_TYPE_IPV4 | ETHER_TYPE_IPV6)
    }
}

/// The actions of a list, being written.
#[derive(Clone, Debug)]
pub(super) struct Commit {
    pub(super) base: Packet,
    pub(super) flow: Packet,
    /// The bits that the walk has compared, and those that Open vSwitch compares because of
    /// the actions so far.
    pub(super) examined: FieldBits,
    /// The tags and the labels that the packet came with.
    came_with: (usize, usize),
    /// Whether a change is one that Open vSwitch makes by a detour through its control side.
    pub(super) is_slow: bool,
    /// Whether the packet goes into a tunnel.
    pub(super) enters_tunnel: bool,
    /// Whether a label is put in front of a packet's type, or taken off.
    pub(super) uses_labels_in_front: bool,
    pub(super) texts: Vec<String>,
    /// The values of outer headers that were written last.
    tunnel: String,
    /// The header that was put in front last, if its action is not written yet.
    pub(super) pending: Option<Front>,
}

/// The walk's changes of `flow`.
impl Commit {
    pub(super) fn new(flow: &DatapathFlow) -> Commit {
        let packet = Packet::of(flow);
        Commit {
            came_with: (packet.tags.len(), packet.labels.len()),
            is_slow: false,
            enters_tunnel: false,
            uses_labels_in_front: false,
            base: packet.clone(),
            flow: packet,
            examined: flow.mask.clone(),
            texts: Vec::new(),
            tunnel: String::new(),
            pending: None,
        }
    }

    pub(super) fn set(&mut self, field: FieldId, value: u128, mask: u128) {
        let merged = |old: u128| old & !mask | value & mask;
        if let (f::VLAN_TCI, Some(tag)) = (field, self.flow.tags.first_mut()) {
            tag.bits = merged(tag.bits.into()) as u16 | f::VLAN_PRESENT;
            self.examine_tags(0..1, mask | u128::from(f::VLAN_PRESENT));
            return;
        }
        self.examine(field, mask);
        if let (Some(shift), Some(label)) = (shift_of(field), self.flow.labels.first_mut()) {
            let written = (mask as u32) << shift;
            label.entry = label.entry & !written | (value as u32) << shift & written;
            label.known |= written;
            return;
        }
        // What the header is depends on this.
        match field {
            f::ARP_OP | f::ARP_SPA | f::ARP_TPA | f::ARP_SHA | f::ARP_THA => {
                self.examine(f::ARP_OP, ones(16));
            }
            _ if INTERNET.contains(&field) => self.examine(f::IP_PROTO, ones(8)),
            _ => {}
        }
        let flow = &mut self.flow;
        if let Some(number) = f::tunnel_option_of(field) {
            let present = flow.values.get(f::TUN_OPTIONS) | 1 << number;
            flow.values.set(f::TUN_OPTIONS, present);
        }
        if field == f::TUN_OPTIONS {
            let gone = (0..TUNNEL_OPTIONS).filter(|number| (mask & !value) >> number & 1 == 1);
            gone.for_each(|number| flow.values.set(f::tunnel_option_field(number), 0));
        }
        flow.values.set(field, merged(flow.values.get(field)));
        flow.known.set(field, flow.known.get(field) | mask);
    }

    /// Has the packet these values of outer headers.
    pub(super) fn set_tunnel(&mut self, values: String) {
        self.enters_tunnel = true;
        if self.base.is_ip() {
            // What a tunnel says of congestion is what the packet says.
            self.examine(f::IP_ECN, 3);
        }
        if self.tunnel != values {
            self.texts.push(format!("set(tunnel({values}))"));
            self.tunnel = values;
        }
    }

    /// The packet goes on without the values of its tunnel.
    pub(super) fn leave_tunnel(&mut self) {
        for field in (f::TUN_ID.0..=f::TUN_METADATA63.0).map(FieldId) {
            self.flow.values.set(field, 0);
            self.flow.known.set(field, u128::MAX);
        }
    }

    fn examine(&mut self, field: FieldId, mask: u128) {
        let is_label = shift_of(field).is_some() || matches!(field, f::MPLS_LSE1 | f::MPLS_LSE2);
        if !is_label || self.came_with.1 > 0 {
            self.examined.set(field, self.examined.get(field) | mask);
        }
    }

    /// Examines tags by their places, as far as the packet came with tags there.
    fn examine_tags(&mut self, places: std::ops::Range<usize>, mask: u128) {
        let there = TAG_FIELDS.into_iter().enumerate().take(self.came_with.0);
        for (_, field) in there.filter(|(place, _)| places.contains(place)) {
            self.examine(field, mask);
        }
    }

    /// Examines whole labels by their places.
    fn examine_labels(&mut self, places: std::ops::Range<usize>) {
        for place in places.start..places.end.min(self.came_with.1) {
            match place {
                0 => {
                    self.examine(f::MPLS_LABEL, ones(20));
                    self.examine(f::MPLS_TC, ones(3));
                    self.examine(f::MPLS_BOS, 1);
                    self.examine(f::MPLS_TTL, ones(8));
                }
                1 => self.examine(f::MPLS_LSE1, ones(32)),
                _ => self.examine(f::MPLS_LSE2, ones(32)),
            }
        }
    }

    pub(super) fn decrement_ttl(&mut self) {
        let ttl = self.flow.values.get(f::IP_TTL);
        self.set(f::IP_TTL, ttl.saturating_sub(1), ones(8));
    }

    pub(super) fn decrement_label_ttl(&mut self) {
        if let Some(label) = self.flow.labels.first() {
            let ttl = u128::from(label.entry & 0xff);
            self.set(f::MPLS_TTL, ttl.saturating_sub(1), ones(8));
        }
    }

    pub(super) fn push_tag(&mut self, tag_type: u16, tag: u16) {
        self.examine_tags(0..self.flow.tags.len(), 0xffff);
        let tag = Tag {
            tag_type,
            bits: tag | f::VLAN_PRESENT,
        };
        self.flow.tags.insert(0, tag);
    }

    pub(super) fn pop_tag(&mut self) {
        self.examine_tags(1..self.flow.tags.len(), 0xffff);
        if !self.flow.tags.is_empty() {
            self.flow.tags.remove(0);
        }
    }

    pub(super) fn push_label(&mut self, ether_type: u16, entry: u32) {
        if self.flow.packet_type != 0 {
            self.commit();
            self.flow.packet_type = ETHER_TYPES | u32::from(ether_type);
            self.pending = Some(Front::Label);
        } else if self.flow.labels.is_empty() {
            // Headers behind a label can no longer be written.
            self.commit();
        }
        self.examine_labels(0..self.flow.labels.len());
        let known = u32::MAX;
        self.flow.labels.insert(0, Label { entry, known });
        self.flow.ether_type = ether_type;
    }

    pub(super) fn pop_label(&mut self, ether_type: u16) {
        if self.pending == Some(Front::Label) {
            // The label that goes must have come.
            self.commit();
        }
        self.examine_labels(1..self.flow.labels.len());
        if !self.flow.labels.is_empty() {
            self.flow.labels.remove(0);
        }
        self.flow.ether_type = ether_type;
        if self.flow.packet_type != 0 {
            self.flow.packet_type = ETHER_TYPES | u32::from(ether_type);
        }
    }
}

/// The actions.
impl Commit {
    /// Writes the actions that make the packet into what the walk has made of it.
    pub(super) fn commit(&mut self) {
        self.front();
        self.attribute(&ETHERNET, false);
        // Without labels, the headers behind them can be written.
        let uncovers = is_mpls(self.base.ether_type) && !is_mpls(self.flow.ether_type);
        if uncovers {
            self.labels();
        }
        if !is_mpls(self.flow.ether_type) {
            self.network();
        }
        if !uncovers {
            self.labels();
        }
        self.tags();
        if self.base.queue != self.flow.queue {
            self.base.queue = self.flow.queue;
            let queue = hexadecimal(self.flow.queue.into());
            self.texts.push(format!("set(skb_priority({queue}))"));
        }
        self.mark();
    }

    /// The same, with a mark for the actions behind it; the flow keeps its own.
    pub(super) fn commit_with_mark(&mut self, mark: Option<u32>) {
        let own = self.flow.values.get(f::PKT_MARK);
        if let Some(mark) = mark {
            self.examined.set(f::PKT_MARK, ones(32));
            self.flow.values.set(f::PKT_MARK, mark.into());
        }
        self.commit();
        self.flow.values.set(f::PKT_MARK, own);
    }

    fn mark(&mut self) {
        if !self.differs(Part::Field(f::PKT_MARK, 32)) {
            return;
        }
        let (mask, value) = (
            self.examined.get(f::PKT_MARK),
            self.flow.values.get(f::PKT_MARK),
        );
        let text = match mask == ones(32) {
            true => hexadecimal(value),
            false => format!("{}/{}", hexadecimal(value & mask), hexadecimal(mask)),
        };
        self.texts.push(format!("set(skb_mark({text}))"));
        self.base.values.set(f::PKT_MARK, value);
        let known = self.flow.known.get(f::PKT_MARK);
        self.base.known.set(f::PKT_MARK, known);
    }

    fn network(&mut self) {
        match self.base.ether_type {
            ETHER_TYPE_IPV4 => self.attribute(&IPV4, false),
            ETHER_TYPE_IPV6 => self.attribute(&IPV6, false),
            ETHER_TYPE_NSH => self.attribute(&NSH, false),
            ether_type if is_arp(ether_type) => self.attribute(&ARP, false),
            _ => {}
        }
        if !self.base.is_ip() {
            return;
        }
        match (self.flow.values.short(f::IP_PROTO), self.base.ether_type) {
            (58, ETHER_TYPE_IPV6) => {
                if is_neighbor_discovery(&self.flow.values) {
                    self.attribute(&DISCOVERY, false);
                }
                self.attribute(&ICMPV6, true);
            }
            (1, ETHER_TYPE_IPV4) => self.attribute(&ICMP, true),
            (6, _) => self.attribute(&TCP, false),
            (17, _) => self.attribute(&UDP, false),
            (132, _) => self.attribute(&SCTP, false),
            _ => {}
        }
    }

    /// Writes the members of an attribute that differ, or all if any does and `is_whole`.
    fn attribute(&mut self, attribute: &Attribute, is_whole: bool) {
        let differs = |member: &Member| self.differs(member.part);
        if !attribute.members.iter().any(differs) {
            return;
        }
        self.is_slow |= SLOW.contains(&attribute.name);
        let (mut values, mut mask) = (FieldBits::default(), FieldBits::default());
        for member in attribute.members {
            let is_written = match member.part {
                // What no action changes.
                Part::Field(f::NSH_MDTYPE | f::NSH_NP, _) => false,
                // Of this header, Open vSwitch writes also what the packet has already.
                part => self.differs(part) || attribute.name == NSH.name,
            };
            let bits = match is_written {
                _ if is_whole => {
                    let whole = ones(member.part.width_bits());
                    member.part.set(&mut self.examined, whole);
                    member.part.get(&self.flow.known)
                }
                true => member.part.get(&self.examined),
                false => 0,
            };
            member.part.set(&mut mask, bits);
            member
                .part
                .set(&mut values, member.part.get(&self.flow.values) & bits);
        }
        let inside = members(attribute.members, &values, &mask, false);
        self.texts
            .push(format!("set({}({inside}))", attribute.name));
        for member in attribute.members {
            let part = member.part;
            part.set(&mut self.base.values, part.get(&self.flow.values));
            part.set(&mut self.base.known, part.get(&self.flow.known));
        }
    }

    fn differs(&self, part: Part) -> bool {
        let (base, flow) = (&self.base, &self.flow);
        let changed = part.get(&base.values) ^ part.get(&flow.values);
        let news = part.get(&flow.known) & !part.get(&base.known);
        changed & part.get(&flow.known) != 0 || news != 0
    }

    /// Pops the tags from the innermost one that differs, and pushes the wanted ones.
    fn tags(&mut self) {
        let base = std::mem::replace(&mut self.base.tags, self.flow.tags.clone());
        let flow = self.flow.tags.clone();
        let pairs = base.iter().rev().zip(flow.iter().rev());
        let common = pairs.take_while(|(base, flow)| base == flow).count();
        let popped = base.len() - common;
        self.texts
            .extend(std::iter::repeat_n("pop_vlan".to_owned(), popped));
        self.examine_tags(0..popped, 0xffff);
        for tag in flow[..flow.len() - common].iter().rev() {
            let tag_type = match tag.tag_type {
                0x8100 => String::new(),
                tag_type => format!("tpid={tag_type:#06x},"),
            };
            let members = tag_members(tag.bits, u16::MAX, false);
            self.texts.push(format!("push_vlan({tag_type}{members})"));
        }
    }

    /// Pops and pushes labels; one that only differs is written in place.
    fn labels(&mut self) {
        let (base, flow) = (&mut self.base.labels, &self.flow.labels);
        let ether_type = self.flow.ether_type;
        let pairs = base.iter().rev().zip(flow.iter().rev());
        let mut common = pairs.take_while(|(base, flow)| base == flow).count();
        let is_same = common == base.len() && common == flow.len();
        if is_same && self.base.ether_type != ether_type {
            // No action writes a type alone; a label that comes and goes does.
            let bottom = u32::from(base.is_empty());
            let members = label(bottom << 8 | 64);
            self.texts
                .push(format!("push_mpls({members},eth_type=0x8847)"));
            self.texts
                .push(format!("pop_mpls(eth_type={ether_type:#x})"));
        }
        while base.len() > common {
            if base.len() == common + 1 && flow.len() > common {
                base[0] = flow[flow.len() - base.len()];
                self.texts.push(format!("set(mpls({}))", base[0]));
                common += 1;
                continue;
            }
            // Behind a label that is not the last comes MPLS.
            let behind = match base.len() > 1 && !is_mpls(ether_type) {
                true => 0x8847,
                false => ether_type,
            };
            self.texts.push(format!("pop_mpls(eth_type={behind:#x})"));
            base.remove(0);
        }
        while base.len() < flow.len() {
            let label = flow[flow.len() - base.len() - 1];
            self.texts
                .push(format!("push_mpls({label},eth_type={ether_type:#x})"));
            base.insert(0, label);
        }
        self.base.ether_type = ether_type;
    }
}

/// Where a field lies in a label stack entry.
fn shift_of(field: FieldId) -> Option<u32> {
    Some(match field {
        f::MPLS_LABEL => 12,
        f::MPLS_TC => 9,
        f::MPLS_BOS => 8,
        f::MPLS_TTL => 0,
        _ => return None,
    })
}
