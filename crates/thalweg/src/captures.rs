//! Reads captures as one stream of packets, ordered by time.
//!
//! A capture may lack bytes in two ways:
//!
//! - Its last record may be cut. The packets before it are read, with a warning.
//! - The capturing program may have kept only the front of each packet (its snap length). Such
//!   a packet keeps its length ([`Packet::cut_bytes`]) in counts and in output captures. If
//!   its IP header promises more bytes than were captured, the packet is malformed, as in Open
//!   vSwitch. Cut packets are counted, and filled with zeros on request ([`fill`]).

use std::fs::File;
use std::ops::RangeInclusive;
use std::path::Path;

use anyhow::Result;
use serde::Serialize;
use thalweg_io::{CaptureReader, Error};
use thalweg_packet::{Headers, Instant, Packet, PortId, standard::header as h};

use thalweg_command::console::warn;
use thalweg_command::failure::bad_input;
use thalweg_command::number::{counted, number};
use thalweg_command::ports::PortNames;

/// The input captures, merged by time.
pub(crate) struct Sources {
    readers: Vec<Source>,
    /// Size of all files, and the bytes read so far.
    pub(crate) size_bytes: u64,
    pub(crate) read_bytes: u64,
    /// The time of the latest packet.
    pub(crate) now: Instant,
    is_padded: bool,
    cuts: CutsReport,
}

/// What the captures lack, for a report.
#[derive(Clone, Default, Debug, Serialize)]
pub(crate) struct CutsReport {
    /// Packets of which only a part was captured.
    shortened_packets: u64,
    /// Packets filled with zeros.
    #[serde(skip_serializing_if = "Option::is_none")]
    padded_packets: Option<u64>,
    /// Captures that end in the middle of a record.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cut_captures: Vec<String>,
}

struct Source {
    port: PortId,
    reader: CaptureReader<File>,
    next: Option<Packet>,
    /// The error at the cut record, once it is reached.
    cut: Option<String>,
}

impl Sources {
    /// Opens captures named as `FILE` or `PORT=FILE`. The port is a number in `ports` or a
    /// name; captures without one use `in_port`.
    ///
    /// # Errors
    /// If one cannot be read.
    pub(crate) fn open(
        pcap: &[String],
        in_port: u32,
        (ports, names): (RangeInclusive<u64>, &PortNames),
        is_padded: bool,
    ) -> Result<Sources> {
        let mut sources = Sources {
            readers: Vec::new(),
            size_bytes: 0,
            read_bytes: 0,
            now: Instant::ZERO,
            is_padded,
            cuts: CutsReport {
                padded_packets: is_padded.then_some(0),
                ..CutsReport::default()
            },
        };
        for argument in pcap {
            let (port, path) = port_and_path(argument, in_port, ports.clone(), names)?;
            sources.size_bytes += std::fs::metadata(path).map_or(0, |data| data.len());
            let reader = CaptureReader::open(path).map_err(bad_input)?;
            let mut source = Source {
                port: PortId(port),
                reader,
                next: None,
                cut: None,
            };
            source.advance()?;
            sources.readers.push(source);
        }
        Ok(sources)
    }

    /// The ports where packets arrive.
    pub(crate) fn ports(&self) -> Vec<PortId> {
        self.readers.iter().map(|source| source.port).collect()
    }

    /// Time of the first packet.
    pub(crate) fn start(&self) -> Instant {
        let waiting = self
            .readers
            .iter()
            .filter_map(|source| source.next.as_ref());
        waiting.map(Packet::received_at).min().unwrap_or(self.now)
    }

    /// The earliest packet of all captures; at equal times, the first capture's.
    ///
    /// # Errors
    /// If a capture is broken.
    pub(crate) fn next(&mut self) -> Result<Option<Packet>> {
        let waiting = self
            .readers
            .iter_mut()
            .filter(|source| source.next.is_some());
        let earliest = waiting.min_by_key(|source| source.next.as_ref().map(Packet::received_at));
        let Some(source) = earliest else {
            return Ok(None);
        };
        let Some(mut packet) = source.next.take() else {
            return Ok(None);
        };
        source.advance()?;
        // A capture record has a header of 16 bytes.
        self.read_bytes += packet.len() as u64 + 16;
        // Clocks in captures sometimes step back; the switch's clock must not.
        self.now = self.now.max(packet.received_at());
        packet.set_received(source.port, self.now);
        self.cuts.shortened_packets += u64::from(packet.cut_bytes() > 0);
        if self.is_padded && fill(&mut packet) {
            self.cuts.padded_packets = self.cuts.padded_packets.map(|count| count + 1);
        }
        Ok(Some(packet))
    }

    /// What the captures have lacked so far.
    pub(crate) fn cuts(&self) -> CutsReport {
        let cut = self.readers.iter().filter_map(|source| source.cut.clone());
        CutsReport {
            cut_captures: cut.collect(),
            ..self.cuts.clone()
        }
    }

    /// Warns on standard error about cut captures and shortened packets.
    pub(crate) fn warn_of_cuts(&self) {
        for cut in self.cuts().cut_captures {
            warn(&format!("{cut}; it was read up to there"));
        }
        let packets = self.cuts.shortened_packets;
        if packets > 0 && !self.is_padded {
            let packets = counted(packets, "packet");
            warn(&format!(
                "{packets} of the captures had been cut to a snap length: IP packets among them \
                 are malformed, and have no addresses or ports to match; --padded fills them with \
                 zeros"
            ));
        }
    }
}

/// Fills a packet with zeros up to its original length, and returns whether it was shorter. If
/// its IP header promises more, it is filled up to there, but never beyond [`LONGEST_FRAME`].
fn fill(packet: &mut Packet) -> bool {
    let wanted = packet.original_len().max(length_by_headers(packet.bytes()));
    let missing = wanted.min(LONGEST_FRAME).saturating_sub(packet.len());
    if missing > 0 {
        packet.append(&vec![0; missing]);
        packet.set_cut_bytes(0);
    }
    missing > 0
}

/// The longest frame that the switch forwards; [`Headers::parse`] refuses longer ones.
const LONGEST_FRAME: usize = 65_534;

/// Frame length according to the IP header, or 0 if no header gives it.
fn length_by_headers(frame: &[u8]) -> usize {
    let headers = Headers::parse(frame).ok();
    let Some(ether_type) = headers.and_then(|headers| headers.offset(h::ETHER_TYPE)) else {
        return 0;
    };
    let ip = &frame[ether_type + 2..];
    let length_at = |at: usize| usize::from(u16::from_be_bytes([ip[at], ip[at + 1]]));
    let length = match frame[ether_type..ether_type + 2] {
        [0x08, 0x00] if ip.len() >= 4 => length_at(2),
        [0x86, 0xdd] if ip.len() >= 6 => 40 + length_at(4),
        _ => return 0,
    };
    ether_type + 2 + length
}

/// Splits `PORT=FILE`. The text before `=` is a port only if it is a number or a port's name;
/// otherwise it belongs to the path.
fn port_and_path<'a>(
    argument: &'a str,
    in_port: u32,
    ports: RangeInclusive<u64>,
    names: &PortNames,
) -> Result<(u32, &'a Path)> {
    let refused = |what: &str| Err(bad_input(format!("--pcap {argument}: {what}")));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (port, path) = match argument.split_once('=') {
        Some((before, path)) if digits(before) => match number(ports)(before) {
            Ok(port) => (port, path),
            Err(error) => return refused(&format!("{before} is no port; {error}")),
        },
        Some((before, path)) if let Some(port) = names.find(before) => (port.0, path),
        _ => (in_port, argument),
    };
    if path.is_empty() {
        return refused("no file is named; give FILE or PORT=FILE");
    }
    Ok((port, Path::new(path)))
}

impl Source {
    fn advance(&mut self) -> Result<()> {
        self.next = match self.reader.next().transpose() {
            Ok(next) => next,
            Err(cut @ Error::CaptureCut { .. }) => {
                self.cut = Some(cut.to_string());
                None
            }
            Err(error) => return Err(bad_input(error)),
        };
        Ok(())
    }
}
