//! What an attacker's packets may cost other senders, counted in work, not in time.

use thalweg_datapath::{EvictReason, RefuseReason, Statistics};
use thalweg_packet::{Instant, Packet, PortId};
use thalweg_pipeline::text;
use thalweg_switch::{Config, Engine};
use thalweg_workload::AttackCase;

/// Sub-tables that one walk counts as.
const WALK: u64 = 100;

struct Scene {
    engine: Engine,
}

impl Scene {
    fn new(rules: &str, configure: impl FnOnce(&mut Config)) -> Scene {
        let mut config = Config {
            is_audited: true,
            ..Config::default()
        };
        configure(&mut config);
        let mut engine = Engine::new(config).unwrap();
        for port in [1, 2, 3] {
            engine.add_port(PortId(port), Instant::ZERO);
        }
        let rules = text::parse_rules("rules", rules).unwrap();
        engine.apply(&rules.into_change(), Instant::ZERO).unwrap();
        Scene { engine }
    }

    /// Sends packets into a port, in bursts; returns their cost per packet, in sub-tables.
    fn send<'a>(&mut self, port: u32, packets: impl IntoIterator<Item = &'a Vec<u8>>) -> f64 {
        let cost = |seen: &Statistics| seen.lookups.subtables + WALK * seen.upcalls;
        let seen = self.engine.datapath().statistics();
        let (before, count) = (cost(seen), seen.packets);
        let mut packets = packets.into_iter().peekable();
        while packets.peek().is_some() {
            let burst = packets.by_ref().take(32);
            let mut burst: Vec<Packet> = burst
                .map(|bytes| {
                    let mut packet = Packet::from_bytes(bytes);
                    packet.set_received(PortId(port), Instant::ZERO);
                    packet
                })
                .collect();
            self.engine.forward(&mut burst, Instant::ZERO);
            self.engine.outbox().recycle();
        }
        self.engine.datapath().verify().unwrap();
        let seen = self.engine.datapath().statistics();
        (cost(seen) - before) as f64 / (seen.packets - count) as f64
    }

    fn assert_sound(&self) {
        let audit = self.engine.audit().expect("audited");
        assert_eq!(audit.stale, 0);
        assert!(audit.checked > 0);
    }
}

/// Tuple space explosion over IPv4 and IPv6. A flow that was there before, and one that comes
/// when all masks are taken, cost about what they cost alone, from the attacker's port and
/// from another.
#[test]
fn masks_of_an_attacker_cost_others_next_to_nothing() {
    for is_ipv6 in [false, true] {
        let case = AttackCase::explosion(is_ipv6, 4_000, 5).unwrap();
        let no_microflows = |config: &mut Config| config.datapath.microflow.entries = 0;
        let mut scene = Scene::new(&case.rules, no_microflows);
        let alone = scene.send(1, &case.victim);
        assert!(alone < 1.5, "{alone}");
        for round in 0..2 {
            scene.send(1, &case.attacker);
            let victim = scene.send(1, &case.victim);
            assert!(victim < 3.0, "{victim} in round {round}");
            // For each new port, all sub-tables are searched until it is known which pay off.
            let by_another = scene.send(3, &case.victim);
            assert!(by_another < 12.0, "{by_another} in round {round}");
            let again = scene.send(3, &case.victim);
            assert!(again < 1.5, "{again} in round {round}");
        }
        let first = scene.send(1, &case.newcomer);
        let then = scene.send(1, &case.newcomer);
        assert!(first < 16.0 && then < 3.0, "{first}, then {then}");
        let seen = scene.engine.datapath().statistics();
        assert!(seen.refusals(RefuseReason::MasksFull) > 1_000);
        assert!(seen.evictions(EvictReason::RareMask) > 100);
        assert!(seen.lookups.cut > 1_000);
        assert!(scene.engine.datapath().mask_count() <= 1_024);
        scene.assert_sound();
    }
}

/// The same during the attack: one attack packet for every two others.
#[test]
fn nor_do_they_while_the_attack_goes_on() {
    let case = AttackCase::explosion(false, 4_000, 6).unwrap();
    let no_microflows = |config: &mut Config| config.datapath.microflow.entries = 0;
    let mut scene = Scene::new(&case.rules, no_microflows);
    scene.send(1, &case.attacker);
    let (mut victim, mut newcomer) = (Vec::new(), Vec::new());
    let chunks = |packets: &[Vec<u8>]| -> Vec<Vec<Vec<u8>>> {
        packets.chunks(200).map(<[Vec<u8>]>::to_vec).collect()
    };
    let others = [chunks(&case.victim), chunks(&case.newcomer)];
    for (step, attack) in case.attacker.chunks(200).enumerate() {
        scene.send(1, attack);
        victim.push(scene.send(1, &others[0][step % 20]));
        newcomer.push(scene.send(1, &others[1][step % 20]));
    }
    for (name, costs) in [("victim", victim), ("newcomer", newcomer)] {
        // Learning which sub-tables pay off is over after half of the time.
        let later = &costs[costs.len() / 2..];
        let mean = later.iter().sum::<f64>() / later.len() as f64;
        assert!(mean < 4.0, "{name}: {mean}");
    }
    scene.assert_sound();
}

/// An attacker that knows another seed has ordinary keys: see the test of the hash in
/// `classifier`. Here, a flood of entries does not evict those of flows in use.
#[test]
fn entries_of_an_attacker_do_not_drive_out_others() {
    let case = AttackCase::sources(500, 30_000, 7).unwrap();
    let mut scene = Scene::new(&case.rules, |config| {
        config.datapath.microflow.entries = 0;
        config.datapath.megaflow.entries = 5_000;
    });
    for _ in 0..2 {
        scene.send(1, &case.victim);
    }
    let mut cost = 0.0;
    for attack in case.attacker.chunks(1_000) {
        scene.send(1, attack);
        cost += scene.send(1, &case.victim);
    }
    let mean = cost / 30.0;
    assert!(mean < 2.0, "{mean}");
    scene.assert_sound();
}
