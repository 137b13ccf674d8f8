//! SwitchV2P: virtual-to-physical addresses cached in the switches of a network.
//!
//! ```text
//!   HostAgent --packet--> SwitchAgent --> ... --> GatewayAgent     unresolved: to a gateway
//!                             |  hit: outer destination rewritten
//!                             '---------------> ... --> HostAgent  resolved: to the host
//! ```
//!
//! A tenant's packet starts towards a gateway, which knows where every virtual address is.
//! Each switch on the way has a small cache of mappings. A hit rewrites the outer destination,
//! and the packet never reaches the gateway. Caches learn from passing packets; what they
//! learn depends on the switch's place in the fabric ([`Role`]). When a machine has moved,
//! returning packets repair the caches.
//!
//! The crate is the protocol alone. Agents are structs that take a [`Packet`], change it in
//! place and give a verdict. Their own packets are polled. The simulator hands packets from
//! one agent to the next; a running switch reads and writes them as Geneve ([`wire`]).
//!
//! - It reads no clock, opens no socket, starts no thread and draws no random numbers: time
//!   and random bits are arguments.
//! - Tenants never see each other's packets or mappings: the network identifier is in every
//!   key.
//! - Handling a packet allocates nothing.
//! - Every decision has a counter ([`AgentCounters`]).
//! - Three profiles share one state machine: the published code, the paper, and the paper with
//!   versions ([`Profile`]).
//!
//! # Words
//! - *Mapping*: a virtual address, its tenant, its physical address and a version.
//! - *Place*: the physical address of a machine's host.
//! - *Resolved*: the outer destination of a packet is a host, not a gateway.
//! - *Carried mapping*: a mapping that travels in a packet's tags, spilled or promoted to a core.
//! - *Directory*: what all agents of a fabric know: gateways, switches, places of hosts.
//! - *Floor*: the version up to which a key is known not to be at a place.
//! - *Misdelivery tag*: names the host that a packet reached without finding the machine.
//! - *Partition*: the sets of a cache that one tenant has.
//! - *Demand*: offers to and lookups in a switch's cache, from which hits of other sizes follow.
//! - *Miss-ratio curve*: how often a cache would miss, by its size.
//!
//! Reference: Lior Zeno, Ang Chen, Mark Silberstein, *In-Network Address Caching for Virtual
//! Networks*, SIGCOMM 2024.

mod address;
mod cache;
mod counters;
mod demand;
mod directory;
mod floors;
mod gateway;
mod hash;
mod host;
mod mapping;
mod packet;
mod partitions;
mod rules;
mod switch;
pub mod wire;

pub use address::Address;
pub use cache::{Admission, Cache, Found, Invalidated, MappingCacheConfig, Put, Refusal, Set};
pub use counters::AgentCounters;
pub use demand::Demand;
pub use directory::{Attachment, Directory};
pub use gateway::{Database, GatewayAgent, GatewayCounters, GatewayVerdict};
pub use hash::{IndexHash, gateway_index};
pub use host::{HostAgent, HostCounters, HostVerdict};
pub use mapping::{Key, MapVersion, Mapping, SwitchId, Vni};
pub use packet::{Body, Carried, CarryReason, Data, INITIAL_TTL, Packet, Stale, Tags};
pub use partitions::{PartitionError, Partitions};
pub use rules::{
    BASE_RTT, GATEWAY_DELAY, LEARNING_PROBABILITY, MemoryPlacement, Profile, RESEND_DELAY, Role,
};
pub use switch::{AgentConfig, DropReason, Ingress, SwitchAgent, Verdict};
