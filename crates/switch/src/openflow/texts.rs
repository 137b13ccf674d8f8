//! OpenFlow messages as texts, for logs, as Open vSwitch prints them.
//!
//! ```text
//!   OFPT_FLOW_MOD (OF1.4) (xid=0x3): ADD table:1 dl_vlan=1 idle:50 actions=drop
//! ```
//!
//! Changes and dumps of flow entries, bundles, hellos and errors are printed whole. Of other
//! messages the text has the name, the transaction and the length.
//!
//! Reference: `lib/ofp-print.c`, `lib/ofp-flow.c` and `lib/ofp-bundle.c` of Open vSwitch.

use std::fmt::Write;

use thalweg_openflow::message::bundle::{BundleControl, BundleControlType};
use thalweg_openflow::message::connection::{AsyncForm, Hello};
use thalweg_openflow::message::flow::{
    FlowCommand, FlowFlags, FlowMod, FlowStats, FlowStatsRequest,
};
use thalweg_openflow::message::packet::PacketInFormat;
use thalweg_openflow::message::port::PortNumber;
use thalweg_openflow::message::{Message, Reply, Request};
use thalweg_openflow::{Context, ErrorMessage, Version, decode};
use thalweg_pipeline::Match;
use thalweg_pipeline::text::{PortSpelling, print_actions, print_match};

use super::convert;

/// The priority that is not told.
const USUAL_PRIORITY: u16 = 0x8000;
/// The kind of the messages of experimenters (`OFPT_EXPERIMENTER`).
const EXPERIMENTER: u8 = 4;
/// How deep messages within messages are printed: a bundle's message, or what an error is about.
const DEPTH_MAX: u32 = 2;

/// The text of a message, given its bytes; several lines where it has several parts.
///
/// ```
/// use thalweg_openflow::message::Message;
/// use thalweg_openflow::{Version, encode};
/// use thalweg_switch::openflow_text;
///
/// let bytes = encode(Version::V14, 3, &Message::BarrierRequest).expect("1.4 has barriers");
/// assert_eq!(openflow_text(&bytes), "OFPT_BARRIER_REQUEST (OF1.4) (xid=0x3):");
/// ```
pub fn openflow_text(message: &[u8]) -> String {
    text_within(message, 0)
}

fn text_within(message: &[u8], depth: u32) -> String {
    let frame = match decode(message, Context::default()) {
        Ok(frame) => frame,
        Err(refusal) => return format!("{} bytes that make no message: {refusal}", message.len()),
    };
    let mut text = name(&frame.message).to_owned();
    if message.get(1) == Some(&EXPERIMENTER) && text.starts_with("OFPT_") {
        // What OpenFlow 1.4 has taken over from an extension for 1.3.
        text.replace_range(.."OFPT_".len(), "ONFT_");
    }
    match frame.version {
        Version::V10 => {}
        version => {
            let _ = write!(text, " (OF1.{})", version.number() - 1);
        }
    }
    // Writing to a string does not fail, here and below.
    let _ = write!(text, " (xid=0x{:x}):", frame.xid);
    text + &body(&frame.message, frame.version, (message.len(), depth))
}

/// What follows the header; `length` is the message's, in bytes.
fn body(message: &Message, version: Version, (length, depth): (usize, u32)) -> String {
    match message {
        Message::Hello(hello) => hello_text(hello),
        Message::Error(error) => error_text(error, version, depth),
        Message::FlowMod(flow) => flow_mod(flow, version),
        Message::BundleControl(control) => bundle_control(control),
        Message::BundleAdd(add) => {
            let (bundle, flags) = (number(add.bundle), flags(add.flags));
            let head = format!("\n bundle_id={bundle} flags={flags}\n");
            match depth < DEPTH_MAX {
                true => head + &text_within(&add.message, depth + 1),
                false => head,
            }
        }
        Message::SetFlowFormat(format) => match format {
            0 => " format=openflow10".to_owned(),
            2 => " format=nxm".to_owned(),
            other => format!(" format={other}"),
        },
        Message::Request(Request::Flow(request) | Request::Aggregate(request), _) => {
            flow_request(request)
        }
        Message::Reply(Reply::Flow(_, flows), _) => flows.iter().map(flow_stats).collect(),
        Message::BarrierRequest
        | Message::BarrierReply
        | Message::FeaturesRequest
        | Message::GetConfigRequest => String::new(),
        _ => format!(" {length} bytes"),
    }
}

fn hello_text(hello: &Hello) -> String {
    let versions = hello.versions.iter();
    let numbers: Vec<String> = versions
        .map(|version| format!("0x{:02x}", version.number()))
        .collect();
    format!("\n version bitmap: {}", numbers.join(", "))
}

fn error_text(error: &ErrorMessage, version: Version, depth: u32) -> String {
    let code = match error.code(version) {
        Some(code) => code.to_string(),
        None => format!("type {}, code {}", error.number.kind, error.number.code),
    };
    match depth < DEPTH_MAX {
        true => format!(" {code}\n{}", text_within(&error.data, depth + 1)),
        false => format!(" {code}"),
    }
}

fn flow_mod(flow: &FlowMod, version: Version) -> String {
    let command = match flow.command {
        FlowCommand::Add => "ADD",
        FlowCommand::Modify => "MOD",
        FlowCommand::ModifyStrict => "MOD_STRICT",
        FlowCommand::Delete => "DEL",
        FlowCommand::DeleteStrict => "DEL_STRICT",
    };
    let mut text = format!(" {command} ");
    // OpenFlow 1.0 names no table.
    if flow.table != 0 && version != Version::V10 {
        let _ = write!(text, "table:{} ", flow.table);
    }
    let (matching, conditions) = conditions(&flow.matching, flow.priority);
    text += &conditions;
    let numbers = [
        ("idle", flow.idle_timeout_s),
        ("hard", flow.hard_timeout_s),
        ("importance", flow.importance),
    ];
    if !matches!(flow.new_cookie, 0 | u64::MAX) {
        let _ = write!(text, "cookie:{:#x} ", flow.new_cookie);
    }
    if flow.cookie_mask != 0 {
        let _ = write!(text, "cookie:{:#x}/{:#x} ", flow.cookie, flow.cookie_mask);
    }
    for (name, number) in numbers.into_iter().filter(|(_, number)| *number != 0) {
        let _ = write!(text, "{name}:{number} ");
    }
    if let Some(buffer) = flow.buffer {
        let _ = write!(text, "buf:{buffer:#x} ");
    }
    if flow.out_port != PortNumber::ANY {
        let _ = write!(text, "out_port:{} ", flow.out_port);
    }
    let unknown = match version {
        Version::V10 | Version::V11 => FlowFlags::RESET_COUNTS,
        _ => 0,
    };
    text += &flow_flags(FlowFlags(flow.flags.0 & !unknown));
    text + &actions(&flow.instructions, &matching)
}

fn flow_request(request: &FlowStatsRequest) -> String {
    let mut text = String::from(" ");
    if request.table != thalweg_openflow::message::flow::ALL_TABLES {
        let _ = write!(text, "table={} ", request.table);
    }
    if request.out_port != PortNumber::ANY {
        let _ = write!(text, "out_port={} ", request.out_port);
    }
    text + &conditions(&request.matching, USUAL_PRIORITY).1
}

fn flow_stats(flow: &FlowStats) -> String {
    let mut text = format!("\n cookie={:#x}, duration=", flow.cookie);
    let (seconds, rest) = (flow.duration.seconds, flow.duration.nanoseconds / 1_000_000);
    let _ = write!(text, "{seconds}.{rest:03}s, table={}, ", flow.table);
    let (packets, bytes) = (flow.counts.packets, flow.counts.bytes);
    let _ = write!(text, "n_packets={packets}, n_bytes={bytes}, ");
    let numbers = [
        ("idle_timeout", flow.idle_timeout_s),
        ("hard_timeout", flow.hard_timeout_s),
    ];
    for (name, number) in numbers.into_iter().filter(|(_, number)| *number != 0) {
        let _ = write!(text, "{name}={number}, ");
    }
    text += &flow_flags(flow.flags);
    if flow.importance != 0 {
        let _ = write!(text, "importance={}, ", flow.importance);
    }
    for (name, age) in [("idle_age", flow.idle_age_s), ("hard_age", flow.hard_age_s)] {
        if let Some(age) = age.filter(|age| name == "idle_age" || u32::from(*age) != seconds) {
            let _ = write!(text, "{name}={age}, ");
        }
    }
    let (matching, conditions) = conditions(&flow.matching, flow.priority);
    text += &conditions;
    text + &actions(&flow.instructions, &matching)
}

/// Conditions with their priority and a space behind them, if there is anything.
fn conditions(asked: &thalweg_openflow::Match, priority: u16) -> (Match, String) {
    let (matching, mut text) = match convert::matching::matching(asked) {
        Ok(matching) => {
            let text = print_match(&matching, PortSpelling::default());
            (matching, text)
        }
        Err(refusal) => (Match::default(), format!("({refusal})")),
    };
    if priority != USUAL_PRIORITY {
        let comma = if text.is_empty() { "" } else { "," };
        text = format!("priority={priority}{comma}{text}");
    }
    if !text.is_empty() {
        text.push(' ');
    }
    (matching, text)
}

fn actions(asked: &thalweg_openflow::action::Instructions, matching: &Match) -> String {
    match convert::actions::of_instructions(asked, matching) {
        Ok(actions) => {
            let ports = PortSpelling::default();
            format!("actions={}", print_actions(&actions, matching, ports))
        }
        Err(refusal) => format!("actions=({refusal})"),
    }
}

fn flow_flags(flags: FlowFlags) -> String {
    let names = [
        (FlowFlags::SEND_REMOVED, "send_flow_rem "),
        (FlowFlags::CHECK_OVERLAP, "check_overlap "),
        (FlowFlags::RESET_COUNTS, "reset_counts "),
        (FlowFlags::NO_PACKET_COUNTS, "no_packet_counts "),
        (FlowFlags::NO_BYTE_COUNTS, "no_byte_counts "),
    ];
    let set = names.into_iter().filter(|(bit, _)| flags.has(*bit));
    set.map(|(_, name)| name).collect()
}

fn bundle_control(control: &BundleControl) -> String {
    let kind = match control.kind {
        BundleControlType::OpenRequest => "OPEN_REQUEST",
        BundleControlType::OpenReply => "OPEN_REPLY",
        BundleControlType::CloseRequest => "CLOSE_REQUEST",
        BundleControlType::CloseReply => "CLOSE_REPLY",
        BundleControlType::CommitRequest => "COMMIT_REQUEST",
        BundleControlType::CommitReply => "COMMIT_REPLY",
        BundleControlType::DiscardRequest => "DISCARD_REQUEST",
        BundleControlType::DiscardReply => "DISCARD_REPLY",
    };
    let (bundle, flags) = (number(control.bundle), flags(control.flags));
    format!("\n bundle_id={bundle} type={kind} flags={flags}")
}

/// A hexadecimal number; zero has no prefix.
fn number(number: u32) -> String {
    match number {
        0 => "0".to_owned(),
        _ => format!("{number:#x}"),
    }
}

/// The flags of a bundle.
fn flags(bits: u16) -> String {
    use thalweg_openflow::message::bundle::{ATOMIC, ORDERED};
    let names = [(ATOMIC, "atomic"), (ORDERED, "ordered")];
    let set = names.into_iter().filter(|(bit, _)| bits & bit != 0);
    let set: Vec<&str> = set.map(|(_, name)| name).collect();
    match set.is_empty() {
        true => "0".to_owned(),
        false => set.join(" "),
    }
}

/// The name of a message's kind; one match, an arm for each.
fn name(message: &Message) -> &'static str {
    match message {
        Message::Hello(_) => "OFPT_HELLO",
        Message::Error(_) => "OFPT_ERROR",
        Message::EchoRequest(_) => "OFPT_ECHO_REQUEST",
        Message::EchoReply(_) => "OFPT_ECHO_REPLY",
        Message::FeaturesRequest => "OFPT_FEATURES_REQUEST",
        Message::FeaturesReply(_) => "OFPT_FEATURES_REPLY",
        Message::GetConfigRequest => "OFPT_GET_CONFIG_REQUEST",
        Message::GetConfigReply(_) => "OFPT_GET_CONFIG_REPLY",
        Message::SetConfig(_) => "OFPT_SET_CONFIG",
        Message::PacketIn(packet) => match packet.format {
            PacketInFormat::Standard => "OFPT_PACKET_IN",
            PacketInFormat::Nicira => "NXT_PACKET_IN",
            PacketInFormat::Nicira2 => "NXT_PACKET_IN2",
        },
        Message::FlowRemoved(flow) if flow.is_nicira => "NXT_FLOW_REMOVED",
        Message::FlowRemoved(_) => "OFPT_FLOW_REMOVED",
        Message::PortStatus(_) => "OFPT_PORT_STATUS",
        Message::TableStatus(_) => "OFPT_TABLE_STATUS",
        Message::PacketOut(_) => "OFPT_PACKET_OUT",
        Message::FlowMod(flow) if flow.is_nicira => "NXT_FLOW_MOD",
        Message::FlowMod(_) => "OFPT_FLOW_MOD",
        Message::GroupMod(_) => "OFPT_GROUP_MOD",
        Message::PortMod(_) => "OFPT_PORT_MOD",
        Message::TableMod(_) => "OFPT_TABLE_MOD",
        Message::MeterMod(_) => "OFPT_METER_MOD",
        Message::BarrierRequest => "OFPT_BARRIER_REQUEST",
        Message::BarrierReply => "OFPT_BARRIER_REPLY",
        Message::QueueConfigRequest(_) => "OFPT_QUEUE_GET_CONFIG_REQUEST",
        Message::QueueConfigReply(..) => "OFPT_QUEUE_GET_CONFIG_REPLY",
        Message::RoleRequest(role) if role.is_nicira => "NXT_ROLE_REQUEST",
        Message::RoleRequest(_) => "OFPT_ROLE_REQUEST",
        Message::RoleReply(role) if role.is_nicira => "NXT_ROLE_REPLY",
        Message::RoleReply(_) => "OFPT_ROLE_REPLY",
        Message::RoleStatus(_) => "OFPT_ROLE_STATUS",
        Message::GetAsyncRequest => "OFPT_GET_ASYNC_REQUEST",
        Message::GetAsyncReply(_) => "OFPT_GET_ASYNC_REPLY",
        Message::SetAsync(AsyncForm::Standard, _) => "OFPT_SET_ASYNC",
        Message::SetAsync(AsyncForm::Nicira, _) => "NXT_SET_ASYNC_CONFIG",
        Message::SetAsync(AsyncForm::Nicira2, _) => "NXT_SET_ASYNC_CONFIG2",
        Message::RequestForward(_) => "OFPT_REQUESTFORWARD",
        Message::BundleControl(_) => "OFPT_BUNDLE_CONTROL",
        Message::BundleAdd(_) => "OFPT_BUNDLE_ADD_MESSAGE",
        Message::FlowModTableId(_) => "NXT_FLOW_MOD_TABLE_ID",
        Message::SetFlowFormat(_) => "NXT_SET_FLOW_FORMAT",
        Message::SetPacketInFormat(_) => "NXT_SET_PACKET_IN_FORMAT",
        Message::FlowAge => "NXT_FLOW_AGE",
        Message::SetControllerId(_) => "NXT_SET_CONTROLLER_ID",
        Message::MonitorCancel(_) => "NXT_FLOW_MONITOR_CANCEL",
        Message::MonitorPaused => "NXT_FLOW_MONITOR_PAUSED",
        Message::MonitorResumed => "NXT_FLOW_MONITOR_RESUMED",
        Message::TlvTableMod(_) => "NXT_TLV_TABLE_MOD",
        Message::TlvTableRequest => "NXT_TLV_TABLE_REQUEST",
        Message::TlvTableReply(_) => "NXT_TLV_TABLE_REPLY",
        Message::Resume(_) => "NXT_RESUME",
        Message::CtFlushZone(_) => "NXT_CT_FLUSH_ZONE",
        Message::CtFlush(_) => "NXT_CT_FLUSH",
        Message::Request(request, _) => request_name(request),
        Message::Reply(reply, _) => reply_name(reply),
    }
}

/// The name of a request for statistics or descriptions; one match, an arm for each.
fn request_name(request: &Request) -> &'static str {
    match request {
        Request::Description => "OFPST_DESC request",
        Request::Flow(flow) if flow.is_nicira => "NXST_FLOW request",
        Request::Flow(_) => "OFPST_FLOW request",
        Request::Aggregate(flow) if flow.is_nicira => "NXST_AGGREGATE request",
        Request::Aggregate(_) => "OFPST_AGGREGATE request",
        Request::Table => "OFPST_TABLE request",
        Request::Port(_) => "OFPST_PORT request",
        Request::Queue(_) => "OFPST_QUEUE request",
        Request::Group(_) => "OFPST_GROUP request",
        Request::GroupDesc(_) => "OFPST_GROUP_DESC request",
        Request::GroupFeatures => "OFPST_GROUP_FEATURES request",
        Request::Meter(_) => "OFPST_METER request",
        Request::MeterConfig(_) => "OFPST_METER_CONFIG request",
        Request::MeterFeatures => "OFPST_METER_FEATURES request",
        Request::TableFeatures(_) => "OFPST_TABLE_FEATURES request",
        Request::TableDesc => "OFPST_TABLE_DESC request",
        Request::PortDesc(_) => "OFPST_PORT_DESC request",
        Request::QueueDesc(_) => "OFPST_QUEUE_DESC request",
        Request::Monitor(_) => "NXST_FLOW_MONITOR request",
        Request::IpfixBridge => "NXST_IPFIX_BRIDGE request",
        Request::IpfixFlow => "NXST_IPFIX_FLOW request",
    }
}

/// The name of a reply; one match, an arm for each.
fn reply_name(reply: &Reply) -> &'static str {
    match reply {
        Reply::Description(_) => "OFPST_DESC reply",
        Reply::Flow(true, _) => "NXST_FLOW reply",
        Reply::Flow(false, _) => "OFPST_FLOW reply",
        Reply::Aggregate(true, _) => "NXST_AGGREGATE reply",
        Reply::Aggregate(false, _) => "OFPST_AGGREGATE reply",
        Reply::Table(_) => "OFPST_TABLE reply",
        Reply::Port(_) => "OFPST_PORT reply",
        Reply::Queue(_) => "OFPST_QUEUE reply",
        Reply::Group(_) => "OFPST_GROUP reply",
        Reply::GroupDesc(_) => "OFPST_GROUP_DESC reply",
        Reply::GroupFeatures(_) => "OFPST_GROUP_FEATURES reply",
        Reply::Meter(_) => "OFPST_METER reply",
        Reply::MeterConfig(_) => "OFPST_METER_CONFIG reply",
        Reply::MeterFeatures(_) => "OFPST_METER_FEATURES reply",
        Reply::TableFeatures(_) => "OFPST_TABLE_FEATURES reply",
        Reply::TableDesc(_) => "OFPST_TABLE_DESC reply",
        Reply::PortDesc(_) => "OFPST_PORT_DESC reply",
        Reply::QueueDesc(_) => "OFPST_QUEUE_DESC reply",
        Reply::Monitor(_) => "NXST_FLOW_MONITOR reply",
        Reply::IpfixBridge(_) => "NXST_IPFIX_BRIDGE reply",
        Reply::IpfixFlow(_) => "NXST_IPFIX_FLOW reply",
    }
}

#[cfg(test)]
mod tests {
    use thalweg_openflow::message::bundle::{ATOMIC, BundleAdd, ORDERED};
    use thalweg_openflow::message::flow::ALL_TABLES;
    use thalweg_openflow::{ErrorCode, encode};

    use super::*;
    use crate::openflow::convert::matching::of_match;
    use crate::openflow::convert::reading;

    fn flow(command: FlowCommand, rule: &str) -> Message {
        let rule = thalweg_pipeline::text::parse_flow(rule).unwrap();
        Message::FlowMod(Box::new(FlowMod {
            is_nicira: false,
            command,
            table: 7,
            new_cookie: 0x12,
            cookie: 0,
            cookie_mask: 0,
            idle_timeout_s: 50,
            hard_timeout_s: 0,
            priority: rule.priority,
            buffer: None,
            out_port: PortNumber::ANY,
            out_group: thalweg_openflow::message::group::ANY_GROUP,
            flags: FlowFlags(FlowFlags::SEND_REMOVED),
            importance: 0,
            matching: of_match(&rule.matching),
            instructions: reading::instructions(&rule.actions, &rule.matching, 0),
        }))
    }

    #[test]
    fn messages_are_printed_as_open_vswitch_prints_them() {
        let text = |version, message: &Message| {
            openflow_text(&encode(version, 5, message).expect("the version has it"))
        };
        let add = flow(
            FlowCommand::Add,
            "priority=9,in_port=2,tcp,actions=output:3",
        );
        let added = "ADD table:7 priority=9,tcp,in_port=2 cookie:0x12 idle:50 send_flow_rem \
                     actions=output:3";
        let expected = format!("OFPT_FLOW_MOD (OF1.3) (xid=0x5): {added}");
        assert_eq!(text(Version::V13, &add), expected);
        let bundled = Message::BundleAdd(BundleAdd {
            bundle: 0,
            flags: ATOMIC | ORDERED,
            message: encode(Version::V13, 5, &add).unwrap().into(),
            properties: Default::default(),
        });
        let expected = format!(
            "ONFT_BUNDLE_ADD_MESSAGE (OF1.3) (xid=0x5):\n bundle_id=0 flags=atomic ordered\n\
             OFPT_FLOW_MOD (OF1.3) (xid=0x5): {added}"
        );
        assert_eq!(text(Version::V13, &bundled), expected);
        let request = encode(Version::V10, 6, &Message::BarrierRequest).unwrap();
        let error = ErrorMessage::new(Version::V10, ErrorCode::OFPBRC_EPERM, &request);
        let expected = "OFPT_ERROR (xid=0x5): OFPBRC_EPERM\nOFPT_BARRIER_REQUEST (xid=0x6):";
        assert_eq!(text(Version::V10, &Message::Error(error)), expected);
        let mut all = FlowStatsRequest::all();
        let ask = |request: &FlowStatsRequest| {
            let request = Message::Request(Request::Flow(request.clone()), false);
            text(Version::V14, &request)
        };
        assert_eq!(ask(&all), "OFPST_FLOW request (OF1.4) (xid=0x5): ");
        all.table = 3;
        assert_ne!(all.table, ALL_TABLES);
        assert_eq!(ask(&all), "OFPST_FLOW request (OF1.4) (xid=0x5): table=3 ");
        let echo = Message::EchoRequest(vec![1, 2].into());
        assert_eq!(
            text(Version::V10, &echo),
            "OFPT_ECHO_REQUEST (xid=0x5): 10 bytes"
        );
        assert!(openflow_text(&[9; 3]).starts_with("3 bytes that make no message"));
    }
}
