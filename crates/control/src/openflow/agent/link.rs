//! A connection's state beside its session.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use thalweg_openflow::message::Request;
use thalweg_openflow::message::connection::{AsyncConfig, AsyncKind, Role};
use thalweg_openflow::message::monitor::MonitorRequest;
use thalweg_openflow::message::packet::{PacketInFormat, reason};
use thalweg_openflow::message::type_name;
use thalweg_openflow::{Pieces, Refusal, Session, Version};

use super::flow_mods::FlowModCounts;
use super::rate::Rate;
use super::{ConnectionConfig, ConnectionKind, REPLY_BYTES};
use crate::openflow::target::{Change, FlowCursor};

/// Bytes of a packet that a controller gets if it never says how many
/// (`OFP_DEFAULT_MISS_SEND_LEN`).
pub(super) const DEFAULT_MISS_LENGTH: u16 = 128;
/// Flow entries read from a cursor at a time.
const SLICE: usize = 100;
/// Bytes of output up to which a dump goes on.
const DUMP_BYTES: usize = 256 << 10;

/// Most texts about refused messages that are kept for the owner.
const REFUSALS: usize = 64;

/// Reasons of packets: all but a bad TTL, which controllers must ask for.
const PACKET_REASONS: u32 = 0x3f & !(1 << reason::INVALID_TTL);
/// Reasons of ports.
const PORT_REASONS: u32 = 0b111;

/// A reply with flow entries that is being written.
pub(super) struct Dump {
    pub(super) cursor: Box<dyn FlowCursor>,
    pub(super) pieces: Pieces,
}

/// Messages of a bundle.
#[derive(Debug)]
pub(super) struct Bundle {
    pub(super) flags: u16,
    pub(super) is_closed: bool,
    /// The message that opened it.
    pub(super) opening: Bytes,
    pub(super) messages: Vec<(Bytes, Change)>,
    pub(super) bytes: usize,
    pub(super) used_at: Duration,
}

/// A request that comes in several messages.
#[derive(Debug)]
pub(super) struct Partial {
    pub(super) xid: u32,
    pub(super) request: Request,
    pub(super) parts: usize,
}

/// A connection.
pub(super) struct Link {
    pub(super) config: ConnectionConfig,
    pub(super) session: Session,
    /// The version that the defaults were taken for.
    known_version: Option<Version>,
    pub(super) role: Role,
    pub(super) asynchronous: AsyncConfig,
    pub(super) packet_in_format: PacketInFormat,
    /// Whether entries are told in Nicira's form, in OpenFlow 1.0.
    pub(super) tells_nicira: bool,
    pub(super) controller_id: u16,
    pub(super) miss_send_length: u16,
    pub(super) bundles: BTreeMap<u32, Bundle>,
    pub(super) bundle_bytes: usize,
    pub(super) monitors: BTreeMap<u32, MonitorRequest>,
    /// Whether monitors wait for a slow reader.
    pub(super) is_paused: bool,
    pub(super) dumps: VecDeque<Dump>,
    /// Whether all whole messages of the input were handled.
    pub(super) has_all: bool,
    /// Requests that come in several messages.
    pub(super) partial: Option<Partial>,
    /// Packets that may be sent.
    packets: Rate,
    /// Changes that may be asked for.
    pub(super) changes: Rate,
    /// Whether its input waits for its rate of changes.
    pub(super) is_limited: bool,
    pub(super) packets_dropped: u64,
    pub(super) packets_limited: u64,
    /// Changes of flow entries that the owner's log was not told of.
    pub(super) flow_mods: FlowModCounts,
    /// Texts of the refusals since the owner asked, and the number of further ones.
    refusals: (Vec<String>, usize),
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Link({:?}, {:?})",
            self.config.kind,
            self.session.version()
        )
    }
}

impl Link {
    pub(super) fn new(config: ConnectionConfig, session: Session, now: Duration) -> Link {
        Link {
            miss_send_length: match config.kind {
                ConnectionKind::Service | ConnectionKind::Snooper => 0,
                ConnectionKind::Controller => DEFAULT_MISS_LENGTH,
            },
            config,
            session,
            known_version: None,
            role: Role::Equal,
            asynchronous: AsyncConfig::default(),
            packet_in_format: PacketInFormat::Standard,
            tells_nicira: false,
            controller_id: 0,
            bundles: BTreeMap::new(),
            bundle_bytes: 0,
            monitors: BTreeMap::new(),
            is_paused: false,
            dumps: VecDeque::new(),
            has_all: true,
            partial: None,
            packets: Rate::new(config.packet_rate, now),
            changes: Rate::new(config.change_rate, now),
            is_limited: false,
            packets_dropped: 0,
            packets_limited: 0,
            flow_mods: FlowModCounts::default(),
            refusals: (Vec::new(), 0),
        }
    }

    /// Tells the peer why a message of its was refused, and keeps a text for the owner.
    pub(super) fn refuse(&mut self, refusal: &Refusal, offending: &[u8]) {
        self.session.send_error(refusal.code, offending);
        let (texts, further) = &mut self.refusals;
        match texts.len() < REFUSALS {
            true => {
                let kind = type_name(offending);
                let Refusal { code, what } = refusal;
                texts.push(format!(
                    "sending {code} error reply to {kind} message: {what}"
                ));
            }
            false => *further += 1,
        }
    }

    /// Takes the texts of the refusals since the last call.
    pub(super) fn take_refusals(&mut self) -> Vec<String> {
        let (mut texts, further) = std::mem::take(&mut self.refusals);
        if further > 0 {
            texts.push(format!("sending {further} further error replies"));
        }
        texts
    }

    /// Takes the version's defaults once it is known.
    pub(super) fn notice_version(&mut self) {
        if self.known_version == self.session.version() {
            return;
        }
        self.known_version = self.session.version();
        if let Some(version) = self.known_version {
            self.asynchronous = default_async(version);
        }
    }

    /// The version; sessions without one handle nothing.
    pub(super) fn version(&self) -> Version {
        self.session.version().unwrap_or(Version::V10)
    }

    /// Whether its input must wait.
    pub(super) fn is_busy(&self) -> bool {
        self.is_limited || !self.dumps.is_empty() || self.session.output_bytes() > REPLY_BYTES
    }

    /// Goes on with dumps while the reader keeps up.
    pub(super) fn go_on(&mut self) {
        while self.session.output_bytes() < DUMP_BYTES {
            let Some(dump) = self.dumps.front_mut() else {
                return;
            };
            let mut entries = dump.cursor.next(SLICE);
            if entries.is_empty() {
                let dump = self.dumps.pop_front().expect("it was just there");
                self.session.send_bytes(dump.pieces.finish());
                continue;
            }
            for entry in &mut entries {
                dump.pieces.add_flow(entry);
                if let Some(full) = dump.pieces.take() {
                    self.session.send_bytes(full);
                }
            }
        }
    }

    /// Whether one more packet may be sent by the rate.
    pub(super) fn may_send_packet(&mut self, now: Duration) -> bool {
        let may = self.packets.take(now);
        self.packets_limited += u64::from(!may);
        may
    }
}

/// What a connection hears before it says what it wants (Open vSwitch's defaults).
fn default_async(version: Version) -> AsyncConfig {
    let removals = match version {
        Version::V10 => 0b111,
        Version::V11 | Version::V12 | Version::V13 => 0b1111,
        Version::V14 | Version::V15 => 0b11_1111,
    };
    let mut config = AsyncConfig {
        primary: [Some(0); 6],
        secondary: [Some(0); 6],
    };
    config.primary[AsyncKind::PacketIn as usize] = Some(PACKET_REASONS);
    config.primary[AsyncKind::PortStatus as usize] = Some(PORT_REASONS);
    config.secondary[AsyncKind::PortStatus as usize] = Some(PORT_REASONS);
    config.primary[AsyncKind::FlowRemoved as usize] = Some(removals);
    config
}
