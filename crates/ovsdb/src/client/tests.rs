use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::*;
use crate::model::{Model, schema};
use crate::open_vswitch::{TABLES, port};
use crate::value::NewRow;

const START: Duration = Duration::ZERO;

/// A server that does what the test says, and the client that is tested.
struct Pair {
    client: DatabaseClient,
    server: RpcChannel,
    now: Duration,
    /// Requests that the server does not know.
    unknown: Vec<&'static str>,
    schema: Value,
    rows: Model,
    /// What the reply to `monitor_cond_since` says instead of all rows.
    since: Option<Value>,
    /// All requests, by method and parameters.
    asked: Vec<(String, Vec<Value>)>,
    /// Requests for transactions are left without a reply.
    ids: Vec<Value>,
    is_locked: bool,
}

impl Pair {
    fn new() -> Pair {
        let config = DatabaseConfig::new("Open_vSwitch", TABLES);
        let channel = config.channel;
        let mut rows = Model::default();
        (0..20).for_each(|row| rows.change(u16::from(row % 4), row, u64::from(row) + 3));
        Pair {
            client: DatabaseClient::new(config, START),
            server: RpcChannel::new(channel, START),
            now: START,
            unknown: Vec::new(),
            schema: schema(),
            rows,
            since: None,
            asked: Vec::new(),
            ids: Vec::new(),
            is_locked: true,
        }
    }

    fn connect(&mut self) -> Vec<DatabaseEvent> {
        assert_eq!(self.client.poll_link(self.now), Some(LinkStep::Connect));
        self.server = RpcChannel::new(RpcConfig::default(), self.now);
        self.client.handle_connected(self.now);
        self.run()
    }

    /// Lets both sides talk until neither has more to say.
    fn run(&mut self) -> Vec<DatabaseEvent> {
        let mut events = Vec::new();
        loop {
            let mut is_idle = true;
            while let Some(bytes) = self.client.take_output() {
                is_idle = false;
                self.server.receive(&bytes, self.now);
            }
            while let Some(message) = self.server.next() {
                self.answer(message);
            }
            while let Some(bytes) = self.server.take_output() {
                is_idle = false;
                self.client.receive(&bytes, self.now);
            }
            while let Some(event) = self.client.next(self.now) {
                events.push(event);
            }
            if is_idle {
                return events;
            }
        }
    }

    fn answer(&mut self, message: RpcMessage) {
        let RpcMessage::Request { id, method, params } = message else {
            panic!("{message:?}");
        };
        let result = match method.as_str() {
            method if self.unknown.contains(&method) => Err(json!("unknown method")),
            "get_schema" if self.schema.is_null() => {
                Err(json!({"error": "unknown database", "details": "there is none"}))
            }
            "get_schema" => Ok(self.schema.clone()),
            "monitor_cond_since" => Ok(match self.since.take() {
                Some(since) => since,
                None => {
                    json!([false, NO_TRANSACTION, self.rows.all(UpdateForm::Difference)])
                }
            }),
            "monitor_cond" => Ok(self.rows.all(UpdateForm::Difference)),
            "monitor" => Ok(self.rows.all(UpdateForm::Whole)),
            "lock" | "steal" => Ok(json!({"locked": self.is_locked || method == "steal"})),
            "transact" => {
                self.ids.push(id);
                self.asked.push((method, params));
                return;
            }
            _ => Ok(json!({})),
        };
        self.asked.push((method, params));
        self.server.send(&match result {
            Ok(result) => RpcMessage::Reply { id, result },
            Err(error) => RpcMessage::Error { id, error },
        });
    }

    /// Lets time pass until something happens.
    fn wait_for_events(&mut self) -> Vec<DatabaseEvent> {
        loop {
            self.now = self.client.tick(self.now).expect("a time to wait for");
            self.client.tick(self.now);
            let events = self.run();
            if !events.is_empty() {
                return events;
            }
        }
    }

    fn tell(&mut self, method: &str, params: Value) -> Vec<DatabaseEvent> {
        let params = params.as_array().expect("a list").clone();
        let method = method.to_owned();
        self.server
            .send(&RpcMessage::Notification { method, params });
        self.run()
    }

    /// The name of the last monitor.
    fn monitor(&self) -> Value {
        let asked = self.asked.iter().rev();
        let mut monitors = asked.filter(|(method, _)| method.starts_with("monitor"));
        monitors.next().expect("there is one").1[1].clone()
    }

    fn methods(&mut self) -> Vec<String> {
        self.asked.drain(..).map(|(method, _)| method).collect()
    }

    fn close(&mut self) -> Vec<DatabaseEvent> {
        self.client.handle_closed(self.now);
        let events = self.run();
        assert_eq!(events.last(), Some(&DatabaseEvent::Closed));
        self.now += Duration::from_secs(8);
        events
    }

    fn is_equal(&self) -> bool {
        Model::of(self.client.replica()) == self.rows
    }
}

/// How many rows a connection told as differences.
fn synced(events: &[DatabaseEvent]) -> usize {
    match events {
        [DatabaseEvent::Schema(_), DatabaseEvent::Synced(changes)] => changes.len(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_kind_of_server_is_followed_and_a_reconnection_is_no_flap() {
    let since = "monitor_cond_since";
    for (unknown, used, update) in [
        (vec![], since, "update3"),
        (
            vec![since, "set_db_change_aware"],
            "monitor_cond",
            "update2",
        ),
        (vec![since, "monitor_cond"], "monitor", "update"),
    ] {
        let mut pair = Pair::new();
        pair.unknown = unknown;
        assert_eq!(synced(&pair.connect()), pair.rows.rows.len());
        assert!(pair.is_equal() && pair.client.is_following());
        let mut methods = pair.asked.iter().map(|(method, _)| method.as_str());
        assert_eq!(methods.next_back(), Some(used));

        let mut after = pair.rows.clone();
        (0..9).for_each(|row| after.change(u16::from(row % 4), row, u64::from(row) + 77));
        let form = if update == "update" {
            UpdateForm::Whole
        } else {
            UpdateForm::Difference
        };
        let updates = pair.rows.update_to(&after, form);
        let mut params = json!([pair.monitor(), updates]);
        if update == "update3" {
            params = json!([pair.monitor(), NO_TRANSACTION, updates]);
        }
        let events = pair.tell(update, params);
        assert!(
            matches!(&events[..], [DatabaseEvent::Changed(_)]),
            "{events:?}"
        );
        pair.rows = after;
        assert!(pair.is_equal());

        pair.close();
        assert!(pair.is_equal(), "rows outlive the connection");
        assert_eq!(synced(&pair.connect()), 0, "nothing differs");
        pair.close();
        pair.rows.rows.pop_first();
        assert_eq!(synced(&pair.connect()), 1);
        assert!(pair.is_equal());
    }
}

#[test]
fn a_server_with_a_history_tells_only_what_is_new() {
    let last = "00000000-0000-0000-0000-0000000000aa";
    let mut pair = Pair::new();
    pair.since = Some(json!([false, last, pair.rows.all(UpdateForm::Difference)]));
    pair.connect();
    let later = "00000000-0000-0000-0000-0000000000bb";
    let params = json!([pair.monitor(), later, {}]);
    assert_eq!(pair.tell("update3", params), []);
    pair.close();
    let mut after = pair.rows.clone();
    after.rows.pop_first();
    let updates = pair.rows.update_to(&after, UpdateForm::Difference);
    pair.since = Some(json!([true, later, updates]));
    pair.rows = after;
    assert_eq!(synced(&pair.connect()), 1);
    assert!(pair.is_equal());
    let (_, params) = pair.asked.last().expect("the monitor");
    assert_eq!(params[3], later);

    // With other columns the rows are another matter.
    pair.close();
    let columns = pair.schema["tables"]["Port"]["columns"].as_object_mut();
    columns.expect("columns").remove("cvlans");
    pair.rows = Model::default();
    pair.connect();
    let (_, params) = pair.asked.last().expect("the monitor");
    assert_eq!(params[3], NO_TRANSACTION);
    assert!(pair.is_equal());
}

#[test]
fn a_database_that_comes_late_is_waited_for() {
    let mut pair = Pair::new();
    let schema = pair.schema.take();
    let events = pair.connect();
    let [DatabaseEvent::Fault(fault)] = &events[..] else {
        panic!("{events:?}");
    };
    let text = "the server cannot give the schema of Open_vSwitch: \
                unknown database: there is none";
    assert_eq!(fault.to_string(), text);
    assert_eq!(
        pair.client.poll_link(pair.now),
        None,
        "the connection stays"
    );
    // It asks less and less often.
    let mut waits = Vec::new();
    for _ in 0..5 {
        let before = pair.now;
        let events = pair.wait_for_events();
        assert!(
            matches!(&events[..], [DatabaseEvent::Fault(_)]),
            "{events:?}"
        );
        waits.push((pair.now - before).as_secs());
    }
    assert_eq!(waits, [1, 2, 4, 8, 8]);
    pair.methods();
    pair.schema = schema;
    assert!(synced(&pair.wait_for_events()) > 0);
    assert_eq!(pair.methods(), ["get_schema", "monitor_cond_since"]);
}

#[test]
fn a_converted_database_is_followed_on() {
    let mut pair = Pair::new();
    pair.connect();
    let old = pair.monitor();
    pair.rows.rows.pop_first();
    pair.schema["version"] = "8.4.0".into();
    let events = pair.tell("monitor_canceled", json!([old]));
    assert_eq!(synced(&events), 1);
    assert!(pair.is_equal());
    assert_ne!(pair.monitor(), old);
    // Late updates for the old monitor do not matter.
    let rows = json!({"Port": {NO_TRANSACTION: {"insert": {"name": "late"}}}});
    assert_eq!(pair.tell("update3", json!([old, NO_TRANSACTION, rows])), []);
    assert!(pair.is_equal());
    assert_eq!(pair.client.counters().ignored, 1);
}

#[test]
fn an_update_that_does_not_fit_ends_the_connection_and_all_rows_are_asked_for() {
    let last = "00000000-0000-0000-0000-0000000000aa";
    let mut pair = Pair::new();
    pair.since = Some(json!([false, last, pair.rows.all(UpdateForm::Difference)]));
    pair.connect();
    let wrong = json!({"Port": {NO_TRANSACTION: {"modify": {}}}});
    let events = pair.tell("update3", json!([pair.monitor(), last, wrong]));
    let [
        DatabaseEvent::Fault(DatabaseFault::Replica(_)),
        DatabaseEvent::Closed,
    ] = &events[..]
    else {
        panic!("{events:?}");
    };
    assert_eq!(pair.client.poll_link(pair.now), Some(LinkStep::Disconnect));
    assert_eq!(pair.client.poll_link(pair.now), None);
    // The owner may tell of what it did.
    pair.client.handle_closed(pair.now);
    pair.now += Duration::from_secs(1);
    assert_eq!(synced(&pair.connect()), 0);
    let (_, params) = pair.asked.last().expect("the monitor");
    assert_eq!(params[3], NO_TRANSACTION);
}

#[test]
fn a_lock_is_held_lost_and_asked_for_again() {
    let mut pair = Pair::new();
    pair.client.lock("ovs_vswitchd");
    pair.is_locked = false;
    let events = pair.connect();
    assert!(
        events.contains(&DatabaseEvent::Lock(false)),
        "another has it: {events:?}"
    );
    assert!(!pair.client.has_lock());
    assert!(pair.client.is_lock_contended());
    let mut transaction = DatabaseTransaction::new();
    transaction.insert(port::TABLE);
    assert_eq!(
        pair.client.submit(&transaction),
        Err(SubmitError::NotLocked)
    );
    assert_eq!(pair.tell("locked", json!(["another"])), []);
    assert_eq!(
        pair.tell("locked", json!(["ovs_vswitchd"])),
        [DatabaseEvent::Lock(true)]
    );
    assert!(pair.client.submit(&transaction).is_ok());
    pair.run();
    let (_, params) = pair.asked.last().expect("the transaction");
    assert_eq!(params[1], json!({"op": "assert", "lock": "ovs_vswitchd"}));
    assert_eq!(
        pair.tell("stolen", json!(["ovs_vswitchd"])),
        [DatabaseEvent::Lock(false)]
    );
    pair.client.steal("ovs_vswitchd");
    assert_eq!(pair.run(), [DatabaseEvent::Lock(true)]);
    pair.methods();

    let events = pair.close();
    assert!(events.contains(&DatabaseEvent::Lock(false)), "{events:?}");
    assert!(!pair.client.is_lock_contended(), "no other client has it");
    pair.is_locked = true;
    let events = pair.connect();
    assert!(events.contains(&DatabaseEvent::Lock(true)), "{events:?}");
    assert!(
        pair.methods().contains(&"lock".to_owned()),
        "a lock is not stolen again"
    );
    pair.client.unlock();
    assert_eq!(pair.run(), [DatabaseEvent::Lock(false)]);
    assert_eq!(pair.methods(), ["unlock"]);
}

/// A transaction that inserts a row.
fn insertion() -> (DatabaseTransaction, NewRow) {
    let mut transaction = DatabaseTransaction::new();
    let new = transaction.insert(port::TABLE);
    (transaction, new)
}

#[test]
fn transactions_are_taken_while_there_is_room_and_a_connection() {
    let mut pair = Pair::new();
    let (transaction, _) = insertion();
    assert_eq!(
        pair.client.submit(&transaction),
        Err(SubmitError::NotConnected)
    );
    pair.connect();
    let nothing = pair
        .client
        .submit(&DatabaseTransaction::new())
        .expect("it is taken");
    assert_eq!(
        pair.run(),
        [DatabaseEvent::Finished(
            nothing,
            TransactionOutcome::Unchanged
        )]
    );

    for _ in 0..64 {
        pair.client.submit(&transaction).expect("it is taken");
    }
    assert_eq!(
        pair.client.submit(&transaction),
        Err(SubmitError::TooMany(64))
    );
    assert_eq!(pair.run(), []);
    let events = pair.close();
    let is_lost = |event: &&DatabaseEvent| {
        matches!(
            event,
            DatabaseEvent::Finished(_, TransactionOutcome::TryAgain)
        )
    };
    assert_eq!(events.iter().filter(is_lost).count(), 64);
    pair.connect();
    assert!(pair.client.submit(&transaction).is_ok());
}

#[test]
fn every_transaction_has_its_outcome_in_any_order() {
    let mut pair = Pair::new();
    pair.connect();
    let (transaction, new) = insertion();
    let submit = |_| pair.client.submit(&transaction).expect("it is taken");
    let ids = [(); 4].map(submit);
    assert_eq!(pair.run(), []);
    let replies = [
        Ok(json!([{"uuid": ["uuid", "00000000-0000-0000-0000-0000000000cc"]}])),
        Ok(json!([{"error": "timed out"}])),
        Err(json!("canceled")),
        Err(json!({"error": "not allowed"})),
    ];
    for (id, reply) in pair.ids.drain(..).rev().zip(replies) {
        pair.server.send(&match reply {
            Ok(result) => RpcMessage::Reply { id, result },
            Err(error) => RpcMessage::Error { id, error },
        });
    }
    let mut events = pair.run().into_iter();
    let Some(DatabaseEvent::Finished(id, TransactionOutcome::Committed(committed))) = events.next()
    else {
        panic!("the first is committed");
    };
    assert_eq!(id, ids[3]);
    assert_eq!(committed.uuid_of(new), Uuid::from_u128(0xcc));
    let failed = TransactionOutcome::Failed("not allowed".to_owned());
    let rest = [
        DatabaseEvent::Finished(ids[2], TransactionOutcome::TryAgain),
        DatabaseEvent::Finished(ids[1], TransactionOutcome::TryAgain),
        DatabaseEvent::Finished(ids[0], failed),
    ];
    assert_eq!(events.collect::<Vec<_>>(), rest);
}

#[test]
fn a_silent_server_is_given_up() {
    let mut pair = Pair::new();
    pair.connect();
    let mut due = pair.client.tick(pair.now).expect("a probe");
    let mut events = Vec::new();
    for _ in 0..2 {
        pair.now = due;
        due = pair.client.tick(pair.now).unwrap_or(due);
        while pair.client.take_output().is_some() {}
        events.extend(std::iter::from_fn(|| pair.client.next(pair.now)));
    }
    let text = "the peer is silent: no answer to an inactivity probe";
    assert!(
        matches!(&events[..], [DatabaseEvent::Fault(fault), DatabaseEvent::Closed]
        if fault.to_string() == text),
        "{events:?}"
    );
}

#[test]
fn a_server_that_wants_something_is_answered() {
    let mut pair = Pair::new();
    pair.connect();
    let request = json!({"id": 7, "method": "list_dbs", "params": []});
    pair.client
        .receive(request.to_string().as_bytes(), pair.now);
    assert_eq!(pair.client.next(pair.now), None);
    let reply = pair.client.take_output().expect("an error");
    let reply: Map<String, Value> = serde_json::from_slice(&reply).expect("it is JSON");
    assert_eq!(reply["error"], "unknown method");
}
