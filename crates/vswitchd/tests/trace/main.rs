//! Traces of two bridges. `xtask/tests/trace` asks a real Open vSwitch the same questions.

mod switch;

use expect_test::expect_file;

use switch::{Bridges, QUESTIONS};
use thalweg_packet::PortId;
use thalweg_pipeline::Effect;

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
        let nested = effects.iter().filter_map(|effect| match effect {
            Effect::Clone(nested) => Some(all(nested)),
            _ => None,
        });
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
