use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::model::{Model, schema};
use crate::open_vswitch::{TABLES, bridge, interface, port, root};
use crate::schema::DatabaseSchema;

const FORMS: [UpdateForm; 2] = [UpdateForm::Whole, UpdateForm::Difference];

fn empty() -> DatabaseReplica {
    let mut replica = DatabaseReplica::new(TABLES, ReplicaLimits::default());
    let schema = DatabaseSchema::parse(&schema()).expect("it is right");
    let report = replica.set_schema(&schema).expect("it fits");
    assert_eq!(
        (report.missing_tables.len(), report.missing_columns.len()),
        (0, 0)
    );
    replica
}

fn uuid(number: u128) -> String {
    Uuid::from_u128(number).to_string()
}

/// A change of a row: its table, its number, and a seed.
type Step = (u16, u8, u64);

fn steps() -> impl Strategy<Value = Vec<Vec<Step>>> {
    let step = (0u16..4, 0u8..5, any::<u64>());
    prop::collection::vec(prop::collection::vec(step, 0..6), 1..8)
}

/// What the changes of a batch must be, by the rows before and after.
fn check_changes(before: &Model, after: &Model, changes: &[RowChange]) {
    let mut expected = Model::default();
    let keys = before.rows.keys().chain(after.rows.keys());
    for key in keys.collect::<BTreeSet<_>>() {
        let (old, new) = (before.rows.get(key), after.rows.get(key));
        let is_told = match (old, new) {
            (Some(old), Some(new)) => {
                let columns = TABLES[usize::from(key.0)].columns;
                (0..columns.len()).any(|at| columns[at].is_told && old[at] != new[at])
            }
            _ => true,
        };
        if is_told {
            expected.rows.insert(*key, Vec::new());
        }
    }
    let told: BTreeMap<_, _> = changes
        .iter()
        .map(|change| ((change.row().table.0, change.row().uuid), change))
        .collect();
    assert_eq!(told.len(), changes.len(), "a row is told once");
    assert!(told.keys().eq(expected.rows.keys()), "{told:?}");
    for (key, change) in told {
        let columns = |row: &Option<Arc<Row>>| row.as_ref().map(|row| row.columns.to_vec());
        assert_eq!(columns(&change.old), before.rows.get(&key).cloned());
        assert_eq!(columns(&change.new), after.rows.get(&key).cloned());
    }
}

proptest! {
    #[test]
    fn all_forms_of_updates_give_the_rows_of_the_server(batches in steps()) {
        let mut replicas = FORMS.map(|form| (form, empty()));
        let mut model = Model::default();
        for batch in batches {
            let mut after = model.clone();
            for (table, row, seed) in batch {
                after.change(table, row, seed);
            }
            for (form, replica) in &mut replicas {
                let updates = model.update_to(&after, *form);
                let changes = replica.apply(*form, &updates).expect("it fits");
                prop_assert_eq!(&Model::of(replica), &after);
                check_changes(&model, &after, &changes);
                let counted: usize = after.rows.len();
                prop_assert_eq!(replica.row_count(), counted);
                // As much as a replica that has seen nothing else.
                let mut other = empty();
                other.resync(*form, &after.all(*form)).expect("it fits");
                prop_assert_eq!(replica.size_bytes(), other.size_bytes());
                prop_assert_eq!(&replica.tables[1].names, &other.tables[1].names);
            }
            model = after;
        }
    }

    #[test]
    fn all_rows_again_tell_only_what_differs(batches in steps(), later in steps()) {
        for form in FORMS {
            let mut model = Model::default();
            for (table, row, seed) in batches.iter().flatten() {
                model.change(*table, *row, *seed);
            }
            let mut replica = empty();
            let changes = replica.resync(form, &model.all(form)).expect("it fits");
            check_changes(&Model::default(), &model, &changes);
            prop_assert_eq!(replica.resync(form, &model.all(form)), Ok(Vec::new()));
            let mut after = model.clone();
            for (table, row, seed) in later.iter().flatten() {
                after.change(*table, *row, *seed);
            }
            let changes = replica.resync(form, &after.all(form)).expect("it fits");
            check_changes(&model, &after, &changes);
            prop_assert_eq!(&Model::of(&replica), &after);
        }
    }

    #[test]
    fn an_update_with_a_mistake_changes_nothing(
        batches in steps(),
        later in steps(),
        place in any::<prop::sample::Index>(),
        wrong in prop::sample::select(vec![json!(null), json!(1.5), json!(["set", [[]]]), json!({})]),
    ) {
        let mut model = Model::default();
        for (table, row, seed) in batches.iter().flatten() {
            model.change(*table, *row, *seed);
        }
        let mut after = model.clone();
        for (table, row, seed) in later.iter().flatten() {
            after.change(*table, *row, *seed);
        }
        for form in FORMS {
            let mut replica = empty();
            replica.resync(form, &model.all(form)).expect("it fits");
            let mut updates = model.update_to(&after, form);
            let mut places = Vec::new();
            for (table, rows) in updates.as_object().expect("tables") {
                for (row, update) in rows.as_object().expect("rows") {
                    for kind in ["new", "insert", "modify"] {
                        let columns = update.get(kind).and_then(Value::as_object);
                        let columns = columns.into_iter().flatten();
                        places.extend(columns.map(|(column, _)| {
                            format!("/{table}/{row}/{kind}/{column}")
                        }));
                    }
                }
            }
            if places.is_empty() {
                continue;
            }
            let place = place.get(&places);
            *updates.pointer_mut(place).expect("it was found") = wrong.clone();
            prop_assert!(replica.apply(form, &updates).is_err(), "{}", updates);
            prop_assert_eq!(&Model::of(&replica), &model);
        }
    }
}

/// Refuses an update of a replica with one port, which stays as it is.
fn is_refused(form: UpdateForm, update: Value, reason: &str) {
    let there = json!({"Port": {uuid(1): {"initial": {"name": "p1"}}}});
    let mut replica = empty();
    replica
        .resync(UpdateForm::Difference, &there)
        .expect("it fits");
    let before = Model::of(&replica);
    let error = replica.apply(form, &update).expect_err("it does not fit");
    assert_eq!(error.to_string(), format!("an update of {reason}"));
    assert_eq!(Model::of(&replica), before);
}

#[test]
fn an_update_of_another_form_is_refused() {
    for (update, reason) in [
        (json!([]), "the database is no object"),
        (json!({"Ports": {}}), "Ports was not asked for"),
        (json!({"Port": []}), "Port is no object"),
        (json!({"Port": {"1": {}}}), "Port 1 names no UUID"),
    ] {
        for form in FORMS {
            is_refused(form, update.clone(), reason);
        }
    }
}

#[test]
fn a_difference_that_does_not_fit_is_refused() {
    for (row, update, reason) in [
        (1, json!({}), "is no object of one member"),
        (
            1,
            json!({"renew": {}}),
            "is neither initial, insert, modify nor delete",
        ),
        (1, json!({"insert": {}}), "inserts a row that is there"),
        (2, json!({"modify": {}}), "changes a row that is not there"),
        (
            2,
            json!({"delete": null}),
            "deletes a row that is not there",
        ),
        (
            1,
            json!({"modify": {"external_ids": ["map", []]}}),
            "has the column external_ids, not asked for",
        ),
        (
            1,
            json!({"modify": {"name": ["set", []]}}),
            "column name: 0 elements where 1 to 1 are allowed",
        ),
    ] {
        let reason = format!("Port {} {reason}", uuid(row));
        is_refused(
            UpdateForm::Difference,
            json!({"Port": {uuid(row): update}}),
            &reason,
        );
    }
}

#[test]
fn a_whole_row_that_does_not_fit_is_refused() {
    for (row, update, reason) in [
        (1, json!({"new": {}}), "inserts a row that is there"),
        (1, json!({"new": 1, "old": {}}), "has no columns"),
        (1, json!({}), "has neither \"old\" nor \"new\""),
        (2, json!({"old": {}}), "deletes a row that is not there"),
        (
            2,
            json!({"old": {}, "new": {}}),
            "changes a row that is not there",
        ),
    ] {
        let reason = format!("Port {} {reason}", uuid(row));
        is_refused(
            UpdateForm::Whole,
            json!({"Port": {uuid(row): update}}),
            &reason,
        );
    }
}

#[test]
fn rows_are_found_by_name_and_followed() {
    let mut replica = empty();
    let rows = json!({
        "Open_vSwitch": {uuid(9): {"initial": {"bridges": ["uuid", uuid(1)], "next_cfg": 4}}},
        "Bridge": {uuid(1): {"initial": {
            "name": "br0", "fail_mode": "secure",
            "ports": ["set", [["uuid", uuid(2)], ["uuid", uuid(3)], ["uuid", uuid(7)]]],
            "other_config": ["map", [["hwaddr", "aa:55"], ["mac-aging-time", "9"]]]}}},
        "Port": {uuid(2): {"initial": {"name": "p1", "tag": 5, "trunks": ["set", [3, 1]]}},
                 uuid(3): {"initial": {"name": "p2"}}},
    });
    let changes = replica
        .resync(UpdateForm::Difference, &rows)
        .expect("it fits");
    assert_eq!(changes.len(), 4);
    let br0 = replica
        .named(bridge::TABLE, "br0")
        .expect("it is there")
        .clone();
    assert_eq!(br0.get(bridge::FAIL_MODE), Some("secure"));
    assert_eq!(br0.get(bridge::OTHER_CONFIG).get("hwaddr"), Some("aa:55"));
    assert_eq!(br0.get(bridge::OTHER_CONFIG).get("hw"), None);
    assert_eq!(br0.get(bridge::OTHER_CONFIG).iter().count(), 2);
    // The third is not there.
    let ports = replica.follow(&br0, bridge::PORTS);
    let ports: Vec<&str> = ports.map(|row| row.get(port::NAME)).collect();
    assert_eq!(ports, ["p1", "p2"]);
    let p1 = replica
        .named(port::TABLE, "p1")
        .expect("it is there")
        .clone();
    assert_eq!(p1.get(port::TAG), Some(5));
    assert_eq!(p1.get(port::TRUNKS).collect::<Vec<_>>(), [1, 3]);
    assert!(replica.named(port::TABLE, "p").is_none());
    assert!(replica.named(interface::TABLE, "p1").is_none());
    let root = replica.rows(root::TABLE).next().expect("it is there");
    assert_eq!(root.get(root::NEXT_CFG), 4);

    // Two rows change their names for each other's.
    let swap = json!({"Port": {uuid(2): {"modify": {"name": "p2"}},
                               uuid(3): {"modify": {"name": "p1"}}}});
    let changes = replica
        .apply(UpdateForm::Difference, &swap)
        .expect("it fits");
    assert_eq!(changes.len(), 2);
    assert!(changes[0].has_changed(port::NAME) && !changes[0].has_changed(port::TAG));
    assert_eq!(
        replica.named(port::TABLE, "p2").map(|row| row.uuid),
        Some(p1.uuid)
    );
    // The row that was read before is as it was.
    assert_eq!(p1.get(port::NAME), "p1");
}

#[test]
fn what_this_side_writes_is_kept_and_not_told() {
    let mut replica = empty();
    let rows = json!({"Interface": {uuid(1): {"initial": {"name": "p1"}}}});
    replica
        .resync(UpdateForm::Difference, &rows)
        .expect("it fits");
    let update = json!({"Interface": {uuid(1): {"modify": {"ofport": 7}}}});
    assert_eq!(
        replica.apply(UpdateForm::Difference, &update),
        Ok(Vec::new())
    );
    let p1 = replica.named(interface::TABLE, "p1").expect("it is there");
    assert_eq!(p1.get(interface::OFPORT), Some(7));
    assert_eq!(replica.sequence(), 2);
}

#[test]
fn limits_are_errors_that_change_nothing() {
    let rows = |count: u128| {
        let rows = (0..count).map(|at| (uuid(at), json!({"initial": {"name": "p"}})));
        json!({"Port": rows.collect::<Map<String, Value>>()})
    };
    let mut replica = empty();
    replica.limits.rows_max = 3;
    replica
        .resync(UpdateForm::Difference, &rows(3))
        .expect("it fits");
    let error = replica.resync(UpdateForm::Difference, &rows(4));
    assert_eq!(error, Err(ReplicaError::TooManyRows(3)));
    assert_eq!(replica.row_count(), 3);
    replica.limits = ReplicaLimits {
        rows_max: 10,
        bytes_max: replica.size_bytes(),
    };
    let error = replica.resync(UpdateForm::Difference, &rows(4));
    assert_eq!(error, Err(ReplicaError::TooLarge(replica.limits.bytes_max)));
    // Deleted rows make room for new ones.
    let swap = json!({"Port": {uuid(0): {"delete": null}, uuid(8): {"insert": {"name": "p"}}}});
    assert_eq!(
        replica
            .apply(UpdateForm::Difference, &swap)
            .map(|c| c.len()),
        Ok(2)
    );
}

#[test]
fn an_older_schema_is_reported_and_a_wrong_one_refused() {
    let mut older = schema();
    let tables = older["tables"].as_object_mut().expect("tables");
    tables.remove("CT_Zone");
    let columns = tables["Port"]["columns"].as_object_mut().expect("columns");
    columns.remove("cvlans");
    let mut replica = empty();
    let schema_of = |value: &Value| DatabaseSchema::parse(value).expect("it is right");
    let report = replica
        .set_schema(&schema_of(&older))
        .expect("it can be used");
    assert_eq!(report.missing_tables, ["CT_Zone"]);
    assert_eq!(report.missing_columns, ["Port.cvlans"]);
    assert!(!replica.has_column(port::CVLANS) && replica.has_column(port::TAG));
    let monitored = replica.monitored();
    assert!(!monitored.contains_key("CT_Zone"));
    assert!(
        !monitored["Port"][0]["columns"]
            .as_array()
            .expect("a list")
            .contains(&json!("cvlans"))
    );
    let rows = json!({"Port": {uuid(1): {"initial": {"name": "p1"}}}});
    replica
        .resync(UpdateForm::Difference, &rows)
        .expect("it fits");
    let p1 = replica.named(port::TABLE, "p1").expect("it is there");
    assert_eq!(p1.get(port::CVLANS).count(), 0);

    for (of_type, found) in [
        (json!("string"), "one string"),
        (
            json!({"key": "integer", "min": 0, "max": 2}),
            "a set of integer",
        ),
        (
            json!({"key": "integer", "value": "integer", "min": 0}),
            "a map from integer to integer",
        ),
    ] {
        let mut wrong = schema();
        wrong["tables"]["Port"]["columns"]["tag"]["type"] = of_type;
        let error = replica
            .set_schema(&schema_of(&wrong))
            .expect_err("it cannot be used");
        let text = format!(
            "the server's column Port.tag is {found}, not an optional integer; \
             its schema is not usable"
        );
        assert_eq!(error.to_string(), text);
        assert!(!replica.has_column(port::CVLANS), "nothing has changed");
    }
    // A value that must be there may be read as one that may be.
    let mut stricter = schema();
    stricter["tables"]["Port"]["columns"]["tag"]["type"] = json!("integer");
    assert!(replica.set_schema(&schema_of(&stricter)).is_ok());
}
