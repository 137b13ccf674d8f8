//! Forwarding without any cache: parse, interpret, run; again for what recirculates.
//!
//! Every cached answer is compared with this one ([`forward`]). [`Passes`] also explains why a
//! packet goes where it goes.
//!
//! ```text
//!   waiting: the packet
//!   while something waits and fewer than 16 passes were made
//!     parse it, extract its key, translate (or resume where its walk was frozen), run the effects
//!     what the effects recirculate waits, behind what waits already
//! ```
//!
//! If fragments go on with the packet (`effect/assembly.rs`), there are as many times 16 passes.

use std::collections::VecDeque;
use std::sync::Arc;

use thalweg_classifier::Version;
use thalweg_packet::{
    Connection, FieldId, FrameError, Headers, Packet, Receipt, TunnelValues, standard as f,
};

use crate::action::Actions;
use crate::bridge::BridgeId;
use crate::effect::{Outbox, Recirculation, run};
use crate::interpret::{Continuation, Translation, resume, translate, translate_from};
use crate::pipeline::Pipeline;

/// How often one packet and its copies may be parsed and looked up; as often for each of the
/// fragments that go on with it.
pub const MAX_PASSES: usize = 16;

/// Forwards a packet by the interpreter alone; returns the translation of each pass.
///
/// Sent packets, learned stations and packets for the controller go to `outbox`. Passes beyond
/// [`MAX_PASSES`] are not made.
///
/// # Errors
/// If the packet is no Ethernet frame; it is then back in the outbox's pool.
pub fn forward(
    pipeline: &Pipeline,
    version: Version,
    packet: Packet,
    outbox: &mut Outbox,
) -> Result<Vec<Translation>, FrameError> {
    let passes = Passes::new(pipeline, version, packet, outbox);
    passes.map(|pass| Ok(pass?.translation)).collect()
}

/// One pass of a packet or of a copy: one parse and lookup.
#[derive(Debug)]
pub struct Pass {
    /// The key that was looked up: the layout's ingress words.
    pub key: Vec<u64>,
    /// The result of the lookup.
    pub translation: Translation,
}

/// The values of a packet, besides its bytes and port, at its first pass.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Beginning {
    /// The values of the tunnel it came out of.
    pub tunnel: TunnelValues,
    /// Its mark; later passes keep it.
    pub mark: u32,
    /// The hash that a datapath gave it; later passes keep it.
    pub datapath_hash: u32,
    /// What a tracker said of it before its first pass.
    pub connection: Connection,
    /// Non-zero registers and metadata, as `ofproto/trace` accepts them. No packet of a
    /// running switch begins with any.
    pub registers: Vec<(FieldId, u128)>,
}

/// A packet that waits for a pass.
#[derive(Debug)]
struct Waiting {
    /// The rest of its walk; `None` if it begins in the first table.
    continuation: Option<Arc<Continuation>>,
    connection: Connection,
    packet: Packet,
}

/// The passes of a packet, each made when the iterator asks for it.
///
/// Only the first item can be an error: the packet is then no Ethernet frame, and back in the
/// outbox's pool.
#[derive(Debug)]
pub struct Passes<'a> {
    pipeline: &'a Pipeline,
    version: Version,
    beginning: Beginning,
    outbox: &'a mut Outbox,
    waiting: VecDeque<Waiting>,
    /// Packets parsed, including those that are no Ethernet frames.
    parsed: usize,
    /// The most packets that may be parsed.
    allowed: usize,
    /// Passes made.
    made: u32,
}

impl<'a> Passes<'a> {
    /// Creates the passes of `packet` at `version`; their results go to `outbox`.
    pub fn new(
        pipeline: &'a Pipeline,
        version: Version,
        packet: Packet,
        outbox: &'a mut Outbox,
    ) -> Passes<'a> {
        Passes {
            pipeline,
            version,
            beginning: Beginning::default(),
            outbox,
            waiting: VecDeque::from([Waiting {
                continuation: None,
                connection: Connection::default(),
                packet,
            }]),
            parsed: 0,
            allowed: MAX_PASSES,
            made: 0,
        }
    }

    /// Sets the values of the packet besides its bytes and port.
    pub fn with_beginning(self, beginning: Beginning) -> Passes<'a> {
        Passes { beginning, ..self }.with_first_known()
    }

    /// Gives the first packet the connection and the tunnel of its beginning.
    fn with_first_known(mut self) -> Self {
        if let Some(first) = self.waiting.front_mut() {
            first.connection = self.beginning.connection;
            match self.beginning.tunnel == TunnelValues::default() {
                true => first.packet.leave_tunnel(),
                false => first.packet.tunnel_mut().clone_from(&self.beginning.tunnel),
            }
        }
        self
    }

    /// Begins with these actions instead of the first table, and with these values of
    /// registers, metadata and tunnel fields.
    ///
    /// This is what OpenFlow's packet-out asks for (OpenFlow 1.5.1, section 7.3.6).
    pub fn with_actions(self, actions: Actions, fields: &[(FieldId, u128)]) -> Passes<'a> {
        let in_port = self.waiting.front().map(|first| first.packet.in_port());
        let bridge = match in_port {
            Some(port) if self.pipeline.has_bridges() => BridgeId::of_port(port),
            _ => BridgeId::default(),
        };
        let continuation = Continuation {
            is_packet_out: true,
            ..Continuation::of_list(actions, bridge.table(0))
        };
        self.with_continuation(continuation, fields)
    }

    /// Begins in the middle of a walk that was paused. `fields` are registers, metadata and
    /// tunnel fields; those that it does not name are zero.
    pub fn with_continuation(
        mut self,
        mut continuation: Continuation,
        fields: &[(FieldId, u128)],
    ) -> Passes<'a> {
        let layout = self.pipeline.layout();
        self.beginning = Beginning::default();
        let mut connection = Connection::default();
        for &(field, value) in fields {
            match f::tunnel_part(field) {
                Some(part) => self.beginning.tunnel.set(part, value),
                None if connection.set(field, value) => {}
                // A field that no rule reads has no place, and no reader misses it.
                _ if layout.slot(field).is_none() => {}
                _ => self.beginning.registers.push((field, value)),
            }
        }
        continuation.registers = self.first_registers().into();
        self.beginning.connection = connection;
        if let Some(first) = self.waiting.front_mut() {
            first.continuation = Some(Arc::new(continuation));
        }
        self.with_first_known()
    }

    /// The registers' words at the first pass.
    fn first_registers(&self) -> Vec<u64> {
        let layout = self.pipeline.layout();
        let mut words = vec![0; layout.words()];
        for &(register, value) in &self.beginning.registers {
            layout.set(&mut words, register, value);
        }
        words.split_off(layout.ingress_words())
    }

    /// Looks a packet up and runs its effects.
    fn make(
        &mut self,
        Waiting {
            continuation,
            connection,
            packet,
        }: Waiting,
        headers: Headers,
    ) -> Pass {
        let receipt = Receipt {
            in_port: packet.in_port().0,
            recirculation_id: self.made,
            packet_type: packet.packet_type(),
            tunnel: packet.tunnel(),
            mark: self.beginning.mark,
            datapath_hash: self.beginning.datapath_hash,
            connection,
        };
        self.made += 1;
        let layout = self.pipeline.layout();
        let mut key = vec![0; layout.ingress_words()];
        layout.extract(packet.bytes(), &headers, &receipt, &mut key);
        let translation = match continuation.as_deref() {
            None if self.beginning.registers.is_empty() => {
                translate(self.pipeline, &key, self.version)
            }
            None => {
                let registers = self.first_registers();
                translate_from(self.pipeline, &key, &registers, self.version)
            }
            Some(continuation) => resume(self.pipeline, &key, continuation, self.version),
        };
        let fields = self.pipeline.fields();
        let effects = &translation.effects;
        run(effects, fields, packet, headers, &connection, self.outbox);
        for again in self.outbox.recirculated.drain(..) {
            let Recirculation {
                continuation,
                connection,
                fragments,
                packet,
            } = again;
            self.allowed = self.allowed.max(MAX_PASSES * fragments as usize);
            let continuation = translation.continuations[continuation as usize].clone();
            self.waiting.push_back(Waiting {
                continuation: Some(continuation),
                connection,
                packet,
            });
        }
        Pass { key, translation }
    }
}

impl Iterator for Passes<'_> {
    type Item = Result<Pass, FrameError>;

    fn next(&mut self) -> Option<Result<Pass, FrameError>> {
        while let Some(waiting) = self.waiting.pop_front() {
            if self.parsed >= self.allowed {
                self.outbox.pool.put(waiting.packet);
                continue;
            }
            self.parsed += 1;
            match Headers::parse(waiting.packet.bytes()) {
                Ok(headers) => {
                    return Some(Ok(self.make(waiting, headers)));
                }
                Err(error) => {
                    self.outbox.pool.put(waiting.packet);
                    if self.parsed == 1 {
                        return Some(Err(error));
                    }
                    // A push has made it too long; other copies go on.
                }
            }
        }
        None
    }
}
