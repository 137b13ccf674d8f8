//! A daemon in ovs-vswitchd's place.
//!
//! [`run`] is the program. Around the switch:
//! - [`options`] is the command line, and the directories that the environment names.
//! - [`process`] is the daemon's process: into the background, pidfile, signals, ready, end.
//! - [`log`] writes the log to its file, the console and the system's log.
//!
//! Commands of `ovs-appctl` come by a socket of `thalweg_unixctl`.
//!
//! Without a socket, file, clock or thread, so that input and time are arguments:
//! - [`datapath_text`] reads and writes datapath flows, and composes the frames that have their
//!   keys.
//! - [`trace`] answers `ofproto/trace`: what the switch does with a packet, step by step.
//! - [`views`] shows rules, stations, connections and the entries of caches.
//! - [`vlog`] is the log: its levels, its lines, and the commands that change them.
//!
//! Their texts are those of Open vSwitch 3.1, as its tests compare them.
//!
//! ```
//! use thalweg_unixctl::{ControlCommands, ControlRequest};
//! use thalweg_vswitchd::vlog::{LogIdentity, LogSettings, VLOG_COMMANDS};
//!
//! let mut commands = ControlCommands::new("ovs-vswitchd (Thalweg) 0.1.0");
//! commands.add(&VLOG_COMMANDS);
//! let mut log = LogSettings::new(LogIdentity::default(), ["vconn"]);
//! let request = ControlRequest {
//!     command: "vlog/set".to_owned(),
//!     arguments: vec!["vconn:dbg".to_owned()],
//! };
//! assert_eq!(log.handle(&request), Some(Ok(String::new())));
//! assert!(log.list().contains("vconn              DBG        DBG        DBG\n"));
//! ```

mod bridges;
mod daemon;
pub mod dashboard;
mod database;
pub mod datapath_text;
pub mod log;
pub mod options;
pub mod process;
pub mod trace;
pub mod views;
pub mod vlog;

pub use daemon::run;
