//! Indexes that are replaced while rules change, against the oracle.
//!
//! They are copied in slices of all lengths, built meanwhile, brought up to date, refused and
//! given up.

mod harness;

use harness::{Driver, WORDS, checks};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use thalweg_classifier::simd::Level;
use thalweg_classifier::{
    Auto, AutoConfig, AutoPolicy, BuiltIndex, Classifier, IndexJob, IndexKind, LearnedConfig,
    ModelKind, Pattern, Precedence, RuleId, Selection, Tending, TrainingPolicy, Version,
};
use thalweg_packet::Slot;

const V1: Version = Version(1);

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
fn learned(seed: u64) -> LearnedConfig {
    let levels = Level::available();
    LearnedConfig {
        model: [ModelKind::Pieces, ModelKind::Perceptrons][seed as usize % 2],
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

/// One single kind, the cheapest of all kinds, or the learned index by its own policy.
fn config(seed: u64) -> AutoConfig {
    let policy = AutoPolicy {
        rules_min: 2,
        samples_min: 0,
        gain_min_percent: 0,
        trial_ns_per_rule: 0.0,
    };
    let training = TrainingPolicy {
        rules_min: 2,
        updates_min: 4,
        coverage_kept_percent: 90,
    };
    let selection = match seed % 6 {
        0 => Selection::Learned(training),
        _ => Selection::Measured(policy),
    };
    let kinds = match seed % 6 {
        1 => vec![IndexKind::TupleSpace],
        2 => vec![IndexKind::MergedTuples],
        3 => vec![IndexKind::Bloom],
        4 => vec![IndexKind::Learned],
        _ => IndexKind::ALL.to_vec(),
    };
    AutoConfig {
        kinds,
        own_masks_max: [0, 4, 1000][seed as usize % 3],
        ..AutoConfig::new(learned(seed), selection)
    }
}

/// Does a step of the current work after each change.
struct Tender {
    auto: Auto,
    random: Pcg64Mcg,
    job: Option<IndexJob>,
    outcome: Option<BuiltIndex>,
}

impl Tender {
    fn new(config: AutoConfig, seed: u64) -> Tender {
        Tender {
            auto: Auto::new(config),
            random: Pcg64Mcg::seed_from_u64(seed),
            job: None,
            outcome: None,
        }
    }

    fn tend(&mut self) {
        match self.random.random_range(0..16) {
            0..6 if self.job.is_none() && self.outcome.is_none() => {
                let steps = [1, 1, 2, 5, 1_000][self.random.random_range(0..5)];
                if let Tending::Job(job) = self.auto.tend(steps) {
                    self.job = Some(job);
                }
            }
            6..9 => self.outcome = self.job.take().map(IndexJob::run).or(self.outcome.take()),
            9..12 => {
                if let Some(outcome) = self.outcome.take() {
                    self.auto.install(outcome);
                }
            }
            12 if self.job.is_some() => {
                self.job = None;
                self.auto.forget_job();
            }
            13 if self.job.is_none() && self.outcome.is_none() => self.auto.rebuild(),
            14 if self.job.is_none() && self.outcome.is_none() => self.auto.rebuild_now(),
            _ => {}
        }
    }
}

impl Classifier for Tender {
    fn insert(&mut self, pattern: Pattern<'_>, precedence: Precedence, id: RuleId, born: Version) {
        self.auto.insert(pattern, precedence, id, born);
        self.tend();
    }

    fn remove(&mut self, id: RuleId, died: Version) {
        self.auto.remove(id, died);
        self.tend();
    }

    fn lookup(&self, key: &[u64], version: Version) -> Option<RuleId> {
        self.auto.lookup(key, version)
    }

    fn lookup_examined(
        &self,
        key: &[u64],
        version: Version,
        examined: &mut [u64],
    ) -> Option<RuleId> {
        self.auto.lookup_examined(key, version, examined)
    }

    fn lookup_batch(&self, keys: &[u64], version: Version, answers: &mut [Option<RuleId>]) {
        self.auto.lookup_batch(keys, version, answers);
    }

    fn find(&self, pattern: Pattern<'_>, priority: u16) -> Option<RuleId> {
        self.auto.find(pattern, priority)
    }

    fn find_within(&self, pattern: Pattern<'_>, found: &mut Vec<RuleId>) {
        self.auto.find_within(pattern, found);
    }

    fn pattern(&self, id: RuleId) -> Option<(Vec<u64>, Vec<u64>)> {
        self.auto.pattern(id)
    }

    fn abort(&mut self, version: Version) {
        self.tend();
        self.auto.abort(version);
        self.tend();
    }

    fn reclaim(&mut self, oldest: Version) -> Vec<RuleId> {
        let freed = self.auto.reclaim(oldest);
        self.tend();
        freed
    }

    fn len(&self, version: Version) -> usize {
        self.auto.len(version)
    }

    fn memory_bytes(&self) -> usize {
        self.auto.memory_bytes()
    }

    fn choice(&self) -> Option<thalweg_classifier::AutoStatistics> {
        self.auto.choice()
    }
}

#[test]
fn indexes_are_replaced_while_rules_change() {
    let mut replaced = 0;
    for (seed, rules) in (0..).zip([3, 20, 60, 200, 20, 60, 20, 60, 60, 20, 20, 60, 60, 20, 60]) {
        println!("seed {seed}, {rules} rules");
        let tender = Tender::new(config(seed), seed);
        let mut driver = Driver::new(Box::new(tender), rules, seed);
        driver.run(checks() / 40);
        driver.clear();
        let statistics = driver.subject.choice().expect("there is a choice");
        replaced += statistics.replaced;
        println!("  {} of {} trials", statistics.replaced, statistics.trials);
    }
    assert!(
        replaced > checks() as u64 / 3_000,
        "the test replaced {replaced} indexes only"
    );
}

#[test]
fn many_rules_a_mask() {
    for seed in 0..6 {
        let tender = Tender::new(config(seed), seed);
        let mut driver = Driver::new(Box::new(tender), 500, seed).with_masks(4);
        driver.run(checks() / 100);
        driver.clear();
    }
}

/// A rule: value, mask, priority.
type Plain = (Vec<u64>, Vec<u64>, u16);

/// Rules of one exact field of 32 bits.
fn points(values: impl IntoIterator<Item = u64>) -> Vec<Plain> {
    let rule = |(number, point): (u64, u64)| {
        let (mut value, mut mask) = (vec![0; WORDS], vec![0; WORDS]);
        value[2] = point & 0xffff_ffff;
        mask[2] = 0xffff_ffff;
        (value, mask, (number % 7) as u16)
    };
    (0..).zip(values).map(rule).collect()
}

fn load(subject: &mut Auto, rules: &[Plain]) {
    for (number, rule) in rules.iter().enumerate() {
        insert(subject, rule, number as u32, number as u64, V1);
    }
    subject.reclaim(V1);
}

fn insert(subject: &mut Auto, rule: &Plain, id: u32, age: u64, born: Version) {
    let (value, mask, priority) = rule;
    let pattern = Pattern { value, mask };
    subject.insert(pattern, Precedence::new(*priority, age), RuleId(id), born);
}

fn trained_by(training: TrainingPolicy) -> Auto {
    let selection = Selection::Learned(training);
    Auto::new(AutoConfig::new(learned(3), selection))
}

/// Copies all rules, and returns the job.
fn job_of(subject: &mut Auto) -> IndexJob {
    subject.rebuild();
    match subject.tend(usize::MAX) {
        Tending::Job(job) => job,
        other => panic!("no job but {other:?}"),
    }
}

/// Installs an outcome, one rule at a time; returns the number of slices.
fn put_to_use(subject: &mut Auto, outcome: BuiltIndex) -> usize {
    subject.install(outcome);
    let mut slices = 1;
    while matches!(subject.tend(1), Tending::More) {
        slices += 1;
    }
    slices
}

/// Ids that are reused during a training, with other patterns or the same.
#[test]
fn ids_that_are_used_again_during_a_training() {
    let list = points((0..64).map(|index| index * 1_000));
    let mut subject = trained_by(TrainingPolicy::default());
    load(&mut subject, &list);
    let job = job_of(&mut subject);
    let version = Version(2);
    for id in 0..30 {
        subject.remove(RuleId(id), version);
    }
    assert_eq!(subject.reclaim(version).len(), 30);
    let key = |number: u32| &list[number as usize].0[..];
    for id in 0..10u32 {
        // The pattern of a neighbour, at the precedence that the id had.
        let mut rule = list[id as usize + 10].clone();
        rule.2 = list[id as usize].2;
        insert(&mut subject, &rule, id, id.into(), Version(3));
    }
    for id in 40..45 {
        subject.remove(RuleId(id), Version(3));
    }
    put_to_use(&mut subject, job.run());
    assert_eq!(subject.choice().map(|choice| choice.replaced), Some(1));
    // The rules that changed meanwhile were added to iSets one by one.
    assert_eq!(subject.figures().coverage, 1.0);
    for id in 0..10u32 {
        assert_eq!(subject.lookup(key(id + 10), Version(3)), Some(RuleId(id)));
        assert_eq!(subject.lookup(key(id + 10), version), None);
        assert_eq!(subject.lookup(key(id), Version(3)), None);
    }
    for id in 40..45u32 {
        assert_eq!(subject.lookup(key(id), version), Some(RuleId(id)));
        assert_eq!(subject.lookup(key(id), Version(3)), None);
    }
    assert_eq!(subject.len(Version(3)), 64 - 30 + 10 - 5);
    subject.abort(Version(3));
    assert_eq!(subject.lookup(key(41), Version(3)), Some(RuleId(41)));
    assert_eq!(subject.len(Version(3)), 64 - 30);
}

/// An id is reused with its precedence but another pattern, all settled.
///
/// Neither the job that knew the old pattern nor a later one may bring it back.
#[test]
fn what_an_id_was_before_does_not_come_back() {
    for is_late in [false, true] {
        let list = points((0..64).map(|index| index * 1_000));
        let mut subject = trained_by(TrainingPolicy::default());
        load(&mut subject, &list[..63]);
        let job = job_of(&mut subject);
        subject.remove(RuleId(7), Version(2));
        subject.reclaim(Version(2));
        let mut rule = list[63].clone();
        rule.2 = list[7].2;
        insert(&mut subject, &rule, 7, 7, Version(3));
        subject.reclaim(Version(3));
        let outcome = job.run();
        if is_late {
            subject.forget_job();
            subject.rebuild_now();
        }
        put_to_use(&mut subject, outcome);
        assert_eq!(subject.lookup(&list[7].0, Version(3)), None);
        assert_eq!(subject.lookup(&list[63].0, Version(3)), Some(RuleId(7)));
    }
}

/// A change is undone after the new index got it, and before that index is used.
#[test]
fn a_version_that_is_undone_while_catching_up() {
    let list = points((0..64).map(|index| index * 1_000));
    let mut subject = trained_by(TrainingPolicy::default());
    load(&mut subject, &list[..60]);
    let job = job_of(&mut subject);
    let next = Version(2);
    subject.remove(RuleId(5), next);
    insert(&mut subject, &list[61], 61, 61, next);
    insert(&mut subject, &list[62], 62, 62, next);
    subject.install(job.run());
    // The last two noted rules are brought up to date, then everything is undone.
    assert!(matches!(subject.tend(2), Tending::More));
    subject.abort(next);
    while matches!(subject.tend(1), Tending::More) {}
    assert_eq!(subject.choice().map(|choice| choice.replaced), Some(1));
    assert_eq!(subject.len(next), 60);
    assert_eq!(subject.lookup(&list[5].0, next), Some(RuleId(5)));
    assert_eq!(subject.lookup(&list[61].0, next), None);
    assert_eq!(subject.lookup(&list[62].0, next), None);
}

/// A slice works on as many rules as it is told, and no more.
#[test]
fn slices_are_bounded() {
    let list = points((0..1_000).map(|index| index * 1_000));
    let mut subject = trained_by(TrainingPolicy::default());
    load(&mut subject, &list[..800]);
    subject.rebuild();
    let mut copied = 1;
    let job = loop {
        match subject.tend(10) {
            Tending::More => copied += 1,
            Tending::Job(job) => break job,
            Tending::Idle => panic!("nothing was copied"),
        }
    };
    assert_eq!(copied, 10, "eighty ids are copied at a time");
    assert_eq!(job.rule_count(), 800);
    for (number, rule) in list.iter().enumerate().skip(800) {
        insert(&mut subject, rule, number as u32, number as u64, Version(2));
    }
    subject.reclaim(Version(2));
    assert_eq!(put_to_use(&mut subject, job.run()), 200);
    // All new rules lie behind the last start, whose bucket has room for a few groups.
    let coverage = subject.figures().coverage;
    assert!(coverage > 0.8 && coverage < 0.85, "{coverage}");
    let statistics = subject.choice().expect("there is a choice");
    assert_eq!(
        (statistics.trials, statistics.replaced, statistics.given_up),
        (1, 1, 0)
    );
}

#[test]
fn a_policy_asks_for_training_once_and_again() {
    let list = points((0..3_000).map(|index| index * 1_000));
    let mut subject = trained_by(TrainingPolicy::default());
    load(&mut subject, &list[..999]);
    assert!(matches!(subject.tend(1_000), Tending::Idle));
    let put = |subject: &mut Auto, number: usize| {
        insert(subject, &list[number], number as u32, number as u64, V1);
    };
    (999..1_500).for_each(|number| put(&mut subject, number));
    let Tending::Job(job) = subject.tend(1_000) else {
        panic!("there are enough rules");
    };
    assert_eq!(job.rule_count(), 1_500);
    assert!(
        matches!(subject.tend(1_000), Tending::Idle),
        "one at a time"
    );
    // The job was not run, so another is given.
    subject.forget_job();
    (1_500..2_500).for_each(|number| put(&mut subject, number));
    let Tending::Job(again) = subject.tend(1_000) else {
        panic!("a job that was not done is given again");
    };
    subject.install(job.run());
    assert_eq!(subject.figures().coverage, 0.0, "the job that was given up");
    put_to_use(&mut subject, again.run());
    assert_eq!(subject.figures().coverage, 1.0);
    (2_500..3_000).for_each(|number| put(&mut subject, number));
    assert!(matches!(subject.tend(1_000), Tending::Idle), "too soon");
    let statistics = subject.choice().expect("there is a choice");
    assert_eq!(
        (statistics.trials, statistics.replaced, statistics.given_up),
        (2, 1, 1)
    );
}

/// Rules that come during a training lie beside the resulting model.
///
/// However many they are, the next training is not compared with them.
#[test]
fn what_came_during_a_training_is_trained_next() {
    let list = points((0..3_000).map(|index| index * 1_000));
    let mut subject = trained_by(TrainingPolicy::default());
    load(&mut subject, &list[..1_500]);
    let Tending::Job(job) = subject.tend(1_000) else {
        panic!("there are enough rules");
    };
    for (number, rule) in list.iter().enumerate().skip(1_500) {
        insert(&mut subject, rule, number as u32, number as u64, Version(2));
    }
    subject.reclaim(Version(2));
    subject.install(job.run());
    while matches!(subject.tend(1_000), Tending::More) {}
    let coverage = subject.figures().coverage;
    assert!((0.5..0.6).contains(&coverage), "{coverage}");
    let Tending::Job(again) = subject.tend(1_000) else {
        panic!("half of the rules are beside the model");
    };
    assert_eq!(again.rule_count(), 3_000);
    put_to_use(&mut subject, again.run());
    assert_eq!(subject.figures().coverage, 1.0);
    assert!(matches!(subject.tend(1_000), Tending::Idle));
}

/// A training ignores rules that may still be undone, so it waits until enough are settled.
#[test]
fn rules_that_are_not_settled_are_not_trained() {
    let list = points((0..3_000).map(|index| index * 1_000));
    let mut subject = trained_by(TrainingPolicy::default());
    let put = |subject: &mut Auto, version| {
        for (number, rule) in list.iter().enumerate() {
            insert(subject, rule, number as u32, number as u64, version);
        }
        assert!(matches!(subject.tend(1_000), Tending::Idle));
    };
    put(&mut subject, Version(2));
    subject.abort(Version(2));
    subject.reclaim(Version(2));
    assert!(matches!(subject.tend(1_000), Tending::Idle));
    put(&mut subject, Version(3));
    subject.reclaim(Version(3));
    let Tending::Job(job) = subject.tend(1_000) else {
        panic!("they are settled");
    };
    assert_eq!(job.rule_count(), 3_000);
    put_to_use(&mut subject, job.run());
    assert_eq!(subject.figures().coverage, 1.0);
    assert!(matches!(subject.tend(1_000), Tending::Idle));
}

/// Prefixes of many lengths, as in access lists.
fn access_list(rules: u32, masks: u32, seed: u64) -> Vec<Plain> {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let rule = |number: u32| {
        let which = number % masks;
        let (source, destination) = (32 - which % 16, 32 - which / 16 % 16);
        let (mut value, mut mask) = (vec![0; WORDS], vec![0; WORDS]);
        mask[2] =
            (u64::MAX << (64 - source)) | (0xffff_ffff_u64 << (32 - destination) & 0xffff_ffff);
        value[2] = random.random::<u64>() & mask[2];
        (value, mask, 1 + (number % 97) as u16)
    };
    (0..rules).map(rule).collect()
}

/// Looks up keys of the rules `lookups` times, and tends; all answers equal those of merged
/// tuples.
fn use_it(subject: &mut Auto, rules: &[Plain], lookups: usize) {
    let mut random = Pcg64Mcg::seed_from_u64(5);
    let mut oracle = thalweg_classifier::MergedTuples::new(harness::config(9));
    for (number, (value, mask, priority)) in rules.iter().enumerate() {
        let precedence = Precedence::new(*priority, number as u64);
        oracle.insert(
            Pattern { value, mask },
            precedence,
            RuleId(number as u32),
            V1,
        );
    }
    let mut keys = Vec::new();
    for _ in 0..lookups / 32 {
        keys.clear();
        for _ in 0..32 {
            let (value, mask, _) = &rules[random.random_range(0..rules.len())];
            let noise = random.random::<u64>();
            keys.extend(
                value
                    .iter()
                    .zip(mask)
                    .map(|(value, mask)| value | noise & !mask),
            );
        }
        let (mut answers, mut expected) = ([None; 32], [None; 32]);
        subject.lookup_batch(&keys, V1, &mut answers);
        oracle.lookup_batch(&keys, V1, &mut expected);
        assert_eq!(answers, expected);
        match subject.tend(64) {
            Tending::Job(job) => subject.install(job.run()),
            Tending::More | Tending::Idle => {}
        }
    }
}

/// Rules that are removed and reinserted at once with another pattern, like repaired cache
/// entries.
#[test]
fn rules_change_what_they_match_at_once() {
    for seed in 0..12 {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let pool = access_list(600, 40, seed);
        let mut tender = Tender::new(config(seed), seed);
        let mut rules: Vec<Option<&Plain>> = vec![None; 300];
        for step in 0..checks() / 100 {
            let id = random.random_range(0..rules.len());
            if rules[id].take().is_some() {
                tender.auto.forget(RuleId(id as u32));
                tender.tend();
            }
            if step < rules.len() || random.random_ratio(9, 10) {
                let rule = &pool[random.random_range(0..pool.len())];
                rules[id] = Some(rule);
                insert(&mut tender.auto, rule, id as u32, id as u64, Version::FIRST);
                tender.tend();
            }
            let (value, mask, _) = &pool[random.random_range(0..pool.len())];
            let words = value.iter().zip(mask);
            let key: Vec<u64> = words
                .map(|(v, m)| v | random.random::<u64>() & !m)
                .collect();
            let expected = best_of(&rules, &key);
            let answer = tender.auto.lookup(&key, Version::FIRST);
            assert_eq!(answer, expected, "seed {seed}, step {step}");
            let count = rules.iter().flatten().count();
            assert_eq!(tender.auto.len(Version::FIRST), count);
        }
        for id in (0..rules.len()).filter(|id| rules[*id].is_some()) {
            assert!(tender.auto.knows(RuleId(id as u32)));
            tender.auto.forget(RuleId(id as u32));
        }
        assert_eq!(tender.auto.len(Version::FIRST), 0);
    }
}

/// The best rule that matches a key; a rule's place is its id and age.
fn best_of(rules: &[Option<&Plain>], key: &[u64]) -> Option<RuleId> {
    let rules = (0..)
        .zip(rules)
        .filter_map(|(id, rule)| Some((id, (*rule)?)));
    let matching = rules.filter(|(_, (value, mask, _))| {
        let mut words = key.iter().zip(mask).zip(value);
        words.all(|((key, mask), value)| key & mask == *value)
    });
    let best = matching.max_by_key(|&(id, (_, _, priority))| (*priority, std::cmp::Reverse(id)));
    best.map(|(id, _)| RuleId(id))
}

/// The default policy with comparisons at a tenth of the cost, to keep the test short.
fn measured() -> Auto {
    let policy = AutoPolicy {
        trial_ns_per_rule: 1_000.0,
        ..AutoPolicy::default()
    };
    let learned = LearnedConfig::with_fields(harness::config(9), fields());
    Auto::new(AutoConfig::new(learned, Selection::Measured(policy)))
}

#[test]
fn it_chooses_by_what_lookups_cost() {
    // Few rules stay a tuple space, whatever is looked up.
    let rules = access_list(900, 8, 1);
    let mut subject = measured();
    load(&mut subject, &rules);
    use_it(&mut subject, &rules, 200_000);
    assert_eq!(subject.kind(), IndexKind::TupleSpace);
    // Many rules with one mask stay one too: nothing beats one table.
    let rules = access_list(5_000, 1, 1);
    let mut subject = measured();
    load(&mut subject, &rules);
    use_it(&mut subject, &rules, 400_000);
    assert_eq!(subject.kind(), IndexKind::TupleSpace);
    // Many masks and rules of addresses become a learned index.
    let rules = access_list(8_000, 250, 1);
    let mut subject = measured();
    load(&mut subject, &rules);
    assert_eq!(subject.kind(), IndexKind::MergedTuples);
    use_it(&mut subject, &rules, 1_000_000);
    let statistics = subject.choice().expect("there is a choice");
    assert_eq!(subject.kind(), IndexKind::Learned, "{statistics:?}");
    assert!(statistics.figures.coverage > 0.5);
    // Exactly one change.
    assert_eq!((statistics.replaced, statistics.trials), (1, 1));
    // When most rules are gone, the index is of the initial kind again.
    for id in 300..8_000 {
        subject.remove(RuleId(id), Version(2));
    }
    subject.reclaim(Version(2));
    loop {
        match subject.tend(64) {
            Tending::Idle => break,
            Tending::More => {}
            Tending::Job(job) => subject.install(job.run()),
        }
    }
    assert_eq!(
        subject.kind(),
        IndexKind::MergedTuples,
        "what there was in the beginning"
    );
    assert_eq!(subject.len(Version(2)), 300);
}
