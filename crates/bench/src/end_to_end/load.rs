//! What a switch gets in the rows of rule sets: rules, packets and changes.

use anyhow::Result;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use thalweg_command::failure::bad_input;
use thalweg_datapath::{MegaflowClassifier, Mode};
use thalweg_packet::Packet;
use thalweg_pipeline::{Change, ClassifierKind, Flow, Operation, Selector, text};
use thalweg_switch::Config;
use thalweg_workload::{Action, Extra, Sequence, filter_rules, rules_text};

use crate::classify::{Order, RuleSet};
use crate::forward::arguments::Arguments;

/// Packets of the traffic, which then repeats.
pub(super) const TRAFFIC: usize = 1 << 20;

/// Number of ports that rules send to, from 2 on.
pub(crate) const PORTS: u32 = 8;

/// Rules that are removed at a time.
const AWAY: usize = 64;

/// How packets are answered.
#[derive(Clone, Copy)]
pub(crate) struct Variant {
    pub(crate) mode: Mode,
    pub(crate) tables: ClassifierKind,
    pub(crate) megaflows: MegaflowClassifier,
}

/// Rules, and packets of flows that they match.
pub(crate) struct Load {
    pub(crate) name: String,
    pub(crate) flows: Vec<Flow>,
    pub(crate) packets: Vec<Packet>,
}

impl Load {
    pub(super) fn read(name: &str, arguments: &Arguments) -> Result<Load> {
        let set = RuleSet::read(name, None, arguments.seed)?;
        if set.filters.is_empty() {
            return Err(bad_input(format!(
                "--rules {name}: it has rules but no filters to draw packets from; name a \
                 ClassBench file, or a set as acl1-10k"
            )));
        }
        let actions = |index: usize| vec![Action::Output(2 + index as u32 % PORTS)];
        let rules = filter_rules(&set.filters, 0, Extra::Ignore, actions);
        let rules = rules.map_err(|error| bad_input(format!("--rules {name}: {error}")))?;
        let read = text::parse_rules(name, &rules_text(&rules));
        let read = read.map_err(|errors| anyhow::anyhow!("{}", errors[0]))?;
        let mut random = Pcg64Mcg::seed_from_u64(arguments.seed);
        let flows = arguments.flows.unwrap_or(262_144).max(1);
        let packet = |_| {
            let filter = &set.filters[random.random_range(0..set.filters.len())];
            Packet::from_bytes(&filter.header(&mut random).packet())
        };
        Ok(Load {
            name: name.to_owned(),
            flows: read.flows,
            packets: (0..flows).map(packet).collect(),
        })
    }

    /// The packets of the flows in an order.
    pub(super) fn traffic(&self, order: Order, seed: u64) -> Result<Vec<Packet>> {
        let sequence = Sequence::new(order.kind(), self.packets.len(), seed);
        let sequence = sequence.map_err(|error| bad_input(format!("--traffic: {error}")))?;
        let packets = sequence.map(|flow| self.packets[flow].clone());
        Ok(packets.take(TRAFFIC).collect())
    }
}

/// The limits of a switch for such a load.
pub(crate) fn limits(load: &Load, variant: Variant, arguments: &Arguments) -> Config {
    let mut config = Config::default();
    config.pipeline.rules = 2 * load.flows.len() + AWAY;
    config.pipeline.classifier = variant.tables;
    config.datapath.mode = variant.mode;
    config.datapath.megaflow.classifier = variant.megaflows;
    config.datapath.megaflow.entries = arguments.megaflows;
    config.datapath.megaflow.bytes = usize::MAX;
    config
}

/// Rules that are removed and return.
pub(crate) struct Updates {
    random: Pcg64Mcg,
    flows: Vec<Flow>,
    away: Vec<Flow>,
}

impl Updates {
    pub(crate) fn new(load: &Load, arguments: &Arguments) -> Updates {
        let flows = match arguments.update_rate {
            0 => Vec::new(),
            _ => load.flows.clone(),
        };
        Updates {
            random: Pcg64Mcg::seed_from_u64(arguments.seed),
            flows,
            away: Vec::new(),
        }
    }

    /// The next change.
    pub(crate) fn next(&mut self) -> Change {
        if self.away.len() == AWAY {
            let flow = self.away.remove(0);
            self.flows.push(flow.clone());
            return Change::one(Operation::Add(flow));
        }
        let place = self.random.random_range(0..self.flows.len());
        let flow = self.flows.swap_remove(place);
        let selector = Selector {
            table: Some(flow.table),
            matching: flow.matching.clone(),
            strict_priority: Some(flow.priority),
            cookie: None,
            ..Selector::default()
        };
        self.away.push(flow);
        Change::one(Operation::Delete(selector))
    }
}
