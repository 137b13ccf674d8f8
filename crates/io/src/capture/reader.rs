//! Reads captures of either format from any stream.
//!
//! ```text
//!   loop: parse a record from the front of the buffer
//!         whole record       -> a packet, or go on behind it
//!         too few bytes      -> read more; at the end of the stream: the end, or a cut
//!         makes no sense     -> an error with packet number and byte, and the end
//! ```
//!
//! The parsers work on slices, so the position of each record is known exactly. The buffer
//! grows to the longest record, at most [`RECORD_LIMIT_BYTES`]. A greater length counts as
//! damage; otherwise four bad bytes could ask for 4 GiB.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

use pcap_file::DataLink;
use pcap_file::pcap::{PcapParseError, PcapParser};
use pcap_file::pcap::{PcapTsResolution, RawPcapPacket};
use pcap_file::pcapng::blocks::{ENHANCED_PACKET_BLOCK, PACKET_BLOCK, SIMPLE_PACKET_BLOCK};
use pcap_file::pcapng::{Block, PcapNgParseError, PcapNgParser};
use thalweg_packet::{Instant, Packet, PortId};

use crate::Error;

/// The longest record that is accepted.
///
/// Packets stay under 256 KiB (the limit of `tcpdump`); pcapng blocks with secrets or names
/// may be longer.
const RECORD_LIMIT_BYTES: usize = 16 << 20;

/// The initial buffer size; the buffer grows for a longer record.
const BUFFER_BYTES: usize = 256 << 10;

/// The first block type of every pcapng file: a palindrome, so the byte order does not matter.
const PCAPNG_MAGIC: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

/// Reads the packets of a pcap or pcapng capture, in order.
///
/// The iterator yields new packets; [`CaptureReader::read_into`] reuses one. An error is the
/// last item.
///
/// ```
/// use thalweg_io::{CaptureReader, CaptureWriter};
/// use thalweg_packet::{Instant, Packet};
///
/// let mut writer = CaptureWriter::new(Vec::new()).expect("memory takes everything");
/// writer.write(&[7; 60], Instant::from_nanos(1_000_000_007)).expect("the same");
/// let bytes = writer.into_inner().expect("the same");
///
/// let packets: Result<Vec<Packet>, _> = CaptureReader::new(&bytes[..]).expect("a capture").collect();
/// let packets = packets.expect("whole packets");
/// assert_eq!(packets[0].bytes(), [7; 60]);
/// assert_eq!(packets[0].received_at().as_nanos(), 1_000_000_007);
/// ```
#[derive(Debug)]
pub struct CaptureReader<R> {
    name: String,
    input: Input<R>,
    format: Format,
    packets: u64,
    shortened: u64,
    is_over: bool,
}

impl CaptureReader<File> {
    /// Opens a capture file.
    ///
    /// # Errors
    /// If the file cannot be opened, or does not start like an Ethernet capture.
    pub fn open(path: &Path) -> Result<Self, Error> {
        // A folder can be opened but not read.
        let open = || match File::open(path)? {
            file if file.metadata()?.is_dir() => Err(ErrorKind::IsADirectory.into()),
            file => Ok(file),
        };
        let file = open().map_err(|source| Error::CaptureFile {
            action: "open",
            path: path.to_owned(),
            source,
        })?;
        CaptureReader::with_name(file, &path.display().to_string())
    }
}

impl<R: Read> CaptureReader<R> {
    /// Reads the header of a capture.
    ///
    /// # Errors
    /// If the stream does not start like an Ethernet capture, or cannot be read.
    pub fn new(reader: R) -> Result<Self, Error> {
        CaptureReader::with_name(reader, "the capture")
    }

    /// As [`CaptureReader::new`], with the name that error messages use.
    ///
    /// # Errors
    /// As [`CaptureReader::new`].
    pub fn with_name(reader: R, name: &str) -> Result<Self, Error> {
        let mut input = Input::new(reader);
        let format = loop {
            match Format::parse(input.bytes()) {
                Ok((format, consumed)) => {
                    input.consume(consumed);
                    break format;
                }
                Err(Stop::TooFewBytes) if input.fill().map_err(|e| input.error(name, e))? => {}
                Err(stop) => {
                    return Err(Error::NotACapture {
                        capture: name.to_owned(),
                        what: stop.explain("it ends within its first header"),
                    });
                }
            }
        };
        if let Format::Pcap { parser } = &format {
            require_ethernet(parser.header().datalink, name)?;
        }
        Ok(CaptureReader {
            name: name.to_owned(),
            input,
            format,
            packets: 0,
            shortened: 0,
            is_over: false,
        })
    }

    /// Reads the next packet into `packet`, reusing its allocation; returns false at the end.
    ///
    /// The packet's time is that of the capture, its port is [`PortId`] 0.
    /// [`Packet::cut_bytes`] is the number of its bytes that the capture lacks.
    ///
    /// # Errors
    /// If the capture is truncated, damaged or unreadable here, or the packet is not Ethernet.
    /// After an error the reader is at its end.
    pub fn read_into(&mut self, packet: &mut Packet) -> Result<bool, Error> {
        while !self.is_over {
            match self.format.next(self.input.bytes(), packet) {
                Ok(Record::Packet { end }) => {
                    self.input.consume(end);
                    self.packets += 1;
                    self.shortened += u64::from(packet.cut_bytes() > 0);
                    return Ok(true);
                }
                Ok(Record::Other { end }) => self.input.consume(end),
                Err(stop) => self
                    .refill_after(stop)
                    .inspect_err(|_| self.is_over = true)?,
            }
        }
        Ok(false)
    }

    /// The number of packets read.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// The number of these that the capturing program had shortened (its snap length).
    pub fn shortened_packets(&self) -> u64 {
        self.shortened
    }

    /// Reads more bytes if the parser needs them; otherwise reports why it stopped.
    fn refill_after(&mut self, stop: Stop) -> Result<(), Error> {
        let (packet, offset) = (self.packets + 1, self.input.offset);
        let capture = self.name.clone();
        match stop {
            Stop::TooFewBytes if self.input.bytes().len() >= RECORD_LIMIT_BYTES => {
                let what = format!("its record is longer than {RECORD_LIMIT_BYTES} bytes");
                Err(damaged(capture, packet, offset, what))
            }
            Stop::TooFewBytes => match self.input.fill() {
                Ok(true) => Ok(()),
                Ok(false) if self.input.bytes().is_empty() => {
                    self.is_over = true;
                    Ok(())
                }
                Ok(false) => Err(Error::CaptureCut {
                    capture,
                    packet,
                    offset,
                }),
                Err(source) => Err(self.input.error(&capture, source)),
            },
            Stop::Damaged(what) => Err(damaged(capture, packet, offset, what)),
            Stop::LinkType(link) => require_ethernet(link, &capture),
        }
    }
}

impl<R: Read> Iterator for CaptureReader<R> {
    type Item = Result<Packet, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut packet = Packet::default();
        match self.read_into(&mut packet) {
            Ok(true) => Some(Ok(packet)),
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        }
    }
}

/// The stream, and its bytes that were read but not parsed.
#[derive(Debug)]
struct Input<R> {
    reader: R,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// The position of `start` in the stream.
    offset: u64,
}

impl<R: Read> Input<R> {
    fn new(reader: R) -> Self {
        Input {
            reader,
            buffer: vec![0; BUFFER_BYTES],
            start: 0,
            end: 0,
            offset: 0,
        }
    }

    fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    fn consume(&mut self, count: usize) {
        assert!(
            count <= self.end - self.start,
            "consumed more than there is"
        );
        self.start += count;
        self.offset += count as u64;
    }

    /// Reads more bytes behind the buffered ones; returns false at the end of the stream.
    fn fill(&mut self) -> std::io::Result<bool> {
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        if self.end == self.buffer.len() {
            self.buffer.resize(self.end * 2, 0);
        }
        loop {
            match self.reader.read(&mut self.buffer[self.end..]) {
                Ok(count) => {
                    self.end += count;
                    return Ok(count > 0);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn error(&self, name: &str, source: std::io::Error) -> Error {
        Error::CaptureRead {
            capture: name.to_owned(),
            offset: self.offset + (self.end - self.start) as u64,
            source,
        }
    }
}

/// One record of a capture; `end` is its length in bytes.
enum Record {
    Packet { end: usize },
    Other { end: usize },
}

/// The reason why there is no record.
enum Stop {
    TooFewBytes,
    Damaged(String),
    LinkType(DataLink),
}

impl Stop {
    fn explain(self, too_few: &str) -> String {
        match self {
            Stop::Damaged(what) => what,
            Stop::TooFewBytes | Stop::LinkType(_) => too_few.to_owned(),
        }
    }
}

impl From<PcapParseError> for Stop {
    fn from(error: PcapParseError) -> Stop {
        match error {
            PcapParseError::IncompleteBuffer(..) => Stop::TooFewBytes,
            PcapParseError::Validation(_) => Stop::Damaged(with_causes(&error)),
        }
    }
}

impl From<PcapNgParseError> for Stop {
    fn from(error: PcapNgParseError) -> Stop {
        match error {
            PcapNgParseError::IncompleteBuffer(..) => Stop::TooFewBytes,
            _ => Stop::Damaged(with_causes(&error)),
        }
    }
}

#[derive(Debug)]
enum Format {
    Pcap { parser: PcapParser },
    PcapNg { parser: Box<PcapNgParser> },
}

impl Format {
    /// Recognises the format and parses its header; also returns the header's length.
    fn parse(bytes: &[u8]) -> Result<(Format, usize), Stop> {
        if bytes.len() < PCAPNG_MAGIC.len() {
            return Err(Stop::TooFewBytes);
        }
        let (rest, format) = if bytes.starts_with(&PCAPNG_MAGIC) {
            if bytes.len() > RECORD_LIMIT_BYTES {
                return Err(Stop::Damaged("its first block is too long".into()));
            }
            let (rest, parser) = PcapNgParser::new(bytes)?;
            let parser = Box::new(parser);
            (rest, Format::PcapNg { parser })
        } else {
            let (rest, parser) = PcapParser::new(bytes)?;
            (rest, Format::Pcap { parser })
        };
        Ok((format, bytes.len() - rest.len()))
    }

    fn next(&mut self, bytes: &[u8], packet: &mut Packet) -> Result<Record, Stop> {
        match self {
            Format::Pcap { parser } => next_pcap(parser, bytes, packet),
            Format::PcapNg { parser } => next_pcapng(parser, bytes, packet),
        }
    }
}

fn next_pcap(parser: &PcapParser, bytes: &[u8], packet: &mut Packet) -> Result<Record, Stop> {
    // The raw form accepts lengths beyond the capture's own snap length, which are common and
    // harmless.
    let (rest, raw) = parser.next_raw_packet(bytes)?;
    let nanos = match parser.header().ts_resolution {
        PcapTsResolution::MicroSecond => u64::from(raw.ts_frac) * 1000,
        PcapTsResolution::NanoSecond => u64::from(raw.ts_frac),
    };
    let RawPcapPacket { data, orig_len, .. } = raw;
    let nanos = u64::from(raw.ts_sec) * 1_000_000_000 + nanos;
    fill(packet, &data, orig_len, nanos);
    Ok(Record::Packet {
        end: bytes.len() - rest.len(),
    })
}

fn next_pcapng(
    parser: &mut PcapNgParser,
    bytes: &[u8],
    packet: &mut Packet,
) -> Result<Record, Stop> {
    let (rest, raw) = parser.next_raw_block(bytes)?;
    let end = bytes.len() - rest.len();
    // Only blocks with packets are parsed: damage in a comment is no reason to stop.
    if ![ENHANCED_PACKET_BLOCK, SIMPLE_PACKET_BLOCK, PACKET_BLOCK].contains(&raw.type_) {
        return Ok(Record::Other { end });
    }
    let block = raw
        .try_into_block(parser.state())
        .map_err(|error| Stop::Damaged(with_causes(&error)))?;
    let (interface, time, data, length) = match block {
        Block::EnhancedPacket(b) => (b.interface_id, b.timestamp, b.data, b.original_len),
        Block::Packet(b) => (b.interface_id.into(), b.timestamp, b.data, b.original_len),
        // A simple packet block has no time and belongs to the first interface.
        Block::SimplePacket(b) => (0, std::time::Duration::ZERO, b.data, b.original_len),
        _ => return Ok(Record::Other { end }),
    };
    let Some(interface) = parser.interfaces().get(interface as usize) else {
        let what = format!("it belongs to interface {interface}, which is not described");
        return Err(Stop::Damaged(what));
    };
    if interface.linktype != DataLink::ETHERNET {
        return Err(Stop::LinkType(interface.linktype));
    }
    let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    fill(packet, &data, length, nanos);
    Ok(Record::Packet { end })
}

/// Fills `packet`; an original length below the captured length is a capturing program's
/// mistake.
fn fill(packet: &mut Packet, bytes: &[u8], original_len: u32, nanos: u64) {
    packet.fill(bytes);
    packet.set_cut_bytes((original_len as usize).saturating_sub(bytes.len()) as u32);
    packet.set_received(PortId::default(), Instant::from_nanos(nanos));
}

/// The upper bits of a pcap header's link type hold the length of the frame check sequence.
const LINK_TYPE_BITS: u32 = 0xffff;

fn require_ethernet(link: DataLink, name: &str) -> Result<(), Error> {
    let number = u32::from(link) & LINK_TYPE_BITS;
    if number == u32::from(DataLink::ETHERNET) {
        return Ok(());
    }
    Err(Error::LinkType {
        capture: name.to_owned(),
        number,
        name: format!("{:?}", DataLink::from(number)),
    })
}

fn damaged(capture: String, packet: u64, offset: u64, what: String) -> Error {
    Error::CaptureDamaged {
        capture,
        packet,
        offset,
        what,
    }
}

fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
