//! Prints `learn(...)` and `fin_timeout(...)` like `learn_format` of Open vSwitch.

use std::fmt;

use super::subfield::{covering_name, subfield};
use super::{Context, Out, text, value};
use crate::flow::DEFAULT_PRIORITY;
use crate::learning::{LearnTarget, LearnedBits, Learning};
use crate::text::shape::Shape;
use crate::text::value::ones;

/// Writes `fin_timeout`.
pub(super) fn fin_timeout(out: Out<'_, '_>, idle_s: u16, hard_s: u16) -> fmt::Result {
    let mut parts = Vec::new();
    if idle_s != 0 {
        parts.push(format!("idle_timeout={idle_s}"));
    }
    if hard_s != 0 {
        parts.push(format!("hard_timeout={hard_s}"));
    }
    write!(out, "fin_timeout({})", parts.join(","))
}

/// Writes `learn`.
pub(super) fn learning(out: Out<'_, '_>, asked: &Learning, context: Context<'_>) -> fmt::Result {
    write!(out, "learn(table={}", asked.table.number())?;
    let timeouts = [
        ("idle_timeout", asked.idle_timeout_s),
        ("hard_timeout", asked.hard_timeout_s),
        ("fin_idle_timeout", asked.fin_idle_timeout_s),
        ("fin_hard_timeout", asked.fin_hard_timeout_s),
    ];
    for (name, seconds) in timeouts.iter().filter(|(_, seconds)| *seconds != 0) {
        write!(out, ",{name}={seconds}")?;
    }
    if asked.priority != DEFAULT_PRIORITY {
        write!(out, ",priority={}", asked.priority)?;
    }
    if asked.reports_removal {
        out.write_str(",send_flow_rem")?;
    }
    if asked.deletes_learned {
        out.write_str(",delete_learned")?;
    }
    if asked.cookie != 0 {
        write!(out, ",cookie={:#x}", asked.cookie)?;
    }
    if asked.limit != 0 {
        write!(out, ",limit={}", asked.limit)?;
    }
    if let Some(bit) = &asked.result {
        out.write_str(",result_dst=")?;
        subfield(out, bit, context)?;
    }
    let mut learned = Context {
        shape: Some(Shape::default()),
        ..context
    };
    for part in &asked.parts {
        out.write_str(",")?;
        condition_or_action(out, (&part.source, &part.target), context, learned)?;
        if let (LearnedBits::Constant { value, .. }, LearnTarget::Match(bits)) =
            (&part.source, &part.target)
            && let ([slice], Some(shape)) = (&*bits.slices, &mut learned.shape)
        {
            shape.learn(slice.field, value << slice.offset);
        }
    }
    out.write_str(")")
}

/// Writes a part; `learned` describes the packets of the learned rule.
fn condition_or_action(
    out: Out<'_, '_>,
    part: (&LearnedBits, &LearnTarget),
    context: Context<'_>,
    learned: Context<'_>,
) -> fmt::Result {
    match part {
        (LearnedBits::Constant { value: bits, .. }, LearnTarget::Match(target)) => {
            match covering_name(target, learned) {
                Some((name, 0)) if name.width_bits == target.width_bits() => {
                    write!(out, "{}=", name.primary())?;
                    value(out, name, (*bits, ones(name.width_bits)), learned.ports)
                }
                _ => {
                    subfield(out, target, learned)?;
                    write!(out, "={bits:#x}")
                }
            }
        }
        (LearnedBits::Field(source), LearnTarget::Match(target)) => {
            subfield(out, target, learned)?;
            let printed = |bits, context| text(|out| subfield(out, bits, context));
            if printed(source, context) != printed(target, learned) {
                out.write_str("=")?;
                subfield(out, source, context)?;
            }
            Ok(())
        }
        (LearnedBits::Constant { value, .. }, LearnTarget::Load(target)) => {
            write!(out, "load:{value:#x}->")?;
            subfield(out, target, learned)
        }
        (LearnedBits::Field(source), LearnTarget::Load(target)) => {
            out.write_str("load:")?;
            subfield(out, source, context)?;
            out.write_str("->")?;
            subfield(out, target, learned)
        }
        (LearnedBits::Field(source), LearnTarget::Output) => {
            out.write_str("output:")?;
            subfield(out, source, context)
        }
        // No text says this.
        (LearnedBits::Constant { value, .. }, LearnTarget::Output) => write!(out, "output:{value}"),
    }
}
