//! Applies a rule to a walk: the function between one lookup and the next.
//!
//! The circuit calls it to get from the walks of one step to those of the next, and the view
//! calls it again for the effects. It reimplements `thalweg_pipeline::interpret` for the
//! modelled actions, on plain words, without provenance or mask, since a recorded packet has
//! neither.
//!
//! 1. The result depends on the walk, the rule and the layout alone, so a retracted row
//!    retracts exactly the rows that it once led to.
//! 2. The existing ports affect effects, never the next lookup.
//! 3. A walk ends here if its packet must be parsed again (a third tag appears and an action
//!    reads it); the answer says so.

use std::sync::Arc;

use thalweg_packet::{FieldDescriptor, FieldId, Layout, PortId, Source, standard as f};
use thalweg_pipeline::text::LOCAL_PORT;
use thalweg_pipeline::{Action, DropReason, Effect, Output, PacketInReason, Slice, Subfield};
use thalweg_pipeline::{TableId, Write};

use crate::programs::Programs;
use crate::rows::{Frame, RuleRow, WalkRow};

/// The data that all walks of a view share.
#[derive(Debug)]
pub(crate) struct Shape {
    pub(crate) layout: Arc<Layout>,
    pub(crate) fields: Arc<Vec<FieldDescriptor>>,
    pub(crate) programs: Programs,
}

/// The result of a rule.
#[derive(Debug, Default)]
pub(crate) struct Deed {
    /// The walk at the next lookup; `None` if there is none.
    pub(crate) next: Option<WalkRow>,
    pub(crate) effects: Vec<Effect>,
    /// Outputs that failed, in order.
    pub(crate) drops: Vec<DropReason>,
    /// Invariant 3.
    pub(crate) is_frozen: bool,
    /// Whether a field sent the packet to a destination that depends on all ports or on
    /// stations.
    pub(crate) floods: bool,
}

/// How processing continues after an action.
enum Next {
    Continue,
    EndList,
    Exit,
    Table(TableId),
    Resubmit(TableId, Option<PortId>),
}

/// Applies a rule; `has_port` says which ports exist.
pub(crate) fn perform(
    shape: &Shape,
    walk: &WalkRow,
    rule: &RuleRow,
    has_port: &dyn Fn(PortId) -> bool,
) -> Deed {
    let mut machine = Machine {
        shape,
        has_port,
        walk: walk.clone(),
        needs_parse: false,
        deed: Deed::default(),
    };
    if let Some(port) = machine.walk.in_port.take() {
        machine.write(f::IN_PORT, port.into(), u32::MAX.into());
    }
    machine.run(Frame {
        program: rule.program,
        next: 0,
        table: walk.table,
    });
    machine.deed
}

struct Machine<'a> {
    shape: &'a Shape,
    has_port: &'a dyn Fn(PortId) -> bool,
    walk: WalkRow,
    needs_parse: bool,
    deed: Deed,
}

impl Machine<'_> {
    /// Runs the list, then the lists that wait for it, up to the next lookup.
    fn run(&mut self, mut frame: Frame) {
        loop {
            let list = self.shape.programs.get(frame.program);
            for (index, action) in list.iter().enumerate().skip(frame.next as usize) {
                if self.needs_parse && !is_blind(action) {
                    self.deed.is_frozen = true;
                    return;
                }
                match self.execute(action, TableId(frame.table.into())) {
                    Next::Continue => {}
                    Next::EndList => break,
                    Next::Exit => return,
                    Next::Table(table) => return self.look_up(table, None),
                    Next::Resubmit(table, in_port) => {
                        self.walk.stack.push(Frame {
                            next: index as u32 + 1,
                            ..frame
                        });
                        return self.look_up(table, in_port);
                    }
                }
            }
            match self.walk.stack.pop() {
                Some(outer) => frame = outer,
                None => return,
            }
        }
    }

    fn look_up(&mut self, table: TableId, in_port: Option<PortId>) {
        let mut walk = std::mem::take(&mut self.walk);
        walk.table = table.number();
        if let Some(port) = in_port {
            let layout = &self.shape.layout;
            let former = layout.get(&walk.words, f::IN_PORT).unwrap_or(0);
            walk.in_port = Some(former as u32);
            layout.set(&mut walk.words, f::IN_PORT, port.0.into());
        }
        self.deed.next = Some(walk);
    }

    fn execute(&mut self, action: &Action, table: TableId) -> Next {
        match action {
            Action::Output(output) => return self.output(output),
            Action::SetField(writes) => writes.iter().for_each(|write| self.set_field(*write)),
            Action::Move {
                source,
                destination,
            } => self.copy(source, destination),
            Action::PushVlan(tpid) => self.push_vlan(*tpid),
            Action::PopVlan => self.pop_vlan(),
            Action::DecTtl => return self.decrement_ttl(),
            Action::Resubmit {
                in_port, table: to, ..
            } => {
                return Next::Resubmit(to.unwrap_or(table), *in_port);
            }
            Action::Note(_) => {}
            Action::Exit => return Next::Exit,
            Action::WriteMetadata { value, mask } => {
                self.write(f::METADATA, u128::from(*value), u128::from(*mask));
            }
            Action::Goto(to) => return Next::Table(*to),
            _ => unreachable!("such a list has been given no number"),
        }
        Next::Continue
    }

    fn output(&mut self, output: &Output) -> Next {
        match output {
            Output::Port(port) => self.send(*port),
            Output::Local => self.send(LOCAL_PORT),
            Output::InPort => self.send_anywhere(self.in_port()),
            Output::Controller {
                max_len_bytes,
                controller_id,
                reason,
                userdata,
                // Lists that pause or measure get no number.
                ..
            } => self.deed.effects.push(Effect::Controller {
                reason: *reason,
                max_len_bytes: *max_len_bytes,
                controller_id: *controller_id,
                userdata: userdata.clone(),
                sender: None,
                meter: None,
            }),
            Output::Table => return Next::Resubmit(TableId(0), None),
            Output::Field(source) => {
                let port = u32::try_from(self.read_subfield(source)).map(PortId);
                match port.map(|port| (port, Output::reserved(port))) {
                    Ok((_, Some(reserved))) => return self.output(&reserved),
                    Ok((port, None)) => self.send(port),
                    Err(_) => self.deed.drops.push(DropReason::NoSuchPort),
                }
            }
            // Only a field leads here: a list that names one of these gets no number.
            Output::All | Output::Flood | Output::Normal => self.deed.floods = true,
            Output::Enqueue { .. } | Output::Truncated { .. } => {
                unreachable!("such a list has been given no number")
            }
        }
        Next::Continue
    }

    fn in_port(&self) -> PortId {
        PortId(self.read(f::IN_PORT) as u32)
    }

    fn send(&mut self, port: PortId) {
        if self.in_port() == port {
            self.deed.drops.push(DropReason::InputPort);
        } else {
            self.send_anywhere(port);
        }
    }

    fn send_anywhere(&mut self, port: PortId) {
        if (self.has_port)(port) {
            self.deed.effects.push(Effect::Output(port));
        } else {
            self.deed.drops.push(DropReason::NoSuchPort);
        }
    }

    fn decrement_ttl(&mut self) -> Next {
        if self.read(f::PRESENT_IPV4) == 0 && self.read(f::PRESENT_IPV6_CHAIN) == 0 {
            return Next::Continue;
        }
        let ttl = self.read(f::IP_TTL);
        if ttl <= 1 {
            self.deed.drops.push(DropReason::TtlExpired);
            self.deed.effects.push(Effect::Controller {
                reason: PacketInReason::InvalidTtl,
                max_len_bytes: u16::MAX,
                controller_id: 0,
                userdata: Box::default(),
                sender: None,
                meter: None,
            });
            return Next::EndList;
        }
        self.write_ttl(ttl - 1);
        self.deed.effects.push(Effect::DecTtl);
        Next::Continue
    }

    fn write_ttl(&mut self, ttl: u128) {
        self.write(f::IP_TTL, ttl, 0xff);
        self.write(f::IP_TTL_ABOVE_1, u128::from(ttl > 1), 1);
    }
}

/// Writes fields and tags.
impl Machine<'_> {
    fn set_field(&mut self, write: Write) {
        if write.field == f::VLAN_TCI {
            return self.write_tag(write.value as u16, write.mask as u16);
        }
        if !self.has_header_of(write.field) {
            return;
        }
        let (field, value, mask) = (write.field, write.value & write.mask, write.mask);
        self.write(field, value, mask);
        if self.is_on_wire(field) {
            self.deed.effects.push(Effect::Set { field, value, mask });
        }
        if field == f::IP_TTL {
            self.write_ttl(self.read(f::IP_TTL));
        }
    }

    fn is_on_wire(&self, field: FieldId) -> bool {
        let source = &self.shape.fields[field.index()].source;
        matches!(source, Source::Wire(_) | Source::Scalar(_))
    }

    fn has_header_of(&self, field: FieldId) -> bool {
        match &self.shape.fields[field.index()].source {
            Source::Wire(locations) => locations.iter().any(|location| {
                f::presence_of(location.header).is_none_or(|bit| self.read(bit) == 1)
            }),
            Source::Scalar(_) => field == f::ARP_OP && self.read(f::PRESENT_ARP) == 1,
            _ => true,
        }
    }

    fn copy(&mut self, source: &Subfield, destination: &Subfield) {
        let mut value = self.read_subfield(source);
        let mut slices = destination.slices.iter();
        let is_wire = slices.any(|slice| self.is_on_wire(slice.field));
        for slice in &destination.slices {
            let mask = ones(slice) << slice.offset;
            let write = Write {
                field: slice.field,
                value: (value & ones(slice)) << slice.offset,
                mask,
            };
            value = value.checked_shr(slice.width_bits.into()).unwrap_or(0);
            if is_wire {
                self.set_field(write);
            } else {
                self.write(write.field, write.value, mask);
            }
        }
    }

    /// Bit 12 of the tag's field says whether there is a tag, so a write may add or remove
    /// one.
    fn write_tag(&mut self, value: u16, mask: u16) {
        let had_tag = self.has_tag(f::VLAN_TCI);
        let has_tag = match mask & f::VLAN_PRESENT {
            0 => had_tag,
            _ => value & f::VLAN_PRESENT != 0,
        };
        if had_tag && !has_tag && self.has_inner_tag_to_pop() {
            self.write(f::VLAN_TCI_INNER, 0, 0xffff);
            self.deed.effects.push(Effect::PopVlan);
        }
        self.write(f::VLAN_TCI, (value & mask).into(), mask.into());
        let tag_bits = mask & !f::VLAN_PRESENT;
        let effect = match (had_tag, has_tag) {
            (true, true) if tag_bits != 0 => Effect::Set {
                field: f::VLAN_TCI,
                value: (value & tag_bits).into(),
                mask: tag_bits.into(),
            },
            (false, true) => Effect::PushVlan {
                tpid: 0x8100,
                tci: self.read(f::VLAN_TCI) as u16 & !f::VLAN_PRESENT,
            },
            (true, false) => Effect::PopVlan,
            _ => return,
        };
        self.deed.effects.push(effect);
    }

    fn push_vlan(&mut self, tpid: u16) {
        self.walk.is_tag_hidden |= self.has_tag(f::VLAN_TCI) && self.has_tag(f::VLAN_TCI_INNER);
        self.write(f::VLAN_TCI_INNER, self.read(f::VLAN_TCI), 0xffff);
        self.write(f::VLAN_TCI, f::VLAN_PRESENT.into(), 0xffff);
        self.deed.effects.push(Effect::PushVlan { tpid, tci: 0 });
    }

    fn pop_vlan(&mut self) {
        if !self.has_tag(f::VLAN_TCI) {
            return;
        }
        let below = if self.has_inner_tag_to_pop() {
            self.read(f::VLAN_TCI_INNER)
        } else {
            0
        };
        self.write(f::VLAN_TCI, below, 0xffff);
        if below != 0 {
            self.write(f::VLAN_TCI_INNER, 0, 0xffff);
        }
        self.deed.effects.push(Effect::PopVlan);
    }

    fn has_inner_tag_to_pop(&mut self) -> bool {
        let has_inner = self.has_tag(f::VLAN_TCI_INNER);
        if has_inner {
            let is_third_tag = matches!(self.read(f::ETH_TYPE), 0x8100 | 0x88a8);
            self.needs_parse |= self.walk.is_tag_hidden || is_third_tag;
        }
        has_inner
    }

    fn has_tag(&self, tci: FieldId) -> bool {
        self.read(tci) & u128::from(f::VLAN_PRESENT) != 0
    }
}

/// Reads and writes words.
impl Machine<'_> {
    fn read(&self, field: FieldId) -> u128 {
        let layout = &self.shape.layout;
        layout.get(&self.walk.words, field).unwrap_or(0)
    }

    fn read_subfield(&self, subfield: &Subfield) -> u128 {
        let mut value = 0;
        let mut width = 0;
        for slice in &subfield.slices {
            value |= (self.read(slice.field) >> slice.offset & ones(slice)) << width;
            width += slice.width_bits;
        }
        value
    }

    fn write(&mut self, field: FieldId, value: u128, mask: u128) {
        let new = self.read(field) & !mask | value & mask;
        self.shape.layout.set(&mut self.walk.words, field, new);
    }
}

/// Whether an action needs no headers behind those already changed.
fn is_blind(action: &Action) -> bool {
    match action {
        Action::Output(output) => !matches!(output, Output::Field(_) | Output::Table),
        Action::Note(_) | Action::Exit => true,
        _ => false,
    }
}

fn ones(slice: &Slice) -> u128 {
    u128::MAX >> (128 - slice.width_bits)
}
