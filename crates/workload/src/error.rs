//! Errors of the generators.

/// A workload that cannot be generated as requested.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkloadError {
    /// Overlapping rules need different priorities, and there are not enough.
    #[error(
        "{rules} rules overlap so much that {priorities} priorities do not suffice; \
         ask for fewer, or spread them over more tables"
    )]
    TooFewPriorities {
        /// The number of rules to place.
        rules: usize,
        /// The number of priorities.
        priorities: usize,
    },
    /// A number is outside the generator's range.
    #[error("{what} is {value}, but must lie within {low} to {high}; choose a value in that range")]
    OutOfRange {
        /// The parameter.
        what: &'static str,
        /// The value given.
        value: u64,
        /// The smallest allowed value.
        low: u64,
        /// The largest allowed value.
        high: u64,
    },
    /// The requested number of different flows does not exist, or is too rare to find.
    #[error(
        "only {found} different flows were found where {wanted} were asked for; \
         ask for fewer, or for a larger pipeline"
    )]
    TooFewFlows {
        /// The requested number.
        wanted: usize,
        /// The number found before giving up.
        found: usize,
    },
    /// A distribution with this parameter does not exist.
    #[error("{0} cannot be {1}; choose a finite value that the distribution allows")]
    Shape(&'static str, f64),
    /// The pipeline has no rules of the kind that the change mix works on.
    #[error("the pipeline has no {0} rules to change; choose another mix or a larger pipeline")]
    NothingToChange(&'static str),
}

impl WorkloadError {
    /// Refuses `value` unless it lies within the range.
    pub(crate) fn check(what: &'static str, value: u64, low: u64, high: u64) -> Result<(), Self> {
        if (low..=high).contains(&value) {
            return Ok(());
        }
        Err(WorkloadError::OutOfRange {
            what,
            value,
            low,
            high,
        })
    }
}
