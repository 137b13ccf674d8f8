//! The action that makes a rule a clause of a conjunctive match.

use crate::action::Action;
use crate::check::form;
use crate::text::error::Parsed;
use crate::text::line::{Line, Mark, Pair};

/// Reads `conjunction(ID,CLAUSE/CLAUSES)`.
pub(super) fn read(line: &Line<'_>, pair: Pair<'_>) -> Parsed<Action> {
    let parts = pair.value.split_once(',').and_then(|(id, rest)| {
        let (clause, clauses) = rest.split_once('/')?;
        Some((id.trim(), clause.trim(), clauses.trim()))
    });
    let Some((id, clause, clauses)) = parts.filter(|_| pair.mark == Mark::Parenthesis) else {
        return Err(line.syntax(pair.key, "write conjunction(ID,CLAUSE/CLAUSES)"));
    };
    let id = line.integer(id)?;
    let (clause, clauses) = (line.integer(clause)?, line.integer(clauses)?);
    match form::conjunction_fault(clause, clauses) {
        Some(fault) => Err(line.syntax(pair.value, fault)),
        None => Ok(Action::Conjunction {
            id,
            clause,
            clauses,
        }),
    }
}
