//! Actions that choose among links by a hash: `multipath`, `bundle`, `bundle_load`.

use thalweg_packet::PortId;

use super::ActionReader;
use crate::action::{Action, Output};
use crate::links::{
    FlowHash, LinkAlgorithm, LinkChoice, MAX_LINKS, MAX_MEMBERS, MemberAlgorithm, MemberChoice,
};
use crate::text::error::Parsed;
use crate::text::line::Pair;
use crate::text::value::{LOCAL_PORT, NO_PORT, PortWord};

const MULTIPATH: &str = "write multipath(FIELDS,BASIS,ALGORITHM,LINKS,ARGUMENT,FIELD[FIRST..LAST])";
const BUNDLE: &str = "write bundle(FIELDS,BASIS,ALGORITHM,ofport,members:PORT,...)";
const BUNDLE_LOAD: &str =
    "write bundle_load(FIELDS,BASIS,ALGORITHM,ofport,FIELD[FIRST..LAST],members:PORT,...)";
const HASHES: &str = "one of eth_src, nw_src, nw_dst, symmetric_l3, symmetric_l4, symmetric_l3l4 \
                      and symmetric_l3l4+udp";

impl<'a> ActionReader<'a> {
    /// Reads the action, if it belongs to this family.
    pub(super) fn choose(&mut self, word: &str, pair: Pair<'a>) -> Parsed<Option<Action>> {
        Ok(Some(match word {
            "multipath" => self.multipath(pair)?,
            "bundle" => self.bundle(pair, false)?,
            "bundle_load" => self.bundle(pair, true)?,
            _ => return Ok(None),
        }))
    }

    fn multipath(&self, pair: Pair<'a>) -> Parsed<Action> {
        let line = self.line;
        let words: Vec<&str> = words(pair.value).collect();
        let [hash, basis, algorithm, links, argument, destination] = words[..] else {
            return Err(line.syntax(pair.key, MULTIPATH));
        };
        let hash = self.flow_hash(hash)?;
        let Some(algorithm) = LinkAlgorithm::named(algorithm) else {
            let what = "one of modulo_n, hash_threshold, hrw and iter_hash";
            return Err(line.value(algorithm, what));
        };
        let count = match line.integer(links)? {
            count @ 1..=MAX_LINKS => count,
            _ => return Err(line.value(links, "a number of links (1 to 65536)")),
        };
        let (_, bits) = self.subfield(destination, true)?;
        if bits.width_bits() < 16 && count > 1 << bits.width_bits() {
            let expected = format!("wide enough for {count} links");
            return Err(line.value(destination, expected));
        }
        Ok(Action::Multipath(Box::new(LinkChoice {
            hash,
            basis: line.integer(basis)?,
            algorithm,
            links: count,
            argument: line.integer(argument)?,
            destination: bits,
        })))
    }

    fn bundle(&self, pair: Pair<'a>, loads: bool) -> Parsed<Action> {
        let line = self.line;
        let form = if loads { BUNDLE_LOAD } else { BUNDLE };
        let parts = ["members:", "slaves:"].iter().find_map(|word| {
            let at = pair.value.find(word)?;
            Some((&pair.value[..at], &pair.value[at + word.len()..]))
        });
        let Some((head, members)) = parts else {
            return Err(line.syntax(pair.key, form));
        };
        let head: Vec<&str> = words(head).collect();
        let (hash, basis, algorithm, kind, destination) = match head[..] {
            [hash, basis, algorithm, kind] if !loads => (hash, basis, algorithm, kind, None),
            [hash, basis, algorithm, kind, to] if loads => (hash, basis, algorithm, kind, Some(to)),
            _ => return Err(line.syntax(pair.key, form)),
        };
        let hash = self.flow_hash(hash)?;
        let Some(algorithm) = MemberAlgorithm::named(algorithm) else {
            return Err(line.value(algorithm, "active_backup or hrw"));
        };
        if !kind.eq_ignore_ascii_case("ofport") {
            return Err(line.value(kind, "the type of members, ofport"));
        }
        let destination = match destination {
            None => None,
            Some(part) => {
                let (_, bits) = self.subfield(part, true)?;
                if bits.width_bits() < 16 {
                    return Err(line.value(part, "wide enough for a port's 16 bits"));
                }
                Some(bits)
            }
        };
        let is_separator = |letter: char| matches!(letter, ',' | ' ' | '[' | ']');
        let members = members.split(is_separator).filter(|part| !part.is_empty());
        let members = members.map(|part| self.member(part));
        let members = members.collect::<Parsed<Vec<PortId>>>()?;
        if members.len() > MAX_MEMBERS {
            return Err(line.limit(pair.value, "a bundle has more members", MAX_MEMBERS));
        }
        Ok(Action::Bundle(Box::new(MemberChoice {
            hash,
            basis: line.integer(basis)?,
            algorithm,
            members: members.into(),
            destination,
        })))
    }

    fn flow_hash(&self, word: &str) -> Parsed<FlowHash> {
        FlowHash::named(word).ok_or_else(|| self.line.value(word, HASHES))
    }

    fn member(&self, part: &str) -> Parsed<PortId> {
        let line = self.line;
        Ok(match line.port_word(part)? {
            Some(PortWord::Number(port)) => port,
            Some(PortWord::Local) => LOCAL_PORT,
            Some(PortWord::None) => NO_PORT,
            Some(PortWord::InPort) => Output::IN_PORT,
            Some(PortWord::Table) => PortId(0xfff9),
            Some(PortWord::Normal) => PortId(0xfffa),
            Some(PortWord::Flood) => PortId(0xfffb),
            Some(PortWord::All) => PortId(0xfffc),
            Some(PortWord::Controller) => {
                return Err(line.value(part, "a port; a controller cannot be a member"));
            }
            None => return Err(line.unknown_port(part, "port")),
        })
    }
}

/// The words between commas and spaces.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split([',', ' ']).filter(|word| !word.is_empty())
}
