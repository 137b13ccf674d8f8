//! Writes to fields, tags, labels and TTLs: what they read, change and emit.

use thalweg_packet::{FieldId, Intrinsic, Source, Stage, TUNNEL_OPTIONS, standard as f};

use super::DropReason;
use super::observer::{ExpiredTtl, Observer, Sight};
use super::walk::{Next, Walk};
use crate::action::{Subfield, TableId, Write};
use crate::effect::{Effect, PacketInReason};
use crate::reads;
use crate::state::{Lifted, PORT_BITS};

impl<O: Observer> Walk<'_, O> {
    /// Writes constants; does nothing if the packet does not have the header.
    pub(super) fn set_field(&mut self, mut write: Write) {
        if write.field == f::IN_PORT && self.state.hides_bridge {
            write.mask &= u128::from(PORT_BITS);
        }
        let is_of_ethernet = matches!(write.field, f::VLAN_TCI | f::ETH_SRC | f::ETH_DST);
        if is_of_ethernet && self.is_layer3() {
            self.tell(Sight::NotWritten(write.field));
        } else if write.field == f::VLAN_TCI {
            self.write_tag(write.value as u16, write.mask as u16);
        } else if self.has_header_of(write.field) {
            self.write_constant(write.field, write.value, write.mask);
        } else {
            self.tell(Sight::NotWritten(write.field));
        }
    }

    /// Writes a constant to a field whose header is present.
    fn write_constant(&mut self, field: FieldId, value: u128, mask: u128) {
        let value = value & mask;
        self.state.write(field, value, mask);
        if let Some(number) = f::tunnel_option_of(field) {
            self.state.write(f::TUN_OPTIONS, 1 << number, 1 << number);
        }
        if field == f::TUN_OPTIONS {
            // An option that is absent has the value zero.
            let gone = mask & !value;
            let gone = (0..TUNNEL_OPTIONS).filter(|number| gone >> number & 1 == 1);
            gone.for_each(|number| {
                self.state
                    .write(f::tunnel_option_field(number), 0, u128::MAX);
            });
        }
        if self.is_in_packet(field) {
            self.emit(Effect::Set { field, value, mask });
        }
        if field == f::IP_TTL {
            let is_above_1 = self.state.peek(f::IP_TTL) > 1;
            self.state
                .write_function(f::IP_TTL_ABOVE_1, u128::from(is_above_1), f::IP_TTL);
        }
    }

    /// Whether a packet carries the field, in its bytes or in the values of its tunnel; a datapath
    /// is told of the mark, so that it goes with the packet.
    fn is_in_packet(&self, field: FieldId) -> bool {
        let source = &self.pipeline.fields()[field.index()].source;
        let is_carried = matches!(
            source,
            Source::Wire(_) | Source::Scalar(_) | Source::Intrinsic(Intrinsic::Tunnel(_))
        );
        is_carried || field == f::PKT_MARK
    }

    /// Makes the values of the packet's tunnel zero, and its options absent. Where no rule has
    /// such a field, no rule can tell; a tunnel's port looks at the bridge that the packet came
    /// from (`thalweg_io`).
    pub(super) fn leave_tunnel(&mut self) {
        let layout = self.pipeline.layout();
        let mut knows_tunnels = false;
        for &field in layout.used() {
            let descriptor = layout.descriptor(field);
            if matches!(descriptor.source, Source::Intrinsic(Intrinsic::Tunnel(_))) {
                let ones = u128::MAX >> (128 - descriptor.width_bits);
                self.state.write(field, 0, ones);
                knows_tunnels = true;
            }
        }
        if knows_tunnels {
            self.emit(Effect::LeaveTunnel);
        }
    }

    /// Reads whether a header with the field is present.
    fn has_header_of(&mut self, field: FieldId) -> bool {
        let fields = self.pipeline.fields().clone();
        match &fields[field.index()].source {
            Source::Wire(locations) => locations.iter().any(|location| {
                // A header without a presence bit is always present.
                f::presence_of(location.header).is_none_or(|bit| self.state.read(bit) == 1)
            }),
            Source::Scalar(_) => {
                let bits = reads::precondition(field, &fields);
                bits.into_iter().any(|bit| self.state.read(bit) == 1)
            }
            _ => true,
        }
    }

    pub(super) fn has_tag(&mut self, tci: FieldId) -> bool {
        self.state.read_masked(tci, u128::from(f::VLAN_PRESENT)) != 0
    }

    /// Copies bits between fields.
    pub(super) fn copy(&mut self, source: &Subfield, destination: &Subfield) {
        let lifted = self.state.lift(source);
        self.write_lifted(&lifted, destination);
        self.tell(Sight::Written(destination));
    }

    /// Writes bits with their provenance; bits that go into the packet are read and become
    /// constants.
    pub(super) fn write_lifted(&mut self, lifted: &Lifted, destination: &Subfield) {
        let is_carried = destination
            .slices
            .iter()
            .any(|slice| self.is_in_packet(slice.field));
        if !is_carried {
            self.state.put_down(lifted, destination);
            return;
        }
        let mut value = self.state.read_lifted(lifted);
        for slice in &destination.slices {
            let ones = u128::MAX >> (128 - slice.width_bits);
            let bits = (value & ones) << slice.offset;
            self.set_field(Write {
                field: slice.field,
                value: bits,
                mask: ones << slice.offset,
            });
            value = value.checked_shr(u32::from(slice.width_bits)).unwrap_or(0);
        }
    }

    /// Sets id or priority of the outer tag, if there is a tag or `adds_tag`.
    pub(super) fn set_vlan(&mut self, id: Option<u16>, priority: Option<u8>, adds_tag: bool) {
        if self.is_layer3() || !adds_tag && !self.has_tag(f::VLAN_TCI) {
            return;
        }
        let (mut value, mut mask) = (f::VLAN_PRESENT, f::VLAN_PRESENT);
        if let Some(id) = id {
            (value, mask) = (value | id, mask | 0x0fff);
        }
        if let Some(priority) = priority {
            (value, mask) = (value | u16::from(priority) << 13, mask | 0xe000);
        }
        self.write_tag(value, mask);
    }

    /// Writes bits of the outer tag's field, of which bit 12 says whether there is a tag.
    ///
    /// A write that sets bit 12 may add a tag. One that clears it makes the packet untagged: a
    /// second tag is removed with the first. The other bits can be written even without a tag;
    /// they become part of a tag that a later write adds. All this is as in Open vSwitch.
    pub(super) fn write_tag(&mut self, value: u16, mask: u16) {
        let had_tag = self.has_tag(f::VLAN_TCI);
        let has_tag = match mask & f::VLAN_PRESENT {
            0 => had_tag,
            _ => value & f::VLAN_PRESENT != 0,
        };
        if had_tag && !has_tag && self.has_inner_tag_to_pop() {
            self.state.write(f::VLAN_TCI_INNER, 0, 0xffff);
            self.emit(Effect::PopVlan);
        }
        let bits = (u128::from(value & mask), u128::from(mask));
        self.state.write(f::VLAN_TCI, bits.0, bits.1);
        match (had_tag, has_tag) {
            (true, true) => {
                let mask = u128::from(mask & !f::VLAN_PRESENT);
                if mask != 0 {
                    self.emit(Effect::Set {
                        field: f::VLAN_TCI,
                        value: bits.0 & mask,
                        mask,
                    });
                }
            }
            (false, true) => {
                let tci = self.state.read(f::VLAN_TCI) as u16 & !f::VLAN_PRESENT;
                self.emit(Effect::PushVlan { tpid: 0x8100, tci });
            }
            (true, false) => self.emit(Effect::PopVlan),
            (false, false) => {}
        }
    }

    /// Adds an outer tag with this id and priority.
    pub(super) fn push_vlan(&mut self, tpid: u16, tci: u16) {
        if self.is_layer3() {
            return;
        }
        // The key loses the third tag from the top.
        self.is_tag_hidden |= self.has_tag(f::VLAN_TCI) && self.has_tag(f::VLAN_TCI_INNER);
        self.state
            .copy(&whole(f::VLAN_TCI, 16), &whole(f::VLAN_TCI_INNER, 16));
        self.state
            .write(f::VLAN_TCI, u128::from(f::VLAN_PRESENT | tci), 0xffff);
        self.emit(Effect::PushVlan { tpid, tci });
    }

    pub(super) fn pop_vlan(&mut self) {
        if self.is_layer3() || !self.has_tag(f::VLAN_TCI) {
            return;
        }
        if self.has_inner_tag_to_pop() {
            self.state
                .copy(&whole(f::VLAN_TCI_INNER, 16), &whole(f::VLAN_TCI, 16));
            self.state.write(f::VLAN_TCI_INNER, 0, 0xffff);
        } else {
            self.state.write(f::VLAN_TCI, 0, 0xffff);
        }
        self.emit(Effect::PopVlan);
    }

    /// Whether there is a second tag; a pop may then expose a third, which was not parsed.
    fn has_inner_tag_to_pop(&mut self) -> bool {
        let has_inner = self.has_tag(f::VLAN_TCI_INNER);
        if has_inner {
            let ether_type = self.state.read(f::ETH_TYPE);
            let is_third_tag = matches!(ether_type, 0x8100 | 0x88a8);
            self.is_reparse_needed |= self.is_tag_hidden || is_third_tag;
        }
        has_inner
    }

    pub(super) fn push_mpls(&mut self, ether_type: u16) {
        let entry = if self.state.read(f::PRESENT_MPLS) == 1 {
            let top = self.state.read(f::MPLS_LABEL) << 12
                | self.state.read(f::MPLS_TC) << 9
                | self.state.read(f::MPLS_TTL);
            top as u32
        } else {
            self.first_label()
        };
        self.state
            .copy(&whole(f::MPLS_LSE1, 32), &whole(f::MPLS_LSE2, 32));
        self.move_top_label_down();
        self.write_label(entry);
        let bottom = self.state.peek(f::PRESENT_MPLS) == 0;
        self.state.write(f::MPLS_BOS, u128::from(bottom), 1);
        self.hide_headers(Stage::Network);
        self.state.write(f::PRESENT_MPLS, 1, 1);
        self.write_ether_type(ether_type);
        self.emit(Effect::PushMpls {
            ether_type,
            entry: entry | u32::from(bottom) << 8,
        });
    }

    /// The label stack entry for a packet without labels (as in Open vSwitch).
    fn first_label(&mut self) -> u32 {
        let ether_type = self.state.read(f::ETH_TYPE);
        // RFC 3032, section 2.1: explicit null is label 0 for IPv4 and 2 for IPv6.
        let label = if ether_type == 0x86dd { 2 } else { 0 };
        let (mut traffic_class, mut ttl) = (0, 0);
        if matches!(ether_type, 0x0800 | 0x86dd) {
            // Zero where the header is absent, so its presence need not be read.
            traffic_class = self.state.read(f::IP_DSCP) & 7;
            ttl = self.state.read(f::IP_TTL);
        }
        let ttl = if ttl == 0 { 64 } else { ttl };
        label << 12 | (traffic_class as u32) << 9 | ttl as u32
    }

    fn move_top_label_down(&mut self) {
        let top = Subfield {
            slices: [
                (f::MPLS_TTL, 8),
                (f::MPLS_BOS, 1),
                (f::MPLS_TC, 3),
                (f::MPLS_LABEL, 20),
            ]
            .map(|(field, width_bits)| whole(field, width_bits).slices[0])
            .into(),
        };
        self.state.copy(&top, &whole(f::MPLS_LSE1, 32));
    }

    pub(super) fn write_label(&mut self, entry: u32) {
        let entry = u128::from(entry);
        self.state.write(f::MPLS_LABEL, entry >> 12, 0xf_ffff);
        self.state.write(f::MPLS_TC, entry >> 9 & 7, 7);
        self.state.write(f::MPLS_TTL, entry & 0xff, 0xff);
    }

    /// Hides the headers from a layer on: they are absent until the packet is parsed again.
    pub(super) fn hide_headers(&mut self, from: Stage) {
        for index in 0..self.pipeline.fields().len() {
            let field = FieldId(index as u16);
            let descriptor = &self.pipeline.fields()[index];
            if descriptor.stage >= from {
                let ones = u128::MAX >> (128 - descriptor.width_bits);
                self.state.write(field, 0, ones);
            }
        }
    }

    pub(super) fn pop_mpls(&mut self, ether_type: u16) {
        if self.state.read(f::PRESENT_MPLS) == 0 {
            return;
        }
        let was_last = self.state.read(f::MPLS_BOS) == 1;
        if was_last && matches!(ether_type, 0x8847 | 0x8848) {
            // No label follows, whatever the EtherType says; the bytes there do not count as
            // one.
            self.write_label(0);
            self.state.write(f::MPLS_BOS, 0, 1);
            self.state.write(f::PRESENT_MPLS, 0, 1);
        } else {
            // Labels or headers outside the key follow: parse again before reading on.
            self.is_reparse_needed = true;
        }
        self.write_ether_type(ether_type);
        self.emit(Effect::PopMpls { ether_type });
    }

    pub(super) fn decrement_ttl(&mut self, table: TableId) -> Next {
        let is_ipv4 = self.state.read(f::PRESENT_IPV4) == 1;
        if !is_ipv4 && self.state.read(f::PRESENT_IPV6_CHAIN) == 0 {
            return Next::Continue;
        }
        // The guard bit describes the ingress TTL; after a change the TTL itself is read.
        let is_original = self.state.is_original(f::IP_TTL);
        let is_above_1 = if is_original {
            self.state.read(f::IP_TTL_ABOVE_1) == 1
        } else {
            self.state.read(f::IP_TTL) > 1
        };
        if !is_above_1 {
            return self.expire(table, ExpiredTtl::Ip);
        }
        let ttl = self.state.peek(f::IP_TTL).saturating_sub(1);
        self.state.write_function(f::IP_TTL, ttl, f::IP_TTL);
        self.state
            .write_function(f::IP_TTL_ABOVE_1, u128::from(ttl > 1), f::IP_TTL);
        self.emit(Effect::DecTtl);
        Next::Continue
    }

    pub(super) fn decrement_mpls_ttl(&mut self, table: TableId) -> Next {
        if self.state.read(f::PRESENT_MPLS) == 0 {
            return Next::Continue;
        }
        let ttl = self.state.read(f::MPLS_TTL);
        if ttl <= 1 {
            return self.expire(table, ExpiredTtl::Label);
        }
        self.state.write(f::MPLS_TTL, ttl - 1, 0xff);
        self.emit(Effect::DecMplsTtl);
        Next::Continue
    }

    /// Decrements the TTL of a network service header; a packet without one goes no further, as in
    /// Open vSwitch (`compose_dec_nsh_ttl_action`).
    pub(super) fn decrement_nsh_ttl(&mut self, table: TableId) -> Next {
        if self.state.read(f::PRESENT_NSH) == 0 {
            self.tell(Sight::TtlExpired(ExpiredTtl::Service));
            return Next::EndList;
        }
        let ttl = self.state.read(f::NSH_TTL);
        if ttl <= 1 {
            return self.expire(table, ExpiredTtl::Service);
        }
        self.write_constant(f::NSH_TTL, ttl - 1, 0x3f);
        Next::Continue
    }

    /// Handles an expired TTL: tells the controller and ends the list.
    fn expire(&mut self, table: TableId, ttl: ExpiredTtl) -> Next {
        self.tell(Sight::TtlExpired(ttl));
        self.drop(DropReason::TtlExpired);
        let meter = self.controller_meter(None);
        let sender = self.sender(table);
        self.emit(Effect::Controller {
            reason: PacketInReason::InvalidTtl,
            max_len_bytes: u16::MAX,
            controller_id: 0,
            userdata: Box::default(),
            sender,
            meter,
        });
        Next::EndList
    }
}

fn whole(field: FieldId, width_bits: u16) -> Subfield {
    Subfield::whole(field, width_bits)
}
