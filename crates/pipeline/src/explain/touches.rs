//! Lists the changes that would touch an entry.
//!
//! For each read of the entry's walk, these are the changes that could alter its result. They
//! correspond to the questions that `thalweg_datapath` asks about a change (see the essay of
//! its `dependency`):
//!
//! - Does a new rule match what a lookup searched, and win there?
//! - Does a winning rule go, or change its actions?
//! - Does a clause of a conjunctive match come, go, or change its actions?
//! - Is a group, a port or a station different?

use serde::Serialize;
use thalweg_classifier::RuleId;
use thalweg_packet::Layout;
use thalweg_packet::wire::MacAddress;

use crate::action::TableId;
use crate::matching::Match;
use crate::pipeline::Pipeline;
use crate::trace::{Input, Step, StepKind, Trace};

/// A kind of change that would touch an entry.
#[derive(PartialEq, Eq, Serialize)]
pub struct Touch {
    /// `table`, `group`, `port`, `ports`, `station`, `misses` or `layout`.
    kind: &'static str,
    /// In words.
    pub what: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    table: Option<u8>,
    /// New rules win above this priority; at any priority if `None`.
    #[serde(skip_serializing_if = "Option::is_none")]
    above_priority: Option<u16>,
    /// The match that a new rule must be compatible with.
    #[serde(skip_serializing_if = "Option::is_none")]
    meets: Option<String>,
}

/// All such changes, one for each read, reads of tables first.
///
/// `dropped` are bits that the walk reads but the entry's mask lacks. A repaired entry can do
/// with fewer bits than a search would read now. A rule meets the entry even if it disagrees
/// on those bits. Copies of such bits elsewhere are listed as the walk reads them.
pub fn touches(pipeline: &Pipeline, trace: &Trace, dropped: &[u64]) -> Vec<Touch> {
    let kept = |(word, bits): (usize, &u64)| bits & !dropped.get(word).unwrap_or(&0);
    let lookups = trace.steps().filter_map(|step| match step.kind {
        StepKind::Lookup { table, rule } => {
            let bits: Vec<u64> = step.searched.iter().enumerate().map(kept).collect();
            Some(of_lookup(pipeline, &step, &bits, table, rule))
        }
        _ => None,
    });
    let stations = trace.kinds().filter_map(|kind| match kind {
        StepKind::Station { station, port } => {
            let (mac, vlan) = (MacAddress::from_u64(station.mac), station.vlan);
            let how = match port {
                Some(_) => "seen elsewhere, or forgotten",
                None => "seen",
            };
            Some(simple(
                "station",
                format!("station {mac} in VLAN {vlan} is {how}"),
            ))
        }
        _ => None,
    });
    let inputs = trace.inputs().iter().map(|input| match input {
        Input::Group(group) => simple("group", format!("group {} changes", group.number())),
        Input::Port(port) => simple(
            "port",
            format!("port {port} comes or goes, or its link does, or its VLANs change"),
        ),
        Input::AllPorts => simple(
            "ports",
            "the list of ports changes, or their VLANs".to_owned(),
        ),
        Input::Bpdus(_) => simple(
            "bpdus",
            "the bridge begins or ends to forward to reserved addresses".to_owned(),
        ),
        Input::Misses(_) => simple("misses", "what tables do without a rule changes".to_owned()),
        Input::Fragments(_) => simple(
            "fragments",
            "what the bridge does with fragments changes".to_owned(),
        ),
        Input::Meter(meter) => simple(
            "meter",
            format!(
                "meter {} is added or removed, or begins or ceases to remark packets",
                meter.number()
            ),
        ),
    });
    let layout = simple(
        "layout",
        "any table: a rule about a field that no rule has been about; all entries go".to_owned(),
    );
    let mut touches: Vec<Touch> = Vec::new();
    for touch in lookups.chain(stations).chain(inputs).chain([layout]) {
        // A table can be looked up twice with the same bits.
        if !touches.contains(&touch) {
            touches.push(touch);
        }
    }
    touches
}

fn simple(kind: &'static str, what: String) -> Touch {
    Touch {
        kind,
        what,
        table: None,
        above_priority: None,
        meets: None,
    }
}

fn of_lookup(
    pipeline: &Pipeline,
    step: &Step<'_>,
    bits: &[u64],
    table: TableId,
    rule: Option<RuleId>,
) -> Touch {
    let meets = conditions(pipeline.layout(), step.key, bits).to_string();
    let that_meets = if meets.is_empty() {
        String::new()
    } else {
        format!(" that meets {meets}")
    };
    let winner = rule.and_then(|rule| pipeline.flow_of(rule));
    // The winner of a conjunctive match says nothing of the priority of its clauses.
    let has_clauses = pipeline.has_clauses(table);
    let is_by_id = has_clauses && rule.is_some_and(|rule| pipeline.matches_id(rule));
    let above_priority = winner.as_ref().map(|winner| winner.priority);
    let above_priority = above_priority.filter(|_| !is_by_id);
    let new = match above_priority {
        None => Some(format!("any rule{that_meets}")),
        Some(u16::MAX) => None,
        Some(priority) => Some(format!("a rule above priority {priority}{that_meets}")),
    };
    let clauses = has_clauses.then(|| "deleting or modifying a clause of this kind".to_owned());
    let gone = winner.map(|winner| {
        let mut of_winner = format!("priority={},{}", winner.priority, winner.matching);
        of_winner.truncate(of_winner.trim_end_matches(',').len());
        format!("deleting or modifying {of_winner}")
    });
    let what: Vec<String> = new.into_iter().chain(clauses).chain(gone).collect();
    let what = what.join("; ");
    Touch {
        kind: "table",
        what: format!("table {}: {what}", table.number()),
        table: Some(table.number()),
        above_priority,
        meets: Some(meets),
    }
}

/// The bits of a state under a mask, as a match.
fn conditions(layout: &Layout, state: &[u64], mask: &[u64]) -> Match {
    let mut conditions = Match::default();
    for (field, mask) in layout.fields_in(mask) {
        let value = layout.get(state, field).unwrap_or(0);
        let added = conditions.add(field, value, mask);
        added.expect("each field comes once");
    }
    conditions
}
