//! One switch, and what its ends have seen.
//!
//! Each switch chooses translated addresses by its own numbers. So the packets of a sequence are
//! plans, which each side makes into frames: an end answers to the addresses that it saw there.

use std::process::Command;

use xtask::ovs::DummySwitch;

use crate::frame::{
    CHOSEN_PORTS, Choices, End, ends, frame, is_chosen_port, is_later_fragment, quoted,
    without_choices,
};
use crate::rules::{INVALID_PORT, Rules, TUPLE_PORT};
use crate::talk::{Message, Talk};

/// Ports of the switches.
const PORTS: u16 = 5;

/// What one end of a conversation has seen.
#[derive(Clone, Default)]
struct Seen {
    /// Its peer and itself, in the last packet.
    ends: Option<[End; 2]>,
    frame: Option<Vec<u8>>,
}

/// A switch, and what the ends of conversations have seen behind it.
pub(crate) struct Side {
    switch: DummySwitch,
    folder: tempfile::TempDir,
    seen: Vec<[Seen; 2]>,
    /// The zones that have limits.
    limited: Vec<u16>,
}

/// Frames that left, by port, without what the switch chose.
pub(crate) type Sent = Vec<(u16, Vec<u8>)>;

impl Side {
    /// Starts a switch whose clock stands still.
    pub(crate) fn start(daemon: Command) -> Side {
        let mut switch = DummySwitch::start_daemon(PORTS, daemon).expect("it starts");
        let mut call = |words: &[&str]| switch.call(words[0], &words[1..]).expect("it answers");
        call(&["time/stop"]);
        call(&["dpctl/ipf-set-min-frag", "v4", "400"]);
        call(&["dpctl/ipf-set-min-frag", "v6", "400"]);
        let folder = tempfile::tempdir().expect("a folder");
        Side {
            switch,
            folder,
            seen: Vec::new(),
            limited: Vec::new(),
        }
    }

    /// Begins a sequence: the rules, no connections.
    pub(crate) fn begin(&mut self, rules: &Rules) {
        let path = self.folder.path().join("rules");
        std::fs::write(&path, &rules.text).expect("it is written");
        self.switch.clear().expect("it is emptied");
        self.switch.load_rules(&path).expect("it takes the rules");
        self.switch
            .call("revalidator/purge", &[])
            .expect("it forgets");
        self.switch
            .call("dpctl/flush-conntrack", &[])
            .expect("it forgets");
        self.seen.clear();
        // A limit counts only later connections in Open vSwitch, so it is set while there are none.
        for zone in std::mem::take(&mut self.limited) {
            let zone = format!("zone={zone}");
            let deleted = self.switch.call("dpctl/ct-del-limits", &[&zone]);
            deleted.expect("it deletes a limit");
        }
        for (zone, limit) in &rules.limits {
            let limit = format!("zone={zone},limit={limit}");
            let set = self.switch.call("dpctl/ct-set-limits", &[&limit]);
            set.expect("it sets a limit");
            self.limited.push(*zone);
        }
    }

    /// How many connections each limited zone has.
    pub(crate) fn limits(&mut self) -> String {
        let zones = self.limited.iter().map(u16::to_string);
        let zones = format!("zone={}", zones.collect::<Vec<_>>().join(","));
        match self.limited.is_empty() {
            true => String::new(),
            false => {
                let told = self.switch.call("dpctl/ct-get-limits", &[&zones]);
                told.expect("it tells its limits")
            }
        }
    }

    /// The frame of a message, as this side's ends know each other.
    pub(crate) fn frame_of(&mut self, talk: &Talk, number: usize, message: &Message) -> Vec<u8> {
        self.seen
            .resize_with(self.seen.len().max(number + 1), Default::default);
        let [source, destination] = self.ends_of(talk, number, message.from);
        frame(source, destination, &message.body)
    }

    /// The sender and its peer, as the sender knows them.
    fn ends_of(&self, talk: &Talk, number: usize, from: usize) -> [End; 2] {
        let known = self.seen[number][from].ends.filter(|_| from == 1);
        let [source, destination] = talk.ends;
        match (from, known) {
            (0, _) => [source, destination],
            (_, Some([peer, own])) => [own, peer],
            (_, None) => [destination, source],
        }
    }

    /// What an error of `from` quotes: the last packet that it saw, or one that it never saw.
    pub(crate) fn quoted(
        &self,
        talk: &Talk,
        number: usize,
        message: &Message,
        len: usize,
    ) -> (Vec<u8>, [End; 2]) {
        let last = &self.seen[number][1 - message.from];
        let [source, destination] = match (last.ends, message.from) {
            (Some(ends), 0) => ends,
            _ => self.ends_of(talk, number, message.from),
        };
        let frame = match &last.frame {
            Some(frame) => frame.clone(),
            None => frame(source, destination, &message.body),
        };
        (quoted(&frame, len), [source, destination])
    }

    /// Lets frames arrive, one after the other; what leaves.
    pub(crate) fn receive(&mut self, port: u16, frames: &[Vec<u8>]) -> Sent {
        let mut sent = Vec::new();
        for frame in frames {
            let digits: String = frame.iter().map(|byte| format!("{byte:02x}")).collect();
            let left = self.switch.receive(port, &[&digits]);
            sent.extend(left.expect("it takes frames"));
        }
        sent.sort_by_key(|(port, _)| *port);
        sent
    }

    /// Remembers what the other end of a conversation saw.
    pub(crate) fn see(&mut self, number: usize, from: usize, to_port: u16, sent: &Sent) {
        let mut frames = sent.iter().filter(|(port, _)| *port == to_port);
        if let Some((_, frame)) = frames.next()
            && let Some(ends) = ends(frame)
        {
            let seen = &mut self.seen[number][1 - from];
            seen.ends = Some(ends);
            seen.frame = Some(frame.clone());
        }
    }

    /// The connections, with their time left and their states, without what the switch chose.
    pub(crate) fn connections(&mut self, choices: Choices) -> Vec<String> {
        let dump = self.switch.call("dpctl/dump-conntrack", &["-m", "-s"]);
        let dump = dump.expect("it lists them");
        let mut lines: Vec<String> = dump
            .lines()
            .map(|line| chosen_away(line, choices))
            .collect();
        lines.sort();
        lines
    }

    /// The number of connections, those included whose time is over.
    pub(crate) fn count(&mut self) -> usize {
        let count = self.switch.call("dpctl/ct-get-nconns", &[]);
        count.expect("it counts").trim().parse().expect("a number")
    }

    /// Forgets what ends have seen: another connection may have it now.
    pub(crate) fn forget(&mut self) {
        self.seen.clear();
    }

    /// Lets time pass.
    pub(crate) fn warp(&mut self, milliseconds: u32) {
        self.switch
            .call("time/warp", &[&milliseconds.to_string()])
            .expect("time passes");
    }
}

/// What both sides must have sent alike.
///
/// Of an invalid packet that it was sent, since Open vSwitch translates some. Later fragments
/// without the ports of their connection, which Open vSwitch has not at hand.
pub(crate) fn comparable(sent: &Sent, choices: Choices) -> Sent {
    let frames = sent.iter().map(|(port, frame)| {
        if *port == INVALID_PORT {
            return (*port, Vec::new());
        }
        let mut frame = without_choices(frame, choices);
        if *port == TUPLE_PORT {
            let is_later = is_later_fragment(&frame);
            for place in [0, 6] {
                let end = &mut frame[place..place + 6];
                let port = u16::from_be_bytes([end[0], end[1]]);
                if is_later {
                    end[..2].fill(0);
                } else if choices.has_ports && is_chosen_port(port) {
                    end[..2].copy_from_slice(&CHOSEN_PORTS.start.to_be_bytes());
                }
                if choices.has_addresses && end[2..].starts_with(&[10, 9, 9]) {
                    end[5] = 0;
                }
            }
        }
        (*port, frame)
    });
    frames.collect()
}

/// A line of a dump without what the switch chose.
fn chosen_away(line: &str, choices: Choices) -> String {
    let words = line.split_inclusive([',', ')']).map(|word| {
        let end = word.trim_end_matches([',', ')']);
        let mark = &word[end.len()..];
        let value = end.rsplit('=').next().unwrap_or(end);
        let is_port = value.parse().is_ok_and(is_chosen_port);
        let prefix = &end[..end.len() - value.len()];
        match value {
            _ if choices.has_ports && is_port => format!("{prefix}40000{mark}"),
            _ if choices.has_addresses && value.starts_with("10.9.9.") => {
                format!("{prefix}10.9.9.0{mark}")
            }
            _ if choices.has_addresses && value.starts_with("fd09::") => {
                format!("{prefix}fd09::{mark}")
            }
            _ => word.to_owned(),
        }
    });
    words.collect()
}
