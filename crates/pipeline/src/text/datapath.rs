//! Reads datapath flows as `ovs-appctl dpctl/dump-flows` prints them.
//!
//! ```text
//!   recirc_id(0),in_port(1),eth(src=...),eth_type(0x8100),vlan(vid=3),encap(eth_type(0x0800),...)
//! ```
//!
//! 1. A flow that `print_megaflow` prints in the datapath's spelling reads back as the bits it
//!    shows. Absence of a tag, which the EtherType shows there, is not read.
//! 2. Open vSwitch prints some attributes for every packet that have no field here. They are
//!    skipped if zero, and refused by name if not.

use thalweg_packet::standard as f;
use thalweg_packet::{FieldId, PortId};

use super::error::Parsed;
use super::line::{Line, Mark, Pair};
use super::print::{Spelling, members_of};
use super::value::{Masked, ones};
use crate::matching::Match;

/// Attributes without a field here, which any Open vSwitch flow may have.
const FIELDLESS: [&str; 1] = ["skb_priority"];

const ADVICE: &str = "a datapath flow is made of attributes, as in in_port(1),eth_type(0x0800)";

/// Reads a flow's key and mask.
pub(super) fn read_datapath_flow<'a>(line: &'a Line<'a>, text: &'a str) -> Parsed<Match> {
    let mut reader = Reader {
        line,
        matching: Match::default(),
        tags: 0,
        nested: 0,
    };
    reader.attributes(text)?;
    Ok(reader.matching)
}

struct Reader<'a> {
    line: &'a Line<'a>,
    matching: Match,
    /// Tags read so far.
    tags: usize,
    /// `encap` attributes read so far.
    nested: usize,
}

impl<'a> Reader<'a> {
    fn attributes(&mut self, text: &'a str) -> Parsed<()> {
        let mut pairs = self.line.pairs(text);
        while let Some(pair) = pairs.next()? {
            match pair.mark {
                // The EtherType of a tag; the tag says the rest.
                Mark::Parenthesis if is_of_tag(pair, pairs.rest()) => {}
                Mark::Parenthesis => self.attribute(pair)?,
                Mark::Colon if pair.key == "ufid" => {}
                Mark::Colon => self.presence(pair)?,
                _ => return Err(self.line.unknown(pair.key, "attribute", ADVICE)),
            }
        }
        Ok(())
    }

    fn attribute(&mut self, pair: Pair<'a>) -> Parsed<()> {
        let (line, value) = (self.line, pair.value);
        match pair.key {
            "in_port" => self.add(pair.key, f::IN_PORT, port_bits(line, value)?),
            "eth_type" => self.add(pair.key, f::ETH_TYPE, line.masked_number(value, 16)?),
            "vlan" => self.tag(pair),
            // At most one per tag, so nesting is bounded.
            "encap" if self.nested < self.tags => {
                self.nested += 1;
                self.attributes(value)
            }
            "encap" => Err(line.syntax(pair.key, "`encap` needs a `vlan` before it")),
            "skb_mark" => self.add(pair.key, f::PKT_MARK, line.masked_number(value, 32)?),
            "dp_hash" => self.add(pair.key, f::DP_HASH, line.masked_number(value, 32)?),
            "tcp_flags" => self.add(pair.key, f::TCP_FLAGS, line.tcp_flags(value)?),
            "ct_state" => {
                let Masked { value, mask } = line.ct_state(value)?;
                let (value, mask) = (value & ones(8), mask & ones(8));
                self.add(pair.key, f::CT_STATE, Masked { value, mask })
            }
            "packet_type" if value.contains('=') => self.packet_type(pair),
            key if FIELDLESS.contains(&key) => match is_zero(value) {
                true => Ok(()),
                false => Err(line.unsupported(key, key)),
            },
            key => match members_of(key) {
                Some(members) => self.members(value, members),
                None => self.nameless(key, key, value),
            },
        }
    }

    /// Reads `packet_type(ns=1,id=0x894f)`; that of Ethernet is a matter of course.
    fn packet_type(&mut self, pair: Pair<'a>) -> Parsed<()> {
        let mut kind = 0_u32;
        let mut pairs = self.line.pairs(pair.value);
        while let Some(part) = pairs.next()? {
            let number = u32::from(self.line.integer::<u16>(part.value)?);
            match part.key {
                "ns" => kind |= number << 16,
                "id" => kind |= number,
                _ => {
                    let what = "part of `packet_type`";
                    return Err(self.line.unknown(part.key, what, ADVICE));
                }
            }
        }
        let bits = Masked {
            value: kind.into(),
            mask: ones(32),
        };
        match kind {
            0 => Ok(()),
            _ => self.add(pair.key, f::PACKET_TYPE, bits),
        }
    }

    /// Reads a field without an attribute, by its catalogue name.
    fn nameless(&mut self, part: &str, name: &str, value: &str) -> Parsed<()> {
        let catalogue = f::fields();
        let Some(index) = catalogue.iter().position(|field| field.name == name) else {
            return Err(self.line.unknown(part, "attribute", ADVICE));
        };
        let bits = self
            .line
            .masked_number(value, catalogue[index].width_bits)?;
        self.add(part, FieldId(index as u16), bits)
    }

    /// Reads `present:tcp(0x1)`.
    fn presence(&mut self, pair: Pair<'a>) -> Parsed<()> {
        let inside = pair.value.strip_suffix(')');
        let Some((header, value)) = inside.and_then(|inside| inside.split_once('(')) else {
            return Err(self.line.unknown(pair.key, "attribute", ADVICE));
        };
        self.nameless(pair.key, &format!("{}:{header}", pair.key), value)
    }

    fn tag(&mut self, pair: Pair<'a>) -> Parsed<()> {
        let Some(&field) = [f::VLAN_TCI, f::VLAN_TCI_INNER].get(self.tags) else {
            return Err(self.line.limit(pair.key, "more tags", 2));
        };
        self.tags += 1;
        let present = u128::from(f::VLAN_PRESENT);
        let mut tag = Masked {
            value: present,
            mask: present,
        };
        let mut pairs = self.line.pairs(pair.value);
        while let Some(part) = pairs.next()? {
            let (shift, width) = match part.key {
                "vid" => (0, 12),
                "pcp" => (13, 3),
                // It says that there is a tag, as the attribute itself does.
                "cfi" => continue,
                _ => return Err(self.line.unknown(part.key, "part of `vlan`", ADVICE)),
            };
            let bits = self.line.masked_number(part.value, width)?;
            tag.value |= bits.value << shift;
            tag.mask |= bits.mask << shift;
        }
        self.add(pair.key, field, tag)
    }

    fn members(&mut self, text: &'a str, members: &[(&str, FieldId, Spelling)]) -> Parsed<()> {
        let line = self.line;
        let mut pairs = line.pairs(text);
        while let Some(pair) = pairs.next()? {
            if pair.mark != Mark::Equals {
                return Err(line.unsupported(pair.key, pair.key));
            }
            let member = members.iter().find(|member| member.0 == pair.key);
            match (pair.key, member) {
                (key, Some(&(_, field, spelling))) => {
                    let bits = spelt(line, pair.value, field, spelling)?;
                    self.add(key, field, bits)?;
                }
                ("tos" | "tclass", _) => {
                    let Masked { value, mask } = line.masked_number(pair.value, 8)?;
                    for (field, shift, width) in [(f::IP_DSCP, 2, 6), (f::IP_ECN, 0, 2)] {
                        let part = |bits: u128| bits >> shift & ones(width);
                        let (value, mask) = (part(value), part(mask));
                        self.add(pair.key, field, Masked { value, mask })?;
                    }
                }
                ("ttl" | "hlimit", _) if members[0].1 != f::TUN_ID => {
                    self.add(pair.key, f::IP_TTL, line.masked_number(pair.value, 8)?)?;
                }
                ("frag", _) => self.add(pair.key, f::IP_FRAG, line.fragment(pair.value)?)?,
                (key, None) => return Err(line.unsupported(key, key)),
            }
        }
        Ok(())
    }

    fn add(&mut self, part: &str, field: FieldId, bits: Masked) -> Parsed<()> {
        let added = self.matching.add(field, bits.value & bits.mask, bits.mask);
        added.map_err(|_| self.line.contradiction(part))
    }
}

/// Whether an EtherType announces the tag that follows it.
fn is_of_tag(pair: Pair<'_>, rest: &str) -> bool {
    let rest = rest.trim_start_matches([',', ' ']);
    let is_tag = ["0x8100", "0x88a8"].contains(&pair.value) && rest.starts_with("vlan(");
    pair.key == "eth_type" && is_tag
}

/// Reads a port's number or name, or bits of it.
pub(super) fn port_bits(line: &Line<'_>, text: &str) -> Parsed<Masked> {
    if text.starts_with(|first: char| first.is_ascii_digit()) {
        return line.masked_number(text, 32);
    }
    let PortId(number) = line.ingress_port(text)?;
    Ok(Masked {
        value: number.into(),
        mask: ones(32),
    })
}

/// Reads a member's value in its spelling.
fn spelt(line: &Line<'_>, text: &str, field: FieldId, spelling: Spelling) -> Parsed<Masked> {
    match spelling {
        Spelling::Ethernet => line.masked_ethernet(text),
        Spelling::Ipv4 => line.masked_ipv4(text),
        Spelling::Ipv6 => line.masked_ipv6(text),
        Spelling::Decimal | Spelling::Hexadecimal => {
            line.masked_number(text, f::fields()[field.index()].width_bits)
        }
    }
}

/// Whether an attribute is all zero: `0`, `0x0/0`, `ns=0,id=0`.
fn is_zero(text: &str) -> bool {
    let value = text.split('/').next().unwrap_or_default();
    let is_zero = |part: &str| {
        let number = part.rsplit('=').next().unwrap_or_default();
        number
            .trim_start_matches("0x")
            .bytes()
            .all(|byte| byte == b'0')
    };
    value.split(',').all(is_zero)
}

#[cfg(test)]
mod tests {
    use crate::text::{parse_datapath_flow, parse_megaflow};

    #[test]
    fn attributes_are_the_fields_of_an_entry() {
        for (flow, entry) in [
            (
                "recirc_id(0),in_port(1),eth_type(0x0800),\
                 ipv4(dst=10.0.0.0/255.0.0.0,proto=6),tcp(dst=80)",
                "recirc_id=0,eth,tcp,in_port=1,nw_dst=10.0.0.0/8,tp_dst=80",
            ),
            (
                "recirc_id(0),tunnel(tun_id=0x5,src=1.2.3.4,dst=5.6.7.8),in_port(3),\
                 eth(src=02:00:00:00:00:01/ff:00:00:00:00:ff,dst=02:00:00:00:00:02),\
                 eth_type(0x8100),vlan(vid=3,pcp=2),encap(eth_type(0x8100),vlan(vid=4/0xf),\
                 encap(eth_type(0x86dd),ipv6(src=2001:db8::/ffff:ffff::,tclass=0x4/0xfc,proto=58,\
                 hlimit=1,frag=no),icmpv6(type=135,code=0),nd(target=fe80::1)))",
                "recirc_id=0,tun_id=5,tun_src=1.2.3.4,tun_dst=5.6.7.8,in_port=3,\
                 dl_src=02:00:00:00:00:01/ff:00:00:00:00:ff,dl_dst=02:00:00:00:00:02,\
                 vlan_tci=0x5003/0xffff,vlan_tci1=0x1004/0x100f,dl_type=0x86dd,\
                 ipv6_src=2001:db8::/32,ip_dscp=1,nw_ecn=0/0,nw_proto=58,nw_ttl=1,nw_frag=no,\
                 icmp_type=135,icmp_code=0,nd_target=fe80::1",
            ),
            (
                "ufid:12-34, recirc_id(0),dp_hash(0/0),skb_priority(0/0),skb_mark(0),ct_label(0x0),\
                 in_port(2),packet_type(ns=0,id=0),eth(),eth_type(0x0806),\
                 arp(sip=10.0.0.1,tip=10.0.0.2,op=1/0xff,sha=02:00:00:00:00:01)",
                "recirc_id=0,pkt_mark=0,ct_label=0,in_port=2,dl_type=0x806,arp_spa=10.0.0.1,\
                 arp_tpa=10.0.0.2,arp_op=1/0xff,arp_sha=02:00:00:00:00:01",
            ),
            (
                "recirc_id(0x1),in_port(2/0x3),eth_type(0x8847),\
                 mpls(label=16,tc=0/0x4,ttl=64,bos=1),present:mpls(0x1)",
                "recirc_id=1,in_port=2/0x3,dl_type=0x8847,mpls_label=16,mpls_tc=0/0x4,mpls_ttl=64,\
                 mpls_bos=1,present:mpls=0x1",
            ),
            (
                "recirc_id(0),eth_type(0x0800/0xff00),ipv4(tos=0x3/0x3),nw_ttl_above_1(0x1)",
                "recirc_id=0,dl_type=0x0800/0xff00,nw_ecn=3,nw_ttl_above_1=1",
            ),
        ] {
            let read = parse_datapath_flow(flow).unwrap_or_else(|error| panic!("{flow}: {error}"));
            let entry = parse_megaflow(entry).unwrap_or_else(|error| panic!("{entry}: {error}"));
            let terms = |entry: &crate::Match| {
                let terms = entry.terms().iter().filter(|term| term.mask != 0);
                let mut terms: Vec<_> = terms.copied().collect();
                terms.sort_by_key(|term| term.field);
                terms
            };
            assert_eq!(terms(&read), terms(&entry), "{flow}");
        }
    }

    #[test]
    fn what_is_no_attribute_is_refused_with_its_place() {
        for (flow, expected) in [
            (
                "in_port(1),skb_priority(0x21/0x21)",
                ":1:12: `skb_priority` is not supported",
            ),
            ("tunnel(tun_id=0x1,ttl=64)", ":1:19: `ttl` is not supported"),
            ("tunnel(flags(df|key))", ":1:8: `flags` is not supported"),
            ("in_port(1),eht(src=x)", ":1:12: unknown attribute `eht`"),
            (
                "in_port(1),nw_dst=10.0.0.1",
                ":1:12: unknown attribute `nw_dst`",
            ),
            ("in_port(1", "is not closed"),
            ("in_port(p1)", ":1:9: unknown port `p1`"),
            ("in_port(1),in_port(2)", "contradicts"),
            ("encap(eth_type(0x0800))", "needs a `vlan` before it"),
            (
                "vlan(vid=1),encap(vlan(vid=2),encap(vlan(vid=3)))",
                "more tags",
            ),
            ("vlan(vid=5000)", "not a number of at most 12 bits"),
            ("present:x(1)", "unknown attribute"),
        ] {
            let error = parse_datapath_flow(flow).expect_err(flow).to_string();
            assert!(error.contains(expected), "{flow}: {error}");
        }
    }
}
