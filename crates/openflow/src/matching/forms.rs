//! One condition under several names: Nicira's and the standard's, 32, 64 and 128 bits.
//!
//! A controller reads back the names of its own version, whatever names the rule came with.

use std::borrow::Cow;

use super::{Condition, Match};
use crate::field::{FieldId, Value};
use crate::port_number::PortNumber;
use crate::version::Version;

const VID_BITS: u16 = 0x1fff;
const VLAN_PRESENT: u16 = 0x1000;
const PCP_BITS: u16 = 0xe000;

impl Condition {
    /// A condition on all bits of a field.
    pub fn exact(field: FieldId, number: u128) -> Condition {
        Condition {
            field,
            value: Value::from_number(number, field.bytes()),
            mask: None,
        }
    }

    /// A condition on some bits of a field.
    pub fn masked(field: FieldId, number: u128, mask: u128) -> Condition {
        let bytes = field.bytes();
        let condition = Condition {
            field,
            value: Value::from_number(number & mask, bytes),
            mask: Some(Value::from_number(mask, bytes)),
        };
        condition.simplified()
    }

    /// The same condition without a mask that names all bits.
    pub(super) fn simplified(mut self) -> Condition {
        let ignores_upper_bits = [FieldId::VLAN_VID, FieldId::IPV6_LABEL, FieldId::IP_FRAG];
        if let Some(mask) = &self.mask {
            let all = Value::ones(self.field.width_bits(), self.field.bytes());
            let counts_all = ignores_upper_bits.contains(&self.field) && !all.exceeds(mask);
            // A short mask of a tunnel's option does not name the bits above it.
            if !self.field.is_variable() && (mask.is_ones() || counts_all) {
                self.mask = None;
            }
        }
        self
    }

    fn numbers(&self) -> (u128, u128) {
        let all = Value::ones(self.field.width_bits(), self.field.bytes());
        let mask = self.mask.as_ref().unwrap_or(&all);
        (self.value.number(), mask.number())
    }
}

impl Match {
    /// The conditions under the names of a version, or of Nicira for `None`.
    pub(super) fn in_forms_of(&self, version: Option<Version>) -> Cow<'_, [Condition]> {
        let is_foreign = |field: FieldId| match version {
            None => {
                matches!(
                    field,
                    FieldId::IN_PORT_OXM | FieldId::VLAN_VID | FieldId::VLAN_PCP | FieldId::IP_DSCP
                ) || is_wide_register(field)
            }
            Some(version) => {
                matches!(
                    field,
                    FieldId::IN_PORT | FieldId::VLAN_TCI | FieldId::NW_TOS
                ) || match version {
                    Version::V15 => is_register(field) && !is_of_64_bits(field),
                    _ => is_wide_register(field),
                }
            }
        };
        let fields = || self.conditions.iter().map(|condition| condition.field);
        if !fields().any(is_foreign) {
            return Cow::Borrowed(&self.conditions);
        }
        let mut list: Vec<Condition> = Vec::new();
        let mut has_registers = false;
        for condition in &self.conditions {
            if is_register(condition.field) {
                if !std::mem::replace(&mut has_registers, true) {
                    list.extend(self.registers(version));
                }
                continue;
            }
            match version {
                None => self.to_nicira(condition, &mut list),
                Some(_) => to_standard(condition, &mut list),
            }
        }
        Cow::Owned(list)
    }

    fn to_nicira(&self, condition: &Condition, list: &mut Vec<Condition>) {
        let number = condition.value.number();
        match condition.field {
            FieldId::IN_PORT_OXM => {
                let port = PortNumber(number as u32).to_u16().unwrap_or(u16::MAX);
                list.push(Condition::exact(FieldId::IN_PORT, port.into()));
            }
            FieldId::IP_DSCP => list.push(Condition::exact(FieldId::NW_TOS, number << 2)),
            FieldId::VLAN_VID | FieldId::VLAN_PCP => {
                if !list.iter().any(|known| known.field == FieldId::VLAN_TCI) {
                    let (value, mask) = self.vlan().expect("a condition on the VLAN");
                    let (value, mask) = (value.into(), mask.into());
                    list.push(Condition::masked(FieldId::VLAN_TCI, value, mask));
                }
            }
            _ => list.push(condition.clone()),
        }
    }

    /// Value and mask of the VLAN's tag (`vlan_tci`), from any of its names.
    pub fn vlan(&self) -> Option<(u16, u16)> {
        let mut tci = (0, 0);
        for condition in &self.conditions {
            let (value, mask) = condition.numbers();
            let shift = match condition.field {
                FieldId::VLAN_TCI | FieldId::VLAN_VID => 0,
                FieldId::VLAN_PCP => 13,
                _ => continue,
            };
            tci.0 |= (value as u16) << shift;
            tci.1 |= (mask as u16) << shift;
        }
        Some(tci).filter(|tci| tci.1 != 0)
    }

    /// The conditions on registers in 64 bits (OpenFlow 1.5) or in 32.
    fn registers(&self, version: Option<Version>) -> Vec<Condition> {
        let mut words = [(0u128, 0u128); 16];
        for condition in &self.conditions {
            let (value, mask) = condition.numbers();
            let Some((first, count)) = words_of(condition.field) else {
                continue;
            };
            for word in 0..count {
                let shift = 32 * (count - 1 - word);
                let place = &mut words[usize::from(first + word)];
                place.0 |= value >> shift & 0xffff_ffff;
                place.1 |= mask >> shift & 0xffff_ffff;
            }
        }
        let (base, list): (_, Vec<_>) = if version == Some(Version::V15) {
            let pair =
                |pair: &[(u128, u128)]| (pair[0].0 << 32 | pair[1].0, pair[0].1 << 32 | pair[1].1);
            (FieldId::XREG0, words.chunks(2).map(pair).collect())
        } else {
            (FieldId::REG0, words.to_vec())
        };
        let numbered = (0..).zip(list).filter(|(_, (_, mask))| *mask != 0);
        numbered
            .map(|(place, (value, mask))| Condition::masked(base.after(place), value, mask))
            .collect()
    }
}

fn to_standard(condition: &Condition, list: &mut Vec<Condition>) {
    let (value, mask) = condition.numbers();
    match condition.field {
        FieldId::IN_PORT => {
            let port = PortNumber::from_u16(value as u16);
            list.push(Condition::exact(FieldId::IN_PORT_OXM, port.0.into()));
        }
        FieldId::NW_TOS => list.push(Condition::exact(FieldId::IP_DSCP, value >> 2)),
        FieldId::VLAN_TCI => {
            let (value, mask) = (value as u16, mask as u16);
            if mask & VID_BITS != 0 {
                let (value, mask) = (value & VID_BITS, mask & VID_BITS);
                list.push(Condition::masked(
                    FieldId::VLAN_VID,
                    value.into(),
                    mask.into(),
                ));
            }
            if mask & PCP_BITS != 0 && value & VLAN_PRESENT != 0 {
                list.push(Condition::exact(FieldId::VLAN_PCP, (value >> 13).into()));
            }
        }
        _ => list.push(condition.clone()),
    }
}

fn is_register(field: FieldId) -> bool {
    words_of(field).is_some()
}

fn is_wide_register(field: FieldId) -> bool {
    words_of(field).is_some_and(|(_, count)| count > 1)
}

fn is_of_64_bits(field: FieldId) -> bool {
    words_of(field).is_some_and(|(_, count)| count == 2)
}

/// The first register of 32 bits that a register covers, and how many it covers.
fn words_of(field: FieldId) -> Option<(u16, u16)> {
    let kinds = [
        (FieldId::REG0, 16, 1),
        (FieldId::XREG0, 8, 2),
        (FieldId::XXREG0, 4, 4),
    ];
    kinds.into_iter().find_map(|(first, count, words)| {
        let place = field.distance(first).filter(|place| *place < count)?;
        Some((place * words, words))
    })
}
