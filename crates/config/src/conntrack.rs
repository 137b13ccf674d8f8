//! The section `[conntrack]`: how connections are tracked.

use std::ops::RangeInclusive;

use serde::Deserialize;
use thalweg_conntrack::{MAX_FRAGMENTS_CEILING, MIN_SIZE_FLOOR_BYTES, Timeout};
use thalweg_switch::TrackingConfig;
use toml::Spanned;

use crate::value::Number;
use crate::{Result, Source};

/// Connections that a tracker can have.
pub(crate) const CONNECTIONS: RangeInclusive<u64> = 1..=1 << 28;

/// Connections of a zone; 0 for any number.
pub(crate) const ZONE_CONNECTIONS: RangeInclusive<u64> = 0..=1 << 28;

/// Fragments that can wait.
pub(crate) const FRAGMENTS: RangeInclusive<u64> = 1..=MAX_FRAGMENTS_CEILING as u64;

/// The least size of a fragment that is not the last: up to the longest IP packet.
pub(crate) const FRAGMENT_BYTES: RangeInclusive<u64> = MIN_SIZE_FLOOR_BYTES as u64..=0xffff;

/// Seconds of a time-out: up to a year.
pub(crate) const SECONDS: RangeInclusive<u64> = 1..=31_536_000;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ConntrackSection {
    max_connections: Option<Spanned<Number>>,
    zone_connections: Option<Spanned<Number>>,
    max_fragments: Option<Spanned<Number>>,
    min_fragment_bytes: Option<Spanned<Number>>,
    min_fragment6_bytes: Option<Spanned<Number>>,
    tcp_sequence_checks: Option<bool>,
    #[serde(default)]
    follow_rules: bool,
    #[serde(default)]
    timeouts: TimeoutsSection,
}

/// The keys are the states of [`Timeout`], each in seconds.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct TimeoutsSection {
    tcp_syn_sent_s: Option<Spanned<Number>>,
    tcp_syn_recv_s: Option<Spanned<Number>>,
    tcp_established_s: Option<Spanned<Number>>,
    tcp_fin_wait_s: Option<Spanned<Number>>,
    tcp_time_wait_s: Option<Spanned<Number>>,
    tcp_close_s: Option<Spanned<Number>>,
    udp_first_s: Option<Spanned<Number>>,
    udp_single_s: Option<Spanned<Number>>,
    udp_multiple_s: Option<Spanned<Number>>,
    icmp_first_s: Option<Spanned<Number>>,
    icmp_reply_s: Option<Spanned<Number>>,
}

/// The keys of `[conntrack.timeouts]`, in the order of [`Timeout::ALL`].
pub(crate) const TIMEOUT_KEYS: [&str; Timeout::ALL.len()] = [
    "tcp_syn_sent_s",
    "tcp_syn_recv_s",
    "tcp_established_s",
    "tcp_fin_wait_s",
    "tcp_time_wait_s",
    "tcp_close_s",
    "udp_first_s",
    "udp_single_s",
    "udp_multiple_s",
    "icmp_first_s",
    "icmp_reply_s",
];

impl TimeoutsSection {
    /// The setting of each state, in the order of [`Timeout::ALL`].
    fn said(&self) -> [&Option<Spanned<Number>>; Timeout::ALL.len()] {
        [
            &self.tcp_syn_sent_s,
            &self.tcp_syn_recv_s,
            &self.tcp_established_s,
            &self.tcp_fin_wait_s,
            &self.tcp_time_wait_s,
            &self.tcp_close_s,
            &self.udp_first_s,
            &self.udp_single_s,
            &self.udp_multiple_s,
            &self.icmp_first_s,
            &self.icmp_reply_s,
        ]
    }
}

impl Source<'_> {
    /// How a switch tracks connections.
    pub(crate) fn conntrack(&self, section: &ConntrackSection) -> Result<TrackingConfig> {
        let mut config = TrackingConfig::default();
        let (tracker, fragments) = (&mut config.tracker, &mut config.fragments);
        let numbers = [
            (
                &mut tracker.max_connections,
                ("max_connections", &section.max_connections, CONNECTIONS),
            ),
            (
                &mut tracker.zone_connections,
                (
                    "zone_connections",
                    &section.zone_connections,
                    ZONE_CONNECTIONS,
                ),
            ),
            (
                &mut fragments.max_fragments,
                ("max_fragments", &section.max_fragments, FRAGMENTS),
            ),
            (
                &mut fragments.min_ipv4_bytes,
                (
                    "min_fragment_bytes",
                    &section.min_fragment_bytes,
                    FRAGMENT_BYTES,
                ),
            ),
            (
                &mut fragments.min_ipv6_bytes,
                (
                    "min_fragment6_bytes",
                    &section.min_fragment6_bytes,
                    FRAGMENT_BYTES,
                ),
            ),
        ];
        for (place, (key, said, range)) in numbers {
            if let Some(said) = said {
                *place = self.number(key, said, range)? as u32;
            }
        }
        if let Some(checks) = section.tcp_sequence_checks {
            tracker.tcp_sequence_checks = checks;
        }
        let said = section.timeouts.said();
        for ((timeout, key), said) in Timeout::ALL.into_iter().zip(TIMEOUT_KEYS).zip(said) {
            if let Some(said) = said {
                let seconds = self.number(key, said, SECONDS)? as u32;
                tracker.timeouts = tracker.timeouts.with(timeout, seconds);
            }
        }
        config.follows_rules = section.follow_rules;
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_the_states_in_their_order() {
        for (timeout, key) in Timeout::ALL.into_iter().zip(TIMEOUT_KEYS) {
            assert_eq!(key, format!("{}_s", timeout.name()));
        }
    }
}
