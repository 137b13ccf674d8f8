//! Cursors: flow entries and their counts at one version, read in slices on the server's
//! thread.

use std::sync::Arc;
use std::time::Duration;

use thalweg_control::openflow::target::FlowCursor;
use thalweg_openflow::message::flow::{
    ALL_TABLES, Counts, Duration as OfDuration, FlowFlags, FlowStats, FlowStatsRequest,
};
use thalweg_openflow::message::group::ANY_GROUP;
use thalweg_openflow::message::port::PortNumber;
use thalweg_openflow::{ErrorCode, Refusal, refuse};
use thalweg_packet::Instant;
use thalweg_pipeline::{
    BridgeId, Counters, GroupId, Output, Pipeline, RuleId, Selector, TableId, Target, Version,
};

use super::convert;
use super::convert::matching::port_id;
use super::numbering::Numbering;
use super::plane::TABLES;
use crate::rule_duty::Shared;
use crate::switch::Switch;

/// How long the pipeline keeps a version for a cursor. After that, entries that ended in the
/// meantime are left out.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// A version that a cursor reads.
#[derive(Debug)]
pub(super) struct Pin {
    pub(super) version: Version,
    made_at: Instant,
}

impl Pin {
    /// Whether the pipeline need not keep the version any more.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        now - self.made_at > PATIENCE
    }
}

/// The counts of an entry when the cursor was made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counted {
    rule: RuleId,
    counters: Counters,
    used_at: Instant,
    modified_at: Instant,
}

/// What a cursor will show.
pub(super) struct Snapshot {
    numbers: Numbering,
    pin: Arc<Pin>,
    taken_at: Instant,
    entries: Vec<Counted>,
}

/// Which rules a request is about.
///
/// # Errors
/// If there is no such table, or the match cannot be one of this switch.
pub(super) fn selector(
    numbers: Numbering,
    request: &FlowStatsRequest,
) -> Result<(Selector, Target), Refusal> {
    let table = match request.table {
        ALL_TABLES => None,
        table if table <= TABLES => Some(TableId(table.into())),
        table => {
            let what = format!("there is no table {table}");
            return Err(refuse(ErrorCode::OFPBRC_BAD_TABLE_ID, what));
        }
    };
    let selector = Selector {
        bridge: BridgeId::default(),
        table,
        matching: convert::matching::matching(&request.matching)?,
        strict_priority: None,
        cookie: (request.cookie_mask != 0).then_some((request.cookie, request.cookie_mask)),
    };
    let target = target(request.out_port, request.out_group);
    Ok(numbers.selector(selector, target))
}

/// The port and group that a filter names, in the bridge's numbers.
pub(super) fn target(port: PortNumber, group: u32) -> Target {
    Target {
        output: output_to(port),
        group: (group != ANY_GROUP).then_some(GroupId(group.into())),
    }
}

fn output_to(port: PortNumber) -> Option<Output> {
    Some(match port {
        PortNumber::ANY => return None,
        PortNumber::IN_PORT => Output::InPort,
        PortNumber::TABLE => Output::Table,
        PortNumber::NORMAL => Output::Normal,
        PortNumber::FLOOD => Output::Flood,
        PortNumber::ALL => Output::All,
        PortNumber::CONTROLLER => Output::to_controller(u16::MAX),
        PortNumber::LOCAL => Output::Local,
        port => Output::Port(port_id(port)),
    })
}

/// Settles all counts, and notes the entries that the request is about.
///
/// # Errors
/// If the request makes no sense.
pub(super) fn snapshot(
    switch: &mut Switch,
    numbers: Numbering,
    request: &FlowStatsRequest,
) -> Result<Snapshot, Refusal> {
    let (selector, target) = selector(numbers, request)?;
    drop(switch.totals());
    let now = switch.now();
    let pipeline = switch.pipeline();
    let pin = Arc::new(Pin {
        version: pipeline.version(),
        made_at: now,
    });
    let rules = pipeline.rules_selected(&selector, &target);
    let entries = rules.into_iter().filter_map(|rule| {
        let known = pipeline.rule(rule)?;
        Some(Counted {
            rule,
            counters: known.counters,
            used_at: known.used_at,
            modified_at: known.modified_at,
        })
    });
    let entries = entries.collect();
    drop(pipeline);
    if let Some(desk) = switch.desks.get_mut(numbers.bridge) {
        desk.pin(&pin);
    }
    Ok(Snapshot {
        numbers,
        pin,
        taken_at: now,
        entries,
    })
}

/// Entries at the version of a snapshot.
pub(super) struct Cursor {
    shared: Arc<Shared>,
    snapshot: Snapshot,
    next: usize,
}

impl Cursor {
    pub(super) fn new(shared: Arc<Shared>, snapshot: Snapshot) -> Cursor {
        Cursor {
            shared,
            snapshot,
            next: 0,
        }
    }
}

impl FlowCursor for Cursor {
    fn next(&mut self, count: usize) -> Vec<FlowStats> {
        let mut found = Vec::new();
        while found.is_empty() && self.next < self.snapshot.entries.len() {
            let end = self.snapshot.entries.len().min(self.next + count.max(1));
            let slice = &self.snapshot.entries[self.next..end];
            let pipeline = self.shared.pipeline.read();
            let version = self.snapshot.pin.version;
            let shown = slice.iter().filter_map(|entry| {
                // After the pin's time, another rule may have the number.
                let is_there = pipeline.is_rule_at(entry.rule, version);
                is_there.then(|| {
                    let Snapshot {
                        numbers, taken_at, ..
                    } = self.snapshot;
                    stats_of(&pipeline, numbers, entry.rule, Some(entry), taken_at)
                })?
            });
            found = shown.collect();
            self.next = end;
        }
        found
    }
}

/// The statistics of a rule, with the counts of a snapshot or with those it has.
pub(super) fn stats_of(
    pipeline: &Pipeline,
    numbers: Numbering,
    id: RuleId,
    counted: Option<&Counted>,
    now: Instant,
) -> Option<FlowStats> {
    let rule = pipeline.rule(id)?;
    let matching = pipeline.match_of(id)?;
    let matching = numbers.told_match(&matching);
    let (counters, used_at, modified_at) = match counted {
        Some(counted) => (counted.counters, counted.used_at, counted.modified_at),
        None => (rule.counters, rule.used_at, rule.modified_at),
    };
    let age = |since: Instant| u16::try_from((now - since).as_secs()).unwrap_or(u16::MAX);
    let mut flags = 0;
    for (is_set, flag) in [
        (rule.reports_removal, FlowFlags::SEND_REMOVED),
        (rule.labels.checks_overlap, FlowFlags::CHECK_OVERLAP),
        (rule.labels.resets_counts, FlowFlags::RESET_COUNTS),
        (rule.labels.no_packet_counts, FlowFlags::NO_PACKET_COUNTS),
        (rule.labels.no_byte_counts, FlowFlags::NO_BYTE_COUNTS),
    ] {
        flags |= if is_set { flag } else { 0 };
    }
    Some(FlowStats {
        table: rule.table.number(),
        duration: duration(now - rule.created_at),
        priority: rule.precedence.priority(),
        idle_timeout_s: rule.idle_timeout_s,
        hard_timeout_s: rule.hard_timeout_s,
        idle_age_s: Some(age(used_at)),
        hard_age_s: Some(age(modified_at)),
        importance: rule.labels.importance,
        flags: FlowFlags(flags),
        cookie: rule.cookie,
        counts: Counts {
            packets: counters.packets,
            bytes: counters.bytes,
        },
        instructions: convert::reading::instructions(
            &numbers.told_actions(&rule.actions),
            &matching,
            rule.labels.max_length,
        ),
        matching: convert::matching::of_match(&matching),
    })
}

/// A time as OpenFlow splits it.
pub(super) fn duration(time: Duration) -> OfDuration {
    OfDuration {
        seconds: u32::try_from(time.as_secs()).unwrap_or(u32::MAX),
        nanoseconds: time.subsec_nanos(),
    }
}
