//! The plane: the target that connections talk to, on the server's thread.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use thalweg_control::openflow::target::{
    Change as Asked, Event, Failure, FlowCursor, Outcome, Target, Transaction, Waker,
};
use thalweg_openflow::message::continuation::PacketContinuation;
use thalweg_openflow::message::flow::FlowStatsRequest;
use thalweg_openflow::message::nicira::{CtFlush, TlvMap, TlvTable};
use thalweg_openflow::message::packet::PacketIn;
use thalweg_openflow::message::port::PortDesc;
use thalweg_openflow::message::switch::{
    Description, FRAG_DROP, FRAG_NORMAL, FRAG_NX_MATCH, Features, capability,
};
use thalweg_openflow::message::{Reply, Request};
use thalweg_openflow::{ErrorCode, Refusal, Version, refuse};
use thalweg_packet::TUNNEL_OPTIONS;
use thalweg_pipeline::{BridgeId, Change, FragmentMode, Miss, Misses, Operation, TableId};

use super::cursor::Cursor;
use super::desk::Desk;
use super::numbering::Numbering;
use super::pausing::RunId;
use super::{
    OpenFlowIdentity, OpenFlowTable, changes, cursor, hidden, packets, pausing, statistics,
};
use crate::connections::flush_asked;
use crate::rule_duty::Shared;
use crate::switch::{Interrupter, Switch};
use crate::sync::{Receiver, Sender, bounded};

/// Tables that rules may be in, by their number.
pub(super) const TABLES: u8 = 254;

/// Most events that wait to be collected.
const MAX_EVENTS: usize = 16_384;

/// Something to be done by the switch's owner.
pub(super) type Call = Box<dyn FnOnce(&mut Switch) + Send>;

/// Events on their way to the server.
#[derive(Default)]
pub(super) struct Events {
    queue: Mutex<VecDeque<Event>>,
    waker: Mutex<Option<Waker>>,
    /// Whether calls are done no more.
    is_closed: AtomicBool,
}

/// The switch's end of calls. When it is dropped, calls that wait are, too, and their callers
/// hear of it: the channel alone would keep them as long as a caller has its other end.
pub(super) struct Calls {
    waiting: Receiver<Call>,
    events: Arc<Events>,
}

impl Calls {
    /// The next call that waits.
    pub(super) fn next(&self) -> Option<Call> {
        self.waiting.try_recv().ok()
    }
}

impl Drop for Calls {
    fn drop(&mut self) {
        // In this order: a call that comes after the last look finds it closed.
        self.events.is_closed.store(true, Ordering::SeqCst);
        while self.next().is_some() {}
    }
}

impl Events {
    /// Adds an event and wakes the server; returns whether there was room.
    pub(super) fn push(&self, event: Event) -> bool {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if queue.len() >= MAX_EVENTS {
            return false;
        }
        queue.push_back(event);
        drop(queue);
        let waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(wake) = &*waker {
            wake();
        }
        true
    }

    /// How many events have room.
    pub(super) fn room(&self) -> usize {
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        MAX_EVENTS - queue.len().min(MAX_EVENTS)
    }

    fn take(&self) -> Vec<Event> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.drain(..).collect()
    }
}

/// A bridge of a switch as OpenFlow connections drive it: see [`Switch::open_flow`].
pub struct OpenFlowPlane {
    pub(super) calls: Sender<Call>,
    interrupter: Interrupter,
    shared: Arc<Shared>,
    identity: Arc<OpenFlowIdentity>,
    numbers: Numbering,
    /// What continuations of paused packets name.
    run: RunId,
    events: Arc<Events>,
}

impl std::fmt::Debug for OpenFlowPlane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "OpenFlowPlane({:016x})", self.identity.datapath_id)
    }
}

/// Creates both ends.
pub(super) fn connect(
    switch: &Switch,
    bridge: BridgeId,
    identity: OpenFlowIdentity,
) -> (Desk, OpenFlowPlane) {
    let (calls, waiting): (Sender<Call>, Receiver<Call>) = bounded(1);
    let events = Arc::new(Events::default());
    let identity = Arc::new(identity);
    let run = pausing::run_id(identity.datapath_id);
    let pipeline = switch.pipeline();
    let numbers = Numbering::of(&pipeline, bridge);
    let misses = Misses::clone(&pipeline.misses(bridge, pipeline.version()));
    drop(pipeline);
    let calls_of_desk = Calls {
        waiting,
        events: events.clone(),
    };
    let desk = Desk::new(
        (calls_of_desk, events.clone()),
        identity.clone(),
        (numbers, run),
        misses,
        switch.now(),
    );
    let plane = OpenFlowPlane {
        calls,
        interrupter: switch.interrupter(),
        shared: switch.shared.clone(),
        identity,
        numbers,
        run,
        events,
    };
    (desk, plane)
}

impl OpenFlowPlane {
    /// Sets names and limits of tables: [`Switch::set_openflow_tables`].
    ///
    /// # Errors
    /// If the switch has stopped.
    pub fn set_tables(&self, tables: BTreeMap<u8, OpenFlowTable>) -> Result<(), Refusal> {
        let bridge = self.numbers.bridge;
        self.call(move |switch| switch.set_openflow_tables(bridge, &tables))
    }

    /// Has the switch's owner do something, and waits for it.
    ///
    /// # Errors
    /// If the switch has stopped.
    fn call<R: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Switch) -> R + Send + 'static,
    ) -> Result<R, Refusal> {
        let (answer, answers) = bounded(1);
        let call: Call = Box::new(move |switch| {
            // The caller may be gone.
            let _ = answer.try_send(work(switch));
        });
        let stopped = || refuse(ErrorCode::OFPBRC_EPERM, "the switch has stopped");
        self.calls.send(call).map_err(|_| stopped())?;
        if self.events.is_closed.load(Ordering::SeqCst) {
            return Err(stopped());
        }
        self.interrupter.interrupt();
        answers.recv().map_err(|_| stopped())
    }
}

impl Target for OpenFlowPlane {
    fn features(&self) -> Features {
        Features {
            datapath_id: self.identity.datapath_id,
            buffers: 0,
            tables: TABLES,
            auxiliary_id: 0,
            capabilities: capability::FLOW_STATS
                | capability::TABLE_STATS
                | capability::PORT_STATS
                | capability::GROUP_STATS
                | capability::QUEUE_STATS
                | capability::ARP_MATCH_IP
                // Flow monitors, too; Open vSwitch does not say so.
                | capability::BUNDLES,
            actions: statistics::standard_actions(Version::V10),
            ports: Vec::new(),
        }
    }

    fn description(&self) -> Description {
        self.identity.description.clone()
    }

    fn ports(&self) -> Vec<PortDesc> {
        let numbers = self.numbers;
        self.call(move |switch| statistics::port_descriptions(switch, numbers))
            .unwrap_or_default()
    }

    fn set_fragments(&mut self, mode: u16) -> Result<(), Refusal> {
        let mode = match mode {
            FRAG_NORMAL => FragmentMode::Normal,
            FRAG_DROP => FragmentMode::Drop,
            FRAG_NX_MATCH => FragmentMode::NxMatch,
            _ => {
                let what = "this switch does not put fragments together; it has the modes \
                            `normal`, `drop` and `nx-match`";
                return Err(refuse(ErrorCode::OFPSCFC_BAD_FLAGS, what));
            }
        };
        let change = Change::one(Operation::SetFragments(self.numbers.bridge, mode));
        let made = self.call(move |switch| switch.apply(&change))?;
        made.map(drop).map_err(|error| changes::refusal_of(&error))
    }

    fn check(&self, version: Version, change: &Asked) -> Result<(), Refusal> {
        changes::check(self.numbers, version, change)
    }

    fn change(&mut self, transactions: Arc<[Transaction]>) -> Vec<Result<Outcome, Failure>> {
        let count = transactions.len();
        let numbers = self.numbers;
        let done = self.call(move |switch| changes::make(switch, numbers, &transactions));
        done.unwrap_or_else(|refusal| {
            let failure = Failure { index: 0, refusal };
            vec![Err(failure); count]
        })
    }

    fn flows(&mut self, request: &FlowStatsRequest) -> Result<Box<dyn FlowCursor>, Refusal> {
        let request = request.clone();
        let numbers = self.numbers;
        if request.table == TABLES {
            let entries = self.call(move |switch| hidden::entries(switch, numbers, &request))??;
            return Ok(Box::new(hidden::Entries(entries.into_iter())));
        }
        let snapshot = self.call(move |switch| cursor::snapshot(switch, numbers, &request))??;
        Ok(Box::new(Cursor::new(self.shared.clone(), snapshot)))
    }

    fn read(&mut self, version: Version, request: &Request) -> Result<Reply, Refusal> {
        let request = request.clone();
        let numbers = self.numbers;
        self.call(move |switch| statistics::read(switch, numbers, version, &request))?
    }

    fn resume(
        &mut self,
        packet: PacketIn,
        continuation: PacketContinuation,
    ) -> Result<(), Refusal> {
        let prepared = packets::prepare_resumption(self.numbers, &packet, &continuation, self.run)?;
        self.call(move |switch| packets::resume(switch, prepared))?
    }

    fn watch_flows(&mut self, wanted: bool) {
        let bridge = self.numbers.bridge;
        let _ = self.call(move |switch| {
            if let Some(desk) = switch.desks.get_mut(bridge) {
                desk.watches_flows = wanted;
            }
        });
    }

    fn want_misses(&mut self, wanted: bool) {
        let others = match wanted {
            true => Miss::Controller,
            false => Miss::Drop,
        };
        let bridge = self.numbers.bridge;
        let _ = self.call(move |switch| {
            if let Some(desk) = switch.desks.get_mut(bridge) {
                desk.misses.others = others;
            }
            switch.follow_misses(bridge);
        });
    }

    fn flush_connections(&mut self, asked: &CtFlush) -> Result<(), Refusal> {
        let asked = flush_asked(asked);
        self.call(move |switch| switch.flush_connections(&asked))?;
        Ok(())
    }

    fn mapped_options(&mut self) -> Vec<TlvMap> {
        let bridge = self.numbers.bridge;
        let known = self.call(move |switch| switch.tunnel_options.get(&bridge).cloned());
        known.ok().flatten().unwrap_or_default()
    }

    fn map_options(&mut self, options: &TlvTable) {
        let (bridge, maps) = (self.numbers.bridge, options.maps.clone());
        // A switch that is gone has no tunnels.
        let _ = self.call(move |switch| switch.map_options(bridge, &maps));
    }

    fn uses_option(&mut self, number: u16) -> bool {
        let Some(number) = u8::try_from(number)
            .ok()
            .filter(|number| *number < TUNNEL_OPTIONS)
        else {
            return false;
        };
        let bridge = self.numbers.bridge;
        let used = self.call(move |switch| {
            let pipeline = switch.pipeline();
            let is_of = |table: TableId| table.bridge() == bridge;
            pipeline.uses_tunnel_option(number, pipeline.version(), is_of)
        });
        used.unwrap_or(false)
    }

    fn events(&mut self) -> Vec<Event> {
        self.events.take()
    }

    fn wake_by(&mut self, waker: Waker) {
        let mut place = self
            .events
            .waker
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *place = Some(waker);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_waits_ends_with_the_desk() {
        let (calls, waiting): (Sender<Call>, Receiver<Call>) = bounded(1);
        let events = Arc::new(Events::default());
        let desk = Calls {
            waiting,
            events: events.clone(),
        };
        let (answer, answers) = bounded::<()>(1);
        let call: Call = Box::new(move |_| drop(answer));
        assert!(calls.send(call).is_ok());
        assert!(matches!(answers.try_recv(), Err(error) if !error.is_disconnected()));
        drop(desk);
        // The caller does not wait for an answer that never comes.
        assert!(matches!(answers.try_recv(), Err(error) if error.is_disconnected()));
        assert!(events.is_closed.load(Ordering::SeqCst));
    }
}
