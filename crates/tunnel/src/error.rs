//! Why a packet is not put into a tunnel, or not taken out of one.

use thalweg_packet::wire::EtherType;

macro_rules! causes {
    ($($(#[doc = $doc:literal])* $cause:ident => $name:literal, $text:literal;)*) => {
        /// Why a packet was not taken out of a tunnel.
        ///
        /// Each cause has a name, which a counter can have.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
        #[non_exhaustive]
        pub enum DecapsulateError {
            $($(#[doc = $doc])* #[error($text)] $cause,)*
        }

        impl DecapsulateError {
            /// Every cause, in the order of its number.
            pub const ALL: &[DecapsulateError] = &[$(DecapsulateError::$cause),*];

            /// The name of the cause, as a counter has it.
            pub const fn name(self) -> &'static str {
                match self { $(DecapsulateError::$cause => $name),* }
            }
        }
    };
}

causes! {
    /// The bytes end before the headers do.
    Truncated => "truncated", "the packet ends before its headers do";
    /// The outer frame is neither IPv4 nor IPv6; it may have a VLAN tag.
    NotIp => "not_ip", "the outer frame has neither IPv4 nor IPv6 behind its Ethernet header";
    /// The IP header has another version than the EtherType says, or an impossible length.
    IpHeader => "ip_header", "the outer IP header is malformed";
    /// The checksum of the outer IPv4 header is wrong.
    Ipv4Checksum => "ipv4_checksum", "the checksum of the outer IPv4 header is wrong";
    /// The outer IPv4 header has options.
    Ipv4Options => "ipv4_options", "the outer IPv4 header has options";
    /// The extension headers of the outer IPv6 packet are malformed, or too many.
    Ipv6Extensions => "ipv6_extensions", "the outer IPv6 extension headers are malformed";
    /// The outer packet is a fragment.
    Fragment => "fragment", "the outer packet is a fragment";
    /// The outer packet carries another protocol than the tunnel.
    Protocol => "protocol", "the outer packet carries another protocol than the tunnel's";
    /// The UDP length is under eight bytes, or longer than the packet.
    UdpLength => "udp_length", "the length of the outer UDP header is impossible";
    /// The outer UDP checksum is wrong.
    UdpChecksum => "udp_checksum", "the outer UDP checksum is wrong";
    /// A flag of VXLAN is set that has no meaning here, or the identifier is not valid.
    VxlanFlags => "vxlan_flags", "the VXLAN header has unknown flags or no identifier";
    /// The last byte of the VXLAN header is not zero.
    VxlanReserved => "vxlan_reserved", "the last byte of the VXLAN header is not zero";
    /// A control packet of VXLAN-GPE.
    VxlanControl => "vxlan_control", "the VXLAN-GPE packet is a control packet";
    /// VXLAN-GPE carries a protocol that is not known.
    VxlanProtocol => "vxlan_protocol", "the VXLAN-GPE packet carries an unknown protocol";
    /// Geneve of another version than 0.
    GeneveVersion => "geneve_version", "the Geneve header has another version than 0";
    /// The lengths of Geneve's options do not add up.
    GeneveOptions => "geneve_options", "the lengths of the Geneve options do not add up";
    /// Geneve carries no Ethernet frame.
    GeneveProtocol => "geneve_protocol", "the Geneve packet carries no Ethernet frame";
    /// GRE of another version than 0.
    GreVersion => "gre_version", "the GRE header has another version than 0";
    /// A flag of GRE is set that is not known, or ERSPAN without a sequence number.
    GreFlags => "gre_flags", "the GRE header has flags that are not known here";
    /// The checksum of GRE is wrong.
    GreChecksum => "gre_checksum", "the GRE checksum is wrong";
    /// GRE carries a protocol whose number is no EtherType.
    GreProtocol => "gre_protocol", "the GRE header has a protocol type under 0x600";
    /// GRE carries something else than ERSPAN type II or III.
    ErspanProtocol => "erspan_protocol", "the GRE packet carries no ERSPAN type II or III";
    /// ERSPAN of another version than 1 and 2.
    ErspanVersion => "erspan_version", "the ERSPAN header has another version than 1 and 2";
    /// GTP-U states more bytes than the packet has.
    GtpuLength => "gtpu_length", "the length of the GTP-U header is longer than the packet";
    /// GTP-U carries neither IPv4 nor IPv6.
    GtpuPayload => "gtpu_payload", "the GTP-U packet carries neither IPv4 nor IPv6";
}

/// Why a packet was not put into a tunnel.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EncapsulateError {
    /// The tunnel carries only Ethernet frames.
    #[error("the tunnel carries Ethernet frames only; add an Ethernet header to the packet")]
    NeedsEthernet,
    /// The tunnel carries only packets without an Ethernet header.
    #[error("the tunnel carries packets without Ethernet; remove the packet's Ethernet header")]
    NeedsBarePacket,
    /// VXLAN-GPE has no number for the packet's type.
    #[error("VXLAN-GPE has no protocol number for EtherType {0}")]
    NoVxlanProtocol(EtherType),
    /// ERSPAN's session has ten bits.
    #[error("the tunnel id {0} is no ERSPAN session; use an id up to 1023")]
    ErspanSession(u32),
    /// ERSPAN's versions are 1 and 2.
    #[error("there is no ERSPAN version {0}; use 1 (type II) or 2 (type III)")]
    ErspanVersion(u8),
    /// Geneve's options have room for 252 bytes.
    #[error("the Geneve options are longer than 252 bytes; set fewer tun_metadata fields")]
    OptionsTooLong,
    /// The outer packet would be longer than IP can say.
    #[error("the outer packet would have more than 65,535 bytes")]
    TooLong,
}
