//! Writes of the parser's value sets, and of digest settings.

use super::matching::matches_of;
use super::rows::Undo;
use super::{Modify, Result, Store, Type, unknown};
use crate::change::{Change, Operation};
use crate::problem::{Code, Problem};
use crate::proto::p4::v1 as p4;

impl Store {
    pub(super) fn value_set(
        &mut self,
        _: Modify,
        message: &p4::ValueSetEntry,
        change: &mut Change,
    ) -> Result<()> {
        let set = self.catalog().value_sets.get(&message.value_set_id);
        let set = set.ok_or_else(|| unknown("value set", message.value_set_id))?;
        let at = |problem: Problem| problem.at(format!("value set `{}`", set.name));
        let count = message.members.len();
        if set.size > 0 && count as u64 > set.size {
            let text = format!("{count} members; it takes {}", set.size);
            return Err(at(Problem::new(Code::ResourceExhausted, text)));
        }
        let mut members = Vec::with_capacity(count);
        for member in &message.members {
            members.push(matches_of(&set.fields, &member.r#match).map_err(at)?);
        }
        let mut sorted = members.clone();
        sorted.sort();
        if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
            let text = "two members are the same; give each once";
            return Err(at(Problem::new(Code::AlreadyExists, text)));
        }
        let id = set.id;
        change.push(Operation::SetValueSet {
            set: id,
            members: members.clone(),
        });
        self.put(Undo::ValueSet(id, members));
        Ok(())
    }

    pub(super) fn digest(&mut self, kind: Type, message: &p4::DigestEntry) -> Result<()> {
        let digest = self.catalog().digests.get(&message.digest_id);
        let digest = digest.ok_or_else(|| unknown("digest", message.digest_id))?;
        let at = |problem: Problem| problem.at(format!("digest `{}`", digest.name));
        let is_there = self.rows.digests.contains_key(&digest.id);
        match (kind, is_there) {
            (Type::Insert, true) => {
                let text = "it is already sent; modify it";
                return Err(at(Problem::new(Code::AlreadyExists, text)));
            }
            (Type::Modify | Type::Delete, false) => {
                return Err(at(Problem::missing("it is not sent; insert it")));
            }
            _ => {}
        }
        digest.shape.check().map_err(at)?;
        let config = match kind {
            Type::Delete => None,
            _ => Some(message.config.unwrap_or_default()),
        };
        if let Some(config) = &config {
            let numbers = [
                config.max_timeout_ns,
                config.ack_timeout_ns,
                i64::from(config.max_list_size),
            ];
            if numbers.iter().any(|number| *number < 0) {
                return Err(at(Problem::invalid("a time-out or size is below 0")));
            }
        }
        let id = digest.id;
        self.put(Undo::Digest(id, config));
        Ok(())
    }

    /// How a digest is sent; `None` if it is disabled.
    pub(crate) fn digest_config(&self, id: u32) -> Option<&p4::digest_entry::Config> {
        self.rows.digests.get(&id)
    }
}
