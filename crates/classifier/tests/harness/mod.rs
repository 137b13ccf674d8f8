//! Random rules, keys and changes, and the checks that every classifier must pass.
//!
//! ```text
//!   for ever: a change of a few inserts, removals and modifications, prepared for version + 1
//!             published or aborted; now and then the versions up to some older one reclaimed
//!             after each step, keys looked up at every version that may still be read:
//!                 the answer is Linear's
//!                 examined only grows, and flipping bits outside it leaves Linear's answer
//!                 a burst gives the same answers
//! ```

#![allow(dead_code)] // each test that includes this uses its own part

pub(crate) mod acl;
pub(crate) mod open_vswitch;

use rand::Rng;
use rand::seq::IndexedRandom;
use rand_pcg::Pcg64;
use thalweg_classifier::simd::Level;
use thalweg_classifier::{
    Classifier, Linear, Pattern, Precedence, RuleId, TupleSpaceConfig, Version,
};
use thalweg_packet::{Slot, Stage};
use thalweg_workload::IS_OPTIMISED;

/// The number of words of the keys below.
pub(crate) const WORDS: usize = 7;

const STAGES: [Stage; WORDS] = [
    Stage::Metadata,  // input port and metadata
    Stage::Link,      // an Ethernet address and a type
    Stage::Network,   // two IPv4 addresses
    Stage::Network,   // an IPv6 address,
    Stage::Network,   // continued
    Stage::Transport, // two ports and flags
    Stage::Metadata,  // a register
];

/// The two IPv4 addresses, the IPv6 address, and the second port.
pub(crate) fn prefix_fields() -> Vec<Slot> {
    let slot = |word, shift, width_bits| Slot {
        word,
        shift,
        width_bits,
    };
    vec![
        slot(2, 32, 32),
        slot(2, 0, 32),
        slot(3, 0, 128),
        slot(5, 32, 16),
    ]
}

/// A level of this processor; consecutive seeds go through all of them.
pub(crate) fn level(seed: u64) -> Level {
    let levels = Level::available();
    levels[seed as usize % levels.len()]
}

/// The tuple space configuration of these keys.
pub(crate) fn config(seed: u64) -> TupleSpaceConfig {
    TupleSpaceConfig {
        stages: STAGES.to_vec(),
        prefix_fields: prefix_fields(),
        seed,
    }
}

/// The number of lookups to check: `THALWEG_CHECKS`, or a default that a debug build does
/// quickly.
pub(crate) fn checks() -> usize {
    let asked = std::env::var("THALWEG_CHECKS").ok();
    let default = if IS_OPTIMISED { 300_000 } else { 6_000 };
    asked
        .and_then(|count| count.parse().ok())
        .unwrap_or(default)
}

/// The parts of a key that rules match: word, shift, width.
const FIELDS: [(usize, u32, u32); 10] = [
    (0, 32, 32),
    (0, 0, 16),
    (1, 16, 48),
    (1, 0, 16),
    (2, 32, 32),
    (2, 0, 32),
    (3, 0, 64),
    (5, 48, 16),
    (5, 32, 16),
    (6, 0, 64),
];

fn ones(width: u32) -> u64 {
    u64::MAX >> (64 - width)
}

/// A field's value, one of a few that share leading bits.
fn field_value(rng: &mut Pcg64, width: u32) -> u64 {
    let bases = [0, u64::MAX, 0xc0a8_0101_0a00_0001];
    let base = bases[rng.random_range(0..bases.len())] >> (64 - width);
    match rng.random_range(0..3) {
        0 => base,
        1 => base ^ rng.random_range(0..4),
        _ => base ^ 1 << rng.random_range(0..width),
    }
}

/// A field's mask: exact, a prefix, or any bits.
fn field_mask(rng: &mut Pcg64, width: u32) -> u64 {
    match rng.random_range(0..8) {
        0..3 => ones(width),
        3..7 => ones(width) & !(ones(width) >> rng.random_range(0..=width).min(63)),
        _ => rng.random::<u64>() & ones(width),
    }
}

/// A rule's value and mask.
pub(crate) fn random_pattern(rng: &mut Pcg64) -> (Vec<u64>, Vec<u64>) {
    let (mut value, mut mask) = (vec![0; WORDS], vec![0; WORDS]);
    let fields = rng.random_range(0..=4);
    for _ in 0..fields {
        let &(word, shift, width) = FIELDS.choose(rng).expect("there are fields");
        mask[word] |= field_mask(rng, width) << shift;
        if word == 3 && rng.random() {
            mask[4] |= field_mask(rng, 64);
        }
    }
    let key = random_key(rng);
    value
        .iter_mut()
        .zip(&mask)
        .zip(key)
        .for_each(|((value, mask), key)| *value = key & mask);
    (value, mask)
}

/// A key with one of a few values per field.
pub(crate) fn random_key(rng: &mut Pcg64) -> Vec<u64> {
    let mut key = vec![0; WORDS];
    for (word, shift, width) in FIELDS {
        key[word] |= field_value(rng, width) << shift;
    }
    key[4] = field_value(rng, 64);
    key
}

/// A key that matches a rule.
pub(crate) fn key_of(rng: &mut Pcg64, pattern: &(Vec<u64>, Vec<u64>)) -> Vec<u64> {
    let key = random_key(rng);
    let words = pattern.0.iter().zip(&pattern.1).zip(key);
    words
        .map(|((value, mask), key)| key & !mask | value)
        .collect()
}

/// Checks lookups of one key: the oracle's answer, and a sound mask.
///
/// Soundness is decided exactly, not sampled. If a mask is unsound, some key agrees with this
/// one on the examined bits and has another answer: it matches a better rule, or not the same
/// one. Then the key that takes every other bit from that rule, or flips one bit of the
/// answer, shows it too.
pub(crate) fn check_key(
    oracle: &Linear,
    subject: &dyn Classifier,
    key: &[u64],
    version: Version,
    rules: &[Known],
    rng: &mut Pcg64,
) {
    let expected = oracle.lookup(key, version);
    assert_eq!(
        subject.lookup(key, version),
        expected,
        "{key:x?} at {version}"
    );
    let before: Vec<u64> = match rng.random_range(0..4) {
        0 => key
            .iter()
            .map(|_| rng.random::<u64>() & rng.random::<u64>())
            .collect(),
        _ => vec![0; key.len()],
    };
    let mut examined = before.clone();
    let answer = subject.lookup_examined(key, version, &mut examined);
    assert_eq!(answer, expected, "{key:x?} at {version}, examined");
    let mut words = before.iter().zip(&examined);
    let is_grown = words.all(|(before, after)| before & !after == 0);
    assert!(is_grown, "examined shrank");
    for rule in rules {
        let (value, mask) = &rule.pattern;
        let words = key.iter().zip(value).zip(mask).zip(&examined);
        let towards = words
            .map(|(((key, value), mask), examined)| key & (examined | !mask) | value & !examined);
        let other: Vec<u64> = towards.collect();
        if (Pattern { value, mask }).matches(&other) {
            let answer = oracle.lookup(&other, version);
            assert_eq!(
                answer, expected,
                "{key:x?}, {other:x?}: {examined:x?} at {version}"
            );
        }
        if Some(rule.id) == expected {
            let mut words = mask.iter().zip(&examined);
            let is_examined = words.all(|(mask, examined)| mask & !examined == 0);
            assert!(is_examined, "the answer's mask is not examined");
        }
    }
    for _ in 0..4 {
        let noise = rng.random::<u64>();
        let words = key.iter().zip(&examined);
        let other: Vec<u64> = words
            .map(|(word, examined)| word ^ noise & !examined)
            .collect();
        let answer = oracle.lookup(&other, version);
        assert_eq!(
            answer, expected,
            "{key:x?}, {other:x?}: {examined:x?} at {version}"
        );
    }
}

/// Checks that a burst gives the same answers as single lookups.
pub(crate) fn check_batch(subject: &dyn Classifier, keys: &[Vec<u64>], version: Version) {
    let mut answers = vec![Some(RuleId(u32::MAX)); keys.len()];
    subject.lookup_batch(&keys.concat(), version, &mut answers);
    let single: Vec<_> = keys
        .iter()
        .map(|key| subject.lookup(key, version))
        .collect();
    assert_eq!(answers, single);
}

/// A rule as the driver remembers it.
#[derive(Clone)]
pub(crate) struct Known {
    pattern: (Vec<u64>, Vec<u64>),
    precedence: Precedence,
    id: RuleId,
    is_living: bool,
}

/// Drives a classifier and its oracle through versions.
pub(crate) struct Driver {
    rng: Pcg64,
    oracle: Linear,
    pub(crate) subject: Box<dyn Classifier>,
    published: Version,
    oldest: Version,
    rules: Vec<Known>,
    free_ids: Vec<RuleId>,
    ages: u64,
    rules_max: usize,
    /// If not empty, every rule has one of these masks.
    masks: Vec<Vec<u64>>,
}

impl Driver {
    /// Drives `subject`, which must be empty, with about `rules_max` rules.
    pub(crate) fn new(subject: Box<dyn Classifier>, rules_max: usize, seed: u64) -> Driver {
        Driver {
            rng: Pcg64::new(u128::from(seed), 0),
            oracle: Linear::new(WORDS),
            subject,
            published: Version::FIRST,
            oldest: Version::FIRST,
            rules: Vec::new(),
            // Ids return only when reclaimed, so there are more ids than rules.
            free_ids: (0..4 * rules_max as u32).map(RuleId).collect(),
            ages: 0,
            rules_max,
            masks: Vec::new(),
        }
    }

    /// Gives every rule one of `count` masks, so that each mask has many rules.
    pub(crate) fn with_masks(mut self, count: usize) -> Driver {
        let rng = &mut self.rng;
        self.masks = (0..count).map(|_| random_pattern(rng).1).collect();
        self
    }

    /// Changes and checks until about `checks` keys were checked.
    pub(crate) fn run(&mut self, checks: usize) {
        let mut done = 0;
        while done < checks {
            self.change();
            for version in self.oldest.0..=self.published.0 {
                done += self.check(Version(version), 6);
            }
            if self.rng.random_range(0..3) == 0 {
                let oldest = self.rng.random_range(self.oldest.0..=self.published.0);
                self.reclaim(Version(oldest));
            }
            if self.published.0 - self.oldest.0 > 6 {
                self.reclaim(self.published);
            }
        }
    }

    /// Removes all rules, and checks that nothing remains.
    pub(crate) fn clear(&mut self) {
        let next = self.published.next();
        for index in 0..self.rules.len() {
            self.remove(index, next);
        }
        self.published = next;
        self.reclaim(next);
        assert!(self.subject.is_empty(next));
        assert!(self.rules.is_empty());
    }

    fn change(&mut self) {
        let next = self.published.next();
        let before = self.rules.clone();
        for _ in 0..self.rng.random_range(1..=8) {
            self.step(next);
        }
        if self.rng.random_range(0..4) == 0 {
            self.check(next, 4);
        }
        if self.rng.random_range(0..4) == 0 {
            self.oracle.abort(next);
            self.subject.abort(next);
            let born = self.rules.split_off(before.len());
            self.free_ids.extend(born.into_iter().map(|rule| rule.id));
            self.rules = before;
        } else {
            self.published = next;
        }
    }

    fn step(&mut self, next: Version) {
        let living = self.rules.iter().filter(|rule| rule.is_living).count();
        if self.rng.random_range(0..2 * self.rules_max) >= living {
            let pattern = match self.rules.choose(&mut self.rng) {
                Some(rule) if self.rng.random_range(0..3) == 0 => rule.pattern.clone(),
                _ => self.pattern(),
            };
            self.ages += 1;
            let priority = self.rng.random_range(0..6);
            self.insert(pattern, Precedence::new(priority, self.ages), next);
            return;
        }
        let chosen = self.rng.random_range(0..self.rules.len());
        let rule = self.rules[chosen].clone();
        if !rule.is_living {
            return;
        }
        self.remove(chosen, next);
        if self.rng.random_range(0..4) == 0 {
            // A modification: the same pattern and precedence, under another id.
            self.insert(rule.pattern, rule.precedence, next);
        }
    }

    /// A new pattern, often with the mask of another rule.
    fn pattern(&mut self) -> (Vec<u64>, Vec<u64>) {
        let rng = &mut self.rng;
        let rule = self.rules.choose(rng).map(|rule| rule.pattern.1.clone());
        let mask = match self.masks.choose(rng) {
            Some(mask) => mask.clone(),
            None => match rule {
                Some(mask) if rng.random() => mask,
                _ => return random_pattern(rng),
            },
        };
        let key = random_key(rng);
        let words = mask
            .iter()
            .zip(key)
            .map(|(mask, few)| match rng.random_range(0..4) {
                0 => rng.random::<u64>() & mask,
                _ => few & mask,
            });
        (words.collect(), mask)
    }

    fn insert(&mut self, pattern: (Vec<u64>, Vec<u64>), precedence: Precedence, born: Version) {
        let Some(id) = self.free_ids.pop() else {
            return;
        };
        let borrowed = Pattern {
            value: &pattern.0,
            mask: &pattern.1,
        };
        self.oracle.insert(borrowed, precedence, id, born);
        self.subject.insert(borrowed, precedence, id, born);
        self.rules.push(Known {
            pattern,
            precedence,
            id,
            is_living: true,
        });
    }

    fn remove(&mut self, index: usize, died: Version) {
        let rule = &mut self.rules[index];
        if std::mem::replace(&mut rule.is_living, false) {
            self.oracle.remove(rule.id, died);
            self.subject.remove(rule.id, died);
        }
    }

    fn reclaim(&mut self, oldest: Version) {
        let mut expected = self.oracle.reclaim(oldest);
        let mut freed = self.subject.reclaim(oldest);
        expected.sort();
        freed.sort();
        assert_eq!(freed, expected);
        self.rules.retain(|rule| !freed.contains(&rule.id));
        self.free_ids.extend(freed);
        self.oldest = oldest;
    }

    fn check(&mut self, version: Version, keys: usize) -> usize {
        assert_eq!(self.subject.len(version), self.oracle.len(version));
        let mut burst = Vec::new();
        for _ in 0..keys {
            let key = match self.rules.choose(&mut self.rng) {
                Some(rule) if self.rng.random_range(0..3) > 0 => {
                    key_of(&mut self.rng, &rule.pattern)
                }
                _ => random_key(&mut self.rng),
            };
            let (oracle, subject) = (&self.oracle, &*self.subject);
            check_key(oracle, subject, &key, version, &self.rules, &mut self.rng);
            burst.push(key);
        }
        if self.rng.random_range(0..8) == 0 {
            let rng = &mut self.rng;
            burst.extend((0..rng.random_range(0..70)).map(|_| random_key(rng)));
        }
        check_batch(&*self.subject, &burst, version);
        self.check_patterns();
        keys
    }

    fn check_patterns(&mut self) {
        let Some(rule) = self.rules.choose(&mut self.rng) else {
            return;
        };
        assert_eq!(self.subject.pattern(rule.id), Some(rule.pattern.clone()));
        let pattern = Pattern {
            value: &rule.pattern.0,
            mask: &rule.pattern.1,
        };
        let priority = rule.precedence.priority();
        assert_eq!(
            self.subject.find(pattern, priority),
            self.oracle.find(pattern, priority)
        );
        assert_eq!(self.subject.find(pattern, 999), None);
        assert_eq!(self.subject.pattern(RuleId(u32::MAX)), None);
        self.check_within();
    }

    /// Checks `find_within` with a rule's pattern, of which some mask bits are left out.
    fn check_within(&mut self) {
        let rng = &mut self.rng;
        let Some(rule) = self.rules.choose(rng) else {
            return;
        };
        let (mut value, mut mask) = rule.pattern.clone();
        let kept = rng.random_range(0..4);
        for (value, mask) in value.iter_mut().zip(&mut mask) {
            // Keeps its words unchanged, their prefixes, or nothing.
            *mask &= match kept {
                0 => u64::MAX,
                1 => u64::MAX << rng.random_range(0..64),
                2 => u64::MAX * u64::from(rng.random::<bool>()),
                _ => 0,
            };
            *value &= *mask;
        }
        let pattern = Pattern {
            value: &value,
            mask: &mask,
        };
        let found = |classifier: &dyn Classifier| {
            let mut found = vec![RuleId(u32::MAX)];
            classifier.find_within(pattern, &mut found);
            found.sort_unstable();
            found
        };
        assert_eq!(found(&*self.subject), found(&self.oracle));
    }
}
