//! Actions that change fields, headers, and the stack.

use thalweg_packet::FieldId;
use thalweg_packet::standard as f;

use super::ActionReader;
use crate::action::{Action, Write};
use crate::check::form::{LABEL_TYPES, TAG_TYPES};
use crate::text::error::Parsed;
use crate::text::fields::{self, Format};
use crate::text::line::{Mark, Pair};
use crate::text::matches::piece_bits;
use crate::text::value::ones;

impl<'a> ActionReader<'a> {
    /// Reads the action, if it belongs to this family.
    pub(super) fn write(&mut self, word: &str, pair: Pair<'a>) -> Parsed<Option<Action>> {
        let line = self.line;
        let value = pair.value;
        let action = match word {
            "set_field" => self.set_field(value)?,
            "load" => self.load(value)?,
            "move" => self.move_bits(value)?,
            "push" => Action::Push(self.subfield(value, false)?.1),
            "pop" => Action::Pop(self.subfield(value, true)?.1),
            "push_vlan" => match line.integer(value)? {
                tpid if TAG_TYPES.contains(&tpid) => Action::PushVlan(tpid),
                _ => return Err(line.value(value, "a tag's EtherType (0x8100 or 0x88a8)")),
            },
            "pop_vlan" | "strip_vlan" => Action::PopVlan,
            "push_mpls" => match line.integer(value)? {
                kind if LABEL_TYPES.contains(&kind) => Action::PushMpls(kind),
                _ => return Err(line.value(value, "a label's EtherType (0x8847 or 0x8848)")),
            },
            "pop_mpls" => Action::PopMpls(line.integer(value)?),
            "dec_ttl" => self.dec_ttl(pair)?,
            "dec_mpls_ttl" => Action::DecMplsTtl,
            "dec_nsh_ttl" => Action::DecNshTtl,
            "write_metadata" => {
                let bits = line.masked_number(value, 64)?;
                Action::WriteMetadata {
                    value: (bits.value & bits.mask) as u64,
                    mask: bits.mask as u64,
                }
            }
            "delete_field" => self.delete_field(value)?,
            _ => return self.modify(word, value),
        };
        Ok(Some(action))
    }

    /// Reads the option of a tunnel that is removed.
    fn delete_field(&self, value: &'a str) -> Parsed<Action> {
        let found = fields::find(value.trim_end_matches("[]"));
        let number = found.and_then(|name| f::tunnel_option_of(name.pieces[0].field));
        let Some(number) = number else {
            let expected = "an option of a tunnel (tun_metadata0 to tun_metadata63)";
            return Err(self.line.value(value, expected));
        };
        Ok(Action::SetField(Box::new([Write {
            field: f::TUN_OPTIONS,
            value: 0,
            mask: 1 << number,
        }])))
    }

    /// Reads an action that names its field; OpenFlow 1.0 and 1.1 had no others.
    fn modify(&mut self, word: &str, value: &'a str) -> Parsed<Option<Action>> {
        let line = self.line;
        let set = |field: FieldId, width: u16, value: u128| {
            Action::SetField(Box::new([Write {
                field,
                value,
                mask: ones(width),
            }]))
        };
        let number = |width: u16| line.number(value, width);
        let action = match word {
            "mod_dl_src" => set(f::ETH_SRC, 48, line.ethernet(value)?.into()),
            "mod_dl_dst" => set(f::ETH_DST, 48, line.ethernet(value)?.into()),
            "mod_nw_src" => set(f::IP_SRC, 32, line.ipv4(value)?.into()),
            "mod_nw_dst" => set(f::IP_DST, 32, line.ipv4(value)?.into()),
            "mod_nw_tos" => match number(8)? {
                tos if tos & 3 == 0 => set(f::IP_DSCP, 6, tos >> 2),
                _ => return Err(line.value(value, "a multiple of 4 (the lowest two are ECN)")),
            },
            "mod_nw_ecn" => set(f::IP_ECN, 2, number(2)?),
            "mod_nw_ttl" | "set_nw_ttl" => set(f::IP_TTL, 8, number(8)?),
            "mod_tp_src" => set(f::TP_SRC, 16, number(16)?),
            "mod_tp_dst" => set(f::TP_DST, 16, number(16)?),
            "set_mpls_label" => set(f::MPLS_LABEL, 20, number(20)?),
            "set_mpls_tc" => set(f::MPLS_TC, 3, number(3)?),
            "set_mpls_ttl" => set(f::MPLS_TTL, 8, number(8)?),
            // `set_tunnel` was once for 32 bits; Open vSwitch treats it as `set_tunnel64` for
            // larger ids.
            "set_tunnel" | "set_tunnel64" => set(f::TUN_ID, 64, number(64)?),
            "set_vlan_vid" => set_vlan_id(number(12)?, false),
            "set_vlan_pcp" => set_vlan_priority(number(3)?, false),
            "mod_vlan_vid" => set_vlan_id(number(12)?, true),
            "mod_vlan_pcp" => set_vlan_priority(number(3)?, true),
            _ => return Ok(None),
        };
        Ok(Some(action))
    }

    fn set_field(&self, argument: &'a str) -> Parsed<Action> {
        let (text, target) = self.split_arrow(argument, "set_field:VALUE->FIELD")?;
        let (name, brackets) = self.named(target)?;
        if !brackets.is_empty() && brackets != "[]" {
            let what = "set_field writes whole fields; use load:VALUE->FIELD[FIRST..LAST]";
            return Err(self.line.syntax(brackets, what));
        }
        if !name.is_writable {
            return Err(self.line.value(target, "a field that can be written"));
        }
        let bits = self.line.masked_value(name, text)?;
        self.check_prerequisite(target, name)?;
        if bits.mask == 0 {
            return Err(self
                .line
                .value(text, "a value with a mask of at least one bit"));
        }
        let value = bits.value & bits.mask;
        Ok(match name.format {
            Format::DlVlan if value > 0xfff => {
                return Err(self
                    .line
                    .value(text, "a VLAN (0 to 4095); use pop_vlan for none"));
            }
            Format::DlVlan => set_vlan_id(value, true),
            Format::DlVlanPcp => set_vlan_priority(value, true),
            Format::VlanPcp => set_vlan_priority(value, false),
            Format::VlanVid => write_tag(value, bits.mask),
            Format::Port => Action::SetField(Box::new([Write {
                field: f::IN_PORT,
                value,
                mask: ones(32),
            }])),
            _ => {
                let writes = name.pieces.iter().filter_map(|&piece| {
                    let (value, mask) = piece_bits(piece, bits);
                    let field = piece.field;
                    (mask != 0).then_some(Write { field, value, mask })
                });
                Action::SetField(writes.collect())
            }
        })
    }

    fn load(&self, argument: &'a str) -> Parsed<Action> {
        let (text, target) = self.split_arrow(argument, "load:VALUE->FIELD[FIRST..LAST]")?;
        let (name, destination) = self.subfield(target, true)?;
        let mut value = self.line.number(text, destination.width_bits())?;
        // Ports have 16 bits, so writing these writes the whole field.
        let is_port = name.format == Format::Port && destination.width_bits() >= 16;
        if is_port && destination.slices[0].offset == 0 {
            let mask = ones(32);
            let field = f::IN_PORT;
            return Ok(Action::SetField(Box::new([Write { field, value, mask }])));
        }
        let writes = destination.slices.iter().map(|slice| {
            let bits = value & ones(slice.width_bits);
            value = value.checked_shr(slice.width_bits.into()).unwrap_or(0);
            Write {
                field: slice.field,
                value: bits << slice.offset,
                mask: ones(slice.width_bits) << slice.offset,
            }
        });
        Ok(Action::SetField(writes.collect()))
    }

    fn move_bits(&self, argument: &'a str) -> Parsed<Action> {
        let (from, to) =
            self.split_arrow(argument, "move:FIELD[FIRST..LAST]->FIELD[FIRST..LAST]")?;
        let (_, source) = self.subfield(from, false)?;
        let (_, destination) = self.subfield(to, true)?;
        if source.width_bits() != destination.width_bits() {
            let expected = format!("as wide as the {} bits it gets", source.width_bits());
            return Err(self.line.value(to, expected));
        }
        Ok(Action::Move {
            source,
            destination,
        })
    }

    /// Reads `dec_ttl`, which may name controllers; only controller 0 exists.
    fn dec_ttl(&self, pair: Pair<'a>) -> Parsed<Action> {
        if pair.mark != Mark::None {
            for id in pair.value.split([',', ' ']).filter(|id| !id.is_empty()) {
                if self.line.integer::<u16>(id)? != 0 {
                    return Err(self.line.unsupported(id, "dec_ttl(CONTROLLER_IDS)"));
                }
            }
        }
        Ok(Action::DecTtl)
    }

    pub(super) fn split_arrow(&self, argument: &'a str, form: &str) -> Parsed<(&'a str, &'a str)> {
        let parts = argument.split_once("->");
        parts.ok_or_else(|| self.line.syntax(argument, format!("write {form}")))
    }
}

fn set_vlan_id(id: u128, adds_tag: bool) -> Action {
    Action::SetVlan {
        id: Some(id as u16),
        priority: None,
        adds_tag,
    }
}

fn set_vlan_priority(priority: u128, adds_tag: bool) -> Action {
    Action::SetVlan {
        id: None,
        priority: Some(priority as u8),
        adds_tag,
    }
}

fn write_tag(value: u128, mask: u128) -> Action {
    Action::SetField(Box::new([Write {
        field: f::VLAN_TCI,
        value,
        mask,
    }]))
}
