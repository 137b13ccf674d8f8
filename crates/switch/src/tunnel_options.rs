//! Tells which options of tunnels have a field (`ovs-ofctl add-tlv-map`) to the owner of the
//! tunnels' ports, which translates options to values of packets and back.

use thalweg_openflow::message::nicira::TlvMap;
use thalweg_pipeline::BridgeId;

use crate::switch::Switch;

/// Learns all options of a bridge that have a field, whenever they change.
pub type OptionsFollower = Box<dyn FnMut(BridgeId, &[TlvMap]) + Send>;

impl Switch {
    /// Sets what learns of options; the reply to a change is sent when it returns.
    pub fn follow_tunnel_options(&mut self, follower: OptionsFollower) {
        self.options_follower = Some(follower);
    }

    /// Passes the options of a bridge on.
    pub(crate) fn map_options(&mut self, bridge: BridgeId, options: &[TlvMap]) {
        self.tunnel_options.insert(bridge, options.to_vec());
        if let Some(follower) = &mut self.options_follower {
            follower(bridge, options);
        }
    }
}
