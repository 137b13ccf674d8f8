//! A storm of new flows at one port leaves the other ports of its worker their share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use thalweg_io::{NullPort, Port, PortCounters, PortStatus};
use thalweg_packet::{BURST, Packet, PacketPool, PortId};
use thalweg_pipeline::text;
use thalweg_switch::{Switch, SwitchConfig, SwitchPort};

/// A port that always has packets: of one flow, or each of a new one.
struct Source {
    number: PortId,
    is_storm: bool,
    random: Pcg64Mcg,
    given: Arc<AtomicU64>,
}

impl Port for Source {
    fn receive(
        &mut self,
        pool: &mut PacketPool,
        burst: &mut Vec<Packet>,
        now: thalweg_packet::Instant,
    ) {
        let first = burst.len();
        pool.take_burst(burst, BURST);
        let mut template = vec![2, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 8, 0];
        template.extend([0x45, 0, 0, 46, 0, 0, 0, 0, 64, 99, 0, 0]);
        template.extend([10, 0, 0, 1, 10, 0, 0, 2]);
        template.resize(60, 0);
        for packet in &mut burst[first..] {
            if self.is_storm {
                let address: u64 = self.random.random();
                template[26..34].copy_from_slice(&address.to_be_bytes());
            }
            packet.fill(&template);
            packet.set_received(self.number, now);
        }
        let count = (burst.len() - first) as u64;
        self.given.fetch_add(count, Ordering::SeqCst);
    }

    fn send(&mut self, pool: &mut PacketPool, burst: &mut Vec<Packet>) {
        pool.put_burst(burst);
    }

    fn status(&mut self) -> PortStatus {
        PortStatus::Up
    }

    fn counters(&self) -> PortCounters {
        PortCounters::default()
    }
}

#[test]
fn known_flows_of_other_ports_go_on_in_a_storm_of_new_ones() {
    let given: Vec<Arc<AtomicU64>> = (0..2).map(|_| Arc::default()).collect();
    let sources = given.iter().enumerate().map(|(index, given)| {
        let number = PortId(1 + index as u32);
        let source = Source {
            number,
            is_storm: index == 0,
            random: Pcg64Mcg::seed_from_u64(7),
            given: given.clone(),
        };
        SwitchPort::new(number, Box::new(source))
    });
    let sink = SwitchPort {
        number: PortId(3),
        port: Box::new(NullPort::default()),
        is_source: false,
    };
    let mut config = SwitchConfig::default();
    config.datapath.megaflow.is_exact = true;
    config.datapath.megaflow.entries = 1 << 12;
    let rules = "table=0,ip,nw_src=1.2.3.4,nw_dst=5.6.7.8,actions=drop\ntable=0,actions=output:3";
    let rules = text::parse_rules("rules", rules).expect("they are right");
    let ports = sources.chain([sink]).collect();
    let switch = Switch::start_with(config, ports, &rules.into_change());
    let mut switch = switch.expect("it starts");
    let start = Instant::now();
    while given[0].load(Ordering::SeqCst) < 20_000 {
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "the storm stands still"
        );
        switch.poll(Duration::from_millis(1));
    }
    let totals = switch.stop();
    let [storm, known] = [0, 1].map(|index: usize| given[index].load(Ordering::SeqCst));
    // Nearly all of the storm were upcalls, and each has left the other port 64 packets.
    assert!(totals.datapath.upcalls > storm * 9 / 10);
    assert!(
        known > storm * 50,
        "{known} packets beside {storm} of the storm"
    );
}
