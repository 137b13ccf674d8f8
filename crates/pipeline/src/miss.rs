//! What tables do with packets that no rule matches.
//!
//! OpenFlow 1.1 and 1.2 let a controller choose for each table (`OFPTC_TABLE_MISS_*`), and
//! OpenFlow 1.0 sends every such packet to the controller. From OpenFlow 1.3 on, a packet
//! without a rule is dropped, unless a rule of priority 0 says otherwise.
//!
//! A resubmit that finds no rule just goes on: only the first lookup, a `goto_table` and an
//! output to `TABLE` ask what the table does, as in Open vSwitch (`xlate_table_action`).

use std::collections::BTreeMap;
use std::sync::Arc;

use thalweg_classifier::Version;

use crate::action::TableId;
use crate::bridge::BridgeId;
use crate::pipeline::{Counters, Pipeline};

/// The last table that a controller can use (Open vSwitch's `TBL_INTERNAL` follows).
pub(crate) const LAST_TABLE: u8 = 253;

/// What a table does with a packet that no rule matches.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Miss {
    /// Drops it.
    #[default]
    Drop,
    /// Sends it to the controllers, without a number and without a rule.
    Controller,
    /// Looks it up in the next table; after the last, sends it to the controllers.
    Continue,
}

/// What each table of a bridge does.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Misses {
    /// What tables do that are not named.
    pub others: Miss,
    /// What these tables do, by their number in the bridge.
    pub tables: BTreeMap<u8, Miss>,
}

impl Misses {
    /// What the table with this number does.
    pub fn of(&self, table: u8) -> Miss {
        self.tables.get(&table).copied().unwrap_or(self.others)
    }
}

/// Counts of a bridge's packets that no rule could take.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct UnmatchedCounters {
    /// Those that tables sent to controllers.
    pub to_controller: Counters,
    /// Those that tables dropped.
    pub dropped: Counters,
    /// Fragments of a bridge that drops them.
    pub fragments: Counters,
}

impl Pipeline {
    /// Credits packets that no rule matched.
    pub fn credit_unmatched(&mut self, bridge: BridgeId, to_controller: bool, counters: Counters) {
        let known = self.unmatched.entry(bridge).or_default();
        match to_controller {
            true => known.to_controller.add(counters),
            false => known.dropped.add(counters),
        }
    }

    /// Credits fragments that were dropped: to the table as if a rule had matched, as in Open
    /// vSwitch.
    pub fn credit_fragments(&mut self, table: TableId, counters: Counters) {
        self.credit_table(table, counters.packets, counters.packets);
        let known = self.unmatched.entry(table.bridge()).or_default();
        known.fragments.add(counters);
    }

    /// The counts of a bridge's packets that no rule could take.
    pub fn unmatched(&self, bridge: BridgeId) -> UnmatchedCounters {
        self.unmatched.get(&bridge).copied().unwrap_or_default()
    }

    /// What the tables of a bridge do with packets that no rule matches, at a version.
    pub fn misses(&self, bridge: BridgeId, version: Version) -> Arc<Misses> {
        let misses = self.misses.get(&bridge);
        let misses = misses.and_then(|history| history.at(version));
        misses.cloned().unwrap_or_default()
    }

    /// What one table does, at a version.
    pub(crate) fn miss(&self, table: TableId, version: Version) -> Miss {
        let misses = self.misses.get(&table.bridge());
        let misses = misses.and_then(|history| history.at(version));
        misses.map_or(Miss::Drop, |misses| misses.of(table.number()))
    }
}
