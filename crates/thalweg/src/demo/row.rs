//! The figures of one maintainer, from its measured and its audited pass.

use serde_json::{Value, json};
use thalweg_datapath::{CacheCounters, MaintainerKind, Work};

use super::pass::{Outcome, Window};

/// The two passes of one maintainer.
pub(super) struct Row {
    pub(super) kind: MaintainerKind,
    /// The pass that gives the times.
    pub(super) measured: Outcome,
    /// The pass that compared every packet with the interpreter.
    pub(super) audited: Outcome,
}

/// The median, the 99th percentile and the maximum.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Quantiles {
    pub(super) median: u64,
    pub(super) p99: u64,
    pub(super) max: u64,
}

impl Quantiles {
    /// Quantiles by nearest rank; zeros if there are no values.
    pub(super) fn of(values: impl Iterator<Item = u64>) -> Quantiles {
        let mut values: Vec<u64> = values.collect();
        values.sort_unstable();
        let at = |percent: usize| {
            let rank = (values.len() * percent).div_ceil(100);
            values.get(rank.saturating_sub(1)).copied().unwrap_or(0)
        };
        Quantiles {
            median: at(50),
            p99: at(99),
            max: at(100),
        }
    }
}

impl Window {
    /// The share of its packets that a cache answered.
    pub(super) fn hit_rate(&self) -> f64 {
        ratio(self.microflow_hits + self.megaflow_hits, self.packets)
    }

    /// Nanoseconds per packet, including the changes of the window.
    pub(super) fn ns_per_packet(&self) -> f64 {
        ratio(self.forward_ns + self.update_ns, self.packets)
    }

    /// Merges adjacent windows into one.
    pub(super) fn joined(windows: &[Window]) -> Window {
        let mut joined = Window {
            first_packet: windows.first().map_or(0, |window| window.first_packet),
            ..Window::default()
        };
        for window in windows {
            joined.packets += window.packets;
            joined.microflow_hits += window.microflow_hits;
            joined.megaflow_hits += window.megaflow_hits;
            joined.upcalls += window.upcalls;
            joined.forward_ns += window.forward_ns;
            joined.update_ns += window.update_ns;
        }
        joined
    }

    fn to_json(self) -> Value {
        json!({
            "first_packet": self.first_packet,
            "packets": self.packets,
            "microflow_hit_rate": ratio(self.microflow_hits, self.packets),
            "megaflow_hit_rate": ratio(self.megaflow_hits, self.packets),
            "hit_rate": self.hit_rate(),
            "upcalls": self.upcalls,
            "ns_per_packet": self.ns_per_packet(),
            "update_us": self.update_ns as f64 / 1e3,
        })
    }
}

impl Row {
    /// The maintainer's name.
    pub(super) fn name(&self) -> &'static str {
        self.kind.name()
    }

    /// `answered` as a share of all packets.
    pub(super) fn share(&self, answered: u64) -> f64 {
        ratio(answered, self.measured.statistics.packets)
    }

    /// Packets that missed both caches; those of one flow in one burst share an upcall.
    pub(super) fn unknown(&self) -> u64 {
        self.measured.statistics.megaflow.misses
    }

    /// Nanoseconds of forwarding per packet, without changes.
    pub(super) fn ns_per_packet(&self) -> f64 {
        ratio(self.measured.forward_ns, self.measured.statistics.packets)
    }

    /// Nanoseconds that all changes took.
    pub(super) fn update_ns(&self) -> u64 {
        let updates = self.measured.updates.iter();
        updates.map(|update| update.repair_ns).sum()
    }

    /// Total nanoseconds of processor time: forwarding, changes, and index training on a
    /// thread.
    pub(super) fn total_ns(&self) -> u64 {
        let long_work = self.measured.long_work.processor_time;
        self.measured.forward_ns + self.update_ns() + long_work.as_nanos() as u64
    }

    /// Packets per second, including the time for changes.
    pub(super) fn packets_per_second(&self) -> f64 {
        let total_ns = self.measured.forward_ns + self.update_ns();
        ratio(self.measured.statistics.packets, total_ns) * 1e9
    }

    /// Nanoseconds from a change's submission until no packet is answered by older rules.
    pub(super) fn times_to_update(&self) -> Quantiles {
        Quantiles::of(self.measured.updates.iter().map(|update| update.time_ns))
    }

    /// Nanoseconds from a change's submission until every entry is right.
    pub(super) fn times_to_repair(&self) -> Quantiles {
        Quantiles::of(self.measured.updates.iter().map(|update| update.repair_ns))
    }

    /// What happened to the entries, over all changes.
    pub(super) fn work(&self) -> Work {
        let mut work = Work::default();
        let updates = self.measured.updates.iter();
        updates.for_each(|update| work.add(update.work));
        work
    }

    /// Entries that a change repaired, moved or evicted.
    pub(super) fn affected(&self) -> Quantiles {
        let updates = self.measured.updates.iter();
        Quantiles::of(updates.map(|update| update.work.affected()))
    }

    /// Entries that the maintainer examined after a change.
    pub(super) fn examined(&self) -> Quantiles {
        let updates = self.measured.updates.iter();
        Quantiles::of(updates.map(|update| update.work.examined))
    }

    /// Packets compared with the interpreter, and those whose answer differed.
    pub(super) fn audit(&self) -> (u64, u64) {
        self.audited.audited.unwrap_or_default()
    }

    /// The row for JSON reports.
    pub(super) fn to_json(&self) -> Value {
        let measured = &self.measured;
        let statistics = &measured.statistics;
        let (checked, stale) = self.audit();
        let cache = |counters: CacheCounters, entries: usize| {
            json!({
                "hits": counters.hits,
                "misses": counters.misses,
                "hit_rate": ratio(counters.hits, counters.hits + counters.misses),
                "entries": entries,
            })
        };
        let changes = measured.updates.iter().map(|update| {
            json!({
                "position": update.position,
                "time_to_update_us": update.time_ns as f64 / 1e3,
                "affected": update.work.affected(),
                "examined": update.work.examined,
            })
        });
        let traversals = measured.traversals.iter().map(|view| {
            let tables: Vec<u8> = view.tables.iter().map(|table| table.number()).collect();
            json!({ "tables": tables, "entries": view.entries })
        });
        let work = self.work();
        let drops = statistics
            .drops()
            .map(|(name, count)| (name.to_owned(), json!(count)));
        json!({
            "maintainer": self.name(),
            "packets": statistics.packets,
            "packets_per_second": self.packets_per_second(),
            "ns_per_packet": self.ns_per_packet(),
            "caches": {
                "microflow": cache(statistics.microflow, measured.microflows),
                "megaflow": cache(statistics.megaflow, measured.megaflows),
            },
            "hit_rate": self.share(statistics.microflow.hits + statistics.megaflow.hits),
            "masks": measured.masks,
            "megaflow_bytes": measured.megaflow_bytes,
            "long_work": {
                "jobs": measured.long_work.jobs,
                "processor_us": measured.long_work.processor_time.as_secs_f64() * 1e6,
            },
            "upcalls": statistics.upcalls,
            "time_to_update_us": self.times_to_update().in_microseconds(),
            "time_to_repair_us": self.times_to_repair().in_microseconds(),
            "work": {
                "examined": work.examined,
                "repaired": work.repaired,
                "moved": work.moved,
                "evicted": work.evicted,
            },
            "affected": self.affected().to_json(),
            "examined": self.examined().to_json(),
            "audited_packets": checked,
            "stale_packets": stale,
            "drops": drops.collect::<serde_json::Map<_, _>>(),
            "outputs": measured.sent,
            "copies_refused": measured.copies_refused,
            "traversals": traversals.collect::<Vec<_>>(),
            "changes": changes.collect::<Vec<_>>(),
            "timeline": measured.windows.iter().map(|window| window.to_json()).collect::<Vec<_>>(),
        })
    }
}

impl Quantiles {
    fn to_json(self) -> Value {
        json!({ "median": self.median, "p99": self.p99, "max": self.max })
    }

    /// Converts nanoseconds to microseconds.
    fn in_microseconds(self) -> Value {
        let [median, p99, max] = [self.median, self.p99, self.max].map(|ns| ns as f64 / 1e3);
        json!({ "median": median, "p99": p99, "max": max })
    }
}

/// A quotient; 0 if `whole` is 0.
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        return 0.0;
    }
    part as f64 / whole as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_occurred() {
        let all = Quantiles::of((1..=1000).rev());
        assert_eq!((all.median, all.p99, all.max), (500, 990, 1000));
        let few = Quantiles::of([7, 3].into_iter());
        assert_eq!((few.median, few.p99, few.max), (3, 7, 7));
        assert_eq!(Quantiles::of(std::iter::empty()), Quantiles::default());
    }
}
