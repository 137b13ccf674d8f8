//! The switch that OpenFlow connections drive, behind one trait.
//!
//! 1. The return of [`Target::change`] is the barrier: from then on no packet is answered by
//!    an older state.
//! 2. A transaction is done whole or not at all; a refused one changes nothing.
//! 3. The answer to a read is exact at one state of the switch.

use std::sync::Arc;

use thalweg_openflow::action::Instructions;
use thalweg_openflow::message::continuation::PacketContinuation;
use thalweg_openflow::message::flow::{FlowMod, FlowRemoved, FlowStats, FlowStatsRequest};
use thalweg_openflow::message::group::GroupMod;
use thalweg_openflow::message::meter::MeterMod;
use thalweg_openflow::message::monitor::MonitorEvent;
use thalweg_openflow::message::nicira::{CtFlush, TlvMap, TlvTable};
use thalweg_openflow::message::packet::{PacketIn, PacketOut};
use thalweg_openflow::message::port::{PortDesc, PortMod, PortStatus};
use thalweg_openflow::message::switch::{Description, Features, TableMod, TableStatus};
use thalweg_openflow::message::{Reply, Request};
use thalweg_openflow::{Refusal, Version};

/// One request that changes the switch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// Changes flow entries.
    Flow(Box<FlowMod>),
    /// Changes groups.
    Group(GroupMod),
    /// Changes a meter.
    Meter(MeterMod),
    /// Changes a port.
    Port(PortMod),
    /// Changes a table.
    Table(TableMod),
    /// Sends a packet, after the changes in front of it.
    PacketOut(PacketOut),
}

/// Changes that take effect together or not at all: one message, or a bundle.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Transaction {
    /// The version that the messages are of; it decides what some commands mean.
    pub version: Version,
    /// The changes, in their order.
    pub changes: Vec<Change>,
}

/// Why a transaction was refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// The change that is at fault, from 0.
    pub index: usize,
    /// Why that change is refused.
    pub refusal: Refusal,
}

/// What became of a flow entry, for monitors.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FlowEvent {
    /// What happened.
    pub event: MonitorEvent,
    /// The entry after it, or as it ended.
    pub flow: FlowStats,
    /// What the entry did before, if the change replaced or modified it.
    pub before: Option<Instructions>,
    /// Why it ended (`OFPRR_*`); 0 otherwise.
    pub reason: u8,
    /// The change of the transaction that caused it, from 0.
    pub change: usize,
}

/// What a transaction did.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    /// Flow entries that are new, changed or ended, in order; empty unless monitors want them
    /// ([`Target::watch_flows`]).
    pub flows: Vec<FlowEvent>,
}

/// A packet for controllers, and who gets it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PacketEvent {
    /// The packet, with all that any form tells but the continuation; `data` is the whole
    /// packet.
    pub packet: PacketIn,
    /// What lets a paused packet go on.
    pub continuation: Option<PacketContinuation>,
    /// The controllers' own number that the action named; 0 for all without a number.
    pub controller_id: u16,
    /// Bytes that the action sends; 0xffff for all. `None` if no rule matched the packet: the
    /// connection's `miss_send_len` counts, and OpenFlow 1.3 and later are not told.
    pub max_length: Option<u16>,
}

/// What a switch does unasked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A packet for controllers.
    Packet(Box<PacketEvent>),
    /// A flow entry ended that asked for a report.
    FlowRemoved(Box<FlowRemoved>),
    /// A flow entry ended by itself: its time was over, or its group went.
    Flow(Box<FlowEvent>),
    /// A port came, went or changed; with what it was before, if it changed.
    Port(PortStatus, Option<Box<PortDesc>>),
    /// A table's room is short, or is back.
    Table(TableStatus),
}

/// Flow entries at one state of the switch, read in slices.
pub trait FlowCursor: Send {
    /// The next entries, at most `count`; empty at the end.
    fn next(&mut self, count: usize) -> Vec<FlowStats>;
}

/// Wakes the reader of events.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

/// A switch that OpenFlow connections drive: crate `switch` has the one that implements it.
pub trait Target: Send {
    /// What it is; `ports` are in [`Target::ports`].
    fn features(&self) -> Features;

    /// Texts that describe it.
    fn description(&self) -> Description;

    /// Its ports, by number.
    fn ports(&self) -> Vec<PortDesc>;

    /// Handles fragments by these bits (`OFPC_FRAG_*`).
    ///
    /// # Errors
    /// If it cannot handle them so.
    fn set_fragments(&mut self, mode: u16) -> Result<(), Refusal>;

    /// Checks a change that a bundle will make later, apart from the switch's state.
    ///
    /// # Errors
    /// If it is invalid in every state.
    fn check(&self, version: Version, change: &Change) -> Result<(), Refusal>;

    /// Does transactions, each whole or not at all. Those that wait together may take effect
    /// together. Returns what became of each, in order.
    fn change(&mut self, transactions: Arc<[Transaction]>) -> Vec<Result<Outcome, Failure>>;

    /// Flow entries with exact counts, at the state of this call.
    ///
    /// # Errors
    /// If there is no such table, or the request makes no sense.
    fn flows(&mut self, request: &FlowStatsRequest) -> Result<Box<dyn FlowCursor>, Refusal>;

    /// Answers a request for statistics or descriptions, except of flow entries
    /// (`Request::Flow`), of the switch (`Request::Description`), of ports
    /// (`Request::PortDesc`) and monitors.
    ///
    /// # Errors
    /// If there is no such object, or the switch has no such thing.
    fn read(&mut self, version: Version, request: &Request) -> Result<Reply, Refusal>;

    /// Lets a paused packet go on, with the bytes and metadata that it has now.
    ///
    /// # Errors
    /// If the continuation is not from here or too old.
    fn resume(&mut self, packet: PacketIn, continuation: PacketContinuation)
    -> Result<(), Refusal>;

    /// Whether [`Outcome::flows`] and [`Event::Flow`] are wanted.
    fn watch_flows(&mut self, wanted: bool);

    /// Whether packets that no rule matches are wanted, where no message said what their table
    /// does: they come as [`Event::Packet`] without a length.
    fn want_misses(&mut self, wanted: bool);

    /// Forgets tracked connections; afterwards there are none of those asked for.
    ///
    /// # Errors
    /// If it tracks connections and cannot choose them so.
    fn flush_connections(&mut self, asked: &CtFlush) -> Result<(), Refusal>;

    /// The options of tunnels that have a field.
    fn mapped_options(&mut self) -> Vec<TlvMap>;

    /// Takes the options of tunnels that have a field, all of them, from now on.
    fn map_options(&mut self, options: &TlvTable);

    /// Whether a rule has the option of tunnels with this number (`tun_metadata`).
    fn uses_option(&mut self, number: u16) -> bool;

    /// What it did unasked since the last call.
    fn events(&mut self) -> Vec<Event>;

    /// Sets the function that tells that there are events; it is quick and never blocks.
    fn wake_by(&mut self, waker: Waker);
}
