//! The dashboard of a running switch, for the daemon and for `thalweg run`: answers the questions
//! of browsers from the loop that owns the switch.
//!
//! 1. Counts are taken at most once per `FRESH`, whatever browsers ask for.
//! 2. Entries are looked at only for a browser that waits, a slice in each round of the loop. Scans
//!    take `SHARE` of the time at most.
//! 3. A question about a packet is answered by the rules alone. At most `QUESTIONS_MAX` questions
//!    are answered in a round.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use thalweg_dashboard::{
    DashboardAnswer, DashboardConfig, DashboardDesk, DashboardError, DashboardQuestion,
    DashboardServer, Explanation, ExplanationKind, WaitingQuestion,
};
use thalweg_switch::Switch;

use crate::trace::{TraceCommand, TraceNames, explain, trace, why_drop};
use crate::views::{EntryScan, live_text, picture_text};

/// For how long counts are given again instead of taken once more.
const FRESH: Duration = Duration::from_millis(900);
/// The same for a look at the entries.
const FRESH_ENTRIES: Duration = Duration::from_millis(2_500);
/// The part of the time that scans may take: one in this many.
const SHARE: u32 = 20;
/// Most questions that are answered in a round.
const QUESTIONS_MAX: usize = 4;

/// A text, and until when it is given again.
type Kept = Option<(Instant, Arc<str>)>;

/// The server, and what it was told lately.
#[derive(Debug)]
pub struct SwitchDashboard {
    server: DashboardServer,
    desk: DashboardDesk,
    live: Kept,
    entries: Kept,
    scan: Option<RunningScan>,
}

/// A scan under way, and the browsers that wait for it.
#[derive(Debug)]
struct RunningScan {
    scan: EntryScan,
    /// The time that it has taken.
    took: Duration,
    waiting: Vec<WaitingQuestion>,
}

impl SwitchDashboard {
    /// Starts the server; its questions wake the switch's loop.
    ///
    /// # Errors
    /// If the address is not a loopback address and must be, or cannot be listened on.
    pub fn start(
        config: DashboardConfig,
        switch: &Switch,
    ) -> Result<SwitchDashboard, DashboardError> {
        let interrupter = switch.interrupter();
        let (server, desk) = DashboardServer::start(config, move || interrupter.interrupt())?;
        Ok(SwitchDashboard {
            server,
            desk,
            live: None,
            entries: None,
            scan: None,
        })
    }

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Answers some of the questions that wait; returns whether there is more to do at once.
    pub fn serve(&mut self, switch: &mut Switch, names: &dyn TraceNames) -> bool {
        for _ in 0..QUESTIONS_MAX {
            let Some(waiting) = self.desk.next_question() else {
                return self.scan_on(switch, names);
            };
            match waiting.question().clone() {
                DashboardQuestion::Live => waiting.answer(Ok(self.counts(switch, names))),
                DashboardQuestion::Entries => self.answer_entries(waiting),
                DashboardQuestion::Explain(asked) => {
                    waiting.answer(explained(&asked, switch, names));
                }
            }
        }
        self.scan_on(switch, names);
        true
    }

    fn counts(&mut self, switch: &mut Switch, names: &dyn TraceNames) -> Arc<str> {
        if let Some(text) = fresh(&self.live) {
            return text;
        }
        let text: Arc<str> = live_text(switch, names).into();
        self.live = Some((Instant::now() + FRESH, text.clone()));
        text
    }

    fn answer_entries(&mut self, waiting: WaitingQuestion) {
        match fresh(&self.entries) {
            Some(text) => waiting.answer(Ok(text)),
            None => {
                let started = self.scan.get_or_insert_with(|| RunningScan {
                    scan: EntryScan::default(),
                    took: Duration::ZERO,
                    waiting: Vec::new(),
                });
                started.waiting.push(waiting);
            }
        }
    }

    /// Looks at a slice, if a scan is under way; returns whether one still is.
    fn scan_on(&mut self, switch: &mut Switch, names: &dyn TraceNames) -> bool {
        let Some(running) = &mut self.scan else {
            return false;
        };
        let start = Instant::now();
        let is_finished = running.scan.step(switch);
        if !is_finished {
            running.took += start.elapsed();
            return true;
        }
        let text: Arc<str> = picture_text(switch, names, &running.scan).into();
        let took = running.took + start.elapsed();
        let keep = FRESH_ENTRIES.max(took * SHARE);
        self.entries = Some((Instant::now() + keep, text.clone()));
        for waiting in self.scan.take().into_iter().flat_map(|scan| scan.waiting) {
            waiting.answer(Ok(text.clone()));
        }
        false
    }
}

/// The text, if it may be given again.
fn fresh(kept: &Kept) -> Option<Arc<str>> {
    let (until, text) = kept.as_ref()?;
    (Instant::now() < *until).then(|| text.clone())
}

/// What is asked about a packet. Nothing is done to the packet or by it.
fn explained(asked: &Explanation, switch: &Switch, names: &dyn TraceNames) -> DashboardAnswer {
    let (pipeline, arguments) = (switch.pipeline(), &asked.arguments[..]);
    let text = match asked.kind {
        ExplanationKind::Entry => explain(&pipeline, names, arguments),
        ExplanationKind::Drop => why_drop(&pipeline, names, arguments),
        ExplanationKind::Steps => {
            let answer = trace(&pipeline, names, TraceCommand::Trace, arguments);
            answer.map(|answer| answer.text)
        }
    };
    match text {
        Ok(text) => Ok(text.into()),
        Err(refusal) => Err(refusal.to_string()),
    }
}
