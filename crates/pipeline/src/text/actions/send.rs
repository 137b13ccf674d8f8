//! Actions that send a packet: to ports, groups, tables, the controller.

use super::ActionReader;
use thalweg_packet::PortId;

use crate::action::{Action, GroupId, Output, TableId};
use crate::check::form::{MAX_GROUP, MAX_TABLE, MIN_CUT_BYTES};
use crate::effect::PacketInReason;
use crate::meters::{MAX_METER, MeterId};
use crate::text::error::Parsed;
use crate::text::line::{Line, Mark, Pair};
use crate::text::value::{LOCAL_PORT, NO_PORT, PortWord};

/// Length that means the whole packet, for the controller (OpenFlow `OFPCML_NO_BUFFER`).
const WHOLE_PACKET: u16 = u16::MAX;

impl<'a> ActionReader<'a> {
    /// Reads the action, if it belongs to this family.
    pub(super) fn send(&mut self, word: &str, pair: Pair<'a>) -> Parsed<Option<Action>> {
        let line = self.line;
        let action = match word {
            "output" => self.output(pair)?,
            "controller" => controller(line, pair)?,
            "group" => Action::Group(group_id(line, pair.value)?),
            "goto_table" => Action::Goto(table_id(line, pair.value)?),
            "resubmit" => resubmit(line, pair)?,
            "exit" => Action::Exit,
            "note" => Action::Note(line.hex_bytes(pair.value)?),
            "enqueue" => enqueue(line, pair)?,
            "set_queue" => Action::SetQueue(line.integer(pair.value)?),
            "pop_queue" => Action::PopQueue,
            "debug_recirc" => Action::DebugRecirculation,
            "meter" => Action::Meter(meter_id(line, pair.value)?),
            "debug_slow" => Action::DebugSlow,
            "clear_actions" => Action::ClearActions,
            _ => return Ok(None),
        };
        Ok(Some(action))
    }

    fn output(&self, pair: Pair<'a>) -> Parsed<Action> {
        let line = self.line;
        if pair.mark == Mark::Parenthesis {
            return truncated(line, pair);
        }
        // `output:CONTROLLER:64` is the controller with its argument.
        let (target, argument) = pair.value.split_once(':').unwrap_or((pair.value, ""));
        if !argument.is_empty() && target.eq_ignore_ascii_case("controller") {
            let pair = Pair {
                key: target,
                value: argument,
                mark: Mark::Colon,
            };
            return controller(line, pair);
        }
        if let Some(port) = line.port_word(pair.value)? {
            return output(line, pair.value, port).map(Action::Output);
        }
        if pair.value.contains('[') || crate::text::fields::find(pair.value).is_some() {
            let (_, source) = self.subfield(pair.value, false)?;
            return Ok(Action::Output(Output::Field(source)));
        }
        Err(line.unknown_port(pair.value, "port"))
    }
}

/// The output for a port word.
pub(in crate::text) fn output(line: &Line<'_>, part: &str, port: PortWord) -> Parsed<Output> {
    match port {
        PortWord::Number(port) => Ok(Output::Port(port)),
        PortWord::InPort => Ok(Output::InPort),
        PortWord::Normal => Ok(Output::Normal),
        PortWord::Flood => Ok(Output::Flood),
        PortWord::All => Ok(Output::All),
        PortWord::Local => Ok(Output::Local),
        PortWord::Controller => Ok(Output::to_controller(WHOLE_PACKET)),
        PortWord::Table => Ok(Output::Table),
        PortWord::None => Err(line.value(part, "a port that packets can be sent to")),
    }
}

/// Reads `output(port=PORT,max_len=BYTES)`.
fn truncated(line: &Line<'_>, pair: Pair<'_>) -> Parsed<Action> {
    let (mut port, mut len) = (None, None);
    let mut options = line.pairs(pair.value);
    while let Some(option) = options.next()? {
        match option.key {
            "port" => port = Some(single_port(line, option.value)?),
            "max_len" => match line.integer(option.value)? {
                bytes if bytes >= MIN_CUT_BYTES => len = Some(bytes),
                _ => return Err(line.value(option.value, "a length of at least 14 bytes")),
            },
            _ => {
                return Err(line.unknown(
                    option.key,
                    "option of `output`",
                    "there are port and max_len",
                ));
            }
        }
    }
    match (port, len) {
        (Some(port), Some(max_len_bytes)) => Ok(Action::Output(Output::Truncated {
            port,
            max_len_bytes,
        })),
        _ => Err(line.syntax(pair.key, "write output(port=PORT,max_len=BYTES)")),
    }
}

/// Reads `enqueue:PORT:QUEUE`, also written `enqueue(PORT,QUEUE)` and `enqueue:PORTqQUEUE`.
fn enqueue(line: &Line<'_>, pair: Pair<'_>) -> Parsed<Action> {
    let digits = pair.value.bytes().take_while(u8::is_ascii_digit).count();
    let is_separator = |(place, byte): &(usize, u8)| {
        matches!(byte, b':' | b',') || *byte == b'q' && *place == digits && digits > 0
    };
    let Some((place, _)) = pair.value.bytes().enumerate().find(is_separator) else {
        return Err(line.syntax(pair.key, "write enqueue:PORT:QUEUE"));
    };
    let (port, queue) = (pair.value[..place].trim(), pair.value[place + 1..].trim());
    Ok(Action::Output(Output::Enqueue {
        port: single_port(line, port)?,
        queue: line.integer(queue)?,
    }))
}

/// Reads a port that is one port: a number or a name, `LOCAL` or `IN_PORT`.
fn single_port(line: &Line<'_>, part: &str) -> Parsed<PortId> {
    match line.port_word(part)? {
        Some(PortWord::Number(port)) => Ok(port),
        Some(PortWord::Local) => Ok(LOCAL_PORT),
        Some(PortWord::InPort) => Ok(Output::IN_PORT),
        Some(_) => Err(line.value(part, "a port's number or name, LOCAL or IN_PORT")),
        None => Err(line.unknown_port(part, "port")),
    }
}

fn controller(line: &Line<'_>, pair: Pair<'_>) -> Parsed<Action> {
    let mut max_len_bytes = WHOLE_PACKET;
    let mut userdata = Box::default();
    let mut controller_id = 0;
    let mut reason = PacketInReason::Action;
    let mut pause = false;
    let mut meter = None;
    let is_number = pair.value.bytes().all(|byte| byte.is_ascii_digit());
    if is_number && !pair.value.is_empty() {
        max_len_bytes = line.integer(pair.value)?;
    } else {
        let mut options = line.pairs(pair.value);
        while let Some(option) = options.next()? {
            match option.key {
                "max_len" => max_len_bytes = line.integer(option.value)?,
                "userdata" => userdata = line.hex_bytes(option.value)?,
                "reason" => reason = packet_in_reason(line, option.value)?,
                "id" => controller_id = line.integer(option.value)?,
                "pause" => pause = true,
                // 0 stands for none, as in Open vSwitch.
                "meter_id" => meter = Some(line.integer(option.value)?).filter(|id| *id != 0),
                _ => return Err(line.unknown(option.key, "option of `controller`", OPTIONS)),
            }
        }
    }
    Ok(Action::Output(Output::Controller {
        max_len_bytes,
        controller_id,
        reason,
        userdata,
        pause,
        meter,
    }))
}

fn packet_in_reason(line: &Line<'_>, word: &str) -> Parsed<PacketInReason> {
    match word {
        "no_match" => Ok(PacketInReason::NoMatch),
        "action" => Ok(PacketInReason::Action),
        "invalid_ttl" => Ok(PacketInReason::InvalidTtl),
        "action_set" => Ok(PacketInReason::ActionSet),
        "group" => Ok(PacketInReason::Group),
        "packet_out" => Ok(PacketInReason::PacketOut),
        _ => {
            let what = "action, no_match, invalid_ttl, action_set, group or packet_out";
            Err(line.value(word, what))
        }
    }
}

const OPTIONS: &str = "there are max_len, id, reason, userdata, pause and meter_id";

fn resubmit(line: &Line<'_>, pair: Pair<'_>) -> Parsed<Action> {
    let mut parts = pair.value.split(',').map(str::trim);
    let port = parts.next().unwrap_or_default();
    let in_port = match line.port_word(port) {
        _ if port.is_empty() => None,
        Err(error) => return Err(error),
        Ok(Some(PortWord::InPort)) => None,
        Ok(Some(PortWord::Number(port))) => Some(port),
        Ok(Some(PortWord::Local)) => Some(LOCAL_PORT),
        Ok(Some(PortWord::None)) => Some(NO_PORT),
        Ok(Some(_)) => return Err(line.value(port, "a port that packets come from")),
        Ok(None) => return Err(line.unknown_port(port, "port")),
    };
    let table = match parts.next() {
        None | Some("") | Some("255") => None,
        Some(table) => Some(table_id(line, table)?),
    };
    const FORM: &str = "write resubmit(PORT,TABLE) or resubmit(PORT,TABLE,ct)";
    let with_tuple = match parts.next() {
        None | Some("") => false,
        Some("ct") => true,
        Some(other) => return Err(line.syntax(other, FORM)),
    };
    if let Some(other) = parts.next() {
        return Err(line.syntax(other, FORM));
    }
    if in_port.is_none() && table.is_none() {
        let what = "this would look up the same rule again; name a port or a table";
        return Err(line.syntax(pair.key, what));
    }
    Ok(Action::Resubmit {
        in_port,
        table,
        with_tuple,
    })
}

/// Reads a table's number.
pub(in crate::text) fn table_id(line: &Line<'_>, part: &str) -> Parsed<TableId> {
    match line.integer::<u8>(part) {
        Ok(table) if table <= MAX_TABLE => Ok(TableId(table.into())),
        _ => Err(line.value(part, "a table (0 to 254)")),
    }
}

/// Reads a group's number.
pub(in crate::text) fn group_id(line: &Line<'_>, part: &str) -> Parsed<GroupId> {
    match line.integer::<u32>(part)? {
        group if group <= MAX_GROUP => Ok(GroupId(group.into())),
        _ => Err(line.value(part, "a group (0 to 4294967040)")),
    }
}

/// Reads the number of a meter that a rule can name.
fn meter_id(line: &Line<'_>, part: &str) -> Parsed<MeterId> {
    match line.integer::<u32>(part)? {
        meter @ 1..=MAX_METER => Ok(MeterId(meter.into())),
        _ => Err(line.value(part, "a meter (1 to 4294901760)")),
    }
}
