//! Paused packets: the rest of their walks, on the way to a controller and back.
//!
//! The rest of a walk becomes actions of OpenFlow. Instructions become the actions that do the
//! same, as in Open vSwitch; `write_actions` and `clear_actions` have places of their own.
//!
//! 1. A continuation from a controller is checked like a packet-out: it may have been changed.
//! 2. A continuation that is converted and read back means the same.

use std::time::SystemTime;

use bytes::Bytes;
use thalweg_openflow::message::continuation as of;
use thalweg_openflow::{ErrorCode, Refusal, refuse};
use thalweg_packet::FieldId;
use thalweg_pipeline::{Action, Actions, Author, Continuation, FrozenList, Lifted, TableId};

use super::convert;

#[cfg(test)]
mod tests;

/// Tables end here (`OFPTT_MAX`).
const MAX_TABLE: u8 = 254;

/// What tells apart the switches, and the runs of one, that pause packets.
pub(super) type RunId = [u8; 16];

/// The number of this run of a switch.
pub(super) fn run_id(datapath_id: u64) -> RunId {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let started_ns = since.map_or(0, |since| since.as_nanos() as u64);
    let mut id = [0; 16];
    id[..8].copy_from_slice(&datapath_id.to_be_bytes());
    id[8..].copy_from_slice(&started_ns.to_be_bytes());
    id
}

/// What lets a packet go on, as controllers get it.
pub(super) fn tell(continuation: &Continuation, run: RunId) -> of::PacketContinuation {
    let stack = continuation.stack.iter().rev();
    let mut lists: Vec<_> = continuation.lists.iter().map(tell_list).collect();
    if let Some((table, author)) = continuation.end
        && (table, author) != usual_end(&continuation.lists)
    {
        lists.push(tell_list(&FrozenList {
            actions: Actions::default(),
            table,
            author,
        }));
    }
    of::PacketContinuation {
        bridge: run,
        stack: stack.map(|saved| Bytes::from(saved.to_bytes())).collect(),
        lists,
        action_set: convert::reading::of_frozen(&continuation.action_set),
        ends_without_set: continuation.end.is_none(),
    }
}

/// Where the action set is executed if no empty list at the end says otherwise.
fn usual_end(lists: &[FrozenList]) -> (TableId, Author) {
    let last = lists.last();
    (TableId(0), last.map_or(Author::None, |list| list.author))
}

fn tell_list(list: &FrozenList) -> of::ContinuationList {
    let is_for_set =
        |action: &Action| matches!(action, Action::ClearActions | Action::WriteActions(_));
    let first = list.actions.iter().position(is_for_set);
    let (before, after) = list.actions.split_at(first.unwrap_or(list.actions.len()));
    let count = after.iter().take_while(|action| is_for_set(action)).count();
    let (for_set, then) = after.split_at(count);
    let written = for_set.iter().find_map(|action| match action {
        Action::WriteActions(set) => Some(convert::reading::of_frozen(set)),
        _ => None,
    });
    of::ContinuationList {
        table: list.table.number(),
        cookie: match list.author {
            Author::Cookie(cookie) => cookie,
            Author::None | Author::Rule(_) => u64::MAX,
        },
        actions: convert::reading::of_frozen(before),
        clear: for_set.contains(&Action::ClearActions),
        write: written,
        then: convert::reading::of_frozen(then),
        ends_with_goto: matches!(list.actions.last(), Some(Action::Goto(_))),
    }
}

/// What a controller sends back.
///
/// # Errors
/// If this switch has not paused the packet in this run, or something in it is wrong.
pub(super) fn read(told: &of::PacketContinuation, run: RunId) -> Result<Continuation, Refusal> {
    if told.bridge != run {
        let what = "this switch, since it started, has not paused the packet";
        return Err(refuse(ErrorCode::NXR_STALE, what));
    }
    let lists = told.lists.iter().map(read_list);
    let mut lists = lists.collect::<Result<Vec<FrozenList>, _>>()?;
    let end = match lists.pop_if(|list| list.actions.is_empty()) {
        Some(list) => (list.table, list.author),
        None => usual_end(&lists),
    };
    let stack = told.stack.iter().rev();
    Ok(Continuation {
        lists: lists.into(),
        end: (!told.ends_without_set).then_some(end),
        action_set: action_set(&told.action_set)?,
        stack: stack.map(|saved| Lifted::from_bytes(saved)).collect(),
        ..Continuation::default()
    })
}

fn read_list(told: &of::ContinuationList) -> Result<FrozenList, Refusal> {
    if told.table > MAX_TABLE {
        let what = format!("no rule of table {} paused a packet", told.table);
        return Err(refuse(ErrorCode::OFPBPC_BAD_VALUE, what));
    }
    let mut actions = convert::actions::of_list(&told.actions)?;
    if told.clear {
        actions.push(Action::ClearActions);
    }
    if let Some(write) = &told.write {
        actions.push(Action::WriteActions(action_set(write)?));
    }
    actions.extend(convert::actions::of_list(&told.then)?);
    if told.ends_with_goto {
        let Some(Action::Resubmit {
            in_port: None,
            table: Some(table),
            ..
        }) = actions.pop()
        else {
            let what = "a list ends with a goto that it does not have";
            return Err(refuse(ErrorCode::OFPBPC_BAD_VALUE, what));
        };
        actions.push(Action::Goto(table));
    }
    Ok(FrozenList {
        actions: actions.into(),
        table: TableId(told.table.into()),
        author: match told.cookie {
            u64::MAX => Author::None,
            cookie => Author::Cookie(cookie),
        },
    })
}

/// All actions of a continuation in one list, without the instructions that hold some.
pub(super) fn all_actions(continuation: &Continuation) -> Actions {
    let lists = continuation.lists.iter();
    let actions = lists.flat_map(|list| list.actions.iter());
    let mut all = Vec::new();
    for action in actions.chain(continuation.action_set.iter()) {
        match action {
            Action::WriteActions(set) => all.extend(set.iter().cloned()),
            Action::ClearActions | Action::Goto(_) => {}
            action => all.push(action.clone()),
        }
    }
    all.into()
}

fn action_set(told: &[thalweg_openflow::action::Action]) -> Result<Actions, Refusal> {
    Ok(convert::actions::of_list(told)?.into())
}

/// Checks that fields are beside the packet's bytes, where a controller may write them.
///
/// # Errors
/// If one is in the packet.
pub(super) fn check_fields(fields: &[(FieldId, u128)]) -> Result<(), Refusal> {
    use thalweg_packet::{Source, standard as f};
    let is_beside = |field: FieldId| match f::fields()[field.index()].source {
        Source::Register => !matches!(field, f::CONJ_ID | f::ACTSET_OUTPUT),
        Source::Intrinsic(_) => !matches!(field, f::RECIRC_ID | f::DP_HASH),
        _ => false,
    };
    match fields.iter().find(|(field, _)| !is_beside(*field)) {
        None => Ok(()),
        Some((field, _)) => {
            let name = &f::fields()[field.index()].name;
            let what = format!("{name} is in the packet, not beside it");
            Err(refuse(ErrorCode::OFPBRC_PIPELINE_FIELDS_ONLY, what))
        }
    }
}
