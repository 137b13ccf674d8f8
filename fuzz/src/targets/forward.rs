//! Frames through the caches: the first byte chooses the port, the rest is the frame.
//!
//! The rules are fixed (`rules/forward.rules`) and use every feature; every input gets fresh
//! caches. Neighbours of the frame (flipped bits, cut, another port) follow it, and meet the
//! entries that it made.
//!
//! 1. Every answer of the caches equals the interpreter's, byte for byte.
//! 2. Flipping key bits that the walk did not examine changes neither its steps nor its
//!    effects.
//! 3. No bytes cause a panic.

use std::sync::OnceLock;

use thalweg_datapath::{Config, Datapath, Gate, MegaflowConfig, MicroflowConfig};
use thalweg_packet::{Headers, Instant, Packet, PacketPool, PortId, Receipt};
use thalweg_pipeline::{Operation, Outbox, Pipeline, PortState, forward, text, translate};

const PORTS: u32 = 4;
/// Neighbours tried for each frame.
const NEIGHBOURS: u64 = 12;

/// Runs one input.
pub fn run(input: &[u8]) {
    static PIPELINE: OnceLock<Gate<Pipeline>> = OnceLock::new();
    let pipeline = PIPELINE.get_or_init(|| Gate::new(load()));
    let Some((port, frame)) = input.split_first() else {
        return;
    };
    let port = PortId(u32::from(*port) % PORTS + 1);
    let mut chance = Chance::of(input);
    let mut caches = Caches::new(pipeline);
    caches.forward(frame, port);
    for _ in 0..NEIGHBOURS {
        let (neighbour, port) = chance.neighbour(frame, port);
        caches.forward(&neighbour, port);
        caches.forward(frame, port);
    }
    let pipeline = pipeline.read();
    flip_unexamined(&pipeline, frame, port, &mut chance);
}

fn load() -> Pipeline {
    let rules = text::parse_rules("forward.rules", include_str!("../../rules/forward.rules"));
    let rules = rules.unwrap_or_else(|errors| panic!("{errors:#?}"));
    let state = PortState {
        is_up: true,
        floods: true,
        forwards: true,
        peer: None,
    };
    let mut change = rules.into_change();
    let ports = (1..=PORTS).map(|port| Operation::SetPort(PortId(port), state));
    change.operations.extend(ports);
    let mut pipeline = Pipeline::new(thalweg_pipeline::Config::default());
    let applied = pipeline.apply(&change, Instant::ZERO);
    applied.unwrap_or_else(|error| panic!("{error}"));
    pipeline
}

/// Caches that are compared with the interpreter.
struct Caches<'a> {
    pipeline: &'a Gate<Pipeline>,
    datapath: Datapath,
}

impl<'a> Caches<'a> {
    fn new(pipeline: &'a Gate<Pipeline>) -> Caches<'a> {
        let config = Config {
            microflow: MicroflowConfig {
                entries: 16,
                admit_one_in: 2,
            },
            megaflow: MegaflowConfig {
                entries: 8,
                masks: 6,
                ..Config::default().megaflow
            },
            ..Config::default()
        };
        let known = pipeline.read();
        let datapath = Datapath::new(config, &known).expect("the limits make sense");
        Caches { pipeline, datapath }
    }

    fn forward(&mut self, frame: &[u8], port: PortId) {
        let mut packet = Packet::from_bytes(frame);
        packet.set_received(port, Instant::ZERO);
        let known = self.pipeline.read();
        let mut expected = growing_outbox();
        // Both drop bytes that are not a frame.
        let _ = forward(&known, known.version(), packet.clone(), &mut expected);
        drop(known);
        let mut outbox = growing_outbox();
        let mut burst = vec![packet];
        self.datapath
            .process(&mut burst, Instant::ZERO, self.pipeline, &mut outbox);
        let is_right = outbox.sent == expected.sent
            && outbox.to_controller == expected.to_controller
            && outbox.stations_seen == expected.stations_seen;
        assert!(is_right, "port {port}: the answer to {frame:02x?} is stale");
    }
}

fn growing_outbox() -> Outbox {
    let mut outbox = Outbox::new(PacketPool::with_capacity(0, 0));
    outbox.grows = true;
    outbox
}

/// Checks invariant 2: bits that a walk did not examine may have any value.
fn flip_unexamined(pipeline: &Pipeline, frame: &[u8], port: PortId, chance: &mut Chance) {
    let Ok(headers) = Headers::parse(frame) else {
        return;
    };
    let layout = pipeline.layout();
    let mut key = vec![0; layout.ingress_words()];
    layout.extract(frame, &headers, &Receipt::from_port(port.0), &mut key);
    let original = translate(pipeline, &key, pipeline.version());
    for _ in 0..4 {
        let mut flipped = key.clone();
        for &field in layout.used() {
            let Some(slot) = layout.slot(field) else {
                continue;
            };
            if !layout.descriptor(field).is_ingress() {
                continue;
            }
            let bits = chance.next();
            for bit in 0..slot.width_bits {
                let (word, shift) = slot.position(bit);
                let is_free = original.mask[word] >> shift & 1 == 0;
                if is_free && bits >> (bit % 64) & 1 == 1 {
                    flipped[word] ^= 1 << shift;
                }
            }
        }
        let again = translate(pipeline, &flipped, pipeline.version());
        assert_eq!(again.effects, original.effects, "{key:x?} and {flipped:x?}");
        assert!(
            again.trace.kinds().eq(original.trace.kinds()),
            "{key:x?} and {flipped:x?}"
        );
    }
}

/// Random choices that depend only on the input, so that each input is reproducible.
struct Chance(u64);

impl Chance {
    fn of(input: &[u8]) -> Chance {
        let mix = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        Chance(input.iter().fold(0xcbf2_9ce4_8422_2325, mix))
    }

    /// The next number (the finalizer of SplitMix64).
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let value = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ value >> 31
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    /// A frame that differs in a few bits, in length, or in its ingress port.
    fn neighbour(&mut self, frame: &[u8], port: PortId) -> (Vec<u8>, PortId) {
        let mut frame = frame.to_vec();
        match self.below(8) {
            0 => return (frame, PortId(self.below(PORTS as usize) as u32 + 1)),
            1 => frame.truncate(self.below(frame.len() + 1)),
            2 => frame.resize(frame.len() + self.below(64), 0),
            _ => {
                for _ in 0..=self.below(3) {
                    let at = self.below(frame.len().min(96));
                    if let Some(byte) = frame.get_mut(at) {
                        *byte ^= 1 << self.below(8);
                    }
                }
            }
        }
        (frame, port)
    }
}
