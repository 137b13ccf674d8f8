//! Datapath flows as Open vSwitch writes and reads them.
//!
//! `dpctl/dump-flows`, `ofproto/trace` and `netdev-dummy/receive` speak of a packet as its
//! datapath does: `recirc_id(0),in_port(1),eth(src=...,dst=...),eth_type(0x0800),ipv4(...)`.
//!
//! ```text
//!   text  --FlowReader-->  DatapathFlow: a key and a mask of the standard fields
//!   cache entry  --of_entry-->  DatapathFlow
//!   DatapathFlow  --FlowWriter-->  text
//!   DatapathFlow  --compose-->  a frame that has the key
//!   effects of a walk, for a DatapathFlow  --ActionWriter-->  text of the actions
//! ```
//!
//! The texts and the bytes are those of Open vSwitch 3.1 (`lib/odp-util.c`, `lib/flow.c`,
//! `lib/netdev-dummy.c`). There is no socket and no clock here. Ports are translated by
//! functions of the caller.
//!
//! 1. What a key of the standard fields cannot hold is refused by name, unless it is zero.
//! 2. An attribute of another kind of packet than the flow's is not used, as in Open vSwitch.
//!
//! ```
//! use thalweg_packet::{PortId, standard as f};
//! use thalweg_vswitchd::datapath_text::{DatapathPort, FlowReader, FramePayload, compose};
//!
//! let ports = |port: DatapathPort<'_>| match port {
//!     DatapathPort::Number(number) => Some(PortId(number)),
//!     DatapathPort::Name(_) => None,
//! };
//! let text = "in_port(1),eth(src=50:54:00:00:00:09,dst=50:54:00:00:00:0a),eth_type(0x0800),\
//!             ipv4(src=10.0.0.2,dst=10.0.0.1,proto=1,tos=0,ttl=64,frag=no),icmp(type=8,code=0)";
//! let flow = FlowReader::new(&ports).read(text)?;
//! assert_eq!(flow.key.get(f::IP_DST), 0x0a00_0001);
//! assert_eq!(compose(&flow, FramePayload::default()).len(), 106);
//! # Ok::<(), thalweg_vswitchd::datapath_text::DatapathTextError>(())
//! ```

mod actions;
mod attribute;
mod commit;
mod compose;
mod dump;
mod error;
mod field_bits;
mod flow;
mod format;
mod front;
mod options;
mod parse;
mod push;
mod scan;
mod tunnel;

#[cfg(test)]
mod tests;

pub use actions::{ActionWriter, DatapathActions};
pub(crate) use attribute::header_fields;
pub use compose::{FramePayload, compose, compose_exactly, frames_of};
pub use dump::{FlowStatistics, dump_line};
pub use error::{DatapathTextError, FrameArgumentError};
pub use field_bits::FieldBits;
pub use flow::DatapathFlow;
pub use format::FlowWriter;
pub use options::{AskOption, OptionBits};
pub use parse::{DatapathPort, FlowReader};
pub use push::push_header_text;
pub use tunnel::{AskTunnel, Leaving, OuterTarget, TunnelOutput, no_tunnels};
