//! Measures hops and events of an Alibaba-like workload on a large and a small fabric.
//!
//! The large one is FT16-400K: 410,865 machines on 12,800 servers. The small one is FT8-10K
//! with the same number of calls.
//!
//! ```text
//! cargo run --release -p thalweg-fabric --example alibaba -- \
//!     nocache|direct|switchv2p CALLS ft16|ft8|both
//! ```
//!
//! Costs are processor time of the run alone, without making calls and building the fabric.
//! With `both` the fabrics take turns of 100,000 events, so that changes of the processor's
//! speed, as on a shared machine, affect both alike; the ratios are printed last. Once one has
//! no events left, the other is not measured further.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use thalweg_fabric::*;
use thalweg_v2p::Profile;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const TURN: u64 = 100_000;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [scheme, calls, fabrics] = arguments.as_slice() else {
        panic!("give a scheme, a number of calls and a fabric");
    };
    let calls = calls.parse().expect("a number of calls");
    let run = |fabric: &str| Run::new(fabric, scheme, calls);
    match fabrics.as_str() {
        "both" => compare(run("ft16"), run("ft8")),
        fabric => {
            let mut run = run(fabric);
            while run.take_turn() {}
            run.print();
        }
    }
}

/// Runs both in turns until one ends, and prints the cost ratio of the large one.
fn compare(mut large: Run, mut small: Run) {
    while large.take_turn() && small.take_turn() {}
    large.print();
    small.print();
    println!(
        "ft16 costs {:.2} times as much as ft8 a hop, {:.2} times an event",
        large.hop_ns() / small.hop_ns(),
        large.event_ns() / small.event_ns(),
    );
}

/// A simulation, and its cost so far.
struct Run {
    fabric: String,
    simulation: Simulation,
    events: u64,
    spent: Duration,
}

impl Run {
    fn new(fabric: &str, scheme: &str, calls: u32) -> Run {
        let (shape, machines, servers, switches) = match fabric {
            "ft16" => (FatTree::ft16_400k(), 410_865, 12_800, 816),
            "ft8" => (FatTree::ft8_10k(10), 10_240, 128, 80),
            other => panic!("give ft16, ft8 or both, not {other}"),
        };
        let scheme = match scheme {
            "nocache" => Scheme::NoCache,
            "direct" => Scheme::Direct,
            "switchv2p" => {
                let entries = machines / 2 / switches;
                Scheme::SwitchV2p(SwitchV2p::new(Profile::Artifact, entries))
            }
            other => panic!("no scheme {other}"),
        };
        let mut workload = RpcWorkload::published(1);
        workload.calls = calls;
        let placement = Placement::even(machines, servers);
        let start = Instant::now();
        let lines = workload.generate(&placement);
        let made = start.elapsed();
        let config = Config {
            transport: Transport::Tcp(TcpConfig::artifact()),
            ..Config::artifact(shape, placement, scheme)
        };
        let start = Instant::now();
        let simulation = Simulation::new(&config, &lines).expect("a configuration that is right");
        let built = start.elapsed();
        println!(
            "{fabric}: {} calls made in {made:.2?}, built in {built:.2?}",
            lines.len()
        );
        Run {
            fabric: fabric.to_owned(),
            simulation,
            events: 0,
            spent: Duration::ZERO,
        }
    }

    /// Handles some events; `false` if none are left.
    fn take_turn(&mut self) -> bool {
        let start = processor_time();
        let mut events = 0;
        while events < TURN && self.simulation.step() {
            events += 1;
        }
        self.spent += processor_time() - start;
        self.events += events;
        events == TURN
    }

    fn hop_ns(&self) -> f64 {
        let hops = self.simulation.report().packet_hops;
        self.spent.as_nanos() as f64 / hops as f64
    }

    fn event_ns(&self) -> f64 {
        self.spent.as_nanos() as f64 / self.events as f64
    }

    fn print(&self) {
        let report = self.simulation.report();
        println!(
            "{}: {:.2} s of processor time, {:.2} M hops a second, {:.1} ns a hop, {:.1} ns an \
             event: hit rate {:.4}, FCT {:.2} µs, {:.3} hops, {} packets, {} finished, {} drops",
            self.fabric,
            self.spent.as_secs_f64(),
            1e3 / self.hop_ns(),
            self.hop_ns(),
            self.event_ns(),
            report.hit_rate,
            report.mean_fct_us,
            report.stretch,
            report.packets_sent,
            report.connections_finished,
            report.drops.total(),
        );
    }
}

/// The processor time used by this thread.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
