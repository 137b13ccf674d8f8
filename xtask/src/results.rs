//! `cargo xtask results`: renders the pages of measured results from their JSON files.
//!
//! Each table is a file `docs/results/NAME.json`, and its page is `docs/results/NAME.md`.
//! `docs/results.md` lists the pages by `order`. A page with a file of older figures beside it
//! (`docs/results/history/NAME.md`) links to it. No one edits a page by hand: `tidy` and
//! `--check` fail where a page and its JSON differ, or one has no other.
//!
//! ```json
//! {
//!   "order": 1,
//!   "title": "Forwarding",
//!   "headline": "a megaflow with 20 masks takes 0.42 of the peer's time",
//!   "measured": "Processor time to forward a 64-byte packet on one core.",
//!   "commands": ["thalweg bench forward --peer peer.json"],
//!   "machine": "2 cores of an AMD EPYC (Zen 4), a virtual machine",
//!   "date": "2026-11-20",
//!   "commit": "0123abc",
//!   "peer": "Open vSwitch 3.1.0 with DPDK",
//!   "columns": [
//!     {"name": "flows", "key": "flows"},
//!     {"name": "Thalweg", "unit": "ns", "key": "ns_per_packet", "where": {"mode": "all"}}
//!   ],
//!   "rows": [[200000, [84.9, 83.5, 85.5]]],
//!   "notes": ["At most five, of at most 200 characters each."]
//! }
//! ```
//!
//! `date`, `commit`, `peer` and `notes` may be absent. A cell is a number, a text, `null`
//! (unknown, or not measured) or a spread `[median, min, max]`. `key`, `where` and `scale`
//! of a column matter only to `--import NAME FILE...`, which takes rows from the output of a
//! benchmark with `--json`; `import.rs` describes them.

mod import;
mod page;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

use self::page::Page;
use crate::workspace::Workspace;

/// The list of all pages.
const INDEX: &str = "docs/results.md";
/// The folder of the pages and of their JSON files.
const FOLDER: &str = "docs/results";
/// The folder of older figures, inside [`FOLDER`].
const HISTORY: &str = "history";

/// What to do with the pages.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Write nothing; fail where a page and its JSON differ.
    #[arg(long, conflicts_with = "import")]
    check: bool,
    /// Replace the rows of page NAME with those of all FILEs, outputs of a benchmark's `--json`.
    #[arg(long, num_args = 2.., value_names = ["NAME", "FILE"])]
    import: Vec<String>,
}

/// A page that is not as its JSON says.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Difference {
    /// The path from the root.
    pub(crate) path: String,
    /// The first line that differs, from 1.
    pub(crate) line: usize,
    /// The fault in it.
    pub(crate) what: String,
}

/// Imports rows if asked, then renders all pages or checks them.
///
/// # Errors
/// If a JSON file is not a page, rows cannot be imported, or a file cannot be read or written.
pub fn run(workspace: &Workspace, arguments: &Arguments) -> anyhow::Result<bool> {
    let root = &workspace.root;
    if arguments.check {
        let differences = differences(root)?;
        for Difference { path, line, what } in &differences {
            println!("{path}:{line}: {what}");
        }
        println!("results: {} differences", differences.len());
        return Ok(differences.is_empty());
    }
    if let [name, files @ ..] = arguments.import.as_slice() {
        import_rows(root, name, files)?;
    }
    for (path, text) in render_all(root)? {
        let path = root.join(path);
        if fs::read_to_string(&path).is_ok_and(|old| old == text) {
            continue;
        }
        fs::write(&path, text).with_context(|| format!("{} cannot be written", path.display()))?;
        println!("wrote {}", path.display());
    }
    Ok(true)
}

/// Every page that differs from its JSON, and every page without one.
///
/// # Errors
/// If a JSON file is not a page, or a file cannot be read.
pub(crate) fn differences(root: &Path) -> anyhow::Result<Vec<Difference>> {
    let rendered = render_all(root)?;
    let mut differences = Vec::new();
    for (path, text) in &rendered {
        let found = fs::read_to_string(root.join(path)).unwrap_or_default();
        if let Some(line) = first_difference(text, &found) {
            differences.push(Difference {
                path: path.clone(),
                line,
                what: "the page differs from its JSON".to_owned(),
            });
        }
    }
    let wanted: BTreeSet<&String> = rendered.keys().collect();
    for name in names(root, "md")? {
        let path = format!("{FOLDER}/{name}.md");
        if !wanted.contains(&path) {
            let what = format!("there is no {FOLDER}/{name}.json");
            let line = 1;
            differences.push(Difference { path, line, what });
        }
    }
    Ok(differences)
}

/// The number of the first line in which two texts differ, if they do.
fn first_difference(wanted: &str, found: &str) -> Option<usize> {
    if wanted == found {
        return None;
    }
    let same = wanted.lines().zip(found.lines());
    Some(1 + same.take_while(|(wanted, found)| wanted == found).count())
}

/// The text of every page and of the index, by path.
fn render_all(root: &Path) -> anyhow::Result<BTreeMap<String, String>> {
    let mut pages = Vec::new();
    for name in names(root, "json")? {
        let path = format!("{FOLDER}/{name}.json");
        pages.push((name, read(root, &path)?));
    }
    pages.sort_by_key(|(name, page)| (page.order, name.clone()));
    let mut texts = BTreeMap::from([(INDEX.to_owned(), page::render_index(&pages))]);
    for (name, page) in pages {
        let history = format!("{HISTORY}/{name}.md");
        let has_history = root.join(FOLDER).join(&history).is_file();
        let text = page.render(&name, has_history.then_some(history.as_str()));
        texts.insert(format!("{FOLDER}/{name}.md"), text);
    }
    Ok(texts)
}

/// Reads one page.
fn read(root: &Path, path: &str) -> anyhow::Result<Page> {
    let text = fs::read_to_string(root.join(path)).with_context(|| format!("no file {path}"))?;
    Page::parse(&text).with_context(|| format!("{path} is not a page of results"))
}

/// The names of the files in the folder that end with a dot and `ending`, in order.
fn names(root: &Path, ending: &str) -> anyhow::Result<BTreeSet<String>> {
    let folder = root.join(FOLDER);
    let entries = fs::read_dir(&folder).with_context(|| format!("no {}", folder.display()))?;
    let mut names = BTreeSet::new();
    for entry in entries {
        let path: PathBuf = entry?.path();
        if path.is_file() && path.extension().is_some_and(|found| found == ending) {
            let stem = path.file_stem().unwrap_or_default();
            names.insert(stem.to_string_lossy().into_owned());
        }
    }
    Ok(names)
}

/// Puts the rows of a benchmark's outputs into a page's JSON.
fn import_rows(root: &Path, name: &str, files: &[String]) -> anyhow::Result<()> {
    let is_plain = |letter: char| letter.is_ascii_lowercase() || letter == '-';
    ensure!(
        !name.is_empty() && name.chars().all(is_plain),
        "{name} cannot name a page; use small letters and hyphens"
    );
    let path = format!("{FOLDER}/{name}.json");
    let mut page = read(root, &path).with_context(|| {
        format!("write {path} with its title, columns and no rows first; copy another page")
    })?;
    let mut rows = Vec::new();
    for file in files {
        let text = fs::read_to_string(file).with_context(|| format!("{file} cannot be read"))?;
        rows.extend(import::rows_of(&text).with_context(|| format!("{file} has no rows"))?);
    }
    import::replace_rows(&mut page, &rows).with_context(|| format!("rows do not fit {path}"))?;
    page.check()?;
    fs::write(root.join(&path), page.to_json()).with_context(|| format!("no writing of {path}"))?;
    println!("{path}: {} rows", page.rows.len());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: &str = r#"{"order": 1, "title": "T", "headline": "h", "measured": "m",
        "commands": ["c"], "machine": "x", "columns": [{"name": "flows", "key": "flows"}],
        "rows": [[1]]}"#;

    fn root_with_page() -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a folder");
        fs::create_dir_all(root.path().join(FOLDER)).expect("a folder");
        fs::write(root.path().join("docs/results/one.json"), JSON).expect("written");
        for (path, text) in render_all(root.path()).expect("pages") {
            fs::write(root.path().join(path), text).expect("written");
        }
        root
    }

    #[test]
    fn rendered_pages_do_not_differ() {
        let root = root_with_page();
        assert_eq!(differences(root.path()).expect("read"), []);
    }

    #[test]
    fn an_edited_page_and_a_page_without_json_are_found() {
        let root = root_with_page();
        let page = root.path().join("docs/results/one.md");
        let text = fs::read_to_string(&page).expect("a page");
        fs::write(&page, text.replace("| 1 |", "| 2 |")).expect("written");
        fs::write(root.path().join("docs/results/stray.md"), "x").expect("written");
        let found = differences(root.path()).expect("read");
        let paths: Vec<&str> = found.iter().map(|found| found.path.as_str()).collect();
        assert_eq!(paths, ["docs/results/one.md", "docs/results/stray.md"]);
        let line = 1 + text
            .lines()
            .position(|line| line == "| 1 |")
            .expect("a row");
        assert_eq!(found[0].line, line);
    }

    #[test]
    fn a_changed_headline_is_in_the_index_and_a_changed_row_in_the_page() {
        let root = root_with_page();
        let json = JSON.replace("\"headline\": \"h\"", "\"headline\": \"other\"");
        fs::write(root.path().join("docs/results/one.json"), json).expect("written");
        let found = differences(root.path()).expect("read");
        let paths: Vec<&str> = found.iter().map(|found| found.path.as_str()).collect();
        assert_eq!(paths, [INDEX]);
        let json = JSON.replace("\"rows\": [[1]]", "\"rows\": [[2]]");
        fs::write(root.path().join("docs/results/one.json"), json).expect("written");
        let found = differences(root.path()).expect("read");
        let paths: Vec<&str> = found.iter().map(|found| found.path.as_str()).collect();
        assert_eq!(paths, ["docs/results/one.md"]);
    }

    #[test]
    fn imported_rows_replace_those_of_the_file() {
        let root = root_with_page();
        let file = root.path().join("out.json");
        let files = [file.display().to_string(), file.display().to_string()];
        fs::write(&file, r#"{"rows": [{"flows": 5}, {"flows": 7}]}"#).expect("written");
        import_rows(root.path(), "one", &files).expect("imported");
        let page = read(root.path(), "docs/results/one.json").expect("a page");
        assert_eq!(page.title, "T");
        assert_eq!(page.rows.len(), 4);
        assert!(import_rows(root.path(), "../one", &files).is_err());
        assert!(import_rows(root.path(), "two", &files).is_err());
    }
}
