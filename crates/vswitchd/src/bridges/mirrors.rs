//! The mirrors of a bridge, as the database has them.
//!
//! Reference: ovs-vswitchd.conf.db(5), table Mirror.

use std::collections::{BTreeMap, BTreeSet};

use thalweg_ovsdb::open_vswitch::{bridge, mirror};
use thalweg_ovsdb::{DatabaseReplica, Row, Uuid};
use thalweg_packet::PortId;
use thalweg_pipeline::{BridgeMirror, MirrorId, MirrorOutput, MirroredPorts, Mirrors, VlanSet};

use super::Bridge;

/// A mirror with its ports as rows of the database.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct WantedMirror {
    row: Uuid,
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
            row: row.uuid,
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

/// The numbers by which mirrors count, by their rows: a mirror keeps its counts however it
/// changes.
#[derive(Debug, Default)]
pub(super) struct MirrorNumbers {
    by_row: BTreeMap<Uuid, MirrorId>,
    last: u32,
}

impl MirrorNumbers {
    /// The number of a mirror, by its row.
    pub(super) fn get(&self, row: Uuid) -> Option<MirrorId> {
        self.by_row.get(&row).copied()
    }

    fn get_or_draw(&mut self, row: Uuid) -> MirrorId {
        *self.by_row.entry(row).or_insert_with(|| {
            self.last = self.last.wrapping_add(1);
            MirrorId(self.last)
        })
    }

    /// Forgets those of other mirrors; returns the numbers that are left.
    pub(super) fn retain<'a>(
        &mut self,
        wanted: impl Iterator<Item = &'a WantedMirror>,
    ) -> BTreeSet<MirrorId> {
        let rows: BTreeSet<Uuid> = wanted.map(|mirror| mirror.row).collect();
        self.by_row.retain(|row, _| rows.contains(row));
        self.by_row.values().copied().collect()
    }
}

impl Bridge {
    /// The mirrors with the ports that the bridge has now. Those without an output are left
    /// out, and named.
    pub(super) fn mirrors(
        &self,
        wanted: &[WantedMirror],
        numbers: &mut MirrorNumbers,
    ) -> (Mirrors, Vec<String>) {
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
                id: numbers.get_or_draw(mirror.row),
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
