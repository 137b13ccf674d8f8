//! The section `[snapshot]`: where the switch keeps what it knows for its next start.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use thalweg_switch::{SNAPSHOT_FORMAT, SnapshotFile, SnapshotSettings};
use toml::Spanned;

use crate::value::Number;
use crate::{Result, Source};

/// The time between two snapshots if the section does not say.
pub(crate) const INTERVAL_MS: u64 = 10_000;

/// From what a disk may bear to a day.
pub(crate) const INTERVALS_MS: RangeInclusive<u64> = 100..=86_400_000;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SnapshotSection {
    file: Option<PathBuf>,
    interval_ms: Option<Spanned<Number>>,
}

impl Source<'_> {
    /// Where and how often. The default file is beside the configuration, named after the switch.
    pub(crate) fn snapshot(
        &self,
        section: &SnapshotSection,
        name: &str,
    ) -> Result<SnapshotSettings> {
        let path = match &section.file {
            Some(path) => self.path(path),
            None => {
                let file = name.replace(['/', '\0'], "_");
                self.path(format!("{file}.snapshot").as_ref())
            }
        };
        let interval_ms = match &section.interval_ms {
            Some(said) => self.number("interval_ms", said, INTERVALS_MS)?,
            None => INTERVAL_MS,
        };
        Ok(SnapshotSettings {
            file: SnapshotFile::new(path, SNAPSHOT_FORMAT),
            interval: Duration::from_millis(interval_ms),
        })
    }
}
