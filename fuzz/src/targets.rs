//! The targets, one file each.

pub mod capture;
pub mod changes;
pub mod classbench;
pub mod config;
pub mod conntrack;
pub mod forward;
pub mod frame;
pub mod openflow;
pub mod openflow_session;
pub mod ovsdb;
pub mod p4;
pub mod p4runtime;
pub mod plan;
pub mod rewrite;
pub mod rules;
pub mod tunnel;
pub mod unixctl;
pub mod v2p_map;
pub mod v2p_wire;
pub mod wire;
