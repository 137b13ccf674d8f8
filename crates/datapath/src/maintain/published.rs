//! The pipeline as a slice of maintenance asks it: locked when it is first asked, and until the slice
//! ends.
//!
//! 1. Whoever asks gets rules that know the change: one that is not published yet would be followed
//!    by the rules before it, and entries called right that are not.

use thalweg_classifier::Version;
use thalweg_pipeline::Pipeline;

use crate::gate::{Gate, Reader};

/// The pipeline, for a slice of following a change.
pub(crate) struct Published<'a> {
    reader: Reader<'a, Pipeline>,
    /// The one that the change makes.
    version: Version,
}

impl<'a> Published<'a> {
    pub(crate) fn new(gate: &'a Gate<Pipeline>, version: Version) -> Published<'a> {
        Published {
            reader: Reader::new(gate),
            version,
        }
    }

    /// The version that the change makes.
    pub(crate) fn version(&self) -> Version {
        self.version
    }

    /// The pipeline.
    ///
    /// # Panics
    /// If the change is not published.
    pub(crate) fn get(&mut self) -> &Pipeline {
        let pipeline = self.reader.get();
        // Invariant 1.
        assert!(
            self.version <= pipeline.version(),
            "a change is published before it is followed"
        );
        pipeline
    }
}
