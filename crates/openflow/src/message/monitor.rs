//! Flow monitors: a controller is told of changes of flow entries (`NXST_FLOW_MONITOR`,
//! `ONFST_FLOW_MONITOR`, `OFPMP_FLOW_MONITOR`).

use crate::action::Instructions;
use crate::matching::Match;
use crate::port_number::PortNumber;

/// A monitor to be made, changed or removed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MonitorRequest {
    /// Its number, chosen by the controller.
    pub id: u32,
    /// The kind of change (OpenFlow 1.4); adding otherwise.
    pub command: MonitorCommand,
    /// Bits of [`flags`].
    pub flags: u16,
    /// Only entries that send packets there.
    pub out_port: PortNumber,
    /// Only entries that use this group (OpenFlow 1.4).
    pub out_group: u32,
    /// Only entries of this table; 0xff for all.
    pub table: u8,
    /// Only entries that are at least as narrow.
    pub matching: Match,
}

/// What a [`MonitorRequest`] does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MonitorCommand {
    /// Makes a monitor.
    Add = 0,
    /// Changes one.
    Modify = 1,
    /// Removes one.
    Delete = 2,
}

/// Bits of a monitor's flags (`OFPFMF_*`, Nicira's `NXFMF_*` have the same order).
pub mod flags {
    /// Tells the entries that exist.
    pub const INITIAL: u16 = 1 << 0;
    /// Tells new entries.
    pub const ADD: u16 = 1 << 1;
    /// Tells ended entries.
    pub const REMOVED: u16 = 1 << 2;
    /// Tells changed entries.
    pub const MODIFY: u16 = 1 << 3;
    /// Tells what entries do.
    pub const INSTRUCTIONS: u16 = 1 << 4;
    /// Tells the controller's own changes in full instead of in short.
    pub const NO_ABBREV: u16 = 1 << 5;
    /// Tells only the controller's own changes, says the standard; Open vSwitch means what
    /// [`NO_ABBREV`] says.
    pub const ONLY_OWN: u16 = 1 << 6;
}

/// One thing that a monitor tells.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MonitorUpdate {
    /// An entry exists, is new, ended or changed.
    Full {
        /// What happened.
        event: MonitorEvent,
        /// Why an entry ended (`OFPRR_*`); 0 otherwise.
        reason: u8,
        /// Its priority.
        priority: u16,
        /// Its idle timeout.
        idle_timeout_s: u16,
        /// Its hard timeout.
        hard_timeout_s: u16,
        /// Its table.
        table: u8,
        /// Its cookie.
        cookie: u64,
        /// Its conditions.
        matching: Match,
        /// What it does, if asked for.
        instructions: Instructions,
    },
    /// A change of the controller's own, by its transaction.
    Abbreviated(u32),
    /// The reader is too slow: nothing is told until [`MonitorUpdate::Resumed`] (OpenFlow 1.4;
    /// messages of their own before).
    Paused,
    /// All that differs has been told, and what follows is told again.
    Resumed,
}

/// What happened to an entry (`OFPFME_*`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MonitorEvent {
    /// It existed before the monitor.
    Initial,
    /// It is new.
    Added,
    /// It ended.
    Removed,
    /// It changed.
    Modified,
}
