//! The program `replay`: what it runs, and what it says.

use std::path::Path;
use std::process::{Command, Output};

use thalweg_fuzz::TARGETS;

fn replay(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_replay"));
    command.args(arguments).output().expect("replay starts")
}

#[test]
fn a_corpus_runs_whole_before_any_mutation() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/wire");
    let count = std::fs::read_dir(folder).expect("a corpus").count();
    let output = replay(&["wire", "--seconds", "0"]);
    assert!(output.status.success());
    let text = String::from_utf8_lossy(&output.stdout);
    let expected = format!("wire: {count} inputs of the corpus, 0 mutations from seed 1: sound\n");
    assert_eq!(text, expected);
}

#[test]
fn an_unknown_target_is_refused_with_the_names_of_all() {
    let output = replay(&["wired"]);
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8_lossy(&output.stderr);
    for target in TARGETS {
        assert!(text.contains(target.name), "{text}");
    }
}
