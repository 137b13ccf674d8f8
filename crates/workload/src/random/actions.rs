//! Random action lists that a switch accepts for a given match.

use rand::Rng;

use super::RandomConfig;
use super::broad;
use super::learning;
use super::matches::is_later_fragment;
use super::pool::draw_value;
use super::shape::Shape;
use super::tracking;
use crate::action::{Action, FieldSlice};
use crate::field::Field;
use crate::rule::Match;
use crate::seed::{Random, pick};

use Field::{
    EthDst, EthSrc, IpDscp, IpDst, IpSrc, Ipv6Dst, Ipv6Src, Metadata, PacketMark, Register,
    SetOutput, TcpDst, TcpSrc, UdpDst, UdpSrc, VlanTci, VlanVid,
};

const fn bits(field: Field, start: u32, count: u32) -> FieldSlice {
    FieldSlice {
        field,
        start,
        count,
    }
}

/// The reserved port number that leads back to the first table (OpenFlow 1.0 `OFPP_TABLE`).
const TABLE: u16 = 0xfff9;

/// Moves between fields that every packet has.
const COMMON_MOVES: &[(FieldSlice, FieldSlice)] = &[
    (
        FieldSlice::whole(Register(0)),
        FieldSlice::whole(Register(1)),
    ),
    (
        FieldSlice::whole(Register(2)),
        FieldSlice::whole(Register(0)),
    ),
    (FieldSlice::whole(EthSrc), FieldSlice::whole(EthDst)),
    (bits(EthDst, 0, 32), FieldSlice::whole(Register(1))),
    (FieldSlice::whole(Register(1)), bits(EthSrc, 0, 32)),
    (bits(VlanTci, 0, 12), bits(Register(2), 0, 12)),
    (bits(Register(3), 4, 8), bits(Register(3), 20, 8)),
    (bits(Metadata, 0, 32), FieldSlice::whole(Register(2))),
];

/// Moves of the packet's mark and of the action set's output.
const MARK_MOVES: &[(FieldSlice, FieldSlice)] = &[
    (
        FieldSlice::whole(PacketMark),
        FieldSlice::whole(Register(1)),
    ),
    (
        FieldSlice::whole(Register(2)),
        FieldSlice::whole(PacketMark),
    ),
    (bits(EthSrc, 0, 16), bits(PacketMark, 8, 16)),
    (FieldSlice::whole(SetOutput), FieldSlice::whole(Register(0))),
];

/// Moves that need IPv4.
const IPV4_MOVES: &[(FieldSlice, FieldSlice)] = &[
    (FieldSlice::whole(IpSrc), FieldSlice::whole(Register(0))),
    (FieldSlice::whole(IpDst), FieldSlice::whole(Register(1))),
    (FieldSlice::whole(Register(0)), FieldSlice::whole(IpDst)),
    (FieldSlice::whole(IpSrc), FieldSlice::whole(IpDst)),
    (bits(IpDst, 0, 8), bits(IpSrc, 24, 8)),
];

/// Moves that need TCP.
const TCP_MOVES: &[(FieldSlice, FieldSlice)] = &[
    (FieldSlice::whole(TcpSrc), bits(Register(2), 0, 16)),
    (FieldSlice::whole(TcpDst), FieldSlice::whole(TcpSrc)),
];

/// Moves that need UDP.
const UDP_MOVES: &[(FieldSlice, FieldSlice)] = &[
    (FieldSlice::whole(UdpDst), bits(Register(2), 0, 16)),
    (bits(Register(2), 0, 16), FieldSlice::whole(UdpSrc)),
];

/// A list of actions for a rule of `table` with this match.
pub(super) fn draw_actions(
    random: &mut Random,
    config: &RandomConfig,
    table: u8,
    matches: &Match,
) -> Vec<Action> {
    let mut list = ActionList::new(config, matches);
    let later = (table + 1 < config.tables).then_some(table + 1..config.tables);
    if config.learns && random.random() {
        let learn = learning::draw_learn(random, config, &list.shape);
        list.actions.push(learn);
    }
    while random.random_ratio(2, 5) {
        if config.tracks && random.random_ratio(1, 3) {
            list.actions
                .extend(tracking::draw_action(random, config, table, &list.shape));
            continue;
        }
        if config.checks_length && random.random_ratio(1, 4) {
            list.push_length_check(random);
            continue;
        }
        if config.is_broad && random.random() {
            list.push_broad(random, table);
            continue;
        }
        match random.random_range(0..8_u8) {
            0 => list
                .actions
                .push(Action::Output(random.random_range(1..=config.ports))),
            1 if config.resubmits => {
                if let Some(tables) = &later {
                    list.actions
                        .push(Action::Resubmit(random.random_range(tables.clone())));
                }
            }
            _ if config.rewrites => list.push_rewrite(random),
            _ => {}
        }
    }
    let end = random.random_range(0..20_u8);
    if config.tracks && random.random_ratio(1, 3) {
        list.actions
            .extend(tracking::draw_action(random, config, table, &list.shape));
    }
    let set = if config.is_broad {
        broad::draw_action_set(random, config, table, &list.shape)
    } else {
        Vec::new()
    };
    if !set.is_empty() && end >= 11 {
        list.actions.extend(set);
        return list.actions;
    }
    match (later, end) {
        (Some(tables), 0..11) => {
            list.actions.extend(set);
            list.push_metadata(random);
            list.actions.push(Action::Goto(random.random_range(tables)));
        }
        (_, 0..16) => list
            .actions
            .push(Action::Output(random.random_range(1..=config.ports))),
        (_, 16..18) => list
            .actions
            .push(Action::OutputRegister(random.random_range(0..4))),
        _ => {}
    }
    list.actions
}

/// A list under construction, and the known properties of the packet at its end.
struct ActionList<'a> {
    config: &'a RandomConfig,
    actions: Vec<Action>,
    shape: Shape,
}

impl<'a> ActionList<'a> {
    fn new(config: &'a RandomConfig, matches: &Match) -> Self {
        let protocol = matches
            .exact(Field::IpProtocol)
            .filter(|_| !is_later_fragment(matches));
        ActionList {
            config,
            actions: Vec::new(),
            shape: Shape::of(matches, protocol),
        }
    }

    fn is_ip(&self) -> bool {
        self.shape.is_ip()
    }

    fn push_broad(&mut self, random: &mut Random, table: u8) {
        if random.random_ratio(1, 25) {
            return self.push_reserved(random);
        }
        let action = broad::draw_action(random, self.config, table, &mut self.shape, 0);
        self.actions.extend(action);
    }

    /// Asks whether the packet is longer than some packets are; the bit is one that rules match.
    fn push_length_check(&mut self, random: &mut Random) {
        let bit = bits(
            Register(random.random_range(0..4)),
            random.random_range(0..4),
            1,
        );
        let bytes = random.random_range(40..110);
        self.actions.push(Action::CheckLarger(bytes, bit));
    }

    /// Sets a register to the number of a reserved port, or of one next to these, and outputs
    /// to it.
    fn push_reserved(&mut self, random: &mut Random) {
        let number = random.random_range(0..4);
        let ports = 0xfff7..=0xffff_u16;
        // Keep loops rare: such walks take thousands of lookups.
        let port = match random.random_range(ports.clone()) {
            TABLE if random.random_ratio(3, 4) => *ports.end(),
            port => port,
        };
        self.actions
            .push(Action::SetField(Register(number), port.into()));
        self.actions.push(Action::OutputRegister(number));
    }

    fn push_rewrite(&mut self, random: &mut Random) {
        let action = match random.random_range(0..10_u8) {
            0..5 => self.draw_set_field(random),
            5..7 => self.draw_move(random),
            7 if self.shape.tags < 2 => {
                self.shape.tags += 1;
                Action::PushVlan(*pick(random, &[0x8100, 0x88a8]))
            }
            8 if self.shape.tags > 0 => {
                self.shape.tags -= 1;
                Action::PopVlan
            }
            9 if self.is_ip() => Action::DecTtl,
            _ => return,
        };
        self.actions.push(action);
    }

    /// Sometimes writes metadata.
    fn push_metadata(&mut self, random: &mut Random) {
        if self.config.rewrites && random.random_ratio(1, 8) {
            let value = draw_value(random, Metadata, self.config.ports) as u64;
            let mask = if random.random() { u64::MAX } else { 0xff };
            self.actions.push(Action::WriteMetadata(value & mask, mask));
        }
    }

    fn draw_set_field(&self, random: &mut Random) -> Action {
        let register = Register(random.random_range(0..4));
        if self.has_mark() && random.random_ratio(1, 3) {
            let value = draw_value(random, PacketMark, self.config.ports);
            return Action::SetField(PacketMark, value);
        }
        let mut fields = vec![EthSrc, EthDst, register, register, Metadata];
        if self.shape.tags > 0 {
            fields.push(VlanVid);
        }
        match self.shape.eth_type {
            Some(0x0800) => fields.extend([IpSrc, IpDst, IpDscp]),
            Some(0x86dd) => fields.extend([Ipv6Src, Ipv6Dst, IpDscp]),
            _ => {}
        }
        match self.shape.protocol {
            Some(6) => fields.extend([TcpSrc, TcpDst]),
            Some(17) => fields.extend([UdpSrc, UdpDst]),
            _ => {}
        }
        let field = *pick(random, &fields);
        Action::SetField(field, draw_value(random, field, self.config.ports))
    }

    /// Whether rules know the packet's mark.
    fn has_mark(&self) -> bool {
        self.config.fields.contains(&PacketMark)
    }

    fn draw_move(&self, random: &mut Random) -> Action {
        if self.has_mark() && random.random_ratio(1, 3) {
            let (source, destination) = *pick(random, MARK_MOVES);
            return Action::Move(source, destination);
        }
        let mut groups = vec![COMMON_MOVES];
        if self.shape.eth_type == Some(0x0800) {
            groups.push(IPV4_MOVES);
        }
        match self.shape.protocol {
            Some(6) => groups.push(TCP_MOVES),
            Some(17) => groups.push(UDP_MOVES),
            _ => {}
        }
        let group = *pick(random, &groups);
        let (source, destination) = *pick(random, group);
        Action::Move(source, destination)
    }
}
