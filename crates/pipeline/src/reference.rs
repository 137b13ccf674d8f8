//! Forwarding without any cache: parse, interpret, run; again for what recirculates.
//!
//! This is what every cached answer is compared with ([`forward`]), and what is shown to whoever
//! asks why a packet goes where it goes ([`Passes`]).
//!
//! ```text
//!   waiting: the packet
//!   while something waits and fewer than 16 passes were made
//!     parse it, extract its key, translate (or resume where its walk was frozen), run the effects
//!     what the effects recirculate waits, behind what waits already
//! ```

use std::collections::VecDeque;
use std::sync::Arc;

use thalweg_classifier::Version;
use thalweg_packet::{FieldId, FrameError, Headers, Packet, Receipt};

use crate::effect::{Outbox, run};
use crate::interpret::{Continuation, Translation, resume, translate, translate_from};
use crate::pipeline::Pipeline;

/// Times that one packet and its copies may be parsed and looked up.
pub const MAX_PASSES: usize = 16;

/// Forwards a packet by the interpreter alone, and says how each of its passes went.
///
/// What is sent, learned or handed to the controller is put into `outbox`. Passes beyond
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

/// One pass of a packet, or of a copy of it: it was parsed, looked up and sent on.
#[derive(Debug)]
pub struct Pass {
    /// What the lookup knew of it: the layout's ingress words.
    pub key: Vec<u64>,
    /// What the lookup came to.
    pub translation: Translation,
}

/// What is known of a packet beside its bytes and its port when its first pass begins.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Beginning {
    /// The tunnel that it came out of, which stays known in later passes.
    pub tunnel_id: u64,
    /// The tunnel's outer IPv4 source.
    pub tunnel_source: u32,
    /// The tunnel's outer IPv4 destination.
    pub tunnel_destination: u32,
    /// Registers and metadata that are not zero, as `ofproto/trace` takes them: no packet of a
    /// running switch begins with any.
    pub registers: Vec<(FieldId, u128)>,
}

/// The passes of a packet, each made when it is asked for.
///
/// An error can only be the first item: the packet is no Ethernet frame then, and back in the
/// outbox's pool.
#[derive(Debug)]
pub struct Passes<'a> {
    pipeline: &'a Pipeline,
    version: Version,
    beginning: Beginning,
    outbox: &'a mut Outbox,
    waiting: VecDeque<(Option<Arc<Continuation>>, Packet)>,
    /// Packets parsed, also those that turned out to be none.
    parsed: usize,
    /// Passes made.
    made: u32,
}

impl<'a> Passes<'a> {
    /// The passes of `packet` at `version`; what comes of them is put into `outbox`.
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
            waiting: VecDeque::from([(None, packet)]),
            parsed: 0,
            made: 0,
        }
    }

    /// The same of a packet that begins with more than its bytes.
    pub fn with_beginning(self, beginning: Beginning) -> Passes<'a> {
        Passes { beginning, ..self }
    }

    /// The registers' words when the first pass begins.
    fn first_registers(&self) -> Vec<u64> {
        let layout = self.pipeline.layout();
        let mut words = vec![0; layout.words()];
        for &(register, value) in &self.beginning.registers {
            layout.set(&mut words, register, value);
        }
        words.split_off(layout.ingress_words())
    }

    /// Looks a packet up and runs what it comes to.
    fn make(
        &mut self,
        continuation: Option<&Continuation>,
        packet: Packet,
        headers: Headers,
    ) -> Pass {
        let receipt = Receipt {
            in_port: packet.in_port().0,
            recirculation_id: self.made,
            tunnel_id: self.beginning.tunnel_id,
            tunnel_source: self.beginning.tunnel_source,
            tunnel_destination: self.beginning.tunnel_destination,
        };
        self.made += 1;
        let layout = self.pipeline.layout();
        let mut key = vec![0; layout.ingress_words()];
        layout.extract(packet.bytes(), &headers, &receipt, &mut key);
        let translation = match continuation {
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
        run(&translation.effects, fields, packet, headers, self.outbox);
        for (number, packet) in self.outbox.recirculated.drain(..) {
            let continuation = translation.continuations[number as usize].clone();
            self.waiting.push_back((Some(continuation), packet));
        }
        Pass { key, translation }
    }
}

impl Iterator for Passes<'_> {
    type Item = Result<Pass, FrameError>;

    fn next(&mut self) -> Option<Result<Pass, FrameError>> {
        while let Some((continuation, packet)) = self.waiting.pop_front() {
            if self.parsed == MAX_PASSES {
                self.outbox.pool.put(packet);
                continue;
            }
            self.parsed += 1;
            match Headers::parse(packet.bytes()) {
                Ok(headers) => {
                    return Some(Ok(self.make(continuation.as_deref(), packet, headers)));
                }
                Err(error) => {
                    self.outbox.pool.put(packet);
                    if continuation.is_none() {
                        return Some(Err(error));
                    }
                    // What was pushed has made it too long; other copies go on.
                }
            }
        }
        None
    }
}
