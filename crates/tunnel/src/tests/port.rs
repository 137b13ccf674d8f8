//! Compares how Open vSwitch and this crate read the options of tunnel ports.
//!
//! `open_vswitch_ports.txt` has 516 configurations that Open vSwitch 3.1 was given, one after the
//! other: type and options, and below them its warnings, the `error` column, and the port in
//! `dpif/show` and in `ofproto/list-tunnels`.

use proptest::collection::vec;
use proptest::prelude::*;

use crate::{ParsedTunnelPort, TunnelOptionProblem, TunnelPort, TunnelPortError, TunnelType};

/// A configuration, and what Open vSwitch said to it.
#[derive(Default)]
pub(super) struct KnownPort {
    pub(super) text: &'static str,
    tunnel_type: &'static str,
    options: Vec<(&'static str, &'static str)>,
    warnings: Vec<String>,
    error: Option<&'static str>,
    show: Option<&'static str>,
    pub(super) list: Option<&'static str>,
}

impl KnownPort {
    pub(super) fn parse(&self) -> Result<ParsedTunnelPort, TunnelPortError> {
        let tunnel_type = TunnelType::from_name(self.tunnel_type).expect("a type that is known");
        TunnelPort::parse("t0", tunnel_type, self.options.iter().copied())
    }
}

/// All configurations.
pub(super) fn known_ports() -> Vec<KnownPort> {
    let mut known: Vec<KnownPort> = Vec::new();
    for line in include_str!("open_vswitch_ports.txt").lines() {
        let Some(said) = line.strip_prefix("  ") else {
            let (tunnel_type, options) = line.split_once(' ').unwrap_or((line, ""));
            known.push(KnownPort {
                text: line,
                tunnel_type,
                options: options
                    .split_terminator(' ')
                    .map(|option| option.split_once('=').expect("an option has a value"))
                    .collect(),
                ..KnownPort::default()
            });
            continue;
        };
        let (what, text) = said.split_once(' ').expect("a word before the text");
        let port = known.last_mut().expect("a configuration before its text");
        match what {
            "warn" => port.warnings.push(text.to_owned()),
            "error" => port.error = Some(text),
            "show" => port.show = Some(text),
            _ => port.list = Some(text),
        }
    }
    known
}

#[test]
fn options_are_read_as_open_vswitch_reads_them() {
    let known = known_ports();
    assert_eq!(known.len(), 516);
    for port in &known {
        match port.parse() {
            Ok(parsed) => {
                assert_eq!(port.error, None, "{}", port.text);
                let warnings = parsed.warnings.iter();
                let lines = warnings.map(|warning| format!("t0: {warning}"));
                assert_eq!(
                    sorted(lines),
                    sorted(port.warnings.clone()),
                    "{}",
                    port.text
                );
                let (_, shown) = port.show.expect("a port").split_once(" (").expect("a text");
                assert_eq!(format!("{})", parsed.port), shown, "{}", port.text);
            }
            Err(error) => {
                assert_eq!(port.show, None, "{}: {error}", port.text);
                let (told, said) = (error.to_string(), port.error.expect("an error"));
                let mut told: Vec<&str> = told.lines().collect();
                let mut said: Vec<&str> = said.trim_matches('"').split("\\n").collect();
                if is_met_while_reading(error.problems.last().expect("a problem")) {
                    // Which options were read before depends on their order.
                    told.drain(..told.len() - 1);
                    said.retain(|line| *line == told[0]);
                }
                assert_eq!(sorted(told), sorted(said), "{}", port.text);
            }
        }
    }
}

fn sorted<T: Ord>(lines: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut lines: Vec<T> = lines.into_iter().collect();
    lines.sort_unstable();
    lines
}

/// Whether the options behind the one with this problem are not read.
fn is_met_while_reading(problem: &TunnelOptionProblem) -> bool {
    matches!(
        problem,
        TunnelOptionProblem::MulticastRemote(_)
            | TunnelOptionProblem::BadErspanDirection(_)
            | TunnelOptionProblem::BadErspanHardwareId(_)
            | TunnelOptionProblem::BadErspanIndex(_)
            | TunnelOptionProblem::BadErspanVersion(_)
            | TunnelOptionProblem::BadPayloadType
    )
}

#[test]
fn options_that_are_printed_make_the_same_port() {
    for known in known_ports() {
        let Ok(ParsedTunnelPort { mut port, .. }) = known.parse() else {
            continue;
        };
        let options = port.options();
        // An ERSPAN port without a version prints one that it does not read.
        if options.contains(&("erspan_ver", "0".to_owned())) {
            continue;
        }
        let texts = options.iter().map(|(name, value)| (*name, value.as_str()));
        let parsed = TunnelPort::parse("t0", port.tunnel_type, texts).expect("printed options");
        assert_eq!(parsed.port.options(), options, "{}", known.text);
        assert!(parsed.warnings.is_empty(), "{}", known.text);
        // These are not printed, or as if they were others.
        if port.in_key != port.out_key && options.iter().any(|(name, _)| *name == "key") {
            (port.in_key, port.out_key) = (parsed.port.in_key, parsed.port.out_key);
        }
        port.extensions = parsed.port.extensions;
        port.erspan = parsed.port.erspan;
        if port.destination_port == 0 {
            port.destination_port = parsed.port.destination_port;
        }
        assert_eq!(parsed.port, port, "{}", known.text);
    }
}

#[test]
fn ports_with_and_without_a_group_policy_do_not_share_a_udp_port() {
    let port = |options: &[(&'static str, &'static str)]| {
        let options = options.iter().copied().chain([("remote_ip", "flow")]);
        let parsed = TunnelPort::parse("t0", TunnelType::Vxlan, options);
        parsed.expect("a VXLAN port").port
    };
    let (plain, gbp) = (port(&[]), port(&[("exts", "gbp")]));
    let (other, gpe) = (
        port(&[("exts", "gbp"), ("dst_port", "5000")]),
        port(&[("exts", "gpe")]),
    );
    assert!(plain.conflicts_with(&gbp) && gbp.conflicts_with(&gpe));
    assert!(!plain.conflicts_with(&other) && !plain.conflicts_with(&gpe));
    assert!(!gbp.conflicts_with(&other));
}

const NAMES: [&str; 22] = [
    "remote_ip",
    "local_ip",
    "tos",
    "ttl",
    "dst_port",
    "csum",
    "seq",
    "df_default",
    "key",
    "in_key",
    "out_key",
    "packet_type",
    "exts",
    "egress_pkt_mark",
    "erspan_idx",
    "erspan_ver",
    "erspan_dir",
    "erspan_hwid",
    "payload_type",
    "psk",
    "foo",
    "",
];

proptest! {
    /// Any text is read or refused, and a refusal has the port's name in each line.
    #[test]
    fn any_options_are_read_or_refused(
        kind in prop::sample::select(TunnelType::ALL.to_vec()),
        options in vec(
            (
                prop::sample::select(NAMES.to_vec()),
                "flow|inherit|true|gbp|gpe|1\\.1\\.1\\.1|[0-9a-fx:.,+ -]{0,8}|\\PC{0,4}",
            ),
            0..8,
        ),
    ) {
        let texts = options.iter().map(|(name, value)| (*name, value.as_str()));
        match TunnelPort::parse("t0", kind, texts) {
            Ok(ParsedTunnelPort { port, .. }) => {
                prop_assert_eq!(port.tunnel_type, kind);
                prop_assert!(port.to_string().starts_with(kind.name()));
            }
            Err(error) => prop_assert!(error.to_string().starts_with("t0: ")),
        }
    }
}
