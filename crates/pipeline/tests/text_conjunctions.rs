//! `conjunction` and `conj_id` as text, with the messages of Open vSwitch for what it refuses.

use thalweg_packet::Instant;
use thalweg_pipeline::text::{parse_flow, parse_rules};
use thalweg_pipeline::{Action, Change, ChangeError, Config, Counters, Flow, Pipeline};

#[test]
fn conjunctions_are_printed_as_they_are_read() {
    let same = [
        "table=0, priority=2001,conj_id=2219740744,tcp,reg0=0x80/0x80 actions=resubmit(,47)",
        "table=3, ip,nw_src=10.0.0.1 actions=conjunction(1,1/2)",
        "table=0, priority=5,tcp,tp_dst=80 actions=conjunction(1,2/2),note:01,conjunction(7,64/64)",
        "table=0, actions=clone(conjunction(1,1/2))",
        "table=0, actions=move:NXM_NX_CONJ_ID[0..15]->NXM_NX_REG0[0..15]",
    ];
    for text in same {
        let flow = parse_flow(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(flow.to_string().trim_start(), text);
    }
    let other = [
        ("actions=conjunction(0x10, 1/2)", "conjunction(16,1/2)"),
        ("actions=CONJUNCTION( 1 , 1 / 2 )", "conjunction(1,1/2)"),
        ("NXM_NX_CONJ_ID=0x10,actions=1", "conj_id=16"),
    ];
    for (text, expected) in other {
        let flow = parse_flow(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert!(flow.to_string().contains(expected), "{flow}");
    }
}

#[test]
fn what_open_vswitch_refuses_is_refused() {
    const BESIDE: &str =
        "`conjunction` actions may be used along with `note` but not any other kind of action";
    let cases = [
        (
            "conjunction(1, 1/1)",
            "conjunction must have at least 2 clauses",
        ),
        (
            "conjunction(1, 1/65)",
            "conjunction must have at most 64 clauses",
        ),
        ("conjunction(1, 0/2)", "clause index must be positive"),
        (
            "conjunction(1, 3/2)",
            "clause index must be less than or equal to number of clauses",
        ),
        ("conjunction(1,2)", "write conjunction(ID,CLAUSE/CLAUSES)"),
        ("conjunction:1", "write conjunction(ID,CLAUSE/CLAUSES)"),
        ("conjunction(1,1/2),output:1", BESIDE),
        ("output:1,conjunction(1,1/2)", BESIDE),
        ("note:01,conjunction(1,2/3),ct_clear", BESIDE),
        ("conjunction(1,1/2),goto_table:3", BESIDE),
        ("conjunction(1,1/2),drop", "`drop` stands alone"),
        (
            "write_actions(conjunction(1,1/2))",
            "an action set cannot hold this",
        ),
        ("set_field:5->conj_id", "a field that can be written"),
        ("load:5->NXM_NX_CONJ_ID[]", "a field that can be written"),
    ];
    for (text, expected) in cases {
        match parse_flow(&format!("actions={text}")) {
            Ok(flow) => panic!("{text} is accepted as {flow}"),
            Err(error) => assert!(error.to_string().contains(expected), "{text}: {error}"),
        }
    }
    let error = parse_flow("conj_id=1/3,actions=1").expect_err("it has no mask");
    assert!(error.to_string().contains("conj_id"), "{error}");
}

#[test]
fn a_program_cannot_add_what_no_text_says() {
    let conjunction = |clause, clauses| Action::Conjunction {
        id: 1,
        clause,
        clauses,
    };
    let lists = [
        vec![conjunction(0, 2)],
        vec![conjunction(3, 2)],
        vec![conjunction(1, 1)],
        vec![conjunction(1, 65)],
        vec![conjunction(1, 2), Action::DecTtl],
    ];
    let mut pipeline = Pipeline::new(Config::default());
    for actions in lists {
        let flow = Flow {
            actions: actions.into(),
            ..Flow::default()
        };
        let refused = pipeline.apply(&Change::adding([flow]), Instant::ZERO);
        assert!(
            matches!(refused, Err(ChangeError::BadAction { .. })),
            "{refused:?}"
        );
    }
    assert_eq!(pipeline.rule_count(pipeline.version()), 0);
}

/// The same match and priority make one rule, whose actions are those of the last.
#[test]
fn a_clause_is_replaced_like_any_rule() {
    let mut pipeline = Pipeline::new(Config::default());
    let texts = [
        "priority=5,ip,actions=conjunction(1,1/2)",
        "priority=5,ip,actions=conjunction(2,1/2),conjunction(3,2/2)",
        "priority=5,ip,actions=output:1",
        "priority=5,ip,actions=conjunction(1,1/2)",
    ];
    for text in texts {
        let change = parse_rules("rules", text)
            .expect("it is right")
            .into_change();
        pipeline
            .apply(&change, Instant::ZERO)
            .expect("it can be added");
        let version = pipeline.version();
        let rules: Vec<_> = pipeline.rules(version).map(|(id, _)| id).collect();
        assert_eq!((rules.len(), pipeline.rule_count(version)), (1, 1));
        let flow = pipeline.flow_of(rules[0]).expect("it is there").to_string();
        let (_, actions) = text.split_once("actions=").expect("it has actions");
        assert!(flow.ends_with(&format!("actions={actions}")), "{flow}");
    }
    pipeline.reclaim(pipeline.version());
    assert_eq!(pipeline.rules(pipeline.version()).count(), 1);
}

/// A rule that changes its kind within a change has one successor, which keeps its counts.
#[test]
fn a_rule_that_becomes_a_clause_and_a_rule_again_has_not_ended() {
    let mut pipeline = Pipeline::new(Config::default());
    let mut load = |text: &str| {
        let rules = parse_rules("rules", text).expect("they are right");
        let applied = pipeline.apply(&rules.into_change(), Instant::ZERO);
        let delta = applied.expect("they can be added");
        for id in &delta.inserted {
            let counters = Counters {
                packets: 1,
                bytes: 60,
            };
            pipeline.credit_rule(*id, counters, Instant::ZERO);
        }
        let successors = delta.removed.iter();
        let successors: Vec<_> = successors.map(|id| pipeline.successor_of(*id)).collect();
        let rule = pipeline.rule(delta.inserted[0]).expect("it is there");
        (delta.inserted, successors, rule.counters.packets)
    };
    let plain = "priority=5,ip,actions=output:1\n";
    let clause = "priority=5,ip,actions=conjunction(1,1/2)\n";
    let other = "priority=5,ip,actions=conjunction(2,1/2)\n";
    let (inserted, successors, packets) = load(plain);
    assert_eq!((inserted.len(), successors.len(), packets), (1, 0, 1));
    let steps = [
        (format!("{clause}{plain}{clause}{other}"), 2),
        (format!("{plain}{clause}"), 3),
        (format!("{clause}{other}{plain}"), 4),
    ];
    for (text, expected) in steps {
        let (inserted, successors, packets) = load(&text);
        assert_eq!(inserted.len(), 1, "{text}");
        assert_eq!(successors, [Some(inserted[0])], "{text}");
        assert_eq!(packets, expected, "{text}");
    }
}
