//! Tests `testdata/router.json`: a program written by hand, entries in both formats, refusals.

use std::sync::Arc;

use thalweg_p4::stf::{Script, run};
use thalweg_p4::{Config, Program, Target, commands};

const ROUTER: &str = include_str!("../../testdata/router.json");
const SCRIPT: &str = include_str!("../../testdata/router.stf");
const COMMANDS: &str = include_str!("../../testdata/router.cmds");

fn router() -> Arc<Program> {
    Arc::new(Program::from_json(ROUTER).unwrap_or_else(|error| panic!("{error}")))
}

fn target() -> Target {
    Target::new(router(), Config::default()).expect("own entries")
}

#[test]
fn the_script_passes_and_a_wrong_one_does_not() {
    let script = |text: &str| Script::parse(text).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(run(&script(SCRIPT), &mut target()), []);
    let changes = [
        // Another byte, another port, one packet more, another count, an unknown table.
        ("3f06 acdd", "3e06 acdd"),
        (
            "expect 3 020000000008 020000000001",
            "expect 2 020000000008 020000000001",
        ),
        ("check_counter sent(3) packets == 3", "expect 3 00"),
        (
            "denied($NO_UDP) packets == 1",
            "denied($NO_UDP) packets == 2",
        ),
        ("add hops hop:7", "add hop hop:7"),
        ("0a020304 $", "0a02 $"),
    ];
    for (right, wrong) in changes {
        let text = SCRIPT.replacen(right, wrong, 1);
        assert_ne!(text, SCRIPT, "{right}");
        assert_ne!(run(&script(&text), &mut target()), [], "{wrong}");
    }
}

#[test]
fn the_commands_are_the_entries_of_the_script() {
    let program = router();
    let commands = commands::parse(COMMANDS, &program).unwrap_or_else(|error| panic!("{error}"));
    let mut by_commands = target();
    let updates: Vec<_> = commands.into_iter().map(|command| command.update).collect();
    let written = by_commands.write(&updates, thalweg_packet::Instant::ZERO);
    written.unwrap_or_else(|error| panic!("{error}"));
    let mut by_script = target();
    let script = Script::parse(SCRIPT).expect("a script");
    run(&script, &mut by_script);
    for (index, table) in program.tables.iter().enumerate() {
        let id = thalweg_p4::program::ids::TableId(index as u32);
        let entries = |target: &mut Target| {
            let entries = target.state().entries(&program, id);
            let mut entries: Vec<String> = entries
                .iter()
                .map(|entry| format!("{:?} {:?}", entry.matches, entry.action))
                .collect();
            entries.sort();
            entries
        };
        assert_eq!(
            entries(&mut by_commands),
            entries(&mut by_script),
            "{}",
            table.name
        );
    }
}

#[test]
fn wrong_commands_are_refused_with_their_line() {
    let wrong = [
        ("table_add nowhere drop 1 =>", "there is no table"),
        ("table_add hops send 7 =>", ""),
        ("table_add hops send => 1 2", "has 1 parts"),
        ("table_add acl drop 1 1 =>", "needs a priority"),
        (
            "table_add routes set_hop 10.0.0.1 => 7",
            "matched by prefix",
        ),
        ("table_add hops fly 7 =>", "there is no action"),
        ("mc_node_associate 1 0", "no node"),
        ("fly", "not supported"),
    ];
    for (line, says) in wrong {
        let text = format!("# first\n{line}\n");
        match commands::parse(&text, &router()) {
            Err(error) => {
                assert_eq!(error.line, 2, "{line}");
                assert!(error.what.contains(says), "{error}");
            }
            // A line that can be read may still be refused when it is written.
            Ok(commands) => {
                let updates: Vec<_> = commands.into_iter().map(|one| one.update).collect();
                let written = target().write(&updates, thalweg_packet::Instant::ZERO);
                assert!(written.is_err() && says.is_empty(), "{line}");
            }
        }
    }
}

#[test]
fn a_program_is_refused_with_its_place() {
    let wrong = [
        (
            "\"op\": \"mark_to_drop\"",
            "\"op\": \"levitate\"",
            "/actions/0/primitives/0: the prim",
        ),
        (
            "\"next_state\": \"ipv4\"",
            "\"next_state\": \"ipv5\"",
            "/transitions/0/next_state",
        ),
        (
            "\"ethernet\",\n        \"type\"",
            "\"ethernet\",\n        \"kind\"",
            "no field ethernet.kind",
        ),
        (
            "\"match_type\": \"lpm\",\n       \"name\"",
            "\"match_type\": \"near\",\n       \"name\"",
            "/pipelines/0/tables/1/key/0/match_type (from router.p4:50:4): a match of kind",
        ),
        (
            "\"true_next\": \"Ingress.routes\"",
            "\"true_next\": \"node_2\"",
            "a cycle",
        ),
        (
            "\"true_next\": \"Ingress.routes\"",
            "\"true_next\": \"x\"",
            "router.p4:58:8",
        ),
        ("2,\n   23", "3,\n   0", "version 3 of the format"),
        (
            "\"algo\": \"csum16\"",
            "\"algo\": \"md5\"",
            "/calculations/0/algo",
        ),
        (
            "\"name\": \"ingress\"",
            "\"name\": \"outgress\"",
            "no pipeline \"ingress\"",
        ),
        ("{", "[", "line 2, column 11: expected"),
    ];
    for (right, changed, says) in wrong {
        let text = ROUTER.replacen(right, changed, 1);
        assert_ne!(text, ROUTER, "{right}");
        let error = Program::from_json(&text).expect_err(changed).to_string();
        assert!(error.contains(says), "{changed}: {error}");
    }
}
