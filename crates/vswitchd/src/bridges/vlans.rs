//! The VLANs of a port, as its row in the database has them.
//!
//! Reference: ovs-vswitchd.conf.db(5), table Port, "VLAN Configuration".

use thalweg_ovsdb::Row;
use thalweg_ovsdb::open_vswitch::port;
use thalweg_pipeline::{PortVlans, PriorityTags, VlanMode, VlanSet};

/// EtherTypes of tags (IEEE 802.1Q, table 9-1).
const CUSTOMER_TAG: u16 = 0x8100;
const SERVICE_TAG: u16 = 0x88a8;

/// Reads what a port does with VLANs. Values that make no sense count as not set.
pub(super) fn read(row: &Row) -> PortVlans {
    let config = row.get(port::OTHER_CONFIG);
    let vlan = |number: i64| u16::try_from(number).ok().filter(|vlan| *vlan < 4_096);
    let tag = row.get(port::TAG).and_then(vlan);
    let mut trunks = row.get(port::TRUNKS).filter_map(vlan).peekable();
    let trunks = match trunks.peek() {
        Some(_) => VlanSet::of(trunks),
        None => VlanSet::ALL,
    };
    let mut customers = row.get(port::CVLANS).filter_map(vlan).peekable();
    let customers = match customers.peek() {
        Some(_) => VlanSet::of(customers),
        None => VlanSet::ALL,
    };
    let native = tag.unwrap_or(0);
    let mode = match (row.get(port::VLAN_MODE), tag) {
        (Some("access"), _) => VlanMode::Access { tag: native },
        (Some("native-tagged"), _) => VlanMode::NativeTagged {
            tag: native,
            trunks,
        },
        (Some("native-untagged"), _) => VlanMode::NativeUntagged {
            tag: native,
            trunks,
        },
        (Some("dot1q-tunnel"), _) => VlanMode::Tunnel {
            tag: native,
            customers,
            tpid: match config.get("qinq-ethtype") {
                Some("802.1q" | "8021q") => CUSTOMER_TAG,
                _ => SERVICE_TAG,
            },
        },
        (None, Some(tag)) => VlanMode::Access { tag },
        _ => VlanMode::Trunk { trunks },
    };
    let priority_tags = match config.get("priority-tags") {
        Some("always") => PriorityTags::Always,
        Some("true" | "if-nonzero") => PriorityTags::IfNonzero,
        _ => PriorityTags::Never,
    };
    PortVlans {
        mode,
        priority_tags,
        is_protected: row.get(port::PROTECTED),
    }
}
