//! Servers that send what they must not: an error, never a panic, and bounded memory.

use std::time::Duration;

use allocation_counter::measure;
use serde_json::{Value, json};
use thalweg_ovsdb::jsonrpc::{JsonSplitter, RpcLimits};
use thalweg_ovsdb::open_vswitch::{TABLES, port};
use thalweg_ovsdb::{
    DatabaseClient, DatabaseConfig, DatabaseEvent, DatabaseTransaction, LinkStep, ReplicaLimits,
};

const NOW: Duration = Duration::ZERO;
const ZERO: &str = "00000000-0000-0000-0000-000000000000";

fn uuid(number: usize) -> String {
    format!("00000000-0000-0000-0000-{number:012}")
}

/// What a server sends in a short session: replies to the client's requests, then updates.
fn session() -> Vec<Value> {
    let text = json!({"type": "string"});
    let optional = json!({"type": {"key": "integer", "min": 0, "max": 1}});
    let numbers = json!({"type": {"key": "integer", "min": 0, "max": "unlimited"}});
    let map = json!({"type": {"key": "string", "value": "string", "min": 0, "max": "unlimited"}});
    let columns = json!({"name": text, "tag": optional, "trunks": numbers, "status": map});
    let schema = json!({"name": "Open_vSwitch", "version": "8.3.1",
                        "tables": {"Port": {"columns": columns}}});
    let rows = json!({"Port": {
        uuid(1): {"initial": {"name": "p1", "tag": 5, "trunks": ["set", [1, 2]]}},
        uuid(2): {"initial": {"name": "p2", "status": ["map", [["a", "b"], ["c", "d"]]]}}}});
    let update = json!({"Port": {
        uuid(1): {"modify": {"tag": ["set", []], "trunks": ["set", [2, 3]]}},
        uuid(2): {"delete": null},
        uuid(3): {"insert": {"name": "p3"}}}});
    let told =
        |method: &str, params: Value| json!({"id": null, "method": method, "params": params});
    let reply = |id: u64, result: Value| json!({"id": id, "error": null, "result": result});
    let monitor = "Open_vSwitch 3";
    vec![
        reply(1, json!({})),
        reply(3, json!({"locked": false})),
        reply(2, schema),
        reply(4, json!([false, uuid(7), rows])),
        told("locked", json!(["l"])),
        told("update3", json!([monitor, uuid(8), update])),
        reply(5, json!([{}, {"uuid": ["uuid", uuid(9)]}])),
        json!({"id": "echo", "method": "echo", "params": []}),
        told("stolen", json!(["l"])),
        told("monitor_canceled", json!([monitor])),
    ]
}

fn client(limits: RpcLimits, replica: ReplicaLimits) -> DatabaseClient {
    let mut config = DatabaseConfig::new("Open_vSwitch", TABLES);
    config.channel.limits = limits;
    config.channel.output_bytes_max = 64 << 10;
    config.replica = replica;
    let mut client = DatabaseClient::new(config, NOW);
    assert_eq!(client.poll_link(NOW), Some(LinkStep::Connect));
    client.lock("l");
    client.handle_connected(NOW);
    client
}

/// Gives a client the bytes in pieces; returns what happened.
fn events(client: &mut DatabaseClient, bytes: &[u8], piece: usize) -> Vec<DatabaseEvent> {
    let mut events = Vec::new();
    for piece in bytes.chunks(piece) {
        client.receive(piece, NOW);
        while let Some(event) = client.next(NOW) {
            if matches!(event, DatabaseEvent::Lock(true)) {
                let mut transaction = DatabaseTransaction::new();
                transaction.insert(port::TABLE);
                // It may not follow yet: then it is refused.
                let _ = client.submit(&transaction);
            }
            events.push(event);
        }
    }
    events
}

fn heard(bytes: &[u8], piece: usize) -> Vec<DatabaseEvent> {
    let mut client = client(RpcLimits::default(), ReplicaLimits::default());
    events(&mut client, bytes, piece)
}

fn bytes_of(messages: &[Value]) -> Vec<u8> {
    messages
        .iter()
        .map(Value::to_string)
        .collect::<String>()
        .into_bytes()
}

#[test]
fn the_session_is_one_that_works() {
    let bytes = bytes_of(&session());
    let events = heard(&bytes, bytes.len());
    let kinds: Vec<&str> = events
        .iter()
        .map(|event| match event {
            DatabaseEvent::Schema(_) => "schema",
            DatabaseEvent::Synced(changes) if changes.len() == 2 => "synced",
            DatabaseEvent::Changed(changes) if changes.len() == 3 => "changed",
            DatabaseEvent::Lock(true) => "lock",
            DatabaseEvent::Lock(false) => "no lock",
            DatabaseEvent::Finished(..) => "finished",
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        kinds,
        [
            "no lock", "schema", "synced", "lock", "changed", "finished", "no lock"
        ]
    );
    for piece in [1, 2, 3, 7, 64] {
        assert_eq!(heard(&bytes, piece), events);
    }
}

/// Whether the connection ended with one fault, which says something.
fn is_refused(events: &[DatabaseEvent]) -> bool {
    let faults = events.iter().filter_map(|event| match event {
        DatabaseEvent::Fault(fault) => Some(fault.to_string()),
        _ => None,
    });
    let faults: Vec<String> = faults.collect();
    let is_closed = events.contains(&DatabaseEvent::Closed);
    assert!(
        faults
            .iter()
            .all(|text| text.len() > 10 && text.len() < 1000),
        "{faults:?}"
    );
    assert!(!is_closed || faults.len() == 1, "{events:?}");
    is_closed
}

#[test]
fn a_session_cut_short_waits_for_the_rest() {
    let bytes = bytes_of(&session());
    for length in 0..bytes.len() {
        assert!(!is_refused(&heard(&bytes[..length], 50)));
    }
}

/// Numbers from a seed.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, count: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) as usize % count
    }
}

#[test]
fn no_change_of_a_byte_makes_it_panic() {
    let bytes = bytes_of(&session());
    let mut numbers = Numbers(1);
    let mut refused = 0;
    for at in 0..bytes.len() {
        for byte in [b'"', b'}', b'[', b'0', b',', numbers.below(256) as u8] {
            let mut changed = bytes.clone();
            changed[at] = byte;
            refused += usize::from(is_refused(&heard(&changed, 1000)));
        }
    }
    assert!(refused > bytes.len(), "{refused}");
}

/// All places of a value.
fn places(value: &Value, place: String, all: &mut Vec<String>) {
    match value {
        Value::Array(values) => {
            for (at, value) in values.iter().enumerate() {
                places(value, format!("{place}/{at}"), all);
            }
        }
        Value::Object(members) => {
            for (name, value) in members {
                places(value, format!("{place}/{name}"), all);
            }
        }
        _ => {}
    }
    all.push(place);
}

#[test]
fn no_other_value_in_any_place_makes_it_panic() {
    let good = session();
    let mut numbers = Numbers(2);
    let mut refused = 0;
    for at in 0..good.len() {
        let mut all = Vec::new();
        places(&good[at], String::new(), &mut all);
        for place in &all {
            let elsewhere = &good[numbers.below(good.len())];
            for wrong in [
                json!(null),
                json!(-1),
                json!(""),
                json!([]),
                json!({}),
                elsewhere.clone(),
            ] {
                let mut messages = good.clone();
                *messages[at].pointer_mut(place).expect("it was found") = wrong;
                refused += usize::from(is_refused(&heard(&bytes_of(&messages), 4096)));
            }
        }
    }
    assert!(refused > 300, "{refused}");
}

#[test]
fn no_order_of_messages_makes_it_panic() {
    let good = session();
    let mut numbers = Numbers(3);
    for _ in 0..2000 {
        let count = numbers.below(20);
        let messages: Vec<Value> = (0..count)
            .map(|_| good[numbers.below(good.len())].clone())
            .collect();
        is_refused(&heard(&bytes_of(&messages), 4096));
    }
}

/// What a client holds while it reads, for each byte that a message may have. The worst are
/// objects with one short member each.
const PER_BYTE: u64 = 100;

#[test]
fn what_a_message_can_make_it_hold_is_bounded() {
    let limits = RpcLimits {
        bytes_max: 1 << 20,
        values_max: 1 << 17,
        depth_max: 64,
    };
    let replica = ReplicaLimits {
        rows_max: 1 << 10,
        bytes_max: 1 << 20,
    };
    for (part, before) in [
        ("", "{\"a\":\""),
        ("[],", "{\"a\":["),
        ("0,", "{\"a\":["),
        ("{\"\":0},", "{\"a\":["),
        ("{\"\":{}},", "{\"a\":["),
        ("[[[[]]]],", "{\"a\":["),
        ("\"\",", "{\"a\":["),
        ("{\"a\":", ""),
        ("[", "{\"a\":"),
        ("\\u0041", "{\"a\":\""),
        ("{\"id\":\"echo\",\"method\":\"echo\",\"params\":[]}", ""),
        ("{\"id\":99,\"result\":1,\"error\":null}", ""),
    ] {
        let part = if part.is_empty() { "x" } else { part };
        let text = format!("{before}{}", part.repeat((4 << 20) / part.len()));
        let used = measure(|| {
            let mut client = client(limits, replica);
            events(&mut client, text.as_bytes(), 1 << 16);
        });
        let most = PER_BYTE * limits.bytes_max as u64;
        assert!(
            used.bytes_max < most,
            "{} bytes for {part:.20}",
            used.bytes_max
        );
    }
    // A message at the limit, whole: it is parsed.
    for part in ["{\"\":0}", "0", "[[]]", "{\"\":{\"\":{}}}", "\"ab\""] {
        let mut splitter = JsonSplitter::new(limits);
        let weight = part.matches('{').count() * 8 + part.matches('[').count() + 1;
        let count = (limits.values_max / weight).min(limits.bytes_max / (part.len() + 1)) - 10;
        let list = vec![part; count].join(",");
        let text = format!("{{\"a\":[{list}]}}");
        let used = measure(|| {
            splitter.push(text.as_bytes());
            let value = splitter.next().expect("it is within the limits");
            assert_eq!(
                value.expect("it is whole")["a"].as_array().map(Vec::len),
                Some(count)
            );
        });
        let most = PER_BYTE * limits.bytes_max as u64;
        assert!(used.bytes_max < most, "{} bytes for {part}", used.bytes_max);
    }
}

#[test]
fn a_database_beyond_the_limits_is_refused_and_the_rows_stay() {
    let limits = ReplicaLimits {
        rows_max: 100,
        bytes_max: 1 << 20,
    };
    let mut client = client(RpcLimits::default(), limits);
    let session = session();
    events(&mut client, &bytes_of(&session[..4]), 4096);
    assert_eq!(client.replica().row_count(), 2);
    let row = |at: usize| (uuid(100 + at), json!({"insert": {"name": "p"}}));
    let rows: serde_json::Map<String, Value> = (0..99).map(row).collect();
    let params = json!(["Open_vSwitch 3", ZERO, {"Port": rows}]);
    let update = json!({"id": null, "method": "update3", "params": params});
    let heard = events(&mut client, update.to_string().as_bytes(), 4096);
    let [DatabaseEvent::Fault(fault), DatabaseEvent::Closed] = &heard[..] else {
        panic!("{heard:?}");
    };
    let text = "the database has more than 100 rows of interest; raise `rows_max` to follow it";
    assert_eq!(fault.to_string(), text);
    assert_eq!(client.replica().row_count(), 2);
    assert_eq!(client.poll_link(NOW), Some(LinkStep::Disconnect));
}
