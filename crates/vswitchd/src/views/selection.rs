//! Which entries of the caches are shown (`dpctl/dump-flows`).

use thalweg_packet::standard as f;
use thalweg_pipeline::{Match, text};
use thalweg_switch::Switch;

use super::flows::{FlowStyle, ShownFlow, shown_flows};
use crate::trace::TraceNames;

/// A datapath: its type and its name.
pub type DatapathName = (String, &'static str);

/// Types of flows, and whether there are flows of the type: no device does the datapath's work.
const KINDS: [(&str, bool); 7] = [
    ("ovs", true),
    ("all", true),
    ("non-offloaded", true),
    ("tc", false),
    ("dpdk", false),
    ("offloaded", false),
    ("partially-offloaded", false),
];

impl FlowStyle {
    /// Takes an option; false if it is none.
    pub fn take(&mut self, argument: &str) -> bool {
        match argument {
            "-m" | "--more" => self.is_verbose = true,
            "--names" => self.shows_names = Some(true),
            "--no-names" => self.shows_names = Some(false),
            _ => return false,
        }
        true
    }
}

/// Whether a datapath is called so, as `ovs-dpctl` takes it: with or without its type.
pub(crate) fn is_named((kind, own): &DatapathName, name: &str) -> bool {
    name == *own || name == format!("{kind}@{own}")
}

/// Which flows are shown.
#[derive(Debug, Default)]
pub struct FlowSelection {
    /// The name of the datapath, with or without its type.
    datapath: Option<String>,
    filter: Option<Match>,
    /// Whether the types that were asked for have no flows.
    lacks_type: bool,
    /// Whether the core that was asked for has no flows.
    lacks_core: bool,
}

impl FlowSelection {
    /// Takes an argument: `filter=`, `type=`, `pmd=`, or one of the datapaths.
    ///
    /// # Errors
    /// If it is none of them.
    pub fn take(&mut self, argument: &str, datapaths: &[DatapathName]) -> Result<(), String> {
        match argument.split_once('=') {
            Some(("filter", text)) => {
                let filter = text::parse_match(text);
                let wrong = |error| format!("Failed to parse filter ({error})");
                self.filter = Some(filter.map_err(wrong)?);
            }
            Some(("type", kinds)) => {
                self.lacks_type = true;
                for kind in kinds.split(',') {
                    let found = KINDS.iter().find(|(name, _)| *name == kind);
                    let (_, has_flows) = found.ok_or_else(|| {
                        format!("{kind}: there is no such type of flows; leave it out")
                    })?;
                    self.lacks_type &= !has_flows;
                }
            }
            Some(("pmd", core)) => {
                let core: i32 = core.parse().map_err(|_| "pmd= takes a number")?;
                // All flows are of the main thread, which has this number.
                self.lacks_core = core != -1;
            }
            _ if datapaths.iter().any(|known| is_named(known, argument)) => {
                self.datapath = Some(argument.to_owned());
            }
            _ => return Err(format!("{argument}: there is no such datapath")),
        }
        Ok(())
    }

    /// Whether no flow is shown: a type and a core must both have flows.
    fn is_empty(&self) -> bool {
        self.lacks_type || self.lacks_core
    }

    /// Whether all flows are shown.
    pub fn takes_all(&self) -> bool {
        self.datapath.is_none() && self.filter.is_none() && !self.is_empty()
    }

    /// Whether a flow is shown; `datapath` is the one that it is in.
    pub fn has(
        &self,
        names: &dyn TraceNames,
        shown: &ShownFlow,
        datapath: Option<&DatapathName>,
    ) -> bool {
        let is_of = |name: &String| datapath.is_some_and(|known| is_named(known, name));
        let is_met = |filter: &Match| meets(filter, names, shown);
        !self.is_empty()
            && self.datapath.as_ref().is_none_or(is_of)
            && self.filter.as_ref().is_none_or(is_met)
    }
}

/// Whether packets of a flow can meet a filter, in which ports have the datapath's numbers.
fn meets(filter: &Match, names: &dyn TraceNames, shown: &ShownFlow) -> bool {
    let number = names.datapath_number_of(shown.in_port);
    filter.terms().iter().all(|term| {
        let value = match term.field {
            f::IN_PORT => number.map_or(u128::MAX, u128::from),
            field => shown.flow.key.get(field),
        };
        (value ^ term.value) & term.mask & shown.flow.mask.get(term.field) == 0
    })
}

/// The flows of `dpctl/dump-flows`, of a switch that is one datapath without a name.
///
/// # Errors
/// If an argument is neither an option nor a selection.
pub fn dump_flows(
    switch: &mut Switch,
    names: &dyn TraceNames,
    arguments: &[String],
) -> Result<String, String> {
    let (mut style, mut selection) = (FlowStyle::default(), FlowSelection::default());
    for argument in arguments {
        if !style.take(argument) {
            selection.take(argument, &[])?;
        }
    }
    let flows = shown_flows(switch, names, style);
    let flows = flows
        .iter()
        .filter(|shown| selection.has(names, shown, None));
    Ok(dump_text(flows, style))
}

/// The text of a dump.
pub(crate) fn dump_text<'a>(
    flows: impl Iterator<Item = &'a ShownFlow>,
    style: FlowStyle,
) -> String {
    let lines: Vec<String> = flows.map(|shown| datapath_line(shown, style)).collect();
    match lines.is_empty() {
        true => String::new(),
        false => format!("flow-dump from the main thread:\n{}", lines.join("\n")),
    }
}

/// The line of a flow.
pub(crate) fn datapath_line(shown: &ShownFlow, style: FlowStyle) -> String {
    match style.is_verbose {
        false => shown.line(""),
        true => format!("{}, {}", shown.identifier_text(), shown.line(", dp:ovs")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selection(arguments: &[&str]) -> FlowSelection {
        let mut selection = FlowSelection::default();
        for argument in arguments {
            selection.take(argument, &[]).expect("it is a selection");
        }
        selection
    }

    #[test]
    fn a_type_and_a_core_must_both_have_flows() {
        for (kind, has_type) in [("type=ovs", true), ("type=tc", false)] {
            for (core, has_core) in [("pmd=-1", true), ("pmd=3", false)] {
                let has_both = has_type && has_core;
                assert_eq!(selection(&[kind, core]).takes_all(), has_both);
                assert_eq!(selection(&[core, kind]).takes_all(), has_both);
            }
        }
        assert!(selection(&[]).takes_all());
        assert!(selection(&["type=tc,ovs"]).takes_all());
    }
}
