//! Finds the tunnel port that an outer packet belongs to.
//!
//! Ports of one type and one UDP destination port share a [`TunnelListener`], which takes the outer
//! packets that come to its protocol and port. Among the ports of a listener, key and outer
//! addresses choose. A port says for each of them that packets must have its value, that any value
//! will do (for the local address), or that rules look at it (`flow`):
//!
//! ```text
//!   in_key   fixed, flow           a port without a key takes packets with key 0
//!   remote   fixed, flow           the sender of the packet
//!   local    fixed, any, flow      the receiver of the packet
//! ```
//!
//! That is 2 * 2 * 3 = 12 classes of ports. The first class with a port that matches wins, in
//! lexicographic order, where the first name in a line comes first. Within a class, a port for
//! packets of the packet's own kind (with or without an Ethernet header) comes before a port for
//! both. This is Open vSwitch's order (`tnl_find` of `ofproto/tunnel.c`).
//!
//! 1. No two ports have the same listener, values and packet types, so at most one port of a class
//!    matches for each kind of packet.
//! 2. A listener is there if and only if a port has it. Listeners keep the order in which their
//!    first ports came.
//! 3. Ports with and without a group policy of VXLAN do not share a UDP port.
//!
//! A search looks into at most 24 places, each in a time logarithmic in the number of ports.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::net::{IpAddr, Ipv6Addr};

use thalweg_packet::wire::IpProtocol;

use crate::{
    InnerType, OuterField, PacketTypeMode, PortValue, TunnelKind, TunnelMetadata,
    TunnelOptionProblem, TunnelPort, TunnelPortError, TunnelType, VxlanFlavour,
};

/// What takes the outer packets of a type and a UDP port: a port of Open vSwitch's datapath.
///
/// Its text is the name of that port, `vxlan_sys_4789` or `gre_sys`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TunnelListener {
    /// The type of the ports.
    pub tunnel_type: TunnelType,
    /// The UDP destination port; 0 for tunnels that do not go over UDP.
    pub destination_port: u16,
}

impl TunnelListener {
    /// The listener of a port.
    pub const fn of(port: &TunnelPort) -> Self {
        TunnelListener {
            tunnel_type: port.tunnel_type,
            destination_port: port.destination_port,
        }
    }

    /// The IP protocol of the outer packets.
    pub const fn protocol(self) -> IpProtocol {
        self.tunnel_type.kind(VxlanFlavour::Plain).protocol()
    }
}

impl fmt::Display for TunnelListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.tunnel_type {
            TunnelType::Geneve => "genev_sys",
            TunnelType::Gre => "gre_sys",
            TunnelType::Vxlan => "vxlan_sys",
            TunnelType::Erspan => "erspan_sys",
            TunnelType::Ip6Erspan => "ip6erspan_sys",
            TunnelType::Ip6Gre => "ip6gre_sys",
            TunnelType::Gtpu => "gtpu_sys",
        };
        match self.tunnel_type.default_port() {
            Some(_) => write!(f, "{name}_{}", self.destination_port),
            None => f.write_str(name),
        }
    }
}

/// A listener that has ports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ActiveListener {
    /// What listens.
    pub listener: TunnelListener,
    /// The kind of the tunnel's headers, with the flavour of the first port.
    pub kind: TunnelKind,
    /// The number of the datapath's port, as texts have it.
    pub datapath_port: u32,
    /// The number of tunnel ports.
    pub port_count: usize,
    /// Whether they are VXLAN with a group policy: all of them, or none.
    pub has_group_policy: bool,
}

/// Why a tunnel port is refused beside those that are there.
///
/// The texts are Open vSwitch's.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TunnelInsertError {
    /// The port would take the same packets as another one.
    #[error(
        "{name}: attempting to add tunnel port with same config as port '{existing}' ({config})"
    )]
    SameConfig {
        /// The name of the port that is refused.
        name: String,
        /// The name of the port that is there.
        existing: String,
        /// What both take.
        config: String,
    },
    /// The port differs from others on its UDP port in having a group policy.
    #[error(transparent)]
    GroupPolicy(TunnelPortError),
}

/// What a port takes: values are absent where any will do, or where rules look at them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct TunnelMatch {
    class: usize,
    listener: TunnelListener,
    in_key: Option<u64>,
    remote: Option<IpAddr>,
    local: Option<IpAddr>,
    packet_type: u8,
}

/// The number of classes; see the essay.
const CLASS_COUNT: usize = 12;
/// How a port says which local address packets must have.
const LOCAL_FIXED: usize = 0;
const LOCAL_ANY: usize = 1;
const LOCAL_FLOW: usize = 2;

impl TunnelMatch {
    fn of(port: &TunnelPort) -> Self {
        let (in_key, remote) = (port.in_key.unwrap_or(PortValue::Fixed(0)), port.remote);
        let local = match port.local {
            Some(PortValue::Fixed(_)) => LOCAL_FIXED,
            None => LOCAL_ANY,
            Some(PortValue::Flow) => LOCAL_FLOW,
        };
        TunnelMatch {
            class: class_of(in_key.is_flow(), remote.is_flow(), local),
            listener: TunnelListener::of(port),
            in_key: in_key.fixed(),
            remote: remote.fixed(),
            local: port.local.and_then(PortValue::fixed),
            packet_type: port.packet_type as u8,
        }
    }
}

const fn class_of(is_key_flow: bool, is_remote_flow: bool, local: usize) -> usize {
    6 * is_key_flow as usize + 3 * is_remote_flow as usize + local
}

/// A port in its place.
#[derive(Clone, Debug)]
struct Placed<T> {
    id: T,
    name: String,
    port: TunnelPort,
    datapath_port: u32,
}

/// The tunnel ports of all bridges. `T` is what the caller calls a port.
///
/// ```
/// use thalweg_tunnel::{
///     InnerType, TunnelKind, TunnelMetadata, TunnelPort, TunnelPorts, TunnelType,
/// };
///
/// let mut ports = TunnelPorts::default();
/// let options = [("remote_ip", "flow"), ("key", "flow")];
/// let parsed = TunnelPort::parse("t0", TunnelType::Geneve, options)?;
/// ports.insert(7, "t0", parsed.port, 1)?;
/// let metadata = TunnelMetadata { id: 99, ..TunnelMetadata::default() };
/// let found = |kind| ports.find(kind, 6081, &metadata, InnerType::Ethernet);
/// assert_eq!(found(TunnelKind::Geneve), Some(7));
/// assert_eq!(found(TunnelKind::Gtpu), None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct TunnelPorts<T> {
    places: BTreeMap<TunnelMatch, Placed<T>>,
    by_id: BTreeMap<T, TunnelMatch>,
    class_counts: [usize; CLASS_COUNT],
    listeners: Vec<ActiveListener>,
}

impl<T> Default for TunnelPorts<T> {
    /// No port.
    fn default() -> Self {
        TunnelPorts {
            places: BTreeMap::new(),
            by_id: BTreeMap::new(),
            class_counts: [0; CLASS_COUNT],
            listeners: Vec::new(),
        }
    }
}

impl<T: Copy + Ord> TunnelPorts<T> {
    /// Adds a port, in place of one with the same `id`.
    ///
    /// `datapath_port` is the number that texts have for the port's listener.
    ///
    /// # Errors
    /// If the port goes with those that are there no better than in [`TunnelInsertError`]; then
    /// there is no port with this `id`.
    pub fn insert(
        &mut self,
        id: T,
        name: &str,
        port: TunnelPort,
        datapath_port: u32,
    ) -> Result<(), TunnelInsertError> {
        self.remove(id);
        // Invariant 3: one port of the listener stands for all.
        let mut listeners = self.listeners.iter();
        let active = listeners.find(|active| active.listener == TunnelListener::of(&port));
        let has_group_policy = port.extensions.has_group_policy;
        if active.is_some_and(|active| active.has_group_policy != has_group_policy) {
            return Err(TunnelInsertError::GroupPolicy(TunnelPortError {
                name: name.to_owned(),
                problems: vec![TunnelOptionProblem::GroupPolicyConflict],
            }));
        }
        let place = TunnelMatch::of(&port);
        if let Some(existing) = self.places.get(&place) {
            return Err(TunnelInsertError::SameConfig {
                name: name.to_owned(),
                existing: existing.name.clone(),
                config: match_text(&port, datapath_port),
            });
        }
        self.add_listener(&port, datapath_port);
        self.class_counts[place.class] += 1;
        self.by_id.insert(id, place);
        let placed = Placed {
            id,
            name: name.to_owned(),
            port,
            datapath_port,
        };
        self.places.insert(place, placed);
        Ok(())
    }

    /// Removes a port, and gives it.
    pub fn remove(&mut self, id: T) -> Option<TunnelPort> {
        let place = self.by_id.remove(&id)?;
        let placed = self.places.remove(&place)?;
        self.class_counts[place.class] -= 1;
        let mut listeners = self.listeners.iter_mut();
        if let Some(active) = listeners.find(|active| active.listener == place.listener) {
            active.port_count -= 1;
        }
        self.listeners.retain(|active| active.port_count != 0);
        Some(placed.port)
    }

    fn add_listener(&mut self, port: &TunnelPort, datapath_port: u32) {
        let listener = TunnelListener::of(port);
        let mut listeners = self.listeners.iter_mut();
        match listeners.find(|active| active.listener == listener) {
            Some(active) => active.port_count += 1,
            None => self.listeners.push(ActiveListener {
                listener,
                kind: port.kind(),
                datapath_port,
                port_count: 1,
                has_group_policy: port.extensions.has_group_policy,
            }),
        }
    }

    /// A port's configuration.
    pub fn get(&self, id: T) -> Option<&TunnelPort> {
        let place = self.by_id.get(&id)?;
        self.places.get(place).map(|placed| &placed.port)
    }

    /// All ports, by class.
    pub fn ports(&self) -> impl Iterator<Item = (T, &TunnelPort)> {
        let placed = self.places.values();
        placed.map(|placed| (placed.id, &placed.port))
    }

    /// What listens, in the order in which it came.
    pub fn listeners(&self) -> &[ActiveListener] {
        &self.listeners
    }

    /// What listens for packets of a protocol, and for UDP to a destination port.
    ///
    /// Where tunnels of several types share a UDP port, the first one gets the packets, as in Open
    /// vSwitch. GRE and ERSPAN share a protocol, and each gives its own listeners.
    pub fn listeners_at(
        &self,
        protocol: IpProtocol,
        destination_port: u16,
    ) -> impl Iterator<Item = &ActiveListener> {
        let listeners = self.listeners.iter();
        listeners.filter(move |active| {
            let listener = active.listener;
            listener.protocol() == protocol
                && (protocol != IpProtocol::UDP || listener.destination_port == destination_port)
        })
    }

    /// The port of a received packet: of a kind of tunnel, with a UDP destination port.
    ///
    /// The flavour of VXLAN does not matter here, nor does the UDP port for tunnels without UDP.
    pub fn find(
        &self,
        kind: TunnelKind,
        destination_port: u16,
        metadata: &TunnelMetadata,
        inner: InnerType,
    ) -> Option<T> {
        let types = match kind {
            TunnelKind::Vxlan(_) => [Some(TunnelType::Vxlan), None],
            TunnelKind::Geneve => [Some(TunnelType::Geneve), None],
            TunnelKind::Gtpu => [Some(TunnelType::Gtpu), None],
            TunnelKind::Gre => [Some(TunnelType::Gre), Some(TunnelType::Ip6Gre)],
            TunnelKind::Erspan => [Some(TunnelType::Erspan), Some(TunnelType::Ip6Erspan)],
        };
        let mut types = types.into_iter().flatten();
        types.find_map(|tunnel_type| {
            let listener = TunnelListener {
                tunnel_type,
                destination_port: match kind.default_port() {
                    Some(_) => destination_port,
                    None => 0,
                },
            };
            self.find_at(listener, metadata, inner)
        })
    }

    /// The port of a packet that a listener received.
    pub fn find_at(
        &self,
        listener: TunnelListener,
        metadata: &TunnelMetadata,
        inner: InnerType,
    ) -> Option<T> {
        let own = match inner {
            InnerType::Ethernet => PacketTypeMode::LegacyL2,
            InnerType::Bare(_) => PacketTypeMode::LegacyL3,
        };
        let (sender, receiver) = (
            metadata.endpoints.source(),
            metadata.endpoints.destination(),
        );
        for (class, count) in self.class_counts.into_iter().enumerate() {
            if count == 0 {
                continue;
            }
            let (is_key_flow, is_remote_flow) = (class >= 6, class % 6 >= 3);
            let mut place = TunnelMatch {
                class,
                listener,
                in_key: (!is_key_flow).then_some(metadata.id),
                remote: (!is_remote_flow).then_some(sender),
                local: (class % 3 == LOCAL_FIXED).then_some(receiver),
                packet_type: own as u8,
            };
            for packet_type in [own, PacketTypeMode::Aware] {
                place.packet_type = packet_type as u8;
                if let Some(placed) = self.places.get(&place) {
                    return Some(placed.id);
                }
            }
        }
        None
    }

    /// The text of `ofproto/list-tunnels`, a line for each port.
    pub fn list_text(&self) -> String {
        let mut text = String::new();
        for placed in self.places.values() {
            push_port(&mut text, placed);
        }
        text
    }

    /// The text of `tnl/ports/show`, a line for each listener.
    pub fn listeners_text(&self) -> String {
        let mut text = "Listening ports:\n".to_owned();
        for active in &self.listeners {
            let ActiveListener {
                listener,
                datapath_port,
                port_count,
                ..
            } = active;
            push(
                &mut text,
                format_args!("{listener} ({datapath_port}) ref_cnt={port_count}\n"),
            );
        }
        text
    }
}

fn push(text: &mut String, arguments: fmt::Arguments<'_>) {
    text.write_fmt(arguments).expect("a string takes any text");
}

/// What a port takes, as Open vSwitch prints it.
fn match_text(port: &TunnelPort, datapath_port: u32) -> String {
    let any = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
    let local = port.local.map_or(any, |local| local.or(any));
    let mut text = match (port.remote, port.local) {
        (PortValue::Fixed(remote), _) => format!("{local}->{remote}"),
        (PortValue::Flow, Some(PortValue::Flow)) => "flow->flow".to_owned(),
        (PortValue::Flow, _) => format!("{local}->flow"),
    };
    let key = key_text(port.in_key.unwrap_or(PortValue::Fixed(0)));
    let mode = port.packet_type.name();
    push(
        &mut text,
        format_args!(", key={key}, {mode}, dp port={datapath_port}"),
    );
    text
}

/// A line of `ofproto/list-tunnels`.
fn push_port<T>(text: &mut String, placed: &Placed<T>) {
    let Placed {
        name,
        port,
        datapath_port,
        ..
    } = placed;
    let taken = match_text(port, *datapath_port);
    let tunnel_type = port.tunnel_type;
    push(
        text,
        format_args!("port {datapath_port}: {name} ({tunnel_type}: {taken}"),
    );
    if port.out_key != port.in_key {
        let key = port.out_key.map_or("none".to_owned(), key_text);
        push(text, format_args!(", out_key={key}"));
    }
    match port.ttl {
        OuterField::Inherit => text.push_str(", ttl=inherit"),
        OuterField::Fixed(ttl) => push(text, format_args!(", ttl={ttl}")),
    }
    match port.tos {
        OuterField::Inherit => text.push_str(", tos=inherit"),
        OuterField::Fixed(0) => {}
        OuterField::Fixed(tos) => push(text, format_args!(", tos={tos:#x}")),
    }
    if !port.dont_fragment {
        text.push_str(", df=false");
    }
    if port.has_checksum {
        text.push_str(", csum=true");
    }
    text.push_str(")\n");
}

fn key_text(key: PortValue<u64>) -> String {
    match key {
        PortValue::Flow => "flow".to_owned(),
        PortValue::Fixed(0) => "0".to_owned(),
        PortValue::Fixed(key) => format!("{key:#x}"),
    }
}
