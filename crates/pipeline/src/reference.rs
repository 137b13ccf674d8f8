//! Forwarding without any cache: parse, interpret, run; again for what recirculates.
//!
//! This is what every cached answer is compared with.

use std::collections::VecDeque;
use std::sync::Arc;

use thalweg_classifier::Version;
use thalweg_packet::{FrameError, Headers, Packet, Receipt};

use crate::effect::{Outbox, run};
use crate::interpret::{Continuation, Translation, resume, translate};
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
    let mut passes = Vec::new();
    let mut waiting: VecDeque<(Option<Arc<Continuation>>, Packet)> =
        VecDeque::from([(None, packet)]);
    let mut count = 0;
    while let Some((continuation, packet)) = waiting.pop_front() {
        if count == MAX_PASSES {
            outbox.pool.put(packet);
            continue;
        }
        count += 1;
        let headers = match Headers::parse(packet.bytes()) {
            Ok(headers) => headers,
            Err(error) => {
                outbox.pool.put(packet);
                if continuation.is_none() {
                    return Err(error);
                }
                // What was pushed has made it too long; other copies go on.
                continue;
            }
        };
        let receipt = Receipt {
            in_port: packet.in_port().0,
            recirculation_id: passes.len() as u32,
            ..Receipt::default()
        };
        let layout = pipeline.layout();
        let mut key = vec![0; layout.ingress_words()];
        layout.extract(packet.bytes(), &headers, &receipt, &mut key);
        let translation = match continuation {
            None => translate(pipeline, &key, version),
            Some(continuation) => resume(pipeline, &key, &continuation, version),
        };
        run(
            &translation.effects,
            pipeline.fields(),
            packet,
            headers,
            outbox,
        );
        for (number, packet) in outbox.recirculated.drain(..) {
            let continuation = translation.continuations[number as usize].clone();
            waiting.push_back((Some(continuation), packet));
        }
        passes.push(translation);
    }
    Ok(passes)
}
