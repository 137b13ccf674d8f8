//! Tests the sound vector on packets: packets that agree in it behave alike.
//!
//! The test flips each bit of each packet of p4c's test vectors, under the entries of the
//! vector. Where the sound vector does not see the flip, the packet must meet the same entries
//! and branches. Afterwards no word may differ that did not differ before. Programs with stop
//! points promise nothing and are left out.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::stf::{Script, run};
use crate::target::walked;
use crate::{Config, Program, Target};

use super::{Analysis, Vector};

/// Number of bytes at the front of a packet whose bits are flipped.
const CHANGED_BYTES: usize = 160;

fn folder() -> PathBuf {
    let shared = std::env::var_os("THALWEG_SHARED").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
        PathBuf::from,
    );
    shared.join("data/p4/stf")
}

/// The frame words that a vector sees; all others are 0.
fn seen(analysis: &Analysis, vector: &Vector, words: &[u64]) -> Vec<u64> {
    let is_seen = |word: usize| {
        let object = analysis.objects.of_word(word as u32);
        object.is_some_and(|id| vector.objects.contains(&id))
    };
    let words = words.iter().enumerate();
    words
        .map(|(word, value)| if is_seen(word) { *value } else { 0 })
        .collect()
}

/// Flips bits and returns how many flips the vector did not see.
fn compare(
    name: &str,
    analysis: &Analysis,
    vector: &Vector,
    target: &mut Target,
    packet: &[u8],
) -> usize {
    let (parsed, after, steps) = walked(target, packet);
    let mut unseen = 0;
    for bit in 0..packet.len().min(CHANGED_BYTES) * 8 {
        let mut changed = packet.to_vec();
        changed[bit / 8] ^= 0x80 >> (bit % 8);
        let (other_parsed, other_after, other_steps) = walked(target, &changed);
        if seen(analysis, vector, &parsed) != seen(analysis, vector, &other_parsed) {
            continue;
        }
        unseen += 1;
        assert_eq!(steps, other_steps, "{name}: bit {bit} of {packet:x?}");
        for word in 0..parsed.len() {
            let is_same = parsed[word] == other_parsed[word];
            assert!(
                !is_same || after[word] == other_after[word],
                "{name}: bit {bit} of {packet:x?} changes word {word}, {:?}",
                analysis
                    .objects
                    .of_word(word as u32)
                    .map(|id| analysis.objects.get(id)),
            );
        }
    }
    unseen
}

#[test]
fn packets_that_agree_in_the_sound_vector_behave_alike() {
    let folder = folder();
    let entries = std::fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}; set THALWEG_SHARED", folder.display()));
    let (mut programs, mut unseen) = (0, 0);
    for entry in entries {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|ending| ending != "stf") {
            continue;
        }
        let text = |ending| std::fs::read_to_string(path.with_extension(ending)).expect("the file");
        let program = Program::from_json(&text("json")).expect("a program");
        let analysis = Analysis::of(&program);
        if !analysis.stop_points.is_empty() {
            continue;
        }
        programs += 1;
        let script = Script::parse(&text("stf")).expect("a script");
        let mut target = Target::new(Arc::new(program), Config::default()).expect("own entries");
        run(&script, &mut target);
        let name = path.display().to_string();
        for packet in script.packets() {
            unseen += compare(&name, &analysis, &analysis.sound_vio, &mut target, packet);
        }
    }
    println!("{programs} programs, {unseen} changes that the vector does not see");
    // Most programs must be compared, and enough flips tried.
    assert!(
        programs >= 100 && unseen >= 20_000,
        "{programs} programs, {unseen} changes"
    );
}
