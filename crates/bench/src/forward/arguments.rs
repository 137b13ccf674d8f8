//! The arguments of `thalweg bench forward`, which all its kinds of rows read.

use std::path::PathBuf;

use thalweg_command::number::number;

use crate::classify::Order;

/// The command's arguments.
#[derive(clap::Args, Debug)]
#[command(group = clap::ArgGroup::new("drawn").args(["rules", "vector_filter"]).multiple(true))]
pub struct Arguments {
    /// Samples for each row
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = number::<usize>(1..))]
    pub(crate) samples: usize,
    /// Packets in each sample
    #[arg(long, value_name = "N", default_value_t = 2_000_000, value_parser = number::<u64>(10..))]
    pub(crate) packets: u64,
    /// Only cases whose name contains this: io, interpreter, microflow, megaflow, upcall
    #[arg(long, value_name = "PART")]
    pub(crate) case: Option<String>,
    /// Only cases with this many flows; with --rules, the number of flows to draw [default:
    /// 262144]
    #[arg(long, value_name = "N", value_parser = number::<usize>(..))]
    pub(crate) flows: Option<usize>,
    /// Instead of the cases: packets chosen to make others' packets costly; tse, tse6,
    /// collide, evict
    #[arg(
        long, value_name = "NAME,...", value_delimiter = ',', value_enum,
        conflicts_with_all = ["case", "flows", "peer", "rules"]
    )]
    pub(crate) attack: Vec<Attack>,
    /// Instead of the cases: the figure of the slides on the vector Bloom filter. Megaflows of 20
    /// masks, 100 to 10,000 of each, in sub-tables and behind the filter
    #[arg(long, conflicts_with_all = ["case", "flows", "peer", "rules", "attack"])]
    pub(crate) vector_filter: bool,
    /// Rows of a peer, as written by bench/peers/ovs_dpdk.py
    #[arg(long, value_name = "FILE")]
    pub(crate) peer: Option<PathBuf>,
    /// Seed of the traffic
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = number::<u64>(..))]
    pub(crate) seed: u64,
    /// Instead of the cases: many rules, from ClassBench files (.xz is unpacked) or generated
    /// sets such as acl1-10k, fw1-500k
    #[arg(
        long, value_name = "FILE|SET,...", value_delimiter = ',', conflicts_with_all = ["case", "peer", "attack", "vector_filter"]
    )]
    pub(crate) rules: Vec<String>,
    /// How packets are answered: megaflows, computational-flows [default: both]
    #[arg(
        long,
        value_name = "NAME,...",
        value_delimiter = ',',
        requires = "rules", conflicts_with_all = ["case", "peer", "attack", "vector_filter"]
    )]
    pub(crate) mode: Vec<String>,
    /// How tables search rules: auto, tuple-space, merged-tuples, bloom, learned [default:
    /// auto]
    #[arg(
        long,
        value_name = "NAME,...",
        value_delimiter = ',',
        requires = "rules", conflicts_with_all = ["case", "peer", "attack", "vector_filter"]
    )]
    pub(crate) classifier: Vec<String>,
    /// How the wildcard cache searches entries: auto, tuple-space, bloom, learned [default:
    /// auto]
    #[arg(
        long,
        value_name = "NAME,...",
        value_delimiter = ',',
        requires = "rules", conflicts_with_all = ["case", "peer", "attack", "vector_filter"]
    )]
    pub(crate) megaflow_classifier: Vec<String>,
    /// Order in which flows send
    #[arg(
        long, value_name = "ORDER,...", value_delimiter = ',', value_enum, requires = "rules", conflicts_with_all = ["case", "peer", "attack", "vector_filter"],
        default_values_t = [Order::Uniform]
    )]
    pub(crate) traffic: Vec<Order>,
    /// Capacity of the wildcard cache
    #[arg(
        long, value_name = "N", default_value_t = 200_000, requires = "rules", conflicts_with_all = ["case", "peer", "attack", "vector_filter"],
        value_parser = number::<usize>(1..=100_000_000)
    )]
    pub(crate) megaflows: usize,
    /// Rules removed or returned per second during the samples
    #[arg(
        long, value_name = "N", default_value_t = 0, requires = "rules", conflicts_with_all = ["case", "peer", "attack", "vector_filter"],
        value_parser = number::<u64>(..=10_000_000)
    )]
    pub(crate) update_rate: u64,
    /// Throughput of a running switch with N workers, at no more than 1 % loss, instead of the
    /// processor time of a packet
    #[arg(
        long, value_name = "N,...", value_delimiter = ',', requires = "rules", conflicts_with_all = ["case", "peer", "attack", "vector_filter"],
        value_parser = number::<usize>(1..=64)
    )]
    pub(crate) workers: Vec<usize>,
    /// Draw the rows: .svg for one picture, .html for all with the tables
    #[arg(long, value_name = "FILE", requires = "drawn", conflicts_with_all = ["case", "peer", "attack"])]
    pub(crate) plot: Option<PathBuf>,
}

/// The attacks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum Attack {
    /// Tuple space explosion: 8,192 masks (CVE-2019-25076)
    Tse,
    /// The same over IPv6
    Tse6,
    /// Keys that collide under the seed 0
    Collide,
    /// More entries than the cache has room for
    Evict,
}
