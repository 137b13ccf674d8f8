//! What the two ends of a connection are like: a plain value.
//!
//! [`TcpConfig::artifact`] is what the published code of SwitchV2P uses, which is the TCP of ns-3
//! 3.36.1 with some of its attributes set. [`TcpConfig::modern`] is what the standards say of a
//! sender today: CUBIC with real arithmetic, losses detected by time, a fine clock.

use thiserror::Error;

use crate::Time;

/// How a sender finds its window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Algorithm {
    /// RFC 5681 and RFC 6582: a segment more each round trip, half after a loss.
    NewReno,
    /// RFC 9438: a cubic function of the time since the last loss.
    Cubic,
    /// The same as ns-3 3.36 has it: in whole segments, with HyStart, never friendlier than cubic.
    CubicNs3,
    /// RFC 8257: less by the share of bytes that met a long queue.
    Dctcp,
}

/// How a sender finds that a segment was lost, before the timer says so.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LossDetection {
    /// So many segments behind it have arrived (RFC 6675).
    Duplicates(u32),
    /// A segment that was sent sufficiently later has arrived, or a probe says so (RFC 8985).
    RackTlp,
}

/// A connection's settings, the same at both ends.
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
    /// How the window is found.
    pub algorithm: Algorithm,
    /// How losses are found.
    pub loss_detection: LossDetection,
    /// Payload of a full segment.
    pub segment_bytes: u32,
    /// The window at the start, in segments.
    pub initial_window_segments: u32,
    /// What may be under way, and what a receiver holds back, at most.
    pub buffer_bytes: u32,
    /// A receiver acknowledges every so many segments.
    pub delayed_ack_segments: u32,
    /// It acknowledges a single one after so long.
    pub delayed_ack_timeout: Time,
    /// When a lost SYN is sent again for the first time; doubled each time.
    pub connection_timeout: Time,
    /// When a lost segment is sent again by the timer, at the soonest.
    pub minimum_rto: Time,
    /// The round-trip time that is supposed before there is a sample.
    pub initial_rtt: Time,
    /// What a tick of the timestamps option is; samples of less than a tick count as
    /// [`TcpConfig::least_rtt`].
    pub timestamp_tick: Time,
    /// The smallest sample.
    pub least_rtt: Time,
    /// How long after the connection stands data leaves.
    pub start_delay: Time,
    /// After so many time-outs in a row a sender or receiver gives up.
    pub retries: u8,
}

impl TcpConfig {
    /// As in the published code of SwitchV2P.
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

    /// CUBIC of RFC 9438 with RACK-TLP of RFC 8985 and a clock of nanoseconds.
    pub const fn modern() -> TcpConfig {
        TcpConfig {
            algorithm: Algorithm::Cubic,
            loss_detection: LossDetection::RackTlp,
            timestamp_tick: Time::from_nanos(1),
            ..TcpConfig::artifact()
        }
    }

    /// Whether the numbers make sense.
    ///
    /// # Errors
    /// Names the first that does not, and its range.
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
    /// Which.
    pub what: &'static str,
    /// What was given.
    pub number: u64,
    /// The least that can be.
    pub least: u32,
    /// The most that can be.
    pub most: u32,
}
