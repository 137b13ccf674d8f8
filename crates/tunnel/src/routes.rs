//! Routes of outer packets: through which device, from which address, to which next hop.
//!
//! A row has a prefix and a packet mark, and comes from a user (`ovs/route/add`) or from the
//! system's routing table. This is Open vSwitch's router (`lib/ovs-router.c`); `text.rs` has its
//! commands. The row with the highest priority among those that match wins. A row's priority is
//! the length of its prefix, plus 32 for a user's row, plus 64 for an address of this machine.
//! Lengths are those of IPv6, where IPv4 addresses are mapped into it: a user's `::/0` also matches
//! IPv4.
//!
//! 1. No two rows have the same mark, prefix and origin; a later one takes the place of the
//!    earlier.
//! 2. Each row has the source address that its device had when the row came.
//! 3. Of rows with the same priority, the longer prefix wins. Open vSwitch does not say which.
//!
//! A search probes once for each pair of origin and length that rows have.

mod text;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// The length of an IPv4 prefix, as one of IPv6, is longer by this.
const IPV4_OFFSET: u8 = 96;

/// A prefix of addresses, of either family. Bits behind the prefix are kept as they were written.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RoutePrefix {
    address: Ipv6Addr,
    len: u8,
}

impl RoutePrefix {
    /// The first `len` bits of an address; `None` if it has fewer.
    pub fn new(address: IpAddr, len: u8) -> Option<Self> {
        let (bits, len) = match address {
            IpAddr::V4(address) if len <= 32 => (address.to_ipv6_mapped(), len + IPV4_OFFSET),
            IpAddr::V6(address) if len <= 128 => (address, len),
            _ => return None,
        };
        Some(RoutePrefix { address: bits, len })
    }

    /// The prefix of one address.
    pub fn host(address: IpAddr) -> Self {
        RoutePrefix {
            address: mapped(address),
            len: 128,
        }
    }

    /// Reads `address/length` or `address/mask`; the prefix of an address alone is all of it.
    pub fn parse(text: &str) -> Option<Self> {
        let (address, rest) = match text.split_once('/') {
            Some((address, rest)) => (address.parse().ok()?, Some(rest)),
            None => (text.parse().ok()?, None),
        };
        let len = match (rest, address) {
            (None, IpAddr::V4(_)) => 32,
            (None, IpAddr::V6(_)) => 128,
            (Some(rest), _) => match (rest.parse(), rest.parse::<IpAddr>(), address) {
                (Ok(len), ..) => len,
                (_, Ok(IpAddr::V4(mask)), IpAddr::V4(_)) => {
                    let len = mask.to_bits().leading_ones();
                    let is_prefix = mask.to_bits().count_ones() == len;
                    is_prefix.then_some(len as u8)?
                }
                (_, Ok(IpAddr::V6(mask)), IpAddr::V6(_)) => {
                    let len = mask.to_bits().leading_ones();
                    let is_prefix = mask.to_bits().count_ones() == len;
                    is_prefix.then_some(len as u8)?
                }
                _ => return None,
            },
        };
        RoutePrefix::new(address, len)
    }

    /// The address as it was written.
    pub fn address(self) -> IpAddr {
        IpAddr::V6(self.address).to_canonical()
    }

    /// Whether the prefix is a whole address.
    pub const fn is_host(self) -> bool {
        self.len == 128
    }

    /// The bits of the prefix, followed by zeros.
    const fn network(self) -> u128 {
        first_bits(self.address.to_bits(), self.len)
    }
}

impl fmt::Display for RoutePrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let network = IpAddr::V6(Ipv6Addr::from_bits(self.network())).to_canonical();
        let len = match network {
            IpAddr::V4(_) => self.len.saturating_sub(IPV4_OFFSET),
            IpAddr::V6(_) => self.len,
        };
        write!(f, "{network}/{len}")
    }
}

const fn mapped(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

const fn first_bits(bits: u128, len: u8) -> u128 {
    match len {
        0 => 0,
        _ => bits & (u128::MAX << (128 - len)),
    }
}

/// An address of a device, with the prefix of its network.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct InterfaceAddress {
    /// The address.
    pub address: IpAddr,
    /// The length of the network's prefix, in the address's family.
    pub prefix_len: u8,
}

/// The address of a device from which packets to `destination` are sent.
///
/// It is the address whose network has the destination, the one with the longest prefix.
pub fn source_address(destination: IpAddr, addresses: &[InterfaceAddress]) -> Option<IpAddr> {
    let destination = mapped(destination).to_bits();
    let mut best: Option<(u8, IpAddr)> = None;
    for address in addresses {
        let Some(prefix) = RoutePrefix::new(address.address, address.prefix_len) else {
            continue;
        };
        let has_it = first_bits(destination, prefix.len) == prefix.network();
        // IPv4 goes from IPv4 addresses only, and IPv6 from IPv6 ones.
        let is_same_family = is_mapped(destination) == address.address.to_canonical().is_ipv4();
        if has_it && is_same_family && best.is_none_or(|(len, _)| prefix.len > len) {
            best = Some((prefix.len, address.address));
        }
    }
    best.map(|(_, address)| address)
}

const fn is_mapped(bits: u128) -> bool {
    Ipv6Addr::from_bits(bits).to_ipv4_mapped().is_some()
}

/// Where a row comes from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum RouteOrigin {
    /// The system's routing table.
    System,
    /// `ovs/route/add`.
    User,
    /// The system's routing table, for an address of this machine.
    Local,
}

impl RouteOrigin {
    const fn priority(self, len: u8) -> u8 {
        match self {
            RouteOrigin::System => len,
            RouteOrigin::User => len + 32,
            RouteOrigin::Local => len + 64,
        }
    }
}

/// A row: what matches, and where packets go.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TunnelRoute {
    /// The destinations.
    pub prefix: RoutePrefix,
    /// The packet mark.
    pub mark: u32,
    /// Where the row comes from.
    pub origin: RouteOrigin,
    /// The device that sends, which may be a bridge.
    pub device: String,
    /// The next hop, if it is not the destination.
    pub gateway: Option<IpAddr>,
}

/// A row that was found for a destination.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FoundRoute<'a> {
    /// The device that sends.
    pub device: &'a str,
    /// The next hop, if it is not the destination.
    pub gateway: Option<IpAddr>,
    /// The sender's address.
    pub source: IpAddr,
}

impl FoundRoute<'_> {
    /// The address whose MAC address the outer packet goes to.
    pub fn next_hop(&self, destination: IpAddr) -> IpAddr {
        self.gateway.unwrap_or(destination)
    }
}

/// Why a command about routes is refused. The texts are Open vSwitch's.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RouteError {
    /// The prefix or the address cannot be read.
    #[error("Invalid parameters")]
    BadParameters,
    /// The mark cannot be read.
    #[error("Invalid pkt_mark")]
    BadMark,
    /// Neither a mark nor an IPv4 gateway can be read.
    #[error("Invalid pkt_mark or gateway")]
    BadMarkOrGateway,
    /// Neither a mark nor an IPv6 gateway can be read.
    #[error("Invalid pkt_mark or IPv6 gateway")]
    BadMarkOrIpv6Gateway,
    /// There is no such device, or it has no address in the network of the prefix or gateway.
    #[error("Error while inserting route.")]
    NoSource,
    /// There is no such row.
    #[error("Not found")]
    NotFound,
}

/// The order of rows: by mark and prefix, then by origin.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct RouteKey {
    mark: u32,
    network: u128,
    len: u8,
    origin: RouteOrigin,
}

/// The routes of outer packets.
///
/// ```
/// use thalweg_tunnel::{InterfaceAddress, TunnelRoutes};
///
/// let mut routes = TunnelRoutes::default();
/// let address = InterfaceAddress { address: "192.0.2.1".parse()?, prefix_len: 24 };
/// let add = ["198.51.100.0/24", "br0", "192.0.2.254"];
/// assert_eq!(routes.add_command(&add, |_| vec![address]), Ok("OK"));
/// let route = routes.lookup("198.51.100.1".parse()?, 0, None).expect("a route");
/// assert_eq!((route.device, route.source), ("br0", address.address));
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct TunnelRoutes {
    rows: BTreeMap<RouteKey, (TunnelRoute, IpAddr)>,
    /// How many rows have an origin and a length; in the order in which they are probed.
    shapes: BTreeMap<Reverse<(u8, u8, RouteOrigin)>, usize>,
}

impl TunnelRoutes {
    /// Adds a row, in place of one with the same mark, prefix and origin.
    ///
    /// `addresses` are those of the row's device.
    ///
    /// # Errors
    /// [`RouteError::NoSource`] if no network of the device has the prefix's address or the
    /// gateway; then nothing changes.
    pub fn insert(
        &mut self,
        row: TunnelRoute,
        addresses: &[InterfaceAddress],
    ) -> Result<(), RouteError> {
        let source = source_address(row.prefix.address(), addresses)
            .or_else(|| source_address(row.gateway?, addresses))
            .ok_or(RouteError::NoSource)?;
        let key = key_of(row.mark, row.prefix, row.origin);
        if self.rows.insert(key, (row, source)).is_none() {
            *self.shapes.entry(shape_of(key)).or_default() += 1;
        }
        Ok(())
    }

    /// Removes a row.
    ///
    /// # Errors
    /// [`RouteError::NotFound`] if there is none.
    pub fn remove(
        &mut self,
        mark: u32,
        prefix: RoutePrefix,
        origin: RouteOrigin,
    ) -> Result<(), RouteError> {
        let key = key_of(mark, prefix, origin);
        self.rows.remove(&key).ok_or(RouteError::NotFound)?;
        if let Some(count) = self.shapes.get_mut(&shape_of(key)) {
            *count -= 1;
        }
        self.shapes.retain(|_, count| *count != 0);
        Ok(())
    }

    /// Removes all rows that come from the system's routing table.
    pub fn remove_system(&mut self) {
        let is_user = |origin: RouteOrigin| origin == RouteOrigin::User;
        self.rows.retain(|key, _| is_user(key.origin));
        self.shapes.retain(|shape, _| is_user(shape.0.2));
    }

    /// The rows by mark and prefix, each with its source address.
    pub fn rows(&self) -> impl Iterator<Item = (&TunnelRoute, IpAddr)> {
        self.rows.values().map(|(row, source)| (row, *source))
    }

    /// Whether some row goes through a device, so that it may receive outer packets.
    pub fn has_device(&self, device: &str) -> bool {
        self.rows().any(|(row, _)| row.device == device)
    }

    /// The route of packets to `destination` with a packet mark.
    ///
    /// If a port says the `source`, it must be an address of this machine: one that a local row
    /// has. An unspecified address is no source.
    pub fn lookup(
        &self,
        destination: IpAddr,
        mark: u32,
        source: Option<IpAddr>,
    ) -> Option<FoundRoute<'_>> {
        let source = source.filter(|source| !source.is_unspecified());
        if let Some(source) = source {
            let (row, _) = self.find(mapped(source).to_bits(), mark)?;
            if row.origin != RouteOrigin::Local {
                return None;
            }
        }
        let (row, own) = self.find(mapped(destination).to_bits(), mark)?;
        Some(FoundRoute {
            device: &row.device,
            gateway: row.gateway,
            source: source.unwrap_or(*own),
        })
    }

    fn find(&self, destination: u128, mark: u32) -> Option<&(TunnelRoute, IpAddr)> {
        let mut shapes = self.shapes.keys();
        shapes.find_map(|Reverse((_, len, origin))| {
            self.rows.get(&RouteKey {
                mark,
                network: first_bits(destination, *len),
                len: *len,
                origin: *origin,
            })
        })
    }
}

const fn key_of(mark: u32, prefix: RoutePrefix, origin: RouteOrigin) -> RouteKey {
    RouteKey {
        mark,
        network: prefix.network(),
        len: prefix.len,
        origin,
    }
}

const fn shape_of(key: RouteKey) -> Reverse<(u8, u8, RouteOrigin)> {
    Reverse((key.origin.priority(key.len), key.len, key.origin))
}
