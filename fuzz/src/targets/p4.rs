//! P4 programs, with the entries and packets that they get.
//!
//! 1. No JSON makes the loader panic. An error names a place: a line, or a pointer that leads
//!    somewhere in the JSON.
//! 2. A loaded program runs: packets of any bytes come to an end, and each is counted at least
//!    once.
//! 3. Any text is a script of STF or is refused, and a script runs on a fixed program.
//! 4. Any text is a file of commands or is refused; a refused command leaves no trace.

use std::sync::{Arc, OnceLock};

use thalweg_p4::program::ids::TableId;
use thalweg_p4::state::State;
use thalweg_p4::stf::Script;
use thalweg_p4::{Config, LoadError, Outbox, Program, Target, commands, stf};
use thalweg_packet::Instant;

const ROUTER: &str = include_str!("../../../crates/p4/testdata/router.json");

/// Most lines of a script or of commands.
const LINES_MAX: usize = 64;

/// Runs one input.
pub fn run(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    try_program(&text);
    if text.lines().count() <= LINES_MAX {
        try_script(&text);
        try_commands(&text);
    }
}

fn router() -> Arc<Program> {
    static PROGRAM: OnceLock<Arc<Program>> = OnceLock::new();
    let load = || Arc::new(Program::from_json(ROUTER).expect("it is a program"));
    PROGRAM.get_or_init(load).clone()
}

fn target(program: Arc<Program>) -> Option<Target> {
    Target::new(program, Config::default()).ok()
}

fn try_program(text: &str) {
    let program = match Program::from_json(text) {
        Ok(program) => Arc::new(program),
        Err(error) => return check_error(text, &error),
    };
    // Entries inside the program may be wrong.
    let Some(mut target) = target(program) else {
        return;
    };
    let mut outbox = Outbox::new();
    let seed: Vec<u8> = text.bytes().rev().take(80).collect();
    for length in [0, 1, 14, 34, seed.len()] {
        let packet = &seed[..length.min(seed.len())];
        outbox.clear();
        target.receive(length as u32 % 4, packet, Instant::ZERO, &mut outbox);
    }
    let counts = target.counts();
    let drops = thalweg_p4::DropReason::ALL.map(|reason| counts.drops(reason));
    let ends: u64 = counts.sent + drops.iter().sum::<u64>();
    assert!(ends >= counts.received, "a packet had no end: {counts:?}");
}

fn check_error(text: &str, error: &LoadError) {
    match error {
        LoadError::Syntax { line, .. } => {
            assert!(*line <= text.lines().count().max(1) + 1, "{error}");
        }
        LoadError::Refused { pointer, .. } => {
            let value: serde_json::Value = serde_json::from_str(text).expect("it was read");
            assert!(value.pointer(pointer).is_some(), "{error}");
        }
        other => panic!("{other}"),
    }
}

fn try_script(text: &str) {
    if let Ok(script) = Script::parse(text) {
        let mut target = target(router()).expect("the router has no wrong entries");
        stf::run(&script, &mut target);
    }
}

fn try_commands(text: &str) {
    let program = router();
    let Ok(commands) = commands::parse(text, &program) else {
        return;
    };
    let mut target = target(program.clone()).expect("the router has no wrong entries");
    let before = summary(&program, target.state());
    let updates: Vec<_> = commands.into_iter().map(|command| command.update).collect();
    if target.write(&updates, Instant::ZERO).is_err() {
        assert_eq!(
            summary(&program, target.state()),
            before,
            "half of a batch was done"
        );
    }
    target.receive(1, ROUTER.as_bytes(), Instant::ZERO, &mut Outbox::new());
}

/// The contents of a state, as text.
fn summary(program: &Program, state: &State) -> String {
    let tables = (0..program.tables.len()).map(|index| {
        let id = TableId(index as u32);
        (state.entries(program, id), state.default(id).cloned())
    });
    let groups: Vec<_> = (0..=u16::MAX)
        .filter_map(|group| state.multicast(group))
        .collect();
    let mirrors: Vec<_> = (0..=u16::MAX)
        .filter_map(|session| state.mirror(session))
        .collect();
    format!("{:?} {groups:?} {mirrors:?}", tables.collect::<Vec<_>>())
}
