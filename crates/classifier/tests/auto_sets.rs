//! The index that an [`Auto`] chooses for filter sets like ClassBench's.
//!
//! It must be the fastest one there, by `thalweg bench classify`.

use std::collections::BTreeSet;
use std::sync::Arc;

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use thalweg_classifier::{
    Auto, AutoConfig, AutoPolicy, Classifier, IndexKind, LearnedConfig, Pattern, Precedence,
    RuleId, Selection, Tending, Version,
};
use thalweg_packet::{FieldId, Layout, standard};
use thalweg_workload::{Extra, Field, Profile, filter_rules, generate_filters};

const V1: Version = Version(1);
const FIELDS: [FieldId; 6] = [
    standard::ETH_TYPE,
    standard::IP_PROTO,
    standard::IP_SRC,
    standard::IP_DST,
    standard::TP_SRC,
    standard::TP_DST,
];

fn field_of(field: Field) -> FieldId {
    match field {
        Field::EthType => standard::ETH_TYPE,
        Field::IpProtocol => standard::IP_PROTO,
        Field::IpSrc => standard::IP_SRC,
        Field::IpDst => standard::IP_DST,
        Field::TcpSrc | Field::UdpSrc => standard::TP_SRC,
        Field::TcpDst | Field::UdpDst => standard::TP_DST,
        other => panic!("{other:?} is in no filter"),
    }
}

/// Loads a set, looks up keys of its rules, and tends until a choice was made.
fn chosen(profile: Profile, filters: usize) -> Auto {
    let layout = Layout::new(Arc::new(standard::fields()), &BTreeSet::from(FIELDS));
    let layout = layout.expect("it fits");
    let filters = generate_filters(profile, filters, 1);
    let rules = filter_rules(&filters, 0, Extra::Ignore, |_| Vec::new()).expect("it fits");
    let policy = AutoPolicy {
        // Much earlier than it pays, to save time.
        trial_ns_per_rule: 10.0,
        ..AutoPolicy::default()
    };
    let config = LearnedConfig::new(&layout, &FIELDS[2..], 1);
    let mut subject = Auto::new(AutoConfig::new(config, Selection::Measured(policy)));
    let mut patterns = Vec::new();
    for (number, rule) in rules.iter().enumerate() {
        let (mut value, mut mask) = (vec![0; layout.words()], vec![0; layout.words()]);
        for term in rule.matches.terms() {
            layout.set(&mut value, field_of(term.field), term.value);
            layout.set(&mut mask, field_of(term.field), term.mask);
        }
        let pattern = Pattern {
            value: &value,
            mask: &mask,
        };
        let precedence = Precedence::new(rule.priority, number as u64);
        subject.insert(pattern, precedence, RuleId(number as u32), V1);
        patterns.push((value, mask));
    }
    subject.reclaim(V1);
    assert_eq!(
        subject.kind(),
        IndexKind::MergedTuples,
        "there are many masks"
    );
    let mut random = Pcg64Mcg::seed_from_u64(2);
    for _ in 0..200_000 {
        let (value, mask) = &patterns[random.random_range(0..patterns.len())];
        let words = value.iter().zip(mask);
        let key: Vec<u64> = words
            .map(|(value, mask)| value | random.random::<u64>() & !mask)
            .collect();
        assert!(subject.lookup(&key, V1).is_some());
        match subject.tend(1_000) {
            Tending::Job(job) => subject.install(job.run()),
            Tending::More | Tending::Idle => {}
        }
    }
    subject
}

#[test]
fn sets_like_classbench_get_a_learned_index() {
    for (profile, filters) in [
        (Profile::Acl1, 10_000),
        (Profile::Fw1, 5_000),
        (Profile::Ipc1, 10_000),
    ] {
        let subject = chosen(profile, filters);
        let choice = subject.choice().expect("there is one");
        assert_eq!(
            subject.kind(),
            IndexKind::Learned,
            "{profile:?}: {choice:?}"
        );
        let learned = subject.learned().expect("it is one").statistics();
        assert!(learned.coverage() > 0.85, "{profile:?}: {learned:?}");
    }
}
