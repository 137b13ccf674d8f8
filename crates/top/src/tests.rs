//! Pictures of a recorded switch, and what keys do.

use std::time::Duration;

use expect_test::expect_file;
use serde_json::{Value, json};

use crate::ask::{Answered, AskError, Question};
use crate::model::{Key, Overlay, Sort, TALKERS_EVERY, TopModel};
use crate::once::screen;

/// Counts `seconds` after the start: twice as many after twice the time.
fn counts(seconds: u64) -> Value {
    json!({
        "seconds": seconds as f64, "version": 17, "rules": 4012,
        "packets": 1_250_000 * seconds, "recirculations": 1_200 * seconds,
        "computed": 0, "upcalls": 850 * seconds, "probes": 52_000 * seconds,
        "microflow": {
            "hits": 1_220_000 * seconds, "misses": 31_200 * seconds, "entries": 4_096
        },
        "megaflow": {"hits": 30_350 * seconds, "misses": 850 * seconds, "entries": 812},
        "masks": 14,
        "evictions": {"idle": 12 * seconds, "entries_full": 3 * seconds},
        "refusals": {"masks_full": seconds},
        "drops": {"action": 230 * seconds, "table_miss": 5 * seconds, "queue_full": 11},
        "changes": 2 * seconds, "change_seconds": 0.0042 * seconds as f64,
        "repairs": {
            "unchanged": 9 * seconds, "repaired": 4 * seconds, "moved": 0, "evicted": seconds
        },
        "repair_seconds": 0.003 * seconds as f64, "connections": 10_512,
        "ports": [
            port("eth0", "up", seconds * 1_000), port("eth1", "up", seconds * 250_000),
            port("a-port-with-a-long-name", "down", 0),
        ],
    })
}

fn port(name: &str, status: &str, packets: u64) -> Value {
    json!({
        "bridge": "br0", "name": name, "status": status,
        "received_packets": packets, "received_bytes": packets * 700,
        "sent_packets": packets / 2, "sent_bytes": packets * 64, "drops": packets / 1_000,
    })
}

/// Entries `seconds` after the start.
fn entries(seconds: u64) -> Value {
    let entry = |id: &str, port: &str, packets: u64, bytes: u64, flow: &str| {
        json!({
            "id": id, "port": port, "packets": packets, "bytes": bytes, "unused_seconds": 0.01,
            "flow": format!("recirc_id(0),in_port(1),packet_type(ns=0,id=0),{flow}"),
            "actions": "push_vlan(vid=10,pcp=0),3",
        })
    };
    json!({
        "seconds": seconds as f64,
        "talkers": [
            entry("a", "eth0", 90_000 + seconds, 90_000 * 60,
                "eth_type(0x0800),ipv4(dst=10.0.0.0/255.255.255.0,frag=no)"),
            entry("b", "eth1", 400 * seconds, 90 * seconds, "eth_type(0x0806)"),
            entry("c", "eth1", 10 * seconds, 1_000_000 * seconds, "eth_type(0x86dd),ipv6(frag=no)"),
            entry("d", "eth0", 10, 10, "eth_type(0x88cc)"),
        ],
        "makers": [{
            "port": "eth1", "entries": 700, "single": 650,
            "example": "recirc_id(0),in_port(2),eth_type(0x0800),ipv4(proto=6,frag=no),tcp(src=99)",
            "rules": ["table=0,actions=goto_table:1", "table=1,priority=7,tcp,tp_src=99,actions=drop"],
        }],
    })
}

fn answered(question: Question, answer: Result<Value, AskError>) -> Answered {
    Answered {
        question,
        answer: answer.map(|value| value.to_string()),
        took: Duration::from_millis(10),
    }
}

/// A model that has looked at the counts for a while, and twice at the entries.
fn model() -> TopModel {
    let mut model = TopModel::new("br0".to_owned(), Duration::from_secs(1), None);
    let mut tell = |question, value| {
        model.handle_answer(answered(question, Ok(value)), Duration::ZERO);
    };
    tell(Question::Talkers(None), entries(1));
    for second in 1..20 {
        let mut counts = counts(second);
        // The exact-match cache answers less and less at first.
        counts["microflow"]["misses"] = json!(31_200 * second + 9_000_000 / second);
        counts["upcalls"] = json!(850 * second + 9_000 / second);
        tell(Question::Live, counts);
    }
    tell(Question::Live, counts(20));
    tell(Question::Live, counts(21));
    tell(Question::Talkers(None), entries(4));
    model
}

fn press(model: &mut TopModel, keys: &str) {
    keys.chars()
        .for_each(|key| model.handle_key(Key::Letter(key)));
}

#[test]
fn a_busy_switch() {
    expect_file!["tests/busy-80x24.txt"].assert_eq(&screen(&model(), 80, 24));
    expect_file!["tests/busy-132x30.txt"].assert_eq(&screen(&model(), 132, 30));
}

#[test]
fn the_slow_path_and_the_help() {
    let mut model = model();
    press(&mut model, "ss");
    assert_eq!(model.sort, Sort::SlowPath);
    expect_file!["tests/slow-path.txt"].assert_eq(&screen(&model, 80, 24));
    press(&mut model, "?");
    expect_file!["tests/help.txt"].assert_eq(&screen(&model, 80, 24));
    press(&mut model, "?");
    assert_eq!(model.overlay, Overlay::None);
}

#[test]
fn a_picture_of_any_size_is_drawn() {
    let mut model = model();
    for overlay in [
        Overlay::None,
        Overlay::Help,
        Overlay::Text("a\nb".to_owned(), 1),
    ] {
        model.overlay = overlay;
        for (width, height) in [(1, 1), (3, 2), (20, 5), (79, 12), (300, 100)] {
            assert_eq!(
                screen(&model, width, height).lines().count(),
                usize::from(height)
            );
        }
    }
}

#[test]
fn a_lost_switch_is_shown_and_asked_again() {
    let mut model = model();
    let lost = || Err(AskError::Lost("cannot connect to run.ctl".to_owned()));
    model.handle_answer(answered(Question::Live, lost()), Duration::from_secs(5));
    expect_file!["tests/lost.txt"].assert_eq(&screen(&model, 80, 24));
    assert_eq!(
        model.poll_question(Duration::from_secs(6)),
        Some(Question::Live)
    );
    model.handle_answer(answered(Question::Live, lost()), Duration::from_secs(6));
    // Its entries are not asked for before it is there.
    assert_eq!(model.poll_question(Duration::from_millis(6_500)), None);
    assert_eq!(
        model.poll_question(Duration::from_secs(7)),
        Some(Question::Live)
    );
    // It is another process, which has counted less.
    model.handle_answer(
        answered(Question::Live, Ok(counts(0))),
        Duration::from_secs(7),
    );
    assert!(model.rates.is_none() && model.history.is_empty() && model.talkers.is_empty());
    assert!(screen(&model, 80, 24).contains("Rates need a second look."));
}

#[test]
fn one_question_waits_at_a_time() {
    let second = Duration::from_secs(1);
    let mut model = TopModel::new("br0".to_owned(), second, None);
    assert_eq!(model.poll_question(Duration::ZERO), Some(Question::Live));
    assert_eq!(model.poll_question(second * 100), None);
    model.handle_answer(answered(Question::Live, Ok(counts(1))), Duration::ZERO);
    assert_eq!(
        model.poll_question(second / 2),
        Some(Question::Talkers(None))
    );
    // Entries that take long are asked for less often.
    let slow = Answered {
        took: second,
        ..answered(Question::Talkers(None), Ok(entries(1)))
    };
    model.handle_answer(slow, second);
    assert_eq!(model.poll_question(second), Some(Question::Live));
    model.handle_answer(answered(Question::Live, Ok(counts(2))), second);
    // The same counts again are no news, and not those of another process.
    model.handle_answer(answered(Question::Live, Ok(counts(2))), second);
    let mut asked = Vec::new();
    for tenth in 20..600 {
        let now = second * tenth / 10;
        if let Some(question) = model.poll_question(now) {
            model.handle_answer(answered(question.clone(), Ok(counts(tenth.into()))), now);
            asked.push((now, question));
        }
    }
    let entries = asked
        .iter()
        .find(|(_, question)| *question != Question::Live);
    assert_eq!(entries.map(|(now, _)| now.as_secs()), Some(51));
    let counts = asked
        .iter()
        .filter(|(_, question)| *question == Question::Live);
    assert!((57..=59).contains(&counts.count()), "{asked:?}");
}

#[test]
fn keys_sort_filter_pause_and_explain() {
    let mut model = model();
    let flows = |model: &TopModel| -> Vec<bool> {
        let talkers = model.talkers.iter();
        talkers
            .map(|talker| talker.flow.contains("0x86dd"))
            .collect()
    };
    assert_eq!(flows(&model), [false, true, false, false]);
    press(&mut model, "s");
    assert_eq!(flows(&model), [true, false, false, false]);
    // The first is explained.
    press(&mut model, "e");
    let Some(Question::Explain(flow)) = model.poll_question(Duration::ZERO) else {
        panic!("it asks for the reasons");
    };
    assert!(flow.ends_with("eth_type(0x86dd),ipv6(frag=no)"));
    let reasons = answered(Question::Explain(flow), Ok(json!("why")));
    model.handle_answer(reasons, Duration::ZERO);
    assert_eq!(model.overlay, Overlay::Text("\"why\"".to_owned(), 0));
    model.handle_key(Key::Escape);
    // A paused picture asks nothing, and goes on later.
    press(&mut model, "p");
    assert_eq!(model.poll_question(TALKERS_EVERY * 9), None);
    assert!(screen(&model, 80, 24).contains("paused"));
    press(&mut model, "p");
    // The filter is typed; `q` is a letter of it.
    press(&mut model, "/ipq");
    model.handle_key(Key::Backspace);
    assert!(screen(&model, 80, 24).ends_with("filter: ip_\n"));
    model.handle_key(Key::Enter);
    assert_eq!(model.poll_question(Duration::ZERO), Some(Question::Live));
    model.handle_answer(answered(Question::Live, Ok(counts(5))), Duration::ZERO);
    let filtered = Question::Talkers(Some("ip".to_owned()));
    assert_eq!(model.poll_question(Duration::ZERO), Some(filtered.clone()));
    // An answer to an earlier question has no place.
    let refused = Err(AskError::Refused("Failed to parse filter".to_owned()));
    model.handle_answer(answered(filtered, refused), Duration::ZERO);
    assert!(screen(&model, 80, 24).ends_with("Failed to parse filter\n"));
    assert!(!model.is_ended());
    press(&mut model, "q");
    assert!(model.is_ended());
}

#[test]
fn the_chosen_line_stays_in_view() {
    let mut model = model();
    for _ in 0..9 {
        model.handle_key(Key::Down);
    }
    assert_eq!(model.chosen, 3);
    assert!(screen(&model, 80, 16).contains("eth_type(0x88cc)"));
    model.handle_key(Key::PageUp);
    assert_eq!(model.chosen, 0);
}
