//! Checks that the examples print what their essays say.
//!
//! Each example is a module here, so nothing is built or started twice; its `run` writes into
//! memory. With `UPDATE_EXPECT=1` the essays are corrected instead.

use std::path::Path;

#[allow(dead_code)]
#[path = "../examples/04_learning.rs"]
mod learning;

#[allow(dead_code)]
#[path = "../examples/01_forward.rs"]
mod forward;

#[allow(dead_code)]
#[path = "../examples/02_trace.rs"]
mod trace;

#[allow(dead_code)]
#[path = "../examples/03_change.rs"]
mod change;

#[allow(dead_code)]
#[path = "../examples/05_classifier.rs"]
mod classifier;

/// The line of an essay before the output, which follows as a text block.
const INTRODUCTION: &str = "//! Prints:\n//!\n//! ```text\n";
const END: &str = "//! ```\n";

/// Compares an example's output with its essay.
fn check(name: &str, printed: Vec<u8>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("examples")
        .join(name);
    let source = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = source
        .split_once(INTRODUCTION)
        .expect("the essay says what is printed");
    let (promised, after) = rest.split_once(END).expect("the block ends");
    let printed = String::from_utf8(printed).unwrap();
    let lines = printed
        .lines()
        .map(|line| format!("//! {line}").trim_end().to_owned() + "\n");
    let printed: String = lines.collect();
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        let corrected = format!("{before}{INTRODUCTION}{printed}{END}{after}");
        std::fs::write(&path, corrected).unwrap();
    } else {
        assert_eq!(
            promised, printed,
            "{name} (UPDATE_EXPECT=1 corrects the essay)"
        );
    }
}

macro_rules! examples {
    ($($module:ident: $name:literal),* $(,)?) => {
        $(#[test]
        fn $module() {
            let mut printed = Vec::new();
            $module::run(&mut printed).unwrap();
            check($name, printed);
        })*
    };
}

examples! {
    forward: "01_forward.rs",
    trace: "02_trace.rs",
    change: "03_change.rs",
    learning: "04_learning.rs",
    classifier: "05_classifier.rs",
}
