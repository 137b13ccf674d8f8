//! Tracks connections, for the action `ct()`.
//!
//! ```text
//!   frame, headers, request, now --Tracker::track--> state, mark, label, original tuple
//! ```
//!
//! A pure crate: it reads no clock, opens no socket, and takes chance as an argument.

mod alg;
mod chain;
mod connection;
mod counters;
mod entry;
mod expectation;
mod fragments;
mod hash;
mod index;
mod nat;
mod reading;
mod request;
mod rewrite;
mod state;
mod sync;
mod table;
mod tcp;
pub mod text;
mod timeout;
mod tracker;
mod tuple;
mod wheel;
mod zones;

#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;

pub use counters::Counters;
pub use entry::{
    ConnectionEntry, OtherState, ProtocolState, Status, TcpPeer, TcpPeerFlags, TcpState,
};
pub use expectation::Expectation;
pub use fragments::{
    FamilyStatus, Fragment, FragmentContext, FragmentList, FragmentListState, FragmentRefusal,
    FragmentSettingError, FragmentSettings, Fragments, FragmentsStatus, Held, IpFamily,
    MAX_FRAGMENTS_CEILING, MIN_SIZE_FLOOR_BYTES, Reassembled,
};
pub use request::{
    AddressTranslation, Alg, Bits, NatAddresses, NatPorts, Previous, Selection, TrackRequest,
    Tracked, TranslationKind,
};
pub use state::CtState;
pub use timeout::{Timeout, TimeoutPolicy};
pub use tracker::{Config, Cursor, FlushFilter, NotResumed, SavedConnection, Tracker};
pub use tuple::{Endpoint, Tuple, protocol};
pub use zones::ZoneLimit;
