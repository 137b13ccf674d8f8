//! Errors of calls: a code of the standard, and what to do.
//!
//! gRPC has one code per call. A batch of writes or reads also has one for each update or
//! request, in the details of the status (P4Runtime 1.5.0, "Error Reporting Messages").
//!
//! 1. A status fits into the 8 KB of metadata that a gRPC client accepts by default (P4Runtime
//!    1.5.0, "gRPC Metadata Maximum Size"). Where the details of a batch do not fit, their
//!    texts are cut. If that is not enough, the status has the details of the first updates
//!    only. Its message then counts the failures among the rest and names the first.

use std::fmt;

use bytes::Bytes;
use prost::Message;
pub use tonic::Code;
use tonic::Status;

use crate::proto::google::rpc;
use crate::proto::p4::v1 as p4;

/// The type URL of a detail.
const ERROR_TYPE: &str = "type.googleapis.com/p4.v1.Error";
/// Maximum bytes of a status' message, as encoded in a trailer.
const MAX_MESSAGE_BYTES: usize = 1_024;
/// Maximum bytes of its details. A trailer encodes 3 of them as 4, so that the details, the
/// message and the other trailers stay below 8 KB.
const MAX_DETAIL_BYTES: usize = 4_800;
/// Maximum bytes of a detail's text where the whole texts do not fit.
const MAX_TEXT_BYTES: usize = 96;

/// The refusal of one item.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// The canonical code.
    pub code: Code,
    /// A description of the fault, and advice.
    pub message: String,
}

/// A verdict for each of several items.
pub type Verdicts = Vec<Result<(), Problem>>;

/// Why a call fails.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Failure {
    /// The call as a whole.
    Call(Problem),
    /// Some of its parts; one verdict for each, in order.
    Parts(Verdicts),
}

impl Problem {
    /// Creates a problem with this code.
    pub fn new(code: Code, message: impl Into<String>) -> Problem {
        Problem {
            code,
            message: message.into(),
        }
    }

    /// `INVALID_ARGUMENT`.
    pub fn invalid(message: impl Into<String>) -> Problem {
        Problem::new(Code::InvalidArgument, message)
    }

    /// `NOT_FOUND`.
    pub fn missing(message: impl Into<String>) -> Problem {
        Problem::new(Code::NotFound, message)
    }

    /// `PERMISSION_DENIED`.
    pub fn denied(message: impl Into<String>) -> Problem {
        Problem::new(Code::PermissionDenied, message)
    }

    /// `UNIMPLEMENTED`.
    pub fn unsupported(message: impl Into<String>) -> Problem {
        Problem::new(Code::Unimplemented, message)
    }

    /// Puts a place in front of the message.
    #[must_use]
    pub fn at(self, place: impl fmt::Display) -> Problem {
        Problem {
            code: self.code,
            message: format!("{place}: {}", self.message),
        }
    }

    /// The problem as the status of a stream or a call.
    pub fn to_status(&self) -> Status {
        Status::new(self.code, cut_spelled(&self.message))
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.code, self.message)
    }
}

impl std::error::Error for Problem {}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Failure {
        Failure::Call(problem)
    }
}

impl Failure {
    /// Reads the status of a call.
    ///
    /// A large batch may have fewer verdicts than updates: those of the first ones.
    pub fn from_status(status: &Status) -> Failure {
        let details = rpc::Status::decode(status.details())
            .unwrap_or_default()
            .details;
        let verdicts = details.iter().map(|detail| {
            let error = p4::Error::decode(detail.value.as_slice()).unwrap_or_default();
            match Code::from_i32(error.canonical_code) {
                Code::Ok => Ok(()),
                code => Err(Problem::new(code, error.message)),
            }
        });
        let verdicts: Verdicts = verdicts.collect();
        // Invariant 1: where no detail names a failure, the message does.
        if verdicts.iter().all(Result::is_ok) {
            return Problem::new(status.code(), status.message()).into();
        }
        Failure::Parts(verdicts)
    }

    /// The failure as the status of a call, with the details that the standard requires.
    pub fn to_status(&self, what: &str) -> Status {
        self.to_counted_status(what).0
    }

    /// The same, with the number of details omitted for lack of room.
    pub(crate) fn to_counted_status(&self, what: &str) -> (Status, u64) {
        let verdicts = match self {
            Failure::Call(problem) => return (problem.to_status(), 0),
            Failure::Parts(verdicts) => verdicts,
        };
        let failed = verdicts.iter().filter(|verdict| verdict.is_err()).count();
        let message = format!("{what} failed for {failed} of {}", verdicts.len());
        let mut details = fitting(verdicts, usize::MAX);
        if details.len() < verdicts.len() {
            details = fitting(verdicts, MAX_TEXT_BYTES);
        }
        let rest = &verdicts[details.len()..];
        let message = format!("{message}{}", said_of(rest, details.len()));
        let status = rpc::Status {
            code: Code::Unknown as i32,
            message: format!("{what} failed"),
            details,
        };
        let details = Bytes::from(status.encode_to_vec());
        let status = Status::with_details(Code::Unknown, cut_spelled(&message), details);
        (status, rest.len() as u64)
    }
}

/// The details of the first verdicts, as many as fit (invariant 1).
fn fitting(verdicts: &Verdicts, text_bytes: usize) -> Vec<prost_types::Any> {
    let mut room = MAX_DETAIL_BYTES;
    let mut details = Vec::new();
    for verdict in verdicts {
        let detail = detail_of(verdict, text_bytes);
        let length = detail.encoded_len();
        // Includes the field's number and the length.
        let length = 1 + prost::length_delimiter_len(length) + length;
        if length > room {
            break;
        }
        room -= length;
        details.push(detail);
    }
    details
}

/// The part of the message for verdicts without a detail; empty if there are none.
fn said_of(rest: &[Result<(), Problem>], before: usize) -> String {
    if rest.is_empty() {
        return String::new();
    }
    let failed = rest.iter().filter(|verdict| verdict.is_err()).count();
    let mut text = format!("; details of the first {before} only, {failed} failed after them");
    let is_own = |verdict: &Result<(), Problem>| {
        let problem = verdict.as_ref().err();
        problem.is_some_and(|problem| problem.code != Code::Aborted)
    };
    if let Some(first) = rest.iter().position(is_own)
        && let Err(problem) = &rest[first]
    {
        text += &format!(", such as number {}: {problem}", before + first + 1);
    }
    text + "; send smaller batches to see all"
}

fn detail_of(verdict: &Result<(), Problem>, text_bytes: usize) -> prost_types::Any {
    let error = match verdict {
        Ok(()) => p4::Error::default(),
        Err(problem) => p4::Error {
            canonical_code: problem.code as i32,
            message: cut(&problem.message, text_bytes),
            ..p4::Error::default()
        },
    };
    prost_types::Any {
        type_url: ERROR_TYPE.to_owned(),
        value: error.encode_to_vec(),
    }
}

/// Cuts a text longer than `limit` bytes, and marks the cut.
fn cut(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    format!("{}...", &text[..text.floor_char_boundary(limit)])
}

/// Cuts a text to at most [`MAX_MESSAGE_BYTES`] as encoded in a trailer.
fn cut_spelled(text: &str) -> String {
    let mut length = 0;
    for (place, letter) in text.char_indices() {
        // A trailer encodes other bytes as `%20`; this ignores that some of them stay as they
        // are.
        length += if letter.is_ascii_alphanumeric() {
            1
        } else {
            3 * letter.len_utf8()
        };
        if length > MAX_MESSAGE_BYTES {
            return cut(text, place);
        }
    }
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_has_a_detail_for_each_update() {
        let verdicts = vec![Ok(()), Err(Problem::missing("no such entry")), Ok(())];
        let status = Failure::Parts(verdicts).to_status("write");
        assert_eq!(status.code(), Code::Unknown);
        let decoded = rpc::Status::decode(status.details()).unwrap();
        assert_eq!((decoded.code, decoded.details.len()), (2, 3));
        let codes: Vec<i32> = decoded
            .details
            .iter()
            .map(|detail| {
                assert_eq!(detail.type_url, ERROR_TYPE);
                let error = p4::Error::decode(detail.value.as_slice()).unwrap();
                error.canonical_code
            })
            .collect();
        assert_eq!(codes, [0, 5, 0]);
        let Failure::Parts(verdicts) = Failure::from_status(&status) else {
            panic!("{status:?}");
        };
        assert_eq!(verdicts[1], Err(Problem::missing("no such entry")));
        assert_eq!((&verdicts[0], &verdicts[2]), (&Ok(()), &Ok(())));
        let denied = Failure::from(Problem::denied("not primary"));
        let whole = denied.to_status("write");
        assert_eq!(Failure::from_status(&whole), denied);
        assert_eq!(whole.code(), Code::PermissionDenied);
        assert!(whole.details().is_empty());
    }

    /// The size of a status' trailers, as HTTP/2 counts it (RFC 9113, section 6.5.2).
    fn trailer_bytes(status: &Status) -> usize {
        use tonic::codegen::http;
        let mut trailers = http::HeaderMap::new();
        status.add_header(&mut trailers).unwrap();
        let length = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
            name.as_str().len() + value.len() + 32
        };
        trailers.iter().map(length).sum()
    }

    #[test]
    fn the_details_of_a_large_batch_stay_below_8_kilobytes_of_trailer() {
        let text =
            "field `hdr.ipv4.dst_addr`: the number needs 33 bits and has 32; \u{fc}".repeat(20);
        let refused = Err(Problem::invalid(&text));
        let mut verdicts: Verdicts = vec![Ok(()); 20_000];
        verdicts[3] = refused.clone();
        verdicts[15_000] = Err(Problem::missing("no such entry"));
        let (status, left_out) = Failure::Parts(verdicts).to_counted_status("write");
        assert!(trailer_bytes(&status) < 8_000, "{}", trailer_bytes(&status));
        let Failure::Parts(seen) = Failure::from_status(&status) else {
            panic!("{status:?}");
        };
        assert_eq!(seen.len() as u64 + left_out, 20_000);
        assert!(seen.len() > 50, "{}", seen.len());
        assert!(seen[3].is_err() && seen[4].is_ok());
        assert!(status.message().contains("write failed for 2 of 20000"));
        let rest = "1 failed after them, such as number 15001: NotFound: no such entry";
        assert!(status.message().contains(rest), "{}", status.message());

        let all = Failure::Parts(vec![refused.clone(); 1_000]);
        assert!(trailer_bytes(&all.to_status("write")) < 8_000);
        // Texts are cut before details are omitted.
        let (status, left_out) = Failure::Parts(vec![refused; 20]).to_counted_status("write");
        assert!(trailer_bytes(&status) < 8_000);
        assert_eq!(left_out, 0);
        let call = Failure::Call(Problem::invalid("\u{fc}".repeat(100_000)));
        assert!(trailer_bytes(&call.to_status("write")) < 8_000);
    }

    #[test]
    fn a_failure_that_has_no_detail_is_told_by_the_message() {
        let mut verdicts: Verdicts = vec![Ok(()); 20_000];
        verdicts[19_999] = Err(Problem::missing("no such entry"));
        let status = Failure::Parts(verdicts).to_status("write");
        let Failure::Call(problem) = Failure::from_status(&status) else {
            panic!("{status:?}");
        };
        assert!(problem.message.contains("number 20000"), "{problem}");
    }
}
