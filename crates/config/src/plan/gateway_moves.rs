//! `[[gateway_move]]`: gateways that move during a run. Whether they can is checked with a
//! fabric.

use serde::{Deserialize, Deserializer};
use thalweg_fabric::{FatTree, GatewayMove, NodeClass, Time};
use toml::Spanned;

use super::MICROS;
use crate::value::{Number, list};
use crate::{Result, Source};

/// A move of all gateways of one ToR to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlannedGatewayMove {
    /// The move and its time.
    pub moved: GatewayMove,
    /// Its line in the plan, from 1.
    pub line: usize,
    /// Its column, from 1.
    pub column: usize,
}

impl PlannedGatewayMove {
    /// Adds room for gateways to the fabric, at the targets of the moves. Moves are applied in
    /// the order of time.
    ///
    /// # Errors
    /// At the first move that starts at a ToR without gateways, or ends at a ToR that has some
    /// or does not exist. Returns the move and what to do.
    pub fn make_room(
        moves: &[PlannedGatewayMove],
        shape: &FatTree,
    ) -> std::result::Result<FatTree, (PlannedGatewayMove, String)> {
        let mut room = shape.clone();
        let mut at_work = shape.gateway_tors.clone();
        let mut ordered = moves.to_vec();
        ordered.sort_by_key(|planned| planned.moved.at);
        for planned in ordered {
            let GatewayMove {
                from_tor, to_tor, ..
            } = planned.moved;
            let tors = shape.pods * shape.tors_per_pod;
            if to_tor >= tors {
                let what = format!("the fabric has no ToR {to_tor}; give one below {tors}");
                return Err((planned, what));
            }
            if shape.gateways_per_tor == 0 || !at_work.contains(&from_tor) {
                let what = format!("there is no gateway at ToR {from_tor} then; give another");
                return Err((planned, what));
            }
            if at_work.contains(&to_tor) {
                let what = format!("there are gateways at ToR {to_tor} then; give another");
                return Err((planned, what));
            }
            at_work.retain(|&tor| tor != from_tor);
            at_work.push(to_tor);
            room.gateway_tors.push(to_tor);
        }
        room.gateway_tors.sort_unstable();
        room.gateway_tors.dedup();
        Ok(room)
    }
}

/// All sections `[[gateway_move]]`.
#[derive(Debug, Default)]
pub(super) struct Sections(Vec<Section>);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Section {
    #[serde(deserialize_with = "crate::value::some_micros")]
    at_us: Spanned<Number>,
    from: Spanned<String>,
    to: Spanned<String>,
}

impl<'de> Deserialize<'de> for Sections {
    fn deserialize<D: Deserializer<'de>>(
        deserializer: D,
    ) -> std::result::Result<Sections, D::Error> {
        let expected = "a list: write [[gateway_move]], with two brackets, for each move";
        list(deserializer, expected).map(Sections)
    }
}

impl Source<'_> {
    pub(super) fn gateway_moves(&self, sections: &Sections) -> Result<Vec<PlannedGatewayMove>> {
        let planned = sections.0.iter().map(|section| {
            let at = self.number("at_us", &section.at_us, MICROS)?;
            let (line, column) = self.place(&section.to.span());
            Ok(PlannedGatewayMove {
                moved: GatewayMove {
                    at: Time::from_micros(at),
                    from_tor: self.tor(&section.from)?,
                    to_tor: self.tor(&section.to)?,
                },
                line,
                column,
            })
        });
        planned.collect()
    }

    fn tor(&self, said: &Spanned<String>) -> Result<u32> {
        let name = self.node(said)?;
        match name.class {
            NodeClass::Tor => Ok(name.number),
            _ => {
                let what = format!("{name} has no gateways; give a ToR, such as \"tor 3\"");
                Err(self.error(&said.span(), what))
            }
        }
    }
}
