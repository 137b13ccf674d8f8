//! The entries of the caches as flows of a datapath.

use std::time::Duration;

use thalweg_ovsdb::Uuid;
use thalweg_packet::{Layout, PortId, standard as f};
use thalweg_pipeline::Effect;
use thalweg_switch::{MegaflowReport, Megaflows, Switch};

use crate::datapath_text::{ActionWriter, DatapathFlow, FlowStatistics, FlowWriter};
use crate::trace::{TraceNames, full_layout};

/// Most entries shown of each worker.
pub(super) const ENTRIES_MAX: usize = 1_000_000;

/// How flows are shown.
#[derive(Clone, Copy, Debug, Default)]
pub struct FlowStyle {
    /// Whether all fields are shown.
    pub is_verbose: bool,
    /// Whether ports are shown by their names; if that was asked.
    pub shows_names: Option<bool>,
    /// Whether the datapath cannot put labels in front of packets.
    pub adds_no_labels: bool,
}

/// A flow with its texts.
#[derive(Debug)]
pub struct ShownFlow {
    /// The port of its packets.
    pub in_port: PortId,
    /// The flow.
    pub flow: DatapathFlow,
    /// A number of its region.
    pub identifier: u128,
    key: String,
    statistics: FlowStatistics,
    actions: String,
}

impl ShownFlow {
    /// Its line; `detail` comes before the actions.
    pub fn line(&self, detail: &str) -> String {
        let ShownFlow {
            key,
            statistics,
            actions,
            ..
        } = self;
        format!("{key}, {statistics}{detail}, actions:{actions}")
    }

    /// Its identifier, as Open vSwitch has it.
    pub fn identifier_text(&self) -> String {
        identifier_text(self.identifier)
    }
}

/// A flow's identifier, as Open vSwitch has it.
pub(crate) fn identifier_text(identifier: u128) -> String {
    format!("ufid:{}", Uuid::from_u128(identifier))
}

/// A port as datapath flows have it: its number in the datapath, or its name.
pub(crate) fn datapath_port(names: &dyn TraceNames, port: PortId, shows_names: bool) -> String {
    match names.port_name(port) {
        Some(name) if shows_names => name,
        _ => {
            let number = names.datapath_number_of(port);
            number.unwrap_or(port.0 & 0xffff).to_string()
        }
    }
}

/// All entries, as flows.
pub fn shown_flows(
    switch: &mut Switch,
    names: &dyn TraceNames,
    style: FlowStyle,
) -> Vec<ShownFlow> {
    let megaflows = switch.megaflows(ENTRIES_MAX);
    let of = FlowView::new(switch, names, &megaflows, style);
    let entries = megaflows.entries.iter();
    entries.map(|entry| of.show(entry)).collect()
}

/// What it takes to show entries.
pub(super) struct FlowView<'a> {
    names: &'a dyn TraceNames,
    megaflows: &'a Megaflows,
    style: FlowStyle,
    /// The layout of all fields.
    layout: Layout,
    are_exact: bool,
}

impl<'a> FlowView<'a> {
    pub(super) fn new(
        switch: &Switch,
        names: &'a dyn TraceNames,
        megaflows: &'a Megaflows,
        style: FlowStyle,
    ) -> FlowView<'a> {
        FlowView {
            names,
            megaflows,
            style,
            layout: full_layout(&switch.pipeline()),
            are_exact: switch.are_megaflows_exact(),
        }
    }

    /// Shows an entry.
    pub(super) fn show(&self, entry: &MegaflowReport) -> ShownFlow {
        let Megaflows { layout, now, .. } = self.megaflows;
        let shows_names = self.style.shows_names.unwrap_or(false);
        let ports = |port| datapath_port(self.names, port, shows_names);
        let mut writer = FlowWriter::new(&ports);
        if self.style.is_verbose {
            writer = writer.verbose();
        }
        let mut flow = DatapathFlow::of_entry(layout, &entry.key, &entry.mask);
        let actions = actions_of(self.names, &entry.effects, &mut flow, self.style);
        let sample = (&entry.sample[..], entry.sample_length);
        let flow = finish(flow, &self.layout, sample, self.are_exact);
        let unused_for: Option<Duration> = entry.used_at.map(|used| *now - used);
        ShownFlow {
            in_port: PortId(flow.key.get(f::IN_PORT) as u32),
            identifier: entry.identifier(),
            key: writer.write(&flow),
            statistics: FlowStatistics {
                packets: entry.counters.packets,
                bytes: entry.counters.bytes,
                unused_for,
                tcp_flags: 0,
            },
            flow,
            actions,
        }
    }
}

/// The flow as it is written: with the values that its entry does not know, from the packet for
/// which it was made.
pub(crate) fn finish(
    flow: DatapathFlow,
    layout: &Layout,
    (frame, length): (&[u8], usize),
    is_exact: bool,
) -> DatapathFlow {
    let flow = flow.with_values_of(layout, frame, length);
    match is_exact {
        true => flow.exact(),
        false => flow,
    }
}

/// What is done with an entry's packets; the flow's mask covers what that needs.
pub(crate) fn actions_of(
    names: &dyn TraceNames,
    effects: &[Effect],
    flow: &mut DatapathFlow,
    style: FlowStyle,
) -> String {
    let shows_names = style.shows_names.unwrap_or(false);
    let ports = |port| datapath_port(names, port, shows_names);
    let in_port = PortId(flow.key.get(f::IN_PORT) as u32);
    let writer = ActionWriter {
        ports: &ports,
        recirculations: &|number| number,
        senders: &|_| 0,
        tunnels: &|port, values, inner| names.tunnel_output(port, values, (in_port, inner)),
    };
    let mut actions = writer.write_covering(effects, flow);
    actions.is_slow |= actions.uses_labels_in_front && style.adds_no_labels;
    actions.installed()
}
