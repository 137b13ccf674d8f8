//! A port wrapper that writes passing packets to captures.
//!
//! 1. The same packets pass with and without the trace.
//! 2. A writer's first error ends its trace and is kept; the port goes on.

use std::io::Write;
use std::os::fd::BorrowedFd;

use thalweg_packet::{Instant, Packet, PacketPool};

use crate::{CaptureWriter, Error, Port, PortCounters, PortStatus};

/// A port wrapper that writes received and sent packets to captures.
///
/// Received packets are written with their own time. Sent packets get the time of the last
/// `receive`, the only time that the port knows.
///
/// ```
/// use thalweg_io::{CaptureWriter, MemoryPort, Port, TracePort};
/// use thalweg_packet::{Instant, PacketPool, PortId};
///
/// let (inner, handle) = MemoryPort::new(PortId(1), 8);
/// let received = CaptureWriter::new(Vec::new()).expect("memory takes everything");
/// let mut port = TracePort::new(inner, Some(received), None);
/// handle.inject(&[0; 60]);
/// let (mut pool, mut burst) = (PacketPool::with_capacity(8, 64), Vec::new());
/// port.receive(&mut pool, &mut burst, Instant::ZERO);
/// let (received, _sent) = port.into_captures();
/// assert_eq!(received.expect("it was given").packets(), 1);
/// ```
#[derive(Debug)]
pub struct TracePort<P, W: Write> {
    inner: P,
    received: Option<CaptureWriter<W>>,
    sent: Option<CaptureWriter<W>>,
    now: Instant,
    error: Option<Error>,
}

impl<P: Port, W: Write + Send> TracePort<P, W> {
    /// Traces `inner`, each direction to its own capture, if there is one.
    pub fn new(
        inner: P,
        received: Option<CaptureWriter<W>>,
        sent: Option<CaptureWriter<W>>,
    ) -> Self {
        TracePort {
            inner,
            received,
            sent,
            now: Instant::ZERO,
            error: None,
        }
    }

    /// The error that ended a trace early, if any.
    pub fn error(&self) -> Option<&Error> {
        self.error.as_ref()
    }

    /// The captures of received and of sent packets, unless an error ended them.
    pub fn into_captures(self) -> (Option<CaptureWriter<W>>, Option<CaptureWriter<W>>) {
        (self.received, self.sent)
    }
}

impl<P: Port, W: Write + Send> Port for TracePort<P, W> {
    fn receive(&mut self, pool: &mut PacketPool, burst: &mut Vec<Packet>, now: Instant) {
        self.now = now;
        let first = burst.len();
        self.inner.receive(pool, burst, now);
        let times = burst[first..]
            .iter()
            .map(|packet| (packet, packet.received_at()));
        record(&mut self.received, times, &mut self.error);
    }

    fn send(&mut self, pool: &mut PacketPool, burst: &mut Vec<Packet>) {
        let times = burst.iter().map(|packet| (packet, self.now));
        record(&mut self.sent, times, &mut self.error);
        self.inner.send(pool, burst);
    }

    fn status(&mut self) -> PortStatus {
        self.inner.status()
    }

    fn counters(&self) -> PortCounters {
        self.inner.counters()
    }

    fn close(&mut self, pool: &mut PacketPool) {
        self.inner.close(pool);
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.inner.descriptor()
    }
}

fn record<'a, W: Write>(
    capture: &mut Option<CaptureWriter<W>>,
    packets: impl ExactSizeIterator<Item = (&'a Packet, Instant)>,
    error: &mut Option<Error>,
) {
    let Some(writer) = capture else {
        return;
    };
    if packets.len() == 0 {
        return;
    }
    let mut packets = packets;
    let written = packets.try_for_each(|(packet, at)| writer.write_packet(packet, at));
    if let Err(failure) = written.and_then(|()| writer.flush()) {
        *error = Some(failure);
        *capture = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CaptureReader, MemoryPort};
    use thalweg_packet::PortId;

    #[test]
    fn both_directions_are_written_as_they_passed() {
        let (inner, handle) = MemoryPort::new(PortId(1), 8);
        let capture = || Some(CaptureWriter::new(Vec::new()).unwrap());
        let mut port = TracePort::new(inner, capture(), capture());
        let (mut pool, mut burst) = (PacketPool::with_capacity(8, 64), Vec::new());
        handle.inject(b"first");
        handle.inject(b"second");
        port.receive(&mut pool, &mut burst, Instant::from_nanos(11));
        burst.remove(0);
        port.send(&mut pool, &mut burst);
        assert_eq!(handle.collect().len(), 1);
        let (received, sent) = port.into_captures();
        let read = |capture: Option<CaptureWriter<Vec<u8>>>| -> Vec<_> {
            let bytes = capture.unwrap().into_inner().unwrap();
            let packets: Result<Vec<_>, _> = CaptureReader::new(&bytes[..]).unwrap().collect();
            let of = |p: Packet| (p.bytes().to_vec(), p.received_at().as_nanos());
            packets.unwrap().into_iter().map(of).collect()
        };
        let (first, second) = ((b"first".to_vec(), 11), (b"second".to_vec(), 11));
        assert_eq!(read(received), [first, second.clone()]);
        assert_eq!(read(sent), [second]);
    }

    /// Accepts the capture's header and no more.
    struct Full(usize);

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 = self
                .0
                .checked_sub(bytes.len())
                .ok_or(std::io::ErrorKind::StorageFull)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_full_disk_ends_the_trace_and_not_the_port() {
        let (inner, handle) = MemoryPort::new(PortId(1), 8);
        let full = CaptureWriter::with_name(Full(30), "x.pcap").unwrap();
        let mut port = TracePort::new(inner, Some(full), None);
        let (mut pool, mut burst) = (PacketPool::with_capacity(8, 64), Vec::new());
        for _ in 0..2 {
            handle.inject(b"packet");
            port.receive(&mut pool, &mut burst, Instant::ZERO);
        }
        assert_eq!(burst.len(), 2);
        let text = port.error().expect("the disk is full").to_string();
        assert!(text.starts_with("cannot write x.pcap: "), "{text}");
        assert!(port.into_captures().0.is_none());
    }
}
