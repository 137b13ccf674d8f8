//! Changes of flow entries that a connection asked for, for a log.
//!
//! Open vSwitch tells an operator how many they were: some time after the first, and when the
//! connection ends.

use std::fmt;
use std::time::Duration;

use thalweg_openflow::message::flow::FlowCommand;

use crate::openflow::target::Change;

/// The time from the first change to the report of it.
const REPORT_AFTER: Duration = Duration::from_secs(10);

/// How many flow entries a connection changed, and when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowModReport {
    adds: u64,
    deletes: u64,
    modifications: u64,
    first_at: Duration,
    last_at: Duration,
    /// When the report was made.
    now: Duration,
}

/// The changes since the last report.
#[derive(Debug, Default)]
pub(super) struct FlowModCounts(Option<FlowModReport>);

impl FlowModCounts {
    /// Counts changes that were made.
    pub(super) fn count(&mut self, changes: &[Change], now: Duration) {
        for change in changes {
            let Change::Flow(flow) = change else { continue };
            let counts = self.0.get_or_insert(FlowModReport {
                adds: 0,
                deletes: 0,
                modifications: 0,
                first_at: now,
                last_at: now,
                now,
            });
            counts.last_at = now;
            match flow.command {
                FlowCommand::Add => counts.adds += 1,
                FlowCommand::Modify | FlowCommand::ModifyStrict => counts.modifications += 1,
                FlowCommand::Delete | FlowCommand::DeleteStrict => counts.deletes += 1,
            }
        }
    }

    /// Takes the report, if it is time for it or the connection ends.
    pub(super) fn take(&mut self, now: Duration, is_over: bool) -> Option<FlowModReport> {
        let due = |counts: &mut FlowModReport| is_over || now >= counts.first_at + REPORT_AFTER;
        let counts = self.0.take_if(due)?;
        Some(FlowModReport { now, ..counts })
    }
}

impl fmt::Display for FlowModReport {
    /// As Open vSwitch writes it: `3 flow_mods in the last 0 s (2 adds, 1 deletes)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.adds + self.deletes + self.modifications;
        let ago = (self.now.saturating_sub(self.first_at)).as_secs();
        let interval = (self.last_at.saturating_sub(self.first_at)).as_secs();
        write!(f, "{all} flow_mods ")?;
        match interval {
            _ if interval == ago => write!(f, "in the last {ago} s")?,
            0 => write!(f, "{ago} s ago")?,
            _ => write!(f, "in the {interval} s starting {ago} s ago")?,
        }
        let counts = [
            (self.adds, "adds"),
            (self.deletes, "deletes"),
            (self.modifications, "modifications"),
        ];
        let counts = counts.into_iter().filter(|(count, _)| *count > 0);
        let counts: Vec<String> = counts
            .map(|(count, name)| format!("{count} {name}"))
            .collect();
        write!(f, " ({})", counts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use thalweg_openflow::Context;
    use thalweg_openflow::message::Message;

    use super::*;

    /// A change of OpenFlow 1.0 with a command.
    fn change(command: u8) -> Change {
        let mut bytes = [0; 72];
        (bytes[0], bytes[1], bytes[3], bytes[57]) = (1, 14, 72, command);
        bytes[64..70].fill(0xff);
        let frame = thalweg_openflow::decode(&bytes, Context::default()).unwrap();
        let Message::FlowMod(flow) = frame.message else {
            panic!("a change of flow entries");
        };
        Change::Flow(flow)
    }

    #[test]
    fn changes_are_told_after_a_while_and_at_the_end() {
        let mut counts = FlowModCounts::default();
        let at = Duration::from_secs;
        assert_eq!(counts.take(at(5), true), None);
        counts.count(&[0, 0, 3, 1].map(change), at(10));
        assert_eq!(counts.take(at(19), false), None);
        counts.count(&[change(2)], at(19));
        let told = |counts: &mut FlowModCounts, now, is_over| {
            counts
                .take(at(now), is_over)
                .map(|report| report.to_string())
        };
        let expected =
            "5 flow_mods in the 9 s starting 10 s ago (2 adds, 1 deletes, 2 modifications)";
        assert_eq!(told(&mut counts, 20, false).as_deref(), Some(expected));
        assert_eq!(told(&mut counts, 40, true), None);
        counts.count(&[change(4)], at(41));
        let expected = "1 flow_mods in the last 0 s (1 deletes)";
        assert_eq!(told(&mut counts, 41, true).as_deref(), Some(expected));
        counts.count(&[change(4)], at(41));
        let expected = "1 flow_mods 10 s ago (1 deletes)";
        assert_eq!(told(&mut counts, 51, false).as_deref(), Some(expected));
    }
}
