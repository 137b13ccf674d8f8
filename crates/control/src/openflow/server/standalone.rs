//! Lets the switch forward by itself while no controller speaks with it.

use std::sync::Arc;
use std::time::Duration;

use thalweg_openflow::action::{Action, Instructions};
use thalweg_openflow::message::flow::{FlowCommand, FlowFlags, FlowMod};
use thalweg_openflow::message::group::ANY_GROUP;
use thalweg_openflow::message::port::PortNumber;
use thalweg_openflow::{Match, Version};

use super::{FailMode, OpenFlowConfig};
use crate::openflow::agent::Agent;
use crate::openflow::target::{Change, Target, Transaction};

/// The cookie of the rule of priority 0 that forwards while no controller speaks with the
/// switch, so that only this rule is removed when a controller is back.
pub const STANDALONE_COOKIE: u64 = 0x7468_616c_7765_6700;
/// Probe intervals without a controller before the switch helps itself.
const INTERVALS: u32 = 3;
/// The interval where none is configured.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(5);

/// Follows whether there is a controller.
pub(super) struct Standalone {
    mode: FailMode,
    patience: Duration,
    /// The rule's cookie. Without controllers it is a rule like others, as in Open vSwitch.
    cookie: u64,
    /// When there was a controller last; at first, when it was looked for first.
    seen_at: Option<Duration>,
    /// Whether the rule is there, or need not be.
    is_active: bool,
}

impl Standalone {
    pub(super) fn new(config: &OpenFlowConfig) -> Standalone {
        // The longest of all counts, as in Open vSwitch.
        let controllers = config.controllers.iter();
        let intervals = controllers.filter_map(|target| config.pace(target).probe_interval);
        let interval = intervals.max().unwrap_or(DEFAULT_INTERVAL);
        let has_controllers = !config.controllers.is_empty();
        Standalone {
            mode: config.fail_mode,
            // Without controllers there is nothing to wait for.
            patience: if has_controllers {
                interval * INTERVALS
            } else {
                Duration::ZERO
            },
            cookie: if has_controllers {
                STANDALONE_COOKIE
            } else {
                0
            },
            seen_at: None,
            // Without controllers it is set up once. Clients may have replaced it since.
            is_active: config.is_resumed
                && config.fail_mode == FailMode::Standalone
                && !has_controllers,
        }
    }

    pub(super) fn follow<T: Target>(
        &mut self,
        agent: &mut Agent<T>,
        has_controller: bool,
        now: Duration,
    ) {
        let seen_at = match self.seen_at {
            Some(seen_at) if !has_controller => seen_at,
            _ => *self.seen_at.insert(now),
        };
        let is_alone = !has_controller && now.saturating_sub(seen_at) >= self.patience;
        let wanted = self.mode == FailMode::Standalone && is_alone;
        if wanted == self.is_active {
            return;
        }
        let command = match wanted {
            true => FlowCommand::Add,
            false => FlowCommand::DeleteStrict,
        };
        let transaction = Transaction {
            version: Version::V13,
            changes: vec![Change::Flow(Box::new(rule(command, self.cookie)))],
        };
        let done = agent.target().change(Arc::new([transaction]));
        if done.iter().all(Result::is_ok) {
            self.is_active = wanted;
        }
    }
}

/// The rule that forwards like a learning switch what no other rule matches.
fn rule(command: FlowCommand, cookie: u64) -> FlowMod {
    let is_removal = command == FlowCommand::DeleteStrict;
    FlowMod {
        is_nicira: false,
        command,
        table: 0,
        new_cookie: cookie,
        cookie,
        cookie_mask: if is_removal { u64::MAX } else { 0 },
        idle_timeout_s: 0,
        hard_timeout_s: 0,
        priority: 0,
        buffer: None,
        out_port: PortNumber::ANY,
        out_group: ANY_GROUP,
        flags: FlowFlags(0),
        importance: 0,
        matching: Match::default(),
        instructions: Instructions {
            apply: vec![Action::Output {
                port: PortNumber::NORMAL,
                max_length: 0,
            }],
            ..Instructions::default()
        },
    }
}
