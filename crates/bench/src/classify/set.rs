//! Loads sets of rules: ClassBench files, rules files, and generated sets by name.
//!
//! Every set passes through the text of rules and the layout of the fields that these rules
//! match, as on its way into a pipeline. So a classifier gets exactly the words here that it
//! would get there.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use thalweg_classifier::{Classifier, Pattern, Precedence, RuleId, Version};
use thalweg_packet::{Layout, standard};
use thalweg_pipeline::{Flow, TableId, text};
use thalweg_workload::{
    Action, Extra, Filter, Profile, Shape, filter_rules, generate_openflow, parse_filters,
    rules_text,
};

use thalweg_command::failure::bad_input;
use thalweg_command::{files, input};

/// The rules of one table, as words of their layout.
pub(crate) struct RuleSet {
    /// The file's path, or the name of the generated set.
    pub(super) name: String,
    /// The filters that the rules were made of, if any.
    pub(crate) filters: Vec<Filter>,
    /// The layout of the fields that the rules match.
    pub(super) layout: Layout,
    precedences: Vec<Precedence>,
    /// The values of all rules in sequence; `masks` is alike.
    values: Vec<u64>,
    masks: Vec<u64>,
}

/// Most rules in a generated set.
const RULES_MAX: usize = 4_000_000;

impl RuleSet {
    /// Reads the set of a file, or generates the set named `name`.
    ///
    /// # Errors
    /// If it is neither; gives the place of an error in a text.
    pub(crate) fn read(name: &str, table: Option<u8>, seed: u64) -> Result<RuleSet> {
        if Path::new(name).exists() {
            let text = files::unpacked(Path::new(name))?;
            if is_classbench(&text) {
                let filters = parse_filters(name, &text).map_err(bad_input)?;
                return RuleSet::of_filters(name, filters);
            }
            return RuleSet::of_text(name, Vec::new(), &text, table);
        }
        let Some((kind, rules)) = parse_name(name) else {
            return Err(bad_input(format!(
                "--rules {name}: there is no such file, and no set of this name; name a ClassBench \
                 file (.xz is unpacked), a rules file, or a set as acl1-10k, fw6-500k, openflow-1m"
            )));
        };
        match kind {
            Kind::Filters(profile) => {
                let filters = Shape::built_in(profile).filters_for_rules(rules, seed);
                RuleSet::of_filters(name, filters)
            }
            Kind::OpenFlow => {
                let rules = generate_openflow(rules, seed);
                let rules = rules.map_err(|error| bad_input(format!("--rules {name}: {error}")))?;
                RuleSet::of_text(name, Vec::new(), &rules_text(&rules), None)
            }
        }
    }

    fn of_filters(name: &str, filters: Vec<Filter>) -> Result<RuleSet> {
        let actions = |index: usize| vec![Action::Output(1 + index as u32 % 8)];
        let rules = filter_rules(&filters, 0, Extra::Ignore, actions);
        let rules = rules.map_err(|error| bad_input(format!("--rules {name}: {error}")))?;
        RuleSet::of_text(name, filters, &rules_text(&rules), None)
    }

    fn of_text(name: &str, filters: Vec<Filter>, text: &str, table: Option<u8>) -> Result<RuleSet> {
        let rules = text::parse_rules(name, text).map_err(input::faults)?;
        let table = table
            .map(|table| TableId(table.into()))
            .or_else(|| largest_table(&rules.flows));
        let is_of_table = |flow: &&Flow| Some(flow.table) == table;
        let flows: Vec<&Flow> = rules.flows.iter().filter(is_of_table).collect();
        if flows.is_empty() {
            let of_table = table.map_or(String::new(), |table| {
                format!(" of table {}", table.number())
            });
            return Err(bad_input(format!(
                "--rules {name}: there is no rule{of_table} in it; name another file or --table"
            )));
        }
        RuleSet::of_flows(name, filters, &flows)
    }

    fn of_flows(name: &str, filters: Vec<Filter>, flows: &[&Flow]) -> Result<RuleSet> {
        let terms = flows.iter().flat_map(|flow| flow.matching.terms());
        let mut fields: BTreeSet<_> = terms.map(|term| term.field).collect();
        if fields.is_empty() {
            // Rules that match everything still need one word.
            fields.insert(standard::IN_PORT);
        }
        let layout = Layout::new(Arc::new(standard::fields()), &fields);
        let layout = layout.map_err(|error| bad_input(format!("--rules {name}: {error}")))?;
        let words = layout.words();
        let mut set = RuleSet {
            name: name.to_owned(),
            filters,
            layout,
            precedences: Vec::with_capacity(flows.len()),
            values: vec![0; words * flows.len()],
            masks: vec![0; words * flows.len()],
        };
        for (index, flow) in flows.iter().enumerate() {
            let place = index * words..(index + 1) * words;
            for term in flow.matching.terms() {
                let (value, mask) = (&mut set.values, &mut set.masks);
                (set.layout).set(&mut value[place.clone()], term.field, term.value);
                (set.layout).set(&mut mask[place.clone()], term.field, term.mask);
            }
            let precedence = Precedence::new(flow.priority, index as u64);
            set.precedences.push(precedence);
        }
        Ok(set)
    }

    /// Number of rules.
    pub(super) fn len(&self) -> usize {
        self.precedences.len()
    }

    /// Words in a key.
    pub(super) fn words(&self) -> usize {
        self.layout.words()
    }

    /// The pattern of a rule.
    pub(super) fn pattern(&self, rule: usize) -> Pattern<'_> {
        let place = rule * self.words()..(rule + 1) * self.words();
        Pattern {
            value: &self.values[place.clone()],
            mask: &self.masks[place],
        }
    }

    /// Inserts a rule into a classifier.
    pub(super) fn insert_into(&self, subject: &mut dyn Classifier, rule: usize, born: Version) {
        let (pattern, precedence) = (self.pattern(rule), self.precedences[rule]);
        subject.insert(pattern, precedence, RuleId(rule as u32), born);
    }

    pub(super) fn precedence(&self, rule: usize) -> Precedence {
        self.precedences[rule]
    }

    /// The rules, best first.
    pub(super) fn by_precedence(&self) -> Vec<u32> {
        let mut order: Vec<u32> = (0..self.len() as u32).collect();
        order.sort_unstable_by_key(|rule| std::cmp::Reverse(self.precedences[*rule as usize]));
        order
    }

    /// Number of different masks.
    pub(super) fn mask_count(&self) -> usize {
        let masks: std::collections::HashSet<&[u64]> =
            self.masks.chunks_exact(self.words()).collect();
        masks.len()
    }
}

/// Whether a text is filters: these begin with `@`, and no rule does.
fn is_classbench(text: &str) -> bool {
    text.trim_start().starts_with('@')
}

/// The table with the most rules.
fn largest_table(flows: &[Flow]) -> Option<TableId> {
    let mut counts = [0; 256];
    for flow in flows {
        counts[usize::from(flow.table.number())] += 1;
    }
    let most = (0..=u8::MAX)
        .rev()
        .max_by_key(|table| counts[usize::from(*table)])?;
    (counts[usize::from(most)] > 0).then_some(TableId(most.into()))
}

/// Kinds of generated sets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Filters(Profile),
    OpenFlow,
}

/// Splits a name such as `acl1-10k` into its kind and number of rules.
fn parse_name(name: &str) -> Option<(Kind, usize)> {
    let (kind, count) = name.rsplit_once('-')?;
    let count = count.to_ascii_lowercase();
    let (digits, unit) = match count.strip_suffix('k') {
        Some(digits) => (digits, 1_000),
        None => match count.strip_suffix('m') {
            Some(digits) => (digits, 1_000_000),
            None => (count.as_str(), 1),
        },
    };
    let rules = digits.parse::<usize>().ok()?.checked_mul(unit)?;
    let kind = match kind {
        "openflow" => Kind::OpenFlow,
        profile => Kind::Filters(profile.parse().ok()?),
    };
    (1..=RULES_MAX).contains(&rules).then_some((kind, rules))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_and_how_many() {
        let filters = |profile, rules| Some((Kind::Filters(profile), rules));
        assert_eq!(parse_name("acl1-10k"), filters(Profile::Acl1, 10_000));
        assert_eq!(parse_name("ipc6-1M"), filters(Profile::Ipc6, 1_000_000));
        assert_eq!(parse_name("fw1-77"), filters(Profile::Fw1, 77));
        assert_eq!(parse_name("openflow-5k"), Some((Kind::OpenFlow, 5_000)));
        for name in ["acl1", "acl1-", "tea-10k", "acl1-0", "acl1-9m", "acl1-1kk"] {
            assert_eq!(parse_name(name), None, "{name}");
        }
    }

    #[test]
    fn a_set_is_of_the_table_with_the_most_rules() {
        let text = "table=3,tcp,tp_dst=80,actions=drop\n\
                    table=5,ip,nw_dst=10.0.0.0/8,actions=drop\n\
                    table=5,priority=7,actions=drop\n";
        let set = RuleSet::of_text("r", Vec::new(), text, None).expect("rules");
        assert_eq!((set.len(), set.mask_count()), (2, 2));
        assert_eq!(set.by_precedence(), [0, 1]);
        let set = RuleSet::of_text("r", Vec::new(), text, Some(3)).expect("rules");
        assert_eq!(set.len(), 1);
        let error = RuleSet::of_text("r", Vec::new(), text, Some(4)).err();
        assert!(error.expect("none").to_string().contains("table 4"));
    }
}
