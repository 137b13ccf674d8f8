//! Encodes the protocol as a Geneve option, and the packets that contain it.
//!
//! ```text
//!   outer IP | UDP 6081 | Geneve, VNI | our option | frame of the tenant
//!
//!   the option:   | class 0xff56:16 | type 0x01:8 | 0:3, length:5 |
//!                 | format 1:8 | kind:8 | flags:16 | records ... |
//! ```
//!
//! The option says what the outer header, the network identifier and the inner addresses do
//! not. `docs/v2p-wire-format.md` describes every byte. [`OptionRepr`] is the option alone,
//! [`Datagram`] a whole packet, from which the agents' [`crate::Packet`] is made.
//!
//! 1. No bytes make `parse` panic, and accepted bytes are written back unchanged: each option
//!    has one encoding, and everything else is refused with a reason.
//! 2. An option has at most [`OptionRepr::MAX_LEN`] bytes; reading and writing allocate
//!    nothing.
//! 3. A receiver that does not know the option may ignore it: it is not critical. Learning and
//!    invalidation packets are Geneve control packets (RFC 8926 section 3.4), and carry no
//!    frame.

mod datagram;

pub use datagram::{Datagram, DatagramError, EmitError};

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::Address;
use crate::mapping::{Key, MapVersion, Mapping, SwitchId, Vni};
use crate::packet::{Carried, CarryReason, Stale, Tags};

/// The option's class, from the experimental range 0xff00 to 0xffff (RFC 8926 section 7).
pub const OPTION_CLASS: u16 = 0xff56;
/// The option's type; its high bit is clear, so receivers may ignore the option.
pub const OPTION_TYPE: u8 = 0x01;

/// The layout of the records; any change of it needs another number.
const FORMAT: u8 = 1;
const FIXED_LEN: usize = 4;
/// Length of class, type and length of an option (RFC 8926 section 3.5).
const GENEVE_LEN: usize = 4;

const KIND_DATA: u8 = 0;
const KIND_LEARNING: u8 = 1;
const KIND_INVALIDATION: u8 = 2;

const HIT: u16 = 1 << 0;
const SOURCE_VERSION: u16 = 1 << 1;
const RESOLVED_VERSION: u16 = 1 << 2;
const ORIGIN: u16 = 1 << 3;
const MISDELIVERY: u16 = 1 << 4;
const MAPPING: u16 = 1 << 5;
const PROMOTED: u16 = 1 << 6;
const ORIGIN_V6: u16 = 1 << 8;
const MISDELIVERY_V6: u16 = 1 << 9;
const VIRTUAL_V6: u16 = 1 << 10;
const PHYSICAL_V6: u16 = 1 << 11;
/// Flags that describe a record, and the flag of that record.
const DEPENDENT: [(u16, u16); 3] = [
    (PROMOTED | VIRTUAL_V6 | PHYSICAL_V6, MAPPING),
    (ORIGIN_V6, ORIGIN),
    (MISDELIVERY_V6, MISDELIVERY),
];
const DATA_FLAGS: u16 = HIT
    | SOURCE_VERSION
    | RESOLVED_VERSION
    | ORIGIN
    | MISDELIVERY
    | MAPPING
    | PROMOTED
    | ORIGIN_V6
    | MISDELIVERY_V6
    | VIRTUAL_V6
    | PHYSICAL_V6;
const CONTROL_FLAGS: u16 = MAPPING | VIRTUAL_V6 | PHYSICAL_V6;

/// Why bytes are not the value of our option.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum OptionError {
    /// The bytes end before the records that the flags announce.
    #[error("the option ends before its records do")]
    Truncated,
    /// Bytes follow the last record.
    #[error("there are bytes behind the last record")]
    TrailingBytes,
    /// The option has another layout.
    #[error("the option has another format")]
    UnknownFormat,
    /// The kind of message is unknown.
    #[error("the kind of message is unknown")]
    UnknownKind,
    /// A flag is set that this kind of message does not have, or whose record is absent.
    #[error("a flag is set that has no meaning here")]
    BadFlags,
    /// A learning or invalidation packet without its mapping.
    #[error("the message has no mapping")]
    NoMapping,
    /// A byte that must be zero is not.
    #[error("a reserved byte is set")]
    ReservedByte,
    /// An address is `::`, or an IPv4 address written as IPv6.
    #[error("an address is unspecified, or not written in its own family")]
    BadAddress,
    /// A record holds version zero; an absent version must have no record.
    #[error("a version is zero")]
    ZeroVersion,
}

/// The content of our option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OptionRepr {
    /// The tags of a tenant's packet.
    Data(Tags),
    /// A learning packet's mapping.
    Learning(Mapping),
    /// An invalidation packet's stale mapping.
    Invalidation(Mapping),
}

impl OptionRepr {
    /// The greatest length of the option's value in bytes.
    pub const MAX_LEN: usize = FIXED_LEN + 4 + 8 + 8 + 16 + (16 + 8) + (4 + 8 + 16 + 16);

    /// Parses the option's value, without Geneve's four bytes in front.
    ///
    /// # Errors
    /// The first error, in the order of the bytes.
    pub fn parse(bytes: &[u8]) -> Result<OptionRepr, OptionError> {
        let mut reader = Reader { bytes };
        let [format, kind] = reader.take()?;
        let flags = u16::from_be_bytes(reader.take()?);
        if format != FORMAT {
            return Err(OptionError::UnknownFormat);
        }
        let allowed = match kind {
            KIND_DATA => DATA_FLAGS,
            KIND_LEARNING | KIND_INVALIDATION => CONTROL_FLAGS,
            _ => return Err(OptionError::UnknownKind),
        };
        let is_stray = |(flag, record)| flags & flag != 0 && flags & record == 0;
        if flags & !allowed != 0 || DEPENDENT.into_iter().any(is_stray) {
            return Err(OptionError::BadFlags);
        }
        let option = match kind {
            KIND_DATA => OptionRepr::Data(reader.tags(flags)?),
            _ if flags & MAPPING == 0 => return Err(OptionError::NoMapping),
            KIND_LEARNING => OptionRepr::Learning(reader.mapping(flags)?),
            _ => OptionRepr::Invalidation(reader.mapping(flags)?),
        };
        match reader.bytes.is_empty() {
            true => Ok(option),
            false => Err(OptionError::TrailingBytes),
        }
    }

    /// The number of bytes that [`OptionRepr::emit`] writes: a multiple of four.
    pub fn buffer_len(&self) -> usize {
        let mapping_len = |mapping: &Mapping| {
            4 + 8 + address_len(mapping.key.address) + address_len(mapping.place)
        };
        let records = match self {
            OptionRepr::Learning(mapping) | OptionRepr::Invalidation(mapping) => {
                mapping_len(mapping)
            }
            OptionRepr::Data(tags) => {
                let versions = [tags.source_version, tags.resolved_version];
                let versions = versions
                    .into_iter()
                    .filter(|version| *version != MapVersion::NONE);
                tags.hit.map_or(0, |_| 4)
                    + 8 * versions.count()
                    + tags.origin.map_or(0, address_len)
                    + tags
                        .misdelivery
                        .map_or(0, |stale| address_len(stale.place) + 8)
                    + tags
                        .carried
                        .map_or(0, |carried| mapping_len(&carried.mapping))
            }
        };
        FIXED_LEN + records
    }

    /// Writes the option's value.
    ///
    /// # Panics
    /// If `bytes` is shorter than [`OptionRepr::buffer_len`].
    pub fn emit(&self, bytes: &mut [u8]) {
        let mut writer = Writer {
            bytes,
            len: FIXED_LEN,
            flags: 0,
        };
        let kind = match self {
            OptionRepr::Data(tags) => {
                writer.tags(tags);
                KIND_DATA
            }
            OptionRepr::Learning(mapping) => {
                writer.mapping(mapping);
                KIND_LEARNING
            }
            OptionRepr::Invalidation(mapping) => {
                writer.mapping(mapping);
                KIND_INVALIDATION
            }
        };
        let [high, low] = writer.flags.to_be_bytes();
        bytes[..FIXED_LEN].copy_from_slice(&[FORMAT, kind, high, low]);
    }
}

/// The length of the option for a packet's tags, including Geneve's four bytes; 0 if the tags
/// are empty and the option is left out.
///
/// If mappings have no versions (`is_versioned` is false), the packet's versions are not
/// written.
pub fn tag_bytes(tags: &Tags, is_versioned: bool) -> u32 {
    let mut said = *tags;
    if !is_versioned {
        (said.source_version, said.resolved_version) = (MapVersion::NONE, MapVersion::NONE);
    }
    match said == Tags::default() {
        true => 0,
        false => (GENEVE_LEN + OptionRepr::Data(said).buffer_len()) as u32,
    }
}

fn address_len(address: Address) -> usize {
    if address.is_ipv4() { 4 } else { 16 }
}

/// The bytes left to read.
struct Reader<'a> {
    bytes: &'a [u8],
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], OptionError> {
        let (field, rest) = self
            .bytes
            .split_first_chunk()
            .ok_or(OptionError::Truncated)?;
        self.bytes = rest;
        Ok(*field)
    }

    fn version(&mut self) -> Result<MapVersion, OptionError> {
        self.take()
            .map(|bytes| MapVersion(u64::from_be_bytes(bytes)))
    }

    /// Reads a version that must not be zero.
    fn present_version(&mut self) -> Result<MapVersion, OptionError> {
        match self.version()? {
            MapVersion::NONE => Err(OptionError::ZeroVersion),
            version => Ok(version),
        }
    }

    fn address(&mut self, is_ipv6: bool) -> Result<Address, OptionError> {
        if !is_ipv6 {
            return Ok(Ipv4Addr::from(self.take::<4>()?).into());
        }
        let address = Address::new(IpAddr::V6(Ipv6Addr::from(self.take::<16>()?)));
        let address = address.filter(|address| !address.is_ipv4());
        address.ok_or(OptionError::BadAddress)
    }

    fn mapping(&mut self, flags: u16) -> Result<Mapping, OptionError> {
        let [a, b, c, reserved] = self.take()?;
        if reserved != 0 {
            return Err(OptionError::ReservedByte);
        }
        let vni = Vni::new(u32::from_be_bytes([0, a, b, c])).unwrap_or_default();
        let version = self.version()?;
        let address = self.address(flags & VIRTUAL_V6 != 0)?;
        let place = self.address(flags & PHYSICAL_V6 != 0)?;
        Ok(Mapping {
            key: Key { vni, address },
            place,
            version,
        })
    }

    fn tags(&mut self, flags: u16) -> Result<Tags, OptionError> {
        let mut tags = Tags::default();
        if flags & HIT != 0 {
            tags.hit = Some(SwitchId(u32::from_be_bytes(self.take()?)));
        }
        if flags & SOURCE_VERSION != 0 {
            tags.source_version = self.present_version()?;
        }
        if flags & RESOLVED_VERSION != 0 {
            tags.resolved_version = self.present_version()?;
        }
        if flags & ORIGIN != 0 {
            tags.origin = Some(self.address(flags & ORIGIN_V6 != 0)?);
        }
        if flags & MISDELIVERY != 0 {
            let place = self.address(flags & MISDELIVERY_V6 != 0)?;
            let version = self.version()?;
            tags.misdelivery = Some(Stale { place, version });
        }
        if flags & MAPPING != 0 {
            let mapping = self.mapping(flags)?;
            let is_promoted = flags & PROMOTED != 0;
            let reason = if is_promoted {
                CarryReason::Promoted
            } else {
                CarryReason::Spilled
            };
            tags.carried = Some(Carried { mapping, reason });
        }
        Ok(tags)
    }
}

/// The bytes written so far, and the flags that announce their records.
struct Writer<'a> {
    bytes: &'a mut [u8],
    len: usize,
    flags: u16,
}

impl Writer<'_> {
    fn put(&mut self, field: &[u8]) {
        self.bytes[self.len..self.len + field.len()].copy_from_slice(field);
        self.len += field.len();
    }

    fn address(&mut self, address: Address, is_ipv6: u16) {
        match address.to_ip() {
            IpAddr::V4(address) => self.put(&address.octets()),
            IpAddr::V6(address) => {
                self.flags |= is_ipv6;
                self.put(&address.octets());
            }
        }
    }

    fn version(&mut self, version: MapVersion, record: u16) {
        if version != MapVersion::NONE {
            self.flags |= record;
            self.put(&version.0.to_be_bytes());
        }
    }

    fn mapping(&mut self, mapping: &Mapping) {
        self.flags |= MAPPING;
        let [_, a, b, c] = mapping.key.vni.number().to_be_bytes();
        self.put(&[a, b, c, 0]);
        self.put(&mapping.version.0.to_be_bytes());
        self.address(mapping.key.address, VIRTUAL_V6);
        self.address(mapping.place, PHYSICAL_V6);
    }

    fn tags(&mut self, tags: &Tags) {
        if let Some(switch) = tags.hit {
            self.flags |= HIT;
            self.put(&switch.0.to_be_bytes());
        }
        self.version(tags.source_version, SOURCE_VERSION);
        self.version(tags.resolved_version, RESOLVED_VERSION);
        if let Some(origin) = tags.origin {
            self.flags |= ORIGIN;
            self.address(origin, ORIGIN_V6);
        }
        if let Some(stale) = tags.misdelivery {
            self.flags |= MISDELIVERY;
            self.address(stale.place, MISDELIVERY_V6);
            self.put(&stale.version.0.to_be_bytes());
        }
        if let Some(carried) = tags.carried {
            if carried.reason == CarryReason::Promoted {
                self.flags |= PROMOTED;
            }
            self.mapping(&carried.mapping);
        }
    }
}
