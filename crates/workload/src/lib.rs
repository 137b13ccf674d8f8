//! Seeded generators of rules, pipelines, traffic and changes.

mod changes;
mod classbench;
mod error;
mod field;
mod flows;
mod micro;
mod pipeline;
mod random;
mod rule;
mod seed;
mod sequence;

pub use changes::{Change, ChangeMix, ChangeSource, Operation, changes_text};
pub use classbench::{
    Extra, Filter, FilterError, FilterProblem, PortRange, Prefix, Profile, filter_rules,
    generate_filters, parse_filters,
};
pub use error::WorkloadError;
pub use field::Field;
pub use flows::{Flow, FlowConfig, FlowSource, draw_flows};
pub use micro::{DESTINATIONS_PER_MASK, MicroCase};
pub use pipeline::{
    OfdConfig, Pipeline, PipelineKind, PscConfig, SyntheticConfig, Table, TableRole, Template,
};
pub use random::{PacketSource, RandomConfig, RandomPacket, RandomPipeline, truncations};
pub use rule::{Action, FieldSlice, Match, Rule, Term, rules_text};
pub use sequence::{Sequence, SequenceKind};
