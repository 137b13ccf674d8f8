//! Reports the counters of rules, tables and groups for `replay` and `run`.
//!
//! JSON has all of them, in the order of `ovs-ofctl dump-flows`, but rules are sorted by use.
//! Text has the most used. The caller settles the counters first.

use std::cmp::Reverse;
use std::fmt::Write;

use serde::Serialize;
use thalweg_pipeline::{Counters, GroupCounters, Pipeline};

/// Rules and groups shown in the text, most used first.
const SHOWN: usize = 10;

/// The counters of a pipeline.
#[derive(Serialize)]
pub(crate) struct CountersReport {
    rule_count: usize,
    /// The most used first; unused rules are included.
    rules: Vec<RuleReport>,
    tables: Vec<TableReport>,
    groups: Vec<GroupReport>,
}

#[derive(Serialize)]
struct RuleReport {
    rule: String,
    packets: u64,
    bytes: u64,
}

#[derive(Serialize)]
struct TableReport {
    table: u8,
    lookups: u64,
    matches: u64,
}

#[derive(Serialize)]
struct GroupReport {
    group: u32,
    packets: u64,
    bytes: u64,
    buckets: Vec<BucketReport>,
}

#[derive(Serialize)]
struct BucketReport {
    packets: u64,
    bytes: u64,
}

impl CountersReport {
    /// The counters of what exists at the newest version, with at most `rules_max` rules.
    pub(crate) fn new(pipeline: &Pipeline, rules_max: usize) -> CountersReport {
        let version = pipeline.version();
        let tables = pipeline.table_counters();
        let groups = pipeline.groups(version).map(|group| {
            let counters = pipeline.group_counters(group.id);
            group_report(group.id.number(), &counters.cloned().unwrap_or_default())
        });
        CountersReport {
            rule_count: pipeline.rule_count(version),
            rules: rules(pipeline, rules_max),
            tables: tables
                .map(|(table, lookups, matches)| TableReport {
                    table: table.number(),
                    lookups,
                    matches,
                })
                .collect(),
            groups: groups.collect(),
        }
    }

    /// Number of existing rules.
    pub(crate) fn rule_count(&self) -> usize {
        self.rule_count
    }

    /// The most used of each, one per line.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        let mut line = |said: std::fmt::Arguments<'_>| {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{said}");
        };
        for table in &self.tables {
            line(format_args!(
                "table {:>3}: {} lookups, {} matched",
                table.table, table.lookups, table.matches
            ));
        }
        let mut groups: Vec<_> = self.groups.iter().filter(|g| g.packets > 0).collect();
        groups.sort_by_key(|group| Reverse(group.packets));
        for group in groups.iter().take(SHOWN) {
            line(format_args!(
                "group {:>3}: {} packets, {} bytes",
                group.group, group.packets, group.bytes
            ));
        }
        if groups.len() > SHOWN {
            line(format_args!("{} more groups", groups.len() - SHOWN));
        }
        let used = self.rules.iter().take_while(|rule| rule.packets > 0);
        let shown = used.take(SHOWN).count();
        for rule in &self.rules[..shown] {
            line(format_args!(
                "{:>12} packets {:>15} bytes  {}",
                rule.packets, rule.bytes, rule.rule
            ));
        }
        let rest = self.rule_count - shown;
        if rest > 0 {
            let rules = if rest == 1 { "rule" } else { "rules" };
            let use_of = if shown < SHOWN {
                "not used"
            } else {
                "used less"
            };
            line(format_args!(
                "{rest:>12} more {rules}, {use_of}; --json has them"
            ));
        }
        text
    }
}

fn rules(pipeline: &Pipeline, most: usize) -> Vec<RuleReport> {
    let mut rules: Vec<_> = pipeline.rules(pipeline.version()).collect();
    rules.sort_by_key(|(id, rule)| (Reverse(rule.counters.packets), *id));
    let reports = rules.into_iter().take(most).filter_map(|(id, rule)| {
        let Counters { packets, bytes } = rule.counters;
        let rule = pipeline.flow_of(id)?.to_string();
        Some(RuleReport {
            rule,
            packets,
            bytes,
        })
    });
    reports.collect()
}

fn group_report(group: u32, counters: &GroupCounters) -> GroupReport {
    let buckets = counters.buckets.iter().map(|bucket| BucketReport {
        packets: bucket.packets,
        bytes: bucket.bytes,
    });
    GroupReport {
        group,
        packets: counters.group.packets,
        bytes: counters.group.bytes,
        buckets: buckets.collect(),
    }
}
