//! The tables of ANT and the ways through them.

use super::super::{Table, TableRole, Template, table, template};
use crate::field::Field;

pub(super) const ROOT: u8 = 0;
pub(super) const ARP_SPOOF_GUARD: u8 = 1;
pub(super) const ARP_RESPONDER: u8 = 2;
pub(super) const CLASSIFIER: u8 = 3;
pub(super) const SPOOF_GUARD: u8 = 4;
pub(super) const UN_SNAT: u8 = 5;
pub(super) const CONNTRACK_ZONE: u8 = 6;
pub(super) const CONNTRACK_STATE: u8 = 7;
pub(super) const PRE_ROUTING: u8 = 8;
pub(super) const NODE_PORT_MARK: u8 = 9;
pub(super) const SESSION_AFFINITY: u8 = 10;
pub(super) const SERVICE_LB: u8 = 11;
pub(super) const ENDPOINT_DNAT: u8 = 12;
pub(super) const ANTREA_EGRESS: u8 = 13;
pub(super) const EGRESS: u8 = 14;

pub(super) const EGRESS_METRIC: u8 = 16;
pub(super) const L3_FORWARDING: u8 = 17;
pub(super) const EGRESS_MARK: u8 = 18;
pub(super) const L3_DEC_TTL: u8 = 19;
pub(super) const SNAT_MARK: u8 = 20;
pub(super) const SNAT: u8 = 21;
pub(super) const L2_FORWARDING: u8 = 22;
pub(super) const TRAFFIC_CONTROL: u8 = 23;
pub(super) const INGRESS_CLASSIFIER: u8 = 24;
pub(super) const ANTREA_INGRESS: u8 = 25;
pub(super) const INGRESS: u8 = 26;

pub(super) const INGRESS_METRIC: u8 = 28;
pub(super) const CONNTRACK_COMMIT: u8 = 29;
pub(super) const OUTPUT: u8 = 30;

/// The descriptions; a table that follows a pass of the tracker is a next table as well.
pub(super) fn tables() -> Vec<Table> {
    let mut all = entrance();
    all.extend(policies(
        ANTREA_EGRESS,
        "Egress",
        Field::IpSrc,
        Field::IpDst,
    ));
    all.extend(forwarding());
    let ingress = policies(ANTREA_INGRESS, "Ingress", Field::Register(1), Field::IpSrc);
    all.extend(ingress);
    all.extend(exit());
    all
}

/// A table that is no access list and no bridge.
fn plain(id: u8, name: &str, fields: &[Field], next: &[u8]) -> Table {
    table(id, name, TableRole::Classify, fields, next, &[])
}

/// Tables in front of the policies of senders.
fn entrance() -> Vec<Table> {
    use Field::{ArpOp, ArpSha, ArpSpa, ArpTpa, CtMark, CtState, EthSrc, EthType};
    use Field::{InPort, IpDst, IpProtocol, IpSrc, TcpDst, UdpDst};
    let (marks, address, state) = (Field::Register(0), Field::Register(3), Field::Register(4));
    let root = [ARP_SPOOF_GUARD, CLASSIFIER];
    let guard = [EthType, InPort, ArpSpa, ArpSha];
    let sources = [SPOOF_GUARD, UN_SNAT];
    let tracked = [PRE_ROUTING, ANTREA_EGRESS];
    let sequence = [NODE_PORT_MARK, SESSION_AFFINITY, SERVICE_LB];
    let balanced = [EthType, IpProtocol, IpDst, TcpDst, UdpDst, state];
    let endpoint = [EthType, IpProtocol, address, state, marks];
    vec![
        plain(ROOT, "PipelineRootClassifier", &[EthType], &root),
        plain(ARP_SPOOF_GUARD, "ARPSpoofGuard", &guard, &[ARP_RESPONDER]),
        plain(
            ARP_RESPONDER,
            "ARPResponder",
            &[EthType, ArpOp, ArpTpa],
            &[],
        ),
        plain(CLASSIFIER, "Classifier", &[InPort], &sources),
        plain(
            SPOOF_GUARD,
            "SpoofGuard",
            &[EthType, InPort, EthSrc, IpSrc],
            &[UN_SNAT],
        ),
        plain(UN_SNAT, "UnSNAT", &[EthType, IpDst], &[CONNTRACK_ZONE]),
        plain(
            CONNTRACK_ZONE,
            "ConntrackZone",
            &[EthType],
            &[CONNTRACK_STATE],
        ),
        plain(
            CONNTRACK_STATE,
            "ConntrackState",
            &[EthType, CtState, CtMark],
            &tracked,
        ),
        plain(PRE_ROUTING, "PreRoutingClassifier", &[EthType], &sequence),
        plain(
            NODE_PORT_MARK,
            "NodePortMark",
            &[EthType, IpDst],
            &[SESSION_AFFINITY],
        ),
        plain(SESSION_AFFINITY, "SessionAffinity", &[], &[]),
        plain(SERVICE_LB, "ServiceLB", &balanced, &[ENDPOINT_DNAT]),
        plain(
            ENDPOINT_DNAT,
            "EndpointDNAT",
            &endpoint,
            &[SERVICE_LB, ANTREA_EGRESS],
        ),
    ]
}

/// The four tables of policies of one direction, from `first`.
fn policies(first: u8, direction: &str, pod: Field, peer: Field) -> Vec<Table> {
    use Field::{ConjId, CtLabel, CtState, EthType, IpProtocol, TcpDst, UdpDst};
    let clauses = [
        EthType, pod, peer, IpProtocol, TcpDst, UdpDst, ConjId, CtState,
    ];
    let metric = [
        EthType,
        CtState,
        CtLabel,
        Field::Register(0),
        Field::Register(3),
    ];
    let after = [[L3_FORWARDING], [CONNTRACK_COMMIT]][usize::from(first == ANTREA_INGRESS)];
    let names = ["AntreaPolicy{}Rule", "{}Rule", "{}DefaultRule", "{}Metric"];
    let names = names.map(|name| name.replace("{}", direction));
    vec![
        plain(first, &names[0], &clauses, &[first + 1, first + 3]),
        plain(first + 1, &names[1], &clauses, &[first + 2, first + 3]),
        plain(first + 2, &names[2], &[EthType, pod], &[first + 3]),
        plain(first + 3, &names[3], &metric, &after),
    ]
}

/// Tables between the policies of senders and those of receivers.
fn forwarding() -> Vec<Table> {
    use Field::{CtMark, CtState, EthDst, EthType, InPort, IpDst, IpSrc, PacketMark};
    let (marks, port) = (Field::Register(0), Field::Register(1));
    let routed = [L2_FORWARDING, EGRESS_MARK, L3_DEC_TTL];
    let classified = [ANTREA_INGRESS, INGRESS_METRIC, CONNTRACK_COMMIT];
    vec![
        plain(
            L3_FORWARDING,
            "L3Forwarding",
            &[EthType, IpDst, marks, CtState, CtMark],
            &routed,
        ),
        plain(
            EGRESS_MARK,
            "EgressMark",
            &[EthType, IpDst, InPort, CtState, marks],
            &[L2_FORWARDING],
        ),
        plain(L3_DEC_TTL, "L3DecTTL", &[EthType, marks], &[SNAT_MARK]),
        plain(
            SNAT_MARK,
            "SNATMark",
            &[EthType, CtState, marks, IpSrc, IpDst],
            &[SNAT],
        ),
        plain(
            SNAT,
            "SNAT",
            &[EthType, CtState, CtMark, marks],
            &[L2_FORWARDING],
        ),
        table(
            L2_FORWARDING,
            "L2ForwardingCalc",
            TableRole::Bridging,
            &[EthDst],
            &[TRAFFIC_CONTROL],
            &[],
        ),
        plain(
            TRAFFIC_CONTROL,
            "TrafficControl",
            &[EthType, port, InPort],
            &[INGRESS_CLASSIFIER],
        ),
        plain(
            INGRESS_CLASSIFIER,
            "IngressSecurityClassifier",
            &[EthType, CtState, CtMark, PacketMark, marks],
            &classified,
        ),
    ]
}

/// Tables behind the policies of receivers.
fn exit() -> Vec<Table> {
    use Field::{CtMark, CtState, EthType};
    let commit = [EthType, CtState, CtMark];
    let output = [EthType, CtMark, Field::Register(0), Field::Register(4)];
    vec![
        plain(CONNTRACK_COMMIT, "ConntrackCommit", &commit, &[OUTPUT]),
        plain(OUTPUT, "Output", &output, &[]),
    ]
}

/// What a flow is for. The order is that of [`templates`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Scenario {
    /// A pod asks for an address of its network.
    ArpOfPod,
    /// The gateway asks for the gateway of another node.
    ArpOfGateway,
    /// A pod asks with an address that is not its own.
    ArpSpoofed,
    /// A pod sends from an address that is not its own.
    Spoofed,
    /// A pod to another of this node.
    PodToPod,
    /// A pod to one of another node.
    PodToRemote,
    /// A pod to a service.
    PodToService,
    /// A pod to a service that remembers its clients.
    PodToAffinity,
    /// A pod to an address outside of the cluster.
    PodToExternal,
    /// The same, from a pod whose address outside this node has.
    EgressHere,
    /// The same, from a pod whose address outside another node has.
    EgressElsewhere,
    /// Such a pod to another node itself.
    EgressToNode,
    /// A pod to this node.
    PodToGateway,
    /// This node to a pod.
    GatewayToPod,
    /// This node to a pod of another.
    GatewayToRemote,
    /// This node to a service.
    GatewayToService,
    /// A client outside to a port of this node.
    ToNodePort,
    /// A pod of another node to one of this.
    TunnelToPod,
    /// A pod of another node to this node.
    TunnelToGateway,
    /// A pod of another node to an address outside, which this node does not serve.
    TunnelToExternal,
}

impl Scenario {
    pub(super) const ALL: [Scenario; 20] = [
        Scenario::ArpOfPod,
        Scenario::ArpOfGateway,
        Scenario::ArpSpoofed,
        Scenario::Spoofed,
        Scenario::PodToPod,
        Scenario::PodToRemote,
        Scenario::PodToService,
        Scenario::PodToAffinity,
        Scenario::PodToExternal,
        Scenario::EgressHere,
        Scenario::EgressElsewhere,
        Scenario::EgressToNode,
        Scenario::PodToGateway,
        Scenario::GatewayToPod,
        Scenario::GatewayToRemote,
        Scenario::GatewayToService,
        Scenario::ToNodePort,
        Scenario::TunnelToPod,
        Scenario::TunnelToGateway,
        Scenario::TunnelToExternal,
    ];
}

/// The templates: for each [`Scenario`] its name, its weight, and the tables that the first
/// packet of such a flow may visit.
pub(super) fn templates() -> Vec<Template> {
    // What packets from pods and the gateway pass, and those from the tunnel.
    let own = [ROOT, CLASSIFIER, SPOOF_GUARD, UN_SNAT];
    let middle: Vec<u8> = (CONNTRACK_ZONE..=L3_FORWARDING).collect();
    let source = [L3_DEC_TTL, SNAT_MARK, SNAT];
    let ports = [L2_FORWARDING, TRAFFIC_CONTROL, INGRESS_CLASSIFIER];
    let to_pod: Vec<u8> = (ANTREA_INGRESS..=OUTPUT).collect();
    let away = [INGRESS_METRIC, CONNTRACK_COMMIT, OUTPUT];
    let path = |parts: &[&[u8]]| parts.concat();
    let tunnel = [ROOT, CLASSIFIER, UN_SNAT];
    let switched = path(&[&own, &middle, &ports, &to_pod]);
    let routed = path(&[&own, &middle, &source, &ports, &to_pod]);
    let remote = path(&[&own, &middle, &source, &ports, &away]);
    let external = path(&[&own, &middle, &[EGRESS_MARK], &ports, &away]);
    let from_tunnel = path(&[&tunnel, &middle, &source, &ports, &to_pod]);
    let to_gateway = path(&[&tunnel, &middle, &source, &ports, &away]);
    let unserved = path(&[&tunnel, &middle, &[EGRESS_MARK]]);
    let arp = [ROOT, ARP_SPOOF_GUARD, ARP_RESPONDER];
    vec![
        template("arp-of-pod", 1, &arp),
        template("arp-of-gateway", 1, &arp),
        template("arp-spoofed", 1, &arp[..2]),
        template("spoofed", 1, &own[..3]),
        template("pod-to-pod", 10, &switched),
        template("pod-to-remote", 20, &remote),
        template("pod-to-service", 20, &routed),
        template("pod-to-affinity", 3, &routed),
        template("pod-to-external", 8, &external),
        template("egress-here", 3, &external),
        template("egress-elsewhere", 3, &external),
        template("egress-to-node", 1, &external),
        template("pod-to-gateway", 2, &remote),
        template("gateway-to-pod", 3, &switched),
        template("gateway-to-remote", 2, &remote),
        template("gateway-to-service", 2, &routed),
        template("to-node-port", 3, &routed),
        template("tunnel-to-pod", 14, &from_tunnel),
        template("tunnel-to-gateway", 1, &to_gateway),
        template("tunnel-to-external", 1, &unserved),
    ]
}
