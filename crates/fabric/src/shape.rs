//! The size of a fabric: its counts, the paper's two, and the limits.
//!
//! The limits are those of the addresses (`topology.rs`): 84 pods, 256 cores, 256 ToRs and 256
//! spines a pod, 256 endpoints a ToR.

use thiserror::Error;

const MAX_PODS: u32 = 84;
const MAX_OF_A_BYTE: u32 = 256;

/// The size of a fat tree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FatTree {
    /// Pods.
    pub pods: u32,
    /// ToRs of a pod.
    pub tors_per_pod: u32,
    /// Spines of a pod.
    pub spines_per_pod: u32,
    /// Cores that a spine is linked to; the fabric has this times `spines_per_pod` cores.
    pub core_links_per_spine: u32,
    /// Servers of a ToR.
    pub servers_per_tor: u32,
    /// The ToRs that have gateways, by their number in the fabric.
    pub gateway_tors: Vec<u32>,
    /// Gateways of each of these.
    pub gateways_per_tor: u32,
}

impl FatTree {
    /// FT8-10K of the paper's section 5: 128 servers, 80 switches.
    pub fn ft8_10k(gateways_per_tor: u32) -> FatTree {
        FatTree {
            pods: 8,
            tors_per_pod: 4,
            spines_per_pod: 4,
            core_links_per_spine: 4,
            servers_per_tor: 4,
            gateway_tors: vec![0, 10, 20, 31],
            gateways_per_tor,
        }
    }

    /// FT16-400K: 12,800 servers, 816 switches, gateways on the last ToR of every second pod.
    pub fn ft16_400k() -> FatTree {
        FatTree {
            pods: 50,
            tors_per_pod: 8,
            spines_per_pod: 8,
            core_links_per_spine: 2,
            servers_per_tor: 32,
            gateway_tors: (0..25).map(|pair| pair * 16 + 7).collect(),
            gateways_per_tor: 10,
        }
    }

    /// A fabric in which each leaf is linked to every spine; the last leaf has the gateways.
    pub fn leaf_spine(leaves: u32, spines: u32, servers: u32, gateways: u32) -> FatTree {
        FatTree {
            pods: 1,
            tors_per_pod: leaves,
            spines_per_pod: spines,
            core_links_per_spine: 0,
            servers_per_tor: servers,
            gateway_tors: vec![leaves.saturating_sub(1)],
            gateways_per_tor: gateways,
        }
    }

    /// Checks that all nodes have addresses, and links between them.
    ///
    /// # Errors
    /// If a size is out of range.
    pub fn check(&self) -> Result<(), TopologyError> {
        let limits = [
            ("pods", self.pods, 1, MAX_PODS),
            ("ToRs a pod", self.tors_per_pod, 1, MAX_OF_A_BYTE),
            ("spines a pod", self.spines_per_pod, 1, MAX_OF_A_BYTE),
            ("servers a ToR", self.servers_per_tor, 1, MAX_OF_A_BYTE),
            ("gateways a ToR", self.gateways_per_tor, 0, MAX_OF_A_BYTE),
        ];
        let cores = (
            "cores",
            self.spines_per_pod
                .saturating_mul(self.core_links_per_spine),
            u32::from(self.pods > 1),
            MAX_OF_A_BYTE,
        );
        let endpoints = (
            "servers and gateways a ToR",
            self.servers_per_tor.saturating_add(self.gateways_per_tor),
            1,
            MAX_OF_A_BYTE,
        );
        for (what, count, least, most) in limits.into_iter().chain([cores, endpoints]) {
            if !(least..=most).contains(&count) {
                return Err(TopologyError::Size {
                    what,
                    count,
                    least,
                    most,
                });
            }
        }
        let tors = self.pods * self.tors_per_pod;
        let is_in_order = self.gateway_tors.is_sorted_by(|one, other| one < other);
        match self.gateway_tors.iter().find(|&&tor| tor >= tors) {
            Some(&tor) => Err(TopologyError::NoSuchTor { tor, tors }),
            None if !is_in_order => Err(TopologyError::GatewayOrder),
            None => Ok(()),
        }
    }
}

/// Why a fabric cannot be built.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum TopologyError {
    /// A size without addresses, or with nothing to build.
    #[error("{count} {what}: give from {least} to {most}")]
    Size {
        /// The kind of count.
        what: &'static str,
        /// The requested number.
        count: u32,
        /// The least number allowed.
        least: u32,
        /// The greatest number allowed.
        most: u32,
    },
    /// Gateways on a ToR that does not exist.
    #[error("gateways on ToR {tor}: give ToRs below {tors}")]
    NoSuchTor {
        /// The ToR.
        tor: u32,
        /// The number of ToRs.
        tors: u32,
    },
    /// Gateway ToRs repeated or out of order, which would number gateways differently.
    #[error("give the ToRs that have gateways in ascending order, each once")]
    GatewayOrder,
}
