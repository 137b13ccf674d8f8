//! Snapshots: a switch that ends, in whatever way, comes back as it was.
//!
//! ```text
//!   Switch::capture     the control side: settles counts, pins a version, notes stations
//!     Capture::write    a thread: rules, groups, meters, connections, in slices --> a file
//!   SavedSwitch::read   a file --> records, all or none
//!     Switch::restore   one change for rules, groups and meters; then what they counted,
//!                       stations, and connections
//! ```
//!
//! Texts of rules and groups are those of `pipeline::text`, in the numbers of their bridge. What
//! a text does not say is beside it. Bridges and ports are found again by their names.
//!
//! 1. A capture is the state at one version. Counts, stations and connections are as they are
//!    when they are read, which is not before that.
//! 2. Workers never wait for a capture: it holds the pipeline's read lock for a slice of
//!    [`capture::SLICE`] rules, and a tracker's shard as a dump does.
//! 3. Instants are those of the switch's clock, which goes on from the former one: by the time
//!    between, too. So all timeouts count the time away. The clock is moved before anything is
//!    added, so that nothing looks as old as the former switch.
//! 4. What does not fit any more is left out and counted by reason: a rule whose port is gone, a
//!    connection that is over, a bridge that is not there.
//! 5. The rule that forwards while no controller speaks with the switch is left out: the next
//!    OpenFlow server adds and removes its own.

mod capture;
mod fit;
mod keeper;
mod records;
mod restore;

#[cfg(test)]
mod tests;

pub use capture::{Capture, SnapshotContents};
pub use keeper::{SnapshotKeeper, SnapshotSettings};
pub use records::{SavedSwitch, SwitchNames};
pub use restore::Restored;

pub(crate) use capture::KeptVersion;

/// The format of the records; another one is refused.
pub const SNAPSHOT_FORMAT: u32 = 1;
