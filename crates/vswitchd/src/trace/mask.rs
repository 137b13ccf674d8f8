//! The bits that Open vSwitch says a walk examined.
//!
//! Thalweg's masks are narrower: a constant that is written examines nothing, and a decrement
//! only asks whether the TTL is above 1. Open vSwitch adds every field that an action writes or
//! a lookup reads, whatever it holds by then, and some fields of every packet
//! (`xlate_wc_init`, `xlate_wc_finish`). A trace says what Open vSwitch would: the mask in the
//! text covers Thalweg's own, up to what the kind of packet implies.

use thalweg_packet::{FieldId, Layout, TUNNEL_OPTIONS, standard as f};
use thalweg_pipeline::{
    Action, Encap, FlowHash, LearnedBits, Output, SeenFields, Sight, Subfield, Translation,
};

use crate::datapath_text::{DatapathFlow, FieldBits};

const TAG_ID: u128 = 0x1fff;
const TAG_PRIORITY: u128 = 0xf000;
const BROADCAST: u128 = 0xffff_ffff_ffff;

/// The fields that say whether there is a header.
const HEADERS: [FieldId; 15] = [
    f::PRESENT_MPLS,
    f::PRESENT_NSH,
    f::PRESENT_NSH_CONTEXT,
    f::PRESENT_ARP,
    f::PRESENT_IPV4,
    f::PRESENT_IPV6,
    f::PRESENT_IPV6_CHAIN,
    f::PRESENT_TCP,
    f::PRESENT_UDP,
    f::PRESENT_SCTP,
    f::PRESENT_ICMPV4,
    f::PRESENT_ICMPV6,
    f::PRESENT_ND,
    f::PRESENT_ND_SLL,
    f::PRESENT_ND_TLL,
];

/// The bits that actions examine in Open vSwitch.
#[derive(Debug, Default)]
pub(super) struct Examined {
    bits: FieldBits,
    /// The bits of fields before the last action.
    before: Vec<(FieldId, u128)>,
    /// Whether an action is about queues; Open vSwitch then compares Linux's priority.
    pub(super) has_queue: bool,
}

impl Examined {
    /// Notes what the walk does.
    pub(super) fn see(&mut self, sight: &Sight<'_>, fields: SeenFields<'_>) {
        match sight {
            Sight::Action(action) => {
                self.before.clear();
                self.execute(action, fields);
            }
            Sight::Exec(Action::Move { source, .. }) => {
                self.add_subfield(source);
                self.add_protocol(source, fields);
            }
            // It was not examined after all.
            Sight::NotWritten(field) => {
                let before = self.before.iter().find(|before| before.0 == *field);
                if let Some(&(field, bits)) = before {
                    self.bits.set(field, bits);
                }
            }
            _ => {}
        }
    }

    fn execute(&mut self, action: &Action, fields: SeenFields<'_>) {
        let has_tag = |field| fields.get(field) & u128::from(f::VLAN_PRESENT) != 0;
        match action {
            Action::SetField(writes) => {
                // An option that is deleted is not examined.
                for write in writes.iter().filter(|write| write.field != f::TUN_OPTIONS) {
                    self.write(write.field, write.mask, fields);
                }
            }
            Action::SetVlan { id, priority, .. } => {
                let id = id.map_or(0, |_| TAG_ID);
                self.add(f::VLAN_TCI, id | priority.map_or(0, |_| TAG_PRIORITY));
            }
            Action::PushVlan(_) => {
                for tag in [f::VLAN_TCI, f::VLAN_TCI_INNER] {
                    if has_tag(tag) {
                        self.add(tag, 0xffff);
                    }
                }
            }
            Action::PopVlan if has_tag(f::VLAN_TCI_INNER) => self.add(f::VLAN_TCI_INNER, 0xffff),
            Action::Move {
                source,
                destination,
            } => {
                for bits in [source, destination] {
                    self.add_subfield(bits);
                    self.add_protocol(bits, fields);
                }
            }
            Action::Push(bits) | Action::Pop(bits) => self.add_subfield(bits),
            Action::DecTtl => self.write(f::IP_TTL, 0xff, fields),
            Action::PushMpls(_)
            | Action::PopMpls(_)
            | Action::Encap(Encap::Mpls(_))
            | Action::Decap(_) => self.count_labels(fields),
            Action::DecMplsTtl => self.add(f::MPLS_TTL, 0xff),
            Action::DecNshTtl => self.add(f::NSH_TTL, 0x3f),
            Action::Learn(learning) => {
                for part in &learning.parts {
                    if let LearnedBits::Field(bits) = &part.source {
                        self.add_subfield(bits);
                    }
                }
            }
            Action::FinTimeout { .. } => self.add(f::IP_PROTO, 0xff),
            Action::Multipath(choice) => {
                self.add_hash(choice.hash, fields);
                self.add_subfield(&choice.destination);
            }
            Action::Bundle(choice) => {
                if choice.hashes() {
                    self.add_hash(choice.hash, fields);
                }
                if let Some(destination) = &choice.destination {
                    self.add_subfield(destination);
                }
            }
            Action::SetQueue(_) | Action::PopQueue | Action::Output(Output::Enqueue { .. }) => {
                self.has_queue = true;
            }
            Action::Output(Output::Normal) => self.gratuitous_arp(fields),
            _ => {}
        }
    }

    /// What Open vSwitch hashes (`flow_mask_hash_fields`).
    fn add_hash(&mut self, hash: FlowHash, fields: SeenFields<'_>) {
        let ether_type = fields.get(f::ETH_TYPE);
        let is_ip = matches!(ether_type, 0x0800 | 0x86dd);
        let (source, destination) = match ether_type {
            0x0800 => (f::IP_SRC, f::IP_DST),
            _ => (f::IPV6_SRC, f::IPV6_DST),
        };
        let addresses = |wanted: [bool; 2]| {
            let both = [(source, wanted[0]), (destination, wanted[1])];
            let both = both
                .into_iter()
                .filter(|(_, is_wanted)| is_ip && *is_wanted);
            both.map(|(field, _)| (field, u128::MAX))
                .collect::<Vec<_>>()
        };
        let protocol = fields.get(f::IP_PROTO);
        let mut read = match hash {
            FlowHash::EthSource => vec![(f::ETH_SRC, BROADCAST)],
            FlowHash::IpSource => addresses([true, false]),
            FlowHash::IpDestination => addresses([false, true]),
            _ => addresses([true, true]),
        };
        let is_whole = fields.get(f::IP_FRAG) == 0;
        let has_ports = match hash {
            FlowHash::SymmetricL4 => protocol != 17,
            FlowHash::SymmetricL3L4 => matches!(protocol, 6 | 132) && is_whole,
            FlowHash::SymmetricL3L4Udp => matches!(protocol, 6 | 17 | 132) && is_whole,
            _ => false,
        };
        if hash == FlowHash::SymmetricL4 {
            read.extend([(f::ETH_SRC, BROADCAST), (f::ETH_DST, BROADCAST)]);
            read.extend([(f::VLAN_TCI, TAG_ID), (f::VLAN_TCI_INNER, TAG_ID)]);
        }
        let is_connection = matches!(
            hash,
            FlowHash::SymmetricL4 | FlowHash::SymmetricL3L4 | FlowHash::SymmetricL3L4Udp
        );
        if is_ip && is_connection {
            read.push((f::IP_PROTO, 0xff));
            if has_ports {
                read.extend([(f::TP_SRC, 0xffff), (f::TP_DST, 0xffff)]);
            }
        }
        for (field, bits) in read {
            let width = f::fields()[field.index()].width_bits;
            self.add(field, bits & u128::MAX >> (128 - width));
        }
    }

    /// A write to a header of layer 3 depends on the protocol: a packet may lack it
    /// (CVE-2023-1668).
    fn write(&mut self, field: FieldId, bits: u128, fields: SeenFields<'_>) {
        self.add(field, bits);
        let ether_type = fields.get(f::ETH_TYPE);
        match field {
            f::IP_SRC
            | f::IP_DST
            | f::IPV6_SRC
            | f::IPV6_DST
            | f::IPV6_LABEL
            | f::IP_DSCP
            | f::IP_ECN
            | f::IP_TTL
                if matches!(ether_type, 0x0800 | 0x86dd) =>
            {
                self.add(f::IP_PROTO, 0xff);
            }
            f::ARP_SHA | f::ARP_THA | f::ARP_SPA | f::ARP_TPA if ether_type == 0x0806 => {
                self.add(f::ARP_OP, 0xffff);
            }
            _ => {}
        }
    }

    /// Labels are counted down to the bottom of the stack.
    fn count_labels(&mut self, fields: SeenFields<'_>) {
        if fields.get(f::PRESENT_MPLS) == 0 {
            return;
        }
        let entries = [
            (f::MPLS_BOS, 1),
            (f::MPLS_LSE1, 0x100),
            (f::MPLS_LSE2, 0x100),
        ];
        for (field, bottom) in entries {
            self.add(field, bottom);
            if fields.get(field) & bottom != 0 {
                break;
            }
        }
    }

    /// A learning switch treats ARP that answers no question in its own way.
    fn gratuitous_arp(&mut self, fields: SeenFields<'_>) {
        if fields.get(f::ETH_TYPE) != 0x0806 || fields.get(f::ETH_DST) != BROADCAST {
            return;
        }
        self.add(f::ARP_OP, 0xffff);
        if fields.get(f::ARP_OP) == 1 {
            self.add(f::ARP_SPA, u32::MAX.into());
            self.add(f::ARP_TPA, u32::MAX.into());
        }
    }

    /// Whether there is such a header depends on the protocol.
    fn add_protocol(&mut self, subfield: &Subfield, fields: SeenFields<'_>) {
        let is_of_transport = |field| {
            let ports = [f::TP_SRC, f::TP_DST, f::TCP_FLAGS];
            let messages = [
                f::ICMP_TYPE,
                f::ICMP_CODE,
                f::ND_TARGET,
                f::ND_SLL,
                f::ND_TLL,
            ];
            ports.contains(&field) || messages.contains(&field)
        };
        let mut slices = subfield.slices.iter();
        let is_ip = matches!(fields.get(f::ETH_TYPE), 0x0800 | 0x86dd);
        if is_ip && slices.any(|slice| is_of_transport(slice.field)) {
            self.add(f::IP_PROTO, 0xff);
        }
    }

    fn add_subfield(&mut self, subfield: &Subfield) {
        for slice in &subfield.slices {
            let ones = u128::MAX >> (128 - slice.width_bits);
            self.add(slice.field, ones << slice.offset);
        }
    }

    fn add(&mut self, field: FieldId, bits: u128) {
        let before = self.bits.get(field);
        self.before.push((field, before));
        self.bits.set(field, before | bits);
    }

    /// The whole mask of a walk with this result, for a packet with this key.
    pub(super) fn mask(
        mut self,
        translation: &Translation,
        layout: &Layout,
        key: &FieldBits,
    ) -> FieldBits {
        self.add_words(layout, &translation.mask);
        for step in translation.trace.steps() {
            self.add_words(layout, step.examined);
            for (field, bits) in layout.fields_in(step.searched) {
                self.add(field, widened(field, bits));
            }
        }
        let has_tag = self.bits.get(f::VLAN_TCI) != 0;
        self.add_discovery(key);
        self.add_tunnel(key);
        let mut flow = DatapathFlow::default();
        (flow.key, flow.mask) = (key.clone(), self.bits);
        flow.cover();
        let mut bits = flow.mask;
        if !has_tag {
            // A datapath's flow names the tag of a packet that has one; a trace need not.
            bits.set(f::VLAN_TCI, 0);
        }
        let mut implied = key.clone();
        implied.derive();
        let is_shown = |field| match field {
            f::IP_TTL_ABOVE_1 => false,
            // Headers that the kind of packet implies; one that is cut off stays.
            _ if HEADERS.contains(&field) => implied.get(field) != key.get(field),
            _ => layout.descriptor(field).is_ingress() && has_field(field, key),
        };
        let mut shown = FieldBits::default();
        for (field, bits) in bits.iter().filter(|(field, _)| is_shown(*field)) {
            shown.set(field, bits);
        }
        shown
    }

    /// Neighbour discovery is a kind of ICMPv6.
    fn add_discovery(&mut self, key: &FieldBits) {
        let discovery = [f::PRESENT_ND, f::PRESENT_ND_SLL, f::PRESENT_ND_TLL];
        let is_read = discovery.iter().any(|field| self.bits.get(*field) != 0);
        if is_read && is_ip(key) {
            self.add(f::IP_PROTO, 0xff);
        }
        if is_read && key.get(f::PRESENT_ICMPV6) != 0 {
            self.add(f::ICMP_TYPE, 0xff);
            self.add(f::ICMP_CODE, 0xff);
        }
    }

    /// Of a packet from a tunnel, what finds the tunnel is compared (`tnl_wc_init`).
    fn add_tunnel(&mut self, key: &FieldBits) {
        const CONGESTED: u128 = 3;
        if !is_from_tunnel(key) {
            return;
        }
        self.add(f::TUN_ID, u64::MAX.into());
        self.add(f::TUN_TOS, 0xff);
        let [v4, v6] = [[f::TUN_SRC, f::TUN_DST], [f::TUN_IPV6_SRC, f::TUN_IPV6_DST]];
        match key.get(f::TUN_DST) {
            0 => v6.iter().for_each(|field| self.add(*field, u128::MAX)),
            _ => v4
                .iter()
                .for_each(|field| self.add(*field, u32::MAX.into())),
        }
        let compared = (0..TUNNEL_OPTIONS).filter(|number| {
            let field = f::tunnel_option_field(*number);
            self.bits.get(field) != 0 && key.get(f::TUN_OPTIONS) >> number & 1 == 0
        });
        let absent = compared.fold(0, |bits: u128, number| bits | 1 << number);
        self.add(f::TUN_OPTIONS, absent);
        if is_ip(key) && key.get(f::TUN_TOS) & CONGESTED == CONGESTED {
            self.add(f::IP_ECN, CONGESTED);
        }
    }

    fn add_words(&mut self, layout: &Layout, words: &[u64]) {
        for (field, bits) in layout.fields_in(words) {
            // Open vSwitch tells controllers of these without examining them.
            if !matches!(field, f::PKT_MARK | f::DP_HASH) {
                self.add(field, bits);
            }
        }
        self.before.clear();
    }
}

/// The bits that Open vSwitch examines in a lookup that needs these: it has prefixes of
/// addresses and ports, but Ethernet addresses and tags only as rules match them.
fn widened(field: FieldId, bits: u128) -> u128 {
    const MULTICAST: u128 = 1 << 40;
    match field {
        f::ETH_SRC | f::ETH_DST if bits != MULTICAST => BROADCAST,
        f::TUN_ERSPAN_VER => 0xf,
        f::VLAN_TCI | f::VLAN_TCI_INNER => {
            let part = |mask: u128| if bits & mask != 0 { mask } else { 0 };
            bits | part(0x0fff) | part(0xe000)
        }
        _ => bits,
    }
}

/// Whether the packet is one of IP.
pub(super) fn is_ip(key: &FieldBits) -> bool {
    matches!(key.get(f::ETH_TYPE), 0x0800 | 0x86dd)
}

fn is_from_tunnel(key: &FieldBits) -> bool {
    key.get(f::TUN_DST) != 0 || key.get(f::TUN_IPV6_DST) != 0
}

/// Whether the field is one of a network service header.
pub(super) fn is_service_field(field: FieldId) -> bool {
    (f::NSH_FLAGS..=f::NSH_C4).contains(&field)
}

/// Whether packets of this kind have the field; a flow of others does not show it.
fn has_field(field: FieldId, key: &FieldBits) -> bool {
    let has_tag = |tag| key.get(tag) & u128::from(f::VLAN_PRESENT) != 0;
    let ether_type = key.get(f::ETH_TYPE);
    match field {
        f::RECIRC_ID => false,
        f::PACKET_TYPE => key.get(field) != 0,
        f::ETH_SRC | f::ETH_DST => key.get(f::PACKET_TYPE) == 0,
        f::VLAN_TCI | f::VLAN_TCI_INNER => has_tag(field),
        f::MPLS_LABEL | f::MPLS_TC | f::MPLS_BOS | f::MPLS_TTL | f::MPLS_LSE1 | f::MPLS_LSE2 => {
            matches!(ether_type, 0x8847 | 0x8848)
        }
        _ if f::tunnel_part(field).is_some() => is_from_tunnel(key),
        _ if is_service_field(field) => ether_type == 0x894f,
        f::IP_SRC | f::IP_DST => ether_type == 0x0800,
        f::IPV6_SRC | f::IPV6_DST | f::IPV6_LABEL => ether_type == 0x86dd,
        f::IP_PROTO | f::IP_DSCP | f::IP_ECN | f::IP_TTL | f::IP_FRAG => is_ip(key),
        f::ARP_OP | f::ARP_SPA | f::ARP_TPA | f::ARP_SHA | f::ARP_THA => {
            matches!(ether_type, 0x0806 | 0x8035)
        }
        f::TP_SRC | f::TP_DST => {
            is_ip(key)
                && matches!(key.get(f::IP_PROTO), 6 | 17 | 132)
                && key.get(f::IP_FRAG) & 2 == 0
        }
        f::TCP_FLAGS => is_ip(key) && key.get(f::IP_PROTO) == 6 && key.get(f::IP_FRAG) & 2 == 0,
        f::ICMP_TYPE | f::ICMP_CODE => {
            let protocol = key.get(f::IP_PROTO);
            let is_it =
                ether_type == 0x0800 && protocol == 1 || ether_type == 0x86dd && protocol == 58;
            is_it && key.get(f::IP_FRAG) & 2 == 0
        }
        f::ND_TARGET | f::ND_SLL | f::ND_TLL => {
            ether_type == 0x86dd && matches!(key.get(f::ICMP_TYPE), 135 | 136)
        }
        _ => true,
    }
}
