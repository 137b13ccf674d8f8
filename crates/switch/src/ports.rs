//! Ports as the workers have them: who owns which, and what is on its way out.

use thalweg_io::{Port, PortStatus};
use thalweg_packet::{Instant, Packet, PortId};

/// A port to be attached to a switch.
pub struct SwitchPort {
    /// The number rules use.
    pub number: PortId,
    /// What is behind it.
    pub port: Box<dyn Port>,
    /// Whether packets are expected from it: see [`crate::Switch::is_finished`].
    pub is_source: bool,
}

impl SwitchPort {
    /// A port that is a source.
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

/// A port of a worker.
pub(crate) struct Attached {
    pub(crate) number: PortId,
    pub(crate) port: Box<dyn Port>,
    /// Packets that leave with this burst.
    pub(crate) sending: Vec<Packet>,
    /// As it was last told to the control side.
    pub(crate) status: PortStatus,
    /// Whether its descriptor ended the last sleep.
    pub(crate) was_ready: bool,
    /// Until then its descriptor is not believed: it was ready, and nothing came.
    pub(crate) quiet_until: Instant,
}

impl Attached {
    pub(crate) fn new(number: PortId, port: Box<dyn Port>, status: PortStatus) -> Attached {
        Attached {
            number,
            port,
            sending: Vec::new(),
            status,
            was_ready: false,
            quiet_until: Instant::ZERO,
        }
    }

    /// Whether packets may still come from it.
    pub(crate) fn may_receive(&self) -> bool {
        matches!(self.status, PortStatus::Up | PortStatus::Down)
    }
}

/// Where a port is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Route {
    /// The number of the worker that owns it.
    pub(crate) worker: usize,
    /// Its place among the ports of that worker.
    pub(crate) place: usize,
}

/// Where every port is; fixed when the switch starts.
#[derive(Debug)]
pub(crate) struct Routes {
    /// Sorted by number.
    by_number: Vec<(PortId, Route)>,
}

impl Routes {
    /// Ports go round the workers in the order of `numbers`.
    pub(crate) fn new(numbers: &[PortId], workers: usize) -> Routes {
        let place = |(index, number): (usize, &PortId)| {
            let route = Route {
                worker: index % workers,
                place: index / workers,
            };
            (*number, route)
        };
        let mut by_number: Vec<_> = numbers.iter().enumerate().map(place).collect();
        by_number.sort_unstable_by_key(|(number, _)| *number);
        Routes { by_number }
    }

    /// Where a port is; `None` if the switch has none of this number.
    pub(crate) fn find(&self, number: PortId) -> Option<Route> {
        let found = self
            .by_number
            .binary_search_by_key(&number, |(known, _)| *known);
        found.ok().map(|index| self.by_number[index].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_go_round_the_workers() {
        let routes = Routes::new(&[PortId(7), PortId(3), PortId(9)], 2);
        let route = |worker, place| Some(Route { worker, place });
        assert_eq!(routes.find(PortId(7)), route(0, 0));
        assert_eq!(routes.find(PortId(3)), route(1, 0));
        assert_eq!(routes.find(PortId(9)), route(0, 1));
        assert_eq!(routes.find(PortId(8)), None);
    }
}
