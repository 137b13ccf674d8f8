//! Forwards packets through the dummy datapath, with its caches and its own packet code.
//!
//! A packet is put into a port's receive queue; packets that leave by other ports appear at
//! the end of their captures. The daemon's main loop serves its datapath before it accepts
//! connections on its control socket. So an answer on a new connection means that the packet
//! has been forwarded.

use anyhow::{Context, ensure};

use super::DummySwitch;
use super::control::Control;

/// Bytes of the headers of a capture file and of a record (draft-ietf-opsawg-pcap, sections 4,
/// 5).
const FILE_HEADER_BYTES: usize = 24;
const RECORD_HEADER_BYTES: usize = 16;

impl DummySwitch {
    /// Returns the packets that leave, by port, when `packet` arrives at `in_port` with empty
    /// caches.
    ///
    /// Afterwards its cache entries, and the stations that `normal` learned, are removed.
    ///
    /// # Errors
    /// If the daemon rejects the packet as a frame, or a capture cannot be read.
    pub fn forward(&mut self, in_port: u16, packet: &[u8]) -> anyhow::Result<Vec<(u16, Vec<u8>)>> {
        let digits: String = packet.iter().map(|byte| format!("{byte:02x}")).collect();
        self.forward_described(in_port, &[&digits])
    }

    /// As [`DummySwitch::forward`], with the packets as `netdev-dummy/receive` takes them.
    ///
    /// # Errors
    /// If the daemon rejects a packet, or a capture cannot be read.
    pub fn forward_described(
        &mut self,
        in_port: u16,
        packets: &[&str],
    ) -> anyhow::Result<Vec<(u16, Vec<u8>)>> {
        self.arrive(in_port, packets)?;
        // Entries teach once more when they are purged, so purge before flushing stations.
        self.call("revalidator/purge", &[])?;
        self.call("fdb/flush", &["br0"])?;
        self.take_sent()
    }

    /// As [`DummySwitch::forward_described`], but cache entries and stations stay.
    ///
    /// # Errors
    /// If the daemon rejects a packet, or a capture cannot be read.
    pub fn receive(
        &mut self,
        in_port: u16,
        packets: &[&str],
    ) -> anyhow::Result<Vec<(u16, Vec<u8>)>> {
        self.arrive(in_port, packets)?;
        self.take_sent()
    }

    /// Puts packets into a port's receive queue, and waits until they are forwarded.
    fn arrive(&mut self, in_port: u16, packets: &[&str]) -> anyhow::Result<()> {
        let port = format!("p{in_port}");
        self.call("netdev-dummy/receive", &[&[&*port], packets].concat())?;
        // The daemon accepts a connection only after it has served the datapath.
        Control::connect(&self.daemons.path("vswitchd.ctl"))?.call("version", &[])?;
        Ok(())
    }

    /// The packets that have left since the last call, by port.
    fn take_sent(&mut self) -> anyhow::Result<Vec<(u16, Vec<u8>)>> {
        let mut sent = Vec::new();
        for index in 0..self.captured_bytes.len() {
            let port = index as u16 + 1;
            let path = self.daemons.capture(port);
            let capture = std::fs::read(&path)
                .with_context(|| format!("reading the capture {}", path.display()))?;
            let start = self.captured_bytes[index].max(FILE_HEADER_BYTES);
            let records = records(capture.get(start..).unwrap_or_default())?;
            sent.extend(records.into_iter().map(|bytes| (port, bytes)));
            self.captured_bytes[index] = capture.len();
        }
        Ok(sent)
    }
}

/// The packets of a capture's records, which are in this machine's byte order.
fn records(mut bytes: &[u8]) -> anyhow::Result<Vec<Vec<u8>>> {
    let mut packets = Vec::new();
    while let Some(length) = bytes.get(8..12) {
        let length = u32::from_ne_bytes(length.try_into()?) as usize;
        let end = RECORD_HEADER_BYTES + length;
        ensure!(bytes.len() >= end, "a record is cut short");
        packets.push(bytes[RECORD_HEADER_BYTES..end].to_vec());
        bytes = &bytes[end..];
    }
    Ok(packets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_follow_each_other() {
        let record = |payload: &[u8]| {
            let length = (payload.len() as u32).to_ne_bytes();
            [&[0; 8], &length[..], &length[..], payload].concat()
        };
        let bytes = [record(b"abc"), record(b""), record(b"de")].concat();
        assert_eq!(records(&bytes).unwrap(), [&b"abc"[..], b"", b"de"]);
        assert!(records(&bytes[..bytes.len() - 1]).is_err());
    }
}
