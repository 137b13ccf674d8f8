//! Flows that were put into the datapath by hand, in front of the caches.
//!
//! An operator tries what a flow would do, as with `ovs-appctl dpctl/add-flow`. Such flows are
//! no entries: they are in no cache, and nothing that is remembered comes from them. So what the
//! caches hold stays what the interpreter says.
//!
//! ```text
//!   packet --> flows by hand, if there are any --> effects of the first that has the packet
//!                 \-- none has it --> caches
//! ```
//!
//! 1. They answer packets that come in; packets that recirculate are the caches'.
//! 2. They end when the caches begin to follow a change, and when the caches are emptied.
//! 3. Packets leave in the order of arrival.
//!
//! Without such flows a call costs one comparison. With them each packet is parsed once more,
//! into all fields, and compared with one flow after the other.

use thalweg_packet::{Connection, Instant, Packet};
use thalweg_pipeline::{Outbox, Pipeline, run};

use crate::core::Core;
use crate::gate::Gate;
use crate::hand_flow::HandFlows;

impl<const W: usize> Core<W> {
    /// Forwards packets: by the flows first, and by the caches what these do not answer.
    pub(crate) fn process_by_hand(
        &mut self,
        flows: &HandFlows,
        packets: &mut Vec<Packet>,
        now: Instant,
        pipeline: &Gate<Pipeline>,
        outbox: &mut Outbox,
    ) {
        outbox.now = now;
        let mut waiting = Vec::new();
        for packet in packets.drain(..) {
            let Some((flow, headers)) = flows.find(&packet) else {
                waiting.push(packet);
                continue;
            };
            // Invariant 3.
            self.process_by_caches(&mut waiting, now, pipeline, outbox);
            self.statistics.packets += 1;
            flow.count(&packet, now);
            let (effects, fields) = (&flow.effects, &self.fields);
            run(effects, fields, packet, headers, &Connection::NONE, outbox);
        }
        // Also takes what the flows dropped.
        self.process_by_caches(&mut waiting, now, pipeline, outbox);
    }
}
