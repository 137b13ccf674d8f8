//! Tests the analysis on a small program.

use super::*;

/// `port` is matched before `a.x`; `a.y` is only copied; the parser makes `m.z` from `a.k`;
/// egress reads the port that the target sets.
const PROGRAM: &str = r#"{
  "header_types": [
    {"name": "standard_metadata", "id": 0, "fields": [["ingress_port", 9, false],
      ["egress_spec", 9, false], ["egress_port", 9, false], ["mcast_grp", 16, false],
      ["packet_length", 32, false], ["_padding", 5, false]]},
    {"name": "m_t", "id": 1, "fields": [["z", 8, false], ["late", 4, false]]},
    {"name": "a_t", "id": 2, "fields": [["x", 8, false], ["y", 16, false], ["k", 8, false],
      ["unread", 32, false]]}],
  "headers": [
    {"name": "standard_metadata", "id": 0, "header_type": "standard_metadata", "metadata": true},
    {"name": "m", "id": 1, "header_type": "m_t", "metadata": true},
    {"name": "a", "id": 2, "header_type": "a_t", "metadata": false}],
  "register_arrays": [{"name": "r", "id": 0, "bitwidth": 24, "size": 8}],
  "parsers": [{"name": "parser", "id": 0, "init_state": "start", "parse_states": [
    {"name": "start", "id": 0, "parser_ops": [
      {"op": "extract", "parameters": [{"type": "regular", "value": "a"}]},
      {"op": "set", "parameters": [{"type": "field", "value": ["m", "z"]},
                                   {"type": "field", "value": ["a", "k"]}]}],
     "transition_key": [], "transitions": []}]}],
  "actions": [
    {"name": "set_x", "id": 0, "primitives": [{"op": "assign", "parameters": [
      {"type": "field", "value": ["a", "x"]}, {"type": "field", "value": ["a", "y"]}]}]},
    {"name": "keep", "id": 1, "primitives": [{"op": "register_read", "parameters": [
      {"type": "field", "value": ["m", "late"]}, {"type": "register_array", "value": "r"},
      {"type": "hexstr", "value": "0x0"}]}]},
    {"name": "tag", "id": 2, "primitives": [
      {"op": "add_header", "parameters": [{"type": "header", "value": "a"}]},
      {"op": "mark_to_drop", "parameters": [{"type": "header", "value": "standard_metadata"}]}]}],
  "deparsers": [{"name": "deparser", "id": 0, "order": ["a"]}],
  "pipelines": [
    {"name": "ingress", "id": 0, "init_table": "first", "conditionals": [
      {"name": "late", "id": 0, "true_next": "second", "false_next": null,
       "expression": {"type": "expression", "value": {"op": "==",
         "left": {"type": "field", "value": ["m", "z"]},
         "right": {"type": "hexstr", "value": "0x1"}}}}],
     "tables": [
      {"name": "first", "id": 0, "max_size": 8, "match_type": "exact", "type": "simple", "key": [{"match_type": "exact",
         "target": ["standard_metadata", "ingress_port"]}],
       "actions": ["set_x"], "action_ids": [0], "next_tables": {"set_x": "late"},
       "base_default_next": "late", "default_entry": {"action_id": 0}},
      {"name": "second", "id": 1, "max_size": 8, "match_type": "exact", "type": "simple", "key": [{"match_type": "exact", "target": ["a", "x"]}],
       "actions": ["keep", "tag"], "action_ids": [1, 2],
       "next_tables": {"__HIT__": null, "__MISS__": null}, "base_default_next": null}]},
    {"name": "egress", "id": 1, "init_table": "out", "conditionals": [],
     "tables": [{"name": "out", "id": 2, "max_size": 8, "match_type": "exact", "type": "simple", "key": [{"match_type": "exact",
         "target": ["standard_metadata", "egress_port"]}],
       "actions": [], "action_ids": [], "next_tables": {}, "base_default_next": null}]}]
}"#;

fn names(analysis: &Analysis, vector: &Vector) -> Vec<String> {
    let ids = vector.objects.iter();
    ids.map(|id| analysis.objects.get(*id).name.clone())
        .collect()
}

#[test]
fn each_vector_has_what_its_definition_says() {
    let analysis = Analysis::of_json(PROGRAM).unwrap();
    // 9 + 9 + 9 + 16 + 32, and 8 + 16 + 8 + 32 + 1: padding and user metadata are no inputs.
    assert_eq!(analysis.pi_vio.bits, 140);
    assert_eq!(
        names(&analysis, &analysis.pd_vio),
        [
            "standard_metadata.ingress_port",
            "standard_metadata.egress_port",
            "a.x",
            "a.k"
        ]
    );
    assert_eq!(analysis.pd_vio.bits, 9 + 9 + 8 + 8);
    // `a.x` is written before it is matched, and the target sets the egress port.
    assert_eq!(
        names(&analysis, &analysis.s_vio),
        ["standard_metadata.ingress_port", "a.k"]
    );
    // `a.y` decides `a.x`, and a key of an invalid header is 0.
    assert_eq!(
        names(&analysis, &analysis.sound_vio),
        ["standard_metadata.ingress_port", "a.y", "a.k", "a.$valid$"]
    );
}

#[test]
fn outputs_odd_primitives_and_stop_points_are_told() {
    let analysis = Analysis::of_json(PROGRAM).unwrap();
    assert_eq!(
        names(&analysis, &analysis.valid_outputs),
        [
            "standard_metadata.egress_spec",
            "standard_metadata.mcast_grp",
            "a.x"
        ]
    );
    assert_eq!(analysis.odd_primitives, ["add_header a"]);
    assert_eq!(analysis.compound_actions(), Some(2));
    assert_eq!(analysis.total_primitives(), Some(2 * 3 + 1));
    let [stop] = &analysis.stop_points[..] else {
        panic!("{:?}", analysis.stop_points);
    };
    assert_eq!(stop.node, "keep");
}

/// The columns of the paper's figure 5: outputs, odd primitives, actions, primitives.
#[test]
fn the_papers_sums_are_ours() {
    let analysis = Analysis::of_json(PROGRAM).unwrap();
    for (outputs, odd, actions, primitives) in [(5, 1, 2, 11), (11, 1, 2, 23), (12, 2, 4, 52)] {
        let of_paper = Analysis {
            valid_outputs: Vector {
                objects: (0..outputs).map(ObjectId).collect(),
                bits: 0,
            },
            odd_primitives: vec![String::new(); odd],
            ..analysis.clone()
        };
        assert_eq!(of_paper.compound_actions(), Some(actions));
        assert_eq!(of_paper.total_primitives(), Some(primitives));
    }
}

/// If only one path to a key writes it, its first value still counts.
#[test]
fn what_is_written_on_one_way_only_is_still_an_input() {
    let both = PROGRAM.replace(
        r#""actions": ["set_x"], "action_ids": [0], "next_tables": {"set_x": "late"}"#,
        r#""actions": ["set_x", "keep"], "action_ids": [0, 1],
           "next_tables": {"set_x": "late", "keep": "late"}"#,
    );
    let analysis = Analysis::of_json(&both).unwrap();
    assert!(names(&analysis, &analysis.s_vio).contains(&"a.x".to_owned()));
    assert!(names(&analysis, &analysis.sound_vio).contains(&"a.x".to_owned()));
}

#[test]
fn the_graph_is_in_order_and_can_be_drawn() {
    let analysis = Analysis::of_json(PROGRAM).unwrap();
    let vertices = &analysis.graph.vertices;
    for (index, vertex) in vertices.iter().enumerate() {
        assert!(vertex.next.iter().all(|edge| edge.to > index), "{vertex:?}");
    }
    assert_eq!(vertices[0].kind, VertexKind::Parser);
    assert_eq!(vertices[vertices.len() - 1].kind, VertexKind::Termination);
    let drawing = analysis.to_dot();
    assert!(drawing.starts_with("digraph scfg {"));
    assert!(drawing.contains("[label=\"true\"]") && drawing.contains("stops: reads a register"));
}

/// A field that is updated from its old value is an input, even if nothing else reads it.
#[test]
fn a_field_that_is_added_to_is_an_input_of_the_sound_vector_alone() {
    let added = PROGRAM.replace(
        r#"{"op": "add_header", "parameters": [{"type": "header", "value": "a"}]}"#,
        r#"{"op": "add_to_field", "parameters": [{"type": "field", "value": ["a", "unread"]},
            {"type": "hexstr", "value": "-0x1"}]}"#,
    );
    let analysis = Analysis::of_json(&added).unwrap();
    let unread = "a.unread".to_owned();
    assert!(names(&analysis, &analysis.sound_vio).contains(&unread));
    assert!(!names(&analysis, &analysis.s_vio).contains(&unread));
    assert!(names(&analysis, &analysis.valid_outputs).contains(&unread));
}

fn reasons(program: &str) -> Vec<(String, &'static str)> {
    let analysis = Analysis::of_json(program).unwrap();
    let stops = analysis.stop_points.into_iter();
    stops.map(|stop| (stop.node, stop.reason)).collect()
}

/// Reads of values that depend on the moment, in every place, end a behaviour.
#[test]
fn what_is_of_the_moment_stops_wherever_it_is_read() {
    let length = "reads the packet's length";
    let key = PROGRAM.replace(
        r#""target": ["a", "x"]"#,
        r#""target": ["standard_metadata", "packet_length"]"#,
    );
    assert!(reasons(&key).contains(&("second".to_owned(), length)));
    let condition = PROGRAM.replace(
        r#""left": {"type": "field", "value": ["m", "z"]}"#,
        r#""left": {"type": "field", "value": ["standard_metadata", "packet_length"]}"#,
    );
    assert!(reasons(&condition).contains(&("late".to_owned(), length)));
    let parser = PROGRAM.replace(
        r#"{"type": "field", "value": ["a", "k"]}]}],"#,
        r#"{"type": "field", "value": ["standard_metadata", "packet_length"]}]}],"#,
    );
    assert!(reasons(&parser).contains(&("parser".to_owned(), length)));
    let metered = PROGRAM
        .replace(
            r#""register_arrays""#,
            r#""meter_arrays": [{"name": "rate", "id": 0, "is_direct": true, "rate_count": 2,
               "type": "bytes", "binding": "second", "result_target": ["m", "late"]}],
               "register_arrays""#,
        )
        .replace(
            r#"{"name": "second", "id": 1,"#,
            r#"{"name": "second", "id": 1, "direct_meters": "rate","#,
        );
    let meter = "executes a meter: its color is of the moment";
    assert!(reasons(&metered).contains(&("second".to_owned(), meter)));
}

/// Primitives that copy a packet end a remembered behaviour: each copy passes egress by itself.
#[test]
fn copies_end_what_is_remembered_and_a_drop_does_not() {
    let to_group = |value: &str| {
        let to = r#"{"op": "assign", "parameters": [{"type": "field",
            "value": ["standard_metadata", "mcast_grp"]}, VALUE]}"#;
        let was = r#"{"op": "add_header", "parameters": [{"type": "header", "value": "a"}]}"#;
        PROGRAM.replace(was, &to.replace("VALUE", value))
    };
    let replicas = (
        "tag".to_owned(),
        "replicates: each copy passes egress by itself",
    );
    let field = to_group(r#"{"type": "field", "value": ["a", "y"]}"#);
    assert!(reasons(&field).contains(&replicas));
    let number = to_group(r#"{"type": "hexstr", "value": "0x7"}"#);
    assert!(reasons(&number).contains(&replicas));
    let none = to_group(r#"{"type": "hexstr", "value": "0x0"}"#);
    assert!(!reasons(&none).contains(&replicas));
    assert!(!reasons(PROGRAM).contains(&replicas), "it drops");
}

/// The parser's metadata counts as its source, through any number of copies.
#[test]
fn metadata_that_the_parser_copies_twice_is_its_first_source() {
    let twice = PROGRAM
        .replace(
            r#"{"op": "set", "parameters": [{"type": "field", "value": ["m", "z"]},"#,
            r#"{"op": "set", "parameters": [{"type": "field", "value": ["m", "late"]},
               {"type": "field", "value": ["a", "unread"]}]},
               {"op": "set", "parameters": [{"type": "field", "value": ["m", "z"]},"#,
        )
        .replace(
            r#"{"type": "field", "value": ["a", "k"]}]}],"#,
            r#"{"type": "field", "value": ["m", "late"]}]}],"#,
        );
    let analysis = Analysis::of_json(&twice).unwrap();
    for vector in [&analysis.pd_vio, &analysis.sound_vio] {
        assert!(names(&analysis, vector).contains(&"a.unread".to_owned()));
    }
}
