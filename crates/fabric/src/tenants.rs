//! Several tenants in one fabric: the tenant of each flow, and the division of memory.
//!
//! A trace has no tenants. Each tenant has all machines of the placement, at the same virtual
//! addresses. The second tenant's are one server further on than the first's, and so on, so
//! that a mapping that reached another tenant would lead to a host without the machine. A
//! flow's tenant is drawn from its number, by the tenants' weights: all tenants have the same
//! kind of traffic in different amounts.
//!
//! 1. A flow's tenant depends only on its number and the weights.

use thalweg_v2p::{Partitions, Vni};

use crate::ecmp::mixed;

/// A tenant among several.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tenant {
    /// Its share of the flows, relative to the others'.
    pub traffic: u32,
    /// Its share of the lines of each switch, relative to the others', if they are divided.
    pub memory: u32,
}

/// The tenants' shares of the flows.
pub(crate) struct TrafficShares {
    /// For each tenant, the sum of all weights up to its own.
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

    /// The position of a flow's tenant; 0 if there is at most one.
    pub(crate) fn of_flow(&self, number: u32) -> u32 {
        let total = match self.sums.last() {
            Some(&total) if total > 0 => total,
            _ => return 0,
        };
        let point = mixed(u64::from(number)) % total;
        self.sums.partition_point(|sum| *sum <= point) as u32
    }
}

/// The network of a tenant; the first has 0, as in the published code.
pub(crate) fn vni_of(tenant: usize) -> Vni {
    Vni::new(tenant as u32).unwrap_or_default()
}

/// The partitions that the tenants' weights give.
///
/// `None` if no tenant has memory.
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
