//! Converts the actions of entries and members between messages and [`ActionCall`].

use super::Result;
use super::matching::number;
use super::unknown;
use crate::change::ActionCall;
use crate::p4info::{Action, Catalog, Scope, Table};
use crate::problem::Problem;
use crate::proto::p4::v1 as p4;
use crate::value::Value;

/// Where an action is used.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Entry,
    Default,
}

/// Converts an action that the table may have at `place`.
pub(super) fn call_for(
    catalog: &Catalog,
    table: &Table,
    message: &p4::Action,
    place: Place,
) -> Result<ActionCall> {
    let Some(scope) = table.actions.get(&message.action_id) else {
        return Err(Problem::invalid(format!(
            "`{}` has no action {:#010x}; take one of its action_refs",
            table.name, message.action_id
        )));
    };
    match (scope, place) {
        (Scope::Entries, Place::Default) => Err(Problem::denied(format!(
            "action {:#010x} of `{}` is not for the default entry",
            message.action_id, table.name
        ))),
        (Scope::Default, Place::Entry) => Err(Problem::denied(format!(
            "action {:#010x} of `{}` is for the default entry only",
            message.action_id, table.name
        ))),
        (Scope::Group, _) => Err(Problem::unsupported(format!(
            "action {:#010x} of `{}` is for groups only, and groups have no actions here",
            message.action_id, table.name
        ))),
        _ => call_of(catalog, message),
    }
}

/// Converts an action with its arguments.
pub(super) fn call_of(catalog: &Catalog, message: &p4::Action) -> Result<ActionCall> {
    let action = catalog.actions.get(&message.action_id);
    let action = action.ok_or_else(|| unknown("action", message.action_id))?;
    arguments_of(action, &message.params)
        .map_err(|problem| problem.at(format!("action `{}`", action.name)))
}

fn arguments_of(action: &Action, params: &[p4::action::Param]) -> Result<ActionCall> {
    let mut arguments: Vec<Option<Value>> = vec![None; action.parameters.len()];
    for param in params {
        let mut known = action.parameters.iter();
        let place = known.position(|parameter| parameter.id == param.param_id);
        let Some(place) = place else {
            return Err(Problem::invalid(format!(
                "it has no parameter {}",
                param.param_id
            )));
        };
        let parameter = &action.parameters[place];
        let value = number(&param.value, parameter.width)
            .map_err(|problem| problem.at(format!("parameter `{}`", parameter.name)))?;
        if arguments[place].replace(value).is_some() {
            let name = &parameter.name;
            return Err(Problem::invalid(format!(
                "parameter `{name}` is given twice"
            )));
        }
    }
    let pairs = action.parameters.iter().zip(arguments);
    let arguments = pairs.map(|(parameter, argument)| {
        let name = &parameter.name;
        argument.ok_or_else(|| Problem::invalid(format!("parameter `{name}` is missing")))
    });
    Ok(ActionCall {
        action: action.id,
        arguments: arguments.collect::<Result<_>>()?,
    })
}

/// Converts an action to a message.
pub(super) fn message_of(catalog: &Catalog, call: &ActionCall) -> p4::Action {
    let parameters = catalog.actions.get(&call.action);
    let parameters = parameters.map_or(&[][..], |action| &action.parameters);
    let pairs = parameters.iter().zip(&call.arguments);
    p4::Action {
        action_id: call.action,
        params: pairs
            .map(|(parameter, value)| p4::action::Param {
                param_id: parameter.id,
                value: value.to_bytes(),
            })
            .collect(),
    }
}
