//! The formats once more, slow and obvious: bit by bit from the figures of the standards.
//!
//! Nothing is shared with the crate but the types of values. Tests compare the two on random
//! packets.

use std::net::IpAddr;

use thalweg_packet::wire::EtherType;

use crate::{
    Decapsulated, Endpoints, ErspanValues, GroupPolicy, GtpuValues, HeaderSettings, InnerType,
    LinkAddresses, PerPacket, TunnelContent, TunnelFlags, TunnelKind, TunnelMetadata,
    TunnelOptions, VxlanFlavour,
};

/// Bits that are written one after the other.
#[derive(Default)]
struct Writing(Vec<bool>);

impl Writing {
    fn bits(mut self, width: u32, value: u64) -> Self {
        let bits = (0..width).rev().map(|shift| value >> shift & 1 == 1);
        self.0.extend(bits);
        self
    }

    fn bytes(self, bytes: &[u8]) -> Self {
        let all = bytes.iter();
        all.fold(self, |writing, byte| writing.bits(8, u64::from(*byte)))
    }

    fn done(self) -> Vec<u8> {
        let bytes = self.0.chunks(8);
        bytes
            .map(|bits| bits.iter().fold(0, |byte, bit| byte << 1 | u8::from(*bit)))
            .collect()
    }
}

/// Bits that are read one after the other.
struct Reading<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reading<'_> {
    fn bits(&mut self, width: usize) -> Option<u64> {
        let mut value = 0;
        for at in self.at..self.at + width {
            let byte = self.bytes.get(at / 8)?;
            value = value << 1 | u64::from(byte >> (7 - at % 8) & 1);
        }
        self.at += width;
        Some(value)
    }

    /// Reads bits that must have a value.
    fn must(&mut self, width: usize, value: u64) -> Option<()> {
        (self.bits(width)? == value).then_some(())
    }

    fn skip(&mut self, width: usize) -> Option<()> {
        self.bits(width).map(|_| ())
    }

    fn position(&self) -> usize {
        self.at / 8
    }
}

fn reading(bytes: &[u8]) -> Reading<'_> {
    Reading { bytes, at: 0 }
}

/// The internet checksum: a sum of words, each carry added again.
fn internet_checksum(bytes: &[u8]) -> u16 {
    let mut sum = 0u32;
    for pair in bytes.chunks(2) {
        let low = pair.get(1).copied().unwrap_or_default();
        sum += u32::from(pair[0]) * 256 + u32::from(low);
        if sum > 0xffff {
            sum -= 0xffff;
        }
    }
    !(sum as u16)
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// The bytes that UDP's checksum covers beside the datagram.
fn pseudo_header(endpoints: Endpoints, len: usize) -> Vec<u8> {
    let ends = [octets(endpoints.source()), octets(endpoints.destination())].concat();
    [ends, (len as u32).to_be_bytes().to_vec(), vec![0, 0, 0, 17]].concat()
}

/// The tunnel's header and the packet behind it; `None` if the tunnel cannot carry it.
pub(crate) fn write_payload(
    kind: TunnelKind,
    metadata: &TunnelMetadata,
    inner_type: InnerType,
    settings: HeaderSettings,
    variable: PerPacket,
    inner: &[u8],
) -> Option<Vec<u8>> {
    let id = metadata.id;
    let is_ethernet = inner_type == InnerType::Ethernet;
    let start = Writing::default();
    let header = match kind {
        TunnelKind::Vxlan(flavour) => write_vxlan(flavour, metadata, inner_type)?
            .bits(24, id)
            .bits(8, 0),
        TunnelKind::Geneve => start
            .bits(2, 0)
            .bits(6, metadata.options.bytes().len() as u64 / 4)
            .bits(1, u64::from(metadata.flags.has(TunnelFlags::OAM)))
            .bits(1, u64::from(is_critical(metadata.options.bytes())))
            .bits(6, 0)
            .bits(16, 0x6558)
            .bits(24, id)
            .bits(8, 0)
            .bytes(metadata.options.bytes()),
        TunnelKind::Gre => {
            let protocol = match inner_type {
                InnerType::Ethernet => 0x6558,
                InnerType::Bare(ether_type) => ether_type.0,
            };
            return Some(write_gre(metadata, protocol, settings, variable, inner));
        }
        TunnelKind::Erspan => write_erspan(metadata, variable)?,
        TunnelKind::Gtpu => {
            let flags = match metadata.gtpu.flags {
                0 => 0x30,
                other => other,
            };
            let has_sequence = settings.has_sequence || flags & 2 != 0;
            let flags = if has_sequence { flags | 2 } else { flags };
            let message = match metadata.gtpu.message {
                0 => 255,
                other => other,
            };
            let extra = if has_sequence { 4 } else { 0 };
            let header = start
                .bits(8, flags.into())
                .bits(8, message.into())
                .bits(16, (inner.len() + extra) as u64)
                .bits(32, id);
            match has_sequence {
                true => header.bits(16, variable.sequence.into()).bits(16, 0),
                false => header,
            }
        }
    };
    let carries = match kind {
        TunnelKind::Geneve | TunnelKind::Erspan => is_ethernet,
        TunnelKind::Gtpu => !is_ethernet,
        TunnelKind::Vxlan(_) | TunnelKind::Gre => true,
    };
    carries.then(|| [header.done(), inner.to_vec()].concat())
}

fn is_critical(mut options: &[u8]) -> bool {
    while let [_, _, kind, length, rest @ ..] = options {
        if *kind >= 128 {
            return true;
        }
        options = &rest[4 * usize::from(*length % 32)..];
    }
    false
}

/// The first word of VXLAN.
fn write_vxlan(
    flavour: VxlanFlavour,
    metadata: &TunnelMetadata,
    inner_type: InnerType,
) -> Option<Writing> {
    let start = Writing::default();
    let group = metadata.group_policy;
    match (flavour, inner_type) {
        (VxlanFlavour::GenericProtocol, _) => {
            let number = match inner_type {
                InnerType::Bare(EtherType(0x0800)) => 1,
                InnerType::Bare(EtherType(0x86dd)) => 2,
                InnerType::Ethernet | InnerType::Bare(EtherType(0x6558)) => 3,
                InnerType::Bare(EtherType(0x894f)) => 4,
                InnerType::Bare(_) => return None,
            };
            Some(start.bits(8, 0b0000_1100).bits(16, 0).bits(8, number))
        }
        (_, InnerType::Bare(_)) => None,
        (VxlanFlavour::GroupPolicy, _) if group.id != 0 || group.flags & 0x48 != 0 => Some(
            start
                .bits(8, 0b1000_1000)
                .bits(8, u64::from(group.flags & 0x48))
                .bits(16, group.id.into()),
        ),
        _ => Some(start.bits(8, 0b0000_1000).bits(24, 0)),
    }
}

fn write_gre(
    metadata: &TunnelMetadata,
    protocol: u16,
    settings: HeaderSettings,
    variable: PerPacket,
    inner: &[u8],
) -> Vec<u8> {
    let has_checksum = metadata.flags.has(TunnelFlags::CHECKSUM);
    let has_key = metadata.flags.has(TunnelFlags::KEY);
    let with_checksum = |sum: u16| {
        let mut header = Writing::default()
            .bits(1, has_checksum.into())
            .bits(1, 0)
            .bits(1, has_key.into())
            .bits(1, settings.has_sequence.into())
            .bits(12, 0)
            .bits(16, protocol.into());
        if has_checksum {
            header = header.bits(16, sum.into()).bits(16, 0);
        }
        if has_key {
            header = header.bits(32, metadata.id);
        }
        if settings.has_sequence {
            header = header.bits(32, variable.sequence.into());
        }
        [header.done(), inner.to_vec()].concat()
    };
    with_checksum(internet_checksum(&with_checksum(0)))
}

fn write_erspan(metadata: &TunnelMetadata, variable: PerPacket) -> Option<Writing> {
    let id = metadata.id % (1 << 32);
    if id >= 1024 {
        return None;
    }
    let values = metadata.erspan;
    let base = |protocol: u64, version: u64| {
        Writing::default()
            .bits(16, 0x1000)
            .bits(16, protocol)
            .bits(32, variable.sequence.into())
            .bits(4, version)
            .bits(12 + 3 + 2 + 1, 0)
            .bits(10, id)
    };
    match values.version {
        1 => Some(base(0x88be, 1).bits(32, values.index.into())),
        2 => Some(
            base(0x22eb, 2)
                .bits(32, variable.timestamp_100us.into())
                .bits(16 + 1 + 5, 0)
                .bits(6, values.hardware_id.into())
                .bits(1, values.direction.into())
                .bits(3, 0),
        ),
        _ => None,
    }
}

/// The whole frame; `None` if the tunnel cannot carry the packet.
pub(crate) fn write_frame(
    kind: TunnelKind,
    metadata: &TunnelMetadata,
    link: LinkAddresses,
    inner_type: InnerType,
    settings: HeaderSettings,
    variable: PerPacket,
    inner: &[u8],
) -> Option<Vec<u8>> {
    let mut payload = write_payload(kind, metadata, inner_type, settings, variable, inner)?;
    let endpoints = metadata.endpoints;
    let is_udp = !matches!(kind, TunnelKind::Gre | TunnelKind::Erspan);
    if is_udp {
        let has_checksum = metadata.flags.has(TunnelFlags::CHECKSUM)
            || endpoints.is_ipv6() && !settings.may_omit_ipv6_checksum
            || kind == TunnelKind::Gtpu;
        let len = payload.len() + 8;
        let with_checksum = |sum: u16| {
            let header = Writing::default()
                .bits(16, variable.source_port.into())
                .bits(16, metadata.destination_port.into())
                .bits(16, len as u64)
                .bits(16, sum.into());
            [header.done(), payload.clone()].concat()
        };
        let covered = [pseudo_header(endpoints, len), with_checksum(0)].concat();
        payload = match (has_checksum, internet_checksum(&covered)) {
            (false, _) => with_checksum(0),
            (true, 0) => with_checksum(0xffff),
            (true, sum) => with_checksum(sum),
        };
    }
    let protocol = if is_udp { 17 } else { 47 };
    let ip = write_ip(metadata, protocol, payload.len());
    let ether_type = if endpoints.is_ipv6() { 0x86dd } else { 0x0800 };
    let ethernet = Writing::default()
        .bytes(&link.destination.0)
        .bytes(&link.source.0)
        .bits(16, ether_type);
    Some([ethernet.done(), ip, payload].concat())
}

fn write_ip(metadata: &TunnelMetadata, protocol: u64, len: usize) -> Vec<u8> {
    let endpoints = metadata.endpoints;
    let ends = [octets(endpoints.source()), octets(endpoints.destination())].concat();
    let (tos, ttl) = (metadata.tos.into(), metadata.ttl.into());
    if endpoints.is_ipv6() {
        let header = Writing::default().bits(4, 6).bits(8, tos).bits(20, 0);
        let header = header.bits(16, len as u64).bits(8, protocol).bits(8, ttl);
        return header.bytes(&ends).done();
    }
    let with_checksum = |sum: u16| {
        let header = Writing::default().bits(4, 4).bits(4, 5).bits(8, tos);
        let header = header.bits(16, len as u64 + 20).bits(16, 0).bits(1, 0);
        let header = header.bits(1, metadata.flags.has(TunnelFlags::DONT_FRAGMENT).into());
        let header = header.bits(14, 0).bits(8, ttl).bits(8, protocol);
        header.bits(16, sum.into()).bytes(&ends).done()
    };
    with_checksum(internet_checksum(&with_checksum(0)))
}

/// What a frame's headers say; `None` if it is refused.
pub(crate) fn read_frame(kind: TunnelKind, frame: &[u8]) -> Option<Decapsulated> {
    let mut link = reading(frame);
    link.skip(96)?;
    let mut metadata = TunnelMetadata::default();
    let ip = frame.get(14..)?;
    let (protocol, offset, has_dont_fragment) = match link.bits(16)? {
        0x0800 => read_ipv4(ip, &mut metadata)?,
        0x86dd => read_ipv6(ip, &mut metadata)?,
        _ => return None,
    };
    let is_udp = !matches!(kind, TunnelKind::Gre | TunnelKind::Erspan);
    if protocol != if is_udp { 17 } else { 47 } {
        return None;
    }
    let (mut start, mut end) = (14 + offset, frame.len());
    if is_udp {
        let datagram = &frame[start..];
        let mut udp = reading(datagram);
        metadata.source_port = udp.bits(16)? as u16;
        metadata.destination_port = udp.bits(16)? as u16;
        let len = udp.bits(16)? as usize;
        let has_checksum = udp.bits(16)? != 0;
        if len < 8 || len > datagram.len() {
            return None;
        }
        if has_checksum {
            let covered = [
                pseudo_header(metadata.endpoints, len),
                datagram[..len].to_vec(),
            ];
            if internet_checksum(&covered.concat()) != 0 {
                return None;
            }
            metadata.flags |= TunnelFlags::CHECKSUM;
        }
        end = start + len;
        start += 8;
    }
    let mut told = read_payload(kind, &frame[start..end], metadata)?;
    if let TunnelContent::Packet { range, .. } = &mut told.content {
        *range = range.start + start..range.end + start;
    }
    told.has_dont_fragment = has_dont_fragment;
    Some(told)
}

/// The protocol, the offset of its header, and whether the packet must not be fragmented.
type Ip = (u64, usize, bool);

fn read_ipv4(ip: &[u8], metadata: &mut TunnelMetadata) -> Option<Ip> {
    let mut header = reading(ip);
    header.must(4, 4)?;
    header.must(4, 5)?;
    metadata.tos = header.bits(8)? as u8;
    let len = header.bits(16)? as usize;
    header.skip(17)?;
    let has_dont_fragment = header.bits(1)? == 1;
    header.must(14, 0)?;
    metadata.ttl = header.bits(8)? as u8;
    let protocol = header.bits(8)?;
    header.skip(16)?;
    metadata.endpoints = Endpoints::V4 {
        source: (header.bits(32)? as u32).into(),
        destination: (header.bits(32)? as u32).into(),
    };
    let is_whole = len >= 20 && len <= ip.len();
    let is_right = is_whole && internet_checksum(&ip[..20]) == 0;
    is_right.then_some((protocol, 20, has_dont_fragment))
}

fn read_ipv6(ip: &[u8], metadata: &mut TunnelMetadata) -> Option<Ip> {
    let mut header = reading(ip);
    header.must(4, 6)?;
    metadata.tos = header.bits(8)? as u8;
    header.skip(20)?;
    let end = header.bits(16)? as usize + 40;
    let mut protocol = header.bits(8)?;
    metadata.ttl = header.bits(8)? as u8;
    let mut address = || {
        let high = u128::from(header.bits(64)?);
        Some((high << 64 | u128::from(header.bits(64)?)).into())
    };
    metadata.endpoints = Endpoints::V6 {
        source: address()?,
        destination: address()?,
    };
    let packet = ip.get(..end)?;
    let mut offset = 40;
    for _ in 0..9 {
        // Authentication counts in words of four bytes, without two of them.
        let (unit, more) = match protocol {
            0 | 43 | 60 => (8, 1),
            51 => (4, 2),
            // A fragment is refused, whole or not.
            44 => return None,
            _ => return Some((protocol, offset, false)),
        };
        let mut extension = reading(packet.get(offset..)?);
        let next = extension.bits(8)?;
        let len = (extension.bits(8)? as usize + more) * unit;
        if protocol == 51 && len < 12 || offset + len > packet.len() {
            return None;
        }
        protocol = next;
        offset += len;
    }
    None
}

/// What a tunnel's header says; `None` if it is refused.
pub(crate) fn read_payload(
    kind: TunnelKind,
    payload: &[u8],
    mut metadata: TunnelMetadata,
) -> Option<Decapsulated> {
    let mut header = reading(payload);
    let (start, inner) = match kind {
        TunnelKind::Vxlan(flavour) => read_vxlan(&mut header, flavour, &mut metadata)?,
        TunnelKind::Geneve => {
            header.must(2, 0)?;
            let len = header.bits(6)? as usize * 4;
            let is_control = header.bits(1)? == 1;
            header.skip(7)?;
            header.must(16, 0x6558)?;
            metadata.id = header.bits(24)?;
            header.skip(8)?;
            metadata.options = TunnelOptions::parse(payload.get(8..8 + len)?).ok()?;
            metadata.flags |= TunnelFlags::KEY;
            if is_control {
                metadata.flags |= TunnelFlags::OAM;
            }
            (8 + len, InnerType::Ethernet)
        }
        TunnelKind::Gre => read_gre(payload, &mut metadata)?,
        TunnelKind::Erspan => read_erspan(&mut header, &mut metadata)?,
        TunnelKind::Gtpu => {
            let flags = header.bits(8)? as u8;
            let message = header.bits(8)? as u8;
            let len = header.bits(16)? as usize;
            metadata.id = header.bits(32)?;
            metadata.gtpu = GtpuValues { flags, message };
            if message != 255 {
                return Some(Decapsulated {
                    metadata,
                    content: TunnelContent::Message,
                    has_dont_fragment: false,
                });
            }
            if len + 8 > payload.len() {
                return None;
            }
            let start = if flags & 2 != 0 { 12 } else { 8 };
            match payload.get(start)? / 16 {
                4 => (start, InnerType::Bare(EtherType(0x0800))),
                6 => (start, InnerType::Bare(EtherType(0x86dd))),
                _ => return None,
            }
        }
    };
    let range = start..payload.len();
    Some(Decapsulated {
        metadata,
        content: TunnelContent::Packet { range, inner },
        has_dont_fragment: false,
    })
}

fn read_vxlan(
    header: &mut Reading<'_>,
    flavour: VxlanFlavour,
    metadata: &mut TunnelMetadata,
) -> Option<(usize, InnerType)> {
    let has_group = header.bits(1)? == 1;
    header.must(1, 0)?;
    let version = header.bits(2)?;
    header.must(1, 1)?;
    let has_protocol = header.bits(1)? == 1;
    header.must(1, 0)?;
    let is_control = header.bits(1)? == 1;
    let (second, third, fourth) = (header.bits(8)?, header.bits(8)?, header.bits(8)?);
    metadata.id = header.bits(24)?;
    header.must(8, 0)?;
    metadata.flags |= TunnelFlags::KEY;
    let mut inner = InnerType::Ethernet;
    if has_protocol {
        if is_control || has_group || second != 0 || third != 0 {
            return None;
        }
        inner = match fourth {
            1 => InnerType::Bare(EtherType(0x0800)),
            2 => InnerType::Bare(EtherType(0x86dd)),
            3 => InnerType::Ethernet,
            4 => InnerType::Bare(EtherType(0x894f)),
            _ => return None,
        };
    } else if has_group {
        if flavour != VxlanFlavour::GroupPolicy || version != 0 || is_control {
            return None;
        }
        metadata.group_policy = GroupPolicy {
            id: (third << 8 | fourth) as u16,
            flags: second as u8 & 0x48,
        };
    } else if (version, is_control, second, third, fourth) != (0, false, 0, 0, 0) {
        return None;
    }
    Some((8, inner))
}

fn read_gre(payload: &[u8], metadata: &mut TunnelMetadata) -> Option<(usize, InnerType)> {
    let mut header = reading(payload);
    let has_checksum = header.bits(1)? == 1;
    header.must(1, 0)?;
    let has_key = header.bits(1)? == 1;
    let has_sequence = header.bits(1)? == 1;
    header.must(12, 0)?;
    let protocol = header.bits(16)? as u16;
    if has_checksum {
        header.skip(32)?;
        if internet_checksum(payload) != 0 {
            return None;
        }
        metadata.flags |= TunnelFlags::CHECKSUM;
    }
    if has_key {
        metadata.id = header.bits(32)?;
        metadata.flags |= TunnelFlags::KEY;
    }
    if has_sequence {
        header.skip(32)?;
    }
    let inner = match protocol {
        0x6558 => InnerType::Ethernet,
        0..0x0600 => return None,
        other => InnerType::Bare(EtherType(other)),
    };
    Some((header.position(), inner))
}

fn read_erspan(
    header: &mut Reading<'_>,
    metadata: &mut TunnelMetadata,
) -> Option<(usize, InnerType)> {
    header.must(16, 0x1000)?;
    if ![0x88be, 0x22eb].contains(&header.bits(16)?) {
        return None;
    }
    header.skip(32)?;
    let version = header.bits(4)? as u8;
    header.skip(18)?;
    metadata.id = header.bits(10)?;
    metadata.flags |= TunnelFlags::KEY;
    metadata.erspan = match version {
        1 => ErspanValues {
            version,
            index: header.bits(32)? as u32,
            ..ErspanValues::default()
        },
        2 => {
            header.skip(32 + 16 + 6)?;
            let values = ErspanValues {
                version,
                hardware_id: header.bits(6)? as u8,
                direction: header.bits(1)? as u8,
                ..ErspanValues::default()
            };
            header.skip(3)?;
            values
        }
        _ => return None,
    };
    Some((header.position(), InnerType::Ethernet))
}
