//! The state of `thalweg top`: what the switch said, and what the user chose.
//!
//! 1. While the switch is away or the picture is paused, the last answers are shown.
//! 2. The chosen entry is a line of the table, not an entry: it stays where it is when entries
//!    change places.

use std::collections::VecDeque;
use std::time::Duration;

use serde::de::DeserializeOwned;

use crate::answers::{LiveCounts, TalkersAnswer};
use crate::ask::{Answered, AskError, Question};
use crate::rates::{MakerRates, Rates, TalkerRates, makers, talkers};

/// The shortest time between two looks at the entries.
pub(crate) const TALKERS_EVERY: Duration = Duration::from_secs(3);
/// The part of the time that looks at the entries may take.
const TALKERS_SHARE: u32 = 50;
/// Looks that the lines over time remember.
const HISTORY: usize = 512;
/// Lines that a page moves the choice by.
const PAGE: usize = 10;

/// A key that was pressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Key {
    Letter(char),
    Up,
    Down,
    PageUp,
    PageDown,
    Enter,
    Escape,
    Backspace,
}

/// What the lower table shows, and by what it is sorted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sort {
    /// Entries, those with the most packets a second first.
    Packets,
    /// Entries, those with the most bits a second first.
    Bits,
    /// Ports and masks, those with the most entries of a single packet first.
    SlowPath,
}

/// The text over the picture, if there is one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Overlay {
    None,
    Help,
    /// A text, from a line on.
    Text(String, usize),
}

/// One look of the lines over time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) microflow: Option<f64>,
    pub(crate) megaflow: Option<f64>,
    pub(crate) upcalls: f64,
}

/// The state.
#[derive(Debug)]
pub(crate) struct TopModel {
    pub(crate) name: String,
    pub(crate) interval: Duration,
    pub(crate) counts: Option<LiveCounts>,
    pub(crate) rates: Option<Rates>,
    pub(crate) history: VecDeque<Sample>,
    entries: Option<TalkersAnswer>,
    pub(crate) talkers: Vec<TalkerRates>,
    pub(crate) makers: Vec<MakerRates>,
    /// Why there is no switch.
    pub(crate) lost: Option<String>,
    /// Why the switch refused the last question.
    pub(crate) refused: Option<String>,
    pub(crate) is_paused: bool,
    pub(crate) sort: Sort,
    pub(crate) filter: Option<String>,
    /// The filter that is being typed.
    pub(crate) typed: Option<String>,
    pub(crate) chosen: usize,
    pub(crate) overlay: Overlay,
    is_ended: bool,
    is_waiting: bool,
    /// Whether the last question was for counts.
    was_live: bool,
    explained: Option<String>,
    next_live: Duration,
    next_talkers: Duration,
}

impl TopModel {
    /// Knows nothing of the switch yet.
    pub(crate) fn new(name: String, interval: Duration, filter: Option<String>) -> TopModel {
        TopModel {
            name,
            interval,
            counts: None,
            rates: None,
            history: VecDeque::new(),
            entries: None,
            talkers: Vec::new(),
            makers: Vec::new(),
            lost: None,
            refused: None,
            is_paused: false,
            sort: Sort::Packets,
            filter,
            typed: None,
            chosen: 0,
            overlay: Overlay::None,
            is_ended: false,
            is_waiting: false,
            was_live: false,
            explained: None,
            next_live: Duration::ZERO,
            next_talkers: Duration::ZERO,
        }
    }

    /// Whether the user has ended it.
    pub(crate) fn is_ended(&self) -> bool {
        self.is_ended
    }

    /// The question that it is time for, given the time since the start.
    pub(crate) fn poll_question(&mut self, now: Duration) -> Option<Question> {
        if self.is_waiting {
            return None;
        }
        let question = if let Some(flow) = self.explained.take() {
            Question::Explain(flow)
        } else if self.is_paused {
            return None;
        } else if now >= self.next_talkers && self.lost.is_none() && self.was_live {
            // Also where each answer takes as long as an interval.
            Question::Talkers(self.filter.clone())
        } else if now >= self.next_live {
            self.next_live = now + self.interval;
            Question::Live
        } else {
            return None;
        };
        self.was_live = question == Question::Live;
        self.is_waiting = true;
        Some(question)
    }

    /// Takes an answer, given the time since the start.
    pub(crate) fn handle_answer(&mut self, answered: Answered, now: Duration) {
        self.is_waiting = false;
        if let Question::Talkers(_) = answered.question {
            let rest = (answered.took * TALKERS_SHARE).max(TALKERS_EVERY);
            self.next_talkers = now + rest;
        }
        let text = match answered.answer {
            Ok(text) => text,
            Err(AskError::Lost(text)) => {
                self.lost = Some(text);
                return;
            }
            Err(AskError::Refused(text)) => {
                self.lost = None;
                self.refused = Some(text);
                return;
            }
        };
        self.lost = None;
        match answered.question {
            Question::Live => self.take_counts(&text),
            Question::Talkers(filter) if filter == self.filter => self.take_entries(&text),
            // The filter has changed meanwhile.
            Question::Talkers(_) => self.next_talkers = now,
            Question::Explain(_) => self.overlay = Overlay::Text(text, 0),
        }
    }

    fn take_counts(&mut self, text: &str) {
        let Some(counts) = self.read::<LiveCounts>(text) else {
            return;
        };
        let before = self.counts.as_ref();
        if before.is_some_and(|before| before.seconds == counts.seconds) {
            return;
        }
        let is_first = before.is_none();
        let rates = before.and_then(|before| Rates::between(before, &counts));
        match &rates {
            Some(rates) => {
                self.history.push_back(Sample {
                    microflow: rates.microflow_hit_rate,
                    megaflow: rates.megaflow_hit_rate,
                    upcalls: rates.upcalls,
                });
                let old = self.history.len().saturating_sub(HISTORY);
                self.history.drain(..old);
            }
            None if is_first => {}
            // Another process: nothing of before belongs to it.
            None => {
                self.history.clear();
                self.entries = None;
                self.talkers.clear();
                self.makers.clear();
                self.next_talkers = Duration::ZERO;
            }
        }
        self.rates = rates;
        self.counts = Some(counts);
    }

    fn take_entries(&mut self, text: &str) {
        let Some(answer) = self.read::<TalkersAnswer>(text) else {
            return;
        };
        self.refused = None;
        self.talkers = talkers(self.entries.as_ref(), &answer);
        self.makers = makers(&answer);
        self.entries = Some(answer);
        self.arrange();
    }

    fn read<T: DeserializeOwned>(&mut self, text: &str) -> Option<T> {
        match serde_json::from_str(text) {
            Ok(read) => Some(read),
            Err(error) => {
                let what = format!("the switch is of another version: {error}");
                self.refused = Some(what);
                None
            }
        }
    }

    /// Sorts the entries, and keeps the choice within them.
    fn arrange(&mut self) {
        let by = |value: Option<f64>| value.unwrap_or(-1.0);
        let sort = self.sort;
        self.talkers.sort_by(|one, other| {
            let [one_key, other_key] = [one, other].map(|talker| match sort {
                Sort::Bits => by(talker.bits),
                _ => by(talker.packets),
            });
            let totals = other.packets_total.cmp(&one.packets_total);
            other_key.total_cmp(&one_key).then(totals)
        });
        self.chosen = self.chosen.min(self.lines().saturating_sub(1));
    }

    /// Lines of the lower table.
    pub(crate) fn lines(&self) -> usize {
        match self.sort {
            Sort::SlowPath => self.makers.len(),
            _ => self.talkers.len(),
        }
    }

    /// The flow of the chosen line.
    fn chosen_flow(&self) -> Option<&str> {
        match self.sort {
            Sort::SlowPath => self.makers.get(self.chosen).map(|maker| &*maker.example),
            _ => self.talkers.get(self.chosen).map(|talker| &*talker.flow),
        }
    }

    /// Does what a key says.
    pub(crate) fn handle_key(&mut self, key: Key) {
        if self.typed.is_some() {
            return self.type_filter(key);
        }
        if self.overlay != Overlay::None {
            return self.move_overlay(key);
        }
        let last = self.lines().saturating_sub(1);
        match key {
            Key::Letter('q') => self.is_ended = true,
            Key::Letter('p' | ' ') => self.is_paused = !self.is_paused,
            Key::Letter('/') => self.typed = Some(self.filter.clone().unwrap_or_default()),
            Key::Letter('?' | 'h') => self.overlay = Overlay::Help,
            Key::Letter('e') | Key::Enter => {
                self.explained = self.chosen_flow().map(str::to_owned);
            }
            Key::Letter('s') => {
                self.sort = match self.sort {
                    Sort::Packets => Sort::Bits,
                    Sort::Bits => Sort::SlowPath,
                    Sort::SlowPath => Sort::Packets,
                };
                self.chosen = 0;
                self.arrange();
            }
            Key::Up | Key::Letter('k') => self.chosen = self.chosen.saturating_sub(1),
            Key::Down | Key::Letter('j') => self.chosen = (self.chosen + 1).min(last),
            Key::PageUp => self.chosen = self.chosen.saturating_sub(PAGE),
            Key::PageDown => self.chosen = (self.chosen + PAGE).min(last),
            Key::Escape => self.refused = None,
            Key::Letter(_) | Key::Backspace => {}
        }
    }

    fn type_filter(&mut self, key: Key) {
        let mut typed = self.typed.take().unwrap_or_default();
        match key {
            Key::Letter(letter) => typed.push(letter),
            Key::Backspace => {
                typed.pop();
            }
            Key::Escape => return,
            Key::Enter => {
                self.filter = Some(typed.trim().to_owned()).filter(|text| !text.is_empty());
                self.refused = None;
                self.entries = None;
                self.talkers.clear();
                self.chosen = 0;
                self.next_talkers = Duration::ZERO;
                return;
            }
            Key::Up | Key::Down | Key::PageUp | Key::PageDown => {}
        }
        self.typed = Some(typed);
    }

    fn move_overlay(&mut self, key: Key) {
        let Overlay::Text(text, from) = &mut self.overlay else {
            self.overlay = Overlay::None;
            return;
        };
        let last = text.lines().count().saturating_sub(1);
        match key {
            Key::Up | Key::Letter('k') => *from = from.saturating_sub(1),
            Key::Down | Key::Letter('j') => *from = (*from + 1).min(last),
            Key::PageUp => *from = from.saturating_sub(PAGE),
            Key::PageDown | Key::Letter(' ') => *from = (*from + PAGE).min(last),
            Key::Letter('q' | 'e') | Key::Escape | Key::Enter => self.overlay = Overlay::None,
            Key::Letter(_) | Key::Backspace => {}
        }
    }
}
