//! Small random pipelines, hostile packets and changes, for tests of soundness.
//!
//! While [`pipeline`](crate::Pipeline) imitates real pipelines, this module generates unusual
//! ones: rules on any field with any mask, rewrites that later tables match, resubmits, and
//! packets that are truncated, padded, tagged twice or malformed. Rules, rewrites and packets
//! take all values from the same small pools ([`pool`]), so that they do meet: with wide
//! values nearly every packet would miss nearly every rule, and no test would test anything.
//!
//! 1. At no time do two rules of a table overlap at equal priority, which OpenFlow leaves
//!    undefined. Clauses of conjunctive matches do.
//! 2. A switch accepts every rule: fields have their prerequisites, and actions change only
//!    what the match guarantees (or an earlier action pushed).
//! 3. A goto or resubmit leads to a later table, so every walk ends. Only a field with the
//!    value `TABLE` leads back, rarely: such a walk ends where a switch ends it.
//! 4. A draw costs about as much as the text or bytes it makes; retries are bounded.

mod actions;
mod base;
mod broad;
mod conjunctions;
mod conversations;
mod groups;
mod learning;
mod matches;
mod packets;
mod pool;
mod shape;
mod tracking;

pub use conversations::ConversationSource;
pub use groups::{RandomBucket, RandomGroup};
pub use packets::{PacketSource, RandomPacket, truncations};

use rand::Rng;

use crate::changes::{Change, Operation};
use crate::error::WorkloadError;
use crate::field::Field;
use crate::rule::{Rule, rules_text};
use crate::seed::{Random, index_below, stream};

/// The parameters of random pipelines.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RandomConfig {
    /// Number of tables, from 0; 1 to 250.
    pub tables: u8,
    /// Initial number of rules per table; changes keep about as many.
    pub rules_per_table: usize,
    /// Number of ports, from 1; packets come in by these ports.
    pub ports: u32,
    /// The fields that rules may match, besides the EtherType and protocol that those need.
    pub fields: Vec<Field>,
    /// Whether rules rewrite packets and registers.
    pub rewrites: bool,
    /// Whether rules resubmit.
    pub resubmits: bool,
    /// Whether rules also use rarer features: groups, action sets, labels, stacks, reserved
    /// ports, masked writes, and more protocols.
    pub is_broad: bool,
    /// Whether select groups have several buckets with weight; if not, one gets all packets.
    pub selects: bool,
    /// Whether rules learn others from packets.
    pub learns: bool,
    /// Whether rules ask for the length of packets, which then have payloads of many lengths.
    pub checks_length: bool,
    /// Whether rules track connections, and match what the tracker says. The lowest rule of
    /// every table then tracks.
    pub tracks: bool,
    /// Whether some rules are clauses of conjunctive matches, and some match on `conj_id`.
    pub conjoins: bool,
}

impl Default for RandomConfig {
    /// Four tables of eight rules, four ports, every field, rewrites and resubmits.
    fn default() -> Self {
        RandomConfig {
            tables: 4,
            rules_per_table: 8,
            ports: 4,
            fields: RandomConfig::all_fields(),
            rewrites: true,
            resubmits: true,
            is_broad: false,
            selects: false,
            learns: false,
            checks_length: false,
            tracks: false,
            conjoins: false,
        }
    }
}

impl RandomConfig {
    /// Every field that a random rule can match, with registers 0 to 3.
    pub fn all_fields() -> Vec<Field> {
        use Field::*;
        vec![
            InPort,
            Metadata,
            Register(0),
            Register(1),
            Register(2),
            Register(3),
            VlanTci,
            EthSrc,
            EthDst,
            IpSrc,
            IpDst,
            Ipv6Src,
            Ipv6Dst,
            IpDscp,
            IpTtl,
            IpFragment,
            TcpSrc,
            TcpDst,
            TcpFlags,
            UdpSrc,
            UdpDst,
            IcmpType,
            IcmpCode,
            Icmpv6Type,
            Icmpv6Code,
            NdTarget,
            NdSll,
            NdTll,
            ArpOp,
            ArpSpa,
            ArpTpa,
            ArpSha,
            MplsLabel,
        ]
    }

    /// Everything that a random rule can do and match.
    pub fn broad() -> Self {
        use Field::*;
        let rarer = [
            MplsTc, MplsBottom, MplsTtl, IpEcn, Ipv6Label, ArpTha, SctpSrc, SctpDst,
        ];
        let mut fields = RandomConfig::all_fields();
        fields.extend(rarer);
        RandomConfig {
            fields,
            is_broad: true,
            selects: true,
            ..RandomConfig::default()
        }
    }

    /// Every field that a random rule can match, and connections.
    pub fn tracking() -> Self {
        RandomConfig {
            tracks: true,
            ..RandomConfig::default()
        }
    }

    /// Every field that a random rule can match, and conjunctive matches.
    pub fn conjoining() -> Self {
        RandomConfig {
            conjoins: true,
            ..RandomConfig::default()
        }
    }

    fn check(&self) -> Result<(), WorkloadError> {
        WorkloadError::check("the number of tables", self.tables.into(), 1, 250)?;
        WorkloadError::check("rules per table", self.rules_per_table as u64, 1, 10_000)?;
        WorkloadError::check("the number of ports", self.ports.into(), 1, 0xfeff)
    }
}

/// A random pipeline, and an endless source of changes to it.
///
/// ```
/// use thalweg_workload::{PacketSource, RandomConfig, RandomPipeline};
///
/// let config = RandomConfig::default();
/// let mut pipeline = RandomPipeline::new(&config, 7)?;
/// let before = pipeline.rules_text();
/// let change = pipeline.next_change();
/// assert!(!change.operations.is_empty());
/// assert_ne!(pipeline.rules_text(), before);
/// let packet = PacketSource::new(&config, 7).next_packet();
/// assert!((1..=config.ports).contains(&packet.in_port));
/// # Ok::<(), thalweg_workload::WorkloadError>(())
/// ```
pub struct RandomPipeline {
    config: RandomConfig,
    random: Random,
    groups: Vec<RandomGroup>,
    rules: Vec<Rule>,
}

impl RandomPipeline {
    /// Generates the pipeline of a seed.
    ///
    /// # Errors
    /// When a size is out of range.
    pub fn new(config: &RandomConfig, seed: u64) -> Result<Self, WorkloadError> {
        config.check()?;
        let mut pipeline = RandomPipeline {
            config: config.clone(),
            random: stream(seed, "random pipeline"),
            groups: groups::draw_groups(config, seed),
            rules: Vec::with_capacity(config.rules_per_table * usize::from(config.tables)),
        };
        for table in 0..config.tables {
            if config.tracks {
                let base = base::draw_base(&mut pipeline.random, config, table);
                pipeline.rules.extend(base);
            }
            for _ in 0..config.rules_per_table {
                if let Some(rule) = pipeline.draw_rule(table) {
                    pipeline.rules.push(rule);
                }
            }
        }
        Ok(pipeline)
    }

    /// The current rules, in no particular order.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// The groups that rules use, and those that these use; empty unless the pipeline is
    /// broad.
    ///
    /// Changes leave them as they are.
    pub fn groups(&self) -> &[RandomGroup] {
        &self.groups
    }

    /// The current rules, in `ovs-ofctl add-flows` syntax.
    pub fn rules_text(&self) -> String {
        rules_text(&self.rules)
    }

    /// Draws and applies a change: one in four is a bundle of up to five operations.
    pub fn next_change(&mut self) -> Change {
        let several = self.random.random_ratio(1, 4);
        let count = if several {
            self.random.random_range(2..=5_usize)
        } else {
            1
        };
        let mut operations = Vec::with_capacity(count);
        while operations.len() < count {
            // An add can fail for lack of a priority, a delete for lack of a rule; never both.
            operations.extend(self.draw_operation());
        }
        Change {
            position: None,
            operations,
        }
    }

    fn draw_operation(&mut self) -> Option<Operation> {
        let wanted = self.config.rules_per_table * usize::from(self.config.tables);
        // Below the wanted number adds are more likely, above it deletes.
        let adds = self.random.random_range(0..2 * wanted) >= self.rules.len();
        if adds {
            let table = self.random.random_range(0..self.config.tables);
            let rule = self.draw_rule(table)?;
            self.rules.push(rule.clone());
            return Some(Operation::Add(rule));
        }
        if self.rules.is_empty() {
            return None;
        }
        let index = index_below(&mut self.random, self.rules.len());
        if self.random.random_ratio(1, 3) {
            self.redraw_actions(index);
            return Some(Operation::ModifyStrict(self.rules[index].clone()));
        }
        Some(Operation::DeleteStrict(self.rules.swap_remove(index)))
    }

    /// Gives a rule other actions; now and then it becomes a clause, or is none any more.
    fn redraw_actions(&mut self, index: usize) {
        let mut rule = self.rules[index].clone();
        let switches = self.config.conjoins && self.random.random_ratio(1, 4);
        let is_clause = rule.is_clause();
        rule.actions = self.draw_actions_of_kind(index, is_clause != switches);
        let mut others = self.rules.iter().enumerate();
        if others.any(|(other, rival)| other != index && rival.is_ambiguous_with(&rule)) {
            rule.actions = self.draw_actions_of_kind(index, is_clause);
        }
        self.rules[index] = rule;
    }

    fn draw_actions_of_kind(
        &mut self,
        index: usize,
        is_clause: bool,
    ) -> Vec<crate::action::Action> {
        match is_clause {
            true => conjunctions::draw_clause(&mut self.random),
            false => self.draw_actions(self.rules[index].table, index),
        }
    }

    fn draw_actions(&mut self, table: u8, index: usize) -> Vec<crate::action::Action> {
        actions::draw_actions(
            &mut self.random,
            &self.config,
            table,
            &self.rules[index].matches,
        )
    }

    /// Draws a rule that is not ambiguous with the existing ones; rarely `None`.
    fn draw_rule(&mut self, table: u8) -> Option<Rule> {
        let mut rule = match self.config.conjoins && self.random.random_ratio(1, 2) {
            true => conjunctions::draw_rule(&mut self.random, &self.config, table),
            false => self.draw_plain_rule(table),
        };
        // Few priorities, so that order, ties without overlap and shadowing all occur.
        let range = (self.config.rules_per_table as u16).max(4);
        for _ in 0..8 {
            rule.priority = match rule.is_clause() {
                true => conjunctions::draw_priority(&mut self.random, range),
                false => self.random.random_range(0..range),
            };
            if !self
                .rules
                .iter()
                .any(|other| other.is_ambiguous_with(&rule))
            {
                return Some(rule);
            }
        }
        None
    }

    fn draw_plain_rule(&mut self, table: u8) -> Rule {
        let matches = matches::draw_match(&mut self.random, &self.config);
        let actions = actions::draw_actions(&mut self.random, &self.config, table, &matches);
        Rule::new(table, 0, matches, actions)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::action::Action;

    #[test]
    fn no_rules_are_ambiguous_whatever_changes() {
        for seed in 0..20 {
            let mut pipeline = RandomPipeline::new(&RandomConfig::default(), seed).unwrap();
            for _ in 0..50 {
                pipeline.next_change();
                let rules = pipeline.rules();
                for (index, rule) in rules.iter().enumerate() {
                    assert!(
                        !rules[index + 1..]
                            .iter()
                            .any(|other| rule.is_ambiguous_with(other))
                    );
                }
                assert!(rules.len() < 100);
            }
        }
    }

    #[test]
    fn changes_are_what_happened() {
        let mut pipeline = RandomPipeline::new(&RandomConfig::default(), 3).unwrap();
        let mut live: HashSet<Rule> = pipeline.rules().iter().cloned().collect();
        for _ in 0..500 {
            for operation in pipeline.next_change().operations {
                match operation {
                    Operation::Add(rule) => assert!(live.insert(rule)),
                    Operation::DeleteStrict(rule) => assert!(live.remove(&rule)),
                    Operation::ModifyStrict(rule) => {
                        let before = live.len();
                        live.retain(|other| {
                            (other.table, other.priority) != (rule.table, rule.priority)
                                || other.matches != rule.matches
                        });
                        assert_eq!(live.len() + 1, before);
                        live.insert(rule);
                    }
                }
            }
        }
        assert_eq!(live, pipeline.rules().iter().cloned().collect());
    }

    #[test]
    fn walks_end_and_gotos_come_last() {
        for seed in 0..50 {
            let pipeline = RandomPipeline::new(&RandomConfig::default(), seed).unwrap();
            for rule in pipeline.rules() {
                for (index, action) in rule.actions.iter().enumerate() {
                    match action {
                        Action::Goto(next) => {
                            assert!(*next > rule.table && index + 1 == rule.actions.len());
                        }
                        Action::Resubmit(next) => assert!(*next > rule.table),
                        _ => {}
                    }
                }
            }
        }
    }

    #[test]
    fn fields_can_be_left_out() {
        let config = RandomConfig {
            fields: vec![Field::InPort, Field::IpDst],
            rewrites: false,
            resubmits: false,
            ..RandomConfig::default()
        };
        for seed in 0..20 {
            let text = RandomPipeline::new(&config, seed).unwrap().rules_text();
            assert!(
                !text.contains("nw_src") && !text.contains("set_field"),
                "{text}"
            );
            assert!(
                !text.contains("resubmit") && !text.contains("move"),
                "{text}"
            );
        }
    }

    #[test]
    fn the_seed_decides_and_what_it_says_stays() {
        let text = |seed| {
            let mut pipeline = RandomPipeline::new(&RandomConfig::default(), seed).unwrap();
            let mut text = pipeline.rules_text();
            for _ in 0..10 {
                text += &format!("{}\n", pipeline.next_change());
            }
            text
        };
        assert_ne!(text(1), text(2));
        expect_test::expect_file!["random/golden/pipeline_1.txt"].assert_eq(&text(1));
    }
}
