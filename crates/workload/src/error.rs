//! What a generator can refuse.

/// A workload that cannot be made as asked.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkloadError {
    /// Overlapping rules need different priorities, and there are not enough.
    #[error(
        "{rules} rules overlap so much that {priorities} priorities do not suffice; \
         ask for fewer, or spread them over more tables"
    )]
    TooFewPriorities {
        /// How many rules were to be placed.
        rules: usize,
        /// How many priorities there were.
        priorities: usize,
    },
    /// A number is outside what the generator can do.
    #[error("{what} is {value}, but must lie within {low} to {high}; choose a value in that range")]
    OutOfRange {
        /// The parameter.
        what: &'static str,
        /// The value given.
        value: u64,
        /// The smallest that works.
        low: u64,
        /// The largest that works.
        high: u64,
    },
    /// So many different flows do not exist, or are too rare to find.
    #[error(
        "only {found} different flows were found where {wanted} were asked for; \
         ask for fewer, or for a larger pipeline"
    )]
    TooFewFlows {
        /// How many were asked for.
        wanted: usize,
        /// How many were found before giving up.
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
