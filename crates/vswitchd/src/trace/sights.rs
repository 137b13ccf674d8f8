//! Puts what a walk does into Open vSwitch's words (`ofproto-dpif-xlate.c`).

use thalweg_conntrack::AddressTranslation;
use thalweg_packet::{PortId, standard as f};
use thalweg_pipeline::text::{
    PortSpelling, print_actions, print_match, print_subfield, print_translation, print_value,
};
use thalweg_pipeline::{
    Action, BridgeId, Bucket, Continuation, DropReason, ExpiredTtl, Flow, Match, NormalSight,
    Observer, Output, Pipeline, RuleId, SeenFields, Sight, Subfield, TableId,
};

use super::mask::Examined;
use super::names::TraceNames;
use super::nodes::{NodeKind, Nodes};
use crate::datapath_text::FieldBits;

/// The line for a `conjunction` that is executed.
const IDLE_CONJUNCTION: &str = "executing no-op conjunction action";

/// The line for a resubmit with the tuple of a connection that does not exist.
const NO_TUPLE: &str = "resubmit(ct) with non-tracked or non-IP packet!";

/// Collects the lines of a trace.
pub(super) struct Narrator<'a> {
    pub(super) pipeline: &'a Pipeline,
    pub(super) names: &'a dyn TraceNames,
    pub(super) ports: PortSpelling<'a>,
    /// The bridge where the packet came in.
    pub(super) bridge: BridgeId,
    /// Whether there is a packet, from which bridges learn.
    pub(super) has_packet: bool,
    pub(super) nodes: Nodes,
    /// The fields at the end.
    pub(super) last: FieldBits,
    /// The packet's queue at the end.
    pub(super) queue: u32,
    /// The bound that was met.
    pub(super) failure: Option<DropReason>,
    pub(super) examined: Examined,
    /// The field that the last action sets, if it is a `set_field`.
    field_set: String,
    pub(super) set_output: SetOutput,
    /// The copies that go on with what a tracker says.
    pub(super) forks: Vec<Fork>,
    /// Whether the next `goto_table` is that of a copy that goes on in a table.
    skips_goto: bool,
    /// How the next tracker translates.
    translation: Option<AddressTranslation>,
}

/// A copy of the packet that is looked up again once a tracker has seen it.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Fork {
    /// Its fields.
    pub(super) key: FieldBits,
    pub(super) zone: u16,
    /// The index of the rest of its walk.
    pub(super) continuation: usize,
    /// How its addresses are translated.
    pub(super) translation: Option<AddressTranslation>,
}

/// What an action set says of the output, which Open vSwitch keeps as a field.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct SetOutput {
    output: Option<Output>,
    has_group: bool,
    /// The nesting of the clone that the walk is in.
    clone: Option<u32>,
}

impl SetOutput {
    /// Whether the field differs from its first value.
    pub(super) fn is_set(&self) -> bool {
        self.output.is_some()
    }

    fn note(&mut self, action: &Action) {
        match action {
            Action::WriteActions(list) => {
                for action in list.iter() {
                    match action {
                        _ if self.has_group => break,
                        Action::Output(output) => self.output = Some(output.clone()),
                        Action::Group(_) => (self.output, self.has_group) = (None, true),
                        _ => {}
                    }
                }
            }
            Action::ClearActions => (self.output, self.has_group) = (None, false),
            _ => {}
        }
    }
}

impl<'a> Narrator<'a> {
    /// Begins the trace of a packet that comes into a bridge.
    pub(super) fn new(
        pipeline: &'a Pipeline,
        names: &'a dyn TraceNames,
        ports: PortSpelling<'a>,
        bridge: BridgeId,
        has_packet: bool,
    ) -> Narrator<'a> {
        let mut nodes = Nodes::default();
        let text = format!("bridge(\"{}\")", names.bridge_name(bridge));
        nodes.open_copy(0, NodeKind::Bridge, text);
        Narrator {
            pipeline,
            names,
            ports,
            bridge,
            has_packet,
            nodes,
            last: FieldBits::default(),
            queue: 0,
            failure: None,
            examined: Examined::default(),
            field_set: String::new(),
            set_output: SetOutput::default(),
            forks: Vec::new(),
            skips_goto: false,
            translation: None,
        }
    }

    /// Tells that a walk goes on that an earlier trace froze.
    pub(super) fn thaw(&mut self, continuation: &Continuation) {
        let lists = continuation.lists.iter();
        let number = lists.clone().next().map_or(0, |list| list.table.number());
        // What a tracker has seen goes on in a table, without actions.
        let (number, lists) = match continuation.lists.last().map(|list| &*list.actions) {
            Some([Action::Goto(table)]) => {
                self.skips_goto = true;
                (table.number(), [].iter())
            }
            _ => (number, lists),
        };
        let mut say = |text: String| self.nodes.say(0, NodeKind::Action, text);
        say("thaw".to_owned());
        say(format!("    Resuming from table {number}"));
        let ports = PortSpelling::numbers(self.pipeline);
        let actions = lists.map(|list| print_actions(&list.actions, &Match::default(), ports));
        let actions: Vec<String> = actions.collect();
        if !actions.is_empty() {
            say(format!("    Restoring actions: {}", actions.join(",")));
        }
    }

    fn table(&mut self, nesting: u32, table: TableId, rule: Option<RuleId>, to_controller: bool) {
        let number = table.number();
        let flow = rule.and_then(|rule| self.pipeline.flow_of(rule));
        let what = match flow {
            Some(flow) => {
                let mut text = print_match(&flow.matching, self.ports);
                if !text.is_empty() {
                    text.push_str(", ");
                }
                text += &format!("priority {}", flow.priority);
                if flow.cookie != 0 {
                    text += &format!(", cookie {:#x}", flow.cookie);
                }
                text
            }
            None => self.missing(table, to_controller).to_owned(),
        };
        self.nodes
            .open_table(nesting, format!("{number:2}. {what}"));
        if rule.is_none() {
            let action = match to_controller {
                true => "controller(reason=)",
                false => "drop",
            };
            self.nodes.say(nesting, NodeKind::Action, action.to_owned());
        }
    }

    /// A table that drops a fragment, which Open vSwitch does by a hidden rule.
    fn fragment(&mut self, nesting: u32, table: TableId) {
        let what = match table.bridge() == self.bridge {
            true => "Packets are IP fragments and the fragment handling mode is \"drop\".",
            false => "reg0=0x3, priority 0",
        };
        let text = format!("{:2}. {what}", table.number());
        self.nodes.open_table(nesting, text);
        self.nodes.say(nesting, NodeKind::Action, "drop".to_owned());
    }

    /// What Open vSwitch says without a rule. In another bridge than the first it prints the
    /// hidden rule that stands for none.
    fn missing(&self, table: TableId, to_controller: bool) -> &'static str {
        match (table.bridge() == self.bridge, to_controller) {
            (true, false) => "No match.",
            (true, true) => "No match, and a \"packet-in\" is called for.",
            (false, false) => "reg0=0x2, priority 0",
            (false, true) => "reg0=0x1, priority 0",
        }
    }

    fn action(&mut self, nesting: u32, action: &Action, fields: SeenFields<'_>) {
        if self.set_output.clone.is_none() && !self.nodes.is_in_copy(nesting) {
            self.set_output.note(action);
        }
        let text = print_actions(std::slice::from_ref(action), &packet(fields), self.ports);
        self.field_set = match text.starts_with("set_field:") {
            true => text.rsplit("->").next().unwrap_or_default().to_owned(),
            false => String::new(),
        };
        self.nodes.say(nesting, NodeKind::Action, text);
        if let Action::Clone(_) = action {
            self.set_output.clone.get_or_insert(nesting);
        }
    }

    fn action_set(&self, verb: &str, set: &[Action], fields: SeenFields<'_>) -> String {
        if set.is_empty() {
            return format!("action set {verb} empty");
        }
        // Ports have no names here, as in Open vSwitch.
        let ports = PortSpelling::numbers(self.pipeline);
        let actions = print_actions(set, &packet(fields), ports);
        format!("action set {verb}: {actions}")
    }

    fn normal(&self, sight: NormalSight) -> Option<String> {
        let text = match sight {
            NormalSight::Disallowed { .. } => "disallowed VLAN VID for this input port, dropping",
            NormalSight::FromMirror => "input port is mirror output port, dropping",
            NormalSight::BehindMirror => "learned port is a mirror port, dropping",
            NormalSight::Reserved => "packet has reserved destination MAC, dropping",
            NormalSight::Forwards => "forwarding to learned port",
            NormalSight::InputPort => "learned port is input port, dropping",
            NormalSight::Unknown | NormalSight::Multicast => {
                "no learned MAC for destination, flooding"
            }
            NormalSight::Learns { station, port } => {
                return self.has_packet.then(|| {
                    let mac = thalweg_packet::wire::MacAddress::from_u64(station.mac);
                    let (port, vlan) = (self.port_name(port), station.vlan);
                    format!("learned that {mac} is on port {port} in VLAN {vlan}")
                });
            }
        };
        Some(text.to_owned())
    }

    fn port_name(&self, port: PortId) -> String {
        let name = self.names.port_name(port);
        name.unwrap_or_else(|| (port.0 & 0xffff).to_string())
    }

    /// A port without its name.
    fn spelt(&self, port: PortId) -> String {
        let action = Action::Output(Output::Enqueue { port, queue: 0 });
        let ports = PortSpelling::numbers(self.pipeline);
        let text = print_actions(&[action], &Match::default(), ports);
        let text = text.trim_start_matches("enqueue:");
        text.trim_end_matches(":0").to_owned()
    }

    fn mirror_refusal(&self, fields: SeenFields<'_>) -> String {
        let port = self.port_name(PortId(fields.get(f::IN_PORT) as u32));
        format!(
            "dropping packet received on port {port}, which is reserved exclusively for mirroring"
        )
    }

    /// Notes a copy that goes on with what a tracker says, and tells of it.
    fn fork(
        &mut self,
        (table, zone, continuation): (TableId, u16, usize),
        fields: SeenFields<'_>,
    ) -> String {
        self.forks.push(Fork {
            key: FieldBits::read_words(fields.layout(), fields.words()),
            zone,
            continuation,
            translation: self.translation.take(),
        });
        format!(
            "A clone of the packet is forked to recirculate. The forked pipeline will be resumed \
             at table {}.",
            table.number()
        )
    }

    /// A rule that the packet teaches, if there is a packet.
    fn taught(&self, flow: &Flow) -> (NodeKind, String) {
        if !self.has_packet {
            let text = "suppressing side effects, so learn action ignored";
            return (NodeKind::Warning, text.to_owned());
        }
        // Ports have no names here, as in Open vSwitch.
        let ports = PortSpelling::numbers(self.pipeline);
        let mut text = format!("table={}", flow.table.number());
        let matching = print_match(&flow.matching, ports);
        if !matching.is_empty() {
            text += &format!(" {matching}");
        }
        text += &format!(" priority={}", flow.priority);
        if flow.cookie != 0 {
            text += &format!(" cookie={:#x}", flow.cookie);
        }
        if flow.idle_timeout_s != 0 {
            text += &format!(" idle={}", flow.idle_timeout_s);
        }
        if flow.hard_timeout_s != 0 {
            text += &format!(" hard={}", flow.hard_timeout_s);
        }
        if flow.reports_removal {
            text += " send_flow_rem";
        }
        let actions = print_actions(&flow.actions, &flow.matching, ports);
        (NodeKind::Detail, text + " actions=" + &actions)
    }

    fn dead_bucket(&self, bucket: &Bucket) -> String {
        let port = bucket
            .watch_port
            .map(|port| format!("port {}", self.spelt(port)));
        // Open vSwitch calls the group a port too.
        let group = bucket
            .watch_group
            .map(|group| format!("port {}", group.number()));
        let watched: Vec<String> = port.into_iter().chain(group).collect();
        let watched = watched.join(" and ");
        format!("bucket {}: not live due to {watched}", bucket.id)
    }

    fn written(&self, bits: &Subfield, fields: SeenFields<'_>) -> String {
        let packet = packet(fields);
        let mut value = 0;
        let mut place = 0;
        for slice in &bits.slices {
            let ones = u128::MAX >> (128 - slice.width_bits);
            value |= (fields.get(slice.field) >> slice.offset & ones) << place;
            place += slice.width_bits;
        }
        let name = print_subfield(bits, &packet);
        format!(
            "{name} is now {}",
            print_value(bits, value, &packet, self.ports)
        )
    }
}

impl Observer for Narrator<'_> {
    const OBSERVES: bool = true;

    // One match: each sight has its words.
    fn see(&mut self, sight: &Sight<'_>, nesting: u32, fields: SeenFields<'_>) {
        if self.set_output.clone.is_some_and(|clone| nesting <= clone) {
            self.set_output.clone = None;
        }
        self.examined.see(sight, fields);
        if let Sight::Translates(translation) = sight {
            self.translation = Some((*translation).clone());
        }
        let (kind, text) = match *sight {
            Sight::Bridge(bridge) => {
                let text = format!("bridge(\"{}\")", self.names.bridge_name(bridge));
                return self.nodes.open_copy(nesting, NodeKind::Bridge, text);
            }
            Sight::Table {
                table,
                rule,
                to_controller,
            } => return self.table(nesting, table, rule, to_controller),
            Sight::Fragment(table) => return self.fragment(nesting, table),
            // The walk goes on in a table, which its line says.
            Sight::Action(action) if self.skips_goto => {
                self.skips_goto = !matches!(action, Action::Goto(_));
                return;
            }
            Sight::Action(action) | Sight::Exec(action) => {
                return self.action(nesting, action, fields);
            }
            Sight::ActionSet => {
                let text = "--. Executing action set:".to_owned();
                return self.nodes.open_action_set(nesting, text);
            }
            Sight::Bucket(bucket) => {
                let text = format!("bucket {}", bucket.id);
                return self.nodes.open_copy(nesting + 1, NodeKind::Bucket, text);
            }
            Sight::End { queue } => {
                self.queue = queue;
                return self.last = FieldBits::read_words(fields.layout(), fields.words());
            }
            Sight::Normal(sight) => match self.normal(sight) {
                Some(text) if is_warning(sight) => (NodeKind::Warning, text),
                Some(text) => (NodeKind::Detail, text),
                None => return,
            },
            Sight::FromMirror => (NodeKind::Error, self.mirror_refusal(fields)),
            Sight::KeptApart => (
                NodeKind::Warning,
                "Flow is between protected ports, skipping output.".to_owned(),
            ),
            Sight::Failed(bound) => {
                self.failure = Some(bound);
                (NodeKind::Error, said_of(bound))
            }
            Sight::Teaches(flow) => self.taught(flow),
            Sight::EmptyList => (NodeKind::Action, "drop".to_owned()),
            Sight::ActionSetIs(set) => (NodeKind::Detail, self.action_set("is", set, fields)),
            Sight::ActionSetWas(set) => (NodeKind::Detail, self.action_set("was", set, fields)),
            Sight::Written(bits) => (NodeKind::Detail, self.written(bits, fields)),
            Sight::IdleConjunction => (NodeKind::Error, IDLE_CONJUNCTION.to_owned()),
            Sight::EmptyStack => (NodeKind::Error, "stack underflow".into()),
            Sight::NotWritten(_) if self.field_set.is_empty() => return,
            Sight::NotWritten(_) => {
                let field = &self.field_set;
                let text = format!("unmet prerequisites for {field}, set_field ignored");
                (NodeKind::Warning, text)
            }
            Sight::QueueIs(queue) => (NodeKind::Detail, format!("queue = {queue}")),
            Sight::OutputTo(number) if number > u16::MAX.into() => {
                let text = format!("output port {number} is out of range");
                (NodeKind::Warning, text)
            }
            Sight::OutputTo(number) => (NodeKind::Detail, format!("output port is {number}")),
            Sight::SkipsInputPort => (
                NodeKind::Warning,
                "skipping output to input port".to_owned(),
            ),
            Sight::NotCut(port) => {
                let spelt = self.spelt(port);
                let text = format!("output_trunc does not support patch port {spelt}");
                (NodeKind::Error, text)
            }
            Sight::NoTuple => (NodeKind::Error, NO_TUPLE.to_owned()),
            Sight::NoSuchPort => (NodeKind::Warning, "Nonexistent output port".to_owned()),
            Sight::PortForwardsNothing => {
                let text = "OFPPC_NO_FWD set, skipping output".to_owned();
                (NodeKind::Warning, text)
            }
            Sight::NoSuchGroup(group) => {
                let text = format!("output to nonexistent group {}", group.number());
                (NodeKind::Warning, text)
            }
            Sight::DeadBucket(bucket) => (NodeKind::Detail, self.dead_bucket(bucket)),
            Sight::Chosen(Some(bucket)) => {
                (NodeKind::Detail, format!("using bucket {}", bucket.id))
            }
            Sight::Translates(translation) => (NodeKind::Action, print_translation(translation)),
            Sight::Forked {
                table,
                zone,
                continuation,
            } => {
                let text = self.fork((table, zone, continuation), fields);
                (NodeKind::Detail, text)
            }
            Sight::Untracked => {
                self.translation = None;
                let text = "Sets the packet to an untracked state, and clears all the conntrack \
                            fields.";
                (NodeKind::Detail, text.to_owned())
            }
            Sight::Chosen(None) => (NodeKind::Detail, "no live bucket".to_owned()),
            Sight::TtlExpired(ttl) => (NodeKind::Warning, ttl_expired(ttl, fields)),
        };
        self.nodes.say(nesting, kind, text);
    }
}

fn ttl_expired(ttl: ExpiredTtl, fields: SeenFields<'_>) -> String {
    let protocol = match (ttl, fields.get(f::ETH_TYPE)) {
        (ExpiredTtl::Label, _) => "MPLS",
        (ExpiredTtl::Service, _) => "NSH",
        (ExpiredTtl::Ip, 0x0800) => "IPv4",
        (ExpiredTtl::Ip, _) => "IPv6",
    };
    format!("{protocol} decrement TTL exception")
}

/// What the spelling of actions depends on.
fn packet(fields: SeenFields<'_>) -> Match {
    let catalogue = f::fields();
    let of_kind = [
        f::ETH_TYPE,
        f::IP_PROTO,
        f::IP_FRAG,
        f::VLAN_TCI,
        f::ICMP_TYPE,
        f::ICMP_CODE,
    ];
    let mut packet = Match::default();
    for field in of_kind {
        let ones = u128::MAX >> (128 - catalogue[field.index()].width_bits);
        // Each field occurs once.
        let _ = packet.add(field, fields.get(field), ones);
    }
    packet
}

/// The line for a bound that was met.
fn said_of(bound: DropReason) -> String {
    use thalweg_pipeline::interpret::{MAX_DEPTH, MAX_LOOKUPS};
    match bound {
        DropReason::RecursionTooDeep => format!("over max translation depth {MAX_DEPTH}"),
        DropReason::TooManyLookups => format!("over {MAX_LOOKUPS} resubmit actions"),
        DropReason::StackTooDeep => "resubmits yielded over 64 kB of stack".to_owned(),
        _ => "over the budget of work for a packet".to_owned(),
    }
}

/// Why a translation failed.
pub(super) fn failure_text(bound: DropReason) -> &'static str {
    match bound {
        DropReason::RecursionTooDeep => "Recursion too deep",
        DropReason::TooManyLookups => "Too many resubmits",
        DropReason::StackTooDeep => "Stack too deep",
        _ => "Too much work",
    }
}

/// Whether Open vSwitch warns of what `normal` found.
fn is_warning(sight: NormalSight) -> bool {
    matches!(
        sight,
        NormalSight::Disallowed { .. } | NormalSight::FromMirror | NormalSight::BehindMirror
    )
}
