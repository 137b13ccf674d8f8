//! PSC: the L2L3-ACL pipeline of PISCES, seven tables and two traversals.
//!
//! ```text
//!   0 ingress VLAN ── 1 routable ──┬── 2 routing ──┬── 3 switching ── 4 ACL ── 5 egress VLAN ── 6 output
//!                                  └───────────────┘
//! ```
//!
//! Tables are numbered from 0, the switch's first; the literature counts them from 1. A route
//! rewrites the packet to a next hop. The next hop's address is in the switching table, which
//! alone knows ports (`reg0`). After Shahbaz et al., *PISCES: A Programmable,
//! Protocol-Independent Software Switch*, SIGCOMM 2016, section 5.

use rand::Rng;

use super::network::{
    AclSpec, HOST_MAC, Members, NEXT_HOP_MAC, Network, ROUTER_MAC, draw_acl, draw_routes,
};
use super::{Pipeline, TableRole, table, template};
use crate::action::Action;
use crate::classbench::{Prefix, Profile};
use crate::error::WorkloadError;
use crate::field::Field;
use crate::rule::{Match, Rule};
use crate::seed::{pick, stream};

/// The sizes of a PSC pipeline.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PscConfig {
    /// Number of ports, at least 2.
    pub ports: u32,
    /// Number of VLANs, at least 1.
    pub vlans: u16,
    /// Number of tagged VLANs on every port; fewer than there are VLANs.
    pub tagged_vlans_per_port: u16,
    /// Number of next hops, at least 1.
    pub next_hops: u32,
    /// Number of hosts in the switching table, at least 1.
    pub macs: usize,
    /// Number of routes besides the default route.
    pub routes: usize,
    /// Number of rules of the ACL.
    pub acl_rules: usize,
    /// The profile of the ACL.
    pub acl_profile: Profile,
    /// The seed.
    pub seed: u64,
}

const PORT: Field = Field::Register(0);

impl PscConfig {
    /// Sizes that add up to exactly `rules` rules, from 200 to a million.
    ///
    /// # Errors
    /// When `rules` is outside that range.
    pub fn with_rules(rules: usize, seed: u64) -> Result<Self, WorkloadError> {
        WorkloadError::check("the number of PSC rules", rules as u64, 200, 1_000_000)?;
        let mut config = PscConfig {
            ports: (rules / 250).clamp(8, 48) as u32,
            vlans: (rules / 100).clamp(8, 256) as u16,
            tagged_vlans_per_port: 3,
            next_hops: (rules / 50).clamp(8, 1024) as u32,
            macs: 0,
            routes: 0,
            acl_rules: 0,
            acl_profile: Profile::Acl1,
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
        let ingress = ports * (1 + usize::from(self.tagged_vlans_per_port)) + 1;
        let forwarding =
            (vlans + 1) + (self.routes + 2) + (self.macs + self.next_hops as usize + 1);
        ingress + forwarding + (self.acl_rules + 1) + (ports + 1) + (ports + 1)
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
        WorkloadError::check("the number of next hops", self.next_hops.into(), 1, 1 << 20)?;
        WorkloadError::check("the number of hosts", self.macs as u64, 1, 1 << 24)?;
        WorkloadError::check("the number of routes", self.routes as u64, 0, 1 << 22)?;
        let mut build = Build {
            config: self,
            members: network.members(),
            network,
            rules: vec![],
        };
        build.rules.reserve(self.rule_count());
        build.push_ingress();
        build.push_routable();
        let routes = build.push_switching();
        build.rules.extend(draw_acl(&AclSpec {
            table: 4,
            next: 5,
            count: self.acl_rules,
            profile: self.acl_profile,
            base: None,
            destinations: &routes,
            seed: self.seed,
        })?);
        build.push(4, 0, Match::any(), vec![Action::Goto(5)]);
        build.push_egress();
        Ok(Pipeline {
            name: "psc".to_owned(),
            tables: tables(),
            templates: vec![
                template("switched", 50, &[0, 1, 3, 4, 5, 6]),
                template("routed", 50, &[0, 1, 2, 3, 4, 5, 6]),
            ],
            ports: build.network.port_numbers().collect(),
            rules: build.rules,
            groups: Vec::new(),
            cluster: None,
        })
    }
}

fn tables() -> Vec<super::Table> {
    use Field::{EthDst, EthType, InPort, IpDst, IpProtocol, IpSrc, VlanTci};
    use Field::{TcpDst, TcpSrc, UdpDst, UdpSrc};
    use TableRole::{Acl, Bridging, Classify, Routing};
    let policy = [
        EthType, IpSrc, IpDst, IpProtocol, TcpSrc, TcpDst, UdpSrc, UdpDst,
    ];
    vec![
        table(0, "ingress_vlan", Classify, &[InPort, VlanTci], &[1], &[]),
        table(
            1,
            "routable",
            Classify,
            &[VlanTci, EthDst, EthType],
            &[2, 3],
            &[VlanTci],
        ),
        table(2, "routing", Routing, &[VlanTci, EthType, IpDst], &[3], &[]),
        table(
            3,
            "switching",
            Bridging,
            &[VlanTci, EthDst],
            &[4],
            &[VlanTci, EthDst],
        ),
        table(4, "acl", Acl, &policy, &[5], &[]),
        table(5, "egress_vlan", Classify, &[PORT, VlanTci], &[6], &[PORT]),
        table(6, "output", Classify, &[PORT], &[], &[]),
    ]
}

/// The rules under construction.
struct Build<'a> {
    config: &'a PscConfig,
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
            let from_port = Match::any().with(Field::InPort, port);
            let native = self.network.native_vlan(port);
            let untagged = from_port.clone().with_masked(Field::VlanTci, 0_u8, 0x1000);
            let tag = vec![
                Action::PushVlan(0x8100),
                Action::SetField(Field::VlanVid, (0x1000 | native).into()),
                Action::Goto(1),
            ];
            self.push(0, 90, untagged, tag);
            for vlan in self.network.tagged_vlans(port) {
                self.push(
                    0,
                    100,
                    from_port.clone().with_vlan(vlan),
                    vec![Action::Goto(1)],
                );
            }
        }
        self.push(0, 0, Match::any(), vec![]);
    }

    fn push_routable(&mut self) {
        for vlan in self.network.vlan_ids() {
            let to_router = Match::ipv4()
                .with_vlan(vlan)
                .with(Field::EthDst, ROUTER_MAC);
            self.push(1, 100, to_router, vec![Action::Goto(2)]);
        }
        self.push(1, 0, Match::any(), vec![Action::Goto(3)]);
    }

    /// Adds hosts, next hops, and the routes to them; returns the routes.
    fn push_switching(&mut self) -> Vec<(u32, Prefix)> {
        let config = self.config;
        let mut random = stream(config.seed, "hosts");
        let mut next_hops = Vec::new();
        let hosts = 0..config.macs as u64;
        let addresses = (0..u64::from(config.next_hops))
            .map(|hop| (NEXT_HOP_MAC + hop, true))
            .chain(hosts.map(|host| (HOST_MAC + host, false)));
        for (address, is_next_hop) in addresses {
            let members = pick(&mut random, &self.members);
            let (vlan, port) = (members.vlan, members.pick_port(&mut random, config.ports));
            if is_next_hop {
                next_hops.push((address, vlan));
            }
            let matches = Match::any().with_vlan(vlan).with(Field::EthDst, address);
            let actions = vec![Action::SetField(PORT, port.into()), Action::Goto(4)];
            self.push(3, 100, matches, actions);
        }
        self.push(3, 0, Match::any(), vec![]);
        let mut routes = vec![(1, Prefix::new(0, 0))];
        routes.extend(draw_routes(config.routes, 1, config.seed));
        for (_, prefix) in &routes {
            let (address, vlan) =
                next_hops[random.random_range(0..next_hops.len() as u64) as usize];
            let actions = vec![
                Action::SetField(Field::EthSrc, ROUTER_MAC.into()),
                Action::SetField(Field::EthDst, address.into()),
                Action::SetField(Field::VlanVid, (0x1000 | vlan).into()),
                Action::DecTtl,
                Action::Goto(3),
            ];
            // The tag is present since table 0; a rule that writes its VLAN must match it.
            let matches = Match::ipv4()
                .with_masked(Field::VlanTci, 0x1000_u16, 0x1000)
                .with_prefix(Field::IpDst, prefix.address(), prefix.length().into());
            self.push(2, 100 + u16::from(prefix.length()), matches, actions);
        }
        self.push(2, 0, Match::any(), vec![]);
        routes
    }

    fn push_egress(&mut self) {
        for port in self.network.port_numbers() {
            let to_port = Match::any().with(PORT, port);
            let access = to_port.clone().with_vlan(self.network.native_vlan(port));
            self.push(5, 100, access, vec![Action::PopVlan, Action::Goto(6)]);
            self.push(6, 100, to_port, vec![Action::OutputRegister(0)]);
        }
        self.push(5, 0, Match::any(), vec![Action::Goto(6)]);
        self.push(6, 0, Match::any(), vec![]);
    }
}
