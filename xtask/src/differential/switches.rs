//! Both switches with the same rules, and their answers to a packet.

use std::fmt::Write as _;

use anyhow::Context;
use thalweg_pipeline::{FragmentMode, Translation};

use super::answer::{Answer, Ours, Pass, execute};
use super::datapath_text::parse_actions;
use super::neighbor::Arrival;
use crate::ovs::{DummySwitch, Trace};

/// Rules and groups as text, and what their tables see of fragments.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Program {
    pub(super) rules: Vec<String>,
    pub(super) groups: Vec<String>,
    pub(super) fragments: FragmentMode,
}

/// Ours and Open vSwitch's, with the same ports and rules.
pub(super) struct Switches {
    pub(super) ours: Ours,
    theirs: DummySwitch,
    folder: tempfile::TempDir,
    ports: u16,
    /// Whether any rule or bucket of the program outputs to `normal`.
    has_normal: bool,
}

/// The answers of both switches to one packet.
pub(super) struct Observation {
    pub(super) arrival: Arrival,
    pub(super) ours: Answer,
    pub(super) theirs: Answer,
    pub(super) trace: Trace,
    /// Whether Open vSwitch looked the packet up again, so that the datapath really forwarded
    /// it.
    pub(super) is_recirculated: bool,
    /// Our passes; the first is the cache entry's if one was given.
    pub(super) passes: Vec<Pass>,
}

impl Switches {
    /// Starts both, without rules.
    pub(super) fn start(ports: u16) -> anyhow::Result<Switches> {
        let theirs = DummySwitch::start(ports)?;
        Ok(Switches {
            ours: Ours::load("", "", ports.into())?,
            theirs,
            folder: tempfile::Builder::new()
                .prefix("thalweg-rules-")
                .tempdir()?,
            ports,
            has_normal: false,
        })
    }

    /// Replaces all rules and groups in both.
    ///
    /// # Errors
    /// If either refuses them.
    pub(super) fn load(&mut self, program: &Program) -> anyhow::Result<()> {
        let write = |name: &str, lines: &[String]| {
            let path = self.folder.path().join(name);
            std::fs::write(&path, text_of(lines)).map(|()| path)
        };
        let rules = write("rules", &program.rules)?;
        let groups = write("groups", &program.groups)?;
        let (rules_text, groups_text) = (text_of(&program.rules), text_of(&program.groups));
        self.ours = Ours::load(&rules_text, &groups_text, self.ports.into())
            .context("we refuse the rules")?;
        self.ours.set_fragments(program.fragments)?;
        self.theirs
            .bridge_command("set-frags", &[program.fragments.name()])?;
        let mut lines = program.rules.iter().chain(&program.groups);
        self.has_normal = lines.any(|line| line.contains("normal"));
        self.theirs.clear()?;
        if !program.groups.is_empty() {
            self.theirs
                .load_groups(&groups)
                .context("Open vSwitch refuses the groups")?;
        }
        self.theirs
            .load_rules(&rules)
            .context("Open vSwitch refuses the rules")
    }

    /// Lets both answer a packet; with `entry`, ours answers as a cache that holds it.
    ///
    /// # Errors
    /// If the packet is no Ethernet frame, or one of Open vSwitch's actions is unknown.
    pub(super) fn observe(
        &mut self,
        arrival: &Arrival,
        entry: Option<&Translation>,
    ) -> anyhow::Result<Observation> {
        let (in_port, bytes) = (arrival.in_port, &arrival.bytes);
        let walk = match entry {
            Some(entry) => entry.clone(),
            None => self.ours.translate(in_port, bytes)?,
        };
        let (mut ours, passes) = self.ours.answer(&walk, in_port, bytes)?;
        let trace = self.theirs.trace(in_port as u16, bytes)?;
        if self.has_normal {
            // Traces teach stations as packets do.
            self.theirs.call("fdb/flush", &["br0"])?;
        }
        let actions = parse_actions(&trace.datapath_actions)?;
        let mut theirs = execute(&actions, bytes)?;
        let is_recirculated = theirs.is_cut_short;
        if is_recirculated {
            // A trace does not parse the packet again as recirculation does; forwarding does.
            let sent = self.theirs.forward(in_port as u16, bytes)?;
            theirs.sent = sent
                .into_iter()
                .map(|(port, bytes)| (port.into(), bytes))
                .collect();
            theirs.sent.sort();
            ours.sent.sort();
            // Packets that a later pass sends to the controller are not visible.
            theirs.to_controller.clear();
            ours.to_controller.clear();
            theirs.is_cut_short = false;
        }
        if passes.len() > 1 {
            // Packets of a later pass leave after those of earlier ones, even on the same
            // port.
            theirs.sent.sort();
            ours.sent.sort();
        }
        if passes.len() > 1 || is_recirculated {
            // What a later pass sends in is not visible.
            theirs.queues.clear();
            ours.queues.clear();
        }
        let arrival = arrival.clone();
        Ok(Observation {
            arrival,
            ours,
            theirs,
            trace,
            is_recirculated,
            passes,
        })
    }
}

/// The lines as the text of a file.
pub(super) fn text_of(lines: &[String]) -> String {
    lines.iter().fold(String::new(), |mut text, line| {
        let _ = writeln!(text, "{line}");
        text
    })
}
