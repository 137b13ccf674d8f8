//! Options of tunnels and their fields (`NXT_TLV_TABLE_MOD`).

use thalweg_openflow::message::nicira::{TlvCommand, TlvMap, TlvTable, TlvTableMod};
use thalweg_openflow::{ErrorCode, Refusal, refuse};

/// Bytes of options that all fields together hold, and the most fields.
const MAX_SPACE: u32 = 256;
const MAX_FIELDS: u16 = 64;

/// The options that have a field.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct TlvMaps {
    maps: Vec<TlvMap>,
}

impl TlvMaps {
    /// The options that have a field now.
    pub(super) fn new(maps: Vec<TlvMap>) -> TlvMaps {
        TlvMaps { maps }
    }

    pub(super) fn told(&self) -> TlvTable {
        TlvTable {
            max_space: MAX_SPACE,
            max_fields: MAX_FIELDS,
            maps: self.maps.clone(),
        }
    }

    /// Does what a message asks for, whole or not at all; `is_used` tells whether a rule has a
    /// field.
    pub(super) fn change(
        &mut self,
        asked: &TlvTableMod,
        mut is_used: impl FnMut(u16) -> bool,
    ) -> Result<(), Refusal> {
        let mut maps = self.maps.clone();
        match asked.command {
            TlvCommand::Clear => maps.clear(),
            TlvCommand::Delete => {
                for map in &asked.maps {
                    let place = maps.iter().position(|known| {
                        (known.class, known.kind) == (map.class, map.kind)
                            && known.index == map.index
                    });
                    if let Some(place) = place {
                        maps.remove(place);
                    }
                }
            }
            TlvCommand::Add => {
                for map in &asked.maps {
                    add(&mut maps, *map)?;
                }
            }
        }
        let gone = self.maps.iter().filter(|known| !maps.contains(known));
        if let Some(used) = gone.map(|map| map.index).find(|index| is_used(*index)) {
            let what = format!("a rule has tun_metadata{used}; delete it first");
            return Err(refuse(ErrorCode::NXTTMFC_INVALID_TLV_DEL, what));
        }
        self.maps = maps;
        Ok(())
    }
}

fn add(maps: &mut Vec<TlvMap>, map: TlvMap) -> Result<(), Refusal> {
    let is_option = |known: &&TlvMap| (known.class, known.kind) == (map.class, map.kind);
    if maps.iter().any(|known| known.index == map.index) {
        let what = format!("tun_metadata{} has an option", map.index);
        return Err(refuse(ErrorCode::NXTTMFC_ALREADY_MAPPED, what));
    }
    if maps.iter().find(is_option).is_some() {
        let what = format!("option {:#x}, {:#x} has a field", map.class, map.kind);
        return Err(refuse(ErrorCode::NXTTMFC_DUP_ENTRY, what));
    }
    let space: u32 = maps.iter().map(|known| u32::from(known.length)).sum();
    if space + u32::from(map.length) > MAX_SPACE {
        let what = format!("options have {MAX_SPACE} bytes at the most");
        return Err(refuse(ErrorCode::NXTTMFC_TABLE_FULL, what));
    }
    maps.push(map);
    Ok(())
}
