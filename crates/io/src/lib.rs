//! Ports: where packets enter and leave.
//!
//! A [`Port`] receives and sends bursts of packets. This crate knows nothing of flows, and
//! does not decide where a packet goes. A worker owns its ports and one
//! [`PacketPool`](thalweg_packet::PacketPool), and calls each port once per burst:
//!
//! ```
//! use thalweg_io::{CyclePort, NullPort, Port};
//! use thalweg_packet::{Instant, Packet, PacketPool, PortId};
//!
//! let mut pool = PacketPool::with_capacity(64, 2048);
//! let mut source = CyclePort::new(PortId(1), vec![Packet::from_bytes(&[0; 60])]);
//! let mut sink = NullPort::default();
//! let mut burst = Vec::new();
//!
//! source.receive(&mut pool, &mut burst, Instant::ZERO);
//! sink.send(&mut pool, &mut burst);
//! assert_eq!(sink.counters().sent_packets, thalweg_io::BURST as u64);
//! assert_eq!(pool.available(), 64);
//! ```
//!
//! # The ports
//!
//! | type | description |
//! | --- | --- |
//! | [`MemoryPort`] | a bounded queue in memory, or a pair joined by two of them |
//! | [`DummyPort`] | a queue in memory with a descriptor, driven by hand |
//! | [`CyclePort`], [`NullPort`] | an endless source from memory; a sink that counts |
//! | [`CapturePort`] | reads one capture file, writes another |
//! | [`TapPort`] | a Linux tap interface |
//! | [`AfPacketPort`] | an existing Linux interface; [`ReceiveMethod`] says how it receives |
//! | [`AfXdpPort`] | the same by AF_XDP; [`XdpMode`] says how near to the card |
//! | [`TunnelDevice`] | a tunnel to other hosts; all of a switch share a [`TunnelHub`] |
//! | [`UnderlayPort`] | a port wrapper that also carries outer packets of native tunnels |
//! | [`FaultPort`] | a port wrapper that loses, repeats, damages, cuts and swaps packets |
//! | [`BlockPort`] | a port wrapper that can be told to receive or send nothing |
//! | [`PolicePort`] | a port wrapper that limits the bits and packets it receives a second |
//! | [`TracePort`] | a port wrapper that writes all packets to captures |
//!
//! A port never comes back once its interface was deleted ([`PortStatus::Gone`]).
//! [`LinkWatch`] waits until interfaces change, so that the owner can open the port again.
//!
//! # Invariants
//!
//! 1. Nothing is silent: a packet that a port does not pass on is counted under one
//!    [`DropReason`].
//! 2. A port never blocks. It never allocates per packet once its buffers have grown to its
//!    longest packet.
//! 3. No port reads a clock: the time of a packet is the `now` of its burst, or its capture
//!    time.
//! 4. An interface of a network namespace is at most one port, across all processes
//!    (`sys/claim.rs`).
//! 5. `unsafe` is in `sys` only, which wraps system calls, and knows no
//!    ports.

mod af_packet;
mod af_xdp;
mod block;
mod capture;
mod config;
mod counters;
mod dummy;
mod error;
mod fault;
mod links;
mod memory;
mod offload;
mod police;
mod port;
mod sink;
#[allow(unsafe_code)]
mod sys;
mod tap;
mod trace;
mod tunnel;

pub use af_packet::{AfPacketPort, ReceiveMethod};
pub use af_xdp::{AfXdpPort, XdpMode, XdpSettings};
pub use block::{Block, BlockPort};
pub use capture::{AppendedFile, CapturePort, CaptureReader, CaptureWriter};
pub use config::{OpenedPort, PortConfig, PortKind, open, open_with_remarks};
pub use counters::{DropReason, Drops, PortCounters};
pub use dummy::{DummyConnection, DummyEnd, DummyHandle, DummyPort, dummy_counts};
pub use error::Error;
pub use fault::{FaultCounters, FaultPort, FaultRates};
pub use links::{LinkWatch, interfaces, set_address, set_mtu};
pub use memory::{CyclePort, MemoryHandle, MemoryPort, NullPort};
pub use police::{PolicePort, Policing, PolicingRate, PolicingRates};
pub use port::{BURST, Port, PortStatus, send_burst};
pub use tap::TapPort;
pub use trace::TracePort;
pub use tunnel::{
    SENDERS, TunnelCause, TunnelDevice, TunnelDeviceSettings, TunnelHub, TunnelOpenError,
    TunnelPush, TunnelWay, Underlay, UnderlayPort,
};
