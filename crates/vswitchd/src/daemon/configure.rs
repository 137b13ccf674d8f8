//! From the database to the bridges, and back.

use std::collections::BTreeSet;
use std::time::Duration;

use thalweg_ovsdb::open_vswitch::root;
use thalweg_ovsdb::{TransactionId, TransactionOutcome};
use thalweg_packet::Instant;

use super::comeback::withhold_controllers;
use super::zones::read_zones;
use super::{Daemon, STATISTICS_INTERVAL, dashboard, metrics};
use crate::bridges::{Complaint, Report, read};
use crate::vlog::{LogLevel, modules};

/// Statistics are written at most this often.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(100);

/// How long an entry of the caches may go without a packet, unless `max-idle` says otherwise.
const MAX_IDLE: Duration = Duration::from_secs(10);

/// Entries of each worker's cache, unless `flow-limit` says otherwise.
const FLOW_LIMIT: usize = 200_000;

impl Daemon {
    /// Makes the bridges what the database wants.
    pub(super) fn configure(&mut self) {
        let confined_to = self.confined_to.as_deref();
        let (mut wanted, complaints) = read(self.link.client().replica(), confined_to);
        let zones = read_zones(self.link.client().replica());
        // A switch without connections has no tracker.
        if !self.zones.is_idle(&zones) {
            self.zones.follow(zones, self.switch.tracker());
        }
        let settings = self.comeback_settings();
        let faults = settings.faults.clone();
        if self.wanted_configuration().is_some() {
            self.comeback.begin(settings, &mut self.switch, &self.log);
        }
        if self.comeback.is_waiting() {
            withhold_controllers(&mut wanted);
        }
        self.bridges.resumed = self.comeback.resumed();
        let followed = self.bridges.follow(&wanted, &mut self.switch);
        self.comeback
            .conclude(&mut self.switch, &self.bridges, &self.log);
        for text in followed.done {
            self.log.write(modules::BRIDGE, LogLevel::Info, || text);
        }
        let warnings = followed.complaints.into_iter().chain(faults);
        let warnings = warnings.map(Complaint::warning);
        let mut complaints: BTreeSet<_> = complaints.0.into_iter().chain(warnings).collect();
        complaints.extend(self.follow_readers());
        // Complaints that were logged before are not logged again.
        for Complaint { level, text } in complaints.difference(&self.complaints) {
            self.log.write(modules::BRIDGE, *level, || text.clone());
        }
        self.complaints = complaints;
        // What happened to ports is told before a client that waits for this can connect.
        self.switch.poll(Duration::ZERO);
        self.meet_servers();
        let interval = self.statistics_interval();
        if interval != self.interval {
            // A longer interval before does not hold up the next statistics.
            self.interval = interval;
            self.next_statistics = self.switch.now();
        }
        self.limit_caches();
        self.followed = self.wanted_configuration();
        if self.followed.is_none() {
            // An empty database asks for nothing, so nothing is awaited.
            self.is_ready = true;
        }
    }

    /// Opens and closes the servers of metrics and of the dashboard; returns the complaints.
    fn follow_readers(&mut self) -> Vec<Complaint> {
        let before = [self.metrics.address(), self.dashboard.address()];
        let metrics = self.other_config(metrics::KEY);
        let dashboard = self.other_config(dashboard::KEY);
        let is_remote = self.other_config(dashboard::REMOTE_KEY);
        let complaints = [
            self.metrics.follow(metrics.as_deref(), &self.switch),
            self.dashboard.follow((dashboard, is_remote), &self.switch),
        ];
        let now = [self.metrics.address(), self.dashboard.address()];
        let pages = [("metrics", "metrics"), ("dashboard", "")];
        for ((now, before), (what, path)) in now.into_iter().zip(before).zip(pages) {
            if let Some(address) = now.filter(|_| now != before) {
                self.log.write(modules::BRIDGE, LogLevel::Info, || {
                    format!("{what} at http://{address}/{path}")
                });
            }
        }
        complaints.into_iter().flatten().collect()
    }

    /// Writes what became of the configuration, unless a transaction is under way.
    pub(super) fn report(&mut self) {
        let is_followed = self.followed.is_some();
        // Links and controllers come and go without a word to this thread.
        let link_changes = self.switch.link_changes();
        if link_changes != self.link_changes {
            self.link_changes = link_changes;
            self.must_report = true;
        }
        let statuses = self.bridges.controllers();
        if statuses != self.controllers {
            self.controllers = statuses;
            self.must_report = true;
        }
        if !self.must_report || !is_followed || self.writing.is_some() {
            return;
        }
        let now = self.switch.now();
        let totals = (now >= self.next_statistics).then(|| self.switch.totals());
        if totals.is_some() {
            self.next_statistics = now + self.interval;
        }
        self.must_report = false;
        let report = Report {
            done: self.followed,
            now: now - Instant::ZERO,
            totals: totals.as_ref(),
        };
        let client = self.link.client();
        if !client.has_lock() || !client.is_following() {
            return;
        }
        let transaction = self.bridges.report(client.replica(), &self.switch, &report);
        match client.submit(&transaction) {
            Ok(id) => self.writing = Some(id),
            Err(_) => self.must_report = true,
        }
        self.link.flush();
    }

    /// Handles the end of a transaction.
    pub(super) fn note_written(&mut self, id: TransactionId, outcome: &TransactionOutcome) {
        if self.writing == Some(id) {
            self.writing = None;
        }
        match outcome {
            TransactionOutcome::Committed(_) | TransactionOutcome::Unchanged => {
                self.is_ready = true;
            }
            TransactionOutcome::Failed(error) => {
                self.log.write(modules::OVSDB_IDL, LogLevel::Warning, || {
                    format!("transaction error: {error}")
                });
            }
            _ => self.must_report = true,
        }
    }

    /// Sets what the database says of entries of the caches.
    fn limit_caches(&mut self) {
        let given = self.other_config("max-idle");
        let max_idle = given.and_then(|text| text.parse().ok());
        let max_idle = max_idle.map_or(MAX_IDLE, Duration::from_millis);
        let max_idle = Some(max_idle).filter(|_| !self.is_eviction_paused);
        self.switch.set_max_idle(max_idle);
        let given = self.other_config("flow-limit");
        let limit = given.and_then(|text| text.parse().ok());
        if limit != self.flow_limit {
            self.flow_limit = limit;
            let limit = limit.filter(|limit| *limit > 0).unwrap_or(FLOW_LIMIT);
            self.switch.set_megaflow_limit(limit);
        }
    }

    /// Sets whether entries of the caches stay without packets.
    pub(crate) fn pause_eviction(&mut self, is_paused: bool) {
        self.is_eviction_paused = is_paused;
        self.limit_caches();
    }

    fn statistics_interval(&mut self) -> Duration {
        let given = self.other_config("stats-update-interval");
        let given = given.and_then(|text| text.parse().ok());
        given.map_or(STATISTICS_INTERVAL, |milliseconds| {
            Duration::from_millis(milliseconds).max(SHORTEST_INTERVAL)
        })
    }

    /// A value of `Open_vSwitch.other_config`.
    pub(super) fn other_config(&mut self, key: &str) -> Option<String> {
        let replica = self.link.client().replica();
        let root = replica.rows(root::TABLE).next()?;
        root.get(root::OTHER_CONFIG).get(key).map(str::to_owned)
    }
}
