//! The Ethernet addresses of internal devices.
//!
//! 1. A bridge's own device has the bridge's address: the one that is asked for, or the lowest of
//!    its interfaces, or one made up.
//! 2. Another internal device has the address that its row asks for, or keeps the one it has.

use thalweg_packet::wire::MacAddress;
use thalweg_switch::Switch;

use super::follow::identity;
use super::{Bridges, DeviceKind, Interface, LOCAL, WantedBridge};

impl Bridges {
    /// Sets addresses as wanted; returns what went wrong.
    pub(super) fn set_addresses(
        &mut self,
        wanted: &WantedBridge,
        switch: &mut Switch,
    ) -> Vec<String> {
        let mut complaints = Vec::new();
        let Some(bridge) = self.by_name.get_mut(&wanted.name) else {
            return complaints;
        };
        let others = bridge.interfaces.values().filter(|interface| {
            interface.number != Some(LOCAL)
                && interface.wanted.kind != "internal"
                && !matches!(interface.kind, Some(DeviceKind::Tunnel(_)))
        });
        let lowest = others
            .filter_map(|interface| interface.device.as_ref())
            .map(|device| device.mac)
            .filter(|mac| is_unicast(*mac))
            .min_by_key(|mac| mac.0);
        let asked = wanted.hwaddr.filter(|mac| is_unicast(*mac));
        bridge.mac = asked.or(lowest).unwrap_or(bridge.default_mac);
        let id = bridge.id;
        for (name, interface) in &mut bridge.interfaces {
            let Some(number) = interface.number else {
                continue;
            };
            let asked = match (number, interface.kind) {
                (LOCAL, _) => Some(bridge.mac),
                (_, Some(DeviceKind::Tap)) => interface.wanted.mac,
                _ => None,
            };
            match asked.map_or(Ok(false), |mac| interface.set_address(mac)) {
                Ok(true) => {}
                Ok(false) => continue,
                Err(error) => {
                    complaints.push(error);
                    continue;
                }
            }
            if let (Some(kind), Some(device)) = (interface.kind, &interface.device) {
                if number == LOCAL {
                    self.tunnels.underlay().set_mac(name, device.mac);
                }
                let identity = identity(name, kind, Some(device.mac));
                switch.set_port_identity(id.port(number), identity);
            }
        }
        complaints
    }
}

impl Interface {
    /// Gives its device an address; returns whether it had another.
    fn set_address(&mut self, mac: MacAddress) -> Result<bool, String> {
        let name = &self.wanted.name;
        let device = self.device.as_mut().filter(|device| device.mac != mac);
        let Some(device) = device else {
            return Ok(false);
        };
        if is_group(mac) {
            return Err(format!(
                "interface {name}: cannot set MAC to multicast address"
            ));
        }
        if self.kind == Some(DeviceKind::Tap) {
            thalweg_io::set_address(name, mac.0).map_err(|error| error.to_string())?;
        }
        device.mac = mac;
        Ok(true)
    }
}

/// Whether an address is one of many stations.
fn is_group(mac: MacAddress) -> bool {
    mac.0[0] & 1 != 0
}

/// Whether an address can be one of a device.
fn is_unicast(mac: MacAddress) -> bool {
    !is_group(mac) && mac.0 != [0; 6]
}
