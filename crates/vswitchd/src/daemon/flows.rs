//! Entries of the caches as flows of a datapath: for commands, and for the log.
//!
//! Where the log wants messages of `dpif_netdev` at the level of debugging, each packet that no
//! cache could answer is logged, with the entry that was made for it; those of `dpif` are about
//! flows that are dumped.

use std::time::Duration;

use thalweg_packet::{Connection, Layout, PortId, Receipt, standard as f};
use thalweg_pipeline::{BridgeId, TRACKED_FIELDS};
use thalweg_switch::{UpcallReport, WatchedUpcalls, megaflow_identifier};

use super::Daemon;
use crate::bridges::{Bridges, datapath_of};
use crate::datapath_text::{DatapathFlow, FlowWriter};
use crate::log::LogLimit;
use crate::trace::{TraceCommand, TraceNames, full_layout, trace};
use crate::views::{
    FlowStyle, SenderNumbers, ShownFlow, actions_of, datapath_port, finish, identifier_text,
    shown_flows,
};
use crate::vlog::{LogLevel, modules};

/// Upcalls are logged up to this rate, as in Open vSwitch.
static UPCALL_LIMIT: LogLimit = LogLimit::new(600, 600);
/// The same for flows that are dumped.
static DUMP_LIMIT: LogLimit = LogLimit::new(600, 600);

/// Traces are long, so that one a minute is logged, as in Open vSwitch.
static FAILURE_LIMIT: LogLimit = LogLimit::new(1, 1);

/// How often flows are dumped into a log that wants it.
const DUMP_INTERVAL: Duration = Duration::from_millis(500);

impl Daemon {
    /// The flows of all datapaths; they are logged, if the log wants that.
    pub(super) fn flows(&mut self, style: FlowStyle) -> Vec<ShownFlow> {
        self.log_flows();
        let mut flows = self.read_flows(style);
        flows.extend(self.flows_by_hand(style));
        flows
    }

    /// Dumps all flows into the log, if it wants that.
    pub(super) fn log_flows(&mut self) {
        if !self.log.is_enabled(modules::DPIF, LogLevel::Debug) {
            return;
        }
        let whole = FlowStyle {
            is_verbose: true,
            ..FlowStyle::default()
        };
        for shown in self.read_flows(whole) {
            let (kind, name) = self.datapath_name(shown.in_port);
            self.log
                .write_limited(&DUMP_LIMIT, modules::DPIF, LogLevel::Debug, || {
                    let identifier = shown.identifier_text();
                    format!("{kind}@{name}: flow_dump {identifier} {}", shown.line(""))
                });
        }
    }

    /// The same, now and then, as Open vSwitch's sweeps do.
    pub(super) fn log_flows_in_time(&mut self) {
        let now = self.switch.now();
        if now >= self.next_dump {
            self.next_dump = now + DUMP_INTERVAL;
            self.log_flows();
        }
    }

    fn read_flows(&mut self, style: FlowStyle) -> Vec<ShownFlow> {
        let style = self.bridges.with_labels(style);
        shown_flows(&mut self.switch, &self.bridges, style)
    }

    /// Has upcalls reported as the log wants; those that fail in any case.
    pub(super) fn follow_log(&mut self) {
        let watched = match self.log.is_enabled(modules::DPIF_NETDEV, LogLevel::Debug) {
            true => WatchedUpcalls::All,
            false => WatchedUpcalls::Failed,
        };
        self.switch.watch_upcalls(watched);
    }

    /// Logs the upcalls that were reported.
    pub(super) fn log_upcalls(&mut self) {
        let (reports, lost) = self.switch.take_upcalls();
        if reports.is_empty() && lost == 0 {
            return;
        }
        let layout = full_layout(&self.switch.pipeline());
        let are_all_logged = self.log.is_enabled(modules::DPIF_NETDEV, LogLevel::Debug);
        for report in &reports {
            if report.has_failed {
                self.log_failure(report, &layout);
            }
            if are_all_logged {
                self.log_upcall(report, &layout);
            }
        }
        if lost > 0 && are_all_logged {
            self.log.write(modules::DPIF_NETDEV, LogLevel::Debug, || {
                format!("{lost} more upcalls came too fast to be reported")
            });
        }
    }

    /// Logs the whole trace of a packet whose walk met a bound, now and then, as Open vSwitch
    /// does.
    fn log_failure(&self, report: &UpcallReport, layout: &Layout) {
        let ports = |port| datapath_port(&self.bridges, port, false);
        let options = |port, field| self.bridges.option(BridgeId::of_port(port), field);
        let writer = FlowWriter::new(&ports).with_options(&options);
        self.log.write_limited(
            &FAILURE_LIMIT,
            modules::OFPROTO_DPIF_UPCALL,
            LogLevel::Warning,
            || {
                let Some(packet) = packet_of(report, layout) else {
                    return "a packet met a bound and is dropped".to_owned();
                };
                let key = writer.packet().write(&packet);
                let (_, name) = self.datapath_name(report.in_port);
                let arguments = [name.to_owned(), key];
                let pipeline = self.switch.pipeline();
                let traced = trace(&pipeline, &self.bridges, TraceCommand::Trace, &arguments);
                match traced {
                    Ok(answer) => answer.text,
                    Err(refusal) => format!("a packet met a bound and is dropped: {refusal}"),
                }
            },
        );
    }

    fn log_upcall(&self, report: &UpcallReport, layout: &Layout) {
        let ports = |port| datapath_port(&self.bridges, port, false);
        let options = |port, field| self.bridges.option(BridgeId::of_port(port), field);
        let writer = FlowWriter::new(&ports).with_options(&options);
        let log = |text: &dyn Fn() -> String| {
            let (module, level) = (modules::DPIF_NETDEV, LogLevel::Debug);
            self.log.write_limited(&UPCALL_LIMIT, module, level, text);
        };
        if let Some(packet) = packet_of(report, layout) {
            log(&|| {
                let (_, name) = self.datapath_name(report.in_port);
                let key = writer.packet().write(&packet);
                let bytes = report.frame.iter().map(|byte| format!("{byte:02x}"));
                format!("{name}: miss upcall:\n{key}\n{}", bytes.collect::<String>())
            });
        }
        let Some(entry) = report.entry.as_ref().filter(|entry| entry.is_new) else {
            return;
        };
        let style = self.bridges.with_labels(FlowStyle::default());
        log(&|| {
            let mut flow = DatapathFlow::of_entry(&report.layout, &report.key, &entry.mask);
            let senders = SenderNumbers::default();
            let actions = actions_of(&self.bridges, &entry.effects, &mut flow, (style, &senders));
            let are_exact = self.switch.are_megaflows_exact();
            let flow = finish(flow, layout, (&report.frame, report.length), are_exact);
            let text = writer.write(&flow);
            let identifier = identifier_text(megaflow_identifier(&report.key, &entry.mask));
            format!("flow_add: {identifier} mega_{identifier} {text}, actions:{actions}")
        });
    }

    /// The type and the name of the datapath of a port.
    fn datapath_name(&self, port: PortId) -> (&str, &'static str) {
        let bridge = self.bridges.of_port(port);
        datapath_of(bridge.map_or("", |(_, bridge)| &bridge.datapath_type))
    }
}

/// The packet of an upcall as a flow, with what it has beside its bytes.
fn packet_of(report: &UpcallReport, layout: &Layout) -> Option<DatapathFlow> {
    let known = |field| report.layout.get(&report.key, field).unwrap_or(0);
    let mut connection = Connection::NONE;
    for field in TRACKED_FIELDS {
        connection.set(field, known(field));
    }
    let receipt = Receipt {
        in_port: report.in_port.0,
        recirculation_id: known(f::RECIRC_ID) as u32,
        packet_type: report.packet_type,
        tunnel: report.tunnel.as_deref(),
        mark: known(f::PKT_MARK) as u32,
        datapath_hash: known(f::DP_HASH) as u32,
        connection,
    };
    DatapathFlow::of_packet(layout, &report.frame, report.length, &receipt)
}

impl Bridges {
    /// A style that says whether the datapath puts labels in front of packets.
    fn with_labels(&self, style: FlowStyle) -> FlowStyle {
        FlowStyle {
            adds_no_labels: !self.adds_labels,
            ..style
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use thalweg_packet::TunnelValues;
    use thalweg_pipeline::{Config, Pipeline};

    use super::*;

    #[test]
    fn the_packet_of_an_upcall_has_all_that_it_came_with() {
        let pipeline = Pipeline::new(Config::default());
        let layout = Arc::new(full_layout(&pipeline));
        let ipv4_type = 1 << 16 | 0x0800;
        let mut tunnel = TunnelValues::default();
        (tunnel.id, tunnel.ipv4_source) = (7, 0x0a00_0001);
        let mut key = vec![0; layout.words()];
        let known = [
            (f::RECIRC_ID, 3),
            (f::PKT_MARK, 4),
            (f::DP_HASH, 5),
            (f::CT_ZONE, 6),
        ];
        for (field, value) in known {
            layout.set(&mut key, field, value);
        }
        let mut frame = vec![0; 34];
        (frame[12], frame[13], frame[14]) = (0x08, 0x00, 0x45);
        frame[17] = 20;
        let report = UpcallReport {
            layout: layout.clone(),
            in_port: PortId(9),
            length: frame.len(),
            frame,
            packet_type: ipv4_type,
            tunnel: Some(Box::new(tunnel)),
            key,
            entry: None,
            has_failed: false,
        };
        let flow = packet_of(&report, &layout).expect("it has headers");
        for (field, value) in known {
            assert_eq!(flow.key.get(field), value);
        }
        assert_eq!(flow.key.get(f::IN_PORT), 9);
        assert_eq!(flow.key.get(f::PACKET_TYPE), u128::from(ipv4_type));
        assert_eq!(flow.key.get(f::TUN_ID), 7);
        assert_eq!(flow.key.get(f::TUN_SRC), 0x0a00_0001);
    }
}
