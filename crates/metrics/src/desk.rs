//! The desk: where the switch's owner answers the server's questions.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};

use crate::snapshot::Snapshot;

/// For how long an answer is given again instead of counting once more.
pub const FRESH: Duration = Duration::from_secs(1);

/// A question of the server; the answer goes back by it.
pub(crate) type Question = oneshot::Sender<Arc<Snapshot>>;

/// The owner's end.
#[derive(Debug)]
pub struct MetricsDesk {
    questions: mpsc::Receiver<Question>,
    last: Option<(Instant, Arc<Snapshot>)>,
}

impl MetricsDesk {
    pub(crate) fn new(questions: mpsc::Receiver<Question>) -> MetricsDesk {
        MetricsDesk {
            questions,
            last: None,
        }
    }

    /// Answers the questions that wait; calls `take` if there are some and the last answer is
    /// older than [`FRESH`].
    pub fn serve(&mut self, take: impl FnOnce() -> Snapshot) {
        let mut waiting = Vec::new();
        while let Ok(question) = self.questions.try_recv() {
            waiting.push(question);
        }
        if waiting.is_empty() {
            return;
        }
        let known = self.last.take();
        let known = known.filter(|(taken_at, _)| taken_at.elapsed() < FRESH);
        let (_, snapshot) = self
            .last
            .insert(known.unwrap_or_else(|| (Instant::now(), Arc::new(take()))));
        for question in waiting {
            // A reader that is gone wants no answer.
            let _ = question.send(snapshot.clone());
        }
    }
}
