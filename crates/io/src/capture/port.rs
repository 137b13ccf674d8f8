//! A port that receives from one capture and sends to another.
//!
//! 1. A burst is flushed before `send` returns. So the file is whole between bursts, even if
//!    the process is killed there.
//! 2. The first error ends its direction for good: reading is finished, or everything sent is
//!    dropped. The error is kept for the owner.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use thalweg_packet::{Instant, Packet, PacketPool, PortId};

use super::{CaptureReader, CaptureWriter};
use crate::{BURST, DropReason, Error, Port, PortCounters, PortStatus};

/// A port made of capture files: one to receive from, one to send to, either optional.
///
/// Packets are received as fast as the caller asks, and keep the capture's time.
#[derive(Debug)]
pub struct CapturePort {
    number: PortId,
    reader: Option<CaptureReader<File>>,
    writer: Option<CaptureWriter<BufWriter<File>>>,
    error: Option<Error>,
    counters: PortCounters,
}

impl CapturePort {
    /// Opens the captures.
    ///
    /// Without `read` the port is finished from the start. Without `write` it drops what it is
    /// given to send.
    ///
    /// # Errors
    /// If `read` is not an Ethernet capture, or `write` cannot be created.
    pub fn open(number: PortId, read: Option<&Path>, write: Option<&Path>) -> Result<Self, Error> {
        Ok(CapturePort {
            number,
            reader: read.map(CaptureReader::open).transpose()?,
            writer: write.map(CaptureWriter::create).transpose()?,
            error: None,
            counters: PortCounters::default(),
        })
    }

    /// The error that ended reading or writing early, if any.
    pub fn error(&self) -> Option<&Error> {
        self.error.as_ref()
    }

    fn end_reading(&mut self, error: Error) {
        self.counters.add_drop(match error {
            Error::CaptureCut { .. } => DropReason::Truncated,
            _ => DropReason::ReceiveError,
        });
        self.reader = None;
        self.error = Some(error);
    }

    fn write_burst(&mut self, burst: &[Packet]) -> Result<(), Error> {
        let Some(writer) = &mut self.writer else {
            let dropped = burst.len() as u64;
            self.counters.drops.add(DropReason::NoOutput, dropped);
            return Ok(());
        };
        for packet in burst {
            writer.write_packet(packet, packet.received_at())?;
        }
        writer.flush()?;
        let lengths = burst.iter().map(Packet::original_len);
        lengths.for_each(|length| self.counters.add_sent(length));
        Ok(())
    }
}

impl Port for CapturePort {
    fn receive(&mut self, pool: &mut PacketPool, burst: &mut Vec<Packet>, _now: Instant) {
        for _ in 0..BURST {
            let Some(reader) = &mut self.reader else {
                return;
            };
            let Some(mut packet) = pool.take() else {
                self.counters.pool_refusals += 1;
                return;
            };
            match reader.read_into(&mut packet) {
                Ok(true) => {
                    packet.set_received(self.number, packet.received_at());
                    self.counters.add_received(packet.original_len());
                    burst.push(packet);
                    continue;
                }
                Ok(false) => self.reader = None,
                Err(error) => self.end_reading(error),
            }
            pool.put(packet);
        }
    }

    fn send(&mut self, pool: &mut PacketPool, burst: &mut Vec<Packet>) {
        if burst.is_empty() {
            return;
        }
        if let Err(error) = self.write_burst(burst) {
            let dropped = burst.len() as u64;
            self.counters.drops.add(DropReason::SendError, dropped);
            self.writer = None;
            self.error = Some(error);
        }
        pool.put_burst(burst);
    }

    fn status(&mut self) -> PortStatus {
        match self.reader {
            Some(_) => PortStatus::Up,
            None => PortStatus::Finished,
        }
    }

    fn counters(&self) -> PortCounters {
        self.counters
    }
}
