//! The configuration as the database has it, read into plain types.
//!
//! Reading never fails: a value that makes no sense is reported, and counts as not set.

use std::collections::BTreeMap;
use std::path::{Component, Path};
use std::sync::Arc;
use std::time::Duration;

use thalweg_control::openflow::{ControllerPace, FailMode, Remote};
use thalweg_io::PolicingRates;
use thalweg_openflow::{Version, Versions};
use thalweg_ovsdb::open_vswitch::{bridge, controller, flow_table, interface, port, root};
use thalweg_ovsdb::{DatabaseReplica, Pairs, Row, Text, Uuid};
use thalweg_packet::wire::MacAddress;

use crate::vlog::LogLevel;

use super::complaint::{Complaint, Complaints};
use super::mirrors::{self, WantedMirror};
use super::{policing, unsupported};

/// The number of a bridge's own port.
pub(crate) const LOCAL: u16 = 0xfffe;
/// The largest number of another port.
const MAX_PORT: u16 = 0xfeff;

/// The most stations that a bridge may ask for.
pub(crate) const STATIONS_MAX: usize = 1_000_000;

/// A bridge.
#[derive(Clone, Debug)]
pub(crate) struct WantedBridge {
    pub(crate) row: Arc<Row>,
    pub(crate) name: String,
    pub(crate) datapath_type: String,
    pub(crate) datapath_id: Option<u64>,
    pub(crate) hwaddr: Option<MacAddress>,
    pub(crate) description: Option<String>,
    /// Whether it forwards frames that are for the link only.
    pub(crate) forwards_bpdus: bool,
    pub(super) mirrors: Vec<WantedMirror>,
    /// Stations that are silent for this long are forgotten.
    pub(crate) station_aging: Duration,
    /// The most stations that are remembered.
    pub(crate) stations: usize,
    pub(crate) openflow: WantedOpenFlow,
    pub(crate) tables: BTreeMap<u8, WantedTable>,
    pub(crate) interfaces: BTreeMap<String, WantedInterface>,
}

/// What a bridge's OpenFlow server does.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct WantedOpenFlow {
    pub(crate) versions: Versions,
    pub(crate) fail_mode: FailMode,
    pub(crate) controllers: Vec<WantedController>,
    /// Whether its controllers are left out until rules are there.
    pub(crate) are_controllers_withheld: bool,
    /// An untouched bundle is forgotten after this time.
    pub(crate) bundle_timeout: Duration,
}

impl WantedOpenFlow {
    /// Whether it has a controller, rather than addresses for controllers alone.
    pub(crate) fn is_controlled(&self) -> bool {
        let targets = self.controllers.iter().map(|controller| &controller.target);
        let mut reached = targets.filter(|target| target.parse::<Remote>().is_ok());
        self.are_controllers_withheld || reached.next().is_some()
    }
}

/// A controller, or an address for controllers.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct WantedController {
    pub(crate) uuid: Uuid,
    pub(crate) target: String,
    pub(crate) pace: ControllerPace,
}

/// A table with a name or a limit.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct WantedTable {
    pub(crate) name: String,
    pub(crate) rules: Option<u32>,
    pub(crate) evicts: bool,
    /// Subfields whose values make groups, as the database has them.
    pub(crate) groups: Vec<String>,
}

/// An interface, with its port's row.
#[derive(Clone, Debug)]
pub(crate) struct WantedInterface {
    pub(crate) row: Arc<Row>,
    pub(crate) port: Arc<Row>,
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) ofport: Option<u16>,
    pub(crate) mac: Option<MacAddress>,
    pub(crate) mtu: Option<u32>,
    pub(super) policing: PolicingRates,
    pub(crate) options: BTreeMap<String, String>,
}

/// Reads all bridges of the database. Sockets of controllers must be below `confined_to`, if
/// that is a folder.
pub(crate) fn read(
    replica: &DatabaseReplica,
    confined_to: Option<&Path>,
) -> (BTreeMap<String, WantedBridge>, Complaints) {
    let mut complaints = Complaints::default();
    let mut bridges = BTreeMap::new();
    for root in replica.rows(root::TABLE) {
        for row in replica.follow(root, root::BRIDGES) {
            let name = row.get(bridge::NAME);
            if name.contains(['/', '\\']) || name.is_empty() {
                complaints.add(format!("ignoring bridge with invalid name \"{name}\""));
                continue;
            }
            unsupported::complain(replica, row, &mut complaints);
            let mut wanted = read_bridge(replica, (root, row), &mut complaints);
            if let Some(folder) = confined_to {
                let controllers = &mut wanted.openflow.controllers;
                controllers.retain(|controller| {
                    let refusal = refusal_of_socket(&controller.target, name, folder);
                    let is_fine = refusal.is_none();
                    refusal
                        .into_iter()
                        .for_each(|text| complaints.add_error(text));
                    is_fine
                });
            }
            bridges.insert(wanted.name.clone(), wanted);
        }
    }
    (bridges, complaints)
}

fn read_bridge(
    replica: &DatabaseReplica,
    (root, row): (&Arc<Row>, &Arc<Row>),
    complaints: &mut Complaints,
) -> WantedBridge {
    let name = row.get(bridge::NAME).to_owned();
    let config = row.get(bridge::OTHER_CONFIG);
    let mut interfaces = BTreeMap::new();
    for port in replica.follow(row, bridge::PORTS) {
        for interface in replica.follow(port, port::INTERFACES) {
            let wanted = read_interface(interface, port, &name, complaints);
            interfaces.insert(wanted.name.clone(), wanted);
        }
    }
    let hexadecimal = |text: &str| match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None if text.len() == 16 => u64::from_str_radix(text, 16).ok(),
        None => None,
    };
    let given_id = config.get("datapath-id");
    let datapath_id = given_id.and_then(hexadecimal);
    if let Some(text) = given_id.filter(|_| datapath_id.is_none()) {
        // Open vSwitch says nothing of it, so it is no warning.
        complaints.0.push(Complaint {
            level: LogLevel::Info,
            text: format!("bridge {name}: datapath-id {text:?} is not 16 hexadecimal digits"),
        });
    }
    let given = config.get("hwaddr");
    let hwaddr = given.and_then(|text| text.parse().ok());
    if let Some(text) = given.filter(|_| hwaddr.is_none()) {
        complaints.add(format!("bridge {name}: hwaddr {text:?} is no address"));
    }
    WantedBridge {
        row: row.clone(),
        datapath_type: row.get(bridge::DATAPATH_TYPE).to_owned(),
        // Zero stands for the default.
        datapath_id: datapath_id.filter(|id| *id != 0),
        hwaddr,
        description: config.get("dp-desc").map(str::to_owned),
        forwards_bpdus: config.get("forward-bpdu") == Some("true"),
        mirrors: mirrors::read(replica, row),
        station_aging: station_aging(&config),
        stations: stations(&config),
        openflow: WantedOpenFlow {
            bundle_timeout: bundle_timeout(&root.get(root::OTHER_CONFIG)),
            versions: versions(row, &name, complaints),
            fail_mode: match row.get(bridge::FAIL_MODE) {
                Some("secure") => FailMode::Secure,
                _ => FailMode::Standalone,
            },
            controllers: controllers(replica, row),
            are_controllers_withheld: false,
        },
        tables: tables(replica, row, complaints),
        interfaces,
        name,
    }
}

fn read_interface(
    row: &Arc<Row>,
    port: &Arc<Row>,
    bridge: &str,
    complaints: &mut Complaints,
) -> WantedInterface {
    let name = row.get(interface::NAME).to_owned();
    let is_local = name == bridge;
    let kind = match row.get(interface::TYPE) {
        _ if is_local => "internal",
        "" => "system",
        other => other,
    };
    let requested = row.get(interface::OFPORT_REQUEST);
    let ofport = match is_local {
        true => Some(LOCAL),
        false => requested
            .and_then(|number| u16::try_from(number).ok())
            .filter(|number| (1..=MAX_PORT).contains(number)),
    };
    let mac = row.get(interface::MAC).and_then(|text| {
        let mac = text.parse().ok();
        if mac.is_none() {
            complaints.add(format!("interface {name}: mac {text:?} is no address"));
        }
        mac
    });
    let options = row.get(interface::OPTIONS).iter();
    WantedInterface {
        row: row.clone(),
        port: port.clone(),
        kind: kind.to_owned(),
        ofport,
        mac,
        mtu: row
            .get(interface::MTU_REQUEST)
            .and_then(|mtu| u32::try_from(mtu).ok()),
        policing: policing::read(row),
        options: options
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect(),
        name,
    }
}

/// How long a bundle may stay untouched; ten seconds by default, and at least one.
fn bundle_timeout(config: &Pairs<'_, Text, Text>) -> Duration {
    let given = config
        .get("bundle-idle-timeout")
        .and_then(|text| text.parse().ok());
    Duration::from_secs(given.unwrap_or(10_u64).max(1))
}

/// The ageing time of stations, in the bounds of Open vSwitch; 300 s by default.
fn station_aging(config: &Pairs<'_, Text, Text>) -> Duration {
    let given = config
        .get("mac-aging-time")
        .and_then(|text| text.parse().ok());
    Duration::from_secs(given.unwrap_or(300_u64).clamp(15, 3_600))
}

/// The size of the table of stations, in the bounds of Open vSwitch; 8,192 by default.
fn stations(config: &Pairs<'_, Text, Text>) -> usize {
    let given = config
        .get("mac-table-size")
        .and_then(|text| text.parse().ok());
    given.unwrap_or(8_192).clamp(10, STATIONS_MAX)
}

fn versions(row: &Row, name: &str, complaints: &mut Complaints) -> Versions {
    let mut bits = 0;
    for protocol in row.get(bridge::PROTOCOLS) {
        let version = match protocol {
            "OpenFlow10" => Version::V10,
            "OpenFlow11" => Version::V11,
            "OpenFlow12" => Version::V12,
            "OpenFlow13" => Version::V13,
            "OpenFlow14" => Version::V14,
            "OpenFlow15" => Version::V15,
            other => {
                complaints.add(format!("bridge {name}: unknown protocol {other:?}"));
                continue;
            }
        };
        bits |= 1 << version.number();
    }
    match bits {
        0 => Versions::ALL,
        bits => Versions::from_bits(bits),
    }
}

fn controllers(replica: &DatabaseReplica, row: &Row) -> Vec<WantedController> {
    let rows = replica.follow(row, bridge::CONTROLLER);
    let controllers = rows.map(|row| {
        let probe = row.get(controller::INACTIVITY_PROBE).unwrap_or(5_000);
        let backoff = row.get(controller::MAX_BACKOFF).unwrap_or(8_000);
        let rate = row.get(controller::CONTROLLER_RATE_LIMIT);
        WantedController {
            uuid: row.uuid,
            target: row.get(controller::TARGET).to_owned(),
            pace: ControllerPace {
                // Open vSwitch asks at most every 5 s if less than a second is given.
                probe_interval: match u64::try_from(probe).unwrap_or(0) {
                    0 => None,
                    interval => Some(Duration::from_millis(interval.max(1_000))),
                },
                max_backoff: Duration::from_millis(u64::try_from(backoff).unwrap_or(0).max(1_000)),
                packet_rate: rate.and_then(|rate| u32::try_from(rate).ok()),
            },
        }
    });
    let mut controllers: Vec<_> = controllers.collect();
    controllers.sort_by(|one, other| one.target.cmp(&other.target));
    controllers
}

/// Why a controller's socket may not be used. The database may be written from far away; it must
/// not have the daemon overwrite files of the machine, or talk to other programs.
fn refusal_of_socket(target: &str, bridge: &str, folder: &Path) -> Option<String> {
    let instead = format!(
        "connect to \"unix:{0}/{bridge}.mgmt\" (which is always available without special \
         configuration)",
        folder.display()
    );
    if let Some(path) = target.strip_prefix("punix:") {
        let path = Path::new(path);
        let name = path.file_name().and_then(|name| name.to_str());
        let is_ours = name.is_some_and(|name| name.starts_with(&format!("{bridge}.")));
        let is_fine = is_ours && path.parent() == Some(folder);
        let allowed = folder.join(format!("{bridge}.*"));
        return (!is_fine).then(|| {
            format!(
                "bridge {bridge}: Not adding Unix domain socket controller \"{target}\" due to \
                 possibility of overwriting local files. Instead, specify path in permitted \
                 format \"punix:{}\" or {instead}.",
                allowed.display()
            )
        });
    }
    let path = target.strip_prefix("unix:")?;
    let goes_up = Path::new(path)
        .components()
        .any(|part| part == Component::ParentDir);
    let is_below = Path::new(path).starts_with(folder) && !goes_up;
    (path.contains('/') && !is_below).then(|| {
        format!(
            "bridge {bridge}: Not connecting to socket controller \"{target}\" due to \
             possibility for remote exploit.  Instead, specify socket in permitted directory \
             \"unix:{}/\" or {instead}.",
            folder.display()
        )
    })
}

fn tables(
    replica: &DatabaseReplica,
    row: &Row,
    complaints: &mut Complaints,
) -> BTreeMap<u8, WantedTable> {
    let mut tables = BTreeMap::new();
    for (number, uuid) in row.get(bridge::FLOW_TABLES).iter() {
        let (Ok(number), Some(table)) =
            (u8::try_from(number), replica.row(flow_table::TABLE, uuid))
        else {
            complaints.add(format!("flow table {number} does not exist"));
            continue;
        };
        let wanted = WantedTable {
            name: table.get(flow_table::NAME).unwrap_or_default().to_owned(),
            rules: table
                .get(flow_table::FLOW_LIMIT)
                .and_then(|limit| u32::try_from(limit).ok()),
            evicts: table.get(flow_table::OVERFLOW_POLICY) == Some("evict"),
            groups: table.get(flow_table::GROUPS).map(str::to_owned).collect(),
        };
        tables.insert(number, wanted);
    }
    tables
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_of_controllers_are_in_the_folder_and_have_the_name_of_their_bridge() {
        let is_fine =
            |target: &str| refusal_of_socket(target, "br0", Path::new("/run/ovs")).is_none();
        for target in [
            "punix:/run/ovs/br0.void",
            "punix:/run//ovs/br0.",
            "unix:/run/ovs/controller",
            "unix:/run/ovs/below/controller",
            "unix:controller",
            "tcp:10.0.0.1:6653",
            "ptcp:6653",
        ] {
            assert!(is_fine(target), "{target}");
        }
        for target in [
            "punix:/run/ovs/br1.void",
            "punix:/run/ovs/br0",
            "punix:/run/ovs/br0.void/../overwrite.file",
            "punix:/run/ovs/br0.below/void",
            "punix:/run/ovs/../br0.void",
            "punix:/tmp/br0.void",
            "punix:br0.void",
            "unix:/tmp/controller",
            "unix:below/controller",
            "unix:/run/ovs/../controller",
            "unix:/run/ovs-other/controller",
        ] {
            assert!(!is_fine(target), "{target}");
        }
    }
}
