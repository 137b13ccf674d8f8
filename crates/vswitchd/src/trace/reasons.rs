//! Why a packet's cache entry is as it is, and why nothing leaves (`thalweg/explain`,
//! `thalweg/why-drop`).
//!
//! The questions are those of `ofproto/trace`. The answer is about the packet's first pass: what
//! a walk that was frozen goes on with has an entry of its own.

use thalweg_pipeline::explain::{describe_step, mask_fields, touches};
use thalweg_pipeline::text::{PortSpelling, print_megaflow_with_ports};
use thalweg_pipeline::{Pass, Pipeline, StepKind, Trace, translate};

use super::arguments::{Switch, TraceQuestion};
use super::{TraceNames, TraceRefusal, full_layout};

/// Reads a question and walks its packet.
fn pass_of(
    pipeline: &Pipeline,
    names: &dyn TraceNames,
    arguments: &[String],
) -> Result<Pass, TraceRefusal> {
    let layout = full_layout(pipeline);
    let switch = Switch {
        pipeline,
        names,
        layout: &layout,
    };
    let question = TraceQuestion::of_packet(switch, arguments)?;
    if question.frozen.is_some() {
        return Err(TraceRefusal::LaterPass);
    }
    let key = question.flow.words(pipeline.layout());
    let translation = translate(pipeline, &key, pipeline.version());
    Ok(Pass { key, translation })
}

/// Explains the mask of the packet's cache entry, and which changes would touch the entry.
///
/// # Errors
/// As [`super::trace`] has.
pub fn explain(
    pipeline: &Pipeline,
    names: &dyn TraceNames,
    arguments: &[String],
) -> Result<String, TraceRefusal> {
    let pass = pass_of(pipeline, names, arguments)?;
    let (layout, mask) = (pipeline.layout(), &pass.translation.mask);
    let ports = PortSpelling::numbers(pipeline);
    let key = &pass.key[..layout.ingress_words()];
    let megaflow = print_megaflow_with_ports(layout, key, mask, ports);
    let mut text = format!("Megaflow: {megaflow}\n\nWhy its mask has\n");
    for field in mask_fields(pipeline, &pass, mask) {
        text += &field.text();
    }
    text += "\nWhat would touch it\n";
    for touch in touches(pipeline, &pass.translation.trace, &[]) {
        text += &format!("  {}\n", touch.what);
    }
    Ok(text)
}

/// Tells the steps of the packet and why it is dropped, or that it is not.
///
/// # Errors
/// As [`super::trace`] has.
pub fn why_drop(
    pipeline: &Pipeline,
    names: &dyn TraceNames,
    arguments: &[String],
) -> Result<String, TraceRefusal> {
    let pass = pass_of(pipeline, names, arguments)?;
    let mut text = steps_text(pipeline, names, &pass.translation.trace);
    text += &match pass.translation.drop_reason {
        Some(reason) => format!(
            "The packet is dropped: {}.\n",
            reason.name().replace('_', " ")
        ),
        None => "The packet is not dropped.\n".to_owned(),
    };
    Ok(text)
}

/// The steps of a walk, a line for each.
pub(crate) fn steps_text(pipeline: &Pipeline, names: &dyn TraceNames, trace: &Trace) -> String {
    let lines = trace.steps().map(|step| match step.kind {
        StepKind::Lookup { table, rule } => {
            let rule = rule.and_then(|rule| pipeline.flow_of(rule));
            let (bridge, number) = (names.bridge_name(table.bridge()), table.number());
            match rule {
                Some(rule) => format!("bridge {bridge}, table {number}: {rule:#}\n"),
                None => format!("bridge {bridge}, table {number}: no rule matched\n"),
            }
        }
        kind => format!("{}\n", describe_step(kind)),
    });
    lines.collect()
}
