//! Adds and removes ports while the switch runs.
//!
//! ```text
//!   attach: the worker with the fewest ports takes it over; every worker learns the way to it;
//!           a change tells the pipeline whether it is up     -- from then on packets go there
//!   detach: a change takes it out of the pipeline            -- from then on no packet goes there
//!           every worker forgets the way; what was left for it is sent; its worker hands it out
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

use std::collections::BTreeMap;
use std::sync::Arc;

use thalweg_io::{BURST, Port, PortCounters, PortStatus};
use thalweg_packet::PortId;
use thalweg_pipeline::{BridgeId, Change, Operation, Selector};

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
        let SwitchPort {
            number,
            mut port,
            is_source,
        } = port;
        if self.has_port(number) {
            return Err(SwitchError::DuplicatePort { number });
        }
        let workers = self.handles.len();
        let vacancy = self.routes.vacancy(workers);
        self.settle();
        self.plugs.attachments += 1;
        let attachment = self.plugs.attachments;
        let status = status_at_first(&mut *port);
        let attached = Attached {
            attachment,
            ..Attached::new(number, self.settings.wrap(number, port), status)
        };
        let settings = (self.settings.is_down(number), self.settings.floods(number));
        let announced = Change::one(announcement(&attached, settings));
        self.links.insert(number, status);
        let route = Route {
            attachment,
            ..vacancy
        };
        self.tell(
            route.worker,
            Command::Attach(route.place, Box::new(attached)),
        );
        self.next_answer();
        self.set_routes(self.routes.with(number, route));
        self.apply_own(&announced, &[]);
        if is_source {
            self.has_sources = true;
            self.open_sources.push(number);
        }
        self.plugs.counters.attached += 1;
        Ok(())
    }

    /// Removes a port; returns whether it existed. It is closed when this returns.
    pub fn detach(&mut self, number: PortId) -> bool {
        if self.routes.find(number).is_none() {
            return false;
        }
        // A station learned behind it later would never be forgotten.
        self.moves.retain(|moved| moved.port != Some(number));
        let gone = self.upkeep.port_gone(number);
        self.apply_own(&gone, &[]);
        self.unplug(&[number]);
        true
    }

    /// Removes all that a bridge has in one change: rules, groups, ports, stations and
    /// settings. Its plane ends. Its ports are closed when this returns.
    pub fn remove_bridge(&mut self, bridge: BridgeId) {
        self.close_openflow(bridge);
        self.desks.forget(bridge);
        self.moves.retain(|moved| moved.station.bridge != bridge);
        self.upkeep.aging().remove_bridge(bridge);
        let pipeline = self.pipeline();
        let removal = pipeline.removal_of(bridge);
        let ports = pipeline.ports_of(bridge, pipeline.version());
        let ports: Vec<PortId> = ports.map(|(port, _)| port).collect();
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
    fn unplug(&mut self, numbers: &[PortId]) {
        self.settle();
        let routes = numbers
            .iter()
            .filter_map(|number| Some((*number, self.routes.find(*number)?)));
        let routes: Vec<(PortId, Route)> = routes.collect();
        self.set_routes(self.routes.without(numbers));
        self.drain_exchanges(); // Invariant 1.
        for (number, route) in routes {
            self.open_sources.retain(|open| *open != number);
            self.links.remove(&number);
            self.tell(route.worker, Command::Detach(route.place));
            if let Answer::Detached(port) = self.next_answer() {
                let counters = port.port.counters();
                self.plugs.former.entry(number).or_default().add(&counters);
            }
            self.plugs.counters.detached += 1;
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
