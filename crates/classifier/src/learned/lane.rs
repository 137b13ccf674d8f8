//! Where a rule lies in the groups of an iSet.

/// The position of a rule in a bucket: its group and lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Lane {
    pub(super) group: u32,
    pub(super) lane: u8,
}

impl Lane {
    /// No position.
    pub(super) const NONE: Lane = Lane {
        group: u32::MAX,
        lane: 0,
    };

    pub(super) fn new(group: usize, lane: usize) -> Lane {
        Lane {
            group: group as u32,
            lane: lane as u8,
        }
    }
}
