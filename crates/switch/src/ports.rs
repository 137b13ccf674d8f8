//! Ports as the workers see them: the worker that owns each, and packets on their way out.
//!
//! Ports come and go while the switch runs (`plugging.rs`). A place at a worker stays when its
//! port has left, since packets in flight from other workers name places.

use std::collections::BTreeSet;
use std::time::Duration;

use thalweg_io::{NullPort, Port, PortStatus, send_burst};
use thalweg_packet::{Instant, Packet, PacketPool, PortId};

use crate::doorbell::Doorbell;

/// How often ports are asked whether they are up; this asks the operating system.
const STATUS_INTERVAL: Duration = Duration::from_millis(100);

/// How long a descriptor is ignored that was ready when nothing came.
const QUIET_TIME: Duration = Duration::from_millis(10);

/// The first and the longest sleep between two looks at ports that cannot be polled.
const SHORTEST_NAP: Duration = Duration::from_micros(100);
const LONGEST_NAP: Duration = Duration::from_millis(2);

/// A port to be attached to a switch.
pub struct SwitchPort {
    /// The number that rules use.
    pub number: PortId,
    /// The port itself.
    pub port: Box<dyn Port>,
    /// Whether packets are expected from it: see [`crate::Switch::is_finished`].
    pub is_source: bool,
}

impl SwitchPort {
    /// Creates a port that is a source.
    pub fn new(number: PortId, port: Box<dyn Port>) -> SwitchPort {
        SwitchPort {
            number,
            port,
            is_source: true,
        }
    }
}

impl std::fmt::Debug for SwitchPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SwitchPort({})", self.number)
    }
}

/// A port owned by a worker.
pub(crate) struct Attached {
    pub(crate) number: PortId,
    /// Tells apart ports that had the same number.
    pub(crate) attachment: u64,
    pub(crate) port: Box<dyn Port>,
    /// Whether packets are expected from it.
    pub(crate) is_source: bool,
    /// Packets to send with this burst.
    pub(crate) sending: Vec<Packet>,
    /// The status last reported to the control side.
    pub(crate) status: PortStatus,
    /// Whether its descriptor ended the last sleep.
    pub(crate) was_ready: bool,
    /// Until then its descriptor is ignored: it was ready, but no packet came.
    pub(crate) quiet_until: Instant,
    /// Whether the port has left, and only its place remains.
    pub(crate) is_vacant: bool,
}

impl Attached {
    pub(crate) fn new(number: PortId, port: Box<dyn Port>, status: PortStatus) -> Attached {
        Attached {
            number,
            attachment: 0,
            port,
            is_source: true,
            sending: Vec::new(),
            status,
            was_ready: false,
            quiet_until: Instant::ZERO,
            is_vacant: false,
        }
    }

    /// Creates a place without a port.
    pub(crate) fn vacant() -> Attached {
        let port = Box::new(NullPort::default());
        Attached {
            is_vacant: true,
            ..Attached::new(PortId(0), port, PortStatus::Gone)
        }
    }

    /// Whether packets may still come from it.
    pub(crate) fn may_receive(&self) -> bool {
        matches!(self.status, PortStatus::Up | PortStatus::Down)
    }
}

impl std::fmt::Debug for Attached {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Attached({}, {:?})", self.number, self.status)
    }
}

/// The ports of a worker, and what it knows of its rounds over them.
pub(crate) struct Ports {
    pub(crate) attached: Vec<Attached>,
    /// The longest time between two rounds that had something to forward.
    pub(crate) longest_round: Duration,
    /// When the last round began, if it had something to forward.
    last_round: Option<Instant>,
    next_status_check: Instant,
    nap: Duration,
    /// Whether a port was added since [`Ports::take_change`].
    is_changed: bool,
    ready: Vec<usize>,
}

impl Ports {
    pub(crate) fn new(attached: Vec<Attached>) -> Ports {
        Ports {
            attached,
            longest_round: Duration::ZERO,
            last_round: None,
            next_status_check: Instant::ZERO,
            nap: SHORTEST_NAP,
            is_changed: false,
            ready: Vec::new(),
        }
    }

    /// Puts a port at a place, which is vacant or the next one.
    pub(crate) fn attach(&mut self, place: usize, port: Attached) {
        if place == self.attached.len() {
            self.attached.push(Attached::vacant());
        }
        self.attached[place] = port;
        self.is_changed = true;
    }

    /// Takes the port from a place, which stays.
    pub(crate) fn vacate(&mut self, place: usize, pool: &mut PacketPool) -> Attached {
        let mut port = std::mem::replace(&mut self.attached[place], Attached::vacant());
        port.port.close(pool);
        port
    }

    /// Says once whether a port was added.
    pub(crate) fn take_change(&mut self) -> bool {
        std::mem::take(&mut self.is_changed)
    }

    /// Notes that a round begins; says whether the ports need a look.
    pub(crate) fn begin_round(&mut self, now: Instant) -> bool {
        self.longest_round = self.longest_round.max(self.time_of_round(now));
        let needs_look = now >= self.next_status_check;
        if needs_look {
            self.next_status_check = now + STATUS_INTERVAL;
        }
        needs_look
    }

    /// Notes that the round that began at `now` has forwarded `count` packets.
    pub(crate) fn end_round(&mut self, now: Instant, count: usize) {
        self.last_round = (count > 0).then_some(now);
    }

    /// The time since the last round began; zero if it had nothing to forward.
    pub(crate) fn time_of_round(&self, now: Instant) -> Duration {
        self.last_round.map_or(Duration::ZERO, |last| now - last)
    }

    /// Appends a burst from the port at a place; `None` if it was ready and has none. Packets
    /// get the second time.
    pub(crate) fn receive(
        &mut self,
        place: usize,
        pool: &mut PacketPool,
        burst: &mut Vec<Packet>,
        (now, time): (Instant, Instant),
    ) -> Option<usize> {
        let port = &mut self.attached[place];
        port.port.receive(pool, burst, time);
        if std::mem::take(&mut port.was_ready) && burst.is_empty() {
            port.quiet_until = now + QUIET_TIME;
            return None;
        }
        Some(burst.len())
    }

    /// Sends what waits at each port; says how many packets waited where no port is.
    pub(crate) fn flush(&mut self, pool: &mut PacketPool) -> u64 {
        let mut strays = 0;
        for port in &mut self.attached {
            if port.sending.is_empty() {
                continue;
            }
            if port.is_vacant {
                let sending = port.sending.iter();
                strays += sending.map(|packet| packet.wire_counts().0).sum::<u64>();
                pool.put_burst(&mut port.sending);
                continue;
            }
            send_burst(&mut *port.port, pool, &mut port.sending);
        }
        strays
    }

    /// The next sleep is a short one again.
    pub(crate) fn shorten_naps(&mut self) {
        self.nap = SHORTEST_NAP;
    }

    /// Sleeps until a port has something, the doorbell rings, or the ports need a look.
    pub(crate) fn sleep(
        &mut self,
        now: Instant,
        doorbell: &Doorbell,
        has_work: impl FnOnce() -> bool,
    ) {
        let mut limit = self.next_status_check - now;
        let mut descriptors = Vec::new();
        let mut places = Vec::new();
        for (place, port) in self.attached.iter().enumerate() {
            match port.port.descriptor() {
                _ if !port.may_receive() => {}
                Some(_) if port.quiet_until > now => limit = limit.min(port.quiet_until - now),
                Some(descriptor) => {
                    descriptors.push(descriptor);
                    places.push(place);
                }
                None => limit = limit.min(self.nap),
            }
        }
        doorbell.sleep(&descriptors, limit, has_work, &mut self.ready);
        for index in self.ready.drain(..) {
            self.attached[places[index]].was_ready = true;
        }
        self.nap = (self.nap * 2).min(LONGEST_NAP);
    }
}

/// The location of a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Route {
    /// The number of the worker that owns it.
    pub(crate) worker: usize,
    /// Its place among that worker's ports.
    pub(crate) place: usize,
    /// Tells apart ports that had the same number.
    pub(crate) attachment: u64,
}

/// The locations of all ports.
#[derive(Clone, Debug)]
pub(crate) struct Routes {
    /// Sorted by number.
    by_number: Vec<(PortId, Route)>,
}

impl Routes {
    /// Assigns ports to workers round-robin, in the order of `numbers`.
    pub(crate) fn new(numbers: &[PortId], workers: usize) -> Routes {
        let place = |(index, number): (usize, &PortId)| {
            let route = Route {
                worker: index % workers,
                place: index / workers,
                attachment: 0,
            };
            (*number, route)
        };
        let mut by_number: Vec<_> = numbers.iter().enumerate().map(place).collect();
        by_number.sort_unstable_by_key(|(number, _)| *number);
        Routes { by_number }
    }

    /// The location of a port; `None` if there is none with this number.
    pub(crate) fn find(&self, number: PortId) -> Option<Route> {
        let found = self
            .by_number
            .binary_search_by_key(&number, |(known, _)| *known);
        found.ok().map(|index| self.by_number[index].1)
    }

    /// Places for `count` more ports, each at the worker with the fewest by then.
    pub(crate) fn vacancies(&self, workers: usize, count: usize) -> Vec<Route> {
        let mut counts = vec![0; workers];
        for (_, route) in &self.by_number {
            counts[route.worker] += 1;
        }
        let mut taken: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); workers];
        for (_, route) in &self.by_number {
            taken[route.worker].insert(route.place);
        }
        let free = |taken: BTreeSet<usize>| (0..).filter(move |place| !taken.contains(place));
        let mut free: Vec<_> = taken.into_iter().map(free).collect();
        let vacancies = (0..count).map(|_| {
            let fewest = (0..workers).min_by_key(|worker| counts[*worker]);
            let worker = fewest.expect("a switch has a worker");
            counts[worker] += 1;
            let place = free[worker].next();
            Route {
                worker,
                place: place.expect("places do not end"),
                attachment: 0,
            }
        });
        vacancies.collect()
    }

    /// The same routes with more ports.
    pub(crate) fn with(&self, others: &[(PortId, Route)]) -> Routes {
        let gone: BTreeSet<PortId> = others.iter().map(|(number, _)| *number).collect();
        let mut routes = self.without(&gone);
        routes.by_number.extend_from_slice(others);
        routes.by_number.sort_unstable_by_key(|(number, _)| *number);
        routes
    }

    /// The same routes without some ports.
    pub(crate) fn without(&self, gone: &BTreeSet<PortId>) -> Routes {
        let others = self
            .by_number
            .iter()
            .filter(|(known, _)| !gone.contains(known));
        Routes {
            by_number: others.copied().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_go_round_the_workers() {
        let routes = Routes::new(&[PortId(7), PortId(3), PortId(9)], 2);
        let route = |worker, place| {
            Some(Route {
                worker,
                place,
                attachment: 0,
            })
        };
        assert_eq!(routes.find(PortId(7)), route(0, 0));
        assert_eq!(routes.find(PortId(3)), route(1, 0));
        assert_eq!(routes.find(PortId(9)), route(0, 1));
        assert_eq!(routes.find(PortId(8)), None);
    }

    #[test]
    fn new_ports_take_free_places_where_there_are_fewest() {
        let routes = Routes::new(&[PortId(7), PortId(3), PortId(9)], 2);
        let places = |routes: &Routes, count| -> Vec<(usize, usize)> {
            let vacancies = routes.vacancies(2, count).into_iter();
            vacancies.map(|route| (route.worker, route.place)).collect()
        };
        assert_eq!(places(&routes, 1), [(1, 1)]);
        assert_eq!(places(&routes, 4), [(1, 1), (0, 2), (1, 2), (0, 3)]);
        let without = routes.without(&[PortId(7), PortId(1)].into());
        assert_eq!(places(&without, 3), [(0, 0), (1, 1), (0, 2)]);
        let again = without.with(&[(PortId(8), without.vacancies(2, 1)[0])]);
        assert_eq!(again.find(PortId(8)), routes.find(PortId(7)));
        assert_eq!(again.find(PortId(7)), None);
        assert_eq!(again.find(PortId(9)), routes.find(PortId(9)));
    }
}
