//! `thalweg man` and `thalweg completions`.

mod command;

use std::fs;

use command::Scene;

#[test]
fn every_command_has_a_page_and_a_completion() {
    let scene = Scene::new();
    assert_eq!(scene.says(&["man", "pages"]), "");
    let page = |name: &str| fs::read_to_string(scene.path(&format!("pages/{name}"))).unwrap();
    let (program, run) = (page("thalweg.1"), page("thalweg-run.1"));
    assert!(program.starts_with(".ie") && program.contains(".SH SUBCOMMANDS"));
    assert!(run.contains("SIGHUP"), "{run}");
    assert!(page("configuration.md").contains("## `[[port]]`"));
    let script = scene.says(&["completions", "bash"]);
    let listed = scene.says(&["help"]);
    let commands = listed.split_once("Commands:").expect("they are listed").1;
    let commands = commands.lines().skip(1).take_while(|line| !line.is_empty());
    let names = commands.filter_map(|line| line.split_whitespace().next());
    for name in names.filter(|name| *name != "help") {
        assert!(page(&format!("thalweg-{name}.1")).contains("SYNOPSIS"));
        assert!(script.contains(&format!("thalweg,{name})")), "{name}");
    }
}

#[test]
fn a_folder_that_cannot_be_made_is_refused() {
    let scene = Scene::new();
    scene.write("file", "");
    scene.refuses(&["man", "file/pages"], &["file/pages", "name a folder"]);
}
