//! A generated rule, and its text.
//!
//! A generated rule consists of typed terms and actions, because generators ask two questions
//! that text cannot answer: whether two matches overlap, and how a packet that meets the rule
//! looks. Its [`Display`](fmt::Display) is one line in `ovs-ofctl add-flows` syntax; the
//! switch sees nothing else.
//!
//! 1. The terms of a [`Match`] are sorted by field, one term per field.
//! 2. A term's value has no bit outside its mask.

use std::fmt::{self, Write};

use crate::action::{Action, write_list};
use crate::field::{Field, prefix_mask};

/// The part of a match on one field.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Term {
    /// The field.
    pub field: Field,
    /// Its value, zero outside the mask.
    pub value: u128,
    /// The bits that matter.
    pub mask: u128,
}

/// The match of a rule: a conjunction of masked fields; empty matches everything.
///
/// ```
/// use thalweg_workload::{Field, Match};
///
/// let wide = Match::ipv4().with_prefix(Field::IpDst, 0x0a00_0000_u32, 8);
/// let narrow = Match::ipv4().with_prefix(Field::IpDst, 0x0a01_0000_u32, 16);
/// assert!(wide.overlaps(&narrow));
/// assert_eq!(narrow.to_string(), "ip,nw_dst=10.1.0.0/16");
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Match {
    terms: Vec<Term>,
}

impl Match {
    /// The match of every packet.
    pub const fn any() -> Self {
        Match { terms: Vec::new() }
    }

    /// The match of every IPv4 packet.
    pub fn ipv4() -> Self {
        Match::any().with(Field::EthType, 0x0800_u16)
    }

    /// Adds an exact term, replacing one on the same field.
    pub fn with(self, field: Field, value: impl Into<u128>) -> Self {
        self.with_masked(field, value, field.full_mask())
    }

    /// Adds a masked term, replacing one on the same field; a mask of zero adds nothing.
    pub fn with_masked(mut self, field: Field, value: impl Into<u128>, mask: u128) -> Self {
        let mask = mask & field.full_mask();
        let term = Term {
            field,
            value: value.into() & mask,
            mask,
        };
        match self.terms.binary_search_by_key(&field, |term| term.field) {
            Ok(found) if mask == 0 => drop(self.terms.remove(found)),
            Ok(found) => self.terms[found] = term,
            Err(_) if mask == 0 => {}
            Err(place) => self.terms.insert(place, term),
        }
        self
    }

    /// Adds a prefix of `length` bits.
    pub fn with_prefix(self, field: Field, value: impl Into<u128>, length: u32) -> Self {
        self.with_masked(field, value, prefix_mask(length, field.width_bits()))
    }

    /// Adds the VLAN identifier of a packet that has a tag.
    pub fn with_vlan(self, vid: u16) -> Self {
        self.with_masked(Field::VlanTci, 0x1000 | vid, 0x1fff)
    }

    /// The terms, sorted by field.
    pub fn terms(&self) -> &[Term] {
        &self.terms
    }

    /// The term on `field`.
    pub fn term(&self, field: Field) -> Option<&Term> {
        let found = self
            .terms
            .binary_search_by_key(&field, |term| term.field)
            .ok()?;
        Some(&self.terms[found])
    }

    /// The value of `field` if all its bits are matched.
    pub fn exact(&self, field: Field) -> Option<u128> {
        self.term(field)
            .filter(|term| term.mask == field.full_mask())
            .map(|term| term.value)
    }

    /// Whether some packet could meet both matches.
    pub fn overlaps(&self, other: &Match) -> bool {
        // Merges two sorted lists: only fields in both can make the matches disjoint.
        let (mut left, mut right) = (self.terms.iter().peekable(), other.terms.iter().peekable());
        while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
            match a.field.cmp(&b.field) {
                std::cmp::Ordering::Less => drop(left.next()),
                std::cmp::Ordering::Greater => drop(right.next()),
                std::cmp::Ordering::Equal => {
                    if (a.value ^ b.value) & a.mask & b.mask != 0 {
                        return false;
                    }
                    left.next();
                    right.next();
                }
            }
        }
        true
    }

    /// The keyword for the EtherType and protocol, and whether it includes the protocol.
    fn keyword(&self) -> Option<(&'static str, bool)> {
        let protocol = self.exact(Field::IpProtocol);
        Some(match (self.exact(Field::EthType)?, protocol) {
            (0x0800, Some(1)) => ("icmp", true),
            (0x0800, Some(6)) => ("tcp", true),
            (0x0800, Some(17)) => ("udp", true),
            (0x0800, _) => ("ip", false),
            (0x86dd, Some(6)) => ("tcp6", true),
            (0x86dd, Some(17)) => ("udp6", true),
            (0x86dd, Some(58)) => ("icmp6", true),
            (0x86dd, _) => ("ipv6", false),
            (0x0806, _) => ("arp", false),
            (0x8847, _) => ("mpls", false),
            _ => return None,
        })
    }
}

impl fmt::Display for Match {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keyword = self.keyword();
        let mut separator = "";
        for term in &self.terms {
            match (term.field, keyword) {
                (Field::IpProtocol, Some((_, true))) => continue,
                (Field::EthType, Some((name, _))) => write!(f, "{separator}{name}")?,
                (field, _) => {
                    write!(f, "{separator}{}=", field.match_name())?;
                    field.write_masked(f, term.value, term.mask)?;
                }
            }
            separator = ",";
        }
        Ok(())
    }
}

/// A rule: its table and priority, its match, and its actions.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Rule {
    /// Its table.
    pub table: u8,
    /// Its priority; higher wins.
    pub priority: u16,
    /// The packets it applies to.
    pub matches: Match,
    /// Its actions; an empty list drops.
    pub actions: Vec<Action>,
}

impl Rule {
    /// Creates a rule.
    pub fn new(table: u8, priority: u16, matches: Match, actions: Vec<Action>) -> Self {
        Rule {
            table,
            priority,
            matches,
            actions,
        }
    }

    /// The table to which the rule sends packets.
    pub fn next_table(&self) -> Option<u8> {
        match self.actions.last() {
            Some(Action::Goto(table)) => Some(*table),
            _ => None,
        }
    }

    /// Whether the rule is a clause of a conjunctive match, which wins no lookup by itself.
    pub fn is_clause(&self) -> bool {
        matches!(self.actions.first(), Some(Action::Conjunction(..)))
    }

    /// Whether the rules share a table and a priority and their matches overlap; with a clause,
    /// whether they are the same.
    ///
    /// OpenFlow does not define which of two such rules wins, so no generator makes them.
    pub fn is_ambiguous_with(&self, other: &Rule) -> bool {
        let is_clause = self.is_clause() || other.is_clause();
        self.table == other.table
            && self.priority == other.priority
            && match is_clause {
                true => self.matches == other.matches,
                false => self.matches.overlaps(&other.matches),
            }
    }

    /// Writes the table, priority and match, by which `delete_strict` names a rule.
    pub(crate) fn write_selector(&self, f: &mut impl fmt::Write) -> fmt::Result {
        write!(f, "table={},priority={}", self.table, self.priority)?;
        if !self.matches.terms().is_empty() {
            write!(f, ",{}", self.matches)?;
        }
        Ok(())
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_selector(f)?;
        f.write_str(",actions=")?;
        if self.actions.is_empty() {
            return f.write_str("drop");
        }
        write_list(f, &self.actions)
    }
}

/// The rules as the text of a rules file, one per line.
pub fn rules_text(rules: &[Rule]) -> String {
    let mut text = String::with_capacity(rules.len() * 96);
    for rule in rules {
        writeln!(text, "{rule}").expect("a String takes any text");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::FieldSlice;

    #[test]
    fn text_is_ovs_ofctl_syntax() {
        let matches = Match::ipv4()
            .with(Field::InPort, 3_u32)
            .with_vlan(100)
            .with(Field::IpProtocol, 17_u8)
            .with_masked(Field::UdpSrc, 0_u8, 0x1f)
            .with(Field::UdpDst, 53_u16)
            .with_masked(Field::IpSrc, 0x0a00_0001_u32, 0xff00_00ff);
        let actions = vec![
            Action::SetField(Field::EthDst, 0x0200_0000_0001),
            Action::SetField(Field::VlanVid, 0x1064),
            Action::Move(
                FieldSlice::whole(Field::IpSrc),
                FieldSlice::whole(Field::Register(3)),
            ),
            Action::WriteMetadata(5, 0xff),
            Action::Goto(4),
        ];
        let rule = Rule::new(2, 7, matches, actions);
        assert_eq!(
            rule.to_string(),
            "table=2,priority=7,in_port=3,vlan_tci=0x1064/0x1fff,udp,nw_src=10.0.0.1/255.0.0.255,\
             tp_src=0x0/0x1f,tp_dst=53,actions=set_field:02:00:00:00:00:01->eth_dst,\
             set_field:4196->vlan_vid,move:ip_src[]->reg3[],write_metadata:0x5/0xff,goto_table:4"
        );
        let miss = Rule::new(0, 0, Match::any(), Vec::new());
        assert_eq!(miss.to_string(), "table=0,priority=0,actions=drop");
    }

    #[test]
    fn overlap_needs_a_common_bit_that_differs_to_be_false() {
        let port = |value: u32| Match::any().with(Field::InPort, value);
        assert!(!port(1).overlaps(&port(2)));
        assert!(port(1).overlaps(&Match::any().with_vlan(5)));
        assert!(Match::any().overlaps(&Match::any()));
        let untagged = Match::any().with_masked(Field::VlanTci, 0_u8, 0x1000);
        assert!(!untagged.overlaps(&Match::any().with_vlan(0)));
    }

    #[test]
    fn a_term_replaces_one_on_the_same_field() {
        let once = Match::any()
            .with(Field::InPort, 1_u32)
            .with(Field::InPort, 2_u32);
        assert_eq!(once.to_string(), "in_port=2");
        assert_eq!(once.with_masked(Field::InPort, 0_u8, 0), Match::any());
    }
}
