//! The learned index against the oracle, with hostile rules.
//!
//! `auto.rs` tests training while rules change.

mod harness;

use std::cell::Cell;
use std::rc::Rc;

use harness::WORDS;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use thalweg_classifier::simd::Level;
use thalweg_classifier::{
    Classifier, Learned, LearnedConfig, Linear, ModelKind, Pattern, Precedence, RuleId, Version,
};
use thalweg_packet::Slot;

const V1: Version = Version(1);
const MODELS: [ModelKind; 2] = [ModelKind::Pieces, ModelKind::Perceptrons];

/// Every field of the harness's keys, and two that overlap them.
fn fields() -> Vec<Slot> {
    let slot = |(word, shift, width_bits)| Slot {
        word,
        shift,
        width_bits,
    };
    let fields = [
        (0, 32, 32),
        (0, 0, 16),
        (1, 16, 48),
        (1, 0, 16),
        (2, 32, 32),
        (2, 0, 32),
        (3, 0, 128),
        (5, 48, 16),
        (5, 32, 16),
        (6, 0, 64),
    ];
    fields.map(slot).to_vec()
}

/// A configuration in which any few rules make an iSet.
fn config(seed: u64) -> LearnedConfig {
    let levels = Level::available();
    LearnedConfig {
        model: MODELS[seed as usize % MODELS.len()],
        isets_max: 1 + seed as usize % 4,
        iset_rules_min: 1,
        coverage_min_percent: 0,
        is_cost_ignored: true,
        bucket_max: [1, 3, 8, 20][seed as usize / 2 % 4],
        copies_max: [1, 5, 100][seed as usize % 3],
        level: levels[seed as usize % levels.len()],
        ..LearnedConfig::with_fields(harness::config(seed), fields())
    }
}

/// A rule: value, mask, priority.
type Plain = (Vec<u64>, Vec<u64>, u16);

/// Inserts rules in the given order, which is their age.
fn load(subject: &mut dyn Classifier, rules: &[Plain]) {
    for (number, (value, mask, priority)) in rules.iter().enumerate() {
        let precedence = Precedence::new(*priority, number as u64);
        let id = RuleId(number as u32);
        subject.insert(Pattern { value, mask }, precedence, id, V1);
    }
    subject.reclaim(V1);
}

fn random_key(random: &mut Pcg64Mcg) -> Vec<u64> {
    (0..WORDS).map(|_| random.random()).collect()
}

/// Loads rules, trains, and compares with the oracle at keys in, near and far from the rules.
fn check(rules: &[Plain], config: LearnedConfig, covered_min: usize) -> Learned {
    let mut learned = Learned::new(config);
    let mut oracle = Linear::new(WORDS);
    load(&mut learned, rules);
    load(&mut oracle, rules);
    learned.train_now();
    let covered = learned.statistics().covered;
    assert!(
        covered >= covered_min,
        "{covered} of {} are covered",
        rules.len()
    );
    let mut random = Pcg64Mcg::seed_from_u64(1);
    let mut keys = Vec::new();
    for _ in 0..250 {
        let (value, mask, _) = rules.choose(&mut random).expect("there are rules");
        let noise = random_key(&mut random);
        let words = value.iter().zip(mask).zip(noise);
        let mut key: Vec<u64> = words
            .map(|((value, mask), noise)| value | noise & !mask)
            .collect();
        match random.random_range(0..4) {
            // A neighbour: one more or one less in some word that the rule reads.
            0 => {
                let word = random.random_range(0..WORDS);
                key[word] = key[word].wrapping_add(1 << mask[word].trailing_zeros().min(63));
            }
            1 => {
                let word = random.random_range(0..WORDS);
                key[word] = key[word].wrapping_sub(1 << mask[word].trailing_zeros().min(63));
            }
            _ => {}
        }
        keys.push(key);
    }
    keys.push(vec![0; WORDS]);
    keys.push(vec![u64::MAX; WORDS]);
    for key in &keys {
        let expected = oracle.lookup(key, V1);
        assert_eq!(learned.lookup(key, V1), expected, "{key:x?}");
        let mut examined = vec![0; WORDS];
        assert_eq!(learned.lookup_examined(key, V1, &mut examined), expected);
        for _ in 0..4 {
            let words = key.iter().zip(&examined);
            let other: Vec<u64> = words
                .map(|(word, mask)| word ^ random.random::<u64>() & !mask)
                .collect();
            assert_eq!(oracle.lookup(&other, V1), expected, "{examined:x?}");
        }
    }
    harness::check_batch(&learned, &keys, V1);
    for (number, (value, mask, priority)) in rules.iter().enumerate().take(200) {
        let id = RuleId(number as u32);
        assert_eq!(learned.pattern(id), Some((value.clone(), mask.clone())));
        let pattern = Pattern { value, mask };
        assert_eq!(
            learned.find(pattern, *priority),
            oracle.find(pattern, *priority)
        );
    }
    learned
}

/// Rules of one exact field: an address of 32 bits, or of 128 bits if `wide`.
fn points(values: impl IntoIterator<Item = u128>, wide: bool) -> Vec<Plain> {
    let rule = |(number, point): (u64, u128)| {
        let (mut value, mut mask) = (vec![0; WORDS], vec![0; WORDS]);
        if wide {
            (value[3], value[4]) = ((point >> 64) as u64, point as u64);
            (mask[3], mask[4]) = (u64::MAX, u64::MAX);
        } else {
            value[2] = point as u64 & 0xffff_ffff;
            mask[2] = 0xffff_ffff;
        }
        (value, mask, (number % 7) as u16)
    };
    (0..).zip(values).map(rule).collect()
}

/// Lists of numbers that are hard for a model.
fn hard_lists() -> Vec<(&'static str, Vec<u128>)> {
    let mut random = Pcg64Mcg::seed_from_u64(5);
    let most = u128::from(u32::MAX);
    let mut clusters = Vec::new();
    for _ in 0..40 {
        let base = u128::from(random.random::<u32>());
        let step = 1u128 << random.random_range(0..8);
        clusters.extend((0..50).map(|index| (base + index * step) & most));
    }
    vec![
        ("dense", (0..2_000).collect()),
        ("at the end", (0..2_000).map(|index| most - index).collect()),
        (
            "one gap",
            (0..1_000)
                .chain((0..1_000).map(|index| most - index))
                .collect(),
        ),
        (
            "powers",
            (0..32)
                .flat_map(|bit| [(1 << bit) - 1, 1 << bit, (1 << bit) + 1])
                .collect(),
        ),
        ("clusters", clusters),
        ("one", vec![most / 3]),
        ("the ends", vec![0, most]),
        (
            "squares",
            (0..2_000).map(|index| index * index * 7).collect(),
        ),
        (
            "random",
            (0..2_000)
                .map(|_| u128::from(random.random::<u32>()))
                .collect(),
        ),
    ]
}

#[test]
fn numbers_that_are_hard_to_follow() {
    for (name, mut list) in hard_lists() {
        list.sort_unstable();
        list.dedup();
        let wide = list.iter().map(|point| point << 96 | point);
        let rules = [points(list.clone(), false), points(wide, true)];
        for (rules, seed) in rules.into_iter().zip(0..) {
            for model in MODELS {
                for bucket_max in [1, 16] {
                    println!("{name}, {model:?}, {bucket_max}");
                    let config = LearnedConfig {
                        model,
                        bucket_max,
                        copies_max: 1,
                        ..config(seed)
                    };
                    check(&rules, config, rules.len());
                }
            }
        }
    }
}

/// Addresses that are equal except for the last bits.
#[test]
fn neighbors_of_128_and_of_48_bits() {
    let base = 0x2001_0db8_1234_5678_9abc_def0_1234_0000_u128;
    let wide = points((0..3_000).map(|index| base + index), true);
    let mut ethernet = points([], false);
    for index in 0..3_000 {
        let (mut value, mut mask) = (vec![0; WORDS], vec![0; WORDS]);
        value[1] = (0x0200_5e00_0000 + index) << 16;
        mask[1] = 0xffff_ffff_ffff << 16;
        ethernet.push((value, mask, 1));
    }
    for rules in [wide, ethernet] {
        for model in MODELS {
            let config = LearnedConfig {
                model,
                bucket_max: 1,
                ..config(0)
            };
            let learned = check(&rules, config, rules.len());
            let window = learned.statistics().isets[0].window;
            assert!(
                window < 100,
                "neighbors are not told apart: a window of {window}"
            );
        }
    }
}

/// Address pairs, each with the prefixes of port ranges: the port separates the rules.
#[test]
fn port_ranges_do_not_ruin_coverage() {
    let mut rules = Vec::new();
    for pair in 0..100u64 {
        for length in 1..=16u32 {
            for low in [0, 0x4000_u64] {
                let (mut value, mut mask) = (vec![0; WORDS], vec![0; WORDS]);
                let bits = 0xffff_u64 >> (16 - length) << (16 - length);
                value[2] = (0x0a00_0000 + pair * 256) << 32 | 0xc0a8_0101;
                mask[2] = u64::MAX;
                value[5] = (low & bits | pair) << 32 & bits << 32;
                mask[5] = bits << 32;
                rules.push((value, mask, 1));
            }
        }
    }
    let config = LearnedConfig::with_fields(harness::config(1), fields());
    let config = LearnedConfig {
        iset_rules_min: 1,
        is_cost_ignored: true,
        ..config
    };
    let rules_count = rules.len();
    check(&rules, config, rules_count * 8 / 10);
}

#[test]
fn all_levels_give_the_same_answers() {
    let mut random = Pcg64Mcg::seed_from_u64(3);
    let clusters = hard_lists().swap_remove(4).1;
    let rules = points(clusters, false);
    let keys: Vec<Vec<u64>> = (0..500)
        .map(|_| {
            let (value, mask, _) = rules.choose(&mut random).expect("there are rules");
            let noise = random_key(&mut random);
            let words = value.iter().zip(mask).zip(noise);
            words
                .map(|((value, mask), noise)| value ^ noise & (!mask | 1))
                .collect()
        })
        .collect();
    for model in MODELS {
        let mut all = Vec::new();
        for level in Level::available() {
            let config = LearnedConfig {
                model,
                level,
                ..config(1)
            };
            let mut learned = Learned::new(config);
            load(&mut learned, &rules);
            learned.train_now();
            let mut answers = vec![None; keys.len()];
            learned.lookup_batch(&keys.concat(), V1, &mut answers);
            assert!(answers.iter().filter(|answer| answer.is_some()).count() > 200);
            all.push(answers);
        }
        assert!(all.windows(2).all(|pair| pair[0] == pair[1]));
    }
}

/// Points of one field that also match other bits, under `masks` different masks.
fn masked_points(count: u64, masks: u64, random: &mut Pcg64Mcg) -> Vec<Plain> {
    let masks: Vec<u64> = (0..masks).map(|_| random.random()).collect();
    let numbers = (0..count).map(|number| u128::from(number) << 8);
    let mut rules = points(numbers, false);
    for (value, mask, _) in &mut rules {
        mask[1] = *masks.choose(random).expect("there are masks");
        value[1] = random.random::<u64>() & mask[1];
    }
    rules
}

/// Few masks, and too many to be numbered, in all compared words; and new masks after the
/// training.
#[test]
fn masks_are_few_or_many() {
    let mut random = Pcg64Mcg::seed_from_u64(6);
    for level in Level::available() {
        for masks in [1, 10, 16, 25, 31, 32, 40, 200] {
            let config = LearnedConfig { level, ..config(1) };
            let mut rules = masked_points(400, masks, &mut random);
            let mut learned = check(&rules, config, 400);
            let bytes = learned.statistics().isets[0].bucket_bytes;
            // Each new rule has its own mask, while there are numbers.
            let others = masked_points(300, 300, &mut random);
            let mut oracle = Linear::new(WORDS);
            load(&mut oracle, &rules);
            for (number, (value, mask, priority)) in (400..).zip(&others) {
                let precedence = Precedence::new(*priority, number);
                for subject in [&mut learned as &mut dyn Classifier, &mut oracle] {
                    let id = RuleId(number as u32);
                    subject.insert(Pattern { value, mask }, precedence, id, V1);
                }
            }
            let covered = learned.statistics().covered;
            assert!((400..=700).contains(&covered), "{covered}");
            // With one mask the new rules read bits that are not packed.
            if (10..=16).contains(&masks) {
                assert!(covered > 400, "there were numbers left");
            }
            assert_eq!(learned.statistics().isets[0].bucket_bytes, bytes);
            rules.extend(others);
            for (value, mask, _) in &rules {
                let key: Vec<u64> = value
                    .iter()
                    .zip(mask)
                    .map(|(value, mask)| value | random.random::<u64>() & !mask)
                    .collect();
                assert_eq!(learned.lookup(&key, V1), oracle.lookup(&key, V1));
            }
            learned.train_now();
            for (value, ..) in &rules {
                assert_eq!(learned.lookup(value, V1), oracle.lookup(value, V1));
            }
        }
    }
}

/// One pattern, hundreds of times: no field separates the rules.
#[test]
fn rules_that_are_all_equal() {
    for seed in 0..24 {
        let mut rules = points(std::iter::repeat_n(7, 300), seed % 2 == 1);
        rules.extend(points([6, 8], seed % 2 == 1));
        check(&rules, config(seed), 0);
    }
}

/// The widest possible keys.
///
/// Some rules read as many words as are packed; others read one more and are in no iSet.
#[test]
fn the_widest_keys() {
    const WIDE: usize = thalweg_packet::MAX_WORDS;
    for (read, is_covered) in [(1, true), (16, true), (17, false), (WIDE, false)] {
        let mut random = Pcg64Mcg::seed_from_u64(read as u64);
        let mut learned = Learned::new(LearnedConfig {
            is_cost_ignored: true,
            ..LearnedConfig::flat(WIDE, 1)
        });
        let mut oracle = Linear::new(WIDE);
        let rules: Vec<Plain> = (0..200)
            .map(|number| {
                let (mut value, mut mask) = (vec![0; WIDE], vec![0; WIDE]);
                for word in WIDE - read..WIDE {
                    (value[word], mask[word]) = (random.random(), u64::MAX);
                }
                (value, mask, number % 5)
            })
            .collect();
        load(&mut learned, &rules);
        load(&mut oracle, &rules);
        learned.train_now();
        let covered = learned.statistics().covered;
        assert_eq!(covered, if is_covered { rules.len() } else { 0 }, "{read}");
        for (value, mask, _) in &rules {
            let words = value.iter().zip(mask);
            let mut key: Vec<u64> = words
                .map(|(value, mask)| value | random.random::<u64>() & !mask)
                .collect();
            assert!(learned.lookup(&key, V1).is_some());
            assert_eq!(learned.lookup(&key, V1), oracle.lookup(&key, V1));
            key[WIDE - 1] ^= 1 << random.random_range(0..64);
            assert_eq!(learned.lookup(&key, V1), oracle.lookup(&key, V1));
        }
    }
}

/// No field has a prefix mask: all rules stay in the remainder, and answers are right.
#[test]
fn rules_that_no_iset_covers() {
    let mut random = Pcg64Mcg::seed_from_u64(4);
    let rules: Vec<Plain> = (0..300)
        .map(|_| {
            let (mut value, mut mask) = (vec![0; WORDS], vec![0; WORDS]);
            mask[2] = random.random::<u64>() & 0x0000_ffff_0000_ffff;
            value[2] = random.random::<u64>() & mask[2];
            (value, mask, random.random_range(0..5))
        })
        .collect();
    let config = LearnedConfig::with_fields(harness::config(1), fields());
    let learned = check(&rules, config, 0);
    assert_eq!(learned.statistics().covered, 0);
    assert!(learned.statistics().isets.is_empty());
}

/// Memory follows the rules, and is given back, across trainings.
#[test]
fn memory_follows_the_rules() {
    let list = points((0..2_000).map(|index| index * 1_000), false);
    let mut learned = Learned::new(config(3));
    load(&mut learned, &list);
    learned.train_now();
    let before = learned.memory_bytes();
    assert!(before < 2_000 * 200, "{before} bytes");
    for round in 1..20u64 {
        for id in 0..500u32 {
            learned.remove(RuleId(id), Version(2 * round));
        }
        assert_eq!(learned.reclaim(Version(2 * round)).len(), 500);
        for (id, (value, mask, priority)) in (0..500u32).zip(&list) {
            let precedence = Precedence::new(*priority, round * 1_000 + u64::from(id));
            let pattern = Pattern { value, mask };
            learned.insert(pattern, precedence, RuleId(id), Version(2 * round + 1));
        }
        learned.reclaim(Version(2 * round + 1));
        learned.train_now();
        assert_eq!(learned.statistics().covered, 2_000);
        let bytes = learned.memory_bytes();
        assert!(
            bytes < before * 2,
            "round {round}: {bytes} bytes, {before} before"
        );
    }
    let fresh = Learned::new(config(3)).memory_bytes();
    (0..2_000).for_each(|id| learned.remove(RuleId(id), Version(99)));
    assert_eq!(learned.reclaim(Version(99)).len(), 2_000);
    assert!(learned.memory_bytes() <= fresh + 2_000);
}

/// A learned index that is trained now and then, and counts later inserts into iSets.
struct Trained {
    learned: Learned,
    random: Pcg64Mcg,
    in_place: Rc<Cell<usize>>,
}

impl Classifier for Trained {
    fn insert(&mut self, pattern: Pattern<'_>, precedence: Precedence, id: RuleId, born: Version) {
        let before = self.learned.statistics().covered;
        self.learned.insert(pattern, precedence, id, born);
        let more = self.learned.statistics().covered - before;
        self.in_place.set(self.in_place.get() + more);
    }

    fn remove(&mut self, id: RuleId, died: Version) {
        self.learned.remove(id, died);
    }

    fn lookup(&self, key: &[u64], version: Version) -> Option<RuleId> {
        self.learned.lookup(key, version)
    }

    fn lookup_examined(
        &self,
        key: &[u64],
        version: Version,
        examined: &mut [u64],
    ) -> Option<RuleId> {
        self.learned.lookup_examined(key, version, examined)
    }

    fn lookup_batch(&self, keys: &[u64], version: Version, answers: &mut [Option<RuleId>]) {
        self.learned.lookup_batch(keys, version, answers);
    }

    fn find(&self, pattern: Pattern<'_>, priority: u16) -> Option<RuleId> {
        self.learned.find(pattern, priority)
    }

    fn find_within(&self, pattern: Pattern<'_>, found: &mut Vec<RuleId>) {
        self.learned.find_within(pattern, found);
    }

    fn pattern(&self, id: RuleId) -> Option<(Vec<u64>, Vec<u64>)> {
        self.learned.pattern(id)
    }

    fn abort(&mut self, version: Version) {
        self.learned.abort(version);
    }

    fn reclaim(&mut self, oldest: Version) -> Vec<RuleId> {
        let freed = self.learned.reclaim(oldest);
        if self.random.random_range(0..25) == 0 {
            self.learned.train_now();
        }
        freed
    }

    fn len(&self, version: Version) -> usize {
        self.learned.len(version)
    }

    fn memory_bytes(&self) -> usize {
        self.learned.memory_bytes()
    }
}

/// Rules inserted after a training, and all their fates: undone, modified, replaced.
#[test]
fn rules_come_into_isets_between_trainings() {
    let in_place = Rc::new(Cell::new(0));
    for seed in 0..24 {
        let trained = Trained {
            learned: Learned::new(config(seed)),
            random: Pcg64Mcg::seed_from_u64(seed),
            in_place: in_place.clone(),
        };
        let rules = [20, 60, 200, 500][seed as usize % 4];
        let driver = harness::Driver::new(Box::new(trained), rules, seed);
        let masks = [0, 3, 8][seed as usize % 3];
        let mut driver = match masks {
            0 => driver,
            _ => driver.with_masks(masks),
        };
        driver.run(harness::checks() / 60);
        driver.clear();
    }
    let in_place = in_place.get();
    assert!(
        in_place > harness::checks() / 300,
        "{in_place} rules came into iSets only"
    );
}

/// Removed rules come back, with their old age or younger, without a training.
#[test]
fn coverage_stays_while_rules_come_and_go() {
    let list = points((0..4_000).map(|index| index * 1_000), false);
    let mut learned = Learned::new(config(3));
    load(&mut learned, &list);
    learned.train_now();
    assert_eq!(learned.statistics().covered, 4_000);
    let bytes = learned.memory_bytes();
    let mut version = V1;
    for round in 1..30u64 {
        let ids = (0..400u32).map(|id| (id * 11 + round as u32 * 13) % 4_000);
        version = version.next();
        let all = ids.clone();
        all.for_each(|id| learned.remove(RuleId(id), version));
        learned.reclaim(version);
        version = version.next();
        for (id, younger) in ids.zip(10_000..) {
            let (value, mask, priority) = &list[id as usize];
            // In the last round they are younger: there are vacant slots for that many.
            let age = if round < 29 { id } else { younger };
            let precedence = Precedence::new(*priority, age.into());
            learned.insert(Pattern { value, mask }, precedence, RuleId(id), version);
        }
        learned.reclaim(version);
        assert_eq!(learned.statistics().covered, 4_000, "round {round}");
    }
    assert!(learned.memory_bytes() < bytes * 2);
}

#[test]
#[should_panic(expected = "rule id in use")]
fn an_id_is_used_once() {
    let list = points([1, 2, 3], false);
    let mut learned = Learned::new(config(3));
    load(&mut learned, &list);
    learned.train_now();
    assert_eq!(learned.statistics().covered, 3);
    let (value, mask, _) = &list[0];
    learned.insert(
        Pattern { value, mask },
        Precedence::new(1, 9),
        RuleId(1),
        V1,
    );
}

#[test]
#[should_panic(expected = "settled")]
fn what_is_settled_is_not_aborted() {
    let mut learned = Learned::new(config(1));
    learned.reclaim(Version(3));
    learned.abort(Version(3));
}
