//! Replaces all rules by new ones, in one change that does not touch what stays.
//!
//! A rules file that is read again usually has mostly the same rules. A rule that is in both,
//! with the same actions, cookie and timeouts, is not touched: it keeps its counters, its age,
//! and its cache entries. So the work follows the difference, not the size of the file.
//!
//! 1. After the change the first bridge has the given rules, groups and meters, and no others.
//! 2. A rule that names a removed group or meter is added again, so that it is refused rather
//!    than silently lost with it.

use std::collections::{HashMap, HashSet};

use thalweg_pipeline::{
    BridgeId, Bucket, Change, Flow, Group, GroupId, Match, MeterId, Operation, Pipeline, RateMeter,
    Selector, TableId, text::Rules, uses_group, uses_meter,
};

/// The change after which the pipeline has only these rules, groups and meters.
///
/// ```
/// use thalweg_packet::Instant;
/// use thalweg_pipeline::{Config, Pipeline, text};
/// use thalweg_switch::replacement;
///
/// let mut pipeline = Pipeline::new(Config::default());
/// let rules = |text| text::parse_rules("rules", text).expect("it is well-formed");
/// let first = replacement(&pipeline, rules("tcp,actions=1\nudp,actions=2"));
/// pipeline.apply(&first, Instant::ZERO)?;
/// let second = replacement(&pipeline, rules("tcp,actions=1\nudp,actions=3"));
/// assert_eq!(second.operations.len(), 1); // the second rule, in place of its former self
/// # Ok::<(), thalweg_pipeline::ChangeError>(())
/// ```
pub fn replacement(pipeline: &Pipeline, rules: Rules) -> Change {
    let Rules {
        flows,
        groups,
        meters,
    } = rules;
    let version = pipeline.version();
    let (gone_meters, new_meters) = compare_meters(pipeline, meters);
    let wanted: HashSet<GroupId> = groups.iter().map(|group| group.id).collect();
    let known = pipeline.groups(version).map(|group| group.id);
    let gone: Vec<GroupId> = known.filter(|id| !wanted.contains(id)).collect();
    let mut operations: Vec<Operation> =
        gone.iter().map(|id| Operation::DeleteGroup(*id)).collect();
    if !gone_meters.is_empty() {
        operations.push(Operation::DeleteMeters(gone_meters.clone().into()));
    }
    operations.extend(new_meters.into_iter().map(Operation::SetMeter));
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
                let (mut groups, mut meters) = (gone.iter(), gone_meters.iter());
                if !groups.any(|group| uses_group(&present.actions, *group))
                    && !meters.any(|meter| uses_meter(&present.actions, *meter))
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

/// The meters that are no longer wanted, and those that are new or differ.
fn compare_meters(pipeline: &Pipeline, wanted: Vec<RateMeter>) -> (Vec<MeterId>, Vec<RateMeter>) {
    let known = pipeline.meters_of(BridgeId::default(), pipeline.version());
    let mut known: HashMap<MeterId, RateMeter> = known
        .map(|known| (known.meter.id, known.meter.clone()))
        .collect();
    let mut changed = Vec::new();
    for meter in wanted {
        if known.remove(&meter.id).is_none_or(|known| known != meter) {
            changed.push(meter);
        }
    }
    let mut gone: Vec<MeterId> = known.into_keys().collect();
    gone.sort_unstable();
    (gone, changed)
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

    fn replace(pipeline: &mut Pipeline, text: &str) -> Result<(usize, usize), String> {
        let rules = text::parse_rules("test", text).unwrap();
        let change = replacement(pipeline, rules);
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

    #[test]
    fn meters_come_and_go_with_the_rules_that_name_them() {
        let mut pipeline = Pipeline::new(Config::default());
        let meter = "meter=1,pktps,bands=type=drop,rate=5\n";
        let rule = "actions=meter:1,output:2\n";
        let both = format!("{rule}{meter}");
        assert_eq!(replace(&mut pipeline, &both), Ok((1, 0)));
        assert_eq!(replace(&mut pipeline, &both), Ok((0, 0)));
        let faster = both.replace("rate=5", "rate=6");
        assert_eq!(replace(&mut pipeline, &faster), Ok((0, 0)));
        let bands = |pipeline: &Pipeline| {
            let mut known = pipeline.meters_of(BridgeId::default(), pipeline.version());
            known.next().map(|known| known.meter.bands[0].rate)
        };
        assert_eq!(bands(&pipeline), Some(6));
        assert!(replace(&mut pipeline, rule).is_err());
        assert_eq!(bands(&pipeline), Some(6));
        assert_eq!(replace(&mut pipeline, "actions=output:2"), Ok((1, 1)));
        assert_eq!(bands(&pipeline), None);
    }
}
