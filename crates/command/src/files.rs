//! Reads whole files, with a limit and with advice where one cannot be read.

use std::fs::File;
use std::io::{BufReader, Error, ErrorKind, Read, Write};
use std::path::Path;

use anyhow::Result;

use crate::failure::bad_input;

/// Longest file that is read whole, such as a P4 program.
const MAX_BYTES: u64 = 1 << 30;

/// Advice for a file that is not text where rules belong.
const NO_RULES: &str = "give rules as text (a capture belongs to --pcap)";

/// The text of a rules file or a similar file, up to `MAX_BYTES`.
///
/// # Errors
/// If it cannot be read, is too long, or is not text.
pub fn contents(path: &Path) -> Result<String> {
    contents_or(path, NO_RULES)
}

/// The text of a P4 program.
///
/// # Errors
/// If it cannot be read, is too long, or is not text.
pub fn program(path: &Path) -> Result<String> {
    let advice = "give the program as the JSON that p4c's back end for BMv2 writes";
    contents_or(path, advice)
}

/// The text of a file. `otherwise` is the advice in the error for a file that is not text.
///
/// # Errors
/// If it cannot be read, is too long, or is not text.
pub fn contents_or(path: &Path, otherwise: &str) -> Result<String> {
    let bytes = read_whole(path, MAX_BYTES)?;
    let text = String::from_utf8(bytes);
    text.map_err(|error| {
        let error = Error::new(ErrorKind::InvalidData, error);
        unreadable_or(path, &error, otherwise)
    })
}

/// The bytes of a file, up to `MAX_BYTES`.
///
/// # Errors
/// If it cannot be read or is too long.
pub fn bytes(path: &Path) -> Result<Vec<u8>> {
    read_whole(path, MAX_BYTES)
}

fn read_whole(path: &Path, limit: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| unreadable(path, &error))?;
    // One more byte shows that the file is too long.
    let read = file.take(limit + 1).read_to_end(&mut bytes);
    read.map_err(|error| unreadable(path, &error))?;
    match bytes.len() as u64 > limit {
        false => Ok(bytes),
        true => Err(too_long(path, limit)),
    }
}

fn too_long(path: &Path, limit: u64) -> anyhow::Error {
    let path = path.display();
    bad_input(format!(
        "{path}: there are more than {limit} bytes in it; give a shorter file"
    ))
}

/// The error for a file of rules that cannot be read.
pub(crate) fn unreadable(path: &Path, error: &Error) -> anyhow::Error {
    unreadable_or(path, error, NO_RULES)
}

fn unreadable_or(path: &Path, error: &Error, otherwise: &str) -> anyhow::Error {
    let advice = match error.kind() {
        ErrorKind::InvalidData => otherwise,
        ErrorKind::PermissionDenied => "make it readable, or run as a user who may read it",
        ErrorKind::IsADirectory => "name a file in it",
        _ => "check the path",
    };
    // One message for all invalid text; the error may add details that users do not need.
    let what = match error.kind() {
        ErrorKind::InvalidData => "stream did not contain valid UTF-8".to_owned(),
        _ => error.to_string(),
    };
    bad_input(format!("{}: {what}; {advice}", path.display()))
}

/// The text of a file, unpacked if its name ends in `.xz`; up to `MAX_BYTES`.
///
/// # Errors
/// If it cannot be read or unpacked, is too long, or is not text.
pub fn unpacked(path: &Path) -> Result<String> {
    if path.extension().is_none_or(|extension| extension != "xz") {
        return contents_or(path, "name a file of text, as it is or packed with xz");
    }
    let cannot = |what: String| {
        let path = path.display();
        bad_input(format!(
            "{path}: {what}; name a file of text, as it is or packed with xz"
        ))
    };
    let file = File::open(path).map_err(|error| cannot(error.to_string()))?;
    let mut bytes = Bounded {
        bytes: Vec::new(),
        limit: MAX_BYTES as usize,
    };
    let unpacked = lzma_rs::xz_decompress(&mut BufReader::new(file), &mut bytes);
    unpacked.map_err(|error| cannot(error.to_string()))?;
    String::from_utf8(bytes.bytes).map_err(|error| cannot(error.to_string()))
}

/// Collects written bytes in memory, up to a limit.
struct Bounded {
    bytes: Vec<u8>,
    limit: usize,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.bytes.len() + bytes.len() > self.limit {
            let what = format!("unpacked it has more than {} bytes", self.limit);
            return Err(Error::other(what));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unpacked_has_a_limit() {
        let mut bounded = Bounded {
            bytes: Vec::new(),
            limit: 3,
        };
        assert!(bounded.write_all(b"abc").is_ok() && bounded.write_all(b"d").is_err());
        assert_eq!(bounded.bytes, b"abc");
    }

    #[test]
    fn an_endless_file_is_refused() {
        let error = read_whole(Path::new("/dev/zero"), 1 << 16).expect_err("it has no end");
        let text = error.to_string();
        assert!(
            text.contains("/dev/zero: there are more than 65536 bytes"),
            "{text}"
        );
    }
}
