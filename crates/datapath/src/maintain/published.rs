//! The pipeline as used by a slice of maintenance: locked at the first use, until the slice
//! ends.
//!
//! 1. The rules include the change. With a change that is not published yet, entries would be
//!    compared with older rules, and wrong entries called right.

use thalweg_classifier::Version;
use thalweg_pipeline::Pipeline;

use crate::gate::{Gate, Reader};

/// The pipeline, for one slice of following a change.
pub(crate) struct Published<'a> {
    reader: Reader<'a, Pipeline>,
    /// The version that the change makes.
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

    /// Locks the pipeline, if needed, and returns it.
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
