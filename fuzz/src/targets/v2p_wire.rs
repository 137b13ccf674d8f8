//! The V2P protocol's option and packets, and how agents handle them.
//!
//! 1. Nothing panics.
//! 2. An accepted option is written as the same bytes.
//! 3. An accepted packet is the same after it is written and read again.
//! 4. With any tags, a packet can still be written after each kind of agent: no agent makes a
//!    packet that does not fit.

use std::sync::Arc;

use thalweg_packet::Instant;
use thalweg_packet::checksum::checksum;
use thalweg_v2p::wire::{Datagram, EmitError, OptionRepr};
use thalweg_v2p::{
    AgentConfig, Body, Database, Directory, GatewayAgent, HostAgent, Ingress, Packet, Profile,
    Role, SwitchAgent, SwitchId, Verdict,
};

const PROFILES: [Profile; 3] = [Profile::Artifact, Profile::Paper, Profile::Plus];
const ROLES: [Role; 5] = [
    Role::Tor,
    Role::GatewayTor,
    Role::Spine,
    Role::GatewaySpine,
    Role::Core,
];

/// Runs one input.
pub fn run(input: &[u8]) {
    if let Ok(option) = OptionRepr::parse(input) {
        let mut written = vec![0xa5; option.buffer_len()];
        option.emit(&mut written);
        assert_eq!(written, input, "an option has one way to be written");
    }
    let repaired = with_checksums(input);
    let Ok(datagram) = Datagram::parse(&repaired) else {
        return;
    };
    survives(&datagram);
    for profile in PROFILES {
        for role in ROLES {
            hop(&datagram, profile, role);
        }
    }
}

/// Corrects the header's checksum and removes the datagram's, because mutations would fail
/// there.
fn with_checksums(input: &[u8]) -> Vec<u8> {
    let mut bytes = input.to_vec();
    let header_len = input.first().map_or(0, |byte| 4 * usize::from(byte & 15));
    let is_whole = header_len >= 20 && bytes.len() >= header_len + 8;
    if is_whole && bytes[0] >> 4 == 4 {
        bytes[10..12].fill(0);
        let sum = checksum(&bytes[..header_len]);
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        bytes[header_len + 6..header_len + 8].fill(0);
    }
    bytes
}

fn survives(datagram: &Datagram<'_>) {
    let mut written = vec![0xa5; datagram.buffer_len()];
    match datagram.emit(&mut written) {
        Ok(len) => {
            let again = Datagram::parse(&written[..len]).expect("what was written can be read");
            assert_eq!(again.packet, datagram.packet);
            assert_eq!(again.payload, datagram.payload);
        }
        // A mapping may be of the other family, and foreign options may leave no room.
        Err(EmitError::MixedFamilies | EmitError::OptionsTooLong | EmitError::PacketTooLong) => {}
        Err(error) => panic!("{error}"),
    }
}

/// Sends the packet in from the fabric, a gateway and two hosts, so that it meets what it
/// taught.
fn hop(datagram: &Datagram<'_>, profile: Profile, role: Role) {
    let Packet {
        outer_source,
        outer_destination,
        ..
    } = datagram.packet;
    // The destination is once a gateway and once a host.
    for gateways in [vec![outer_destination], vec![outer_source]] {
        let switches = vec![outer_destination, outer_source];
        let directory = Arc::new(Directory::new(gateways, switches, []));
        let config = AgentConfig::new(SwitchId(0), outer_destination, role, profile, 2);
        let mut agent = SwitchAgent::new(&config, directory.clone());
        for from in [
            Ingress::Fabric,
            Ingress::Gateway,
            Ingress::Host(outer_source),
            Ingress::Host(outer_destination),
            Ingress::Fabric,
        ] {
            let mut packet = datagram.packet;
            let verdict = agent.handle_packet(&mut packet, from, Instant::ZERO, || 0);
            if verdict == Verdict::Forward {
                survives(&Datagram {
                    packet,
                    ..*datagram
                });
            }
            while let Some(control) = agent.poll_transmit() {
                survives(&Datagram::control(control));
            }
        }
        let mut packet = datagram.packet;
        let mut host = HostAgent::new(outer_destination, profile, directory);
        let _ = host.handle_packet(&mut packet);
        survives(&Datagram {
            packet,
            ..*datagram
        });
        let mut database = Database::new();
        if let Body::Data(data) = packet.body {
            database.place(data.destination_key(), outer_source);
        }
        let _ = GatewayAgent::new(profile).handle_packet(&database, &mut packet);
        survives(&Datagram {
            packet,
            ..*datagram
        });
    }
}
