//! ANT: the pipeline of Antrea on a node of a Kubernetes cluster, 31 tables and 20 traversals.
//!
//! ```text
//!   root ─┬─ ARP spoof guard ── ARP responder
//!         └─ classifier ── spoof guard ── unSNAT ── conntrack zone ══ conntrack state ─┐
//!   ┌──────────────────────────────────────────────────────────────────────────────────┤
//!   ├─ pre-routing: node port mark, session affinity, service LB (group) ── DNAT ══════╡
//!   └─ egress: Antrea policy, policy, default, metric ── L3 forwarding ─┬─ egress mark ─┤
//!   ┌─ L2 forwarding ══ SNAT ══ SNAT mark ── dec TTL ───────────────────┴───────────────┘
//!   └─ traffic control ── ingress: Antrea policy, policy, default, metric ── commit ══ output
//! ```
//!
//! A double line is a pass of the tracker: the packet comes back with what the tracker knows of
//! its connection, and the table behind the line begins another cache entry. The rules use
//!
//! - `ct` in two zones, one for destinations and one for sources, with marks and labels;
//! - `conjunction` of pods, addresses and ports for each network policy;
//! - a `select` group for each service, whose buckets write an endpoint into registers;
//! - `learn` for services with session affinity, which remembers the endpoint of a client;
//! - `resubmit` to three tables in sequence; an ARP responder; `tun_dst` of other nodes.
//!
//! [`Cluster`] has the pods, nodes and services, and draws flows between them: flows of this
//! pipeline cannot be drawn from matches alone, because the tracker and the groups decide which
//! rules are met. The tables of a [`Template`](super::Template) are those that the first packet
//! of a flow may visit, in order; a policy may end the flow or leave some out.
//!
//! Departures from Antrea, in which rules of one table overlap at equal priority: node ports
//! and hairpin connections have priorities of their own (205). Table numbers are ours, because
//! Antrea's come from names.
//!
//! A packet may complete several conjunctive matches of one priority, as in Antrea; which of
//! them counts is open.
//!
//! After *Antrea OVS Pipeline*, antrea.io, version 1.15; sizes as in Zulfiqar et al.,
//! *Gigaflow*, ASPLOS 2025, table 1 (ANT: 22 tables, 20 traversals, of an older layout).

mod arriving;
mod cluster;
mod leaving;
mod policies;
mod tables;
#[cfg(test)]
mod tests;

pub(crate) use cluster::Cluster;

use std::sync::Arc;

use super::Pipeline;
use crate::action::{Action, FieldSlice};
use crate::error::WorkloadError;
use crate::field::Field;
use crate::rule::{Match, Rule};

/// The sizes of an ANT pipeline.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AntConfig {
    /// Number of pods on this node, 1 to 250.
    pub pods: u32,
    /// Number of other nodes, 1 to 16,384.
    pub nodes: u32,
    /// Number of services, 1 to 262,144.
    pub services: u32,
    /// Number of all rules; what the rest leaves is spent on network policies.
    pub rules: usize,
    /// The seed.
    pub seed: u64,
}

/// The least rules that are left for network policies.
const POLICY_RULES_MIN: usize = 4 * policies::RULES_MIN;

impl AntConfig {
    /// Sizes for exactly `rules` rules, from 800 to a million.
    ///
    /// # Errors
    /// When `rules` is outside that range.
    pub fn with_rules(rules: usize, seed: u64) -> Result<Self, WorkloadError> {
        WorkloadError::check("the number of ANT rules", rules as u64, 800, 1_000_000)?;
        Ok(AntConfig {
            pods: (rules / 80).clamp(8, 250) as u32,
            nodes: (rules / 60).clamp(4, 4_096) as u32,
            services: (rules / 20) as u32,
            rules,
            seed,
        })
    }

    /// Generates the pipeline.
    ///
    /// # Errors
    /// When a size is out of range, or too few rules are left for policies.
    pub fn generate(&self) -> Result<Pipeline, WorkloadError> {
        WorkloadError::check("the number of pods", self.pods.into(), 1, 250)?;
        WorkloadError::check("the number of other nodes", self.nodes.into(), 1, 1 << 14)?;
        WorkloadError::check("the number of services", self.services.into(), 1, 1 << 18)?;
        let mut cluster = Cluster::draw(self);
        let mut build = Build {
            rules: Vec::with_capacity(self.rules),
        };
        build.push_arriving(&cluster);
        build.push_services(&cluster);
        build.push_leaving(&cluster);
        let needed = build.rules.len() + policies::fixed_count(&cluster) + POLICY_RULES_MIN;
        let (rules, needed) = (self.rules as u64, needed as u64);
        WorkloadError::check("the number of ANT rules", rules, needed, 1_000_000)?;
        build.push_policies(&mut cluster, self);
        Ok(Pipeline {
            name: "ant".to_owned(),
            tables: tables::tables(),
            templates: tables::templates(),
            ports: cluster.port_numbers(),
            rules: build.rules,
            groups: cluster.groups(),
            cluster: Some(Arc::new(cluster)),
        })
    }
}

/// The rules under construction.
struct Build {
    rules: Vec<Rule>,
}

impl Build {
    fn push(&mut self, table: u8, priority: u16, matches: Match, actions: Vec<Action>) {
        self.rules
            .push(Rule::new(table, priority, matches, actions));
    }

    /// Adds what a table does with packets that no other rule matches.
    fn push_miss(&mut self, table: u8, actions: Vec<Action>) {
        self.push(table, 0, Match::any(), actions);
    }
}

/// Bits of a register: what they say, and which they are.
const SOURCE: (u8, u128) = (0, 0xf);
const DESTINATION: (u8, u128) = (0, 0xf0);
/// Addresses on the Ethernet level must be rewritten.
const REWRITE: (u8, u128) = (0, 0x200);
/// A policy drops the packet.
const REFUSED: (u8, u128) = (0, 0x400);
/// Whether the output port is in register 1.
const OUTPUT: (u8, u128) = (0, 0x60_0000);
/// How far the choice of an endpoint is.
const ENDPOINT: (u8, u128) = (4, 0x7_0000);
/// The packet came to a port of the node.
const NODE_PORT: (u8, u128) = (4, 0x8_0000);
/// A copy goes to the port in register 9.
const MIRRORED: (u8, u128) = (4, 0xc0_0000);

/// Values of [`SOURCE`], and of [`DESTINATION`] in its place.
const TUNNEL: u128 = 1;
const GATEWAY: u128 = 2;
const POD: u128 = 3;

/// Values of [`ENDPOINT`]: to be chosen, chosen, and to be remembered.
const TO_SELECT: u128 = 1;
const SELECTED: u128 = 2;
const TO_LEARN: u128 = 3;

/// The mark of connections to services, of those whose source is translated, and of those
/// that return to the pod they came from.
const SERVICE_MARK: u128 = 0x10;
const SOURCE_MARK: u128 = 0x20;
const HAIRPIN_MARK: u128 = 0x40;

/// The zone of connections, and that of translated sources.
const ZONE: u16 = 65_520;
const SOURCE_ZONE: u16 = 65_521;

/// Flags of `ct_state`.
const NEW: u128 = 0x01;
const ESTABLISHED: u128 = 0x02;
const RELATED: u128 = 0x04;
const REPLY: u128 = 0x08;
const INVALID: u128 = 0x10;
const TRACKED: u128 = 0x20;
const SOURCE_TRANSLATED: u128 = 0x40;

/// Adds the bits of a register to a match.
fn with_bits(matches: Match, (register, mask): (u8, u128), value: u128) -> Match {
    let shifted = value << mask.trailing_zeros();
    matches.with_masked(Field::Register(register), shifted, mask)
}

/// Adds flags of the tracker to a match: those that are set, and those that are not.
fn with_state(matches: Match, set: u128, unset: u128) -> Match {
    matches.with_masked(Field::CtState, set, set | unset)
}

/// Adds a bit of the connection's mark.
fn with_mark(matches: Match, bit: u128) -> Match {
    matches.with_masked(Field::CtMark, bit, bit)
}

/// Writes bits of a register.
fn set_bits((register, mask): (u8, u128), value: u128) -> Action {
    let shifted = value << mask.trailing_zeros();
    Action::SetMasked(Field::Register(register), shifted, mask)
}

/// Writes bits of the connection's mark.
fn set_mark(bits: u128) -> Action {
    Action::SetMasked(Field::CtMark, bits, bits)
}

/// Copies the source's class into the connection's mark.
fn remember_source() -> Action {
    let low = |field| FieldSlice {
        field,
        start: 0,
        count: 4,
    };
    Action::Move(low(Field::Register(0)), low(Field::CtMark))
}
