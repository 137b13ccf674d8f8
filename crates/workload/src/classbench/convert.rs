//! Converts filters to rules: ranges become masks, the order becomes priorities.
//!
//! A filter set may be longer than the number of priorities (65,536), but only *overlapping*
//! filters need different ones. So [`priorities_in_order`] lets neighbours share a priority as
//! long as no two of them overlap, which preserves "the first match wins" exactly.

use super::protocol::{SCTP, TCP, UDP};
use super::{Filter, Prefix};
use crate::action::Action;
use crate::error::WorkloadError;
use crate::field::Field;
use crate::rule::{Match, Rule};

/// The treatment of a filter's sixth field.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Extra {
    /// Left out, as five-tuple classifiers in the literature do.
    #[default]
    Ignore,
    /// Matched as `tcp_flags` and `icmp_type`.
    Match,
}

impl Filter {
    /// The matches that together cover the filter; no two of them overlap.
    pub fn matches(&self, extra: Extra) -> Vec<Match> {
        let addresses = self.address_match();
        // A filter with ports but no protocol applies to TCP and UDP.
        let protocols: &[Option<u8>] = match self.protocol {
            None if self.has_ports() => &[Some(TCP), Some(UDP)],
            _ => &[self.carrier()],
        };
        let mut matches = Vec::new();
        for protocol in protocols {
            let base = match protocol {
                Some(number) => addresses.clone().with(Field::IpProtocol, *number),
                None => addresses.clone(),
            };
            self.push_port_matches(
                self.with_extra(base, *protocol, extra),
                *protocol,
                &mut matches,
            );
        }
        matches
    }

    /// Whether the filter is for IPv6.
    pub const fn is_ipv6(&self) -> bool {
        self.source.width() == 128
    }

    fn address_match(&self) -> Match {
        let (family, source, destination) = if self.is_ipv6() {
            let family = Match::any().with(Field::EthType, 0x86dd_u16);
            (family, Field::Ipv6Src, Field::Ipv6Dst)
        } else {
            (Match::ipv4(), Field::IpSrc, Field::IpDst)
        };
        let prefix = |matching: Match, field, prefix: Prefix| {
            matching.with_prefix(field, prefix.address(), prefix.length().into())
        };
        prefix(
            prefix(family, source, self.source),
            destination,
            self.destination,
        )
    }

    fn with_extra(&self, base: Match, protocol: Option<u8>, extra: Extra) -> Match {
        let (value, mask) = ((self.flags >> 8) as u8, u128::from(self.flags_mask >> 8));
        // The sixth field refers to the protocol that the filter names, not to its carrier.
        match (
            extra,
            protocol.filter(|number| self.protocol.is_none_or(|own| own == *number)),
        ) {
            (Extra::Match, Some(TCP)) => base.with_masked(Field::TcpFlags, value, mask),
            (Extra::Match, Some(1)) if mask != 0 => base.with(Field::IcmpType, value),
            _ => base,
        }
    }

    fn push_port_matches(&self, base: Match, protocol: Option<u8>, matches: &mut Vec<Match>) {
        let (source, destination) = match protocol {
            Some(TCP) => (Field::TcpSrc, Field::TcpDst),
            Some(UDP) => (Field::UdpSrc, Field::UdpDst),
            Some(SCTP) => (Field::SctpSrc, Field::SctpDst),
            _ => return matches.push(base),
        };
        for (source_value, source_mask) in self.source_ports.prefixes() {
            let half = base
                .clone()
                .with_masked(source, source_value, source_mask.into());
            for (value, mask) in self.destination_ports.prefixes() {
                matches.push(half.clone().with_masked(destination, value, mask.into()));
            }
        }
    }
}

/// Turns filters into rules of one table, the first filter at the highest priority.
///
/// `actions` is called once per filter, with its index.
///
/// # Errors
/// When the filters overlap so much that 65,000 priorities do not suffice.
pub fn filter_rules(
    filters: &[Filter],
    table: u8,
    extra: Extra,
    mut actions: impl FnMut(usize) -> Vec<Action>,
) -> Result<Vec<Rule>, WorkloadError> {
    let groups: Vec<Vec<Match>> = filters.iter().map(|filter| filter.matches(extra)).collect();
    let priorities = priorities_in_order(&groups, 1, 65_000)?;
    let mut rules = Vec::new();
    for (index, (group, priority)) in groups.into_iter().zip(priorities).enumerate() {
        let actions = actions(index);
        for matches in group {
            rules.push(Rule::new(table, priority, matches, actions.clone()));
        }
    }
    Ok(rules)
}

/// Descending priorities within `lowest..=highest` for `groups`, equal only where none
/// overlap.
pub(crate) fn priorities_in_order(
    groups: &[Vec<Match>],
    lowest: u16,
    highest: u16,
) -> Result<Vec<u16>, WorkloadError> {
    let available = usize::from(highest - lowest) + 1;
    let mut priorities = Vec::with_capacity(groups.len());
    // Prefer that few rules share a priority, so that rules are easy to tell apart.
    for largest_share in [1, 2, 4, 8, 16, 32, 64] {
        if groups.len() > available * largest_share {
            continue;
        }
        priorities.clear();
        let (mut level, mut share_start) = (0, 0);
        for (index, group) in groups.iter().enumerate() {
            let share = &groups[share_start..index];
            if share.len() == largest_share || share.iter().any(|other| overlap(other, group)) {
                level += 1;
                share_start = index;
            }
            if level == available {
                break;
            }
            priorities.push(highest - level as u16);
        }
        if priorities.len() == groups.len() {
            return Ok(priorities);
        }
    }
    Err(WorkloadError::TooFewPriorities {
        rules: groups.len(),
        priorities: available,
    })
}

fn overlap(left: &[Match], right: &[Match]) -> bool {
    left.iter()
        .any(|one| right.iter().any(|other| one.overlaps(other)))
}

#[cfg(test)]
mod tests {
    use super::super::parse_filters;
    use super::*;

    fn matches(line: &str, extra: Extra) -> Vec<String> {
        let filter = parse_filters("f", line).unwrap()[0];
        filter.matches(extra).iter().map(Match::to_string).collect()
    }

    #[test]
    fn ranges_become_prefix_masks() {
        let line = "@1.2.3.0/24 0.0.0.0/0 1024 : 65535 80 : 80 0x06/0xFF 0x0000/0x0200";
        let texts = matches(line, Extra::Ignore);
        assert_eq!(texts.len(), 6);
        assert_eq!(
            texts[0],
            "tcp,nw_src=1.2.3.0/24,tp_src=0x400/0xfc00,tp_dst=80"
        );
    }

    #[test]
    fn filters_of_ipv6_become_rules_of_ipv6() {
        let line = "@2001:db8::/32 ::/0 0 : 65535 53 : 53 0x11/0xFF";
        let expected = ["udp6,ipv6_src=2001:db8::/32,tp_dst=53"];
        assert_eq!(matches(line, Extra::Ignore), expected);
    }

    #[test]
    fn flags_and_types_are_matched_on_request() {
        let tcp = "@0.0.0.0/0 0.0.0.0/0 0 : 65535 0 : 65535 0x06/0xFF 0x0000/0x0200";
        assert_eq!(matches(tcp, Extra::Ignore), ["tcp"]);
        assert_eq!(matches(tcp, Extra::Match), ["tcp,tcp_flags=0x0/0x2"]);
        let icmp = "@0.0.0.0/0 0.0.0.0/0 0 : 65535 0 : 65535 0x01/0xFF 0x0800/0xff00";
        assert_eq!(matches(icmp, Extra::Match), ["icmp,icmp_type=8"]);
    }

    #[test]
    fn ports_without_protocol_are_those_of_tcp_and_udp() {
        let line = "@0.0.0.0/0 1.0.0.0/8 0 : 65535 53 : 53 0x00/0x00";
        let expected = [
            "tcp,nw_dst=1.0.0.0/8,tp_dst=53",
            "udp,nw_dst=1.0.0.0/8,tp_dst=53",
        ];
        assert_eq!(matches(line, Extra::Ignore), expected);
    }

    #[test]
    fn ports_of_a_protocol_without_ports_are_carried_by_one_that_has_some() {
        let line = |protocol| format!("@1.0.0.0/8 0.0.0.0/0 0 : 65535 53 : 53 {protocol}/0xFF");
        for (protocol, expected) in [
            ("6", "tcp,nw_src=1.0.0.0/8,tp_dst=53"),
            ("7", "udp,nw_src=1.0.0.0/8,tp_dst=53"),
            ("8", "ip,nw_src=1.0.0.0/8,nw_proto=132,tp_dst=53"),
            ("132", "ip,nw_src=1.0.0.0/8,nw_proto=132,tp_dst=53"),
        ] {
            assert_eq!(matches(&line(protocol), Extra::Ignore), [expected]);
        }
        // Without ports no carrier is needed.
        let line = "@1.0.0.0/8 0.0.0.0/0 0 : 65535 0 : 65535 8/0xFF";
        let expected = ["ip,nw_src=1.0.0.0/8,nw_proto=8"];
        assert_eq!(matches(line, Extra::Ignore), expected);
        // The flags of a protocol are not those of its carrier: 9 is carried by TCP.
        let line = "@1.0.0.0/8 0.0.0.0/0 0 : 65535 53 : 53 9/0xFF 0x0200/0x0200";
        let expected = ["tcp,nw_src=1.0.0.0/8,tp_dst=53"];
        assert_eq!(matches(line, Extra::Match), expected);
    }

    #[test]
    fn neighbours_share_a_priority_only_when_they_must_and_may() {
        let port = |number: u32| vec![Match::any().with(Field::InPort, number)];
        let groups = [port(1), port(2), port(2), vec![Match::any()], port(3)];
        assert_eq!(priorities_in_order(&groups, 1, 9).unwrap(), [9, 8, 7, 6, 5]);
        assert_eq!(priorities_in_order(&groups, 1, 4).unwrap(), [4, 4, 3, 2, 1]);
        let error = priorities_in_order(&groups, 1, 3).unwrap_err();
        assert!(error.to_string().contains("5 rules"), "{error}");
    }
}
