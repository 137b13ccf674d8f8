//! Writes captures: pcap with nanosecond time stamps, in this machine's byte order.
//! `append` writes microseconds, the only unit that Open vSwitch's tools read.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use pcap_file::pcap::{PcapHeader, PcapTsResolution, PcapWriteError, PcapWriter, RawPcapPacket};
use pcap_file::{DataLink, Endianness};
use thalweg_packet::{Instant, Packet};

use crate::Error;

/// The longest packet that a reader must expect, as `tcpdump` writes it.
const SNAP_LENGTH_BYTES: u32 = 262_144;

/// The length of a capture's header.
const HEADER_BYTES: usize = 24;

/// Writes packets to a capture.
///
/// [`CaptureReader`](crate::CaptureReader) has an example.
#[derive(Debug)]
pub struct CaptureWriter<W: Write> {
    name: String,
    writer: PcapWriter<W>,
    /// Nanoseconds of a unit of its time stamps.
    unit_ns: u64,
    packets: u64,
}

impl CaptureWriter<BufWriter<File>> {
    /// Creates a capture file; an existing file is replaced.
    ///
    /// # Errors
    /// If the file cannot be created or written.
    pub fn create(path: &Path) -> Result<Self, Error> {
        let file = File::create(path).map_err(|source| Error::CaptureFile {
            action: "create",
            path: path.to_owned(),
            source,
        })?;
        CaptureWriter::with_name(BufWriter::new(file), &path.display().to_string())
    }
}

/// A file that is appended to; the header of a capture is left out where one is there already.
#[derive(Debug)]
pub struct AppendedFile {
    file: File,
    /// Bytes of the header that are still to be left out.
    skip: usize,
}

impl Write for AppendedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let skipped = self.skip.min(bytes.len());
        self.skip -= skipped;
        if skipped == bytes.len() {
            return Ok(skipped);
        }
        Ok(skipped + self.file.write(&bytes[skipped..])?)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl CaptureWriter<BufWriter<AppendedFile>> {
    /// Opens a capture file to write behind what it has; a new one is created.
    ///
    /// Several writers may append to one file if each flushes after whole packets.
    ///
    /// # Errors
    /// If the file cannot be opened or written.
    pub fn append(path: &Path) -> Result<Self, Error> {
        let opened = OpenOptions::new().append(true).create(true).open(path);
        let sized = opened.and_then(|file| Ok((file.metadata()?.len(), file)));
        let (length, file) = sized.map_err(|source| Error::CaptureFile {
            action: "append to",
            path: path.to_owned(),
            source,
        })?;
        let skip = if length == 0 { 0 } else { HEADER_BYTES };
        let file = BufWriter::new(AppendedFile { file, skip });
        let name = path.display().to_string();
        let mut writer = CaptureWriter::begin(file, &name, PcapTsResolution::MicroSecond)?;
        writer.flush()?;
        Ok(writer)
    }
}

impl<W: Write> CaptureWriter<W> {
    /// Writes the header of a capture. Wrap files in a [`BufWriter`].
    ///
    /// # Errors
    /// If `writer` fails.
    pub fn new(writer: W) -> Result<Self, Error> {
        CaptureWriter::with_name(writer, "the capture")
    }

    /// As [`CaptureWriter::new`], with the name that error messages use.
    ///
    /// # Errors
    /// If `writer` fails.
    pub fn with_name(writer: W, name: &str) -> Result<Self, Error> {
        CaptureWriter::begin(writer, name, PcapTsResolution::NanoSecond)
    }

    fn begin(writer: W, name: &str, ts_resolution: PcapTsResolution) -> Result<Self, Error> {
        let header = PcapHeader {
            snaplen: SNAP_LENGTH_BYTES,
            datalink: DataLink::ETHERNET,
            ts_resolution,
            endianness: Endianness::native(),
            ..PcapHeader::default()
        };
        Ok(CaptureWriter {
            name: name.to_owned(),
            writer: PcapWriter::with_header(writer, header).map_err(|e| failed(name, e))?,
            unit_ns: match ts_resolution {
                PcapTsResolution::MicroSecond => 1_000,
                PcapTsResolution::NanoSecond => 1,
            },
            packets: 0,
        })
    }

    /// Appends a whole packet, `bytes`.
    ///
    /// The format ends in the year 2106; later times are written as its last second.
    ///
    /// # Errors
    /// If the underlying writer fails; the capture may then end in the middle of this packet.
    pub fn write(&mut self, bytes: &[u8], at: Instant) -> Result<(), Error> {
        self.write_front(bytes, bytes.len(), at)
    }

    /// Appends a packet that may be the front of a longer one ([`Packet::cut_bytes`]).
    ///
    /// # Errors
    /// As [`CaptureWriter::write`].
    pub fn write_packet(&mut self, packet: &Packet, at: Instant) -> Result<(), Error> {
        self.write_front(packet.bytes(), packet.original_len(), at)
    }

    fn write_front(&mut self, bytes: &[u8], length: usize, at: Instant) -> Result<(), Error> {
        let (seconds, nanos) = (at.as_nanos() / 1_000_000_000, at.as_nanos() % 1_000_000_000);
        let data = &bytes[..bytes.len().min(SNAP_LENGTH_BYTES as usize)];
        let packet = RawPcapPacket {
            ts_sec: u32::try_from(seconds).unwrap_or(u32::MAX),
            ts_frac: (nanos / self.unit_ns) as u32,
            incl_len: data.len() as u32,
            orig_len: u32::try_from(length).unwrap_or(u32::MAX),
            data: data.into(),
        };
        let written = self.writer.write_raw_packet(&packet);
        written.map_err(|e| failed(&self.name, e))?;
        self.packets += 1;
        Ok(())
    }

    /// The number of packets written.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Flushes buffered bytes to the underlying writer.
    ///
    /// # Errors
    /// If the underlying writer fails.
    pub fn flush(&mut self) -> Result<(), Error> {
        self.writer.flush().map_err(|e| failed(&self.name, e))
    }

    /// Flushes, and returns the underlying writer.
    ///
    /// # Errors
    /// If the underlying writer fails.
    pub fn into_inner(mut self) -> Result<W, Error> {
        self.flush()?;
        Ok(self.writer.into_inner())
    }
}

fn failed(name: &str, error: PcapWriteError) -> Error {
    let source = match error {
        PcapWriteError::Io(source) | PcapWriteError::FieldWriteFailed(_, source) => source,
        other => std::io::Error::other(other.to_string()),
    };
    Error::CaptureWrite {
        capture: name.to_owned(),
        source,
    }
}
