//! The result of a run: counts, and reproductions of unexplained differences.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;

use super::answer::Answer;
use super::explained::{Explanation, explain};
use super::neighbor::Arrival;
use super::switches::{Program, Switches, text_of};

/// Counts of a run.
#[derive(Default)]
pub(super) struct Report {
    pub(super) files: u64,
    pub(super) packets: u64,
    /// Packets shorter than an Ethernet header, which both switches refuse.
    pub(super) runts: u64,
    /// Other packets of the same cache entries.
    pub(super) neighbors: u64,
    pub(super) our_bits: u64,
    pub(super) their_bits: u64,
    pub(super) explained: BTreeMap<Explanation, u64>,
    /// The unexplained differences.
    pub(super) unexplained: Vec<Found>,
}

/// An unexplained difference.
pub(super) struct Found {
    seed: u64,
    program: Program,
    text: String,
}

impl Report {
    /// Prints all counts.
    pub(super) fn print(&self, duration: Duration) {
        let Report {
            files,
            packets,
            runts,
            neighbors,
            ..
        } = self;
        println!(
            "{files} files of rules, {packets} packets and {neighbors} neighbours compared with \
             Open vSwitch in {:.1} s ({runts} shorter than a header)",
            duration.as_secs_f64()
        );
        let mean = |bits: u64| bits as f64 / self.packets.max(1) as f64;
        let (ours, theirs) = (mean(self.our_bits), mean(self.their_bits));
        println!(
            "mean bits of a mask: ours {ours:.1}, Open vSwitch's {theirs:.1}, ratio {:.3}",
            ours / theirs
        );
        for (explanation, count) in &self.explained {
            println!("{count:>8}  explained: {}", explanation.title());
        }
        for found in &self.unexplained {
            println!("\n{}", found.text);
        }
        println!("{} unexplained differences", self.unexplained.len());
    }

    /// Writes a folder for each unexplained difference.
    pub(super) fn save(&self, folder: &Path) -> anyhow::Result<()> {
        for (index, found) in self.unexplained.iter().enumerate() {
            let place = folder.join(format!("seed-{}-{index}", found.seed));
            std::fs::create_dir_all(&place)
                .with_context(|| format!("making the folder {}", place.display()))?;
            std::fs::write(place.join("rules"), text_of(&found.program.rules))?;
            std::fs::write(place.join("groups"), text_of(&found.program.groups))?;
            std::fs::write(place.join("difference.txt"), &found.text)?;
            println!("written to {}", place.display());
        }
        Ok(())
    }
}

/// A difference that can be reproduced.
#[derive(Clone)]
pub(super) struct Reproduction {
    pub(super) seed: u64,
    pub(super) program: Program,
    /// The packet whose cache entry answers, if it is another packet.
    pub(super) maker: Option<Arrival>,
    pub(super) arrival: Arrival,
}

impl Reproduction {
    /// Removes every rule that the difference does not need.
    pub(super) fn reduce(mut self, switches: &mut Switches) -> anyhow::Result<Found> {
        let mut index = 0;
        while index < self.program.rules.len() {
            let mut less = self.clone();
            less.program.rules.remove(index);
            match less.describe(switches) {
                Ok(Some(_)) => self = less,
                _ => index += 1,
            }
        }
        let text = self
            .describe(switches)?
            .context("the difference comes and goes")?;
        Ok(Found {
            seed: self.seed,
            program: self.program,
            text,
        })
    }

    /// Describes the difference; `None` if there is none.
    fn describe(&self, switches: &mut Switches) -> anyhow::Result<Option<String>> {
        switches.load(&self.program)?;
        let entry = match &self.maker {
            Some(maker) => {
                let walk = switches.ours.translate(maker.in_port, &maker.bytes)?;
                let same = |arrival: &Arrival| switches.ours.key(arrival.in_port, &arrival.bytes);
                let (made, met) = (same(maker)?, same(&self.arrival)?);
                let mut words = made.iter().zip(&met).zip(&walk.mask);
                if !words.all(|((made, met), mask)| (made ^ met) & mask == 0) {
                    return Ok(None);
                }
                Some(walk)
            }
            None => None,
        };
        let observation = switches.observe(&self.arrival, entry.as_ref())?;
        if observation.ours == observation.theirs
            || !explain(&observation, &switches.ours.pipeline).is_empty()
        {
            return Ok(None);
        }
        let mode = self.program.fragments.name();
        let mut text = format!("seed {}, fragments {mode}\n", self.seed);
        text += &text_of(&self.program.groups);
        text += &text_of(&self.program.rules);
        if let Some(maker) = &self.maker {
            writeln!(
                text,
                "entry made by: in_port={} {}",
                maker.in_port,
                hex(&maker.bytes)
            )?;
        }
        let arrival = &observation.arrival;
        writeln!(
            text,
            "packet: in_port={} {}",
            arrival.in_port,
            hex(&arrival.bytes)
        )?;
        writeln!(
            text,
            "our effects: {:?}",
            observation.passes[0].walk.effects
        )?;
        text += &describe_answer("ours", &observation.ours);
        writeln!(
            text,
            "Open vSwitch's actions: {}",
            observation.trace.datapath_actions
        )?;
        writeln!(
            text,
            "Open vSwitch's megaflow: {}",
            observation.trace.megaflow
        )?;
        text += &describe_answer("Open vSwitch's", &observation.theirs);
        Ok(Some(text))
    }
}

fn describe_answer(whose: &str, answer: &Answer) -> String {
    format!("{whose} answer:\n{}", answer_lines(answer))
}

/// The outgoing packets, one per line.
pub(super) fn answer_lines(answer: &Answer) -> String {
    let mut text = String::new();
    for (port, bytes) in &answer.sent {
        let _ = writeln!(text, "  port {port}: {}", hex(bytes));
    }
    for (is_ttl, bytes) in &answer.to_controller {
        let reason = if *is_ttl { "TTL" } else { "action" };
        let _ = writeln!(text, "  controller ({reason}): {}", hex(bytes));
    }
    if text.is_empty() {
        text += "  nothing leaves\n";
    }
    text
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
