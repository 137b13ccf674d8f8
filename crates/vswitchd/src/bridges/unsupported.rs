//! Settings of the database that have no effect here, so that an operator does not rely on them.

use thalweg_ovsdb::open_vswitch::{bridge, flow_sample_collector_set, interface, port};
use thalweg_ovsdb::{DatabaseReplica, Row};

use super::complaint::Complaints;

/// Names the settings of a bridge, its ports and their interfaces that have no effect.
pub(super) fn complain(replica: &DatabaseReplica, row: &Row, complaints: &mut Complaints) {
    let name = row.get(bridge::NAME);
    let set = [
        ("stp_enable", row.get(bridge::STP_ENABLE)),
        ("rstp_enable", row.get(bridge::RSTP_ENABLE)),
        (
            "mcast_snooping_enable",
            row.get(bridge::MCAST_SNOOPING_ENABLE),
        ),
        ("netflow", row.get(bridge::NETFLOW).is_some()),
        ("sflow", row.get(bridge::SFLOW).is_some()),
        ("ipfix", row.get(bridge::IPFIX).is_some()),
        ("auto_attach", row.get(bridge::AUTO_ATTACH).is_some()),
        ("flood_vlans", row.get(bridge::FLOOD_VLANS).len() > 0),
    ];
    note(&format!("bridge {name}"), &set, complaints);
    for set in replica.rows(flow_sample_collector_set::TABLE) {
        if set.get(flow_sample_collector_set::BRIDGE) == Some(row.uuid) {
            let id = set.get(flow_sample_collector_set::ID);
            complaints.add(format!(
                "bridge {name}: IPFIX is not supported yet: sample(collector_set_id={id},...) sends \
                 nothing"
            ));
        }
    }
    for port_row in replica.follow(row, bridge::PORTS) {
        let name = port_row.get(port::NAME);
        let set = [
            (
                "several interfaces (a bond)",
                port_row.get(port::INTERFACES).len() > 1,
            ),
            (
                "lacp",
                port_row.get(port::LACP).is_some_and(|mode| mode != "off"),
            ),
            ("qos", port_row.get(port::QOS).is_some()),
        ];
        note(&format!("port {name}"), &set, complaints);
        for row in replica.follow(port_row, port::INTERFACES) {
            let name = row.get(interface::NAME);
            let is_on = |(key, value)| key == "enable" && value == "true";
            let set = [
                ("bfd", row.get(interface::BFD).iter().any(is_on)),
                ("cfm_mpid", row.get(interface::CFM_MPID).is_some()),
                ("lldp", row.get(interface::LLDP).iter().any(is_on)),
            ];
            note(&format!("interface {name}"), &set, complaints);
        }
    }
}

fn note(what: &str, set: &[(&str, bool)], complaints: &mut Complaints) {
    for (setting, _) in set.iter().filter(|(_, is_set)| *is_set) {
        complaints.add(format!(
            "{what}: {setting} is not supported yet and has no effect"
        ));
    }
}
