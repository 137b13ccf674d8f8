//! Tunnel ports: what the `options` of an interface say, and how tools print them.
//!
//! [`TunnelPort::parse`] reads the options (`parse.rs`), [`TunnelPort::options`] gives them back as
//! `dpif/show` prints them. Checks, defaults and texts are Open vSwitch's (`set_tunnel_config` and
//! `get_tunnel_config` of `lib/netdev-vport.c`). The types `lisp`, `stt` and `bareudp` are not
//! known here.
//!
//! 1. A port has a remote address, or takes it from each packet's metadata.
//! 2. Local and remote addresses, where both are fixed, are of one family, unless one was written
//!    as an IPv4 address mapped into IPv6.

mod parse;

use std::fmt;
use std::net::IpAddr;

pub use self::parse::{ParsedTunnelPort, TunnelOptionProblem, TunnelPortError};
use crate::{DEFAULT_TTL, HeaderSettings, OuterField, TunnelFlags, TunnelKind, VxlanFlavour};

/// The type of an interface that is a tunnel, as the `type` column says it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum TunnelType {
    /// `geneve`.
    Geneve,
    /// `gre`.
    Gre,
    /// `vxlan`.
    Vxlan,
    /// `erspan`.
    Erspan,
    /// `ip6erspan`.
    Ip6Erspan,
    /// `ip6gre`.
    Ip6Gre,
    /// `gtpu`.
    Gtpu,
}

impl TunnelType {
    /// All types.
    pub const ALL: [TunnelType; 7] = [
        TunnelType::Geneve,
        TunnelType::Gre,
        TunnelType::Vxlan,
        TunnelType::Erspan,
        TunnelType::Ip6Erspan,
        TunnelType::Ip6Gre,
        TunnelType::Gtpu,
    ];

    /// The type with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        let mut types = TunnelType::ALL.into_iter();
        types.find(|kind| kind.name() == name)
    }

    /// The name in the `type` column.
    pub const fn name(self) -> &'static str {
        match self {
            TunnelType::Geneve => "geneve",
            TunnelType::Gre => "gre",
            TunnelType::Vxlan => "vxlan",
            TunnelType::Erspan => "erspan",
            TunnelType::Ip6Erspan => "ip6erspan",
            TunnelType::Ip6Gre => "ip6gre",
            TunnelType::Gtpu => "gtpu",
        }
    }

    /// The kind of the tunnel's headers, with a flavour for VXLAN.
    pub const fn kind(self, flavour: VxlanFlavour) -> TunnelKind {
        match self {
            TunnelType::Geneve => TunnelKind::Geneve,
            TunnelType::Gre | TunnelType::Ip6Gre => TunnelKind::Gre,
            TunnelType::Vxlan => TunnelKind::Vxlan(flavour),
            TunnelType::Erspan | TunnelType::Ip6Erspan => TunnelKind::Erspan,
            TunnelType::Gtpu => TunnelKind::Gtpu,
        }
    }

    /// The UDP destination port that is usual, if the tunnel goes over UDP.
    pub const fn default_port(self) -> Option<u16> {
        self.kind(VxlanFlavour::Plain).default_port()
    }
}

impl fmt::Display for TunnelType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A value that the port fixes, or that comes from each packet's metadata (`flow`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PortValue<V> {
    /// All packets have this value.
    Fixed(V),
    /// Rules match and set the value.
    Flow,
}

impl<V: Copy> PortValue<V> {
    /// The fixed value, if it is fixed.
    pub const fn fixed(self) -> Option<V> {
        match self {
            PortValue::Fixed(value) => Some(value),
            PortValue::Flow => None,
        }
    }

    /// The value of a packet whose metadata have `current`.
    pub const fn or(self, current: V) -> V {
        match self {
            PortValue::Fixed(value) => value,
            PortValue::Flow => current,
        }
    }

    /// Whether the value comes from metadata.
    pub const fn is_flow(self) -> bool {
        matches!(self, PortValue::Flow)
    }
}

/// Which packets a port carries (`packet_type`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PacketTypeMode {
    /// `legacy_l2`: packets with an Ethernet header, in the tunnel and in the switch.
    LegacyL2,
    /// `legacy_l3`: packets without one in the tunnel; the switch adds and removes it.
    LegacyL3,
    /// `ptap`: packets as they are, with their type.
    Aware,
}

impl PacketTypeMode {
    /// The name in `packet_type`.
    pub const fn name(self) -> &'static str {
        match self {
            PacketTypeMode::LegacyL2 => "legacy_l2",
            PacketTypeMode::LegacyL3 => "legacy_l3",
            PacketTypeMode::Aware => "ptap",
        }
    }
}

/// The extensions of VXLAN that a port has (`exts`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct VxlanExtensions {
    /// `gbp`.
    pub has_group_policy: bool,
    /// `gpe`, which wins where a header can have only one of the two.
    pub has_generic_protocol: bool,
}

impl VxlanExtensions {
    /// The flavour of the headers.
    pub const fn flavour(self) -> VxlanFlavour {
        match (self.has_generic_protocol, self.has_group_policy) {
            (true, _) => VxlanFlavour::GenericProtocol,
            (false, true) => VxlanFlavour::GroupPolicy,
            (false, false) => VxlanFlavour::Plain,
        }
    }
}

/// What a port says about ERSPAN's header (`erspan_ver`, `erspan_idx`, ...).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ErspanSettings {
    /// 1 for type II, 2 for type III, and 0 if the options say nothing.
    pub version: PortValue<u8>,
    /// The index of a type II header.
    pub index: PortValue<u32>,
    /// The direction in a type III header.
    pub direction: PortValue<u8>,
    /// The hardware's number in a type III header.
    pub hardware_id: PortValue<u8>,
}

impl Default for ErspanSettings {
    /// All is fixed to zero.
    fn default() -> Self {
        ErspanSettings {
            version: PortValue::Fixed(0),
            index: PortValue::Fixed(0),
            direction: PortValue::Fixed(0),
            hardware_id: PortValue::Fixed(0),
        }
    }
}

/// The configuration of a tunnel's port.
///
/// ```
/// use thalweg_tunnel::{TunnelPort, TunnelType};
///
/// let options = [("remote_ip", "192.0.2.2"), ("key", "flow"), ("tos", "0x10")];
/// let parsed = TunnelPort::parse("t0", TunnelType::Vxlan, options)?;
/// assert!(parsed.warnings.is_empty());
/// let text = "vxlan: key=flow, remote_ip=192.0.2.2, tos=0x10";
/// assert_eq!(parsed.port.to_string(), text);
/// # Ok::<(), thalweg_tunnel::TunnelPortError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TunnelPort {
    /// The type of the interface.
    pub tunnel_type: TunnelType,
    /// Extensions of VXLAN; none for other types.
    pub extensions: VxlanExtensions,
    /// The address of the other end.
    pub remote: PortValue<IpAddr>,
    /// The address of this end; any if absent.
    pub local: Option<PortValue<IpAddr>>,
    /// The key that received packets have.
    pub in_key: Option<PortValue<u64>>,
    /// The key that sent packets get.
    pub out_key: Option<PortValue<u64>>,
    /// The UDP destination port; 0 for tunnels that do not go over UDP.
    pub destination_port: u16,
    /// The outer type of service.
    pub tos: OuterField,
    /// The outer time to live.
    pub ttl: OuterField,
    /// The outer UDP or GRE header has a checksum.
    pub has_checksum: bool,
    /// GRE has sequence numbers.
    pub has_sequence: bool,
    /// Routers must not fragment the outer packet; true unless the options say otherwise.
    pub dont_fragment: bool,
    /// The packet mark of sent packets, with which the outer packet is routed.
    pub egress_packet_mark: Option<u32>,
    /// Which packets the port carries.
    pub packet_type: PacketTypeMode,
    /// What the port says about ERSPAN's header.
    pub erspan: ErspanSettings,
}

impl TunnelPort {
    /// The kind of the tunnel's headers.
    pub const fn kind(&self) -> TunnelKind {
        self.tunnel_type.kind(self.extensions.flavour())
    }

    /// What the port says about headers, beside their values.
    pub fn header_settings(&self) -> HeaderSettings {
        HeaderSettings {
            has_sequence: self.has_sequence,
            ..HeaderSettings::default()
        }
    }

    /// The flags of packets that the port sends, without [`TunnelFlags::OAM`].
    pub fn flags(&self) -> TunnelFlags {
        let mut flags = TunnelFlags::NONE;
        for (is_set, flag) in [
            (self.dont_fragment, TunnelFlags::DONT_FRAGMENT),
            (self.has_checksum, TunnelFlags::CHECKSUM),
            (self.out_key.is_some(), TunnelFlags::KEY),
        ] {
            if is_set {
                flags |= flag;
            }
        }
        flags
    }

    /// Whether both ports are VXLAN on one UDP port, of which only one has a group policy.
    ///
    /// Open vSwitch refuses the later one, with [`TunnelOptionProblem::GroupPolicyConflict`].
    pub fn conflicts_with(&self, other: &TunnelPort) -> bool {
        self.tunnel_type == TunnelType::Vxlan
            && other.tunnel_type == TunnelType::Vxlan
            && self.destination_port == other.destination_port
            && self.extensions.has_group_policy != other.extensions.has_group_policy
    }

    /// The options that make this port, by name, without those with usual values.
    ///
    /// The extensions of VXLAN are not among them, as in Open vSwitch.
    pub fn options(&self) -> Vec<(&'static str, String)> {
        let mut options = vec![("remote_ip", value_text(self.remote))];
        options.extend(self.local.map(|local| ("local_ip", value_text(local))));
        self.push_keys(&mut options);
        match self.ttl {
            OuterField::Inherit => options.push(("ttl", "inherit".to_owned())),
            OuterField::Fixed(DEFAULT_TTL) => {}
            OuterField::Fixed(ttl) => options.push(("ttl", ttl.to_string())),
        }
        match self.tos {
            OuterField::Inherit => options.push(("tos", "inherit".to_owned())),
            OuterField::Fixed(0) => {}
            OuterField::Fixed(tos) => options.push(("tos", format!("{tos:#x}"))),
        }
        let destination_port = self.destination_port;
        if destination_port != 0 && Some(destination_port) != self.tunnel_type.default_port() {
            options.push(("dst_port", destination_port.to_string()));
        }
        if self.has_checksum {
            options.push(("csum", "true".to_owned()));
        }
        if self.has_sequence {
            options.push(("seq", "true".to_owned()));
        }
        if self.packet_type != self.layers().usual_mode() {
            options.push(("packet_type", self.packet_type.name().to_owned()));
        }
        if !self.dont_fragment {
            options.push(("df_default", "false".to_owned()));
        }
        let mark = self.egress_packet_mark;
        options.extend(mark.map(|mark| ("egress_pkt_mark", mark.to_string())));
        self.push_erspan(&mut options);
        options.sort();
        options
    }

    fn push_keys(&self, options: &mut Vec<(&'static str, String)>) {
        match (self.in_key, self.out_key) {
            (Some(PortValue::Flow), Some(PortValue::Flow)) => {
                options.push(("key", "flow".to_owned()));
            }
            // Open vSwitch takes the key 0 and `flow` for one value here.
            (Some(in_key), Some(out_key)) if in_key.or(0) == out_key.or(0) => {
                options.push(("key", in_key.or(0).to_string()));
            }
            (in_key, out_key) => {
                options.extend(in_key.map(|key| ("in_key", value_text(key))));
                options.extend(out_key.map(|key| ("out_key", value_text(key))));
            }
        }
    }

    fn push_erspan(&self, options: &mut Vec<(&'static str, String)>) {
        if !matches!(self.tunnel_type, TunnelType::Erspan | TunnelType::Ip6Erspan) {
            return;
        }
        let erspan = self.erspan;
        options.push(("erspan_ver", value_text(erspan.version)));
        let index = || ("erspan_idx", hexadecimal(erspan.index));
        let direction = || ("erspan_dir", value_text(erspan.direction));
        let hardware_id = || ("erspan_hwid", hexadecimal(erspan.hardware_id));
        match erspan.version {
            PortValue::Fixed(1) => options.push(index()),
            PortValue::Fixed(2) => options.extend([direction(), hardware_id()]),
            PortValue::Fixed(_) => {}
            // Packets of any version may come, whatever the other options say.
            PortValue::Flow => options.extend(
                ["erspan_idx", "erspan_dir", "erspan_hwid"].map(|name| (name, "flow".to_owned())),
            ),
        }
    }

    /// Which packets the tunnel can carry.
    const fn layers(&self) -> Layers {
        match self.tunnel_type {
            TunnelType::Gre => Layers::Both,
            TunnelType::Vxlan if self.extensions.has_generic_protocol => Layers::Both,
            TunnelType::Gtpu => Layers::L3,
            _ => Layers::L2,
        }
    }
}

impl fmt::Display for TunnelPort {
    /// The text that `dpif/show` prints in parentheses.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.tunnel_type)?;
        for (position, (name, value)) in self.options().iter().enumerate() {
            let separator = if position == 0 { ':' } else { ',' };
            write!(f, "{separator} {name}={value}")?;
        }
        Ok(())
    }
}

/// Whether a tunnel can carry packets with an Ethernet header (L2), without (L3), or both.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Layers {
    L2,
    L3,
    Both,
}

impl Layers {
    /// The mode of a port whose options have no `packet_type`.
    const fn usual_mode(self) -> PacketTypeMode {
        match self {
            Layers::L3 => PacketTypeMode::LegacyL3,
            Layers::L2 | Layers::Both => PacketTypeMode::LegacyL2,
        }
    }
}

/// A value in an option's text.
fn value_text<V: fmt::Display + Copy>(value: PortValue<V>) -> String {
    match value {
        PortValue::Fixed(value) => value.to_string(),
        PortValue::Flow => "flow".to_owned(),
    }
}

/// A value in an option's text, as a hexadecimal number.
fn hexadecimal<V: Into<u32> + Copy>(value: PortValue<V>) -> String {
    match value {
        PortValue::Fixed(value) => format!("{:#x}", value.into()),
        PortValue::Flow => "flow".to_owned(),
    }
}
