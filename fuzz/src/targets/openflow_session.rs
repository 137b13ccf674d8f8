//! Bytes of one or two hostile controllers, into the connections of one switch.
//!
//! The first byte chooses the version of the hellos that stand before the bytes (or none) and
//! what the second connection is; the second byte is the size of the pieces in which bytes
//! come. The rest is a stream of messages: those with an odd transaction are the second
//! connection's.
//!
//! 1. No bytes make an agent panic.
//! 2. What an agent sends is bounded by what it was sent, and can be read.
//! 3. Every barrier is answered, in order, unless its session has ended.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use thalweg_control::openflow::target::{
    Change, Event, Failure, FlowCursor, FlowEvent, Outcome, PacketEvent, Target, Transaction, Waker,
};
use thalweg_control::openflow::{
    Agent, AgentLimits, ConnectionConfig, ConnectionId, ConnectionKind, Version, Versions,
};
use thalweg_openflow::message::connection::Hello;
use thalweg_openflow::message::continuation::PacketContinuation;
use thalweg_openflow::message::flow::{Counts, FlowMod, FlowStats, FlowStatsRequest};
use thalweg_openflow::message::monitor::MonitorEvent;
use thalweg_openflow::message::nicira::{CtFlush, TlvMap, TlvTable};
use thalweg_openflow::message::packet::PacketIn;
use thalweg_openflow::message::port::PortDesc;
use thalweg_openflow::message::switch::{Description, Features};
use thalweg_openflow::message::{Message, Reply, Request};
use thalweg_openflow::{
    Context, ErrorCode, Refusal, decode, encode, message_length, refuse, xid_of,
};

/// Most that one message and its events may have an agent send, in bytes; the model's entries
/// are few, so that this bounds a dump too.
const MOST_PER_MESSAGE: usize = 256 << 10;
/// Most entries of the model.
const FLOWS: usize = 8;

/// Runs one input.
pub fn run(input: &[u8]) {
    let [choice, size, stream @ ..] = input else {
        return;
    };
    let hello = Version::ALL.get(usize::from(choice & 7)).copied();
    let kind = match choice >> 3 & 3 {
        0 => ConnectionKind::Snooper,
        1 => ConnectionKind::Service,
        _ => ConnectionKind::Controller,
    };
    let streams = split(stream, hello);
    let mut agent = Agent::new(Model::default(), AgentLimits::default());
    agent.keep_copies(true);
    let kinds = [ConnectionKind::Controller, kind];
    let mut peers = kinds.map(|kind| Peer::open(&mut agent, kind));
    let pieces = streams
        .each_ref()
        .map(|stream| stream.chunks(usize::from(*size) + 1));
    let rounds = pieces.clone().map(|pieces| pieces.len());
    let mut pieces = pieces;
    for round in 0..rounds[0].max(rounds[1]) {
        let now = Duration::from_millis(round as u64);
        for (peer, pieces) in peers.iter_mut().zip(&mut pieces) {
            if let Some(bytes) = pieces.next() {
                agent.receive(peer.id, bytes, now);
            }
            agent.handle_events(now);
        }
        // A turn ends where a dump waits for its reader.
        for peer in &mut peers {
            peer.drain(&mut agent, now);
        }
        agent.tick(now);
    }
    for _ in 0..2 {
        let now = Duration::from_secs(1);
        agent.handle_events(now);
        peers
            .iter_mut()
            .for_each(|peer| peer.drain(&mut agent, now));
    }
    drop(agent.take_copies());
    let count = streams.iter().map(|stream| messages(stream).count()).sum();
    for (peer, stream) in peers.iter().zip(&streams) {
        peer.check(&mut agent, stream, count);
    }
    agent.tick(Duration::from_secs(1_000));
    peers.iter().for_each(|peer| agent.close(peer.id));
}

/// The messages of each connection, behind its hello; bytes that are no message go to the first.
fn split(stream: &[u8], hello: Option<Version>) -> [Vec<u8>; 2] {
    let hello = hello.and_then(|version| {
        let versions = [version].into_iter().collect();
        encode(version, 0, &Message::Hello(Hello { versions }))
    });
    let mut streams = [hello.clone().unwrap_or_default(), hello.unwrap_or_default()];
    let mut rest = 0;
    for message in messages(stream) {
        streams[xid_of(message) as usize & 1].extend_from_slice(message);
        rest += message.len();
    }
    streams[0].extend_from_slice(&stream[rest..]);
    streams
}

/// The whole messages at the beginning of a stream.
fn messages(mut stream: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let length = message_length(stream).ok()??;
        let (message, rest) = stream.split_at_checked(length)?;
        stream = rest;
        Some(message)
    })
}

/// One connection's far end.
struct Peer {
    id: ConnectionId,
    kind: ConnectionKind,
    sent: Vec<Bytes>,
}

impl Peer {
    fn open(agent: &mut Agent<Model>, kind: ConnectionKind) -> Peer {
        let config = ConnectionConfig {
            kind,
            versions: Versions::ALL,
            probe_interval: None,
            packet_rate: Some(100),
            change_rate: None,
        };
        Peer {
            id: agent.open(config, Duration::ZERO),
            kind,
            sent: Vec::new(),
        }
    }

    /// Reads all output, and has what waited for it done.
    fn drain(&mut self, agent: &mut Agent<Model>, now: Duration) {
        loop {
            while let Some(bytes) = agent.take_output(self.id) {
                self.sent.push(bytes);
            }
            if !agent.has_work(self.id) {
                return;
            }
            agent.work(self.id, now);
        }
    }

    /// Invariants 2 and 3. `count` is how many messages all connections sent.
    fn check(&self, agent: &mut Agent<Model>, stream: &[u8], count: usize) {
        let bytes: usize = self.sent.iter().map(Bytes::len).sum();
        assert!(
            bytes <= MOST_PER_MESSAGE * (count + 1),
            "{bytes} for {count}"
        );
        let mut answered = Vec::new();
        for sent in &self.sent {
            let context = Context {
                flow_mod_table_id: true,
            };
            let frame = match decode(sent, context) {
                Ok(frame) => frame,
                Err(_) if is_without_packet(sent) => continue,
                Err(refusal) => panic!("{refusal}: {sent:02x?}"),
            };
            if frame.message == Message::BarrierReply {
                answered.push(frame.xid);
            }
        }
        if self.kind == ConnectionKind::Snooper {
            return assert!(answered.is_empty(), "a snooper asks for nothing");
        }
        let Some(version) = agent.status(self.id).and_then(|status| status.version) else {
            return;
        };
        let barriers = messages(stream).skip(1).filter_map(|message| {
            let frame = decode(message, Context::default()).ok()?;
            let is_one = frame.message == Message::BarrierRequest && frame.version == version;
            is_one.then_some(frame.xid)
        });
        assert_eq!(
            answered,
            barriers.collect::<Vec<u32>>(),
            "every barrier is answered"
        );
    }
}

/// Whether it is `NXT_PACKET_IN2` for a controller that wants no byte of packets: as in Open
/// vSwitch, it is written with an empty packet and would not be read.
fn is_without_packet(message: &[u8]) -> bool {
    let is_packet_in = message[8..].starts_with(&[0, 0, 0x23, 0x20, 0, 0, 0, 30]);
    // The property NXPINT_PACKET with its four bytes of header only.
    message[1] == 4 && is_packet_in && message[16..].starts_with(&[0, 0, 0, 4])
}

/// A switch that keeps a few entries as they were added.
#[derive(Default)]
struct Model {
    flows: Vec<FlowStats>,
    events: Vec<Event>,
    is_watched: bool,
    options: Vec<TlvMap>,
}

impl Model {
    fn add(&mut self, asked: &FlowMod) -> Result<FlowEvent, Refusal> {
        if asked.priority % 7 == 3 {
            return Err(refuse(
                ErrorCode::OFPFMFC_TABLE_FULL,
                "there is no room for it",
            ));
        }
        let flow = FlowStats {
            table: asked.table,
            duration: Default::default(),
            priority: asked.priority,
            idle_timeout_s: asked.idle_timeout_s,
            hard_timeout_s: asked.hard_timeout_s,
            idle_age_s: Some(1),
            hard_age_s: Some(2),
            importance: asked.importance,
            flags: asked.flags,
            cookie: asked.new_cookie,
            counts: Counts::default(),
            matching: asked.matching.clone(),
            instructions: asked.instructions.clone(),
        };
        if self.flows.len() == FLOWS {
            self.flows.remove(0);
        }
        self.flows.push(flow.clone());
        Ok(FlowEvent {
            event: MonitorEvent::Added,
            flow,
            before: None,
            reason: 0,
            change: 0,
        })
    }

    fn change(&mut self, asked: &Transaction) -> Result<Outcome, Failure> {
        let before = self.flows.clone();
        let mut outcome = Outcome::default();
        for (index, change) in asked.changes.iter().enumerate() {
            match change {
                Change::Flow(asked) => match self.add(asked) {
                    Ok(event) => outcome.flows.push(FlowEvent {
                        change: index,
                        ..event
                    }),
                    Err(refusal) => {
                        self.flows = before;
                        return Err(Failure { index, refusal });
                    }
                },
                Change::PacketOut(asked) => {
                    let packet = PacketIn {
                        data: asked.data.clone(),
                        total_length: asked.data.len() as u32,
                        metadata: asked.metadata.clone(),
                        table: Some(0),
                        ..PacketIn::default()
                    };
                    let event = PacketEvent {
                        packet,
                        continuation: None,
                        controller_id: 0,
                        max_length: None,
                    };
                    self.events.push(Event::Packet(Box::new(event)));
                }
                _ => {}
            }
        }
        if !self.is_watched {
            outcome.flows.clear();
        }
        Ok(outcome)
    }
}

struct Cursor(Vec<FlowStats>);

impl FlowCursor for Cursor {
    fn next(&mut self, count: usize) -> Vec<FlowStats> {
        let count = count.min(self.0.len());
        self.0.drain(..count).collect()
    }
}

impl Target for Model {
    fn features(&self) -> Features {
        Features::default()
    }

    fn description(&self) -> Description {
        Description::default()
    }

    fn ports(&self) -> Vec<PortDesc> {
        Vec::new()
    }

    fn set_fragments(&mut self, mode: u16) -> Result<(), Refusal> {
        match mode {
            0 => Ok(()),
            _ => Err(refuse(
                ErrorCode::OFPSCFC_BAD_FLAGS,
                "fragments come as they are",
            )),
        }
    }

    fn check(&self, _version: Version, asked: &Change) -> Result<(), Refusal> {
        match asked {
            Change::Flow(asked) if asked.table == 254 => {
                Err(refuse(ErrorCode::OFPBRC_EPERM, "the switch's own table"))
            }
            _ => Ok(()),
        }
    }

    fn change(&mut self, transactions: Arc<[Transaction]>) -> Vec<Result<Outcome, Failure>> {
        assert!(!transactions.is_empty(), "something was asked for");
        transactions
            .iter()
            .map(|asked| Model::change(self, asked))
            .collect()
    }

    fn flows(&mut self, _request: &FlowStatsRequest) -> Result<Box<dyn FlowCursor>, Refusal> {
        Ok(Box::new(Cursor(self.flows.clone())))
    }

    fn read(&mut self, _version: Version, request: &Request) -> Result<Reply, Refusal> {
        Ok(match request {
            Request::Table => Reply::Table(Vec::new()),
            Request::Port(_) => Reply::Port(Vec::new()),
            Request::Queue(_) => Reply::Queue(Vec::new()),
            Request::QueueDesc(_) => Reply::QueueDesc(Vec::new()),
            Request::Group(_) => Reply::Group(Vec::new()),
            Request::GroupDesc(_) => Reply::GroupDesc(Vec::new()),
            Request::Aggregate(asked) => Reply::Aggregate(asked.is_nicira, Default::default()),
            Request::TableFeatures(_) => Reply::TableFeatures(Vec::new()),
            _ => {
                return Err(refuse(
                    ErrorCode::OFPBRC_BAD_STAT,
                    "the model has no such thing",
                ));
            }
        })
    }

    fn resume(
        &mut self,
        packet: PacketIn,
        continuation: PacketContinuation,
    ) -> Result<(), Refusal> {
        let event = PacketEvent {
            packet,
            continuation: Some(continuation),
            controller_id: 0,
            max_length: None,
        };
        self.events.push(Event::Packet(Box::new(event)));
        Ok(())
    }

    fn want_misses(&mut self, _wanted: bool) {}

    fn watch_flows(&mut self, wanted: bool) {
        assert_ne!(self.is_watched, wanted, "only changes are told");
        self.is_watched = wanted;
    }

    fn flush_connections(&mut self, _which: &CtFlush) -> Result<(), Refusal> {
        Ok(())
    }

    fn mapped_options(&mut self) -> Vec<TlvMap> {
        self.options.clone()
    }

    fn map_options(&mut self, options: &TlvTable) {
        self.options.clone_from(&options.maps);
    }

    fn uses_option(&mut self, _number: u16) -> bool {
        false
    }

    fn events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    fn wake_by(&mut self, _waker: Waker) {}
}
