//! Rules that answer a packet without a walk.
//!
//! Most rules of access lists and routing tables send to one port, or drop. If such a rule is
//! the first that a packet meets, the walk ends with it: there is no action set to execute
//! yet, and nothing was written. [`Pipeline::shortcut`] gives the same answer as
//! [`super::Walker::answer`].

use thalweg_classifier::{RuleId, Version};
use thalweg_packet::PortId;

use crate::action::{Action, Output};
use crate::drops::DropReason;
use crate::pipeline::Pipeline;

/// The whole answer to a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shortcut {
    /// Sends the packet unchanged.
    Send(PortId),
    /// Drops the packet.
    Drop(DropReason),
}

impl Pipeline {
    /// The answer to a packet from `in_port` that meets this rule first; `None` if it needs a
    /// walk.
    pub fn shortcut(&self, rule: RuleId, in_port: PortId, version: Version) -> Option<Shortcut> {
        if !self.mirrors.is_empty() {
            return None;
        }
        match &*self.rule(rule)?.actions {
            [] => Some(Shortcut::Drop(DropReason::Action)),
            &[Action::Output(Output::Port(port))] if port != in_port => {
                // A patch leads on, and two protected ports do not reach each other.
                let is_plain = self.port(port, version)?.peer.is_none()
                    && !self.port_vlans(port, version).is_protected;
                is_plain.then_some(Shortcut::Send(port))
            }
            _ => None,
        }
    }

    /// Prefetches rules that will be executed soon.
    pub fn prefetch_rules(&self, rules: &[Option<RuleId>]) {
        for rule in rules.iter().flatten() {
            thalweg_classifier::simd::prefetch(&self.rules, rule.0 as usize);
        }
        for rule in rules.iter().flatten() {
            if let Some(Some(rule)) = self.rules.get(rule.0 as usize) {
                thalweg_classifier::simd::prefetch(&rule.actions, 0);
            }
        }
    }
}
