//! Numbers the places in which fragments wait.
//!
//! A `ct` holds the fragments of a packet until the last has come, and then all go on with the
//! list that the last one met. So only fragments that do the same from the `ct` on may wait for
//! each other. The number of a place is a hash of that: what the tracker is asked, the effects
//! that follow, and the continuations that they lead to.
//!
//! 1. Two equal numbers mean the same rest of the list and equal continuations (but for a
//!    collision of 64-bit hashes). The number does not depend on the numbers of continuations,
//!    which differ between workers.
//!
//! Cost: one hash of the whole list, for each walk that meets a `ct`.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use super::Continuation;
use crate::effect::Effect;

/// Numbers the places of a list and of all lists in it; returns a hash of the list.
pub(super) fn number_places(effects: &mut [Effect], continuations: &[Arc<Continuation>]) -> u64 {
    // Of what follows.
    let mut rest = 0;
    for effect in effects.iter_mut().rev() {
        let mut hasher = DefaultHasher::new();
        rest.hash(&mut hasher);
        std::mem::discriminant(effect).hash(&mut hasher);
        match &mut *effect {
            Effect::Clone(nested) => number_places(nested, continuations).hash(&mut hasher),
            Effect::ByLength {
                limit_bytes,
                longer,
                others,
            } => {
                limit_bytes.hash(&mut hasher);
                for list in [longer, others] {
                    number_places(list, continuations).hash(&mut hasher);
                }
            }
            Effect::Recirculate(number) => {
                continuations[*number as usize].hash(&mut hasher); // Invariant 1.
            }
            Effect::LearnRule {
                rule,
                outcomes: Some((with, without)),
            } => {
                rule.hash(&mut hasher);
                for number in [with, without] {
                    continuations[*number as usize].hash(&mut hasher); // Invariant 1.
                }
            }
            other => other.hash(&mut hasher),
        }
        rest = hasher.finish();
        if let Effect::Track(request) = effect {
            Arc::make_mut(request).place = rest;
        }
    }
    rest
}

#[cfg(test)]
mod tests {
    use thalweg_conntrack::TrackRequest;
    use thalweg_packet::PortId;

    use super::*;

    fn leading_to(queue: u32) -> Arc<Continuation> {
        Arc::new(Continuation {
            queue,
            ..Continuation::default()
        })
    }

    fn track(zone: u16) -> Effect {
        Effect::Track(Arc::new(TrackRequest {
            zone,
            ..TrackRequest::default()
        }))
    }

    /// The places of a list's `ct`s, those of its copies included.
    fn places(mut effects: Vec<Effect>, continuations: &[Arc<Continuation>]) -> Vec<u64> {
        fn of(effects: &[Effect], places: &mut Vec<u64>) {
            for effect in effects {
                match effect {
                    Effect::Track(request) => places.push(request.place),
                    effect => effect.lists().for_each(|nested| of(nested, places)),
                }
            }
        }
        number_places(&mut effects, continuations);
        let mut places = Vec::new();
        of(&effects, &mut places);
        places
    }

    #[test]
    fn what_is_asked_and_what_follows_make_a_place() {
        let fork = |number| Effect::Clone([Effect::Recirculate(number)].into());
        let output = |port| Effect::Output(PortId(port));
        let lists: [Vec<Effect>; 7] = [
            vec![track(1)],
            vec![track(2)],
            vec![track(1), output(1)],
            vec![track(1), output(2)],
            vec![track(1), fork(0)],
            vec![track(1), fork(1)],
            vec![track(1), fork(1), output(1)],
        ];
        let continuations = [leading_to(0), leading_to(1)];
        let numbers = lists.map(|list| places(list, &continuations)[0]);
        for (index, number) in numbers.iter().enumerate() {
            assert!(!numbers[..index].contains(number), "{index}");
        }
        // What came before, and how continuations are numbered, does not count.
        let before = vec![Effect::DecTtl, output(7), track(1), fork(0)];
        assert_eq!(
            places(before, &[leading_to(1), leading_to(0)]),
            [numbers[5]]
        );
    }

    #[test]
    fn a_copy_ends_with_its_list() {
        let copy = |effects: Vec<Effect>| Effect::Clone(effects.into());
        let alone = places(vec![track(1)], &[]);
        let nested = places(
            vec![copy(vec![track(1)]), track(1), Effect::Output(PortId(1))],
            &[],
        );
        assert_eq!(nested[0], alone[0]);
        assert_ne!(nested[1], alone[0]);
    }
}
