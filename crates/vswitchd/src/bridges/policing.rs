//! Ingress policing of interfaces, as their rows in the database have it.
//!
//! Reference: ovs-vswitchd.conf.db(5), table Interface, "Ingress Policing".

use thalweg_io::{PolicingRate, PolicingRates};
use thalweg_ovsdb::Row;
use thalweg_ovsdb::open_vswitch::interface;
use thalweg_switch::Switch;

use super::{Bridges, DeviceKind};

/// The burst in kilobits if none is given.
const DEFAULT_KILOBITS: u32 = 8_000;
/// The burst in thousands of packets if none is given.
const DEFAULT_KILOPACKETS: u32 = 16;

/// Reads the rates of an interface; 0 is no limit, and a negative one counts as not set.
pub(super) fn read(row: &Row) -> PolicingRates {
    let rate = |rate: i64, burst: i64, default: u32| {
        let bounded = |number: i64| u32::try_from(number.max(0)).unwrap_or(u32::MAX);
        let burst = match bounded(burst) {
            0 => default,
            burst => burst,
        };
        (rate > 0).then(|| PolicingRate {
            thousands: bounded(rate),
            burst_thousands: burst,
        })
    };
    PolicingRates {
        bits: rate(
            row.get(interface::INGRESS_POLICING_RATE),
            row.get(interface::INGRESS_POLICING_BURST),
            DEFAULT_KILOBITS,
        ),
        packets: rate(
            row.get(interface::INGRESS_POLICING_KPKTS_RATE),
            row.get(interface::INGRESS_POLICING_KPKTS_BURST),
            DEFAULT_KILOPACKETS,
        ),
    }
}

impl Bridges {
    /// Limits what interfaces receive, as wanted; returns what has no effect.
    pub(super) fn set_policing(&mut self, switch: &mut Switch) -> Vec<String> {
        let mut complaints = Vec::new();
        for bridge in self.by_name.values_mut() {
            for interface in bridge.interfaces.values_mut() {
                let wanted = interface.wanted.policing;
                let Some(number) = interface.number.filter(|_| wanted != interface.policing) else {
                    continue;
                };
                interface.policing = wanted;
                // A tunnel's socket receives for others too.
                let kind = match interface.kind {
                    Some(DeviceKind::Patch) => Some("patch"),
                    Some(DeviceKind::Tunnel(_)) => Some("tunnel"),
                    _ => None,
                };
                if let Some(kind) = kind {
                    let name = &interface.wanted.name;
                    complaints.push(format!(
                        "interface {name}: ingress_policing has no effect on a {kind}"
                    ));
                    continue;
                }
                switch.set_port_policing(bridge.id.port(number), wanted);
            }
        }
        complaints
    }
}
