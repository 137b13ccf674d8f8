//! Match-action programs and their meaning.
//!
//! A [`Pipeline`] holds tables of rules, groups, ports and stations. A [`Change`] takes it
//! from one [`Version`] to the next. [`interpret`] defines the answer to a packet at a
//! version; everything else in the project gives that answer sooner.

mod action;
mod bridge;
mod change;
mod check;
mod conjunctions;
mod connections;
mod drops;
mod effect;
mod encap;
pub mod explain;
mod flow;
mod fragments;
mod history;
pub mod interpret;
mod learning;
mod limits;
mod links;
mod mac;
mod matching;
mod meters;
mod mirror;
mod miss;
mod numbered;
mod pipeline;
mod prepare;
mod reads;
mod reclaim;
mod reference;
mod renumber;
mod resume;
mod state;
mod table;
mod table_classifier;
pub mod text;
mod trace;
mod tracking;
mod training;
mod vlan;

pub use action::{
    Action, Actions, GroupId, LengthCheck, Output, SampleDirection, Sampling, Slice, Subfield,
    TableId, Write,
};
pub use bridge::{BridgeId, PatchCounters};
pub use change::{
    Change, ChangeError, Operation, Revision, Selector, Target, uses_group, uses_meter,
};
pub use connections::Connections;
pub use drops::{DropReason, Drops};
pub use effect::{
    Effect, HeldFragment, Notice, Outbox, PacketInReason, Recirculation, Sender, run,
};
pub use encap::{Encap, NEXT_PROTOCOL, ServiceContext, ServiceHeader};
pub use flow::{
    Bucket, DEFAULT_PRIORITY, Flow, Group, GroupKind, HashedField, Labels, PortState, Selection,
    SelectionMethod,
};
pub use fragments::FragmentMode;
pub use interpret::{
    Author, Continuation, ExpiredTtl, FrozenList, Memory, NormalSight, Observer, SeenFields,
    Shortcut, Sight, Translation, Walker, observe, observe_resumed, resume, translate,
};
pub use learning::{
    LearnPart, LearnTarget, LearnedBits, LearnedCookie, LearnedCounts, LearnedRule, Learning,
    each_learning,
};
pub use limits::TableLimit;
pub use links::{
    FlowHash, LinkAlgorithm, LinkChoice, MAX_LINKS, MAX_MEMBERS, MemberAlgorithm, MemberChoice,
};
pub use mac::{MacMove, MacTable, Station};
pub use matching::{Contradiction, Match, Term};
pub use meters::{
    BandKind, ExistingMeter, MAX_BANDS, MAX_METERS, MeterCounts, MeterId, MeterPlace, MeterVerdict,
    Meters, RateBand, RateMeter, RateUnit,
};
pub use mirror::{BridgeMirror, MirrorId, MirrorOutput, MirroredPorts, Mirrors};
pub use miss::{Miss, Misses, UnmatchedCounters};
pub use pipeline::{Config, Counters, GroupCounters, OVS_COMPARED, Pipeline, RULES_MAX, Rule};
pub use prepare::{Delta, Plan, Progress};
pub use reference::{Beginning, MAX_PASSES, Pass, Passes, forward};
pub use renumber::PortRenumbering;
pub use resume::RulePast;
pub use state::Lifted;
pub use thalweg_classifier::{BuiltIndex, IndexJob, Tending};
pub use thalweg_classifier::{ClassifierKind, UnknownClassifier};
pub use thalweg_classifier::{Precedence, RuleId, Version};
pub use trace::{Input, Step, StepKind, Trace};
pub use tracking::{TRACKED_FIELDS, Tracking, Zone};
pub use training::TableOwner;
pub use vlan::{PortVlans, PriorityTags, VlanMode, VlanSet};
