//! A private Open vSwitch and `thalweg-vswitchd` answer the same questions with the same
//! text. Needs Open vSwitch's programs, no privileges.

#[path = "../comparing/mod.rs"]
mod comparable;
#[path = "../../../crates/vswitchd/tests/trace/switch.rs"]
mod switch;

use std::path::PathBuf;

use comparable::comparable;
use switch::{Bridges, QUESTIONS};
use xtask::ovs::DummySwitch;

fn rules(name: &str) -> PathBuf {
    let folder = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../crates/vswitchd/tests/trace"
    );
    PathBuf::from(folder).join(name)
}

/// Open vSwitch with the bridges of `switch`.
fn start() -> DummySwitch {
    let switch = DummySwitch::start(4).expect("Open vSwitch is installed");
    let inner = "add-br br1 -- set bridge br1 datapath-type=dummy fail-mode=secure \
                 other-config:disable-in-band=true \
                 -- add-port br0 p9 -- set interface p9 type=patch ofport_request=9 \
                 options:peer=p8 \
                 -- add-port br1 p8 -- set interface p8 type=patch ofport_request=8 \
                 options:peer=p9 \
                 -- add-port br1 q1 -- set interface q1 type=dummy ofport_request=1";
    let words: Vec<&str> = inner.split_whitespace().collect();
    switch.configure(&words).expect("the bridge is made");
    let groups = switch.load_groups(&rules("outer.groups"));
    groups.expect("the groups are right");
    let outer = switch.load_rules(&rules("outer.rules"));
    outer.expect("the rules are right");
    let path = rules("inner.rules").display().to_string();
    let inner = switch.command_on("br1", "OpenFlow15", "add-flows", &[&path]);
    inner.expect("the rules are right");
    let missing = ["7", "controller"];
    let missing = switch.command_on("br0", "OpenFlow11", "mod-table", &missing);
    missing.expect("a table can send to controllers");
    switch
}

#[test]
fn traces_are_those_of_open_vswitch() {
    let mut theirs = start();
    let ours = Bridges::new();
    let mut differences = Vec::new();
    for question in QUESTIONS.lines() {
        let mut words = question.split_whitespace();
        let command = format!(
            "ofproto/{}",
            match words.next() {
                Some("trace") => "trace",
                _ => "trace-packet-out",
            }
        );
        // What packets have taught is forgotten.
        theirs.call("fdb/flush", &[]).expect("it is flushed");
        let arguments: Vec<&str> = words.collect();
        let answer = match theirs.call(&command, &arguments) {
            Ok(answer) => answer,
            Err(refusal) => {
                let refusal = refusal.to_string();
                let asked = format!("{command} {}: ", arguments.join(" "));
                let refusal = refusal.strip_prefix(&asked).expect("it repeats the call");
                refusal.to_owned()
            }
        };
        let (answer, mine) = (comparable(&answer), comparable(&ours.answer(question)));
        if answer != mine {
            differences.push(format!("> {question}\ntheirs: {answer}\nours: {mine}\n"));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
