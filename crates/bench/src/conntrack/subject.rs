//! What connections are tracked by: a whole switch, or the tracker alone.

use std::hint::black_box;
use std::net::Ipv4Addr;

use anyhow::{Result, ensure};
use thalweg_command::input;
use thalweg_conntrack::{
    AddressTranslation, CtState, Previous, Selection, TrackRequest, TranslationKind,
};
use thalweg_packet::{Headers, Instant, PortId};
use thalweg_pipeline::{Connections, text};
use thalweg_switch::{Config, Engine};

use super::Tracking;
use super::traffic::{Frame, Kind, Protocol, Sides};
use crate::forward::bench::READS_FIVE_TUPLE;

/// Frames of a burst.
const BURST: usize = 32;
/// The addresses that clients are translated to.
const TRANSLATED: (Ipv4Addr, Ipv4Addr) = (
    Ipv4Addr::new(172, 16, 0, 1),
    Ipv4Addr::new(172, 31, 255, 254),
);

/// What forwards frames and tracks their connections.
pub(super) trait Subject {
    /// Forwards a burst; returns how many frames left, and adds them to `left`.
    fn burst(&mut self, frames: &[Frame], now: Instant, left: Option<&mut Vec<Frame>>) -> usize;

    /// The connections.
    fn connections(&mut self) -> &Connections;
}

/// Forwards frames, each of which must leave.
///
/// # Errors
/// If one does not.
pub(super) fn pass(
    subject: &mut dyn Subject,
    frames: &[Frame],
    now: Instant,
    mut left: Option<&mut Vec<Frame>>,
) -> Result<()> {
    let mut count = 0;
    for burst in frames.chunks(BURST) {
        count += subject.burst(burst, now, left.as_deref_mut());
    }
    let wanted = frames.len();
    ensure!(
        count == wanted,
        "{count} of {wanted} packets left the switch: a fault of this program"
    );
    Ok(())
}

/// A switch: its caches, with the tracker behind them.
pub(super) struct Caches {
    engine: Engine,
    received: Vec<thalweg_packet::Packet>,
}

impl Caches {
    /// A switch with the rules of this tracking.
    ///
    /// # Errors
    /// If it does not take them.
    pub(super) fn new(tracking: Tracking) -> Result<Caches> {
        let mut engine = Engine::new(Config::default())?;
        for port in [1, 2, 99] {
            engine.add_port(PortId(port), Instant::ZERO);
        }
        let rules = rules(tracking);
        let rules = text::parse_rules("rules", &rules).map_err(input::faults)?;
        engine.apply(&rules.into_change(), Instant::ZERO)?;
        Ok(Caches {
            engine,
            received: Vec::with_capacity(BURST),
        })
    }
}

/// The rules of a switch. Keys have the five-tuple, as with any rules that read ports.
pub(super) fn rules(tracking: Tracking) -> String {
    let (first, commit) = match tracking {
        Tracking::None => ("resubmit(,1)", String::new()),
        Tracking::Plain => ("ct(table=1)", "ct(commit),".to_owned()),
        Tracking::Nat => {
            let (from, to) = TRANSLATED;
            (
                "ct(table=1,nat)",
                format!("ct(commit,nat(src={from}-{to})),"),
            )
        }
    };
    let second = match tracking {
        Tracking::None => "table=1,ip,actions=output:2\n".to_owned(),
        Tracking::Plain | Tracking::Nat => format!(
            "table=1,ip,ct_state=+trk+new,actions={commit}output:2\n\
             table=1,ip,ct_state=+trk+est,actions=output:2\n"
        ),
    };
    format!("table=0,ip,actions={first}\n{second}{READS_FIVE_TUPLE}")
}

impl Subject for Caches {
    fn burst(
        &mut self,
        frames: &[Frame],
        now: Instant,
        mut left: Option<&mut Vec<Frame>>,
    ) -> usize {
        let pool = &mut self.engine.outbox().pool;
        pool.take_burst(&mut self.received, frames.len());
        for (packet, frame) in self.received.iter_mut().zip(frames) {
            packet.fill(frame);
            packet.set_received(PortId(1), now);
        }
        self.engine.forward(&mut self.received, now);
        let outbox = self.engine.outbox();
        let count = outbox.sent.len();
        for (_, packet) in outbox.sent.drain(..) {
            if let Some(left) = &mut left {
                let bytes = packet.bytes().try_into();
                left.push(bytes.expect("the rules change no length"));
            }
            outbox.pool.put(packet);
        }
        count
    }

    fn connections(&mut self) -> &Connections {
        &self.engine.outbox().connections
    }
}

/// The tracker without a switch. It is asked as the rules of a switch would.
pub(super) struct Alone {
    connections: Connections,
    /// Those of every frame.
    headers: Headers,
    looks: TrackRequest,
    commits: TrackRequest,
}

impl Alone {
    /// A tracker for the frames of a protocol.
    pub(super) fn new(tracking: Tracking, protocol: Protocol) -> Alone {
        let frame = Sides::of_connection(0).frame(protocol, Kind::Opening);
        let (from, to) = TRANSLATED;
        let addresses = (from.to_ipv6_mapped(), to.to_ipv6_mapped());
        let translation = |target| {
            (tracking == Tracking::Nat).then_some(AddressTranslation {
                target,
                selection: Selection::Any,
                is_persistent: false,
            })
        };
        Alone {
            connections: Connections::default(),
            headers: Headers::parse(&frame).expect("the frame is long enough"),
            looks: TrackRequest {
                translation: translation(None),
                ..TrackRequest::default()
            },
            commits: TrackRequest {
                is_commit: true,
                translation: translation(Some((TranslationKind::Source, Some(addresses), None))),
                ..TrackRequest::default()
            },
        }
    }
}

impl Subject for Alone {
    fn burst(
        &mut self,
        frames: &[Frame],
        now: Instant,
        mut left: Option<&mut Vec<Frame>>,
    ) -> usize {
        let tracker = self.connections.tracker();
        let mut count = 0;
        // As a datapath does with a burst.
        let zone = self.looks.zone;
        tracker.prefetch(frames.iter().map(|frame| (&frame[..], &self.headers, zone)));
        for frame in frames {
            let mut bytes = *frame;
            let mut ask = |request, previous| {
                // Translations here draw nothing at random.
                tracker.track(&mut bytes, &self.headers, request, previous, now, 0)
            };
            let mut told = ask(&self.looks, Previous::default());
            if told.state.has(CtState::NEW) {
                let previous = Previous {
                    state: told.state,
                    zone: told.zone,
                };
                told = ask(&self.commits, previous);
            }
            count += usize::from(!told.state.has(CtState::INVALID));
            if let Some(left) = &mut left {
                left.push(bytes);
            }
            black_box(&bytes);
        }
        count
    }

    fn connections(&mut self) -> &Connections {
        &self.connections
    }
}
