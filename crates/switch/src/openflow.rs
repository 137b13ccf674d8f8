//! OpenFlow's view of a switch: what connections ask for, as changes of the pipeline.
//!
//! Each bridge has a plane of its own, which sees and changes nothing of the others; without
//! bridges there is one, of bridge 0.
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
mod desks;
mod groups;
mod hidden;
mod meters;
mod numbering;
mod packets;
mod pausing;
mod plane;
mod statistics;
mod tables;
mod texts;

use thalweg_openflow::message::switch::Description;
use thalweg_pipeline::{BridgeId, Change, Miss, Misses, Operation};

pub use desk::OpenFlowCounters;
pub(crate) use desks::Desks;
pub use plane::OpenFlowPlane;
pub use tables::OpenFlowTable;
pub use texts::openflow_text;

use crate::Switch;

/// What a bridge tells of itself.
#[derive(Clone, Debug)]
pub struct OpenFlowIdentity {
    /// The datapath's number.
    pub datapath_id: u64,
    /// Texts that describe it.
    pub description: Description,
}

impl OpenFlowIdentity {
    /// The identity of a bridge with this number and name.
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
        }
    }
}

impl Switch {
    /// Lets OpenFlow drive a bridge: returns what connections talk to. Its calls are answered
    /// in [`Switch::poll`]. A switch without bridges is bridge 0.
    ///
    /// From then on, packets for controllers and reports of ended rules go to the planes of
    /// their bridges. A second call for a bridge ends its first plane; meters, and the state of
    /// tables and groups, stay.
    pub fn open_flow(&mut self, bridge: BridgeId, identity: OpenFlowIdentity) -> OpenFlowPlane {
        let (desk, plane) = plane::connect(self, bridge, identity);
        let numbers = desk.numbers;
        self.desks.insert(desk);
        // Ports that are there already are no news.
        let ports = statistics::port_descriptions(self, numbers);
        if let Some(desk) = self.desks.get_mut(bridge) {
            desk.note_ports(ports, usize::MAX);
        }
        plane
    }

    /// Ends the plane of a bridge: its calls fail from then on. Rules and groups stay; packets
    /// without a rule are no longer sent to controllers, unless a message said so of a table.
    pub fn close_openflow(&mut self, bridge: BridgeId) {
        let Some(misses) = self.desks.remove(bridge) else {
            return;
        };
        if misses.others != Miss::Drop {
            let misses = Misses {
                others: Miss::Drop,
                ..misses
            };
            self.apply(&Change::one(Operation::SetMisses(bridge, misses.into())))
                .expect("tables can do each");
        }
    }
}
