//! FT16-400K: how long 410,865 machines on 12,800 servers take to build, and a workload like
//! Alibaba's over them, with what it cost; or the same number of calls over FT8-10K, to compare.
//!
//! ```text
//! cargo run --release --example alibaba -- nocache|direct|switchv2p CALLS ft16|ft8
//! ```

use std::time::Instant;

use thalweg_fabric::*;
use thalweg_v2p::Profile;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (shape, machines, servers, switches) = match arguments.get(2).map(String::as_str) {
        Some("ft16") => (FatTree::ft16_400k(), 410_865, 12_800, 816),
        Some("ft8") => (FatTree::ft8_10k(10), 10_240, 128, 80),
        other => panic!("give a fabric, not {other:?}"),
    };
    let scheme = match arguments.first().map(String::as_str) {
        Some("nocache") => Scheme::NoCache,
        Some("direct") => Scheme::Direct,
        Some("switchv2p") => {
            let entries = machines / 2 / switches;
            Scheme::SwitchV2p(SwitchV2p::new(Profile::Artifact, entries))
        }
        other => panic!("give a scheme, not {other:?}"),
    };
    let mut workload = RpcWorkload::published(1);
    if let Some(calls) = arguments.get(1) {
        workload.calls = calls.parse().expect("a number of calls");
    }
    let placement = Placement::even(machines, servers);
    let start = Instant::now();
    let lines = workload.generate(&placement);
    println!("{} calls made in {:?}", lines.len(), start.elapsed());
    let config = Config {
        transport: Transport::Tcp(TcpConfig::artifact()),
        ..Config::artifact(shape, placement, scheme)
    };
    let start = Instant::now();
    let mut run = Simulation::new(&config, &lines).expect("a configuration that is right");
    println!("built in {:?}", start.elapsed());
    let start = Instant::now();
    run.run();
    let ran = start.elapsed();
    let report = run.report();
    println!(
        "run in {ran:?}, {:.2} M hops a second: hit rate {:.4}, FCT {:.2} µs, {:.3} hops, {} \
         packets, {} finished, {} drops",
        report.packet_hops as f64 / ran.as_secs_f64() / 1e6,
        report.hit_rate,
        report.mean_fct_us,
        report.stretch,
        report.packets_sent,
        report.connections_finished,
        report.drops.total(),
    );
}
