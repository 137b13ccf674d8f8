//! TFTP (RFC 1350).
//!
//! ```text
//!   | opcode: 1 read, 2 write | file name | 0 | mode | 0 | options (RFC 2347) ...
//! ```

/// The longest mode: "netascii" (RFC 1350 section 5).
const MODE_MAX: usize = 8;

/// Whether `payload` is a request to read or to write.
pub(super) fn is_request(payload: &[u8]) -> bool {
    let Some((&[0, 1 | 2], rest)) = payload.split_first_chunk() else {
        return false;
    };
    let mut strings = rest.split(|byte| *byte == 0);
    let (name, mode, is_ended) = (strings.next(), strings.next(), strings.next().is_some());
    let is_mode = |mode: &[u8]| {
        mode.len() <= MODE_MAX
            && ["netascii", "octet", "mail"]
                .iter()
                .any(|known| mode.eq_ignore_ascii_case(known.as_bytes()))
    };
    is_ended && name.is_some_and(|name| !name.is_empty()) && mode.is_some_and(is_mode)
}
