//! Seeded generators of rules, pipelines, traffic and changes.

mod classbench;
mod error;
mod field;
mod rule;
mod seed;

pub use classbench::{
    Extra, Filter, FilterError, FilterProblem, PortRange, Prefix, Profile, filter_rules,
    generate_filters, parse_filters,
};
pub use error::WorkloadError;
pub use field::Field;
pub use rule::{Action, FieldSlice, Match, Rule, Term, rules_text};
