//! `learn(...)` and `fin_timeout(...)`.

use super::ActionReader;
use super::send::table_id;
use crate::action::{Action, Subfield, TableId};
use crate::flow::DEFAULT_PRIORITY;
use crate::learning::{LearnPart, LearnTarget, LearnedBits, Learning};
use crate::text::error::Parsed;
use crate::text::fields;
use crate::text::line::{Mark, Pair};
use crate::text::shape::{Needs, Shape};

impl<'a> ActionReader<'a> {
    /// Reads the action, if it belongs to this family.
    pub(super) fn learn(&mut self, word: &str, pair: Pair<'a>) -> Parsed<Option<Action>> {
        match word {
            "learn" => self.learning(pair).map(Some),
            "fin_timeout" => self.fin_timeout(pair).map(Some),
            _ => Ok(None),
        }
    }

    /// Reads `fin_timeout(idle_timeout=N,hard_timeout=N)`.
    fn fin_timeout(&self, pair: Pair<'a>) -> Parsed<Action> {
        let line = self.line;
        let (mut idle_s, mut hard_s) = (0, 0);
        let mut options = line.pairs(pair.value);
        while let Some(option) = options.next()? {
            match option.key {
                "idle_timeout" => idle_s = line.integer(option.value)?,
                "hard_timeout" => hard_s = line.integer(option.value)?,
                _ => {
                    let known = "there are idle_timeout and hard_timeout";
                    return Err(line.unknown(option.key, "option of `fin_timeout`", known));
                }
            }
        }
        match self.shape {
            Some(shape) if !shape.has(Needs::Tcp) => {
                Err(line.prerequisite(pair.key, Needs::Tcp.advice()))
            }
            _ => Ok(Action::FinTimeout { idle_s, hard_s }),
        }
    }

    /// Reads `learn(OPTION,...,PART,...)` (`ovs-actions(7)`, "The learn action").
    fn learning(&self, pair: Pair<'a>) -> Parsed<Action> {
        let line = self.line;
        let mut learning = Learning {
            table: TableId(1),
            priority: DEFAULT_PRIORITY,
            cookie: 0,
            idle_timeout_s: 0,
            hard_timeout_s: 0,
            fin_idle_timeout_s: 0,
            fin_hard_timeout_s: 0,
            reports_removal: false,
            deletes_learned: false,
            limit: 0,
            result: None,
            parts: Box::default(),
        };
        let mut parts = Vec::new();
        let mut shape = Shape::default();
        let mut options = line.pairs(pair.value);
        while let Some(option) = options.next()? {
            let value = option.value;
            match option.key {
                "table" => learning.table = table_id(line, value)?,
                "priority" => learning.priority = line.integer(value)?,
                "cookie" => learning.cookie = line.number(value, 64)? as u64,
                "idle_timeout" => learning.idle_timeout_s = line.integer(value)?,
                "hard_timeout" => learning.hard_timeout_s = line.integer(value)?,
                "fin_idle_timeout" => learning.fin_idle_timeout_s = line.integer(value)?,
                "fin_hard_timeout" => learning.fin_hard_timeout_s = line.integer(value)?,
                "send_flow_rem" => learning.reports_removal = true,
                "delete_learned" => learning.deletes_learned = true,
                "limit" => learning.limit = line.number(value, 32)? as u32,
                "result_dst" => learning.result = Some(self.result(value)?),
                _ => parts.push(self.part(option, &mut shape)?),
            }
        }
        learning.parts = parts.into();
        Ok(Action::Learn(Box::new(learning)))
    }

    /// Reads the bit of a result.
    fn result(&self, value: &'a str) -> Parsed<Subfield> {
        let (_, bits) = self.subfield(value, true)?;
        match bits.width_bits() {
            1 => Ok(bits),
            _ => Err(self.line.value(value, "one bit of a field (reg0[0])")),
        }
    }

    /// Reads a condition or an action of the learned rule, of whose packets `shape` is known.
    fn part(&self, option: Pair<'a>, shape: &mut Shape) -> Parsed<LearnPart> {
        match option.key {
            "load" => {
                let form = "load:VALUE->FIELD[FIRST..LAST], or load:FIELD[]->FIELD[]";
                let (source, target) = self.split_arrow(option.value, form)?;
                let (_, bits) = self.subfield_of(target, true, Some(*shape))?;
                let source = self.source(source, &bits)?;
                let target = LearnTarget::Load(bits);
                Ok(LearnPart { source, target })
            }
            "output" => {
                let (_, bits) = self.subfield(option.value, false)?;
                let source = LearnedBits::Field(bits);
                let target = LearnTarget::Output;
                Ok(LearnPart { source, target })
            }
            _ => self.condition(option, shape),
        }
    }

    /// Reads `FIELD`, `FIELD=FIELD` or `FIELD=VALUE`.
    fn condition(&self, option: Pair<'a>, shape: &mut Shape) -> Parsed<LearnPart> {
        let (name, bits) = self.subfield_of(option.key, false, Some(*shape))?;
        let source = match option.mark {
            Mark::None => LearnedBits::Field(self.subfield(option.key, false)?.1),
            _ if self.is_field(option.value) => self.source(option.value, &bits)?,
            _ if option.key.contains('[') => self.source(option.value, &bits)?,
            // The value is in the field's own notation.
            _ => {
                let masked = self.line.masked_value(name, option.value)?;
                let shift = name.pieces[0].name_offset;
                LearnedBits::Constant {
                    value: masked.value >> shift,
                    width_bits: bits.width_bits(),
                }
            }
        };
        if let LearnedBits::Constant { value, .. } = source
            && let [slice] = &*bits.slices
        {
            shape.learn(slice.field, value << slice.offset);
        }
        let target = LearnTarget::Match(bits);
        Ok(LearnPart { source, target })
    }

    fn is_field(&self, value: &str) -> bool {
        let word = value.split('[').next().unwrap_or_default();
        fields::find(word).is_some()
    }

    /// Reads bits of the packet or a number, as many bits as the target has.
    fn source(&self, value: &'a str, target: &Subfield) -> Parsed<LearnedBits> {
        let width_bits = target.width_bits();
        if value.starts_with(|first: char| first.is_ascii_digit()) {
            let value = self.line.number(value, width_bits)?;
            return Ok(LearnedBits::Constant { value, width_bits });
        }
        let (_, bits) = self.subfield(value, false)?;
        match bits.width_bits() == width_bits {
            true => Ok(LearnedBits::Field(bits)),
            false => {
                let expected = format!("{width_bits} bits, as many as it is for");
                Err(self.line.value(value, expected))
            }
        }
    }
}
