//! ANT's tables between and behind the policies, except the policies themselves.

use std::net::Ipv4Addr;

use super::arriving::{commit, track};
use super::cluster::{
    Cluster, GATEWAY_IP, GATEWAY_MAC, GATEWAY_PORT, NODE_IP, Pod, TUNNEL_MAC, TUNNEL_PORT,
    VIRTUAL_IP,
};
use super::tables::*;
use super::{
    Build, DESTINATION, GATEWAY, HAIRPIN_MARK, MIRRORED, NEW, OUTPUT as OUTPUT_BITS, POD, REPLY,
    REWRITE, SERVICE_MARK, SOURCE, SOURCE_MARK, SOURCE_TRANSLATED, SOURCE_ZONE, TRACKED, TUNNEL,
    ZONE, remember_source, set_bits, set_mark, with_bits, with_mark, with_state,
};
use crate::action::{Action, ReservedPort};
use crate::field::Field;
use crate::rule::Match;

/// Bits of the packet's mark that say by which address it leaves the node.
const EGRESS_BITS: u128 = 0xff;
/// The bit of the packet's mark of probes by the node itself.
const PROBE_BIT: u128 = 0x8000_0000;

/// Writes addresses on the Ethernet level: sender and receiver.
fn set_addresses(source: u64, destination: u64) -> [Action; 2] {
    [
        Action::SetField(Field::EthSrc, source.into()),
        Action::SetField(Field::EthDst, destination.into()),
    ]
}

/// Sends through the tunnel to another node.
fn tunnelled(node: u32, next: u8) -> Vec<Action> {
    let mut actions = set_addresses(GATEWAY_MAC, TUNNEL_MAC).to_vec();
    let address = Cluster::address_of_node(node);
    actions.extend([
        Action::SetField(Field::TunnelDst, address.into()),
        set_bits(DESTINATION, TUNNEL),
        Action::Goto(next),
    ]);
    actions
}

/// Sends to the gateway.
fn to_gateway(next: u8) -> Vec<Action> {
    vec![set_bits(DESTINATION, GATEWAY), Action::Goto(next)]
}

impl Build {
    /// Adds the tables between and behind the policies.
    pub(super) fn push_leaving(&mut self, cluster: &Cluster) {
        self.push_routes(cluster);
        self.push_egress_marks(cluster);
        let goto = |table| vec![Action::Goto(table)];
        let from_gateway = with_bits(Match::ipv4(), SOURCE, GATEWAY);
        self.push(L3_DEC_TTL, 210, from_gateway, goto(SNAT_MARK));
        let decrement = vec![Action::DecTtl, Action::Goto(SNAT_MARK)];
        self.push(L3_DEC_TTL, 200, Match::ipv4(), decrement);
        self.push_miss(L3_DEC_TTL, goto(SNAT_MARK));
        self.push_source_translation(cluster);
        self.push_switching(cluster);
        self.push_mirrors(cluster);
        self.push_receivers();
        self.push_exit();
    }

    fn push_routes(&mut self, cluster: &Cluster) {
        let reply = with_state(Match::ipv4(), REPLY | TRACKED, 0);
        let reply = reply.with_masked(Field::CtMark, GATEWAY, SOURCE.1);
        let mut back = vec![Action::SetField(Field::EthDst, GATEWAY_MAC.into())];
        back.extend(to_gateway(L3_DEC_TTL));
        self.push(L3_FORWARDING, 210, reply, back.clone());
        let to = |address: u32| Match::ipv4().with(Field::IpDst, address);
        self.push(L3_FORWARDING, 205, to(GATEWAY_IP), back);
        for pod in &cluster.pods {
            let mut actions = set_addresses(GATEWAY_MAC, pod.mac).to_vec();
            actions.push(Action::Goto(L3_DEC_TTL));
            let matches = with_bits(to(pod.ip), REWRITE, 1);
            self.push(L3_FORWARDING, 200, matches, actions);
        }
        for node in 0..cluster.nodes {
            let network = Cluster::network_of_node(node);
            let matches = Match::ipv4().with_prefix(Field::IpDst, network, 24);
            self.push(L3_FORWARDING, 200, matches, tunnelled(node, L3_DEC_TTL));
        }
        let own = Match::ipv4().with_prefix(Field::IpDst, GATEWAY_IP, 24);
        let own = with_bits(own, REWRITE, 0);
        self.push(L3_FORWARDING, 200, own, vec![Action::Goto(L2_FORWARDING)]);
        for source in [POD, TUNNEL] {
            let asked = with_state(Match::ipv4(), TRACKED, REPLY);
            let actions = vec![
                Action::SetField(Field::EthDst, GATEWAY_MAC.into()),
                Action::Goto(EGRESS_MARK),
            ];
            self.push(
                L3_FORWARDING,
                190,
                with_bits(asked, SOURCE, source),
                actions,
            );
        }
        self.push_miss(L3_FORWARDING, to_gateway(L2_FORWARDING));
    }

    fn push_egress_marks(&mut self, cluster: &Cluster) {
        let tracked = with_state(Match::ipv4(), TRACKED, 0);
        let nodes = (0..cluster.nodes).map(Cluster::address_of_node);
        for address in nodes.chain([NODE_IP]) {
            let matches = tracked.clone().with(Field::IpDst, address);
            self.push(EGRESS_MARK, 210, matches, to_gateway(L2_FORWARDING));
        }
        for pod in &cluster.pods {
            let actions = match cluster.egress_of(pod) {
                None => continue,
                Some(Some(node)) => tunnelled(node, L2_FORWARDING),
                Some(None) => {
                    let number = u128::from(1 + pod.index % 8);
                    let mark = Action::SetMasked(Field::PacketMark, number, EGRESS_BITS);
                    [vec![mark], to_gateway(L2_FORWARDING)].concat()
                }
            };
            let matches = tracked.clone().with(Field::InPort, pod.port);
            self.push(EGRESS_MARK, 200, matches, actions);
        }
        let foreign = with_bits(Match::ipv4(), SOURCE, TUNNEL);
        self.push(EGRESS_MARK, 190, foreign, vec![]);
        self.push_miss(EGRESS_MARK, to_gateway(L2_FORWARDING));
    }

    fn push_source_translation(&mut self, cluster: &Cluster) {
        let new = with_state(Match::ipv4(), NEW | TRACKED, 0);
        let both = (SOURCE.0, SOURCE.1 | DESTINATION.1);
        let through = with_bits(new.clone(), both, GATEWAY << 4 | GATEWAY);
        let mark = commit(ZONE, SNAT, None, vec![set_mark(SOURCE_MARK)]);
        self.push(SNAT_MARK, 200, through, vec![mark]);
        for Pod { ip, .. } in &cluster.pods {
            let own = new.clone().with(Field::IpSrc, *ip).with(Field::IpDst, *ip);
            let exec = vec![set_mark(SOURCE_MARK), set_mark(HAIRPIN_MARK)];
            self.push(SNAT_MARK, 205, own, vec![commit(ZONE, SNAT, None, exec)]);
        }
        self.push_miss(SNAT_MARK, vec![Action::Goto(SNAT)]);
        let hairpin = with_mark(new.clone(), HAIRPIN_MARK);
        let translated = with_mark(new, SOURCE_MARK);
        let cases = [
            (200, hairpin.clone(), GATEWAY, VIRTUAL_IP, HAIRPIN_MARK),
            (200, hairpin, POD, GATEWAY_IP, HAIRPIN_MARK),
            (190, translated, GATEWAY, GATEWAY_IP, SERVICE_MARK),
        ];
        for (priority, matches, source, address, bit) in cases {
            let translation = format!("nat(src={})", Ipv4Addr::from(address));
            let exec = vec![set_mark(bit)];
            let commit = commit(SOURCE_ZONE, L2_FORWARDING, Some(translation), exec);
            self.push(
                SNAT,
                priority,
                with_bits(matches, SOURCE, source),
                vec![commit],
            );
        }
        let known = with_state(Match::ipv4(), TRACKED, NEW | REPLY);
        let known = with_mark(known, SOURCE_MARK);
        let track = Action::Track(Box::new(track(SOURCE_ZONE, L2_FORWARDING)));
        self.push(SNAT, 200, known, vec![track]);
        self.push_miss(SNAT, vec![Action::Goto(L2_FORWARDING)]);
    }

    fn push_switching(&mut self, cluster: &Cluster) {
        let pods = cluster.pods.iter().map(|pod| (pod.mac, pod.port));
        let others = [(GATEWAY_MAC, GATEWAY_PORT), (TUNNEL_MAC, TUNNEL_PORT)];
        for (mac, port) in pods.chain(others) {
            let actions = vec![
                Action::SetField(Field::Register(1), port.into()),
                set_bits(OUTPUT_BITS, 1),
                Action::Goto(TRAFFIC_CONTROL),
            ];
            let matches = Match::any().with(Field::EthDst, mac);
            self.push(L2_FORWARDING, 200, matches, actions);
        }
        self.push_miss(L2_FORWARDING, vec![Action::Goto(TRAFFIC_CONTROL)]);
    }

    /// Adds copies of what some pods receive, and of what others send.
    fn push_mirrors(&mut self, cluster: &Cluster) {
        let copied = vec![
            Action::SetField(Field::Register(9), cluster.mirror_port().into()),
            set_bits(MIRRORED, 1),
            Action::Goto(INGRESS_CLASSIFIER),
        ];
        for pod in &cluster.pods {
            let (priority, field) = match pod.index % 10 {
                3 => (200, Field::Register(1)),
                4 => (190, Field::InPort),
                _ => continue,
            };
            let matches = Match::ipv4().with(field, pod.port);
            self.push(TRAFFIC_CONTROL, priority, matches, copied.clone());
        }
        self.push_miss(TRAFFIC_CONTROL, vec![Action::Goto(INGRESS_CLASSIFIER)]);
    }

    fn push_receivers(&mut self) {
        let probe = with_state(Match::ipv4(), TRACKED, REPLY);
        let probe = probe.with_masked(Field::PacketMark, PROBE_BIT, PROBE_BIT);
        let commit = vec![Action::Goto(CONNTRACK_COMMIT)];
        self.push(INGRESS_CLASSIFIER, 210, probe, commit.clone());
        let hairpin = with_mark(Match::ipv4(), HAIRPIN_MARK);
        self.push(INGRESS_CLASSIFIER, 205, hairpin, commit);
        for destination in [GATEWAY, TUNNEL] {
            let away = with_bits(Match::any(), DESTINATION, destination);
            let metric = vec![Action::Goto(INGRESS_METRIC)];
            self.push(INGRESS_CLASSIFIER, 200, away, metric);
        }
        self.push_miss(INGRESS_CLASSIFIER, vec![Action::Goto(ANTREA_INGRESS)]);
    }

    fn push_exit(&mut self) {
        let new = with_state(Match::ipv4(), NEW | TRACKED, SOURCE_TRANSLATED);
        let new = new.with_masked(Field::CtMark, 0_u8, SERVICE_MARK);
        let remember = commit(ZONE, OUTPUT, None, vec![remember_source()]);
        self.push(CONNTRACK_COMMIT, 200, new, vec![remember]);
        self.push_miss(CONNTRACK_COMMIT, vec![Action::Goto(OUTPUT)]);
        let known = with_bits(Match::any(), OUTPUT_BITS, 1);
        let copied = with_bits(known.clone(), MIRRORED, 1);
        let copied_to = vec![Action::OutputRegister(1), Action::OutputRegister(9)];
        self.push(OUTPUT, 211, copied, copied_to);
        let hairpin = with_mark(Match::ipv4(), HAIRPIN_MARK);
        let back = vec![Action::OutputReserved(ReservedPort::InPort)];
        self.push(OUTPUT, 210, hairpin, back);
        self.push(OUTPUT, 200, known, vec![Action::OutputRegister(1)]);
        let told = with_bits(Match::any(), OUTPUT_BITS, 2);
        self.push(OUTPUT, 200, told, vec![Action::Controller(u16::MAX)]);
        self.push_miss(OUTPUT, vec![]);
    }
}
