//! The counters of a worker.

use std::time::Duration;

/// Counters of workers, besides their ports and caches.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WorkerCounters {
    /// Packets to a port that the pipeline has and the switch does not.
    pub no_such_port: u64,
    /// Packets that came while the switch was not ready.
    pub held: u64,
    /// Packets refused by another worker's full exchange.
    pub exchange_refused: u64,
    /// Copies that were not made because the pool was empty.
    pub copies_refused: u64,
    /// Packets and copies that rules gave a queue.
    pub queued: u64,
    /// Reports of stations that the control side had no room for; they are sent again.
    pub learned_refused: u64,
    /// Rules that packets taught and the control side had no room for; they are taught again.
    pub lessons_refused: u64,
    /// Rules that packets taught and whose cookies have as many rules as they may.
    pub rules_over_limit: u64,
    /// Bursts with ends of TCP connections that the control side had no room for.
    pub fin_timeouts_refused: u64,
    /// Packets for the controller that were handed to the control side.
    pub packet_ins: u64,
    /// Packets for the controller that the control side had no room for.
    pub packet_ins_refused: u64,
    /// Time spent following changes.
    pub maintenance_time: Duration,
    /// Longest time that maintenance and reports took between two bursts.
    pub longest_pause: Duration,
    /// Longest time between two looks at the ports while there was work.
    pub longest_round: Duration,
}

impl WorkerCounters {
    pub(crate) fn add(&mut self, other: WorkerCounters) {
        self.no_such_port += other.no_such_port;
        self.held += other.held;
        self.exchange_refused += other.exchange_refused;
        self.copies_refused += other.copies_refused;
        self.queued += other.queued;
        self.learned_refused += other.learned_refused;
        self.lessons_refused += other.lessons_refused;
        self.rules_over_limit += other.rules_over_limit;
        self.fin_timeouts_refused += other.fin_timeouts_refused;
        self.packet_ins += other.packet_ins;
        self.packet_ins_refused += other.packet_ins_refused;
        self.maintenance_time += other.maintenance_time;
        self.longest_pause = self.longest_pause.max(other.longest_pause);
        self.longest_round = self.longest_round.max(other.longest_round);
    }
}
