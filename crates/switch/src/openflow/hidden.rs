//! Table 254: Open vSwitch's hidden flow entries, with what our tables count instead of them.
//!
//! In Open vSwitch, entries of this table drop or send to controllers what no rule of a
//! controller takes. Its users look there for such packets, so the same four entries are shown
//! here. Nothing looks them up, no request changes them, and only one for this table shows them.

use thalweg_control::openflow::target::FlowCursor;
use thalweg_openflow::Refusal;
use thalweg_openflow::action::{Action, Controller, Instructions};
use thalweg_openflow::message::flow::{Counts, FlowFlags, FlowStats, FlowStatsRequest};
use thalweg_packet::FieldId;
use thalweg_packet::standard as f;
use thalweg_pipeline::{Counters, Match, Output, Selector, Target};

use super::convert;
use super::cursor::{duration, selector};
use super::numbering::Numbering;
use super::plane::TABLES;
use crate::switch::Switch;

/// `OFPR_IMPLICIT_MISS` of Open vSwitch: no rule matched.
const IMPLICIT_MISS: u8 = 7;

/// Entries that were read before.
pub(super) struct Entries(pub(super) std::vec::IntoIter<FlowStats>);

impl FlowCursor for Entries {
    fn next(&mut self, count: usize) -> Vec<FlowStats> {
        self.0.by_ref().take(count.max(1)).collect()
    }
}

/// The hidden entries of a bridge that a request is about.
///
/// # Errors
/// If the request makes no sense.
pub(super) fn entries(
    switch: &mut Switch,
    numbers: Numbering,
    request: &FlowStatsRequest,
) -> Result<Vec<FlowStats>, Refusal> {
    let (selector, target) = selector(numbers, request)?;
    drop(switch.totals());
    let counted = switch.pipeline().unmatched(numbers.bridge);
    let age = duration(switch.bridge_age(numbers.bridge));
    let none = Counters::default();
    let entries = [
        // Nothing meets it: later passes do not use this table.
        (2, f::RECIRC_ID, 0, false, none),
        (0, f::REG0, 1, true, counted.to_controller),
        (0, f::REG0, 2, false, counted.dropped),
        (0, f::REG0, 3, false, counted.fragments),
    ];
    let shown = entries.into_iter().filter_map(|entry| {
        let (priority, field, value, to_controller, counters) = entry;
        let matching = matching(field, value);
        is_asked(&selector, &target, &matching, to_controller).then(|| FlowStats {
            table: TABLES,
            duration: age,
            priority,
            idle_timeout_s: 0,
            hard_timeout_s: 0,
            // Not kept.
            idle_age_s: None,
            hard_age_s: None,
            importance: 0,
            flags: FlowFlags(0),
            cookie: 0,
            counts: Counts {
                packets: counters.packets,
                bytes: counters.bytes,
            },
            matching: convert::matching::of_match(&matching),
            instructions: instructions(to_controller),
        })
    });
    Ok(shown.collect())
}

fn matching(field: FieldId, value: u128) -> Match {
    let mut matching = Match::default();
    let added = matching.add(field, value, u128::from(u32::MAX));
    added.expect("one condition contradicts nothing");
    matching
}

fn instructions(to_controller: bool) -> Instructions {
    let controller = Action::Controller(Controller {
        max_length: u16::MAX,
        id: 0,
        reason: IMPLICIT_MISS,
        pause: false,
        userdata: None,
        meter: None,
    });
    Instructions {
        apply: if to_controller {
            vec![controller]
        } else {
            Vec::new()
        },
        ..Instructions::default()
    }
}

/// Whether a request's filters leave an entry.
fn is_asked(selector: &Selector, target: &Target, entry: &Match, to_controller: bool) -> bool {
    let mut terms = selector.matching.terms().iter();
    let is_within = terms.all(|wanted| {
        entry.term(wanted.field).is_some_and(|term| {
            wanted.mask & !term.mask == 0 && (wanted.value ^ term.value) & wanted.mask == 0
        })
    });
    let has_cookie = selector
        .cookie
        .is_none_or(|(cookie, mask)| cookie & mask == 0);
    let is_led = target.group.is_none()
        && target
            .output
            .as_ref()
            .is_none_or(|output| to_controller && matches!(output, Output::Controller { .. }));
    is_within && has_cookie && is_led
}
