//! What the caches promise about their size, about keeping used entries, and about
//! generations.

mod lab;

use lab::{Lab, READS_FIVE_TUPLE, datagram};
use thalweg_datapath::{EvictReason, MaintainerKind, RefuseReason};
use thalweg_switch::Config;

/// A rule for each of these hosts, so that each has its own entry.
fn rules_by_host(hosts: u32) -> String {
    let rule = |host: u32| {
        let [.., a, b, c] = host.to_be_bytes();
        format!("ip,nw_dst=10.{a}.{b}.{c},actions=output:{}\n", host % 3 + 2)
    };
    (0..hosts).map(rule).collect()
}

#[test]
fn a_microflow_never_outlives_its_megaflow() {
    let mut config = Config::default();
    config.datapath.maintainer = MaintainerKind::Flush;
    config.datapath.microflow.admit_one_in = 1;
    let mut lab = Lab::new(
        config,
        "priority=1,actions=output:2\nip,nw_dst=10.0.0.2,actions=3\n",
    );
    let (one, two) = (datagram(9, 1, 7), datagram(9, 2, 7));
    for _ in 0..2 {
        assert_eq!((lab.send(&one), lab.send(&two)), (vec![2], vec![3]));
    }
    // Both entries are evicted. The next new entry gets the place and number of the other one.
    lab.change("add priority=40000,arp,actions=drop");
    assert_eq!(lab.engine.datapath().megaflow_count(), 0);
    assert_eq!((lab.send(&two), lab.send(&one)), (vec![3], vec![2]));
    // The same place again, for the same packets, with another answer.
    lab.change("modify_strict ip,nw_dst=10.0.0.2,actions=output:4");
    assert_eq!((lab.send(&two), lab.send(&one)), (vec![4], vec![2]));
    assert_eq!((lab.send(&two), lab.send(&one)), (vec![4], vec![2]));
}

#[test]
fn numbers_of_entries_are_used_again_and_again() {
    for maintainer in MaintainerKind::STRICT {
        let mut config = Config::default();
        config.datapath.maintainer = maintainer;
        config.datapath.megaflow.entries = 2;
        config.datapath.microflow.entries = 64;
        config.datapath.microflow.admit_one_in = 1;
        let mut lab = Lab::new(config, &rules_by_host(8));
        for step in 0..2_000_u32 {
            let host = step.wrapping_mul(2_654_435_761) >> 29;
            lab.send(&datagram(9, host, 7));
            if step % 50 == 0 {
                let port = step / 50 % 7 + 1;
                lab.change(&format!(
                    "modify_strict ip,nw_dst=10.0.0.{host},actions={port}"
                ));
            }
        }
        assert!(
            lab.engine
                .datapath()
                .statistics()
                .evictions(EvictReason::Capacity)
                > 100
        );
    }
}

#[test]
fn a_scan_leaves_most_of_the_exact_match_cache() {
    let mut config = Config::default();
    config.datapath.microflow.entries = 8_192;
    config.datapath.microflow.admit_one_in = 100;
    let rules = format!("priority=2,actions=output:2\n{READS_FIVE_TUPLE}");
    let mut lab = Lab::unaudited(config, &rules);
    let hot: Vec<Vec<u8>> = (0..1_000).map(|host| datagram(host, 1, 7)).collect();
    for _ in 0..2 {
        hot.iter().for_each(|packet| drop(lab.send(packet)));
    }
    // Only chance can bring two flows to the same place: there is room for all of them.
    assert!(lab.engine.datapath().statistics().microflow.hits > 980);
    (0..100_000).for_each(|host| drop(lab.send(&datagram(0x10_0000 + host, 2, 8))));
    let before = lab.engine.datapath().statistics().microflow.hits;
    hot.iter().for_each(|packet| drop(lab.send(packet)));
    let hits = lab.engine.datapath().statistics().microflow.hits - before;
    assert!(hits > 800, "of 1,000 flows in use, {hits} are still there");
}

#[test]
fn entries_in_use_survive_a_scan() {
    let mut config = Config::default();
    config.datapath.microflow.entries = 0;
    config.datapath.megaflow.entries = 1_000;
    // Every packet of another host makes an entry: the whole address is read.
    let rules =
        "priority=9,ip,nw_dst=10.0.0.0/255.0.0.255,actions=2\npriority=1,actions=output:3\n";
    let rules = format!("{rules}{}", rules_by_host(20_000));
    let mut lab = Lab::unaudited(config, &rules);
    let hot: Vec<Vec<u8>> = (0..100).map(|host| datagram(9, host, 7)).collect();
    hot.iter().for_each(|packet| drop(lab.send(packet)));
    let mut missed = 0;
    for scanned in 0..19_000_u32 {
        lab.send(&datagram(9, 1_000 + scanned, 7));
        // Each of the hot ones is used once in five hundred packets.
        if scanned % 5 == 0 {
            let before = lab.engine.datapath().statistics().upcalls;
            lab.send(&hot[scanned as usize / 5 % hot.len()]);
            missed += lab.engine.datapath().statistics().upcalls - before;
        }
    }
    let evicted = lab
        .engine
        .datapath()
        .statistics()
        .evictions(EvictReason::Capacity);
    assert!(evicted > 15_000, "the scan evicted only {evicted}");
    assert!(
        missed < 40,
        "of 3,800 packets in use, {missed} were upcalls"
    );
}

#[test]
fn entries_stay_within_their_number_after_every_burst() {
    let mut config = Config::default();
    config.datapath.megaflow.entries = 50;
    let mut lab = Lab::unaudited(config, &rules_by_host(500));
    for burst in 0..100_u32 {
        let packets = (0..32).map(|index| lab.packet(1, &datagram(9, burst * 32 + index, 7)));
        let mut packets: Vec<_> = packets.collect();
        lab.engine.forward(&mut packets, lab.now);
        lab.engine.outbox().recycle();
        assert!(lab.engine.datapath().megaflow_count() <= 50);
    }
}

#[test]
fn entries_stay_within_their_bytes_after_every_burst() {
    let mut config = Config::default();
    let limit = 64 << 10;
    config.datapath.megaflow.bytes = limit;
    let mut lab = Lab::new(config, &rules_by_host(3_000));
    let mut most = 0;
    for host in 0..6_000 {
        lab.send(&datagram(9, host * 7 % 3_000, 7));
        most = most.max(lab.engine.datapath().megaflow_count());
        // Arrays that grow by doubling may have the same amount in reserve.
        assert!(lab.engine.datapath().megaflow_bytes() < 2 * limit + 16_384);
    }
    assert!(
        (100..1_000).contains(&most),
        "{most} entries in {limit} bytes"
    );
    // If the byte count were not exact, there would be room for more or fewer entries by now.
    lab.change("modify ip,actions=output:7");
    let mut again = 0;
    for host in 0..3_000 {
        assert_eq!(lab.send(&datagram(9, host, 7)), [7]);
        again = again.max(lab.engine.datapath().megaflow_count());
    }
    assert!(
        again.abs_diff(most) <= most / 4,
        "{most} entries before, {again} after"
    );
}

#[test]
fn no_room_for_a_single_entry_is_no_harm() {
    for bytes in [0, 1, 100, 200, 300, 400] {
        let mut config = Config::default();
        config.datapath.megaflow.bytes = bytes;
        let mut lab = Lab::new(config, "ip,actions=dec_ttl,2,dec_ttl,3\nactions=4\n");
        for step in 0..20 {
            lab.send(&datagram(9, step % 3, 7));
            lab.change(&format!("add priority={step},arp,actions=1"));
        }
        if bytes <= 1 {
            let statistics = lab.engine.datapath().statistics();
            assert_eq!(statistics.refusals(RefuseReason::TooLarge), 20);
        }
    }
}

#[test]
fn beyond_the_masks_entries_are_exact_and_right() {
    let mut config = Config::default();
    config.datapath.megaflow.masks = 3;
    config.datapath.microflow.entries = 0;
    let mut rules = String::from("priority=1,actions=output:2\n");
    for length in 9..=31_u32 {
        rules += &format!(
            "priority={length},ip,nw_dst=10.{}.0.1/{length},actions=3\n",
            length * 8
        );
    }
    let mut lab = Lab::new(config, &rules);
    for step in 0..2_000_u32 {
        lab.send(&datagram(9, step.wrapping_mul(2_654_435_761) >> 8, 7));
        assert!(lab.engine.datapath().mask_count() <= 3);
        if step % 500 == 499 {
            lab.change(&format!("add priority=50,udp,tp_src={step},actions=4"));
        }
    }
    let statistics = lab.engine.datapath().statistics();
    assert!(statistics.refusals(RefuseReason::MasksFull) > 100);
    assert_eq!(lab.engine.audit().expect("audited").checked, 2_000);
}
