//! Upcalls for those who watch the datapath, and entries that compare whole keys.
//!
//! 1. Reports that are not taken do not grow without bound: those beyond [`REPORTS_MAX`] are
//!    counted and dropped.

use std::time::Duration;

use thalweg_datapath::{UpcallReport, WatchedUpcalls};

use crate::message::{Answer, CacheSetting, Command};
use crate::steps;
use crate::switch::Switch;

/// Most reports that wait to be taken.
const REPORTS_MAX: usize = 4_096;

/// What workers told of upcalls.
#[derive(Debug)]
pub(crate) struct Upcalls {
    reports: Vec<UpcallReport>,
    lost: u64,
    watched: WatchedUpcalls,
    are_exact: bool,
    /// The most entries of each worker's wildcard cache.
    limit: usize,
    /// How long an entry may go without a packet.
    max_idle: Option<Duration>,
}

impl Upcalls {
    /// Nothing is watched; caches are as configured.
    pub(crate) fn new(config: &thalweg_datapath::Config) -> Upcalls {
        Upcalls {
            reports: Vec::new(),
            lost: 0,
            watched: WatchedUpcalls::None,
            are_exact: config.megaflow.is_exact,
            limit: config.megaflow.entries,
            max_idle: config.megaflow.max_idle,
        }
    }

    pub(crate) fn note(&mut self, reports: Vec<UpcallReport>, lost: u64) {
        let room = REPORTS_MAX - self.reports.len();
        self.lost += lost + reports.len().saturating_sub(room) as u64;
        self.reports.extend(reports.into_iter().take(room));
    }
}

impl Switch {
    /// Sets which upcalls are reported.
    pub fn watch_upcalls(&mut self, watched: WatchedUpcalls) {
        if self.upcalls.watched != watched {
            self.upcalls.watched = watched;
            self.settle();
            self.ask(|| Command::Set(CacheSetting::Watch(watched)));
        }
    }

    /// Takes the reports of upcalls since the last call, and the number of upcalls without one.
    pub fn take_upcalls(&mut self) -> (Vec<UpcallReport>, u64) {
        let reports = std::mem::take(&mut self.upcalls.reports);
        (reports, std::mem::take(&mut self.upcalls.lost))
    }

    /// Sets the most entries of each worker's wildcard cache, within what it can have; returns
    /// what it is then. Entries beyond it are evicted as packets come.
    pub fn set_megaflow_limit(&mut self, entries: usize) -> usize {
        self.upcalls.limit = entries.min(thalweg_datapath::MEGAFLOWS_MAX);
        let limit = self.upcalls.limit;
        self.settle();
        self.ask(|| Command::Set(CacheSetting::Limit(limit)));
        limit
    }

    /// The most entries of each worker's wildcard cache.
    pub fn megaflow_limit(&self) -> usize {
        self.upcalls.limit
    }

    /// Sets how long an entry of the wildcard caches may go without a packet; `None` for as long
    /// as there is room.
    pub fn set_max_idle(&mut self, max_idle: Option<Duration>) {
        if self.upcalls.max_idle != max_idle {
            self.upcalls.max_idle = max_idle;
            self.settle();
            self.ask(|| Command::Set(CacheSetting::Idle(max_idle)));
        }
    }

    /// Sets whether entries of the wildcard caches compare whole keys instead of what their
    /// walks examined, and empties the caches.
    pub fn set_megaflows_exact(&mut self, are_exact: bool) {
        self.upcalls.are_exact = are_exact;
        self.settle();
        self.by_hand = None;
        for answer in self.ask(|| Command::Set(CacheSetting::Exact(are_exact))) {
            if let Answer::Counted(ledger) = answer {
                steps::settle(&self.shared.pipeline, ledger);
            }
        }
    }

    /// Whether entries of the wildcard caches compare whole keys.
    pub fn are_megaflows_exact(&self) -> bool {
        self.upcalls.are_exact
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use thalweg_datapath::WatchedUpcalls;
    use thalweg_io::MemoryPort;
    use thalweg_packet::PortId;
    use thalweg_pipeline::{Change, text};

    use crate::{Switch, SwitchConfig, SwitchPort};

    #[test]
    fn upcalls_of_workers_are_told_while_they_are_watched() {
        let (one, source) = MemoryPort::new(PortId(1), 64);
        let (two, sink) = MemoryPort::new(PortId(2), 64);
        let ports = [(1, one), (2, two)];
        let ports = ports.map(|(number, port)| SwitchPort::new(PortId(number), Box::new(port)));
        let mut config = SwitchConfig::default();
        config.datapath.megaflow.sample_bytes = 30;
        let mut switch = Switch::start(config, ports.into()).unwrap();
        let rule = text::parse_flow("dl_src=00:00:00:00:00:10/00:00:00:00:00:10,actions=2");
        let other = text::parse_flow("priority=1,actions=2");
        let change = Change::adding([rule.unwrap(), other.unwrap()]);
        switch.apply(&change).unwrap();
        let forward = |switch: &mut Switch, last: u8| {
            let mut frame = [0; 60];
            frame[11] = last;
            assert!(source.inject(&frame));
            while sink.collect().is_empty() {
                switch.poll(Duration::from_millis(1));
            }
            switch.meet_workers();
            switch.poll(Duration::ZERO);
            switch.take_upcalls()
        };
        assert!(forward(&mut switch, 1).0.is_empty());
        switch.watch_upcalls(WatchedUpcalls::All);
        switch.set_megaflows_exact(true);
        assert!(switch.are_megaflows_exact());
        for last in [1, 2] {
            let (reports, lost) = forward(&mut switch, last);
            assert_eq!((reports.len(), lost), (1, 0));
            assert_eq!(reports[0].frame[11], last);
        }
        assert!(forward(&mut switch, 2).0.is_empty(), "an entry answers");
        let known = switch.megaflows(10);
        assert_eq!(known.entries.len(), 2);
        let samples = known
            .entries
            .iter()
            .map(|entry| (entry.sample.len(), entry.sample_length));
        assert_eq!(samples.collect::<Vec<_>>(), [(30, 60), (30, 60)]);
        let [one, other] = [0, 1].map(|place| known.entries[place].identifier());
        assert_ne!(one, other);
        assert_eq!(switch.set_megaflow_limit(1), 1);
        assert_eq!(forward(&mut switch, 3).0.len(), 1);
        assert_eq!(switch.totals().megaflows, 1);
        assert_eq!(
            switch.set_megaflow_limit(usize::MAX),
            thalweg_datapath::MEGAFLOWS_MAX
        );
        switch.watch_upcalls(WatchedUpcalls::None);
        assert!(forward(&mut switch, 4).0.is_empty());
    }
}
