//! Flows that are put into a datapath by hand.
//!
//! They are in front of the caches of all workers ([`thalweg_switch::HandFlows`]) and end with
//! the next change of any kind, as Open vSwitch's revalidators remove what no rule asks for.

use std::sync::Arc;

use thalweg_packet::{Layout, PortId, standard as f};
use thalweg_pipeline::{DropReason, Effect};
use thalweg_switch::{HandFlow, HandFlows, megaflow_identifier};

use super::Daemon;
use crate::bridges::{Bridges, datapath_of};
use crate::datapath_text::{DatapathFlow, DatapathPort, FlowReader, FlowStatistics, FlowWriter};
use crate::log::LogLimit;
use crate::trace::full_layout;
use crate::views::{FlowStyle, ShownFlow, datapath_port};
use crate::vlog::{LogLevel, modules};

/// Refused flows are logged up to this rate, as in Open vSwitch.
static REFUSAL_LIMIT: LogLimit = LogLimit::new(1, 5);

/// A flow that was put by hand.
#[derive(Debug)]
pub(super) struct FlowByHand {
    flow: DatapathFlow,
    identifier: u128,
    /// Its actions, as they were given.
    actions: String,
    running: Arc<HandFlow>,
}

/// A command about a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum HandWork {
    /// It is added; it must not be there.
    Add,
    /// Its actions are replaced; it must be there.
    Modify,
    /// It is removed.
    Delete,
}

impl HandWork {
    /// What Open vSwitch's log calls it.
    fn name(self) -> &'static str {
        match self {
            HandWork::Add => "create",
            HandWork::Modify => "modify",
            HandWork::Delete => "delete",
        }
    }
}

impl Daemon {
    /// Does something with the flow of `texts`, its key and its actions, in a datapath if one is
    /// named.
    ///
    /// # Errors
    /// If it cannot be done, with a text as of Open vSwitch.
    pub(super) fn work_by_hand(
        &mut self,
        work: HandWork,
        datapath: Option<&str>,
        (key, actions): (&str, &str),
    ) -> Result<(), String> {
        self.forget_ended_flows();
        let flow = read_flow(&self.bridges, datapath, key)?;
        if flow.mask.get(f::IN_PORT) != u128::from(u32::MAX) {
            let (module, level) = (modules::DPIF_NETDEV, LogLevel::Error);
            self.log.write_limited(&REFUSAL_LIMIT, module, level, || {
                let what = work.name();
                format!("failed to put[{what}] flow: in_port is not an exact match")
            });
            return Err("updating flow table (Invalid argument)".to_owned());
        }
        let layout = full_layout(&self.switch.pipeline());
        let effects = match work {
            HandWork::Delete => Vec::new(),
            _ => read_actions(&self.bridges, actions)?,
        };
        let (identifier, running) = running_flow(&layout, &flow, effects)?;
        let known = self.by_hand.iter();
        let place = known
            .into_iter()
            .position(|known| known.running.has_region_of(&running));
        let put = FlowByHand {
            flow,
            identifier,
            actions: actions.to_owned(),
            running: Arc::new(running),
        };
        match (work, place) {
            (HandWork::Add, None) => self.by_hand.push(put),
            (HandWork::Modify, Some(place)) => self.by_hand[place] = put,
            (HandWork::Delete, Some(place)) => drop(self.by_hand.remove(place)),
            (HandWork::Add, Some(_)) => return Err("updating flow table (File exists)".to_owned()),
            (_, None) => {
                let what = match work {
                    HandWork::Delete => "deleting flow",
                    _ => "updating flow table",
                };
                return Err(format!(
                    "{what} (No such file or directory): only what was put by hand can be changed"
                ));
            }
        }
        let flows = self.by_hand.iter().map(|flow| flow.running.clone());
        let flows = HandFlows::new(Arc::new(layout), flows.collect());
        self.switch.put_by_hand(flows);
        Ok(())
    }

    /// Forgets the flows if a change has ended them.
    fn forget_ended_flows(&mut self) {
        if !self.switch.has_flows_by_hand() {
            self.by_hand.clear();
        }
    }

    /// The flows that were put by hand and have not ended.
    pub(super) fn flows_by_hand(&mut self, style: FlowStyle) -> Vec<ShownFlow> {
        self.forget_ended_flows();
        let now = self.switch.now();
        let bridges = &self.bridges;
        let shows_names = style.shows_names.unwrap_or(false);
        let ports = |port| datapath_port(bridges, port, shows_names);
        let mut writer = FlowWriter::new(&ports);
        if style.is_verbose {
            writer = writer.verbose();
        }
        let flows = self.by_hand.iter().map(|by_hand| {
            let (counters, used_at) = by_hand.running.counters();
            let statistics = FlowStatistics {
                packets: counters.packets,
                bytes: counters.bytes,
                unused_for: used_at.map(|used_at| now - used_at),
                tcp_flags: 0,
            };
            ShownFlow {
                in_port: PortId(by_hand.flow.key.get(f::IN_PORT) as u32),
                identifier: by_hand.identifier,
                key: writer.write(&by_hand.flow),
                statistics,
                flow: by_hand.flow.clone(),
                actions: by_hand.actions.clone(),
            }
        });
        flows.collect()
    }
}

/// The port of a datapath that a text names.
fn port_of(bridges: &Bridges, wanted: DatapathPort<'_>) -> Option<PortId> {
    bridges.by_name.values().find_map(|bridge| {
        let mut interfaces = bridge.interfaces.iter();
        let found = interfaces.find(|(name, known)| match wanted {
            DatapathPort::Number(number) => known.datapath_number == Some(number),
            DatapathPort::Name(wanted) => *name == wanted && known.datapath_number.is_some(),
        });
        Some(bridge.port(found?.1.number?))
    })
}

/// Reads a flow of packets that come in.
fn read_flow(
    bridges: &Bridges,
    datapath: Option<&str>,
    text: &str,
) -> Result<DatapathFlow, String> {
    let ports = |wanted: DatapathPort<'_>| port_of(bridges, wanted);
    let read = FlowReader::new(&ports).with_masks().read(text);
    let mut flow = read.map_err(|error| format!("parsing flow key ({error})"))?;
    if flow.key.get(f::RECIRC_ID) != 0 {
        let what = "recirc_id: a flow put by hand is for packets that come in";
        return Err(format!("parsing flow key ({what})"));
    }
    // As a datapath always compares it.
    flow.mask.set(f::RECIRC_ID, u128::from(u32::MAX));
    let port = PortId(flow.key.get(f::IN_PORT) as u32);
    let own = bridges.of_port(port);
    let own = own.map(|(_, bridge)| datapath_of(&bridge.datapath_type));
    let is_there = datapath.is_none_or(|wanted| {
        own.is_none_or(|(kind, name)| wanted == name || wanted == format!("{kind}@{name}"))
    });
    match is_there {
        true => Ok(flow),
        false => Err("parsing flow key (in_port: the port is in another datapath)".to_owned()),
    }
}

/// Reads actions: ports, or `drop`.
fn read_actions(bridges: &Bridges, text: &str) -> Result<Vec<Effect>, String> {
    let drop = |reason| Effect::Drop { reason, copies: 1 };
    if matches!(text, "drop" | "") {
        return Ok(vec![drop(DropReason::Action)]);
    }
    let actions = text.split(',').map(|action| {
        let port = match action.parse::<u32>() {
            Ok(number) => port_of(bridges, DatapathPort::Number(number)),
            Err(_) => Some(port_of(bridges, DatapathPort::Name(action)).ok_or_else(|| {
                format!("parsing actions ({text}: only ports and drop can be put by hand)")
            })?),
        };
        Ok(port.map_or(drop(DropReason::NoSuchPort), Effect::Output))
    });
    actions.collect()
}

/// The flow as workers have it, with its identifier.
fn running_flow(
    layout: &Layout,
    flow: &DatapathFlow,
    effects: Vec<Effect>,
) -> Result<(u128, HandFlow), String> {
    let mut fields = f::fields().into_iter().enumerate();
    let missing = fields.find(|(field, _)| {
        let field = thalweg_packet::FieldId(*field as u16);
        flow.mask.get(field) != 0 && layout.slot(field).is_none()
    });
    if let Some((_, field)) = missing {
        let name = field.name;
        return Err(format!("{name}: rules read too many fields to compare it"));
    }
    let words = |bits: &crate::datapath_text::FieldBits| {
        let mut words = vec![0; layout.words()];
        bits.write_words(layout, &mut words);
        words
    };
    let (key, mask) = (words(&flow.key), words(&flow.mask));
    let identifier = megaflow_identifier(&key, &mask);
    Ok((identifier, HandFlow::new(key, mask, effects)))
}
