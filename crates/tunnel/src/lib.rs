//! Puts packets into tunnels and takes them out: VXLAN, Geneve, GRE, ERSPAN, GTP-U.
//!
//! ```text
//!   an interface's options --TunnelPort::parse--> port
//!
//!   metadata of rules --port.outgoing--> metadata of the outer packet
//!     --TunnelRoutes--> device, source, next hop --NeighborCache--> MAC address
//!     --OuterHeader--> headers, before each inner packet --push--> outer packet
//!
//!   outer packet --decapsulate_frame--> metadata, range of the inner packet
//!     --TunnelPorts--> port
//!
//!   Geneve's options <--OptionMap--> values of tun_metadata0 to tun_metadata63
//! ```
//!
//! A pure crate: it opens no socket, reads no clock, and takes sequence numbers and timestamps as
//! arguments. The formats know no ports: the caller says which kind of tunnel a packet belongs to.
//!
//! Formats, ports, routes and neighbours are those of Open vSwitch 3.1. Where they differ on
//! purpose, the essay of the module says so.

mod bytes;
mod decapsulate;
mod error;
mod erspan;
mod geneve;
mod gre;
mod gtpu;
mod header;
mod inherit;
mod kind;
mod metadata;
mod neighbors;
mod number;
mod option_map;
mod options;
mod port;
mod receive;
mod routes;
mod send;
mod source_port;
mod vxlan;

#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;

pub use bytes::PerPacket;
pub use decapsulate::{
    Decapsulated, TunnelContent, decapsulate_frame, decapsulate_ip, decapsulate_payload,
};
pub use error::{DecapsulateError, EncapsulateError};
pub use header::{HeaderSettings, LinkAddresses, OuterHeader};
pub use inherit::{DEFAULT_TTL, InnerIp, OuterField, received_tos};
pub use kind::{GTPU_PORT, InnerType, TunnelKind, VxlanFlavour};
pub use metadata::{Endpoints, ErspanValues, GroupPolicy, GtpuValues, TunnelFlags, TunnelMetadata};
pub use neighbors::{
    NeighborCache, NeighborError, NeighborSighting, arp_request, neighbor_solicitation,
};
pub use option_map::{
    FIELD_COUNT, FIELD_MAX_BYTES, FIELD_SPACE_BYTES, OptionMap, OptionMapError, OptionMapping,
    OptionRefusal, OptionValues,
};
pub use options::{OPTIONS_MAX_BYTES, TunnelOptions};
pub use port::{
    ErspanSettings, PacketTypeMode, ParsedTunnelPort, PortValue, TunnelOptionProblem, TunnelPort,
    TunnelPortError, TunnelType, VxlanExtensions,
};
pub use receive::{ActiveListener, TunnelInsertError, TunnelListener, TunnelPorts};
pub use routes::{
    FoundRoute, InterfaceAddress, RouteError, RouteOrigin, RoutePrefix, TunnelRoute, TunnelRoutes,
    source_address,
};
pub use send::{Outgoing, SendRefusal, TunnelReads};
pub use source_port::{SourcePorts, five_tuple_hash};
