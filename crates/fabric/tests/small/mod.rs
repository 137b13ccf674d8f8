//! A small fabric that several tests share.

use thalweg_fabric::FatTree;

/// Two pods of two ToRs; the last ToR has two gateways; 8 servers with 4 machines each.
pub(crate) fn small() -> FatTree {
    FatTree {
        pods: 2,
        tors_per_pod: 2,
        spines_per_pod: 2,
        core_links_per_spine: 1,
        servers_per_tor: 2,
        gateway_tors: vec![3],
        gateways_per_tor: 2,
    }
}
