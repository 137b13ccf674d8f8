//! Seeded generators of rules, pipelines, traffic and changes.
//!
//! It generates every input of a switch from a seed alone. It does not depend on the switch:
//! rules and changes are *text* (`ovs-ofctl` syntax), packets are *bytes*. So the same
//! workload can be given to any switch, and no generator can rely on the code it tests.
//!
//! ```text
//!   ClassBench files ─┐
//!   Shape ────────────┴─> Filter ──> Rule ──┐
//!   PipelineKind ──────────────────────────>├─> Pipeline ──> FlowSource ──> Flow ──> packet
//!                                           │       └──────> ChangeSource ──> Change
//!   Sequence: in which order flows send     │
//!   Campus: entries and packets for a P4 program
//!   MicroCase: rules and flows of one benchmark case
//!   RandomPipeline, PacketSource: small and hostile, for tests of soundness
//! ```
//!
//! 1. The same seed and sizes give the same output. Between machines this holds as far as
//!    their `powf` agrees; Zipf ranks, burst lengths and the ports favoured by ClassBench use
//!    it.
//! 2. No two rules of a table overlap at equal priority, which OpenFlow leaves undefined.
//! 3. `ovs-ofctl` accepts all rules and changes: prerequisites are matched, and no more tags
//!    are pushed than a switch accepts.

mod action;
mod attack;
mod campus;
mod changes;
mod classbench;
mod error;
mod field;
mod flows;
mod micro;
mod openflow;
mod pipeline;
mod random;
mod rule;
mod seed;
mod sequence;

pub use action::{Action, FieldSlice, ReservedPort, TrackAction, TrackZone};
pub use attack::{AttackCase, packet_of_source};
pub use campus::Campus;
pub use changes::{Change, ChangeMix, ChangeSource, Operation, changes_text};
pub use classbench::{
    Extra, Filter, FilterError, FilterProblem, Header, LengthShare, PortClass, PortRange,
    PortShares, Prefix, Profile, SHAPE_KEYS, ServiceShare, Shape, ShapeError, Sharing,
    UnknownProfile, filter_rules, generate_filters, parse_filters,
};
pub use error::WorkloadError;
pub use field::Field;
pub use flows::{Flow, FlowConfig, FlowSource, draw_flows};
pub use micro::{DESTINATIONS_PER_MASK, MicroCase, RULES_PER_SUB_TABLE};
pub use openflow::generate_openflow;
pub use pipeline::{
    AntConfig, OfdConfig, Pipeline, PipelineKind, PscConfig, SyntheticConfig, Table, TableRole,
    Template,
};
pub use random::{
    ConversationSource, PacketSource, RandomBucket, RandomConfig, RandomGroup, RandomPacket,
    RandomPipeline, truncations,
};
pub use rule::{Match, Rule, Term, rules_text};
pub use sequence::{Sequence, SequenceKind};

/// Whether this build is optimised. Random tests compare fewer cases if it is not.
pub const IS_OPTIMISED: bool = cfg!(thalweg_optimised);
