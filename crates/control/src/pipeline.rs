//! A program with everything written to it.

use crate::problem::{Code, Problem};
use crate::proto::p4::v1 as p4;
use crate::store::Store;

/// A program with everything written to it.
pub(crate) struct Pipeline {
    pub(crate) config: p4::ForwardingPipelineConfig,
    pub(crate) store: Store,
}

/// The answer to calls before there is a pipeline.
pub(crate) fn no_pipeline() -> Problem {
    let text = "there is no forwarding pipeline; set one first";
    Problem::new(Code::FailedPrecondition, text)
}
