//! The MTUs of devices.
//!
//! 1. A device whose MTU nothing asks for keeps the one it has.
//! 2. A bridge's internal devices that do not ask have the least MTU of its other devices, as
//!    in Open vSwitch (`update_mtu_ofproto`).

use std::collections::BTreeMap;

use super::device::DUMMY_MTU;
use super::{Bridge, Bridges, DeviceKind, Interface, WantedBridge};

impl Bridges {
    /// Sets MTUs as wanted; returns what went wrong.
    pub(super) fn set_mtus(&mut self, wanted: &BTreeMap<String, WantedBridge>) -> Vec<String> {
        let mut complaints = Vec::new();
        for (name, bridge) in &mut self.by_name {
            if wanted.contains_key(name) {
                bridge.set_mtus(&mut complaints);
            }
        }
        complaints
    }
}

impl Bridge {
    fn set_mtus(&mut self, complaints: &mut Vec<String>) {
        // Requested MTUs first, so that the least is known.
        for interface in self.interfaces.values_mut() {
            if let Some(mtu) = interface.wanted.mtu {
                complaints.extend(interface.set_mtu(mtu).err());
            }
        }
        let others = self
            .interfaces
            .values()
            .filter(|other| !other.is_internal());
        let known = others.filter_map(|other| other.device.as_ref());
        let least = known.map(|device| device.mtu).filter(|mtu| *mtu > 0).min();
        for interface in self.interfaces.values_mut() {
            if interface.is_internal() && interface.wanted.mtu.is_none() {
                let mtu = least.unwrap_or(DUMMY_MTU);
                complaints.extend(interface.set_mtu(mtu).err());
            }
        }
    }
}

impl Interface {
    fn is_internal(&self) -> bool {
        matches!(self.kind, Some(DeviceKind::DummyInternal | DeviceKind::Tap))
    }

    fn set_mtu(&mut self, mtu: u32) -> Result<(), String> {
        let name = &self.wanted.name;
        let device = self.device.as_mut();
        // A tunnel has no MTU.
        let device = device.filter(|device| device.mtu != mtu && device.tunnel.is_none());
        let Some(device) = device else {
            return Ok(());
        };
        if device.dummy.is_none() {
            thalweg_io::set_mtu(name, mtu).map_err(|error| error.to_string())?;
        }
        device.mtu = mtu;
        Ok(())
    }
}
