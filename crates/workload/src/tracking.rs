//! The action `ct(...)` of generated rules, and its text.

use std::fmt;

use crate::action::{Action, write_list};

/// The zone in which a rule tracks packets.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TrackZone {
    /// Its number.
    Number(u16),
    /// The low half of a register holds it.
    Register(u8),
}

/// What a rule asks of the tracker of connections.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TrackAction {
    /// The zone.
    pub zone: TrackZone,
    /// Whether a new connection is remembered.
    pub is_commit: bool,
    /// Whether a connection of the other direction ends first.
    pub is_forced: bool,
    /// The table that a copy of the packet is looked up in afterwards.
    pub table: Option<u8>,
    /// How addresses are translated, as text: `nat` or `nat(src=10.0.0.1)`.
    pub translation: Option<String>,
    /// The protocol that announces further connections: `ftp` or `tftp`.
    pub alg: Option<&'static str>,
    /// What writes the connection's mark and label.
    pub exec: Vec<Action>,
}

impl fmt::Display for TrackAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.zone {
            TrackZone::Number(zone) => write!(f, "ct(zone={zone}")?,
            TrackZone::Register(number) => write!(f, "ct(zone=reg{number}[0..15]")?,
        }
        if self.is_commit {
            f.write_str(",commit")?;
        }
        if self.is_forced {
            f.write_str(",force")?;
        }
        if let Some(table) = self.table {
            write!(f, ",table={table}")?;
        }
        if let Some(translation) = &self.translation {
            write!(f, ",{translation}")?;
        }
        if let Some(alg) = self.alg {
            write!(f, ",alg={alg}")?;
        }
        if !self.exec.is_empty() {
            f.write_str(",exec(")?;
            write_list(f, &self.exec)?;
            f.write_str(")")?;
        }
        f.write_str(")")
    }
}
