//! Groups: which buckets are chosen, and what the choice reads.

use std::collections::BTreeMap;

use super::DropReason;
use super::action_set;
use super::observer::{Observer, Sight};
use super::select::Draw;
use super::walk::{Nested, Next, Walk};
use crate::action::{GroupId, TableId};
use crate::flow::{Bucket, Group, GroupKind, Selection};
use crate::trace::{Input, StepKind};

/// How far liveness is followed through groups that watch groups (Open vSwitch's
/// `MAX_LIVENESS_RECURSION`, which counts the first bucket too).
const MAX_WATCH_DEPTH: u32 = 127;

impl<O: Observer> Walk<'_, O> {
    /// Processes the packet by a group; the buckets' changes to the packet end with it.
    ///
    /// A list ends if its group does not exist (Open vSwitch's `xlate_group_action`).
    pub(super) fn group(&mut self, id: GroupId, table: TableId) -> Next {
        if let Err(failed) = self.check_bounds() {
            return failed;
        }
        self.ask(Input::Group(id));
        let Some(group) = self.pipeline.group(id, self.version).cloned() else {
            self.tell(Sight::NoSuchGroup(id));
            self.drop(DropReason::NoSuchGroup);
            return Next::EndList;
        };
        match &group.kind {
            GroupKind::All => {
                for bucket in 0..group.buckets.len() {
                    let next = self.bucket(&group, bucket, table);
                    if next == Next::Fail {
                        return next;
                    }
                }
                Next::Continue
            }
            GroupKind::Indirect => self.bucket(&group, 0, table),
            GroupKind::FastFailover => {
                let alive = group.buckets.iter().position(|bucket| {
                    let is_alive = self.is_alive(bucket, &group);
                    if !is_alive {
                        self.tell(Sight::DeadBucket(bucket));
                    }
                    is_alive
                });
                self.bucket_if_any(&group, alive, table)
            }
            GroupKind::Select(selection) => {
                let chosen = self.select(&group, selection);
                self.bucket_if_any(&group, chosen, table)
            }
        }
    }

    fn bucket_if_any(&mut self, group: &Group, bucket: Option<usize>, table: TableId) -> Next {
        self.tell(Sight::Chosen(bucket.map(|bucket| &group.buckets[bucket])));
        match bucket {
            Some(bucket) => self.bucket(group, bucket, table),
            None => {
                self.begin_step(StepKind::Bucket {
                    group: group.id,
                    bucket: None,
                });
                self.drop(DropReason::NoLiveBucket);
                Next::Continue
            }
        }
    }

    fn bucket(&mut self, group: &Group, bucket: usize, table: TableId) -> Next {
        let kind = StepKind::Bucket {
            group: group.id,
            bucket: Some(bucket as u32),
        };
        let actions = &group.buckets[bucket].actions;
        if !self.spend(self.copy_cost() + actions.len()) {
            return Next::Fail;
        }
        self.begin_step(kind);
        self.tell(Sight::Bucket(&group.buckets[bucket]));
        let number = match self.pipeline.config.names_committing_rules {
            true => self
                .pipeline
                .number_of_bucket(group.id, bucket, self.version),
            false => None,
        };
        let outer = std::mem::replace(&mut self.bucket, number.unwrap_or(0));
        let next = self.on_copy(action_set::of_list(actions), table, Nested::Bucket);
        self.bucket = outer;
        next
    }

    /// Draws one of the live buckets.
    fn select(&mut self, group: &Group, selection: &Selection) -> Option<usize> {
        let hash = self.flow_hash(group.id, selection);
        let mut best: Option<(Draw, usize)> = None;
        for (index, bucket) in group.buckets.iter().enumerate() {
            if self.is_alive(bucket, group) {
                let draw = Draw::new(hash, bucket);
                if best.is_none_or(|(best, _)| draw.wins_against(best)) {
                    best = Some((draw, index));
                }
            } else {
                self.tell(Sight::DeadBucket(bucket));
            }
        }
        best.map(|(_, index)| index)
    }

    /// Whether a bucket can be chosen: it watches nothing or what it watches is alive, and in
    /// a select group its weight is not zero (Open vSwitch's `bucket_is_alive`).
    fn is_alive(&mut self, bucket: &Bucket, group: &Group) -> bool {
        self.is_bucket_alive(bucket, group, MAX_WATCH_DEPTH, &mut BTreeMap::new())
    }

    /// The same at a depth; `dead` maps groups found dead to the greatest depth they were
    /// tried with.
    fn is_bucket_alive(
        &mut self,
        bucket: &Bucket,
        group: &Group,
        depth: u32,
        dead: &mut BTreeMap<GroupId, u32>,
    ) -> bool {
        let has_share = !matches!(group.kind, GroupKind::Select(_)) || bucket.weight > 0;
        if !has_share || !self.spend(1) {
            return false;
        }
        let port = bucket.watch_port.is_some_and(|port| {
            self.ask(Input::Port(port));
            self.pipeline
                .port(port, self.version)
                .is_some_and(|state| state.is_up)
        });
        !bucket.watches()
            || port
            || depth > 0
                && bucket
                    .watch_group
                    .is_some_and(|group| self.is_group_alive(group, depth - 1, dead))
    }

    fn is_group_alive(
        &mut self,
        id: GroupId,
        depth: u32,
        dead: &mut BTreeMap<GroupId, u32>,
    ) -> bool {
        self.ask(Input::Group(id));
        if dead.get(&id).is_some_and(|known| *known >= depth) {
            return false;
        }
        let pipeline = self.pipeline;
        let group = pipeline.group(id, self.version);
        let is_alive = group.is_some_and(|group| {
            let mut buckets = group.buckets.iter();
            buckets.any(|bucket| self.is_bucket_alive(bucket, group, depth, dead))
        });
        if !is_alive {
            dead.insert(id, depth);
        }
        is_alive
    }
}
