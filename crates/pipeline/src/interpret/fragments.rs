//! Lookups of packets that may be fragments: what tables see of them.

use thalweg_classifier::RuleId;
use thalweg_packet::PortId;

use super::observer::{Observer, Sight};
use super::walk::Walk;
use crate::action::{Subfield, TableId};
use crate::drops::DropReason;
use crate::fragments::{FragmentMode, HIDDEN_FIELDS};
use crate::trace::{Input, StepKind};

/// What came of a lookup.
pub(super) enum Outcome {
    /// A rule matched.
    Rule(RuleId),
    /// No rule matched.
    Missed,
    /// The table's bridge drops fragments.
    Dropped,
}

impl<O: Observer> Walk<'_, O> {
    /// Looks up in a table, as the table's bridge has it for fragments. Only this lookup sees
    /// `in_port` as the input port.
    pub(super) fn look_up(&mut self, table: TableId, in_port: Option<PortId>) -> Outcome {
        if std::mem::take(&mut self.shows_tuple) {
            return self.look_up_tuple(table, in_port);
        }
        let found = match self.is_fragment() {
            false => self.search(table, in_port),
            true => {
                let bridge = table.bridge();
                self.ask(Input::Fragments(bridge));
                match self.pipeline.fragment_mode(bridge, self.version) {
                    FragmentMode::NxMatch => self.search(table, in_port),
                    FragmentMode::Normal => self.search_without_ports(table, in_port),
                    FragmentMode::Drop => return self.drop_fragment(table),
                }
            }
        };
        found.map_or(Outcome::Missed, Outcome::Rule)
    }

    fn search(&mut self, table: TableId, in_port: Option<PortId>) -> Option<RuleId> {
        match in_port {
            Some(port) => self.lookup_from(port, table),
            None => self.lookup(table),
        }
    }

    fn search_without_ports(&mut self, table: TableId, in_port: Option<PortId>) -> Option<RuleId> {
        let ports = HIDDEN_FIELDS.map(|(field, width_bits)| {
            let subfield = Subfield::whole(field, width_bits);
            let former = self.state.lift(&subfield);
            self.state.write(field, 0, u128::MAX >> (128 - width_bits));
            (subfield, former)
        });
        let rule = self.search(table, in_port);
        for (subfield, former) in &ports {
            self.state.put_down(former, subfield);
        }
        rule
    }

    fn drop_fragment(&mut self, table: TableId) -> Outcome {
        self.begin_step(StepKind::Fragment { table });
        self.read_whether_fragment();
        self.tell(Sight::Fragment(table));
        self.author = None.into();
        self.missed = Some(DropReason::Fragment);
        Outcome::Dropped
    }

    /// Whether the packet is a fragment, without reading it.
    fn is_fragment(&self) -> bool {
        let words = self.state.words();
        (self.fragment_bits).is_some_and(|(word, bits)| words[word] & bits != 0)
    }

    /// Adds to what a lookup depends on whether the packet is a fragment.
    pub(super) fn read_whether_fragment(&mut self) {
        if let Some((word, bits)) = self.fragment_bits {
            self.state.read_word(word, bits);
        }
    }
}
