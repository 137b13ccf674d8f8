//! ANT's tables of network policies: conjunctive matches of pods, addresses and ports.
//!
//! A policy is a rule for its id, a clause for each of its pods, addresses and ports, and a
//! rule that counts its packets. Policies that name the same share the clause, so that no two
//! rules of a priority have the same match. Policies of Kubernetes allow, and what remains of
//! the packets of their pods is dropped; policies of Antrea have priorities, and one in three
//! drops.

use std::collections::HashMap;

use rand::Rng;

use super::arriving::{commit, to_port};
use super::cluster::{Cluster, Pod, SERVER_PORTS, Target};
use super::tables::*;
use super::{
    AntConfig, Build, ESTABLISHED, NEW, REFUSED, RELATED, TRACKED, ZONE, set_bits, with_bits,
    with_state,
};
use crate::action::{Action, FieldSlice};
use crate::field::{Field, prefix_mask};
use crate::rule::{Match, Rule};
use crate::seed::{Random, pick, stream};

/// The most rules of a policy beside its addresses: its id, its metric, pods and ports.
const RULES_BESIDE: usize = 2 + 3 + 3;
/// The least rules left for which a policy is made; fewer are more addresses of the last one.
pub(super) const RULES_MIN: usize = RULES_BESIDE + 4;
/// The most addresses of a policy.
const ADDRESSES_MAX: usize = 24;

/// Priorities of Kubernetes' clauses and ids, and the first of Antrea's.
const CLAUSES: u16 = 200;
const IDS: u16 = 190;
const FIRST_ANTREA: u16 = 14_000;
/// The number of Antrea's priorities.
const ANTREA_PRIORITIES: u16 = 900;
/// Above all policies.
const TOP: u16 = 64_990;

/// Addresses that fill up the last policy, one after the other.
const FILLING: u32 = 0x6440_0000;

/// The policies of one table.
struct Direction {
    table: u8,
    is_egress: bool,
    is_antrea: bool,
    metric: u8,
}

const DIRECTIONS: [Direction; 4] = [
    Direction {
        table: ANTREA_EGRESS,
        is_egress: true,
        is_antrea: true,
        metric: EGRESS_METRIC,
    },
    Direction {
        table: EGRESS,
        is_egress: true,
        is_antrea: false,
        metric: EGRESS_METRIC,
    },
    Direction {
        table: ANTREA_INGRESS,
        is_egress: false,
        is_antrea: true,
        metric: INGRESS_METRIC,
    },
    Direction {
        table: INGRESS,
        is_egress: false,
        is_antrea: false,
        metric: INGRESS_METRIC,
    },
];

/// Shares of the policies' rules, in the order of [`DIRECTIONS`], in a hundred.
const SHARES: [usize; 4] = [15, 30, 15, 40];

/// Whether Kubernetes' policies choose the pod: three in ten.
fn is_isolated(pod: &Pod) -> bool {
    pod.index % 10 < 3
}

/// The number of rules of these tables that belong to no policy.
pub(super) fn fixed_count(cluster: &Cluster) -> usize {
    let isolated = cluster.pods.iter().filter(|pod| is_isolated(pod)).count();
    2 * isolated + 2 * 6
}

/// The part of a clause on pods: its match, and which pod.
fn of_pod(direction: &Direction, pod: &Pod) -> Match {
    match direction.is_egress {
        true => Match::ipv4().with(Field::IpSrc, pod.ip),
        false => Match::ipv4().with(Field::Register(1), pod.port),
    }
}

fn of_address(direction: &Direction, address: u32, length: u32) -> Match {
    let field = match direction.is_egress {
        true => Field::IpDst,
        false => Field::IpSrc,
    };
    Match::ipv4().with_prefix(field, address, length)
}

impl Build {
    /// Adds all policies, so that the pipeline has as many rules as asked for.
    pub(super) fn push_policies(&mut self, cluster: &mut Cluster, config: &AntConfig) {
        for direction in [&DIRECTIONS[0], &DIRECTIONS[2]] {
            self.push_frame(direction, cluster);
        }
        let rest = config.rules - self.rules.len();
        let mut left = rest;
        let mut id = 1;
        let mut random = stream(config.seed, "policies");
        for (number, (direction, share)) in DIRECTIONS.iter().zip(SHARES).enumerate() {
            let count = match number {
                3 => left,
                _ => rest * share / 100,
            };
            left -= count;
            let mut policies = Policies {
                direction,
                rules: Vec::with_capacity(count),
                places: HashMap::new(),
                id,
            };
            policies.fill(count, cluster, &mut random);
            id = policies.id;
            self.rules.extend(policies.rules);
        }
    }

    /// Adds the rules around the policies of a direction.
    fn push_frame(&mut self, direction: &Direction, cluster: &Cluster) {
        let (first, metric) = (direction.table, direction.metric);
        for state in [ESTABLISHED, RELATED] {
            // A packet of a related connection may be of an established one.
            let known = with_state(Match::ipv4(), state | TRACKED, NEW);
            let priority = TOP - u16::from(state == RELATED);
            self.push(first, priority, known, vec![Action::Goto(metric)]);
        }
        self.push_miss(first, vec![Action::Goto(first + 1)]);
        self.push_miss(first + 1, vec![Action::Goto(first + 2)]);
        for pod in cluster.pods.iter().filter(|pod| is_isolated(pod)) {
            self.push(first + 2, 200, of_pod(direction, pod), vec![]);
        }
        self.push_miss(first + 2, vec![Action::Goto(metric)]);
        let next = match direction.is_egress {
            true => L3_FORWARDING,
            false => CONNTRACK_COMMIT,
        };
        self.push_miss(metric, vec![Action::Goto(next)]);
    }
}

/// The policies of a table under construction.
struct Policies<'a> {
    direction: &'a Direction,
    rules: Vec<Rule>,
    /// Where the clauses are.
    places: HashMap<(u16, Match), usize>,
    /// The next id.
    id: u32,
}

/// What a policy is made of.
struct Policy {
    id: u32,
    priority: u16,
    dimensions: u8,
}

impl Policies<'_> {
    /// Adds policies until there are `count` rules.
    fn fill(&mut self, count: usize, cluster: &mut Cluster, random: &mut Random) {
        let mut last = None;
        while count - self.rules.len() >= RULES_MIN || last.is_none() {
            last = Some(self.push_policy(count - self.rules.len(), cluster, random));
        }
        let last = last.expect("one was made");
        for address in (FILLING..).take(count - self.rules.len()) {
            let clause = of_address(self.direction, address, 32);
            self.push_clause(&last, clause, 2);
        }
    }

    /// Adds a policy of at most `left` rules.
    fn push_policy(&mut self, left: usize, cluster: &mut Cluster, random: &mut Random) -> Policy {
        let has_ports = random.random_ratio(2, 3);
        let priority = match self.direction.is_antrea {
            true => FIRST_ANTREA + random.random_range(0..ANTREA_PRIORITIES),
            false => CLAUSES,
        };
        let policy = Policy {
            id: self.id,
            priority,
            dimensions: 2 + u8::from(has_ports),
        };
        self.id += 1;
        let mut pods = Vec::new();
        for _ in 0..random.random_range(1..=3) {
            let pod = *pick(random, &cluster.pods);
            // Antrea's policies choose any pod.
            let pod = match is_isolated(&pod) || self.direction.is_antrea {
                true => pod,
                false => cluster.pods[(pod.index / 10 * 10) as usize],
            };
            self.push_clause(&policy, of_pod(self.direction, &pod), 1);
            pods.push(pod.index);
        }
        let mut ports = Vec::new();
        for _ in 0..random.random_range(1..=3) * u32::from(has_ports) {
            let protocol = if random.random_ratio(3, 4) { 6 } else { 17 };
            let port = *pick(random, &SERVER_PORTS);
            let clause = to_port(protocol, port);
            let field = [Field::UdpDst, Field::TcpDst][usize::from(protocol == 6)];
            let clause = match random.random_ratio(1, 5) {
                true => clause.with_masked(field, port, 0xfff0),
                false => clause,
            };
            self.push_clause(&policy, clause, 3);
            ports.push((protocol, port));
        }
        let most = ADDRESSES_MAX.min(left - RULES_BESIDE);
        for _ in 0..random.random_range(2..=most) {
            let (address, length) = draw_address(cluster, random);
            let clause = of_address(self.direction, address, length);
            self.push_clause(&policy, clause, 2);
            cluster.targets.push(Target {
                is_egress: self.direction.is_egress,
                pod: *pick(random, &pods),
                address,
                length,
                port: has_ports.then(|| *pick(random, &ports)),
            });
        }
        let drops = self.direction.is_antrea && random.random_ratio(1, 3);
        self.push_verdict(&policy, drops);
        policy
    }

    /// Adds a clause, or another action to the one that is there.
    fn push_clause(&mut self, policy: &Policy, matches: Match, dimension: u8) {
        let clause = Action::Conjunction(policy.id, dimension, policy.dimensions);
        let place = *self
            .places
            .entry((policy.priority, matches.clone()))
            .or_insert(self.rules.len());
        match self.rules.get_mut(place) {
            Some(rule) if rule.actions.contains(&clause) => {}
            Some(rule) => rule.actions.push(clause),
            None => {
                let table = self.direction.table;
                let rule = Rule::new(table, policy.priority, matches, vec![clause]);
                self.rules.push(rule);
            }
        }
    }

    /// Adds the rules for the policy's id: what becomes of its packets, and what counts them.
    fn push_verdict(&mut self, policy: &Policy, drops: bool) {
        let Direction { table, metric, .. } = *self.direction;
        let id = u128::from(policy.id);
        let priority = match self.direction.is_antrea {
            true => policy.priority,
            false => IDS,
        };
        let matches = Match::ipv4().with(Field::ConjId, policy.id);
        // The upper bits are of the sender's policy, the lower of the receiver's.
        let label = FieldSlice {
            field: Field::CtLabel,
            start: 32 * u32::from(self.direction.is_egress),
            count: 32,
        };
        let (actions, counted, next) = if drops {
            let actions = vec![
                Action::SetField(Field::Register(3), id),
                set_bits(REFUSED, 1),
                Action::Goto(metric),
            ];
            let counted = with_bits(Match::any(), REFUSED, 1).with(Field::Register(3), policy.id);
            (actions, counted, vec![])
        } else {
            let exec = vec![Action::Load(policy.id.into(), label)];
            let actions = vec![
                Action::SetField(Field::Register(5), id),
                commit(ZONE, metric, None, exec),
            ];
            let new = with_state(Match::ipv4(), NEW, 0);
            let mask = u128::from(u32::MAX) << label.start;
            let counted = new.with_masked(Field::CtLabel, id << label.start, mask);
            let counted = with_bits(counted, REFUSED, 0);
            let next = match self.direction.is_egress {
                true => L3_FORWARDING,
                false => CONNTRACK_COMMIT,
            };
            (actions, counted, vec![Action::Goto(next)])
        };
        self.rules
            .push(Rule::new(table, priority, matches, actions));
        self.rules.push(Rule::new(metric, 200, counted, next));
    }
}

/// An address or a block that a policy names, and the length of its prefix.
fn draw_address(cluster: &Cluster, random: &mut Random) -> (u32, u32) {
    let (address, length) = match random.random_range(0..10) {
        0..4 => (cluster.remote_pod(random), 32),
        4..6 => (cluster.remote_pod(random), 24),
        _ => {
            let length = *pick(random, &[16, 20, 22, 24, 24, 28, 32, 32]);
            (Cluster::external(random), length)
        }
    };
    (address & prefix_mask(length, 32) as u32, length)
}
