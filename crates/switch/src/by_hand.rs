//! Flows that are put in front of the caches of all workers by hand.

use std::sync::Arc;

use thalweg_datapath::HandFlows;

use crate::message::Command;
use crate::switch::Switch;

impl Switch {
    /// Puts flows in front of all caches, in place of those that were put there before; see
    /// [`HandFlows`]. They end with the next change of any kind, also of the switch itself, and
    /// when caches are emptied.
    pub fn put_by_hand(&mut self, flows: HandFlows) {
        // A change that is made meanwhile would end them in workers that have them already.
        self.settle();
        let flows = (!flows.is_empty()).then(|| Arc::new(flows));
        self.ask(|| Command::PutByHand(flows.clone()));
        self.by_hand = flows;
    }

    /// Whether the flows that were put by hand are there still.
    pub fn has_flows_by_hand(&self) -> bool {
        self.by_hand.is_some()
    }
}
