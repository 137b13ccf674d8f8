//! `thalweg bench conntrack`: measures the cost of tracking connections.
//!
//! Two subjects get the same frames: a switch, whose rules are `ct(table=1)`, then `ct(commit)`
//! for new connections, then an output; and its tracker alone, which is asked the same. The
//! switch is also measured with the same rules without `ct`, so that the rest is what tracking
//! costs: the tracker, and the second lookup that follows it.
//!
//! - *A packet of an established connection.* Both peers of each connection have sent, and now
//!   send in turn, connections in an order at random. What matters most is how many there are:
//!   a million do not fit into the processor's caches.
//! - *A connection's life.* Handshake, both ends, and expiry, by the thousand: each peer's
//!   segment is sent for all connections before the next.
//! - *Memory.* The growth of the process for each connection. It is measured first, so that
//!   free memory of earlier work does not hide it.
//! - *Expiry.* All connections are over at once, the worst case. A switch ends them by
//!   `EXPIRED_AT_ONCE` steps; the longest such call is how long its owner is kept from other
//!   work. Workers wait for less: the lock of one part of the table, for 256 steps.
//!
//! Times are the thread's processor time. Every packet must leave the switch, and the tracker
//! must have as many connections as there are, or the command fails.

mod life;
mod peer;
mod subject;
mod traffic;

use std::path::PathBuf;

use anyhow::Result;
use clap::ValueEnum;
use indicatif::ProgressBar;
use serde::{Deserialize, Serialize};
use thalweg_command::console::Console;
use thalweg_command::number::number;
use thalweg_command::report::{Table, format_count};
use thalweg_command::workload::DEFAULT_SEED;

use self::life::Effort;
use self::subject::{Alone, Caches, Subject};
use self::traffic::Protocol;
use super::spread::Spread;

/// The command's arguments.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Connections, rows for each number
    #[arg(
        long, value_name = "N,...", value_delimiter = ',', default_values_t = [1_000, 1_000_000],
        value_parser = number::<u32>(1..=3_000_000)
    )]
    connections: Vec<u32>,
    /// Protocols of the connections
    #[arg(
        long, value_name = "NAME,...", value_delimiter = ',', value_enum,
        default_values_t = [Protocol::Udp, Protocol::Tcp]
    )]
    protocol: Vec<Protocol>,
    /// Packets in each sample
    #[arg(
        long, value_name = "N", default_value_t = 2_000_000,
        value_parser = number::<u64>(10..=10_000_000_000)
    )]
    packets: u64,
    /// Samples for each row
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = number::<usize>(1..=1_000))]
    samples: usize,
    /// Seed of the order in which connections send
    #[arg(long, value_name = "N", default_value_t = DEFAULT_SEED, value_parser = number::<u64>(..))]
    seed: u64,
    /// Rows of a peer: {"peer": NAME, "rows": [...]} with the keys of ours
    #[arg(long, value_name = "FILE")]
    peer: Option<PathBuf>,
}

/// The tracked connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Tracking {
    /// Nothing: the baseline.
    None,
    /// Connections.
    Plain,
    /// Connections whose clients are translated.
    Nat,
}

/// The part that tracks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Switch,
    Tracker,
}

/// One figure.
#[derive(Serialize, Deserialize, Debug)]
struct Row {
    /// The measured quantity.
    what: String,
    /// `switch`, `tracker`, or the peer.
    place: String,
    /// The protocol of the connections.
    protocol: String,
    connections: u32,
    /// `none`, `ct`, or `ct with NAT`.
    tracking: String,
    unit: String,
    value: Spread,
}

/// The command's output with `--json`.
#[derive(Serialize, Debug)]
struct Report {
    command: &'static str,
    seed: u64,
    samples: usize,
    rows: Vec<Row>,
}

/// A measured quantity, and its unit.
type About = (&'static str, &'static str);

const PACKET: About = ("packet of an established connection", "ns");
const LIVES: About = ("connections set up and torn down", "1/s");
const MEMORY: About = ("memory of a connection", "bytes");
const PAUSE: About = ("longest call that expires connections", "µs");
const EXPIRY: About = ("expiry of a connection", "ns");

impl Tracking {
    const ALL: [Tracking; 3] = [Tracking::None, Tracking::Plain, Tracking::Nat];

    fn name(self) -> &'static str {
        match self {
            Tracking::None => "none",
            Tracking::Plain => "ct",
            Tracking::Nat => "ct with NAT",
        }
    }
}

impl Place {
    const ALL: [Place; 2] = [Place::Switch, Place::Tracker];

    fn name(self) -> &'static str {
        match self {
            Place::Switch => "switch",
            Place::Tracker => "tracker",
        }
    }

    /// The ways of tracking that it has.
    fn trackings(self) -> &'static [Tracking] {
        match self {
            Place::Switch => &Tracking::ALL,
            Place::Tracker => &Tracking::ALL[1..],
        }
    }

    /// A subject without connections.
    fn subject(self, tracking: Tracking, protocol: Protocol) -> Result<Box<dyn Subject>> {
        Ok(match self {
            Place::Switch => Box::new(Caches::new(tracking)?),
            Place::Tracker => Box::new(Alone::new(tracking, protocol)),
        })
    }
}

/// Measures and prints.
///
/// # Errors
/// If the peer's file cannot be read, a packet does not leave the switch, or the result cannot
/// be printed.
pub(crate) fn execute(arguments: &Arguments, console: &Console) -> Result<()> {
    // Mistakes are reported before minutes of measuring.
    let peer = arguments.peer.as_deref().map(peer::read);
    let peer = peer.transpose()?.unwrap_or_default();
    let mut bench = Bench {
        arguments,
        progress: console.progress(arguments.steps()),
        rows: Vec::new(),
    };
    bench.measure()?;
    bench.progress.finish_and_clear();
    let mut rows = bench.rows;
    rows.extend(peer);
    console.headline("Cost of tracking connections, 64-byte packets, processor time")?;
    console.print(&table(&rows).to_text())?;
    console.print_json(&Report {
        command: "bench conntrack",
        seed: arguments.seed,
        samples: arguments.samples,
        rows,
    })
}

impl Arguments {
    /// The numbers of connections, the smallest first.
    fn counts(&self) -> Vec<u32> {
        let mut counts = self.connections.clone();
        counts.sort_unstable();
        counts.dedup();
        counts
    }

    fn protocols(&self) -> Vec<Protocol> {
        let wanted = Protocol::value_variants().iter().copied();
        wanted
            .filter(|protocol| self.protocol.contains(protocol))
            .collect()
    }

    fn effort(&self) -> Effort {
        Effort {
            packets: self.packets,
            samples: self.samples,
            seed: self.seed,
        }
    }

    /// Steps of the progress bar.
    fn steps(&self) -> u64 {
        let ways: usize = Place::ALL.iter().map(|place| place.trackings().len()).sum();
        let established = self.protocols().len() * self.counts().len() * ways;
        (2 + established + ways) as u64
    }
}

/// The measurement under way.
struct Bench<'a> {
    arguments: &'a Arguments,
    progress: ProgressBar,
    rows: Vec<Row>,
}

impl Bench<'_> {
    fn measure(&mut self) -> Result<()> {
        let effort = self.arguments.effort();
        let counts = self.arguments.counts();
        let most = counts.last().copied().unwrap_or_default();
        let (place, udp) = (Place::Tracker, Protocol::Udp);
        let of_most = (place, udp, most, Tracking::Plain);
        if let Some(bytes) = life::memory_bytes(most)? {
            self.push(MEMORY, of_most, &[bytes]);
        }
        self.progress.inc(1);
        let expiry = life::expiry(most, &effort)?;
        self.push(PAUSE, of_most, &expiry.longest_us);
        self.push(EXPIRY, of_most, &expiry.connection_ns);
        self.progress.inc(1);
        for place in Place::ALL {
            for protocol in self.arguments.protocols() {
                for count in &counts {
                    for tracking in place.trackings() {
                        let mut subject = place.subject(*tracking, protocol)?;
                        let of = (place, protocol, *count, *tracking);
                        let samples = life::established(subject.as_mut(), of, &effort)?;
                        self.push(PACKET, of, &samples);
                        self.progress.inc(1);
                    }
                }
            }
            for tracking in place.trackings() {
                let protocol = Protocol::Tcp;
                let mut subject = place.subject(*tracking, protocol)?;
                let count = effort.lives_at_once();
                let samples = life::lives(subject.as_mut(), *tracking, &effort)?;
                self.push(LIVES, (place, protocol, count, *tracking), &samples);
                self.progress.inc(1);
            }
        }
        Ok(())
    }

    fn push(&mut self, about: About, of: (Place, Protocol, u32, Tracking), values: &[f64]) {
        let (place, protocol, connections, tracking) = of;
        let protocol = match protocol {
            Protocol::Udp => "udp",
            Protocol::Tcp => "tcp",
        };
        self.rows.push(Row {
            what: about.0.to_owned(),
            place: place.name().to_owned(),
            protocol: protocol.to_owned(),
            connections,
            tracking: tracking.name().to_owned(),
            unit: about.1.to_owned(),
            value: Spread::of(values),
        });
    }
}

/// The rows as a table.
fn table(rows: &[Row]) -> Table {
    let caption = "Median, least and most of the samples; \"none\" is the same rules without ct.";
    let words = ["what", "where", "protocol", "tracking", "unit"];
    let table = words
        .into_iter()
        .fold(Table::new(caption), Table::with_words);
    let numbers = ["connections", "median", "least", "most"];
    let table = numbers.into_iter().fold(table, Table::with_numbers);
    rows.iter().fold(table, |mut table, row| {
        let digits = |value: f64| match value {
            1_000.0.. => format_count(value.round() as u64),
            value => format!("{value:.1}"),
        };
        let words = [
            &row.what,
            &row.place,
            &row.protocol,
            &row.tracking,
            &row.unit,
        ];
        let mut cells: Vec<String> = words.into_iter().cloned().collect();
        cells.push(format_count(row.connections.into()));
        let Spread { median, min, max } = row.value;
        cells.extend([median, min, max].map(digits));
        table.push(cells);
        table
    })
}
