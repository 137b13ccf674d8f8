//! Matches: the conditions of a rule, field by field.

use thalweg_packet::standard as f;
use thalweg_packet::{FieldId, Layout, standard};

/// A condition on one field: `field & mask == value`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Term {
    /// The field.
    pub field: FieldId,
    /// The bits it must have; zero outside the mask.
    pub value: u128,
    /// Which bits are compared; never zero.
    pub mask: u128,
}

/// The conditions of a rule; all must hold. Without any, every packet matches.
///
/// Terms are sorted by field and name each field once, so that equal matches are equal values.
///
/// ```
/// use thalweg_packet::standard::{ETH_TYPE, IP_DST};
/// use thalweg_pipeline::Match;
///
/// let mut matching = Match::default();
/// matching.add(ETH_TYPE, 0x0800, 0xffff)?;
/// matching.add(IP_DST, 0x0a00_0001, 0xffff_ff00)?; // bits outside the mask are ignored
/// assert_eq!(matching.terms()[1].value, 0x0a00_0000);
/// assert!(matching.add(ETH_TYPE, 0x0806, 0xffff).is_err()); // it cannot be both
/// # Ok::<(), thalweg_pipeline::Contradiction>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Match {
    terms: Vec<Term>,
}

/// Two conditions that no packet meets together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("conditions on one field contradict each other, so no packet can match")]
pub struct Contradiction {
    /// The field.
    pub field: FieldId,
}

impl Match {
    /// Adds a condition; narrows an existing one on the same field. One on a tunnel's option, even
    /// on none of its bits, needs the option, as in Open vSwitch.
    ///
    /// # Errors
    /// If the field would need two different values.
    pub fn add(&mut self, field: FieldId, value: u128, mask: u128) -> Result<(), Contradiction> {
        let value = value & mask;
        if let Some(number) = standard::tunnel_option_of(field) {
            self.add(standard::TUN_OPTIONS, 1 << number, 1 << number)?;
        }
        match self.terms.binary_search_by_key(&field, |term| term.field) {
            Ok(place) => {
                let term = &mut self.terms[place];
                if (term.value ^ value) & term.mask & mask != 0 {
                    return Err(Contradiction { field });
                }
                term.value |= value;
                term.mask |= mask;
            }
            Err(place) if mask != 0 => self.terms.insert(place, Term { field, value, mask }),
            Err(_) => {}
        }
        Ok(())
    }

    /// Sets a condition on some bits of a field, whatever was known of them.
    pub(crate) fn replace(&mut self, field: FieldId, value: u128, mask: u128) {
        let place = self.terms.binary_search_by_key(&field, |term| term.field);
        if let Ok(place) = place {
            self.terms[place].value &= !mask;
            self.terms[place].mask &= !mask;
            if self.terms[place].mask == 0 {
                self.terms.remove(place);
            }
        }
        self.add(field, value, mask)
            .expect("no condition on these bits is left");
    }

    /// The conditions, sorted by field.
    pub fn terms(&self) -> &[Term] {
        &self.terms
    }

    /// The condition on `field`, if there is one.
    pub fn term(&self, field: FieldId) -> Option<Term> {
        let place = self
            .terms
            .binary_search_by_key(&field, |term| term.field)
            .ok()?;
        Some(self.terms[place])
    }

    /// Creates an empty match with room for more conditions than most matches have.
    pub(crate) fn roomy() -> Match {
        Match {
            terms: Vec::with_capacity(16),
        }
    }

    /// Moves the conditions to memory of exactly their size.
    ///
    /// Shrinking in place would leave a hole behind each of half a million matches.
    /// Longer-lived allocations would settle in the holes and keep nearly all of the pages.
    pub(crate) fn compact(&mut self) {
        self.terms = self.terms.clone();
    }

    /// The match as words of a layout: value, then mask.
    ///
    /// # Panics
    /// If the layout lacks one of the fields.
    pub(crate) fn compile(&self, layout: &Layout) -> (Vec<u64>, Vec<u64>) {
        let (mut value, mut mask) = (vec![0; layout.words()], vec![0; layout.words()]);
        for term in &self.terms {
            assert!(
                layout.slot(term.field).is_some(),
                "the layout was made for this match"
            );
            layout.set(&mut value, term.field, term.value);
            layout.set(&mut mask, term.field, term.mask);
        }
        (value, mask)
    }

    /// The same for a rule: one that names no packet type matches packets that begin with Ethernet,
    /// if the layout tells them from others.
    ///
    /// # Panics
    /// If the layout lacks one of the fields.
    pub(crate) fn compile_rule(&self, layout: &Layout) -> (Vec<u64>, Vec<u64>) {
        let (value, mut mask) = self.compile(layout);
        if layout.slot(f::PACKET_TYPE).is_some() && self.term(f::PACKET_TYPE).is_none() {
            layout.set(&mut mask, f::PACKET_TYPE, u32::MAX.into());
        }
        (value, mask)
    }

    /// Rebuilds the match of a rule, as [`Match::compile_rule`] has written it.
    pub(crate) fn from_rule_words(layout: &Layout, value: &[u64], mask: &[u64]) -> Match {
        let mut matching = Match::from_words(layout, value, mask);
        let is_default = |term: &Term| term.field == f::PACKET_TYPE && term.value == 0;
        if matching.terms.iter().any(is_default) {
            let kept = matching.terms.iter().filter(|term| !is_default(term));
            matching.terms = kept.copied().collect();
        }
        matching
    }

    /// Rebuilds the match from words of a layout.
    pub(crate) fn from_words(layout: &Layout, value: &[u64], mask: &[u64]) -> Match {
        let terms = layout.fields_in(mask).map(|(field, mask)| {
            let value = layout
                .get(value, field)
                .expect("the field is in the layout")
                & mask;
            Term { field, value, mask }
        });
        Match {
            terms: terms.collect(),
        }
    }
}
