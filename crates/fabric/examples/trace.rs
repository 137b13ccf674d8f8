//! Runs a published SwitchV2P trace over FT8-10K with TCP; prints results and cost as a JSON
//! object.
//!
//! ```text
//! cargo run --release --example trace -- FOLDER hadoop.csv.gz nocache|direct|switchv2p|plain
//!     [PERCENT [BEFORE_US [SIZE_LIMIT]]]
//! ```
//!
//! `plain` is `direct` without virtual network headers; `bench/peers/ns3.py` compares with it.

use std::io::BufReader;
use std::path::PathBuf;
use std::time::Instant;

use flate2::read::GzDecoder;
use thalweg_fabric::*;
use thalweg_v2p::Profile;

const CACHES: u32 = 80;
/// The header length of PPP, as on ns-3's links.
const FRAMING_BYTES: u32 = 2;
const MACHINES: u32 = 10_240;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize| arguments.get(index).map(|text| text.parse::<u64>());
    let number = |index| number(index).transpose().expect("a number");
    let [folder, trace, scheme] = &arguments[..3] else {
        panic!("give a folder, a trace and a scheme");
    };
    let open = |name: &str| {
        let path = PathBuf::from(folder).join(name);
        let file = std::fs::File::open(&path).expect("a file that can be opened");
        BufReader::new(GzDecoder::new(file))
    };
    let is_plain = scheme == "plain";
    let percent = number(3).unwrap_or(50) as u32;
    let entries = MACHINES * percent / 100 / CACHES;
    let scheme = match scheme.as_str() {
        "nocache" => Scheme::NoCache,
        "direct" | "plain" => Scheme::Direct,
        "switchv2p" => Scheme::SwitchV2p(SwitchV2p::new(Profile::Artifact, entries)),
        other => panic!("no scheme {other}"),
    };
    let mut lines = read_trace(open(trace), trace).expect("a trace");
    if let Some(before) = number(4) {
        lines.retain(|line| line.start < Time::from_micros(before));
    }
    if let Some(limit) = number(5) {
        lines
            .iter_mut()
            .for_each(|line| line.bytes = line.bytes.min(limit));
    }
    let name = "placement_n128_v80.json.gz";
    let placement = Placement::read(open(name), name).expect("a placement");
    let mut config = Config {
        transport: Transport::Tcp(TcpConfig::artifact()),
        ..Config::artifact(FatTree::ft8_10k(10), placement, scheme)
    };
    if is_plain {
        config.outer_bytes = FRAMING_BYTES;
        config.ecmp = Ecmp::PerFlow { seed: 1 };
    }
    let start = Instant::now();
    let mut run = Simulation::new(&config, &lines).expect("a configuration that is right");
    let built = start.elapsed();
    run.run();
    let ran = start.elapsed() - built;
    let report = run.report();
    let result = serde_json::json!({
        "hit_rate": report.hit_rate,
        "mean_fct_us": report.mean_fct_us,
        "mean_first_packet_us": report.mean_first_packet_us,
        "stretch": report.stretch,
        "packets": report.packets_sent,
        "packet_hops": report.packet_hops,
        "gateway_packets": report.gateway_packets,
        "reordered": report.reordered,
        "retransmitted": report.retransmitted,
        "timeouts": report.timeouts,
        "flows": report.connections_finished,
        "drops": report.drops.total(),
        "build_seconds": built.as_secs_f64(),
        "wall_seconds": ran.as_secs_f64(),
    });
    println!("{result}");
}
