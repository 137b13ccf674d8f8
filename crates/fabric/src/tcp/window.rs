//! The congestion window, and the acknowledgements that move it.

use super::config::TcpConfig;
use crate::Time;

/// The congestion window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Window {
    /// The most bytes that may be in flight.
    pub(crate) bytes: u32,
    /// The window is in slow start while below this.
    pub(crate) threshold: u32,
    pub(crate) segment_bytes: u32,
}

impl Window {
    pub(crate) fn new(config: &TcpConfig) -> Window {
        Window {
            bytes: config
                .initial_window_segments
                .saturating_mul(config.segment_bytes),
            threshold: u32::MAX,
            segment_bytes: config.segment_bytes,
        }
    }

    pub(crate) fn segments(&self) -> u32 {
        self.bytes / self.segment_bytes
    }

    pub(crate) fn is_in_slow_start(&self) -> bool {
        self.bytes < self.threshold
    }

    pub(crate) fn grow(&mut self, segments: u32) {
        let more = segments.saturating_mul(self.segment_bytes);
        self.bytes = self.bytes.saturating_add(more);
    }
}

/// An acknowledgement, as the algorithms need it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acked {
    pub(crate) now: Time,
    /// Newly acknowledged segments, counted in order.
    pub(crate) segments: u32,
    /// The first segment that is not yet acknowledged.
    pub(crate) up_to: u32,
    /// One more than the last segment sent.
    pub(crate) sent: u32,
    /// The smoothed round-trip time.
    pub(crate) rtt: Time,
    /// Whether the receiver reports that the segments met congestion.
    pub(crate) is_marked: bool,
}
