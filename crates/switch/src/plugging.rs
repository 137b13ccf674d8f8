//! Adds and removes ports while the switch runs.
//!
//! ```text
//!   attach: the worker with the fewest ports takes it over; every worker learns the way to it;
//!           a change tells the pipeline whether it is up     -- from then on packets go there
//!   detach: a change takes it out of the pipeline            -- from then on no packet goes there
//!           every worker forgets the way; what was left for it is sent; its worker hands it out
//!   many ports at once: the same steps, each once for all
//! ```
//!
//! A port whose interface was deleted is detached automatically: it will not carry packets
//! again. Its owner sees that it is missing ([`Switch::has_port`]), and may attach another
//! with the number.
//!
//! 1. A place is reused for another port only when no packet is in flight to it: the routes
//!    are removed first, and then the exchanges are drained.
//! 2. The counts of a removed port stay in the totals, under its number.
//! 3. A port is closed on the control side: no worker waits for the kernel.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use thalweg_io::{BURST, Port, PortCounters, PortStatus};
use thalweg_packet::PortId;
use thalweg_pipeline::{BridgeId, Change, MacMove, Operation, Selector};

use crate::message::{Answer, Command};
use crate::ports::{Attached, Route, SwitchPort};
use crate::switch::{Switch, SwitchError, announcement};
use crate::totals::{PlugCounters, PortTotals, Totals};

/// A record of ports added and removed.
#[derive(Debug)]
pub(crate) struct Plugs {
    /// The counts of removed ports.
    former: BTreeMap<PortId, PortCounters>,
    pub(crate) counters: PlugCounters,
    /// Number of ports attached while the switch ran; tells apart those with the same number.
    attachments: u64,
}

impl Plugs {
    /// Creates the record of a switch with its initial ports.
    pub(crate) fn new() -> Plugs {
        Plugs {
            former: BTreeMap::new(),
            counters: PlugCounters::default(),
            attachments: 0,
        }
    }

    /// Forgets what a removed port counted.
    pub(crate) fn forget(&mut self, number: PortId) {
        self.former.remove(&number);
    }
}

impl Switch {
    /// Whether the switch has a port with this number; false if its interface is gone.
    pub fn has_port(&self, number: PortId) -> bool {
        self.routes.find(number).is_some() || self.patches.contains(number)
    }

    /// Adds a port. The existing rules answer its packets.
    ///
    /// # Errors
    /// If a port with this number exists.
    pub fn attach(&mut self, port: SwitchPort) -> Result<(), SwitchError> {
        self.attach_all(vec![port])
    }

    /// Adds ports in one change.
    ///
    /// # Errors
    /// If a port with one of the numbers exists, or two have the same. None is added then.
    pub fn attach_all(&mut self, ports: Vec<SwitchPort>) -> Result<(), SwitchError> {
        let mut numbers = BTreeSet::new();
        for number in ports.iter().map(|port| port.number) {
            if self.has_port(number) || !numbers.insert(number) {
                return Err(SwitchError::DuplicatePort { number });
            }
        }
        if ports.is_empty() {
            return Ok(());
        }
        self.settle();
        let workers = self.handles.len();
        let vacancies = self.routes.vacancies(workers, ports.len());
        let mut arrivals: Vec<Vec<(usize, Attached)>> = (0..workers).map(|_| Vec::new()).collect();
        let mut announced = Change::default();
        let mut routes = Vec::new();
        let mut sources = Vec::new();
        for (port, vacancy) in ports.into_iter().zip(vacancies) {
            let (number, is_source) = (port.number, port.is_source);
            let (attached, operation) = self.prepare(port);
            let route = Route {
                attachment: attached.attachment,
                ..vacancy
            };
            sources.extend(is_source.then_some(number));
            announced.operations.push(operation);
            routes.push((number, route));
            arrivals[route.worker].push((route.place, attached));
        }
        for (worker, arrivals) in arrivals.into_iter().enumerate() {
            if !arrivals.is_empty() {
                self.tell(worker, Command::Attach(arrivals));
                self.next_answer();
            }
        }
        self.set_routes(self.routes.with(&routes));
        self.apply_own(&announced, &[]);
        self.has_sources |= !sources.is_empty();
        self.open_sources.extend(sources);
        self.plugs.counters.attached += routes.len() as u64;
        Ok(())
    }

    /// Makes a port ready for its worker; also returns what tells the pipeline of it.
    fn prepare(&mut self, port: SwitchPort) -> (Attached, Operation) {
        let SwitchPort {
            number, mut port, ..
        } = port;
        self.plugs.attachments += 1;
        let status = status_at_first(&mut *port);
        let attached = Attached {
            attachment: self.plugs.attachments,
            ..Attached::new(number, self.settings.wrap(number, port), status)
        };
        self.links.insert(number, status);
        let set = &self.settings;
        let settings = (
            set.is_down(number),
            set.floods(number),
            set.forwards(number),
        );
        let operation = announcement(&attached, settings);
        (attached, operation)
    }

    /// Removes a port; returns whether it existed. It is closed when this returns.
    pub fn detach(&mut self, number: PortId) -> bool {
        self.detach_all(&[number].into()) > 0
    }

    /// Removes those of the ports that exist, in one change; returns how many. They are closed
    /// when this returns.
    pub fn detach_all(&mut self, numbers: &BTreeSet<PortId>) -> usize {
        let present = numbers.iter().copied();
        let present = present.filter(|number| self.routes.find(*number).is_some());
        let present: BTreeSet<PortId> = present.collect();
        if present.is_empty() {
            return 0;
        }
        // A station learned behind one later would never be forgotten.
        let is_behind = |moved: &MacMove| moved.port.is_some_and(|port| present.contains(&port));
        self.moves.retain(|moved| !is_behind(moved));
        let gone = self.upkeep.ports_gone(&present);
        self.apply_own(&gone, &[]);
        self.unplug(&present);
        present.len()
    }

    /// Removes all that a bridge has in one change: rules, groups, ports, stations and
    /// settings. Its plane ends. Its ports are closed when this returns.
    pub fn remove_bridge(&mut self, bridge: BridgeId) {
        self.close_openflow(bridge);
        self.desks.forget(bridge);
        self.tunnel_options.remove(&bridge);
        self.moves.retain(|moved| moved.station.bridge != bridge);
        self.upkeep.aging().remove_bridge(bridge);
        let pipeline = self.pipeline();
        let removal = pipeline.removal_of(bridge);
        let ports = pipeline.ports_of(bridge, pipeline.version());
        let ports: BTreeSet<PortId> = ports.map(|(port, _)| port).collect();
        drop(pipeline);
        self.apply_own(&removal, &[]);
        self.unplug(&ports);
        self.forget_patches(bridge);
        ports.iter().for_each(|port| self.forget_port(*port));
        let mut pipeline = self.shared.pipeline.write();
        pipeline.reset_table_counters(bridge);
        ports
            .iter()
            .for_each(|port| pipeline.reset_patch_counters(*port));
    }

    /// Ends all rules, groups and meters of a bridge, in one change.
    pub fn clear_bridge(&mut self, bridge: BridgeId) {
        let pipeline = self.pipeline();
        let groups = pipeline.groups_of(bridge, pipeline.version());
        let groups = groups.map(|group| Operation::DeleteGroup(group.id));
        let meters = pipeline.meters_of(bridge, pipeline.version());
        let meters = meters.map(|known| known.meter.id).collect();
        let rules = Operation::Delete(Selector::default().in_bridge(bridge));
        let others = groups.chain([Operation::DeleteMeters(meters)]);
        let operations = std::iter::once(rules).chain(others).collect();
        drop(pipeline);
        self.apply_own(&Change { operations }, &[]);
    }

    /// Closes the devices of ports that the pipeline has no more.
    fn unplug(&mut self, numbers: &BTreeSet<PortId>) {
        self.settle();
        let mut places: Vec<Vec<usize>> = vec![Vec::new(); self.handles.len()];
        for number in numbers {
            if let Some(route) = self.routes.find(*number) {
                places[route.worker].push(route.place);
                self.links.remove(number);
            }
        }
        self.open_sources.retain(|open| !numbers.contains(open));
        self.set_routes(self.routes.without(numbers));
        self.drain_exchanges(); // Invariant 1.
        for (worker, places) in places.into_iter().enumerate() {
            if places.is_empty() {
                continue;
            }
            self.tell(worker, Command::Detach(places));
            let Answer::Detached(ports) = self.next_answer() else {
                continue;
            };
            for port in ports {
                let counters = port.port.counters();
                let former = self.plugs.former.entry(port.number).or_default();
                former.add(&counters);
                self.plugs.counters.detached += 1;
            }
        }
    }

    /// Sets the limits. If a new limit is lower than the current count, nothing is removed,
    /// but nothing is added until there is room.
    pub fn set_limits(&mut self, rules: usize, groups: usize, stations: usize) {
        let mut pipeline = self.shared.pipeline.write();
        pipeline.set_limits(rules, groups, stations);
        drop(pipeline);
        self.upkeep.set_stations(stations);
    }

    /// Sets whether packets that ports receive are dropped and counted (`not_ready`), because the
    /// switch has not got its rules yet. Every worker follows when this returns.
    pub fn hold_packets(&mut self, holds: bool) {
        let set = std::sync::atomic::Ordering::Release;
        self.shared.holds_packets.store(holds, set);
        self.meet_workers();
    }

    /// Returns when every worker has begun another burst than it was at.
    pub fn meet_workers(&mut self) {
        self.settle();
        let routes = self.routes.clone();
        self.ask(|| Command::Route(routes.clone()));
    }

    fn set_routes(&mut self, routes: crate::ports::Routes) {
        self.routes = Arc::new(routes);
        let routes = self.routes.clone();
        self.ask(|| Command::Route(routes.clone()));
    }

    /// Adds the counts of removed ports (invariant 2).
    pub(crate) fn add_former_ports(&self, totals: &mut Totals) {
        for (number, counters) in &self.plugs.former {
            let mut ports = totals.ports.iter_mut();
            match ports.find(|port| port.number == *number) {
                Some(port) => port.counters.add(counters),
                None => totals.ports.push(PortTotals {
                    number: *number,
                    status: PortStatus::Gone,
                    counters: *counters,
                }),
            }
        }
        totals.ports.sort_unstable_by_key(|port| port.number);
        totals.plugs = self.plugs.counters;
    }
}

/// The initial status of an attached port. The worker later reports a finished source or a
/// missing interface, like any other news.
pub(crate) fn status_at_first(port: &mut dyn Port) -> PortStatus {
    match port.status() {
        PortStatus::Finished => PortStatus::Up,
        PortStatus::Gone => PortStatus::Down,
        status => status,
    }
}

/// Least packets of a worker: a burst on its way, a copy of it, and as many again to receive
/// into. Ports hold none while nothing comes, so their number does not matter; a packet that is
/// sent to many of them has as many copies as the pool has packets.
pub(crate) const LEAST_PACKETS: usize = 4 * BURST;

/// Refuses too few packets.
pub(crate) fn check_packets(packets: usize) -> Result<(), SwitchError> {
    match packets < LEAST_PACKETS {
        true => Err(SwitchError::FewPackets {
            packets,
            needed: LEAST_PACKETS,
        }),
        false => Ok(()),
    }
}
