//! A running switch: ports, workers, control side and datapath.
//!
//! [`Engine`] is a whole switch on one thread and without a clock: a pipeline, one datapath,
//! learning, and timeouts, driven by the caller's time. Replays, demonstrations, benchmarks
//! and most tests use it.
//!
//! [`Switch`] is the running one, with real ports, a thread for each worker, and a clock. Once
//! it has acknowledged a change, every packet follows it.

mod aging;
mod audit;
mod by_hand;
mod clock;
mod connections;
mod control;
mod doorbell;
mod engine;
mod exchange;
mod idle;
mod learning;
mod long_work;
mod megaflow_slice;
mod megaflows;
mod message;
mod openflow;
mod orphans;
mod p4;
mod patches;
mod plugging;
mod port_settings;
mod ports;
mod recent;
mod removal;
mod replace;
mod rule_duty;
mod shares;
mod snapshot;
mod stations;
mod steps;
mod switch;
mod sync;
mod timeouts;
mod totals;
mod training;
mod tunnel_options;
mod upcalls;
mod upkeep;
mod v2p;
mod worker;
mod worker_counters;

pub use audit::Audit;
pub use clock::Clock;
pub use connections::TrackingConfig;
pub use control::EXPIRED_AT_ONCE;
pub use engine::{Config, Engine, EngineError, Step, Update};
pub use learning::LearningCounters;
pub use long_work::{LongWork, LongWorkStatistics};
pub use megaflow_slice::{EntryPlace, MegaflowSlice, SlicedEntry};
pub use megaflows::{MegaflowReport, Megaflows, megaflow_identifier};
pub use message::PacketIn;
pub use openflow::{
    OpenFlowCounters, OpenFlowIdentity, OpenFlowPlane, OpenFlowTable, openflow_text,
};
pub use p4::{
    P4Burst, P4Clock, P4Config, P4Forwarder, P4Plane, P4PlaneConfig, P4Switch, P4Totals, P4Waker,
};
pub use port_settings::{PortDevice, PortIdentity};
pub use ports::SwitchPort;
pub use removal::{Removal, RemovalReason};
pub use replace::replacement;
pub use snapshot::{
    Capture, Restored, SNAPSHOT_FORMAT, SavedSwitch, SnapshotContents, SnapshotKeeper,
    SnapshotSettings, SwitchNames,
};
pub use stations::{KnownStation, StationCounters, StationTotals};
pub use switch::{Interrupter, Switch, SwitchConfig, SwitchError};
pub use thalweg_datapath::{HandFlow, HandFlows, UpcallEntry, UpcallReport, WatchedUpcalls};
pub use thalweg_snapshot::{SnapshotError, SnapshotFile};
pub use totals::{ChangeCounters, PlugCounters, PortTotals, Totals};
pub use training::TrainingCounters;
pub use tunnel_options::OptionsFollower;
pub use v2p::{Machine, V2pConfig, V2pCounters, V2pError, V2pMap, V2pRole, mac_of};
pub use worker_counters::WorkerCounters;
