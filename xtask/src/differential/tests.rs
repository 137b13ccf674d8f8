//! Tests I9 and the examples of the document on differences, with both switches.
//!
//! Each section named after an explanation has a block with rules, a packet and both answers.
//! The answers are computed here and must equal those in the document; `UPDATE_EXPECT=1`
//! writes them.

use thalweg_packet::Instant;
use thalweg_pipeline::text::Parser;
use thalweg_pipeline::{Change, Config as Limits, FragmentMode, Operation, Pipeline};

use super::explained::{Explanation, explain};
use super::neighbor::Arrival;
use super::report::answer_lines;
use super::switches::{Program, Switches};
use super::{Config, compare, program};

/// Rule files for I9, other than those that `cargo xtask differential` starts with.
const SEEDS: std::ops::Range<u64> = 10_000..10_060;

const DOCUMENT: &str = include_str!("../../../docs/differences-from-open-vswitch.md");
const FENCE: &str = "```";

/// Both switches give the same answers, and Open vSwitch's is constant over our cache entries.
#[test]
fn i9_open_vswitch_does_the_same_for_all_packets_of_an_entry() {
    let folder = tempfile::tempdir().unwrap();
    let start = std::time::Instant::now();
    let report = compare(&Config {
        count: SEEDS.end - SEEDS.start,
        seed: SEEDS.start,
        packets_per_file: 10,
        limit: 3,
        folder: folder.path().to_owned(),
    });
    let report = report.unwrap();
    report.print(start.elapsed());
    assert_eq!(report.unexplained.len(), 0, "see what was printed");
    // Otherwise nothing was compared.
    assert!(report.packets > 500, "{} packets", report.packets);
    assert!(
        report.neighbors > 2 * report.packets,
        "{} neighbours",
        report.neighbors
    );
}

/// I9 requires this; otherwise Open vSwitch may answer in several ways.
#[test]
fn i9_is_asked_of_rules_that_overlap_at_no_priority() {
    for seed in SEEDS {
        let program = program(seed).unwrap();
        let mut parser = Parser::new();
        let groups = program
            .groups
            .iter()
            .map(|line| Operation::SetGroup(parser.parse_group(line).unwrap()));
        let mut operations: Vec<Operation> = groups.collect();
        operations.extend(
            program
                .rules
                .iter()
                .map(|line| Operation::AddChecked(Parser::new().parse_flow(line).unwrap())),
        );
        let mut pipeline = Pipeline::new(Limits::default());
        let applied = pipeline.apply(&Change { operations }, Instant::ZERO);
        assert!(applied.is_ok(), "seed {seed}: {applied:?}");
    }
}

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
        fragments: FragmentMode::default(),
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
