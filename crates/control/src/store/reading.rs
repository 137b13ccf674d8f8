//! An answer to `Read` that is made while it is sent.
//!
//! A [`Reading`] holds the state from when the call was handled. It has the store's rows,
//! shared with the store until one of them is written. It has each value that its requests
//! name, once ([`Recorded`]). So it excludes later writes (P4Runtime 1.5.0, "Parallelism of
//! Read and Write Requests") and needs no lock, and a slow reader delays no other.
//!
//! 1. It holds no more of the answer than one message and one page.
//! 2. A step looks at no more than one page of rows.

use std::collections::VecDeque;

use prost::Message;

use super::Store;
use super::page::{Page, Place};
use super::read::Reader;
use super::values::{Live, Recorded};
use crate::problem::{Failure, Problem, Verdicts};
use crate::proto::p4::v1 as p4;

/// Maximum rows that a step looks at.
const PAGE_ROWS: usize = 256;
/// Maximum entities in one message of an answer.
const MAX_ENTITIES: usize = 1_024;
/// Maximum bytes of one message: clients accept 4 MiB by default.
const MAX_RESPONSE_BYTES: usize = 1 << 20;

/// An answer to `Read`: its messages in order, then its status.
pub struct Reading {
    /// `None` if the call fails as a whole.
    state: Option<(Store, Recorded)>,
    requests: std::vec::IntoIter<p4::Entity>,
    current: Option<(p4::Entity, Place)>,
    /// Entities that were found and are in no message yet.
    page: VecDeque<p4::Entity>,
    message: Vec<p4::Entity>,
    message_bytes: usize,
    verdicts: Verdicts,
    problem: Option<Problem>,
}

/// The result of a step.
#[derive(Debug)]
pub(crate) enum Step {
    /// A message.
    Message(p4::ReadResponse),
    /// No message yet.
    Working,
    /// No more messages; [`Reading::end`] returns the status.
    End,
}

impl Reading {
    /// Starts an answer to `requests`.
    pub(crate) fn new(store: &Store, mut live: Live<'_>, requests: Vec<p4::Entity>) -> Reading {
        match Recorded::new(store, &mut live, &requests) {
            Ok(recorded) => Reading {
                state: Some((store.snapshot(), recorded)),
                requests: requests.into_iter(),
                ..Reading::refused(None)
            },
            Err(problem) => Reading::refused(Some(problem)),
        }
    }

    /// Creates an answer without messages.
    pub(crate) fn refused(problem: Option<Problem>) -> Reading {
        Reading {
            state: None,
            requests: Vec::new().into_iter(),
            current: None,
            page: VecDeque::new(),
            message: Vec::new(),
            message_bytes: 0,
            verdicts: Verdicts::new(),
            problem,
        }
    }

    /// Advances by one page.
    pub(crate) fn step(&mut self) -> Step {
        if self.page.is_empty() && !self.read_page() {
            return match self.message.is_empty() {
                true => Step::End,
                false => Step::Message(self.take_message()),
            };
        }
        while let Some(entity) = self.page.pop_front() {
            let length = entity.encoded_len();
            let is_full = self.message.len() >= MAX_ENTITIES
                || self.message_bytes + length > MAX_RESPONSE_BYTES;
            if is_full && !self.message.is_empty() {
                self.page.push_front(entity);
                return Step::Message(self.take_message());
            }
            self.message_bytes += length;
            self.message.push(entity);
        }
        Step::Working
    }

    /// The status of the call, once there are no more messages.
    ///
    /// # Errors
    /// The failure of the call as a whole, or a verdict for each request.
    pub fn end(&mut self) -> Result<(), Failure> {
        if let Some(problem) = self.problem.take() {
            return Err(problem.into());
        }
        match self.verdicts.iter().any(Result::is_err) {
            true => Err(Failure::Parts(std::mem::take(&mut self.verdicts))),
            false => Ok(()),
        }
    }

    /// Number of entities it holds: invariant 1.
    #[cfg(test)]
    pub(crate) fn held(&self) -> usize {
        self.page.len() + self.message.len()
    }

    fn take_message(&mut self) -> p4::ReadResponse {
        self.message_bytes = 0;
        p4::ReadResponse {
            entities: std::mem::take(&mut self.message),
        }
    }

    /// Reads the next page; `false` if there is none.
    fn read_page(&mut self) -> bool {
        let Some((store, recorded)) = &mut self.state else {
            return false;
        };
        let next = self.current.take();
        let fresh = || Some((self.requests.next()?, Place::default()));
        let Some((request, place)) = next.or_else(fresh) else {
            return false;
        };
        let mut reader = Reader {
            store,
            values: recorded,
            page: Page::new(place, PAGE_ROWS),
        };
        let mut found = Vec::new();
        let verdict = reader.read(&request, &mut found);
        match (verdict, reader.page.next) {
            (Ok(()), Some(place)) => self.current = Some((request, place)),
            (verdict, _) => self.verdicts.push(verdict),
        }
        self.page = found.into();
        true
    }
}

impl Iterator for Reading {
    type Item = p4::ReadResponse;

    fn next(&mut self) -> Option<p4::ReadResponse> {
        loop {
            match self.step() {
                Step::Message(message) => return Some(message),
                Step::Working => {}
                Step::End => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Device, DeviceConfig};
    use crate::model::Model;
    use crate::p4info::read_text;
    use crate::proto::p4::v1::entity::Entity as Kind;
    use thalweg_packet::Instant;

    #[test]
    fn a_read_of_many_wildcards_holds_one_message_and_one_page() {
        let mut device = Device::new(DeviceConfig::default(), Model::default());
        let config = p4::ForwardingPipelineConfig {
            p4info: read_text(include_str!("../../testdata/everything.p4info.txtpb")).ok(),
            p4_device_config: "{}".into(),
            cookie: None,
        };
        device.start_with(&config, Instant::ZERO).unwrap();
        let all = p4::Entity {
            entity: Some(Kind::CounterEntry(p4::CounterEntry::default())),
        };
        let mut reading = device.read(p4::ReadRequest {
            device_id: 1,
            entities: vec![all; 20_000],
            ..Default::default()
        });
        let recorded = |reading: &Reading| {
            let (_, recorded) = reading.state.as_ref().expect("it was not refused");
            recorded.count_of_counters()
        };
        // Each is recorded once, although it is requested 20,000 times.
        let cells = recorded(&reading);
        assert!(cells > 0 && cells < 10_000, "{cells}");
        let (mut messages, mut entities) = (0, 0);
        while messages < 200 {
            match reading.step() {
                Step::Message(message) => {
                    messages += 1;
                    entities += message.entities.len();
                    assert!(message.entities.len() <= MAX_ENTITIES);
                }
                Step::Working => {}
                Step::End => break,
            }
            // Invariant 1.
            assert!(
                reading.held() <= MAX_ENTITIES + PAGE_ROWS,
                "{}",
                reading.held()
            );
        }
        assert!(entities > 20 * cells, "{entities}");
        assert_eq!(recorded(&reading), cells);
    }
}
