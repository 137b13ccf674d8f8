//! Comments and documents in plain modern English, within 100 columns.
//!
//! Checked are the comments of Rust files and the text of Markdown files outside of code. A list
//! of words cannot tell good prose; it keeps out those that the prose of this project once leaned
//! on. Timings belong to the pages of results, where a command and a machine stand beside them.

use super::Finding;
use super::source::{Source, TextFile};

/// Words with a plain word in their place.
const WORDS: [(&str, &str); 10] = [
    ("anew", "write \"again\" or \"new\""),
    ("hereby", "leave it out"),
    ("likewise", "write \"also\" or \"the same way\""),
    (
        "nobody",
        "name what does not act: \"no caller\", \"no reader\"",
    ),
    ("so many", "name the parameter or the count"),
    ("somebody", "name who acts: \"a caller\", \"a worker\""),
    ("thereof", "write \"of it\" or \"its\""),
    ("whence", "write \"from where\""),
    ("whoever", "name who acts: \"the caller\", \"the reader\""),
    ("whomever", "name who acts: \"the caller\", \"the reader\""),
];

/// Units of a measured time, and words beside them that say that it was measured.
const UNITS: [&str; 8] = [
    "ns",
    "nanoseconds",
    "µs",
    "microseconds",
    "ms",
    "milliseconds",
    "s",
    "seconds",
];
const MEASURED: [&str; 8] = [
    "cost", "costs", "faster", "measured", "slower", "takes", "taken", "took",
];

const COLUMNS: usize = 100;

/// Where the words are allowed: this list itself, and the licences.
const LISTS: &str = "xtask/src/tidy/english.rs";

/// Every such word, timing and long line in the comments of a source.
pub(super) fn check_source(source: &Source<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut is_code = false;
    for (index, line) in source.text.lines().enumerate() {
        let number = index + 1;
        let is_free = is_code || source.is_literal_line(number) || is_table_row(line);
        if line.chars().count() > COLUMNS && !is_free {
            let what = format!("{} columns", line.chars().count());
            let remedy = format!("break the line at {COLUMNS}");
            findings.push(Finding::error(source.path, number, what, remedy));
        }
        let Some(comment) = comment_of(line) else {
            is_code = false;
            continue;
        };
        if comment.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code && source.path != LISTS {
            findings.extend(words_in(source.path, number, comment));
            if !source.is_test_line(number) {
                findings.extend(timing_in(source.path, number, comment));
            }
        }
    }
    findings
}

/// Every such word in a Markdown file, outside of fences and of code within a line.
pub(super) fn check_text(file: &TextFile) -> Vec<Finding> {
    if !file.path.ends_with(".md") {
        return Vec::new();
    }
    let mut findings = Vec::new();
    let mut is_code = false;
    for (index, line) in file.text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            findings.extend(words_in(&file.path, index + 1, line));
        }
    }
    findings
}

/// The text of a line that is a comment, without its slashes.
fn comment_of(line: &str) -> Option<&str> {
    let comment = line.trim_start().strip_prefix("//")?;
    Some(comment.trim_start_matches(['/', '!']))
}

/// Whether a line is a row of a table in a comment, which cannot be broken.
fn is_table_row(line: &str) -> bool {
    comment_of(line).is_some_and(|comment| comment.trim_start().starts_with('|'))
}

fn words_in(path: &str, number: usize, line: &str) -> Vec<Finding> {
    let text = plain(line);
    let found = WORDS.iter().filter(|(word, _)| {
        let word = format!(" {word} ");
        text.contains(&word)
    });
    let finding = |(word, remedy): &(&str, &str)| {
        Finding::error(path, number, format!("the word \"{word}\""), *remedy)
    };
    found.map(finding).collect()
}

fn timing_in(path: &str, number: usize, line: &str) -> Option<Finding> {
    let text = plain(line);
    let words: Vec<&str> = text.split_whitespace().collect();
    let is_time = words.windows(2).any(|pair| {
        pair[0].starts_with(|first: char| first.is_ascii_digit()) && UNITS.contains(&pair[1])
    });
    let is_measured = words.iter().any(|word| MEASURED.contains(word));
    (is_time && is_measured).then(|| {
        let what = "a measured time in a comment";
        let remedy = "link to the page of results, or say the effect in words";
        Finding::error(path, number, what, remedy)
    })
}

/// The words of a line in small letters, each between two blanks; code between ticks is left out.
fn plain(line: &str) -> String {
    let prose = line.split('`').step_by(2);
    let words = prose.flat_map(|part| {
        part.split(|letter: char| !letter.is_alphanumeric() && letter != '\'')
            .filter(|word| !word.is_empty())
    });
    let words: Vec<String> = words.map(str::to_lowercase).collect();
    format!(" {} ", words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_source(text: &str) -> Vec<usize> {
        let source = Source::parse("crates/a/src/b.rs", text, false).expect("it is Rust");
        let findings = check_source(&source).into_iter();
        findings.map(|finding| finding.line).collect()
    }

    #[test]
    fn words_are_found_in_comments_and_not_in_code() {
        let text = "//! Anew.\n\n/// Of so\n/// many words, and so many.\nfn anew() {\n    \
                    let _ = \"nobody\"; // likewise\n}\n\n/// `whoever` is a name.\nfn f() {}\n";
        assert_eq!(in_source(text), [1, 4]);
        let text = "/// ```\n/// // whoever\n/// ```\n/// Whoever.\nfn f() {}\n";
        assert_eq!(in_source(text), [4]);
    }

    #[test]
    fn measured_times_are_found_and_configured_ones_are_not() {
        let text = "/// A lookup takes 35 ns.\nfn f() {}\n/// A timeout of 10 s.\nfn g() {}\n";
        assert_eq!(in_source(text), [1]);
    }

    #[test]
    fn long_lines_are_found_outside_of_literals() {
        let long = "x".repeat(98);
        let text = format!(
            "// {long}\nconst A: &str = \"{long}\";\n/// {}\nfn f() {{}}\n",
            &long[2..]
        );
        assert_eq!(in_source(&text), [1]);
    }

    #[test]
    fn documents_are_read_outside_of_code() {
        let file = |path: &str| TextFile {
            path: path.to_owned(),
            text: "Whoever reads `nobody`.\n```\nanew\n```\nIt is so many.\n".to_owned(),
        };
        let lines = |path| {
            let findings = check_text(&file(path)).into_iter();
            findings.map(|finding| finding.line).collect::<Vec<_>>()
        };
        assert_eq!(lines("docs/a.md"), [1, 5]);
        assert!(lines("a.toml").is_empty());
    }
}
