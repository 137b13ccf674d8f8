//! Holds the parts that all devices of a switch share: ports, maps of options, sockets, counters.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thalweg_packet::wire::{EtherType, IpProtocol, MacAddress};
use thalweg_packet::{Instant, PortId, TunnelValues};
use thalweg_tunnel::{
    Endpoints, InnerIp, InnerType, OptionMap, OptionMapping, OuterHeader, Outgoing, PacketTypeMode,
    PortValue, TunnelInsertError, TunnelListener, TunnelPort, TunnelPorts, TunnelType,
};

use super::counts::{TunnelCause, TunnelCounters};
use super::depart::{outgoing, received_metadata};
use super::device::TunnelDevice;
use super::seat::Seat;
use super::senders::Senders;
use super::socket::{SocketKey, TunnelSocket};
use super::underlay::Underlay;
use crate::sys::{Carrier, IpFamily};

/// Most addresses that are remembered as this host's own.
const OWN_MAX: usize = 1_024;

/// Which device to open.
#[derive(Clone, Debug)]
pub struct TunnelDeviceSettings {
    /// The number that rules use.
    pub number: PortId,
    /// The name of the interface.
    pub name: String,
    /// The configuration.
    pub port: TunnelPort,
    /// The number of the port's listener, for texts.
    pub datapath_port: u32,
    /// The bridge, whose map of options counts.
    pub bridge: u32,
    /// How outer packets go.
    pub way: TunnelWay,
}

/// How the outer packets of a tunnel go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TunnelWay {
    /// Through sockets of this host, whose kernel routes.
    Sockets,
    /// Through bridges of the switch ([`UnderlayPort`](crate::UnderlayPort)), by its own routes.
    Native,
}

/// What a native tunnel does with a packet.
#[derive(Clone, Debug)]
pub struct TunnelPush {
    /// What it puts in front.
    pub header: OuterHeader,
    /// The type of the tunnel.
    pub tunnel_type: TunnelType,
    /// The bridge that receives the frame, as if its own port had sent it.
    pub bridge: String,
}

/// Why a tunnel's device cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TunnelOpenError {
    /// Another port of the switch is in the way.
    #[error(transparent)]
    Insert(#[from] TunnelInsertError),
    /// A device with this number is open.
    #[error("port {0} is a tunnel already; close it first")]
    NumberTaken(PortId),
    /// No device with this number is open, in this bridge and in this way.
    #[error("port {0} is no such tunnel; open it first")]
    NotOpen(PortId),
    /// Packets without Ethernet header cannot be switched.
    #[error("packet_type=ptap is not supported: use legacy_l2 or legacy_l3")]
    PacketType,
    /// A socket cannot be opened.
    #[error("cannot receive {what}: {source}{}", advice(.source))]
    Socket {
        /// What would be received.
        what: String,
        /// The operating system's answer.
        source: io::Error,
    },
}

fn advice(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::AddrInUse => {
            "; another program or a tunnel of the kernel has the UDP port: stop it or set dst_port"
        }
        io::ErrorKind::PermissionDenied => "; run as root or with CAP_NET_RAW",
        _ => "",
    }
}

/// What devices share. Clones are of one hub.
#[derive(Clone, Debug, Default)]
pub struct TunnelHub(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    counts: TunnelCounters,
    senders: Senders,
    underlay: Mutex<Underlay>,
    refuses_native: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    table: Arc<TunnelTable>,
    sockets: BTreeMap<SocketKey, SharedSocket>,
}

/// A socket and the ports that share it, of which the first receives.
#[derive(Debug)]
struct SharedSocket {
    socket: Arc<TunnelSocket>,
    sharers: Vec<PortId>,
}

/// The ports of all devices.
#[derive(Clone, Debug, Default)]
pub(super) struct TunnelTable {
    pub(super) ports: TunnelPorts<PortId>,
    pub(super) places: BTreeMap<PortId, Place>,
    /// Addresses of this host at which packets came.
    pub(super) own: BTreeSet<IpAddr>,
    maps: BTreeMap<u32, OptionMap>,
    empty: OptionMap,
}

/// One state of the ports, and what all devices share.
#[derive(Clone, Copy, Debug)]
pub(super) struct TunnelView<'a> {
    pub(super) table: &'a TunnelTable,
    pub(super) hub: &'a TunnelHub,
}

/// A port's device and bridge.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) seat: Arc<Seat>,
    pub(super) bridge: u32,
    pub(super) way: TunnelWay,
}

impl TunnelWay {
    /// The sockets that a port needs.
    fn keys(self, port: &TunnelPort) -> Result<Vec<SocketKey>, TunnelOpenError> {
        match (port.packet_type, self) {
            (PacketTypeMode::Aware, _) => Err(TunnelOpenError::PacketType),
            (_, TunnelWay::Sockets) => Ok(keys_of(port)),
            (_, TunnelWay::Native) => Ok(Vec::new()),
        }
    }
}

impl TunnelTable {
    /// Whether some tunnel goes through bridges.
    pub(super) fn has_native(&self) -> bool {
        let mut places = self.places.values();
        places.any(|place| place.way == TunnelWay::Native)
    }

    /// The map of options of a bridge.
    pub(super) fn map(&self, bridge: u32) -> &OptionMap {
        self.maps.get(&bridge).unwrap_or(&self.empty)
    }
}

impl TunnelHub {
    /// A hub without devices.
    pub fn new() -> TunnelHub {
        TunnelHub::default()
    }

    /// Opens a device.
    ///
    /// Receiving sockets are in this thread's network namespace, sending ones in that of the
    /// thread that first sends.
    ///
    /// # Errors
    /// If another port takes the same packets, or a socket cannot be opened.
    pub fn open(&self, settings: TunnelDeviceSettings) -> Result<TunnelDevice, TunnelOpenError> {
        let TunnelDeviceSettings {
            number,
            name,
            port,
            datapath_port,
            bridge,
            way,
        } = settings;
        let keys = way.keys(&port)?;
        let is_by_udp = port.kind().default_port().is_some();
        let mut state = self.lock();
        if state.table.places.contains_key(&number) {
            return Err(TunnelOpenError::NumberTaken(number));
        }
        let failed = |source| TunnelOpenError::Socket {
            what: "anything".to_owned(),
            source,
        };
        let seat = Arc::new(Seat::new().map_err(failed)?);
        let mut table = TunnelTable::clone(&state.table);
        table.ports.insert(number, &name, port, datapath_port)?;
        let place = Place {
            seat: seat.clone(),
            bridge,
            way,
        };
        table.places.insert(number, place);
        if let Err(error) = state.share_sockets(number, &seat, &keys) {
            state.leave_sockets(number, &[]);
            return Err(error);
        }
        state.table = Arc::new(table);
        let is_by_udp = way == TunnelWay::Sockets && is_by_udp;
        Ok(TunnelDevice::new(
            (number, way, is_by_udp),
            self.clone(),
            seat,
        ))
    }

    /// Gives an open device another configuration; its number and its counters stay.
    ///
    /// # Errors
    /// As [`TunnelHub::open`]; then the device has its old configuration.
    pub fn reconfigure(&self, settings: TunnelDeviceSettings) -> Result<(), TunnelOpenError> {
        let TunnelDeviceSettings {
            number,
            name,
            port,
            datapath_port,
            bridge,
            way,
        } = settings;
        let keys = way.keys(&port)?;
        let mut state = self.lock();
        let mut table = TunnelTable::clone(&state.table);
        let place = table.places.get_mut(&number);
        let place = place.filter(|place| (place.bridge, place.way) == (bridge, way));
        let seat = place.ok_or(TunnelOpenError::NotOpen(number))?.seat.clone();
        let old_keys = table.ports.get(number).map(keys_of).unwrap_or_default();
        table.ports.insert(number, &name, port, datapath_port)?;
        if let Err(error) = state.share_sockets(number, &seat, &keys) {
            state.leave_sockets(number, &old_keys);
            return Err(error);
        }
        state.leave_sockets(number, &keys);
        state.table = Arc::new(table);
        Ok(())
    }

    /// Takes a device out; another receives from its sockets from now on.
    pub(super) fn close(&self, number: PortId, seat: &Arc<Seat>) {
        let mut state = self.lock();
        let place = state.table.places.get(&number);
        if !place.is_some_and(|place| Arc::ptr_eq(&place.seat, seat)) {
            return;
        }
        state.leave_sockets(number, &[]);
        let mut table = TunnelTable::clone(&state.table);
        table.ports.remove(number);
        table.places.remove(&number);
        state.table = Arc::new(table);
    }

    /// Sets which options of Geneve are which fields, in the tunnels of a bridge.
    pub fn set_option_map(&self, bridge: u32, map: OptionMap) {
        let mut state = self.lock();
        let mut table = TunnelTable::clone(&state.table);
        table.maps.insert(bridge, map);
        state.table = Arc::new(table);
    }

    /// The option of Geneve that a field (`tun_metadata`, by its number) is in the tunnels of a
    /// bridge.
    pub fn option(&self, bridge: u32, index: u16) -> Option<OptionMapping> {
        self.table().maps.get(&bridge)?.mapping(index)
    }

    /// How often each thing happened for which packets were dropped, or options left out.
    pub fn counts(&self) -> Vec<(&'static str, u64)> {
        self.0.counts.list()
    }

    /// The ports, as `ofproto/list-tunnels` prints them.
    pub fn list_text(&self) -> String {
        self.table().ports.list_text()
    }

    /// What listens, as `tnl/ports/show` prints it.
    pub fn listeners_text(&self) -> String {
        self.table().ports.listeners_text()
    }

    /// Remembers an address of this host.
    pub(super) fn note_own(&self, address: IpAddr) {
        let mut state = self.lock();
        if state.table.own.len() < OWN_MAX && !state.table.own.contains(&address) {
            let mut table = TunnelTable::clone(&state.table);
            table.own.insert(address);
            state.table = Arc::new(table);
        }
    }

    pub(super) fn table(&self) -> Arc<TunnelTable> {
        self.lock().table.clone()
    }

    /// Routes and neighbours of native tunnels, and the bridges that carry them.
    ///
    /// Devices wait while it is held. Lock poisoning is ignored: no step leaves half a change.
    pub fn underlay(&self) -> MutexGuard<'_, Underlay> {
        let underlay = &self.0.underlay;
        underlay.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of packets on their way between native tunnels and bridges.
    pub fn waiting(&self) -> usize {
        let table = self.table();
        let inboxes = table.places.values().map(|place| place.seat.inbox.len());
        let links = self.underlay();
        let links = links.links.values().filter_map(|link| link.inbox.as_ref());
        inboxes.sum::<usize>() + links.map(|inbox| inbox.len()).sum::<usize>()
    }

    /// The port of a received packet with these values and this type (0 for Ethernet), among those
    /// that listen where `number` does; `None` if that is no tunnel.
    pub fn receiver(
        &self,
        number: PortId,
        values: &TunnelValues,
        packet_type: u32,
    ) -> Option<Option<PortId>> {
        let table = self.table();
        let listener = TunnelListener::of(table.ports.get(number)?);
        let metadata = received_metadata(values);
        let inner = match packet_type {
            0 => InnerType::Ethernet,
            ether_type => InnerType::Bare(EtherType(ether_type as u16)),
        };
        Some(table.ports.find_at(listener, &metadata, inner))
    }

    /// What a tunnel makes of a packet with these values, from a port and with an IP header;
    /// `None` if the port is no tunnel.
    ///
    /// # Errors
    /// Why it would drop the packet.
    pub fn preview(
        &self,
        number: PortId,
        values: &TunnelValues,
        inner: (PortId, Option<InnerIp>),
    ) -> Option<Result<Outgoing, TunnelCause>> {
        let table = self.table();
        let port = table.ports.get(number)?;
        let made = outgoing(&table, (number, port), values, inner);
        Some(made.map(|(outgoing, _)| outgoing))
    }

    /// What a native tunnel puts in front of the packets that it sends with these values, and which
    /// bridge then receives them; `None` if the port is none, or native tunnels may carry nothing.
    /// Nothing is asked of the network.
    ///
    /// # Errors
    /// Why it would drop them.
    pub fn preview_push(
        &self,
        number: PortId,
        outgoing: &Outgoing,
        inner: InnerType,
        now: Instant,
    ) -> Option<Result<TunnelPush, TunnelCause>> {
        let table = self.table();
        let port = table.ports.get(number)?;
        let is_native = table.places.get(&number)?.way == TunnelWay::Native;
        if !is_native || !self.allows_native() {
            return None;
        }
        Some(self.push_of(port, outgoing, inner, now))
    }

    fn push_of(
        &self,
        port: &TunnelPort,
        outgoing: &Outgoing,
        inner: InnerType,
        now: Instant,
    ) -> Result<TunnelPush, TunnelCause> {
        let mut metadata = outgoing.metadata.clone();
        let endpoints = metadata.endpoints;
        let foreseen = (self.underlay()).foresee(endpoints, outgoing.packet_mark, now);
        let (link, source, bridge) = foreseen?;
        let endpoints = Endpoints::new(source, endpoints.destination());
        metadata.endpoints = endpoints.ok_or(TunnelCause::MixedFamilies)?;
        let settings = port.header_settings();
        let header = OuterHeader::for_frame(port.kind(), &metadata, link, inner, settings);
        Ok(TunnelPush {
            header: header.map_err(|_| TunnelCause::Encapsulation)?,
            tunnel_type: port.tunnel_type,
            bridge,
        })
    }

    /// The number of the datapath's port for tunnels that takes a packet which a bridge sends to
    /// its own port; `None` if none does.
    pub fn preview_pop(
        &self,
        bridge: &str,
        to: (MacAddress, IpAddr),
        (protocol, destination_port): (IpProtocol, u16),
    ) -> Option<u32> {
        let table = self.table();
        if !table.has_native() || !self.underlay().is_at(bridge, to) {
            return None;
        }
        let destination_port = match protocol {
            IpProtocol::UDP => destination_port,
            _ => 0,
        };
        let mut listeners = table.ports.listeners_at(protocol, destination_port);
        listeners.next().map(|active| active.datapath_port)
    }

    /// Whether a tunnel sends packets without Ethernet.
    pub fn is_layer3(&self, number: PortId) -> bool {
        let table = self.table();
        let port = table.ports.get(number);
        port.is_some_and(|port| port.packet_type == PacketTypeMode::LegacyL3)
    }

    /// Whether native tunnels carry packets. Without them they drop all, as Open vSwitch's
    /// userspace datapath does without `tnl_push_pop`.
    pub fn allow_native(&self, is_allowed: bool) {
        self.0.refuses_native.store(!is_allowed, Ordering::Relaxed);
    }

    /// Whether native tunnels carry packets.
    pub fn allows_native(&self) -> bool {
        !self.0.refuses_native.load(Ordering::Relaxed)
    }

    pub(super) fn counters(&self) -> &TunnelCounters {
        &self.0.counts
    }

    pub(super) fn senders(&self) -> &Senders {
        &self.0.senders
    }

    /// Lock poisoning is ignored: the table is replaced as a whole.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Has a port share sockets; those that are not open yet it opens, to receive from them.
    fn share_sockets(
        &mut self,
        number: PortId,
        seat: &Arc<Seat>,
        keys: &[SocketKey],
    ) -> Result<(), TunnelOpenError> {
        for key in keys {
            if let Some(shared) = self.sockets.get_mut(key) {
                if !shared.sharers.contains(&number) {
                    shared.sharers.push(number);
                }
                continue;
            }
            let failed = |source| TunnelOpenError::Socket {
                what: match (key.carrier, key.family) {
                    (Carrier::Udp, IpFamily::V4) => format!("UDP port {} over IPv4", key.port),
                    (Carrier::Udp, IpFamily::V6) => format!("UDP port {} over IPv6", key.port),
                    (Carrier::Gre, IpFamily::V4) => "GRE over IPv4".to_owned(),
                    (Carrier::Gre, IpFamily::V6) => "GRE over IPv6".to_owned(),
                },
                source,
            };
            let socket = match TunnelSocket::open(*key) {
                Ok(socket) => Arc::new(socket),
                // A host without IPv6 has the other family's tunnels still.
                Err(error) if keys.len() > 1 && lacks_family(&error) => continue,
                Err(error) => return Err(failed(error)),
            };
            seat.take_socket(&socket).map_err(failed)?;
            let sharers = vec![number];
            self.sockets.insert(*key, SharedSocket { socket, sharers });
        }
        Ok(())
    }

    /// Ends a port's share in all sockets but some.
    fn leave_sockets(&mut self, number: PortId, kept: &[SocketKey]) {
        for (key, shared) in &mut self.sockets {
            if kept.contains(key) {
                continue;
            }
            let had_it = shared.sharers.first() == Some(&number);
            if let Some(place) = self.table.places.get(&number).filter(|_| had_it) {
                place.seat.leave_socket(&shared.socket);
            }
            shared.sharers.retain(|sharer| *sharer != number);
            let next = shared.sharers.first().filter(|_| had_it);
            if let Some(place) = next.and_then(|next| self.table.places.get(next)) {
                // It only fails without memory; the next change tries again.
                let _ = place.seat.take_socket(&shared.socket);
            }
        }
        self.sockets.retain(|_, shared| !shared.sharers.is_empty());
    }
}

/// Whether the kernel does not know a family of addresses.
fn lacks_family(error: &io::Error) -> bool {
    let number = error.raw_os_error();
    matches!(number, Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL))
}

/// The sockets that a port receives from.
fn keys_of(port: &TunnelPort) -> Vec<SocketKey> {
    let carrier = match port.kind().default_port() {
        Some(_) => Carrier::Udp,
        None => Carrier::Gre,
    };
    let fixed = |value: PortValue<IpAddr>| value.fixed();
    let address = fixed(port.remote).or(port.local.and_then(fixed));
    let is_ipv6 = matches!(port.tunnel_type, TunnelType::Ip6Gre | TunnelType::Ip6Erspan);
    let families = IpFamily::ALL.into_iter().filter(|family| match address {
        Some(address) => IpFamily::of(address) == *family,
        None => !is_ipv6 || *family == IpFamily::V6,
    });
    let key = |family| SocketKey {
        family,
        carrier,
        port: port.destination_port,
    };
    families.map(key).collect()
}
