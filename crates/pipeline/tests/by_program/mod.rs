//! Operations that a program can build from the public types, and a pipeline for them.

// Each test program uses only a part of it.
#![allow(dead_code)]

use std::sync::Arc;

use proptest::prelude::*;
use proptest::sample::select;
use thalweg_conntrack::{AddressTranslation, Alg, Selection as Chosen, TranslationKind};
use thalweg_packet::wire::{MacAddress, PacketBuilder, TcpFlags};
use thalweg_packet::{FieldId, Headers, Instant, PortId, Receipt, standard as f};
use thalweg_pipeline::text::parse_rules;
use thalweg_pipeline::{
    Action, Actions, BandKind, BridgeId, BridgeMirror, Bucket, Change, Config, Encap, Flow,
    FlowHash, FragmentMode, Group, GroupId, GroupKind, HashedField, LinkAlgorithm, LinkChoice,
    MacMove, Match, MemberAlgorithm, MemberChoice, MeterId, MirrorId, MirrorOutput, MirroredPorts,
    Mirrors, Miss, Misses, NEXT_PROTOCOL, Operation, Output, PacketInReason, Pipeline, PortState,
    PortVlans, PriorityTags, RateBand, RateMeter, RateUnit, Selection, SelectionMethod, Selector,
    Slice, Station, Subfield, TableId, Target, Tracking, VlanMode, VlanSet, Write, Zone, translate,
};

const RULES: &str = "\
    group_id=1,type=select,bucket=weight:1,actions=output:2,bucket=weight:2,actions=output:3\n\
    group_id=2,type=all,bucket=actions=group:1\n\
    table=0,priority=7,ip,nw_dst=10.0.0.0/8,actions=set_field:1->reg0,group:2\n\
    table=0,priority=5,tcp,tp_dst=80,actions=push_vlan:0x8100,goto_table:1\n\
    table=0,priority=0,actions=resubmit(,1)\n\
    table=1,reg0=1,actions=normal\n\
    table=1,priority=0,actions=move:NXM_OF_ETH_SRC[0..15]->NXM_NX_REG1[0..15],output:2";

/// Creates a pipeline with room for `rules` rules.
pub(crate) fn pipeline(rules: usize) -> Pipeline {
    let config = Config {
        rules,
        groups: 4,
        stations: 3,
        ..Config::default()
    };
    let mut pipeline = Pipeline::new(config);
    let state = PortState {
        is_up: true,
        floods: true,
        forwards: true,
        peer: None,
    };
    let ports = (1..=3).map(|port| Operation::SetPort(PortId(port), state));
    let rules = parse_rules("rules", RULES).expect("the test's rules are right");
    let station = Station {
        bridge: BridgeId::default(),
        vlan: 0,
        mac: 2,
    };
    let port = Some(PortId(2));
    let macs = Operation::MoveMacs(vec![MacMove { station, port }]);
    let meter = Operation::SetMeter(RateMeter {
        id: MeterId(1),
        unit: RateUnit::Packets,
        bands: [RateBand {
            kind: BandKind::Drop,
            rate: 1,
            burst: 1,
        }]
        .into(),
        has_burst: true,
        has_statistics: false,
    });
    let operations = ports
        .chain(rules.into_change().operations)
        .chain([macs, meter]);
    let operations = operations.collect();
    let applied = pipeline.apply(&Change { operations }, Instant::ZERO);
    applied.expect("the test's rules can be loaded");
    pipeline
}

pub(crate) fn frames() -> Vec<Vec<u8>> {
    let address = |last: u64| MacAddress::from_u64(0x0200_0000_0000 | last);
    let ethernet = || PacketBuilder::ethernet(address(1), address(2));
    let tcp = |builder: PacketBuilder| {
        let builder = builder.ipv4([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        builder.tcp(1000, 80).tcp_flags(TcpFlags(2)).build()
    };
    vec![
        tcp(ethernet()),
        tcp(ethernet().vlan(7, 3)),
        tcp(ethernet().mpls(16, 0, 64)),
        vec![0; 14],
    ]
}

/// Prints all observable state of a pipeline, including answers to packets.
pub(crate) fn picture(pipeline: &Pipeline) -> String {
    let version = pipeline.version();
    let mut text = format!("{version} {:?}\n", pipeline.layout().used());
    for (id, rule) in pipeline.rules(version) {
        let flow = pipeline.flow_of(id).expect("it exists");
        text += &format!("{id:?} {rule:?} {flow:?}\n");
    }
    for group in pipeline.groups(version) {
        text += &format!("{group:?} {:?}\n", pipeline.group_counters(group.id));
    }
    for known in pipeline.all_meters(version) {
        text += &format!("{known:?} {:?}\n", pipeline.meters().counts(known.place));
    }
    text += &format!("{:?}\n", pipeline.ports(version).collect::<Vec<_>>());
    let mut stations: Vec<_> = pipeline.macs().stations(version).collect();
    stations.sort_unstable();
    text += &format!("{stations:?} {}\n", pipeline.rule_count(version));
    for frame in frames() {
        let headers = Headers::parse(&frame).expect("a frame");
        let mut key = vec![0; pipeline.layout().ingress_words()];
        let receipt = Receipt::from_port(1);
        pipeline
            .layout()
            .extract(&frame, &headers, &receipt, &mut key);
        text += &format!("{:?}\n", translate(pipeline, &key, version));
    }
    text
}

fn field() -> impl Strategy<Value = FieldId> {
    let count = f::fields().len() as u16;
    let common = select(vec![
        f::IN_PORT,
        f::VLAN_TCI,
        f::REG0,
        f::METADATA,
        f::CONJ_ID,
        f::IP_DST,
        f::IPV6_SRC,
        f::TP_DST,
    ]);
    prop_oneof![
        6 => common,
        4 => (0..count).prop_map(FieldId),
        1 => select(vec![count, count + 1, u16::MAX]).prop_map(FieldId),
    ]
}

fn width_of(field: FieldId) -> u16 {
    f::fields()
        .get(field.index())
        .map_or(32, |field| field.width_bits)
}

fn slice() -> impl Strategy<Value = Slice> {
    let odd = select(vec![0, 1, 15, 16, 31, 32, 33, 64, 127, 128, 129, u16::MAX]);
    (field(), 0..4_u8, any::<(u16, u16)>(), odd.clone(), odd).prop_map(
        |(field, kind, (offset, width), odd_offset, odd_width)| {
            let all = width_of(field);
            let (offset, width_bits) = match kind {
                0 => (0, all),
                1 => (odd_offset, odd_width),
                _ => (offset % all, 1 + width % all),
            };
            let fits = kind == 1 || offset + width_bits <= all;
            let width_bits = if fits { width_bits } else { all - offset };
            Slice {
                field,
                offset,
                width_bits,
            }
        },
    )
}

fn subfield() -> impl Strategy<Value = Subfield> {
    let count = prop_oneof![9 => 1..2_usize, 2 => 2..5_usize, 1 => 0..1_usize];
    count
        .prop_flat_map(|count| prop::collection::vec(slice(), count))
        .prop_map(|slices| Subfield {
            slices: slices.into(),
        })
}

fn write() -> impl Strategy<Value = Write> {
    (field(), any::<(u128, u128)>(), 0..6_u8).prop_map(|(field, (value, mask), kind)| {
        let ones = u128::MAX >> (128 - width_of(field));
        let (value, mask) = match kind {
            0 => (value, mask),
            1 => (value & ones, mask & ones),
            2 => (0, 0),
            3 => (value & ones, ones),
            _ => (value & mask & ones, mask & ones),
        };
        Write { field, value, mask }
    })
}

fn output() -> impl Strategy<Value = Output> {
    let port = select(vec![0, 1, 2, 3, 9, 0xffff, 0xfffe, u32::MAX]);
    let cut = (port.clone(), select(vec![0, 13, 14, 20, u32::MAX]));
    let enqueued = (port.clone(), 0..3_u32);
    let controller = any::<(u16, Vec<u8>, bool, Option<u32>)>();
    prop_oneof![
        port.prop_map(|port| Output::Port(PortId(port))),
        select(vec![
            Output::InPort,
            Output::All,
            Output::Flood,
            Output::Normal,
            Output::Local,
            Output::Table,
        ]),
        controller.prop_map(
            |(max_len_bytes, userdata, pause, meter)| Output::Controller {
                max_len_bytes,
                controller_id: 0,
                reason: PacketInReason::Action,
                userdata: userdata.into(),
                pause,
                meter,
            }
        ),
        subfield().prop_map(Output::Field),
        cut.prop_map(|(port, max_len_bytes)| Output::Truncated {
            port: PortId(port),
            max_len_bytes,
        }),
        enqueued.prop_map(|(port, queue)| Output::Enqueue {
            port: PortId(port),
            queue,
        }),
    ]
}

fn number() -> impl Strategy<Value = u16> {
    let known = vec![
        0, 5, 7, 8, 100, 4095, 4096, 0x0800, 0x8100, 0x88a8, 0x8847, 0x8848,
    ];
    prop_oneof![9 => select(known), 1 => any::<u16>()]
}

fn table() -> impl Strategy<Value = TableId> {
    select(vec![0, 1, 2, 9, 254, 255]).prop_map(TableId)
}

/// A choice among links.
fn choice(port: impl Strategy<Value = PortId>) -> impl Strategy<Value = Action> {
    prop_oneof![
        (subfield(), 0..20_u32).prop_map(|(destination, links)| {
            Action::Multipath(Box::new(LinkChoice {
                hash: FlowHash::EthSource,
                basis: 0,
                algorithm: LinkAlgorithm::ModuloN,
                links,
                argument: 0,
                destination,
            }))
        }),
        (
            prop::option::of(subfield()),
            prop::collection::vec(port, 0..3)
        )
            .prop_map(|(destination, members)| {
                Action::Bundle(Box::new(MemberChoice {
                    hash: FlowHash::SymmetricL4,
                    basis: 0,
                    algorithm: MemberAlgorithm::HighestWeight,
                    members: members.into(),
                    destination,
                }))
            }),
    ]
}

/// What an `exec` may hold, and with other actions what it may not.
fn exec() -> impl Strategy<Value = Actions> {
    let field = select(vec![f::CT_MARK, f::CT_LABEL, f::CT_STATE, f::REG0]);
    let write = (field.clone(), any::<(u128, u128)>()).prop_map(|(field, (value, mask))| {
        let mask = mask & u128::MAX >> (128 - width_of(field));
        let value = value & mask;
        Action::SetField([Write { field, value, mask }].into())
    });
    let moved = (slice(), field).prop_map(|(read, field)| {
        let written = Slice { field, ..read };
        Action::Move {
            source: Subfield {
                slices: [read].into(),
            },
            destination: Subfield {
                slices: [written].into(),
            },
        }
    });
    prop::collection::vec(prop_oneof![write, moved], 0..3).prop_map(Actions::from)
}

fn tracking(exec: impl Strategy<Value = Actions>) -> impl Strategy<Value = Tracking> {
    let zone = prop_oneof![
        any::<u16>().prop_map(Zone::Number),
        subfield().prop_map(Zone::Field),
        Just(Zone::Field(Subfield::whole(f::REG0, 16))),
    ];
    let address = |last: u16| std::net::Ipv4Addr::from(0x0a00_0000 | u32::from(last));
    let translation = any::<(bool, Option<(u16, u16)>, Option<(u16, u16)>)>();
    let translation = translation.prop_map(move |(is_source, addresses, ports)| {
        let kind = match is_source {
            true => TranslationKind::Source,
            false => TranslationKind::Destination,
        };
        let addresses = addresses.map(|(first, last)| {
            let mapped = |last| address(last).to_ipv6_mapped();
            (mapped(first), mapped(last))
        });
        AddressTranslation {
            target: Some((kind, addresses, ports)),
            selection: Chosen::Random,
            is_persistent: is_source,
        }
    });
    (
        zone,
        any::<(bool, bool)>(),
        prop::option::of(table()),
        prop::option::of(translation),
        prop::option::of(select(vec![Alg::Ftp, Alg::Tftp])),
        exec,
    )
        .prop_map(
            |(zone, (is_commit, is_forced), table, translation, alg, exec)| Tracking {
                zone,
                is_commit,
                is_forced,
                table,
                translation,
                alg,
                exec,
            },
        )
}

// Like one match: each action has its own arguments.
pub(crate) fn action() -> impl Strategy<Value = Action> {
    let port = select(vec![0, 1, 2, 0xffff, u32::MAX]).prop_map(PortId);
    let moved = (subfield(), subfield(), any::<bool>()).prop_map(|(source, mut written, fits)| {
        if let ([read], [slice], true) = (&*source.slices, &mut *written.slices, fits) {
            slice.width_bits = read.width_bits;
        }
        Action::Move {
            source,
            destination: written,
        }
    });
    let number = || number();
    let tag = (
        prop::option::of(number()),
        prop::option::of(0..10_u8),
        any::<bool>(),
    );
    let group = select(vec![1, 2, 3, 4, 77, 0xffff_ff00, u32::MAX]);
    let leaf = prop_oneof![
        output().prop_map(Action::Output),
        group.prop_map(|group| Action::Group(GroupId(group.into()))),
        prop::collection::vec(write(), 0..3).prop_map(|list| Action::SetField(list.into())),
        write().prop_map(|write| Action::SetField([write].into())),
        moved,
        subfield().prop_map(Action::Push),
        subfield().prop_map(Action::Pop),
        tag.prop_map(|(id, priority, adds_tag)| Action::SetVlan {
            id,
            priority,
            adds_tag
        }),
        number().prop_map(Action::PushVlan),
        number().prop_map(Action::PushMpls),
        number().prop_map(Action::PopMpls),
        select(vec![
            Action::PopVlan,
            Action::DecTtl,
            Action::DecMplsTtl,
            Action::DecNshTtl,
            Action::Encap(Encap::Ethernet),
            Action::Encap(Encap::Mpls(0x8847)),
            Action::Encap(Encap::Mpls(7)),
            Action::Encap(Encap::Nsh(Box::default())),
            Action::Decap(NEXT_PROTOCOL),
            Action::Decap(0),
            Action::PopQueue,
            Action::DebugRecirculation,
            Action::DebugSlow,
            Action::SetQueue(1),
            Action::SetQueue(2),
            Action::Meter(MeterId(1)),
            Action::Meter(MeterId(77)),
            Action::Meter(MeterId(0)),
            Action::Exit
        ]),
        choice(port.clone()),
        (
            prop::option::of(port),
            prop::option::of(table()),
            any::<bool>()
        )
            .prop_map(|(in_port, table, with_tuple)| Action::Resubmit {
                in_port,
                table,
                with_tuple,
            }),
        Just(Action::Untrack),
        tracking(exec()).prop_map(|asked| Action::Track(Box::new(asked))),
        any::<Vec<u8>>().prop_map(|bytes| Action::Note(bytes.into())),
        (0..3_u32, 0..4_u8, 1..4_u8).prop_map(|(id, clause, clauses)| Action::Conjunction {
            id,
            clause,
            clauses
        }),
        Just(Action::ClearActions),
        any::<(u64, u64)>().prop_map(|(value, mask)| Action::WriteMetadata { value, mask }),
        any::<(u64, u64)>().prop_map(|(value, mask)| Action::WriteMetadata {
            value: value & mask,
            mask
        }),
        table().prop_map(Action::Goto),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        let list = prop::collection::vec(inner, 0..4).prop_map(Actions::from);
        prop_oneof![
            list.clone().prop_map(Action::Clone),
            tracking(list.clone()).prop_map(|asked| Action::Track(Box::new(asked))),
            list.prop_map(Action::WriteActions),
        ]
    })
}

pub(crate) fn actions() -> impl Strategy<Value = Actions> {
    prop::collection::vec(action(), 0..4).prop_map(Actions::from)
}

fn matching() -> impl Strategy<Value = Match> {
    prop::collection::vec(write(), 0..3).prop_map(|writes| {
        let mut matching = Match::default();
        for write in writes {
            let _ = matching.add(write.field, write.value, write.mask);
        }
        matching
    })
}

fn selector() -> impl Strategy<Value = Selector> {
    let priority = prop::option::of(select(vec![0, 5, 7]));
    (prop::option::of(table()), matching(), priority).prop_map(
        |(table, matching, strict_priority)| Selector {
            table,
            matching,
            strict_priority,
            cookie: None,
            ..Selector::default()
        },
    )
}

pub(crate) fn group() -> impl Strategy<Value = Group> {
    let header = prop::option::of(select(vec![f::PRESENT_TCP, f::PRESENT_IPV6, f::IP_DST]));
    let hashed = (write(), header).prop_map(|(write, only_with)| HashedField {
        field: write.field,
        mask: write.mask,
        only_with,
    });
    let method = prop_oneof![
        Just(SelectionMethod::Symmetric),
        Just(SelectionMethod::Datapath),
        prop::collection::vec(hashed, 0..3).prop_map(SelectionMethod::Fields),
    ];
    let hashed = (method, any::<u64>())
        .prop_map(|(method, parameter)| GroupKind::Select(Selection { method, parameter }));
    let kind = prop_oneof![
        Just(GroupKind::All),
        hashed,
        Just(GroupKind::Indirect),
        Just(GroupKind::FastFailover),
    ];
    let watched = prop::option::of(select(vec![1, 2, 9, u32::MAX]));
    let bucket = (
        select(vec![0, 1, 2, 3, u32::MAX]),
        any::<u16>(),
        watched.clone(),
        watched,
        actions(),
    );
    let bucket = bucket.prop_map(|(id, weight, port, group, actions)| Bucket {
        id,
        weight,
        watch_port: port.map(PortId),
        watch_group: group.map(|group| GroupId(u64::from(group))),
        actions,
        max_length: 0,
    });
    let id = select(vec![1, 2, 3, 4, 5, 0xffff_ff00, u32::MAX]);
    (id, kind, prop::collection::vec(bucket, 0..3)).prop_map(|(id, kind, buckets)| Group {
        id: GroupId(u64::from(id)),
        kind,
        buckets,
    })
}

fn target() -> impl Strategy<Value = Target> {
    let group = select(vec![1, 2, 77]).prop_map(GroupId);
    (prop::option::of(output()), prop::option::of(group))
        .prop_map(|(output, group)| Target { output, group })
}

fn misses() -> impl Strategy<Value = Arc<Misses>> {
    let miss = select(vec![Miss::Drop, Miss::Controller, Miss::Continue]);
    let table = table().prop_map(|table| table.number());
    let tables = prop::collection::btree_map(table, miss.clone(), 0..3);
    (miss, tables).prop_map(|(others, tables)| Arc::new(Misses { others, tables }))
}

/// VLANs of ports; some have a tag that does not exist.
fn vlans() -> impl Strategy<Value = Arc<PortVlans>> {
    let tag = || select(vec![0, 1, 7, 4095, 4096]);
    let set = || {
        prop::option::of(prop::collection::vec(tag(), 0..3))
            .prop_map(|vlans| vlans.map_or(VlanSet::ALL, VlanSet::of))
    };
    let mode = prop_oneof![
        tag().prop_map(|tag| VlanMode::Access { tag }),
        set().prop_map(|trunks| VlanMode::Trunk { trunks }),
        (tag(), set()).prop_map(|(tag, trunks)| VlanMode::NativeTagged { tag, trunks }),
        (tag(), set()).prop_map(|(tag, trunks)| VlanMode::NativeUntagged { tag, trunks }),
        (tag(), set(), select(vec![0x8100, 0x88a8, 0x0800])).prop_map(|(tag, customers, tpid)| {
            VlanMode::Tunnel {
                tag,
                customers,
                tpid,
            }
        }),
    ];
    let tags = select(vec![
        PriorityTags::Never,
        PriorityTags::IfNonzero,
        PriorityTags::Always,
    ]);
    (mode, tags, any::<bool>()).prop_map(|(mode, priority_tags, is_protected)| {
        Arc::new(PortVlans {
            mode,
            priority_tags,
            is_protected,
        })
    })
}

fn fragments() -> impl Strategy<Value = FragmentMode> {
    select(vec![
        FragmentMode::Normal,
        FragmentMode::Drop,
        FragmentMode::NxMatch,
    ])
}

/// Mirrors; some send to a VLAN that does not exist.
fn mirrors() -> impl Strategy<Value = Arc<Mirrors>> {
    let ports = || {
        let these = prop::collection::btree_set((1..4_u32).prop_map(PortId), 0..3);
        prop_oneof![
            Just(MirroredPorts::All),
            these.prop_map(MirroredPorts::These)
        ]
    };
    let output = prop_oneof![
        4 => (1..5_u32).prop_map(|port| MirrorOutput::Port(PortId(port))),
        1 => select(vec![0, 7, 4095]).prop_map(MirrorOutput::Vlan),
    ];
    let vlans = select(vec![VlanSet::ALL, VlanSet::of([0, 7])]);
    let snaplen = prop::option::of(14..20_u16);
    let mirror = (ports(), ports(), vlans, output, snaplen).prop_map(
        |(sources, destinations, vlans, output, snaplen_bytes)| BridgeMirror {
            id: MirrorId::default(),
            sources,
            destinations,
            vlans,
            output,
            snaplen_bytes,
        },
    );
    prop::collection::vec(mirror, 0..3).prop_map(|mirrors| Arc::new(Mirrors::new(mirrors)))
}

/// Meters; some have a number or bands that no meter has.
fn meter() -> impl Strategy<Value = RateMeter> {
    let id = select(vec![0, 1, 2, 77, MeterId::CONTROLLER, u32::MAX]);
    let kind = select(vec![BandKind::Drop, BandKind::Remark { levels: 1 }]);
    let band = (kind, 0..3_u32, 0..3_u32);
    let band = band.prop_map(|(kind, rate, burst)| RateBand { kind, rate, burst });
    let unit = select(vec![RateUnit::Kilobits, RateUnit::Packets]);
    let bands = prop::collection::vec(band, 0..3);
    (id, unit, bands).prop_map(|(id, unit, bands)| RateMeter {
        id: MeterId(id.into()),
        unit,
        bands: bands.into(),
        has_burst: false,
        has_statistics: false,
    })
}

pub(crate) fn operation() -> impl Strategy<Value = Operation> {
    let flow = (table(), any::<u16>(), matching(), actions()).prop_map(
        |(table, priority, matching, actions)| Flow {
            table,
            priority: priority % 8,
            matching,
            actions,
            ..Flow::default()
        },
    );
    let port = select(vec![0, 1, 2, 3, 4, 0xffff, u32::MAX]).prop_map(PortId);
    let state = any::<(bool, bool)>().prop_map(|(is_up, floods)| PortState {
        is_up,
        floods,
        forwards: true,
        peer: None,
    });
    let station = (select(vec![0, 7, 4096]), select(vec![2_u64, 3, 1 << 48]));
    let moved = (station, prop::option::of(port.clone())).prop_map(|((vlan, mac), port)| MacMove {
        station: Station {
            bridge: BridgeId::default(),
            vlan,
            mac,
        },
        port,
    });
    prop_oneof![
        8 => (flow, 0..4_u8).prop_map(|(flow, kind)| match kind {
            0 => Operation::AddChecked(flow),
            _ => Operation::Add(flow),
        }),
        2 => (selector(), actions()).prop_map(|(one, two)| Operation::Modify(one, two)),
        1 => selector().prop_map(Operation::Delete),
        1 => (selector(), target()).prop_map(|(one, two)| Operation::DeleteLeading(one, two)),
        1 => Just(Operation::DeleteAll),
        2 => group().prop_map(Operation::SetGroup),
        1 => (1..5_u32).prop_map(|group| Operation::DeleteGroup(GroupId(group.into()))),
        2 => meter().prop_map(Operation::SetMeter),
        1 => prop::collection::vec(select(vec![1, 2, 77]).prop_map(MeterId), 0..3)
            .prop_map(|meters| Operation::DeleteMeters(meters.into())),
        1 => (port.clone(), state).prop_map(|(port, state)| Operation::SetPort(port, state)),
        1 => port.clone().prop_map(Operation::DeletePort),
        1 => misses().prop_map(|misses| Operation::SetMisses(BridgeId::default(), misses)),
        1 => (port, vlans()).prop_map(|(port, vlans)| Operation::SetPortVlans(port, vlans)),
        1 => mirrors().prop_map(|mirrors| Operation::SetMirrors(BridgeId::default(), mirrors)),
        1 => any::<bool>()
            .prop_map(|does| Operation::SetForwardsBpdus(BridgeId::default(), does)),
        1 => fragments().prop_map(|mode| Operation::SetFragments(BridgeId::default(), mode)),
        1 => prop::collection::vec(moved, 0..3).prop_map(Operation::MoveMacs),
        1 => actions().prop_map(Operation::Foresee),
    ]
}
