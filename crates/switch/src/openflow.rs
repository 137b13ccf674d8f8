//! OpenFlow's view of a switch: what connections ask for, as changes of the pipeline.
//!
//! ```text
//!   server's thread                          the switch's owner, in Switch::poll
//!     OpenFlowPlane: Target  -- calls -->      Desk: changes, counts, packets
//!          |                 <-- events --       |
//!          +--- reads the pipeline in slices     +--> workers, as for every change
//! ```
//!
//! The plane is the `Target` of `thalweg_control::openflow`. It hands what changes the switch
//! to the owner, who does it between two polls, and reads flow entries by itself.
//!
//! 1. A change that a call returns from is followed by every worker ([`Switch::apply`]).
//! 2. A cursor shows the entries and their counts at the version of its call. Until it is
//!    dropped or [`PATIENCE`](cursor::PATIENCE) is over, the pipeline keeps that version.
//! 3. Events that are not collected are bounded; those beyond are counted and dropped.

mod changes;
mod convert;
mod cursor;
mod desk;
mod groups;
mod packets;
mod pausing;
mod plane;
mod statistics;
mod tables;

use std::collections::BTreeMap;

use thalweg_openflow::message::switch::Description;
use thalweg_packet::PortId;

pub(crate) use desk::Desk;
pub use desk::OpenFlowCounters;
pub use plane::OpenFlowPlane;
pub use tables::OpenFlowTable;

use crate::Switch;

/// What the switch tells of itself.
#[derive(Clone, Debug)]
pub struct OpenFlowIdentity {
    /// The datapath's number.
    pub datapath_id: u64,
    /// Texts that describe it.
    pub description: Description,
    /// The ports' names; others are called `port` and their number.
    pub port_names: BTreeMap<PortId, String>,
}

impl OpenFlowIdentity {
    /// The identity of a switch with this number and name.
    pub fn new(datapath_id: u64, name: &str) -> OpenFlowIdentity {
        OpenFlowIdentity {
            datapath_id,
            description: Description {
                manufacturer: "Thalweg".to_owned(),
                hardware: "Thalweg".to_owned(),
                software: env!("CARGO_PKG_VERSION").to_owned(),
                serial: "None".to_owned(),
                datapath: name.to_owned(),
            },
            port_names: BTreeMap::new(),
        }
    }
}

impl Switch {
    /// Lets OpenFlow drive the switch: returns what connections talk to. Its calls are
    /// answered in [`Switch::poll`].
    ///
    /// From then on, packets for controllers and reports of ended rules go there. A second
    /// call ends the first plane.
    pub fn open_flow(&mut self, identity: OpenFlowIdentity) -> OpenFlowPlane {
        let (desk, plane) = plane::connect(self, identity);
        self.desk = Some(desk);
        plane
    }

    /// Ends the plane: its calls fail from then on.
    pub fn close_openflow(&mut self) {
        self.desk = None;
    }
}
