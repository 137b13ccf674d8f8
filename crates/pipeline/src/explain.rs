//! Explains a cache entry: why its mask has each bit, and which changes would touch it.
//!
//! All of it comes from the trace of the walk that made the entry:
//!
//! ```text
//!   for each field of the mask:  the steps that needed it          (`mask_fields`)
//!   for each read of the walk:   the changes that would meet it    (`touches`)
//! ```
//!
//! A change that meets no read leaves the entry alone, under every maintainer that examines
//! only what a change may affect. A change that meets a read has the entry examined, and it is
//! often found right.

mod reasons;
mod touches;

use thalweg_classifier::RuleId;
use thalweg_packet::{FieldId, standard as f};

pub use reasons::{MaskField, MaskReader, mask_fields};
pub use touches::{Touch, touches};

use crate::matching::Match;
use crate::pipeline::Pipeline;
use crate::trace::StepKind;

/// Describes the outcome of a step, without its rule.
pub fn describe_step(kind: StepKind) -> String {
    match kind {
        StepKind::Lookup { rule: Some(_), .. } => "matched".to_owned(),
        StepKind::Lookup { rule: None, .. } => "no rule matched".to_owned(),
        StepKind::Unmatched {
            to_controller: true,
            ..
        } => "sent to controllers without a rule".to_owned(),
        StepKind::Unmatched { .. } => "dropped without a rule".to_owned(),
        StepKind::Fragment { .. } => "fragments are dropped".to_owned(),
        StepKind::Bucket {
            group,
            bucket: Some(bucket),
        } => {
            format!("group {}: bucket {bucket}", group.number())
        }
        StepKind::Bucket {
            group,
            bucket: None,
        } => format!("group {}: no bucket alive", group.number()),
        StepKind::Station { station, port } => {
            let known = port.map_or("unknown, flooded".to_owned(), |port| format!("port {port}"));
            format!(
                "station {:012x} in VLAN {}: {known}",
                station.mac, station.vlan
            )
        }
        StepKind::Mirror(mirror) => format!("a copy for mirror {}", mirror.0),
        StepKind::Patch { from, to } => format!("patch from port {from} to port {to}"),
        StepKind::ActionSet => "action set".to_owned(),
        StepKind::Resumption { .. } => "resumed".to_owned(),
    }
}

/// Formats bits of an address as rules do, such as `10.0.0.0/8`; `None` for other fields.
pub fn describe_address(field: FieldId, value: u128, bits: u128) -> Option<String> {
    const ADDRESSES: [FieldId; 13] = [
        f::ETH_SRC,
        f::ETH_DST,
        f::IP_SRC,
        f::IP_DST,
        f::IPV6_SRC,
        f::IPV6_DST,
        f::ARP_SPA,
        f::ARP_TPA,
        f::ARP_SHA,
        f::ARP_THA,
        f::ND_TARGET,
        f::ND_SLL,
        f::ND_TLL,
    ];
    if !ADDRESSES.contains(&field) {
        return None;
    }
    let mut alone = Match::default();
    alone.add(field, value, bits).ok()?;
    let text = alone.to_string();
    text.split_once('=').map(|(_, value)| value.to_owned())
}

/// A rule as text.
fn rule_text(pipeline: &Pipeline, rule: RuleId) -> String {
    let flow = pipeline.flow_of(rule);
    let flow = flow.expect("what a walk has met is not reclaimed while nothing changes");
    format!("{flow:#}")
}
