//! The session state machine of one switch: every call and message of P4Runtime.
//!
//! The owner of a [`Device`] hands it what arrives and collects what to send:
//!
//! ```text
//!   handle_message(stream, ..)    handle_write(..), handle_read(..), ...: an answer each
//!   handle_close(stream)          handle_packet(..), handle_digest(..): from the data plane
//!   handle_timeout(now)           poll_transmit(), poll_timeout()
//! ```
//!
//! Calls are handled one after the other, so each sees the effects of all earlier ones. Writes
//! are serializable, and a read never sees half a write: [`Device::read`] takes a snapshot of
//! the state, and makes the answer from it while it is sent.
//!
//! 1. A failed call changes nothing, except for a batch's updates that succeeded.
//! 2. The outbox is bounded: packets and digest lists beyond the bound are dropped and counted.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use thalweg_packet::Instant;

use crate::arbitration::{Advice, Arbitration, RoleName, StreamId, no_device};
use crate::batch;
use crate::change::{EntryKey, EntryRef};
use crate::digests::{Digests, List};
use crate::idle::IdleTimers;
use crate::packet_io;
use crate::pipeline::{Pipeline, no_pipeline};
use crate::problem::{Failure, Problem};
use crate::proto::p4::v1 as p4;
use crate::proto::p4::v1::stream_message_request::Update as Request;
use crate::proto::p4::v1::stream_message_response::Update as Response;
use crate::proto::p4::v1::write_request::Atomicity;
use crate::store::{IdleEntry, Live, Reading, Store};
use crate::target::{EntryState, Side, Target};
use crate::value::Value;

/// The version of the protocol in `proto/`.
pub const API_VERSION: &str = "1.5.0";

/// Maximum messages waiting to be sent.
const MAX_OUTBOX: usize = 1 << 14;

/// A device's identity and limits.
#[derive(Clone, Copy, Debug)]
pub struct DeviceConfig {
    /// Its device id, which is not zero.
    pub device_id: u64,
    /// Maximum streams of a role.
    pub max_streams_per_role: usize,
    /// The nanoseconds since the Unix epoch at [`Instant::ZERO`], for time stamps.
    pub epoch_ns: u64,
}

impl Default for DeviceConfig {
    fn default() -> DeviceConfig {
        DeviceConfig {
            device_id: 1,
            max_streams_per_role: 16,
            epoch_ns: 0,
        }
    }
}

/// A device's counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DeviceCounters {
    /// Write calls.
    pub writes: u64,
    /// Updates done.
    pub updates: u64,
    /// Updates refused.
    pub refused_updates: u64,
    /// Packets sent to a controller.
    pub packets_in: u64,
    /// Packets received from a controller.
    pub packets_out: u64,
    /// Packets from a controller that were refused.
    pub refused_packets_out: u64,
    /// Packets for a controller while there was no primary.
    pub packets_without_primary: u64,
    /// Packets for a controller that were shorter than the program's header.
    pub short_packets: u64,
    /// Digest lists sent.
    pub digest_lists: u64,
    /// Digests dropped because too many wait for an acknowledgement.
    pub dropped_digests: u64,
    /// Digests that do not match P4Info.
    pub odd_digests: u64,
    /// Messages dropped because too many wait to be sent.
    pub dropped_messages: u64,
}

/// An event for a stream.
#[derive(Clone, PartialEq, Debug)]
pub enum StreamEvent {
    /// A message.
    Message(Box<p4::StreamMessageResponse>),
    /// The end of the stream, with its status.
    Close(Problem),
}

/// A switch as P4Runtime sees it.
pub struct Device<T> {
    pub(crate) config: DeviceConfig,
    pub(crate) target: T,
    pub(crate) arbitration: Arbitration,
    pub(crate) running: Option<Pipeline>,
    pub(crate) saved: Option<Pipeline>,
    digests: Digests,
    idle: IdleTimers,
    outbox: VecDeque<(StreamId, StreamEvent)>,
    counters: DeviceCounters,
}

/// The result of a read: messages, then a status.
pub type ReadAnswer = (Vec<p4::ReadResponse>, Result<(), Failure>);

impl<T: Target> Device<T> {
    /// Creates a device without a pipeline.
    pub fn new(config: DeviceConfig, target: T) -> Device<T> {
        Device {
            config,
            target,
            arbitration: Arbitration::new(config.device_id, config.max_streams_per_role),
            running: None,
            saved: None,
            digests: Digests::default(),
            idle: IdleTimers::default(),
            outbox: VecDeque::new(),
            counters: DeviceCounters::default(),
        }
    }

    /// The data plane.
    pub fn target_mut(&mut self) -> &mut T {
        &mut self.target
    }

    /// The device's counters.
    pub fn counters(&self) -> DeviceCounters {
        DeviceCounters {
            dropped_digests: self.digests.dropped,
            ..self.counters
        }
    }

    /// Handles a message on a stream.
    pub fn handle_message(&mut self, stream: StreamId, message: &p4::StreamMessageRequest) {
        match &message.update {
            Some(Request::Arbitration(update)) => {
                match self.arbitration.handle_update(stream, update) {
                    Ok(advice) => self.push_advice(advice),
                    Err(problem) => {
                        self.outbox.push_back((stream, StreamEvent::Close(problem)));
                        self.handle_close(stream);
                    }
                }
            }
            Some(Request::Packet(packet)) => {
                if let Err(problem) = self.packet_out(stream, packet) {
                    self.counters.refused_packets_out += 1;
                    let details = p4::PacketOutError {
                        packet_out: Some(packet.clone()),
                    };
                    let details = p4::stream_error::Details::PacketOut(details);
                    self.push_error(stream, &problem, details);
                }
            }
            Some(Request::DigestAck(ack)) => {
                if let Err(problem) = self.digest_ack(stream, ack) {
                    let details = p4::DigestListAckError {
                        digest_list_ack: Some(*ack),
                    };
                    let details = p4::stream_error::Details::DigestListAck(details);
                    self.push_error(stream, &problem, details);
                }
            }
            Some(Request::Other(other)) => {
                let problem = Problem::unsupported("no messages of other kinds are known");
                let details = p4::StreamOtherError {
                    other: Some(other.clone()),
                };
                let details = p4::stream_error::Details::Other(details);
                self.push_error(stream, &problem, details);
            }
            None => {
                let problem = Problem::invalid("the message has no update");
                let details = p4::stream_error::Details::Other(p4::StreamOtherError::default());
                self.push_error(stream, &problem, details);
            }
        }
    }

    /// Handles the end of a stream.
    pub fn handle_close(&mut self, stream: StreamId) {
        let advice = self.arbitration.handle_close(stream);
        self.push_advice(advice);
    }

    fn packet_out(&mut self, stream: StreamId, packet: &p4::PacketOut) -> Result<(), Problem> {
        if !self.arbitration.is_primary(stream) {
            return Err(Problem::denied("only the primary may send packets"));
        }
        let pipeline = self.running.as_ref().ok_or_else(no_pipeline)?;
        let header = pipeline.store.catalog().packet_out.as_ref();
        let bytes = packet_io::join(header, &packet.metadata, &packet.payload)?;
        self.target.inject(&bytes)?;
        self.counters.packets_out += 1;
        Ok(())
    }

    fn digest_ack(&mut self, stream: StreamId, ack: &p4::DigestListAck) -> Result<(), Problem> {
        if !self.arbitration.is_primary(stream) {
            return Err(Problem::denied("only the primary acknowledges digests"));
        }
        let pipeline = self.running.as_ref().ok_or_else(no_pipeline)?;
        if !pipeline
            .store
            .catalog()
            .digests
            .contains_key(&ack.digest_id)
        {
            return Err(Problem::invalid(format!(
                "there is no digest {:#010x} in P4Info",
                ack.digest_id
            )));
        }
        self.digests.handle_ack(ack.digest_id, ack.list_id);
        Ok(())
    }

    /// Handles a packet that the program sent to the controller's port.
    pub fn handle_packet(&mut self, packet: &Bytes) {
        let Some(pipeline) = &self.running else {
            self.counters.packets_without_primary += 1;
            return;
        };
        let header = pipeline.store.catalog().packet_in.as_ref();
        let Some((metadata, payload)) = packet_io::split(header, packet) else {
            self.counters.short_packets += 1;
            return;
        };
        let message = Response::Packet(p4::PacketIn { payload, metadata });
        if self.push_to_primaries(&message) {
            self.counters.packets_in += 1;
        } else {
            self.counters.packets_without_primary += 1;
        }
    }

    /// Handles a digest from the program: its P4Info id, and the numbers of its type.
    pub fn handle_digest(&mut self, digest: u32, numbers: Vec<Value>, now: Instant) {
        if let Some(list) = self.digests.handle_message(digest, numbers, now) {
            self.push_list(&list, now);
        }
    }

    /// Handles expired timers.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(list) = self.digests.handle_timeout(now) {
            self.push_list(&list, now);
        }
        let due = self.idle.take_due(now);
        self.look_at_idle(due, now);
    }

    /// When to call [`Device::handle_timeout`] next.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let times = [self.digests.poll_timeout(), self.idle.poll_timeout()];
        times.into_iter().flatten().min()
    }

    /// The next event to send.
    pub fn poll_transmit(&mut self) -> Option<(StreamId, StreamEvent)> {
        self.outbox.pop_front()
    }

    /// Handles `Write`.
    ///
    /// # Errors
    /// Fails with the standard's code, of the call or of each update.
    pub fn handle_write(
        &mut self,
        request: &p4::WriteRequest,
        now: Instant,
    ) -> Result<(), Failure> {
        self.check_device(request.device_id)?;
        #[allow(deprecated)]
        let role = RoleName::new(&request.role, request.role_id);
        self.arbitration
            .check_primary(&role, request.election_id.as_ref())?;
        // An atomicity of a later version must not be mistaken for the default.
        let atomicity = Atomicity::try_from(request.atomicity).map_err(|_| {
            Problem::unsupported(format!("the atomicity {} is unknown", request.atomicity))
        })?;
        let Some((store, target, side)) = self.current() else {
            return Err(no_pipeline().into());
        };
        let done = batch::write(store, target, side, &request.updates, atomicity);
        let refused = match &done {
            Err(Failure::Parts(verdicts)) => verdicts.iter().filter(|one| one.is_err()).count(),
            _ => 0,
        };
        self.counters.writes += 1;
        self.counters.updates += (request.updates.len() - refused) as u64;
        self.counters.refused_updates += refused as u64;
        if self.saved.is_none() {
            self.follow_writes(now);
        }
        done
    }

    /// Updates timers and digests after a write.
    pub(crate) fn follow_writes(&mut self, now: Instant) {
        let Some(pipeline) = &mut self.running else {
            return;
        };
        for id in pipeline.store.catalog().digests.keys() {
            self.digests
                .configure(*id, pipeline.store.digest_config(*id));
        }
        for entry in pipeline.store.take_touched() {
            if let Some((_, timeout)) = pipeline.store.idle_message(entry.table, &entry.key) {
                self.idle.set(entry, now + Duration::from_nanos(timeout));
            }
        }
    }

    /// Makes the saved state the running one, and discards the old one.
    pub(crate) fn start_running(&mut self, pipeline: Pipeline, now: Instant) {
        self.target.commit();
        self.running = Some(pipeline);
        self.saved = None;
        self.digests.clear();
        self.idle.clear();
        self.follow_writes(now);
    }

    /// Handles `Read` by a snapshot; the answer is made from it while it is sent.
    pub fn read(&mut self, request: p4::ReadRequest) -> Reading {
        if let Err(problem) = self.check_device(request.device_id) {
            return Reading::refused(Some(problem));
        }
        let Some((store, target, side)) = self.current() else {
            return Reading::refused(Some(no_pipeline()));
        };
        Reading::new(store, Live { target, side }, request.entities)
    }

    /// Handles `Read` at once: the messages of the answer, and its status.
    pub fn handle_read(&mut self, request: &p4::ReadRequest) -> ReadAnswer {
        let mut reading = self.read(request.clone());
        let messages = reading.by_ref().collect();
        (messages, reading.end())
    }

    /// Handles `Capabilities`.
    ///
    /// # Errors
    /// Fails if the request names another device.
    pub fn handle_capabilities(
        &self,
        request: &p4::CapabilitiesRequest,
    ) -> Result<p4::CapabilitiesResponse, Failure> {
        if request.device_id != 0 {
            self.check_device(request.device_id)?;
        }
        Ok(p4::CapabilitiesResponse {
            p4runtime_api_version: API_VERSION.to_owned(),
            ..p4::CapabilitiesResponse::default()
        })
    }

    pub(crate) fn check_device(&self, device: u64) -> Result<(), Problem> {
        if device == self.config.device_id {
            return Ok(());
        }
        Err(no_device(device, self.config.device_id))
    }

    /// The state that reads and writes concern: the saved one if any, else the running one.
    fn current(&mut self) -> Option<(&mut Store, &mut T, Side)> {
        let (pipeline, side) = match &mut self.saved {
            Some(pipeline) => (pipeline, Side::Saved),
            None => (self.running.as_mut()?, Side::Running),
        };
        Some((&mut pipeline.store, &mut self.target, side))
    }

    fn look_at_idle(&mut self, due: Vec<IdleEntry>, now: Instant) {
        let mut rest = due.into_iter().peekable();
        while let Some(first) = rest.next() {
            let table = first.table;
            let mut keys = vec![first.key];
            while let Some(next) = rest.next_if(|next| next.table == table) {
                keys.push(next.key);
            }
            self.look_at_table(table, keys, now);
        }
    }

    fn look_at_table(&mut self, table: u32, keys: Vec<EntryKey>, now: Instant) {
        let Some(pipeline) = &self.running else {
            return;
        };
        let mut live = Vec::new();
        for key in keys {
            if let Some((message, timeout)) = pipeline.store.idle_message(table, &key) {
                live.push((key, message, timeout));
            }
        }
        let references: Vec<EntryRef> = live
            .iter()
            .map(|(key, ..)| EntryRef::Entry(key.clone()))
            .collect();
        if references.is_empty() {
            return;
        }
        let states = self.target.entries(Side::Running, table, &references);
        // If the data plane does not answer, the entry is checked again after a time-out.
        let states = states.unwrap_or_else(|_| vec![EntryState::default(); live.len()]);
        let mut idle = Vec::new();
        for ((key, message, timeout), state) in live.into_iter().zip(states) {
            let wait = if state.idle_ns >= timeout {
                idle.push(message);
                timeout
            } else {
                timeout - state.idle_ns
            };
            let entry = IdleEntry { table, key };
            self.idle.set(entry, now + Duration::from_nanos(wait));
        }
        if !idle.is_empty() {
            let notification = p4::IdleTimeoutNotification {
                table_entry: idle,
                timestamp: self.timestamp(now),
            };
            self.push_to_primaries(&Response::IdleTimeoutNotification(notification));
        }
    }

    fn push_list(&mut self, list: &List, now: Instant) {
        let Some(pipeline) = &self.running else {
            return;
        };
        let Some(digest) = pipeline.store.catalog().digests.get(&list.digest) else {
            return;
        };
        let data = list
            .messages
            .iter()
            .filter_map(|message| digest.shape.to_data(message));
        let data: Vec<_> = data.collect();
        self.counters.odd_digests += (list.messages.len() - data.len()) as u64;
        if data.is_empty() {
            return;
        }
        let message = Response::Digest(p4::DigestList {
            digest_id: list.digest,
            list_id: list.id,
            data,
            timestamp: self.timestamp(now),
        });
        if self.push_to_primaries(&message) {
            self.counters.digest_lists += 1;
        }
    }

    fn timestamp(&self, now: Instant) -> i64 {
        let time = self.config.epoch_ns.saturating_add(now.as_nanos());
        i64::try_from(time).unwrap_or(i64::MAX)
    }

    fn push_advice(&mut self, advice: Advice) {
        // There are few of these, and none may be lost.
        for (stream, update) in advice {
            let event = message(Response::Arbitration(update));
            self.outbox.push_back((stream, event));
        }
    }

    fn push_error(
        &mut self,
        stream: StreamId,
        problem: &Problem,
        details: p4::stream_error::Details,
    ) {
        let error = p4::StreamError {
            canonical_code: problem.code as i32,
            message: problem.message.clone(),
            details: Some(details),
            ..p4::StreamError::default()
        };
        self.push(stream, message(Response::Error(error)));
    }

    /// Sends a message to all primaries, and returns whether there are any.
    fn push_to_primaries(&mut self, response: &Response) -> bool {
        let streams: Vec<StreamId> = self.arbitration.primaries().collect();
        for stream in &streams {
            self.push(*stream, message(response.clone()));
        }
        !streams.is_empty()
    }

    // Invariant 2.
    fn push(&mut self, stream: StreamId, event: StreamEvent) {
        if self.outbox.len() < MAX_OUTBOX {
            self.outbox.push_back((stream, event));
        } else {
            self.counters.dropped_messages += 1;
        }
    }
}

fn message(update: Response) -> StreamEvent {
    StreamEvent::Message(Box::new(p4::StreamMessageResponse {
        update: Some(update),
    }))
}
