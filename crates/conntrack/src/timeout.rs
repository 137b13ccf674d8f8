//! How long a connection lives without packets, by the state of its protocol.
//!
//! A policy gives a time to each state. A request names a policy by its number; number 0 is
//! the policy of the zone, and without one the default, whose times are those of Open vSwitch
//! (`ct_dpif_netdev_tp_def` in `lib/conntrack-tp.c`).
//!
//! 1. A connection remembers its policy's number, not the times: a changed policy counts from
//!    the connection's next packet.

use std::collections::BTreeMap;
use std::time::Duration;

/// The states that have a time-out, in the order of `CT_DPIF_TP_ATTR_*`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Timeout {
    /// TCP, until the answer to the first segment.
    TcpSynSent,
    /// TCP, until both peers are established.
    TcpSynRecv,
    /// TCP, established.
    TcpEstablished,
    /// TCP, after one FIN.
    TcpFinWait,
    /// TCP, after two FINs.
    TcpTimeWait,
    /// TCP, after all was acknowledged, or a reset.
    TcpClose,
    /// UDP and others, after one packet.
    UdpFirst,
    /// UDP and others, after several packets of one direction.
    UdpSingle,
    /// UDP and others, after packets of both directions.
    UdpMultiple,
    /// ICMP, before a reply.
    IcmpFirst,
    /// ICMP, after a reply.
    IcmpReply,
}

impl Timeout {
    /// All states, in order.
    pub const ALL: [Timeout; 11] = [
        Timeout::TcpSynSent,
        Timeout::TcpSynRecv,
        Timeout::TcpEstablished,
        Timeout::TcpFinWait,
        Timeout::TcpTimeWait,
        Timeout::TcpClose,
        Timeout::UdpFirst,
        Timeout::UdpSingle,
        Timeout::UdpMultiple,
        Timeout::IcmpFirst,
        Timeout::IcmpReply,
    ];

    /// The name in a configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Timeout::TcpSynSent => "tcp_syn_sent",
            Timeout::TcpSynRecv => "tcp_syn_recv",
            Timeout::TcpEstablished => "tcp_established",
            Timeout::TcpFinWait => "tcp_fin_wait",
            Timeout::TcpTimeWait => "tcp_time_wait",
            Timeout::TcpClose => "tcp_close",
            Timeout::UdpFirst => "udp_first",
            Timeout::UdpSingle => "udp_single",
            Timeout::UdpMultiple => "udp_multiple",
            Timeout::IcmpFirst => "icmp_first",
            Timeout::IcmpReply => "icmp_reply",
        }
    }

    /// The state with this name.
    pub fn of_name(name: &str) -> Option<Timeout> {
        Timeout::ALL
            .into_iter()
            .find(|timeout| timeout.name() == name)
    }
}

/// The time-outs of one policy, in seconds.
///
/// ```
/// use thalweg_conntrack::{Timeout, TimeoutPolicy};
///
/// let policy = TimeoutPolicy::default().with(Timeout::UdpFirst, 5);
/// assert_eq!(policy.seconds(Timeout::UdpFirst), 5);
/// assert_eq!(policy.seconds(Timeout::TcpEstablished), 86_400);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimeoutPolicy {
    seconds: [u32; Timeout::ALL.len()],
}

impl Default for TimeoutPolicy {
    fn default() -> TimeoutPolicy {
        let seconds = [
            30,           // tcp_syn_sent
            30,           // tcp_syn_recv
            24 * 60 * 60, // tcp_established
            15 * 60,      // tcp_fin_wait
            45,           // tcp_time_wait
            30,           // tcp_close
            60,           // udp_first
            60,           // udp_single
            30,           // udp_multiple
            60,           // icmp_first
            30,           // icmp_reply
        ];
        TimeoutPolicy { seconds }
    }
}

impl TimeoutPolicy {
    /// The same policy with another time for one state.
    #[must_use]
    pub fn with(mut self, timeout: Timeout, seconds: u32) -> TimeoutPolicy {
        self.seconds[timeout as usize] = seconds;
        self
    }

    /// The time of a state.
    pub fn seconds(&self, timeout: Timeout) -> u32 {
        self.seconds[timeout as usize]
    }
}

/// All policies, and the zones that have one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Policies {
    default: TimeoutPolicy,
    by_id: BTreeMap<u32, TimeoutPolicy>,
    by_zone: BTreeMap<u16, u32>,
}

impl Policies {
    /// Sets or removes a policy; number 0 is the default, which is reset if removed.
    pub(crate) fn set(&mut self, id: u32, policy: Option<TimeoutPolicy>) {
        match (id, policy) {
            (0, policy) => self.default = policy.unwrap_or_default(),
            (_, Some(policy)) => {
                self.by_id.insert(id, policy);
            }
            (_, None) => {
                self.by_id.remove(&id);
            }
        }
    }

    pub(crate) fn get(&self, id: u32) -> Option<TimeoutPolicy> {
        match id {
            0 => Some(self.default),
            _ => self.by_id.get(&id).copied(),
        }
    }

    /// Sets or removes a zone's policy.
    pub(crate) fn set_zone(&mut self, zone: u16, id: Option<u32>) {
        match id {
            Some(id) => self.by_zone.insert(zone, id),
            None => self.by_zone.remove(&zone),
        };
    }

    /// The policy that a new connection remembers.
    pub(crate) fn choose(&self, requested: u32, zone: u16) -> u32 {
        match requested {
            0 => self.by_zone.get(&zone).copied().unwrap_or(0),
            _ => requested,
        }
    }

    /// How long a connection with a policy lives in a state.
    pub(crate) fn duration(&self, id: u32, timeout: Timeout) -> Duration {
        let policy = match id {
            0 => &self.default,
            _ => self.by_id.get(&id).unwrap_or(&self.default),
        };
        Duration::from_secs(u64::from(policy.seconds(timeout)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_both_ways() {
        for timeout in Timeout::ALL {
            assert_eq!(Timeout::of_name(timeout.name()), Some(timeout));
        }
        assert_eq!(Timeout::of_name("tcp_retransmit"), None);
    }

    #[test]
    fn a_request_comes_before_the_zone_and_the_zone_before_the_default() {
        let mut policies = Policies::default();
        policies.set(7, Some(TimeoutPolicy::default().with(Timeout::UdpFirst, 7)));
        policies.set_zone(3, Some(7));
        assert_eq!(policies.choose(0, 3), 7);
        assert_eq!(policies.choose(9, 3), 9);
        assert_eq!(policies.choose(0, 4), 0);
        let seconds = |policies: &Policies, id| policies.duration(id, Timeout::UdpFirst).as_secs();
        assert_eq!(seconds(&policies, 7), 7);
        assert_eq!(
            seconds(&policies, 9),
            60,
            "an unknown policy is the default"
        );
        policies.set(7, None);
        policies.set_zone(3, None);
        assert_eq!((seconds(&policies, 7), policies.choose(0, 3)), (60, 0));
        policies.set(0, Some(TimeoutPolicy::default().with(Timeout::UdpFirst, 5)));
        assert_eq!(seconds(&policies, 7), 5);
        assert_eq!(policies.get(7), None);
    }
}
