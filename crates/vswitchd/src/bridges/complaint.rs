//! Faults in a configuration, for the log.

use crate::vlog::LogLevel;

/// Something of the configuration that cannot be, to be logged.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Complaint {
    pub(crate) level: LogLevel,
    pub(crate) text: String,
}

impl Complaint {
    /// A complaint about something that counts as not set.
    pub(crate) fn warning(text: String) -> Complaint {
        let level = LogLevel::Warning;
        Complaint { level, text }
    }
}

/// What could not be read.
#[derive(Debug, Default)]
pub(crate) struct Complaints(pub(crate) Vec<Complaint>);

impl Complaints {
    pub(super) fn add(&mut self, text: String) {
        self.0.push(Complaint::warning(text));
    }

    pub(super) fn add_error(&mut self, text: String) {
        let level = LogLevel::Error;
        self.0.push(Complaint { level, text });
    }
}
