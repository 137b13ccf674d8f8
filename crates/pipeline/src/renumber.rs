//! Gives the ports that rules and groups name other numbers.
//!
//! A switch that starts again may have its ports under other numbers than those that its rules
//! were written with. What names no port by number, such as registers, stays as it is.
//!
//! 1. Every port that a rule or a group names by a constant gets the new number: in conditions,
//!    outputs, queues, resubmits, bundles, writes, what `learn` teaches, and what buckets watch.

use thalweg_packet::{FieldId, PortId, standard as f};

use crate::action::{Action, Actions, Output, Subfield, Write};
use crate::flow::{Flow, Group};
use crate::learning::{LearnPart, LearnTarget, LearnedBits, Learning};
use crate::links::MemberChoice;
use crate::matching::Match;

/// Finds the new number of a port; `None` if the port is gone.
pub type PortRenumbering<'a> = &'a dyn Fn(PortId) -> Option<PortId>;

impl Flow {
    /// The same rule with other numbers of ports; `None` if one of its ports is gone.
    pub fn renumbered(&self, ports: PortRenumbering<'_>) -> Option<Flow> {
        Some(Flow {
            matching: matching(&self.matching, ports)?,
            actions: actions(&self.actions, ports)?,
            ..self.clone()
        })
    }
}

impl Group {
    /// The same group with other numbers of ports; `None` if one of its ports is gone.
    pub fn renumbered(&self, ports: PortRenumbering<'_>) -> Option<Group> {
        let mut group = self.clone();
        for bucket in &mut group.buckets {
            bucket.actions = actions(&bucket.actions, ports)?;
            if let Some(watched) = &mut bucket.watch_port {
                *watched = ports(*watched)?;
            }
        }
        Some(group)
    }
}

fn matching(matching: &Match, ports: PortRenumbering<'_>) -> Option<Match> {
    let mut renumbered = Match::default();
    for term in matching.terms() {
        let value = match term.field {
            f::IN_PORT => number(term.value, ports)?,
            _ => term.value,
        };
        let added = renumbered.add(term.field, value, term.mask);
        added.expect("a field occurs once");
    }
    Some(renumbered)
}

/// A port that is kept in a wider number.
fn number(value: u128, ports: PortRenumbering<'_>) -> Option<u128> {
    let port = u32::try_from(value).ok()?;
    ports(PortId(port)).map(|port| port.0.into())
}

fn actions(list: &[Action], ports: PortRenumbering<'_>) -> Option<Actions> {
    list.iter().map(|action| renumber(action, ports)).collect()
}

fn renumber(action: &Action, ports: PortRenumbering<'_>) -> Option<Action> {
    Some(match action {
        Action::Output(output) => Action::Output(send(output, ports)?),
        Action::Resubmit {
            in_port: Some(port),
            table,
            with_tuple,
        } => Action::Resubmit {
            in_port: Some(ports(*port)?),
            table: *table,
            with_tuple: *with_tuple,
        },
        Action::SetField(writes) => {
            let writes = writes.iter().map(|write| rewrite(*write, ports));
            Action::SetField(writes.collect::<Option<_>>()?)
        }
        Action::Bundle(choice) => {
            let members = choice.members.iter().map(|port| ports(*port));
            Action::Bundle(Box::new(MemberChoice {
                members: members.collect::<Option<_>>()?,
                ..(**choice).clone()
            }))
        }
        Action::Learn(learning) => {
            let parts = learning.parts.iter().map(|part| teach(part, ports));
            Action::Learn(Box::new(Learning {
                parts: parts.collect::<Option<_>>()?,
                ..(**learning).clone()
            }))
        }
        Action::Clone(nested) => Action::Clone(actions(nested, ports)?),
        Action::WriteActions(nested) => Action::WriteActions(actions(nested, ports)?),
        _ => action.clone(),
    })
}

fn send(output: &Output, ports: PortRenumbering<'_>) -> Option<Output> {
    Some(match output {
        Output::Port(port) => Output::Port(ports(*port)?),
        Output::Enqueue { port, queue } => Output::Enqueue {
            port: ports(*port)?,
            queue: *queue,
        },
        Output::Truncated {
            port,
            max_len_bytes,
        } => Output::Truncated {
            port: ports(*port)?,
            max_len_bytes: *max_len_bytes,
        },
        _ => output.clone(),
    })
}

/// A write of a whole port.
fn rewrite(write: Write, ports: PortRenumbering<'_>) -> Option<Write> {
    match names_port(write.field) {
        true => Some(Write {
            value: number(write.value, ports)?,
            ..write
        }),
        false => Some(write),
    }
}

/// A part of a rule that is taught: a constant that names a port.
fn teach(part: &LearnPart, ports: PortRenumbering<'_>) -> Option<LearnPart> {
    let is_port = match &part.target {
        LearnTarget::Match(bits) | LearnTarget::Load(bits) => is_whole_port(bits),
        LearnTarget::Output => true,
    };
    let source = match &part.source {
        LearnedBits::Constant { value, width_bits } if is_port => LearnedBits::Constant {
            value: number(*value, ports)?,
            width_bits: *width_bits,
        },
        source => source.clone(),
    };
    Some(LearnPart {
        source,
        target: part.target.clone(),
    })
}

fn names_port(field: FieldId) -> bool {
    field == f::IN_PORT || field == f::ACTSET_OUTPUT
}

/// Whether bits begin where a field of a port does; those that name half of one stay.
fn is_whole_port(bits: &Subfield) -> bool {
    let lowest = bits.slices.first();
    lowest.is_some_and(|slice| names_port(slice.field) && slice.offset == 0)
}
