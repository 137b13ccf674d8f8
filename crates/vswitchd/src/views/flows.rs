//! The entries of the caches as flows of a datapath.

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Duration;

use thalweg_ovsdb::Uuid;
use thalweg_packet::{Layout, PortId, standard as f};
use thalweg_pipeline::{BridgeId, Effect, Sender};
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
    /// The text of its key.
    pub(crate) key: String,
    /// What went through it.
    pub(crate) statistics: FlowStatistics,
    /// The text of its actions.
    pub(crate) actions: String,
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
    senders: SenderNumbers,
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
            senders: SenderNumbers::default(),
        }
    }

    /// Shows an entry.
    pub(super) fn show(&self, entry: &MegaflowReport) -> ShownFlow {
        let Megaflows { layout, now, .. } = self.megaflows;
        let shows_names = self.style.shows_names.unwrap_or(false);
        let ports = |port| datapath_port(self.names, port, shows_names);
        let options = |port, field| self.names.option(BridgeId::of_port(port), field);
        let mut writer = FlowWriter::new(&ports).with_options(&options);
        if self.style.is_verbose {
            writer = writer.verbose();
        }
        let mut flow = DatapathFlow::of_entry(layout, &entry.key, &entry.mask);
        let actions = self.actions(&entry.effects, &mut flow);
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

    fn actions(&self, effects: &[Effect], flow: &mut DatapathFlow) -> String {
        actions_of(self.names, effects, flow, (self.style, &self.senders))
    }
}

/// Numbers of the states that controllers get along with packets: the same state has the same
/// number. They are of one dump, since nothing can be asked by them.
#[derive(Debug, Default)]
pub(crate) struct SenderNumbers(RefCell<HashMap<Option<Sender>, u32>>);

impl SenderNumbers {
    /// The number of a sender, from 1.
    fn number(&self, sender: Option<&Sender>) -> u32 {
        let mut known = self.0.borrow_mut();
        let next = known.len() as u32 + 1;
        *known.entry(sender.cloned()).or_insert(next)
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

/// The actions on an entry's packets; the flow's mask covers the bits that they need.
pub(crate) fn actions_of(
    names: &dyn TraceNames,
    effects: &[Effect],
    flow: &mut DatapathFlow,
    (style, senders): (FlowStyle, &SenderNumbers),
) -> String {
    let shows_names = style.shows_names.unwrap_or(false);
    let ports = |port| datapath_port(names, port, shows_names);
    let in_port = PortId(flow.key.get(f::IN_PORT) as u32);
    let writer = ActionWriter {
        ports: &ports,
        recirculations: &|number| number,
        senders: &|sender| senders.number(sender),
        tunnels: &|port, values, leaving| {
            names.tunnel_output(port, values, (in_port, leaving.inner))
        },
    };
    let mut actions = writer.write_covering(effects, flow);
    actions.is_slow |= actions.uses_labels_in_front && style.adds_no_labels;
    actions.installed()
}
