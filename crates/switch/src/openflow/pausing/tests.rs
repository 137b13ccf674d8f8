//! A walk that is paused and resumed at once does what it does without pauses.
//!
//! Random pipelines get pauses at random places. Their packets are answered by the caches,
//! audited; each paused packet travels to a controller and back as bytes of some version, until
//! none is paused. Together this must send what the pipeline without pauses sends.

use std::collections::BTreeMap;

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use thalweg_openflow::message::Message;
use thalweg_openflow::message::continuation as of;
use thalweg_openflow::message::packet::PacketInFormat;
use thalweg_openflow::{Context, ErrorCode, Version, decode, encode};
use thalweg_packet::{Headers, Instant, Packet, PacketPool, PortId, Receipt, standard as f};
use thalweg_pipeline::text::parse_rules;
use thalweg_pipeline::{
    Action, Actions, Author, BridgeId, Change, Continuation, DropReason, MAX_PASSES, Miss, Misses,
    Notice, Operation, Outbox, Output, PacketInReason, Pipeline, Subfield, TableId, forward,
    translate,
};
use thalweg_workload::{PacketSource, RandomConfig, RandomPipeline};

use super::{RunId, read, tell};
use crate::message::PacketIn as Received;
use crate::openflow::numbering::Numbering;
use crate::openflow::packets::{self, Prepared};
use crate::{Config, Engine};

const RUN: RunId = [3; 16];
const PIPELINES: u64 = 400;
const PACKETS: usize = 60;

fn pause() -> Action {
    Action::Output(Output::Controller {
        max_len_bytes: 20,
        controller_id: 9,
        reason: PacketInReason::Action,
        userdata: Box::default(),
        pause: true,
        meter: None,
    })
}

fn is_instruction(action: &Action) -> bool {
    matches!(
        action,
        Action::ClearActions
            | Action::WriteActions(_)
            | Action::WriteMetadata { .. }
            | Action::Goto(_)
    )
}

/// The same list, often with bits that are saved at its beginning and seen at its end.
fn with_stack(random: &mut Pcg64Mcg, list: &Actions) -> Actions {
    let end = list.iter().position(is_instruction);
    let (actions, instructions) = list.split_at(end.unwrap_or(list.len()));
    let bits = |field| Subfield::whole(field, 12);
    let mut all = Vec::new();
    if random.random_ratio(1, 2) {
        let field = [f::ETH_SRC, f::REG0][random.random_range(0..2)];
        all.push(Action::Push(bits(field)));
    }
    all.extend_from_slice(actions);
    if random.random_ratio(1, 2) {
        all.push(Action::Pop(bits(f::ETH_DST)));
        all.push(Action::Output(Output::Port(PortId(
            random.random_range(1..4),
        ))));
    }
    all.extend_from_slice(instructions);
    all.into()
}

/// The same list with pauses in between. They stand in front of instructions.
fn with_pauses(random: &mut Pcg64Mcg, list: &Actions) -> Actions {
    let mut paused = Vec::new();
    let mut is_over = false;
    for action in list.iter() {
        is_over |= is_instruction(action);
        if !is_over && random.random_ratio(1, 2) {
            paused.push(pause());
        }
        paused.push(match action {
            Action::Clone(nested) => Action::Clone(with_pauses(random, nested)),
            action => action.clone(),
        });
    }
    if !is_over && random.random_ratio(1, 2) {
        paused.push(pause());
    }
    paused.into()
}

/// The list without clones, or without `exit`: in a clone, `exit` ends the lists around it, too.
/// They would go on while the clone is paused.
fn without(list: &Actions, is_unwanted: fn(&Action) -> bool) -> Actions {
    let kept = list.iter().filter(|action| !is_unwanted(action));
    let kept = kept.map(|action| match action {
        Action::Clone(nested) => Action::Clone(without(nested, is_unwanted)),
        action => action.clone(),
    });
    kept.collect()
}

/// What a packet became: copies by port, and messages for controllers, each with its number.
#[derive(PartialEq, Eq, Default, Debug)]
struct Outcome {
    sent: BTreeMap<(u32, Vec<u8>), usize>,
    told: BTreeMap<(TableId, Option<u64>, Vec<u8>), usize>,
}

impl Outcome {
    fn send(&mut self, outbox: &mut Outbox) -> Vec<(Notice, Packet)> {
        for (port, packet) in outbox.sent.drain(..) {
            let copy = (port.0, packet.bytes().to_vec());
            *self.sent.entry(copy).or_default() += 1;
        }
        let mut paused = Vec::new();
        for (notice, packet) in outbox.to_controller.drain(..) {
            let sender = notice.sender.as_ref().expect("walks say what sends");
            if sender.continuation.is_some() {
                paused.push((notice, packet));
                continue;
            }
            let told = (sender.table, sender.cookie, packet.bytes().to_vec());
            *self.told.entry(told).or_default() += 1;
        }
        paused
    }
}

fn has_three_tags(frame: &[u8]) -> bool {
    let is_tag = |at: usize| matches!(frame.get(at..at + 2), Some([0x81, 0x00] | [0x88, 0xa8]));
    [12, 16, 20].into_iter().all(is_tag)
}

fn outbox() -> Outbox {
    let mut outbox = Outbox::new(PacketPool::with_capacity(0, 0));
    outbox.grows = true;
    outbox
}

/// Encodes all that a controller gets of a paused packet, and decodes it again.
fn there_and_back(
    pipeline: &Pipeline,
    version: Version,
    notice: Notice,
    packet: &Packet,
) -> Prepared {
    let received = Received {
        notice,
        in_port: packet.in_port(),
        received_at: Instant::ZERO,
        bytes: packet.bytes().to_vec(),
    };
    let numbers = Numbering::of(pipeline, pipeline.bridge_of(packet.in_port()));
    let event = packets::event_of(pipeline.fields(), numbers, RUN, received);
    let continuation = event.continuation.expect("it is paused");
    let mut told = event.packet;
    told.format = PacketInFormat::Nicira2;
    told.continuation = Some(continuation.encode(version));
    let bytes = encode(version, 0, &Message::PacketIn(told)).expect("it fits");
    let frame = decode(&bytes, Context::default()).expect("we wrote it");
    let Message::PacketIn(back) = frame.message else {
        panic!("a packet-in became {:?}", frame.message);
    };
    let bytes = encode(version, 0, &Message::Resume(back)).expect("it fits");
    let frame = decode(&bytes, Context::default()).expect("we wrote it");
    let Message::Resume(mut back) = frame.message else {
        panic!("a resumption became {:?}", frame.message);
    };
    let bytes = back.continuation.take().expect("it came along");
    let continuation = of::PacketContinuation::decode(version, &bytes).expect("we wrote it");
    packets::prepare_resumption(numbers, &back, &continuation, RUN).expect("we wrote it")
}

/// Two audited engines without rules. Where `normal` sends must not depend on the order of
/// copies, so they learn no stations.
fn engines(random_config: &RandomConfig, bridge: Option<BridgeId>) -> [Engine; 2] {
    let mut config = Config {
        is_audited: true,
        ..Config::default()
    };
    config.pipeline.stations = 0;
    config.pipeline.bridges = bridge.is_some();
    let bridge = bridge.unwrap_or_default();
    [0; 2].map(|_| {
        let mut engine = Engine::new(config.clone()).expect("it makes sense");
        engine.outbox().grows = true;
        let ports = (1..=random_config.ports).map(|port| bridge.port(port as u16));
        ports.for_each(|port| engine.add_port(port, Instant::ZERO));
        engine
    })
}

/// What tables do without a rule.
fn misses(random: &mut Pcg64Mcg) -> Misses {
    let kinds = [Miss::Drop, Miss::Controller, Miss::Continue];
    let mut kind = || kinds[random.random_range(0..kinds.len())];
    Misses {
        others: kind(),
        tables: (0..4).map(|table| (table, kind())).collect(),
    }
}

fn in_bridge(change: &Change, bridge: BridgeId) -> Change {
    let operations = change.operations.iter();
    let moved = operations.map(|operation| operation.in_bridge(bridge));
    Change {
        operations: moved.collect(),
    }
}

struct Twins {
    random: Pcg64Mcg,
    /// Where rules and ports are.
    bridge: BridgeId,
    paused: Engine,
    plain: Engine,
    resumed: u64,
    compared: u64,
}

impl Twins {
    fn new(seed: u64) -> (Twins, RandomConfig) {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let random_config = RandomConfig {
            tables: 4,
            rules_per_table: 8,
            ..RandomConfig::broad()
        };
        // Every third pair of pipelines has bridges, and its rules are in one of them.
        let bridge = (seed % 3 == 1).then_some(BridgeId(5));
        let [mut paused, mut plain] = engines(&random_config, bridge);
        let bridge = bridge.unwrap_or_default();
        let rules = RandomPipeline::new(&random_config, seed).expect("it makes sense");
        let groups: String = rules
            .groups()
            .iter()
            .map(|group| format!("{group}\n"))
            .collect();
        for text in [groups, rules.rules_text()] {
            let parsed = parse_rules("random", &text).expect("generated rules are right");
            let mut change = parsed.into_change();
            for operation in &mut change.operations {
                if let Operation::Add(flow) = operation {
                    flow.cookie = random.random_range(0..4);
                    flow.actions = with_stack(&mut random, &flow.actions);
                    if !seed.is_multiple_of(4) {
                        flow.actions = without(&flow.actions, |action| *action == Action::Exit);
                        continue;
                    }
                    let is_clone = |action: &Action| matches!(action, Action::Clone(_));
                    let kept = without(&flow.actions, is_clone);
                    let end = kept.iter().position(is_instruction);
                    let place = random.random_range(0..3).min(end.unwrap_or(kept.len()));
                    let (before, after) = kept.split_at(place);
                    let exit: &[Action] = if random.random_ratio(1, 3) {
                        &[Action::Exit]
                    } else {
                        &[]
                    };
                    flow.actions = [before, exit, after].concat().into();
                }
            }
            plain
                .apply(&in_bridge(&change, bridge), Instant::ZERO)
                .expect("they can be loaded");
            for operation in &mut change.operations {
                if let Operation::Add(flow) = operation {
                    flow.actions = with_pauses(&mut random, &flow.actions);
                }
            }
            paused
                .apply(&in_bridge(&change, bridge), Instant::ZERO)
                .expect("they can be loaded");
        }
        let misses = Operation::SetMisses(bridge, misses(&mut random).into());
        for engine in [&mut paused, &mut plain] {
            let set = engine.apply(&Change::one(misses.clone()), Instant::ZERO);
            set.expect("tables can do each");
        }
        let twins = Twins {
            random,
            bridge,
            paused,
            plain,
            resumed: 0,
            compared: 0,
        };
        (twins, random_config)
    }

    /// What the pipeline without pauses does; `None` if a bound ends the walk, since bounds
    /// count from the start again when a walk is resumed.
    fn expected(&self, packet: &Packet) -> Option<Outcome> {
        let pipeline = self.plain.pipeline();
        let mut outbox = outbox();
        let passes = forward(&pipeline, pipeline.version(), packet.clone(), &mut outbox).ok()?;
        let bounds = [
            DropReason::TooManyLookups,
            DropReason::RecursionTooDeep,
            DropReason::StackTooDeep,
            DropReason::TooMuchWork,
            DropReason::TooManyEffects,
        ];
        let bounds = bounds.map(DropReason::name);
        let meets_bound = outbox.drops.iter().any(|(name, _)| bounds.contains(&name));
        if meets_bound || passes.len() >= MAX_PASSES {
            return None;
        }
        let mut outcome = Outcome::default();
        outcome.send(&mut outbox);
        Some(outcome)
    }

    /// What the paused pipeline does, with the packets resumed until none is paused; `None` if
    /// one has three tags, of which another parse shows the outer two only.
    fn resumed(&mut self, packet: &Packet, version: Version) -> Option<Outcome> {
        let mut outcome = Outcome::default();
        self.paused
            .forward(&mut vec![packet.clone()], Instant::ZERO);
        assert_eq!(self.paused.audit().expect("audited").stale, 0);
        let mut waiting = outcome.send(self.paused.outbox());
        let pipeline = self.paused.pipeline();
        while let Some((notice, packet)) = waiting.pop() {
            if has_three_tags(packet.bytes()) {
                return None;
            }
            self.resumed += 1;
            assert_eq!(notice.total_len_bytes, packet.len(), "it comes back whole");
            let prepared = there_and_back(&pipeline, version, notice, &packet);
            let mut outbox = outbox();
            let passes = prepared.passes(&pipeline, &mut outbox);
            passes.for_each(drop);
            waiting.extend(outcome.send(&mut outbox));
        }
        Some(outcome)
    }

    fn compare(&mut self, packet: &Packet, context: &str) {
        let Some(expected) = self.expected(packet) else {
            return;
        };
        // Twice: by a walk, and by the cache entry that it made.
        for _ in 0..2 {
            let version = Version::ALL[self.random.random_range(0..Version::ALL.len())];
            let Some(resumed) = self.resumed(packet, version) else {
                return;
            };
            assert_eq!(resumed, expected, "{context} {version}: {packet:?}");
        }
        self.compared += 1;
    }

    /// Flips bits that the walk did not depend on: the paused state stays the same.
    fn flip(&mut self, packet: &Packet) {
        let pipeline = self.paused.pipeline();
        let layout = pipeline.layout();
        let Ok(headers) = Headers::parse(packet.bytes()) else {
            return;
        };
        let mut key = vec![0; layout.ingress_words()];
        let receipt = Receipt::from_port(packet.in_port().0);
        layout.extract(packet.bytes(), &headers, &receipt, &mut key);
        let answer = translate(&pipeline, &key, pipeline.version());
        for &field in layout.used() {
            let Some(slot) = layout
                .slot(field)
                .filter(|_| layout.descriptor(field).is_ingress())
            else {
                continue;
            };
            for bit in 0..slot.width_bits {
                let (word, shift) = slot.position(bit);
                if answer.mask[word] >> shift & 1 == 0 && self.random.random() {
                    key[word] ^= 1 << shift;
                }
            }
        }
        let again = translate(&pipeline, &key, pipeline.version());
        assert_eq!(again.effects, answer.effects, "{packet:?}");
    }
}

#[test]
fn what_is_resumed_is_what_is_never_paused() {
    let (mut resumed, mut compared) = (0, 0);
    for seed in 0..PIPELINES {
        let (mut twins, config) = Twins::new(seed);
        let mut source = PacketSource::new(&config, seed);
        for number in 0..PACKETS {
            let random = source.next_packet();
            let mut packet = Packet::from_bytes(&random.bytes);
            let port = twins.bridge.port(random.in_port as u16);
            packet.set_received(port, Instant::ZERO);
            twins.compare(&packet, &format!("seed {seed}, packet {number}"));
            twins.flip(&packet);
        }
        resumed += twins.resumed;
        compared += twins.compared;
    }
    // Otherwise the test would have met too little.
    assert!(compared > PIPELINES * PACKETS as u64 / 2, "{compared}");
    assert!(resumed > compared / 2, "{resumed} of {compared}");
}

/// Loads rules, pauses a packet from port 1, and returns the engine, the notice and the packet.
fn paused(rules: &str) -> (Engine, Notice, Packet) {
    let mut engine = Engine::new(Config::default()).expect("it makes sense");
    (1..=4).for_each(|port| engine.add_port(PortId(port), Instant::ZERO));
    engine.outbox().grows = true;
    load(&mut engine, rules);
    let mut frame = vec![0; 34];
    frame[12..15].copy_from_slice(&[0x08, 0x00, 0x45]);
    (frame[17], frame[22]) = (20, 64);
    let mut packet = Packet::from_bytes(&frame);
    packet.set_received(PortId(1), Instant::ZERO);
    engine.forward(&mut vec![packet], Instant::ZERO);
    let (notice, packet) = engine.outbox().to_controller.pop().expect("it is paused");
    (engine, notice, packet)
}

fn load(engine: &mut Engine, rules: &str) {
    let parsed = parse_rules("rules", rules).expect("the test's rules are right");
    let change: Change = parsed.into_change();
    engine
        .apply(&change, Instant::ZERO)
        .expect("they can be loaded");
}

fn ports(engine: &Engine, prepared: Prepared) -> Vec<u32> {
    let pipeline = engine.pipeline();
    let mut outbox = outbox();
    prepared.passes(&pipeline, &mut outbox).for_each(drop);
    outbox.sent.iter().map(|(port, _)| port.0).collect()
}

#[test]
fn what_follows_is_by_the_rules_of_then() {
    let (mut engine, notice, packet) = paused(
        "ip,actions=set_field:5->reg0,controller(pause),output:3,resubmit(,1)\n\
         table=1,reg0=5,actions=output:2",
    );
    let prepared = {
        let pipeline = engine.pipeline();
        there_and_back(&pipeline, Version::V13, notice, &packet)
    };
    // The rule that paused it is gone, and another field has come into the key.
    engine
        .apply(&Change::one(Operation::DeleteAll), Instant::ZERO)
        .expect("rules can be deleted");
    load(
        &mut engine,
        "table=1,ip,reg0=5,reg7=0,tun_id=0,ip_dscp=0,actions=output:4",
    );
    assert_eq!(ports(&engine, prepared), [3, 4]);
}

#[test]
fn a_controller_may_change_the_packet_and_what_is_beside_it() {
    let (engine, notice, packet) = paused(
        "ip,actions=set_field:5->reg0,controller(pause),resubmit(,1)\n\
         table=1,priority=2,ip,reg0=6,in_port=3,ip_dscp=8,actions=output:1,output:3\n\
         table=1,priority=1,actions=output:2",
    );
    let pipeline = engine.pipeline();
    let received = |notice: &Notice| Received {
        notice: notice.clone(),
        in_port: packet.in_port(),
        received_at: Instant::ZERO,
        bytes: packet.bytes().to_vec(),
    };
    let numbers = Numbering::of(&pipeline, BridgeId(0));
    let event = packets::event_of(pipeline.fields(), numbers, RUN, received(&notice));
    let continuation = event.continuation.expect("it is paused");
    let resume = |told: &thalweg_openflow::message::packet::PacketIn| {
        packets::prepare_resumption(numbers, told, &continuation, RUN)
    };
    let mut told = event.packet;
    assert_eq!(ports(&engine, resume(&told).expect("as it was")), [2]);
    for condition in &mut told.metadata.conditions {
        let value = match condition.field.name() {
            "reg0" => 6,
            _ => 3,
        };
        condition.value = thalweg_openflow::Value::from_number(value, condition.field.bytes());
    }
    let mut data = told.data.to_vec();
    data[15] = 8 << 2;
    told.data = data.into();
    let changed = resume(&told).expect("it may change");
    assert_eq!(ports(&engine, changed), [1]);
    // A condition cannot repeat a field of the packet itself.
    told.metadata
        .conditions
        .push(thalweg_openflow::Condition::exact(
            thalweg_openflow::FieldId::ETH_TYPE,
            0x0800,
        ));
    let refusal = resume(&told).err().expect("it is refused");
    assert_eq!(refusal.code, ErrorCode::OFPBRC_PIPELINE_FIELDS_ONLY);
    told.metadata.conditions.pop();
    told.data = bytes::Bytes::from_static(&[1, 2, 3]);
    let refusal = resume(&told).err().expect("it is refused");
    assert_eq!(refusal.code, ErrorCode::OFPBRC_BAD_PACKET);
}

#[test]
fn only_what_this_run_paused_goes_on() {
    let told = tell(&Continuation::of_list([pause()].into(), TableId(0)), RUN);
    assert!(read(&told, RUN).is_ok());
    let refusal = read(&told, [4; 16]).expect_err("another run's");
    assert_eq!(refusal.code, ErrorCode::NXR_STALE);
    let mut none = told.clone();
    none.bridge = [0; 16];
    assert_eq!(
        read(&none, RUN).expect_err("no switch paused it").code,
        ErrorCode::NXR_STALE
    );
    let mut beyond = told.clone();
    beyond.lists[0].table = 255;
    let refusal = read(&beyond, RUN).expect_err("no such table");
    assert_eq!(refusal.code, ErrorCode::OFPBPC_BAD_VALUE);
    let mut unknown = told;
    unknown.lists[0].actions = vec![thalweg_openflow::action::Action::Meter(0)];
    let refusal = read(&unknown, RUN).expect_err("a meter that no rule can name");
    assert_eq!(refusal.code, ErrorCode::OFPMMFC_INVALID_METER);
}

#[test]
fn cookies_and_tables_come_back() {
    let (engine, notice, packet) = paused(
        "cookie=0x11,ip,actions=resubmit(,1),controller\n\
         table=1,cookie=0x22,actions=resubmit(,2),write_actions(controller)\n\
         table=2,cookie=0x33,actions=controller(pause),controller",
    );
    let pipeline = engine.pipeline();
    let sender = notice.sender.as_ref().expect("a rule sent it");
    assert_eq!((sender.table, sender.cookie), (TableId(2), Some(0x33)));
    let continuation = sender.continuation.as_ref().expect("it is paused");
    let lists = continuation
        .lists
        .iter()
        .map(|list| (list.table.0, list.author));
    let cookies = [(2, 0x33), (1, 0x22), (0, 0x11)];
    let cookies = cookies.map(|(table, cookie)| (table, Author::Cookie(cookie)));
    assert_eq!(lists.collect::<Vec<_>>(), cookies);
    let mut outbox = outbox();
    let prepared = there_and_back(&pipeline, Version::V10, notice, &packet);
    prepared.passes(&pipeline, &mut outbox).for_each(drop);
    let told = outbox.to_controller.iter().map(|(notice, _)| {
        let sender = notice.sender.as_ref().expect("a rule sent it");
        (sender.table.0, sender.cookie)
    });
    let expected = [(2, Some(0x33)), (0, Some(0x11)), (0, Some(0x11))];
    assert_eq!(told.collect::<Vec<_>>(), expected);
}
