//! A slow, obvious walk of a flow through generated rules; the tests' oracle.

use crate::action::Action;
use crate::field::Field;
use crate::flows::Flow;
use crate::pipeline::Pipeline;
use crate::rule::Rule;

/// A packet in the form that rules match.
struct State {
    flow: Flow,
    tags: Vec<u16>,
    written: Vec<(Field, u128)>,
}

impl State {
    fn value(&self, field: Field) -> u128 {
        if field == Field::VlanTci {
            return self.tags.last().map_or(0, |vlan| u128::from(0x1000 | vlan));
        }
        if let Some((_, value)) = self.written.iter().rev().find(|(name, _)| *name == field) {
            return *value;
        }
        let flow = &self.flow;
        match field {
            Field::InPort => flow.in_port.into(),
            Field::EthSrc => flow.eth_src.to_u64().into(),
            Field::EthDst => flow.eth_dst.to_u64().into(),
            Field::EthType => 0x0800,
            Field::IpSrc => u32::from(flow.ip_src).into(),
            Field::IpDst => u32::from(flow.ip_dst).into(),
            Field::IpProtocol => flow.protocol.into(),
            Field::IpDscp => flow.dscp.into(),
            Field::TcpSrc | Field::UdpSrc => flow.source_port.into(),
            Field::TcpDst | Field::UdpDst => flow.destination_port.into(),
            Field::Register(_) | Field::Metadata => 0,
            other => panic!("no generated pipeline matches {other:?}"),
        }
    }

    fn meets(&self, rule: &Rule) -> bool {
        rule.matches
            .terms()
            .iter()
            .all(|term| self.value(term.field) & term.mask == term.value)
    }

    fn apply(&mut self, action: &Action) {
        match *action {
            Action::SetField(Field::VlanVid, value) => {
                *self.tags.last_mut().expect("set_field of a tag needs one") = value as u16 & 0xfff;
            }
            Action::SetField(field, value) => self.written.push((field, value)),
            Action::PushVlan(_) => self.tags.push(0),
            Action::PopVlan => drop(self.tags.pop()),
            Action::WriteMetadata(value, mask) => {
                let old = self.value(Field::Metadata) & !u128::from(mask);
                self.written
                    .push((Field::Metadata, old | u128::from(value)));
            }
            _ => {}
        }
    }
}

/// The tables that a flow visits.
pub(crate) fn visited_tables(pipeline: &Pipeline, flow: &Flow) -> Vec<u8> {
    let tags = flow.inner_vlan.into_iter().chain(flow.vlan).collect();
    let mut state = State {
        flow: *flow,
        tags,
        written: Vec::new(),
    };
    let (mut table, mut visited) = (0, Vec::new());
    loop {
        visited.push(table);
        let rules = pipeline.rules.iter().filter(|rule| rule.table == table);
        let best = rules
            .filter(|rule| state.meets(rule))
            .max_by_key(|rule| rule.priority);
        let Some(rule) = best else { return visited };
        rule.actions.iter().for_each(|action| state.apply(action));
        match rule.next_table() {
            Some(next) => table = next,
            None => return visited,
        }
    }
}
