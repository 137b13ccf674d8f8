//! What became of the configuration, as the database tells it.
//!
//! The transaction has every column that the switch writes; those that are as they should be
//! are left out of it by themselves.

use std::sync::Arc;
use std::time::Duration;

use thalweg_control::openflow::OpenFlowServer;
use thalweg_io::dummy_counts;
use thalweg_openflow::message::connection::Role;
use thalweg_ovsdb::open_vswitch::{bridge, controller, interface, mirror, root};
use thalweg_ovsdb::{DatabaseReplica, DatabaseTransaction, Row};
use thalweg_packet::PortId;
use thalweg_pipeline::Counters;
use thalweg_switch::{PortTotals, Switch, Totals};

use super::device::is_reserved;
use super::{Bridge, Bridges, DeviceKind, Dummies, Interface};

/// Types of interfaces that exist with and without dummies.
const TYPES: [&str; 13] = [
    "afxdp",
    "afxdp-nonpmd",
    "erspan",
    "geneve",
    "gre",
    "gtpu",
    "internal",
    "ip6erspan",
    "ip6gre",
    "patch",
    "system",
    "tap",
    "vxlan",
];
const DUMMY_TYPES: [&str; 3] = ["dummy", "dummy-internal", "dummy-pmd"];

/// What [`Bridges::report`] tells.
#[derive(Debug)]
pub(crate) struct Report<'a> {
    /// The configuration that is done.
    pub(crate) done: Option<i64>,
    /// The time, by the switch's clock.
    pub(crate) now: Duration,
    /// Counts of ports, if it tells them.
    pub(crate) totals: Option<&'a Totals>,
}

impl Bridges {
    /// Makes the transaction that brings the database up to date.
    pub(crate) fn report(
        &self,
        replica: &DatabaseReplica,
        switch: &Switch,
        report: &Report<'_>,
    ) -> DatabaseTransaction {
        let mut transaction = DatabaseTransaction::new();
        if let Some(root) = replica.rows(root::TABLE).next() {
            self.report_root(&mut transaction, root, report);
        }
        for running in self.by_name.values() {
            let Some(row) = replica.row(bridge::TABLE, running.uuid) else {
                continue;
            };
            let id = format!("{:016x}", running.datapath_id);
            transaction.set(row, bridge::DATAPATH_ID, Some(&id));
            transaction.set(row, bridge::DATAPATH_VERSION, "<built-in>");
            running.report_controllers(replica, &mut transaction, report.now);
            for interface in running.interfaces.values() {
                let Some(row) = replica.row(interface::TABLE, interface.wanted.row.uuid) else {
                    continue;
                };
                let port = interface.number.map(|number| running.port(number));
                let has_link = port.is_some_and(|port| interface.has_link(switch, port));
                interface.report(&mut transaction, row, has_link);
                let totals = report.totals.zip(port).and_then(|(totals, port)| {
                    let place = totals.ports.binary_search_by_key(&port, |told| told.number);
                    Some(&totals.ports[place.ok()?])
                });
                if let Some(totals) = totals {
                    let is_dummy = interface.kind.is_some_and(DeviceKind::is_dummy);
                    report_counts(&mut transaction, row, totals, is_dummy);
                }
            }
        }
        if report.totals.is_some() {
            self.report_mirrors(replica, switch, &mut transaction);
        }
        self.report_unserved(replica, &mut transaction);
        transaction
    }

    /// Tells what mirrors were sent.
    fn report_mirrors(
        &self,
        replica: &DatabaseReplica,
        switch: &Switch,
        transaction: &mut DatabaseTransaction,
    ) {
        for row in replica.rows(mirror::TABLE) {
            let Some(number) = self.mirror_numbers.get(row.uuid) else {
                continue;
            };
            let Counters { packets, bytes } = switch.pipeline().mirror_counters(number);
            let counts = [("tx_bytes", bytes), ("tx_packets", packets)];
            let counts = counts.map(|(key, count)| (key, i64::try_from(count).unwrap_or(i64::MAX)));
            transaction.set(row, mirror::STATISTICS, &counts);
        }
    }

    fn report_root(
        &self,
        transaction: &mut DatabaseTransaction,
        root: &Arc<Row>,
        report: &Report<'_>,
    ) {
        if let Some(done) = report.done {
            transaction.set(root, root::CUR_CFG, done);
        }
        transaction.set(root, root::DPDK_INITIALIZED, false);
        let has_dummies = self.dummies > Dummies::Off;
        let mut types = TYPES.to_vec();
        let mut datapaths = vec!["netdev", "system"];
        if has_dummies {
            types.extend(DUMMY_TYPES);
            datapaths.push("dummy");
        }
        transaction.set(root, root::IFACE_TYPES, &types);
        transaction.set(root, root::DATAPATH_TYPES, &datapaths);
    }

    /// Ports that no bridge runs have no number.
    fn report_unserved(&self, replica: &DatabaseReplica, transaction: &mut DatabaseTransaction) {
        for row in replica.rows(interface::TABLE) {
            let name = row.get(interface::NAME);
            if self.interface(name).is_none() && row.get(interface::OFPORT).is_some() {
                transaction.set(row, interface::OFPORT, None);
            }
        }
    }
}

impl Bridge {
    fn report_controllers(
        &self,
        replica: &DatabaseReplica,
        transaction: &mut DatabaseTransaction,
        now: Duration,
    ) {
        let statuses = self.server.as_ref().map(OpenFlowServer::controllers);
        for (uuid, status) in self.reached.iter().zip(statuses.unwrap_or_default()) {
            let Some(row) = replica.row(controller::TABLE, *uuid) else {
                continue;
            };
            transaction.set(row, controller::IS_CONNECTED, status.is_connected);
            let role = status.role.map(|role| match role {
                Role::Primary => "master",
                Role::Secondary => "slave",
                _ => "other",
            });
            transaction.set(row, controller::ROLE, role);
            let since =
                |at: Option<Duration>| at.map(|at| now.saturating_sub(at).as_secs().to_string());
            let (connected, ended) = (since(status.connected_at), since(status.disconnected_at));
            let mut shown = vec![(
                "state",
                match status.is_connected {
                    true => "ACTIVE",
                    false => "BACKOFF",
                },
            )];
            shown.extend(connected.as_deref().map(|text| ("sec_since_connect", text)));
            shown.extend(ended.as_deref().map(|text| ("sec_since_disconnect", text)));
            let error = status.last_error.as_deref();
            shown.extend(error.map(|text| ("last_error", text)));
            transaction.set(row, controller::STATUS, &shown);
        }
    }
}

impl Interface {
    fn report(&self, transaction: &mut DatabaseTransaction, row: &Arc<Row>, has_link: bool) {
        let number = self.number.map_or(-1, i64::from);
        // Open vSwitch tells of reserved names in its log alone.
        let error = self.error.as_deref();
        let error = error.filter(|_| !is_reserved(&self.wanted.name));
        transaction.set(row, interface::OFPORT, Some(number));
        transaction.set(row, interface::ERROR, error);
        let name = &self.wanted.name;
        let state = |is_up: bool| if is_up { "up" } else { "down" };
        let link = self.number.map(|_| state(has_link));
        let device = self.device.as_ref();
        let is_set_up = match self.kind {
            Some(DeviceKind::Patch) => Some(true),
            _ => device.and_then(|device| device.is_set_up(name)),
        };
        transaction.set(row, interface::LINK_STATE, link);
        transaction.set(row, interface::ADMIN_STATE, is_set_up.map(state));
        let mac = device.map(|device| device.mac.to_string());
        transaction.set(row, interface::MAC_IN_USE, mac.as_deref());
        let mtu = device.map(|device| i64::from(device.mtu));
        transaction.set(row, interface::MTU, mtu.filter(|mtu| *mtu > 0));
        let index = device.and_then(|device| device.interface_index(name));
        transaction.set(row, interface::IFINDEX, index);
        let peer = self.wanted.options.get("peer").map(String::as_str);
        let mode = device.and_then(|device| device.xdp_mode);
        let mode = mode.map(|mode| mode.to_string());
        let status: Vec<(&str, &str)> = match self.kind {
            Some(DeviceKind::Patch) => peer.map(|peer| ("patch-peer", peer)).into_iter().collect(),
            _ => mode.iter().map(|mode| ("xdp-mode", &mode[..])).collect(),
        };
        transaction.set(row, interface::STATUS, &status);
    }

    /// Whether it can carry packets. The switch hears of a dummy later than the one who set it.
    fn has_link(&self, switch: &Switch, port: PortId) -> bool {
        match (self.kind, &self.device) {
            (Some(DeviceKind::Patch | DeviceKind::Tunnel(_)), _) => true,
            (Some(kind), Some(device)) if kind.is_dummy() => device.is_up,
            _ => switch.has_link(port),
        }
    }
}

/// Writes what a port counted. A dummy knows of no drops and errors, and has other counts.
fn report_counts(
    transaction: &mut DatabaseTransaction,
    row: &Arc<Row>,
    totals: &PortTotals,
    is_dummy: bool,
) {
    let counters = &totals.counters;
    let mut counts = vec![
        ("rx_bytes", counters.received_bytes),
        ("rx_packets", counters.received_packets),
        ("tx_bytes", counters.sent_bytes),
        ("tx_packets", counters.sent_packets),
    ];
    match is_dummy {
        true => counts.extend(dummy_counts(counters)),
        false => counts.extend([
            ("collisions", 0),
            ("rx_crc_err", 0),
            ("rx_dropped", counters.receive_drops()),
            ("rx_errors", 0),
            ("rx_frame_err", 0),
            ("rx_over_err", 0),
            ("tx_dropped", counters.send_drops()),
            ("tx_errors", 0),
        ]),
    }
    let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    let counts = counts
        .into_iter()
        .map(|(name, count)| (name, number(count)));
    let counts: Vec<(&str, i64)> = counts.collect();
    transaction.set(row, interface::STATISTICS, &counts);
}
