use serde_json::json;

use super::*;

fn commands() -> ControlCommands {
    let mut commands = ControlCommands::new("ovs-vswitchd (Open vSwitch) 3.1.0");
    commands.add(&[
        ControlCommand::new("fdb/show", "bridge", 1, 1),
        ControlCommand::new("a/name-of-more-than-23-letters", "[x]", 0, usize::MAX),
        ControlCommand {
            usage: None,
            ..ControlCommand::new("vlog/message", "", 1, 1)
        },
    ]);
    commands
}

/// What a connection says to a request that it answers itself.
fn answer(method: &str, params: Value) -> Value {
    let mut connection = ControlConnection::default();
    let request = json!({"id": 7, "method": method, "params": params});
    connection.receive(request.to_string().as_bytes(), Duration::ZERO);
    assert_eq!(connection.next(&commands()), None);
    let output = connection.take_output().expect("a reply");
    serde_json::from_slice(&output).expect("it is JSON")
}

#[test]
fn commands_are_listed_by_name() {
    let reply = answer("list-commands", json!([]));
    expect_test::expect![[r#"
        The available commands are:
          a/name-of-more-than-23-letters [x]
          fdb/show                bridge
          list-commands           
          version                 
    "#]]
    .assert_eq(reply["result"].as_str().expect("a text"));
    let reply = answer("version", json!([]));
    assert_eq!(reply["result"], "ovs-vswitchd (Open vSwitch) 3.1.0\n");
    assert_eq!((&reply["id"], &reply["error"]), (&json!(7), &Value::Null));
}

#[test]
fn what_cannot_be_carried_out_is_refused() {
    for (method, params, error) in [
        (
            "fdb/shw",
            json!([]),
            "\"fdb/shw\" is not a valid command \
             (use \"list-commands\" to see a list of valid commands)\n",
        ),
        (
            "echo",
            json!([]),
            "\"echo\" is not a valid command \
             (use \"list-commands\" to see a list of valid commands)\n",
        ),
        (
            "fdb/show",
            json!([]),
            "\"fdb/show\" command requires at least 1 arguments\n",
        ),
        (
            "fdb/show",
            json!(["a", "b"]),
            "\"fdb/show\" command takes at most 1 arguments\n",
        ),
        (
            "fdb/show",
            json!([1]),
            "\"fdb/show\" command has non-string argument\n",
        ),
    ] {
        let reply = answer(method, params);
        assert_eq!(reply, json!({"id": 7, "result": null, "error": error}));
    }
}

#[test]
fn requests_are_handled_one_after_the_other() {
    let mut connection = ControlConnection::default();
    for bridge in ["br0", "br1"] {
        let request = json!({"id": bridge, "method": "fdb/show", "params": [bridge]});
        connection.receive(request.to_string().as_bytes(), Duration::ZERO);
    }
    let commands = commands();
    for bridge in ["br0", "br1"] {
        let request = connection.next(&commands).expect("a request");
        assert_eq!(request.arguments, [bridge]);
        assert!(connection.is_busy());
        assert_eq!(connection.next(&commands), None, "it has no reply yet");
        connection.reply(Ok(String::new()));
        assert_eq!(connection.next(&commands), None, "its reply is not taken");
        let output = connection.take_output().expect("the reply");
        let reply: Value = serde_json::from_slice(&output).expect("it is JSON");
        assert_eq!(reply, json!({"id": bridge, "result": "", "error": null}));
    }
    assert_eq!(connection.next(&commands), None);
    assert_eq!(connection.end_reason(), None);
}

#[test]
fn what_is_no_request_ends_the_connection() {
    for (bytes, reason) in [
        (
            json!({"id": null, "method": "a", "params": []}).to_string(),
            "received unexpected notification message",
        ),
        (
            json!({"id": 1, "result": 1, "error": null}).to_string(),
            "received unexpected reply message",
        ),
        (
            json!({"id": 1, "error": 1}).to_string(),
            "received unexpected error message",
        ),
        (
            "GET".to_owned(),
            "the byte 0x47 stands where a JSON object should begin",
        ),
        (
            format!("{{\"id\":{}", "[".repeat(99)),
            "a message nests more than 16 levels deep",
        ),
    ] {
        let mut connection = ControlConnection::default();
        connection.receive(bytes.as_bytes(), Duration::ZERO);
        assert_eq!(connection.next(&commands()), None);
        assert_eq!(connection.end_reason().as_deref(), Some(reason));
        assert_eq!(connection.take_output(), None);
    }
}

#[test]
#[should_panic(expected = "the command version is there twice")]
fn a_command_is_there_once() {
    commands().add(&[ControlCommand::new("version", "", 0, 0)]);
}
