//! The results of a run.
//!
//! | figure | meaning |
//! | --- | --- |
//! | `hit_rate` | 1 - packets at gateways / packets sent |
//! | `mean_fct_us` | of flows, first transmission to last delivery; not weighted |
//! | `mean_first_packet_us` | of flows, first transmission to first delivery |
//! | `mean_packet_latency_us` | of packets, transmission to delivery |
//! | `stretch` | switches that a sent packet passes |
//! | `switch_bytes` | bytes that came to a switch, outer headers removed |
//!
//! Control packets of the protocol do not count as sent, as hops or as bytes.

/// Hits by the layer of the switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Layers {
    /// At cores.
    pub core: u64,
    /// At spines, including gateway spines.
    pub spine: u64,
    /// At ToRs, including gateway ToRs.
    pub tor: u64,
}

/// Why a packet was dropped.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Drop {
    /// The queue of the port was full.
    QueueFull,
    /// It had passed 64 switches.
    TtlExpired,
    /// The link had failed, or failed while the packet was on it or waited for it.
    LinkDown,
    /// Its outer destination is not a node, or is unreachable.
    NoRoute,
    /// The gateway knows no such machine.
    UnknownDestination,
    /// A misdelivered packet found no gateway.
    NoGateway,
    /// A control packet reached a host or gateway.
    UnexpectedControl,
    /// A switch classified it as forged.
    Forged,
    /// The queue to a ToR's control plane was full (Bluebird).
    ControlPlaneFull,
    /// Too many packets waited for the gateway.
    GatewayFull,
}

/// Packets dropped, by reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Drops([u64; Drop::COUNT]);

impl Drop {
    const COUNT: usize = 10;

    /// All reasons.
    pub const ALL: [Drop; Drop::COUNT] = [
        Drop::QueueFull,
        Drop::TtlExpired,
        Drop::LinkDown,
        Drop::NoRoute,
        Drop::UnknownDestination,
        Drop::NoGateway,
        Drop::UnexpectedControl,
        Drop::Forged,
        Drop::ControlPlaneFull,
        Drop::GatewayFull,
    ];

    /// The reason's name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Drop::QueueFull => "queue_full",
            Drop::TtlExpired => "ttl_expired",
            Drop::LinkDown => "link_down",
            Drop::NoRoute => "no_route",
            Drop::UnknownDestination => "unknown_destination",
            Drop::NoGateway => "no_gateway",
            Drop::UnexpectedControl => "unexpected_control",
            Drop::Forged => "forged",
            Drop::ControlPlaneFull => "control_plane_full",
            Drop::GatewayFull => "gateway_full",
        }
    }
}

impl Drops {
    /// Packets dropped for a reason.
    pub fn of(&self, reason: Drop) -> u64 {
        self.0[reason as usize]
    }

    /// All packets dropped.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    pub(crate) fn count(&mut self, reason: Drop) {
        self.0[reason as usize] += 1;
    }
}

/// The figures of one tenant, if there are several.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct TenantReport {
    /// Packets that the tenant sent.
    pub packets_sent: u64,
    /// Times that one of its packets reached a gateway.
    pub gateway_packets: u64,
    /// As in [`Report`], over its packets.
    pub hit_rate: f64,
    /// As in [`Report`], over its flows.
    pub mean_fct_us: f64,
    /// As in [`Report`], over its flows.
    pub mean_first_packet_us: f64,
}

/// The figures of a run.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Report {
    /// Packets that tenants sent.
    pub packets_sent: u64,
    /// Packets that reached their machine.
    pub delivered: u64,
    /// Times that a packet reached a gateway.
    pub gateway_packets: u64,
    /// Packets that their host resolved.
    pub host_resolved: u64,
    /// Packets that went through a ToR's control plane.
    pub control_plane_packets: u64,
    /// Times that a packet reached a host without the machine.
    pub misdelivered: u64,
    /// The time of the last misdelivery, in µs.
    pub last_misdelivered_us: Option<f64>,
    /// Decisions to send an invalidation packet.
    pub invalidations: u64,
    /// Decisions to send a learning packet.
    pub learning_packets: u64,
    /// Packets delivered after a later one of their flow.
    pub reordered: u64,
    /// Data segments that TCP sent again.
    pub retransmitted: u64,
    /// Time-outs of TCP senders.
    pub timeouts: u64,
    /// Losses that TCP senders found without a time-out.
    pub recoveries: u64,
    /// Connections that sent everything and that both ends closed.
    pub connections_finished: u64,
    /// Connections that gave up.
    pub connections_failed: u64,
    /// Packets dropped, including control packets.
    pub drops: Drops,
    /// See the table above.
    pub hit_rate: f64,
    /// See the table above.
    pub mean_fct_us: f64,
    /// See the table above.
    pub mean_first_packet_us: f64,
    /// See the table above.
    pub mean_packet_latency_us: f64,
    /// See the table above.
    pub stretch: f64,
    /// Times that a tenant's packet reached a switch.
    pub packet_hops: u64,
    /// See the table above; by switch.
    pub switch_bytes: Vec<u64>,
    /// Hits of all packets.
    pub hits_by_layer: Layers,
    /// Hits of the first packets of flows.
    pub first_hits_by_layer: Layers,
    /// Figures of each tenant, if there are several.
    pub tenants: Vec<TenantReport>,
}
