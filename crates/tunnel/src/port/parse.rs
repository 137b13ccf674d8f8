//! Reads the options of a tunnel's interface.
//!
//! The options are read in the order in which they come. Open vSwitch reads them in the order of a
//! hash table, so its messages may have another order where there are several; and `erspan_ver`
//! with value `flow` acts on the other `erspan_` options that come before it.
//!
//! Some problems are warnings, with which the port is made: an unknown option, a bad type of
//! service, a bad local address. The others are errors.

use std::fmt;
use std::net::IpAddr;

use super::{
    ErspanSettings, Layers, PacketTypeMode, PortValue, TunnelPort, TunnelType, VxlanExtensions,
};
use crate::number::{Base, byte, signed, unsigned};
use crate::{DEFAULT_TTL, OuterField};

/// Bits of a type of service that are the code point, without congestion notification.
const DSCP_MASK: i64 = 0xfc;
/// The largest index of ERSPAN type II, 20 bits.
const ERSPAN_INDEX_MAX: u32 = 0xf_ffff;
/// The largest hardware number of ERSPAN type III, 6 bits.
const ERSPAN_HARDWARE_ID_MAX: u8 = 0x3f;

/// A problem with the options of a tunnel's interface.
///
/// The texts are Open vSwitch's, without the interface's name before them.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TunnelOptionProblem {
    /// A warning: the text is no address of the family that it looks like.
    #[error("bad {0} '{1}'")]
    BadAddress(TunnelType, &'static str),
    /// The remote address is a multicast address.
    #[error("multicast remote_ip={0} not allowed")]
    MulticastRemote(String),
    /// A warning: the type of service is no number, or has other bits than the code point's.
    #[error("invalid TOS {0}")]
    BadTos(String),
    /// A warning: there is no such extension of VXLAN.
    #[error("unknown extension '{0}'")]
    UnknownExtension(String),
    /// ERSPAN's index has more than 20 bits.
    #[error("invalid erspan index: {0}")]
    BadErspanIndex(String),
    /// ERSPAN's versions are 1 and 2.
    #[error("invalid erspan version: {0}")]
    BadErspanVersion(String),
    /// ERSPAN's directions are 0 and 1.
    #[error("invalid erspan direction: {0}")]
    BadErspanDirection(String),
    /// ERSPAN's hardware number has more than 6 bits.
    #[error("invalid erspan hardware ID: {0}")]
    BadErspanHardwareId(String),
    /// A warning: the tunnel's type has no such option.
    #[error("unknown {0} argument '{1}'")]
    UnknownOption(TunnelType, String),
    /// The tunnel does not carry such packets: the mode, the tunnel, and the layer.
    #[error("{0} configured on {1} tunnel that cannot carry {2} traffic")]
    BadPacketType(&'static str, &'static str, &'static str),
    /// There is no such mode.
    #[error("unknown packet_type '{0}'")]
    UnknownPacketType(String),
    /// There is no remote address.
    #[error("{0} type requires valid 'remote_ip' argument")]
    NoRemote(TunnelType),
    /// The local address comes from metadata, the remote one does not.
    #[error("{0} type requires 'remote_ip=flow' with 'local_ip=flow'")]
    OnlyLocalFlow(TunnelType),
    /// One address is IPv4, the other IPv6.
    #[error("'remote_ip' and 'local_ip' has to be of the same address family")]
    MixedFamilies,
    /// Another VXLAN port has the same UDP port, and differs in having a group policy.
    #[error("VXLAN-GBP, and non-VXLAN-GBP tunnels can't be configured on the same dst_port")]
    GroupPolicyConflict,
    /// `payload_type` is no number of 16 bits.
    #[error("could not set configuration (Invalid argument)")]
    BadPayloadType,
}

/// Why the options of an interface make no tunnel port.
///
/// The text has a line for each problem, with the interface's name before it: the text that goes
/// into the `error` column. The last problem is the one that is not a warning.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TunnelPortError {
    /// The interface's name.
    pub name: String,
    /// The problems, in the order of the options.
    pub problems: Vec<TunnelOptionProblem>,
}

impl fmt::Display for TunnelPortError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, problem) in self.problems.iter().enumerate() {
            let separator = if position == 0 { "" } else { "\n" };
            write!(f, "{separator}{}: {problem}", self.name)?;
        }
        Ok(())
    }
}

impl std::error::Error for TunnelPortError {}

/// A tunnel port, and the warnings about its options.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParsedTunnelPort {
    /// The port.
    pub port: TunnelPort,
    /// Problems that do not stop it.
    pub warnings: Vec<TunnelOptionProblem>,
}

impl TunnelPort {
    /// Reads the `options` of the interface `name`.
    ///
    /// Of two options with one name, both are read.
    ///
    /// # Errors
    /// If the options make no port; Open vSwitch refuses the same.
    pub fn parse<'a>(
        name: &str,
        tunnel_type: TunnelType,
        options: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<ParsedTunnelPort, TunnelPortError> {
        let mut reader = Reader::new(tunnel_type);
        let read = || {
            for (key, value) in options {
                reader.read(key, value)?;
            }
            reader.finish()
        };
        match read() {
            Ok(port) => Ok(ParsedTunnelPort {
                port,
                warnings: reader.warnings,
            }),
            Err(problem) => {
                let mut problems = reader.warnings;
                problems.push(problem);
                Err(TunnelPortError {
                    name: name.to_owned(),
                    problems,
                })
            }
        }
    }
}

/// An address as it was written.
#[derive(Clone, Copy)]
struct Address {
    value: PortValue<IpAddr>,
    /// Whether it was written as an IPv6 address; `None` if it comes from metadata.
    is_written_as_ipv6: Option<bool>,
}

/// The options read so far.
struct Reader<'a> {
    port: TunnelPort,
    remote: Option<Address>,
    local: Option<Address>,
    key: Option<&'a str>,
    in_key: Option<&'a str>,
    out_key: Option<&'a str>,
    packet_type: Option<&'a str>,
    warnings: Vec<TunnelOptionProblem>,
}

impl<'a> Reader<'a> {
    fn new(tunnel_type: TunnelType) -> Self {
        Reader {
            port: TunnelPort {
                tunnel_type,
                extensions: VxlanExtensions::default(),
                remote: PortValue::Flow,
                local: None,
                in_key: None,
                out_key: None,
                destination_port: tunnel_type.default_port().unwrap_or(0),
                tos: OuterField::Fixed(0),
                ttl: OuterField::Fixed(DEFAULT_TTL),
                has_checksum: false,
                has_sequence: false,
                dont_fragment: true,
                egress_packet_mark: None,
                packet_type: PacketTypeMode::LegacyL2,
                erspan: ErspanSettings::default(),
            },
            remote: None,
            local: None,
            key: None,
            in_key: None,
            out_key: None,
            packet_type: None,
            warnings: Vec::new(),
        }
    }

    /// Reads one option: one match, an arm for each name.
    fn read(&mut self, key: &'a str, value: &'a str) -> Result<(), TunnelOptionProblem> {
        let tunnel_type = self.port.tunnel_type;
        let has_port = tunnel_type.default_port().is_some();
        let is_gre = matches!(tunnel_type, TunnelType::Gre | TunnelType::Ip6Gre);
        let is_vxlan = tunnel_type == TunnelType::Vxlan;
        let has_checksum = is_gre || is_vxlan || tunnel_type == TunnelType::Geneve;
        match key {
            "remote_ip" => {
                if let Some(address) = self.address(value, "remote_ip") {
                    if address.value.fixed().is_some_and(|ip| ip.is_multicast()) {
                        return Err(TunnelOptionProblem::MulticastRemote(value.to_owned()));
                    }
                    self.remote = Some(address);
                }
            }
            "local_ip" => self.local = self.address(value, "local_ip"),
            "tos" => match tos(value) {
                Some(tos) => self.port.tos = tos,
                None => self.warn(TunnelOptionProblem::BadTos(value.to_owned())),
            },
            "ttl" => {
                self.port.ttl = match value {
                    "inherit" => OuterField::Inherit,
                    _ => match byte(value) {
                        0 => OuterField::Fixed(DEFAULT_TTL),
                        ttl => OuterField::Fixed(ttl),
                    },
                }
            }
            "dst_port" if has_port => {
                self.port.destination_port = signed(value, Base::Decimal).0 as u16;
            }
            "csum" if has_checksum => self.port.has_checksum = value == "true",
            "seq" if is_gre => self.port.has_sequence = value == "true",
            "df_default" => self.port.dont_fragment = value != "false",
            "key" => self.key = Some(value),
            "in_key" => self.in_key = Some(value),
            "out_key" => self.out_key = Some(value),
            "packet_type" => self.packet_type = Some(value),
            "exts" if is_vxlan => self.read_extensions(value),
            "egress_pkt_mark" => {
                self.port.egress_packet_mark = Some(unsigned(value, Base::Decimal) as u32);
            }
            "erspan_idx" | "erspan_ver" | "erspan_dir" | "erspan_hwid" => {
                read_erspan(&mut self.port.erspan, key, value)?;
            }
            "payload_type" => check_payload_type(value)?,
            // Open vSwitch's IPsec daemon reads these.
            "remote_cert" | "remote_name" | "psk" => {}
            _ => self.warn(TunnelOptionProblem::UnknownOption(
                tunnel_type,
                key.to_owned(),
            )),
        }
        Ok(())
    }

    fn warn(&mut self, problem: TunnelOptionProblem) {
        self.warnings.push(problem);
    }

    /// The address in an option; a bad one is a warning.
    fn address(&mut self, value: &str, option: &'static str) -> Option<Address> {
        if value == "flow" {
            return Some(Address {
                value: PortValue::Flow,
                is_written_as_ipv6: None,
            });
        }
        let is_ipv6 = value.contains(':');
        match value.parse::<IpAddr>() {
            // A scope after `%` is no part of an address.
            Ok(address) if address.is_ipv6() == is_ipv6 && !value.contains('%') => Some(Address {
                value: PortValue::Fixed(address.to_canonical()),
                is_written_as_ipv6: Some(is_ipv6),
            }),
            _ => {
                let tunnel_type = self.port.tunnel_type;
                self.warn(TunnelOptionProblem::BadAddress(tunnel_type, option));
                None
            }
        }
    }

    fn read_extensions(&mut self, value: &str) {
        self.port.extensions = VxlanExtensions::default();
        for extension in value.split(',').filter(|extension| !extension.is_empty()) {
            match extension {
                "gbp" => self.port.extensions.has_group_policy = true,
                "gpe" => self.port.extensions.has_generic_protocol = true,
                _ => self.warn(TunnelOptionProblem::UnknownExtension(extension.to_owned())),
            }
        }
    }

    /// Checks what depends on several options.
    fn finish(&mut self) -> Result<TunnelPort, TunnelOptionProblem> {
        let mut port = self.port.clone();
        port.packet_type = self.packet_type(&port)?;
        let tunnel_type = port.tunnel_type;
        // The unspecified IPv6 address is none.
        let is_address = |address: &Address| match address.value {
            PortValue::Fixed(IpAddr::V6(ip)) => !ip.is_unspecified(),
            _ => true,
        };
        let families = [self.remote, self.local].map(|address| address?.is_written_as_ipv6);
        let remote = self.remote.filter(is_address);
        let Some(remote) = remote else {
            return Err(TunnelOptionProblem::NoRemote(tunnel_type));
        };
        let local = self.local.filter(is_address).map(|local| local.value);
        if local == Some(PortValue::Flow) && !remote.value.is_flow() {
            return Err(TunnelOptionProblem::OnlyLocalFlow(tunnel_type));
        }
        if let [Some(remote), Some(local)] = families
            && remote != local
        {
            return Err(TunnelOptionProblem::MixedFamilies);
        }
        port.remote = remote.value;
        port.local = local;
        port.in_key = self.in_key.or(self.key).map(key);
        port.out_key = self.out_key.or(self.key).map(key);
        Ok(port)
    }

    fn packet_type(&self, port: &TunnelPort) -> Result<PacketTypeMode, TunnelOptionProblem> {
        let layers = port.layers();
        let tunnel = match (port.tunnel_type, port.extensions.has_generic_protocol) {
            (TunnelType::Vxlan, true) => "VXLAN-GPE",
            (TunnelType::Vxlan, false) => "VXLAN (without GPE)",
            (other, _) => other.name(),
        };
        match self.packet_type {
            None => Ok(layers.usual_mode()),
            Some("legacy_l2") if layers == Layers::L3 => Err(TunnelOptionProblem::BadPacketType(
                "legacy_l2",
                tunnel,
                "L2",
            )),
            Some("legacy_l2") => Ok(PacketTypeMode::LegacyL2),
            Some("legacy_l3") if layers == Layers::L2 => Err(TunnelOptionProblem::BadPacketType(
                "legacy_l3",
                tunnel,
                "L3",
            )),
            Some("legacy_l3") => Ok(PacketTypeMode::LegacyL3),
            Some("ptap") => Ok(PacketTypeMode::Aware),
            Some(other) => Err(TunnelOptionProblem::UnknownPacketType(other.to_owned())),
        }
    }
}

fn tos(value: &str) -> Option<OuterField> {
    if value == "inherit" {
        return Some(OuterField::Inherit);
    }
    let (tos, rest) = signed(value, Base::Any);
    let tos = i64::from(tos as i32);
    (rest.is_empty() && tos & DSCP_MASK == tos).then_some(OuterField::Fixed(tos as u8))
}

fn key(value: &str) -> PortValue<u64> {
    match value {
        "flow" => PortValue::Flow,
        _ => PortValue::Fixed(unsigned(value, Base::Any)),
    }
}

fn read_erspan(
    erspan: &mut ErspanSettings,
    key: &str,
    value: &str,
) -> Result<(), TunnelOptionProblem> {
    let is_flow = value == "flow";
    match key {
        "erspan_ver" if is_flow => {
            *erspan = ErspanSettings {
                version: PortValue::Flow,
                index: PortValue::Flow,
                direction: PortValue::Flow,
                hardware_id: PortValue::Flow,
            };
        }
        "erspan_ver" => match byte(value) {
            version @ 1..=2 => erspan.version = PortValue::Fixed(version),
            _ => return Err(TunnelOptionProblem::BadErspanVersion(value.to_owned())),
        },
        "erspan_idx" if is_flow => erspan.index = PortValue::Flow,
        "erspan_idx" => match signed(value, Base::Hexadecimal).0 as u32 {
            index @ 0..=ERSPAN_INDEX_MAX => erspan.index = PortValue::Fixed(index),
            _ => return Err(TunnelOptionProblem::BadErspanIndex(value.to_owned())),
        },
        "erspan_dir" if is_flow => erspan.direction = PortValue::Flow,
        "erspan_dir" => match byte(value) {
            direction @ 0..=1 => erspan.direction = PortValue::Fixed(direction),
            _ => return Err(TunnelOptionProblem::BadErspanDirection(value.to_owned())),
        },
        _ if is_flow => erspan.hardware_id = PortValue::Flow,
        _ => match signed(value, Base::Hexadecimal).0 as u8 {
            id @ 0..=ERSPAN_HARDWARE_ID_MAX => erspan.hardware_id = PortValue::Fixed(id),
            _ => return Err(TunnelOptionProblem::BadErspanHardwareId(value.to_owned())),
        },
    }
    Ok(())
}

/// Checks an option that only `bareudp` uses, but any type may have.
fn check_payload_type(value: &str) -> Result<(), TunnelOptionProblem> {
    if value == "mpls" || value == "ip" {
        return Ok(());
    }
    let (number, rest) = signed(value, Base::Any);
    match !value.is_empty() && rest.is_empty() && u16::try_from(number).is_ok() {
        true => Ok(()),
        false => Err(TunnelOptionProblem::BadPayloadType),
    }
}
