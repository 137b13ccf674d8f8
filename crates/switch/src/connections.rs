//! What operators and controllers do with the connections of a switch.

use std::net::Ipv6Addr;
use std::ops::DerefMut;

use thalweg_conntrack::text::{FlushRequest, PartialTuple};
use thalweg_conntrack::{
    Bits, ConnectionEntry, Cursor, FlushFilter, FragmentSettings, Fragments, IpFamily, Tracker,
};
use thalweg_openflow::message::nicira::{CtFlush, CtTuple};
use thalweg_pipeline::HeldFragment;

use crate::switch::Switch;

/// The most flushes that are told.
const FLUSHES_MAX: usize = 1_024;

/// Slots of the table that are visited between two looks at the result.
const SLICE: usize = 4_096;

/// How a switch tracks connections.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TrackingConfig {
    /// Limits and time-outs of the tracker. Its seed is drawn when the switch starts.
    pub tracker: thalweg_conntrack::Config,
    /// Limits of fragments that wait.
    pub fragments: FragmentSettings,
    /// Whether a connection ends with the rule that committed it.
    pub follows_rules: bool,
}

impl Switch {
    /// The fragments that wait to be tracked. Workers that track fragments wait until this is
    /// dropped.
    pub fn fragments(&self) -> impl DerefMut<Target = Fragments<HeldFragment>> + '_ {
        self.shared.connections.fragments()
    }

    /// Calls `take` with each connection of a zone, or of all zones.
    pub fn each_connection(
        &self,
        zone: Option<u16>,
        mut take: impl FnMut(&Tracker, ConnectionEntry),
    ) {
        let (tracker, now) = (self.tracker(), self.now());
        let mut place = Some(Cursor::default());
        while let Some(cursor) = place {
            let (entries, next) = tracker.entries(cursor, SLICE, now);
            place = next;
            let is_meant =
                |entry: &ConnectionEntry| zone.is_none_or(|zone| entry.original.zone == zone);
            for entry in entries.into_iter().filter(is_meant) {
                take(tracker, entry);
            }
        }
    }

    /// Ends the connections that are asked for; returns their number.
    pub fn flush_connections(&mut self, asked: &FlushRequest) -> usize {
        if self.flushes.len() < FLUSHES_MAX {
            self.flushes.push(asked.clone());
        }
        if asked.is_unconditional() {
            let filter = asked.zone.map_or(FlushFilter::All, FlushFilter::Zone);
            return self.tracker().flush(filter);
        }
        let now = self.now();
        let mut ended = 0;
        self.each_connection(asked.zone, |tracker, entry| {
            if asked.matches(&entry) {
                ended += usize::from(tracker.flush_tuple(&entry.original, now));
            }
        });
        ended
    }

    /// The flushes since the last call, of which the first 1,024 are told.
    pub fn take_flushes(&mut self) -> Vec<FlushRequest> {
        std::mem::take(&mut self.flushes)
    }
}

/// What a controller's message asks for.
pub(crate) fn flush_asked(asked: &CtFlush) -> FlushRequest {
    let ends = [&asked.original, &asked.reply];
    let mut addresses = ends
        .into_iter()
        .flat_map(|tuple| [tuple.source, tuple.destination])
        .flatten();
    let family = addresses
        .next()
        .map(|address| match Ipv6Addr::from(address).to_ipv4_mapped() {
            Some(_) => IpFamily::V4,
            None => IpFamily::V6,
        });
    let (mark, mark_mask) = asked.mark.unwrap_or_default();
    let (label, label_mask) = asked.labels.unwrap_or_default();
    FlushRequest {
        zone: asked.zone,
        original: tuple_asked(&asked.original),
        reply: tuple_asked(&asked.reply),
        protocol: asked.protocol,
        family,
        mark: Bits {
            value: mark,
            mask: mark_mask,
        },
        label: Bits {
            value: label,
            mask: label_mask,
        },
    }
}

fn tuple_asked(tuple: &CtTuple) -> PartialTuple {
    let address = |bytes: Option<[u8; 16]>| bytes.map_or(Ipv6Addr::UNSPECIFIED, Ipv6Addr::from);
    PartialTuple {
        source: address(tuple.source),
        destination: address(tuple.destination),
        source_port: tuple.source_port.unwrap_or(0),
        destination_port: tuple.destination_port.unwrap_or(0),
        icmp_id: tuple.icmp.map(|(id, ..)| id),
        icmp_type: tuple.icmp.map(|(_, kind, _)| kind),
        icmp_code: tuple.icmp.map(|(.., code)| code),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_asks_for_what_it_names() {
        assert!(flush_asked(&CtFlush::default()).is_unconditional());
        let zone = CtFlush {
            zone: Some(3),
            ..CtFlush::default()
        };
        let asked = flush_asked(&zone);
        assert!(asked.is_unconditional() && asked.zone == Some(3));
        let source: Ipv6Addr = "::ffff:10.1.1.1".parse().unwrap();
        let asked = flush_asked(&CtFlush {
            protocol: 1,
            original: CtTuple {
                source: Some(source.octets()),
                icmp: Some((5, 8, 0)),
                ..CtTuple::default()
            },
            mark: Some((2, 3)),
            ..CtFlush::default()
        });
        let expected = FlushRequest {
            protocol: 1,
            original: PartialTuple {
                source,
                icmp_id: Some(5),
                icmp_type: Some(8),
                icmp_code: Some(0),
                ..PartialTuple::default()
            },
            family: Some(IpFamily::V4),
            mark: Bits { value: 2, mask: 3 },
            ..FlushRequest::default()
        };
        assert_eq!(asked, expected);
        assert!(!asked.is_exact() && !asked.is_unconditional());
    }
}
