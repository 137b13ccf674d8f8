//! Devices behind interfaces: which kind an interface's type means, and how it is opened.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use thalweg_io::{
    CaptureWriter, DummyEnd, DummyHandle, DummyPort, Port, PortConfig, PortKind, TracePort,
    TunnelDevice, TunnelHub, UnderlayPort, XdpMode, XdpSettings, open_with_remarks, set_mtu,
};
use thalweg_ovsdb::Row;
use thalweg_packet::PortId;
use thalweg_packet::wire::MacAddress;
use thalweg_switch::SwitchPort;
use thalweg_tunnel::{TunnelPort, TunnelType};

use super::wanted::{LOCAL, WantedInterface};
use super::xdp;

/// Of an interface's flags: an administrator set it up (netdevice(7)).
const IFF_UP: u32 = 1;
/// The MTU of a dummy.
pub(super) const DUMMY_MTU: u32 = 1_500;

/// Which types of devices and datapaths mean dummies (`--enable-dummy`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) enum Dummies {
    /// None: there is no such type.
    #[default]
    Off,
    /// Those whose type says so.
    Named,
    /// Also those of type `system`.
    System,
    /// All but patches.
    All,
}

impl Dummies {
    /// Whether a datapath of this type has dummies for its own ports.
    pub(crate) fn has_datapath(self, datapath_type: &str) -> bool {
        match datapath_type {
            "dummy" => self >= Dummies::Named,
            "system" => self >= Dummies::System,
            _ => self == Dummies::All,
        }
    }
}

/// What an interface's type means here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DeviceKind {
    Dummy,
    /// A dummy that has options for its queues; their packets are one queue's here.
    DummyPmd,
    /// A dummy as an interface of the switch's own.
    DummyInternal,
    /// An interface of the machine.
    Socket,
    /// An interface of the machine by AF_XDP, and the name of its type.
    Xdp(&'static str),
    /// An interface that the switch makes.
    Tap,
    Patch,
    Tunnel(TunnelType),
}

impl DeviceKind {
    /// The kind of a type, in a datapath of a type.
    ///
    /// # Errors
    /// If there is none, or not yet.
    pub(crate) fn of(
        dummies: Dummies,
        datapath_type: &str,
        kind: &str,
    ) -> Result<DeviceKind, String> {
        let is_dummy_datapath = dummies.has_datapath(datapath_type);
        match kind {
            "patch" => Ok(DeviceKind::Patch),
            "internal" if is_dummy_datapath => Ok(DeviceKind::DummyInternal),
            "dummy" if dummies >= Dummies::Named => Ok(DeviceKind::Dummy),
            "dummy-pmd" if dummies >= Dummies::Named => Ok(DeviceKind::DummyPmd),
            "dummy-internal" if dummies >= Dummies::Named => Ok(DeviceKind::DummyInternal),
            "system" if dummies >= Dummies::System => Ok(DeviceKind::Dummy),
            "system" => Ok(DeviceKind::Socket),
            "afxdp" | "afxdp-nonpmd" if dummies == Dummies::All => Ok(DeviceKind::Dummy),
            "afxdp" => Ok(DeviceKind::Xdp("afxdp")),
            "afxdp-nonpmd" => Ok(DeviceKind::Xdp("afxdp-nonpmd")),
            "tap" if dummies == Dummies::All => Ok(DeviceKind::Dummy),
            "internal" | "tap" => Ok(DeviceKind::Tap),
            "bareudp" | "lisp" | "stt" | "srv6" => {
                Err(format!("tunnels ({kind}) are not supported yet"))
            }
            other => match TunnelType::from_name(other) {
                Some(tunnel_type) => Ok(DeviceKind::Tunnel(tunnel_type)),
                None => Err(format!("could not create netdev of unknown type {other}")),
            },
        }
    }

    /// The type as `dpif/show` says it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            DeviceKind::Dummy => "dummy",
            DeviceKind::DummyPmd => "dummy-pmd",
            DeviceKind::DummyInternal => "dummy-internal",
            DeviceKind::Socket => "system",
            DeviceKind::Xdp(name) => name,
            DeviceKind::Tap => "tap",
            DeviceKind::Patch => "patch",
            DeviceKind::Tunnel(tunnel_type) => tunnel_type.name(),
        }
    }

    /// Whether it is driven by hand.
    pub(crate) fn is_dummy(self) -> bool {
        matches!(
            self,
            DeviceKind::Dummy | DeviceKind::DummyPmd | DeviceKind::DummyInternal
        )
    }
}

/// A device that is open.
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) mac: MacAddress,
    pub(crate) mtu: u32,
    /// Whether a dummy was set up; the switch knows of others.
    pub(crate) is_up: bool,
    /// What feeds it, if it is a dummy.
    pub(crate) dummy: Option<DummyHandle>,
    /// Its configuration, if it is a tunnel.
    pub(crate) tunnel: Option<TunnelPort>,
    /// The mode in use, by AF_XDP.
    pub(crate) xdp_mode: Option<XdpMode>,
    /// What the log should tell of how it was opened.
    pub(super) remarks: Vec<String>,
}

impl Device {
    /// The number of the interface in the machine; a dummy has none.
    pub(crate) fn interface_index(&self, name: &str) -> Option<i64> {
        match (&self.dummy, &self.tunnel) {
            (Some(_), _) => Some(0),
            (None, Some(_)) => None,
            (None, None) => interface_fact(name, "ifindex"),
        }
    }

    /// Whether an administrator set it up; `None` if that cannot be read.
    pub(crate) fn is_set_up(&self, name: &str) -> Option<bool> {
        if self.dummy.is_some() || self.tunnel.is_some() {
            return Some(self.is_up);
        }
        let flags: String = interface_fact(name, "flags")?;
        let flags = u32::from_str_radix(flags.trim_start_matches("0x"), 16).ok()?;
        Some(flags & IFF_UP != 0)
    }
}

/// Opens devices.
#[derive(Debug)]
pub(crate) struct Devices {
    /// Files of captures are below it unless their path is absolute.
    pub(crate) folder: PathBuf,
    /// The last four bytes of the next dummy's address.
    next_dummy: u32,
    /// What carries native tunnels.
    pub(super) hub: TunnelHub,
}

impl Devices {
    pub(crate) fn new(folder: PathBuf, hub: TunnelHub) -> Devices {
        Devices {
            hub,
            folder,
            next_dummy: 0xaa55_0000,
        }
    }

    /// Opens a device that can be attached to a switch.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub(crate) fn open(
        &mut self,
        kind: DeviceKind,
        wanted: &WantedInterface,
        number: PortId,
    ) -> Result<(Device, SwitchPort), String> {
        let could_not = |error: String| {
            let name = &wanted.name;
            format!("could not open network device {name} ({error})")
        };
        if kind.is_dummy() {
            return self.open_dummy(wanted, number).map_err(could_not);
        }
        let xdp = match kind {
            DeviceKind::Xdp(_) => xdp::settings(&wanted.options)?,
            _ => XdpSettings::default(),
        };
        if let (DeviceKind::Xdp(_), Some(mtu)) = (kind, wanted.mtu) {
            // It says how long frames are, which cannot change later.
            set_mtu(&wanted.name, mtu).map_err(|error| could_not(error.to_string()))?;
        }
        let config = PortConfig {
            kind: match kind {
                DeviceKind::Tap => PortKind::Tap,
                DeviceKind::Xdp(_) => PortKind::AfXdp,
                _ => PortKind::AfPacket,
            },
            mtu_bytes: wanted.mtu,
            xdp,
            ..PortConfig::new(number, &wanted.name)
        };
        let opened = open_with_remarks(&config).map_err(|error| could_not(error.to_string()))?;
        let device = Device {
            mac: interface_fact(&wanted.name, "address").unwrap_or(MacAddress::ZERO),
            mtu: interface_fact(&wanted.name, "mtu").unwrap_or(0),
            is_up: true,
            dummy: None,
            tunnel: None,
            xdp_mode: opened.xdp_mode,
            remarks: opened.remarks,
        };
        Ok((device, SwitchPort::new(number, opened.port)))
    }

    fn open_dummy(
        &mut self,
        wanted: &WantedInterface,
        number: PortId,
    ) -> Result<(Device, SwitchPort), String> {
        let end = self.end(&wanted.options)?;
        let opened = DummyPort::open_joined(number, end);
        let (port, handle) = opened.map_err(|error| error.to_string())?;
        let last = self.next_dummy.to_be_bytes();
        self.next_dummy += 1;
        let counted = MacAddress([0xaa, 0x55, last[0], last[1], last[2], last[3]]);
        let device = Device {
            mac: wanted.mac.unwrap_or(counted),
            mtu: wanted.mtu.unwrap_or(DUMMY_MTU),
            is_up: true,
            dummy: Some(handle),
            tunnel: None,
            xdp_mode: None,
            remarks: Vec::new(),
        };
        let port = self.with_captures(port, &wanted.options);
        let mut port = port.map_err(|error| error.to_string())?;
        if wanted.ofport == Some(LOCAL) {
            let who = (number, &wanted.name[..], device.mac);
            let carrier = UnderlayPort::open(&self.hub, who, port);
            port = Box::new(carrier.map_err(|error| error.to_string())?);
        }
        Ok((device, SwitchPort::new(number, port)))
    }

    /// How a dummy is joined to others, as its options ask.
    fn end(&self, options: &BTreeMap<String, String>) -> Result<Option<DummyEnd>, String> {
        let place = |path: &str| self.folder.join(Path::new(path));
        if let Some(target) = options.get("pstream") {
            let path = target.strip_prefix("punix:");
            let path = path.ok_or_else(|| format!("pstream {target}: only punix:PATH is known"))?;
            return Ok(Some(DummyEnd::Listen(place(path))));
        }
        let Some(target) = options.get("stream") else {
            return Ok(None);
        };
        let path = target.strip_prefix("unix:");
        let path = path.ok_or_else(|| format!("stream {target}: only unix:PATH is known"))?;
        Ok(Some(DummyEnd::Connect(place(path))))
    }

    /// Puts captures around a dummy, as its options ask.
    fn with_captures(
        &self,
        port: DummyPort,
        options: &BTreeMap<String, String>,
    ) -> Result<Box<dyn Port>, thalweg_io::Error> {
        let both = options.get("pcap");
        let open = |name: &str| {
            let path = both.or_else(|| options.get(name));
            path.map(|path| CaptureWriter::append(&self.folder.join(Path::new(path))))
                .transpose()
        };
        let (received, sent) = (open("rxq_pcap")?, open("tx_pcap")?);
        Ok(match (&received, &sent) {
            (None, None) => Box::new(port),
            _ => Box::new(TracePort::new(port, received, sent)),
        })
    }
}

/// A tunnel's device, open.
pub(super) fn tunnel_device(
    wanted: &WantedInterface,
    port: TunnelPort,
    (number, device): (PortId, TunnelDevice),
) -> (Device, SwitchPort) {
    let told = Device {
        mac: wanted.mac.unwrap_or(random_mac(&wanted.row)),
        mtu: 0,
        is_up: true,
        dummy: None,
        tunnel: Some(port),
        xdp_mode: None,
        remarks: Vec::new(),
    };
    (told, SwitchPort::new(number, Box::new(device)))
}

/// What the kernel says of an interface of the machine.
fn interface_fact<T: FromStr>(name: &str, fact: &str) -> Option<T> {
    let path = Path::new("/sys/class/net").join(name).join(fact);
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// An address for a bridge or interface without one: local, and from its row in the database, so
/// that it stays when the daemon starts again.
pub(super) fn random_mac(row: &Row) -> MacAddress {
    let bytes = row.uuid.as_bytes();
    let [a, b, c, d, e, f] = [0, 1, 2, 3, 4, 5].map(|index| bytes[index]);
    MacAddress([a & 0xfc | 0x02, b, c, d, e, f & 0xf0])
}

/// Whether Open vSwitch has a name for itself: for the ports of tunnels and of datapaths.
pub(super) fn is_reserved(name: &str) -> bool {
    const TUNNELS: [&str; 9] = [
        "erspan_sys",
        "genev_sys",
        "gre_sys",
        "gtpu_sys",
        "ip6erspan_sys",
        "ip6gre_sys",
        "lisp_sys",
        "udp_sys",
        "vxlan_sys",
    ];
    const DATAPATHS: [&str; 3] = ["ovs-dummy", "ovs-netdev", "ovs-system"];
    DATAPATHS.contains(&name) || TUNNELS.iter().any(|prefix| name.starts_with(prefix))
}

/// An error about an interface; some texts name it already.
pub(super) fn about(name: &str, error: String) -> String {
    let prefix = format!("{name}: ");
    match error.starts_with(&prefix) {
        true => error,
        false => prefix + &error,
    }
}
