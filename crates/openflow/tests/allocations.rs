//! Decoding allocates no more than a constant times the size of the message, whatever lengths
//! and counts it claims.

mod shared;

use allocation_counter::measure;
use shared::{Random, Vector, set_length, vectors};
use thalweg_openflow::{Context, decode};

/// Bytes that decoding may hold at a time for each byte of a message. The worst is 26: an action
/// of 8 bytes is a value of about a hundred, in a list that doubles as it grows.
const PER_BYTE: u64 = 32;
/// Bytes that any message may take: the text of an error, the first entries of a list.
const ALWAYS: u64 = 2_048;

/// The messages; the tables that decoding makes once are there.
fn messages() -> Vec<Vector> {
    let all = vectors();
    for vector in &all {
        // Whether it is refused is for other tests to say.
        let _ = decode(&vector.bytes, vector.context);
    }
    all
}

/// Decodes a message, and returns whether it could be read.
fn read(bytes: &[u8], context: Context) -> bool {
    let mut is_read = false;
    let used = measure(|| is_read = decode(bytes, context).is_ok());
    let most = ALWAYS + PER_BYTE * bytes.len() as u64;
    assert!(
        used.bytes_max <= most,
        "{} bytes held for a message of {}: {bytes:02x?}",
        used.bytes_max,
        bytes.len()
    );
    is_read
}

#[test]
fn what_is_read_takes_a_constant_for_each_byte() {
    let read = |vector: &Vector| read(&vector.bytes, vector.context);
    let count = messages().iter().filter(|vector| read(vector)).count();
    assert!(count > 1_000, "{count} messages");
}

#[test]
fn so_does_a_message_cut_short() {
    for vector in messages() {
        for length in 0..vector.bytes.len() {
            let mut bytes = vector.bytes[..length].to_vec();
            assert!(!read(&bytes, vector.context), "{}", vector.name);
            set_length(&mut bytes);
            read(&bytes, vector.context);
        }
    }
}

#[test]
fn so_does_a_message_with_a_wrong_length() {
    for vector in messages() {
        for bytes in vector.wrong_lengths() {
            read(&bytes, vector.context);
        }
    }
}

#[test]
fn so_does_a_message_with_random_changes() {
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let vectors = messages();
    for _ in 0..100_000 {
        let vector = &vectors[random.next(vectors.len())];
        let bytes = random.change(&vector.bytes);
        read(&bytes, vector.context);
    }
}

/// The longest messages of the smallest parts.
#[test]
fn so_does_the_longest_message() {
    for vector in messages() {
        // The last part again and again: an action, a bucket, an entry.
        for part in [4, 8, 16, 24, 32, 40, 48, 56, 64, 72] {
            let Some(start) = vector
                .bytes
                .len()
                .checked_sub(part)
                .filter(|start| *start >= 8)
            else {
                continue;
            };
            let tail = vector.bytes[start..].to_vec();
            let mut bytes = vector.bytes.clone();
            while bytes.len() + part <= 65_535 {
                bytes.extend_from_slice(&tail);
            }
            set_length(&mut bytes);
            read(&bytes, vector.context);
        }
    }
}
