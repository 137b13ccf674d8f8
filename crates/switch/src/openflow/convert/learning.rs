//! `learn`, in both directions.

use thalweg_openflow::action::{Learn, LearnDestination, LearnSource, LearnSpec};
use thalweg_openflow::{ErrorCode, Refusal, Value, refuse};
use thalweg_pipeline::{LearnPart, LearnTarget, LearnedBits, Learning, Subfield, TableId};

use super::fields::{needs_more, of_subfield, pieces_for_action, subfield};
use super::shape::Shape;

/// Flags of `learn` (`NX_LEARN_F_*`).
const SEND_FLOW_REMOVED: u16 = 1;
const DELETE_LEARNED: u16 = 2;
const WRITE_RESULT: u16 = 4;

/// What a `learn` of a rule for packets of this shape asks for; nothing is known of the packets
/// without a shape.
///
/// # Errors
/// If the pipeline lacks a field, or a field needs a match on its header.
pub(super) fn learning(asked: &Learn, shape: Option<&Shape>) -> Result<Learning, Refusal> {
    let mut learned = Shape::default();
    let mut parts = Vec::with_capacity(asked.specs.len());
    for spec in &asked.specs {
        let part = part(spec, shape, &learned)?;
        if let (LearnedBits::Constant { value, .. }, LearnTarget::Match(bits)) =
            (&part.source, &part.target)
        {
            note_constant(&mut learned, bits, *value);
        }
        parts.push(part);
    }
    let result = asked.result.map(|bit| {
        require(bit.field, shape)?;
        subfield(bit)
    });
    Ok(Learning {
        table: TableId(asked.table.into()),
        priority: asked.priority,
        cookie: asked.cookie,
        idle_timeout_s: asked.idle_timeout_s,
        hard_timeout_s: asked.hard_timeout_s,
        fin_idle_timeout_s: asked.fin_idle_timeout_s,
        fin_hard_timeout_s: asked.fin_hard_timeout_s,
        reports_removal: asked.flags & SEND_FLOW_REMOVED != 0,
        deletes_learned: asked.flags & DELETE_LEARNED != 0,
        limit: asked.limit,
        result: result.transpose()?,
        parts: parts.into(),
    })
}

fn part(spec: &LearnSpec, shape: Option<&Shape>, learned: &Shape) -> Result<LearnPart, Refusal> {
    let (target, bits) = match &spec.destination {
        LearnDestination::Output => (LearnTarget::Output, None),
        LearnDestination::Match(bits) => {
            require(bits.field, Some(learned))?;
            (LearnTarget::Match(subfield(*bits)?), Some(*bits))
        }
        LearnDestination::Load(bits) => {
            require(bits.field, Some(learned))?;
            if !bits.field.is_writable() {
                let what = format!("{} cannot be written", bits.field);
                return Err(refuse(ErrorCode::OFPBAC_BAD_ARGUMENT, what));
            }
            (LearnTarget::Load(subfield(*bits)?), Some(*bits))
        }
    };
    let source = match (&spec.source, bits, &target) {
        (LearnSource::Field(bits), _, _) => {
            require(bits.field, shape)?;
            LearnedBits::Field(subfield(*bits)?)
        }
        (
            LearnSource::Immediate(value),
            Some(bits),
            LearnTarget::Match(target) | LearnTarget::Load(target),
        ) => {
            // `nw_tos` names six of its eight bits.
            let first = pieces_for_action(bits.field)?[0].of_offset;
            let width_bits = target.width_bits();
            let value = value.number() >> first.saturating_sub(bits.offset);
            LearnedBits::Constant {
                value: value & u128::MAX >> (128 - width_bits),
                width_bits,
            }
        }
        (LearnSource::Immediate(_), _, _) => {
            let what = "a learned output is to a port that the packet names";
            return Err(refuse(ErrorCode::OFPBAC_BAD_ARGUMENT, what));
        }
    };
    Ok(LearnPart { source, target })
}

/// Refuses a field whose header a match does not promise.
fn require(field: thalweg_openflow::FieldId, shape: Option<&Shape>) -> Result<(), Refusal> {
    if shape.is_some_and(|shape| needs_more(field) && !shape.has(field.needs())) {
        let what = format!("{field} in learn needs a match on its header");
        return Err(refuse(ErrorCode::OFPBAC_MATCH_INCONSISTENT, what));
    }
    Ok(())
}

/// Notes what a constant condition says of the learned rule's packets.
fn note_constant(learned: &mut Shape, bits: &Subfield, value: u128) {
    if let [slice] = &*bits.slices {
        learned.learn(slice.field, value << slice.offset);
    }
}

/// A `learn` as OpenFlow tells it; `None` if a field has no name there.
pub(super) fn told(asked: &Learning, shape: &Shape) -> Option<Learn> {
    let mut learned = Shape::default();
    let mut specs = Vec::with_capacity(asked.parts.len());
    for part in &asked.parts {
        specs.push(told_part(part, shape, &learned)?);
        if let (LearnedBits::Constant { value, .. }, LearnTarget::Match(bits)) =
            (&part.source, &part.target)
        {
            note_constant(&mut learned, bits, *value);
        }
    }
    let flag = |is_set: bool, bit: u16| if is_set { bit } else { 0 };
    let result = asked.result.as_ref().map(|bit| of_subfield(bit, shape));
    if result == Some(None) {
        return None;
    }
    Some(Learn {
        idle_timeout_s: asked.idle_timeout_s,
        hard_timeout_s: asked.hard_timeout_s,
        priority: asked.priority,
        cookie: asked.cookie,
        flags: flag(asked.reports_removal, SEND_FLOW_REMOVED)
            | flag(asked.deletes_learned, DELETE_LEARNED)
            | flag(asked.result.is_some(), WRITE_RESULT),
        table: asked.table.number(),
        fin_idle_timeout_s: asked.fin_idle_timeout_s,
        fin_hard_timeout_s: asked.fin_hard_timeout_s,
        limit: asked.limit,
        result: result.flatten(),
        is_second_form: asked.limit != 0 || asked.result.is_some(),
        specs,
    })
}

fn told_part(part: &LearnPart, shape: &Shape, learned: &Shape) -> Option<LearnSpec> {
    let (destination, bits) = match &part.target {
        LearnTarget::Output => (LearnDestination::Output, None),
        LearnTarget::Match(bits) => {
            let bits = of_subfield(bits, learned)?;
            (LearnDestination::Match(bits), Some(bits))
        }
        LearnTarget::Load(bits) => {
            let bits = of_subfield(bits, learned)?;
            (LearnDestination::Load(bits), Some(bits))
        }
    };
    let source = match &part.source {
        LearnedBits::Field(bits) => LearnSource::Field(of_subfield(bits, shape)?),
        LearnedBits::Constant { value, width_bits } => {
            let bytes = 2 * usize::from(width_bits.div_ceil(16));
            LearnSource::Immediate(Value::from_number(*value, bytes))
        }
    };
    let width_bits = match (&source, bits) {
        (LearnSource::Field(bits), _) => bits.width_bits,
        (LearnSource::Immediate(_), bits) => bits?.width_bits,
    };
    Some(LearnSpec {
        source,
        destination,
        width_bits,
    })
}
