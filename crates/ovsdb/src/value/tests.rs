use super::*;
use crate::schema::BaseType;

fn column(key: AtomType, value: Option<AtomType>, min: usize, max: usize) -> ColumnType {
    let base = |atom| BaseType {
        atom,
        refers_to: None,
    };
    ColumnType {
        key: base(key),
        value: value.map(base),
        min,
        max,
    }
}

#[test]
fn every_notation_of_the_standard_is_read_and_written() {
    let id = "550e8400-e29b-41d4-a716-446655440000";
    let many = usize::MAX;
    for (of_type, text) in [
        (column(AtomType::Integer, None, 1, 1), json!(-5)),
        (column(AtomType::Real, None, 1, 1), json!(2.5)),
        (column(AtomType::Boolean, None, 1, 1), json!(true)),
        (column(AtomType::Text, None, 0, 1), json!("é")),
        (column(AtomType::Text, None, 0, 1), json!(["set", []])),
        (column(AtomType::Uuid, None, 1, 1), json!(["uuid", id])),
        (
            column(AtomType::Integer, None, 0, many),
            json!(["set", [1, 2]]),
        ),
        (column(AtomType::Integer, None, 0, many), json!(7)),
        (
            column(AtomType::Text, Some(AtomType::Integer), 0, many),
            json!(["map", [["a", 1], ["b", 2]]]),
        ),
    ] {
        let datum = Datum::parse(&text, &of_type).expect("it is right");
        assert_eq!(datum.to_json(), text);
    }
    // Other ways to write the same.
    let numbers = column(AtomType::Integer, None, 0, many);
    let read = |value: Value| Datum::parse(&value, &numbers);
    assert_eq!(read(json!(["set", [3, 1.0]])), read(json!(["set", [1, 3]])));
    assert_eq!(read(json!(["set", [4]])), read(json!(4)));
    let reals = column(AtomType::Real, None, 1, 1);
    assert_eq!(
        Datum::parse(&json!(-0.0), &reals),
        Datum::parse(&json!(0), &reals)
    );
}

fn is_refused(value: Value, of_type: ColumnType, reason: &str) {
    let error = Datum::parse(&value, &of_type).expect_err("it is wrong");
    assert_eq!(error.to_string(), reason);
}

#[test]
fn an_atom_of_another_type_is_refused() {
    let long = 9_223_372_036_854_775_808_u64;
    for (atom_type, value, reason) in [
        (AtomType::Integer, json!("5"), "5 is no integer"),
        (AtomType::Integer, json!(1.5), "1.5 is no integer"),
        (
            AtomType::Integer,
            json!(long),
            "9223372036854775808 is no integer",
        ),
        (AtomType::Text, json!(5), "5 is no string"),
        (AtomType::Boolean, json!(0), "0 is no boolean"),
        (
            AtomType::Uuid,
            json!(["uuid", "550e8400e29b41d4a716446655440000"]),
            r#"["uuid","550e8400e29b41d4a716446655440000"] is no uuid"#,
        ),
        (
            AtomType::Uuid,
            json!(["named-uuid", "a"]),
            r#"["named-uuid","a"] is no uuid"#,
        ),
    ] {
        is_refused(value, column(atom_type, None, 1, 1), reason);
    }
}

#[test]
fn a_set_of_another_form_is_refused() {
    let many = usize::MAX;
    for (min, max, value, reason) in [
        (
            1,
            1,
            json!(["set", []]),
            "0 elements where 1 to 1 are allowed",
        ),
        (
            1,
            many,
            json!(["set", []]),
            "0 elements where 1 to any number are allowed",
        ),
        (
            0,
            1,
            json!(["set", [1, 2]]),
            "2 elements where 0 to 1 are allowed",
        ),
        (
            0,
            many,
            json!(["set", [1, 1]]),
            "a set has an element twice",
        ),
        (0, many, json!(["set", 1]), "1 is no list of elements"),
        (0, many, json!(["map", []]), r#"["map",[]] is no integer"#),
    ] {
        is_refused(value, column(AtomType::Integer, None, min, max), reason);
    }
}

#[test]
fn a_map_of_another_form_is_refused() {
    for (value, reason) in [
        (json!("a"), "a is no map"),
        (json!(["set", []]), r#"["set",[]] is no map"#),
        (json!(["map", [["a"]]]), r#"["a"] is no pair of a map"#),
        (json!(["map", [["a", 1]]]), "1 is no string"),
        (
            json!(["map", [["a", "b"], ["a", "c"]]]),
            "a map has a key twice",
        ),
    ] {
        let of_type = column(AtomType::Text, Some(AtomType::Text), 0, usize::MAX);
        is_refused(value, of_type, reason);
    }
}

#[test]
fn an_error_quotes_no_more_than_a_line() {
    let of_type = column(AtomType::Integer, None, 1, 1);
    let error = Datum::parse(&json!("é".repeat(10_000)), &of_type).expect_err("it is wrong");
    assert!(error.to_string().len() < 500);
}
