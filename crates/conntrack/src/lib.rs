//! Tracks connections, for the action `ct()`.
//!
//! ```text
//!   frame, headers, request, now --Tracker::track--> state, mark, label, original tuple
//! ```
//!
//! A pure crate: it reads no clock, opens no socket, and takes chance as an argument.

mod request;
mod state;
mod tuple;

pub use request::{
    AddressRange, Alg, Bits, PortRange, Previous, Request, Selection, Tracked, Translation,
    TranslationKind,
};
pub use state::State;
pub use tuple::{Endpoint, Tuple, protocol};
