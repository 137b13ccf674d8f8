use serde_json::json;

use super::*;
use crate::model::schema;
use crate::open_vswitch::{TABLES, bridge, interface, port, root};
use crate::replica::{ReplicaLimits, UpdateForm};
use crate::schema::DatabaseSchema;

const ROW: &str = "00000000-0000-0000-0000-000000000001";
const OTHER: &str = "00000000-0000-0000-0000-000000000002";

fn replica_of(schema: &Value) -> DatabaseReplica {
    let mut replica = DatabaseReplica::new(TABLES, ReplicaLimits::default());
    let schema = DatabaseSchema::parse(schema).expect("it is right");
    replica.set_schema(&schema).expect("it fits");
    let rows = json!({
        "Port": {ROW: {"initial": {"name": "p1", "tag": 5, "trunks": ["set", [1, 2]]}}},
        "Open_vSwitch": {OTHER: {"initial": {"next_cfg": 3}}},
    });
    replica
        .resync(UpdateForm::Difference, &rows)
        .expect("it fits");
    replica
}

fn parts() -> (DatabaseReplica, Arc<Row>, DatabaseTransaction) {
    let replica = replica_of(&schema());
    let p1 = replica
        .named(port::TABLE, "p1")
        .expect("it is there")
        .clone();
    (replica, p1, DatabaseTransaction::new())
}

#[test]
fn operations_are_those_of_the_standard() {
    let (replica, p1, mut transaction) = parts();
    let root_row = replica
        .rows(root::TABLE)
        .next()
        .expect("it is there")
        .clone();
    let p2 = transaction.insert(port::TABLE);
    transaction.set_new(p2, port::NAME, "p2");
    let new = transaction.insert(interface::TABLE);
    transaction.set_new(new, interface::NAME, "p2");
    transaction.set_new(p2, port::INTERFACES, &[new.into()]);
    transaction.set(&p1, port::TAG, None);
    transaction.set(&p1, port::STATISTICS, &[("rx_packets", 4), ("a", 1)]);
    transaction.verify(&p1, port::TAG);
    transaction.add(&p1, port::TRUNKS, &[7]);
    transaction.remove(&p1, port::TRUNKS, &[1]);
    transaction.put(&p1, port::OTHER_CONFIG, "k", "v");
    transaction.take(&p1, port::OTHER_CONFIG, "old");
    transaction.increment(&root_row, root::CUR_CFG, 2);
    transaction.comment("one");
    transaction.comment("two");
    let (operations, _) = transaction.build(&replica, Some("ovs_vswitchd"));
    let this = json!([["_uuid", "==", ["uuid", ROW]]]);
    let expected = json!([
        {"op": "assert", "lock": "ovs_vswitchd"},
        {"op": "wait", "timeout": 0, "table": "Port", "where": this, "columns": ["tag"],
         "until": "==", "rows": [{"tag": 5}]},
        {"op": "update", "table": "Port", "where": this, "row": {
            "tag": ["set", []], "statistics": ["map", [["a", 1], ["rx_packets", 4]]]}},
        {"op": "insert", "table": "Port", "uuid-name": "row0",
         "row": {"name": "p2", "interfaces": ["named-uuid", "row1"]}},
        {"op": "insert", "table": "Interface", "uuid-name": "row1", "row": {"name": "p2"}},
        {"op": "mutate", "table": "Open_vSwitch", "where": [["_uuid", "==", ["uuid", OTHER]]],
         "mutations": [["cur_cfg", "+=", 2]]},
        {"op": "mutate", "table": "Port", "where": this, "mutations": [
            ["trunks", "insert", 7], ["trunks", "delete", 1],
            ["other_config", "delete", "k"], ["other_config", "insert", ["map", [["k", "v"]]]],
            ["other_config", "delete", "old"]]},
        {"op": "comment", "comment": "one\ntwo"},
    ]);
    assert_eq!(Value::from(operations), expected);
}

#[test]
fn what_is_there_already_is_not_written() {
    let (replica, p1, mut transaction) = parts();
    transaction.set(&p1, port::TAG, Some(5));
    transaction.set(&p1, port::TRUNKS, &[2, 1]);
    transaction.set(&p1, port::MAC, Some("a"));
    transaction.set(&p1, port::MAC, None);
    transaction.verify(&p1, port::NAME);
    transaction.comment("nothing");
    assert!(transaction.is_empty());
    assert!(transaction.build(&replica, Some("l")).0.is_empty());
}

#[test]
fn a_deleted_row_is_neither_updated_nor_mutated() {
    let (replica, p1, mut transaction) = parts();
    transaction.set(&p1, port::TAG, None);
    transaction.add(&p1, port::TRUNKS, &[7]);
    transaction.delete(&p1);
    transaction.abort();
    let (operations, _) = transaction.build(&replica, None);
    let ops: Vec<&str> = operations
        .iter()
        .filter_map(|op| op["op"].as_str())
        .collect();
    assert_eq!(ops, ["delete", "abort"]);
}

#[test]
fn columns_that_the_server_lacks_are_left_out() {
    let mut older = schema();
    let columns = older["tables"]["Port"]["columns"].as_object_mut();
    columns.expect("columns").remove("cvlans");
    let replica = replica_of(&older);
    let p1 = replica
        .named(port::TABLE, "p1")
        .expect("it is there")
        .clone();
    let mut transaction = DatabaseTransaction::new();
    transaction.set(&p1, port::CVLANS, &[3]);
    transaction.add(&p1, port::CVLANS, &[4]);
    transaction.verify(&p1, port::CVLANS);
    assert!(transaction.build(&replica, None).0.is_empty());
    transaction.set(&p1, port::TAG, None);
    let (operations, _) = transaction.build(&replica, None);
    assert_eq!(operations.len(), 1);
    assert_eq!(operations[0]["row"], json!({"tag": ["set", []]}));
}

#[test]
#[should_panic(expected = "the column is of another table")]
fn a_column_of_another_table_is_a_mistake() {
    let (_, p1, mut transaction) = parts();
    transaction.set(&p1, bridge::STP_ENABLE, true);
}

#[test]
fn outcomes_are_those_of_the_standard() {
    let (replica, p1, mut transaction) = parts();
    transaction.verify(&p1, port::TAG);
    transaction.set(&p1, port::TAG, None);
    let new = transaction.insert(port::TABLE);
    let (_, awaited) = transaction.build(&replica, Some("l"));
    let outcome = |result: Value| awaited.outcome(&result);
    let failed = |text: &str| TransactionOutcome::Failed(text.to_owned());
    let inserted = json!({"uuid": ["uuid", OTHER]});
    let done = outcome(json!([{}, {}, {"count": 1}, inserted]));
    let TransactionOutcome::Committed(committed) = done else {
        panic!("{done:?}");
    };
    assert_eq!(committed.uuid_of(new).to_string(), OTHER);
    for (result, expected) in [
        (
            json!([{}, {"error": "timed out"}, null, null]),
            TransactionOutcome::TryAgain,
        ),
        (
            json!([{"error": "not owner"}, null, null, null]),
            TransactionOutcome::NotLocked,
        ),
        (
            json!([{}, {}, {"count": 1}, inserted, {"error": "aborted"}]),
            TransactionOutcome::Aborted,
        ),
        (
            json!([{}, {}, {"count": 1}, inserted,
                   {"error": "constraint violation", "details": "of names"}]),
            failed("constraint violation: of names"),
        ),
        (
            json!({}),
            failed("the server's answer is no list of results"),
        ),
        (
            json!([{}, {}, {"count": 1}]),
            failed("the server's answer has not one result for each operation"),
        ),
        (
            json!([{}, {}, {"count": 2}, inserted]),
            failed("the server's answer does not count rows"),
        ),
        (
            json!([{}, {}, {"count": 0}, {}]),
            failed("the server's answer does not name an inserted row"),
        ),
    ] {
        assert_eq!(outcome(result), expected);
    }
}

#[test]
fn a_conflict_is_tried_again_when_the_replica_has_changed() {
    let (mut replica, ..) = parts();
    let mut retry = TransactionRetry::new(3);
    let again = RetryStep::WhenChanged {
        sequence: 1,
        within: Duration::from_secs(1),
    };
    assert_eq!(retry.after(&TransactionOutcome::TryAgain, &replica), again);
    let update = json!({"Port": {ROW: {"modify": {"tag": 6}}}});
    replica
        .apply(UpdateForm::Difference, &update)
        .expect("it fits");
    assert!(replica.sequence() != 1);
    assert_eq!(
        retry.after(&TransactionOutcome::NotLocked, &replica),
        RetryStep::WhenLocked
    );
    assert_eq!(
        retry.after(&TransactionOutcome::TryAgain, &replica),
        RetryStep::GiveUp
    );
    for outcome in [
        TransactionOutcome::Unchanged,
        TransactionOutcome::Failed(String::new()),
    ] {
        let step = TransactionRetry::new(3).after(&outcome, &replica);
        assert_eq!(step, RetryStep::Done);
    }
}
