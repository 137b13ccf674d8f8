//! Several tenants in one fabric: whose flow is whose, and how switches divide their memory.
//!
//! A trace knows no tenants. Each tenant has all machines of the placement, at the same virtual
//! addresses; the second tenant's are one server further on than the first's, and so on, so that a
//! mapping that got to another tenant would lead to a host without the machine. Which tenant a flow
//! is of is drawn from its number, by the tenants' weights: all have traffic of one kind, and one has
//! more of it than another.
//!
//! 1. A flow's number and the weights decide whose it is, nothing else.

use thalweg_v2p::{Partitions, Vni};

use crate::ecmp::mixed;
use crate::flows::vni_of;

/// A tenant beside others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tenant {
    /// Its part of the flows, in proportion to the others'.
    pub traffic: u32,
    /// Its part of the lines of each switch, in proportion to the others', where they are divided.
    pub memory: u32,
}

/// Whose a flow is.
pub(crate) struct TrafficShares {
    /// The sum of all weights up to that of each tenant.
    sums: Vec<u64>,
}

impl TrafficShares {
    pub(crate) fn new(tenants: &[Tenant]) -> TrafficShares {
        let mut sum = 0;
        let sums = tenants.iter().map(|tenant| {
            sum += u64::from(tenant.traffic);
            sum
        });
        TrafficShares {
            sums: sums.collect(),
        }
    }

    /// The position of a flow's tenant; 0 if there is one at most.
    pub(crate) fn of_flow(&self, number: u32) -> u32 {
        let total = match self.sums.last() {
            Some(&total) if total > 0 => total,
            _ => return 0,
        };
        let point = mixed(u64::from(number)) % total;
        self.sums.partition_point(|sum| *sum <= point) as u32
    }
}

/// The partitions that tenants ask for.
///
/// `None` if there are none to be made: nobody has memory.
pub(crate) fn partitions_of(tenants: &[Tenant]) -> Option<Partitions> {
    let shares = tenants.iter().enumerate();
    let shares = shares.map(|(tenant, said)| (vni_of(tenant), said.memory));
    let shares: Vec<(Vni, u32)> = shares.collect();
    Partitions::new(shares, 0).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_are_drawn_by_weight() {
        let tenant = |traffic| Tenant { traffic, memory: 1 };
        let shares = TrafficShares::new(&[tenant(6), tenant(0), tenant(3), tenant(1)]);
        let mut counts = [0; 4];
        for flow in 0..10_000 {
            counts[shares.of_flow(flow) as usize] += 1;
        }
        assert_eq!(counts[1], 0);
        for (tenant, expected) in [(0, 6_000), (2, 3_000), (3, 1_000)] {
            let count: i32 = counts[tenant];
            assert!((count - expected).abs() < 200, "{counts:?}");
        }
        let nobody = TrafficShares::new(&[]);
        assert_eq!(nobody.of_flow(7), 0);
    }
}
