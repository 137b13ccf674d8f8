//! Traces of two bridges. `xtask/tests/trace` asks a real Open vSwitch the same questions.

mod switch;

use std::cell::RefCell;

use expect_test::expect_file;

use switch::{Bridges, QUESTIONS};
use thalweg_packet::{Instant, PortId};
use thalweg_pipeline::Effect;
use thalweg_pipeline::text::parse_rules;

#[test]
fn answers_are_as_they_were() {
    let bridges = Bridges::new();
    let answers = QUESTIONS.lines().map(|question| {
        let answer = bridges.answer(question);
        format!("> {question}\n{}\n\n", answer.trim_end())
    });
    let answers: String = answers.collect();
    expect_file!["answers.txt"].assert_eq(&answers);
}

/// A question with a packet says what the switch must do with it, except sending it.
#[test]
fn a_packet_is_left_to_the_caller_without_what_sends_it() {
    let bridges = Bridges::new();
    let asked = |question: &str| {
        let answer = bridges.ask(question).expect("it is answered");
        answer.packet
    };
    let learned = "trace br0 in_port=3,dl_src=02:00:00:00:00:13,dl_dst=02:00:00:00:00:02";
    assert_eq!(asked(learned), None);
    let packet = asked(&format!("{learned} -generate")).expect("there is a packet");
    assert_eq!((packet.in_port, packet.frame.len()), (PortId(3), 14));
    let learns = |effect: &Effect| {
        matches!(
            effect,
            Effect::Learn {
                port: PortId(3),
                ..
            }
        )
    };
    assert!(packet.effects.iter().any(learns), "{:?}", packet.effects);
    let sends = |effect: &Effect| matches!(effect, Effect::Output(_) | Effect::Recirculate(_));
    fn all(effects: &[Effect]) -> Vec<&Effect> {
        let nested = effects.iter().flat_map(Effect::lists).map(all);
        nested.flatten().chain(effects).collect()
    }
    assert!(
        !all(&packet.effects).into_iter().any(sends),
        "{:?}",
        packet.effects
    );
    let told = asked("trace br0 in_port=1,tcp,nw_ttl=9 -generate").expect("there is a packet");
    let tells = |effect: &Effect| matches!(effect, Effect::Controller { .. });
    assert!(told.effects.iter().any(tells), "{:?}", told.effects);
}

/// A trace that ends at a recirculation goes on with its number, even when the key of the rules
/// has grown since.
#[test]
fn a_trace_goes_on_where_another_stopped() {
    let mut bridges = Bridges::new();
    bridges.frozen = Some(RefCell::default());
    let flow = "in_port(1),eth(src=50:54:00:00:00:05,dst=50:54:00:00:00:07),eth_type(0x0800),\
                ipv4(src=192.168.0.1,dst=192.168.0.2,proto=132,tos=0,ttl=128,frag=no),sctp(src=8,dst=66)";
    let flow: String = flow.split_whitespace().collect();
    let lines = |text: &str| -> Vec<String> { text.lines().map(str::to_owned).collect() };
    let first = lines(&bridges.answer(&format!("trace {flow} -generate")));
    assert_eq!(first.last().unwrap(), "Datapath actions: 2,recirc(0x1)");
    let again = lines(&bridges.answer(&format!("trace {flow}")));
    assert_eq!(
        again.last(),
        first.last(),
        "an equal walk has the same number"
    );
    let expected = [
        "Flow: recirc_id=0x1,eth,sctp,in_port=1,",
        "    thaw",
        "        Resuming from table 0",
        "        Restoring actions: set_field:0x6->tun_id,output:NXM_NX_REG3[]",
        "Final flow: recirc_id=0x1,eth,sctp,reg3=0x3,tun_id=0x6,in_port=1,",
        "Megaflow: recirc_id=0x1,eth,ip,in_port=1,nw_frag=no",
        "Datapath actions: 3",
    ];
    for grows in [false, true] {
        if grows {
            let rule = "table=9,ipv6,ipv6_src=::1,reg7=1,actions=drop";
            let rule = parse_rules("rule", rule).expect("the test's rule is right");
            let applied = bridges.pipeline.apply(&rule.into_change(), Instant::ZERO);
            applied.expect("the test's rule can be loaded");
        }
        let next = bridges.answer(&format!("trace recirc_id(0x1),{flow}"));
        let next = lines(&next);
        for line in expected {
            assert!(
                next.iter().any(|next| next.starts_with(line)),
                "{line}: {next:#?}"
            );
        }
    }
    let unknown = bridges.answer(&format!("trace recirc_id(0x2),{flow}"));
    assert_eq!(unknown, "no recirculation data for recirc_id 0x2");
}
