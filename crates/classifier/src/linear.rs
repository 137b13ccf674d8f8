//! The oracle: one list of rules, best first, searched from the top.
//!
//! It is slow and obvious on purpose. Its mask is the union of the masks of all rules visited,
//! down to the matching one. Two keys that agree on those bits fail and match the same rules.

use crate::{Classifier, Pattern, Precedence, RuleId, Version};

/// A classifier that searches all rules in order of precedence.
///
/// ```
/// use thalweg_classifier::{Classifier, Linear, Pattern, Precedence, RuleId, Version};
///
/// let mut rules = Linear::new(1);
/// let v1 = Version::FIRST.next();
/// let ssh = Pattern { value: &[22], mask: &[0xffff] };
/// rules.insert(ssh, Precedence::new(10, 0), RuleId(7), v1);
/// assert_eq!(rules.lookup(&[0x9_0016], v1), Some(RuleId(7)));
/// assert_eq!(rules.lookup(&[0x9_0016], Version::FIRST), None); // not born yet
/// ```
#[derive(Clone, Debug)]
pub struct Linear {
    words: usize,
    /// The rules, best first.
    rules: Vec<Rule>,
    /// The latest `oldest` passed to `reclaim`.
    oldest: Version,
}

#[derive(Clone, Debug)]
struct Rule {
    value: Box<[u64]>,
    mask: Box<[u64]>,
    precedence: Precedence,
    id: RuleId,
    born: Version,
    died: Version,
}

impl Linear {
    /// Creates an empty classifier for keys of `words` words.
    pub fn new(words: usize) -> Linear {
        Linear {
            words,
            rules: Vec::new(),
            oldest: Version::FIRST,
        }
    }
}

impl Rule {
    fn exists_at(&self, version: Version) -> bool {
        self.born <= version && version < self.died
    }

    fn pattern(&self) -> Pattern<'_> {
        Pattern {
            value: &self.value,
            mask: &self.mask,
        }
    }
}

impl Classifier for Linear {
    fn insert(&mut self, pattern: Pattern<'_>, precedence: Precedence, id: RuleId, born: Version) {
        pattern.check(self.words);
        assert!(
            self.rules.iter().all(|rule| rule.id != id),
            "rule id in use"
        );
        let place = self
            .rules
            .partition_point(|rule| rule.precedence >= precedence);
        let rule = Rule {
            value: pattern.value.into(),
            mask: pattern.mask.into(),
            precedence,
            id,
            born,
            died: Version::NEVER,
        };
        self.rules.insert(place, rule);
    }

    fn remove(&mut self, id: RuleId, died: Version) {
        let is_it = |rule: &&mut Rule| rule.id == id && rule.died == Version::NEVER;
        let rule = self.rules.iter_mut().find(is_it);
        let rule = rule.expect("the caller names a living rule");
        assert!(rule.born <= died, "a death before the birth");
        rule.died = died;
    }

    fn lookup(&self, key: &[u64], version: Version) -> Option<RuleId> {
        let mut rules = self.rules.iter().filter(|rule| rule.exists_at(version));
        rules
            .find(|rule| rule.pattern().matches(key))
            .map(|rule| rule.id)
    }

    fn lookup_examined(
        &self,
        key: &[u64],
        version: Version,
        examined: &mut [u64],
    ) -> Option<RuleId> {
        for rule in self.rules.iter().filter(|rule| rule.exists_at(version)) {
            for (examined, mask) in examined.iter_mut().zip(&rule.mask) {
                *examined |= mask;
            }
            if rule.pattern().matches(key) {
                return Some(rule.id);
            }
        }
        None
    }

    fn find(&self, pattern: Pattern<'_>, priority: u16) -> Option<RuleId> {
        let is_it = |rule: &&Rule| {
            rule.died == Version::NEVER
                && rule.precedence.priority() == priority
                && rule.pattern() == pattern
        };
        self.rules.iter().find(is_it).map(|rule| rule.id)
    }

    fn find_within(&self, pattern: Pattern<'_>, found: &mut Vec<RuleId>) {
        let is_within =
            |rule: &&Rule| rule.died == Version::NEVER && pattern.contains(&rule.pattern());
        found.extend(self.rules.iter().filter(is_within).map(|rule| rule.id));
    }

    fn pattern(&self, id: RuleId) -> Option<(Vec<u64>, Vec<u64>)> {
        let rule = self.rules.iter().find(|rule| rule.id == id)?;
        Some((rule.value.to_vec(), rule.mask.to_vec()))
    }

    fn abort(&mut self, version: Version) {
        assert!(
            version > self.oldest,
            "{version} is settled and cannot be aborted"
        );
        self.rules.retain(|rule| rule.born != version);
        for rule in self.rules.iter_mut().filter(|rule| rule.died == version) {
            rule.died = Version::NEVER;
        }
    }

    fn reclaim(&mut self, oldest: Version) -> Vec<RuleId> {
        self.oldest = self.oldest.max(oldest);
        let freed = self.rules.extract_if(.., |rule| rule.died <= oldest);
        freed.map(|rule| rule.id).collect()
    }

    fn len(&self, version: Version) -> usize {
        self.rules
            .iter()
            .filter(|rule| rule.exists_at(version))
            .count()
    }

    fn memory_bytes(&self) -> usize {
        let per_rule = std::mem::size_of::<Rule>() + 2 * self.words * std::mem::size_of::<u64>();
        self.rules.len() * per_rule
    }
}
