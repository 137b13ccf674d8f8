//! A private Open vSwitch and Thalweg's daemon track the connections of random sequences alike.
//!
//! Both have the same random rules ([`rules`]) and a clock that stands still but for steps. Ends
//! talk through them ([`talk`]): handshakes, segments outside of windows, resets, errors of
//! ICMP, fragments, answers without a question. After each step both have sent the same frames,
//! with the same state, mark, label and tuple, have the same connections, and count the same in
//! zones with a limit.
//!
//! Left out are differences that are on purpose, or by chance in Open vSwitch:
//! - fragments of one packet whose rules differ, which go on apart in Thalweg;
//! - which address and port of a range is chosen: each side's own is compared as one;
//! - the content of invalid packets, which Open vSwitch translates;
//! - SYNs with another number before an answer, and from both ends (`tcp.rs` of the tracker);
//! - an end's first segment outside of its window, which changes the state in Open vSwitch;
//! - two connections of which one's answers are the other's packets (`tracker.rs`);
//! - in translations, connections that begin where one has ended and was not yet collected.
//!
//! This program is both: the tests, and with [`AS_DAEMON`] in the environment the daemon.
//! `THALWEG_SEQUENCES` asks for more sequences, `THALWEG_FIRST_SEQUENCE` for others. Needs Open
//! vSwitch's programs, no privileges.

mod frame;
mod rules;
mod side;
mod talk;

use std::fmt::Write as _;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Trial};
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::frame::{Body, frame, spoil};
use crate::rules::{Rules, random_rules};
use crate::side::{Sent, Side, comparable};
use crate::talk::{Kind, Message, Talk};

/// Makes this program the daemon.
const AS_DAEMON: &str = "THALWEG_TEST_AS_DAEMON";
/// Sequences, and steps of each.
const SEQUENCES: u64 = 60;
const STEPS: usize = 30;
/// Differences that are shown, and bytes of each frame.
const SHOWN: usize = 3;
const DIGITS: usize = 100;
/// How long Open vSwitch may take to collect ended connections.
const PATIENCE: Duration = Duration::from_millis(200);

fn main() -> ExitCode {
    if std::env::var_os(AS_DAEMON).is_some() {
        return thalweg_vswitchd::run(std::env::args_os().skip(1));
    }
    let trial = Trial::test("both_track_the_same_connections", || {
        both_track_the_same_connections();
        Ok(())
    });
    libtest_mimic::run(&Arguments::from_args(), vec![trial]).exit_code()
}

/// Both switches, and the sequence so far.
struct Run {
    sides: [Side; 2],
    random: Pcg64Mcg,
    rules: Rules,
    talks: Vec<Talk>,
    history: String,
    frames: usize,
    shown: usize,
    /// Steps after which a zone was full.
    full: usize,
}

fn both_track_the_same_connections() {
    let asked = std::env::var("THALWEG_SEQUENCES").ok();
    let asked = asked.map(|text| text.parse().expect("a number of sequences"));
    let first = std::env::var("THALWEG_FIRST_SEQUENCE").ok();
    let first: u64 = first.map_or(0, |text| text.parse().expect("a number of a sequence"));
    let mut ours = Command::new(std::env::current_exe().expect("this program has a name"));
    ours.env(AS_DAEMON, "1");
    let sides = [ours, Command::new("ovs-vswitchd")].map(Side::start);
    let mut random = Pcg64Mcg::seed_from_u64(0);
    let rules = random_rules(&mut random);
    let mut run = Run {
        sides,
        random,
        rules,
        talks: Vec::new(),
        history: String::new(),
        frames: 0,
        shown: 0,
        full: 0,
    };
    let seeds = first..first + asked.unwrap_or(SEQUENCES);
    let differences = seeds.filter_map(|seed| run.sequence(seed).err());
    let mut differences: Vec<String> = differences.collect();
    println!(
        "{} frames sent by both, {} connections shown, {} times a full zone",
        run.frames, run.shown, run.full
    );
    let count = differences.len();
    differences.truncate(SHOWN);
    assert!(
        count == 0,
        "{count} sequences differ\n{}",
        differences.join("\n")
    );
    assert!(
        run.frames > 1000 && run.shown > 1000 && run.full > 50 || first > 0,
        "too little was compared"
    );
}

impl Run {
    /// Plays a sequence; its history up to the first difference, if there is one.
    fn sequence(&mut self, seed: u64) -> Result<(), String> {
        self.random = Pcg64Mcg::seed_from_u64(seed);
        self.rules = random_rules(&mut self.random);
        self.talks.clear();
        self.history = format!(
            "seed {seed}, limits {:?}\n{}",
            self.rules.limits, self.rules.text
        );
        for side in &mut self.sides {
            side.begin(&self.rules);
        }
        self.collect();
        for _ in 0..STEPS {
            if self.random.random_ratio(1, 14) {
                self.pass_time();
            } else {
                self.speak()?;
            }
            self.compare_connections()?;
        }
        Ok(())
    }

    /// An end sends a packet; both switches must send the same.
    fn speak(&mut self) -> Result<(), String> {
        let number = self.choose_talk();
        let talk = &mut self.talks[number];
        let message = talk.next(&mut self.random, self.rules.translates);
        let (from, talk) = (message.from, &self.talks[number]);
        let ports = if talk.port == 1 { [1, 2] } else { [2, 1] };
        let frames = self
            .sides
            .each_mut()
            .map(|side| side.frame_of(talk, number, &message));
        let (ours, theirs) = match self.random.random_range(0..20) {
            0 | 1 => self.errors(number, &message),
            2 if !self.rules.choices.has_any() && talk.kind == Kind::Udp => {
                self.fragments(number, &message)
            }
            3 => {
                let [ours, theirs] = frames.map(|mut frame| {
                    spoil(&mut frame);
                    frame
                });
                (vec![ours], vec![theirs])
            }
            _ => {
                self.talks[number].hear(&message);
                let [ours, theirs] = frames;
                (vec![ours], vec![theirs])
            }
        };
        self.note(&format!(
            "port {}: {:?} {message:?}",
            ports[from], self.talks[number].ends
        ));
        self.note(&format!(
            "  ours {}\n  theirs {}",
            digits(&ours),
            digits(&theirs)
        ));
        let [one, two] = &mut self.sides;
        let sent = [
            one.receive(ports[from], &ours),
            two.receive(ports[from], &theirs),
        ];
        for (side, sent) in self.sides.iter_mut().zip(&sent) {
            side.see(number, from, ports[1 - from], sent);
        }
        self.compare_frames(&sent)
    }

    fn choose_talk(&mut self) -> usize {
        if self.talks.is_empty() || self.random.random_ratio(1, 5) {
            let number = self.talks.len();
            let translates = self.rules.translates;
            let talk = Talk::new(&mut self.random, number as u16, translates);
            self.talks.push(talk);
            return number;
        }
        self.random.random_range(0..self.talks.len())
    }

    /// An error about the last packet that the sender of `message` saw, for both sides.
    fn errors(&mut self, number: usize, message: &Message) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
        let talk = &self.talks[number];
        let is_ipv6 = talk.ends[0].address.is_ipv6();
        let kinds: &[(u8, u8)] = match is_ipv6 {
            true => &[(1, 4), (2, 0), (3, 0)],
            false => &[(3, 3), (3, 1), (11, 0), (12, 0)],
        };
        let (kind, code) = *kinds.choose(&mut self.random).expect("there are some");
        let len = [28, 48, 60, 500][self.random.random_range(0..4)];
        let len = if is_ipv6 { len + 20 } else { len };
        let error = |side: &mut Side| {
            let (quoted, [source, destination]) = side.quoted(talk, number, message, len);
            let body = Body::IcmpError { kind, code, quoted };
            vec![frame(source, destination, &body)]
        };
        let [ours, theirs] = self.sides.each_mut().map(error);
        (ours, theirs)
    }

    /// A long packet in pieces, in any order.
    fn fragments(&mut self, number: usize, message: &Message) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
        let body = Body::Udp {
            len: self.random.random_range(1000..3000),
            has_checksum: true,
        };
        let message = Message {
            body,
            ..message.clone()
        };
        let talk = &self.talks[number];
        let frame = self
            .sides
            .each_mut()
            .map(|side| side.frame_of(talk, number, &message));
        let identification = self.random.random();
        let [mut ours, mut theirs] =
            frame.map(|frame| frame::fragments(&frame, 800, identification));
        let mut order: Vec<usize> = (0..ours.len()).collect();
        order.shuffle(&mut self.random);
        ours = order.iter().map(|place| ours[*place].clone()).collect();
        theirs = order.iter().map(|place| theirs[*place].clone()).collect();
        (ours, theirs)
    }

    /// Lets time pass on both.
    fn pass_time(&mut self) {
        let times = [1, 700, 5_000, 29_000, 31_000, 46_000, 61_000, 1_000_000];
        let time = *times.choose(&mut self.random).expect("there are some");
        self.note(&format!("{time} ms pass"));
        self.sides.iter_mut().for_each(|side| side.warp(time));
        self.talks.iter_mut().for_each(Talk::grow_old);
        if self.rules.choices.has_any() {
            self.sides.iter_mut().for_each(Side::forget);
        }
        self.collect();
    }

    /// Waits until Open vSwitch has collected ended connections: until then they are in the way
    /// of translations.
    fn collect(&mut self) {
        loop {
            let start = Instant::now();
            while start.elapsed() < PATIENCE {
                let there = self.sides[1].connections(self.rules.choices).len();
                if self.sides[1].count() == there {
                    return;
                }
                std::thread::yield_now();
            }
            // It collects when its clock says so.
            self.sides.iter_mut().for_each(|side| side.warp(5_000));
        }
    }

    fn compare_frames(&mut self, sent: &[Sent; 2]) -> Result<(), String> {
        let choices = self.rules.choices;
        let [ours, theirs] = [0, 1].map(|side| comparable(&sent[side], choices));
        self.frames += ours.len();
        if ours == theirs {
            return Ok(());
        }
        let line = |(port, frame): &(u16, Vec<u8>)| {
            format!("  {port}: {}\n", digits(std::slice::from_ref(frame)))
        };
        let [ours, theirs] = [ours, theirs].map(|sent| sent.iter().map(line).collect::<String>());
        Err(format!(
            "{}ours sent\n{ours}theirs sent\n{theirs}",
            self.history
        ))
    }

    fn compare_connections(&mut self) -> Result<(), String> {
        let choices = self.rules.choices;
        let [ours, theirs] = self.sides.each_mut().map(|side| side.connections(choices));
        self.shown += ours.len();
        let counts = self.sides.each_mut().map(Side::limits);
        self.full += usize::from(self.rules.is_reached(&counts[0]));
        if counts[0] != counts[1] {
            let [ours, theirs] = counts;
            return Err(format!("{}ours\n{ours}theirs\n{theirs}", self.history));
        }
        if ours == theirs {
            return Ok(());
        }
        let only = |one: &[String], other: &[String]| {
            let lines = one.iter().filter(|line| !other.contains(line));
            lines.map(|line| format!("  {line}\n")).collect::<String>()
        };
        let [one, two] = [only(&ours, &theirs), only(&theirs, &ours)];
        Err(format!(
            "{}only ours\n{one}only theirs\n{two}",
            self.history
        ))
    }

    fn note(&mut self, line: &str) {
        writeln!(self.history, "{line}").expect("writing to a string");
    }
}

/// Frames in hexadecimal, long ones cut.
fn digits(frames: &[Vec<u8>]) -> String {
    let frame = |frame: &Vec<u8>| {
        let shown = frame.iter().take(DIGITS);
        shown.map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    frames.iter().map(frame).collect::<Vec<_>>().join(" ")
}
