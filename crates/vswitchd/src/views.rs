//! What commands show of a running switch, in the daemon and in `thalweg run`.
//!
//! A view gets the switch, and by [`TraceNames`](crate::trace::TraceNames) the names of its
//! bridges and ports. Its text is Open vSwitch's where Open vSwitch has the command.
//!
//! 1. A view changes nothing but what it needs to be exact: counts are settled, and caches are
//!    repaired, before they are shown.

mod connections;
mod counts;
mod drops;
mod entries;
mod flows;
mod live;
mod picture;
mod rules;
mod scan;
mod selection;
mod stations;
mod talkers;

pub use connections::dump_connections;
pub use counts::{learning_text, repairs_text, tracking_text};
pub use drops::drops_text;
pub use entries::explained_entries;
pub use flows::{FlowStyle, ShownFlow, shown_flows};
pub(crate) use flows::{SenderNumbers, actions_of, datapath_port, finish, identifier_text};
pub use live::live_text;
pub use picture::picture_text;
pub use rules::rules_text;
pub use scan::EntryScan;
pub use selection::{DatapathName, FlowSelection, dump_flows};
pub(crate) use selection::{datapath_line, dump_text, is_named};
pub(crate) use stations::port_text;
pub use stations::{station_counters_text, stations_text};
pub use talkers::talkers_text;
