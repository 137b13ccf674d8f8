//! Conjunctive matches, compared with two slow twins: the definition, which looks at every
//! rule, and a table in which each match is written out as the product of its dimensions.

use std::collections::BTreeMap;

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use thalweg_packet::{FieldId, Instant, Layout, PortId, standard as f};
use thalweg_pipeline::{
    Action, Change, ClassifierKind, Config, Effect, Flow, Match, Operation, Output, Pipeline,
    PortState, RuleId, Selector, StepKind, TableId, Walker, translate,
};

/// Fields that rules match, and how many of their bits vary.
const FIELDS: [(FieldId, u16); 3] = [(f::IP_SRC, 4), (f::IP_DST, 4), (f::TP_DST, 3)];

/// Ids of conjunctive matches; each has an output port above [`PLAIN_PORTS`].
const IDS: u32 = 3;

/// Ports that rules without conjunctions send to.
const PLAIN_PORTS: u32 = 20;

const TABLE: TableId = TableId(0);

fn pipeline(classifier: ClassifierKind) -> Pipeline {
    let mut pipeline = Pipeline::new(Config {
        classifier,
        ..Config::default()
    });
    let state = PortState {
        is_up: true,
        floods: true,
        forwards: true,
        peer: None,
    };
    let ports = 1..=PLAIN_PORTS + IDS;
    let operations = ports.map(|port| Operation::SetPort(PortId(port), state));
    let change = Change {
        operations: operations.collect(),
    };
    apply(&mut pipeline, &change);
    pipeline
}

fn apply(pipeline: &mut Pipeline, change: &Change) {
    let applied = pipeline.apply(change, Instant::ZERO);
    applied.expect("the test's rules can be loaded");
}

/// Conditions on some bits of up to two fields that packets have.
fn random_match(random: &mut Pcg64Mcg) -> Match {
    let mut matching = Match::default();
    for _ in 0..random.random_range(0..3) {
        let (field, width) = FIELDS[random.random_range(0..FIELDS.len())];
        let ones = (1_u128 << width) - 1;
        let mask = match random.random_range(0..3) {
            0 => ones,
            1 => ones & !(ones >> random.random_range(0..width)),
            _ => random.random_range(0..=ones),
        };
        // A contradiction leaves the first condition.
        let _ = matching.add(field, random.random_range(0..=ones), mask);
    }
    matching
}

fn output(port: u32) -> Action {
    Action::Output(Output::Port(PortId(port)))
}

/// One to three conjunctions, now and then with a note.
fn random_conjunctions(random: &mut Pcg64Mcg) -> Vec<Action> {
    let one = |random: &mut Pcg64Mcg| {
        let clauses = 2 + u8::from(random.random_ratio(1, 4));
        Action::Conjunction {
            id: random.random_range(0..=IDS),
            clause: random.random_range(1..=clauses),
            clauses,
        }
    };
    let count = random.random_range(1..4);
    let mut actions: Vec<Action> = (0..count).map(|_| one(random)).collect();
    if random.random_ratio(1, 8) {
        actions.insert(0, Action::Note([1].into()));
    }
    actions
}

fn random_flow(random: &mut Pcg64Mcg) -> Flow {
    let mut matching = random_match(random);
    let (is_clause, has_id) = (random.random_ratio(2, 3), random.random_ratio(1, 2));
    // A clause that matches on `conj_id` is useless, but possible.
    if has_id && (!is_clause || random.random_ratio(1, 10)) {
        let id = random.random_range(0..=IDS);
        let added = matching.add(f::CONJ_ID, id.into(), u32::MAX.into());
        added.expect("there is no other condition on it");
    }
    let actions = match is_clause {
        true => random_conjunctions(random),
        false => vec![output(random.random_range(1..=PLAIN_PORTS))],
    };
    Flow {
        table: TABLE,
        priority: random.random_range(0..3) + u16::from(is_clause),
        matching,
        actions: actions.into(),
        ..Flow::default()
    }
}

/// A change of one rule: new, with other actions, or gone.
fn random_change(random: &mut Pcg64Mcg, pipeline: &Pipeline) -> Change {
    let known: Vec<RuleId> = pipeline
        .rules(pipeline.version())
        .map(|(id, _)| id)
        .collect();
    let known = known.get(random.random_range(0..=known.len())).copied();
    let Some(flow) = known.and_then(|id| pipeline.flow_of(id)) else {
        return Change::adding([random_flow(random)]);
    };
    let other = random_flow(random);
    let selector = Selector {
        table: Some(TABLE),
        matching: flow.matching.clone(),
        strict_priority: Some(flow.priority),
        ..Selector::default()
    };
    match random.random_range(0..4) {
        0 => Change::adding([other]),
        1 => Change::one(Operation::Delete(selector)),
        2 => Change::one(Operation::Modify(selector, other.actions)),
        // The same rule thrice in one change, a clause or not.
        _ => Change::adding([
            Flow {
                actions: other.actions,
                ..flow.clone()
            },
            Flow {
                actions: random_flow(random).actions,
                ..flow.clone()
            },
            flow,
        ]),
    }
}

fn random_key(random: &mut Pcg64Mcg, layout: &Layout) -> Vec<u64> {
    let mut key = vec![0; layout.ingress_words()];
    for (field, width) in FIELDS {
        if layout.slot(field).is_some() {
            layout.set(&mut key, field, random.random_range(0..1_u128 << width));
        }
    }
    key
}

/// The best rule that is no clause, by age among those of a priority.
fn best_plain(pipeline: &Pipeline, key: &[u64], id: u32) -> Option<RuleId> {
    let matching = matching_rules(pipeline, key, id);
    let plain = matching.into_iter().filter(|id| !pipeline.is_clause(*id));
    plain.max_by_key(|id| pipeline.rule(*id).expect("it is there").precedence)
}

/// All rules that match a key with this `conj_id`, by looking at all there are.
fn matching_rules(pipeline: &Pipeline, key: &[u64], id: u32) -> Vec<RuleId> {
    let layout = pipeline.layout();
    let mut words = key.to_vec();
    words.resize(layout.words(), 0);
    if layout.slot(f::CONJ_ID).is_some() {
        layout.set(&mut words, f::CONJ_ID, id.into());
    }
    let rules = pipeline.rules(pipeline.version());
    let matches = rules.filter(|(id, _)| {
        let (value, mask) = pipeline.words_of(*id).expect("it is there");
        let mut parts = words.iter().zip(value.iter().zip(&mask));
        parts.all(|(word, (value, mask))| word & mask == *value)
    });
    matches.map(|(id, _)| id).collect()
}

/// The answer of the table by the definition.
fn defined(pipeline: &Pipeline, key: &[u64]) -> Option<RuleId> {
    let best = best_plain(pipeline, key, 0);
    let priority_of = |id: RuleId| {
        pipeline
            .rule(id)
            .expect("it is there")
            .precedence
            .priority()
    };
    let mut clauses: BTreeMap<u16, Vec<RuleId>> = BTreeMap::new();
    for rule in matching_rules(pipeline, key, 0) {
        let is_above = best.is_none_or(|best| priority_of(rule) > priority_of(best));
        if pipeline.is_clause(rule) && is_above {
            clauses.entry(priority_of(rule)).or_default().push(rule);
        }
    }
    for (_, clauses) in clauses.into_iter().rev() {
        for id in 0..=IDS {
            let has = |wanted: u8, of: u8| {
                clauses.iter().any(|rule| {
                    let rule = pipeline.rule(*rule).expect("it is there");
                    rule.actions.contains(&Action::Conjunction {
                        id,
                        clause: wanted,
                        clauses: of,
                    })
                })
            };
            for of in 2..4_u8 {
                let is_whole = (1..=of).all(|clause| has(clause, of));
                if is_whole && clauses.len() >= of.into() {
                    let again = best_plain(pipeline, key, id);
                    if again.is_some() {
                        return again;
                    }
                }
            }
        }
    }
    best
}

fn looked_up(kinds: impl IntoIterator<Item = StepKind>) -> Option<RuleId> {
    match kinds.into_iter().next() {
        Some(StepKind::Lookup { rule, .. }) => rule,
        other => panic!("a walk begins with a lookup, not {other:?}"),
    }
}

/// Compares all ways to look up with the definition, and flips bits outside of the mask.
fn check(random: &mut Pcg64Mcg, pipeline: &Pipeline, found: &mut BTreeMap<bool, usize>) {
    let (layout, version) = (pipeline.layout(), pipeline.version());
    let key = random_key(random, layout);
    let walk = translate(pipeline, &key, version);
    let rule = looked_up(walk.trace.kinds());
    let expected = defined(pipeline, &key);
    assert_eq!(rule, expected, "{key:x?}");
    *found
        .entry(rule != best_plain(pipeline, &key, 0))
        .or_default() += 1;
    let bare = Walker::default().answer(pipeline, &key, None, version, None);
    assert_eq!(looked_up(bare.trace.kinds()), expected, "without a mask");
    let mut words = key.clone();
    words.resize(layout.words(), 0);
    let mut answers = [None];
    pipeline.lookup_batch(TABLE, &words, version, &mut answers);
    assert_eq!(answers, [expected], "in a burst");
    for _ in 0..4 {
        let other = random_key(random, layout);
        let pairs = key.iter().zip(&other).zip(&walk.mask);
        let flipped: Vec<u64> = pairs
            .map(|((own, other), mask)| own & mask | other & !mask)
            .collect();
        let again = translate(pipeline, &flipped, version);
        assert_eq!(again.effects, walk.effects, "{key:x?}, not {flipped:x?}");
        assert_eq!(looked_up(again.trace.kinds()), rule);
    }
}

#[test]
fn lookups_are_as_defined_while_rules_change() {
    let mut found = BTreeMap::new();
    for seed in 0..150 {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let kinds = ClassifierKind::ALL;
        let mut pipeline = pipeline(kinds[seed as usize % kinds.len()]);
        let count = [6, 20, 60][seed as usize % 3];
        let flows: Vec<Flow> = (0..count).map(|_| random_flow(&mut random)).collect();
        apply(&mut pipeline, &Change::adding(flows));
        for _ in 0..40 {
            for _ in 0..15 {
                check(&mut random, &pipeline, &mut found);
            }
            let change = random_change(&mut random, &pipeline);
            let before = pipeline.version();
            if random.random_ratio(1, 4) {
                let mut plan = pipeline.plan(&change).expect("it can be done");
                pipeline.begin(&mut plan, Instant::ZERO);
                let done = pipeline.perform(&mut plan, usize::MAX);
                assert!(done.is_ok(), "{done:?}");
                pipeline.abort();
                assert_eq!(pipeline.version(), before);
            } else {
                apply(&mut pipeline, &change);
            }
            if random.random_ratio(1, 3) {
                pipeline.reclaim(pipeline.version());
            }
        }
    }
    // Both kinds of answers, those by a conjunctive match and others, are frequent.
    assert!(found.values().all(|count| *count > 5_000), "{found:?}");
}

/// A rule of a match's product: all conditions of one clause of each dimension.
fn product(dimensions: &[Vec<Match>]) -> Vec<Match> {
    let mut products = vec![Match::default()];
    for dimension in dimensions {
        let pairs = products
            .iter()
            .flat_map(|product| dimension.iter().map(move |clause| (product, clause)));
        let merged = pairs.filter_map(|(product, clause)| {
            let mut both = product.clone();
            for term in clause.terms() {
                both.add(term.field, term.value, term.mask).ok()?;
            }
            Some(both)
        });
        products = merged.collect();
    }
    products
}

/// Where a packet goes: the ports of its effects.
fn sent(pipeline: &Pipeline, key: &[u64]) -> Vec<PortId> {
    let walk = translate(pipeline, key, pipeline.version());
    let effects = walk.effects.iter();
    effects
        .filter_map(|effect| match effect {
            Effect::Output(port) => Some(*port),
            _ => None,
        })
        .collect()
}

fn flow(priority: u16, matching: &Match, actions: &[Action]) -> Flow {
    Flow {
        table: TABLE,
        priority,
        matching: matching.clone(),
        actions: actions.into(),
        ..Flow::default()
    }
}

/// The same rules twice: with conjunctive matches, and with their products.
///
/// At each priority plain rules win, then the lowest id.
#[derive(Default)]
struct Twice {
    conjunctive: Vec<Flow>,
    expanded: Vec<Flow>,
}

impl Twice {
    fn random(random: &mut Pcg64Mcg) -> Twice {
        let mut twice = Twice::default();
        for priority in 0..3 {
            for id in 1..=IDS {
                twice.add_match(random, priority, id);
            }
            for _ in 0..random.random_range(0..3) {
                let matching = random_match(random);
                if !twice.has(priority, &matching) {
                    let actions = [output(random.random_range(1..=PLAIN_PORTS))];
                    let plain = flow(priority * 8 + 7, &matching, &actions);
                    twice.conjunctive.push(flow(priority, &matching, &actions));
                    twice.expanded.push(plain);
                }
            }
        }
        for id in 1..=IDS {
            let mut matching = Match::default();
            let added = matching.add(f::CONJ_ID, id.into(), u32::MAX.into());
            added.expect("it is the only condition");
            let actions = [output(PLAIN_PORTS + id)];
            twice.conjunctive.push(flow(60_000, &matching, &actions));
        }
        twice
    }

    /// Whether a rule with this match and priority is there: another would replace it.
    fn has(&self, priority: u16, matching: &Match) -> bool {
        let mut known = self.conjunctive.iter();
        known.any(|known| known.priority == priority && known.matching == *matching)
    }

    fn add_match(&mut self, random: &mut Pcg64Mcg, priority: u16, id: u32) {
        let clauses = random.random_range(2..4);
        let mut dimensions = Vec::new();
        for clause in 1..=clauses {
            let count = random.random_range(1..4);
            let matches = (0..count).map(|_| random_match(random));
            let mut matches: Vec<Match> = matches.collect();
            matches.retain(|matching| !self.has(priority, matching));
            matches.sort();
            matches.dedup();
            let actions = [Action::Conjunction {
                id,
                clause,
                clauses,
            }];
            let flows = matches
                .iter()
                .map(|matching| flow(priority, matching, &actions));
            self.conjunctive.extend(flows);
            dimensions.push(matches);
        }
        for matching in product(&dimensions) {
            let actions = [output(PLAIN_PORTS + id)];
            let of_match = flow(priority * 8 + 7 - id as u16, &matching, &actions);
            self.expanded.push(of_match);
        }
    }
}

#[test]
fn a_match_is_the_product_of_its_dimensions() {
    for seed in 0..200 {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let rules = Twice::random(&mut random);
        let mut short = pipeline(ClassifierKind::Auto);
        let mut long = pipeline(ClassifierKind::Auto);
        apply(&mut short, &Change::adding(rules.conjunctive));
        apply(&mut long, &Change::adding(rules.expanded));
        for _ in 0..200 {
            let key = random_key(&mut random, short.layout());
            // The same packet, in the other layout.
            let mut other = vec![0; long.layout().ingress_words()];
            for (field, _) in FIELDS {
                let value = short.layout().get(&key, field);
                if let (Some(value), Some(_)) = (value, long.layout().slot(field)) {
                    long.layout().set(&mut other, field, value);
                }
            }
            assert_eq!(sent(&short, &key), sent(&long, &other), "seed {seed}");
        }
    }
}

#[test]
fn a_match_is_not_expanded() {
    let mut pipeline = pipeline(ClassifierKind::Auto);
    let clause = |field, value: u128, clause| {
        let mut matching = Match::default();
        let added = matching.add(field, value, u32::MAX.into());
        added.expect("it is the only condition");
        Flow {
            matching,
            actions: [Action::Conjunction {
                id: 7,
                clause,
                clauses: 2,
            }]
            .into(),
            ..Flow::default()
        }
    };
    let mut of_id = clause(f::CONJ_ID, 7, 1);
    of_id.actions = [output(5)].into();
    let before = pipeline.memory_bytes();
    let sources = (0..5_000).map(|value| clause(f::IP_SRC, value, 1));
    let destinations = (0..5_000).map(|value| clause(f::IP_DST, value, 2));
    let flows = sources.chain(destinations).chain([of_id]);
    apply(&mut pipeline, &Change::adding(flows));
    assert_eq!(pipeline.rule_count(pipeline.version()), 10_001);
    let bytes = pipeline.memory_bytes() - before;
    assert!(bytes < 10_001 * 500, "{bytes} bytes");
    let layout = pipeline.layout();
    let mut key = vec![0; layout.ingress_words()];
    layout.set(&mut key, f::IP_SRC, 4_999);
    layout.set(&mut key, f::IP_DST, 17);
    assert_eq!(sent(&pipeline, &key), [PortId(5)]);
    layout.set(&mut key, f::IP_DST, 5_000);
    assert_eq!(sent(&pipeline, &key), []);
}
