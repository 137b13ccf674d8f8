//! What a `ct()` asks, and what it gets.

use std::net::Ipv6Addr;

use serde::{Deserialize, Serialize};

use crate::{CtState, Tuple};

/// What a `ct()` asks of the tracker.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct TrackRequest {
    /// The zone.
    pub zone: u16,
    /// Whether a new connection is remembered.
    pub is_commit: bool,
    /// Whether a connection that was committed in the other direction ends and this begins.
    pub is_forced: bool,
    /// Bits of the mark to write.
    pub mark: Option<Bits<u32>>,
    /// Bits of the label to write.
    pub label: Option<Bits<u128>>,
    /// How addresses are translated, if they are.
    pub translation: Option<AddressTranslation>,
    /// The protocol whose payload announces further connections.
    pub alg: Option<Alg>,
    /// The policy of time-outs; 0 for the default of the zone.
    pub timeout_policy: u32,
    /// The rule that asks, remembered in the committed connection; 0 for none.
    pub rule: u64,
    /// The bucket of a group that led to it, remembered in the same way; 0 for none.
    pub bucket: u64,
    /// A number of what the packet does afterwards: fragments wait for those that do the same.
    pub place: u64,
}

/// A value with the bits that it replaces.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Bits<T> {
    /// The new bits; zero outside the mask.
    pub value: T,
    /// Which bits are replaced.
    pub mask: T,
}

/// A protocol whose payload announces further connections.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Alg {
    /// FTP (RFC 959, RFC 2428).
    Ftp,
    /// TFTP (RFC 1350).
    Tftp,
}

/// How addresses are translated.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct AddressTranslation {
    /// For connections that are committed by this request: which end becomes what. `None`
    /// translates only packets of connections that have a translation (`nat` alone).
    pub target: Option<(TranslationKind, NatAddresses, NatPorts)>,
    /// How an address and a port are chosen.
    pub selection: Selection,
    /// Whether a client keeps its address over several connections (`persistent`).
    pub is_persistent: bool,
}

/// Which end of a connection is translated.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TranslationKind {
    /// The source.
    Source,
    /// The destination.
    Destination,
}

/// The first and the last address; `None` keeps the packet's own (a null binding).
pub type NatAddresses = Option<(Ipv6Addr, Ipv6Addr)>;

/// The first and the last port; `None` keeps the packet's own where it is free.
pub type NatPorts = Option<(u16, u16)>;

/// How an address and a port of the ranges are chosen.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Selection {
    /// As the implementation likes: a hash of the tuple.
    #[default]
    Any,
    /// A hash of the tuple (`hash`).
    Hash,
    /// Chance (`random`).
    Random,
}

/// What earlier `ct()` actions said of the packet (`ct_state`, `ct_zone` of its metadata).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Previous {
    /// The state; [`CtState::UNTRACKED`] if there was none, or after `ct_clear`.
    pub state: CtState,
    /// The zone.
    pub zone: u16,
}

/// What the tracker says of a packet: the fields that the next pass matches.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tracked {
    /// The state.
    pub state: CtState,
    /// The zone.
    pub zone: u16,
    /// The connection's mark.
    pub mark: u32,
    /// The connection's label.
    pub label: u128,
    /// The tuple of the connection's first packet, before translation; of the parent for a
    /// related connection; of the packet itself if it has no connection. `None` for an invalid
    /// packet.
    pub original: Option<Tuple>,
    /// The protocol by which the connection announces others, if its packets do.
    pub alg: Option<Alg>,
}
