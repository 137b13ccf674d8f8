//! Records every remembered segment again and compares: the slow twin of `repair`.
//!
//! A frame is built from the key that a segment was recorded with, and recorded with the
//! current state. The operations and the tables' answers must be the same. Masks may differ,
//! since the bits that decide a lookup depend on entries that were not hit. So may a stop
//! point, where these bits are those of a color: then the answers up to the earlier stop are
//! compared.
//!
//! It records every segment and copies all cells, so it is for tests only.

use rand_pcg::Pcg64Mcg;
use thalweg_packet::Instant;

use crate::program::Program;
use crate::program::ids::NodeId;
use crate::run::Counts;
use crate::run::engine::Walk;
use crate::run::frame::Frame;
use crate::run::observer::Unobserved;
use crate::state::{Counter, Meter, State};

use super::record::{Recorded, Recorder, Surroundings};
use super::segment::{Consult, End};
use super::store::{Cache, Segment};

/// The parts of an entry that recording changes.
type Saved = Vec<(u32, Counter, Meter, Instant)>;

impl Cache {
    /// Compares each segment with a new recording.
    ///
    /// # Errors
    /// Says which segment differs, and how.
    pub(crate) fn check(
        &mut self,
        program: &Program,
        state: &mut State,
        random: &Pcg64Mcg,
        (now, drop_port): (Instant, u32),
    ) -> Result<(), String> {
        let saved: Vec<Saved> = state
            .tables
            .iter()
            .map(|table| {
                let entries = table.entries();
                let saved = entries
                    .map(|(index, entry)| (index, entry.counter, entry.meter, entry.last_hit));
                saved.collect()
            })
            .collect();
        let mut outcome = Ok(());
        for id in 0..self.segments.len() {
            let Some(segment) = self.segments[id].take() else {
                continue;
            };
            let compared = self.check_one(program, state, random, (now, drop_port), &segment);
            self.segments[id] = Some(segment);
            outcome = outcome.and(compared.map_err(|what| format!("segment {id}: {what}")));
        }
        for (table, saved) in state.tables.iter_mut().zip(saved) {
            for (index, counter, meter, last_hit) in saved {
                let entry = table.entry_mut(index);
                (entry.counter, entry.meter, entry.last_hit) = (counter, meter, last_hit);
            }
        }
        outcome
    }

    fn check_one(
        &mut self,
        program: &Program,
        state: &mut State,
        random: &Pcg64Mcg,
        (now, drop_port): (Instant, u32),
        segment: &Segment,
    ) -> Result<(), String> {
        let start = &self.starts[segment.start as usize];
        // Such a segment does nothing, so its node does not matter.
        if segment.end == End::Visit(start.node) {
            return Ok(());
        }
        let mut frame = Frame::default();
        frame.begin(program, &[]);
        start.layout.unpack(&segment.key, &mut frame.words);
        self.recorder.begin(&start.origins, &start.layout);
        self.recorder.limit = stop_of(segment.end);
        let around = Surroundings {
            facts: &self.facts,
            layout: &start.layout,
        };
        let mut work_left = u64::MAX;
        let mut engine = Walk {
            program,
            version: state.version,
            tables: &mut state.tables,
            profiles: &state.profiles,
            value_rows: &state.value_rows,
            cells: &mut state.cells.clone(),
            counts: &mut Counts::default(),
            work_left: &mut work_left,
            random: &mut random.clone(),
            now,
            drop_port,
            wide: &mut Vec::new(),
            input: &mut Vec::new(),
            steps: None,
            observer: Unobserved,
        };
        let recorded = engine.record(around, &mut self.recorder, start.node, &mut frame);
        // An assertion on a word outside the key may fail for the built frame.
        let Ok(Recorded { end, .. }) = recorded else {
            return Ok(());
        };
        self.trim(program, segment.start, end);
        match difference(program, segment, &self.recorder, end) {
            None => Ok(()),
            Some(what) => Err(format!(
                "{what}: {segment:?}, now {:?}, {end:?}",
                self.recorder
            )),
        }
    }
}

/// How a segment differs from a recording.
fn difference(
    program: &Program,
    segment: &Segment,
    recorder: &Recorder,
    end: End,
) -> Option<&'static str> {
    let both = (&*recorder.consults, &*segment.consults);
    let differences = match stop_of(end) == stop_of(segment.end) {
        true => [
            (
                *recorder.operations != *segment.operations.list,
                "other operations",
            ),
            (*recorder.data != *segment.operations.data, "other data"),
            (*recorder.credits != *segment.credits, "other credits"),
            (both.0.len() != both.1.len(), "other tables"),
        ],
        false => {
            [(
                stop_of(end).is_none() || both.0.len() > both.1.len(),
                "another end",
            ); 4]
        }
    };
    if let Some((_, what)) = differences.into_iter().find(|(differs, _)| *differs) {
        return Some(what);
    }
    for (now, then) in both.0.iter().zip(both.1) {
        if (Consult { key: 0, ..*now }) != (Consult { key: 0, ..*then }) {
            return Some("another answer");
        }
        let table = program.table(now.table);
        let words = match table.key.is_empty() {
            true => 0,
            false => table.key_words as usize,
        };
        // A color may be part of a key whose bits were not examined.
        let (mine, own) = (now.key as usize, then.key as usize);
        let differs = (0..words).any(|word| {
            let differs = recorder.keys[mine + word] ^ segment.keys[own + word];
            differs & recorder.keys[mine + words + word] != 0
        });
        if differs {
            return Some("another key");
        }
    }
    None
}

/// The node at which a segment stops.
fn stop_of(end: End) -> Option<NodeId> {
    match end {
        End::Done => None,
        End::Before(node) | End::Visit(node) => Some(node),
    }
}
