//! Explains why a bit is in the mask: lists the steps that needed it.
//!
//! The trace records, bit by bit, what each step added to the mask, so the first step that
//! needed a bit is certain. Later reads of the bit are known only in words that the walk never
//! wrote. There, the bit that a step read is the bit that came in. Reads of copies and of
//! written words are listed only if they came first.
//!
//! A lookup reads before its rule's actions. The bits that it searched were read by the
//! lookup; other bits that the step examined, by the actions. Bits that were examined only as
//! copies elsewhere are attributed to both if both can have read the copy.

use serde::Serialize;
use thalweg_packet::{FieldId, Layout, standard as f};

use super::{describe_address, describe_step, rule_text};
use crate::Pass;
use crate::pipeline::Pipeline;
use crate::trace::{Step, StepKind, Trace};

/// A field of a mask.
#[derive(Serialize)]
pub struct MaskField {
    field: String,
    value: String,
    mask: String,
    needed_by: Vec<MaskReader>,
    /// The field's value as an address in rule syntax, if it is one.
    #[serde(skip)]
    address: Option<String>,
}

/// A step that needed bits of a field.
#[derive(Serialize)]
pub struct MaskReader {
    #[serde(skip_serializing_if = "Option::is_none")]
    table: Option<u8>,
    /// Which part of the step read: `lookup`, `actions`, `lookup_or_actions`, `always`,
    /// `earlier`, or another.
    by: &'static str,
    /// The rule, or the step's outcome if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<String>,
    what: String,
    /// The bits that it needed.
    mask: String,
}

impl MaskField {
    /// The field, followed by one line for each step that needed it.
    pub fn text(&self) -> String {
        let mut text = match &self.address {
            Some(address) => format!("  {}={address}\n", self.field),
            None => format!("  {}={}/{}\n", self.field, self.value, self.mask),
        };
        for reader in &self.needed_by {
            let table = reader
                .table
                .map_or(String::new(), |table| format!("{table}."));
            let by = reader.by.replace('_', " ");
            let part = if reader.mask == self.mask {
                String::new()
            } else {
                format!(" of {}", reader.mask)
            };
            let what = reader.rule.as_ref().unwrap_or(&reader.what);
            text += &format!("    {table:>4} {by}{part}: {what}\n");
        }
        text
    }
}

/// The fields of a mask, each with the steps of a pass that needed it, in their order.
///
/// `mask` is the pass's own, or that of a repaired entry. Repairs keep bits that the walk no
/// longer needs, and rule out a new rule by one bit where a search would read several.
pub fn mask_fields(pipeline: &Pipeline, pass: &Pass, mask: &[u64]) -> Vec<MaskField> {
    let layout = pipeline.layout();
    let reads = Reads::of(&pass.translation.trace, layout);
    let fields = layout.fields_in(mask);
    let kept = mask.iter().zip(&pass.translation.mask);
    let kept: Vec<u64> = kept.map(|(mask, needed)| mask & !needed).collect();
    let value = |field, mask| layout.get(&pass.key, field).unwrap_or(0) & mask;
    let reports = fields.map(|(field, mask)| MaskField {
        address: describe_address(field, value(field, mask), mask),
        field: layout.descriptor(field).name.to_string(),
        value: hexadecimal(value(field, mask)),
        mask: hexadecimal(mask),
        needed_by: always_reader(pipeline, field, mask)
            .into_iter()
            .chain(readers(pipeline, &reads, field, mask))
            .chain(kept_reader(layout.get(&kept, field).unwrap_or(0)))
            .collect(),
    });
    reports.collect()
}

/// Accounts for a field that each entry compares, whether or not a step needs it. What no
/// lookup searched of it counts as read by the first step's actions.
fn always_reader(pipeline: &Pipeline, field: FieldId, mask: u128) -> Option<MaskReader> {
    let is_compared = pipeline.config.compared.contains(&field);
    is_compared.then(|| MaskReader {
        table: None,
        by: "always",
        rule: None,
        what: "each entry is for one value of it".to_owned(),
        mask: hexadecimal(mask),
    })
}

/// Accounts for bits in the mask that no step needs.
fn kept_reader(bits: u128) -> Option<MaskReader> {
    (bits != 0).then(|| MaskReader {
        table: None,
        by: "earlier",
        rule: None,
        what: "a walk before a repair; repairs keep what was read".to_owned(),
        mask: hexadecimal(bits),
    })
}

/// The steps that needed bits of a field.
fn readers(pipeline: &Pipeline, reads: &Reads<'_>, field: FieldId, mask: u128) -> Vec<MaskReader> {
    if field == f::RECIRC_ID {
        return vec![MaskReader {
            table: None,
            by: "pass",
            rule: None,
            what: "each pass of a packet has entries of its own".to_owned(),
            mask: hexadecimal(mask),
        }];
    }
    let layout = pipeline.layout();
    let readers = reads.reads.iter().filter_map(|read| {
        let mask = layout.get(&read.bits, field).unwrap_or(0) & mask;
        (mask != 0).then(|| {
            let (table, rule) = match read.step.kind {
                StepKind::Lookup { table, rule } => (Some(table.number()), rule),
                StepKind::Resumption { rule } => (None, rule),
                _ => (None, None),
            };
            MaskReader {
                table,
                by: read.by,
                rule: rule.map(|rule| rule_text(pipeline, rule)),
                what: describe_step(read.step.kind),
                mask: hexadecimal(mask),
            }
        })
    });
    readers.collect()
}

/// Reads of ingress bits, in the order of the steps that made them.
struct Reads<'a> {
    reads: Vec<Read<'a>>,
}

struct Read<'a> {
    step: Step<'a>,
    by: &'static str,
    /// The bits read, as words of the ingress key.
    bits: Vec<u64>,
}

impl<'a> Reads<'a> {
    fn of(trace: &'a Trace, layout: &Layout) -> Reads<'a> {
        let mut reads = Vec::new();
        let written = trace.written_words();
        let is_written = |word: usize| written >> word & 1 == 1;
        // Every lookup reads whether the packet is a fragment.
        let mut of_fragments = vec![0; layout.words()];
        layout.set(&mut of_fragments, f::IP_FRAG, 3);
        for step in trace.steps() {
            let needed: Vec<u64> = (0..layout.ingress_words())
                .map(|word| {
                    let again = if is_written(word) {
                        0
                    } else {
                        step.examined[word]
                    };
                    step.added[word] | again
                })
                .collect();
            let may_search_copies = (step.searched.iter().enumerate())
                .any(|(word, bits)| *bits != 0 && is_written(word));
            let acts_read_nothing = (step.searched.iter().zip(step.examined).zip(&of_fragments))
                .all(|((searched, examined), fragments)| examined & !fragments == *searched);
            for by in readers_of(step.kind) {
                let bits = needed.iter().enumerate().map(|(word, needed)| {
                    let searched = step.searched[word] | of_fragments[word];
                    let (lookup, actions) = if acts_read_nothing {
                        (*needed, 0)
                    } else {
                        (needed & searched, needed & step.examined[word] & !searched)
                    };
                    let copies = needed & !lookup & !actions;
                    match *by {
                        "lookup" => lookup,
                        "lookup_or_actions" if may_search_copies => copies,
                        "lookup_or_actions" => 0,
                        "actions" if !may_search_copies => actions | copies,
                        "actions" => actions,
                        _ => *needed,
                    }
                });
                let bits: Vec<u64> = bits.collect();
                reads.push(Read { step, by, bits });
            }
        }
        Reads { reads }
    }
}

/// The parts of a step that can read.
fn readers_of(kind: StepKind) -> &'static [&'static str] {
    match kind {
        StepKind::Lookup { .. } => &["lookup", "lookup_or_actions", "actions"],
        // Actions that follow an output to TABLE may read.
        StepKind::Unmatched { .. } => &["actions"],
        StepKind::Fragment { .. } => &["lookup"],
        StepKind::Bucket { .. } => &["group"],
        StepKind::Patch { .. } => &["patch"],
        // What decides about the copy is read by the step that sends or receives the packet.
        StepKind::Mirror(_) => &[],
        StepKind::Station { .. } => &["normal"],
        StepKind::ActionSet => &["action_set"],
        StepKind::Resumption { .. } => &["resumed"],
    }
}

fn hexadecimal(number: u128) -> String {
    format!("{number:#x}")
}
