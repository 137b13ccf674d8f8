//! The control side of a running switch: makes changes, and handles what workers report.
//!
//! ```text
//!   apply(change):
//!     if keys will have another layout: hold every worker
//!     make it in steps, and publish it      -- the next version is there; workers are at v
//!     search each worker's record for the entries that the change may affect
//!     tell every worker to advance, with what was found; wake those that sleep
//!     collect an acknowledgement from each
//!     drain packets of v that workers have left for each other        -- apply returns
//!   later, or at the latest before the next change:
//!     walk the entries that workers have many of to repair, and tell them what the walks came to
//!     collect from each worker what its repaired entries had counted
//!     settle the counts; only now may the pipeline forget v
//! ```
//!
//! While workers are at `v` and the pipeline at the next version, they answer misses at `v`:
//! the pipeline keeps every version until it is reclaimed. Only the layout exists once, hence
//! the hold.
//!
//! 1. One change is outstanding at a time: [`Switch::apply`] takes `&mut self`, and returns
//!    when the last worker has acknowledged. The next change is acknowledged only after all
//!    caches are repaired for this one. It may begin earlier if both are of rules alone and
//!    the walks for this one are made. So the pipeline keeps at most two versions for repairs.
//! 2. Before `apply` returns, packets that were answered at `v` and wait for another worker
//!    are sent. The acknowledgements come first, so a packet waiting afterwards was left
//!    before them, or is newer. A packet that the other worker has taken and not yet sent
//!    counts as waiting.
//! 3. Learning takes a bounded share of the time: the next change for it waits at least four
//!    times as long as the last one took, and for stations at least [`LEARNING_INTERVAL`].

use std::sync::Arc;
use std::time::Duration;

use thalweg_datapath::{Findings, Requests, Work};
use thalweg_io::PortStatus;
use thalweg_packet::{Instant, PortId};
use thalweg_pipeline::{Change, ChangeError, Delta, Operation, RuleId, Station};

use crate::message::{Answer, Command, News, Settled};
use crate::orphans::Orphans;
use crate::removal::{Removal, RemovalReason};
use crate::steps;
use crate::switch::Switch;
use crate::sync::RecvTimeoutError;
use crate::totals::Totals;
use crate::v2p::lock;

/// Least time between two changes caused by stations.
const LEARNING_INTERVAL: Duration = Duration::from_millis(10);

/// Most steps of one turn to end connections whose time is over.
pub const EXPIRED_AT_ONCE: usize = 4_096;

/// The time that a turn spends on them, and that passes before the next if some are left.
const EXPIRY_TIME: Duration = Duration::from_millis(5);

/// Most stations waiting for the next change.
const MAX_MOVES: usize = 8_192;

/// Longest time for which timeouts and silent stations go unnoticed.
const TICK: Duration = Duration::from_secs(1);

/// Most news that one poll handles, so that it ends.
const NEWS_PER_POLL: usize = 1_024;

/// How long to wait for an answer before checking that the worker lives.
const PATIENCE: Duration = Duration::from_millis(100);

/// A change that every worker follows, while some caches may still need repair.
pub(crate) struct Unsettled {
    delta: Arc<Delta>,
    over: Vec<(RuleId, RemovalReason)>,
    made_at: Instant,
    /// The findings for each worker; kept so that no worker has to free them.
    findings: Vec<Option<Arc<Findings>>>,
    /// By worker: entries to walk.
    requests: Vec<(usize, Box<Requests>)>,
    /// Reports of the workers that are finished.
    settled: Vec<Settled>,
}

impl Switch {
    /// Applies a change as a whole; on an error, nothing is done. Returns when every worker
    /// follows it.
    ///
    /// Caches are repaired afterwards, between bursts: see [`Switch::settle`].
    ///
    /// # Errors
    /// If any of its operations cannot be done.
    pub fn apply(&mut self, change: &Change) -> Result<Delta, ChangeError> {
        self.apply_because(change, &[])
    }

    /// Waits for news for at most `timeout`, and handles stations, ports and timeouts.
    pub fn poll(&mut self, timeout: Duration) {
        self.walk();
        let mut wait = timeout.min(TICK);
        if !self.moves.is_empty() {
            wait = wait.min(self.next_learning - self.shared.clock.real_now());
        }
        if !self.upkeep.lessons.is_empty() {
            wait = wait.min(self.next_lesson - self.shared.clock.real_now());
        }
        wait = wait.min(self.trainer.rest(self.shared.clock.real_now()));
        if self.are_connections_left {
            wait = wait.min(EXPIRY_TIME);
        }
        if let Ok(news) = self.news.recv_timeout(wait) {
            self.handle_news(news);
        }
        for _ in 0..NEWS_PER_POLL {
            match self.news.try_recv() {
                Ok(news) => self.handle_news(news),
                Err(_) => break,
            }
        }
        while !self.unsettled.is_empty() {
            match self.answers.try_recv() {
                Ok(answer) => self.note_settled(answer),
                Err(_) => break,
            }
        }
        self.learn();
        self.learn_rules();
        self.tick();
        self.serve_openflow();
        let shared = self.shared.clone();
        if let Some((worker, learnt)) = self.trainer.tend(&shared.pipeline, &shared.clock) {
            self.tell(worker, Command::Install(Arc::new(learnt)));
            self.next_answer();
        }
        self.mourn();
    }

    /// Waits until the caches of every worker are repaired after the last change. The counts
    /// of rules that it removed are then known, and their ends reported. Returns the work of
    /// all changes so far.
    pub fn settle(&mut self) -> Work {
        self.walk();
        while !self.unsettled.is_empty() {
            let answer = self.receive();
            self.note_settled(answer);
        }
        self.maintenance
    }

    /// Collects all counts from every worker; rule counters are exact afterwards.
    pub fn totals(&mut self) -> Totals {
        self.settle();
        let answers = self.ask(|| Command::Report);
        self.sum(answers)
    }

    /// Brings the counters of these rules up to date; reads only entries that met one of them.
    pub fn count_rules(&mut self, rules: &[RuleId]) {
        self.settle();
        let rules = Arc::new(rules.to_vec());
        let answers = self.ask(|| Command::Count(rules.clone()));
        for answer in answers {
            if let Answer::Counted(ledger) = answer {
                steps::settle(&self.shared.pipeline, ledger);
            }
        }
    }

    /// Empties the caches of all workers. The next packet of each flow walks the tables.
    pub fn flush_caches(&mut self) {
        self.settle();
        self.by_hand = None;
        for answer in self.ask(|| Command::Flush) {
            if let Answer::Counted(ledger) = answer {
                steps::settle(&self.shared.pipeline, ledger);
            }
        }
    }

    /// Stops the workers; packets that they have received are sent first.
    ///
    /// The pipeline with its counters remains; a second call returns empty totals.
    pub fn stop(&mut self) -> Totals {
        self.settle();
        // Once all are held, no worker leaves packets for others.
        self.ask(|| Command::Hold);
        let answers = self.ask(|| Command::Stop);
        for handle in self.handles.drain(..) {
            drop(handle.commands);
            if let Err(panic) = handle.thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
        self.sum(answers)
    }

    /// Reports of ended rules that asked for it, since the last call; none where OpenFlow
    /// drives the switch, which tells its controllers.
    pub fn take_removals(&mut self) -> Vec<Removal> {
        match self.desks.is_empty() {
            true => self.collect_removals(),
            false => Vec::new(),
        }
    }

    /// The same for the caller that drives the switch.
    pub(crate) fn collect_removals(&mut self) -> Vec<Removal> {
        self.settle();
        self.upkeep.take_removals()
    }

    /// Whether ended rules wait to be reported, perhaps until their counts are known.
    pub(crate) fn may_have_removals(&self) -> bool {
        let mut unsettled = self.unsettled.iter();
        self.upkeep.has_removals() || unsettled.any(|change| !change.delta.removed.is_empty())
    }

    /// Makes the walks that workers have requested.
    fn walk(&mut self) {
        let requests = self.unsettled.back_mut();
        let requests = requests.map(|unsettled| std::mem::take(&mut unsettled.requests));
        for (worker, requests) in requests.unwrap_or_default() {
            let index = self.handles[worker].index.as_ref();
            let index = index.expect("who repairs entries keeps a record");
            let pipeline = self.shared.pipeline.read();
            let walks = index.walk(&mut self.walker, &pipeline, &requests);
            drop(pipeline);
            self.tell(worker, Command::Walked(Box::new(walks)));
        }
    }

    /// Whether a change may begin while caches are repaired after the last one (invariant 1).
    fn may_be_begun(&self, change: &Change) -> bool {
        let is_of_rules = |operation: &Operation| {
            matches!(
                operation,
                Operation::Add(_) | Operation::Modify(..) | Operation::Delete(_)
            )
        };
        let mut last = self.unsettled.iter();
        let has_record = self.handles.iter().all(|handle| handle.index.is_some());
        has_record
            && self.unsettled.len() < 2
            && last.all(|change| change.delta.is_of_rules())
            && change.operations.iter().all(is_of_rules)
    }

    pub(crate) fn apply_because(
        &mut self,
        change: &Change,
        over: &[(RuleId, RemovalReason)],
    ) -> Result<Delta, ChangeError> {
        let begun = self.shared.clock.real_now();
        let is_held = self.pipeline().needs_new_layout(change);
        // Invariant 1.
        match is_held || !self.may_be_begun(change) {
            true => drop(self.settle()),
            false => self.walk(),
        }
        let now = self.now();
        if is_held {
            self.ask(|| Command::Hold);
        }
        let (delta, forgotten) = match steps::apply(&self.shared.pipeline, change, now) {
            Ok(delta) => {
                let pipeline = self.shared.pipeline.read();
                self.shared.learned.follow(&pipeline, &delta);
                let forgotten = self.upkeep.lessons.follow(&pipeline, &delta);
                (Arc::new(delta), forgotten)
            }
            Err(error) => {
                if is_held {
                    self.ask(|| Command::Release);
                }
                return Err(error);
            }
        };
        let mut findings = Vec::new();
        for worker in 0..self.handles.len() {
            let index = self.handles[worker].index.as_ref();
            let index = index.filter(|_| !delta.has_new_layout);
            let found = index.map(|index| Arc::new(index.search(&self.pipeline(), &delta)));
            self.tell(worker, Command::Advance(delta.clone(), found.clone()));
            findings.push(found);
        }
        self.by_hand = None;
        self.unsettled.push_back(Unsettled {
            delta: delta.clone(),
            over: over.to_vec(),
            made_at: now,
            findings,
            requests: Vec::new(),
            settled: Vec::new(),
        });
        for _ in 0..self.handles.len() {
            if let Answer::Advanced(Some(requests)) = self.next_answer() {
                let last = self.unsettled.back_mut().expect("what was advanced to");
                last.requests.push(requests);
            }
        }
        self.drain_exchanges();
        self.changes.count(self.shared.clock.real_now() - begun);
        if let Some(orphans) = &mut self.orphans {
            orphans.follow(&self.shared.pipeline.read(), &delta);
        }
        if !delta.ports.is_empty() {
            self.desks.note_ports();
        }
        self.trainer.note_change();
        if let Some(change) = forgotten {
            // No cookie is left that dies with these rules, so this is the last change.
            let ended = self.apply_because(&change, &[]);
            let ended = ended.expect("rules can always be deleted");
            self.tell_ended(&ended, &[]);
        }
        Ok(Arc::unwrap_or_clone(delta))
    }

    /// Handles the answer of a worker whose caches are repaired; the last one ends the change.
    fn note_settled(&mut self, answer: Answer) {
        let Answer::Settled(settled) = answer else {
            unreachable!("whoever asks for something else waits for the answer");
        };
        let mut changes = self.unsettled.iter_mut();
        let of_change = changes.find(|change| change.delta.version == settled.version);
        let of_change = of_change.expect("a change that is settled was made");
        of_change.settled.push(settled);
        let workers = self.handles.len();
        let is_over = |first: &mut Unsettled| first.settled.len() == workers;
        while let Some(first) = self.unsettled.pop_front_if(is_over) {
            self.conclude(first);
        }
    }

    /// Ends the oldest change: it is settled everywhere.
    fn conclude(&mut self, unsettled: Unsettled) {
        let shared = self.shared.clone();
        for settled in unsettled.settled {
            steps::settle(&shared.pipeline, settled.ledger);
            self.maintenance.add(settled.work);
        }
        let Unsettled {
            delta,
            over,
            made_at,
            findings,
            ..
        } = unsettled;
        drop(findings);
        let pipeline = shared.pipeline.read();
        self.upkeep.conclude(&pipeline, &delta, &over, made_at);
        drop(pipeline);
        let now = self.now();
        let pinned = self.desks.oldest_pinned(now);
        let kept = self.kept_version.upgrade();
        let kept = kept.and_then(|kept| kept.keep(shared.clock.real_now()));
        let pinned = pinned.into_iter().chain(kept);
        let oldest = pinned.fold(delta.version, Ord::min);
        steps::reclaim(&shared.pipeline, oldest);
    }

    /// Sends the packets that wait for other workers (invariant 2).
    pub(crate) fn drain_exchanges(&mut self) {
        let with_packets = self.handles.iter().zip(&self.shared.exchanges).enumerate();
        let with_packets = with_packets.filter(|(_, (_, exchange))| !exchange.is_empty());
        let asked: Vec<usize> = with_packets.map(|(worker, _)| worker).collect();
        for worker in &asked {
            self.tell(*worker, Command::Drain);
        }
        asked.iter().for_each(|_| drop(self.next_answer()));
    }

    /// Sends every worker a command, and collects the answers.
    pub(crate) fn ask(&mut self, command: impl Fn() -> Command) -> Vec<Answer> {
        let workers = 0..self.handles.len();
        let ask = |worker| self.tell(worker, command());
        workers.clone().for_each(ask);
        workers.map(|_| self.next_answer()).collect()
    }

    pub(crate) fn tell(&self, worker: usize, command: Command) {
        // If the worker is gone, its missing answer reveals that.
        let _ = self.handles[worker].commands.send(command);
        self.shared.doorbells[worker].ring();
    }

    /// The next answer to a command; handles reports of repaired caches on the way.
    pub(crate) fn next_answer(&mut self) -> Answer {
        loop {
            match self.receive() {
                answer @ Answer::Settled(_) => self.note_settled(answer),
                answer => return answer,
            }
        }
    }

    fn receive(&self) -> Answer {
        loop {
            match self.answers.recv_timeout(PATIENCE) {
                Ok(answer) => return answer,
                Err(RecvTimeoutError::Timeout) => {
                    let has_ended = self
                        .handles
                        .iter()
                        .any(|handle| handle.thread.is_finished());
                    assert!(
                        !has_ended || !self.answers.is_empty(),
                        "a worker has ended before its time"
                    );
                }
                Err(RecvTimeoutError::Disconnected) => panic!("all workers have ended"),
            }
        }
    }

    /// A worker ends only on command, so an early end is a panic, which is passed on.
    fn mourn(&mut self) {
        let ended = self
            .handles
            .iter()
            .position(|handle| handle.thread.is_finished());
        if let Some(worker) = ended {
            let handle = self.handles.swap_remove(worker);
            match handle.thread.join() {
                Err(panic) => std::panic::resume_unwind(panic),
                Ok(()) => panic!("worker {worker} has ended without being told to"),
            }
        }
    }

    fn sum(&mut self, answers: Vec<Answer>) -> Totals {
        let mut totals = Totals::default();
        let reports = answers.into_iter().filter_map(|answer| match answer {
            Answer::Report(report) => Some(report),
            _ => None,
        });
        for report in reports {
            totals.add(&report);
            steps::settle(&self.shared.pipeline, report.ledger);
        }
        self.add_patches(&mut totals);
        self.add_former_ports(&mut totals);
        totals.stations_refused = self.upkeep.stations_refused();
        totals.stations = self.upkeep.station_counters();
        totals.learning = self.upkeep.lessons.counters;
        totals.removals_refused = self.upkeep.removals_refused();
        totals.own_changes = self.own_changes;
        totals.changes = self.changes;
        totals.maintenance = self.maintenance;
        if let Some(node) = &self.shared.node {
            let node = lock(node);
            (totals.v2p, totals.v2p_drops) = (node.counters(), node.drops());
        }
        totals.training = self.trainer.counters;
        let pipeline = self.pipeline();
        totals.version = pipeline.version();
        totals.rules = pipeline.rule_count(totals.version);
        drop(pipeline);
        totals
    }

    fn handle_news(&mut self, news: News) {
        match news {
            News::Learned(seen) => {
                for (station, port) in seen {
                    self.handle_station(station, port);
                }
            }
            News::Port(port, attachment, status) => {
                // Ignores a port that has left in the meantime.
                let present = self.routes.find(port);
                if present.is_some_and(|route| route.attachment == attachment) {
                    self.handle_port(port, status);
                }
            }
            News::Taught(taught) => self.take_lessons(taught),
            News::FinTimeouts(ended) => self.shorten_timeouts(ended),
            News::IndexJob(worker, job) => self.trainer.take_on(worker, *job),
            News::Upcalls(reports, lost) => self.upcalls.note(reports, lost),
            News::Attention => {}
        }
    }

    pub(crate) fn handle_station(&mut self, station: Station, port: PortId) {
        // A station without room stays unknown, and so is reported again.
        if self.moves.len() < MAX_MOVES {
            let now = self.now();
            self.moves.extend(self.upkeep.see(station, port, now));
        }
    }

    fn handle_port(&mut self, port: PortId, status: PortStatus) {
        self.links.insert(port, status);
        self.link_changes += 1;
        self.desks.note_ports();
        let change = match status {
            PortStatus::Finished => {
                self.open_sources.retain(|open| *open != port);
                None
            }
            PortStatus::Up | PortStatus::Down => {
                let is_up = status == PortStatus::Up && !self.settings.is_down(port);
                self.upkeep.port_state(&self.pipeline(), port, is_up)
            }
            PortStatus::Gone => {
                self.plugs.counters.gone += u64::from(self.detach(port));
                None
            }
        };
        if let Some(change) = change {
            self.apply_own(&change, &[]);
        }
    }

    /// Makes a change of the learned stations, if it is time.
    fn learn(&mut self) {
        let start = self.shared.clock.real_now();
        if self.moves.is_empty() || start < self.next_learning {
            return;
        }
        let moves = std::mem::take(&mut self.moves);
        self.apply_own(&Change::one(Operation::MoveMacs(moves)), &[]);
        // Invariant 3.
        let end = self.shared.clock.real_now();
        self.next_learning = end + LEARNING_INTERVAL.max((end - start) * 4);
    }

    /// Forgets connections whose time is over, for a short while. Where many begin and end, some
    /// may be left: the next turn then comes soon. So do those whose rules are gone.
    fn expire_connections(&mut self, now: Instant) {
        let start = self.shared.clock.real_now();
        self.are_connections_left = false;
        if let Some(orphans) = &mut self.orphans {
            let shared = self.shared.clone();
            while !orphans.is_empty() {
                match shared.connections.tracker_made() {
                    Some(tracker) => orphans.end_some(tracker, EXPIRED_AT_ONCE),
                    None => *orphans = Orphans::default(),
                }
                if shared.clock.real_now() - start > EXPIRY_TIME {
                    self.are_connections_left = true;
                    break;
                }
            }
        }
        while self.shared.connections.expire(now, EXPIRED_AT_ONCE) > 0 {
            if self.shared.clock.real_now() - start > EXPIRY_TIME {
                self.are_connections_left = true;
                return;
            }
        }
    }

    /// Ends rules and connections whose time is over, and forgets silent stations.
    fn tick(&mut self) {
        let now = self.now();
        self.expire_connections(now);
        if let Some(change) = self.upkeep.forget_silent(now) {
            self.apply_own(&change, &[]);
        }
        let shared = self.shared.clone();
        let due = self.upkeep.due(&shared.pipeline.read(), now);
        let mut uses = vec![None; due.idle.len()];
        if !due.idle.is_empty() {
            let idle = Arc::new(due.idle.clone());
            for answer in self.ask(|| Command::Uses(idle.clone())) {
                if let Answer::Used(of_worker) = answer {
                    let pairs = uses.iter_mut().zip(of_worker);
                    pairs.for_each(|(used, other)| *used = (*used).max(other));
                }
            }
        }
        let expired = self.upkeep.expired(&shared.pipeline.read(), due, &uses);
        if let Some(expired) = expired {
            self.apply_own(&expired.change, &expired.reasons);
        }
    }

    /// Applies a change of the switch's own: for stations, ports, or ended rules.
    pub(crate) fn apply_own(&mut self, change: &Change, over: &[(RuleId, RemovalReason)]) {
        self.own_changes += 1;
        let delta = self
            .apply_because(change, over)
            .expect("stations and ports can always be moved, and rules deleted");
        self.tell_ended(&delta, over);
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        // Without commands, workers end by themselves; during a panic they are not waited for.
        let handles: Vec<_> = self.handles.drain(..).collect();
        for (worker, handle) in handles.into_iter().enumerate() {
            drop(handle.commands);
            self.shared.doorbells[worker].ring();
            if !std::thread::panicking() {
                let _ = handle.thread.join();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use thalweg_io::MemoryPort;
    use thalweg_pipeline::BridgeId;

    use super::*;
    use crate::{SwitchConfig, SwitchPort};

    fn start(workers: usize) -> Switch {
        let ports = (1..=2).map(|number| {
            let (port, _) = MemoryPort::new(PortId(number), 1);
            SwitchPort::new(PortId(number), Box::new(port))
        });
        let config = SwitchConfig {
            workers,
            ..SwitchConfig::default()
        };
        Switch::start(config, ports.collect()).expect("it starts")
    }

    /// Otherwise, if another worker takes longer than [`PATIENCE`] to answer, the one that has
    /// stopped would be taken for panicked.
    #[test]
    fn a_worker_that_has_stopped_ends_when_all_have() {
        let mut switch = start(2);
        switch.ask(|| Command::Hold);
        switch.ask(|| Command::Stop);
        for _ in 0..10_000 {
            let mut handles = switch.handles.iter();
            assert!(handles.all(|handle| !handle.thread.is_finished()));
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_station_that_waits_to_be_known_is_forgotten_with_its_port() {
        let mut switch = start(1);
        let station = |mac| Station {
            bridge: BridgeId::default(),
            vlan: 0,
            mac,
        };
        switch.handle_station(station(1), PortId(1));
        switch.handle_station(station(2), PortId(1));
        switch.handle_station(station(2), PortId(2));
        switch.handle_port(PortId(1), PortStatus::Gone);
        switch.learn();
        let pipeline = switch.pipeline();
        let known: Vec<_> = pipeline.macs().stations(pipeline.version()).collect();
        assert_eq!(known, [(station(2), PortId(2))]);
    }
}
