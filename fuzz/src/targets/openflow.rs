//! Messages of OpenFlow: the first byte says what their meaning depends on, the rest is a stream
//! of them.
//!
//! 1. No bytes make decoding panic; bytes that are no message are an error.
//! 2. A message that is read can be written in its version. That is read again and written to
//!    the same bytes; what controllers ask for is the same message, apart from the forms of
//!    actions.
//! 3. A message written in any version has a right header and a right length.

use thalweg_openflow::action::Instructions;
use thalweg_openflow::message::flow::ALL_TABLES;
use thalweg_openflow::message::{Message, Reply};
use thalweg_openflow::{Context, Frame, Version, decode, encode, encode_reply, message_length};

/// Runs one input.
pub fn run(input: &[u8]) {
    let Some((first, mut stream)) = input.split_first() else {
        return;
    };
    let context = Context {
        flow_mod_table_id: first & 1 != 0,
    };
    while !stream.is_empty() {
        let length = match message_length(stream) {
            Ok(Some(length)) if length <= stream.len() => length,
            _ => {
                assert!(decode(stream, context).is_err(), "it is no whole message");
                return;
            }
        };
        let (message, rest) = stream.split_at(length);
        stream = rest;
        // An error is the other right answer.
        if let Ok(frame) = decode(message, context) {
            reads_back(&frame, context);
            in_every_version(&frame);
        }
    }
}

/// Invariant 2.
fn reads_back(frame: &Frame, context: Context) {
    let written = encode(frame.version, frame.xid, &frame.message);
    let written = written.unwrap_or_else(|| panic!("it cannot be written: {frame:?}"));
    let again = decode(&written, context);
    let again = again.unwrap_or_else(|refusal| panic!("{refusal}: {written:02x?}, of {frame:?}"));
    let twice = encode(again.version, again.xid, &again.message);
    assert_eq!(twice.as_ref(), Some(&written), "{frame:?}");
    if is_asked(&frame.message) {
        let known = without_forms(frame.message.clone());
        assert_eq!(without_forms(again.message), known, "{written:02x?}");
    }
}

/// A message without the parts that have several forms. Some actions have: an old `set_nw_src`
/// and a `load` are written as the newer version writes them. OpenFlow 1.0's commands name all
/// tables by none, and are written without knowing whether the reader looks for a table there.
fn without_forms(mut message: Message) -> Message {
    match &mut message {
        Message::FlowMod(asked) => {
            asked.instructions = Instructions::default();
            if asked.table == ALL_TABLES {
                asked.table = 0;
            }
        }
        Message::GroupMod(asked) => {
            let buckets = asked.buckets.iter_mut();
            buckets.for_each(|bucket| bucket.actions.clear());
        }
        Message::PacketOut(asked) => asked.actions.clear(),
        _ => {}
    }
    message
}

/// Whether controllers send it to have something done. The other messages tell something; bits
/// that their version has no name for, and texts that are too long, are not told again.
fn is_asked(message: &Message) -> bool {
    matches!(
        message,
        Message::Hello(_)
            | Message::FlowMod(_)
            | Message::GroupMod(_)
            | Message::MeterMod(_)
            | Message::PacketOut(_)
            | Message::RoleRequest(_)
            | Message::BundleControl(_)
            | Message::BundleAdd(_)
            | Message::TlvTableMod(_)
            | Message::Request(..)
    )
}

/// Invariant 3.
fn in_every_version(frame: &Frame) {
    for version in Version::ALL {
        let written = encode(version, frame.xid, &frame.message);
        let pieces = match &frame.message {
            Message::Reply(reply, _) => pieces(version, reply),
            _ => Vec::new(),
        };
        for message in written.into_iter().chain(pieces) {
            assert_eq!(message_length(&message), Ok(Some(message.len())));
        }
    }
}

fn pieces(version: Version, reply: &Reply) -> Vec<Vec<u8>> {
    encode_reply(version, 7, reply).unwrap_or_default()
}
