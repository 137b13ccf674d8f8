//! The choices in which the profiles differ, so that one state machine serves all.
//!
//! - `artifact` does what the published code does, so that its numbers can be reproduced;
//! - `paper` does what the text says;
//! - `plus` is the paper with versions, and does not trust the tags of hosts.
//!
//! | choice | `artifact` | `paper` | `plus` | section |
//! | --- | --- | --- | --- | --- |
//! | a spine's hit | promotes, and the next switch resolves | rewrites | rewrites | 3.2.2 |
//! | what a spine promotes | each hit | a hit whose access bit was set, if the packet leaves the pod | as the paper | 3.2.2 |
//! | what a core admits | a carried mapping of the packet's own destination; others if they fit | promotions | promotions | 3.2.1 |
//! | what a ToR learns | sources from other ToRs; else destinations, if there is room | sources | sources | 3.2.1 |
//! | a mapping that a ToR displaces | is lost | is spilled, on the way up | as the paper | 3.2.2 |
//! | learning packets carry | the inserted mapping, even if it was spilled | where the packet goes | as the paper | 3.2.2 |
//! | a gateway's ToR draws for | each insertion | each packet that leaves it resolved | as the paper | 3.2.2, 5 |
//! | who tags misdeliveries | the host | the ToR | the ToR | 3.3 |
//! | who sends invalidation packets | ToRs without gateways | the ToR that tags | as the paper | 3.3 |
//! | the timestamp vector | once per switch | once per switch and base RTT | as the paper | 3.3 |
//! | a tagged packet's hit | is not blamed | is blamed | is blamed; must be newer than the mapping that failed | 3.3 |
//! | misdelivered packets go | to the gateway if a cache was wrong, else after the machine | to the gateway | to the gateway | 3.3 |
//! | control packets | are sent again by each switch | pass through | pass through | |
//! | mappings have versions | no | no | yes | |
//! | tags from hosts | believed | believed as far as the host needs them | as the paper | 4 |

use std::time::Duration;

/// A variant of the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Profile {
    /// The published code.
    Artifact,
    /// The text of the paper.
    Paper,
    /// `switchv2p+`: versioned mappings.
    Plus,
}

/// A switch's place in the fabric (section 3.2, Table 1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Role {
    /// Has gateways attached.
    GatewayTor,
    /// Has hosts attached, and no gateway.
    Tor,
    /// A spine above a gateway ToR.
    GatewaySpine,
    /// Any other spine.
    Spine,
    /// Above the spines.
    Core,
}

impl Role {
    /// Whether hosts or gateways are attached.
    pub const fn is_tor(self) -> bool {
        matches!(self, Role::Tor | Role::GatewayTor)
    }
}

/// When a gateway ToR may send a learning packet, and what the packet carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LearningContent {
    /// The inserted mapping, at each insertion, for any key.
    Inserted,
    /// The destination of a packet that leaves the switch resolved.
    Destination,
}

/// What a core learns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CoreLearning {
    /// A carried mapping of the packet's own destination, and resolved destinations if they
    /// fit.
    OwnDestination,
    /// Promotions.
    Promotions,
}

/// The choices of a profile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rules {
    pub spine_resolves: bool,
    pub promotes_each_hit: bool,
    pub core_learning: CoreLearning,
    /// ToRs also learn the sources of their own hosts.
    pub tor_learns_own_hosts: bool,
    /// ToRs learn destinations if they fit.
    pub tor_learns_destinations: bool,
    pub tor_spills: bool,
    pub learning_content: LearningContent,
    /// The ToR tags misdelivered packets and ignores hosts' tags; if false, the host tags.
    pub tor_tags: bool,
    /// A rewritten tagged packet names the switch that rewrote it.
    pub tagged_hit_is_blamed: bool,
    /// A tagged packet is rewritten even if it is resolved.
    pub rewrites_resolved: bool,
    pub renews_control: bool,
    pub is_versioned: bool,
    /// The old host knows where a machine went, and sends there if no cache was wrong.
    pub host_follows: bool,
    pub gateway_keeps_hit: bool,
    /// A switch may be sent another invalidation packet after the base RTT; if false, never.
    pub blames_again: bool,
}

impl Profile {
    pub(crate) const fn rules(self) -> Rules {
        let artifact = Rules {
            spine_resolves: false,
            promotes_each_hit: true,
            core_learning: CoreLearning::OwnDestination,
            tor_learns_own_hosts: false,
            tor_learns_destinations: true,
            tor_spills: false,
            learning_content: LearningContent::Inserted,
            tor_tags: false,
            tagged_hit_is_blamed: false,
            rewrites_resolved: true,
            renews_control: true,
            is_versioned: false,
            host_follows: true,
            gateway_keeps_hit: true,
            blames_again: false,
        };
        let paper = Rules {
            spine_resolves: true,
            promotes_each_hit: false,
            core_learning: CoreLearning::Promotions,
            tor_learns_own_hosts: true,
            tor_learns_destinations: false,
            tor_spills: true,
            learning_content: LearningContent::Destination,
            tor_tags: true,
            tagged_hit_is_blamed: true,
            rewrites_resolved: false,
            renews_control: false,
            is_versioned: false,
            host_follows: false,
            gateway_keeps_hit: false,
            blames_again: true,
        };
        match self {
            Profile::Artifact => artifact,
            Profile::Paper => paper,
            Profile::Plus => Rules {
                is_versioned: true,
                ..paper
            },
        }
    }
}

/// Which switches have memory (section 4, "heterogeneous memory allocation").
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MemoryPlacement {
    /// All, equally.
    #[default]
    Everywhere,
    /// Only those with hosts or gateways.
    TorsOnly,
    /// By layer, with a number of lines per switch.
    ByLayer {
        /// Lines of a core.
        core: u32,
        /// Lines of a spine, with gateways below it or not.
        spine: u32,
        /// Lines of a ToR, with gateways or not.
        tor: u32,
    },
}

impl MemoryPlacement {
    /// Lines of a switch with role `role`. `entries` is the number per switch, unless layers
    /// set it.
    pub const fn entries(self, role: Role, entries: u32) -> u32 {
        match (self, role) {
            (MemoryPlacement::ByLayer { core, .. }, Role::Core) => core,
            (MemoryPlacement::ByLayer { spine, .. }, Role::Spine | Role::GatewaySpine) => spine,
            (MemoryPlacement::ByLayer { tor, .. }, Role::Tor | Role::GatewayTor) => tor,
            (MemoryPlacement::TorsOnly, _) if !role.is_tor() => 0,
            (MemoryPlacement::TorsOnly | MemoryPlacement::Everywhere, _) => entries,
        }
    }
}

/// The probability with which a gateway ToR sends a learning packet (section 5: 0.5 %).
pub const LEARNING_PROBABILITY: f64 = 0.005;

/// The time a gateway takes for a packet (section 5, "network parameters").
pub const GATEWAY_DELAY: Duration = Duration::from_micros(40);

/// The time an old host takes to send on a misdelivered packet (section 5.2).
pub const RESEND_DELAY: Duration = Duration::from_micros(10);

/// The base RTT of the paper's fabrics (section 5, "network parameters").
pub const BASE_RTT: Duration = Duration::from_micros(12);
