use serde_json::json;

use super::*;

#[test]
fn a_schema_is_read() {
    let schema = json!({
        "name": "ordinals",
        "version": "5.1.3",
        "cksum": "1 2",
        "tables": {"ordinals": {
            "columns": {
                "number": {"type": "integer"},
                "name": {"type": {"key": {"type": "string", "enum": ["set", ["a"]]}, "min": 0}},
                "next": {"type": {
                    "key": {"type": "uuid", "refTable": "ordinals", "refType": "weak"},
                    "min": 0, "max": "unlimited"}},
                "stats": {"type": {"key": "string", "value": "real", "min": 0, "max": 4},
                          "ephemeral": true},
            },
            "isRoot": true, "maxRows": 1, "indexes": [["name"]],
        }},
    });
    let schema = DatabaseSchema::parse(&schema).expect("it is right");
    assert_eq!((&*schema.name, &*schema.version), ("ordinals", "5.1.3"));
    let table = &schema.tables["ordinals"];
    let texts: Vec<String> = table.values().map(ColumnType::to_string).collect();
    let expected = [
        "an optional string",
        "a set of uuid",
        "one integer",
        "a map from string to real",
    ];
    assert_eq!(texts, expected);
    assert_eq!(table["next"].key.refers_to.as_deref(), Some("ordinals"));
    assert_eq!(table["stats"].max, 4);
}

#[test]
fn what_is_no_schema_is_refused_with_the_place() {
    let with = |column: Value| json!({"name": "d", "tables": {"T": {"columns": {"c": column}}}});
    for (schema, reason) in [
        (json!([]), "the schema at \"name\" has no text"),
        (
            json!({"name": "d"}),
            "the schema at \"tables\" has no tables",
        ),
        (
            json!({"name": "d", "tables": {"T": {}}}),
            "the schema at \"T\" has no columns",
        ),
        (with(json!({})), "the schema at \"T.c\" has no type"),
        (
            with(json!({"type": {}})),
            "the schema at \"T.c\" has no key",
        ),
        (
            with(json!({"type": "float"})),
            "the schema at \"T.c\" has the unknown type float",
        ),
        (
            with(json!({"type": {"key": "string", "min": 2}})),
            "the schema at \"T.c\" has a \"min\" above 1 or a \"max\" below 1",
        ),
    ] {
        let error = DatabaseSchema::parse(&schema).expect_err("it is wrong");
        assert_eq!(error.to_string(), reason);
    }
}
