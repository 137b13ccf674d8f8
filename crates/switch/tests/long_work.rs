//! Indexes of an engine that a thread builds while packets are forwarded.

use thalweg_packet::{Instant, Packet, PortId};
use thalweg_pipeline::{Change, ClassifierKind, text};
use thalweg_switch::{Config, Engine, LongWork};

/// Rules of the table that is worth an index.
const RULES: u32 = 3_000;
/// Bursts after which a table must have requested its index: it checks 256 rules per slice.
const BURSTS_MAX: u32 = 4 * 1_024;

fn address(number: u32) -> [u8; 4] {
    let [_, b, c, d] = number.to_be_bytes();
    [10, b, c, d]
}

fn rules() -> Change {
    let rule = |number| {
        let [a, b, c, d] = address(number);
        let port = 1 + number % 7;
        text::parse_flow(&format!("ip,nw_dst={a}.{b}.{c}.{d},actions=output:{port}"))
    };
    Change::adding((0..RULES).map(|number| rule(number).expect("a rule")))
}

/// An engine with eight ports that has forwarded its first burst.
fn engine(long_work: LongWork) -> Engine {
    let mut config = Config {
        is_audited: true,
        long_work,
        ..Config::default()
    };
    config.pipeline.classifier = ClassifierKind::Learned;
    let mut engine = Engine::new(config).expect("the limits are good");
    (1..=8).for_each(|port| engine.add_port(PortId(port), Instant::ZERO));
    forward(&mut engine, 0);
    engine
}

/// Forwards a packet to each of 32 addresses; returns the ports by which they left.
fn forward(engine: &mut Engine, first: u32) -> Vec<PortId> {
    let packet = |number: u32| {
        let mut bytes = [0; 60];
        bytes[..14].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0]);
        bytes[14] = 0x45;
        bytes[17] = 46;
        bytes[30..34].copy_from_slice(&address(number % RULES));
        let mut packet = Packet::from_bytes(&bytes);
        packet.set_received(PortId(8), Instant::ZERO);
        packet
    };
    let mut burst: Vec<Packet> = (first..first + 32).map(packet).collect();
    engine.forward(&mut burst, Instant::ZERO);
    let sent = engine.outbox().sent.iter().map(|(port, _)| *port).collect();
    engine.outbox().recycle();
    sent
}

/// Forwards until the thread has been given a job and has finished it.
fn forward_until_built(engine: &mut Engine) {
    for burst in 0..BURSTS_MAX {
        forward(engine, burst * 32);
        engine.finish_long_work();
        if engine.long_work().jobs > 0 {
            return;
        }
    }
    panic!("no index was asked for within {BURSTS_MAX} bursts");
}

#[test]
fn a_thread_builds_the_index_that_packets_then_use() {
    let mut engine = engine(LongWork::Thread);
    engine.apply(&rules(), Instant::ZERO).expect("plain rules");
    assert_eq!(engine.long_work().jobs, 0, "a change waits for no index");
    forward_until_built(&mut engine);
    assert!(engine.long_work().processor_time > std::time::Duration::ZERO);
    for burst in 0..RULES.div_ceil(32) {
        let first = burst * 32;
        let expected = (first..first + 32).map(|number| PortId(1 + number % RULES % 7));
        assert_eq!(forward(&mut engine, first), expected.collect::<Vec<_>>());
    }
    let audit = engine.audit().expect("it is audited");
    assert_eq!(audit.stale, 0);
    assert!(audit.checked > u64::from(RULES));
}

#[test]
fn without_a_thread_a_change_returns_with_its_index() {
    let mut engine = engine(LongWork::Inline);
    engine.apply(&rules(), Instant::ZERO).expect("plain rules");
    assert!(engine.long_work().jobs > 0);
}

/// One job is running when its engine is dropped; another ends after its layout is gone.
#[test]
fn a_job_may_outlive_what_it_was_for() {
    let mut engine = engine(LongWork::Thread);
    engine.apply(&rules(), Instant::ZERO).expect("plain rules");
    for burst in 0..BURSTS_MAX {
        forward(&mut engine, burst * 32);
    }
    let wider = text::parse_flow("priority=9,dl_vlan=7,actions=drop").expect("a rule");
    let change = Change::adding([wider]);
    engine.apply(&change, Instant::ZERO).expect("a plain rule");
    engine.finish_long_work();
    assert_eq!(forward(&mut engine, 0).len(), 32);
    assert_eq!(engine.audit().expect("it is audited").stale, 0);
    engine.apply(&rules(), Instant::ZERO).expect("plain rules");
    (0..BURSTS_MAX).for_each(|burst| drop(forward(&mut engine, burst * 32)));
    drop(engine);
}
