//! Messages as bytes.
//!
//! ```text
//!   header: version, type, length, xid
//!     [experimenter, subtype]            an experimenter's message
//!     [type, flags, [padding], ...]      a multipart request or reply
//!   body
//! ```

mod bundle;
mod connection;
mod continuation;
mod flow;
mod group;
mod kinds;
mod meter;
mod monitor;
mod nicira;
mod packet;
mod pieces;
mod port;
mod queue;
mod reading;
mod stats;
mod switch;
mod table;
mod writing;

use crate::error::{ErrorCode, Refusal, refuse};
use crate::message::connection::Hello;
use crate::message::{Kind, Message, Place, kind_of, place_of};
use crate::version::{Version, Versions};
use crate::wire::{Reader, Writer};

pub use pieces::{Pieces, encode_reply};

/// Size of every message's header.
pub const HEADER_BYTES: usize = 8;

/// The type of experimenters' messages.
const EXPERIMENTER: u8 = 4;
/// The statistics type of experimenters.
const EXPERIMENTER_STATS: u16 = 0xffff;
/// More requests or replies follow.
const MORE: u16 = 1;

/// What the meaning of a message depends on, besides its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Context {
    /// Whether flow-mods of OpenFlow 1.0 have their table in the command
    /// (`NXT_FLOW_MOD_TABLE_ID`).
    pub flow_mod_table_id: bool,
}

/// A message with its header.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frame {
    /// Its version; the newest known for a hello of a newer one.
    pub version: Version,
    /// The transaction.
    pub xid: u32,
    /// The message.
    pub message: Message,
}

/// The length of the message that begins a stream; `None` if more bytes are needed to tell.
///
/// # Errors
/// If the length is less than a header's, so that the stream cannot be followed any more.
pub fn message_length(stream: &[u8]) -> Result<Option<usize>, Refusal> {
    let Some(header) = stream.get(..HEADER_BYTES) else {
        return Ok(None);
    };
    let length = usize::from(u16::from_be_bytes([header[2], header[3]]));
    if length < HEADER_BYTES {
        let what = format!("a message of {length} bytes, which is less than its header");
        return Err(refuse(ErrorCode::OFPBRC_BAD_LEN, what));
    }
    Ok(Some(length))
}

/// The transaction of a message, as far as its header goes.
pub fn xid_of(message: &[u8]) -> u32 {
    let bytes = message.get(4..8).and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, u32::from_be_bytes)
}

/// Reads a whole message.
///
/// # Errors
/// With the standard's error for the message's fault.
///
/// ```
/// use thalweg_openflow::message::Message;
/// use thalweg_openflow::{Context, Version, decode, encode};
///
/// let bytes = encode(Version::V13, 7, &Message::BarrierRequest).expect("1.3 has barriers");
/// assert_eq!(bytes, [4, 20, 0, 8, 0, 0, 0, 7]);
/// let frame = decode(&bytes, Context::default())?;
/// assert_eq!((frame.xid, frame.message), (7, Message::BarrierRequest));
/// # Ok::<(), thalweg_openflow::Refusal>(())
/// ```
pub fn decode(message: &[u8], context: Context) -> Result<Frame, Refusal> {
    let mut reader = Reader::new(message, ErrorCode::OFPBRC_BAD_LEN);
    let (number, kind) = (reader.u8()?, reader.u8()?);
    let length = usize::from(reader.u16()?);
    let xid = reader.u32()?;
    if length != message.len() {
        let what = format!("{} bytes for a message of {length}", message.len());
        return Err(reader.bad_length(what));
    }
    if kind == 0 {
        let hello = connection::decode_hello(number, &mut reader)?;
        return Ok(Frame {
            version: Version::from_number(number).unwrap_or(Version::V15),
            xid,
            message: Message::Hello(hello),
        });
    }
    let Some(version) = Version::from_number(number) else {
        let what = format!("version {number}");
        return Err(refuse(ErrorCode::OFPBRC_BAD_VERSION, what));
    };
    let (found, more) = find(version, kind, &mut reader)?;
    let mut body = reading::Body {
        version,
        xid,
        context,
        more,
    };
    let message = body.read(found, &mut reader)?;
    if !reader.is_empty() {
        let what = format!("{} bytes behind the message", reader.len());
        return Err(reader.bad_length(what));
    }
    Ok(Frame {
        version,
        xid,
        message,
    })
}

/// Reads the rest of the headers; returns the kind, and whether more messages follow.
fn find(version: Version, kind: u8, reader: &mut Reader<'_>) -> Result<(Kind, bool), Refusal> {
    let (request, reply) = stats_types(version);
    if kind == EXPERIMENTER {
        let (who, subtype) = (reader.u32()?, reader.u32()?);
        let place = match who {
            crate::NICIRA => Place::Nicira,
            crate::ONF => Place::Onf,
            _ => {
                let what = format!("a message of experimenter {who:#x}");
                return Err(refuse(ErrorCode::OFPBRC_BAD_VENDOR, what));
            }
        };
        let unknown = || {
            let what = format!("message {subtype} of experimenter {who:#x}");
            refuse(ErrorCode::OFPBRC_BAD_SUBTYPE, what)
        };
        let found = kind_of(version, place, subtype).ok_or_else(unknown)?;
        return Ok((found, false));
    }
    if kind != request && kind != reply {
        let unknown = || refuse(ErrorCode::OFPBRC_BAD_TYPE, format!("message {kind}"));
        let found = kind_of(version, Place::Standard, kind.into()).ok_or_else(unknown)?;
        return Ok((found, false));
    }
    let is_request = kind == request;
    let (stat, flags) = (reader.u16()?, reader.u16()?);
    if version > Version::V10 {
        reader.skip(4)?;
    }
    let more = flags & MORE != 0;
    if stat != EXPERIMENTER_STATS {
        let place = if is_request {
            Place::Request
        } else {
            Place::Reply
        };
        let unknown = || refuse(ErrorCode::OFPBRC_BAD_STAT, format!("statistics {stat}"));
        let found = kind_of(version, place, stat.into()).ok_or_else(unknown)?;
        return Ok((found, more));
    }
    let (who, subtype) = (reader.u32()?, reader.u32()?);
    if version == Version::V10 {
        reader.skip(4)?;
    }
    let place = match (who, is_request) {
        (crate::NICIRA, true) => Place::NiciraRequest,
        (crate::NICIRA, false) => Place::NiciraReply,
        (crate::ONF, true) => Place::OnfRequest,
        (crate::ONF, false) => Place::OnfReply,
        _ => {
            let what = format!("statistics of experimenter {who:#x}");
            return Err(refuse(ErrorCode::OFPBRC_BAD_VENDOR, what));
        }
    };
    let unknown = || {
        let what = format!("statistics {subtype} of experimenter {who:#x}");
        refuse(ErrorCode::OFPBRC_BAD_SUBTYPE, what)
    };
    let found = kind_of(version, place, subtype).ok_or_else(unknown)?;
    Ok((found, more))
}

/// The types of requests and replies for statistics.
fn stats_types(version: Version) -> (u8, u8) {
    match version {
        Version::V10 => (16, 17),
        _ => (18, 19),
    }
}

/// Writes a message; `None` if the version has no such message or cannot express it, or if it
/// is longer than 65,535 bytes.
pub fn encode(version: Version, xid: u32, message: &Message) -> Option<Vec<u8>> {
    if let Message::Hello(hello) = message {
        return Some(encode_hello(xid, *hello));
    }
    if let Some(other) = writing::in_version(version, message) {
        return encode(version, xid, &other);
    }
    if !writing::can_say(version, message) {
        return None;
    }
    let (kind, more) = kinds::kind_of(message);
    let mut writer = begin(version, xid, kind, more)?;
    writing::body(version, message, &mut writer);
    finish(writer)
}

fn encode_hello(xid: u32, hello: Hello) -> Vec<u8> {
    let mut writer = Writer::new();
    let newest = hello.versions.newest().unwrap_or(Version::V10);
    writer.u8(newest.number());
    writer.u8(0);
    writer.u16(0);
    writer.u32(xid);
    if hello.versions != Versions::up_to(newest.number()) {
        writer.u16(1);
        writer.u16(8);
        writer.u32(hello.versions.bits());
    }
    writer.patch_length(2, 0);
    writer.into_bytes()
}

/// Begins a message: all its headers.
fn begin(version: Version, xid: u32, kind: Kind, more: bool) -> Option<Writer> {
    let (place, number) = place_of(version, kind)?;
    let (request, reply) = stats_types(version);
    let mut writer = Writer::new();
    writer.u8(version.number());
    writer.u8(match place {
        Place::Standard => number as u8,
        Place::Nicira | Place::Onf => EXPERIMENTER,
        Place::Request | Place::NiciraRequest | Place::OnfRequest => request,
        Place::Reply | Place::NiciraReply | Place::OnfReply => reply,
    });
    writer.u16(0);
    writer.u32(xid);
    let who = match place {
        Place::Nicira | Place::NiciraRequest | Place::NiciraReply => Some(crate::NICIRA),
        Place::Onf | Place::OnfRequest | Place::OnfReply => Some(crate::ONF),
        Place::Standard | Place::Request | Place::Reply => None,
    };
    let is_stats = !matches!(place, Place::Standard | Place::Nicira | Place::Onf);
    if is_stats {
        let stat = if who.is_some() {
            EXPERIMENTER_STATS
        } else {
            number as u16
        };
        writer.u16(stat);
        writer.u16(if more { MORE } else { 0 });
        writer.zeros(if version > Version::V10 { 4 } else { 0 });
    }
    if let Some(who) = who {
        writer.u32(who);
        writer.u32(number);
        writer.zeros(if is_stats && version == Version::V10 {
            4
        } else {
            0
        });
    }
    Some(writer)
}

/// Ends a message: its length.
fn finish(mut writer: Writer) -> Option<Vec<u8>> {
    if writer.len() > usize::from(u16::MAX) {
        return None;
    }
    writer.patch_length(2, 0);
    Some(writer.into_bytes())
}
