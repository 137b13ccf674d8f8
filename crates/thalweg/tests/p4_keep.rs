//! Tests `thalweg p4 keep` beside `thalweg run`: a controller and its switch, as separate
//! programs.

mod command;
mod program;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use command::Scene;
use program::Program;
use rustix::process::Signal;

const ROUTER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../p4/testdata/router.json");
const ENTRIES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../p4/testdata/router.cmds");

/// A switch without a program, and the address of its P4Runtime.
fn switch(scene: &Scene) -> (Program, String) {
    let config = scene.write(
        "p4.toml",
        "[switch]\nname = \"kept\"\n[p4]\n[[port]]\nnumber = 1\nkind = \"memory\"\n",
    );
    let switch = Program::start_json(Path::new(&config));
    switch.wait_for("ready kept");
    (switch, format!("unix:{}", scene.path("kept.p4rt")))
}

#[test]
fn a_switch_is_kept_and_its_changes_are_lines() {
    let scene = Scene::new();
    let (switch, address) = switch(&scene);
    let mut keep = Command::new(env!("CARGO_BIN_EXE_thalweg"));
    keep.args(["--json", "p4", "keep", ROUTER, "--connect", &address]);
    keep.args(["--entries", ENTRIES, "--end-with-input"]);
    keep.stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut keep = keep.spawn().expect("the program starts");
    let mut news = BufReader::new(keep.stderr.take().expect("it is piped")).lines();
    let mut next = || news.next().expect("a line").expect("text");
    assert!(next().starts_with("ready "));
    let mut input = keep.stdin.take().expect("it is piped");
    let lines = "table_add routes set_hop 10.2.0.0/16 => 7\n# nothing\n\
                 table_add routes set_hop 10.2.0.0/16 => 8\ntable_add nowhere set_hop 1 =>\n";
    input.write_all(lines.as_bytes()).expect("it reads");
    let lines = b"table_add \xff\ntable_add routes set_hop 10.3.0.0/16 => 7\n\
        table_modify routes set_hop 3 => 8\ntable_delete routes 2\ntable_delete routes 2\n";
    input.write_all(lines).expect("it reads");
    drop(input);
    assert_eq!(next(), "done table_add routes set_hop 10.2.0.0/16 => 7");
    let refused = next();
    assert!(
        refused.contains("routes") && refused.contains("=> 8"),
        "{refused}"
    );
    assert!(next().contains("there is no table"));
    let refused = next();
    assert!(
        refused.contains("line 5") && refused.contains("utf-8"),
        "{refused}"
    );
    assert_eq!(next(), "done table_add routes set_hop 10.3.0.0/16 => 7");
    // The file's entries have handles 0 and 1; a refused command gets none.
    assert_eq!(next(), "done table_modify routes set_hop 3 => 8");
    assert_eq!(next(), "done table_delete routes 2");
    assert!(next().contains("there is no entry 2"));
    let output = keep.wait_with_output().expect("it ends with its input");
    assert!(output.status.success(), "{output:?}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one object");
    assert_eq!(report["changes"], 4, "{report}");
    assert_eq!(report["refused"], 4, "{report}");
    assert_eq!(report["behaviors"], 0, "{report}");
    let ended = switch.end(Signal::TERM);
    assert_eq!(ended.status, Some(0));
    let totals: serde_json::Value = serde_json::from_str(&ended.output).expect("one object");
    // The threshold, the digest, six entries and one more line; and an epoch for each change.
    assert!(
        totals["p4runtime"]["updates"].as_u64() >= Some(11),
        "{totals}"
    );
    assert_eq!(totals["p4runtime"]["refused_updates"], 1, "{totals}");
}

#[test]
fn what_cannot_be_kept_is_refused() {
    let scene = Scene::new();
    let nobody = format!("unix:{}", scene.path("nobody"));
    let keep = ["p4", "keep", ROUTER, "--connect", &nobody];
    let output = scene.run(&keep);
    let text = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("does a switch listen there?"), "{text}");
    scene.refuses(
        &["p4", "keep", ROUTER, "--connect", "nowhere"],
        &["unix:PATH"],
    );
    let tls = ["p4", "keep", ROUTER, "--connect", "tls:127.0.0.1:1"];
    scene.refuses(&tls, &["give all three"]);
    let (switch, address) = switch(&scene);
    let bad = scene.write(
        "bad.cmds",
        "table_add hops send 7 => 02:00:00:00:00:07 2\n\
         table_add hops send 7 => 02:00:00:00:00:07 2\n",
    );
    let keep = [
        "p4",
        "keep",
        ROUTER,
        "--connect",
        &address,
        "--entries",
        &bad,
    ];
    scene.refuses(&keep, &["bad.cmds:2:1: ", "hops"]);
    assert_eq!(switch.end(Signal::INT).status, Some(0));
}
