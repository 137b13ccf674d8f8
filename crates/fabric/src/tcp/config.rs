//! The settings of the two ends of a connection: a plain value.
//!
//! [`TcpConfig::artifact`] is the published code of SwitchV2P: the TCP of ns-3 3.36.1 with
//! some attributes set. [`TcpConfig::modern`] follows today's standards: CUBIC with real
//! arithmetic, losses detected by time, a fine clock.

use thiserror::Error;

use crate::Time;

/// The algorithm that sets a sender's window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Algorithm {
    /// RFC 5681 and RFC 6582: one more segment each round trip, half after a loss.
    NewReno,
    /// RFC 9438: a cubic function of the time since the last loss.
    Cubic,
    /// CUBIC as in ns-3 3.36: in whole segments, with HyStart, without the Reno-friendly
    /// region.
    CubicNs3,
    /// RFC 8257: shrinks by the share of bytes that met a long queue.
    Dctcp,
}

/// How a sender detects a lost segment before the timer does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LossDetection {
    /// This many later segments have arrived (RFC 6675).
    Duplicates(u32),
    /// A segment sent sufficiently later has arrived, or a probe shows the loss (RFC 8985).
    RackTlp,
}

/// The settings of a connection, the same at both ends.
///
/// ```
/// use thalweg_fabric::{Algorithm, TcpConfig};
///
/// let config = TcpConfig { algorithm: Algorithm::NewReno, ..TcpConfig::artifact() };
/// assert_eq!(config.segment_bytes, 1024);
/// assert!(config.check().is_ok());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TcpConfig {
    /// The algorithm for the window.
    pub algorithm: Algorithm,
    /// The method of loss detection.
    pub loss_detection: LossDetection,
    /// Payload of a full segment.
    pub segment_bytes: u32,
    /// The initial window in segments.
    pub initial_window_segments: u32,
    /// The most bytes under way, and the most that a receiver holds back.
    pub buffer_bytes: u32,
    /// A receiver acknowledges once per this many segments.
    pub delayed_ack_segments: u32,
    /// A receiver acknowledges a single segment after this time.
    pub delayed_ack_timeout: Time,
    /// The time until a lost SYN is sent again; doubled each time.
    pub connection_timeout: Time,
    /// The shortest time until the timer sends a lost segment again.
    pub minimum_rto: Time,
    /// The assumed round-trip time before the first sample.
    pub initial_rtt: Time,
    /// The tick of the timestamps option; samples shorter than a tick count as
    /// [`TcpConfig::least_rtt`].
    pub timestamp_tick: Time,
    /// The smallest sample.
    pub least_rtt: Time,
    /// The time between the end of the handshake and the first data.
    pub start_delay: Time,
    /// A sender or receiver gives up after this many time-outs in a row.
    pub retries: u8,
}

impl TcpConfig {
    /// The settings of SwitchV2P's published code.
    pub const fn artifact() -> TcpConfig {
        TcpConfig {
            algorithm: Algorithm::CubicNs3,
            loss_detection: LossDetection::Duplicates(2048),
            segment_bytes: 1024,
            initial_window_segments: 10,
            buffer_bytes: 50 << 20,
            delayed_ack_segments: 2,
            delayed_ack_timeout: Time::from_micros(200_000),
            connection_timeout: Time::from_micros(1_000),
            minimum_rto: Time::from_micros(10_000),
            initial_rtt: Time::from_micros(106),
            timestamp_tick: Time::from_micros(1_000),
            least_rtt: Time::from_micros(1),
            start_delay: Time::from_nanos(1),
            retries: 6,
        }
    }

    /// CUBIC of RFC 9438 with RACK-TLP of RFC 8985 and timestamps in nanoseconds.
    pub const fn modern() -> TcpConfig {
        TcpConfig {
            algorithm: Algorithm::Cubic,
            loss_detection: LossDetection::RackTlp,
            timestamp_tick: Time::from_nanos(1),
            ..TcpConfig::artifact()
        }
    }

    /// Checks the ranges of the numbers.
    ///
    /// # Errors
    /// Names the first number out of range, and its range.
    pub fn check(&self) -> Result<(), TcpConfigError> {
        let numbers = [
            ("segment_bytes", self.segment_bytes, 1, 65_000),
            (
                "initial_window_segments",
                self.initial_window_segments,
                1,
                1 << 16,
            ),
            (
                "buffer_bytes",
                self.buffer_bytes,
                self.segment_bytes,
                1 << 30,
            ),
            (
                "delayed_ack_segments",
                self.delayed_ack_segments,
                1,
                1 << 16,
            ),
        ];
        for (what, number, least, most) in numbers {
            if !(least..=most).contains(&number) {
                let number = number.into();
                return Err(TcpConfigError {
                    what,
                    number,
                    least,
                    most,
                });
            }
        }
        if let LossDetection::Duplicates(0) = self.loss_detection {
            let what = "duplicates for a loss";
            let (least, most) = (1, u32::MAX);
            return Err(TcpConfigError {
                what,
                number: 0,
                least,
                most,
            });
        }
        let times = [
            ("connection_timeout (ps)", self.connection_timeout),
            ("minimum_rto (ps)", self.minimum_rto),
            ("timestamp_tick (ps)", self.timestamp_tick),
            ("least_rtt (ps)", self.least_rtt),
        ];
        match times.into_iter().find(|(_, time)| *time == Time::ZERO) {
            Some((what, _)) => {
                let (least, most) = (1, u32::MAX);
                Err(TcpConfigError {
                    what,
                    number: 0,
                    least,
                    most,
                })
            }
            None => Ok(()),
        }
    }
}

/// A setting out of range.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("TCP: {what} is {number}: give from {least} to {most}")]
pub struct TcpConfigError {
    /// The name of the setting.
    pub what: &'static str,
    /// The given value.
    pub number: u64,
    /// The least value allowed.
    pub least: u32,
    /// The greatest value allowed.
    pub most: u32,
}
