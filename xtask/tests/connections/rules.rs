//! Random rules that track connections.
//!
//! Table 0 asks the tracker, and table 1 decides by what it said: it commits, writes marks and
//! labels, translates, or asks about another zone. Table 9 forwards, and writes the connection's
//! state into copies of the packet.

use std::fmt::Write as _;

use rand::Rng;
use rand::seq::IndexedRandom;
use rand_pcg::Pcg64Mcg;

use crate::frame::Choices;

/// The port of packets that are invalid.
pub(crate) const INVALID_PORT: u16 = 5;
/// The port of copies that show the tuple of their connection.
pub(crate) const TUPLE_PORT: u16 = 4;

/// The rules of one sequence.
pub(crate) struct Rules {
    pub(crate) text: String,
    pub(crate) choices: Choices,
    /// Whether addresses are translated.
    pub(crate) translates: bool,
    /// Zones, and the most connections of each.
    pub(crate) limits: Vec<(u16, u32)>,
}

impl Rules {
    /// Whether a zone is full, by what a switch tells of its limits.
    pub(crate) fn is_reached(&self, told: &str) -> bool {
        let mut limits = self.limits.iter();
        limits
            .any(|(zone, limit)| told.contains(&format!("zone={zone},limit={limit},count={limit}")))
    }
}

/// Forwards, and sends the connection's state in the Ethernet addresses of copies.
const SHOW: &str = "move:NXM_NX_CT_STATE[0..7]->NXM_OF_ETH_SRC[0..7],\
move:NXM_NX_CT_ZONE[]->NXM_OF_ETH_SRC[32..47],move:NXM_NX_CT_MARK[]->NXM_OF_ETH_DST[0..31],\
move:NXM_NX_CT_LABEL[0..15]->NXM_OF_ETH_DST[32..47],output:3";
const SHOW_TUPLE: &str = ",move:NXM_NX_CT_NW_SRC[]->NXM_OF_ETH_SRC[0..31],\
move:NXM_NX_CT_TP_SRC[]->NXM_OF_ETH_SRC[32..47],move:NXM_NX_CT_NW_DST[]->NXM_OF_ETH_DST[0..31],\
move:NXM_NX_CT_TP_DST[]->NXM_OF_ETH_DST[32..47],output:4";

/// What a commit writes.
fn writing(random: &mut Pcg64Mcg) -> String {
    let mut actions: Vec<String> = Vec::new();
    if random.random_ratio(1, 2) {
        actions.push(match random.random_range(0..3) {
            0 => format!("load:{:#x}->NXM_NX_CT_MARK[]", random.random_range(1..1000)),
            1 => format!(
                "load:{:#x}->NXM_NX_CT_MARK[4..11]",
                random.random_range(1..255)
            ),
            _ => format!("set_field:{:#x}/0xff->ct_mark", random.random_range(1..255)),
        });
    }
    if random.random_ratio(1, 2) {
        actions.push(match random.random_range(0..2) {
            0 => format!(
                "load:{:#x}->NXM_NX_CT_LABEL[0..31]",
                random.random_range(1..70_000)
            ),
            _ => format!(
                "set_field:{:#x}/0xff00ff->ct_label",
                random.random_range(1..255)
            ),
        });
    }
    match actions.is_empty() {
        true => String::new(),
        false => format!(",exec({})", actions.join(",")),
    }
}

/// A translation of new connections for each family, and what each switch may choose in it.
fn translation(random: &mut Pcg64Mcg) -> ([String; 2], Choices) {
    let mut choices = Choices::default();
    let is_source = random.random_ratio(2, 3);
    let kind = if is_source { "src" } else { "dst" };
    let addresses = match random.random_range(0..3) {
        0 => ["10.9.9.7", "[fd09::7]"],
        1 => ["10.9.9.7", "[fd09::7]"],
        _ => {
            choices.has_addresses = true;
            ["10.9.9.1-10.9.9.4", "[fd09::1-fd09::4]"]
        }
    };
    let ports = match random.random_range(0..3) {
        0 => {
            choices.has_ports = true;
            ":40000-40063"
        }
        1 if !is_source => ":8080",
        _ => "",
    };
    let addresses = addresses.map(|address| match ports.is_empty() {
        true => address.trim_matches(['[', ']']).to_owned(),
        // With ports, each address of IPv6 has its brackets.
        false if address.starts_with('[') => address.replace('-', "]-["),
        false => address.to_owned(),
    });
    let way = *["", ",hash", ",random"]
        .choose(random)
        .expect("there are some");
    let text = addresses.map(|address| format!(",nat({kind}={address}{ports}{way})"));
    (text, choices)
}

/// Random rules.
pub(crate) fn random_rules(random: &mut Pcg64Mcg) -> Rules {
    let zone = random.random_range(1..4);
    let translates = random.random_ratio(1, 2);
    let (targets, choices) = match translates {
        true => translation(random),
        false => (Default::default(), Choices::default()),
    };
    let mut text = String::new();
    let commits_at_once = random.random_ratio(1, 4);
    let answers_begin = !translates && random.random_ratio(1, 3);
    for (family, target) in ["ip", "ipv6"].into_iter().zip(&targets) {
        let mut family = Family {
            name: family,
            zone,
            target,
            text: &mut text,
        };
        family.add_frame(commits_at_once);
        // Open vSwitch would judge a packet again that is committed twice with a translation.
        if !(commits_at_once && translates) {
            family.add_beginning(random, answers_begin);
        }
        if !translates {
            family.add_established(random);
        }
    }
    // Drawn apart, so that the packets of a sequence do not depend on it.
    let mut apart = random.clone();
    let mut limits = Vec::new();
    for zone in [zone, zone + 1] {
        // What ends by `force` counts in Open vSwitch until it is collected.
        if !text.contains("force") && apart.random_ratio(1, 4) {
            limits.push((zone, apart.random_range(1..6)));
        }
    }
    Rules {
        text,
        choices,
        translates,
        limits,
    }
}

/// Writes the rules of one version of IP.
struct Family<'a> {
    name: &'a str,
    zone: u16,
    target: &'a str,
    text: &'a mut String,
}

impl Family<'_> {
    fn rule(&mut self, table: u8, priority: u16, rest: &str) {
        let name = self.name;
        let written = writeln!(self.text, "table={table},priority={priority},{name},{rest}");
        written.expect("writing to a string");
    }

    /// The rules that all have: they ask the tracker, and show its answer.
    fn add_frame(&mut self, commits_at_once: bool) {
        let (zone, target) = (self.zone, self.target);
        let nat = if target.is_empty() { "" } else { ",nat" };
        let tuple = if self.name == "ip" { SHOW_TUPLE } else { "" };
        for (port, other) in [(1, 2), (2, 1)] {
            let show = format!("in_port={port} actions=output:{other},{SHOW}");
            self.rule(9, 2, &format!("ct_state=+trk-inv,{show}{tuple}"));
            self.rule(9, 1, &show);
            let ask = match commits_at_once && port == 1 {
                true => format!("ct(commit,zone={zone}{target},table=1)"),
                false => format!("ct(zone={zone}{nat},table=1)"),
            };
            self.rule(0, 1, &format!("in_port={port} actions={ask}"));
        }
        for table in [1, 2] {
            let invalid = format!("ct_state=+inv+trk actions=output:{INVALID_PORT}");
            self.rule(table, 100, &invalid);
            self.rule(table, 1, "actions=resubmit(,9)");
        }
    }

    /// What becomes of the first packet of a connection.
    fn add_beginning(&mut self, random: &mut Pcg64Mcg, answers_begin: bool) {
        let commit = format!(
            "ct(commit,zone={}{}{}",
            self.zone,
            self.target,
            writing(random)
        );
        let new = match random.random_range(0..3) {
            0 => format!("{commit},table=2)"),
            1 => format!("{commit}),resubmit(,9)"),
            _ => format!("{commit}),ct_clear,resubmit(,9)"),
        };
        let new = format!("ct_state=+new-rel+trk,in_port=1 actions={new}");
        self.rule(1, 50, &new);
        if answers_begin {
            let commit = format!("ct(commit,zone={}{})", self.zone, writing(random));
            let new = format!("ct_state=+new-rel+trk,in_port=2 actions={commit},resubmit(,9)");
            self.rule(1, 50, &new);
        }
    }

    /// What becomes of later packets.
    fn add_established(&mut self, random: &mut Pcg64Mcg) {
        let (zone, next) = (self.zone, self.zone + 1);
        let established = match random.random_range(0..5) {
            0 => format!("ct(commit,zone={zone}{}),resubmit(,9)", writing(random)),
            1 => format!("ct_clear,ct(commit,zone={next},table=2)"),
            2 => format!("ct(commit,zone={next}{},table=2)", writing(random)),
            3 => format!("ct(zone={next},table=2)"),
            _ => "resubmit(,9)".to_owned(),
        };
        let side = ["", "-rpl", "+rpl"].choose(random).expect("there are some");
        self.rule(
            1,
            40,
            &format!("ct_state=+est{side}+trk actions={established}"),
        );
        // Later fragments of IPv6 would not match it.
        if self.name == "ip" && random.random_ratio(1, 3) {
            let forced = format!("ct(commit,force,zone={zone}{},table=2)", writing(random));
            let matches = "ct_state=+est+rpl+trk,nw_proto=17";
            self.rule(1, 45, &format!("{matches} actions={forced}"));
        }
    }
}
