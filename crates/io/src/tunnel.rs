//! Tunnels between hosts: devices that put packets into tunnels and take them out.
//!
//! A packet carries the values of its tunnel ([`thalweg_packet::Packet::tunnel`]); rules read and
//! write them. A [`TunnelDevice`] makes outer headers of them when it sends, and sets them on
//! packets that it takes out of a tunnel.
//!
//! ```text
//!   send:     values, settings of the port --> outer addresses, header --> a socket
//!   receive:  a socket --> header, outer addresses --> the port that they belong to, values
//! ```
//!
//! All devices of a switch share a [`TunnelHub`], since ports with one UDP port share a socket:
//! a packet's addresses and key say which port it belongs to. One device receives for all; when it
//! closes, another takes over. A received packet names the port that it belongs to, whichever
//! device handed it over.
//!
//! VXLAN, Geneve and GTP-U go over UDP sockets, GRE and ERSPAN over raw ones, so the kernel routes,
//! resolves addresses and fragments. A flow leaves from one of [`SENDERS`] UDP source ports, so
//! that networks with several paths use them.
//!
//! A tunnel may instead be native ([`TunnelWay::Native`]): the switch routes outer packets itself,
//! through its own bridges, as Open vSwitch does without the kernel's module. An outer packet is
//! received by the bridge's own port ([`UnderlayPort`]), and what a bridge sends to that port is
//! taken out if it belongs to a tunnel. Routes and neighbours are in the [`Underlay`].
//!
//! 1. A burst sees one state of the ports: the table is replaced as a whole, and fetching it is
//!    the only lock that devices of sockets share; native ones also lock the
//!    [`Underlay`] once for a burst.
//! 2. A packet that is refused is counted under one cause ([`TunnelHub::counts`]).
//! 3. Each receiving socket has one device that receives from it, which its descriptor wakes.
//!
//! Differences from Open vSwitch's kernel module: the UDP source ports are the kernel's choice;
//! UDP over IPv6 always has a checksum; `tun_flags` of what a socket received says nothing of
//! checksums.

mod counts;
mod deliver;
mod depart;
mod device;
mod ecn;
mod hub;
mod local;
mod native;
mod queue;
mod seat;
mod senders;
mod socket;
mod underlay;
mod values;
mod whole;

pub use counts::TunnelCause;
pub use device::TunnelDevice;
pub use hub::{TunnelDeviceSettings, TunnelHub, TunnelOpenError, TunnelPush, TunnelWay};
pub use local::UnderlayPort;
pub use senders::SENDERS;
pub use underlay::Underlay;
