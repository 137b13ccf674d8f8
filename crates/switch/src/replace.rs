//! Replaces all rules by new ones, in one change that does not touch what stays.
//!
//! A rules file that is read again usually has mostly the same rules. A rule that is in both,
//! with the same actions, cookie and timeouts, is not touched: it keeps its counters, its age,
//! and its cache entries. So the work follows the difference, not the size of the file.
//!
//! 1. After the change the pipeline has the given rules and groups, and no others.
//! 2. A rule that names a removed group is added again, so that it is refused rather than
//!    silently lost with the group.

use std::collections::{HashMap, HashSet};

use thalweg_pipeline::{
    BridgeId, Bucket, Change, Flow, Group, GroupId, Match, Operation, Pipeline, Selector, TableId,
    uses_group,
};

/// The change after which the pipeline has only these rules and groups.
///
/// ```
/// use thalweg_packet::Instant;
/// use thalweg_pipeline::{Config, Pipeline, text};
/// use thalweg_switch::replacement;
///
/// let mut pipeline = Pipeline::new(Config::default());
/// let flows = |text| text::parse_rules("rules", text).expect("it is well-formed").flows;
/// let first = replacement(&pipeline, flows("tcp,actions=1\nudp,actions=2"), Vec::new());
/// pipeline.apply(&first, Instant::ZERO)?;
/// let second = replacement(&pipeline, flows("tcp,actions=1\nudp,actions=3"), Vec::new());
/// assert_eq!(second.operations.len(), 1); // the second rule, in place of its former self
/// # Ok::<(), thalweg_pipeline::ChangeError>(())
/// ```
pub fn replacement(pipeline: &Pipeline, flows: Vec<Flow>, groups: Vec<Group>) -> Change {
    let version = pipeline.version();
    let wanted: HashSet<GroupId> = groups.iter().map(|group| group.id).collect();
    let known = pipeline.groups(version).map(|group| group.id);
    let gone: Vec<GroupId> = known.filter(|id| !wanted.contains(id)).collect();
    let mut operations: Vec<Operation> =
        gone.iter().map(|id| Operation::DeleteGroup(*id)).collect();
    let is_new = |group: &Group| {
        let known = pipeline.group(group.id, version);
        known.is_none_or(|known| **known != *group) || names_any(group, &gone)
    };
    operations.extend(groups.into_iter().filter(is_new).map(Operation::SetGroup));

    let mut last: HashMap<(TableId, u16, Match), usize> = HashMap::new();
    for (index, flow) in flows.iter().enumerate() {
        last.insert(identity(flow), index);
    }
    let mut unchanged = HashSet::new();
    for (id, _) in pipeline.rules(version) {
        let Some(mut present) = pipeline.flow_of(id) else {
            continue;
        };
        match last.get(&identity(&present)) {
            None => operations.push(deletion(present)),
            Some(index) if is_as_asked(&flows[*index], &mut present) => {
                // Invariant 2.
                if !gone
                    .iter()
                    .any(|group| uses_group(&present.actions, *group))
                {
                    unchanged.insert(*index);
                }
            }
            Some(_) => {}
        }
    }
    let flows = flows.into_iter().enumerate();
    let changed = flows.filter(|(index, flow)| {
        // Of two rules with the same conditions and priority, the later one counts.
        last.get(&identity(flow)) == Some(index) && !unchanged.contains(index)
    });
    operations.extend(changed.map(|(_, flow)| Operation::Add(flow)));
    Change { operations }
}

/// Whether the existing rule equals the requested one.
fn is_as_asked(asked: &Flow, present: &mut Flow) -> bool {
    // This flag says how to add the rule; it is not part of the rule.
    present.resets_counts = asked.resets_counts;
    asked == present
}

/// The key that no two rules share.
fn identity(flow: &Flow) -> (TableId, u16, Match) {
    (flow.table, flow.priority, flow.matching.clone())
}

fn deletion(flow: Flow) -> Operation {
    Operation::Delete(Selector {
        bridge: BridgeId::default(),
        table: Some(flow.table),
        matching: flow.matching,
        strict_priority: Some(flow.priority),
        cookie: None,
    })
}

fn names_any(group: &Group, gone: &[GroupId]) -> bool {
    let names = |bucket: &Bucket| {
        let is_named =
            |id: &GroupId| bucket.watch_group == Some(*id) || uses_group(&bucket.actions, *id);
        gone.iter().any(is_named)
    };
    group.buckets.iter().any(names)
}

#[cfg(test)]
mod tests {
    use thalweg_packet::Instant;
    use thalweg_pipeline::{Config, text};

    use super::*;

    fn parse(text: &str) -> (Vec<Flow>, Vec<Group>) {
        let rules = text::parse_rules("test", text).unwrap();
        (rules.flows, rules.groups)
    }

    fn replace(pipeline: &mut Pipeline, text: &str) -> Result<(usize, usize), String> {
        let (flows, groups) = parse(text);
        let change = replacement(pipeline, flows, groups);
        let delta = pipeline.apply(&change, Instant::ZERO);
        let delta = delta.map_err(|error| error.to_string())?;
        Ok((delta.inserted.len(), delta.removed.len()))
    }

    fn rules(pipeline: &Pipeline) -> Vec<String> {
        let known = pipeline.rules(pipeline.version());
        let mut texts: Vec<_> = known
            .map(|(id, _)| pipeline.flow_of(id).unwrap().to_string())
            .collect();
        texts.sort();
        texts
    }

    #[test]
    fn only_the_difference_is_done() {
        let mut pipeline = Pipeline::new(Config::default());
        let first = "tcp,actions=1\nudp,actions=2\npriority=7,actions=drop";
        assert_eq!(replace(&mut pipeline, first), Ok((3, 0)));
        assert_eq!(replace(&mut pipeline, first), Ok((0, 0)));
        let second = "udp,actions=3\ntcp,actions=1\nudp,actions=4\narp,actions=5";
        assert_eq!(replace(&mut pipeline, second), Ok((2, 2)));
        let mut fresh = Pipeline::new(Config::default());
        replace(&mut fresh, second).unwrap();
        assert_eq!(rules(&pipeline), rules(&fresh));
        assert_eq!(replace(&mut pipeline, ""), Ok((0, 3)));
    }

    #[test]
    fn a_group_that_is_still_named_cannot_go() {
        let mut pipeline = Pipeline::new(Config::default());
        let group = "group_id=1,type=all,bucket=output:1";
        let with_group = format!("{group}\ntcp,actions=group:1\nudp,actions=2");
        replace(&mut pipeline, &with_group).unwrap();
        let before = rules(&pipeline);
        let error = replace(&mut pipeline, "tcp,actions=group:1\nudp,actions=2");
        assert!(error.unwrap_err().contains("group 1 does not exist"));
        assert_eq!(rules(&pipeline), before);
        assert_eq!(replace(&mut pipeline, "udp,actions=2"), Ok((0, 1)));
        assert_eq!(pipeline.groups(pipeline.version()).count(), 0);
    }
}
