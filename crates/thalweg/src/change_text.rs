//! Describes a change in one line, so that users can find it in their file.

use thalweg_pipeline::{Actions, Change, Flow, FragmentMode, Miss, Operation, Selector};

/// Describes the change; for a bundle, its first operation and how many follow.
pub(crate) fn describe(change: &Change) -> String {
    let first = change.operations.first().map(describe_operation);
    let first = first.unwrap_or_else(|| "nothing".to_owned());
    match change.operations.len() {
        0 | 1 => first,
        many => format!("{first}, and {} more", many - 1),
    }
}

fn describe_operation(operation: &Operation) -> String {
    match operation {
        Operation::Add(flow) | Operation::AddChecked(flow) => format!("add {flow:#}"),
        Operation::Modify(selector, actions) => modification(selector, actions),
        Operation::Revise(revision) => modification(&revision.selector, &revision.actions),
        Operation::Delete(selector) | Operation::DeleteLeading(selector, _) => {
            let flow = format!("{:#}", flow_of(selector));
            let what = flow.split(",actions=").next().unwrap_or_default();
            format!("delete{} {what}", strictness(selector))
        }
        Operation::DeleteAll => "delete all rules".to_owned(),
        Operation::SetGroup(group) => format!("set group {}", group.id.number()),
        Operation::DeleteGroup(group) => format!("delete group {}", group.number()),
        Operation::SetMeter(meter) => format!("set meter {}", meter.id.number()),
        Operation::DeleteMeters(meters) => format!("delete {} meters", meters.len()),
        Operation::SetPort(port, state) if state.is_up => format!("port {port} up"),
        Operation::SetPort(port, _) => format!("port {port} down"),
        Operation::DeletePort(port) => format!("port {port} gone"),
        Operation::SetPortVlans(port, _) => format!("port {port} has other VLANs"),
        Operation::SetMirrors(_, mirrors) => format!("{} mirrors", mirrors.iter().count()),
        Operation::SetForwardsBpdus(_, true) => "reserved addresses are forwarded to".to_owned(),
        Operation::SetForwardsBpdus(_, false) => "reserved addresses end here".to_owned(),
        Operation::LimitTable(table, limit) => match limit.rules {
            Some(rules) => format!("table {} has at most {rules} rules", table.0),
            None => format!("table {} has no limit", table.0),
        },
        Operation::SetMisses(_, misses)
            if misses.others == Miss::Drop && misses.tables.is_empty() =>
        {
            "tables drop packets without a rule".to_owned()
        }
        Operation::SetMisses(..) => "tables send or keep packets without a rule".to_owned(),
        Operation::SetFragments(_, FragmentMode::Normal) => {
            "tables see fragments without ports".to_owned()
        }
        Operation::SetFragments(_, FragmentMode::Drop) => "fragments are dropped".to_owned(),
        Operation::SetFragments(_, FragmentMode::NxMatch) => {
            "tables see the ports of first fragments".to_owned()
        }
        Operation::MoveMacs(moves) => format!("{} stations seen or forgotten", moves.len()),
        Operation::Foresee(_) => "bring the fields of a list into the key".to_owned(),
    }
}

fn modification(selector: &Selector, actions: &Actions) -> String {
    let flow = Flow {
        actions: actions.clone(),
        ..flow_of(selector)
    };
    format!("modify{} {flow:#}", strictness(selector))
}

fn strictness(selector: &Selector) -> &'static str {
    match selector.strict_priority {
        Some(_) => "_strict",
        None => "",
    }
}

fn flow_of(selector: &Selector) -> Flow {
    let mut flow = Flow {
        matching: selector.matching.clone(),
        ..Flow::default()
    };
    if let Some(table) = selector.table {
        flow.table = table;
    }
    if let Some(priority) = selector.strict_priority {
        flow.priority = priority;
    }
    flow
}

#[cfg(test)]
mod tests {
    use thalweg_pipeline::text;

    use super::*;

    fn described(changes: &str) -> Vec<String> {
        let changes = text::parse_changes("changes", changes).expect("they are right");
        changes
            .iter()
            .map(|placed| describe(&placed.change))
            .collect()
    }

    #[test]
    fn changes_read_as_they_were_written() {
        let text = "add table=1,priority=7,ip,nw_dst=10.0.0.0/8,actions=output:2\n\
                    delete_strict table=1,priority=7,ip\n\
                    modify table=3,tcp,actions=drop\n\
                    bundle {\ndelete_strict table=1,priority=7,arp\nadd arp,actions=output:1\n}\n";
        let expected = [
            "add table=1,priority=7,ip,nw_dst=10.0.0.0/8,actions=output:2",
            "delete_strict table=1,priority=7,ip",
            "modify table=3,tcp,actions=drop",
            "delete_strict table=1,priority=7,arp, and 1 more",
        ];
        assert_eq!(described(text), expected);
    }
}
