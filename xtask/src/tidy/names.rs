//! Finds unfinished code, ignored tests, and names without meaning.

use super::Finding;
use super::source::{Source, Token};

/// Macros that mark unfinished code, or were left behind.
const MACROS: [&str; 3] = ["todo", "unimplemented", "dbg"];
/// Words that could name anything.
const EMPTY_WORDS: [&str; 9] = [
    "manager",
    "managers",
    "helper",
    "helpers",
    "util",
    "utils",
    "common",
    "misc",
    "miscellaneous",
];
/// Keywords followed by the name of a module or a type.
const NAMING: [&str; 6] = ["mod", "struct", "enum", "trait", "type", "union"];

/// Finds every such macro, attribute and name in a source.
pub(super) fn check(source: &Source<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for window in source.tokens.windows(2) {
        let [first, second] = window else { continue };
        if MACROS.contains(&first.text.as_str()) && second.text == "!" {
            let what = format!("`{}!`", first.text);
            findings.push(Finding::error(
                source.path,
                first.line,
                what,
                "finish it or remove it",
            ));
        }
        if NAMING.contains(&first.text.as_str()) && has_empty_word(&second.text) {
            let what = format!("`{}` is a name that says nothing", second.text);
            let remedy = "name it by what it is in the domain";
            findings.push(Finding::error(source.path, second.line, what, remedy));
        }
    }
    findings.extend(ignored_tests(source));
    findings
}

/// Finds `#[ignore]`, also with a reason or inside `cfg_attr`, and examples that are not
/// built.
fn ignored_tests(source: &Source<'_>) -> Vec<Finding> {
    let remedy = "run it, or remove it; a test that needs more belongs behind a feature";
    let mut findings = Vec::new();
    for (index, token) in source.tokens.iter().enumerate() {
        if token.text == "#" && attribute_has(&source.tokens[index + 1..], "ignore") {
            findings.push(Finding::error(
                source.path,
                token.line,
                "an ignored test",
                remedy,
            ));
        }
    }
    for (index, line) in source.text.lines().enumerate() {
        let comment = line.trim_start();
        let is_documentation = comment.starts_with("///") || comment.starts_with("//!");
        if is_documentation && comment.contains("```ignore") {
            let what = "an example that is not built";
            findings.push(Finding::error(source.path, index + 1, what, "make it run"));
        }
    }
    findings
}

/// Whether the attribute that begins with these tokens contains a word, outside of strings.
fn attribute_has(tokens: &[Token], word: &str) -> bool {
    let mut depth = 0_usize;
    for token in tokens {
        match token.text.as_str() {
            "!" if depth == 0 => {}
            "[" | "(" => depth += 1,
            "]" | ")" => depth = depth.saturating_sub(1),
            text if text == word => return true,
            _ => {}
        }
        if depth == 0 && token.text != "!" {
            return false;
        }
    }
    false
}

/// Whether a word of a name (`snake_case` or `CamelCase`) is without meaning.
fn has_empty_word(name: &str) -> bool {
    let mut words = vec![String::new()];
    for character in name.chars() {
        if character == '_' || character.is_uppercase() {
            words.push(String::new());
        }
        if character != '_'
            && let Some(word) = words.last_mut()
        {
            word.extend(character.to_lowercase());
        }
    }
    words
        .iter()
        .any(|word| EMPTY_WORDS.contains(&word.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(text: &str) -> usize {
        check(&Source::parse("crates/x/src/a.rs", text, false).unwrap()).len()
    }

    #[test]
    fn unfinished_code_is_found() {
        assert_eq!(
            count("fn f() { todo!() }\nfn g() { h!(dbg!(1)); unimplemented!(\"x\") }"),
            3
        );
        assert_eq!(count("// todo!()\nfn todo() { todo() }"), 0);
    }

    #[test]
    fn ignored_tests_are_found() {
        assert_eq!(count("#[test]\n#[ignore]\nfn f() {}"), 1);
        assert_eq!(count("#[ignore = \"slow\"]\nfn f() {}"), 1);
        assert_eq!(count("#[cfg_attr(miri, ignore)]\nfn f() {}"), 1);
        assert_eq!(count("/// ```ignore\n/// x\n/// ```\nfn f() {}"), 1);
        assert_eq!(count("#[must_use]\nfn f() { ignore(); }"), 0);
    }

    #[test]
    fn empty_names_are_found_and_real_ones_are_not() {
        assert_eq!(
            count("struct CacheManager;\nmod util;\nenum Helper {}\nmod test_common {}"),
            4
        );
        assert_eq!(
            count("struct Utilization;\nmod commonality;\nfn common() {}"),
            0
        );
    }
}
