//! Tests `ct`, `ct_clear` and `resubmit(,T,ct)`: the interpreter's requests to the tracker, the
//! bits that it reads for them, and how packets go on with the answer.

use std::net::Ipv4Addr;
use std::sync::Arc;

use thalweg_conntrack::{
    AddressTranslation as Nat, Bits, Selection, TrackRequest, TranslationKind,
};
use thalweg_packet::wire::{
    Icmpv4Repr, Icmpv4Type, IpProtocol, MacAddress, PacketBuilder, TcpFlags,
};
use thalweg_packet::{
    Connection, FieldId, Headers, Instant, Packet, PacketPool, PortId, Receipt, standard as f,
};
use thalweg_pipeline::text::parse_rules;
use thalweg_pipeline::{
    Action, BridgeId, Change, Config, Effect, Flow, Operation, Outbox, Pipeline, PortState,
    Subfield, TableId, Tracking, Translation, Write, Zone, forward, resume, translate,
};

const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const INNER: BridgeId = BridgeId(1);

fn port(peer: Option<PortId>) -> PortState {
    PortState {
        is_up: true,
        floods: true,
        forwards: true,
        peer,
    }
}

fn operations(rules: &str) -> Vec<Operation> {
    let rules = parse_rules("rules", rules);
    let rules = rules.unwrap_or_else(|errors| panic!("{errors:#?}"));
    rules.into_change().operations
}

/// A pipeline with the ports 1 to 5.
fn pipeline(rules: &str) -> Pipeline {
    let mut pipeline = Pipeline::new(Config::default());
    let ports = (1..=5).map(|number| Operation::SetPort(PortId(number), port(None)));
    let operations = ports.chain(operations(rules)).collect();
    let applied = pipeline.apply(&Change { operations }, Instant::ZERO);
    applied.expect("the test's rules can be loaded");
    pipeline
}

fn ethernet() -> PacketBuilder {
    let address = |last: u64| MacAddress::from_u64(0x0200_0000_0000 | last);
    PacketBuilder::ethernet(address(1), address(2))
}

fn syn() -> Vec<u8> {
    let tcp = ethernet().ipv4(CLIENT, SERVER).tcp(1000, 80);
    let tcp = tcp.tcp_flags(TcpFlags::SYN).tcp_window(8192);
    tcp.tcp_numbers(100, 0).build()
}

/// The SYN+ACK that answers [`syn`], to this address and port.
fn answer(to: Ipv4Addr, port: u16) -> Vec<u8> {
    let tcp = ethernet().ipv4(SERVER, to).tcp(80, port);
    let flags = TcpFlags(TcpFlags::SYN.0 | TcpFlags::ACK.0);
    let tcp = tcp.tcp_flags(flags).tcp_window(8192);
    tcp.tcp_numbers(900, 101).build()
}

fn key(pipeline: &Pipeline, frame: &[u8], connection: Connection) -> Vec<u64> {
    let headers = Headers::parse(frame).expect("a frame");
    let layout = pipeline.layout();
    let mut key = vec![0; layout.ingress_words()];
    let receipt = Receipt {
        in_port: 1,
        connection,
        ..Receipt::default()
    };
    layout.extract(frame, &headers, &receipt, &mut key);
    key
}

/// The first pass of a SYN from port 1.
fn first_pass(pipeline: &Pipeline) -> Translation {
    let key = key(pipeline, &syn(), Connection::default());
    translate(pipeline, &key, pipeline.version())
}

/// The bits of a field in the mask.
fn mask_of(pipeline: &Pipeline, translation: &Translation, field: FieldId) -> u128 {
    let mask = &translation.mask;
    pipeline.layout().get(mask, field).unwrap_or(0)
}

/// What the tracker is asked first.
fn request(translation: &Translation) -> TrackRequest {
    let asked = translation.effects.iter().find_map(|effect| match effect {
        Effect::Track(request) => Some(TrackRequest::clone(request)),
        _ => None,
    });
    asked.unwrap_or_else(|| panic!("nothing is tracked: {:?}", translation.effects))
}

/// A switch with a tracker; packets come in by port 1.
struct Switch {
    pipeline: Pipeline,
    outbox: Outbox,
}

impl Switch {
    fn new(rules: &str) -> Switch {
        Switch::of(pipeline(rules))
    }

    fn of(pipeline: Pipeline) -> Switch {
        let mut outbox = Outbox::new(PacketPool::with_capacity(0, 0));
        outbox.grows = true;
        Switch { pipeline, outbox }
    }

    /// The ports that a packet leaves by.
    fn send(&mut self, frame: &[u8]) -> Vec<u32> {
        let sent = self.send_whole(frame).into_iter();
        sent.map(|(port, _)| port.0).collect()
    }

    fn send_whole(&mut self, frame: &[u8]) -> Vec<(PortId, Packet)> {
        let mut packet = Packet::from_bytes(frame);
        packet.set_received(PortId(1), Instant::ZERO);
        let version = self.pipeline.version();
        forward(&self.pipeline, version, packet, &mut self.outbox).expect("a frame");
        std::mem::take(&mut self.outbox.sent)
    }
}

#[test]
fn the_tracker_is_asked_all_that_the_rule_says() {
    let pipeline = pipeline(
        "ip,actions=ct(commit,force,zone=5,table=1,nat(src=10.0.0.9:7-8,random,persistent),\
         exec(set_field:0x7/0xf->ct_mark,set_field:1->ct_label)),output:2\n\
         table=1,actions=output:3",
    );
    let translation = first_pass(&pipeline);
    let asked = TrackRequest {
        zone: 5,
        is_commit: true,
        is_forced: true,
        mark: Some(Bits { value: 7, mask: 15 }),
        label: Some(Bits {
            value: 1,
            mask: u128::MAX,
        }),
        translation: Some(Nat {
            target: Some((
                TranslationKind::Source,
                Some(
                    [9, 9]
                        .map(|last| Ipv4Addr::new(10, 0, 0, last).to_ipv6_mapped())
                        .into(),
                ),
                Some((7, 8)),
            )),
            selection: Selection::Random,
            is_persistent: true,
        }),
        place: request(&translation).place,
        ..TrackRequest::default()
    };
    let expected = [
        Effect::Track(Arc::new(asked)),
        Effect::Clone([Effect::Recirculate(0)].into()),
        Effect::Output(PortId(2)),
    ];
    assert_eq!(translation.effects, expected);
    assert_eq!(translation.continuations.len(), 1);
}

#[test]
fn what_is_asked_last_of_a_bit_counts() {
    let pipeline = pipeline(
        "tcp,actions=ct(commit,exec(set_field:0xff->ct_mark,\
         move:NXM_OF_TCP_DST[0..3]->NXM_NX_CT_MARK[4..7],set_field:0/0x1->ct_mark))",
    );
    let mark = request(&first_pass(&pipeline)).mark;
    let expected = Bits {
        value: 0x0e,
        mask: u32::MAX,
    };
    assert_eq!(mark, Some(expected));
}

#[test]
fn a_zone_from_a_register_is_in_the_mask_and_a_number_is_not() {
    let from = "ip,actions=move:NXM_OF_IP_DST[0..7]->NXM_NX_REG0[0..7],ct(zone=NXM_NX_REG0[0..15])";
    let pipeline_of_register = pipeline(from);
    let translation = first_pass(&pipeline_of_register);
    assert_eq!(request(&translation).zone, 2);
    assert_eq!(
        mask_of(&pipeline_of_register, &translation, f::IP_DST),
        0xff
    );
    let pipeline_of_number =
        pipeline("ip,actions=move:NXM_OF_IP_DST[0..7]->NXM_NX_REG0[0..7],ct(zone=9)");
    let translation = first_pass(&pipeline_of_number);
    assert_eq!(request(&translation).zone, 9);
    assert_eq!(mask_of(&pipeline_of_number, &translation, f::IP_DST), 0);
}

#[test]
fn what_an_exec_moves_is_in_the_mask() {
    let pipeline = pipeline(
        "ip,actions=ct(commit,exec(move:NXM_OF_IP_SRC[0..3]->NXM_NX_CT_MARK[8..11],\
         move:NXM_OF_IP_DST[0..7]->NXM_NX_CT_LABEL[120..127]))",
    );
    let translation = first_pass(&pipeline);
    let asked = request(&translation);
    let mark = Bits {
        value: 0x100,
        mask: 0xf00,
    };
    let label = Bits {
        value: 2 << 120,
        mask: 0xff << 120,
    };
    assert_eq!((asked.mark, asked.label), (Some(mark), Some(label)));
    assert_eq!(mask_of(&pipeline, &translation, f::IP_SRC), 0xf);
    assert_eq!(mask_of(&pipeline, &translation, f::IP_DST), 0xff);
}

#[test]
fn conditions_on_a_connection_are_in_the_mask() {
    let pipeline = pipeline(
        "priority=2,ct_state=+new+trk,ct_mark=0x3/0xf,actions=output:2\n\
         priority=1,ip,ct_zone=4,ct_nw_src=10.0.0.0/8,ct_tp_dst=80,actions=output:3",
    );
    let connection = Connection {
        state: 0x22,
        zone: 4,
        source: u32::from(CLIENT).into(),
        destination_port: 80,
        protocol: 6,
        ..Connection::default()
    };
    let key = key(&pipeline, &syn(), connection);
    let translation = translate(&pipeline, &key, pipeline.version());
    assert_eq!(translation.effects, [Effect::Output(PortId(3))]);
    let mask = |field| mask_of(&pipeline, &translation, field);
    assert_ne!(mask(f::CT_STATE) & 0x21, 0);
    assert_eq!(mask(f::CT_ZONE), 0xffff);
    assert_eq!(mask(f::CT_NW_SRC), 0xff00_0000);
    assert_eq!(mask(f::CT_TP_DST), 0xffff);
    assert_eq!(mask(f::CT_NW_DST), 0);
}

#[test]
fn the_list_goes_on_without_a_connection() {
    let tracked = Connection {
        state: 0x22,
        zone: 4,
        mark: 5,
        label: 6,
        protocol: 6,
        ..Connection::default()
    };
    for action in ["ct(zone=1)", "ct_clear"] {
        let pipeline = pipeline(&format!(
            "ip,ct_state=+trk,actions={action},resubmit(,1)\n\
             table=1,ct_state=0,ct_zone=0,ct_mark=0,ct_label=0,actions=output:2\n\
             table=1,priority=1,actions=output:3"
        ));
        let key = key(&pipeline, &syn(), tracked);
        let translation = translate(&pipeline, &key, pipeline.version());
        let last = translation.effects.last();
        assert_eq!(last, Some(&Effect::Output(PortId(2))), "{action}");
    }
}

#[test]
fn ct_clear_is_told_only_where_a_tracker_has_spoken() {
    let pipeline = pipeline(
        "ip,actions=ct_clear,ct(table=1),ct_clear\n\
         table=1,ip,actions=ct_clear,ct_clear,ct(zone=3)",
    );
    let first = first_pass(&pipeline);
    let untracks = |effects: &[Effect]| effects.iter().filter(|e| **e == Effect::Untrack).count();
    assert_eq!(untracks(&first.effects), 0);
    let tracked = Connection {
        state: 0x21,
        ..Connection::default()
    };
    let key = key(&pipeline, &syn(), tracked);
    let version = pipeline.version();
    let second = resume(&pipeline, &key, &first.continuations[0], version);
    assert_eq!(untracks(&second.effects), 1);
}

#[test]
fn a_copy_goes_on_with_registers_stack_and_action_set() {
    let mut switch = Switch::new(
        "ip,actions=write_actions(output:3),goto_table:1\n\
         table=1,ip,actions=load:7->NXM_NX_REG1[],push:NXM_NX_REG1[],load:0->NXM_NX_REG1[],\
         load:9->NXM_NX_REG2[],ct(table=2),load:8->NXM_NX_REG2[]\n\
         table=2,reg1=0,reg2=9,ct_state=+trk+new,actions=pop:NXM_NX_REG3[],resubmit(,3)\n\
         table=3,reg3=7,actions=output:2",
    );
    // The list itself ends with its action set; then comes the copy, and its action set.
    assert_eq!(switch.send(&syn()), [3, 2, 3]);
}

#[test]
fn a_copy_in_a_clone_or_a_bucket_goes_on_alone() {
    let mut switch = Switch::new(
        "group_id=1,type=all,bucket=ct(table=1),bucket=output:3\n\
         ip,actions=clone(ct(table=1,zone=2),output:4),group:1,output:5\n\
         table=1,ct_state=+trk,ct_zone=2,actions=output:1,in_port\n\
         table=1,ct_state=+trk,ct_zone=0,actions=output:2",
    );
    assert_eq!(switch.send(&syn()), [4, 3, 5, 1, 2]);
}

#[test]
fn a_bucket_that_tracks_leads_to_a_packet_of_its_own() {
    let mut switch = Switch::new(
        "group_id=1,type=select,bucket=weight:1,ct(commit,nat(dst=10.0.0.5),table=1),\
         bucket=weight:0,output:5\n\
         ip,actions=group:1\n\
         table=1,ip,ct_state=+dnat+trk,nw_dst=10.0.0.5,actions=write_actions(output:2)",
    );
    assert_eq!(switch.send(&syn()), [2]);
}

#[test]
fn an_action_set_tracks_if_it_neither_sends_nor_resubmits() {
    let mut switch = Switch::new(
        "ip,actions=write_actions(ct(table=2)),goto_table:1\n\
         table=1,tcp,actions=drop\n\
         table=1,udp,actions=write_actions(output:3)\n\
         table=2,ip,ct_state=+trk,actions=write_actions(output:2)",
    );
    assert_eq!(switch.send(&syn()), [2]);
    let datagram = ethernet().ipv4(CLIENT, SERVER).udp(1000, 53);
    assert_eq!(switch.send(&datagram.build()), [3]);
}

#[test]
fn every_ct_of_a_list_has_a_copy_of_its_own() {
    let mut switch = Switch::new(
        "ip,actions=ct(table=1,zone=1),mod_dl_src:00:00:00:00:00:05,ct(table=1,zone=2)\n\
         table=1,ct_zone=1,dl_src=02:00:00:00:00:01,actions=output:2\n\
         table=1,ct_zone=2,dl_src=00:00:00:00:00:05,actions=output:3",
    );
    assert_eq!(switch.send(&syn()), [2, 3]);
}

#[test]
fn a_reply_is_established_once_its_connection_is_committed() {
    let mut switch = Switch::new(
        "ip,actions=ct(table=1)\n\
         table=1,ip,ct_state=+new+trk,actions=ct(commit,exec(set_field:5->ct_mark)),output:2\n\
         table=1,ct_state=+est+rpl,ct_mark=5,ct_nw_src=10.0.0.1,ct_tp_dst=80,ip,actions=output:3\n\
         table=1,ct_state=+est-rpl,actions=output:4",
    );
    // An answer to nothing is invalid.
    assert_eq!(switch.send(&answer(CLIENT, 1000)), []);
    assert_eq!(switch.send(&syn()), [2]);
    assert_eq!(switch.send(&answer(CLIENT, 1000)), [3]);
    let ack = ethernet().ipv4(CLIENT, SERVER).tcp(1000, 80);
    let ack = ack.tcp_flags(TcpFlags::ACK).tcp_numbers(101, 901).build();
    assert_eq!(switch.send(&ack), [4]);
}

#[test]
fn a_packet_tracked_twice_in_a_zone_stays_new_and_a_cleared_one_is_tracked_afresh() {
    // In the middle of a connection: a second segment belongs to what the first one began.
    let ack = ethernet().ipv4(CLIENT, SERVER).tcp(1000, 80);
    let ack = ack.tcp_flags(TcpFlags::ACK).tcp_numbers(101, 901).build();
    for (between, expected) in [("", 3), ("ct_clear,", 4), ("debug_recirc,ct_clear,", 4)] {
        let mut switch = Switch::new(&format!(
            "ip,actions=ct(table=1)\n\
             table=1,ip,ct_state=+new+trk,actions=ct(commit,table=2)\n\
             table=2,ip,actions={between}ct(table=3)\n\
             table=3,ct_state=+new+trk,actions=output:3\n\
             table=3,ct_state=+est+trk,actions=output:4"
        ));
        assert_eq!(switch.send(&ack), [expected], "{between}");
    }
}

#[test]
fn a_translated_packet_is_looked_up_with_its_new_address() {
    let mut switch = Switch::new(
        "ip,nw_src=10.0.0.1,actions=ct(commit,table=1,nat(src=10.0.0.9:2000))\n\
         ip,nw_dst=10.0.0.9,actions=ct(table=1,nat)\n\
         table=1,tcp,nw_src=10.0.0.9,tp_src=2000,ct_state=+snat,actions=output:2\n\
         table=1,tcp,nw_dst=10.0.0.1,tp_dst=1000,ct_state=+rpl,actions=output:3",
    );
    let sent = switch.send_whole(&syn());
    let Some((PortId(2), packet)) = sent.first() else {
        panic!("{sent:?}");
    };
    assert_eq!(packet.bytes()[26..30], [10, 0, 0, 9]);
    let back = answer(Ipv4Addr::new(10, 0, 0, 9), 2000);
    assert_eq!(switch.send(&back), [3]);
}

#[test]
fn a_lookup_with_the_tuple_sees_the_first_packet_and_leaves_the_packet() {
    let mut switch = Switch::new(
        "ip,nw_src=10.0.0.1,actions=ct(commit,table=1,nat(src=10.0.0.9:2000))\n\
         table=1,tcp,actions=resubmit(,2,ct),resubmit(,2)\n\
         table=2,tcp,nw_src=10.0.0.1,tp_src=1000,nw_dst=10.0.0.2,tp_dst=80,\
         ct_nw_src=10.0.0.9,ct_tp_src=2000,ct_nw_proto=6,actions=output:2,resubmit(,3)\n\
         table=2,tcp,nw_src=10.0.0.9,tp_src=2000,ct_nw_src=10.0.0.1,ct_tp_src=1000,\
         actions=output:3\n\
         table=3,ip,nw_src=10.0.0.9,actions=output:4",
    );
    // Actions that the lookup leads to have the packet's own addresses again.
    assert_eq!(switch.send(&syn()), [2, 4, 3]);
}

#[test]
fn the_tuple_of_an_error_is_that_of_what_it_quotes() {
    let mut switch = Switch::new(
        "ip,actions=ct(table=1)\n\
         table=1,ct_state=+new,ip,actions=ct(commit),output:2\n\
         table=1,icmp,ct_state=+rel,actions=resubmit(,2,ct),resubmit(,2)\n\
         table=2,tcp,tp_src=1000,tp_dst=80,actions=output:3\n\
         table=2,icmp,icmp_type=3,icmp_code=1,ct_nw_proto=6,actions=output:4",
    );
    assert_eq!(switch.send(&syn()), [2]);
    let error = Icmpv4Repr {
        message_type: Icmpv4Type::DESTINATION_UNREACHABLE,
        code: 1,
        rest: [0; 4],
    };
    let quoted = &syn()[14..42];
    let frame = ethernet()
        .ipv4(SERVER, CLIENT)
        .icmpv4(error)
        .payload(quoted);
    assert_eq!(switch.send(&frame.build()), [3, 4]);
}

#[test]
fn what_a_lookup_with_the_tuple_read_is_in_the_mask() {
    let pipeline = pipeline(
        "ip,ct_state=+trk,actions=resubmit(,1,ct)\n\
         table=1,ip,nw_src=10.0.0.0/8,actions=output:2",
    );
    let tracked = Connection {
        state: 0x22,
        source: u32::from(CLIENT).into(),
        protocol: 6,
        ..Connection::default()
    };
    let key = key(&pipeline, &syn(), tracked);
    let translation = translate(&pipeline, &key, pipeline.version());
    assert_eq!(translation.effects, [Effect::Output(PortId(2))]);
    assert_eq!(mask_of(&pipeline, &translation, f::CT_NW_SRC), 0xff00_0000);
    assert_eq!(mask_of(&pipeline, &translation, f::IP_SRC), 0);
}

#[test]
fn a_packet_behind_a_label_is_tracked_after_another_parse() {
    let mut switch = Switch::new(
        "mpls,actions=pop_mpls:0x0800,ct(table=1)\n\
         table=1,ct_state=+new+trk,tcp,ct_tp_dst=80,actions=output:2\n\
         table=1,priority=1,actions=output:3",
    );
    let tcp = ethernet().mpls(16, 0, 64).ipv4(CLIENT, SERVER);
    let tcp = tcp.tcp(1000, 80).tcp_flags(TcpFlags::SYN);
    assert_eq!(switch.send(&tcp.build()), [2]);
}

#[test]
fn another_parse_neither_brings_a_connection_back_nor_loses_one() {
    let mut switch = Switch::new(
        "ip,actions=ct(table=1)\n\
         table=1,ip,actions=resubmit(,2),ct_clear,resubmit(,2)\n\
         table=2,ip,actions=debug_recirc,resubmit(,3)\n\
         table=3,ct_state=+trk,actions=output:2\n\
         table=3,ct_state=-trk,actions=output:3",
    );
    assert_eq!(switch.send(&syn()), [2, 3]);
}

/// Bridge 0 with the port 1 and the patch 9, the inner bridge with the ports 2 and 3 and the
/// patch 8.
fn two_bridges(outer: &str, inner: &str) -> Switch {
    let mut pipeline = Pipeline::new(Config {
        bridges: true,
        ..Config::default()
    });
    let ends = (PortId(9), INNER.port(8));
    let ports = [
        Operation::SetPort(PortId(1), port(None)),
        Operation::SetPort(PortId(2), port(None)),
        Operation::SetPort(INNER.port(2), port(None)),
        Operation::SetPort(INNER.port(3), port(None)),
        Operation::SetPort(ends.0, port(Some(ends.1))),
        Operation::SetPort(ends.1, port(Some(ends.0))),
    ];
    let inner = operations(inner);
    let inner = inner.iter().map(|operation| operation.in_bridge(INNER));
    let all = ports.into_iter().chain(operations(outer)).chain(inner);
    let change = Change {
        operations: all.collect(),
    };
    let made = pipeline.apply(&change, Instant::ZERO);
    made.expect("the test's rules can be loaded");
    Switch::of(pipeline)
}

#[test]
fn a_patch_clears_the_connection_and_it_comes_back_behind_it() {
    let mut switch = two_bridges(
        "ip,actions=ct(table=1)\n\
         table=1,ct_state=+trk,actions=output:9,resubmit(,2)\n\
         table=2,ct_state=+trk,actions=output:2",
        "in_port=8,ct_state=0,ct_nw_proto=0,ip,actions=output:3\n\
         priority=1,actions=output:2",
    );
    let sent = switch.send_whole(&syn());
    let ports: Vec<_> = sent.into_iter().map(|(port, _)| port).collect();
    assert_eq!(ports, [INNER.port(3), PortId(2)]);
}

#[test]
fn a_table_of_ct_is_one_of_its_own_bridge() {
    let mut switch = two_bridges(
        "ip,actions=output:9\ntable=1,actions=output:2",
        "in_port=8,ip,actions=ct(table=1,zone=4)\n\
         table=1,in_port=8,ct_zone=4,actions=output:3",
    );
    let sent = switch.send_whole(&syn());
    let ports: Vec<_> = sent.into_iter().map(|(port, _)| port).collect();
    assert_eq!(ports, [INNER.port(3)]);
}

#[test]
fn only_ip_has_connections() {
    let mut switch = Switch::new(
        "ip,actions=ct(table=1)\n\
         table=1,ct_state=+inv+trk,actions=output:2\n\
         table=1,ct_state=+new+trk,actions=output:3",
    );
    let gre = ethernet().ipv4(CLIENT, SERVER).protocol(IpProtocol::GRE);
    assert_eq!(switch.send(&gre.payload(&[0; 4]).build()), [3]);
    let mut broken = syn();
    // The checksum of TCP.
    broken[50] ^= 1;
    assert_eq!(switch.send(&broken), [2]);
}

/// Why a rule with this action is refused.
fn refusal(action: Action) -> String {
    let flow = Flow {
        actions: [action].into(),
        ..Flow::default()
    };
    let mut pipeline = Pipeline::new(Config::default());
    let refused = pipeline.apply(&Change::adding([flow]), Instant::ZERO);
    refused.expect_err("it cannot be had").to_string()
}

#[test]
fn what_no_text_can_say_is_refused_too() {
    let asked = Tracking {
        zone: Zone::Number(0),
        is_commit: true,
        is_forced: false,
        table: None,
        translation: None,
        alg: None,
        exec: [].into(),
    };
    let with = |change: fn(&mut Tracking)| {
        let mut asked = asked.clone();
        change(&mut asked);
        Action::Track(Box::new(asked))
    };
    let cases = [
        (
            with(|asked| asked.zone = Zone::Field(Subfield::whole(f::REG0, 15))),
            "a zone has 16 bits",
        ),
        (
            with(|asked| asked.zone = Zone::Field(Subfield::whole(f::VLAN_TCI, 17))),
            "17 bits",
        ),
        (with(|asked| asked.table = Some(TableId(255))), "table 255"),
        (
            with(|asked| (asked.is_commit, asked.is_forced) = (false, true)),
            "need `commit`",
        ),
        (
            with(|asked| asked.exec = [Action::DecTtl].into()),
            "an exec only writes",
        ),
        (
            with(|asked| asked.exec = [Action::Untrack].into()),
            "an exec only writes",
        ),
        (
            Action::SetField(
                [Write {
                    field: f::CT_MARK,
                    value: 1,
                    mask: 1,
                }]
                .into(),
            ),
            "only the exec of a ct writes",
        ),
        (
            Action::Pop(Subfield::whole(f::CT_LABEL, 8)),
            "only the exec of a ct writes",
        ),
    ];
    for (action, expected) in cases {
        let text = refusal(action);
        assert!(text.contains(expected), "{text}");
    }
    let read_only = with(|asked| {
        let write = Write {
            field: f::CT_ZONE,
            value: 1,
            mask: 1,
        };
        asked.exec = [Action::SetField([write].into())].into();
    });
    assert!(refusal(read_only).contains("read-only"));
}
