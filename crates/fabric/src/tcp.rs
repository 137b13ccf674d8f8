//! TCP, as two state machines without sockets or clocks.
//!
//! ```text
//!   Connection --.-- Sender ----> Segment --network--> Receiver
//!                |     ^                                   |
//!                '-----'------- Segment <--network---------'
//! ```
//!
//! A flow is one connection: it opens, sends a number of bytes one way, and closes. The caller
//! reports events with `handle_segment` and `handle_timer`, collects segments with
//! `poll_transmit`, and asks `deadline` when to handle the timer. Time is an argument; nothing
//! is random.
//!
//! | file | content |
//! | --- | --- |
//! | `config.rs` | the settings of both ends |
//! | `segment.rs` | segments |
//! | `sender.rs`, `receiver.rs` | the ends |
//! | `scoreboard.rs`, `ranges.rs` | the state of segments under way |
//! | `rack.rs` | losses by time (RFC 8985) |
//! | `prr.rs` | the window in recovery (RFC 6937) |
//! | `control.rs`, `cubic.rs`, `cubic_ns3.rs` | the window otherwise |
//! | `rtt.rs` | the round-trip time and the time-out (RFC 6298) |
//!
//! 1. The same calls give the same segments.
//! 2. When a connection ends, its memory is kept for the next one: a packet allocates nothing.
//! 3. A connection ends: every timer that repeats without an answer gives up after the
//!    configured number of times.

mod config;
mod control;
mod cubic;
mod cubic_ns3;
mod prr;
mod rack;
mod ranges;
mod receiver;
mod rtt;
mod scoreboard;
mod segment;
mod sender;
#[cfg(test)]
mod tests;
mod window;

pub use config::{Algorithm, LossDetection, TcpConfig, TcpConfigError};
pub(crate) use receiver::Receiver;
pub(crate) use segment::{Segment, Towards};
pub(crate) use sender::Sender;

use crate::Time;

/// The sequence and acknowledgment numbers of a segment; both start from 0.
pub(crate) fn numbers_of(sender: &Sender, segment: &Segment) -> (u32, u32) {
    match (segment.towards, segment.is_syn) {
        (Towards::Receiver, true) => (0, 0),
        (Towards::Sender, true) => (0, 1),
        // The one that acknowledges the FIN comes after the sender's own FIN.
        (Towards::Receiver, false) => {
            let own = segment.number + segment.acknowledged;
            (sender.sequence_of(own), 1 + segment.acknowledged)
        }
        (Towards::Sender, false) => (1, sender.sequence_of(segment.acknowledged)),
    }
}

/// The time in ticks of the timestamps option.
fn ticks(config: &TcpConfig, now: Time) -> u32 {
    (now.as_picos() / config.timestamp_tick.as_picos()) as u32
}

/// The time since a timestamp, at least [`TcpConfig::least_rtt`].
fn elapsed(config: &TcpConfig, now: Time, timestamp: u32) -> Time {
    let ticks = ticks(config, now).wrapping_sub(timestamp);
    let picos = u64::from(ticks).saturating_mul(config.timestamp_tick.as_picos());
    Time::from_picos(picos).max(config.least_rtt)
}
