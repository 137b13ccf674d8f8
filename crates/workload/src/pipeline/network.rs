//! The objects behind a pipeline's rules: ports, VLANs, hosts, routes and an access list.
//!
//! Ports count from 1, VLANs from 2. Every port is an access port of one VLAN and carries some
//! others tagged; the members of a VLAN are its access ports and its tagged ports.

use std::collections::HashSet;

use rand::Rng;

use crate::action::Action;
use crate::classbench::{Extra, FilterSource, Prefix, Profile, priorities_in_order};
use crate::error::WorkloadError;
use crate::field::Field;
use crate::rule::{Match, Rule};
use crate::seed::{Random, pick, stream, weighted_index};

/// The address of the router; packets to it are routed.
pub(crate) const ROUTER_MAC: u64 = 0x02ff_ff00_0001;
/// Host `i` has this address plus `i`.
pub(crate) const HOST_MAC: u64 = 0x0200_0000_0000;
/// Next hop `i` has this address plus `i`.
pub(crate) const NEXT_HOP_MAC: u64 = 0x0210_0000_0000;
/// The highest VLAN identifier that may be used.
pub(crate) const LAST_VLAN: u16 = 4000;

/// Ports and the VLANs on them.
pub(crate) struct Network {
    pub(crate) ports: u32,
    pub(crate) vlans: u16,
    pub(crate) tagged_per_port: u16,
}

impl Network {
    /// Refuses sizes with which ports would carry a VLAN twice.
    pub(crate) fn check(&self) -> Result<(), WorkloadError> {
        WorkloadError::check("the number of ports", self.ports.into(), 2, 4096)?;
        WorkloadError::check(
            "the number of VLANs",
            self.vlans.into(),
            1,
            LAST_VLAN.into(),
        )?;
        let most = u64::from(self.vlans) - 1;
        WorkloadError::check(
            "tagged VLANs per port",
            self.tagged_per_port.into(),
            0,
            most,
        )
    }

    pub(crate) fn port_numbers(&self) -> impl Iterator<Item = u32> + use<> {
        1..=self.ports
    }

    pub(crate) fn vlan_ids(&self) -> impl Iterator<Item = u16> + use<> {
        2..self.vlans + 2
    }

    /// The VLAN of a port's untagged packets.
    pub(crate) fn native_vlan(&self, port: u32) -> u16 {
        2 + (port % u32::from(self.vlans)) as u16
    }

    /// The VLANs that a port carries tagged.
    pub(crate) fn tagged_vlans(&self, port: u32) -> impl Iterator<Item = u16> + use<> {
        let (native, vlans) = (u32::from(self.native_vlan(port) - 2), u32::from(self.vlans));
        (1..=u32::from(self.tagged_per_port)).map(move |step| 2 + ((native + step) % vlans) as u16)
    }

    /// For every VLAN, its access ports and its tagged ports.
    pub(crate) fn members(&self) -> Vec<Members> {
        let mut members: Vec<Members> = self
            .vlan_ids()
            .map(|vlan| Members {
                vlan,
                access: vec![],
                tagged: vec![],
            })
            .collect();
        for port in self.port_numbers() {
            members[usize::from(self.native_vlan(port) - 2)]
                .access
                .push(port);
            for vlan in self.tagged_vlans(port) {
                members[usize::from(vlan - 2)].tagged.push(port);
            }
        }
        members
    }
}

/// The ports of a VLAN.
pub(crate) struct Members {
    pub(crate) vlan: u16,
    pub(crate) access: Vec<u32>,
    pub(crate) tagged: Vec<u32>,
}

impl Members {
    /// A random port of the VLAN, or any port if it has none.
    pub(crate) fn pick_port(&self, random: &mut Random, ports: u32) -> u32 {
        let count = self.access.len() + self.tagged.len();
        if count == 0 {
            return random.random_range(1..=ports);
        }
        let index = random.random_range(0..count as u64) as usize;
        self.access
            .iter()
            .chain(&self.tagged)
            .copied()
            .nth(index)
            .expect("index below count")
    }

    /// Sends to every member: first tagged, then untagged.
    pub(crate) fn flood_actions(&self) -> Vec<Action> {
        let mut actions: Vec<Action> = self.tagged.iter().copied().map(Action::Output).collect();
        if !self.access.is_empty() {
            actions.push(Action::PopVlan);
            actions.extend(self.access.iter().copied().map(Action::Output));
        }
        actions
    }
}

/// `count` different (routing instance, prefix) pairs, half of them nested in an earlier one.
pub(crate) fn draw_routes(count: usize, instances: u32, seed: u64) -> Vec<(u32, Prefix)> {
    const LENGTHS: [(u8, u32); 11] = [
        (24, 45),
        (32, 10),
        (23, 8),
        (22, 9),
        (20, 6),
        (21, 5),
        (19, 3),
        (16, 4),
        (26, 4),
        (28, 4),
        (12, 2),
    ];
    let mut random = stream(seed, "routes");
    let mut seen = HashSet::with_capacity(count);
    let mut routes: Vec<(u32, Prefix)> = Vec::with_capacity(count);
    while routes.len() < count {
        let length = LENGTHS[weighted_index(&mut random, LENGTHS.iter().map(|entry| entry.1))].0;
        // Unicast addresses only: 1.0.0.0 to 223.255.255.255.
        let mut address = random.random_range(0x0100_0000..0xe000_0000_u32);
        if !routes.is_empty() && random.random_ratio(1, 2) {
            let around = pick(&mut random, &routes).1;
            address = around.address() as u32 | (address & !around.mask() as u32);
        }
        let route = (
            random.random_range(1..=instances),
            Prefix::new(address, length),
        );
        if seen.insert(route) {
            routes.push(route);
        }
    }
    routes
}

/// The parameters of an access list.
pub(crate) struct AclSpec<'a> {
    pub(crate) table: u8,
    /// The next table of permitted packets.
    pub(crate) next: u8,
    pub(crate) count: usize,
    pub(crate) profile: Profile,
    /// A join field of the table that every rule matches besides the five-tuple.
    pub(crate) base: Option<(Field, u64)>,
    /// Prefixes that destinations should fall into.
    pub(crate) destinations: &'a [(u32, Prefix)],
    pub(crate) seed: u64,
}

/// The lowest and highest priority of access-list rules.
pub(crate) const ACL_PRIORITIES: (u16, u16) = (1_000, 59_999);

/// An access list of exactly `count` rules, narrow ones first, two in five of them drops.
pub(crate) fn draw_acl(spec: &AclSpec<'_>) -> Result<Vec<Rule>, WorkloadError> {
    let mut source = FilterSource::new(spec.profile, spec.seed)
        .with_destinations(spec.destinations.iter().map(|(_, prefix)| *prefix));
    let mut random = stream(spec.seed, "acl");
    let (mut groups, mut count) = (Vec::new(), 0);
    while count < spec.count {
        let mut matches: Vec<Match> = source.next_filter().matches(Extra::Ignore);
        matches.truncate(spec.count - count);
        if let Some((field, value)) = spec.base {
            matches = matches
                .into_iter()
                .map(|one| one.with(field, value))
                .collect();
        }
        count += matches.len();
        groups.push(matches);
    }
    groups.sort_by_key(|group| std::cmp::Reverse(address_bits(&group[0])));
    let priorities = priorities_in_order(&groups, ACL_PRIORITIES.0, ACL_PRIORITIES.1)?;
    let mut rules = Vec::with_capacity(count);
    for (group, priority) in groups.into_iter().zip(priorities) {
        let actions = if random.random_ratio(2, 5) {
            Vec::new()
        } else {
            vec![Action::Goto(spec.next)]
        };
        for matches in group {
            rules.push(Rule::new(spec.table, priority, matches, actions.clone()));
        }
    }
    Ok(rules)
}

fn address_bits(matches: &Match) -> u32 {
    [Field::IpSrc, Field::IpDst]
        .iter()
        .filter_map(|field| matches.term(*field))
        .map(|t| t.mask.count_ones())
        .sum()
}
