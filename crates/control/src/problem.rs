//! What goes back when something cannot be done: a code of the standard's, and what to do.
//!
//! gRPC has one code for a call. A batch of writes or reads has one for each update or request
//! besides, in the details of the status (P4Runtime 1.5.0, "Error Reporting Messages").

use std::fmt;

use bytes::Bytes;
use prost::Message;
pub use tonic::Code;
use tonic::Status;

use crate::proto::google::rpc;
use crate::proto::p4::v1 as p4;

/// Where the type of a detail is said.
const ERROR_TYPE: &str = "type.googleapis.com/p4.v1.Error";

/// A refusal of one thing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// The canonical code.
    pub code: Code,
    /// What is wrong, and what to do about it.
    pub message: String,
}

/// What is said of each of many things.
pub type Verdicts = Vec<Result<(), Problem>>;

/// Why a call fails.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Failure {
    /// The call as a whole.
    Call(Problem),
    /// Some of its parts; one verdict for each, in their order.
    Parts(Verdicts),
}

impl Problem {
    /// A problem of this code.
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

    /// The same problem, with where it is in front.
    #[must_use]
    pub fn at(self, place: impl fmt::Display) -> Problem {
        Problem {
            code: self.code,
            message: format!("{place}: {}", self.message),
        }
    }

    /// As the status of a stream or a call.
    pub fn to_status(&self) -> Status {
        Status::new(self.code, self.message.clone())
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
    /// What the status of a call says.
    pub fn from_status(status: &Status) -> Failure {
        let details = rpc::Status::decode(status.details())
            .unwrap_or_default()
            .details;
        if details.is_empty() {
            return Problem::new(status.code(), status.message()).into();
        }
        let verdicts = details.iter().map(|detail| {
            let error = p4::Error::decode(detail.value.as_slice()).unwrap_or_default();
            match Code::from_i32(error.canonical_code) {
                Code::Ok => Ok(()),
                code => Err(Problem::new(code, error.message)),
            }
        });
        Failure::Parts(verdicts.collect())
    }

    /// As the status of a call, with the details that the standard asks for.
    pub fn to_status(&self, what: &str) -> Status {
        let verdicts = match self {
            Failure::Call(problem) => return problem.to_status(),
            Failure::Parts(verdicts) => verdicts,
        };
        let failed = verdicts.iter().filter(|verdict| verdict.is_err()).count();
        let message = format!("{what} failed for {failed} of {}", verdicts.len());
        let status = rpc::Status {
            code: Code::Unknown as i32,
            message: message.clone(),
            details: verdicts.iter().map(detail_of).collect(),
        };
        let details = Bytes::from(status.encode_to_vec());
        Status::with_details(Code::Unknown, message, details)
    }
}

fn detail_of(verdict: &Result<(), Problem>) -> prost_types::Any {
    let error = match verdict {
        Ok(()) => p4::Error::default(),
        Err(problem) => p4::Error {
            canonical_code: problem.code as i32,
            message: problem.message.clone(),
            ..p4::Error::default()
        },
    };
    prost_types::Any {
        type_url: ERROR_TYPE.to_owned(),
        value: error.encode_to_vec(),
    }
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
}
