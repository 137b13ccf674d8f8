//! Estimates the cost of a lookup from what it visits: counted, not timed.
//!
//! ```text
//!   cost = LOOKUP
//!        + iSets * (ISET + distance * ISET_FAR) + iSets with further groups * LONG
//!        + further groups * GROUP
//!        + TABLES if any table is visited + tables * (TABLE + distance * TABLE_FAR)
//!        + patterns * PATTERN
//!        + filters * FILTER + sub-tables that filters named * (NAMED + distance * NAMED_FAR)
//!   distance = log2(1 + rules / 4096), of the rules that the part in question has
//! ```
//!
//! The training of a learned index and [`Auto`](crate::Auto) compare possible indexes by it, so
//! that the same rules and keys lead to the same choices. The weights are nanoseconds of a lookup
//! in a burst. `cargo bench -p thalweg-classifier --bench cost` fits them: it makes sets of many
//! shapes, counts and times lookups in each kind of index, and prints the nearest weights. Other
//! machines have other nanoseconds; a choice depends on their ratios only.
//!
//! 1. Every weight is zero or more: asking more never costs less.

/// How many weights there are.
pub const WEIGHTS: usize = 13;

/// The weights in the order of [`Visits::features`].
#[rustfmt::skip]
const FITTED: [f64; WEIGHTS] = [
    13.9,       // LOOKUP
    12.4, 2.2,  // ISET, ISET_FAR
    42.8, 8.9,  // LONG, GROUP
    12.2,       // TABLES
    6.6, 1.5,   // TABLE, TABLE_FAR
    5.7,        // PATTERN
    17.3, 0.0,  // FILTER, FILTER_FAR
    13.5, 1.1,  // NAMED, NAMED_FAR
];

/// The number of rules from which on they are further away.
const NEAR_RULES: f64 = 4096.0;

/// What a lookup visits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Visits {
    /// iSets.
    pub isets: usize,
    /// iSets of whose bucket more than one group of rules is compared.
    pub long: usize,
    /// Groups that are compared beyond the first of each bucket.
    pub groups: usize,
    /// Rules that the iSets have.
    pub covered: usize,
    /// Hash tables, those apart that a filter named.
    pub tables: usize,
    /// Patterns that are compared in hash tables.
    pub patterns: usize,
    /// Filters.
    pub filters: usize,
    /// Hash tables that a filter named.
    pub named: usize,
    /// Rules that the hash tables have.
    pub rules: usize,
}

impl Visits {
    /// How often each weight counts.
    pub fn features(&self) -> [f64; WEIGHTS] {
        let near = distance(self.covered);
        let far = distance(self.rules);
        let count = |number: usize| number as f64;
        [
            1.0,
            count(self.isets),
            count(self.isets) * near,
            count(self.long),
            count(self.groups),
            f64::from(u8::from(self.tables > 0)),
            count(self.tables),
            count(self.tables) * far,
            count(self.patterns),
            count(self.filters),
            count(self.filters) * far,
            count(self.named),
            count(self.named) * far,
        ]
    }

    /// The cost, in nanoseconds of a lookup in a burst.
    pub fn cost_ns(&self) -> f64 {
        let weighted = self.features().into_iter().zip(FITTED);
        weighted.map(|(feature, weight)| feature * weight).sum()
    }

    /// Hash tables, filters and iSets together.
    pub(crate) fn asked(&self) -> usize {
        self.isets + self.tables + self.filters + self.named
    }
}

/// The distance of `rules` rules.
fn distance(rules: usize) -> f64 {
    (1.0 + rules as f64 / NEAR_RULES).log2()
}

/// The worth of a rule in the group `group` of its bucket. A rule of the first group is worth 1,
/// one left to the next iSet or to a table 0.
pub(crate) fn worth_in_group(group: usize) -> f64 {
    let [_, _, _, long, each, tables, table, _, pattern, ..] = FITTED;
    // What the remainder would take for it: a few tables, with a pattern in each.
    let elsewhere = tables + 4.0 * (table + pattern);
    match group {
        0 => 1.0,
        _ => (1.0 - (long + each * group as f64) / elsewhere).max(0.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asking_more_never_costs_less() {
        let some = Visits {
            isets: 1,
            long: 0,
            groups: 0,
            covered: 1_000,
            tables: 1,
            patterns: 1,
            filters: 1,
            named: 1,
            rules: 10_000,
        };
        let more = [
            Visits { isets: 2, ..some },
            Visits {
                long: 1,
                groups: 1,
                ..some
            },
            Visits { groups: 2, ..some },
            Visits {
                covered: 100_000,
                ..some
            },
            Visits { tables: 2, ..some },
            Visits {
                patterns: 2,
                ..some
            },
            Visits { filters: 2, ..some },
            Visits { named: 2, ..some },
            Visits {
                rules: 100_000,
                ..some
            },
        ];
        for more in more {
            assert!(more.cost_ns() >= some.cost_ns(), "{more:?}");
        }
        assert!(FITTED.iter().all(|weight| *weight >= 0.0));
        assert_eq!(some.asked(), 4);
    }

    #[test]
    fn rules_further_back_in_a_bucket_are_worth_less() {
        let worths: Vec<f64> = (0..32).map(worth_in_group).collect();
        assert_eq!(worths[0], 1.0);
        assert!(worths.is_sorted_by(|one, next| one >= next));
        assert!(worths[1] < 1.0 && worths[31] >= 0.0);
    }
}
