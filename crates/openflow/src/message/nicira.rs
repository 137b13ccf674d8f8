//! Further messages of Open vSwitch: options of tunnels, connections, IPFIX.

/// Maps options of tunnels to fields (`NXT_TLV_TABLE_MOD`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TlvTableMod {
    /// The kind of change.
    pub command: TlvCommand,
    /// The maps.
    pub maps: Vec<TlvMap>,
}

/// What a [`TlvTableMod`] does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TlvCommand {
    /// Adds maps.
    Add = 0,
    /// Removes maps.
    Delete = 1,
    /// Removes all maps.
    Clear = 2,
}

/// One option of a tunnel and its field `tun_metadata<index>`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TlvMap {
    /// The option's class.
    pub class: u16,
    /// The option's type.
    pub kind: u8,
    /// The option's length in bytes.
    pub length: u8,
    /// The field's index.
    pub index: u16,
}

/// The maps of a switch (`NXT_TLV_TABLE_REPLY`).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TlvTable {
    /// Bytes of options that all fields together can hold.
    pub max_space: u32,
    /// Most fields.
    pub max_fields: u16,
    /// The maps.
    pub maps: Vec<TlvMap>,
}

/// Forgets tracked connections (`NXT_CT_FLUSH`); nothing set means all of them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CtFlush {
    /// Only those of this zone.
    pub zone: Option<u16>,
    /// Only those of this protocol; 0 for all.
    pub protocol: u8,
    /// EtherType family of the tuples: 0, 4 or 6 stands in `is_ipv6` of the addresses.
    pub original: CtTuple,
    /// The tuple of replies.
    pub reply: CtTuple,
    /// Value and mask of the mark (Open vSwitch 3.3 and later).
    pub mark: Option<(u32, u32)>,
    /// Value and mask of the label (the same way).
    pub labels: Option<(u128, u128)>,
}

/// One direction of a connection; `None` fields match any.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CtTuple {
    /// Source address, 16 bytes, IPv4 as `::ffff:a.b.c.d`.
    pub source: Option<[u8; 16]>,
    /// Destination address, the same way.
    pub destination: Option<[u8; 16]>,
    /// Source port, or the identifier of an ICMP echo.
    pub source_port: Option<u16>,
    /// Destination port.
    pub destination_port: Option<u16>,
    /// ICMP's identifier, type and code.
    pub icmp: Option<(u16, u8, u8)>,
}

/// IPFIX statistics (`NXST_IPFIX_BRIDGE`, `NXST_IPFIX_FLOW`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct IpfixStats {
    /// Flows that were exported.
    pub total_flows: u64,
    /// Flows in the cache.
    pub current_flows: u64,
    /// Packets sampled.
    pub packets: u64,
    /// Packets of IPv4.
    pub ipv4_packets: u64,
    /// Packets of IPv6.
    pub ipv6_packets: u64,
    /// Packets with errors.
    pub error_packets: u64,
    /// IPv4 packets with errors.
    pub ipv4_error_packets: u64,
    /// IPv6 packets with errors.
    pub ipv6_error_packets: u64,
    /// Messages sent.
    pub tx_packets: u64,
    /// Messages that could not be sent.
    pub tx_errors: u64,
    /// The collector set (`NXST_IPFIX_FLOW` only).
    pub collector_set: u32,
}
