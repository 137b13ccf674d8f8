//! Interfaces that are tunnels.
//!
//! A tunnel's device stays while its options change: only a refused configuration ends it, as in
//! Open vSwitch. In a datapath of dummies tunnels are native, and go through the bridges; elsewhere
//! they go through sockets of the machine.

use thalweg_io::{TunnelDeviceSettings, TunnelHub, TunnelOpenError, TunnelWay};
use thalweg_packet::PortId;
use thalweg_pipeline::BridgeId;
use thalweg_switch::{OptionsFollower, Switch, SwitchPort};
use thalweg_tunnel::{
    OptionMap, OptionMapping, TunnelInsertError, TunnelListener, TunnelOptionProblem, TunnelPort,
    TunnelType,
};

use super::allocate::DatapathNumbers;
use super::device::{Device, DeviceKind, about, tunnel_device};
use super::wanted::WantedInterface;
use super::{Bridges, Interface};

/// A tunnel that may be opened, and warnings about it.
#[derive(Debug)]
struct WantedTunnel {
    port: TunnelPort,
    warnings: Vec<String>,
}

/// Why a tunnel is not opened: what the `error` column says, and what else the log says.
#[derive(Debug)]
struct TunnelRefusal {
    error: String,
    warnings: Vec<String>,
}

/// Reads the options of an interface.
///
/// # Errors
/// If they make no tunnel.
fn read_tunnel(
    tunnel_type: TunnelType,
    wanted: &WantedInterface,
) -> Result<WantedTunnel, TunnelRefusal> {
    let name = &wanted.name;
    let options = wanted.options.iter();
    let options = options.map(|(key, value)| (key.as_str(), value.as_str()));
    match TunnelPort::parse(name, tunnel_type, options) {
        Ok(parsed) => {
            let warnings = parsed.warnings.iter();
            let warning = |problem: &TunnelOptionProblem| format!("{name}: {problem}");
            Ok(WantedTunnel {
                port: parsed.port,
                warnings: warnings.map(warning).collect(),
            })
        }
        Err(error) => Err(TunnelRefusal {
            error: error.to_string(),
            warnings: vec![format!(
                "{name}: could not set configuration (Invalid argument)"
            )],
        }),
    }
}

impl TunnelRefusal {
    /// Why the hub refuses a tunnel, as Open vSwitch says it.
    fn of(name: &str, error: &TunnelOpenError) -> TunnelRefusal {
        match error {
            TunnelOpenError::Insert(TunnelInsertError::SameConfig { .. }) => TunnelRefusal {
                error: format!("could not add network device {name} to ofproto (File exists)"),
                warnings: vec![error.to_string()],
            },
            TunnelOpenError::Insert(_) => TunnelRefusal {
                error: error.to_string(),
                warnings: vec![format!("{name}: could not set configuration (File exists)")],
            },
            _ => TunnelRefusal {
                error: format!("could not open network device {name} ({error})"),
                warnings: Vec::new(),
            },
        }
    }
}

/// Tells a hub which options of Geneve have a field, in the tunnels of a bridge.
pub(crate) fn follow_options(hub: &TunnelHub) -> OptionsFollower {
    let hub = hub.clone();
    Box::new(move |bridge, options| {
        let mut map = OptionMap::default();
        for option in options {
            let mapping = OptionMapping {
                class: option.class,
                kind: option.kind,
                len_bytes: option.length,
                index: option.index,
            };
            // The session has refused what the map would refuse.
            let added = map.add(&[mapping]);
            debug_assert!(added.is_ok(), "{added:?}");
        }
        hub.set_option_map(u32::from(bridge.0), map);
    })
}

/// Where a tunnel is, in its bridge and its datapath.
#[derive(Debug)]
pub(super) struct TunnelPlace<'a> {
    pub(super) hub: &'a TunnelHub,
    pub(super) numbers: &'a mut DatapathNumbers,
    pub(super) datapath_type: &'a str,
    /// Whether the datapath is one of dummies.
    pub(super) has_dummies: bool,
    pub(super) number: PortId,
}

impl TunnelPlace<'_> {
    /// Opens the tunnel that an interface wants; returns its number in the datapath beside it.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub(super) fn open(
        &mut self,
        tunnel_type: TunnelType,
        interface: &mut Interface,
    ) -> Result<(Device, SwitchPort, u32), String> {
        let wanted = &interface.wanted;
        let opened = read_tunnel(tunnel_type, wanted).and_then(|tunnel| {
            let opened = self.settle(&wanted.name, &tunnel.port, TunnelHub::open)?;
            Ok((tunnel, opened))
        });
        let (tunnel, (device, in_datapath)) =
            opened.map_err(|refusal| interface.take_refusal(refusal))?;
        interface.warnings = tunnel.warnings;
        let (device, attached) =
            tunnel_device(&interface.wanted, tunnel.port, (self.number, device));
        Ok((device, attached, in_datapath))
    }

    /// Has the hub open or reconfigure a tunnel, with `call`; returns its number in the datapath,
    /// which tunnels share that listen for the same.
    ///
    /// # Errors
    /// If the hub refuses; then the number is given back.
    fn settle<T>(
        &mut self,
        name: &str,
        port: &TunnelPort,
        call: impl FnOnce(&TunnelHub, TunnelDeviceSettings) -> Result<T, TunnelOpenError>,
    ) -> Result<(T, u32), TunnelRefusal> {
        let listener = TunnelListener::of(port).to_string();
        let number = self
            .numbers
            .take_shared(self.datapath_type, self.has_dummies, &listener);
        let settings = TunnelDeviceSettings {
            number: self.number,
            name: name.to_owned(),
            port: port.clone(),
            datapath_port: number,
            bridge: u32::from(BridgeId::of_port(self.number).0),
            way: match self.has_dummies {
                true => TunnelWay::Native,
                false => TunnelWay::Sockets,
            },
        };
        match call(self.hub, settings) {
            Ok(done) => Ok((done, number)),
            Err(error) => {
                self.numbers.give_back(self.datapath_type, number);
                Err(TunnelRefusal::of(name, &error))
            }
        }
    }
}

impl Bridges {
    /// Gives a tunnel that runs other options. One that cannot have them ends.
    pub(super) fn reconfigure_tunnel(
        &mut self,
        bridge_name: &str,
        wanted: &WantedInterface,
        switch: &mut Switch,
    ) -> Result<Option<u16>, String> {
        let refused = self.try_to_reconfigure(bridge_name, wanted).err();
        let Some(refusal) = refused else {
            return Ok(None);
        };
        let gone = self.remove_interfaces(bridge_name, vec![wanted.name.clone()], switch);
        debug_assert!(!gone.is_empty(), "only one that runs is reconfigured");
        let mut interface = Interface::without_device(wanted);
        interface.kind = TunnelType::from_name(&wanted.kind).map(DeviceKind::Tunnel);
        let error = interface.take_refusal(refusal);
        interface.error = Some(error.clone());
        if let Some(bridge) = self.by_name.get_mut(bridge_name) {
            bridge.interfaces.insert(wanted.name.clone(), interface);
        }
        Err(about(&wanted.name, error))
    }

    /// The same, as far as it may be refused.
    fn try_to_reconfigure(
        &mut self,
        bridge_name: &str,
        wanted: &WantedInterface,
    ) -> Result<(), TunnelRefusal> {
        let dummies = self.dummies;
        let Some(bridge) = self.by_name.get_mut(bridge_name) else {
            return Ok(());
        };
        let id = bridge.id;
        let Some(interface) = bridge.interfaces.get_mut(&wanted.name) else {
            return Ok(());
        };
        let (Some(DeviceKind::Tunnel(tunnel_type)), Some(number)) =
            (interface.kind, interface.number)
        else {
            return Ok(());
        };
        let tunnel = read_tunnel(tunnel_type, wanted)?;
        let mut place = TunnelPlace {
            hub: &self.tunnels,
            numbers: &mut self.numbers,
            datapath_type: &bridge.datapath_type,
            has_dummies: dummies.has_datapath(&bridge.datapath_type),
            number: id.port(number),
        };
        let settled = place.settle(&wanted.name, &tunnel.port, TunnelHub::reconfigure);
        let ((), in_datapath) = settled?;
        let before = interface.datapath_number.replace(in_datapath);
        if let Some(before) = before {
            self.numbers.give_back(&bridge.datapath_type, before);
        }
        interface.warnings = tunnel.warnings;
        if let Some(device) = &mut interface.device {
            device.tunnel = Some(tunnel.port);
        }
        Ok(())
    }

    /// The warnings about all interfaces.
    pub(super) fn warnings(&self) -> Vec<String> {
        let bridges = self.by_name.values();
        let interfaces = bridges.flat_map(|bridge| bridge.interfaces.values());
        let warnings = interfaces.flat_map(|interface| &interface.warnings);
        warnings.cloned().collect()
    }
}

impl Interface {
    /// Keeps what the log says of a refused tunnel; returns the error.
    fn take_refusal(&mut self, refusal: TunnelRefusal) -> String {
        self.warnings = refusal.warnings;
        refusal.error
    }
}
