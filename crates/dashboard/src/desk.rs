//! The desk: where the switch's owner takes the questions of browsers.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

/// What a browser wants to know.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DashboardQuestion {
    /// The counts, as one JSON object.
    Live,
    /// The busy entries and what they say of tables and drops, as one JSON object.
    Entries,
    /// What happens to a packet, as text.
    Explain(Explanation),
}

/// A question about a packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Explanation {
    /// What to tell.
    pub kind: ExplanationKind,
    /// The packet, as the arguments of `ofproto/trace` have it: a bridge, if one is named, and a
    /// flow.
    pub arguments: Vec<String>,
}

/// What to tell of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExplanationKind {
    /// Why its cache entry is as it is.
    Entry,
    /// Why it is dropped.
    Drop,
    /// Each step of its walk.
    Steps,
}

/// The owner's answer: the text that was asked for, or why there is none.
pub type DashboardAnswer = Result<Arc<str>, String>;

/// A question that waits for its answer.
#[derive(Debug)]
pub struct WaitingQuestion {
    question: DashboardQuestion,
    reply: oneshot::Sender<DashboardAnswer>,
}

impl WaitingQuestion {
    pub(crate) fn new(
        question: DashboardQuestion,
    ) -> (WaitingQuestion, oneshot::Receiver<DashboardAnswer>) {
        let (reply, answer) = oneshot::channel();
        (WaitingQuestion { question, reply }, answer)
    }

    /// What is asked.
    pub fn question(&self) -> &DashboardQuestion {
        &self.question
    }

    /// Answers it.
    pub fn answer(self, answer: DashboardAnswer) {
        // A browser that is gone wants no answer.
        let _ = self.reply.send(answer);
    }
}

/// The owner's end.
#[derive(Debug)]
pub struct DashboardDesk {
    questions: mpsc::Receiver<WaitingQuestion>,
}

impl DashboardDesk {
    pub(crate) fn new(questions: mpsc::Receiver<WaitingQuestion>) -> DashboardDesk {
        DashboardDesk { questions }
    }

    /// The next question that waits, if there is one.
    pub fn next_question(&mut self) -> Option<WaitingQuestion> {
        self.questions.try_recv().ok()
    }
}
