//! The packet of a trace, as its fields, and their text (`flow_format` of Open vSwitch).

use thalweg_packet::{
    Connection, FieldId, Headers, Layout, PortId, Receipt, TunnelValues, standard as f,
};
use thalweg_pipeline::text::{PortSpelling, print_match};
use thalweg_pipeline::{Match, TRACKED_FIELDS};

use crate::datapath_text::{DatapathFlow, FieldBits};

/// A packet as its fields.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct TracedFlow {
    /// The fields, registers included.
    pub(super) key: FieldBits,
    /// EtherTypes of the outer and the inner tag; 0 where not known.
    pub(super) tag_types: [u16; 2],
    /// Linux's priority of the packet.
    pub(super) priority: u32,
    /// The flags of its tunnel, as [`DatapathFlow`] has them.
    pub(super) tunnel_flags: u16,
}

impl TracedFlow {
    /// The place of a value that no field has.
    pub(super) fn given_mut(&mut self, name: &str) -> Option<&mut u32> {
        match name {
            "skb_priority" => Some(&mut self.priority),
            _ => None,
        }
    }

    /// The same with the headers of these bytes. Registers become zero, and what the packet
    /// has besides its bytes stays.
    pub(super) fn with_frame(&self, layout: &Layout, frame: &[u8]) -> Option<TracedFlow> {
        let headers = Headers::parse(frame).ok()?;
        let mut connection = Connection::NONE;
        for field in TRACKED_FIELDS {
            connection.set(field, self.key.get(field));
        }
        let tunnel = self.tunnel();
        let receipt = Receipt {
            in_port: self.key.get(f::IN_PORT) as u32,
            recirculation_id: self.key.get(f::RECIRC_ID) as u32,
            packet_type: self.key.get(f::PACKET_TYPE) as u32,
            tunnel: Some(&tunnel),
            mark: self.key.get(f::PKT_MARK) as u32,
            datapath_hash: self.key.get(f::DP_HASH) as u32,
            connection,
        };
        let mut words = vec![0; layout.words()];
        layout.extract(frame, &headers, &receipt, &mut words);
        Some(TracedFlow {
            key: FieldBits::read_words(layout, &words),
            tag_types: [0; 2],
            priority: self.priority,
            tunnel_flags: self.tunnel_flags,
        })
    }

    /// The values of the tunnel that the packet is from.
    pub(super) fn tunnel(&self) -> TunnelValues {
        self.key.tunnel()
    }

    /// The port by which the packet came in.
    pub(super) fn in_port(&self) -> PortId {
        PortId(self.key.get(f::IN_PORT) as u32)
    }

    /// The fields in words of a layout.
    pub(super) fn words(&self, layout: &Layout) -> Vec<u64> {
        let mut words = vec![0; layout.words()];
        self.key.write_words(layout, &mut words);
        words
    }

    /// The flow as a datapath has it.
    pub(super) fn to_datapath_flow(&self) -> DatapathFlow {
        let mut flow = DatapathFlow::default();
        flow.key = self.key.clone();
        flow.tag_types = self.tag_types;
        flow
    }

    /// The flow's text. What a packet has besides its headers is left out where it is zero.
    pub(super) fn text(&self, ports: PortSpelling<'_>) -> String {
        let mut text = String::new();
        let recirculation = self.key.get(f::RECIRC_ID) as u32;
        let given = [
            ("pkt_mark", self.key.get(f::PKT_MARK) as u32),
            ("recirc_id", recirculation),
            ("dp_hash", self.key.get(f::DP_HASH) as u32),
            ("skb_priority", self.priority),
        ];
        for (name, value) in given {
            if value != 0 {
                text += &format!("{name}={value:#x},");
            }
        }
        let tracked = TRACKED_FIELDS.into_iter();
        let mut connection = Match::default();
        for field in tracked.filter(|field| self.key.get(*field) != 0) {
            connection = show_all(connection, [field], &self.key);
        }
        let connection = print_match(&connection, ports);
        if !connection.is_empty() {
            text += &format!("{connection},");
        }
        if recirculation != 0 && self.key.get(f::PACKET_TYPE) == 0 {
            text.push_str("eth,");
        }
        text + &print_match(&self.shown(), ports)
    }

    /// The fields that packets of this kind have, as conditions.
    fn shown(&self) -> Match {
        let registers = (0..16).map(f::register_field);
        let given = [f::METADATA].into_iter().chain(registers);
        let mut shown = Match::default();
        for field in given.filter(|field| self.key.get(*field) != 0) {
            shown = show_all(shown, [field], &self.key);
        }
        for (field, _) in self.key.iter() {
            let is_of_tunnel = field != f::TUN_OPTIONS && f::tunnel_part(field).is_some();
            if is_of_tunnel {
                shown = show_all(shown, [field], &self.key);
            }
        }
        if self.key.get(f::IN_PORT) & 0xffff != 0 {
            shown = show_all(shown, [f::IN_PORT], &self.key);
        }
        let link = [f::ETH_SRC, f::ETH_DST, f::ETH_TYPE, f::VLAN_TCI];
        shown = match self.key.get(f::PACKET_TYPE) {
            0 => show_all(shown, link, &self.key),
            _ => show_all(shown, [f::PACKET_TYPE], &self.key),
        };
        if self.key.get(f::VLAN_TCI) != 0 {
            shown = show_all(shown, [f::VLAN_TCI_INNER], &self.key);
        }
        match self.key.get(f::ETH_TYPE) {
            0x0800 => shown = show_all(shown, [f::IP_SRC, f::IP_DST], &self.key),
            0x86dd => {
                let fields = [f::IPV6_SRC, f::IPV6_DST, f::IPV6_LABEL];
                shown = show_all(shown, fields, &self.key);
            }
            0x0806 | 0x8035 => {
                let fields = [f::ARP_SPA, f::ARP_TPA, f::ARP_OP, f::ARP_SHA, f::ARP_THA];
                return show_all(shown, fields, &self.key);
            }
            0x8847 | 0x8848 => return self.with_labels(shown),
            0x894f => {
                let last = match self.key.get(f::NSH_MDTYPE) {
                    1 => f::NSH_C4,
                    _ => f::NSH_SI,
                };
                for field in (f::NSH_FLAGS.0..=last.0).map(FieldId) {
                    shown = show_all(shown, [field], &self.key);
                }
            }
            _ => return shown,
        }
        let service = [f::IP_FRAG, f::IP_DSCP, f::IP_ECN, f::IP_TTL, f::IP_PROTO];
        let shown = show_all(shown, service, &self.key);
        match self.key.get(f::IP_FRAG) & 2 {
            0 => self.with_transport(shown),
            _ => shown,
        }
    }

    /// The label stack entries, down to the last.
    fn with_labels(&self, shown: Match) -> Match {
        let first = [f::MPLS_LABEL, f::MPLS_TC, f::MPLS_TTL, f::MPLS_BOS];
        let shown = show_all(shown, first, &self.key);
        if self.key.get(f::MPLS_BOS) != 0 {
            return shown;
        }
        let shown = show_all(shown, [f::MPLS_LSE1], &self.key);
        match self.key.get(f::MPLS_LSE1) & 0x100 {
            0 => show_all(shown, [f::MPLS_LSE2], &self.key),
            _ => shown,
        }
    }

    fn with_transport(&self, shown: Match) -> Match {
        const PORTS: [FieldId; 2] = [f::TP_SRC, f::TP_DST];
        const KINDS: [FieldId; 2] = [f::ICMP_TYPE, f::ICMP_CODE];
        let is_ipv6 = self.key.get(f::ETH_TYPE) == 0x86dd;
        match (self.key.get(f::IP_PROTO), is_ipv6) {
            (6, _) => {
                let shown = show_all(shown, PORTS, &self.key);
                show_all(shown, [f::TCP_FLAGS], &self.key)
            }
            // IGMP's type and code have these names.
            (2 | 17 | 132, _) | (1, true) | (58, false) => show_all(shown, PORTS, &self.key),
            (1, false) => show_all(shown, KINDS, &self.key),
            (58, true) => {
                let shown = show_all(shown, KINDS, &self.key);
                let is_discovery = matches!(self.key.get(f::ICMP_TYPE), 135 | 136)
                    && self.key.get(f::ICMP_CODE) == 0;
                match is_discovery {
                    true => show_all(shown, [f::ND_TARGET, f::ND_SLL, f::ND_TLL], &self.key),
                    false => shown,
                }
            }
            _ => shown,
        }
    }
}

/// Adds whole fields as conditions.
fn show_all<const N: usize>(mut shown: Match, fields: [FieldId; N], key: &FieldBits) -> Match {
    let catalogue = f::fields();
    for field in fields {
        let ones = u128::MAX >> (128 - catalogue[field.index()].width_bits);
        // Each field occurs once.
        let _ = shown.add(field, key.get(field), ones);
    }
    shown
}
