//! The rules that track all packets of a table.

use rand::Rng;

use super::RandomConfig;
use super::actions::draw_actions;
use super::shape::Shape;
use super::tracking::{IPV4, IPV6, draw_track, with_zone};
use crate::action::Action;
use crate::field::Field;
use crate::rule::{Match, Rule};
use crate::seed::Random;

/// The rules of the lowest priority of a table: they track all packets of IP, and mostly
/// commit them.
pub(super) fn draw_base(random: &mut Random, config: &RandomConfig, table: u8) -> [Rule; 2] {
    [IPV4, IPV6].map(|eth_type| {
        let matches = Match::any().with(Field::EthType, eth_type);
        let shape = Shape::of(&matches, None);
        let mut asked = draw_track(random, config, table, &shape);
        asked.is_commit |= random.random_ratio(3, 4);
        let rest = draw_actions(random, config, table, &matches);
        // Before it is tracked again, the packet has the connection of the pass before.
        let tuple = match table + 1 < config.tables && random.random_ratio(1, 2) {
            true => Some(Action::ResubmitTuple(
                random.random_range(table + 1..config.tables),
            )),
            false => None,
        };
        let track = with_zone(random, &shape, asked);
        let actions = tuple.into_iter().chain(track).chain(rest).collect();
        Rule::new(table, 0, matches, actions)
    })
}
