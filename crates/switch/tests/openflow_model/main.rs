//! Sessions against a simple list of rules.
//!
//! Several controllers of all versions send random messages through an agent to a real switch.
//! A list of rules and groups (`list.rs`), which knows neither pipeline nor caches, says what
//! each message must be answered and what every dump must show.
//!
//! 1. At every barrier, a dump of rules and the descriptions of groups are what the list says,
//!    counts of packets included.
//! 2. Errors have the type and code that the list predicts, quote the message, and stand in
//!    the order of the messages that they are about.
//! 3. A secondary's changes are refused, and a bundle is done whole or not at all.
//! 4. A full table refuses or evicts rules as the list does, also in bundles.
//! 5. Where the switch has several bridges, each with an agent, controllers and a list of its
//!    own, none notices another.

mod list;
mod peers;
mod random;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use peers::Peers;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use thalweg_control::openflow::{Agent, AgentLimits};
use thalweg_openflow::message::bundle::BundleAdd;
use thalweg_openflow::message::{Message, Request};
use thalweg_openflow::{Version, encode};
use thalweg_pipeline::BridgeId;
use thalweg_switch::{OpenFlowIdentity, OpenFlowPlane, Switch, SwitchConfig};

/// Sequences of messages.
const SEQUENCES: u64 = 400;
/// Batches of a sequence.
const BATCHES: usize = 12;

/// A switch without ports on a thread of its own, as a run has it.
struct Running {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    /// Starts a switch with these bridges; one alone is the whole switch.
    fn start(bridges: &[BridgeId]) -> (Running, Vec<OpenFlowPlane>) {
        let mut config = SwitchConfig {
            packets_per_worker: 128,
            exchange_packets: 64,
            ..SwitchConfig::default()
        };
        config.pipeline.bridges = bridges.len() > 1;
        let mut switch = Switch::start(config, Vec::new()).expect("the limits make sense");
        let planes = bridges.iter().map(|bridge| {
            let identity = OpenFlowIdentity::new(bridge.0.into(), "bridge");
            switch.open_flow(*bridge, identity)
        });
        let planes = planes.collect();
        let is_over = Arc::new(AtomicBool::new(false));
        let end = is_over.clone();
        let thread = std::thread::spawn(move || {
            while !end.load(Ordering::Relaxed) {
                switch.poll(Duration::from_millis(20));
            }
            switch.stop();
        });
        let running = Running {
            is_over,
            thread: Some(thread),
        };
        (running, planes)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic of the switch has been told by its thread.
            let _ = thread.join();
        }
    }
}

#[test]
fn what_can_be_read_is_what_the_list_says() {
    compare(&[BridgeId(0)]);
}

#[test]
fn what_can_be_read_of_each_bridge_is_what_its_list_says() {
    compare(&[BridgeId(3), BridgeId(0)]);
}

/// Sends random messages to the planes of all bridges, in any order.
fn compare(bridges: &[BridgeId]) {
    let (_running, planes) = Running::start(bridges);
    let peers = |plane| Peers::new(Agent::new(plane, AgentLimits::default()));
    let mut all: Vec<Peers> = planes.into_iter().map(peers).collect();
    for seed in 0..SEQUENCES {
        let mut chance = Pcg64Mcg::seed_from_u64(seed);
        for peers in &mut all {
            peers.begin(seed, &mut chance);
        }
        for _ in 0..BATCHES * bridges.len() {
            let place = match bridges.len() {
                1 => 0,
                count => chance.random_range(0..count),
            };
            send_batch(&mut all[place], &mut chance);
        }
        all.iter_mut().for_each(Peers::compare_all);
    }
    // Otherwise the test would have met too little.
    for peers in all {
        peers.counted.check();
        assert!(peers.evicted() > 150, "{} evictions", peers.evicted());
    }
}

/// Some messages of one controller, and questions about what they did.
fn send_batch(peers: &mut Peers, chance: &mut Pcg64Mcg) {
    let peer = chance.random_range(0..peers.count());
    let version = peers.version(peer);
    let mut messages: Vec<Vec<u8>> = Vec::new();
    for _ in 0..chance.random_range(1..8) {
        let xid = peers.next_xid();
        messages.extend(message(chance, version, xid, peers.has_metadata()));
    }
    for asked in [
        Message::BarrierRequest,
        Message::Request(Request::Flow(random::flow_request(chance, version)), false),
        random::group_request(chance, version),
    ] {
        messages.extend(encode(version, peers.next_xid(), &asked));
    }
    peers.send(peer, &messages, chance.random_range(1..600));
}

/// A message of a controller, where its version has it.
fn message(
    chance: &mut Pcg64Mcg,
    version: Version,
    xid: u32,
    has_metadata: bool,
) -> Option<Vec<u8>> {
    let bundle = chance.random_range(1..3);
    let asked = match chance.random_range(0..20) {
        0 => random::role_request(chance, version),
        1..3 => random::bundle_control(chance, bundle),
        3..8 => {
            let inner = random::change(chance, version, has_metadata);
            let inner_xid = if chance.random_bool(0.02) { 0 } else { xid };
            Message::BundleAdd(BundleAdd {
                bundle,
                flags: random::bundle_flags(chance),
                message: Bytes::from(encode(version, inner_xid, &inner)?),
                properties: Bytes::new(),
            })
        }
        _ => random::change(chance, version, has_metadata),
    };
    encode(version, xid, &asked)
}
