//! ANT's tables in front of the policies of senders.

use std::collections::HashSet;

use super::cluster::{
    Cluster, Endpoint, GATEWAY_IP, GATEWAY_PORT, NODE_IP, Service, TUNNEL_MAC, TUNNEL_PORT,
    VIRTUAL_IP,
};
use super::tables::*;
use super::{
    Build, ENDPOINT, GATEWAY, INVALID, NEW, NODE_PORT, POD, REWRITE, SELECTED, SERVICE_MARK,
    SOURCE, SOURCE_ZONE, TO_LEARN, TO_SELECT, TRACKED, TUNNEL, ZONE, remember_source, set_bits,
    set_mark, with_mark, with_state,
};
use crate::action::{Action, FieldSlice, ReservedPort, TrackAction, TrackZone};
use crate::field::Field;
use crate::rule::Match;

/// A pass of the tracker without more.
pub(super) fn track(zone: u16, table: u8) -> TrackAction {
    TrackAction {
        zone: TrackZone::Number(zone),
        is_commit: false,
        is_forced: false,
        table: Some(table),
        translation: Some("nat".to_owned()),
        alg: None,
        exec: Vec::new(),
    }
}

/// A pass of the tracker that remembers a connection, and what it writes into it.
pub(super) fn commit(
    zone: u16,
    table: u8,
    translation: Option<String>,
    exec: Vec<Action>,
) -> Action {
    Action::Track(Box::new(TrackAction {
        is_commit: true,
        translation,
        exec,
        ..track(zone, table)
    }))
}

fn arp() -> Match {
    Match::any().with(Field::EthType, 0x0806_u16)
}

/// The match of packets to a port.
pub(super) fn to_port(protocol: u8, port: u16) -> Match {
    let field = match protocol {
        6 => Field::TcpDst,
        _ => Field::UdpDst,
    };
    Match::ipv4()
        .with(Field::IpProtocol, protocol)
        .with(field, port)
}

impl Build {
    /// Adds the tables up to the state of the connection.
    pub(super) fn push_arriving(&mut self, cluster: &Cluster) {
        self.push(ROOT, 200, arp(), vec![Action::Goto(ARP_SPOOF_GUARD)]);
        self.push(ROOT, 200, Match::ipv4(), vec![Action::Goto(CLASSIFIER)]);
        self.push_miss(ROOT, vec![]);
        self.push_arp(cluster);
        self.push_sources(cluster);
        for address in [VIRTUAL_IP, GATEWAY_IP] {
            let matches = Match::ipv4().with(Field::IpDst, address);
            let track = Action::Track(Box::new(track(SOURCE_ZONE, CONNTRACK_ZONE)));
            self.push(UN_SNAT, 200, matches, vec![track]);
        }
        self.push_miss(UN_SNAT, vec![Action::Goto(CONNTRACK_ZONE)]);
        let track = Action::Track(Box::new(track(ZONE, CONNTRACK_STATE)));
        self.push(CONNTRACK_ZONE, 200, Match::ipv4(), vec![track]);
        self.push_miss(CONNTRACK_ZONE, vec![Action::Goto(CONNTRACK_STATE)]);
        let invalid = with_state(Match::ipv4(), INVALID | TRACKED, 0);
        self.push(CONNTRACK_STATE, 200, invalid, vec![]);
        let known = with_state(Match::ipv4(), TRACKED, NEW);
        let serviced = with_mark(known.clone(), SERVICE_MARK);
        let rewrite = vec![set_bits(REWRITE, 1), Action::Goto(ANTREA_EGRESS)];
        self.push(CONNTRACK_STATE, 190, serviced, rewrite);
        let others = known.with_masked(Field::CtMark, 0_u8, SERVICE_MARK);
        self.push(
            CONNTRACK_STATE,
            190,
            others,
            vec![Action::Goto(ANTREA_EGRESS)],
        );
        self.push_miss(CONNTRACK_STATE, vec![Action::Goto(PRE_ROUTING)]);
    }

    fn push_arp(&mut self, cluster: &Cluster) {
        let respond = vec![Action::Goto(ARP_RESPONDER)];
        for pod in &cluster.pods {
            let own = arp()
                .with(Field::InPort, pod.port)
                .with(Field::ArpSpa, pod.ip)
                .with(Field::ArpSha, pod.mac);
            self.push(ARP_SPOOF_GUARD, 200, own, respond.clone());
        }
        let gateway = arp().with(Field::InPort, GATEWAY_PORT);
        self.push(ARP_SPOOF_GUARD, 200, gateway, respond);
        self.push_miss(ARP_SPOOF_GUARD, vec![]);
        for node in 0..cluster.nodes {
            let asked = Cluster::network_of_node(node) + 1;
            let matches = arp().with(Field::ArpOp, 1_u8).with(Field::ArpTpa, asked);
            self.push(ARP_RESPONDER, 200, matches, reply(asked));
        }
        let normal = Action::OutputReserved(ReservedPort::Normal);
        self.push(ARP_RESPONDER, 190, arp(), vec![normal]);
        self.push_miss(ARP_RESPONDER, vec![]);
    }

    /// Adds the tables that tell where a packet comes from, and whether it may.
    fn push_sources(&mut self, cluster: &Cluster) {
        let from = |port| Match::any().with(Field::InPort, port);
        let tunnel = vec![
            set_bits(SOURCE, TUNNEL),
            set_bits(REWRITE, 1),
            Action::Goto(UN_SNAT),
        ];
        self.push(CLASSIFIER, 200, from(TUNNEL_PORT), tunnel);
        let gateway = vec![set_bits(SOURCE, GATEWAY), Action::Goto(SPOOF_GUARD)];
        self.push(CLASSIFIER, 200, from(GATEWAY_PORT), gateway);
        let next = vec![Action::Goto(UN_SNAT)];
        let own = Match::ipv4().with(Field::InPort, GATEWAY_PORT);
        self.push(SPOOF_GUARD, 200, own, next.clone());
        for pod in &cluster.pods {
            let actions = vec![set_bits(SOURCE, POD), Action::Goto(SPOOF_GUARD)];
            self.push(CLASSIFIER, 190, from(pod.port), actions);
            let own = Match::ipv4()
                .with(Field::InPort, pod.port)
                .with(Field::EthSrc, pod.mac)
                .with(Field::IpSrc, pod.ip);
            self.push(SPOOF_GUARD, 200, own, next.clone());
        }
        self.push_miss(CLASSIFIER, vec![]);
        self.push_miss(SPOOF_GUARD, vec![]);
    }

    /// Adds the tables that choose an endpoint of a service.
    pub(super) fn push_services(&mut self, cluster: &Cluster) {
        let sequence = [NODE_PORT_MARK, SESSION_AFFINITY, SERVICE_LB];
        let sequence = sequence.map(Action::Resubmit).to_vec();
        self.push(PRE_ROUTING, 200, Match::ipv4(), sequence);
        self.push_miss(PRE_ROUTING, vec![Action::Goto(NODE_PORT_MARK)]);
        let to_node = Match::ipv4().with(Field::IpDst, NODE_IP);
        self.push(NODE_PORT_MARK, 200, to_node, vec![set_bits(NODE_PORT, 1)]);
        self.push_miss(NODE_PORT_MARK, vec![Action::Goto(SESSION_AFFINITY)]);
        self.push_miss(SESSION_AFFINITY, vec![set_bits(ENDPOINT, TO_SELECT)]);
        for service in &cluster.services {
            self.push_service(service);
        }
        self.push_miss(SERVICE_LB, vec![Action::Goto(ENDPOINT_DNAT)]);
        let mut seen = HashSet::new();
        let endpoints = cluster.services.iter().flat_map(|one| &one.endpoints);
        for endpoint in endpoints.filter(|endpoint| seen.insert(**endpoint)) {
            self.push_endpoint(endpoint);
        }
        // The endpoint that was remembered is gone.
        let stale = super::with_bits(Match::any(), ENDPOINT, SELECTED);
        let again = vec![set_bits(ENDPOINT, TO_SELECT), Action::Resubmit(SERVICE_LB)];
        self.push(ENDPOINT_DNAT, 190, stale, again);
        self.push_miss(ENDPOINT_DNAT, vec![Action::Goto(ANTREA_EGRESS)]);
    }

    fn push_service(&mut self, service: &Service) {
        let state = match service.has_affinity {
            true => TO_LEARN,
            false => SELECTED,
        };
        let balance = |state| {
            vec![
                set_bits(REWRITE, 1),
                set_bits(ENDPOINT, state),
                Action::SetField(Field::Register(7), service.group.into()),
                Action::Group(service.group),
            ]
        };
        let to_port = to_port(service.protocol, service.port);
        let to_service = to_port.with(Field::IpDst, service.ip);
        let fresh = super::with_bits(to_service.clone(), ENDPOINT, TO_SELECT);
        self.push(SERVICE_LB, 200, fresh, balance(state));
        if service.has_affinity {
            let matches = super::with_bits(to_service, ENDPOINT, TO_LEARN);
            let actions = vec![
                Action::Learn(affinity(service)),
                set_bits(ENDPOINT, SELECTED),
                Action::Goto(ENDPOINT_DNAT),
            ];
            self.push(SERVICE_LB, 190, matches, actions);
        } else if let Some(port) = service.node_port {
            let matches = self::to_port(service.protocol, port);
            let both = (ENDPOINT.0, ENDPOINT.1 | NODE_PORT.1);
            let matches = super::with_bits(matches, both, TO_SELECT | 8);
            self.push(SERVICE_LB, 205, matches, balance(state));
        }
    }

    fn push_endpoint(&mut self, endpoint: &Endpoint) {
        let chosen = (4, ENDPOINT.1 | 0xffff);
        let value = SELECTED << 16 | u128::from(endpoint.port);
        let matches = Match::ipv4()
            .with(Field::IpProtocol, endpoint.protocol)
            .with(Field::Register(3), endpoint.ip);
        let matches = super::with_bits(matches, chosen, value);
        let address = std::net::Ipv4Addr::from(endpoint.ip);
        let translation = format!("nat(dst={address}:{})", endpoint.port);
        let exec = vec![set_mark(SERVICE_MARK), remember_source()];
        let commit = commit(ZONE, ANTREA_EGRESS, Some(translation), exec);
        self.push(ENDPOINT_DNAT, 200, matches, vec![commit]);
    }
}

/// The actions that turn a request for an address into the reply.
fn reply(asked: u32) -> Vec<Action> {
    let whole = FieldSlice::whole;
    vec![
        Action::Move(whole(Field::EthSrc), whole(Field::EthDst)),
        Action::SetField(Field::EthSrc, TUNNEL_MAC.into()),
        Action::SetField(Field::ArpOp, 2),
        Action::Move(whole(Field::ArpSha), whole(Field::ArpTha)),
        Action::SetField(Field::ArpSha, TUNNEL_MAC.into()),
        Action::Move(whole(Field::ArpSpa), whole(Field::ArpTpa)),
        Action::SetField(Field::ArpSpa, asked.into()),
        Action::OutputReserved(ReservedPort::InPort),
    ]
}

/// The rule that remembers the endpoint of a client for five minutes.
fn affinity(service: &Service) -> String {
    let field = match service.protocol {
        6 => "NXM_OF_TCP_DST[]",
        _ => "NXM_OF_UDP_DST[]",
    };
    format!(
        "table={SESSION_AFFINITY},hard_timeout=300,priority=200,delete_learned,\
         cookie=0x{:x},eth_type=0x800,nw_proto={},{field},NXM_OF_IP_DST[],NXM_OF_IP_SRC[],\
         load:NXM_NX_REG4[0..15]->NXM_NX_REG4[0..15],load:NXM_NX_REG3[]->NXM_NX_REG3[],\
         load:0x2->NXM_NX_REG4[16..18],load:0x1->NXM_NX_REG0[9]",
        service.group, service.protocol
    )
}
