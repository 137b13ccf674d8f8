//! OpenFlow 1.0 to 1.5, with the Nicira, ONF and Open vSwitch extensions.
//!
//! The crate reads and writes messages and keeps no state but that of a session. It has no
//! socket, no clock and no thread: bytes go in and come out.
//!
//! 1. [`decode`] never trusts a length, never panics, and allocates no more than a constant
//!    times the size of the message.
//! 2. Each refusal has the standard's error ([`Refusal`]), in every version
//!    ([`ErrorCode::number`]).
//! 3. A message that Open vSwitch's programs write is decoded and encoded to the same bytes.
//! 4. One list per kind of thing serves all versions: fields (`field/table.rs`), errors
//!    (`error/table.rs`), actions (`action/table.rs`), messages (`message/table.rs`).

pub mod action;
mod codec;
mod error;
mod error_message;
mod field;
mod matching;
pub mod message;
mod port_number;
mod property;
mod session;
mod version;
mod wire;

pub use codec::{
    Context, Frame, HEADER_BYTES, Pieces, decode, encode, encode_reply, message_length, xid_of,
};
pub use error::{ErrorCode, ErrorNumber, Refusal, refuse};
pub use error_message::ErrorMessage;
pub use field::{Class, FieldId, Header, Needs, Value};
pub use matching::{Condition, Cookie, Judgement, Match};
pub use session::{Incoming, Session, SessionConfig, SessionCounters};
pub use version::{UnknownVersion, Version, Versions};
pub use wire::{Reader, Writer};

/// Nicira's experimenter number, which Open vSwitch uses.
pub const NICIRA: u32 = 0x0000_2320;
/// The Open Networking Foundation's experimenter number.
pub const ONF: u32 = 0x4f4e_4600;
