//! Makes the running bridges what the database wants.
//!
//! ```text
//!   1. what is not wanted any more goes        (first, so that numbers and devices are free)
//!   2. new bridges, then new interfaces: those that ask for a number before the others
//!   3. patches find their other ends
//!   4. each bridge's address, tables and OpenFlow server
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use thalweg_io::PolicingRates;
use thalweg_packet::PortId;
use thalweg_packet::wire::MacAddress;
use thalweg_pipeline::{Change, Mirrors, Operation, PortVlans};
use thalweg_switch::{PortDevice, PortIdentity, Switch, SwitchPort};

use super::allocate::PortNumbers;
use super::device::{about, is_reserved, random_mac};
use super::serve::tables;
use super::tunnels::TunnelPlace;
use super::wanted::{WantedBridge, WantedInterface};
use super::{Bridge, Bridges, DeviceKind, Interface, LOCAL, datapath_of, vlans, xdp};
use crate::vlog::{LogLevel, modules};

/// What [`Bridges::follow`] did, and what went wrong, to be logged.
#[derive(Debug)]
pub(crate) struct Followed {
    pub(crate) done: Vec<String>,
    pub(crate) complaints: Vec<String>,
}

impl Bridges {
    /// Follows the database.
    pub(crate) fn follow(
        &mut self,
        wanted: &BTreeMap<String, WantedBridge>,
        switch: &mut Switch,
    ) -> Followed {
        let (mut done, mut complaints) = (Vec::new(), Vec::new());
        self.remove_unwanted(wanted, switch, &mut done);
        for bridge in wanted.values() {
            if !self.by_name.contains_key(&bridge.name) {
                complaints.extend(self.add_bridge(bridge).err());
            }
        }
        complaints.extend(self.add_interfaces(wanted, switch, &mut done));
        complaints.extend(self.warnings());
        self.join_patches(switch);
        complaints.extend(self.set_vlans(wanted, switch).err());
        complaints.extend(self.set_mirrors(wanted, switch));
        complaints.extend(self.set_mtus(wanted));
        complaints.extend(self.set_policing(switch));
        for bridge in wanted.values() {
            complaints.extend(self.set_addresses(bridge, switch));
            let before = self
                .by_name
                .get(&bridge.name)
                .map(|known| known.datapath_id);
            self.serve(bridge, switch);
            if let Some(running) = self.by_name.get(&bridge.name) {
                switch.set_openflow_tables(running.id, &tables(&bridge.tables));
                switch.set_station_aging(running.id, bridge.station_aging);
                switch.set_station_capacity(running.id, bridge.stations);
                complaints.extend(running.error.clone());
                if before != Some(running.datapath_id) {
                    let id = running.datapath_id;
                    done.push(format!(
                        "bridge {}: using datapath ID {id:016x}",
                        bridge.name
                    ));
                }
            }
        }
        Followed { done, complaints }
    }

    /// Ends all bridges.
    pub(crate) fn end(&mut self, switch: &mut Switch) {
        self.remove_unwanted(&BTreeMap::new(), switch, &mut Vec::new());
    }

    fn remove_unwanted(
        &mut self,
        wanted: &BTreeMap<String, WantedBridge>,
        switch: &mut Switch,
        done: &mut Vec<String>,
    ) {
        let names: Vec<String> = self.by_name.keys().cloned().collect();
        for name in names {
            let bridge = &self.by_name[&name];
            // No type means the first: OVN writes it out.
            let is_same = |wanted: &&WantedBridge| {
                datapath_of(&wanted.datapath_type) == datapath_of(&bridge.datapath_type)
            };
            let kept = wanted.get(&name).filter(is_same);
            let gone = match kept {
                Some(kept) => bridge.leaving(kept),
                None => bridge.interfaces.keys().cloned().collect(),
            };
            for (interface, number) in self.remove_interfaces(&name, gone, switch) {
                // One that comes again at once knows its neighbours still.
                if !kept.is_some_and(|kept| kept.interfaces.contains_key(&interface)) {
                    self.tunnels.underlay().neighbors.flush_bridge(&interface);
                }
                done.push(format!(
                    "bridge {name}: deleted interface {interface} on port {number}"
                ));
            }
            if kept.is_none() {
                self.remove_bridge(&name, switch);
            }
        }
    }

    fn remove_bridge(&mut self, name: &str, switch: &mut Switch) {
        if let Some(mut bridge) = self.by_name.remove(name) {
            bridge.stop_server(switch);
            self.tunnels.underlay().forget(name);
            switch.remove_bridge(bridge.id);
        }
    }

    /// Removes interfaces of a bridge; returns those that had a number.
    pub(super) fn remove_interfaces(
        &mut self,
        bridge: &str,
        names: Vec<String>,
        switch: &mut Switch,
    ) -> Vec<(String, u16)> {
        let Some(bridge) = self.by_name.get_mut(bridge) else {
            return Vec::new();
        };
        // Their devices live until the switch has let go of them.
        let (mut removed, mut gone) = (Vec::new(), Vec::new());
        let (mut ports, mut patches) = (BTreeSet::new(), BTreeSet::new());
        for name in names {
            let Some(interface) = bridge.interfaces.remove(&name) else {
                continue;
            };
            if let Some(number) = interface.datapath_number {
                self.numbers.give_back(&bridge.datapath_type, number);
            }
            if let Some(number) = interface.number {
                bridge.numbers.give_back(number);
                let kind = match interface.is_patch() {
                    true => &mut patches,
                    false => &mut ports,
                };
                kind.insert(bridge.id.port(number));
                gone.push((name, number));
            }
            removed.push(interface);
        }
        if gone.is_empty() {
            return gone;
        }
        let all: BTreeSet<PortId> = ports.union(&patches).copied().collect();
        switch.forget_stations_elsewhere(&all);
        for patch in patches {
            switch.remove_patch(patch);
        }
        switch.detach_all(&ports);
        all.iter().for_each(|port| switch.forget_port(*port));
        drop(removed);
        gone
    }

    /// Takes a port out of its datapath, as if its device had gone: the next change of the
    /// database brings it back.
    ///
    /// # Errors
    /// If it is a bridge's own.
    pub(crate) fn drop_port(&mut self, name: &str, switch: &mut Switch) -> Result<(), String> {
        let found = self.interface(name);
        let bridge = found.map(|(bridge, interface)| (bridge.to_owned(), interface.number));
        match bridge {
            Some((bridge, number)) if number != Some(LOCAL) => {
                self.remove_interfaces(&bridge, vec![name.to_owned()], switch);
                Ok(())
            }
            Some(_) => Err("a bridge's own port stays as long as the bridge".to_owned()),
            None => Err(format!("no port named {name}")),
        }
    }

    /// Gives a port another number in its datapath.
    ///
    /// # Errors
    /// If there is no such port, or another has the number.
    pub(crate) fn renumber(&mut self, name: &str, number: u32) -> Result<(), String> {
        let mut bridges = self.by_name.values_mut();
        let found = bridges.find_map(|bridge| {
            let kind = bridge.datapath_type.clone();
            let interface = bridge.interfaces.get_mut(name)?;
            Some((kind, interface.datapath_number.as_mut()?))
        });
        let (kind, place) = found.ok_or("unknown port")?;
        if !self.numbers.take_this(&kind, number) {
            return Err("port number already in use".to_owned());
        }
        self.numbers.give_back(&kind, *place);
        *place = number;
        Ok(())
    }

    fn add_bridge(&mut self, wanted: &WantedBridge) -> Result<(), String> {
        let id = self.free_bridge().ok_or("there are too many bridges")?;
        let default_mac = random_mac(&wanted.row);
        let bridge = Bridge {
            id,
            uuid: wanted.row.uuid,
            datapath_type: wanted.datapath_type.clone(),
            datapath_id: 0,
            mac: wanted.hwaddr.unwrap_or(default_mac),
            default_mac,
            forwards_bpdus: false,
            mirrors: Mirrors::default(),
            interfaces: BTreeMap::new(),
            numbers: PortNumbers::default(),
            openflow: wanted.openflow.clone(),
            server: None,
            reached: Vec::new(),
            error: None,
        };
        self.by_name.insert(wanted.name.clone(), bridge);
        Ok(())
    }

    /// Adds interfaces that are not there yet, their ports in one change; returns what went
    /// wrong.
    fn add_interfaces(
        &mut self,
        wanted: &BTreeMap<String, WantedBridge>,
        switch: &mut Switch,
        done: &mut Vec<String>,
    ) -> Vec<String> {
        let (mut arrivals, mut complaints) = (Vec::new(), Vec::new());
        for asks in [true, false] {
            for bridge in wanted.values() {
                let interfaces = bridge.interfaces.values();
                for interface in interfaces.filter(|wanted| wanted.ofport.is_some() == asks) {
                    let (bridge, name) = (&bridge.name, &interface.name);
                    match self.add_interface(bridge, interface, switch, &mut arrivals) {
                        Ok(Some(number)) => done.push(format!(
                            "bridge {bridge}: added interface {name} on port {number}"
                        )),
                        Ok(None) => {}
                        Err(error) => complaints.push(error),
                    }
                }
            }
        }
        // Only a number that is taken would be refused, and a half of them cannot be attached.
        let attached = switch.attach_all(arrivals);
        attached.expect("invariant 1: each new port has a number of its own");
        complaints
    }

    /// Adds an interface that is not there yet, and returns its number; one that is there takes
    /// over the wanted settings. A device is one of the `arrivals`.
    fn add_interface(
        &mut self,
        bridge_name: &str,
        wanted: &WantedInterface,
        switch: &mut Switch,
        arrivals: &mut Vec<SwitchPort>,
    ) -> Result<Option<u16>, String> {
        let Some(bridge) = self.by_name.get_mut(bridge_name) else {
            return Ok(None);
        };
        if let Some(interface) = bridge.interfaces.get_mut(&wanted.name) {
            let before = std::mem::replace(&mut interface.wanted, wanted.clone());
            if interface.number.is_some() {
                let is_same = before.options == wanted.options;
                return match interface.kind {
                    Some(DeviceKind::Tunnel(_)) if !is_same => {
                        self.reconfigure_tunnel(bridge_name, wanted, switch)
                    }
                    _ => Ok(None),
                };
            }
        }
        let mut interface = Interface::without_device(wanted);
        let kind = match is_reserved(&wanted.name) {
            true => Err(reserved(&wanted.name)),
            false => DeviceKind::of(self.dummies, &bridge.datapath_type, &wanted.kind),
        };
        let mut numbers = std::mem::take(&mut bridge.numbers);
        let added = kind.and_then(|kind| {
            interface.kind = Some(kind);
            let number = numbers.take(wanted.ofport);
            let number = number.ok_or("no port number is left")?;
            let opened = self.open_port(bridge_name, (kind, number), &mut interface, switch);
            match &opened {
                Ok(_) => interface.number = Some(number),
                Err(_) => numbers.give_back(number),
            }
            arrivals.extend(opened?);
            Ok(Some(number))
        });
        interface.error = added.as_ref().err().cloned();
        if let Some(bridge) = self.by_name.get_mut(bridge_name) {
            bridge.numbers = numbers;
            bridge.interfaces.insert(wanted.name.clone(), interface);
        }
        added.map_err(|error| match is_reserved(&wanted.name) {
            true => error,
            false => about(&wanted.name, error),
        })
    }

    /// Opens the device of a new port and names it; returns the port to attach, or nothing for a
    /// patch.
    fn open_port(
        &mut self,
        bridge_name: &str,
        (kind, number): (DeviceKind, u16),
        interface: &mut Interface,
        switch: &mut Switch,
    ) -> Result<Option<SwitchPort>, String> {
        let bridge = self.by_name.get(bridge_name);
        let bridge = bridge.ok_or_else(|| format!("no bridge named {bridge_name}"))?;
        let has_dummies = self.dummies.has_datapath(&bridge.datapath_type);
        let port = bridge.port(number);
        let opened = match kind {
            DeviceKind::Patch => None,
            DeviceKind::Tunnel(tunnel_type) => {
                let mut place = TunnelPlace {
                    hub: &self.tunnels,
                    numbers: &mut self.numbers,
                    datapath_type: &bridge.datapath_type,
                    has_dummies,
                    number: port,
                };
                Some(place.open(tunnel_type, interface)?)
            }
            _ => {
                let (device, attached) = self.devices.open(kind, &interface.wanted, port)?;
                let (datapath, name) = (&bridge.datapath_type, &interface.wanted.name);
                let number = self.numbers.take(datapath, has_dummies, name);
                Some((device, attached, number))
            }
        };
        let mac = opened.as_ref().map(|(device, ..)| device.mac);
        switch.set_port_identity(port, identity(&interface.wanted.name, kind, mac));
        let Some((device, attached, number)) = opened else {
            let added = switch.add_patch(port, None);
            added.map_err(|error| error.to_string())?;
            return Ok(None);
        };
        interface.datapath_number = Some(number);
        for remark in &device.remarks {
            let name = &interface.wanted.name;
            let level = LogLevel::Info;
            self.log
                .write(modules::NETDEV_AFXDP, level, || format!("{name}: {remark}"));
        }
        interface.device = Some(device);
        Ok(Some(attached))
    }

    /// Sets ports' VLANs, and whether bridges forward frames for the link only, in one change.
    fn set_vlans(
        &mut self,
        wanted: &BTreeMap<String, WantedBridge>,
        switch: &mut Switch,
    ) -> Result<(), String> {
        let (mut operations, mut changed) = (Vec::new(), BTreeSet::new());
        for (name, bridge) in &mut self.by_name {
            let forwards = wanted.get(name).is_some_and(|wanted| wanted.forwards_bpdus);
            if bridge.forwards_bpdus != forwards {
                bridge.forwards_bpdus = forwards;
                operations.push(Operation::SetForwardsBpdus(bridge.id, forwards));
            }
            let id = bridge.id;
            for interface in bridge.interfaces.values_mut() {
                let Some(number) = interface.number else {
                    continue;
                };
                let vlans = vlans::read(&interface.wanted.port);
                if vlans != interface.vlans {
                    interface.vlans.clone_from(&vlans);
                    changed.insert(id.port(number));
                    operations.push(Operation::SetPortVlans(id.port(number), Arc::new(vlans)));
                }
            }
        }
        if operations.is_empty() {
            return Ok(());
        }
        let applied = switch.apply(&Change { operations });
        applied.map_err(|error| error.to_string())?;
        // Where they were learned in other VLANs they may not be reached any more.
        switch.forget_stations_behind(&changed);
        Ok(())
    }

    /// Sets the mirrors of bridges; returns their faults.
    fn set_mirrors(
        &mut self,
        wanted: &BTreeMap<String, WantedBridge>,
        switch: &mut Switch,
    ) -> Vec<String> {
        let mut complaints = Vec::new();
        for (name, bridge) in &mut self.by_name {
            let wanted = wanted.get(name).map_or(&[][..], |wanted| &wanted.mirrors);
            let (mirrors, faults) = bridge.mirrors(wanted, &mut self.mirror_numbers);
            complaints.extend(faults);
            if mirrors == bridge.mirrors {
                continue;
            }
            let set = Operation::SetMirrors(bridge.id, Arc::new(mirrors.clone()));
            match switch.apply(&Change::one(set)) {
                Ok(_) => bridge.mirrors = mirrors,
                Err(error) => complaints.push(format!("bridge {name}: {error}")),
            }
        }
        let wanted = wanted.values().flat_map(|bridge| &bridge.mirrors);
        switch.retain_mirror_counters(&self.mirror_numbers.retain(wanted));
        complaints
    }

    /// Joins patches whose options name each other, and parts the others.
    fn join_patches(&mut self, switch: &mut Switch) {
        let mut ends: BTreeMap<String, (PortId, Option<String>)> = BTreeMap::new();
        for bridge in self.by_name.values() {
            for (name, interface) in &bridge.interfaces {
                let number = interface.number.filter(|_| interface.is_patch());
                if let Some(number) = number {
                    let peer = interface.wanted.options.get("peer").cloned();
                    ends.insert(name.clone(), (bridge.port(number), peer));
                }
            }
        }
        let peer_of = |name: &str| {
            let (_, peer) = ends.get(name)?;
            let (port, back) = ends.get(peer.as_deref()?)?;
            (back.as_deref() == Some(name)).then_some(*port)
        };
        for (name, (port, _)) in &ends {
            let peer = peer_of(name);
            let Some(interface) = self.interface_mut(name) else {
                continue;
            };
            if interface.peer != peer {
                interface.peer = peer;
                // The port exists, so only its peer changes.
                let joined = switch.add_patch(*port, peer);
                debug_assert!(joined.is_ok(), "{joined:?}");
            }
        }
    }
}

/// Why there is no interface with a reserved name.
fn reserved(name: &str) -> String {
    format!("could not create interface {name}, name is reserved")
}

/// A port's name, address and device, for OpenFlow.
pub(super) fn identity(name: &str, kind: DeviceKind, address: Option<MacAddress>) -> PortIdentity {
    PortIdentity {
        name: name.to_owned(),
        address: address.map(|address| address.0),
        device: match kind {
            DeviceKind::Tunnel(_) => PortDevice::Tunnel,
            kind if kind.is_dummy() => PortDevice::Dummy,
            _ => PortDevice::Interface,
        },
    }
}

impl Bridge {
    /// Interfaces that go, some of them to come again with another number.
    fn leaving(&self, wanted: &WantedBridge) -> Vec<String> {
        let number_of = |name: &str| self.interfaces.get(name).and_then(|known| known.number);
        let asking = wanted
            .interfaces
            .values()
            .filter(|interface| interface.ofport != number_of(&interface.name));
        let claimed: BTreeSet<u16> = asking.filter_map(|interface| interface.ofport).collect();
        // One leaves the number that it did not ask for to another that does.
        let gives_way = |asked, number| asked != Some(number) && claimed.contains(&number);
        let staying = self.interfaces.values().filter_map(|interface| {
            let wanted = wanted.interfaces.get(&interface.wanted.name)?;
            let number = interface.number?;
            let stays = interface.stays_as(wanted) && !gives_way(wanted.ofport, number);
            stays.then_some((&interface.wanted.name, number, wanted.ofport))
        });
        let staying: Vec<_> = staying.collect();
        let taken: BTreeSet<u16> = staying.iter().map(|(_, number, _)| *number).collect();
        let staying = staying.into_iter().filter(|(_, _, asked)| {
            // What it asks for is free now.
            asked.is_none_or(|asked| taken.contains(&asked))
        });
        let staying: BTreeSet<&String> = staying.map(|(name, _, _)| name).collect();
        let names = self.interfaces.keys();
        names
            .filter(|name| !staying.contains(name))
            .cloned()
            .collect()
    }
}

impl Interface {
    pub(super) fn without_device(wanted: &WantedInterface) -> Interface {
        Interface {
            wanted: wanted.clone(),
            kind: None,
            number: None,
            datapath_number: None,
            device: None,
            vlans: PortVlans::default(),
            policing: PolicingRates::default(),
            peer: None,
            error: None,
            warnings: Vec::new(),
        }
    }

    fn is_patch(&self) -> bool {
        self.kind == Some(DeviceKind::Patch)
    }

    /// Whether its device can stay if this is wanted.
    fn stays_as(&self, wanted: &WantedInterface) -> bool {
        let captures = |wanted: &WantedInterface| {
            ["pcap", "rxq_pcap", "tx_pcap", "pstream", "stream"]
                .map(|name| wanted.options.get(name).cloned())
        };
        self.number.is_some()
            && self.wanted.kind == wanted.kind
            && captures(&self.wanted) == captures(wanted)
            && (!matches!(self.kind, Some(DeviceKind::Xdp(_))) || xdp::stays_as(self, wanted))
    }
}
