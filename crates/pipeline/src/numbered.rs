//! A group as the pipeline keeps it: each bucket has a number.
//!
//! 1. A bucket keeps its number while changes of its group leave its id, whatever else they change.
//! 2. No two buckets ever have the same number, and no rule has a bucket's
//!    ([`crate::Pipeline::number_of_rule`]).

use std::sync::Arc;

use crate::flow::Group;

/// The bit that no rule's number has.
const OF_BUCKET: u64 = 1 << 63;

/// A group, with the numbers of its buckets.
#[derive(Clone, Debug)]
pub(crate) struct NumberedGroup {
    pub(crate) group: Arc<Group>,
    /// In the order of the buckets.
    pub(crate) numbers: Box<[u64]>,
}

impl NumberedGroup {
    /// A group that replaces `former`; `last` is the last number that was given.
    pub(crate) fn new(
        group: &Group,
        former: Option<&NumberedGroup>,
        last: &mut u64,
    ) -> NumberedGroup {
        let kept = |id: u32| {
            let former = former?;
            let mut buckets = former.group.buckets.iter();
            let at = buckets.position(|bucket| bucket.id == id)?;
            former.numbers.get(at).copied()
        };
        let numbers = group.buckets.iter().map(|bucket| {
            kept(bucket.id).unwrap_or_else(|| {
                *last += 1;
                OF_BUCKET | *last
            })
        });
        NumberedGroup {
            numbers: numbers.collect(),
            group: Arc::new(group.clone()),
        }
    }
}
