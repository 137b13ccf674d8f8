//! What hosts remember: OnDemand, and gateways that hand busy mappings to hosts.
//!
//! A host that knows where a machine is sends to it; else it sends by the gateway.
//!
//! | | a host knows | and pays |
//! | --- | --- | --- |
//! | [`OnDemand::Artifact`] | every machine that it had a packet from, and those that packets came to it for; if machines move, these too, from the start | 40 µs, once, for the first packet that it sends by what it knows |
//! | [`OnDemand::Paper`] | a machine for which so many of its packets went by a gateway | the gateway's 40 µs until then |
//!
//! The first is the published code's. It has one truth for all hosts and gateways, which follows a
//! move 1,000 µs later. The second is what section 5 says ("all the translations are cached at the
//! host after the first miss"), with the threshold of section 1's Andromeda and section 5's Zeta
//! ("the threshold to offload the rule") as a parameter: a host gets a mapping when the gateway
//! lets the packet go, keeps it as it is, and is told of a move 1,000 µs later ("the rule
//! installment takes in the order of milliseconds").

use std::collections::HashMap;

use thalweg_v2p::{Address, Key};

use crate::Time;

/// Which hosts know what.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnDemand {
    /// As the published code has it.
    Artifact,
    /// As the text has it.
    Paper {
        /// Packets of a host for a machine that go by a gateway before the host gets its mapping;
        /// 1 in section 5.
        threshold_packets: u32,
    },
}

/// How long until hosts know of a move.
pub(crate) const HOST_UPDATE: Time = Time::from_micros(1_000);

/// What the first packet of a host costs in `artifact`.
const FIRST_PACKET: Time = Time::from_micros(40);

/// What hosts remember, and what gateways have counted for them.
#[derive(Clone, Debug, Default)]
pub(crate) struct HostMemory {
    threshold_packets: Option<u32>,
    /// By host and machine; the place is of meaning in `paper` only.
    known: HashMap<(u32, Key), Address>,
    counts: HashMap<(u32, Key), u32>,
    /// By host, whether it has paid.
    has_paid: Vec<bool>,
    /// Machines that every host knows.
    everywhere: Vec<Key>,
}

/// What a host knows of a machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Known {
    /// Nothing: to the gateway.
    Nothing,
    /// Wherever the truth of all hosts says, after a while.
    Shared(Time),
    /// At this host, as it remembers.
    At(Address),
}

impl HostMemory {
    /// Hosts that know nothing but of these machines.
    pub(crate) fn new(kind: OnDemand, host_count: usize, movers: Vec<Key>) -> HostMemory {
        let threshold_packets = match kind {
            OnDemand::Artifact => None,
            OnDemand::Paper { threshold_packets } => Some(threshold_packets),
        };
        HostMemory {
            threshold_packets,
            has_paid: vec![false; host_count],
            everywhere: if threshold_packets.is_none() {
                movers
            } else {
                Vec::new()
            },
            ..HostMemory::default()
        }
    }

    /// What a host that is about to send knows.
    pub(crate) fn ask(&mut self, host: u32, key: Key) -> Known {
        let known = self.known.get(&(host, key));
        if self.threshold_packets.is_some() {
            return known.map_or(Known::Nothing, |place| Known::At(*place));
        }
        if known.is_none() && !self.everywhere.contains(&key) {
            return Known::Nothing;
        }
        let has_paid = std::mem::replace(&mut self.has_paid[host as usize], true);
        Known::Shared(if has_paid { Time::ZERO } else { FIRST_PACKET })
    }

    /// A packet has come to a host, be it the right one or not.
    pub(crate) fn receive(&mut self, host: u32, here: Address, source: Key, destination: Key) {
        if self.threshold_packets.is_none() {
            self.known.insert((host, source), here);
            self.known.insert((host, destination), here);
        }
    }

    /// A gateway lets a packet of a host go, to where the machine is.
    pub(crate) fn resolve(&mut self, host: u32, key: Key, place: Address) {
        let Some(threshold) = self.threshold_packets else {
            return;
        };
        let count = self.counts.entry((host, key)).or_default();
        *count += 1;
        if *count >= threshold {
            self.known.insert((host, key), place);
        }
    }

    /// Hosts that know a machine hear where it is now.
    pub(crate) fn update(&mut self, key: Key, place: Address) {
        for ((_, known), at) in &mut self.known {
            if *known == key {
                *at = place;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use thalweg_v2p::Vni;

    use super::*;

    fn key(number: u32) -> Key {
        Key {
            vni: Vni::default(),
            address: address(number),
        }
    }

    fn address(number: u32) -> Address {
        Address::from_ipv4(number.into())
    }

    #[test]
    fn a_host_of_the_published_code_pays_once() {
        let mut memory = HostMemory::new(OnDemand::Artifact, 2, vec![key(9)]);
        assert_eq!(memory.ask(0, key(1)), Known::Nothing);
        memory.receive(0, address(70), key(1), key(2));
        let (first, then) = (Time::from_micros(40), Time::ZERO);
        assert_eq!(memory.ask(0, key(1)), Known::Shared(first));
        assert_eq!(memory.ask(0, key(1)), Known::Shared(then));
        assert_eq!(memory.ask(0, key(2)), Known::Shared(then));
        assert_eq!(memory.ask(1, key(1)), Known::Nothing);
        assert_eq!(memory.ask(1, key(9)), Known::Shared(first));
        // Gateways hand nothing out.
        memory.resolve(1, key(4), address(71));
        assert_eq!(memory.ask(1, key(4)), Known::Nothing);
    }

    #[test]
    fn a_host_of_the_paper_learns_from_gateways_and_is_told_of_moves() {
        let kind = OnDemand::Paper {
            threshold_packets: 2,
        };
        let mut memory = HostMemory::new(kind, 2, vec![key(9)]);
        assert_eq!(memory.ask(0, key(9)), Known::Nothing);
        memory.receive(0, address(70), key(1), key(2));
        assert_eq!(memory.ask(0, key(1)), Known::Nothing);
        memory.resolve(0, key(3), address(71));
        assert_eq!(memory.ask(0, key(3)), Known::Nothing);
        memory.resolve(0, key(3), address(71));
        assert_eq!(memory.ask(0, key(3)), Known::At(address(71)));
        assert_eq!(memory.ask(1, key(3)), Known::Nothing);
        memory.update(key(3), address(72));
        assert_eq!(memory.ask(0, key(3)), Known::At(address(72)));
    }
}
