//! When to compare the kinds of index, and which to take: plain data, and no clock.
//!
//! To compare them, all are built, and that takes time. So it is done when lookups have cost as much
//! more than they could have as the comparison costs: then whatever it finds, the time lost since the
//! last one is at most doubled (as with renting skis or buying them).
//!
//! ```text
//!   gain  = what a lookup costs now - what the best kind is thought to cost
//!           (the last comparison tells; half, if there was none or the rules are others by now)
//!   due     if gain is at least a fifth, and lookups * gain >= rules * cost of comparing a rule
//!   chosen  the kind with the least of: cost of a lookup + updates per lookup * cost of an update,
//!           if it is less than what there is by a fifth
//! ```
//!
//! That is the hysteresis: what is not better by a fifth is not taken, and is not tried again before
//! the rules or the costs are others. A table that nobody looks into keeps its index, and so does one
//! that changes as often as it is asked.
//!
//! Costs are counted, not timed: tables, filters, iSets and patterns that a lookup asks, each with
//! the weight of `learned::cost`. So the same lookups and changes lead to the same choices.

use super::held::IndexKind;

/// When to compare, and what to take.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AutoPolicy {
    /// Fewer rules stay a tuple space; half as many become one again.
    pub rules_min: usize,
    /// Lookups looked at closely before anything is decided.
    pub samples_min: u64,
    /// By how much lookups must become cheaper, in percent.
    pub gain_min_percent: u32,
    /// What comparing takes for each rule, in nanoseconds of processor time.
    pub trial_ns_per_rule: f64,
}

impl Default for AutoPolicy {
    /// In a model check, whose tables are small, whatever there is is replaced as soon as another is
    /// as good.
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

/// What has been seen since the last decision.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Figures {
    /// The kind of index.
    pub kind: IndexKind,
    /// Rules, at whichever version.
    pub rules: usize,
    /// Rules inserted or removed, of versions that are settled.
    pub updates: usize,
    /// Of these, how many after the first lookup: loading a table says nothing of its use.
    pub updates_in_use: usize,
    /// The share of the rules that iSets have, 0 to 1; 0 without any.
    pub coverage: f64,
    /// Lookups.
    pub lookups: u64,
    /// Of these, how many were looked at closely.
    pub samples: u64,
    /// Hash tables, filters and iSets that one of these asked, in the mean.
    pub tables_per_lookup: f64,
    /// What one of these cost in the mean, in nanoseconds of a lookup in a burst, as counted.
    pub cost_ns: f64,
}

impl Figures {
    /// Updates for each lookup, since the first.
    pub fn update_rate(&self) -> f64 {
        self.updates_in_use as f64 / self.lookups.max(1) as f64
    }
}

/// What a comparison has come to.
#[derive(Clone, PartialEq, Debug)]
pub struct Verdict {
    /// The kind that was taken, or kept.
    pub chosen: IndexKind,
    /// What a lookup costs in each kind that was compared, in nanoseconds as counted; what there was
    /// before first.
    pub costs_ns: Vec<(IndexKind, f64)>,
    /// Rules that there were.
    pub rules: usize,
    /// Keys that were tried.
    pub keys: usize,
    /// Updates for each lookup, before.
    pub update_rate: f64,
    /// The share of the rules that iSets had, if they were compared.
    pub coverage: Option<f64>,
}

impl Verdict {
    /// The least cost of a lookup that was found, in nanoseconds.
    pub fn least_cost_ns(&self) -> f64 {
        let costs = self.costs_ns.iter().map(|(_, cost)| *cost);
        costs.fold(f64::INFINITY, f64::min)
    }
}

/// What an update costs, in nanoseconds: with 100,000 rules of access lists.
fn update_ns(kind: IndexKind) -> f64 {
    match kind {
        IndexKind::TupleSpace => 1_700.0,
        IndexKind::MergedTuples => 2_200.0,
        IndexKind::Bloom => 3_400.0,
        // Sooner or later it is trained again.
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

    /// Whether there are so few rules that the index is to be a tuple space again.
    pub fn is_too_small(&self, now: &Figures) -> bool {
        now.rules < self.rules_min / 2 && matches!(now.kind, IndexKind::Bloom | IndexKind::Learned)
    }

    /// Which of several kinds to take, by what a lookup costs in each; `None` to keep what there is.
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
        // Half of 100 ns, for 2 million lookups: 10,000 ns for each of 10,000 rules.
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
        // Lookups became dearer.
        assert!(POLICY.is_due(&figures(107.0, 1 << 40), Some(&last)));
        // Half of the rules are others.
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
        // An update for every ten lookups: those of the learned index cost more.
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

    /// Costs that go up and down around the point where two kinds are alike lead to one change, not
    /// to one for each turn.
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
