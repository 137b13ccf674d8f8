//! How many rules a bounded `learn` may still make.

use thalweg_packet::Instant;
use thalweg_pipeline::text::{Parser, parse_flow, parse_rules};
use thalweg_pipeline::{Change, Config, LearnedCounts, LearnedRule, Pipeline};

struct Bench {
    pipeline: Pipeline,
    counts: LearnedCounts,
}

impl Bench {
    fn new(rules: &str) -> Bench {
        let mut bench = Bench {
            pipeline: Pipeline::new(Config::default()),
            counts: LearnedCounts::default(),
        };
        let rules = parse_rules("rules", rules).expect("the test's rules are right");
        bench.apply(&rules.into_change());
        bench
    }

    fn apply(&mut self, change: &Change) {
        let applied = self.pipeline.apply(change, Instant::ZERO);
        let delta = applied.expect("the change can be made");
        self.counts.follow(&self.pipeline, &delta);
        self.pipeline.reclaim(delta.version);
    }

    fn delete(&mut self, rules: &str) {
        let operation = Parser::new().parse_operation(&format!("delete {rules}"));
        self.apply(&Change::one(operation.expect("an operation")));
    }

    fn rule(&self, register: u32) -> LearnedRule {
        let rule = format!("table=1,cookie=0x5,reg1={register},actions=drop");
        let flow = parse_flow(&rule).expect("a rule");
        LearnedRule::new(flow, 2, self.pipeline.seed())
    }

    fn admit(&self, register: u32) -> bool {
        self.counts.admit(&self.rule(register))
    }

    fn learn(&mut self, register: u32) {
        let flow = self.rule(register).flow;
        self.apply(&Change::adding([flow]));
    }
}

#[test]
fn rules_count_from_the_moment_that_they_are_admitted() {
    let mut bench = Bench::new("actions=learn(table=1,cookie=0x5,limit=2)");
    assert_eq!(
        [1, 2, 3, 1].map(|register| bench.admit(register)),
        [true, true, false, true]
    );
    bench.learn(1);
    bench.counts.withdraw(&bench.pipeline, &bench.rule(2));
    assert_eq!([3, 2].map(|register| bench.admit(register)), [true, false]);
}

/// A lesson that got lost says nothing of a rule that is there.
#[test]
fn a_rule_that_is_there_keeps_its_place() {
    let mut bench = Bench::new("actions=learn(table=1,cookie=0x5,limit=2)");
    for register in [1, 2] {
        assert!(bench.admit(register));
        bench.learn(register);
        bench
            .counts
            .withdraw(&bench.pipeline, &bench.rule(register));
    }
    assert!(!bench.admit(3));
    bench.delete("table=1,reg1=1");
    assert!(bench.admit(3));
}

/// Rules of the cookie that were there before, or that others added, count too.
#[test]
fn all_rules_of_the_cookie_count() {
    let rules = "table=1,cookie=0x5,reg1=1,actions=drop\n\
                 table=2,cookie=0x5,reg1=2,actions=drop\n\
                 table=1,cookie=0x6,reg1=3,actions=drop\n\
                 actions=clone(learn(table=1,cookie=0x5,limit=2))\n";
    let mut bench = Bench::new(rules);
    bench.learn(4);
    assert!(!bench.admit(5));
    bench.delete("table=1,reg1=1");
    assert!(bench.admit(5));
    assert!(!bench.admit(6));
}
