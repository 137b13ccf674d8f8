//! However the wildcard cache finds entries, answers are the interpreter's: also while entries
//! come and go, wait for their repair, and are made again for the same keys.

mod lab;

use lab::{Lab, datagram};
use thalweg_datapath::{
    CacheIndex, Datapath, EvictReason, Gate, LookupCounters, MaintainerKind, MegaflowClassifier,
    Tending,
};
use thalweg_packet::{Instant, Packet, PacketPool, PortId};
use thalweg_pipeline::text::{self, Parser};
use thalweg_pipeline::{Change, Operation, Outbox, Pipeline, PortState};
use thalweg_switch::{Config, Step};

/// A packet's mask ends at the first bit in which its address differs from this one.
const HOST: u32 = 0xff_ffff;

/// Prefix lengths in packets' masks: one mask for each pair.
const LENGTHS: u32 = 20;

const RULES: &str = "priority=9,ip,nw_dst=10.255.255.255,actions=output:2\n\
                     priority=8,ip,nw_src=10.255.255.255,actions=output:3\n\
                     priority=1,actions=output:4\n";

fn packet(from: u32, to: u32) -> Vec<u8> {
    datagram(HOST ^ 1 << from, HOST ^ 1 << to, 7)
}

fn lab(classifier: MegaflowClassifier, edit: impl FnOnce(&mut Config)) -> Lab {
    let mut config = Config::default();
    config.datapath.microflow.entries = 0;
    config.datapath.megaflow.classifier = classifier;
    edit(&mut config);
    Lab::new(config, RULES)
}

/// Sends a packet for each mask.
fn round(lab: &mut Lab, expected: u32) {
    for from in 0..LENGTHS {
        for to in 0..LENGTHS {
            assert_eq!(lab.send(&packet(from, to)), [expected]);
        }
    }
}

fn lookups(lab: &Lab) -> LookupCounters {
    lab.engine.datapath().statistics().lookups
}

#[test]
fn known_flows_are_found_by_the_first_layer_among_many_masks() {
    let keys = u64::from(LENGTHS * LENGTHS);
    for classifier in MegaflowClassifier::ALL {
        let mut lab = lab(classifier, |_| {});
        round(&mut lab, 4);
        assert_eq!(lab.engine.datapath().mask_count() as u64, keys);
        round(&mut lab, 4);
        let before = lookups(&lab);
        round(&mut lab, 4);
        let after = lookups(&lab);
        let searched = after.subtables - before.subtables;
        if classifier == MegaflowClassifier::Bloom {
            let bypassed = after.bypassed - before.bypassed;
            assert!((1..=keys / 64 + 1).contains(&bypassed), "{after:?}");
            assert_eq!(after.asked - before.asked, keys - bypassed);
            let falses = after.false_candidates - before.false_candidates;
            let found = after.candidates - before.candidates - falses;
            // The layer does not know the packets that bypassed it in the round before.
            assert!(found >= keys - 2 * (keys / 64 + 1), "{after:?}");
            // Packets that bypassed it search the sub-tables, half of them on average.
            assert!(searched < keys * 10, "{searched}");
        } else if classifier == MegaflowClassifier::Learned {
            assert_eq!((searched, after.learned - before.learned), (0, keys));
            assert_eq!(after.learned_refused, 0);
        } else {
            // With as many masks as packets, searching half of them does not pay off.
            assert!(searched > keys && after.unsearched > keys, "{after:?}");
            assert_eq!((after.asked, after.candidates), (0, 0));
        }
        let statistics = lab.engine.datapath().statistics();
        assert_eq!(statistics.upcalls, keys + after.unsearched);
        assert_eq!(statistics.megaflow.insertions, keys);
        assert_eq!(lab.engine.datapath().verify(), Ok(()));
    }
}

#[test]
fn entries_that_wait_for_their_repair_are_not_found() {
    for classifier in MegaflowClassifier::ALL {
        for maintainer in [MaintainerKind::Incremental, MaintainerKind::Barrier] {
            let mut lab = lab(classifier, |config| {
                config.datapath.maintainer = maintainer;
                config.datapath.slice = 7;
            });
            for port in 5..8 {
                round(&mut lab, port - 1);
                round(&mut lab, port - 1);
                let text = format!("modify_strict priority=1,actions=output:{port}");
                let change = Parser::new().parse_operation(&text).expect("it is right");
                let started = lab.engine.start(&Change::one(change), lab.now);
                started.expect("it can be done");
                let (mut step, mut waited) = (lab.engine.step(), 0);
                while !matches!(step, Step::Settled(_)) {
                    let expected = match step {
                        Step::Preparing => port - 1,
                        _ => port,
                    };
                    for at in 0..3 {
                        let packet = packet((waited + at) % LENGTHS, waited * 3 % LENGTHS);
                        assert_eq!(lab.send(&packet), [expected], "{classifier:?}");
                    }
                    waited += 1;
                    step = lab.engine.step();
                }
                if classifier == MegaflowClassifier::Learned {
                    assert!(lookups(&lab).learned_refused > 0);
                }
                assert!(waited > 20, "packets came in {waited} times meanwhile");
                assert_eq!(lab.engine.datapath().verify(), Ok(()));
            }
        }
    }
}

#[test]
fn entries_are_made_again_for_the_same_keys() {
    for classifier in MegaflowClassifier::ALL {
        for maintainer in MaintainerKind::STRICT {
            let mut lab = lab(classifier, |config| {
                config.datapath.maintainer = maintainer;
                config.datapath.megaflow.entries = 150;
            });
            for step in 0..6_000_u32 {
                // Some come often, so that they stay; the others are evicted in turn.
                let draw = step.wrapping_mul(2_654_435_761);
                let (from, to) = match step % 3 {
                    0 => (draw >> 20 & 7, draw >> 24 & 7),
                    _ => ((draw >> 16) % LENGTHS, (draw >> 8 & 0xff) % LENGTHS),
                };
                lab.send(&packet(from, to));
                if step % 500 == 499 {
                    let port = 2 + step / 500 % 6;
                    lab.change(&format!("modify_strict priority=1,actions=output:{port}"));
                    assert_eq!(lab.engine.datapath().verify(), Ok(()));
                }
                if step % 1_500 == 700 {
                    // Other masks, and reused numbers of sub-tables.
                    let rule = "priority=20,udp,nw_src=10.0.0.0/9,tp_src=7,actions=output:1";
                    lab.change(&format!("add {rule}"));
                    lab.send(&packet(23, 3));
                } else if step % 1_500 == 1_100 {
                    lab.change("delete_strict priority=20,udp,nw_src=10.0.0.0/9,tp_src=7");
                }
            }
            assert_eq!(lab.engine.datapath().verify(), Ok(()));
            if classifier == MegaflowClassifier::Bloom {
                let counted = lookups(&lab);
                assert!(counted.candidates > 100, "{counted:?}");
                assert!(counted.false_candidates > 0, "dead keys: {counted:?}");
            }
        }
    }
}

#[test]
fn masks_beyond_the_limit_and_filters_without_memory_do_no_harm() {
    for classifier in MegaflowClassifier::ALL {
        for (masks, bytes) in [
            (3, 1 << 20),
            (70, 1 << 20),
            (1_000, 66_000),
            (1_000, 20_000),
        ] {
            let mut lab = lab(classifier, |config| {
                config.datapath.megaflow.masks = masks;
                config.datapath.megaflow.bytes = bytes;
            });
            for _ in 0..3 {
                round(&mut lab, 4);
            }
            assert!(lab.engine.datapath().mask_count() <= masks);
            assert_eq!(lab.engine.datapath().verify(), Ok(()));
        }
    }
}

/// More flows than training needs, each with its own entry.
fn hosts(count: u32) -> String {
    let rule = |host: u32| {
        let [.., a, b, c] = host.to_be_bytes();
        format!("ip,nw_dst=10.{a}.{b}.{c},actions=output:{}\n", host % 3 + 2)
    };
    (0..count).map(rule).collect()
}

/// Entries are trained, evicted, and return under the same numbers with other keys; a training
/// begun before that is installed afterwards.
#[test]
fn trained_entries_come_and_go() {
    let mut config = Config::default();
    config.datapath.microflow.entries = 0;
    config.datapath.megaflow.classifier = MegaflowClassifier::Learned;
    config.datapath.megaflow.entries = 3_000;
    config.datapath.slice = 100;
    let rules = format!(
        "priority=40000,ip,nw_src=10.255.255.255,actions=7\n{}",
        hosts(6_000)
    );
    let mut lab = Lab::new(config, &rules);
    let mut covered = 0;
    for step in 0..40_000_u32 {
        let host = step.wrapping_mul(2_654_435_761) >> 16;
        let from = HOST ^ (1 << ((host >> 3) % LENGTHS));
        lab.send(&datagram(from, host % (2_000 + step / 8), 7));
        if step % 1_500 == 700 {
            let host = host % 6_000;
            let [.., a, b] = host.to_be_bytes();
            let rule = format!("ip,nw_dst=10.0.{a}.{b}");
            lab.change(&format!(
                "modify_strict {rule},actions=output:{}",
                step % 7 + 1
            ));
        }
        if step % 1_000 == 999 {
            lab.engine.train();
            assert_eq!(lab.engine.datapath().verify(), Ok(()));
            let learned = lab.engine.learned().expect("a learned index");
            covered = covered.max(learned.covered);
        }
    }
    let statistics = lab.engine.datapath().statistics();
    assert!(
        statistics.trainings > 1,
        "{} trainings",
        statistics.trainings
    );
    assert!(covered > 1_000, "{covered} entries in iSets");
    assert!(statistics.evictions(EvictReason::Capacity) > 3_000);
    assert_eq!(statistics.lookups.subtables, 0);
}

/// A cache with automatic choice: few masks, then many, then entries that are hardly used
/// again.
#[test]
fn what_pays_is_chosen() {
    let mut config = Config::default();
    config.datapath.microflow.entries = 0;
    config.datapath.megaflow.classifier = MegaflowClassifier::Auto;
    config.datapath.megaflow.entries = 3_000;
    let rules = format!(
        "priority=40000,ip,nw_src=10.255.255.255,actions=7\n{}",
        hosts(6_000)
    );
    let mut lab = Lab::new(config, &rules);
    let send = |lab: &mut Lab, host: u32, mask: u32| {
        let sent = lab.send(&datagram(HOST ^ 1 << mask, host, 7));
        assert_eq!(sent, [host % 3 + 2]);
    };
    let index = |lab: &Lab| lab.engine.datapath().choice().index;
    for step in 0..20_000_u32 {
        send(&mut lab, step % 100, 3);
    }
    assert_eq!(index(&lab), CacheIndex::TupleSpace);
    let mut ways = vec![CacheIndex::TupleSpace];
    for step in 0..150_000_u32 {
        let draw = step.wrapping_mul(2_654_435_761) >> 12;
        send(&mut lab, draw % 2_000, draw % 2_000 % LENGTHS);
        let way = index(&lab);
        if ways.last() != Some(&way) {
            ways.push(way);
        }
    }
    assert_eq!(
        ways,
        [
            CacheIndex::TupleSpace,
            CacheIndex::Bloom,
            CacheIndex::Learned
        ]
    );
    let before = lookups(&lab);
    for step in 0..6_400_u32 {
        send(&mut lab, step % 2_000, step % 2_000 % LENGTHS);
    }
    let after = lookups(&lab);
    // One in 64 bypasses it, to measure the cost without it.
    assert_eq!(after.learned - before.learned, 6_300);
    assert!(lab.engine.datapath().choice().coverage > 0.9);
    assert_eq!(lab.engine.datapath().verify(), Ok(()));
    for step in 0..60_000_u32 {
        send(&mut lab, step % 6_000, step % LENGTHS);
    }
    let choice = lab.engine.datapath().choice();
    assert_ne!(choice.index, CacheIndex::Learned, "{choice:?}");
    assert!(choice.updates_per_lookup > 0.5, "{choice:?}");
    assert_eq!(lab.engine.datapath().verify(), Ok(()));
}

/// A pipeline with ports 1 to 4 and these rules.
fn pipeline_of(rules: &str) -> Pipeline {
    let mut pipeline = Pipeline::new(thalweg_pipeline::Config::default());
    let rules = text::parse_rules("rules", rules).expect("they are right");
    let state = PortState {
        is_up: true,
        floods: true,
        forwards: true,
        peer: None,
    };
    let ports = (1..=4).map(|port| Operation::SetPort(PortId(port), state));
    let ports = Change {
        operations: ports.collect(),
    };
    for change in [ports, rules.into_change()] {
        let delta = pipeline.apply(&change, Instant::ZERO);
        pipeline.reclaim(delta.expect("they can be added").version);
    }
    pipeline
}

/// Entries come, go and change while an index of them is copied, built and brought up to date.
#[test]
fn an_index_is_made_while_entries_come_and_go() {
    let rules = format!(
        "priority=40000,ip,nw_src=10.255.255.255,actions=7\n{}",
        hosts(6_000)
    );
    let pipeline = pipeline_of(&rules);
    let mut config = thalweg_datapath::Config::default();
    config.microflow.entries = 0;
    config.megaflow.entries = 3_000;
    let mut datapath = Datapath::new(config, &pipeline).expect("it is right");
    let pipeline = Gate::new(pipeline);
    let mut outbox = Outbox::new(PacketPool::with_capacity(64, 2_048));
    let mut send = |datapath: &mut Datapath, host: u32| {
        let bytes = datagram(HOST ^ 1 << (host % LENGTHS), host, 7);
        let mut packet = Packet::from_bytes(&bytes);
        packet.set_received(PortId(1), Instant::ZERO);
        datapath.process(&mut vec![packet], Instant::ZERO, &pipeline, &mut outbox);
        let sent: Vec<u32> = outbox.sent.iter().map(|(port, _)| port.0).collect();
        assert_eq!(sent, [host % 3 + 2]);
        outbox.recycle();
    };
    let (mut waiting, mut changes_while_made, mut made_at) = (None, 0, None);
    for step in 0..400_000_u32 {
        let draw = step.wrapping_mul(2_654_435_761) >> 12;
        // Most are used again and again; some come and go.
        let host = match step % 64 {
            0 => 2_000 + draw % 4_000,
            _ => draw % 2_000,
        };
        send(&mut datapath, host);
        changes_while_made += u32::from(waiting.is_some() && step.is_multiple_of(64));
        match datapath.tend(2) {
            Tending::Job(training) if training.rule_count() > 0 => {
                waiting = Some((step, training));
            }
            Tending::Job(_) | Tending::More | Tending::Idle => {}
        }
        if let Some((_, training)) = waiting.take_if(|(since, _)| step - *since == 2_000) {
            datapath.install(training.run());
        }
        if step.is_multiple_of(1_000) {
            assert_eq!(datapath.verify(), Ok(()));
        }
        if datapath.choice().index == CacheIndex::Learned {
            // From then on it is changed like any other.
            if step - *made_at.get_or_insert(step) == 5_000 {
                break;
            }
        }
    }
    assert_eq!(datapath.choice().index, CacheIndex::Learned);
    assert!(changes_while_made > 20, "{changes_while_made}");
    assert_eq!(datapath.verify(), Ok(()));
    for host in 0..6_000 {
        send(&mut datapath, host);
    }
    assert_eq!(datapath.verify(), Ok(()));
}
