//! Captures that are read, as packets in the order of their times.

use std::fs::File;
use std::ops::RangeInclusive;
use std::path::Path;

use anyhow::Result;
use thalweg_io::CaptureReader;
use thalweg_packet::{Instant, Packet, PortId};

use crate::failure::bad_input;
use crate::number::{PORTS, number};

/// The captures that are read, merged by time.
pub(crate) struct Sources {
    readers: Vec<Source>,
    /// Bytes of all files, and those that were read.
    pub(crate) size_bytes: u64,
    pub(crate) read_bytes: u64,
    /// The time of the latest packet.
    pub(crate) now: Instant,
}

struct Source {
    port: PortId,
    reader: CaptureReader<File>,
    next: Option<Packet>,
}

impl Sources {
    /// Opens captures named as `FILE` or `PORT=FILE`; the port of those without one is `in_port`.
    ///
    /// # Errors
    /// If one cannot be read.
    pub(crate) fn open(pcap: &[String], in_port: u32) -> Result<Sources> {
        Sources::of_ports(pcap, in_port, PORTS)
    }

    /// The same, where ports have other numbers.
    ///
    /// # Errors
    /// If one cannot be read.
    pub(crate) fn of_ports(
        pcap: &[String],
        in_port: u32,
        ports: RangeInclusive<u64>,
    ) -> Result<Sources> {
        let mut sources = Sources {
            readers: Vec::new(),
            size_bytes: 0,
            read_bytes: 0,
            now: Instant::ZERO,
        };
        for argument in pcap {
            let (port, path) = port_and_path(argument, in_port, ports.clone())?;
            sources.size_bytes += std::fs::metadata(path).map_or(0, |data| data.len());
            let reader = CaptureReader::open(path).map_err(bad_input)?;
            let mut source = Source {
                port: PortId(port),
                reader,
                next: None,
            };
            source.advance()?;
            sources.readers.push(source);
        }
        Ok(sources)
    }

    /// The ports that packets come in by.
    pub(crate) fn ports(&self) -> Vec<PortId> {
        self.readers.iter().map(|source| source.port).collect()
    }

    /// When the first packet comes.
    pub(crate) fn start(&self) -> Instant {
        let waiting = self
            .readers
            .iter()
            .filter_map(|source| source.next.as_ref());
        waiting.map(Packet::received_at).min().unwrap_or(self.now)
    }

    /// The earliest packet of all captures; of two at one time, that of the first capture.
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
        // A record of a capture has 16 bytes in front.
        self.read_bytes += packet.len() as u64 + 16;
        // Clocks of captures step back now and then; the switch's does not.
        self.now = self.now.max(packet.received_at());
        packet.set_received(source.port, self.now);
        Ok(Some(packet))
    }
}

/// What stands before `=` is a port if it is a number; else it belongs to the path.
fn port_and_path(argument: &str, in_port: u32, ports: RangeInclusive<u64>) -> Result<(u32, &Path)> {
    let refused = |what: &str| Err(bad_input(format!("--pcap {argument}: {what}")));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (port, path) = match argument.split_once('=') {
        Some((before, path)) if digits(before) => match number(ports)(before) {
            Ok(port) => (port, path),
            Err(error) => return refused(&format!("{before} is no port; {error}")),
        },
        _ => (in_port, argument),
    };
    if path.is_empty() {
        return refused("no file is named; give FILE or PORT=FILE");
    }
    Ok((port, Path::new(path)))
}

impl Source {
    fn advance(&mut self) -> Result<()> {
        self.next = self.reader.next().transpose().map_err(bad_input)?;
        Ok(())
    }
}
