//! A frame that stands for segments: the same comes out as if each segment had come alone.

use proptest::prelude::*;
use thalweg_packet::standard::{self, IP_DST, TP_DST};
use thalweg_packet::wire::{MacAddress, PacketBuilder};
use thalweg_packet::{Connection, Headers, Instant, Packet, PacketPool, PortId, Unfinished};
use thalweg_pipeline::{
    BandKind, DropReason, Effect, MeterId, MeterPlace, Outbox, PacketInReason, RateBand, RateMeter,
    RateUnit, run,
};

const PAYLOAD: usize = 9_000;

/// A frame of TCP with this many bytes in each segment.
fn whole(segment_bytes: u16) -> Packet {
    let mut frame = PacketBuilder::ethernet(MacAddress([2; 6]), MacAddress([4; 6]))
        .ipv4([10, 0, 0, 1].into(), [10, 0, 0, 2].into())
        .tcp(1_000, 2_000)
        .payload(&[7; PAYLOAD])
        .build();
    // AF11, whose drop precedence a meter can raise.
    frame[15] = 10 << 2;
    let mut packet = Packet::from_bytes(&frame);
    assert!(packet.mark_unfinished(Unfinished {
        segment_bytes,
        covered_bytes: PAYLOAD as u16 + 20,
        ..Unfinished::default()
    }));
    packet
}

fn segments(packet: &Packet) -> Vec<Packet> {
    let segment = |index| {
        let mut segment = Packet::default();
        packet.emit_segment(index, &mut segment);
        segment
    };
    (0..packet.segment_count()).map(segment).collect()
}

fn effects() -> impl Strategy<Value = Effect> {
    let simple = prop_oneof![
        3 => (1..4_u32).prop_map(|port| Effect::Output(PortId(port))),
        1 => any::<u32>().prop_map(|value| Effect::Set {
            field: IP_DST, value: value.into(), mask: u128::MAX,
        }),
        1 => any::<u16>().prop_map(|value| Effect::Set {
            field: TP_DST, value: value.into(), mask: u128::MAX,
        }),
        1 => Just(Effect::DecTtl),
        1 => any::<u16>().prop_map(|tci| Effect::PushVlan { tpid: 0x8100, tci }),
        1 => Just(Effect::PopVlan),
        1 => (40..2_000_u32).prop_map(|len_bytes| Effect::Cut { len_bytes }),
        1 => Just(Effect::Drop { reason: DropReason::Action, copies: 2 }),
        1 => (40..2_000_u16).prop_map(|max_len_bytes| Effect::Controller {
            reason: PacketInReason::Action,
            max_len_bytes,
            controller_id: 0,
            userdata: Box::default(),
            sender: None,
            meter: None,
        }),
    ];
    let list = || prop::collection::vec(simple.clone(), 0..4);
    prop_oneof![
        6 => simple.clone(),
        1 => list().prop_map(|list| Effect::Clone(list.into())),
        1 => (50..2_000_u16, list(), list()).prop_map(|(limit_bytes, longer, others)| {
            Effect::ByLength {
                limit_bytes,
                longer: longer.into(),
                others: others.into(),
            }
        }),
    ]
}

/// An outbox whose first meter lets five packets pass, and whose second remarks the others.
fn outbox() -> Outbox {
    let mut outbox = Outbox::new(PacketPool::with_capacity(4, 2_048));
    outbox.grows = true;
    outbox.now = Instant::from_nanos(1);
    for (place, kind) in [(0, BandKind::Drop), (1, BandKind::Remark { levels: 1 })] {
        let meter = RateMeter {
            id: MeterId(1 + u64::from(place)),
            unit: RateUnit::Packets,
            bands: [RateBand {
                kind,
                rate: 1,
                burst: 5,
            }]
            .into(),
            has_burst: true,
            has_statistics: false,
        };
        outbox.meters.set(MeterPlace(place), &meter, outbox.now);
    }
    outbox
}

fn pass(effects: &[Effect], packet: Packet, outbox: &mut Outbox) {
    let headers = Headers::parse(packet.bytes()).expect("a frame");
    let fields = standard::fields();
    run(effects, &fields, packet, headers, &Connection::NONE, outbox);
}

/// What left by each port, cut into segments.
fn sent(outbox: &Outbox, port: u32) -> Vec<Packet> {
    let of_port = outbox.sent.iter().filter(|(to, _)| to.0 == port);
    of_port.flat_map(|(_, packet)| segments(packet)).collect()
}

proptest! {
    #[test]
    fn effects_do_to_a_whole_what_they_do_to_its_segments(
        effects in prop::collection::vec(effects(), 0..8),
        metered in prop::option::of((0..8_usize, any::<bool>())),
        segment_bytes in 400..4_000_u16,
    ) {
        let mut effects = effects;
        if let Some((place, remarks)) = metered {
            let meter = match remarks {
                true => Effect::Remark(MeterPlace(1)),
                false => Effect::Meter(MeterPlace(0)),
            };
            effects.insert(place.min(effects.len()), meter);
        }
        let (mut one, mut each) = (outbox(), outbox());
        let packet = whole(segment_bytes);
        for segment in segments(&packet) {
            pass(&effects, segment, &mut each);
        }
        pass(&effects, packet, &mut one);
        prop_assert_eq!(one.drops, each.drops);
        let told = |outbox: &Outbox| -> Vec<_> {
            let told = outbox.to_controller.iter();
            let mut told: Vec<_> = told
                .map(|(notice, packet)| (notice.total_len_bytes, packet.bytes().to_vec()))
                .collect();
            // Two effects of one list tell of a segment one after the other.
            told.sort();
            told
        };
        prop_assert_eq!(told(&one), told(&each));
        for port in 1..4 {
            let (mut one, mut each) = (sent(&one, port), sent(&each, port));
            let key = |packet: &Packet| packet.bytes().to_vec();
            one.sort_by_key(key);
            each.sort_by_key(key);
            prop_assert_eq!(one, each);
        }
    }
}

/// Between one output and the next, segments stay in their order and the frame whole.
#[test]
fn what_needs_no_segments_keeps_the_frame_whole() {
    let effects = [
        Effect::PushVlan {
            tpid: 0x8100,
            tci: 5,
        },
        Effect::Output(PortId(1)),
        Effect::Clone([Effect::Cut { len_bytes: 100 }, Effect::Output(PortId(2))].into()),
        Effect::DecTtl,
        Effect::Output(PortId(3)),
    ];
    let mut outbox = outbox();
    pass(&effects, whole(1_000), &mut outbox);
    let sent: Vec<_> = outbox
        .sent
        .iter()
        .map(|(to, packet)| (to.0, packet.segment_count()))
        .collect();
    let cut = [(2, 1); PAYLOAD / 1_000];
    assert_eq!(sent, [&[(1, 9)][..], &cut, &[(3, 9)]].concat());
}
