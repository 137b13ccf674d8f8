//! `multipath` and `bundle`: hashes a flow, and chooses a link by the hash.
//!
//! The algorithms are Open vSwitch's (`multipath.c`, `bundle.c`), the hash is ours. A link has
//! the highest weight of `n` with probability 1/n, and a weight depends on flow and link only:
//! when a link goes, only its flows move.
//!
//! 1. Exactly the bits that decide the choice are read. One link or one live member needs no
//!    hash.
//! 2. All fragments of a packet have one hash, since only the first has ports.

use thalweg_packet::{FieldId, PortId, standard as f};

use super::DropReason;
use super::observer::{Observer, Sight};
use super::select::Hash;
use super::walk::{Next, Walk};
use crate::action::{Output, Subfield, TableId, Write};
use crate::links::{FlowHash, LinkAlgorithm, LinkChoice, MemberAlgorithm, MemberChoice};
use crate::text::NO_PORT;
use crate::trace::Input;

/// The most links of which each has a weight.
const WEIGHED_MAX: u32 = 64;

/// How often another hash is tried. Each is a link's with probability 1/2 or more.
const TRIES: u32 = 64;

impl<O: Observer> Walk<'_, O> {
    /// Chooses a link and writes its number.
    pub(super) fn choose_link(&mut self, choice: &LinkChoice) {
        let link = match choice.links {
            0 | 1 => 0,
            links => {
                let hash = self.hash_by(choice.hash, choice.basis);
                link_of(hash, choice.algorithm, links, choice.argument)
            }
        };
        self.write_number(link.into(), &choice.destination);
    }

    /// Chooses a member, and sends to it or writes its number.
    pub(super) fn choose_member(&mut self, choice: &MemberChoice, table: TableId) -> Next {
        let chosen = self.live_member(choice).unwrap_or(NO_PORT);
        let number = self.number_of(chosen);
        if let Some(destination) = &choice.destination {
            self.write_number(u128::from(number.0 & 0xffff), destination);
            return Next::Continue;
        }
        match Output::reserved(number) {
            Some(reserved) => return self.output(&reserved, table),
            None if number == NO_PORT => self.drop(DropReason::NoLiveMember),
            None => self.send(chosen),
        }
        Next::Continue
    }

    fn live_member(&mut self, choice: &MemberChoice) -> Option<PortId> {
        let mut members = choice.members.iter().copied().enumerate();
        if choice.algorithm == MemberAlgorithm::ActiveBackup {
            return members
                .find(|(_, member)| self.is_member_alive(*member))
                .map(|(_, member)| member);
        }
        let alive = members.filter(|(_, member)| self.is_member_alive(*member));
        let alive: Vec<(usize, PortId)> = alive.collect();
        if let [] | [_] = alive[..] {
            return alive.first().map(|(_, member)| *member);
        }
        let hash = self.hash_by(choice.hash, choice.basis);
        let weight = |place: usize| (weight_of(hash, place as u32), std::cmp::Reverse(place));
        let heaviest = alive.into_iter().max_by_key(|(place, _)| weight(*place));
        heaviest.map(|(_, member)| member)
    }

    /// Whether a member can be chosen (`member_enabled_cb`); reserved ports always, apart from
    /// the controller.
    fn is_member_alive(&mut self, member: PortId) -> bool {
        let number = self.number_of(member);
        match Output::reserved(number) {
            Some(Output::Controller { .. }) => false,
            Some(Output::Local) | None if number != NO_PORT => {
                self.ask(Input::Port(member));
                let state = self.pipeline.port(member, self.version);
                state.is_some_and(|state| state.is_up)
            }
            _ => true,
        }
    }

    /// Writes a number into bits, as a constant.
    fn write_number(&mut self, mut number: u128, destination: &Subfield) {
        for slice in &destination.slices {
            let ones = u128::MAX >> (128 - slice.width_bits);
            self.set_field(Write {
                field: slice.field,
                value: (number & ones) << slice.offset,
                mask: ones << slice.offset,
            });
            number = number.checked_shr(slice.width_bits.into()).unwrap_or(0);
        }
        self.tell(Sight::Written(destination));
    }

    fn hash_by(&mut self, fields: FlowHash, basis: u16) -> u64 {
        let mut hash = Hash::new(basis.into());
        match fields {
            FlowHash::EthSource => hash.add(self.state.read(f::ETH_SRC)),
            FlowHash::IpSource => self.add_address(&mut hash, [f::IP_SRC, f::IPV6_SRC]),
            FlowHash::IpDestination => self.add_address(&mut hash, [f::IP_DST, f::IPV6_DST]),
            FlowHash::SymmetricL3 => {
                hash.add(self.state.read(f::ETH_TYPE));
                if let Some(addresses) = self.addresses() {
                    let ends = self.ends(addresses, None);
                    hash.add_ends(ends);
                }
            }
            FlowHash::SymmetricL4 => {
                self.add_link(&mut hash);
                if let Some(addresses) = self.addresses() {
                    self.add_connection(&mut hash, addresses, false);
                }
            }
            FlowHash::SymmetricL3L4 | FlowHash::SymmetricL3L4Udp => match self.addresses() {
                Some(addresses) => {
                    let with_udp = fields == FlowHash::SymmetricL3L4Udp;
                    self.add_connection(&mut hash, addresses, with_udp);
                }
                None => self.add_link(&mut hash),
            },
        }
        hash.value()
    }

    /// The fields with the packet's addresses of IP.
    fn addresses(&mut self) -> Option<[FieldId; 2]> {
        if self.state.read(f::PRESENT_IPV4) == 1 {
            Some([f::IP_SRC, f::IP_DST])
        } else if self.state.read(f::PRESENT_IPV6) == 1 {
            Some([f::IPV6_SRC, f::IPV6_DST])
        } else {
            None
        }
    }

    fn add_address(&mut self, hash: &mut Hash, [ipv4, ipv6]: [FieldId; 2]) {
        match self.addresses() {
            Some([f::IP_SRC, _]) => hash.add(self.state.read(ipv4)),
            Some(_) => hash.add(self.state.read(ipv6)),
            None => {}
        }
    }

    /// Adds what of the link layer is the same in both directions.
    fn add_link(&mut self, hash: &mut Hash) {
        hash.add(self.state.read(f::ETH_TYPE));
        let tag = u128::from(f::VLAN_PRESENT | 0x0fff);
        for field in [f::VLAN_TCI, f::VLAN_TCI_INNER] {
            hash.add(self.state.read_masked(field, tag));
        }
        let ends = self.ends([f::ETH_SRC, f::ETH_DST], None);
        hash.add_ends(ends);
    }

    fn add_connection(&mut self, hash: &mut Hash, addresses: [FieldId; 2], with_udp: bool) {
        let protocol = self.state.read(f::IP_PROTO);
        hash.add(protocol);
        let has_ports = matches!(protocol, 6 | 132) || with_udp && protocol == 17;
        let has_ports = has_ports && self.state.read(f::IP_FRAG) == 0;
        let ports = has_ports.then_some([f::TP_SRC, f::TP_DST]);
        let ends = self.ends(addresses, ports);
        hash.add_ends(ends);
    }
}

/// The weight of a link for a flow.
fn weight_of(hash: u64, link: u32) -> u64 {
    Hash::of(hash, link.into()).value()
}

/// The link that a hash chooses, of two or more.
fn link_of(hash: u64, algorithm: LinkAlgorithm, links: u32, argument: u32) -> u32 {
    let high = (hash >> 32) as u32;
    match algorithm {
        LinkAlgorithm::ModuloN => high % links,
        LinkAlgorithm::HashThreshold => high / (u32::MAX / links + 1),
        LinkAlgorithm::HighestWeight if links <= WEIGHED_MAX => {
            let weight = |link: &u32| (weight_of(hash, *link), std::cmp::Reverse(*link));
            (0..links).max_by_key(weight).unwrap_or(0)
        }
        LinkAlgorithm::HighestWeight => iterated(hash, links, 0),
        LinkAlgorithm::IterHash => iterated(hash, links, argument),
    }
}

/// The first of several hashes that is below `links`, all being below `modulo`.
fn iterated(hash: u64, links: u32, modulo: u32) -> u32 {
    let is_usable = modulo >= links && modulo / 2 <= links;
    let modulo = match is_usable {
        true => modulo,
        false => links.next_power_of_two(),
    };
    let mut hashes = (0..TRIES).map(|number| (weight_of(hash, number) >> 32) as u32 % modulo);
    let found = hashes.find(|link| *link < links);
    found.unwrap_or((hash >> 32) as u32 % links)
}
