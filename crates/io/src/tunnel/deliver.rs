//! Gives what came out of a tunnel to the port that it belongs to.

use thalweg_packet::{Instant, Packet};
use thalweg_tunnel::{Decapsulated, InnerType, TunnelContent, TunnelKind};

use super::counts::TunnelCause;
use super::ecn::pass_congestion;
use super::hub::TunnelView;
use super::values::write_values;

/// Two Ethernet addresses of zero, as Open vSwitch puts them before a packet that has none.
const ADDRESSES_BYTES: usize = 12;

/// Makes `packet`, whose headers were read, the packet inside: with values, port and time.
///
/// False if there is none to be handed over; then the cause was counted.
pub(super) fn deliver(
    view: TunnelView<'_>,
    (kind, told): (TunnelKind, &Decapsulated),
    packet: &mut Packet,
    now: Instant,
) -> bool {
    match find_and_strip(view, (kind, told), packet, now) {
        Ok(()) => true,
        Err(cause) => {
            view.hub.counters().add(cause);
            false
        }
    }
}

fn find_and_strip(
    view: TunnelView<'_>,
    (kind, told): (TunnelKind, &Decapsulated),
    packet: &mut Packet,
    now: Instant,
) -> Result<(), TunnelCause> {
    let TunnelContent::Packet { range, inner } = &told.content else {
        return Err(TunnelCause::Message);
    };
    let (table, metadata) = (view.table, &told.metadata);
    let own = metadata.endpoints.destination();
    if !table.own.contains(&own) {
        view.hub.note_own(own);
    }
    let port = table
        .ports
        .find(kind, metadata.destination_port, metadata, *inner);
    let (number, place) = port
        .and_then(|number| Some((number, table.places.get(&number)?)))
        .ok_or(TunnelCause::NoPort)?;
    packet.truncate(range.end);
    packet.remove_front(range.start);
    place.seat.add_received(packet);
    if let InnerType::Bare(ether_type) = inner {
        let header = packet.prepend(ADDRESSES_BYTES + 2);
        header[..ADDRESSES_BYTES].fill(0);
        header[ADDRESSES_BYTES..].copy_from_slice(&ether_type.0.to_be_bytes());
    }
    if !pass_congestion(packet, metadata.tos) {
        return Err(TunnelCause::Congestion);
    }
    let written = write_values(metadata, table.map(place.bridge), packet.tunnel_mut());
    let left_out = written.map_err(|_| TunnelCause::Options)?;
    if left_out > 0 {
        view.hub.counters().add_long_options(left_out);
    }
    packet.set_received(number, now);
    Ok(())
}
