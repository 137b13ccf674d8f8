//! Prints rules, groups and cache entries in the spelling of Open vSwitch's tools.
//!
//! A rule is printed like `ovs-ofctl dump-flows --no-stats` (`lib/match.c`,
//! `lib/ofp-actions.c`), so that outputs can be compared by eye and by program. Where several
//! spellings mean the same, the printer uses the first that reads back as the same value.

mod actions;
mod datapath;
mod effects;
mod flow;
mod learn;
mod matches;
mod megaflow;
mod subfield;
mod tracking;

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use thalweg_packet::PortId;

use super::fields::{Format, Name};
use super::shape::Shape;
use super::value::{CT_BITS, LOCAL_PORT, NO_PORT, TCP_FLAGS, ones};
use crate::matching::Match;
use crate::pipeline::Pipeline;

pub use actions::{print_actions, print_subfield, print_value};
pub(super) use datapath::{Spelling, members_of};
pub use effects::print_effects;
pub use matches::print_match;
pub use megaflow::{MegaflowStyle, print_megaflow, print_megaflow_with_ports};
pub use tracking::{print_request, print_translation};

/// The printer's output.
type Out<'a, 'b> = &'a mut fmt::Formatter<'b>;

/// Writes a number in hexadecimal like C's `%#x`: zero has no `0x`.
fn hexadecimal(out: &mut dyn fmt::Write, number: u128) -> fmt::Result {
    match number {
        0 => out.write_str("0"),
        _ => write!(out, "{number:#x}"),
    }
}

/// Writes an Ethernet address.
fn ethernet(out: &mut dyn fmt::Write, address: u128) -> fmt::Result {
    let bytes = (address as u64).to_be_bytes();
    let [_, _, a, b, c, d, e, f] = bytes;
    write!(out, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}")
}

/// The length of a prefix, if the mask is a prefix.
fn prefix_length(mask: u128, width: u16) -> Option<u32> {
    let length = (mask << (128 - width)).leading_ones();
    (mask == ones(width) & !ones(width - length as u16)).then_some(length)
}

fn ipv4(out: &mut dyn fmt::Write, value: u128, mask: u128) -> fmt::Result {
    write!(out, "{}", Ipv4Addr::from(value as u32))?;
    match prefix_length(mask, 32) {
        Some(32) => Ok(()),
        Some(length) => write!(out, "/{length}"),
        None => write!(out, "/{}", Ipv4Addr::from(mask as u32)),
    }
}

fn ipv6(out: &mut dyn fmt::Write, value: u128, mask: u128) -> fmt::Result {
    write!(out, "{}", Ipv6Addr::from(value))?;
    match prefix_length(mask, 128) {
        Some(128) => Ok(()),
        Some(length) => write!(out, "/{length}"),
        None => write!(out, "/{}", Ipv6Addr::from(mask)),
    }
}

fn masked_ethernet(out: &mut dyn fmt::Write, value: u128, mask: u128) -> fmt::Result {
    ethernet(out, value)?;
    if mask != ones(48) {
        out.write_str("/")?;
        ethernet(out, mask)?;
    }
    Ok(())
}

fn tcp_flags(out: &mut dyn fmt::Write, value: u128, mask: u128) -> fmt::Result {
    flags(out, value, mask, (12, &TCP_FLAGS))
}

/// Writes the bits of a connection's state.
pub(super) fn ct_state(out: &mut dyn fmt::Write, value: u128, mask: u128) -> fmt::Result {
    flags(out, value, mask, (8, &CT_BITS))
}

/// Writes named bits of a field with `width` bits.
fn flags(
    out: &mut dyn fmt::Write,
    value: u128,
    mask: u128,
    (width, names): (u16, &[&str]),
) -> fmt::Result {
    let is_exact = mask == ones(width);
    if is_exact && value == 0 {
        return out.write_str("0");
    }
    let mut separator = "";
    for (bit, name) in names.iter().enumerate() {
        let (is_set, is_asked) = (value >> bit & 1 != 0, mask >> bit & 1 != 0);
        if is_exact && is_set {
            write!(out, "{separator}{name}")?;
            separator = "|";
        } else if !is_exact && is_asked {
            write!(out, "{}{name}", if is_set { '+' } else { '-' })?;
        }
    }
    Ok(())
}

/// How ports are written: by number, or by name where the caller knows one.
#[derive(Clone, Copy, Default)]
pub struct PortSpelling<'a> {
    /// Whether a port's number has its bridge's above it.
    has_bridges: bool,
    names: Option<&'a dyn Fn(PortId) -> Option<String>>,
}

impl<'a> PortSpelling<'a> {
    /// By number; in a pipeline with bridges by the number in the bridge.
    pub fn numbers(pipeline: &Pipeline) -> PortSpelling<'a> {
        PortSpelling {
            has_bridges: pipeline.has_bridges(),
            names: None,
        }
    }

    /// By the name that `names` gives, otherwise by number. Reserved ports have fixed names.
    pub fn with_names(self, names: &'a dyn Fn(PortId) -> Option<String>) -> PortSpelling<'a> {
        PortSpelling {
            names: Some(names),
            ..self
        }
    }
}

/// What the printer knows of the packets and of ports.
#[derive(Clone, Copy, Default)]
struct Context<'a> {
    /// The packet's shape; `None` if nothing is known of it.
    shape: Option<Shape>,
    /// Whether the actions belong to a packet, so that nothing must read back as part of a
    /// rule.
    is_met: bool,
    ports: PortSpelling<'a>,
}

impl<'a> Context<'a> {
    fn of(matching: &Match, ports: PortSpelling<'a>) -> Context<'a> {
        Context {
            shape: Some(Shape::of(matching)),
            is_met: false,
            ports,
        }
    }
}

/// What a function writes, as a text.
fn text(write: impl Fn(Out<'_, '_>) -> fmt::Result) -> String {
    struct Text<F>(F);
    impl<F: Fn(Out<'_, '_>) -> fmt::Result> fmt::Display for Text<F> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.0(f)
        }
    }
    Text(write).to_string()
}

/// Writes a port's number or name.
fn port(out: &mut dyn fmt::Write, number: u128, ports: PortSpelling<'_>) -> fmt::Result {
    let shown = match ports.has_bridges {
        true => number & 0xffff,
        false => number,
    };
    let named = || ports.names.and_then(|names| names(PortId(number as u32)));
    match shown {
        _ if shown == u128::from(LOCAL_PORT.0) => out.write_str("LOCAL"),
        _ if shown == u128::from(NO_PORT.0) => out.write_str("ANY"),
        _ => match named() {
            Some(name) => out.write_str(&name),
            None => write!(out, "{shown}"),
        },
    }
}

/// Writes a port of an action set.
fn set_output(out: &mut dyn fmt::Write, number: u128, ports: PortSpelling<'_>) -> fmt::Result {
    let name = match number {
        0 => "UNSET",
        0xfff8 | 0xffff_fff8 => "IN_PORT",
        0xfff9 | 0xffff_fff9 => "TABLE",
        0xfffa | 0xffff_fffa => "NORMAL",
        0xfffb | 0xffff_fffb => "FLOOD",
        0xfffc | 0xffff_fffc => "ALL",
        0xfffd | 0xffff_fffd => "CONTROLLER",
        0xfffe | 0xffff_fffe => "LOCAL",
        0xffff | 0xffff_ffff => "ANY",
        1..0xff00 => return port(out, number, ports),
        // No action set has such a port.
        _ => return write!(out, "{number:#x}"),
    };
    out.write_str(name)
}

/// Writes a value in its name's notation, as in `set_field`.
fn value(
    out: &mut dyn fmt::Write,
    name: &Name,
    (value, mask): (u128, u128),
    ports: PortSpelling<'_>,
) -> fmt::Result {
    match name.format {
        Format::Ethernet => return masked_ethernet(out, value, mask),
        Format::Ipv4 => return ipv4(out, value, mask),
        Format::Ipv6 => return ipv6(out, value, mask),
        Format::TcpFlags => return tcp_flags(out, value, mask),
        Format::CtState => return ct_state(out, value, mask),
        Format::TunFlags => return out.write_str(if value & 1 == 1 { "oam" } else { "0" }),
        Format::Port => return port(out, value, ports),
        Format::SetOutput => return set_output(out, value, ports),
        Format::Hexadecimal => hexadecimal(out, value)?,
        _ => write!(out, "{value}")?,
    }
    if mask != ones(name.width_bits) {
        out.write_str("/")?;
        hexadecimal(out, mask)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use thalweg_packet::standard as f;

    use super::*;
    use crate::action::Action;
    use crate::bridge::BridgeId;
    use crate::pipeline::Config;
    use crate::text::parse_flow;

    fn actions_of(rule: &str) -> crate::Flow {
        parse_flow(rule).expect("the test's rule is right")
    }

    #[test]
    fn ports_are_spelt_as_the_caller_says() {
        let pipeline = Pipeline::new(Config {
            bridges: true,
            ..Config::default()
        });
        let rule = "in_port=3,actions=output:2,LOCAL,resubmit(4,1),write_actions(output:2)";
        let rule = actions_of(rule).in_bridge(BridgeId(7));
        let numbers = PortSpelling::numbers(&pipeline);
        let names = |port: PortId| (port == BridgeId(7).port(2)).then(|| "uplink".to_owned());
        let named = numbers.with_names(&names);
        let print = |ports| print_actions(&rule.actions, &rule.matching, ports);
        assert_eq!(
            print(numbers),
            "output:2,LOCAL,resubmit(4,1),write_actions(output:2)"
        );
        assert_eq!(
            print(named),
            "output:uplink,LOCAL,resubmit(4,1),write_actions(output:uplink)"
        );
        assert_eq!(print_match(&rule.matching, named), "in_port=3");
        let alone = Pipeline::new(Config::default());
        let wide = PortSpelling::numbers(&alone);
        assert_eq!(
            print_match(&rule.matching, wide),
            format!("in_port={}", (7 << 16) + 3)
        );
    }

    /// What a packet meets is printed by its kind, even where a rule could not be read back.
    #[test]
    fn actions_of_a_packet_are_spelt_by_its_kind() {
        let rule = actions_of("ip,actions=mod_tp_dst:80,mod_nw_ttl:3");
        let packet = actions_of("udp,nw_frag=later,actions=drop").matching;
        let ports = PortSpelling::default();
        assert_eq!(
            print_actions(&rule.actions, &packet, ports),
            "set_field:80->udp_dst,set_field:3->nw_ttl"
        );
        assert_eq!(
            rule.to_string(),
            "table=0, ip actions=mod_tp_dst:80,set_field:3->nw_ttl"
        );
    }

    #[test]
    fn values_are_written_as_their_fields() {
        let print = |rule: &str, value| {
            let rule = actions_of(rule);
            let Some(Action::Push(bits)) = rule.actions.first() else {
                panic!("the rule pushes");
            };
            let ports = PortSpelling::default();
            let value = print_value(bits, value, &rule.matching, ports);
            format!("{}={value}", print_subfield(bits, &rule.matching))
        };
        let ethernet = print("actions=push:NXM_OF_ETH_SRC[]", 0x0200_0000_0001);
        assert_eq!(ethernet, "NXM_OF_ETH_SRC[]=02:00:00:00:00:01");
        let part = print("actions=push:NXM_OF_ETH_SRC[0..15]", 0x1234);
        assert_eq!(part, "NXM_OF_ETH_SRC[0..15]=0x1234");
        assert_eq!(
            print("actions=push:NXM_OF_ETH_SRC[3]", 0),
            "NXM_OF_ETH_SRC[3]=0"
        );
        let address = print("ip,actions=push:NXM_OF_IP_DST[]", 0x0a00_0001);
        assert_eq!(address, "NXM_OF_IP_DST[]=10.0.0.1");
        let register = print("actions=push:NXM_NX_REG3[]", 0xab);
        assert_eq!(register, "NXM_NX_REG3[]=0xab");
    }

    #[test]
    fn labels_below_the_first_are_decimal() {
        let mut labels = Match::default();
        labels
            .add(f::MPLS_LSE1, 321, u32::MAX.into())
            .expect("is the first");
        labels
            .add(f::MPLS_LSE2, 0x100, 0x100)
            .expect("is the first");
        let printed = "mpls_lse1=321,mpls_lse2=0x00000100/0x00000100";
        assert_eq!(labels.to_string(), printed);
        assert_eq!(crate::text::parse_megaflow(printed), Ok(labels));
    }
}
