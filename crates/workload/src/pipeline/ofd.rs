//! OFD: Cord's OF-DPA pipeline with ten tables and five traversals, over IPv4.
//!
//! ```text
//!   0 ingress port ── 10 VLAN ──┬─────────── 20 termination MAC ──┬── 30 unicast routing ──┐
//!      sets the VRF    pushes,  └ 11 VLAN 1 ┘                     ├── 40 multicast routing ┤
//!      (reg1)          pops                                       └── 50 bridging ─────────┤
//!                                                                                          │
//!                    210 egress VLAN ──┬──────────────── 60 policy ACL ────────────────────┘
//!                                      └── 65 colour ──┘
//! ```
//!
//! | template | tables | weight |
//! | --- | --- | --- |
//! | routed | 0 10 20 30 60 210 | 45 |
//! | routed-inner (two tags in) | 0 10 11 20 30 60 210 | 10 |
//! | multicast | 0 10 20 40 60 210 | 5 |
//! | bridged | 0 10 20 50 60 210 | 30 |
//! | coloured (a marked DSCP) | 0 10 20 30 60 65 210 | 10 |
//!
//! OF-DPA keeps the next hop in groups that run after the policy ACL. Here the routing rule
//! does the group's work (both addresses, the VLAN, the TTL) and leaves the output port in
//! `reg0`; a list of receivers is a number in `reg2`. Table 210 sends, popping the tag at
//! access ports. The VRF is in `reg1`, the outer VLAN of a packet with two tags in the
//! metadata. MPLS, OAM and overlay tables are left out. With `groups`, lists of receivers
//! become groups of type `all`.

use std::collections::HashSet;

use rand::Rng;

use super::network::{
    ACL_PRIORITIES, AclSpec, HOST_MAC, LAST_VLAN, Members, NEXT_HOP_MAC, Network, ROUTER_MAC,
    draw_acl, draw_routes,
};
use super::{Pipeline, TableRole, table, template};
use crate::action::Action;
use crate::classbench::{Prefix, Profile};
use crate::error::WorkloadError;
use crate::field::Field;
use crate::rule::{Match, Rule};
use crate::seed::{pick, stream};

/// The sizes of an OFD pipeline.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OfdConfig {
    /// Number of ports, at least 2.
    pub ports: u32,
    /// Number of VLANs, at least 1.
    pub vlans: u16,
    /// Number of tagged VLANs on every port; fewer than there are VLANs.
    pub tagged_vlans_per_port: u16,
    /// Number of inner VLANs of packets with two tags, on every port; fewer than there are
    /// VLANs.
    pub inner_vlans_per_port: u16,
    /// Number of routing instances; ports are assigned to them in turn.
    pub vrfs: u32,
    /// Number of hosts in the bridging table.
    pub macs: usize,
    /// Number of unicast routes besides one default route for every VRF.
    pub routes: usize,
    /// Number of multicast groups.
    pub multicast_groups: u32,
    /// Number of code points, at most 8, whose packets visit the colour table.
    pub colours: u8,
    /// Number of rules of the policy ACL besides those for colours.
    pub acl_rules: usize,
    /// The profile of the ACL.
    pub acl_profile: Profile,
    /// Whether lists of receivers are groups.
    pub groups: bool,
    /// The seed.
    pub seed: u64,
}

/// Code points for colours: expedited and assured forwarding.
const COLOURS: [u8; 8] = [46, 34, 26, 18, 36, 28, 20, 12];
/// The first outer VLAN of packets with two tags, above all others.
const OUTER_VLAN: u16 = LAST_VLAN + 2;
/// The first number of multicast receiver lists in `reg2`; flood lists use VLAN identifiers.
const MULTICAST_LIST: u32 = 0x10000;

const PORT: Field = Field::Register(0);
const VRF: Field = Field::Register(1);
const LIST: Field = Field::Register(2);

impl OfdConfig {
    /// Sizes that add up to exactly `rules` rules, from 400 to a million.
    ///
    /// # Errors
    /// When `rules` is outside that range.
    pub fn with_rules(rules: usize, seed: u64) -> Result<Self, WorkloadError> {
        WorkloadError::check("the number of OFD rules", rules as u64, 400, 1_000_000)?;
        let ports = (rules / 250).clamp(8, 48) as u32;
        let mut config = OfdConfig {
            ports,
            vlans: (rules / 100).clamp(8, 256) as u16,
            tagged_vlans_per_port: 3,
            inner_vlans_per_port: 2,
            vrfs: (rules / 1000).clamp(2, 16) as u32,
            macs: 0,
            routes: 0,
            multicast_groups: (rules / 200).clamp(4, 1000) as u32,
            colours: 4,
            acl_rules: 0,
            acl_profile: Profile::Acl1,
            groups: false,
            seed,
        };
        let rest = rules - config.rule_count();
        config.macs = rest * 3 / 10;
        config.routes = rest * 3 / 10;
        config.acl_rules = rest - config.macs - config.routes;
        Ok(config)
    }

    /// The number of rules of the pipeline.
    pub fn rule_count(&self) -> usize {
        let (ports, vlans) = (self.ports as usize, usize::from(self.vlans));
        let (vrfs, lists) = (self.vrfs as usize, self.multicast_groups as usize);
        let (tagged, inner) = (
            usize::from(self.tagged_vlans_per_port),
            usize::from(self.inner_vlans_per_port),
        );
        let ingress = (ports + 1) + (ports * (2 + tagged) + 1) + (ports * inner + 1) + (vlans + 2);
        let forwarding = (vrfs + self.routes + 1) + (lists + 1) + (self.macs + vlans + 1);
        let policy = 2 * (usize::from(self.colours) + 1) + self.acl_rules;
        let egress = vlans + lists + 2 * ports + 1;
        ingress + forwarding + policy + egress
    }

    /// Generates the pipeline.
    ///
    /// # Errors
    /// When a size is out of range, or the ACL does not fit into the priorities.
    pub fn generate(&self) -> Result<Pipeline, WorkloadError> {
        let network = Network {
            ports: self.ports,
            vlans: self.vlans,
            tagged_per_port: self.tagged_vlans_per_port,
        };
        network.check()?;
        let most = u64::from(self.vlans) - 1;
        let inner = u64::from(self.inner_vlans_per_port);
        WorkloadError::check("inner VLANs per port", inner, 1, most.max(1))?;
        WorkloadError::check("the number of VRFs", self.vrfs.into(), 1, self.ports.into())?;
        WorkloadError::check("multicast groups", self.multicast_groups.into(), 1, 1 << 20)?;
        WorkloadError::check("the number of colours", self.colours.into(), 1, 8)?;
        WorkloadError::check("the number of hosts", self.macs as u64, 0, 1 << 24)?;
        WorkloadError::check("the number of routes", self.routes as u64, 0, 1 << 22)?;
        let mut build = Build {
            config: self,
            members: network.members(),
            network,
            rules: vec![],
        };
        build.rules.reserve(self.rule_count());
        build.push_ingress();
        build.push_vlan();
        build.push_termination();
        let routes = build.push_routing();
        build.push_multicast();
        build.push_bridging();
        build.push_policy(&routes)?;
        build.push_colour();
        let groups = build.push_egress();
        Ok(Pipeline {
            name: "ofd".to_owned(),
            tables: tables(),
            templates: vec![
                template("routed", 45, &[0, 10, 20, 30, 60, 210]),
                template("routed-inner", 10, &[0, 10, 11, 20, 30, 60, 210]),
                template("multicast", 5, &[0, 10, 20, 40, 60, 210]),
                template("bridged", 30, &[0, 10, 20, 50, 60, 210]),
                template("coloured", 10, &[0, 10, 20, 30, 60, 65, 210]),
            ],
            ports: build.network.port_numbers().collect(),
            rules: build.rules,
            groups,
            cluster: None,
        })
    }
}

fn tables() -> Vec<super::Table> {
    use Field::{EthDst, EthType, InPort, IpDscp, IpDst, IpProtocol, IpSrc, Metadata, VlanTci};
    use Field::{TcpDst, TcpSrc, UdpDst, UdpSrc};
    use TableRole::{Acl, Bridging, Classify, Routing};
    let policy = [
        EthType, IpSrc, IpDst, IpProtocol, IpDscp, TcpSrc, TcpDst, UdpSrc, UdpDst,
    ];
    vec![
        table(0, "ingress_port", Classify, &[InPort], &[10], &[]),
        table(
            10,
            "vlan",
            Classify,
            &[InPort, VlanTci],
            &[11, 20],
            &[InPort],
        ),
        table(
            11,
            "vlan_1",
            Classify,
            &[InPort, Metadata, VlanTci],
            &[20],
            &[InPort, Metadata],
        ),
        table(
            20,
            "termination_mac",
            Classify,
            &[VlanTci, EthDst, EthType],
            &[30, 40, 50],
            &[VlanTci],
        ),
        table(
            30,
            "unicast_routing",
            Routing,
            &[VRF, VlanTci, EthType, IpDst],
            &[60],
            &[VRF],
        ),
        table(
            40,
            "multicast_routing",
            Classify,
            &[EthType, IpDst],
            &[60],
            &[],
        ),
        table(
            50,
            "bridging",
            Bridging,
            &[VlanTci, EthDst],
            &[60],
            &[VlanTci],
        ),
        table(60, "policy_acl", Acl, &policy, &[65, 210], &[]),
        table(65, "colour", Classify, &[EthType, IpDscp], &[210], &[]),
        table(
            210,
            "egress_vlan",
            Classify,
            &[PORT, LIST, VlanTci],
            &[],
            &[],
        ),
    ]
}

/// The rules under construction.
struct Build<'a> {
    config: &'a OfdConfig,
    network: Network,
    members: Vec<Members>,
    rules: Vec<Rule>,
}

impl Build<'_> {
    fn push(&mut self, table: u8, priority: u16, matches: Match, actions: Vec<Action>) {
        self.rules
            .push(Rule::new(table, priority, matches, actions));
    }

    fn push_ingress(&mut self) {
        for port in self.network.port_numbers() {
            let vrf = port % self.config.vrfs + 1;
            let actions = vec![Action::SetField(VRF, vrf.into()), Action::Goto(10)];
            self.push(0, 100, Match::any().with(Field::InPort, port), actions);
        }
        self.push(0, 0, Match::any(), vec![]);
    }

    fn push_vlan(&mut self) {
        for port in self.network.port_numbers() {
            let from_port = Match::any().with(Field::InPort, port);
            let native = self.network.native_vlan(port);
            let untagged = from_port.clone().with_masked(Field::VlanTci, 0_u8, 0x1000);
            let tag = vec![
                Action::PushVlan(0x8100),
                Action::SetField(Field::VlanVid, (0x1000 | native).into()),
                Action::Goto(20),
            ];
            self.push(10, 90, untagged, tag);
            for vlan in self.network.tagged_vlans(port) {
                self.push(
                    10,
                    100,
                    from_port.clone().with_vlan(vlan),
                    vec![Action::Goto(20)],
                );
            }
            let outer = OUTER_VLAN + (port % 64) as u16;
            let strip = vec![
                Action::PopVlan,
                Action::SetField(Field::Metadata, outer.into()),
                Action::Goto(11),
            ];
            self.push(10, 100, from_port.clone().with_vlan(outer), strip);
            for step in 1..=u32::from(self.config.inner_vlans_per_port) {
                let vlan = 2 + ((u32::from(native) + step) % u32::from(self.config.vlans)) as u16;
                // Customers choose their own VLAN numbers; the pipeline maps them to its own.
                let customer = 100 + step as u16;
                let matches = from_port
                    .clone()
                    .with(Field::Metadata, outer)
                    .with_vlan(customer);
                let map = Action::SetField(Field::VlanVid, (0x1000 | vlan).into());
                self.push(11, 100, matches, vec![map, Action::Goto(20)]);
            }
        }
        self.push(10, 0, Match::any(), vec![]);
        self.push(11, 0, Match::any(), vec![]);
    }

    fn push_termination(&mut self) {
        for vlan in self.network.vlan_ids() {
            let to_router = Match::ipv4()
                .with_vlan(vlan)
                .with(Field::EthDst, ROUTER_MAC);
            self.push(20, 100, to_router, vec![Action::Goto(30)]);
        }
        let multicast =
            Match::ipv4().with_masked(Field::EthDst, 0x0100_5e00_0000_u64, 0xffff_ff80_0000);
        self.push(20, 90, multicast, vec![Action::Goto(40)]);
        self.push(20, 0, Match::any(), vec![Action::Goto(50)]);
    }

    fn push_routing(&mut self) -> Vec<(u32, Prefix)> {
        let config = self.config;
        let mut routes: Vec<_> = (1..=config.vrfs)
            .map(|vrf| (vrf, Prefix::new(0, 0)))
            .collect();
        routes.extend(draw_routes(config.routes, config.vrfs, config.seed));
        let mut random = stream(config.seed, "next hops");
        for &(vrf, prefix) in &routes {
            let members = pick(&mut random, &self.members);
            let vlan = members.vlan;
            let port = members.pick_port(&mut random, config.ports);
            let next_hop = NEXT_HOP_MAC + u64::from(random.random_range(0..4096_u32));
            let actions = vec![
                Action::SetField(Field::EthSrc, ROUTER_MAC.into()),
                Action::SetField(Field::EthDst, next_hop.into()),
                Action::SetField(Field::VlanVid, (0x1000 | vlan).into()),
                Action::SetField(PORT, port.into()),
                Action::DecTtl,
                Action::Goto(60),
            ];
            // The tag is present since table 10; a rule that writes its VLAN must match it.
            let matches = Match::ipv4()
                .with(VRF, vrf)
                .with_masked(Field::VlanTci, 0x1000_u16, 0x1000)
                .with_prefix(Field::IpDst, prefix.address(), prefix.length().into());
            self.push(30, 100 + u16::from(prefix.length()), matches, actions);
        }
        self.push(30, 0, Match::any(), vec![Action::Goto(60)]);
        routes
    }

    fn push_multicast(&mut self) {
        for number in 0..self.config.multicast_groups {
            let group = Match::ipv4().with(Field::IpDst, 0xe100_0000 + number);
            let list = Action::SetField(LIST, (MULTICAST_LIST + number).into());
            self.push(40, 100, group, vec![list, Action::DecTtl, Action::Goto(60)]);
        }
        self.push(40, 0, Match::any(), vec![Action::Goto(60)]);
    }

    fn push_bridging(&mut self) {
        let mut random = stream(self.config.seed, "hosts");
        for host in 0..self.config.macs {
            let members = pick(&mut random, &self.members);
            let port = members.pick_port(&mut random, self.config.ports);
            let matches = Match::any()
                .with_vlan(members.vlan)
                .with(Field::EthDst, HOST_MAC + host as u64);
            let actions = vec![Action::SetField(PORT, port.into()), Action::Goto(60)];
            self.push(50, 100, matches, actions);
        }
        for vlan in self.network.vlan_ids() {
            let actions = vec![Action::SetField(LIST, vlan.into()), Action::Goto(60)];
            self.push(50, 10, Match::any().with_vlan(vlan), actions);
        }
        self.push(50, 0, Match::any(), vec![Action::Goto(60)]);
    }

    fn push_policy(&mut self, routes: &[(u32, Prefix)]) -> Result<(), WorkloadError> {
        for (rank, dscp) in (1_u16..).zip(&COLOURS[..usize::from(self.config.colours)]) {
            let marked = Match::ipv4().with(Field::IpDscp, *dscp);
            self.push(60, ACL_PRIORITIES.1 + rank, marked, vec![Action::Goto(65)]);
        }
        self.rules.extend(draw_acl(&AclSpec {
            table: 60,
            next: 210,
            count: self.config.acl_rules,
            profile: self.config.acl_profile,
            base: None,
            destinations: routes,
            seed: self.config.seed,
        })?);
        self.push(60, 0, Match::any(), vec![Action::Goto(210)]);
        Ok(())
    }

    fn push_colour(&mut self) {
        for dscp in &COLOURS[..usize::from(self.config.colours)] {
            let remark = Action::SetField(Field::IpDscp, (dscp & 0x38).into());
            let marked = Match::ipv4().with(Field::IpDscp, *dscp);
            self.push(65, 100, marked, vec![remark, Action::Goto(210)]);
        }
        self.push(65, 0, Match::any(), vec![Action::Goto(210)]);
    }

    /// Adds the egress rules; returns the groups they use.
    fn push_egress(&mut self) -> Vec<String> {
        let mut lists: Vec<(u32, Vec<Action>)> = Vec::new();
        for members in &self.members {
            lists.push((members.vlan.into(), members.flood_actions()));
        }
        let mut random = stream(self.config.seed, "receivers");
        for number in 0..self.config.multicast_groups {
            let mut receivers = HashSet::new();
            let mut actions = Vec::new();
            for _ in 0..random.random_range(2..=4_u32) {
                let port = random.random_range(1..=self.config.ports);
                if receivers.insert(port) {
                    actions.push(Action::Output(port));
                }
            }
            lists.push((MULTICAST_LIST + number, actions));
        }
        let mut groups = Vec::new();
        for (number, mut actions) in lists {
            if self.config.groups {
                groups.push(group_line(number, &actions));
                actions = vec![Action::Group(number)];
            }
            // The tag is present since table 10; a rule that pops it must match it.
            let listed = Match::any().with(LIST, number);
            let listed = listed.with_masked(Field::VlanTci, 0x1000_u16, 0x1000);
            self.push(210, 300, listed, actions);
        }
        for port in self.network.port_numbers() {
            let to_port = Match::any().with(PORT, port);
            let access = to_port.clone().with_vlan(self.network.native_vlan(port));
            self.push(
                210,
                200,
                access,
                vec![Action::PopVlan, Action::Output(port)],
            );
            self.push(210, 100, to_port, vec![Action::OutputRegister(0)]);
        }
        self.push(210, 0, Match::any(), vec![]);
        groups
    }
}

/// A group of type `all` with one bucket for every output, including tag handling.
fn group_line(number: u32, actions: &[Action]) -> String {
    let mut line = format!("group_id={number},type=all");
    let mut prefix = "";
    for action in actions {
        match action {
            // Every bucket starts from the original packet, so each later one pops the tag
            // itself.
            Action::PopVlan => prefix = "pop_vlan,",
            other => line.push_str(&format!(",bucket=actions={prefix}{other}")),
        }
    }
    line
}
