//! Connections, limits and fragments as the tools of Open vSwitch print and read them.
//!
//! The formats are those of `dpctl/dump-conntrack`, `ct-stats-show`, `ct-get-limits` and
//! `ipf-get-status` (`lib/ct-dpif.c`, `lib/dpctl.c`, `lib/ipf.c` of Open vSwitch 3.1), because
//! scripts and tests parse them:
//!
//! ```text
//!   tcp,orig=(src=10.0.0.1,dst=10.0.0.2,sport=1,dport=2),reply=(...),protoinfo=(state=TIME_WAIT)
//! ```
//!
//! `parse.rs` reads the arguments of `flush-conntrack`, `ct-set-limits` and similar commands.
//!
//! 1. Texts have no line feed at their end.
//! 2. Zero and absent values are left out, except in the verbose parts.

mod parse;
#[cfg(test)]
mod tests;

use std::fmt::Write;
use std::net::Ipv6Addr;

use crate::{
    ConnectionEntry, FragmentList, FragmentsStatus, IpFamily, ProtocolState, Status, TcpPeer,
    TcpPeerFlags, TcpState, Tuple, protocol,
};

pub use self::parse::{
    ConntrackTextError, FlushRequest, LimitChanges, PartialTuple, parse_flush, parse_set_limits,
    parse_tuple, parse_zone_limit, parse_zones,
};

/// What a dump shows of each connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EntryStyle {
    /// Ids, status, both peers of TCP, and the parent (`-m`).
    pub is_verbose: bool,
    /// The time left (`-s`).
    pub has_statistics: bool,
}

/// One line of `dpctl/dump-conntrack`.
pub fn entry_text(entry: &ConnectionEntry, style: EntryStyle) -> String {
    let mut text = format!(
        "{},orig=({}),reply=({})",
        protocol_name(entry.original.protocol),
        tuple_text(&entry.original),
        tuple_text(&entry.reply)
    );
    if style.is_verbose {
        text.push_str(",id=0"); // as Open vSwitch's userspace tracker, which has no ids
    }
    if entry.original.zone != 0 {
        push(&mut text, format_args!(",zone={}", entry.original.zone));
    }
    if style.is_verbose {
        let status = flags_text(entry.status.0, &Status::NAMES);
        push(&mut text, format_args!(",status={status}"));
    }
    if style.has_statistics {
        push(&mut text, format_args!(",timeout={}", entry.timeout_s));
    }
    if entry.mark != 0 {
        push(&mut text, format_args!(",mark={}", entry.mark));
    }
    if entry.label != 0 {
        push(&mut text, format_args!(",labels={:#x}", entry.label));
    }
    if let ProtocolState::Tcp { original, reply } = entry.protocol {
        let state = tcp_text(original, reply, style.is_verbose);
        push(&mut text, format_args!(",protoinfo=({state})"));
    }
    if let Some(alg) = entry.alg {
        push(&mut text, format_args!(",helper={}", alg.name()));
    }
    if let Some(parent) = entry.parent.filter(|_| style.is_verbose) {
        push(&mut text, format_args!(",parent=({})", tuple_text(&parent)));
    }
    text
}

/// A tuple as it stands in the parentheses of a line.
pub fn tuple_text(tuple: &Tuple) -> String {
    let [source, destination] =
        [tuple.source, tuple.destination].map(|end| address_text(end.address, tuple.is_ipv6));
    let ends = match tuple.protocol {
        protocol::ICMP | protocol::ICMPV6 => {
            let (kind, code) = tuple.icmp;
            format!("id={},type={kind},code={code}", tuple.source.port)
        }
        _ => format!(
            "sport={},dport={}",
            tuple.source.port, tuple.destination.port
        ),
    };
    format!("src={source},dst={destination},{ends}")
}

/// The name of an IP protocol; its number if tools have no name for it.
pub fn protocol_name(number: u8) -> String {
    let name = match number {
        protocol::ICMP => "icmp",
        protocol::ICMPV6 => "icmpv6",
        protocol::TCP => "tcp",
        protocol::UDP => "udp",
        protocol::SCTP => "sctp",
        136 => "udplite",
        33 => "dccp",
        2 => "igmp",
        _ => return number.to_string(),
    };
    name.to_owned()
}

/// The numbers of `dpctl/ct-stats-show`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ConnectionStatistics {
    total: u64,
    /// In the order of [`ConnectionStatistics::PROTOCOLS`]; the last counts all others.
    by_protocol: [u64; 9],
    by_tcp_state: [u64; TcpState::ALL.len()],
}

impl ConnectionStatistics {
    /// Protocols in the order of the text, and their titles.
    const PROTOCOLS: [(u8, &str); 8] = [
        (protocol::TCP, "TCP"),
        (protocol::UDP, "UDP"),
        (136, "UDPLITE"),
        (protocol::SCTP, "SCTP"),
        (protocol::ICMP, "ICMP"),
        (33, "DCCP"),
        (2, "IGMP"),
        (protocol::ICMPV6, ""), // counted, but not printed
    ];

    /// Counts a connection.
    pub fn count(&mut self, entry: &ConnectionEntry) {
        let number = entry.original.protocol;
        let known = Self::PROTOCOLS
            .iter()
            .position(|(known, _)| *known == number);
        self.total += 1;
        self.by_protocol[known.unwrap_or(8)] += 1;
        if let ProtocolState::Tcp { original, reply } = entry.protocol {
            self.by_tcp_state[original.state.combined(reply.state) as usize] += 1;
        }
    }

    /// The text of `dpctl/ct-stats-show`.
    pub fn text(&self, is_verbose: bool) -> String {
        let mut text = format!("Connections Stats:\n    Total: {}", self.total);
        let known = Self::PROTOCOLS.iter().map(|(_, title)| *title);
        for (title, count) in known.chain(["Other"]).zip(self.by_protocol) {
            if count == 0 || title.is_empty() {
                continue;
            }
            push(&mut text, format_args!("\n  {title}: {count}"));
            if title == "TCP" && is_verbose {
                text.push_str("\n    Conn per TCP states:");
                for (state, count) in TcpState::ALL.iter().zip(self.by_tcp_state) {
                    if count > 0 {
                        push(&mut text, format_args!("\n\t  [{}]={count}", state.name()));
                    }
                }
            }
        }
        text
    }
}

/// The text of `dpctl/ct-get-limits`: the limit of zones without their own, and a zone, its
/// limit and its connections for each.
pub fn zone_limits_text(default: u32, zones: &[(u16, u32, u32)]) -> String {
    let mut text = format!("default limit={default}");
    for (zone, limit, count) in zones {
        push(
            &mut text,
            format_args!("\nzone={zone},limit={limit},count={count}"),
        );
    }
    text
}

/// The text of `dpctl/ipf-get-status`.
pub fn fragments_text(status: &FragmentsStatus) -> String {
    const MARGIN: &str = "\n        ";
    let mut text = "        Fragmentation Module Status".to_owned();
    let mut line = |words: String| push(&mut text, format_args!("{MARGIN}{words}"));
    line("---------------------------".to_owned());
    line(format!("v4 enabled: {}", u8::from(status.v4.is_enabled)));
    line(format!("v6 enabled: {}", u8::from(status.v6.is_enabled)));
    line(format!("max num frags (v4/v6): {}", status.max_fragments));
    line(format!("num frag: {}", status.held));
    for (family, name) in [(status.v4, "v4"), (status.v6, "v6")] {
        line(format!("min {name} frag size: {}", family.min_bytes));
        line(format!("{name} frags accepted: {}", family.accepted));
        line(format!("{name} frags completed: {}", family.completed));
        line(format!("{name} frags expired: {}", family.expired));
        line(format!("{name} frags too small: {}", family.too_small));
        line(format!("{name} frags overlapped: {}", family.overlapped));
        line(format!("{name} frags purged: {}", family.purged));
    }
    text
}

/// One line of the lists that a verbose `dpctl/ipf-get-status` appends.
///
/// The place has the name of Open vSwitch's number for it, `recirc_id`.
pub fn fragment_list_text(list: &FragmentList) -> String {
    let [source, destination] =
        [list.source, list.destination].map(|address| address_text(address, list.is_ipv6));
    format!(
        "(src={source},dst={destination},recirc_id={},ip_id={},dl_type={},zone={},nw_proto={},\
         num_fragments={},state={})",
        list.context.place as u32,
        list.identification,
        if list.is_ipv6 { "0x86dd" } else { "0x800" },
        list.context.zone,
        list.protocol,
        list.fragments,
        list.state.name()
    )
}

/// What a log says of a flush: the zone, and both tuples as far as they are named.
pub fn flush_text(asked: &FlushRequest) -> String {
    if asked.is_unconditional() {
        return asked
            .zone
            .map_or("<all>".to_owned(), |zone| format!("zone {zone}"));
    }
    let tuple = |tuple: &PartialTuple| {
        let is_ipv4 = asked.family == Some(IpFamily::V4);
        let name = if is_ipv4 { "ct_nw" } else { "ct_ipv6" };
        let address = |address: Ipv6Addr| address_text(address, !is_ipv4);
        let ends = format!(
            "{name}_src={},{name}_dst={}",
            address(tuple.source),
            address(tuple.destination)
        );
        if matches!(asked.protocol, protocol::ICMP | protocol::ICMPV6) {
            let id = tuple.icmp_id.unwrap_or(0);
            let (kind, code) = (tuple.icmp_type.unwrap_or(0), tuple.icmp_code.unwrap_or(0));
            return format!("{ends},icmp_id={id},icmp_type={kind},icmp_code={code}");
        }
        let ports = (tuple.source_port, tuple.destination_port);
        format!("{ends},ct_tp_src={},ct_tp_dst={}", ports.0, ports.1)
    };
    format!(
        "zone={} '{},ct_nw_proto={}' '{}'",
        asked.zone.unwrap_or(0),
        tuple(&asked.original),
        asked.protocol,
        tuple(&asked.reply)
    )
}

/// What tools print of TCP's state: one state for both peers, or all that is known.
fn tcp_text(original: TcpPeer, reply: TcpPeer, is_verbose: bool) -> String {
    if !is_verbose {
        return format!("state={}", original.state.combined(reply.state).name());
    }
    let [state_original, state_reply] = [original, reply].map(|peer| peer.state.name());
    let mut text = format!("state_orig={state_original},state_reply={state_reply}");
    let scales = (original.window_scale, reply.window_scale);
    if scales != (0, 0) {
        let (original, reply) = scales;
        push(
            &mut text,
            format_args!(",wscale_orig={original},wscale_reply={reply}"),
        );
    }
    let [original, reply] =
        [original, reply].map(|peer| flags_text(peer.flags.0.into(), &TcpPeerFlags::NAMES));
    push(
        &mut text,
        format_args!(",flags_orig={original},flags_reply={reply}"),
    );
    text
}

/// The names of the bits that are set, the rest as a number; `0` for none.
fn flags_text(bits: u32, names: &[&str]) -> String {
    let is_set = |index: &usize| bits >> index & 1 == 1;
    let known = (0..names.len())
        .filter(is_set)
        .map(|index| names[index].to_owned());
    let rest = bits & !((1 << names.len()) - 1);
    let rest = (rest != 0).then(|| format!("{rest:#x}"));
    let words: Vec<String> = known.chain(rest).collect();
    if words.is_empty() {
        "0".to_owned()
    } else {
        words.join("|")
    }
}

/// An address in the text of `inet_ntop`, which writes IPv4-compatible addresses
/// (RFC 4291 section 2.5.5.1) with dots.
fn address_text(address: Ipv6Addr, is_ipv6: bool) -> String {
    if !is_ipv6 {
        return address.to_canonical().to_string();
    }
    let [.., a, b, c, d] = address.octets();
    let is_compatible = address.segments()[..6] == [0; 6] && (a, b) != (0, 0);
    if is_compatible {
        format!("::{a}.{b}.{c}.{d}")
    } else {
        address.to_string()
    }
}

/// The family that a tuple's addresses have.
fn family_of(tuple: &Tuple) -> IpFamily {
    if tuple.is_ipv6 {
        IpFamily::V6
    } else {
        IpFamily::V4
    }
}

fn push(text: &mut String, words: std::fmt::Arguments<'_>) {
    text.write_fmt(words).expect("a String takes any text");
}
