//! Open vSwitch's un-wildcarding, written slowly: the bits that it would examine.
//!
//! This is the baseline for the masks' width. It follows `classifier_lookup__`,
//! `find_match_wc` and `check_tries` of `lib/classifier.c` over plain lists, with priorities
//! in place of precedences, and with the ports trie of each sub-table whose last stage has
//! ports.

use thalweg_classifier::TupleSpaceConfig;

/// A rule: value, mask, priority.
pub(crate) type Rule = (Vec<u64>, Vec<u64>, u16);

/// The rules by mask, best sub-table first.
pub(crate) struct OpenVswitch {
    config: TupleSpaceConfig,
    /// The word whose upper half holds both ports.
    ports_word: usize,
    subtables: Vec<Vec<Rule>>,
}

/// A trie's answer: the lengths of the matching prefixes, and the number of bits that show it.
struct TrieAnswer {
    lengths: Vec<u32>,
    bits: u32,
}

impl OpenVswitch {
    pub(crate) fn new(
        config: TupleSpaceConfig,
        ports_word: usize,
        rules: Vec<Rule>,
    ) -> OpenVswitch {
        let mut by_mask = std::collections::BTreeMap::<Vec<u64>, Vec<Rule>>::new();
        for rule in rules {
            by_mask.entry(rule.1.clone()).or_default().push(rule);
        }
        let mut subtables: Vec<Vec<Rule>> = by_mask.into_values().collect();
        subtables.sort_by_key(|rules| std::cmp::Reverse(best(rules)));
        OpenVswitch {
            config,
            ports_word,
            subtables,
        }
    }

    /// The priority of the found rule, and the examined bits.
    pub(crate) fn lookup(&self, key: &[u64]) -> (Option<u16>, Vec<u64>) {
        let mut examined = vec![0; key.len()];
        let mut tries: Vec<Option<TrieAnswer>> = Vec::new();
        tries.resize_with(self.config.prefix_fields.len(), || None);
        let mut hard: Option<u16> = None;
        for rules in &self.subtables {
            if best(rules) <= hard {
                break;
            }
            let found = self.find(rules, key, &mut tries, &mut examined);
            hard = hard.max(found);
        }
        (hard, examined)
    }

    fn find(
        &self,
        rules: &[Rule],
        key: &[u64],
        tries: &mut [Option<TrieAnswer>],
        examined: &mut [u64],
    ) -> Option<u16> {
        let mask = &rules[0].1;
        let mut stages: Vec<Vec<usize>> = vec![Vec::new(); 4];
        for word in (0..mask.len()).filter(|&word| mask[word] != 0) {
            stages[self.config.stages[word] as usize].push(word);
        }
        stages.retain(|words| !words.is_empty());
        let mut so_far: Vec<usize> = Vec::new();
        for words in &stages {
            if self.check_tries(words, mask, key, tries, examined) {
                so_far.iter().for_each(|&word| examined[word] |= mask[word]);
                return None;
            }
            so_far.extend(words);
            let begins = |rule: &Rule| so_far.iter().all(|&w| key[w] & mask[w] == rule.0[w]);
            if !rules.iter().any(begins) {
                let is_last = so_far.len() == mask.iter().filter(|&&mask| mask != 0).count();
                let narrowed = if is_last {
                    self.narrow_ports(rules, key)
                } else {
                    u64::MAX
                };
                for &word in &so_far {
                    let bits = if word == self.ports_word {
                        narrowed
                    } else {
                        u64::MAX
                    };
                    examined[word] |= mask[word] & bits;
                }
                return None;
            }
        }
        so_far.iter().for_each(|&word| examined[word] |= mask[word]);
        let is_match = |rule: &&Rule| {
            mask.iter()
                .zip(key)
                .zip(&rule.0)
                .all(|((m, k), v)| k & m == *v)
        };
        rules.iter().filter(is_match).map(|rule| rule.2).max()
    }

    fn check_tries(
        &self,
        words: &[usize],
        mask: &[u64],
        key: &[u64],
        tries: &mut [Option<TrieAnswer>],
        examined: &mut [u64],
    ) -> bool {
        for (number, slot) in self.config.prefix_fields.iter().enumerate() {
            let field = |words: &[u64]| {
                let start = usize::from(slot.word);
                let width = u32::from(slot.width_bits);
                match width {
                    0..=64 => u128::from(words[start] >> slot.shift) << (128 - width),
                    _ => {
                        (u128::from(words[start]) << 64 | u128::from(words[start + 1]))
                            << (128 - width)
                    }
                }
            };
            let length = prefix_length(field(mask));
            if length == 0 || !words.contains(&usize::from(slot.word)) {
                continue;
            }
            let answer = tries[number].get_or_insert_with(|| {
                let rules = self.subtables.iter().flatten();
                let prefixes = rules.map(|rule| (field(&rule.0), prefix_length(field(&rule.1))));
                trie_lookup(prefixes.filter(|prefix| prefix.1 > 0).collect(), field(key))
            });
            if answer.lengths.contains(&length) {
                continue;
            }
            let parts: Vec<(usize, u64)> = (0..answer.bits)
                .map(|bit| slot.position((u32::from(slot.width_bits) - 1 - bit) as u16))
                .map(|(word, shift)| (word, 1 << shift))
                .collect();
            if answer.bits <= length {
                parts.iter().for_each(|&(word, bit)| examined[word] |= bit);
                return true;
            }
            if parts.iter().all(|&(word, bit)| examined[word] & bit != 0) {
                return true;
            }
        }
        false
    }

    /// The bits of the ports word that show that no rule has these ports.
    fn narrow_ports(&self, rules: &[Rule], key: &[u64]) -> u64 {
        let mask = rules[0].1[self.ports_word];
        if mask >> 32 == 0 {
            return u64::MAX;
        }
        let length = 32 - (mask >> 32).trailing_zeros();
        let left = |word: u64| u128::from(word & mask & !u64::from(u32::MAX)) << 64;
        let ports = rules
            .iter()
            .map(|rule| (left(rule.0[self.ports_word]), length));
        let answer = trie_lookup(ports.collect(), left(key[self.ports_word]));
        !u64::MAX.checked_shr(answer.bits).unwrap_or(0) | u64::from(u32::MAX)
    }
}

fn best(rules: &[Rule]) -> Option<u16> {
    rules.iter().map(|rule| rule.2).max()
}

fn prefix_length(mask: u128) -> u32 {
    let length = mask.leading_ones();
    if mask.count_ones() == length {
        length
    } else {
        0
    }
}

fn trie_lookup(prefixes: Vec<(u128, u32)>, value: u128) -> TrieAnswer {
    let common = |prefix: &(u128, u32)| (prefix.0 ^ value).leading_zeros().min(prefix.1);
    let deepest = prefixes.iter().map(common).max().unwrap_or(0);
    let is_open = prefixes
        .iter()
        .any(|prefix| common(prefix) == deepest && prefix.1 > deepest);
    let matching = prefixes.iter().filter(|prefix| common(prefix) == prefix.1);
    TrieAnswer {
        lengths: matching.map(|prefix| prefix.1).collect(),
        bits: deepest + u32::from(is_open),
    }
}
