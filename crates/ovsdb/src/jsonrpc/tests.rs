use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const NOW: Duration = Duration::ZERO;

fn channel(interval: Option<Duration>) -> RpcChannel {
    let config = RpcConfig {
        probe_interval: interval,
        ..RpcConfig::default()
    };
    RpcChannel::new(config, NOW)
}

fn sent(channel: &mut RpcChannel) -> Vec<Value> {
    std::iter::from_fn(|| channel.take_output())
        .map(|bytes| serde_json::from_slice(&bytes).expect("it is JSON"))
        .collect()
}

#[test]
fn every_form_of_message_is_read_and_written() {
    let request = json!({"id": 3, "method": "list_dbs", "params": []});
    let told = json!({"id": null, "method": "locked", "params": ["l"]});
    let reply = json!({"id": [1], "result": {}, "error": null});
    let null = json!({"id": "a", "result": null, "error": null});
    let error = json!({"id": 4, "result": null, "error": "unknown method"});
    for value in [request, told, reply, null, error] {
        let message = RpcMessage::parse(value.clone()).expect("it is right");
        assert_eq!(message.to_json(), value);
    }
    // As ovsdb-server writes an error.
    let error = RpcMessage::parse(json!({"id": 3, "error": "unknown method"}));
    assert!(matches!(error, Ok(RpcMessage::Error { .. })));
}

#[test]
fn what_is_no_message_is_refused_with_the_reason() {
    for (value, reason) in [
        (json!([]), "is no object"),
        (json!({}), "has neither a method nor a result nor an error"),
        (
            json!({"method": 1, "params": []}),
            "has a \"method\" that is no string",
        ),
        (json!({"method": "a"}), "has a method and no \"params\""),
        (
            json!({"method": "a", "params": {}}),
            "has \"params\" that are no array",
        ),
        (json!({"result": 1}), "has a result and no \"id\""),
        (json!({"error": 1}), "has an error and no \"id\""),
        (
            json!({"id": 1, "error": 1, "result": 1}),
            "has an error and more than its \"id\"",
        ),
        (
            json!({"id": 1, "method": "a", "result": 1, "params": []}),
            "has both a result and a method",
        ),
        (
            json!({"id": 1, "more": 1}),
            "has the unknown member \"more\"",
        ),
    ] {
        let error = RpcMessage::parse(value).expect_err("it is wrong");
        assert_eq!(error.to_string(), format!("a message of JSON-RPC {reason}"));
    }
}

#[test]
fn limits_hold_to_the_byte() {
    let limits = RpcLimits {
        bytes_max: 12,
        values_max: 10,
        depth_max: 3,
    };
    let split = |text: &str| {
        let mut splitter = JsonSplitter::new(limits);
        splitter.push(text.as_bytes());
        splitter.next()
    };
    assert_eq!(split(r#"{"a":"bcde"}"#), Ok(Some(json!({"a": "bcde"}))));
    assert_eq!(split(r#"{"a":"bcdef"}"#), Err(SplitError::TooLong(12)));
    assert_eq!(split(r#"{"a":"bcdef"#), Ok(None));
    assert_eq!(split(r#"{"a":"bcdefg"#), Err(SplitError::TooLong(12)));
    assert_eq!(split(r#"{"a":[[1]]}"#), Ok(Some(json!({"a": [[1]]}))));
    assert_eq!(split(r#"{"a":[[["#), Err(SplitError::TooDeep(3)));
    assert_eq!(split(r#"{"":[1,1]}"#), Ok(Some(json!({"": [1, 1]}))));
    assert_eq!(split(r#"{"":[1,1,1"#), Err(SplitError::TooFull(10)));
    assert_eq!(split(" 7"), Err(SplitError::NoObject(b'7')));
    assert!(matches!(split("{]"), Err(SplitError::NoJson(_))));
}

#[test]
fn echoes_are_answered_where_they_are_asked_for() {
    let echo = br#"{"id":"echo","method":"echo","params":[1,"a"]}"#;
    let mut database = channel(None);
    database.receive(echo, NOW);
    assert_eq!(database.next(), None);
    let reply = json!({"id": "echo", "result": [1, "a"], "error": null});
    assert_eq!(sent(&mut database), [reply]);

    let config = RpcConfig {
        answers_echo: false,
        ..RpcConfig::default()
    };
    let mut control = RpcChannel::new(config, NOW);
    control.receive(echo, NOW);
    assert!(matches!(control.next(), Some(RpcMessage::Request { .. })));
}

#[test]
fn a_silent_peer_is_probed_once_and_then_given_up() {
    let second = Duration::from_secs;
    let mut channel = channel(Some(second(5)));
    assert_eq!(channel.tick(second(4)), Some(second(5)));
    assert_eq!(channel.tick(second(5)), Some(second(10)));
    assert_eq!(channel.tick(second(9)), Some(second(10)));
    assert_eq!(sent(&mut channel).len(), 1);
    channel.receive(br#"{"id":"echo","result":[],"error":null}"#, second(9));
    assert_eq!(channel.next(), None);
    assert_eq!(channel.tick(second(10)), Some(second(14)));
    assert_eq!(channel.tick(second(14)), Some(second(19)));
    assert_eq!(channel.tick(second(19)), None);
    assert_eq!(channel.end_reason(), Some(&ChannelEnd::Silent));
    assert_eq!(channel.counters().probes, 2);
}

#[test]
fn a_peer_that_does_not_read_is_given_up() {
    let config = RpcConfig {
        output_bytes_max: 200,
        ..RpcConfig::default()
    };
    let mut channel = RpcChannel::new(config, NOW);
    for _ in 0..100 {
        channel.receive(br#"{"id":1,"method":"echo","params":[]}"#, NOW);
        assert_eq!(channel.next(), None);
        assert!(channel.output_bytes() <= 200);
    }
    assert_eq!(channel.end_reason(), Some(&ChannelEnd::Unread(200)));
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[ -~\\n\u{e9}\u{1f600}]{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-z\"\\\\{}]{0,3}", inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn pieces_make_no_difference(
        values in prop::collection::vec(
            prop::collection::btree_map("[a-z\"]{0,3}", any_json(), 0..4), 0..6),
        cuts in prop::collection::vec(1usize..9, 1..20),
        is_spaced in any::<bool>(),
    ) {
        let values: Vec<Value> = values
            .into_iter()
            .map(|members| Value::Object(members.into_iter().collect()))
            .collect();
        let texts: Vec<String> = values.iter().map(Value::to_string).collect();
        let stream = texts.join(if is_spaced { "\r\n \t" } else { "" });
        let mut rest = stream.as_bytes();
        let mut splitter = JsonSplitter::default();
        let mut found = Vec::new();
        for cut in cuts.iter().cycle() {
            let (piece, more) = rest.split_at(rest.len().min(*cut));
            splitter.push(piece);
            while let Some(value) = splitter.next().expect("it is JSON") {
                found.push(value);
            }
            rest = more;
            if rest.is_empty() {
                break;
            }
        }
        prop_assert_eq!(found, values);
        prop_assert_eq!(splitter.waiting_bytes(), 0);
    }
}
