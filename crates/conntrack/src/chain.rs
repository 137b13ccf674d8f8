//! Lists of slots in the order they were added, without an allocation for each member.
//!
//! A list is a ring: its head is a link like those of its members. So a member is taken out
//! without knowing its list, and one array holds many lists.
//!
//! 1. A slot is in at most one list of a `Chains`.
//! 2. A link that is in no list points to itself.

/// Several lists over one range of slots.
#[derive(Debug)]
pub(crate) struct Chains {
    /// The heads, then one link for each slot.
    links: Vec<Link>,
    heads: u32,
}

/// The neighbours in a ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    previous: u32,
    next: u32,
}

impl Chains {
    /// As many lists as `heads`, and no slot.
    pub(crate) fn new(heads: u32) -> Chains {
        let links = (0..heads).map(Link::alone).collect();
        Chains { links, heads }
    }

    /// Makes room for one more slot, the next in number.
    pub(crate) fn add_slot(&mut self) {
        self.links.push(Link::alone(self.links.len() as u32));
    }

    /// Adds a slot, which is in no list, to the end of a list.
    pub(crate) fn push_back(&mut self, head: u32, slot: u32) {
        let at = self.heads + slot;
        debug_assert_eq!(self.links[at as usize].next, at, "the slot is in no list");
        let last = self.links[head as usize].previous;
        self.links[at as usize] = Link {
            previous: last,
            next: head,
        };
        self.links[last as usize].next = at;
        self.links[head as usize].previous = at;
    }

    /// Takes a slot out of its list; whether it was in one.
    pub(crate) fn unlink(&mut self, slot: u32) -> bool {
        let at = self.heads + slot;
        let Link { previous, next } = self.links[at as usize];
        self.links[previous as usize].next = next;
        self.links[next as usize].previous = previous;
        self.links[at as usize] = Link::alone(at);
        next != at
    }

    /// Whether a slot is in a list.
    #[cfg(test)]
    pub(crate) fn has(&self, slot: u32) -> bool {
        let at = self.heads + slot;
        self.links[at as usize].next != at
    }

    /// The first slot of a list.
    pub(crate) fn front(&self, head: u32) -> Option<u32> {
        let next = self.links[head as usize].next;
        (next != head).then(|| next - self.heads)
    }
}

impl Link {
    fn alone(at: u32) -> Link {
        Link {
            previous: at,
            next: at,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The twin is a queue per list.
        #[test]
        fn lists_keep_their_order(steps in prop::collection::vec((0..3_u32, 0..6_u32), 0..60)) {
            let mut chains = Chains::new(3);
            let mut twin: [VecDeque<u32>; 3] = Default::default();
            (0..6).for_each(|_| chains.add_slot());
            for (head, slot) in steps {
                let was_linked = twin.iter().any(|list| list.contains(&slot));
                prop_assert_eq!(chains.unlink(slot), was_linked);
                twin.iter_mut().for_each(|list| list.retain(|member| *member != slot));
                if !was_linked {
                    chains.push_back(head, slot);
                    twin[head as usize].push_back(slot);
                }
                for head in 0..3 {
                    prop_assert_eq!(chains.front(head), twin[head as usize].front().copied());
                }
            }
        }
    }
}
