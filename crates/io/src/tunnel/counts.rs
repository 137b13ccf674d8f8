//! Why packets did not go through tunnels, counted.

use std::sync::atomic::{AtomicU64, Ordering};

use thalweg_tunnel::DecapsulateError;

macro_rules! causes {
    ($($(#[doc = $doc:literal])* $cause:ident => $name:literal;)*) => {
        /// Why a packet was not put into a tunnel or not handed on from one, beside malformed
        /// headers ([`DecapsulateError`]).
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[non_exhaustive]
        pub enum TunnelCause {
            $($(#[doc = $doc])* $cause,)*
        }

        impl TunnelCause {
            /// Every cause, in the order of its number.
            pub const ALL: &[TunnelCause] = &[$(TunnelCause::$cause),*];

            /// The name of the cause, as its counter has it.
            pub const fn name(self) -> &'static str {
                match self { $(TunnelCause::$cause => $name),* }
            }
        }
    };
}

causes! {
    /// No port takes a received packet, by its addresses and key.
    NoPort => "no_port";
    /// A message of GTP-U without a packet.
    Message => "gtpu_message";
    /// The outer packet met congestion, and the inner one cannot say so.
    Congestion => "congestion";
    /// A critical option of Geneve is not mapped, or an option has another length than its field.
    Options => "options";
    /// The bytes of a received packet go beyond all room.
    Cut => "cut";
    /// Neither the port nor the packet names a destination.
    NoDestination => "no_destination";
    /// A packet that came out of a tunnel has this host as its destination still.
    OwnAddress => "own_address";
    /// The source and the destination of a packet are of different families.
    MixedFamilies => "mixed_families";
    /// The tunnel cannot carry the packet, or the values do not fit its header.
    Encapsulation => "encapsulation";
    /// The tunnel is native, and the datapath may not carry such tunnels.
    NativeOff => "native_off";
    /// There is no way to the destination.
    NoRoute => "no_route";
    /// The MAC address of the next hop is not known; it was asked for.
    NoNeighbor => "no_neighbor";
    /// Too many packets wait for the bridge or the port that a packet goes to next.
    QueueFull => "queue_full";
    /// The outer packet is longer than the way to the destination allows.
    TooLong => "too_long";
}

/// Counters of all devices of a hub.
#[derive(Debug, Default)]
pub(super) struct TunnelCounters {
    malformed: [AtomicU64; DecapsulateError::ALL.len()],
    causes: [AtomicU64; TunnelCause::ALL.len()],
    /// Options that were left out: they are longer than fields can have.
    long_options: AtomicU64,
}

impl TunnelCounters {
    pub(super) fn add_malformed(&self, error: DecapsulateError) {
        let place = DecapsulateError::ALL.iter().position(|one| *one == error);
        if let Some(counter) = place.and_then(|place| self.malformed.get(place)) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn add(&self, cause: TunnelCause) {
        self.causes[cause as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn add_long_options(&self, count: u64) {
        self.long_options.fetch_add(count, Ordering::Relaxed);
    }

    /// The counters that are not zero, by name.
    pub(super) fn list(&self) -> Vec<(&'static str, u64)> {
        let malformed = DecapsulateError::ALL.iter().map(|error| error.name());
        let malformed = malformed.zip(&self.malformed);
        let causes = TunnelCause::ALL.iter().map(|cause| cause.name());
        let causes = causes.zip(&self.causes);
        let all = malformed
            .chain(causes)
            .chain([("long_options", &self.long_options)]);
        let counts = all.map(|(name, counter)| (name, counter.load(Ordering::Relaxed)));
        counts.filter(|(_, count)| *count > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_has_its_own_counter_and_name() {
        let counters = TunnelCounters::default();
        assert!(counters.list().is_empty());
        for (index, cause) in TunnelCause::ALL.iter().enumerate() {
            assert_eq!(*cause as usize, index);
            counters.add(*cause);
        }
        for error in DecapsulateError::ALL {
            counters.add_malformed(*error);
        }
        counters.add_long_options(1);
        let mut listed = counters.list();
        assert!(listed.iter().all(|(_, count)| *count == 1));
        listed.sort_unstable();
        listed.dedup();
        let known = TunnelCause::ALL.len() + DecapsulateError::ALL.len() + 1;
        assert_eq!(listed.len(), known);
    }
}
