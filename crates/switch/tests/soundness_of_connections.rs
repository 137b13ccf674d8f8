//! Cache equals interpreter where rules track connections.
//!
//! Three switches get the same packets, one at a time, and each has a tracker of its own: the
//! caches, the audit's interpreter, and a twin of this file that makes its passes itself. After
//! every packet the three have sent the same bytes to the same ports. The twin also flips the
//! bits that a pass did not depend on, those of the connection among them: the walk must stay
//! the same. `THALWEG_CHECKS` sets more comparisons than the default, and `THALWEG_SEED`
//! another first seed.

#[path = "lab/brute.rs"]
mod brute;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use brute::Bench;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use thalweg_datapath::{MaintainerKind, MegaflowClassifier, Mode};
use thalweg_packet::{Connection, Headers, Instant, Packet, PacketPool, PortId, Receipt, standard};
use thalweg_pipeline::{
    Action, ClassifierKind, Continuation, Effect, MAX_PASSES, Outbox, Pipeline, StepKind,
    Translation, resume, run, translate,
};
use thalweg_switch::Config;
use thalweg_workload::IS_OPTIMISED;

/// Least comparisons in a run.
const CHECKS: u64 = if IS_OPTIMISED { 80_000 } else { 5_000 };

/// The bits of `ct_state`, and two pairs of them that only a conversation leads to.
const STATES: [(&str, u8); 10] = [
    ("new", 0x21),
    ("established", 0x22),
    ("related", 0x24),
    ("reply", 0x28),
    ("invalid", 0x30),
    ("tracked", 0x20),
    ("source translated", 0x60),
    ("destination translated", 0xa0),
    ("established reply", 0x2a),
    ("related reply", 0x2c),
];

fn setting(name: &str, default: u64) -> u64 {
    let value = std::env::var(name);
    value.map_or(default, |value| {
        value.parse().expect("the setting is a number")
    })
}

/// Shapes of caches, and whether the pipeline is broad, as in `soundness.rs`.
fn shapes() -> Vec<(bool, Config)> {
    let mut shapes = Vec::new();
    for (index, maintainer) in (0..8).zip(MaintainerKind::STRICT.into_iter().cycle()) {
        let mut engine = Config {
            is_audited: true,
            ..Config::default()
        };
        engine.datapath.maintainer = maintainer;
        engine.pipeline.classifier = ClassifierKind::ALL[index % ClassifierKind::ALL.len()];
        engine.datapath.microflow.entries = [16, 256, 0][index % 3];
        engine.datapath.microflow.admit_one_in = 1 + index as u32 % 2;
        engine.datapath.megaflow.masks = [1_000, 8][usize::from(index == 5)];
        match index {
            4 => engine.datapath.megaflow.is_exact = true,
            6 => engine.datapath.megaflow.classifier = MegaflowClassifier::Learned,
            7 => engine.datapath.mode = Mode::ComputationalFlows,
            _ => {}
        }
        shapes.push((index % 2 == 1, engine));
    }
    shapes
}

/// Counts over all runs.
#[derive(Default)]
struct Seen {
    checked: u64,
    flips: u64,
    passes: u64,
    /// Cached answers to packets that were looked up again.
    hits: u64,
    states: [u64; STATES.len()],
    untracked: u64,
    commits: u64,
    /// Rules found by passes of a packet with a connection that look up its tuple.
    tuples: u64,
    /// Passes of packets whose connection has a mark.
    marks: u64,
    labels: u64,
    zones: u64,
}

/// A packet that waits for a pass of the twin.
struct Waiting {
    continuation: Option<Arc<Continuation>>,
    connection: Connection,
    packet: Packet,
}

struct Run {
    bench: Bench,
    random: Pcg64Mcg,
    now: Instant,
    /// The twin's, with its connections.
    outbox: Outbox,
}

impl Run {
    /// Every third pipeline has two bridges with a patch between them.
    fn new(is_broad: bool, config: &Config, seed: u64) -> Run {
        let kind = config.datapath.maintainer;
        let mut bench = Bench::tracking(kind, is_broad, seed, config.clone());
        bench.engine.outbox().grows = true;
        let mut outbox = Outbox::new(PacketPool::with_capacity(0, 0));
        outbox.grows = true;
        Run {
            bench,
            random: Pcg64Mcg::seed_from_u64(seed),
            now: Instant::from_nanos(1),
            outbox,
        }
    }

    fn forward(&mut self, packets: usize, seen: &mut Seen, context: &str) {
        for _ in 0..packets {
            let mut packet = self.bench.sample(1).remove(0);
            packet.set_received(packet.in_port(), self.now);
            // Twice now and then: the second is answered by what the first left.
            for _ in 0..self.random.random_range(1..=2) {
                self.forward_one(&packet, seen, context);
            }
            let waits = match self.random.random_ratio(1, 60) {
                true => Duration::from_secs(40),
                false => Duration::from_millis(50),
            };
            self.now = self.now + waits;
            if self.random.random_ratio(1, 10) {
                self.bench.engine.tick(self.now);
            }
        }
    }

    /// Forwards a packet through all three.
    fn forward_one(&mut self, packet: &Packet, seen: &mut Seen, context: &str) {
        self.follow(packet.clone(), seen, context);
        let audit = self.bench.engine.audit().expect("audited");
        let (stale, checked) = (audit.stale, audit.checked);
        self.bench
            .engine
            .forward(&mut vec![packet.clone()], self.now);
        let audit = self.bench.engine.audit().expect("audited");
        assert_eq!(audit.stale, stale, "{context}: {packet:?}");
        seen.checked += audit.checked - checked;
        let told = |outbox: &mut Outbox| {
            let sent = outbox.sent.drain(..);
            let sent = sent.map(|(port, packet)| (port, packet.bytes().to_vec()));
            let sent: Vec<(PortId, Vec<u8>)> = sent.collect();
            outbox.recycle();
            sent
        };
        let expected = told(&mut self.outbox);
        assert_eq!(
            told(self.bench.engine.outbox()),
            expected,
            "{context}: {packet:?}"
        );
        for (_, bytes) in expected.iter().take(3) {
            let conversations = self.bench.conversations.as_mut();
            conversations.expect("rules track").hear(bytes);
        }
    }

    /// The twin's passes.
    fn follow(&mut self, packet: Packet, seen: &mut Seen, context: &str) {
        let mut waiting = VecDeque::from([Waiting {
            continuation: None,
            connection: Connection::default(),
            packet,
        }]);
        self.outbox.now = self.now;
        let mut passes = 0;
        while let Some(next) = waiting.pop_front()
            && passes < MAX_PASSES
        {
            passes += 1;
            let Ok(headers) = Headers::parse(next.packet.bytes()) else {
                continue;
            };
            let pipeline = self.bench.engine.pipeline();
            let receipt = Receipt {
                in_port: next.packet.in_port().0,
                // Any number but 0 does.
                recirculation_id: u32::from(next.continuation.is_some()),
                connection: next.connection,
                ..Receipt::default()
            };
            let layout = pipeline.layout();
            let mut key = vec![0; layout.ingress_words()];
            layout.extract(next.packet.bytes(), &headers, &receipt, &mut key);
            let continuation = next.continuation.as_deref();
            let translation = answer(&pipeline, &key, continuation);
            if self.random.random_ratio(1, 3) {
                let random = &mut self.random;
                flip(&pipeline, &key, continuation, &translation, random, context);
                seen.flips += 1;
            }
            seen.note(&next.connection, &translation.effects);
            if next.connection.state != 0 {
                seen.tuples += lookups_of_tuples(&pipeline, &translation);
            }
            let (fields, connection) = (pipeline.fields(), &next.connection);
            let effects = &translation.effects;
            run(
                effects,
                fields,
                next.packet,
                headers,
                connection,
                &mut self.outbox,
            );
            waiting.extend(self.outbox.recirculated.drain(..).map(|again| Waiting {
                continuation: Some(translation.continuations[again.continuation as usize].clone()),
                connection: again.connection,
                packet: again.packet,
            }));
        }
    }

    /// Changes rules, or now and then a group, a port, its VLANs, mirrors, or what tables see
    /// of fragments.
    fn change(&mut self, context: &str) {
        for change in self.bench.any_changes() {
            let applied = self.bench.engine.apply(&change, self.now);
            applied.unwrap_or_else(|error| panic!("{context}: {error}"));
        }
    }
}

impl Seen {
    /// Counts what the tracker said before a pass, and what the pass asks of it.
    fn note(&mut self, connection: &Connection, effects: &[Effect]) {
        self.passes += 1;
        for (count, (_, bits)) in self.states.iter_mut().zip(STATES) {
            *count += u64::from(connection.state & bits == bits);
        }
        self.marks += u64::from(connection.mark != 0);
        self.labels += u64::from(connection.label != 0);
        self.zones += u64::from(connection.zone > 2);
        self.note_effects(effects);
    }

    fn note_effects(&mut self, effects: &[Effect]) {
        for effect in effects {
            match effect {
                Effect::Track(request) => self.commits += u64::from(request.is_commit),
                Effect::Untrack => self.untracked += 1,
                effect => effect.lists().for_each(|nested| self.note_effects(nested)),
            }
        }
    }
}

/// Rules that were found and look up the tuple of a connection.
fn lookups_of_tuples(pipeline: &Pipeline, translation: &Translation) -> u64 {
    let looks_up_tuple = |kind: &StepKind| {
        let StepKind::Lookup {
            rule: Some(rule), ..
        } = kind
        else {
            return false;
        };
        let rule = pipeline.rule(*rule).expect("it was found");
        let mut actions = rule.actions.iter();
        actions.any(|action| {
            matches!(
                action,
                Action::Resubmit {
                    with_tuple: true,
                    ..
                }
            )
        })
    };
    translation.trace.kinds().filter(looks_up_tuple).count() as u64
}

fn answer(pipeline: &Pipeline, key: &[u64], continuation: Option<&Continuation>) -> Translation {
    match continuation {
        None => translate(pipeline, key, pipeline.version()),
        Some(continuation) => resume(pipeline, key, continuation, pipeline.version()),
    }
}

/// Flips bits that a pass did not depend on: trace and effects must stay.
fn flip(
    pipeline: &Pipeline,
    key: &[u64],
    continuation: Option<&Continuation>,
    original: &Translation,
    random: &mut Pcg64Mcg,
    context: &str,
) {
    let layout = pipeline.layout();
    for round in 0..4 {
        let mut flipped = key.to_vec();
        for &field in layout.used() {
            let Some(slot) = layout.slot(field) else {
                continue;
            };
            let is_fixed = field == standard::RECIRC_ID || !layout.descriptor(field).is_ingress();
            if is_fixed || random.random_ratio(1, 2) {
                continue;
            }
            for bit in 0..slot.width_bits {
                let (word, shift) = slot.position(bit);
                let is_free = original.mask[word] >> shift & 1 == 0;
                if is_free && (round == 0 || random.random_ratio(1, 2)) {
                    flipped[word] ^= 1 << shift;
                }
            }
        }
        let again = answer(pipeline, &flipped, continuation);
        let is_same = again.effects == original.effects
            && again.continuations == original.continuations
            && again.trace.kinds().eq(original.trace.kinds());
        assert!(
            is_same,
            "{context}: key {key:x?}, mask {:x?}, flipped {flipped:x?}: {original:?} and {again:?}",
            original.mask
        );
    }
}

#[test]
fn every_cached_answer_is_the_interpreters_and_states_occur() {
    let wanted = setting("THALWEG_CHECKS", CHECKS);
    let mut seen = Seen::default();
    for seed in setting("THALWEG_SEED", 0).. {
        for (index, (is_broad, config)) in shapes().iter().enumerate() {
            let context = format!("seed {seed}, shape {index}");
            let mut run = Run::new(*is_broad, config, seed * 100 + index as u64);
            run.forward(120, &mut seen, &context);
            for _ in 0..15 {
                run.change(&context);
                run.forward(20, &mut seen, &context);
            }
            assert_eq!(run.bench.engine.datapath().verify(), Ok(()), "{context}");
            let statistics = run.bench.engine.datapath().statistics();
            seen.hits += statistics.microflow.hits + statistics.megaflow.hits;
        }
        if seen.checked >= wanted {
            break;
        }
    }
    let states = STATES.iter().zip(seen.states);
    let states: Vec<_> = states.map(|((name, _), count)| (*name, count)).collect();
    println!(
        "{} packets compared in {} passes, {} masks flipped, {} hits, {} commits, {} untracked, \
         {} lookups of tuples, {} marks, {} labels, {} zones of registers; {states:?}",
        seen.checked,
        seen.passes,
        seen.flips,
        seen.hits,
        seen.commits,
        seen.untracked,
        seen.tuples,
        seen.marks,
        seen.labels,
        seen.zones
    );
    // Not one of them may be rare: the test would say nothing of it.
    for (name, count) in states {
        assert!(
            count > seen.checked / 2_000,
            "{name} occurred {count} times"
        );
    }
    let others = [
        seen.untracked,
        seen.tuples,
        seen.marks,
        seen.labels,
        seen.zones,
    ];
    assert!(others.iter().all(|count| *count > seen.checked / 1_000));
    assert!(seen.commits > seen.checked / 4);
    assert!(seen.hits > seen.passes / 5, "the caches were hardly used");
}
