//! The mirrors of a bridge, as the database has them.
//!
//! Reference: ovs-vswitchd.conf.db(5), table Mirror.

use std::collections::BTreeSet;

use thalweg_ovsdb::open_vswitch::{bridge, mirror};
use thalweg_ovsdb::{DatabaseReplica, Row, Uuid};
use thalweg_packet::PortId;
use thalweg_pipeline::{BridgeMirror, MirrorOutput, MirroredPorts, Mirrors, VlanSet};

use super::Bridge;

/// A mirror with its ports as rows of the database.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct WantedMirror {
    name: String,
    selects_all: bool,
    sources: Vec<Uuid>,
    destinations: Vec<Uuid>,
    vlans: VlanSet,
    output_port: Option<Uuid>,
    output_vlan: Option<u16>,
    snaplen: Option<u16>,
}

/// Reads the mirrors of a bridge, by their names.
pub(super) fn read(replica: &DatabaseReplica, row: &Row) -> Vec<WantedMirror> {
    let rows = replica.follow(row, bridge::MIRRORS);
    let vlan = |number: i64| u16::try_from(number).ok().filter(|vlan| *vlan < 4_096);
    let mirrors = rows.map(|row| {
        let mut vlans = row.get(mirror::SELECT_VLAN).filter_map(vlan).peekable();
        WantedMirror {
            name: row.get(mirror::NAME).to_owned(),
            selects_all: row.get(mirror::SELECT_ALL),
            sources: row.get(mirror::SELECT_SRC_PORT).collect(),
            destinations: row.get(mirror::SELECT_DST_PORT).collect(),
            vlans: match vlans.peek() {
                Some(_) => VlanSet::of(vlans),
                None => VlanSet::ALL,
            },
            output_port: row.get(mirror::OUTPUT_PORT),
            output_vlan: row.get(mirror::OUTPUT_VLAN).and_then(vlan),
            snaplen: row
                .get(mirror::SNAPLEN)
                .and_then(|length| u16::try_from(length).ok())
                .filter(|length| (1..u16::MAX).contains(length)),
        }
    });
    let mut mirrors: Vec<_> = mirrors.collect();
    mirrors.sort_by(|one, other| one.name.cmp(&other.name));
    mirrors
}

impl Bridge {
    /// The mirrors with the ports that the bridge has now. Those without an output are left
    /// out, and named.
    pub(super) fn mirrors(&self, wanted: &[WantedMirror]) -> (Mirrors, Vec<String>) {
        let (mut mirrors, mut complaints) = (Vec::new(), Vec::new());
        for mirror in wanted {
            let ports = |rows: &[Uuid]| match mirror.selects_all {
                true => MirroredPorts::All,
                false => MirroredPorts::These(self.ports_of(rows)),
            };
            let port = self.ports_of(mirror.output_port.as_slice()).pop_first();
            let vlan = mirror.output_vlan.filter(|vlan| *vlan > 0);
            let output = match (mirror.output_port, port, vlan) {
                (Some(_), Some(port), _) => MirrorOutput::Port(port),
                (None, _, Some(vlan)) => MirrorOutput::Vlan(vlan),
                _ => {
                    let name = &mirror.name;
                    complaints.push(format!("mirror {name} does not specify output; ignoring"));
                    continue;
                }
            };
            mirrors.push(BridgeMirror {
                sources: ports(&mirror.sources),
                destinations: ports(&mirror.destinations),
                vlans: mirror.vlans.clone(),
                output,
                snaplen_bytes: mirror.snaplen,
            });
        }
        (Mirrors::new(mirrors), complaints)
    }

    /// The OpenFlow ports of rows of the table Port.
    fn ports_of(&self, rows: &[Uuid]) -> BTreeSet<PortId> {
        let interfaces = self.interfaces.values();
        let meant = interfaces.filter(|interface| rows.contains(&interface.wanted.port.uuid));
        meant
            .filter_map(|interface| Some(self.port(interface.number?)))
            .collect()
    }
}
