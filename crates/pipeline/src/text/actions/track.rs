//! `ct(...)`, `nat(...)` inside it, and `ct_clear`.

use std::net::{Ipv4Addr, Ipv6Addr};

use thalweg_conntrack::{AddressTranslation, Alg, NatPorts, Selection, TranslationKind};

use super::ActionReader;
use super::send::table_id;
use crate::action::Action;
use crate::check::form::Owner;
use crate::text::error::Parsed;
use crate::text::line::{Line, Pair};
use crate::text::shape::Needs;
use crate::tracking::{Tracking, Zone};

impl<'a> ActionReader<'a> {
    /// Reads the action, if it belongs to this family.
    pub(super) fn track(
        &mut self,
        word: &str,
        pair: Pair<'a>,
        depth: usize,
    ) -> Parsed<Option<Action>> {
        match word {
            "ct" => self.tracking(pair, depth).map(Some),
            "ct_clear" => Ok(Some(Action::Untrack)),
            "nat" => Err(self
                .line
                .syntax(pair.key, "`nat` stands inside of `ct(...)`")),
            _ => Ok(None),
        }
    }

    /// Reads `ct(commit,force,table=T,zone=Z,nat(...),exec(...),alg=A)`, each at most once.
    fn tracking(&mut self, pair: Pair<'a>, depth: usize) -> Parsed<Action> {
        let line = self.line;
        let mut tracking = Tracking {
            zone: Zone::Number(0),
            is_commit: false,
            is_forced: false,
            table: None,
            translation: None,
            alg: None,
            exec: self.interner.intern(Vec::new()),
        };
        let mut options = line.pairs(pair.value);
        while let Some(option) = options.next()? {
            match option.key {
                "commit" => tracking.is_commit = true,
                "force" => tracking.is_forced = true,
                "table" => tracking.table = Some(table_id(line, option.value)?),
                "zone" => tracking.zone = self.zone(option.value)?,
                "nat" => tracking.translation = Some(translation(line, option)?),
                "alg" => tracking.alg = Some(alg(line, option.value)?),
                "exec" => {
                    let shape = self.shape;
                    let list = self.list(option.value, Owner::Exec, depth + 1);
                    self.shape = shape;
                    tracking.exec = list?;
                }
                _ => {
                    let known = "there are commit, force, table, zone, nat, exec and alg";
                    return Err(line.unknown(option.key, "option of `ct`", known));
                }
            }
        }
        let translates = tracking
            .translation
            .as_ref()
            .is_some_and(|nat| nat.target.is_some());
        let needs = match tracking.alg {
            None => Needs::Ip,
            Some(Alg::Ftp) => Needs::Tcp,
            Some(Alg::Tftp) => Needs::Udp,
        };
        if self.shape.is_some_and(|shape| !shape.has(needs)) {
            return Err(line.prerequisite(pair.key, needs.advice()));
        }
        let commits = translates || tracking.is_forced || !tracking.exec.is_empty();
        if commits && !tracking.is_commit {
            let what = "force, exec and nat(src) or nat(dst) need `commit` beside them";
            return Err(line.syntax(pair.key, what));
        }
        Ok(Action::Track(Box::new(tracking)))
    }

    fn zone(&self, value: &'a str) -> Parsed<Zone> {
        if value.starts_with(|first: char| first.is_ascii_digit()) {
            return self.line.integer(value).map(Zone::Number);
        }
        let (_, bits) = self.subfield(value, false)?;
        match bits.width_bits() {
            16 => Ok(Zone::Field(bits)),
            _ => Err(self
                .line
                .value(value, "16 bits of a field, which hold a zone")),
        }
    }
}

fn alg(line: &Line<'_>, value: &str) -> Parsed<Alg> {
    match value {
        "ftp" => Ok(Alg::Ftp),
        "tftp" => Ok(Alg::Tftp),
        _ => Err(line.value(value, "ftp or tftp")),
    }
}

/// Reads `nat`, `nat(src)`, or `nat(src=FIRST-LAST:FIRST-LAST,random)`.
fn translation(line: &Line<'_>, pair: Pair<'_>) -> Parsed<AddressTranslation> {
    let mut translation = AddressTranslation {
        target: None,
        selection: Selection::Any,
        is_persistent: false,
    };
    let mut options = line.pairs(pair.value);
    while let Some(option) = options.next()? {
        let kind = match option.key {
            "src" => TranslationKind::Source,
            "dst" => TranslationKind::Destination,
            "persistent" => {
                translation.is_persistent = true;
                continue;
            }
            "hash" | "random" if translation.selection != Selection::Any => {
                return Err(line.syntax(option.key, "give one of `hash` and `random`"));
            }
            "hash" => {
                translation.selection = Selection::Hash;
                continue;
            }
            "random" => {
                translation.selection = Selection::Random;
                continue;
            }
            _ => {
                let known = "there are src, dst, persistent, hash and random";
                return Err(line.unknown(option.key, "option of `nat`", known));
            }
        };
        if translation.target.is_some() {
            return Err(line.syntax(option.key, "give one of `src` and `dst`"));
        }
        let (addresses, ports) = range(option.value)
            .ok_or_else(|| line.value(option.value, "addresses (10.0.0.1-10.0.0.9:1024-2047)"))?;
        translation.target = Some((kind, addresses, ports));
    }
    let has_flags = translation.is_persistent || translation.selection != Selection::Any;
    match translation.target {
        None if has_flags => Err(line.syntax(pair.key, "flags of nat need `src` or `dst`")),
        _ => Ok(translation),
    }
}

type Ranges = (Option<(Ipv6Addr, Ipv6Addr)>, NatPorts);

/// Reads `FIRST[-LAST][:FIRST[-LAST]]`; an IPv6 address before a port stands in brackets.
fn range(text: &str) -> Option<Ranges> {
    if text.is_empty() {
        return Some((None, None));
    }
    let (first, mut rest) = address(text)?;
    let mut last = first;
    if let Some(behind) = rest.strip_prefix('-') {
        (last, rest) = address(behind)?;
    }
    let ports = match rest.strip_prefix(':') {
        Some(ports) => Some(port_range(ports)?),
        None if rest.is_empty() => None,
        None => return None,
    };
    let is_one_family = first.to_ipv4_mapped().is_some() == last.to_ipv4_mapped().is_some();
    (is_one_family && first <= last).then_some((Some((first, last)), ports))
}

fn port_range(text: &str) -> Option<(u16, u16)> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (first > 0 && first <= last).then_some((first, last))
}

/// Reads an address at the beginning; returns it and the rest of the text.
fn address(text: &str) -> Option<(Ipv6Addr, &str)> {
    if let Some(inside) = text.strip_prefix('[') {
        let (address, rest) = inside.split_once(']')?;
        return Some((address.parse().ok()?, rest));
    }
    let is_part = |byte: u8| byte.is_ascii_digit() || byte == b'.';
    let end = text
        .bytes()
        .position(|byte| !is_part(byte))
        .unwrap_or(text.len());
    if let Ok(address) = text[..end].parse::<Ipv4Addr>() {
        return Some((address.to_ipv6_mapped(), &text[end..]));
    }
    let end = text.find('-').unwrap_or(text.len());
    Some((text[..end].parse().ok()?, &text[end..]))
}
