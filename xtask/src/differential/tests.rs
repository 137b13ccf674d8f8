//! The examples of the document on differences, asked of both switches.
//!
//! Each section that is named after an explanation has a block with rules, a packet and both
//! answers. The answers are worked out here and must be those in the document; `UPDATE_EXPECT=1`
//! writes them into it.

use super::explained::{Explanation, explain};
use super::neighbor::Arrival;
use super::report::answer_lines;
use super::switches::{Program, Switches};

const DOCUMENT: &str = include_str!("../../../docs/differences-from-open-vswitch.md");
const FENCE: &str = "```";

#[test]
fn the_documents_examples_are_as_it_says() {
    let mut switches = Switches::start(4).unwrap();
    let mut sections = DOCUMENT.split_inclusive("\n## ");
    let mut text = sections.next().unwrap().to_owned();
    let mut shown = Vec::new();
    for section in sections {
        let title = section.lines().next().unwrap();
        match Explanation::ALL.iter().find(|known| known.title() == title) {
            Some(explanation) => {
                shown.push(*explanation);
                text += &with_answers(section, *explanation, &mut switches);
            }
            None => text += section,
        }
    }
    assert_eq!(
        shown,
        Explanation::ALL,
        "the sections, in the order of the enumeration"
    );
    expect_test::expect_file!["../../../docs/differences-from-open-vswitch.md"].assert_eq(&text);
}

/// The section with the answers that both switches give now.
fn with_answers(section: &str, explanation: Explanation, switches: &mut Switches) -> String {
    let mut parts = section.splitn(3, FENCE);
    let (before, block) = (parts.next().unwrap(), parts.next().expect("an example"));
    let after = parts.next().expect("the end of the example");
    let head: Vec<&str> = block
        .lines()
        .take_while(|line| !line.starts_with("ours"))
        .collect();
    let arrival = head
        .iter()
        .find_map(|line| line.strip_prefix("packet: "))
        .expect("a packet");
    let program = Program {
        rules: lines_that_begin(&head, "table="),
        groups: lines_that_begin(&head, "group_id="),
    };
    switches.load(&program).unwrap();
    let arrival = Arrival {
        in_port: 1,
        bytes: bytes_of(arrival),
    };
    let observation = switches.observe(&arrival, None).unwrap();
    let explanations = explain(&observation, &switches.ours.pipeline);
    assert_eq!(
        explanations.last(),
        Some(&explanation),
        "{}",
        explanation.title()
    );
    format!(
        "{before}{FENCE}{}\nours:\n{}Open vSwitch's:\n{}{FENCE}{after}",
        head.join("\n"),
        answer_lines(&observation.ours),
        answer_lines(&observation.theirs),
    )
}

fn lines_that_begin(lines: &[&str], start: &str) -> Vec<String> {
    let chosen = lines.iter().filter(|line| line.starts_with(start));
    chosen.map(|line| (*line).to_owned()).collect()
}

fn bytes_of(digits: &str) -> Vec<u8> {
    let places = (0..digits.len()).step_by(2);
    places
        .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap())
        .collect()
}
