//! Draws flows from traversals and their rules.
//!
//! A flow is made by a walk along a template. At every table one rule that leads to the
//! template's next table is chosen, and its match is added to the requirements of the flow.
//! Its writes are remembered, because later rules match the rewritten packet:
//!
//! ```text
//! known := nothing, written := nothing
//! for table, next in template:
//!     rule := a rule of table that leads to next and agrees with known and written
//!     known += what rule matches and was not written;  written += what rule writes
//! flow := known, the free bits filled from pools
//! ```
//!
//! Rules are found by an index over the table's join fields, so a draw costs the same in a
//! pipeline of a thousand rules as in one of half a million.
//!
//! 1. Templates are served exactly in proportion to their weights: after `n` flows each has
//!    had its share of `n`, give or take one.
//! 2. A flow takes its template's tables up to the access list, whose rules alone may end it
//!    early (see the invariants of [`Pipeline`]). This rests on three properties of the
//!    generated pipelines. Rules of one table with different next tables differ in fields that
//!    the walk has fixed. All routes of a routing instance lead to one table, so an
//!    access-list rule may move a destination address out of the chosen route. And a default
//!    route exists.
//! 3. All flows are different.

use std::collections::{HashMap, HashSet};
use std::net::Ipv4Addr;

use rand::Rng;
use thalweg_packet::wire::{IpProtocol, MacAddress, PacketBuilder};

use crate::action::Action;
use crate::error::WorkloadError;
use crate::field::Field;
use crate::pipeline::{Pipeline, TableRole, Template};
use crate::rule::Rule;
use crate::seed::{Random, pick, stream};

/// An IPv4 flow, or requests for an IPv4 address: the common part of its packets.
///
/// ```
/// use thalweg_workload::Flow;
///
/// let flow = Flow { source_port: 5000, destination_port: 53, ..Flow::default() };
/// assert_eq!(flow.packet(60).len(), 60);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Flow {
    /// The input port of its packets.
    pub in_port: u32,
    /// Ethernet source.
    pub eth_src: MacAddress,
    /// Ethernet destination.
    pub eth_dst: MacAddress,
    /// The VLAN of the outermost tag, if there is one.
    pub vlan: Option<u16>,
    /// The VLAN of a second tag; the first is then a service tag.
    pub inner_vlan: Option<u16>,
    /// IPv4 source.
    pub ip_src: Ipv4Addr,
    /// IPv4 destination.
    pub ip_dst: Ipv4Addr,
    /// IP protocol.
    pub protocol: u8,
    /// TCP or UDP source port; 0 for other protocols.
    pub source_port: u16,
    /// TCP or UDP destination port; 0 for other protocols.
    pub destination_port: u16,
    /// The differentiated services code point, 6 bits.
    pub dscp: u8,
    /// Time to live.
    pub ttl: u8,
    /// Whether its packets are ARP requests of the source for the destination.
    pub is_arp: bool,
}

impl Default for Flow {
    /// UDP from 10.0.0.1 to 20.0.0.1, untagged, input port 1.
    fn default() -> Self {
        Flow {
            in_port: 1,
            eth_src: MacAddress([2, 0, 0, 0, 0, 2]),
            eth_dst: MacAddress([2, 0, 0, 0, 0, 1]),
            vlan: None,
            inner_vlan: None,
            ip_src: Ipv4Addr::new(10, 0, 0, 1),
            ip_dst: Ipv4Addr::new(20, 0, 0, 1),
            protocol: 17,
            source_port: 0,
            destination_port: 0,
            dscp: 0,
            ttl: 64,
            is_arp: false,
        }
    }
}

impl Flow {
    /// The length of a packet whose frame, with its check sequence, has 64 bytes.
    pub const SMALLEST_PACKET_BYTES: usize = 60;

    /// A packet of `length_bytes`, or of its headers if those are longer; the payload is
    /// zeros.
    pub fn packet(&self, length_bytes: usize) -> Vec<u8> {
        let payload_bytes = length_bytes.saturating_sub(self.header_bytes());
        let mut builder = PacketBuilder::ethernet(self.eth_src, self.eth_dst);
        builder = match (self.vlan, self.inner_vlan) {
            (Some(outer), Some(inner)) => builder.service_vlan(outer, 0).vlan(inner, 0),
            (Some(vlan), None) | (None, Some(vlan)) => builder.vlan(vlan, 0),
            (None, None) => builder,
        };
        if self.is_arp {
            let request = builder.arp_request(self.eth_src, self.ip_src, self.ip_dst);
            return request.pad_to(length_bytes).build();
        }
        builder = builder
            .ipv4(self.ip_src, self.ip_dst)
            .ttl(self.ttl)
            .dscp(self.dscp);
        builder = match self.protocol {
            6 => builder.tcp(self.source_port, self.destination_port),
            17 => builder.udp(self.source_port, self.destination_port),
            other => builder.protocol(IpProtocol(other)),
        };
        builder.payload(&vec![0; payload_bytes]).build()
    }

    fn header_bytes(&self) -> usize {
        let tags = usize::from(self.vlan.is_some()) + usize::from(self.inner_vlan.is_some());
        let transport = match self.protocol {
            6 => 20,
            17 => 8,
            _ => 0,
        };
        14 + 4 * tags + 20 + transport
    }
}

/// The properties of the flows to draw.
#[derive(Clone, PartialEq, Debug)]
pub struct FlowConfig {
    /// The number of flows.
    pub count: usize,
    /// The share of flows drawn for an access-list rule; the others meet one only by chance.
    pub acl_share: f64,
    /// The seed.
    pub seed: u64,
}

impl FlowConfig {
    /// `count` flows, half of them drawn for an access-list rule.
    pub const fn new(count: usize, seed: u64) -> Self {
        FlowConfig {
            count,
            acl_share: 0.5,
            seed,
        }
    }
}

/// Draws `config.count` different flows, each with the index of its template.
///
/// # Errors
/// When that many different flows cannot be found.
pub fn draw_flows(
    pipeline: &Pipeline,
    config: &FlowConfig,
) -> Result<Vec<(Flow, usize)>, WorkloadError> {
    let mut source = FlowSource::new(pipeline, config);
    let mut seen = HashSet::with_capacity(config.count);
    let mut flows = Vec::with_capacity(config.count);
    while flows.len() < config.count {
        let template = source.next_template();
        // Most draws succeed, and pools of hosts and ports are wide: a long run of failures
        // means that the flows are used up.
        let fresh = (0..256).find_map(|_| source.draw(template).filter(|flow| seen.insert(*flow)));
        let Some(flow) = fresh else {
            return Err(WorkloadError::TooFewFlows {
                wanted: config.count,
                found: flows.len(),
            });
        };
        flows.push((flow, template));
    }
    Ok(flows)
}

/// An endless source of flows over one pipeline; they may repeat.
pub struct FlowSource<'a> {
    pipeline: &'a Pipeline,
    acl_share: f64,
    index: RuleIndex,
    credits: Vec<i64>,
    random: Random,
}

impl<'a> FlowSource<'a> {
    /// Prepares to draw flows; ignores `config.count`.
    pub fn new(pipeline: &'a Pipeline, config: &FlowConfig) -> Self {
        FlowSource {
            pipeline,
            acl_share: config.acl_share,
            index: RuleIndex::new(pipeline),
            credits: vec![0; pipeline.templates.len()],
            random: stream(config.seed, "flows"),
        }
    }

    /// The template whose turn it is, by smooth weighted round-robin.
    pub fn next_template(&mut self) -> usize {
        let weights = self
            .pipeline
            .templates
            .iter()
            .map(|template| i64::from(template.weight));
        let total: i64 = weights.clone().sum();
        for (credit, weight) in self.credits.iter_mut().zip(weights) {
            *credit += weight;
        }
        let richest = (0..self.credits.len()).max_by_key(|&index| self.credits[index]);
        let richest = richest.expect("a pipeline has templates");
        self.credits[richest] -= total;
        richest
    }

    /// Draws a flow of a template; `None` when the chosen rules exclude each other.
    pub fn draw(&mut self, template: usize) -> Option<Flow> {
        if let Some(cluster) = &self.pipeline.cluster {
            return Some(cluster.draw_flow(template, &mut self.random));
        }
        let Template { tables, ports, .. } = &self.pipeline.templates[template];
        let mut walk = Walk::default();
        if !ports.is_empty() {
            let port = *pick(&mut self.random, ports);
            walk.learn(Field::InPort, port.into(), Field::InPort.full_mask(), false);
        }
        for (place, table) in tables.iter().enumerate() {
            // The last table's rules decide the output port; none is chosen here.
            let Some(next) = tables.get(place + 1) else {
                break;
            };
            if !self.step(&mut walk, *table, *next) {
                return None;
            }
        }
        Some(walk.finish(&mut self.random))
    }

    /// Chooses a rule of `table` that leads to `next`; false when none of a few draws agrees.
    fn step(&mut self, walk: &mut Walk, table: u8, next: u8) -> bool {
        let description = self
            .pipeline
            .table(table)
            .expect("templates name tables that exist");
        let keys = walk.join_keys(&description.joins);
        let is_acl = description.role == TableRole::Acl;
        let can_aim = is_acl && self.index.has(table, Goal::Miss(next), &keys);
        let is_aimed = can_aim && self.random.random_bool(self.acl_share);
        let goals: &[Goal] = match (is_aimed, is_acl) {
            (true, _) => &[Goal::Aimed, Goal::Miss(next)],
            (false, true) => &[Goal::Miss(next), Goal::Leads(next)],
            (false, false) => &[Goal::Leads(next), Goal::Miss(next)],
        };
        for goal in goals {
            for key in keys {
                let Some(candidates) = self.index.lists.get(&(table, *goal, key)) else {
                    continue;
                };
                for _ in 0..4 {
                    let rule = &self.pipeline.rules[*pick(&mut self.random, candidates) as usize];
                    let leads = rule.next_table().is_none_or(|after| after == next);
                    if leads && walk.take(rule, description.role) {
                        return true;
                    }
                }
            }
        }
        false
    }
}

/// The values of a table's join fields; `None` where unknown or not matched.
type JoinKey = (Option<u128>, Option<u128>);

/// The purpose of a rule in a walk.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Goal {
    /// An access-list rule, whether it permits or drops.
    Aimed,
    /// A rule above the lowest priority that leads to a table.
    Leads(u8),
    /// A rule of the lowest priority that leads to a table.
    Miss(u8),
}

/// Rules by table, goal and join fields.
struct RuleIndex {
    lists: HashMap<(u8, Goal, JoinKey), Vec<u32>>,
}

impl RuleIndex {
    fn new(pipeline: &Pipeline) -> Self {
        let mut lists: HashMap<_, Vec<u32>> = HashMap::new();
        for (index, rule) in (0_u32..).zip(&pipeline.rules) {
            let description = pipeline
                .table(rule.table)
                .expect("rules stand in known tables");
            let mut values = description.joins.iter().map(|join| {
                rule.matches
                    .term(*join)
                    .filter(|term| covers_join(*join, term.mask))
            });
            let mut next_value = || values.next().flatten().map(|term| term.value);
            let key = (next_value(), next_value());
            let mut add = |goal, key| {
                lists
                    .entry((rule.table, goal, key))
                    .or_default()
                    .push(index)
            };
            let goal = match rule.next_table() {
                Some(next) if rule.priority == 0 => Some(Goal::Miss(next)),
                Some(next) => Some(Goal::Leads(next)),
                None => None,
            };
            let aimed =
                (description.role == TableRole::Acl && rule.priority > 0).then_some(Goal::Aimed);
            for goal in [goal, aimed].into_iter().flatten() {
                add(goal, key);
                if key.1.is_some() {
                    // For walks that know only the first join field.
                    add(goal, (key.0, None));
                }
            }
        }
        RuleIndex { lists }
    }

    fn has(&self, table: u8, goal: Goal, keys: &[JoinKey]) -> bool {
        keys.iter()
            .any(|key| self.lists.contains_key(&(table, goal, *key)))
    }
}

/// Whether a mask settles a join field; a VLAN does not need its priority bits.
const fn covers_join(join: Field, mask: u128) -> bool {
    let needed = if matches!(join, Field::VlanTci) {
        0x1fff
    } else {
        join.full_mask()
    };
    mask & needed == needed
}

/// The known bits of one field of the arriving packet.
struct Known {
    field: Field,
    value: u128,
    mask: u128,
    /// Bits that come from a route and may still change.
    soft: u128,
}

/// The tag that the packet shows at this point of the walk.
#[derive(Clone, Copy, Default)]
enum Tag {
    #[default]
    Outer,
    Inner,
    Written(u128),
}

/// The source of a field's value at this point of the walk.
enum Origin {
    Constant(u128),
    /// The arriving packet; its second tag is called [`INNER_TAG`].
    Ingress(Field),
}

/// The name under which the second tag is stored; no match uses this field.
const INNER_TAG: Field = Field::VlanVid;

/// The requirements of a flow so far, and the values written on the way.
#[derive(Default)]
struct Walk {
    known: Vec<Known>,
    written: Vec<(Field, u128)>,
    tag: Tag,
}

impl Walk {
    fn origin(&self, field: Field) -> Origin {
        if field == Field::VlanTci {
            return match self.tag {
                Tag::Outer => Origin::Ingress(Field::VlanTci),
                Tag::Inner => Origin::Ingress(INNER_TAG),
                Tag::Written(value) => Origin::Constant(value),
            };
        }
        if let Some((_, value)) = self.written.iter().rev().find(|(name, _)| *name == field) {
            return Origin::Constant(*value);
        }
        match field {
            Field::Register(_) | Field::Metadata => Origin::Constant(0),
            other => Origin::Ingress(other),
        }
    }

    fn known(&self, field: Field) -> (u128, u128) {
        let found = self.known.iter().find(|known| known.field == field);
        found.map_or((0, 0), |known| (known.value, known.mask))
    }

    /// The keys under which rules may be found, the most specific first.
    fn join_keys(&self, joins: &[Field]) -> [JoinKey; 3] {
        let mut values = joins.iter().map(|join| match self.origin(*join) {
            Origin::Constant(value) => Some(value),
            Origin::Ingress(field) => {
                let (value, mask) = self.known(field);
                covers_join(*join, mask).then_some(value)
            }
        });
        let mut next_value = || values.next().flatten();
        let (first, second) = (next_value(), next_value());
        [(first, second), (first, None), (None, None)]
    }

    /// Adds a rule to the walk; leaves the walk unchanged if the rule does not agree with it.
    fn take(&mut self, rule: &Rule, role: TableRole) -> bool {
        let agrees = rule
            .matches
            .terms()
            .iter()
            .all(|term| match self.origin(term.field) {
                Origin::Constant(value) => (value ^ term.value) & term.mask == 0,
                Origin::Ingress(field) => self.known.iter().all(|known| {
                    known.field != field
                        || (known.value ^ term.value) & known.mask & !known.soft & term.mask == 0
                }),
            });
        if !agrees {
            return false;
        }
        for term in rule.matches.terms() {
            if let Origin::Ingress(field) = self.origin(term.field) {
                self.learn(field, term.value, term.mask, role == TableRole::Routing);
            }
        }
        for action in &rule.actions {
            self.apply(action);
        }
        true
    }

    fn learn(&mut self, field: Field, value: u128, mask: u128, is_soft: bool) {
        let place = self.known.iter().position(|known| known.field == field);
        let place = place.unwrap_or_else(|| {
            self.known.push(Known {
                field,
                value: 0,
                mask: 0,
                soft: 0,
            });
            self.known.len() - 1
        });
        let known = &mut self.known[place];
        known.soft = if is_soft {
            known.soft | (mask & !known.mask)
        } else {
            known.soft & !mask
        };
        known.value = (known.value & !mask) | value;
        known.mask |= mask;
    }

    fn apply(&mut self, action: &Action) {
        match *action {
            Action::SetField(Field::VlanVid, value) => self.tag = Tag::Written(value),
            Action::SetField(field, value) => self.written.push((field, value)),
            Action::PushVlan(_) => self.tag = Tag::Written(0x1000),
            Action::PopVlan => self.tag = Tag::Inner,
            Action::WriteMetadata(value, mask) => {
                let old = match self.origin(Field::Metadata) {
                    Origin::Constant(old) => old,
                    Origin::Ingress(_) => unreachable!("metadata starts as a known zero"),
                };
                let new = (old & !u128::from(mask)) | u128::from(value);
                self.written.push((Field::Metadata, new));
            }
            _ => {}
        }
    }

    /// A flow that meets all requirements, with the rest drawn from pools.
    fn finish(&self, random: &mut Random) -> Flow {
        let fill = |field, free: u128| {
            let (value, mask) = self.known(field);
            (free & !mask) | value
        };
        let vlan = |field| {
            let tci = self.known(field).0;
            (tci & 0x1000 != 0).then_some(tci as u16 & 0xfff)
        };
        let ip_dst = fill(
            Field::IpDst,
            u128::from(0x1400_0000 | random.random_range(0..1_u32 << 24)),
        );
        let mut eth_dst = fill(
            Field::EthDst,
            0x0204_0000_0000 | u128::from(random.random::<u16>()),
        );
        if eth_dst >> 24 == 0x01_005e {
            eth_dst = 0x0100_5e00_0000 | (ip_dst & 0x7f_ffff);
        }
        let usual = if random.random_ratio(7, 10) { 17 } else { 6 };
        let protocol = fill(Field::IpProtocol, usual) as u8;
        let (source_port, destination_port) = match protocol {
            6 => (
                fill(Field::TcpSrc, free_port(random)),
                fill(Field::TcpDst, known_port(random)),
            ),
            17 => (
                fill(Field::UdpSrc, free_port(random)),
                fill(Field::UdpDst, known_port(random)),
            ),
            _ => (0, 0),
        };
        let eth_src = 0x0202_0000_0000 | u128::from(random.random_range(0..1_u32 << 24));
        let ip_src = u128::from(0x0a00_0000 | random.random_range(0..1_u32 << 24));
        Flow {
            in_port: fill(Field::InPort, 1) as u32,
            eth_src: MacAddress::from_u64(fill(Field::EthSrc, eth_src) as u64),
            eth_dst: MacAddress::from_u64(eth_dst as u64),
            vlan: vlan(Field::VlanTci),
            inner_vlan: vlan(INNER_TAG),
            ip_src: Ipv4Addr::from(fill(Field::IpSrc, ip_src) as u32),
            ip_dst: Ipv4Addr::from(ip_dst as u32),
            protocol,
            source_port: source_port as u16,
            destination_port: destination_port as u16,
            dscp: fill(Field::IpDscp, 0) as u8,
            ttl: 64,
            is_arp: false,
        }
    }
}

/// A random port of a client.
fn free_port(random: &mut Random) -> u128 {
    random.random_range(1024..=65535_u32).into()
}

/// A random port of a server.
fn known_port(random: &mut Random) -> u128 {
    const PORTS: [u16; 8] = [80, 443, 53, 22, 8080, 3306, 123, 5432];
    u128::from(*pick(random, &PORTS))
}
