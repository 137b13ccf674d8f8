//! Two bridges with a patch between them, as traces ask about them.

use std::cell::RefCell;

use thalweg_packet::{Instant, PortId};
use thalweg_pipeline::text::parse_rules;
use thalweg_pipeline::{BridgeId, Change, Config, Miss, Misses, Operation, Pipeline, PortState};
use thalweg_vswitchd::trace::{
    FrozenTrace, FrozenTraces, TraceAnswer, TraceCommand, TraceNames, TraceRefusal, trace,
};

const OUTER_RULES: &str = include_str!("outer.rules");
const OUTER_GROUPS: &str = include_str!("outer.groups");
const INNER_RULES: &str = include_str!("inner.rules");

/// One question in each line: `trace` or `packet-out`, and the arguments.
pub(crate) const QUESTIONS: &str = include_str!("questions.txt");

/// A port: its name, its bridge, its number there, and the datapath's, 0 if it has none.
const PORTS: [(&str, BridgeId, u16, u32); 8] = [
    ("p1", OUTER, 1, 1),
    ("p2", OUTER, 2, 2),
    ("p3", OUTER, 3, 3),
    ("p4", OUTER, 4, 4),
    ("p9", OUTER, 9, 0),
    ("br0", OUTER, 0xfffe, 100),
    ("p8", INNER, 8, 0),
    ("q1", INNER, 1, 5),
];
const OUTER: BridgeId = BridgeId(0);
const INNER: BridgeId = BridgeId(1);

/// The two bridges.
pub(crate) struct Bridges {
    pub(crate) pipeline: Pipeline,
    /// The walks that traces froze, if they are kept.
    pub(crate) frozen: Option<RefCell<FrozenTraces>>,
}

/// With the walks that are kept, if any are.
struct Names<'a>(Option<&'a RefCell<FrozenTraces>>);

impl TraceNames for Names<'_> {
    fn bridge(&self, name: &str) -> Option<BridgeId> {
        let bridges = [("br0", OUTER), ("br1", INNER)];
        let found = bridges.into_iter().find(|bridge| bridge.0 == name);
        found.map(|bridge| bridge.1)
    }

    fn bridge_name(&self, bridge: BridgeId) -> String {
        format!("br{}", bridge.0)
    }

    fn port(&self, bridge: BridgeId, name: &str) -> Option<PortId> {
        let mut ports = PORTS.into_iter();
        let port = ports.find(|port| (port.0, port.1) == (name, bridge))?;
        Some(bridge.port(port.2))
    }

    fn port_name(&self, port: PortId) -> Option<String> {
        let mut ports = PORTS.into_iter();
        let found = ports.find(|known| known.1.port(known.2) == port)?;
        Some(found.0.to_owned())
    }

    fn has_datapath(&self, kind: Option<&str>) -> bool {
        kind.is_none_or(|kind| kind == "dummy")
    }

    fn port_of_datapath(&self, number: u32) -> Option<PortId> {
        let mut ports = PORTS.into_iter();
        let port = ports.find(|port| number != 0 && port.3 == number)?;
        Some(port.1.port(port.2))
    }

    fn datapath_number(&self, name: &str) -> Option<u32> {
        let port = PORTS.into_iter().find(|port| port.0 == name)?;
        Some(port.3).filter(|number| *number != 0)
    }

    fn datapath_number_of(&self, port: PortId) -> Option<u32> {
        let mut ports = PORTS.into_iter();
        let found = ports.find(|known| known.1.port(known.2) == port)?;
        Some(found.3)
    }

    fn recirculations(&self, walks: &[FrozenTrace]) -> Vec<u32> {
        match self.0 {
            Some(kept) => kept.borrow().numbers(walks),
            None => (1..).take(walks.len()).collect(),
        }
    }

    fn frozen(&self, number: u32) -> Option<FrozenTrace> {
        self.0?.borrow().get(number).cloned()
    }
}

impl Bridges {
    pub(crate) fn new() -> Bridges {
        let mut pipeline = Pipeline::new(Config {
            bridges: true,
            ..Config::default()
        });
        let ports = PORTS.into_iter().map(|(name, bridge, number, _)| {
            let peer = match name {
                "p9" => Some(INNER.port(8)),
                "p8" => Some(OUTER.port(9)),
                _ => None,
            };
            let state = PortState {
                is_up: true,
                floods: true,
                forwards: true,
                peer,
            };
            Operation::SetPort(bridge.port(number), state)
        });
        let mut operations: Vec<Operation> = ports.collect();
        for (text, bridge) in [
            (OUTER_GROUPS, OUTER),
            (OUTER_RULES, OUTER),
            (INNER_RULES, INNER),
        ] {
            let rules = parse_rules("rules", text).expect("the test's rules are right");
            let change = rules.into_change();
            operations.extend(change.operations.iter().map(|one| one.in_bridge(bridge)));
        }
        // One table sends to controllers what it has no rule for.
        let misses = Misses {
            others: Miss::Drop,
            tables: [(7, Miss::Controller)].into(),
        };
        operations.push(Operation::SetMisses(OUTER, misses.into()));
        let applied = pipeline.apply(&Change { operations }, Instant::ZERO);
        applied.expect("the test's rules can be loaded");
        Bridges {
            pipeline,
            frozen: None,
        }
    }

    /// The text of the answer to a question, or the refusal.
    pub(crate) fn answer(&self, question: &str) -> String {
        match self.ask(question) {
            Ok(answer) => answer.text,
            Err(refusal) => refusal.to_string(),
        }
    }

    /// The answer to a question.
    pub(crate) fn ask(&self, question: &str) -> Result<TraceAnswer, TraceRefusal> {
        let mut words = question.split_whitespace().map(str::to_owned);
        let command = match words.next().as_deref() {
            Some("trace") => TraceCommand::Trace,
            _ => TraceCommand::TracePacketOut,
        };
        let arguments: Vec<String> = words.collect();
        let names = Names(self.frozen.as_ref());
        let answered = trace(&self.pipeline, &names, command, &arguments);
        if let (Ok(answer), Some(kept)) = (&answered, &self.frozen) {
            kept.borrow_mut().keep(answer.frozen.clone());
        }
        answered
    }
}
