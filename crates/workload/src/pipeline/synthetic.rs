//! A pipeline of any depth.
//!
//! The first table sorts packets by port into traversals, whose number it writes into the
//! metadata; the last sends them out. Each table between has one subject, in turn: Ethernet
//! source, Ethernet destination, IPv4 source, IPv4 destination, an access list, UDP
//! destination port. A traversal visits the first table, a random half of the middle ones, and
//! the last. Every rule matches the metadata. So the traversals share tables but not rules,
//! and a packet's traversal depends on its port alone.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use rand::Rng;

use super::network::{AclSpec, HOST_MAC, draw_acl, draw_routes};
use super::{Pipeline, Table, TableRole, Template, table, template};
use crate::action::Action;
use crate::classbench::Profile;
use crate::error::WorkloadError;
use crate::field::Field;
use crate::rule::{Match, Rule};
use crate::seed::stream;

/// The sizes of a synthetic pipeline.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SyntheticConfig {
    /// Number of tables, 3 to 250.
    pub tables: u8,
    /// Number of traversals, 1 to 200, and at most the number of subsets of the middle tables.
    pub traversals: u8,
    /// Total number of rules.
    pub rules: usize,
    /// The seed.
    pub seed: u64,
}

/// The subject of a middle table.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Subject {
    EthSrc,
    EthDst,
    IpSrc,
    IpDst,
    Acl,
    UdpDst,
}

const SUBJECTS: [Subject; 6] = [
    Subject::EthSrc,
    Subject::EthDst,
    Subject::IpSrc,
    Subject::IpDst,
    Subject::Acl,
    Subject::UdpDst,
];

/// Number of ports that lead to each traversal.
const PORTS_PER_TRAVERSAL: u32 = 2;
/// The first input port. The output port of all traversals is one above the input ports.
const FIRST_PORT: u32 = 1;

/// The input ports of traversal `number`, which counts from 1.
fn ports_of(number: u32) -> impl Iterator<Item = u32> {
    let first = FIRST_PORT + (number - 1) * PORTS_PER_TRAVERSAL;
    first..first + PORTS_PER_TRAVERSAL
}

impl SyntheticConfig {
    /// Generates the pipeline.
    ///
    /// # Errors
    /// When a size is out of range, or an access list does not fit into the priorities.
    pub fn generate(&self) -> Result<Pipeline, WorkloadError> {
        WorkloadError::check("the number of tables", self.tables.into(), 3, 250)?;
        let middle = u32::from(self.tables) - 2;
        let most = if middle < 8 { (1 << middle) - 1 } else { 200 };
        WorkloadError::check("the number of traversals", self.traversals.into(), 1, most)?;
        let paths = self.draw_paths();
        let stations: usize = paths.iter().map(|path| path.len() - 2).sum();
        let traversals = paths.len();
        // Ports and a miss in front, a miss at every station, sending and a miss at the end.
        let fixed = (traversals * PORTS_PER_TRAVERSAL as usize + 1) + stations + (traversals + 1);
        let rules = self.rules as u64;
        WorkloadError::check("the number of rules", rules, fixed as u64, 1_000_000)?;
        let mut rest = self.rules - fixed;
        let mut build = Build {
            seed: self.seed,
            rules: Vec::with_capacity(self.rules),
        };
        build.push_ends(&paths);
        let mut stations_left = stations;
        for (number, path) in (1_u8..).zip(&paths) {
            for step in path.windows(2).skip(1) {
                // Even shares; the last stations get the remainder.
                let share = rest / stations_left;
                rest -= share;
                stations_left -= 1;
                build.push_station(number, step[0], step[1], share)?;
            }
        }
        build.rules.sort_by_key(|rule| rule.table);
        Ok(Pipeline {
            name: "synthetic".to_owned(),
            tables: self.describe(&paths),
            templates: (1..)
                .zip(&paths)
                .map(|(number, path)| Template {
                    ports: ports_of(number).collect(),
                    ..template(&format!("path-{number}"), 1, path)
                })
                .collect(),
            rules: build.rules,
            groups: Vec::new(),
            cluster: None,
            ports: (0..=PORTS_PER_TRAVERSAL * u32::from(self.traversals))
                .map(|index| FIRST_PORT + index)
                .collect(),
        })
    }

    /// Draws different sequences of tables, all from the first to the last.
    fn draw_paths(&self) -> Vec<Vec<u8>> {
        let mut random = stream(self.seed, "paths");
        let mut paths = Vec::new();
        let mut seen = HashSet::new();
        while paths.len() < usize::from(self.traversals) {
            let mut path = vec![0];
            path.extend((1..self.tables - 1).filter(|_| random.random_ratio(1, 2)));
            path.push(self.tables - 1);
            if path.len() > 2 && seen.insert(path.clone()) {
                paths.push(path);
            }
        }
        paths
    }

    fn describe(&self, paths: &[Vec<u8>]) -> Vec<Table> {
        let mut edges: BTreeMap<u8, BTreeSet<u8>> = BTreeMap::new();
        for step in paths.iter().flat_map(|path| path.windows(2)) {
            edges.entry(step[0]).or_default().insert(step[1]);
        }
        let describe_one = |id: u8| {
            let next: Vec<u8> = edges.get(&id).into_iter().flatten().copied().collect();
            if id == 0 {
                return table(
                    0,
                    "ports",
                    TableRole::Classify,
                    &[Field::InPort],
                    &next,
                    &[Field::InPort],
                );
            }
            let joins = [Field::Metadata];
            if id == self.tables - 1 {
                return table(id, "output", TableRole::Classify, &joins, &next, &joins);
            }
            let (name, role, subject_fields) = subject(id).description();
            let fields = [&joins, subject_fields].concat();
            table(id, &format!("{name}-{id}"), role, &fields, &next, &joins)
        };
        (0..self.tables).map(describe_one).collect()
    }
}

fn subject(table: u8) -> Subject {
    SUBJECTS[(usize::from(table) - 1) % SUBJECTS.len()]
}

impl Subject {
    const fn description(self) -> (&'static str, TableRole, &'static [Field]) {
        use Field::{EthDst, EthSrc, EthType, IpDst, IpProtocol, IpSrc};
        use Field::{TcpDst, TcpSrc, UdpDst, UdpSrc};
        use TableRole::{Acl, Bridging, Classify, Routing};
        match self {
            Subject::EthSrc => ("eth-src", Classify, &[EthSrc]),
            Subject::EthDst => ("eth-dst", Bridging, &[EthDst]),
            Subject::IpSrc => ("ip-src", Classify, &[EthType, IpSrc]),
            Subject::IpDst => ("ip-dst", Routing, &[EthType, IpDst]),
            Subject::Acl => (
                "acl",
                Acl,
                &[
                    EthType, IpSrc, IpDst, IpProtocol, TcpSrc, TcpDst, UdpSrc, UdpDst,
                ],
            ),
            Subject::UdpDst => ("udp-dst", Classify, &[EthType, IpProtocol, UdpDst]),
        }
    }
}

/// The rules under construction.
struct Build {
    seed: u64,
    rules: Vec<Rule>,
}

impl Build {
    /// Adds the first and the last table.
    fn push_ends(&mut self, paths: &[Vec<u8>]) {
        let leave = FIRST_PORT + PORTS_PER_TRAVERSAL * paths.len() as u32;
        for (number, path) in (1_u32..).zip(paths) {
            for port in ports_of(number) {
                let matches = Match::any().with(Field::InPort, port);
                let mark = Action::WriteMetadata(number.into(), u64::MAX);
                self.rules.push(Rule::new(
                    0,
                    100,
                    matches,
                    vec![mark, Action::Goto(path[1])],
                ));
            }
            let matches = Match::any().with(Field::Metadata, number);
            let last = path[path.len() - 1];
            self.rules
                .push(Rule::new(last, 100, matches, vec![Action::Output(leave)]));
        }
        let last = paths[0][paths[0].len() - 1];
        self.rules.push(Rule::new(0, 0, Match::any(), vec![]));
        self.rules.push(Rule::new(last, 0, Match::any(), vec![]));
    }

    /// Adds `count` rules and a miss for one traversal in one table.
    fn push_station(
        &mut self,
        traversal: u8,
        table: u8,
        next: u8,
        count: usize,
    ) -> Result<(), WorkloadError> {
        let base = Match::any().with(Field::Metadata, traversal);
        self.rules
            .push(Rule::new(table, 0, base.clone(), vec![Action::Goto(next)]));
        let seed = self.seed ^ (u64::from(table) << 8 | u64::from(traversal));
        if subject(table) == Subject::Acl {
            let base = Some((Field::Metadata, traversal.into()));
            let profile = Profile::Acl1;
            let spec = AclSpec {
                table,
                next,
                count,
                profile,
                base,
                destinations: &[],
                seed,
            };
            self.rules.extend(draw_acl(&spec)?);
            return Ok(());
        }
        let register = Field::Register(table % 16);
        for (index, (priority, matches)) in subject_matches(subject(table), &base, count, seed)
            .into_iter()
            .enumerate()
        {
            let note = Action::SetField(register, index as u128 & 0xffff);
            self.rules.push(Rule::new(
                table,
                priority,
                matches,
                vec![note, Action::Goto(next)],
            ));
        }
        Ok(())
    }
}

/// Different matches on one subject, with priorities that separate overlapping ones.
fn subject_matches(subject: Subject, base: &Match, count: usize, seed: u64) -> Vec<(u16, Match)> {
    let prefixes = |field| {
        let with_prefix = |(_, prefix): (u32, crate::classbench::Prefix)| {
            let length = u32::from(prefix.length());
            let ip = base.clone().with(Field::EthType, 0x0800_u16);
            (
                100 + length as u16,
                ip.with_prefix(field, prefix.address(), length),
            )
        };
        draw_routes(count, 1, seed)
            .into_iter()
            .map(with_prefix)
            .collect()
    };
    let hosts = |field| {
        (0..count as u64)
            .map(|host| (100, base.clone().with(field, HOST_MAC + host)))
            .collect()
    };
    match subject {
        Subject::EthSrc => hosts(Field::EthSrc),
        Subject::EthDst => hosts(Field::EthDst),
        Subject::IpSrc => prefixes(Field::IpSrc),
        Subject::IpDst => prefixes(Field::IpDst),
        // There are only 65,536 ports: larger counts use pairs of ports.
        Subject::UdpDst | Subject::Acl => (0..count as u32)
            .map(|index| {
                let udp = base.clone().with(Field::EthType, 0x0800_u16);
                let udp = udp
                    .with(Field::IpProtocol, 17_u8)
                    .with(Field::UdpDst, index & 0xffff);
                if index < 1 << 16 {
                    return (100, udp);
                }
                (
                    100 + (index >> 16) as u16,
                    udp.with(Field::UdpSrc, index >> 16),
                )
            })
            .collect(),
    }
}
