//! When to compare the kinds of index, and which to take: plain data, and no clock.
//!
//! A comparison builds all kinds, which takes time. So it runs when the excess cost of
//! lookups, compared with the best kind, equals the cost of the comparison. Then the time lost
//! since the last comparison is at most doubled, whatever it finds (the "ski rental" problem).
//!
//! ```text
//!   gain  = what a lookup costs now - what the best kind is thought to cost
//!           (the last comparison tells; half, if there was none or the rules are others by now)
//!   due     if gain is at least a fifth, and lookups * gain >= rules * cost of comparing a rule
//!   chosen  the kind with the least of: cost of a lookup + updates per lookup * cost of an update,
//!           if it is less than what there is by a fifth
//! ```
//!
//! This gives hysteresis: a kind that is not better by a fifth is not taken, and is not tried
//! again before the rules or the costs change. A table without lookups keeps its index, and so
//! does a table that changes as often as it is looked up.
//!
//! Costs are counted, not timed: the tables, filters, iSets and patterns that a lookup visits,
//! each with the weight of `learned::cost`. So the same lookups and changes lead to the same
//! choices.

use super::held::IndexKind;

/// When to compare the kinds of index, and which to take.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AutoPolicy {
    /// With fewer rules the index stays a tuple space; with half as many it becomes one again.
    pub rules_min: usize,
    /// The samples needed before any decision.
    pub samples_min: u64,
    /// The least gain of lookups, in percent.
    pub gain_min_percent: u32,
    /// The cost of a comparison for each rule, in nanoseconds of processor time.
    pub trial_ns_per_rule: f64,
}

impl Default for AutoPolicy {
    /// The default policy.
    ///
    /// In a model check, whose tables are small, an index is replaced as soon as another is as
    /// good.
    fn default() -> AutoPolicy {
        if cfg!(thalweg_model) {
            return AutoPolicy {
                rules_min: 2,
                samples_min: 0,
                gain_min_percent: 0,
                trial_ns_per_rule: 0.0,
            };
        }
        AutoPolicy {
            rules_min: 1_000,
            samples_min: 32,
            gain_min_percent: 20,
            trial_ns_per_rule: 10_000.0,
        }
    }
}

/// Observations since the last decision.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Figures {
    /// The kind of index.
    pub kind: IndexKind,
    /// The number of rules, at any version.
    pub rules: usize,
    /// Rules inserted or removed at settled versions.
    pub updates: usize,
    /// The updates after the first lookup: loading a table tells nothing of its use.
    pub updates_in_use: usize,
    /// The share of the rules in iSets, 0 to 1; 0 without iSets.
    pub coverage: f64,
    /// The number of lookups.
    pub lookups: u64,
    /// The number of sampled lookups.
    pub samples: u64,
    /// The mean number of hash tables, filters and iSets visited by a sampled lookup.
    pub tables_per_lookup: f64,
    /// The mean cost of a sampled lookup, in counted nanoseconds of a lookup in a burst.
    pub cost_ns: f64,
}

impl Figures {
    /// Updates per lookup, since the first lookup.
    pub fn update_rate(&self) -> f64 {
        self.updates_in_use as f64 / self.lookups.max(1) as f64
    }
}

/// The result of a comparison.
#[derive(Clone, PartialEq, Debug)]
pub struct Verdict {
    /// The kind that was taken or kept.
    pub chosen: IndexKind,
    /// The counted cost of a lookup in each compared kind, in nanoseconds; the former index
    /// first.
    pub costs_ns: Vec<(IndexKind, f64)>,
    /// The number of rules at that time.
    pub rules: usize,
    /// The number of keys tried.
    pub keys: usize,
    /// Updates per lookup before the comparison.
    pub update_rate: f64,
    /// The share of the rules in iSets, if a learned index was compared.
    pub coverage: Option<f64>,
}

impl Verdict {
    /// The least cost of a lookup in any kind, in nanoseconds.
    pub fn least_cost_ns(&self) -> f64 {
        let costs = self.costs_ns.iter().map(|(_, cost)| *cost);
        costs.fold(f64::INFINITY, f64::min)
    }
}

/// The weight of an update, in nanoseconds, for access lists of 100,000 rules.
fn update_ns(kind: IndexKind) -> f64 {
    match kind {
        IndexKind::TupleSpace => 1_700.0,
        IndexKind::MergedTuples => 2_200.0,
        IndexKind::Bloom => 3_400.0,
        // Includes its share of the next training.
        IndexKind::Learned => 5_000.0,
    }
}

impl AutoPolicy {
    /// Whether it is time to compare.
    pub fn is_due(&self, now: &Figures, last: Option<&Verdict>) -> bool {
        if now.rules < self.rules_min {
            return self.is_too_small(now);
        }
        if now.samples < self.samples_min {
            return false;
        }
        let known = last.filter(|last| now.updates < last.rules / 2);
        let thought = known.map_or(now.cost_ns / 2.0, Verdict::least_cost_ns);
        let gain = now.cost_ns - thought;
        gain * 100.0 >= now.cost_ns * f64::from(self.gain_min_percent)
            && gain * now.lookups as f64 >= self.trial_ns_per_rule * now.rules as f64
    }

    /// Whether there are so few rules that the index must become a tuple space again.
    pub fn is_too_small(&self, now: &Figures) -> bool {
        now.rules < self.rules_min / 2 && matches!(now.kind, IndexKind::Bloom | IndexKind::Learned)
    }

    /// The kind to take, given the cost of a lookup in each; `None` to keep the current index.
    pub fn choose(&self, now: &Figures, costs_ns: &[(IndexKind, f64)]) -> Option<IndexKind> {
        let rate = now.update_rate();
        let total = |kind, cost| cost + rate * update_ns(kind);
        let totals = costs_ns
            .iter()
            .map(|&(kind, cost)| (kind, total(kind, cost)));
        let best = totals.min_by(|one, other| one.1.total_cmp(&other.1));
        let kept = total(now.kind, now.cost_ns);
        let limit = kept * f64::from(100 - self.gain_min_percent.min(100)) / 100.0;
        best.filter(|(_, best)| *best <= limit)
            .map(|(kind, _)| kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: AutoPolicy = AutoPolicy {
        rules_min: 1_000,
        samples_min: 32,
        gain_min_percent: 20,
        trial_ns_per_rule: 10_000.0,
    };

    fn figures(cost_ns: f64, lookups: u64) -> Figures {
        Figures {
            kind: IndexKind::MergedTuples,
            rules: 10_000,
            updates: 0,
            updates_in_use: 0,
            coverage: 0.0,
            lookups,
            samples: 100,
            tables_per_lookup: 5.0,
            cost_ns,
        }
    }

    fn verdict(least: f64) -> Verdict {
        Verdict {
            chosen: IndexKind::MergedTuples,
            costs_ns: vec![
                (IndexKind::MergedTuples, 100.0),
                (IndexKind::Learned, least),
            ],
            rules: 10_000,
            keys: 256,
            update_rate: 0.0,
            coverage: Some(0.9),
        }
    }

    #[test]
    fn it_compares_when_lookups_have_paid_for_it() {
        // Half of 100 ns, for 2 million lookups, equals 10,000 ns for each of 10,000 rules.
        assert!(!POLICY.is_due(&figures(100.0, 1_999_999), None));
        assert!(POLICY.is_due(&figures(100.0, 2_000_000), None));
        let few = Figures {
            samples: 31,
            ..figures(100.0, 2_000_000)
        };
        assert!(!POLICY.is_due(&few, None));
        let small = Figures {
            rules: 999,
            ..figures(100.0, 1 << 40)
        };
        assert!(!POLICY.is_due(&small, None));
    }

    #[test]
    fn what_was_found_not_to_pay_is_not_tried_again() {
        let last = verdict(85.0);
        assert!(!POLICY.is_due(&figures(100.0, 1 << 40), Some(&last)));
        // Lookups became more expensive.
        assert!(POLICY.is_due(&figures(107.0, 1 << 40), Some(&last)));
        // Half of the rules have changed.
        let others = Figures {
            updates: 5_000,
            ..figures(100.0, 1 << 40)
        };
        assert!(POLICY.is_due(&others, Some(&last)));
        let others = Figures {
            updates: 4_999,
            ..others
        };
        assert!(!POLICY.is_due(&others, Some(&last)));
    }

    #[test]
    fn it_takes_the_cheapest_if_that_is_better_by_a_fifth() {
        let choose = |now: &Figures, learned, bloom| {
            let costs = [(IndexKind::Learned, learned), (IndexKind::Bloom, bloom)];
            POLICY.choose(now, &costs)
        };
        let now = figures(100.0, 1_000_000);
        assert_eq!(choose(&now, 60.0, 70.0), Some(IndexKind::Learned));
        assert_eq!(choose(&now, 70.0, 60.0), Some(IndexKind::Bloom));
        assert_eq!(choose(&now, 80.0, 90.0), Some(IndexKind::Learned));
        assert_eq!(choose(&now, 81.0, 90.0), None);
        // One update for every ten lookups: updates of the learned index cost more.
        let busy = Figures {
            updates_in_use: 100_000,
            ..now
        };
        assert_eq!(choose(&busy, 60.0, 95.0), None);
    }

    #[test]
    fn few_rules_are_a_tuple_space_again() {
        let now = Figures {
            kind: IndexKind::Learned,
            rules: 499,
            ..figures(10.0, 0)
        };
        assert!(POLICY.is_due(&now, None) && POLICY.is_too_small(&now));
        let now = Figures { rules: 500, ..now };
        assert!(!POLICY.is_due(&now, None));
        let now = Figures {
            kind: IndexKind::TupleSpace,
            rules: 10,
            ..now
        };
        assert!(!POLICY.is_due(&now, None));
    }

    /// Costs that swing around the break-even point of two kinds lead to one change, not many.
    #[test]
    fn it_does_not_swing() {
        let (mut kind, mut changes) = (IndexKind::MergedTuples, 0);
        for turn in 0..100 {
            let merged = if turn % 2 == 0 { 110.0 } else { 90.0 };
            let costs = [
                (IndexKind::MergedTuples, merged),
                (IndexKind::Learned, 92.0),
            ];
            let own = costs.iter().find(|(other, _)| *other == kind);
            let now = Figures {
                kind,
                ..figures(own.map_or(0.0, |(_, cost)| *cost), 1 << 30)
            };
            if let Some(chosen) = POLICY.choose(&now, &costs) {
                (kind, changes) = (chosen, changes + 1);
            }
        }
        assert_eq!(changes, 0);
    }
}
