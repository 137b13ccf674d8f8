//! Bytes that other programs wrote: they are read, and written again as they were.
//!
//! 1. `vectors/ovs-ofctl.txt` has what `ovs-ofctl` 3.1 sends, in every version and for every
//!    command.
//! 2. `vectors/ovs-vswitchd.txt` has what `ovs-vswitchd` 3.1 answers and tells: replies,
//!    packets, monitors.
//! 3. `vectors/messages.txt` has messages of Open vSwitch's own tests, among them replies and
//!    messages with mistakes.
//! 4. `vectors/actions.txt` has every action that `ovs-ofctl` 3.1 sends, in every version.
//!
//! `shared/mod.rs` says what a line has.

mod shared;

use shared::{Random, set_length, vectors};
use thalweg_openflow::message::{Message, Reply};
use thalweg_openflow::{
    Context, ErrorCode, ErrorMessage, Frame, Version, decode, encode, encode_reply, message_length,
};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn what_others_write_is_read_and_written_again() {
    for vector in vectors() {
        let read = decode(&vector.bytes, vector.context);
        let frame = match (read, vector.error) {
            (Ok(frame), None) => frame,
            (Err(refusal), Some(error)) if refusal.code.name() == error => continue,
            (read, error) => panic!("{}: {read:?}, but {error:?} was right", vector.name),
        };
        let written = encode(frame.version, frame.xid, &frame.message).map(|bytes| hex(&bytes));
        let name = vector.name;
        assert_eq!(written, Some(hex(&vector.bytes)), "{name}: {frame:?}");
    }
}

/// Messages that the vectors hold, in every version that has them, as bytes.
fn in_every_version() -> Vec<(String, Version, Vec<u8>)> {
    let mut all = Vec::new();
    for vector in vectors() {
        let Ok(frame) = decode(&vector.bytes, vector.context) else {
            continue;
        };
        let Frame { message, .. } = frame;
        // An error has the numbers of its version.
        let is_error = matches!(message, Message::Error(_));
        let versions = Version::ALL.into_iter();
        for version in versions.filter(|version| !is_error || *version == frame.version) {
            if let Some(bytes) = encode(version, 7, &in_form_of(version, &message)) {
                all.push((format!("{} in {version}", vector.name), version, bytes));
            }
        }
    }
    all
}

/// The message as one of a version: a message inside another has the version of that.
fn in_form_of(version: Version, message: &Message) -> Message {
    let mut message = message.clone();
    if let Message::BundleAdd(add) = &mut message {
        let frame = decode(&add.message, Context::default()).expect("the vectors are right");
        let inner = encode(version, 7, &frame.message);
        add.message = inner.unwrap_or_default().into();
    }
    message
}

#[test]
fn what_is_written_is_read_in_every_version() {
    let written = in_every_version();
    assert!(written.len() > 2000, "{} messages", written.len());
    for (name, version, bytes) in written {
        // The table is part of the command where OpenFlow 1.0 names one.
        let context = Context {
            flow_mod_table_id: true,
        };
        let frame = match decode(&bytes, context) {
            Ok(frame) => frame,
            // A resubmit stands for "go to table" in 1.0. Open vSwitch, too, writes it behind
            // metadata and refuses to read it there.
            Err(refusal) if refusal.code == ErrorCode::OFPBAC_UNSUPPORTED_ORDER => continue,
            Err(refusal) => panic!("{name}: {refusal}: {}", hex(&bytes)),
        };
        let again = encode(version, frame.xid, &frame.message).map(|bytes| hex(&bytes));
        assert_eq!(again, Some(hex(&bytes)), "{name}: {frame:?}");
    }
}

/// `ovs-ofctl` reads what we write.
#[cfg(feature = "privileged-tests")]
#[test]
fn open_vswitch_reads_what_is_written() {
    let written = in_every_version();
    let path = std::env::temp_dir().join(format!("openflow-written-{}", std::process::id()));
    let mut complaints = Vec::new();
    for messages in written.chunks(100) {
        let bytes: Vec<u8> = messages
            .iter()
            .flat_map(|(_, _, bytes)| bytes.clone())
            .collect();
        std::fs::write(&path, bytes).expect("the temporary folder can be written to");
        let read = std::process::Command::new("ovs-ofctl")
            .arg("ofp-parse")
            .arg(&path)
            .output()
            .expect("ovs-ofctl is installed");
        let text = String::from_utf8_lossy(&read.stdout).into_owned();
        let warnings = String::from_utf8_lossy(&read.stderr).into_owned();
        assert!(read.status.success(), "{warnings}");
        let complains = |line: &&str| line.contains("***") || line.contains("WARN");
        complaints.extend(
            text.lines()
                .chain(warnings.lines())
                .filter(complains)
                .filter(|line| !is_expected(line))
                .map(str::to_owned),
        );
    }
    std::fs::remove_file(&path).expect("it was written");
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

/// Complaints that are right: Open vSwitch says the same of what it writes itself, or cannot
/// read what the standard has.
#[cfg(feature = "privileged-tests")]
fn is_expected(line: &str) -> bool {
    let expected = [
        // Metadata, and "go to table" behind it, in 1.0. Wherever "bad instructions" stands,
        // another line names the fault.
        "OFPBAC_UNSUPPORTED_ORDER",
        // The matches of 1.0 and 1.1 cannot name neighbour discovery.
        "set_field nd_reserved lacks correct prerequisites",
        "invalid instruction ordering",
        "OFPBIC_UNSUP_INST",
        "write_metadata instruction not allowed here",
        "reply bad instructions",
        // A monitor of 1.4 that asks for own changes in full.
        "OFPMOFC_BAD_FLAGS",
        "has bad flags",
        // A hello without versions.
        "peer does not support any OpenFlow version",
        // A match on neighbour discovery, which 1.1 has no room for.
        "OFPBAC_MATCH_INCONSISTENT",
        "set_field nd_target lacks correct prerequisites",
    ];
    expected.iter().any(|expected| line.contains(expected))
}

/// Reads a message and writes it again.
fn read_and_write(bytes: &[u8], context: Context) {
    if let Ok(frame) = decode(bytes, context) {
        for version in Version::ALL {
            encode(version, frame.xid, &frame.message);
        }
        if let Message::Reply(reply, _) = &frame.message {
            check_pieces(frame.version, reply);
        }
    }
    let _ = message_length(bytes);
}

/// Each piece is a whole message, and all but the last say that more follow.
fn check_pieces(version: Version, reply: &Reply) {
    for piece in encode_reply(version, 7, reply).into_iter().flatten() {
        assert_eq!(message_length(&piece), Ok(Some(piece.len())));
    }
}

/// An error quotes the message that it is about, and never becomes too long for that.
#[test]
fn an_error_quotes_the_whole_message() {
    for version in Version::ALL {
        for length in [8, 64, 65, 1_000, 65_535] {
            let offending = vec![7; length];
            for code in ErrorCode::all() {
                let error = ErrorMessage::new(version, code, &offending);
                let known = error.data.len();
                assert!(known == length || length == 65_535 && known > 65_000);
                let message = Message::Error(error);
                let bytes = encode(version, 1, &message).expect("it has room");
                let frame = decode(&bytes, Context::default()).expect("it was just written");
                assert_eq!(frame.message, message, "{code} in {version}");
            }
        }
    }
}

#[test]
fn a_message_cut_short_is_refused() {
    for vector in vectors() {
        for length in 0..vector.bytes.len() {
            let mut bytes = vector.bytes[..length].to_vec();
            assert!(decode(&bytes, vector.context).is_err(), "{}", vector.name);
            set_length(&mut bytes);
            read_and_write(&bytes, vector.context);
        }
    }
}

#[test]
fn a_wrong_length_anywhere_makes_no_panic() {
    for vector in vectors() {
        for bytes in vector.wrong_lengths() {
            read_and_write(&bytes, vector.context);
        }
    }
}

#[test]
fn random_changes_make_no_panic() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let vectors = vectors();
    for _ in 0..200_000 {
        let vector = &vectors[random.next(vectors.len())];
        let bytes = random.change(&vector.bytes);
        read_and_write(&bytes, vector.context);
    }
}
