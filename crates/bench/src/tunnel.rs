//! `thalweg bench tunnel`: measures what tunnels do to a packet in memory.
//!
//! - *Encapsulation.* The headers of a flow, whole frames from the outer Ethernet header on, are
//!   put in front of a packet. What differs between packets is computed: lengths, the header's
//!   checksum, the UDP source port from the inner packet's addresses and ports, whose headers are
//!   parsed for that. There is no UDP
//!   checksum, as tunnels have by default.
//! - *Decapsulation.* An outer frame is checked and read: its metadata, and where the inner packet
//!   is.
//! - *Copy.* The packet is copied into its buffer, which comes before each encapsulation: the
//!   baseline.
//!
//! Times are the thread's processor time, of [`PACKETS`] packets of different flows in turn.
//! Each packet must come out as it went in, or the command fails.

use std::hint::black_box;
use std::net::Ipv4Addr;

use anyhow::{Result, ensure};
use serde::Serialize;
use thalweg_command::console::Console;
use thalweg_command::number::number;
use thalweg_command::report::Table;
use thalweg_packet::wire::{MacAddress, PacketBuilder};
use thalweg_packet::{Headers, Packet};
use thalweg_tunnel::{
    Endpoints, HeaderSettings, InnerType, LinkAddresses, OuterHeader, PerPacket, SourcePorts,
    TunnelContent, TunnelFlags, TunnelKind, TunnelMetadata, VxlanFlavour, decapsulate_frame,
    five_tuple_hash,
};

use super::clock::processor_time_ns;
use super::spread::Spread;

/// Packets of different flows.
const PACKETS: usize = 1_024;

/// The command's arguments.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Lengths of the inner packets, in bytes
    #[arg(
        long, value_name = "N,...", value_delimiter = ',', default_values_t = [60, 1_450],
        value_parser = number::<usize>(60..=9_000)
    )]
    bytes: Vec<usize>,
    /// Packets in each sample
    #[arg(
        long, value_name = "N", default_value_t = 1_000_000,
        value_parser = number::<usize>(1_024..=1_000_000_000)
    )]
    packets: usize,
    /// Samples for each row
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = number::<usize>(1..=1_000))]
    samples: usize,
}

/// One figure.
#[derive(Serialize, Debug)]
struct Row {
    what: &'static str,
    tunnel: &'static str,
    /// Length of the inner packet.
    bytes: usize,
    ns_per_packet: Spread,
}

/// The command's output with `--json`.
#[derive(Serialize, Debug)]
struct Report {
    command: &'static str,
    samples: usize,
    rows: Vec<Row>,
}

/// The kinds that are measured, with their names.
const KINDS: [(&str, TunnelKind); 3] = [
    ("vxlan", TunnelKind::Vxlan(VxlanFlavour::Plain)),
    ("geneve", TunnelKind::Geneve),
    ("gre", TunnelKind::Gre),
];

/// The outer values.
fn metadata() -> TunnelMetadata {
    TunnelMetadata {
        id: 123,
        endpoints: Endpoints::V4 {
            source: Ipv4Addr::new(192, 0, 2, 1),
            destination: Ipv4Addr::new(192, 0, 2, 2),
        },
        flags: TunnelFlags::KEY,
        ..TunnelMetadata::default()
    }
}

/// Frames of TCP segments, each of a flow of its own.
fn frames(bytes: usize) -> Vec<Vec<u8>> {
    let frame = |flow: usize| {
        PacketBuilder::ethernet(MacAddress([2; 6]), MacAddress([4; 6]))
            .ipv4(Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2))
            .tcp(1_024 + flow as u16, 80)
            .payload(&vec![7; bytes - 54])
            .build()
    };
    (0..PACKETS).map(frame).collect()
}

/// The time of `count` packets, in nanoseconds for each; `work` gets the index of a frame and its
/// buffer.
fn time(count: usize, mut work: impl FnMut(usize, &mut Packet)) -> f64 {
    let mut packet = Packet::with_capacity(10_000);
    let start = processor_time_ns();
    for index in 0..count {
        work(index % PACKETS, &mut packet);
    }
    (processor_time_ns() - start) as f64 / count as f64
}

/// The headers of a flow.
fn outer(kind: TunnelKind) -> Result<OuterHeader> {
    let link = LinkAddresses {
        source: MacAddress([6; 6]),
        destination: MacAddress([8; 6]),
    };
    let settings = HeaderSettings::default();
    let inner = InnerType::Ethernet;
    Ok(OuterHeader::for_frame(
        kind,
        &metadata(),
        link,
        inner,
        settings,
    )?)
}

/// Puts the headers in front of a packet.
fn encapsulate(header: &OuterHeader, packet: &mut Packet) -> Result<()> {
    let headers = Headers::parse(packet.bytes())?;
    let hash = five_tuple_hash(packet.bytes(), &headers);
    let variable = PerPacket {
        source_port: SourcePorts::default().port(hash),
        ..PerPacket::default()
    };
    Ok(header.push(packet, variable)?)
}

/// Checks that packets come out as they went in; gives the outer frames.
fn round_trips(kind: TunnelKind, header: &OuterHeader, frames: &[Vec<u8>]) -> Result<Vec<Vec<u8>>> {
    let mut outer = Vec::with_capacity(frames.len());
    for frame in frames {
        let mut packet = Packet::from_bytes(frame);
        encapsulate(header, &mut packet)?;
        let out = decapsulate_frame(kind, packet.bytes())?;
        let TunnelContent::Packet { range, .. } = &out.content else {
            anyhow::bail!("a packet became a message: a fault of this program");
        };
        let is_same = packet.bytes().get(range.clone()) == Some(&frame[..]);
        ensure!(
            is_same && out.metadata.id == 123,
            "a packet of {kind:?} came out as another: a fault of this program"
        );
        outer.push(packet.bytes().to_vec());
    }
    Ok(outer)
}

/// Measures and prints.
///
/// # Errors
/// If a packet comes out as another, or the result cannot be printed.
pub(crate) fn execute(arguments: &Arguments, console: &Console) -> Result<()> {
    let progress = console.progress((arguments.bytes.len() * KINDS.len()) as u64);
    let mut rows = Vec::new();
    for &bytes in &arguments.bytes {
        let frames = frames(bytes);
        let mut push = |what, tunnel, mut sample: Box<dyn FnMut() -> Result<f64> + '_>| {
            let samples: Result<Vec<f64>> = (0..arguments.samples).map(|_| sample()).collect();
            samples.map(|samples| {
                rows.push(Row {
                    what,
                    tunnel,
                    bytes,
                    ns_per_packet: Spread::of(&samples),
                });
            })
        };
        let copy = || {
            time(arguments.packets, |index, packet| {
                packet.fill(&frames[index])
            })
        };
        push("copy into a buffer", "", Box::new(|| Ok(copy())))?;
        for (name, kind) in KINDS {
            let header = outer(kind)?;
            let wrapped = round_trips(kind, &header, &frames)?;
            let mut failed = Ok(());
            push(
                "copy and encapsulation",
                name,
                Box::new(|| {
                    let spent = time(arguments.packets, |index, packet| {
                        packet.fill(&frames[index]);
                        if let Err(error) = encapsulate(&header, packet) {
                            failed = Err(error);
                        }
                    });
                    std::mem::replace(&mut failed, Ok(())).map(|()| spent)
                }),
            )?;
            push(
                "decapsulation",
                name,
                Box::new(|| {
                    let mut good = 0;
                    let spent = time(arguments.packets, |index, _| {
                        let out = black_box(decapsulate_frame(kind, black_box(&wrapped[index])));
                        good += usize::from(out.is_ok());
                    });
                    ensure!(good == arguments.packets, "a packet does not come out");
                    Ok(spent)
                }),
            )?;
            progress.inc(1);
        }
    }
    progress.finish_and_clear();
    console.headline("Tunnels, processor time of a packet in memory")?;
    console.print(&table(&rows).to_text())?;
    console.print_json(&Report {
        command: "bench tunnel",
        samples: arguments.samples,
        rows,
    })
}

/// The rows as a table.
fn table(rows: &[Row]) -> Table {
    let caption = "Nanoseconds for a packet: median, least and most of the samples.";
    let table = ["what", "tunnel"]
        .into_iter()
        .fold(Table::new(caption), Table::with_words);
    let numbers = ["bytes", "median", "least", "most"];
    let mut table = numbers.into_iter().fold(table, Table::with_numbers);
    for row in rows {
        let mut cells = vec![
            row.what.to_owned(),
            row.tunnel.to_owned(),
            row.bytes.to_string(),
        ];
        let Spread { median, min, max } = row.ns_per_packet;
        cells.extend([median, min, max].map(|value| format!("{value:.1}")));
        table.push(cells);
    }
    table
}
